//! ResourceQuota: what a namespace may hold, counted exactly because every write holds the cluster's lock.

// upstream: staging/src/k8s.io/apiserver/pkg/admission/plugin/resourcequota/controller.go CheckRequest (v1.36)

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use klab_api_machinery::object::Object;
use klab_api_machinery::part::Part;
use klab_api_machinery::pod_resources::{Amounts, add, amounts, quality_of_service};
use klab_api_machinery::registry::{self, Quota, usage};
use klab_api_machinery::resource::{self as kinds, RESOURCE_QUOTAS, ResourceId};
use klab_api_machinery::status::Status;
use klab_api_machinery::views::{
    DeviceClass, ObjectMeta, PersistentVolumeClaim, Pod, PodAffinity, ResourceQuota, View, Views,
    WeightedPodAffinityTerm, metadata,
};
use serde_json::{Value, json};

use super::forbidden::forbidden;
use crate::transaction::Transaction;
use klab_fields::track;
use klab_scheduler::quantity::Quantity;

/// Requests and limits that a quota makes mandatory for every container.
const MANDATORY: [&str; 6] = ["cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory"];

/// Says of a claim that it stands for extended resources of its pod.
const EXTENDED: &str = "resource.kubernetes.io/extended-resource-claim";

/// The quotas a write changes the use of, found before the write and carried out after it.
#[derive(Debug, Default)]
pub(crate) struct Bookkeeping {
    changes: Vec<(Arc<Object>, Amounts)>,
    /// Those that are counted each time: what a claim takes depends on its pod.
    recounts: Vec<Arc<Object>>,
}

/// Checks a write against the quotas of its namespace. `old` is `None` for new objects.
///
/// # Errors
/// 403 when a quota would be exceeded, or wants amounts the pod does not state.
pub(crate) fn check_quota(
    transaction: &Transaction<'_>,
    resource: ResourceId,
    namespace: &str,
    old: Option<&Value>,
    new: &Value,
) -> Result<(), Status> {
    // What a pod must state is asked for all quotas before any of them is counted.
    // upstream: plugin/pkg/admission/resourcequota/controller.go CheckRequest (v1.36)
    for object in transaction.state.store.list(RESOURCE_QUOTAS, Some(namespace)) {
        let quota = object.value();
        let quota = ResourceQuota(&quota);
        if old.is_none()
            && resource == kinds::PODS
            && in_scope(quota, resource, new)
            && let Some(missing) = unstated(&amounts(quota.spec().hard()), Pod(new))
        {
            return Err(forbidden(resource, new, &format!("failed quota: {}: {missing}", object.name)));
        }
    }
    for object in transaction.state.store.list(RESOURCE_QUOTAS, Some(namespace)) {
        let quota = object.value();
        let quota = ResourceQuota(&quota);
        if !in_scope(quota, resource, new) {
            continue;
        }
        let hard = amounts(quota.spec().hard());
        let before = old.filter(|old| in_scope(quota, resource, old)).map(|old| taken_by(transaction, resource, old));
        let mut asked = taken_by(transaction, resource, new);
        for (name, amount) in before.iter().flatten() {
            if let Some(more) = asked.get_mut(name) {
                *more -= *amount;
            }
        }
        asked.retain(|name, more| hard.contains_key(name) && !more.is_zero() && !more.is_negative());
        let used = amounts(quota.status().used());
        let over: BTreeSet<&String> = asked
            .iter()
            .filter(|(name, more)| {
                let have = used.get(*name).copied().unwrap_or_default();
                have + **more > hard[*name]
            })
            .map(|(name, _)| name)
            .collect();
        if !over.is_empty() {
            let shown = |from: &Amounts| {
                let list: Vec<String> = over
                    .iter()
                    .map(|name| format!("{name}={}", from.get(*name).copied().unwrap_or_default()))
                    .collect();
                list.join(",")
            };
            let because = format!(
                "exceeded quota: {}, requested: {}, used: {}, limited: {}",
                object.name,
                shown(&asked),
                shown(&used),
                shown(&hard)
            );
            return Err(forbidden(resource, new, &because));
        }
    }
    Ok(())
}

