//! Building blocks of the raw layer: values with spans, tables in file order, and values that may be written in two ways.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, Range};

use k8s_openapi::api::core::v1::{Affinity, Toleration, TopologySpreadConstraint};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, Error, MapAccess, SeqAccess, Visitor};

use super::super::tree::{LOCATED, Place};
use klab_scheduler::typed::Typed;

/// A value and its byte span.
#[derive(Clone, Debug)]
pub(in crate::spec) struct At<T> {
    span: Range<usize>,
    value: T,
}

impl<T> At<T> {
    pub(in crate::spec) fn span(&self) -> Range<usize> {
        self.span.clone()
    }

    pub(in crate::spec) fn get(&self) -> &T {
        &self.value
    }
}

impl<T> Deref for At<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.value
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for At<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entry<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for Entry<T> {
            type Value = At<T>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a value of a lab file")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<At<T>, A::Error> {
                let Some(Place(span)) = map.next_key()? else { return Err(Error::custom("a value has no place")) };
                Ok(At { span, value: map.next_value()? })
            }
        }
        deserializer.deserialize_newtype_struct(LOCATED, Entry(PhantomData))
    }
}

impl<T: JsonSchema> JsonSchema for At<T> {
    fn inline_schema() -> bool {
        T::inline_schema()
    }
    fn schema_name() -> Cow<'static, str> {
        T::schema_name()
    }
    fn schema_id() -> Cow<'static, str> {
        T::schema_id()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        T::json_schema(generator)
    }
}

/// A table with keys of the author's choosing, in file order.
#[derive(Debug)]
pub(in crate::spec) struct Table<T>(Vec<(At<String>, T)>);

impl<T> Table<T> {
    pub(in crate::spec) fn iter(&self) -> std::slice::Iter<'_, (At<String>, T)> {
        self.0.iter()
    }

    pub(in crate::spec) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<T> Default for Table<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Table<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entries<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for Entries<T> {
            type Value = Vec<(At<String>, T)>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a table")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut entries = Vec::new();
                while let Some(key) = map.next_key::<At<String>>()? {
                    entries.push((key, map.next_value()?));
                }
                Ok(entries)
            }
        }
        let mut entries = deserializer.deserialize_map(Entries(PhantomData))?;
        entries.sort_by_key(|(key, _)| key.span().start);
        Ok(Self(entries))
    }
}

impl<T: JsonSchema> JsonSchema for Table<T> {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> Cow<'static, str> {
        format!("Table_of_{}", T::schema_name()).into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let entry = generator.subschema_for::<T>();
        json_schema!({ "type": "object", "additionalProperties": entry })
    }
}

/// A number, or a range such as "1..3", "2.." and "..4".
#[derive(Clone, Debug)]
pub(in crate::spec) enum CountText {
    Number(i64),
    Text(String),
}

impl<'de> Deserialize<'de> for CountText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;
        impl Visitor<'_> for Either {
            type Value = CountText;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number or a range such as \"1..3\"")
            }
            fn visit_i64<E: Error>(self, number: i64) -> Result<CountText, E> {
                Ok(CountText::Number(number))
            }
            fn visit_str<E: Error>(self, text: &str) -> Result<CountText, E> {
                Ok(CountText::Text(text.to_owned()))
            }
        }
        deserializer.deserialize_any(Either)
    }
}

impl JsonSchema for CountText {
    fn schema_name() -> Cow<'static, str> {
        "Count".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "A number, or a range such as \"1..3\" (both included), \"2..\" and \"..4\".",
            "anyOf": [{ "type": "integer", "minimum": 0 }, { "type": "string" }]
        })
    }
}

/// Availability zones: their numbers, or "auto".
#[derive(Debug)]
pub(in crate::spec) enum ZonesText {
    Numbers(Vec<At<u8>>),
    Word(String),
}

