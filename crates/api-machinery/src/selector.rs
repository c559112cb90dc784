//! Label and field selectors as query parameters, read and answered as an API server does.

use std::borrow::Cow;

use crate::custom::{self, Definition};
use crate::object::Object;
use crate::registry::{self, Field};
use crate::resource::{PODS, ResourceId};
use crate::status::Status;
use klab_scheduler::selector::{Selector as LabelSelector, SelectorError};
use serde::Deserialize;
use serde_json::Value;

use crate::go_text::quoted;

/// Label and field selector together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selector {
    labels: LabelSelector,
    fields: Vec<FieldTerm>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct FieldTerm {
    field: Field,
    /// The field of a custom resource, which its definition names.
    path: Option<String>,
    equal: bool,
    value: String,
}

/// One requirement as it is written.
struct Written {
    label: String,
    equal: bool,
    value: String,
}

const METADATA_NAME: Field = Field::at("metadata.name");
const METADATA_NAMESPACE: Field = Field::at("metadata.namespace");

/// The one name that objects must have by a field selector, if it is one that can be part of a path.
pub fn exact_name(fields: &str) -> Option<String> {
    let terms = parse_fields(fields).ok()?;
    let name = terms.into_iter().find(|term| term.equal && term.label == METADATA_NAME.label)?.value;
    (!matches!(name.as_str(), "." | "..") && !name.contains(['/', '%'])).then_some(name)
}

/// Reads a label selector; the error is the server's sentence.
fn parse_labels(text: &str) -> Result<LabelSelector, String> {
    text.parse().map_err(|SelectorError(message)| message)
}

impl Selector {
    /// Reads both selectors of a request for `resource`.
    pub fn parse(resource: ResourceId, labels: Option<&str>, fields: Option<&str>) -> Result<Self, Status> {
        let labels = parse_labels(labels.unwrap_or_default()).map_err(Status::bad_request)?;
        let fields = parse_fields(fields.unwrap_or_default()).map_err(Status::bad_request)?;
        let fields = fields.into_iter().map(|Written { label, equal, value }| {
            Ok(FieldTerm { field: field(resource, &label)?, path: None, equal, value })
        });
        Ok(Self { labels, fields: fields.collect::<Result<_, Status>>()? })
    }

    /// The same for a custom resource, whose definition says which fields may be named.
    ///
    /// // upstream: apiextensions-apiserver pkg/crdserverscheme, pkg/registry/customresource/strategy.go GetAttrs
    pub fn parse_custom(
        definition: &Definition,
        resource: ResourceId,
        labels: Option<&str>,
        fields: Option<&str>,
    ) -> Result<Self, Status> {
        let labels = parse_labels(labels.unwrap_or_default()).map_err(Status::bad_request)?;
        let written = parse_fields(fields.unwrap_or_default()).map_err(Status::bad_request)?;
        let version = definition.version(resource);
        let mut fields = Vec::new();
        for Written { label, equal, value } in written {
            let path = match label.as_str() {
                "metadata.name" | "metadata.namespace" => None,
                path if version.is_some_and(|version| custom::selectable(version).any(|known| known == path)) => {
                    Some(label.clone())
                }
                _ => {
                    return Err(Status::bad_request(format!("field label not supported: {label}")));
                }
            };
            let field = if label == METADATA_NAMESPACE.label { METADATA_NAMESPACE } else { METADATA_NAME };
            fields.push(FieldTerm { field, path, equal, value });
        }
        Ok(Self { labels, fields })
    }

    /// Only objects of that name.
    pub fn and_name(mut self, name: &str) -> Self {
        self.fields.push(FieldTerm { field: METADATA_NAME, path: None, equal: true, value: name.to_owned() });
        self
    }

    /// Whether everything matches.
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty()
    }

    /// Whether it asks for names and namespaces alone, which are the same in all versions of an object.
    pub fn is_of_names(&self) -> bool {
        self.labels.is_empty()
            && self
                .fields
                .iter()
                .all(|term| term.path.is_none() && matches!(term.field, METADATA_NAME | METADATA_NAMESPACE))
    }

    /// The one name that can match, if the selector says so.
    pub fn name(&self) -> Option<&str> {
        self.fields
            .iter()
            .find(|term| term.equal && term.path.is_none() && term.field == METADATA_NAME)
            .map(|term| term.value.as_str())
    }

    pub fn matches(&self, object: &Object) -> bool {
        self.labels.matches_by(|key| object.label(key)) && self.fields_match(object)
    }

    fn fields_match(&self, object: &Object) -> bool {
        let mut read = None;
        let mut whole = None;
        self.fields.iter().all(|term| {
            if let Some(path) = &term.path {
                let value = whole.get_or_insert_with(|| object.value());
                return (custom::field_text(value, path) == term.value) == term.equal;
            }
            let found: Cow<'_, str> = match term.field {
                METADATA_NAME => Cow::Borrowed(&object.name),
                METADATA_NAMESPACE => Cow::Borrowed(&object.namespace),
                field => read.get_or_insert_with(|| Fields::of(object)).value(field),
            };
            (found == term.value) == term.equal
        })
    }
}

