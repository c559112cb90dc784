//! The arguments of plugins as a configuration gives them, and what is wrong with them.

// upstream: pkg/scheduler/apis/config/validation/validation_pluginargs.go (v1.36)
// upstream: pkg/scheduler/apis/config/v1/defaults.go (v1.36)

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Affinity, TopologySpreadConstraint};
use serde_json::{Value, json};

use super::arguments::{Arguments, DefaultConstraint, Preemption, Scoring, SpreadDefaults, Strategy};
use super::document::Fields;
use super::node_terms;
use crate::node_selector::{NodeSelectorTerm, preferred_terms};
use crate::selector::key_problems;
use crate::typed::Typed;

/// Reads the arguments of one plugin.
type Read = fn(&Fields<'_>, &mut Arguments);

/// Per plugin with arguments: their keys, and what reads them.
static ARGUMENTS: &[(&str, &[&str], Read)] = &[
    ("DefaultPreemption", &["minCandidateNodesPercentage", "minCandidateNodesAbsolute"], preemption),
    ("InterPodAffinity", &["hardPodAffinityWeight", "ignorePreferredTermsOfExistingPods"], affinity),
    ("NodeAffinity", &["addedAffinity"], added),
    ("NodeResourcesBalancedAllocation", &["resources"], balanced),
    ("NodeResourcesFit", &["ignoredResources", "ignoredResourceGroups", "scoringStrategy"], fit),
    ("PodTopologySpread", &["defaultConstraints", "defaultingType"], spread),
    ("VolumeBinding", &["bindTimeoutSeconds", "shape"], volumes),
    ("DynamicResources", &["filterTimeout", "bindingTimeout"], devices),
];

/// Reads an entry of `pluginConfig`. Arguments of a plugin that has none are not looked at, as in kube-scheduler.
pub(super) fn read(entry: &Fields<'_>, name: &str, arguments: &mut Arguments) {
    let Some((_, keys, read)) = ARGUMENTS.iter().find(|(plugin, ..)| *plugin == name) else { return };
    let known: Vec<_> = keys.iter().copied().chain(["apiVersion", "kind"]).collect();
    let Some(fields) = entry.below("args", &known) else { return };
    fields.text("apiVersion");
    let group = "kubescheduler.config.k8s.io";
    let wanted = format!("{name}Args");
    if let Some(kind) = fields.text("kind").filter(|kind| *kind != wanted) {
        let path = &entry.path;
        entry.problem(format!(
            "decoding .{path}: args for plugin {name} were not of type {wanted}.{group}, got {kind}.{group}"
        ));
        return;
    }
    read(&fields, arguments);
}

fn preemption(args: &Fields<'_>, arguments: &mut Arguments) {
    const KEYS: [&str; 2] = ["minCandidateNodesPercentage", "minCandidateNodesAbsolute"];
    let [percentage, absolute] = KEYS;
    let its = Preemption {
        percentage: args.within(percentage, 0, 100, "not in valid range [0, 100]").unwrap_or(10),
        absolute: args.within(absolute, 0, i64::from(i32::MAX), "not in valid range [0, inf)").unwrap_or(100),
    };
    arguments.preemption = Some(its);
    if (its.percentage, its.absolute) == (0, 0) {
        args.invalid(percentage, 0, &format!("cannot be zero at the same time as {absolute}"));
        args.invalid(absolute, 0, &format!("cannot be zero at the same time as {percentage}"));
    }
}

fn affinity(args: &Fields<'_>, arguments: &mut Arguments) {
    let its = &mut arguments.affinity;
    let weight = args.within("hardPodAffinityWeight", 0, 100, "not in valid range [0, 100]");
    its.hard_weight = weight.unwrap_or(its.hard_weight);
    its.ignores_existing = args.flag("ignorePreferredTermsOfExistingPods").unwrap_or(false);
}

/// Notes what is wrong with an object that a reader of API objects does not take.
fn not_read<T, E: std::fmt::Display>(fields: &Fields<'_>, key: &str, read: Result<T, E>) -> Option<T> {
    read.inspect_err(|error| fields.problem(format!("{}: {error}", fields.at(key)))).ok()
}

fn added(args: &Fields<'_>, arguments: &mut Arguments) {
    const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
    const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";
    let Some(affinity) = args.below("addedAffinity", &[REQUIRED, PREFERRED]) else { return };
    let noted = args.noted();
    let required = affinity.below(REQUIRED, &["nodeSelectorTerms"]);
    let terms = required.iter().flat_map(|required| required.objects("nodeSelectorTerms", &node_terms::KEYS));
    terms.for_each(|term| node_terms::check(&term));
    for term in affinity.objects(PREFERRED, &["weight", "preference"]) {
        if let Some(preference) =
            term.below("preference", &node_terms::KEYS).filter(|_| term.number("weight") != Some(0))
        {
            node_terms::check(&preference);
        }
    }
    if args.noted() > noted {
        return;
    }
    let read = Affinity::from_value(&json!({ "nodeAffinity": args.value("addedAffinity") }));
    let Some(read) = not_read(args, "addedAffinity", read) else { return };
    let required = read.node_affinity.as_ref().and_then(|it| {
        let terms = &it.required_during_scheduling_ignored_during_execution.as_ref()?.node_selector_terms;
        Some(terms.iter().map(NodeSelectorTerm::from_api).collect::<Result<Vec<_>, _>>())
    });
    arguments.added.required = required.and_then(|terms| not_read(&affinity, REQUIRED, terms));
    arguments.added.preferred = not_read(&affinity, PREFERRED, preferred_terms(Some(&read))).unwrap_or_default();
}

fn balanced(args: &Fields<'_>, arguments: &mut Arguments) {
    let mut seen = BTreeSet::new();
    for resource in args.objects("resources", &["name", "weight"]) {
        let name = resource.text("name").unwrap_or_default();
        if !seen.insert(name) {
            resource.problem(format!("{}: Duplicate value: {name:?}", resource.at("name")));
        }
        if let Some(weight) = resource.number("weight").filter(|weight| ![0, 1].contains(weight)) {
            resource.invalid("weight", weight, "must be 1");
        }
        scored(&resource, name);
        arguments.balanced.get_or_insert_default().push(Arc::from(name));
    }
}

/// Refuses resources whose amounts are not counted apart.
fn scored(resource: &Fields<'_>, name: &str) {
    if name.starts_with("hugepages-") {
        resource.invalid("name", format_args!("{name:?}"), "klab does not score huge pages");
    }
}

fn label_name(fields: &Fields<'_>, path: &str, name: &str) {
    for why in key_problems(name) {
        fields.problem(format!("{path}: Invalid value: {name:?}: {why}"));
    }
}

fn fit(args: &Fields<'_>, arguments: &mut Arguments) {
    for (path, name) in args.texts("ignoredResources") {
        label_name(args, &path, name);
        arguments.fit.ignored.push(name.to_owned());
    }
    for (path, name) in args.texts("ignoredResourceGroups") {
        if name.contains('/') {
            args.problem(format!("{path}: Invalid value: {name:?}: resource group name can't contain '/'"));
        }
        label_name(args, &path, name);
        arguments.fit.ignored_groups.push(name.to_owned());
    }
    if let Some(strategy) = args.below("scoringStrategy", &["type", "resources", "requestedToCapacityRatio"]) {
        arguments.fit.scoring = scoring(&strategy);
    }
}

fn scoring(fields: &Fields<'_>) -> Option<Scoring> {
    const KINDS: [&str; 3] = ["LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"];
    let [least, most, ratio] = KINDS;
    let mut resources: Vec<(Arc<str>, i64)> = Vec::new();
    for resource in fields.objects("resources", &["name", "weight"]) {
        let name = resource.text("name").unwrap_or_default();
        let why = format!("resource weight of {name} not in valid range (0, 100]");
        let weight = resource.within("weight", 0, 100, &why).filter(|weight| *weight != 0).unwrap_or(1);
        scored(&resource, name);
        resources.push((Arc::from(name), weight));
    }
    if resources.is_empty() {
        resources = vec![(Arc::from("cpu"), 1), (Arc::from("memory"), 1)];
    }
    let shape = fields.below("requestedToCapacityRatio", &["shape"]);
    let kind = fields.text("type").unwrap_or_default();
    if kind != ratio && shape.is_some() {
        let path = fields.at("requestedToCapacityRatio");
        fields.problem(format!("{path}: Forbidden: must be nil when type is not RequestedToCapacityRatio"));
    }
    let strategy = match kind {
        _ if kind == least => Strategy::LeastAllocated,
        _ if kind == most => Strategy::MostAllocated,
        _ if kind == ratio => {
            let why = "must be specified when type is RequestedToCapacityRatio";
            let Some(shape) = shape else {
                fields.required("requestedToCapacityRatio", why);
                return None;
            };
            Strategy::RequestedToCapacityRatio(points(&shape))
        }
        _ => {
            fields.unsupported("type", kind, &KINDS);
            return None;
        }
    };
    Some(Scoring { strategy, resources })
}

/// The points of a function of utilization, their scores out of 100.
fn points(fields: &Fields<'_>) -> Vec<(i64, i64)> {
    let read = fields.objects("shape", &["utilization", "score"]);
    if read.is_empty() {
        fields.required("shape", "at least one point must be specified");
    }
    let at = |point: &Fields<'_>| point.number("utilization").unwrap_or(0);
    let unsorted = read.iter().zip(read.iter().skip(1)).find(|(before, after)| at(before) >= at(after));
    if let Some((_, point)) = unsorted {
        point.invalid("utilization", at(point), "values must be sorted in increasing order");
    }
    let number = |point: &Fields<'_>, key: &str, most: i64| {
        point.within(key, 0, most, &format!("not in valid range [0, {most}]")).unwrap_or(0)
    };
    // A configuration scores from 0 to 10.
    read.iter()
        .map(|point| (number(point, "utilization", 100), number(point, "score", 10).saturating_mul(10)))
        .collect()
}

