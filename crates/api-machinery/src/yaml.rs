//! YAML bodies, and the keys that are in a map twice: the last one counts, and clients may want to know.

// upstream: apimachinery pkg/runtime/serializer/json/json.go Decode; apiserver pkg/endpoints/handlers/patch.go applyPatcher (v1.36)

use serde_json::Value;
use serde_saphyr::{DuplicateKeyPolicy, Spanned};

use crate::duplicate_keys::{self, Key, Way};

/// Reads a body. Gives what is there twice, in the words for clients: `line 5: key "replicas" already set in map`.
pub fn read(body: &[u8]) -> Result<(Value, Vec<String>), String> {
    let error = match serde_saphyr::from_slice(body) {
        Ok(value) => return Ok((value, Vec::new())),
        Err(error) => error.to_string(),
    };
    if !error.contains("duplicate mapping key") {
        return Err(error);
    }
    let last_wins = serde_saphyr::options! { duplicate_keys: DuplicateKeyPolicy::LastWins };
    let walk = |reader: serde_saphyr::Deserializer<'_, '_>| duplicate_keys::read_from::<Spanned<String>, _>(reader);
    serde_saphyr::with_deserializer_from_slice_with_options(body, last_wins, walk).map_err(|error| error.to_string())
}

impl Key<'_> for Spanned<String> {
    fn name(&self) -> &str {
        &self.value
    }

    fn message(&self, _: &Way<'_>) -> String {
        format!("line {}: key \"{}\" already set in map", self.referenced.line(), self.value)
    }
}

/// The words for all that is there twice, as a client that wants nothing twice is refused with them.
pub fn all_at_once(twice: &[String]) -> String {
    format!("yaml: unmarshal errors:\n  {}", twice.join("\n  "))
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
