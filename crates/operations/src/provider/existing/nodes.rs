//! Pure: whether the nodes of somebody else's cluster are what a lab asks of its pools.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt;

use crate::error::{Code, Error};
use klab_lab::membership::labelled_pool;
use klab_lab::plan::{is_system_taint, taint_text};
use klab_lab::spec::{Lab, Pool};
use klab_lab::words::{first_of, plural};
use klab_scheduler::quantity::Quantity;

/// Most names in a sentence.
const NAMES: usize = 5;

/// What keeps the lab from being made there; each with the command of the cluster's owner that mends it.
pub(super) fn problems(lab: &Lab, nodes: &[Node]) -> Vec<Error> {
    let pools = || lab.pools.iter().filter(|pool| !pool.deferred);
    let of_one = pools().flat_map(|pool| pool_problems(pool, &members(pool, nodes), nodes));
    of_one.chain(nodes.iter().filter_map(|node| in_two(lab, node))).collect()
}

/// What differs and may do no harm.
pub(super) fn caveats(lab: &Lab, nodes: &[Node]) -> Vec<String> {
    let pools = lab.pools.iter().filter(|pool| !pool.deferred);
    let mut words: Vec<String> = pools.flat_map(|pool| pool_caveats(pool, &members(pool, nodes))).collect();
    if let Some(wanted) = &lab.kubernetes {
        let prefix = format!("v{}", wanted.value);
        let versions: BTreeSet<&str> = nodes.iter().filter_map(version).collect();
        if !versions.iter().any(|version| version.starts_with(&prefix)) {
            let found = versions.into_iter().collect::<Vec<_>>();
            words.push(format!(
                "the lab file asks for Kubernetes {}, the nodes have {}",
                wanted.value,
                first_of(&found, NAMES)
            ));
        }
    }
    if !lab.addons.is_empty() {
        words.push(
            "add-ons are those that the cluster has: klab installs none on a cluster that it did not make".to_owned(),
        );
    }
    words
}

fn members<'n>(pool: &Pool, nodes: &'n [Node]) -> Vec<&'n Node> {
    nodes.iter().filter(|node| pool.selects(node)).collect()
}

fn version(node: &Node) -> Option<&str> {
    Some(&node.status.as_ref()?.node_info.as_ref()?.kubelet_version)
}

fn names(nodes: &[&Node]) -> Vec<String> {
    let mut names: Vec<String> = nodes.iter().map(|node| node.name_any()).collect();
    names.sort();
    names
}

fn pool_problems(pool: &Pool, members: &[&Node], all: &[Node]) -> Vec<Error> {
    let (name, selector) = (&pool.name, pool.selector_text());
    let wanted = pool.nodes.value as usize;
    if members.len() < wanted {
        let have =
            if members.is_empty() { "no node".to_owned() } else { format!("only {}", plural(members.len(), "node")) };
        let has = if members.len() == 1 { "has" } else { "have" };
        let has = if members.is_empty() { "has" } else { has };
        let message =
            format!("pool `{name}` asks for {}, and {have} of the cluster {has} `{selector}`", plural(wanted, "node"));
        let labels = selector.replace(',', " ");
        let mut error = Error::message(Code::ExistingNodes, message)
            .hint(format!(
                "`match = {{ … }}` in `[pool.{name}]` says by which labels its nodes are found ({})",
                pool.name.at
            ))
            .hint(format!("or give them the label, if they are yours: `kubectl label nodes NODE {labels}`"));
        let pools: BTreeSet<String> =
            all.iter().filter_map(labelled_pool).map(|(key, pool)| format!("{key}={pool}")).collect();
        if !pools.is_empty() {
            error = error.hint(format!("its nodes have {}", first_of(&pools.into_iter().collect::<Vec<_>>(), NAMES)));
        }
        return vec![error];
    }
    let mut problems = Vec::new();
    for (key, value) in &pool.labels {
        let without: Vec<&Node> =
            members.iter().copied().filter(|node| node.labels().get(key) != Some(&value.value)).collect();
        if !without.is_empty() {
            let label = format!("{key}={}", value.value);
            let command = format!("kubectl label nodes {} {label} --overwrite", names(&without).join(" "));
            problems.push(lacking(pool, &without, &format!("label `{label}`"), &command));
        }
    }
    for taint in &pool.node_taints() {
        let text = taint_text(taint);
        let has = |node: &Node| taints(node).contains(&text);
        let without: Vec<&Node> = members.iter().copied().filter(|node| !has(node)).collect();
        if !without.is_empty() {
            let command = format!("kubectl taint nodes {} {text} --overwrite", names(&without).join(" "));
            problems.push(lacking(pool, &without, &format!("taint `{text}`"), &command));
        }
    }
    problems
}