fn spread(args: &Fields<'_>, arguments: &mut Arguments) {
    const KEYS: [&str; 8] = [
        "maxSkew",
        "topologyKey",
        "whenUnsatisfiable",
        "labelSelector",
        "minDomains",
        "nodeAffinityPolicy",
        "nodeTaintsPolicy",
        "matchLabelKeys",
    ];
    let mut list = Vec::new();
    let mut seen = BTreeSet::new();
    for constraint in args.objects("defaultConstraints", &KEYS) {
        let (key, action) = spread_constraint(&constraint);
        if !seen.insert((key, action)) {
            args.problem(format!("{}: Duplicate value: \"{{{key}, {action}}}\"", constraint.path));
        }
        list.extend(default_constraint(&constraint));
    }
    let kind = args.text("defaultingType").filter(|kind| !kind.is_empty()).unwrap_or("System");
    match kind {
        "List" => arguments.spread = SpreadDefaults::List(list),
        "System" if !list.is_empty() => {
            args.invalid("defaultingType", "\"System\"", "when .defaultConstraints are not empty");
        }
        "System" => {}
        _ => args.unsupported("defaultingType", kind, &["System", "List"]),
    }
}

/// Looks for what is wrong with a constraint; gives its topology key and what happens where it is not met.
fn spread_constraint<'d>(constraint: &Fields<'d>) -> (&'d str, &'d str) {
    const ACTIONS: [&str; 2] = ["DoNotSchedule", "ScheduleAnyway"];
    let skew = constraint.number("maxSkew").unwrap_or(0);
    if skew <= 0 {
        constraint.invalid("maxSkew", skew, "not in valid range (0, inf)");
    }
    let key = constraint.text("topologyKey").unwrap_or_default();
    if key.is_empty() {
        constraint.required("topologyKey", "can not be empty");
    } else {
        label_name(constraint, &constraint.at("topologyKey"), key);
    }
    constraint.texts("matchLabelKeys");
    let action = constraint.text("whenUnsatisfiable").unwrap_or_default();
    if action.is_empty() {
        constraint.required("whenUnsatisfiable", "can not be empty");
    } else if !ACTIONS.contains(&action) {
        constraint.unsupported("whenUnsatisfiable", action, &ACTIONS);
    }
    if constraint.value("labelSelector").is_some() {
        let path = constraint.at("labelSelector");
        constraint
            .problem(format!("{path}: Forbidden: constraint must not define a selector, as they deduced for each pod"));
    }
    (key, action)
}

