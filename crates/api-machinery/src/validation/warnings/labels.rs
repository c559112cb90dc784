//! Labels of nodes that others have taken the place of.

// upstream: pkg/api/node/util.go (v1.36)

use klab_cel::names;
use serde_json::Value;

use super::super::field::{entries, text};
use super::collected::Warnings;
use crate::schema::Path;

const OLD: [(&str, &str); 8] = [
    ("beta.kubernetes.io/arch", "deprecated since v1.14; use \"kubernetes.io/arch\" instead"),
    ("beta.kubernetes.io/os", "deprecated since v1.14; use \"kubernetes.io/os\" instead"),
    (
        "failure-domain.beta.kubernetes.io/region",
        "deprecated since v1.17; use \"topology.kubernetes.io/region\" instead",
    ),
    ("failure-domain.beta.kubernetes.io/zone", "deprecated since v1.17; use \"topology.kubernetes.io/zone\" instead"),
    ("beta.kubernetes.io/instance-type", "deprecated since v1.17; use \"node.kubernetes.io/instance-type\" instead"),
    ("app.kubernetes.io/created-by", "deprecated since v1.9"),
    ("scheduler.alpha.kubernetes.io/preferAvoidPods", "deprecated since v1.22; use Taints and Tolerations instead"),
    ("node-role.kubernetes.io/master", "use \"node-role.kubernetes.io/control-plane\" instead"),
];

/// What is said of a label.
pub(super) fn of(key: &str) -> Option<&'static str> {
    OLD.iter().find(|(old, _)| *old == key).map(|(_, text)| *text)
}

/// The labels of a selector that is a map.
pub(super) fn map(labels: &Value) -> impl Iterator<Item = (&str, &'static str)> {
    labels.as_object().into_iter().flatten().filter_map(|(key, _)| Some((key.as_str(), of(key)?)))
}

/// Expressions about labels. Values of those that are only preferred are not refused, whatever they are.
pub(super) fn expressions(term: &Value, preferred: bool, place: &Path<'_>, warnings: &mut Warnings) {
    let list = place.field("matchExpressions");
    for (at, expression) in entries(term, "matchExpressions") {
        let path = list.index(at);
        let key = text(expression, "key");
        if let Some(old) = of(key) {
            warnings.at(&path.field("key"), &format!("{key} is {old}"));
        }
        for (at, value) in entries(expression, "values").filter(|_| preferred) {
            let value = value.as_str().unwrap_or_default();
            for fault in names::label_value(value) {
                warnings.at(&path.field("values").index(at), &format!("{value} is invalid, {fault}"));
            }
        }
    }
}