impl<'de> Deserialize<'de> for ZonesText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;
        impl<'de> Visitor<'de> for Either {
            type Value = ZonesText;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of zones, or \"auto\"")
            }
            fn visit_str<E: Error>(self, text: &str) -> Result<ZonesText, E> {
                Ok(ZonesText::Word(text.to_owned()))
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<ZonesText, A::Error> {
                let mut zones = Vec::new();
                while let Some(zone) = list.next_element()? {
                    zones.push(zone);
                }
                Ok(ZonesText::Numbers(zones))
            }
        }
        deserializer.deserialize_any(Either)
    }
}

impl JsonSchema for ZonesText {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> Cow<'static, str> {
        "Zones".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "anyOf": [
            { "type": "array", "items": { "type": "integer" } }, { "const": "auto" },
        ] })
    }
}

/// Nodes by text, or a number of nodes.
#[derive(Clone, Debug)]
pub(in crate::spec) enum NodesText {
    Number(i64),
    Text(String),
}

impl<'de> Deserialize<'de> for NodesText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        CountText::deserialize(deserializer).map(|either| match either {
            CountText::Number(number) => Self::Number(number),
            CountText::Text(text) => Self::Text(text),
        })
    }
}

impl JsonSchema for NodesText {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> Cow<'static, str> {
        "Nodes".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "anyOf": [{ "type": "string" }, { "type": "integer", "minimum": 0, "maximum": 1000 }] })
    }
}

/// A Kubernetes quantity: text such as "500m" and "1Gi", or a plain number.
#[derive(Clone, Debug)]
pub(in crate::spec) struct QuantityText(pub String);

impl<'de> Deserialize<'de> for QuantityText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;
        impl Visitor<'_> for Either {
            type Value = QuantityText;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a quantity such as \"500m\", \"1Gi\" or 2")
            }
            fn visit_i64<E: Error>(self, number: i64) -> Result<QuantityText, E> {
                Ok(QuantityText(number.to_string()))
            }
            fn visit_f64<E: Error>(self, number: f64) -> Result<QuantityText, E> {
                Ok(QuantityText(number.to_string()))
            }
            fn visit_str<E: Error>(self, text: &str) -> Result<QuantityText, E> {
                Ok(QuantityText(text.to_owned()))
            }
        }
        deserializer.deserialize_any(Either)
    }
}

impl JsonSchema for QuantityText {
    fn schema_name() -> Cow<'static, str> {
        "Quantity".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "A Kubernetes quantity, such as \"500m\" of CPU, \"1Gi\" of memory, or a plain number.",
            "anyOf": [{ "type": "string" }, { "type": "number" }]
        })
    }
}

/// A setting of the autoscaler: text, a number, or true and false.
#[derive(Clone, Debug)]
pub(in crate::spec) struct SettingText(pub String);

impl<'de> Deserialize<'de> for SettingText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;
        impl Visitor<'_> for Either {
            type Value = SettingText;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("text, a number, true or false")
            }
            fn visit_bool<E: Error>(self, switch: bool) -> Result<SettingText, E> {
                Ok(SettingText(switch.to_string()))
            }
            fn visit_i64<E: Error>(self, number: i64) -> Result<SettingText, E> {
                Ok(SettingText(number.to_string()))
            }
            fn visit_f64<E: Error>(self, number: f64) -> Result<SettingText, E> {
                Ok(SettingText(number.to_string()))
            }
            fn visit_str<E: Error>(self, text: &str) -> Result<SettingText, E> {
                Ok(SettingText(text.to_owned()))
            }
        }
        deserializer.deserialize_any(Either)
    }
}

impl JsonSchema for SettingText {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> Cow<'static, str> {
        "Setting".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "anyOf": [{ "type": "string" }, { "type": "number" }, { "type": "boolean" }] })
    }
}

/// A port of a container: a number, or a table that says more.
#[derive(Clone, Debug)]
pub(in crate::spec) enum PortText {
    Number(i64),
    Table(PortTable),
}