/// A constraint as it is read from a pod. Its `matchLabelKeys` have no effect: each pod's selector takes their place.
fn default_constraint(constraint: &Fields<'_>) -> Option<DefaultConstraint> {
    let whole = json!({
        "maxSkew": constraint.number("maxSkew").unwrap_or(1),
        "topologyKey": constraint.text("topologyKey").unwrap_or_default(),
        "whenUnsatisfiable": constraint.text("whenUnsatisfiable").unwrap_or_default(),
        "minDomains": constraint.number("minDomains"),
        "nodeAffinityPolicy": constraint.text("nodeAffinityPolicy"),
        "nodeTaintsPolicy": constraint.text("nodeTaintsPolicy"),
    });
    let read = TopologySpreadConstraint::from_value(&whole);
    let read = read.inspect_err(|error| constraint.problem(format!("{}: {error}", constraint.path))).ok()?;
    Some(DefaultConstraint {
        topology_key: Arc::from(read.topology_key),
        max_skew: i64::from(read.max_skew),
        min_domains: i64::from(read.min_domains.unwrap_or(1)),
        hard: read.when_unsatisfiable != "ScheduleAnyway",
        honor_affinity: read.node_affinity_policy.as_deref() != Some("Ignore"),
        honor_taints: read.node_taints_policy.as_deref() == Some("Honor"),
    })
}

