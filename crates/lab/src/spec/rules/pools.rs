//! Rules about pools: what AKS, kind or Kubernetes would refuse, late and often in silence.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Taint;

use super::checks::node_sets;
use super::context::Context;
use crate::code::Code;
use crate::names::{AKS_POOL_LABEL, POOL_LABEL};
use crate::spec::check::NodeSet;
use crate::spec::diagnostic::Diagnostic;
use crate::spec::pool::{Os, PoolMode};
use crate::spec::source::{Located, Location};
use crate::spec::step::Action;

pub(super) fn no_system_pool(context: &Context<'_>, found: &mut Vec<Diagnostic>) {
    let lab = context.lab;
    if lab.pools.iter().any(|pool| pool.mode == PoolMode::System && !pool.deferred) {
        return;
    }
    let mut diagnostic = if lab.pools.is_empty() {
        Diagnostic::error(Code::NoSystemPool, "the lab has no pools").at(&lab.name.at, "a cluster needs nodes")
    } else {
        let at = &lab.pools[0].name.at;
        let only = if lab.pools.len() == 1 { "the only pool is not one" } else { "none of the pools is one" };
        Diagnostic::error(Code::NoSystemPool, "the lab has no system pool to begin with").at(at, only)
    };
    diagnostic = diagnostic.help("a cluster needs a pool for its own pods: `[pool.system]` with `mode = \"system\"`");
    found.push(diagnostic);
}

pub(super) fn system_pool(context: &Context<'_>, found: &mut Vec<Diagnostic>) {
    for pool in context.lab.pools.iter().filter(|pool| pool.mode == PoolMode::System) {
        let name = pool.name.as_str();
        let mut report = |at, label: &str, help: &str| {
            let message = format!("pool `{name}` cannot be a system pool");
            found.push(Diagnostic::error(Code::SystemPool, message).at(at, label).help(help));
        };
        let user = "make it a user pool (`mode = \"user\"`) and let another pool be the system pool";
        if pool.os == Os::Windows {
            report(&pool.name.at, "a system pool is Linux", user);
        }
        if pool.spot.is_some() {
            report(&pool.name.at, "a system pool is never spot", user);
        }
        if *pool.nodes == 0 {
            report(&pool.nodes.at, "a system pool has at least one node", "write `nodes = 1` or more");
        }
        if let Some(bounds) = &pool.autoscale
            && bounds.min == 0
        {
            report(&bounds.at, "a system pool never shrinks to nothing", "write `min = 1` or more");
        }
        if let Some(at) = &pool.max_pods_given
            && (10..30).contains(&pool.max_pods)
        {
            report(at, "a system pool holds at least 30 pods on a node", "write `max_pods = 30` or more");
        }
    }
}

pub(super) fn system_taint(context: &Context<'_>, found: &mut Vec<Diagnostic>) {
    let mut systems = context.lab.pools.iter().filter(|pool| pool.mode == PoolMode::System && !pool.deferred);
    let (Some(pool), None) = (systems.next(), systems.next()) else { return };
    for taint in &pool.taints {
        if taint.key != "CriticalAddonsOnly" && taint.effect != "PreferNoSchedule" {
            found.push(
                Diagnostic::error(Code::SystemTaint, format!("pool `{}` keeps the cluster's own pods out", pool.name))
                    .at(&taint.at, "CoreDNS and others do not tolerate this taint and have no other system pool")
                    .help("taint a user pool, or use `CriticalAddonsOnly=true:NoSchedule`, which the cluster's own pods tolerate"),
            );
        }
    }
}

pub(super) fn max_pods(context: &Context<'_>, found: &mut Vec<Diagnostic>) {
    for pool in &context.lab.pools {
        if let Some(at) = &pool.max_pods_given
            && !(10..=250).contains(&pool.max_pods)
        {
            let message = format!("pool `{}` cannot hold {} pods on a node", pool.name, pool.max_pods);
            found.push(Diagnostic::error(Code::MaxPods, message).at(at, "must be from 10 to 250"));
        }
    }
}