/// What a change means for the quotas of the namespace: to be called before the change is stored.
pub(crate) fn plan_quota(
    transaction: &Transaction<'_>,
    resource: ResourceId,
    namespace: &str,
    old: Option<&Value>,
    new: Option<&Value>,
) -> Bookkeeping {
    let mut plan = Bookkeeping::default();
    if resource == RESOURCE_QUOTAS && new.is_some() {
        return plan;
    }
    for object in transaction.state.store.list(RESOURCE_QUOTAS, Some(namespace)) {
        let quota = object.value();
        let quota = ResourceQuota(&quota);
        let hard = amounts(quota.spec().hard());
        if hard.keys().any(|name| usage::is_extended(name)) && has_extended(transaction, resource, namespace) {
            plan.recounts.push(Arc::clone(object));
            continue;
        }
        let mut change = Amounts::new();
        for (name, sign) in [(new, 1), (old, -1)] {
            let Some(value) = name.filter(|value| in_scope(quota, resource, value)) else { continue };
            for (name, amount) in taken_by(transaction, resource, value) {
                if hard.contains_key(&name) {
                    let slot = change.entry(name).or_insert_with(|| nothing(amount));
                    if sign > 0 { *slot += amount } else { *slot -= amount }
                }
            }
        }
        change.retain(|_, amount| !amount.is_zero());
        if !change.is_empty() {
            plan.changes.push((Arc::clone(object), change));
        }
    }
    plan
}

/// Carries out what [`plan_quota`] found.
pub(crate) fn book(transaction: &mut Transaction<'_>, plan: Bookkeeping) {
    for (object, change) in plan.changes {
        // The quota itself may have gone with this write.
        let Some(current) = transaction.state.store.get(RESOURCE_QUOTAS, &object.namespace, &object.name).cloned()
        else {
            continue;
        };
        let mut value = current.to_value();
        let mut used = amounts(ResourceQuota(&value).status().used());
        for (name, amount) in change {
            let slot = used.entry(name).or_insert_with(|| nothing(amount));
            *slot += amount;
        }
        value["status"]["used"] = shown(&used);
        commit_quota(transaction, &current, value, "kube-apiserver");
    }
    for quota in plan.recounts {
        if let Some(current) = transaction.state.store.get(RESOURCE_QUOTAS, &quota.namespace, &quota.name).cloned() {
            recount_quota(transaction, &current);
        }
    }
}

/// Stores the status of a quota as it is, written by `manager`.
pub(crate) fn commit_quota(
    transaction: &mut Transaction<'_>,
    current: &Object,
    value: Value,
    manager: &str,
) -> Arc<Object> {
    let resource = current.resource;
    let mut value = value;
    let mut writer = transaction.writer(resource, Part::Status);
    writer.manager = manager;
    let managed = track(Some((current, &current.value())), &mut value, &writer);
    let managed = managed.map_or_else(|| current.managed().cloned(), |managed| managed.kept(resource));
    transaction.put(resource, value, managed)
}

/// Whether what pods and claims of a namespace take depends on each other: claims stand for resources of pods.
fn has_extended(transaction: &Transaction<'_>, resource: ResourceId, namespace: &str) -> bool {
    let stands = |claim: &Arc<Object>| is_extended(metadata(&claim.value()));
    resource == kinds::RESOURCE_CLAIMS
        || (resource == kinds::PODS
            && transaction.state.store.list(kinds::RESOURCE_CLAIMS, Some(namespace)).any(stands))
}

fn is_extended(claim: ObjectMeta<'_>) -> bool {
    claim.annotations().get(EXTENDED) == Some("true")
}

/// What an object takes of each countable name.
fn taken_by(transaction: &Transaction<'_>, resource: ResourceId, value: &Value) -> Amounts {
    let mut taken = usage(resource, value);
    if resource == kinds::RESOURCE_CLAIMS {
        let pod = pod_stood_for(transaction, value);
        let of_class = |class: &str| {
            let class = transaction.state.store.get(kinds::DEVICE_CLASSES, "", class)?.value();
            DeviceClass(&class).spec().extended_resource_name().map(str::to_owned)
        };
        usage::extended(value, pod.as_deref(), of_class, &mut |name, amount| {
            taken.insert(name.to_owned(), amount);
        });
    }
    taken
}