fn volumes(args: &Fields<'_>, _: &mut Arguments) {
    if let Some(timeout) = args.value("bindTimeoutSeconds").and_then(Value::as_i64).filter(|timeout| *timeout < 0) {
        let why = "invalid BindTimeoutSeconds, should not be a negative value";
        args.invalid("bindTimeoutSeconds", timeout, why);
    } else if args.value("bindTimeoutSeconds").is_some_and(|timeout| timeout.as_i64() != Some(600)) {
        args.problem(format!("{}: klab waits 600 seconds for volumes", args.at("bindTimeoutSeconds")));
    }
    if args.value("shape").is_some() {
        let point = |point: &Fields<'_>| {
            let number = |key: &str| point.number(key).unwrap_or(0);
            format!("{{\"Utilization\":{},\"Score\":{}}}", number("utilization"), number("score"))
        };
        let shape: Vec<_> = args.objects("shape", &["utilization", "score"]).iter().map(point).collect();
        let why = "unexpected field `shape`, remove it or turn on the feature gate StorageCapacityScoring";
        args.invalid("shape", format_args!("[{}]", shape.join(",")), why);
    }
}

fn devices(args: &Fields<'_>, _: &mut Arguments) {
    let timeouts = [
        ("filterTimeout", 10_000, 0, "must be zero or positive"),
        ("bindingTimeout", 600_000, 1_000, "must be at least 1 second"),
    ];
    for (key, default, least, why) in timeouts {
        match args.duration(key) {
            Some((text, length)) if length < least => args.invalid(key, format_args!("{text:?}"), why),
            Some((_, length)) if length != default => {
                args.problem(format!("{}: klab does as with {}s", args.at(key), default / 1_000));
            }
            _ => {}
        }
    }
}
