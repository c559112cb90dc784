//! YAML bodies, and the keys that are in a map twice: the last one counts, and clients may want to know.

// upstream: apimachinery pkg/runtime/serializer/json/json.go Decode; apiserver pkg/endpoints/handlers/patch.go applyPatcher (v1.36)

use std::cell::RefCell;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::Value;
use serde_saphyr::{DuplicateKeyPolicy, Options, Spanned};

/// Reads a body. Gives what is there twice, as clients are told: `line 5: key "replicas" already set in map`.
pub(super) fn read(body: &[u8]) -> Result<(Value, Vec<String>), String> {
    let error = match serde_saphyr::from_slice(body) {
        Ok(value) => return Ok((value, Vec::new())),
        Err(error) => error.to_string(),
    };
    if !error.contains("duplicate mapping key") {
        return Err(error);
    }
    let value = serde_saphyr::from_slice_with_options(body, last_wins()).map_err(|error| error.to_string())?;
    let found = RefCell::new(Vec::new());
    let walk = |reader: serde_saphyr::Deserializer<'_, '_>| Keys(&found).deserialize(reader);
    serde_saphyr::with_deserializer_from_slice_with_options(body, last_wins(), walk)
        .map_err(|error| error.to_string())?;
    Ok((value, found.into_inner()))
}

/// The words for all that is there twice, as a client that wants nothing twice is refused with them.
pub(super) fn all_at_once(twice: &[String]) -> String {
    format!("yaml: unmarshal errors:\n  {}", twice.join("\n  "))
}

fn last_wins() -> Options {
    serde_saphyr::options! { duplicate_keys: DuplicateKeyPolicy::LastWins }
}

/// Looks through a value for keys that are in a map twice.
struct Keys<'a>(&'a RefCell<Vec<String>>);

impl<'de> DeserializeSeed<'de> for Keys<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Keys<'_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("any valid YAML value")
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_i128<E>(self, _: i128) -> Result<(), E> {
        Ok(())
    }

    fn visit_u128<E>(self, _: u128) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_bytes<E>(self, _: &[u8]) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_none<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut entries: A) -> Result<(), A::Error> {
        while entries.next_element_seed(Keys(self.0))?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<(), A::Error> {
        let mut seen = std::collections::HashSet::new();
        while let Some(key) = entries.next_key::<Spanned<Value>>()? {
            let line = key.referenced.line();
            let name = key.value.as_str().map_or_else(|| key.value.to_string(), str::to_owned);
            if seen.contains(&name) {
                self.0.borrow_mut().push(format!("line {line}: key \"{name}\" already set in map"));
            }
            seen.insert(name);
            entries.next_value_seed(Keys(self.0))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn of_keys_that_are_there_twice_the_last_one_counts_and_each_is_told() {
        let body = "a: 1\nb:\n  c: v\n  c: w\nlist:\n- {d: 1, e: [1.5, true, null], d: 2}\na: 3\na: 4\n";
        let (value, twice) = read(body.as_bytes()).unwrap();
        assert_eq!(value, json!({ "a": 4, "b": { "c": "w" }, "list": [{ "d": 2, "e": [1.5, true, null] }] }));
        let lines = [(4, "c"), (6, "d"), (7, "a"), (8, "a")]
            .map(|(line, key)| format!("line {line}: key \"{key}\" already set in map"));
        assert_eq!(twice, lines);
        assert_eq!(read(b"a: 1").unwrap(), (json!({ "a": 1 }), Vec::new()));
        assert!(read(b"a: [").is_err());
        assert!(read(b"a: 1\na: [").is_err());
    }
}
