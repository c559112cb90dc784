//! Values as Go prints the API server's own types, which have their fields in other words and order than JSON: so the
//! refusals of changes show them.

// upstream: pkg/apis/resource/types.go (v1.36)

use serde_json::Value;

use crate::views::{
    AllocationResult, NodeSelector, NodeSelectorTerm, ResourceClaimSpec, ResourceClaimTemplateSpec, VolumeNodeAffinity,
};

/// A field of a type: its name in JSON, in Go, and what it holds.
type Row = (&'static str, &'static str, Kind);

/// What a field holds.
#[derive(Clone, Copy)]
enum Kind {
    Plain,
    /// Text that is empty where it is absent.
    Text,
    /// A number that is 0 where it is absent.
    Number,
    One(&'static [Row]),
    /// As [`Kind::One`], and there even where it is absent.
    Always(&'static [Row]),
    Many(&'static [Row]),
}

const SELECTOR: &[Row] = &[("cel", "CEL", Kind::One(&[("expression", "Expression", Kind::Text)]))];
const TOLERATION: &[Row] = &[
    ("key", "Key", Kind::Text),
    ("operator", "Operator", Kind::Text),
    ("value", "Value", Kind::Text),
    ("effect", "Effect", Kind::Text),
    ("tolerationSeconds", "TolerationSeconds", Kind::Plain),
];
const CAPACITY: &[Row] = &[("requests", "Requests", Kind::Plain)];
const EXACTLY: &[Row] = &[
    ("deviceClassName", "DeviceClassName", Kind::Text),
    ("selectors", "Selectors", Kind::Many(SELECTOR)),
    ("allocationMode", "AllocationMode", Kind::Text),
    ("count", "Count", Kind::Number),
    ("adminAccess", "AdminAccess", Kind::Plain),
    ("tolerations", "Tolerations", Kind::Many(TOLERATION)),
    ("capacity", "Capacity", Kind::One(CAPACITY)),
];
const ALTERNATIVE: &[Row] = &[
    ("name", "Name", Kind::Text),
    ("deviceClassName", "DeviceClassName", Kind::Text),
    ("selectors", "Selectors", Kind::Many(SELECTOR)),
    ("allocationMode", "AllocationMode", Kind::Text),
    ("count", "Count", Kind::Number),
    ("tolerations", "Tolerations", Kind::Many(TOLERATION)),
    ("capacity", "Capacity", Kind::One(CAPACITY)),
];
const REQUEST: &[Row] = &[
    ("name", "Name", Kind::Text),
    ("exactly", "Exactly", Kind::One(EXACTLY)),
    ("firstAvailable", "FirstAvailable", Kind::Many(ALTERNATIVE)),
];
const CONSTRAINT: &[Row] = &[
    ("requests", "Requests", Kind::Plain),
    ("matchAttribute", "MatchAttribute", Kind::Plain),
    ("distinctAttribute", "DistinctAttribute", Kind::Plain),
];
const OPAQUE: &[Row] = &[("driver", "Driver", Kind::Text), ("parameters", "Parameters", Kind::Plain)];
const CONFIG: &[Row] = &[("requests", "Requests", Kind::Plain), ("opaque", "Opaque", Kind::One(OPAQUE))];
const CLAIM: &[Row] = &[
    ("requests", "Requests", Kind::Many(REQUEST)),
    ("constraints", "Constraints", Kind::Many(CONSTRAINT)),
    ("config", "Config", Kind::Many(CONFIG)),
];
const CLAIM_SPEC: &[Row] = &[("devices", "Devices", Kind::Always(CLAIM))];
const RESULT: &[Row] = &[
    ("request", "Request", Kind::Text),
    ("driver", "Driver", Kind::Text),
    ("pool", "Pool", Kind::Text),
    ("device", "Device", Kind::Text),
    ("adminAccess", "AdminAccess", Kind::Plain),
    ("tolerations", "Tolerations", Kind::Many(TOLERATION)),
    ("bindingConditions", "BindingConditions", Kind::Plain),
    ("bindingFailureConditions", "BindingFailureConditions", Kind::Plain),
    ("shareID", "ShareID", Kind::Plain),
    ("consumedCapacity", "ConsumedCapacity", Kind::Plain),
];
const GIVEN_CONFIG: &[Row] =
    &[("source", "Source", Kind::Text), ("requests", "Requests", Kind::Plain), ("opaque", "Opaque", Kind::One(OPAQUE))];
const REQUIREMENT: &[Row] =
    &[("key", "Key", Kind::Text), ("operator", "Operator", Kind::Text), ("values", "Values", Kind::Plain)];
const TERM: &[Row] = &[
    ("matchExpressions", "MatchExpressions", Kind::Many(REQUIREMENT)),
    ("matchFields", "MatchFields", Kind::Many(REQUIREMENT)),
];
const NODE_SELECTOR: &[Row] = &[("nodeSelectorTerms", "NodeSelectorTerms", Kind::Many(TERM))];
const ALLOCATION: &[Row] = &[
    (
        "devices",
        "Devices",
        Kind::Always(&[("results", "Results", Kind::Many(RESULT)), ("config", "Config", Kind::Many(GIVEN_CONFIG))]),
    ),
    ("nodeSelector", "NodeSelector", Kind::One(NODE_SELECTOR)),
    ("allocationTimestamp", "AllocationTimestamp", Kind::Plain),
];

/// The spec of a claim.
pub(super) fn claim_spec(spec: ResourceClaimSpec<'_>) -> String {
    text(spec.0, CLAIM_SPEC)
}

/// The spec of a template: the metadata's fields, then the claim's spec.
pub(super) fn template_spec(spec: ResourceClaimTemplateSpec<'_>) -> String {
    let mut all = String::from("{");
    for (field, value) in spec.metadata().0.as_object().into_iter().flatten() {
        all.push_str(&format!("\"{field}\":{},", plain(value)));
    }
    all.push_str(&format!("\"Spec\":{}}}", claim_spec(spec.spec())));
    all
}

/// What a claim was given.
pub(super) fn allocation(allocation: AllocationResult<'_>) -> String {
    text(allocation.0, ALLOCATION)
}

/// The nodes that a volume can be reached from.
pub fn volume_affinity(affinity: VolumeNodeAffinity<'_>) -> String {
    if !affinity.is_set() {
        return "null".to_owned();
    }
    text(affinity.0, &[("required", "Required", Kind::One(NODE_SELECTOR))])
}

/// One term of a node selector.
pub fn node_selector_term(term: NodeSelectorTerm<'_>) -> String {
    text(term.0, TERM)
}

/// The terms of a node selector.
pub fn node_selector_terms(selector: NodeSelector<'_>) -> String {
    let terms: Vec<String> = selector.node_selector_terms().map(node_selector_term).collect();
    if terms.is_empty() { "null".to_owned() } else { format!("[{}]", terms.join(",")) }
}

/// Go writes these three as escapes.
fn plain(value: &Value) -> String {
    value.to_string().replace('&', "\\u0026").replace('<', "\\u003c").replace('>', "\\u003e")
}

fn text(value: &Value, rows: &[Row]) -> String {
    let fields: Vec<String> = rows
        .iter()
        .map(|(field, name, kind)| {
            let value = &value[*field];
            let shown = match (kind, value) {
                (Kind::Text, Value::Null) => "\"\"".to_owned(),
                (Kind::Number, Value::Null) => "0".to_owned(),
                (Kind::Always(rows), _) => text(value, rows),
                (_, Value::Null) => "null".to_owned(),
                (Kind::One(rows), _) => text(value, rows),
                (Kind::Many(rows), Value::Array(list)) => {
                    let list: Vec<String> = list.iter().map(|one| text(one, rows)).collect();
                    format!("[{}]", list.join(","))
                }
                _ => plain(value),
            };
            format!("\"{name}\":{shown}")
        })
        .collect();
    format!("{{{}}}", fields.join(","))
}
