//! Bodies, and the fields that are in them twice: the last one counts, and clients may want to know.

use std::cell::RefCell;
use std::fmt;
use std::marker::PhantomData;

use crate::texts::Texts;
use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

/// Reads a body of JSON. Gives what is there twice, in the words for clients: `duplicate field "spec.replicas"`.
pub fn read(body: &[u8]) -> serde_json::Result<(Value, Vec<String>)> {
    let mut reader = serde_json::Deserializer::from_slice(body);
    let found = read_from::<String, _>(&mut reader)?;
    reader.end()?;
    Ok(found)
}

/// Reads a value, and what is there twice in the words of its keys.
pub fn read_from<'de, K: Key<'de>, D: Deserializer<'de>>(reader: D) -> Result<(Value, Vec<String>), D::Error> {
    let found = RefCell::new(Texts::default());
    let value = Place { way: &Way::Root, found: &found, keys: PhantomData::<K> }.deserialize(reader)?;
    Ok((value, found.into_inner().into_list()))
}

/// A key of a map.
pub trait Key<'de>: Deserialize<'de> {
    /// Its text.
    fn name(&self) -> &str;
    /// That it is there once more.
    fn message(&self, way: &Way<'_>) -> String;
}

impl Key<'_> for String {
    fn name(&self) -> &str {
        self
    }

    fn message(&self, way: &Way<'_>) -> String {
        format!("duplicate field \"{way}\"")
    }
}

/// The way to a value.
pub enum Way<'a> {
    Root,
    Field(&'a Way<'a>, &'a str),
    Entry(&'a Way<'a>, usize),
}

impl fmt::Display for Way<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root => Ok(()),
            Self::Field(Self::Root, name) => formatter.write_str(name),
            Self::Field(outer, name) => write!(formatter, "{outer}.{name}"),
            Self::Entry(outer, at) => write!(formatter, "{outer}[{at}]"),
        }
    }
}

struct Place<'a, K> {
    way: &'a Way<'a>,
    found: &'a RefCell<Texts>,
    keys: PhantomData<K>,
}

impl<'a, K> Place<'a, K> {
    fn below(&self, way: &'a Way<'a>) -> Place<'a, K> {
        Place { way, found: self.found, keys: PhantomData }
    }
}

impl<'de, K: Key<'de>> DeserializeSeed<'de> for Place<'_, K> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de, K: Key<'de>> Visitor<'de> for Place<'_, K> {
    type Value = Value;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("any valid JSON value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Value, A::Error> {
        let mut values = Vec::new();
        loop {
            let way = Way::Entry(self.way, values.len());
            match list.next_element_seed(self.below(&way))? {
                Some(value) => values.push(value),
                None => return Ok(Value::Array(values)),
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut values = Map::new();
        while let Some(key) = map.next_key::<K>()? {
            let way = Way::Field(self.way, key.name());
            let value = map.next_value_seed(self.below(&way))?;
            if values.insert(key.name().to_owned(), value).is_some() {
                let mut found = self.found.borrow_mut();
                if !found.is_full() {
                    found.push(key.message(&way));
                }
            }
        }
        Ok(Value::Object(values))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn the_last_of_two_counts_and_both_are_named() {
        let body = br#"{"spec":{"size":1,"size":2,"list":[{"a":1},{"b":1,"b":[]}]},"x":1.5,"y":null}"#;
        let (value, twice) = read(body).expect("JSON");
        assert_eq!(value, json!({"spec": {"size": 2, "list": [{"a": 1}, {"b": []}]}, "x": 1.5, "y": null}));
        assert_eq!(twice, ["duplicate field \"spec.size\"", "duplicate field \"spec.list[1].b\""]);
        assert!(read(b"{} x").is_err());
    }

    proptest! {
        #[test]
        fn it_reads_what_others_read(text in "[\\[\\]{}\":,a0-9.e\\-truefalsn ]{0,40}") {
            let other = serde_json::from_str::<Value>(&text);
            prop_assert_eq!(read(text.as_bytes()).ok().map(|(value, _)| value), other.ok());
        }
    }
}