pub(super) fn autoscale(context: &Context<'_>, found: &mut Vec<Diagnostic>) {
    for pool in &context.lab.pools {
        let Some(bounds) = &pool.autoscale else { continue };
        let message = format!("the autoscaler's bounds of pool `{}` do not fit", pool.name);
        if bounds.max < bounds.min || bounds.max == 0 {
            found.push(
                Diagnostic::error(Code::Autoscale, message).at(&bounds.at, "`max` must be at least `min`, and 1"),
            );
        } else if *pool.nodes < bounds.min || *pool.nodes > bounds.max {
            found.push(
                Diagnostic::error(Code::Autoscale, message)
                    .at(&pool.nodes.at, format!("{} nodes to begin with", *pool.nodes))
                    .and_at(&bounds.at, format!("but {} to {} allowed", bounds.min, bounds.max)),
            );
        }
    }
}

pub(super) fn capacity(context: &Context<'_>, found: &mut Vec<Diagnostic>) {
    let lab = context.lab;
    let actions = || lab.steps.iter().flat_map(|step| &step.actions);
    for pool in &lab.pools {
        let Some(capacity) = &pool.capacity else { continue };
        let name = &pool.name.value;
        let steps = actions().filter_map(|action| match &action.value {
            Action::ScalePool { pool, nodes, autoscale } if pool == name => Some((&action.at, *nodes, autoscale)),
            _ => None,
        });
        let steps: Vec<_> = steps.collect();
        let by_steps = steps.iter().filter_map(|(at, nodes, _)| Some((*at, (*nodes)?)));
        for (at, nodes) in std::iter::once((&pool.nodes.at, *pool.nodes)).chain(by_steps) {
            if nodes > **capacity {
                let message = format!("pool `{name}` cannot have {nodes} nodes");
                let label = format!("the cloud has {} machines for it", **capacity);
                found.push(
                    Diagnostic::error(Code::Capacity, message).at(at, "this many nodes").and_at(&capacity.at, label),
                );
            }
        }
        let is_upgraded =
            |action: &Located<Action>| matches!(action.value.tried(), Action::UpgradePool { pool, .. } if pool == name);
        // An upgrade asks for surge nodes.
        let never_grows = pool.autoscale.is_none() && steps.iter().all(|(_, _, autoscale)| autoscale.is_none());
        if never_grows && !actions().any(is_upgraded) {
            found.push(
                Diagnostic::warning(Code::Capacity, format!("nothing reaches the capacity of pool `{name}`"))
                    .at(&capacity.at, "the pool is not autoscaled")
                    .help("`autoscale = { min = 1, max = 3 }` leaves the size of a pool to the autoscaler"),
            );
        }
    }
}

pub(super) fn unused_autoscaler(context: &Context<'_>, found: &mut Vec<Diagnostic>) {
    let lab = context.lab;
    let mut actions = lab.steps.iter().flat_map(|step| &step.actions).map(|action| &action.value);
    let by_step = actions.any(|action| matches!(action, Action::ScalePool { autoscale: Some(_), .. }));
    if by_step || lab.pools.iter().any(|pool| pool.autoscale.is_some()) {
        return;
    }
    if let Some((_, setting)) = lab.autoscaler.first_key_value() {
        found.push(
            Diagnostic::warning(Code::UnusedAutoscaler, "the autoscaler has settings and nothing to do")
                .at(&setting.at, "no pool is autoscaled")
                .help("`autoscale = { min = 1, max = 3 }` leaves the size of a pool to the autoscaler"),
        );
    }
}

/// Who owns a label or taint key, if it is not the author's to set.
fn owner(key: &str) -> Option<&'static str> {
    let prefix = key.split_once('/').map(|(prefix, _)| prefix);
    match prefix {
        None if key == POOL_LABEL => Some("AKS"),
        Some("kubernetes.azure.com") => Some("AKS"),
        Some("kubernetes.io" | "node.kubernetes.io" | "topology.kubernetes.io" | "beta.kubernetes.io") => {
            Some("Kubernetes")
        }
        Some("klab.dev") => Some("klab"),
        _ => None,
    }
}

