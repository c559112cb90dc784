//! Labels of nodes that others have taken the place of.

// upstream: pkg/api/node/util.go (v1.36)

use klab_cel::names;

use super::super::Place;
use super::super::place::Texts;
use super::collected::Warnings;
use crate::views::NodeSelectorTerm;

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

/// The warning for a label.
pub(super) fn of(key: &str) -> Option<&'static str> {
    OLD.iter().find(|(old, _)| *old == key).map(|(_, text)| *text)
}

/// The labels of a selector that is a map.
pub(super) fn map(labels: Texts<'_>) -> impl Iterator<Item = (&str, &'static str)> {
    labels.iter().filter_map(|(key, _)| Some((key, of(key)?)))
}

/// Expressions about labels. Values of those that are only preferred are not refused, whatever they are.
pub(super) fn expressions(term: &Place<'_, NodeSelectorTerm<'_>>, preferred: bool, warnings: &mut Warnings) {
    for expression in term.match_expressions().each() {
        let key = expression.key();
        if let Some(old) = of(*key) {
            warnings.at(key, format_args!("{} is {old}", *key));
        }
        for value in expression.values().each().filter(|_| preferred) {
            for fault in names::label_value(*value) {
                warnings.at(value, format_args!("{} is invalid, {fault}", *value));
            }
        }
    }
}
