//! Rules: what is wrong with a lab although every part of it can be read.
//!
//! A rule is one function and one row of [`RULES`]. Every case of a code has an invalid lab, `tests/labs/invalid/<name>.toml`.

mod checks;
mod context;
mod limits;
mod pools;
mod steps;
mod upgrades;
mod virtual_machines;
mod workloads;

use super::diagnostic::{Diagnostic, Diagnostics};
use super::lab::Lab;
use super::structure::Broken;
use crate::code::Code;
use context::Context;

/// One rule.
pub struct Rule {
    /// Its case in the table of codes.
    pub code: Code,
    /// Tables that must be read completely for the rule to judge: it would mistake what was left out for missing.
    needs: &'static [&'static str],
    check: fn(&Context<'_>, &mut Vec<Diagnostic>),
}

const fn rule(code: Code, needs: &'static [&'static str], check: fn(&Context<'_>, &mut Vec<Diagnostic>)) -> Rule {
    Rule { code, needs, check }
}

/// Every rule of meaning.
pub const RULES: &[Rule] = &[
    rule(Code::NoSystemPool, &["pool"], pools::no_system_pool),
    rule(Code::SystemPool, &[], pools::system_pool),
    rule(Code::SystemTaint, &[], pools::system_taint),
    rule(Code::NodeNames, &["pool"], pools::node_names),
    rule(Code::MaxPods, &[], pools::max_pods),
    rule(Code::Autoscale, &[], pools::autoscale),
    rule(Code::Capacity, &["pool", "step"], pools::capacity),
    rule(Code::UnusedAutoscaler, &["pool", "step"], pools::unused_autoscaler),
    rule(Code::ReservedLabel, &[], pools::reserved_label),
    rule(Code::ReservedTaint, &[], pools::reserved_taint),
    rule(Code::DuplicateTaint, &[], pools::duplicate_taint),
    rule(Code::EmptyTaintValue, &[], pools::empty_taint_value),
    rule(Code::Windows, &[], pools::windows),
    rule(Code::VirtualMachines, &[], virtual_machines::virtual_machines),
    rule(Code::NoDevices, &[], pools::no_devices),
    rule(Code::NoLoad, &[], workloads::no_load),
    rule(Code::PoolVersion, &[], pools::version),
    rule(Code::Upgrade, &[], upgrades::upgrade),
    rule(Code::Unsatisfiable, &["pool"], workloads::unsatisfiable),
    rule(Code::UnusedToleration, &["pool", "step"], workloads::unused_toleration),
    rule(Code::UnknownTopology, &["pool", "step"], workloads::unknown_topology),
    rule(Code::TooLarge, &["pool"], workloads::too_large),
    rule(Code::OverfullNode, &["pool", "workload"], workloads::overfull_node),
    rule(Code::Limit, &[], workloads::limit),
    rule(Code::Resource, &["pool"], workloads::resource),
    rule(Code::UnknownBundle, &["config", "secret"], workloads::unknown_bundle),
    rule(Code::ReservedWorkloadLabel, &[], workloads::reserved_label),
    rule(Code::DuplicateObject, &[], workloads::duplicate_object),
    rule(Code::UnknownWorkload, &["workload.*"], checks::unknown_workload),
    rule(Code::UnknownPool, &["pool.*"], checks::unknown_pool),
    rule(Code::UnmatchedNodes, &["pool", "step"], checks::unmatched_nodes),
    rule(Code::UnmatchedPods, &["workload", "manifest"], checks::unmatched_pods),
    rule(Code::CannotFail, &[], checks::cannot_fail),
    rule(Code::Contradiction, &["workload", "pool", "step"], checks::contradiction),
    rule(Code::NeverPending, &["workload", "pool"], checks::never_pending),
    rule(Code::NothingBefore, &[], checks::nothing_before),
    rule(Code::DuplicateStep, &[], steps::duplicate),
    rule(Code::StepWithoutCheck, &[], steps::without_check),
    rule(Code::HeldAtOnce, &[], steps::held_at_once),
    rule(Code::StepWithoutHint, &[], steps::without_hint),
    rule(Code::StepPool, &["pool"], steps::pools),
    rule(Code::StepWorkload, &["workload"], steps::workloads),
    rule(Code::ForeignNodes, &[], steps::foreign_nodes),
    rule(Code::ControlPlane, &[], steps::control_plane),
    rule(Code::NeverDeployed, &["step"], steps::never_deployed),
];

/// Rules about what makers of nodes take, besides those that need to know all nodes.
const OF_MADE_NODES: [Code; 9] = [
    Code::SystemPool,
    Code::SystemTaint,
    Code::MaxPods,
    Code::Autoscale,
    Code::ReservedLabel,
    Code::ReservedTaint,
    Code::PoolVersion,
    Code::Upgrade,
    Code::VirtualMachines,
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