fn parse_fields(text: &str) -> Result<Vec<Written>, String> {
    let mut terms = Vec::new();
    for part in split_unescaped(text) {
        if part.is_empty() {
            continue;
        }
        let at = part
            .char_indices()
            .scan(false, |escaped, (at, character)| {
                let found = (!*escaped && (character == '=' || part[at..].starts_with("!="))).then_some(at);
                *escaped = !*escaped && character == '\\';
                Some(found)
            })
            .flatten()
            .next();
        let Some(at) = at else {
            return Err(format!("invalid selector: '{text}'; can't understand '{part}'"));
        };
        let (label, rest) = part.split_at(at);
        let (equal, value) = if let Some(value) = rest.strip_prefix("!=") {
            (false, value)
        } else if let Some(value) = rest.strip_prefix("==") {
            (true, value)
        } else {
            (true, &rest[1..])
        };
        terms.push(Written { label: label.to_owned(), equal, value: unescape(value)? });
    }
    Ok(terms)
}

fn split_unescaped(text: &str) -> Vec<&str> {
    let (mut parts, mut start, mut escaped) = (Vec::new(), 0, false);
    for (at, character) in text.char_indices() {
        if character == ',' && !escaped {
            parts.push(&text[start..at]);
            start = at + 1;
        }
        escaped = !escaped && character == '\\';
    }
    parts.push(&text[start..]);
    parts
}

fn unescape(text: &str) -> Result<String, String> {
    let mut out = String::with_capacity(text.len());
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' => match characters.next() {
                Some(escaped @ ('\\' | ',' | '=')) => out.push(escaped),
                other => {
                    let sequence = other.map_or_else(String::new, String::from);
                    return Err(format!("invalid field selector: invalid escape sequence: \\{sequence}"));
                }
            },
            '=' => return Err(format!("invalid field selector: unescaped character in value: {text}")),
            other => out.push(other),
        }
    }
    Ok(out)
}

/// The field that selectors on objects of a kind call so.
fn field(resource: ResourceId, label: &str) -> Result<Field, Status> {
    let known = registry::of(resource).fields;
    let of_metadata = [METADATA_NAME, METADATA_NAMESPACE];
    if let Some(found) = of_metadata.iter().chain(known).find(|field| field.label == label) {
        return Ok(*found);
    }
    Err(Status::bad_request(if known.is_empty() {
        format!("{} is not a known field selector: only \"metadata.name\", \"metadata.namespace\"", quoted(label))
    } else {
        format!("field label not supported: {label}")
    }))
}

