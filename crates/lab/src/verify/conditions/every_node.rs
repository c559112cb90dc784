//! Whether something is true of every node of a set: what conditions on nodes share.

use k8s_openapi::api::core::v1::Node;

use crate::verify::observation::Fact;
use crate::verify::verdict::Standing;
use crate::words::{counted, listed};

/// `what` of all nodes for which `holds`; the others are `opposite`, and may be `coming` by themselves.
pub(super) fn every_node(
    nodes: &[(&str, &Node)],
    what: &str,
    opposite: &str,
    holds: impl Fn(&Node) -> bool,
    coming: impl Fn(&Node) -> bool,
) -> Fact {
    let total = nodes.len();
    let others: Vec<(&str, &Node)> = nodes.iter().copied().filter(|(_, node)| !holds(node)).collect();
    if others.is_empty() {
        return Fact::new(Standing::Holds, format!("{total} of {total} {what}"));
    }
    let names: Vec<&str> = others.iter().map(|(name, _)| *name).collect();
    let text = counted(others.len(), "node", &format!("is {opposite}"), &format!("are {opposite}"));
    let standing =
        if others.iter().all(|(_, node)| coming(node)) { Standing::moving(text) } else { Standing::blocked(text) };
    Fact::new(standing, format!("{} of {total} {what}, not {}", total - others.len(), listed(&names)))
        .offenders(names.iter().map(|name| (*name).to_owned()))
}