/// A port of a container.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Port")]
pub(in crate::spec) struct PortTable {
    /// Port inside the pod.
    pub container: u16,
    /// Port of the node that leads there; no two pods with the same one fit on a node.
    pub host: Option<u16>,
    /// TCP, UDP or SCTP. Default: TCP.
    pub protocol: Option<String>,
    /// Name of the port.
    pub name: Option<String>,
}

impl<'de> Deserialize<'de> for PortText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;
        impl<'de> Visitor<'de> for Either {
            type Value = PortText;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a port number or a table")
            }
            fn visit_i64<E: Error>(self, number: i64) -> Result<PortText, E> {
                Ok(PortText::Number(number))
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<PortText, A::Error> {
                PortTable::deserialize(MapAccessDeserializer::new(map)).map(PortText::Table)
            }
        }
        deserializer.deserialize_any(Either)
    }
}

impl JsonSchema for PortText {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> Cow<'static, str> {
        "PortOrNumber".into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let table = generator.subschema_for::<PortTable>();
        json_schema!({ "anyOf": [{ "type": "integer", "minimum": 1, "maximum": 65535 }, table] })
    }
}

/// A toleration as kubectl writes taints ("key=value:Effect"), or the Kubernetes structure.
#[derive(Clone, Debug)]
pub(in crate::spec) enum TolerationText {
    Text(String),
    Table(Box<Toleration>),
}

impl<'de> Deserialize<'de> for TolerationText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;
        impl<'de> Visitor<'de> for Either {
            type Value = TolerationText;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("\"key=value:Effect\" or a Kubernetes toleration")
            }
            fn visit_str<E: Error>(self, text: &str) -> Result<TolerationText, E> {
                Ok(TolerationText::Text(text.to_owned()))
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<TolerationText, A::Error> {
                let table = KubernetesObject::deserialize(MapAccessDeserializer::new(map))?;
                Ok(TolerationText::Table(Box::new(table.0)))
            }
        }
        deserializer.deserialize_any(Either)
    }
}

impl JsonSchema for TolerationText {
    fn schema_name() -> Cow<'static, str> {
        "Toleration".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "A toleration: \"key=value:Effect\", \"key:Effect\" (any value), \"key\" (any value and effect), or the Kubernetes structure as a table.",
            "anyOf": [{ "type": "string" }, { "type": "object", "x-kubernetes": Toleration::NAME }]
        })
    }
}

/// Kubernetes structures that a lab file may contain as TOML.
pub(in crate::spec) trait KubernetesType {
    /// Name in the Kubernetes API reference.
    const NAME: &'static str;
}

impl KubernetesType for Affinity {
    const NAME: &'static str = "Affinity";
}
impl KubernetesType for TopologySpreadConstraint {
    const NAME: &'static str = "TopologySpreadConstraint";
}
impl KubernetesType for Toleration {
    const NAME: &'static str = "Toleration";
}

/// A Kubernetes structure as TOML, with the field names of the Kubernetes API.
#[derive(Clone, Debug)]
pub(in crate::spec) struct KubernetesObject<T>(pub T);

impl<'de, T: Typed> Deserialize<'de> for KubernetesObject<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = serde_json::Value::deserialize(deserializer)?;
        T::from_value(&value).map(Self).map_err(Error::custom)
    }
}

impl<T: KubernetesType> JsonSchema for KubernetesObject<T> {
    fn schema_name() -> Cow<'static, str> {
        format!("Kubernetes{}", T::NAME).into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": format!("The Kubernetes structure `{}` as TOML, with its field names.", T::NAME),
            "type": "object",
            "x-kubernetes": T::NAME
        })
    }
}

/// Any TOML value.
#[derive(Debug)]
pub(in crate::spec) struct Anything;

impl<'de> Deserialize<'de> for Anything {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        serde::de::IgnoredAny::deserialize(deserializer).map(|_| Self)
    }
}

impl JsonSchema for Anything {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> Cow<'static, str> {
        "Anything".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        true.into()
    }
}