fn lacking(pool: &Pool, nodes: &[&Node], what: &str, command: &str) -> Error {
    let has = if nodes.len() == 1 { "does not have" } else { "do not have" };
    let message = format!("{} of pool `{}` {has} the {what}", first_of(&names(nodes), NAMES), pool.name);
    Error::message(Code::ExistingNodes, message)
        .hint(format!("klab changes no nodes here; if they are yours: `{command}`"))
}

/// A node that the labels of two pools find.
fn in_two(lab: &Lab, node: &Node) -> Option<Error> {
    let pools: Vec<&str> = lab.pools.iter().filter(|pool| pool.selects(node)).map(|pool| pool.name.as_str()).collect();
    (pools.len() > 1).then(|| {
        let message = format!("node `{}` is in several pools of the lab: {}", node.name_any(), pools.join(", "));
        Error::message(Code::NodeInTwoPools, message)
            .hint("`match = { … }` of a pool names labels that only its own nodes have")
    })
}

/// The taints of a node that are not the system's own.
fn taints(node: &Node) -> Vec<String> {
    let taints = node.spec.iter().flat_map(|spec| spec.taints.iter().flatten());
    taints.filter(|taint| !is_system_taint(taint)).map(taint_text).collect()
}

fn pool_caveats(pool: &Pool, members: &[&Node]) -> Vec<String> {
    let name = &pool.name;
    let mut words = Vec::new();
    let wanted = pool.nodes.value as usize;
    if members.len() > wanted {
        let have = plural(members.len(), "node");
        words.push(format!(
            "pool {name} has {have}, the lab file says {wanted}: checks that count nodes may say otherwise"
        ));
    }
    let own: BTreeSet<String> = pool.node_taints().iter().map(taint_text).collect();
    for node in members {
        let node_name = node.name_any();
        for taint in taints(node).into_iter().filter(|taint| !own.contains(taint)) {
            words.push(format!(
                "{node_name} of pool {name} has the taint {taint}, which the lab file does not name; \
                 `kubectl taint nodes {node_name} {taint}-` takes it off"
            ));
        }
        if node.spec.as_ref().is_some_and(|spec| spec.unschedulable == Some(true)) {
            words.push(format!("{node_name} of pool {name} is cordoned; `kubectl uncordon {node_name}` opens it"));
        }
    }
    let least: Vec<_> = pool.parts().iter().map(|part| part.machine.allocatable(part.max_pods)).collect();
    let smaller: Vec<&Node> = members
        .iter()
        .copied()
        .filter(|node| {
            let units = |resource: &str| {
                let found = node.status.as_ref()?.allocatable.as_ref()?.get(resource)?;
                Some(Quantity::parse(&found.0).ok()?.base_units(resource))
            };
            least.iter().all(|least| {
                units("cpu").is_some_and(|cpu| cpu < as_units(least.cpu_millis))
                    || units("memory").is_some_and(|memory| memory < as_units(least.memory))
            })
        })
        .collect();
    if !smaller.is_empty() {
        let are = if smaller.len() == 1 { "is" } else { "are" };
        words.push(format!(
            "{} of pool {name} {are} smaller than {}, for which the lab was written",
            first_of(&names(&smaller), NAMES),
            klab_lab::plan::size_name(pool)
        ));
    }
    words
}

fn as_units(amount: u64) -> i64 {
    i64::try_from(amount).unwrap_or(i64::MAX)
}
