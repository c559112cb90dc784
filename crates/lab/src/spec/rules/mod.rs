//! Rules: what is wrong with a lab although every part of it can be read.
//!
//! A rule is one function and one row of [`RULES`]. Every code has an invalid lab in `tests/labs/invalid/<code>.toml`.

mod checks;
mod context;
mod limits;
mod pools;
mod steps;
mod workloads;

use super::diagnostic::{Diagnostic, Diagnostics};
use super::lab::Lab;
use super::structure::Broken;
use context::Context;

/// One rule.
pub struct Rule {
    /// Stable code, shown as `error[code]`.
    pub code: &'static str,
    /// What it is about, in a sentence.
    pub about: &'static str,
    /// Tables that must be read completely for the rule to judge: it would mistake what was left out for missing.
    needs: &'static [&'static str],
    check: fn(&Context<'_>, &mut Vec<Diagnostic>),
}

const fn rule(
    code: &'static str,
    needs: &'static [&'static str],
    check: fn(&Context<'_>, &mut Vec<Diagnostic>),
    about: &'static str,
) -> Rule {
    Rule { code, about, needs, check }
}

/// Every rule of meaning.
pub const RULES: &[Rule] = &[
    rule(
        "no-system-pool",
        &["pool"],
        pools::no_system_pool,
        "A cluster needs a system pool with nodes from the start.",
    ),
    rule(
        "system-pool",
        &[],
        pools::system_pool,
        "System pools are Linux, never spot, never empty, and hold 30 pods and more.",
    ),
    rule("system-taint", &[], pools::system_taint, "The only system pool must let the cluster's own pods in."),
    rule("node-names", &["pool"], pools::node_names, "A name for one node only, on a provider that takes names."),
    rule("max-pods", &[], pools::max_pods, "AKS takes 10 to 250 pods on a node."),
    rule("autoscale", &[], pools::autoscale, "Autoscaler bounds: min ≤ nodes ≤ max."),
    rule("capacity", &["pool", "step"], pools::capacity, "No more nodes than the cloud has machines for their pool."),
    rule(
        "unused-autoscaler",
        &["pool", "step"],
        pools::unused_autoscaler,
        "Settings of the autoscaler, and no pool that it may change.",
    ),
    rule("reserved-label", &[], pools::reserved_label, "Label prefixes of Kubernetes, AKS and klab are theirs."),
    rule("reserved-taint", &[], pools::reserved_taint, "Taint prefixes of Kubernetes, AKS and klab are theirs."),
    rule("duplicate-taint", &[], pools::duplicate_taint, "A node has one taint of a key and effect."),
    rule("empty-taint-value", &[], pools::empty_taint_value, "AKS takes no taint without a value."),
    rule("windows", &[], pools::windows, "kind has no Windows nodes."),
    rule("no-devices", &[], pools::no_devices, "Devices on a provider whose nodes have those that drivers find."),
    rule(
        "pool-version",
        &[],
        pools::version,
        "Nodes are not newer than the cluster, and at most three minor versions older.",
    ),
    rule(
        "unsatisfiable",
        &["pool"],
        workloads::unsatisfiable,
        "A selector or required affinity that no pool satisfies.",
    ),
    rule(
        "unused-toleration",
        &["pool", "step"],
        workloads::unused_toleration,
        "A toleration of a taint that no node has.",
    ),
    rule(
        "unknown-topology",
        &["pool", "step"],
        workloads::unknown_topology,
        "A topology key, of a spread constraint or of pod affinity, that no node has.",
    ),
    rule("too-large", &["pool"], workloads::too_large, "A request that no node can hold."),
    rule(
        "overfull-node",
        &["pool", "workload"],
        workloads::overfull_node,
        "Pods that are put on one node by name, and together ask for more than it has.",
    ),
    rule("limit", &[], workloads::limit, "A limit below the request."),
    rule("resource", &["pool"], workloads::resource, "A resource that no node has."),
    rule(
        "unknown-bundle",
        &["config", "secret"],
        workloads::unknown_bundle,
        "A ConfigMap or Secret that the lab does not have.",
    ),
    rule("reserved-workload-label", &[], workloads::reserved_label, "Labels that klab sets on its objects."),
    rule("duplicate-object", &[], workloads::duplicate_object, "Two tables that make the same object."),
    rule(
        "unknown-workload",
        &["workload.*"],
        checks::unknown_workload,
        "A check or step names a workload that is not there.",
    ),
    rule("unknown-pool", &["pool.*"], checks::unknown_pool, "A check or step names a pool that is not there."),
    rule(
        "unmatched-nodes",
        &["pool", "step"],
        checks::unmatched_nodes,
        "A node selector of a check or step that no pool satisfies.",
    ),
    rule(
        "unmatched-pods",
        &["workload", "manifest"],
        checks::unmatched_pods,
        "A pod selector that no workload satisfies.",
    ),
    rule("cannot-fail", &[], checks::cannot_fail, "A check that cannot fail."),
    rule(
        "contradiction",
        &["workload", "pool", "step"],
        checks::contradiction,
        "Conditions that cannot hold together.",
    ),
    rule(
        "never-pending",
        &["workload", "pool"],
        checks::never_pending,
        "Pods that nothing keeps from running are expected to stay Pending.",
    ),
    rule(
        "nothing-before",
        &[],
        checks::nothing_before,
        "A check outside of steps that compares pods with those of before the step.",
    ),
    rule("duplicate-step", &[], steps::duplicate, "Two steps of one name."),
    rule("step-without-check", &[], steps::without_check, "A step after which nothing is checked."),
    rule("held-at-once", &[], steps::held_at_once, "A step that holds before anything is done."),
    rule("step-without-hint", &[], steps::without_hint, "A step with text and without a hint."),
    rule("step-pool", &["pool"], steps::pools, "Pools that steps add or remove must not be, or be, there."),
    rule(
        "step-workload",
        &["workload"],
        steps::workloads,
        "Workloads that steps deploy, scale or change must allow it.",
    ),
    rule(
        "foreign-nodes",
        &[],
        steps::foreign_nodes,
        "On a cluster that klab did not make, no step makes, removes, stops or upgrades nodes.",
    ),
    rule(
        "control-plane",
        &[],
        steps::control_plane,
        "A control plane is upgraded by one minor version at a time, where the provider can do it without its nodes.",
    ),
    rule("never-deployed", &["step"], steps::never_deployed, "A deferred pool or workload that no step makes."),
];

