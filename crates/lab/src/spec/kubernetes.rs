//! Kubernetes structures written as TOML, read strictly: what the API server would drop in silence is reported.

use std::cell::RefCell;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Affinity, Toleration, TopologySpreadConstraint};
use serde::de::value::StrDeserializer;
use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, forward_to_deserialize_any};
use toml::Spanned;
use toml::de::DeValue;

use super::diagnostic::{Diagnostic, did_you_mean};
use super::raw::KubernetesType;
use super::source::Source;
use crate::words::quoted;

/// Everything that keeps a value from being the named Kubernetes structure.
pub(super) fn problems(value: &Spanned<DeValue<'_>>, name: &str, source: &Arc<Source>) -> Vec<Diagnostic> {
    if name == Affinity::NAME {
        read::<Affinity>(value, source)
    } else if name == TopologySpreadConstraint::NAME {
        read::<TopologySpreadConstraint>(value, source)
    } else {
        read::<Toleration>(value, source)
    }
}

fn read<T: for<'de> Deserialize<'de> + KubernetesType>(
    value: &Spanned<DeValue<'_>>,
    source: &Arc<Source>,
) -> Vec<Diagnostic> {
    let unknown = RefCell::new(Vec::new());
    let result = T::deserialize(Strict { value, unknown: &unknown });
    let mut problems: Vec<_> = unknown
        .into_inner()
        .into_iter()
        .map(|UnknownField { span, name, structure, fields }| {
            let at = source.at(span);
            let message = format!("the Kubernetes structure `{structure}` has no field `{name}`");
            let diagnostic =
                Diagnostic::error("kubernetes-field", message).at(&at, "Kubernetes does not know this field");
            match did_you_mean(&name, fields.iter().copied()) {
                Some(similar) => diagnostic.patch("did you mean", &at, similar),
                None => diagnostic.help(format!("its fields are {}", quoted(fields))),
            }
        })
        .collect();
    if let Err(error) = result {
        let span = error.span.unwrap_or_else(|| value.span());
        problems.push(
            Diagnostic::error("kubernetes-type", format!("this is not a Kubernetes `{}`", T::NAME))
                .at(&source.at(span), error.message),
        );
    }
    problems
}

struct UnknownField {
    span: Range<usize>,
    name: String,
    structure: &'static str,
    fields: &'static [&'static str],
}

/// A deserializer over the parsed file that notes fields which a structure does not have.
#[derive(Clone, Copy)]
struct Strict<'a, 'i> {
    value: &'a Spanned<DeValue<'i>>,
    unknown: &'a RefCell<Vec<UnknownField>>,
}

#[derive(Debug)]
struct StrictError {
    message: String,
    span: Option<Range<usize>>,
}

impl fmt::Display for StrictError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for StrictError {}

impl serde::de::Error for StrictError {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self { message: message.to_string(), span: None }
    }
}

impl<'de> Deserializer<'de> for Strict<'_, '_> {
    type Error = StrictError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, StrictError> {
        let result = match self.value.get_ref() {
            DeValue::String(text) => visitor.visit_str(text),
            DeValue::Integer(number) => match i64::from_str_radix(number.as_str(), number.radix()) {
                Ok(number) => visitor.visit_i64(number),
                Err(error) => Err(serde::de::Error::custom(error)),
            },
            DeValue::Float(number) => match number.as_str().parse() {
                Ok(number) => visitor.visit_f64(number),
                Err(error) => Err(serde::de::Error::custom(error)),
            },
            DeValue::Boolean(value) => visitor.visit_bool(*value),
            DeValue::Datetime(value) => visitor.visit_string(value.to_string()),
            DeValue::Array(items) => visitor.visit_seq(Items { items: items.iter(), unknown: self.unknown }),
            DeValue::Table(table) => {
                visitor.visit_map(Entries { rest: table.iter(), value: None, unknown: self.unknown })
            }
        };
        result.map_err(|error| StrictError { span: error.span.or_else(|| Some(self.value.span())), ..error })
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, StrictError> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, StrictError> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, StrictError> {
        if let DeValue::Table(table) = self.value.get_ref() {
            let mut unknown = self.unknown.borrow_mut();
            for key in table.keys().filter(|key| !fields.contains(&key.get_ref().as_ref())) {
                unknown.push(UnknownField {
                    span: key.span(),
                    name: key.get_ref().to_string(),
                    structure: name,
                    fields,
                });
            }
        }
        self.deserialize_any(visitor)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct
        seq tuple tuple_struct map enum identifier ignored_any
    }
}

struct Items<'a, 'i> {
    items: std::slice::Iter<'a, Spanned<DeValue<'i>>>,
    unknown: &'a RefCell<Vec<UnknownField>>,
}

impl<'de> SeqAccess<'de> for Items<'_, '_> {
    type Error = StrictError;
    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, StrictError> {
        let Some(value) = self.items.next() else { return Ok(None) };
        seed.deserialize(Strict { value, unknown: self.unknown }).map(Some)
    }
}

struct Entries<'a, 'i, I> {
    rest: I,
    value: Option<&'a Spanned<DeValue<'i>>>,
    unknown: &'a RefCell<Vec<UnknownField>>,
}

impl<'de, 'a, 'i: 'a, I> MapAccess<'de> for Entries<'a, 'i, I>
where
    I: Iterator<Item = (&'a Spanned<toml::de::DeString<'i>>, &'a Spanned<DeValue<'i>>)>,
{
    type Error = StrictError;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, StrictError> {
        let Some((key, value)) = self.rest.next() else { return Ok(None) };
        self.value = Some(value);
        seed.deserialize(StrDeserializer::new(key.get_ref())).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, StrictError> {
        let Some(value) = self.value.take() else {
            return Err(serde::de::Error::custom("a value was read before its key"));
        };
        seed.deserialize(Strict { value, unknown: self.unknown })
    }
}
