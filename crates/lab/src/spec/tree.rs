//! Types read out of a parsed file: the one way into all of them, which knows where everything stands.
//!
//! The TOML crate's own deserializer has several kinds of tables, and each type would be built once for every one of them.

use std::cell::RefCell;
use std::fmt;
use std::ops::Range;

use serde::de::value::{StrDeserializer, U64Deserializer};
use serde::de::{DeserializeSeed, Deserializer, Error as _, IntoDeserializer, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, forward_to_deserialize_any};
use toml::Spanned;
use toml::de::{DeString, DeValue};

/// What a type is called that asks where it stands. It gets a map of one entry: its [`Place`], and itself.
pub(super) const LOCATED: &str = "$klab::Located";

/// Where a value stands in its file, in bytes.
pub(super) struct Place(pub(super) Range<usize>);

impl<'de> Deserialize<'de> for Place {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Packed;
        impl Visitor<'_> for Packed {
            type Value = Place;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a place in a file")
            }
            fn visit_u64<E: serde::de::Error>(self, packed: u64) -> Result<Place, E> {
                Ok(Place((packed >> 32) as usize..(packed & u64::from(u32::MAX)) as usize))
            }
        }
        deserializer.deserialize_u64(Packed)
    }
}

/// A field that a structure does not have.
pub(super) struct UnknownField {
    pub(super) span: Range<usize>,
    pub(super) name: String,
    pub(super) structure: &'static str,
    pub(super) fields: &'static [&'static str],
}

/// A value of the file.
#[derive(Clone, Copy)]
pub(super) struct Tree<'a, 'i> {
    value: &'a Spanned<DeValue<'i>>,
    unknown: Option<&'a RefCell<Vec<UnknownField>>>,
}

impl<'a, 'i> Tree<'a, 'i> {
    pub(super) fn new(value: &'a Spanned<DeValue<'i>>) -> Self {
        Self { value, unknown: None }
    }

    /// The same, which notes fields that structures do not have.
    pub(super) fn noting(self, unknown: &'a RefCell<Vec<UnknownField>>) -> Self {
        Self { unknown: Some(unknown), ..self }
    }
}

/// Why a value is not of a type, and where.
#[derive(Debug)]
pub(super) struct TreeError {
    pub(super) message: String,
    pub(super) span: Option<Range<usize>>,
}

impl TreeError {
    fn at(self, span: impl FnOnce() -> Range<usize>) -> Self {
        Self { span: self.span.or_else(|| Some(span())), ..self }
    }
}

impl fmt::Display for TreeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for TreeError {}

impl serde::de::Error for TreeError {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self { message: message.to_string(), span: None }
    }
}

impl<'de> Deserializer<'de> for Tree<'_, '_> {
    type Error = TreeError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, TreeError> {
        let result = match self.value.get_ref() {
            DeValue::String(text) => visitor.visit_str(text),
            DeValue::Integer(number) => match i64::from_str_radix(number.as_str(), number.radix()) {
                Ok(number) => visitor.visit_i64(number),
                Err(error) => Err(TreeError::custom(error)),
            },
            DeValue::Float(number) => match number.as_str().parse() {
                Ok(number) => visitor.visit_f64(number),
                Err(error) => Err(TreeError::custom(error)),
            },
            DeValue::Boolean(value) => visitor.visit_bool(*value),
            DeValue::Datetime(value) => visitor.visit_string(value.to_string()),
            DeValue::Array(items) => visitor.visit_seq(Items { items: items.iter(), unknown: self.unknown }),
            DeValue::Table(table) => {
                let rest: Box<dyn Iterator<Item = _>> = Box::new(table.iter());
                visitor.visit_map(Entries { rest, value: None, unknown: self.unknown })
            }
        };
        result.map_err(|error| error.at(|| self.value.span()))
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, TreeError> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, TreeError> {
        if name == LOCATED {
            return visitor.visit_map(Located { place: Some(self.value.span()), value: self });
        }
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, TreeError> {
        let result = match self.value.get_ref() {
            DeValue::String(text) => StrDeserializer::new(text).deserialize_enum(name, variants, visitor),
            _ => Err(TreeError::custom(format!("expected one of {}", variants.join(", ")))),
        };
        result.map_err(|error: TreeError| error.at(|| self.value.span()))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, TreeError> {
        if let (DeValue::Table(table), Some(unknown)) = (self.value.get_ref(), self.unknown) {
            let mut unknown = unknown.borrow_mut();
            for key in table.keys().filter(|key| !fields.contains(&key.get_ref().as_ref())) {
                let (span, name_there) = (key.span(), key.get_ref().to_string());
                unknown.push(UnknownField { span, name: name_there, structure: name, fields });
            }
        }
        self.deserialize_any(visitor)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct
        seq tuple tuple_struct map identifier ignored_any
    }
}

struct Items<'a, 'i> {
    items: std::slice::Iter<'a, Spanned<DeValue<'i>>>,
    unknown: Option<&'a RefCell<Vec<UnknownField>>>,
}

impl<'de> SeqAccess<'de> for Items<'_, '_> {
    type Error = TreeError;
    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, TreeError> {
        let Some(value) = self.items.next() else { return Ok(None) };
        seed.deserialize(Tree { value, unknown: self.unknown }).map(Some)
    }
}

struct Entries<'a, 'i> {
    rest: Box<dyn Iterator<Item = (&'a Spanned<DeString<'i>>, &'a Spanned<DeValue<'i>>)> + 'a>,
    value: Option<&'a Spanned<DeValue<'i>>>,
    unknown: Option<&'a RefCell<Vec<UnknownField>>>,
}

impl<'de> MapAccess<'de> for Entries<'_, '_> {
    type Error = TreeError;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, TreeError> {
        let Some((key, value)) = self.rest.next() else { return Ok(None) };
        self.value = Some(value);
        seed.deserialize(Key(key)).map(Some).map_err(|error| error.at(|| key.span()))
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, TreeError> {
        let Some(value) = self.value.take() else {
            return Err(TreeError::custom("a value was read before its key"));
        };
        seed.deserialize(Tree { value, unknown: self.unknown })
    }
}

/// A key of a table.
struct Key<'a, 'i>(&'a Spanned<DeString<'i>>);

impl<'de> Deserializer<'de> for Key<'_, '_> {
    type Error = TreeError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, TreeError> {
        visitor.visit_str(self.0.get_ref())
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, TreeError> {
        if name == LOCATED {
            let value: StrDeserializer<'_, TreeError> = StrDeserializer::new(self.0.get_ref());
            return visitor.visit_map(Located { place: Some(self.0.span()), value });
        }
        visitor.visit_newtype_struct(self)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        seq tuple tuple_struct map struct enum identifier ignored_any
    }
}

/// A value under its place.
struct Located<D> {
    place: Option<Range<usize>>,
    value: D,
}

impl<'de, D: Deserializer<'de, Error = TreeError> + Clone> MapAccess<'de> for Located<D> {
    type Error = TreeError;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, TreeError> {
        let Some(place) = self.place.take() else { return Ok(None) };
        let packed: U64Deserializer<TreeError> = (((place.start as u64) << 32) | place.end as u64).into_deserializer();
        seed.deserialize(packed).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, TreeError> {
        seed.deserialize(self.value.clone())
    }
}