/// The fields selectors ask for, read from an object's JSON without building a tree for pods, of which there are many.
enum Fields<'a> {
    Pod(Box<PodFields<'a>>),
    Other(Value),
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct PodFields<'a> {
    #[serde(borrow)]
    spec: PodSpecFields<'a>,
    #[serde(borrow)]
    status: PodStatus<'a>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct PodSpecFields<'a> {
    #[serde(borrow)]
    node_name: Option<Cow<'a, str>>,
    #[serde(borrow)]
    restart_policy: Option<Cow<'a, str>>,
    #[serde(borrow)]
    scheduler_name: Option<Cow<'a, str>>,
    #[serde(borrow)]
    service_account_name: Option<Cow<'a, str>>,
    host_network: bool,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct PodStatus<'a> {
    #[serde(borrow)]
    phase: Option<Cow<'a, str>>,
    #[serde(borrow, rename = "podIP")]
    pod_ip: Option<Cow<'a, str>>,
    #[serde(borrow)]
    nominated_node_name: Option<Cow<'a, str>>,
}

impl<'a> Fields<'a> {
    fn of(object: &'a Object) -> Self {
        if object.resource == PODS {
            Self::Pod(serde_json::from_slice(&object.json).unwrap_or_default())
        } else {
            Self::Other(object.to_value())
        }
    }

    fn value(&self, field: Field) -> Cow<'_, str> {
        let value = match self {
            Self::Pod(pod) => {
                let found = match field.path {
                    "spec.nodeName" => &pod.spec.node_name,
                    "spec.restartPolicy" => &pod.spec.restart_policy,
                    "spec.schedulerName" => &pod.spec.scheduler_name,
                    "spec.serviceAccountName" => &pod.spec.service_account_name,
                    "spec.hostNetwork" => {
                        return Cow::Borrowed(if pod.spec.host_network { "true" } else { "false" });
                    }
                    "status.phase" => &pod.status.phase,
                    "status.nominatedNodeName" => &pod.status.nominated_node_name,
                    _ => &pod.status.pod_ip,
                };
                return Cow::Borrowed(found.as_deref().unwrap_or(field.absent));
            }
            Self::Other(value) => value,
        };
        let at = |path: &str| path.split('.').fold(value, |value, part| &value[part]);
        let found = match (at(field.path), field.otherwise) {
            (Value::Null, Some(path)) => at(path),
            (Value::String(text), Some(path)) if text.is_empty() => at(path),
            (found, _) => found,
        };
        match found {
            Value::String(text) => Cow::Borrowed(text),
            Value::Null => Cow::Borrowed(field.absent),
            other => Cow::Owned(other.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::resource::{DEPLOYMENTS, EVENTS, NODES};

    fn pod(labels: &Value) -> Object {
        Object::new(
            PODS,
            1,
            &json!({
                "metadata": {"name": "a", "namespace": "default", "labels": labels},
                "spec": {"nodeName": "n1"}, "status": {"phase": "Running"},
            }),
        )
    }

    fn matches(labels: &str, fields: &str, object: &Object) -> bool {
        Selector::parse(object.resource, Some(labels), Some(fields)).unwrap().matches(object)
    }

    #[test]
    fn label_selectors() {
        let object = pod(&json!({"app": "web", "tier": "", "size": "5"}));
        for yes in [
            "",
            "app=web",
            "app==web",
            "app in (web, db)",
            "app notin (db)",
            "app",
            "!gpu",
            "tier=",
            "app!=db,size>4",
            "size<6",
            "in=x,!app",
            "gpu!=x",
        ] {
            let expected = yes != "in=x,!app";
            assert_eq!(matches(yes, "", &object), expected, "{yes}");
        }
        for no in ["app=db", "app in (db)", "!app", "gpu", "app notin (web)", "size>5", "gpu=x"] {
            assert!(!matches(no, "", &object), "{no}");
        }
    }

    #[test]
    fn broken_label_selectors_are_described() {
        for (text, error) in [
            ("a===", "unable to parse requirement: found '=', expected: identifier"),
            ("a=b=c", "found '=', expected: ',' or 'end of string'"),
            ("a in", "unable to parse requirement: found '' expected: '('"),
            ("a,", "found '', expected: identifier after ','"),
            ("=a", "found '=', expected: !, identifier, or 'end of string'"),
            ("!app=web", "found '=', expected: ',' or 'end of string'"),
            (
                "size>x",
                "unable to parse requirement: values[0]: Invalid value: \"x\": for 'Gt', 'Lt' operators, the value must be an integer",
            ),
            (
                "a in ()",
                "unable to parse requirement: values: Invalid value: []: for 'in', 'notin' operators, values set can't be empty",
            ),
        ] {
            assert_eq!(parse_labels(text).unwrap_err(), error, "{text}");
        }
    }

    #[test]
    fn field_selectors() {
        let object = pod(&json!({}));
        assert!(matches("", "spec.nodeName=n1,status.phase!=Succeeded,status.phase!=Failed", &object));
        assert!(matches("", "metadata.name=a,metadata.namespace==default,spec.hostNetwork=false", &object));
        assert!(!matches("", "status.phase!=Running", &object));
        let node = Object::new(NODES, 1, &json!({"metadata": {"name": "n"}, "spec": {}}));
        assert!(matches("", "spec.unschedulable=false", &node));
        // Events of the newer API say who reports in another field.
        for named in [json!({"source": {"component": "me"}}), json!({"source": {}, "reportingComponent": "me"})] {
            let event = Object::new(EVENTS, 1, &named);
            assert!(matches("", "source=me", &event) && !matches("", "source=other", &event), "{named}");
        }
        assert_eq!(Selector::parse(PODS, None, Some("nope=1")).unwrap_err().message, "field label not supported: nope");
        assert_eq!(
            Selector::parse(DEPLOYMENTS, None, Some("nope=1")).unwrap_err().message,
            "\"nope\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\""
        );
    }

    proptest! {
        #[test]
        fn selectors_never_panic(labels in ".{0,40}", fields in "[a-z.=!,\\\\ é]{0,40}") {
            let _ = Selector::parse(PODS, Some(&labels), Some(&fields)).map(|selector| selector.matches(&pod(&json!({}))));
        }
    }
}