/// The pod whose extended resources a claim stands for.
// upstream: pkg/quota/v1/evaluator/core/resource_claims.go getVerifiedPodUsage (v1.36)
fn pod_stood_for(transaction: &Transaction<'_>, claim: &Value) -> Option<Arc<Value>> {
    let own = metadata(claim);
    let owner = own.owner_references().find(|owner| owner.controller() == Some(true)).filter(|_| is_extended(own))?;
    let is_pod = owner.kind() == "Pod" && owner.api_version() == "v1";
    let pod = transaction.state.store.get(kinds::PODS, own.namespace(), owner.name());
    let pod = pod.filter(|pod| is_pod && owner.uid() == &*pod.uid)?;
    let value = pod.value();
    let noted = Pod(&value).status().extended_resource_claim_status();
    if noted.is_set() {
        return (noted.resource_claim_name() == own.name()).then(|| Arc::clone(&value));
    }
    // It does not tell yet: the first one of the pod is meant.
    let age = |claim: ObjectMeta<'_>| (claim.creation_timestamp(), claim.name().to_owned());
    let of_pod = |claim: &&Arc<Object>| claim.controller().is_some_and(|owner| owner.uid == pod.uid);
    let mut claims = transaction.state.store.list(kinds::RESOURCE_CLAIMS, Some(own.namespace())).filter(of_pod);
    let is_earlier = |other: &Arc<Object>| age(metadata(&other.value())) < age(own);
    (!claims.any(is_earlier)).then_some(value)
}

/// Counts what a new or changed quota covers, and writes its status.
pub(crate) fn recount_quota(transaction: &mut Transaction<'_>, quota: &Arc<Object>) {
    let mut value = quota.to_value();
    let hard = amounts(ResourceQuota(&value).spec().hard());
    let mut used: Amounts =
        hard.iter().map(|(name, amount)| (name.clone(), Quantity::ZERO.with_format(amount.format()))).collect();
    let countable = ResourceId::fixed().filter(|id| id.row().namespaced);
    for resource in countable {
        if !hard.keys().any(|name| is_counted(resource, name)) {
            continue;
        }
        for object in transaction.state.store.list(resource, Some(&quota.namespace)) {
            let item = object.value();
            if in_scope(ResourceQuota(&value), resource, &item) {
                let mut counted = taken_by(transaction, resource, &item);
                counted.retain(|name, _| hard.contains_key(name));
                add(&mut used, &counted);
            }
        }
    }
    let status = json!({ "hard": value["spec"]["hard"], "used": shown(&used) });
    if *ResourceQuota(&value).status().0 != status {
        value["status"] = status;
        commit_quota(transaction, quota, value, "kube-controller-manager");
    }
}

/// Zero, printed like `amount`.
fn nothing(amount: Quantity) -> Quantity {
    Quantity::ZERO.with_format(amount.format())
}

fn shown(amounts: &Amounts) -> Value {
    amounts
        .iter()
        .map(|(name, amount)| (name.clone(), json!(amount.to_string())))
        .collect::<serde_json::Map<_, _>>()
        .into()
}

/// Whether objects of the kind can count for the name, as a cheap filter before they are looked at.
fn is_counted(resource: ResourceId, name: &str) -> bool {
    if let Some(counted) = name.strip_prefix("count/") {
        return counted == resource.row().qualified();
    }
    match registry::of(resource).quota {
        None => false,
        Some(Quota::Plural) => name == resource.row().plural,
        Some(Quota::Own { counts, .. }) => counts(name),
    }
}

/// What an object takes of each countable name, as far as it says so itself.
fn usage(resource: ResourceId, value: &Value) -> Amounts {
    let one = Quantity::from_units(1);
    let mut taken = BTreeMap::from([(format!("count/{}", resource.row().qualified()), one)]);
    let mut take = |name: &str, amount: Quantity| {
        taken.insert(name.to_owned(), amount);
    };
    match registry::of(resource).quota {
        None => {}
        Some(Quota::Plural) => take(resource.row().plural, one),
        Some(Quota::Own { usage, .. }) => usage(value, &mut take),
    }
    taken
}

