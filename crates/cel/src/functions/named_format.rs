//! Formats that texts may have: `format.dns1123Label().validate(name)`.
//!
//! // upstream: apiserver pkg/cel/library/format.go

use std::sync::Arc;

use base64::Engine;

use super::outcome::{Outcome, some};
use crate::names;
use crate::time;
use crate::value::{Opaque, Value, list};

const NAMES: &[&str] = &[
    "dns1123Label",
    "dns1123Subdomain",
    "dns1035Label",
    "qualifiedName",
    "dns1123LabelPrefix",
    "dns1123SubdomainPrefix",
    "dns1035LabelPrefix",
    "labelValue",
    "uri",
    "uuid",
    "byte",
    "date",
    "datetime",
];

#[derive(Debug)]
struct NamedFormat(&'static str);

/// Functions that give formats; `None` where it is none of them.
pub(super) fn call(function: &str, values: &[Value]) -> Option<Outcome> {
    let found = |name: &str| NAMES.iter().find(|known| **known == name);
    let value = |name: &&'static str| Value::Opaque(Arc::new(NamedFormat(name)) as Arc<dyn Opaque>);
    match (function, values) {
        ("format.named", [Value::String(name)]) => {
            Some(Ok(found(name).map_or(Value::Optional(None), |name| some(value(name)))))
        }
        (_, []) => found(function.strip_prefix("format.")?).map(|name| Ok(value(name))),
        _ => None,
    }
}

/// What is wrong with the text.
fn faults(format: &str, text: &str) -> Vec<String> {
    let unless = |good: bool, message: &str| if good { Vec::new() } else { vec![message.to_owned()] };
    // A prefix of a name may end in a hyphen, which is followed by more.
    let prefix = || format!("{}a", text.strip_suffix('-').map_or(text, |_| text));
    match format {
        "dns1123Label" => names::label(text),
        "dns1123Subdomain" => names::subdomain(text),
        "dns1035Label" => names::label_1035(text),
        "qualifiedName" => names::qualified(text),
        "dns1123LabelPrefix" => names::label(&prefix()),
        "dns1123SubdomainPrefix" => names::subdomain(&prefix()),
        "dns1035LabelPrefix" => names::label_1035(&prefix()),
        "labelValue" => names::label_value(text),
        "uri" => unless(text.contains(':') || text.starts_with('/'), "invalid URI for request"),
        "uuid" => {
            let hex = text.chars().filter(char::is_ascii_hexdigit).count();
            unless(hex == 32 && matches!(text.len(), 32 | 36), "does not match the UUID format")
        }
        "byte" => {
            let good = base64::engine::general_purpose::STANDARD.decode(text).is_ok();
            unless(good, "invalid base64")
        }
        "date" => unless(text.len() == 10 && time::timestamp(text).is_some(), "invalid date"),
        _ => unless(time::timestamp(text).is_some(), "invalid datetime"),
    }
}

impl Opaque for NamedFormat {
    fn type_name(&self) -> &'static str {
        "kubernetes.NamedFormat"
    }

    fn text(&self) -> String {
        self.0.to_owned()
    }

    fn call(&self, function: &str, arguments: &[Value]) -> Option<Outcome> {
        let ("validate", [Value::String(text)]) = (function, arguments) else { return None };
        let faults = faults(self.0, text);
        Some(Ok(if faults.is_empty() {
            Value::Optional(None)
        } else {
            some(list(faults.into_iter().map(Value::from).collect()))
        }))
    }
}