pub(super) fn reserved_label(context: &Context<'_>, found: &mut Vec<Diagnostic>) {
    for pool in &context.lab.pools {
        for (key, value) in &pool.labels {
            let prefix = key.split_once('/').map_or("", |(prefix, _)| prefix);
            if let Some(owner) = owner(key) {
                let help = match key.as_str() {
                    POOL_LABEL | AKS_POOL_LABEL => {
                        "every node has the labels `agentpool` and `kubernetes.azure.com/agentpool` with its pool's name already"
                    }
                    "topology.kubernetes.io/zone" => "`zones = [1]` sets the zone",
                    "node.kubernetes.io/instance-type" => "`size` sets the instance type",
                    "kubernetes.azure.com/mode" => "`mode` sets it",
                    "kubernetes.azure.com/scalesetpriority" => "`spot = true` sets it",
                    _ => "choose a key of your own, with or without a prefix such as `example.com/`",
                };
                found.push(
                    Diagnostic::error(Code::ReservedLabel, format!("the label `{key}` belongs to {owner}"))
                        .at(&value.at, format!("pool `{}` cannot set it", pool.name))
                        .help(help),
                );
            } else if prefix.ends_with(".kubernetes.io") || prefix.ends_with(".k8s.io") || prefix == "k8s.io" {
                // Kubelets refuse these; kind gets them through the API afterwards, AKS has no such way.
                let message = format!("nodes may not give themselves the label `{key}`");
                let diagnostic = if context.lab.provider.profile().has_managed_pools {
                    Diagnostic::error(Code::ReservedLabel, message)
                } else {
                    Diagnostic::warning(Code::ReservedLabel, message)
                };
                found.push(
                    diagnostic
                        .at(&value.at, "AKS refuses this prefix")
                        .help("choose a key of your own, with or without a prefix such as `example.com/`"),
                );
            }
        }
    }
}

pub(super) fn node_names(context: &Context<'_>, found: &mut Vec<Diagnostic>) {
    let profile = context.lab.provider.profile();
    let mut seen: BTreeMap<&str, &Location> = BTreeMap::new();
    for name in context.lab.pools.iter().flat_map(|pool| &pool.names) {
        if let Some(first) = seen.insert(&name.value, &name.at) {
            found.push(
                Diagnostic::error(Code::NodeNames, format!("two nodes are called `{name}`"))
                    .at(&name.at, "a node's name is its own")
                    .and_at(first, "the other one"),
            );
        }
    }
    if profile.takes_node_names {
        return;
    }
    let asked = context.lab.workloads.iter().filter_map(|workload| workload.node_name.as_ref());
    let asked = asked.map(|node| (&node.value, &node.at)).chain(node_sets(context));
    for (node, at) in asked {
        if let NodeSet::Node(name) = node
            && seen.contains_key(name.as_str())
        {
            let message = format!("on {} no node is called `{name}`", profile.title);
            found.push(
                Diagnostic::warning(Code::NodeNames, message)
                    .at(at, "nodes have the names there that the provider gives them")
                    .help("`pool:NAME` names the nodes of a pool on every provider"),
            );
        }
    }
}

pub(super) fn reserved_taint(context: &Context<'_>, found: &mut Vec<Diagnostic>) {
    for pool in &context.lab.pools {
        for taint in &pool.taints {
            let help = match owner(&taint.key) {
                None => continue,
                Some("AKS") if taint.key == "kubernetes.azure.com/scalesetpriority" => "`spot = true` sets it",
                Some("Kubernetes") => "Kubernetes sets such taints itself when a node is not ready, full, or cordoned",
                Some(_) => "choose a key of your own",
            };
            found.push(
                Diagnostic::error(Code::ReservedTaint, format!("the taint `{}` is not yours to set", taint.key))
                    .at(&taint.at, "this prefix is reserved")
                    .help(help),
            );
        }
    }
}

