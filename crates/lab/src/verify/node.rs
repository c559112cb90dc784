//! Conditions on nodes.

use k8s_openapi::api::core::v1::{Node, Taint};

use super::condition::{counted, finding, mismatch};
use super::fact::Fact;
use super::verdict::{Finding, Standing};
use super::view::View;
use crate::plan::taint_text;
use crate::spec::{Condition, Count, Located, NodeSet};
use crate::words::listed;

/// One condition on a set of nodes.
pub(crate) fn evaluate(view: &View<'_>, set: &NodeSet, condition: &Located<Condition>) -> Finding {
    let nodes: Vec<(&str, &Node)> = view.nodes_in(set).collect();
    let fact = match &condition.value {
        Condition::Exist(count) => exist(&nodes, *count),
        _ if nodes.is_empty() => return missing(view, set, condition),
        Condition::Ready(true) => all(&nodes, "ready", "not ready", is_ready, is_coming),
        Condition::Ready(false) => all(&nodes, "not ready", "still ready", |node| !is_ready(node), |_| false),
        Condition::Schedulable(true) => all(&nodes, "schedulable", "cordoned", |node| !is_cordoned(node), |_| false),
        Condition::Schedulable(false) => all(&nodes, "cordoned", "not cordoned", is_cordoned, |_| false),
        Condition::Tainted(taint) => {
            let text = taint_text(taint);
            let (with, without) = (format!("tainted {text}"), format!("without the taint {text}"));
            all(&nodes, &with, &without, |node| has_taint(node, taint), |_| false)
        }
        Condition::Cel(_) => mismatch("objects"),
        _ => mismatch("pods"),
    };
    finding(condition, fact)
}

fn missing(view: &View<'_>, set: &NodeSet, condition: &Located<Condition>) -> Finding {
    let near = match set {
        NodeSet::Node(name) => nearest(name, view.nodes.keys().copied()).map(|near| format!("; there is {near}")),
        NodeSet::Pool(_) | NodeSet::Selector(_) => {
            let names: Vec<&str> = view.nodes.keys().copied().collect();
            (!names.is_empty()).then(|| format!("; there are {}", listed(&names)))
        }
    };
    let text = format!("no node is in {set}{}", near.unwrap_or_default());
    Finding { code: "no-nodes", ..finding(condition, Fact::new(Standing::Blocked(text.clone()), text)) }
}

/// The name most like one that is not there.
pub(crate) fn nearest<'n>(name: &str, names: impl Iterator<Item = &'n str>) -> Option<&'n str> {
    names
        .map(|candidate| (strsim::jaro_winkler(name, candidate), candidate))
        .filter(|(likeness, _)| *likeness > 0.7)
        .max_by(|one, two| one.0.total_cmp(&two.0).then(two.1.cmp(one.1)))
        .map(|(_, candidate)| candidate)
}

fn exist(nodes: &[(&str, &Node)], count: Count) -> Fact {
    let now = u32::try_from(nodes.len()).unwrap_or(u32::MAX);
    let noun = if now == 1 { "node" } else { "nodes" };
    if count.contains(now) {
        return Fact::new(Standing::Holds, format!("{now} {noun}"));
    }
    let going = nodes.iter().filter(|(_, node)| node.metadata.deletion_timestamp.is_some()).count();
    let text = format!("{now} {noun}, wanted {count}");
    let standing =
        if now > count.min && going > 0 { Standing::moving("nodes are going") } else { Standing::blocked(&*text) };
    Fact::new(standing, text)
}

fn all(
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

fn ready_condition(node: &Node) -> Option<(&str, &str)> {
    let conditions = node.status.as_ref()?.conditions.as_ref()?;
    let ready = conditions.iter().find(|condition| condition.type_ == "Ready")?;
    Some((ready.status.as_str(), ready.reason.as_deref().unwrap_or_default()))
}

/// Whether the node's Ready condition is true.
pub fn is_ready(node: &Node) -> bool {
    ready_condition(node).is_some_and(|(status, _)| status == "True")
}

/// Whether the node is new and about to be ready: no condition yet, a kubelet that says it is not ready, or a cloud
/// provider that has not finished. A node whose kubelet fell silent (`Unknown`) is not coming.
pub(crate) fn is_coming(node: &Node) -> bool {
    let uninitialized = taints(node).iter().any(|taint| taint.key == "node.cloudprovider.kubernetes.io/uninitialized");
    uninitialized || matches!(ready_condition(node), None | Some(("False", _)))
}

fn is_cordoned(node: &Node) -> bool {
    node.spec.as_ref().and_then(|spec| spec.unschedulable).unwrap_or(false)
}

fn taints(node: &Node) -> &[Taint] {
    node.spec.as_ref().and_then(|spec| spec.taints.as_deref()).unwrap_or_default()
}

fn has_taint(node: &Node, wanted: &Taint) -> bool {
    let value = |taint: &Taint| taint.value.clone().unwrap_or_default();
    taints(node)
        .iter()
        .any(|taint| taint.key == wanted.key && value(taint) == value(wanted) && taint.effect == wanted.effect)
}