/// Whether the quota's scopes cover the object. Quotas with scopes cover only pods and claims.
fn in_scope(quota: ResourceQuota<'_>, resource: ResourceId, value: &Value) -> bool {
    let named = quota.spec().scopes().map(|scope| (scope, "Exists", Views::of(&Value::Null)));
    let selected = quota.spec().scope_selector().match_expressions();
    let selected = selected.map(|term| (term.scope_name(), term.operator(), term.values()));
    named.chain(selected).all(|(scope, operator, mut values)| {
        if resource == kinds::PERSISTENT_VOLUME_CLAIMS && scope == "VolumeAttributesClass" {
            return has_attributes_class(PersistentVolumeClaim(value), operator, &values);
        }
        if resource != kinds::PODS {
            return false;
        }
        let spec = Pod(value).spec();
        let terminating = spec.active_deadline_seconds().is_some_and(|seconds| seconds >= 0);
        match scope {
            "Terminating" => terminating,
            "NotTerminating" => !terminating,
            "BestEffort" => quality_of_service(value) == "BestEffort",
            "NotBestEffort" => quality_of_service(value) != "BestEffort",
            "PriorityClass" => {
                let class = spec.priority_class_name();
                let listed = values.any(|value| value == class);
                match operator {
                    "In" => listed,
                    "NotIn" => !listed,
                    "DoesNotExist" => class.is_empty(),
                    _ => !class.is_empty(),
                }
            }
            "CrossNamespacePodAffinity" => {
                let affinity = spec.affinity();
                // The two have the same fields.
                crosses(affinity.pod_affinity()) || crosses(PodAffinity(affinity.pod_anti_affinity().0))
            }
            _ => false,
        }
    })
}

/// Whether a claim names a class of attributes that is asked for, or did until now.
// upstream: pkg/quota/v1/evaluator/core/persistent_volume_claims.go pvcMatchesSelector (v1.36)
fn has_attributes_class(claim: PersistentVolumeClaim<'_>, operator: &str, values: &Views<'_, &str>) -> bool {
    let status = claim.status();
    let classes = [
        claim.spec().volume_attributes_class_name().unwrap_or_default(),
        status.current_volume_attributes_class_name().unwrap_or_default(),
        status.modify_volume_status().target_volume_attributes_class_name(),
    ];
    let classes: Vec<&str> = classes.into_iter().filter(|class| !class.is_empty()).collect();
    let listed = |class: &&str| values.clone().any(|value| value == *class);
    match operator {
        "In" => classes.iter().any(listed),
        "NotIn" => classes.is_empty() || !classes.iter().all(listed),
        "DoesNotExist" => classes.is_empty(),
        _ => !classes.is_empty(),
    }
}

fn crosses(affinity: PodAffinity<'_>) -> bool {
    let required = affinity.required_during_scheduling_ignored_during_execution();
    let preferred = affinity.preferred_during_scheduling_ignored_during_execution();
    let mut terms = required.chain(preferred.map(WeightedPodAffinityTerm::pod_affinity_term));
    terms.any(|term| !term.namespaces().is_empty() || term.namespace_selector().is_set())
}

/// `must specify limits.cpu for: main; requests.cpu for: main`, if the quota counts what containers leave open.
fn unstated(hard: &Amounts, pod: Pod<'_>) -> Option<String> {
    let mut missing: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for container in pod.spec().containers().chain(pod.spec().init_containers()) {
        for name in MANDATORY.iter().filter(|name| hard.contains_key(**name)) {
            let (field, resource) = name.split_once('.').unwrap_or(("requests", *name));
            let resources = container.resources();
            let stated = if field == "limits" { resources.limits() } else { resources.requests() };
            if stated.get(resource).is_none() {
                missing.entry(name).or_default().push(container.name());
            }
        }
    }
    if missing.is_empty() {
        return None;
    }
    let parts: Vec<String> = missing
        .into_iter()
        .map(|(name, mut containers)| {
            containers.sort_unstable();
            format!("{name} for: {}", containers.join(","))
        })
        .collect();
    Some(format!("must specify {}", parts.join("; ")))
}