/// Rules about what makers of nodes take, besides those that need to know all nodes.
const OF_MADE_NODES: [&str; 7] =
    ["system-pool", "system-taint", "max-pods", "autoscale", "reserved-label", "reserved-taint", "pool-version"];

/// Codes of problems that are found before rules are asked: while the file is read and its parts are parsed.
pub const READING_CODES: &[(&str, &str)] = &[
    ("unreadable", "The lab file cannot be read."),
    ("too-big-file", "The lab file is larger than 1 MiB."),
    ("not-utf8", "The lab file is not UTF-8 text."),
    ("empty", "The lab file is empty."),
    ("not-toml", "The lab file is not TOML."),
    ("unknown-key", "A key that klab does not know."),
    ("missing-key", "A key that must be there is not."),
    ("wrong-type", "A value of the wrong type."),
    ("unknown-value", "A word that is not one of those allowed."),
    ("out-of-range", "A number outside its bounds."),
    ("template", "A template in a string cannot be rendered."),
    ("unknown-variable", "A variable that `[vars]` does not have."),
    ("wrong-variable", "`--var` gives a value of the wrong type."),
    ("kubernetes-field", "A field that the Kubernetes structure does not have."),
    ("kubernetes-type", "A value that the Kubernetes structure does not take."),
    ("lab-name", "A name that a lab cannot have."),
    ("pool-name", "A pool name that AKS refuses."),
    ("name", "A name that Kubernetes refuses."),
    ("label", "A label key or value that Kubernetes refuses."),
    ("taint", "A text that is not a taint."),
    ("toleration", "A toleration that Kubernetes refuses."),
    ("affinity", "An affinity that Kubernetes refuses."),
    ("topology-spread", "A topology spread constraint that Kubernetes refuses."),
    ("quantity", "A text that is not a quantity."),
    ("image", "A text that is not an image."),
    ("duration", "A text that is not a duration."),
    ("count", "A text that is neither a number nor a range."),
    ("selector", "A text that is not a label selector."),
    ("object", "A text that names no object."),
    ("version", "A text that is not a Kubernetes version."),
    ("port", "A number that is not a port, or a protocol that is none."),
    ("network", "A text that is not an address or a network."),
    ("location", "A text that is not an Azure region."),
    ("path", "An empty path or text."),
    ("zone", "A zone that is not there, or twice."),
    ("autoscaler-setting", "A value that a setting of the autoscaler cannot have."),
    ("devices", "A class, a number or an attribute that devices cannot have."),
    ("spot", "Price or eviction where they mean nothing, or an impossible price."),
    ("machine", "It is not clear how large a pool's nodes are."),
    ("unknown-size", "A VM size that klab does not know."),
    ("not-for-kind", "A key that the workload's kind does not have."),
    ("manifest", "A manifest with neither path nor text, or with both."),
    ("subject", "A check without a subject, or with several."),
    ("condition", "A condition that does not go with the subject."),
    ("no-condition", "A check that says nothing about its subject."),
    ("cel", "A text that is not a CEL expression."),
    ("skip", "A step or check that is left out without a reason."),
    ("action", "An action without a verb, with several, or with keys that do not belong to it."),
    ("too-many", "More pools, nodes, pods or the like than a lab may have."),
    ("missing-file", "A file that the lab refers to cannot be read."),
    ("outside-file", "A file that the lab refers to is outside the lab's folder."),
    ("missing-variable", "An environment variable that the lab refers to is not set."),
];

/// Asks every rule that can judge; `broken` names the tables of which something could not be read.
pub(super) fn check(lab: &Lab, broken: &Broken, diagnostics: &mut Diagnostics) {
    let exceeded = limits::exceeded(lab);
    if !exceeded.is_empty() {
        // Rules compare everything with everything.
        for diagnostic in exceeded {
            diagnostics.push(diagnostic);
        }
        return;
    }
    let context = Context::new(lab);
    let makes_nodes = lab.provider.profile().makes_nodes;
    for rule in RULES {
        // What nodes are like that somebody else made is not in the file.
        if !makes_nodes && (rule.needs.contains(&"pool") || OF_MADE_NODES.contains(&rule.code)) {
            continue;
        }
        if rule.needs.iter().any(|table| broken.contains(*table)) {
            continue;
        }
        let mut found = Vec::new();
        (rule.check)(&context, &mut found);
        for diagnostic in found {
            debug_assert_eq!(diagnostic.code, rule.code, "a rule reports under its own code");
            diagnostics.push(diagnostic);
        }
    }
}