pub(super) fn duplicate_taint(context: &Context<'_>, found: &mut Vec<Diagnostic>) {
    for pool in &context.lab.pools {
        for (index, taint) in pool.taints.iter().enumerate() {
            let same = |other: &&Located<Taint>| other.key == taint.key && other.effect == taint.effect;
            if let Some(first) = pool.taints[..index].iter().find(same) {
                let message =
                    format!("pool `{}` has two taints `{}` with the effect {}", pool.name, taint.key, taint.effect);
                found.push(
                    Diagnostic::error(Code::DuplicateTaint, message)
                        .at(&taint.at, "a node has one taint of a key and effect")
                        .and_at(&first.at, "the first one"),
                );
            }
        }
    }
}

pub(super) fn empty_taint_value(context: &Context<'_>, found: &mut Vec<Diagnostic>) {
    if !context.lab.provider.profile().has_managed_pools {
        return;
    }
    for pool in &context.lab.pools {
        for taint in pool.taints.iter().filter(|taint| taint.value.value.is_none()) {
            let better = format!("{}=true:{}", taint.key, taint.effect);
            found.push(
                Diagnostic::error(Code::EmptyTaintValue, "az refuses a taint without a value")
                    .at(&taint.at, "the value is missing")
                    .patch("give it one", &taint.at, format!("\"{better}\"")),
            );
        }
    }
}

pub(super) fn windows(context: &Context<'_>, found: &mut Vec<Diagnostic>) {
    let profile = context.lab.provider.profile();
    if profile.has_windows {
        return;
    }
    let title = profile.title;
    for pool in context.lab.pools.iter().filter(|pool| pool.os == Os::Windows && context.lab.makes(pool)) {
        found.push(
            Diagnostic::error(Code::Windows, format!("pool `{}` cannot be made on {title}", pool.name))
                .at(&pool.name.at, format!("{title} has no Windows nodes"))
                .help("use `--provider sim` or `--provider aks`"),
        );
    }
}

pub(super) fn no_devices(context: &Context<'_>, found: &mut Vec<Diagnostic>) {
    let profile = context.lab.provider.profile();
    if profile.is_embedded {
        return;
    }
    let title = profile.title;
    for devices in context.lab.pools.iter().flat_map(|pool| &pool.devices) {
        let class = &devices.class;
        let help = format!(
            "install a driver for dynamic resource allocation that publishes ResourceSlices, and make the DeviceClass `{class}`; \
             until then pods whose claims ask for it stay Pending"
        );
        found.push(
            Diagnostic::warning(Code::NoDevices, format!("klab makes no devices of class `{class}` on {title}"))
                .at(&devices.at, "nodes have what their drivers find")
                .help(help),
        );
    }
}

pub(super) fn version(context: &Context<'_>, found: &mut Vec<Diagnostic>) {
    let Some(cluster) = &context.lab.kubernetes else { return };
    // Pools that steps make may come after a step that upgrades the control plane.
    let actions = context.lab.steps.iter().flat_map(|step| &step.actions);
    let upgraded = actions.filter_map(|action| match &action.value {
        Action::UpgradeControlPlane { kubernetes } => Some(kubernetes.minor),
        _ => None,
    });
    let newest = upgraded.max().unwrap_or(cluster.minor).max(cluster.minor);
    for pool in &context.lab.pools {
        let Some(version) = &pool.kubernetes else { continue };
        let label = if version.minor > if pool.deferred { newest } else { cluster.minor } {
            "newer than the cluster"
        } else if version.minor + 3 < cluster.minor {
            "more than three minor versions older than the cluster"
        } else {
            continue;
        };
        found.push(
            Diagnostic::error(Code::PoolVersion, format!("pool `{}` cannot run Kubernetes {version}", pool.name))
                .at(&version.at, label)
                .and_at(&cluster.at, "the cluster's version"),
        );
    }
}
