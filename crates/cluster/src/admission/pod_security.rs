//! Pod security: what the labels of a namespace let its pods do. Pods that do more are refused, or warned of.

// upstream: staging/src/k8s.io/pod-security-admission/admission/admission.go Validate, ValidateNamespace, ValidatePod,
// ValidatePodController, EvaluatePodsInNamespace, isSignificantPodUpdate (v1.36)

use std::collections::BTreeMap;

use klab_api_machinery::part::Part;
use klab_api_machinery::pod_security::{Finding, Level, Modes, Standard, Template, evaluate};
use klab_api_machinery::resource::{
    CRON_JOBS, DAEMON_SETS, DEPLOYMENTS, JOBS, NAMESPACES, POD_TEMPLATES, PODS, REPLICA_SETS, REPLICATION_CONTROLLERS,
    ResourceId, STATEFUL_SETS,
};
use klab_api_machinery::status::Status;
use klab_api_machinery::validation::Errors;
use klab_api_machinery::views::{Container, EphemeralContainer, Pod, metadata};
use serde_json::Value;

use crate::transaction::Transaction;

/// How many pods of a namespace are looked at when its labels become stricter.
const MAX_PODS: usize = 3000;

/// Something that is about to be stored.
pub(crate) struct Candidate<'a> {
    pub(crate) resource: ResourceId,
    pub(crate) part: Part,
    pub(crate) namespace: &'a str,
    pub(crate) name: &'a str,
    pub(crate) old: Option<&'a Value>,
    pub(crate) new: &'a Value,
}

/// Holds a pod, or what makes pods, against the standards that its namespace asks for; and a namespace's labels against
/// the standards there are.
///
/// # Errors
/// 403 for a pod that violates the enforced standard, 422 for labels that name none.
pub(crate) fn check_pod_security(transaction: &mut Transaction<'_>, candidate: &Candidate<'_>) -> Result<(), Status> {
    if candidate.resource == NAMESPACES {
        return if candidate.part == Part::Main { check_labels(transaction, candidate) } else { Ok(()) };
    }
    let is_pod = candidate.resource == PODS;
    let ignored = if is_pod { Part::Status == candidate.part } else { Part::Main != candidate.part };
    if ignored || (is_pod && candidate.old.is_some_and(|old| !is_significant(old, candidate.new))) {
        return Ok(());
    }
    let Some(pod) = template(candidate.resource, candidate.new) else { return Ok(()) };
    let Some(namespace) = transaction.state.store.get(NAMESPACES, "", candidate.namespace) else { return Ok(()) };
    let (modes, _) = Modes::of(&metadata(&namespace.value()).0["labels"]);
    let says = |standard: Standard, found: &[Finding]| format!("PodSecurity \"{standard}\": {}", details(found));
    if is_pod {
        let found = evaluate(modes.enforce, &pod);
        if !found.is_empty() {
            let because = format!("violates {}", says(modes.enforce, &found));
            return Err(Status::forbidden(candidate.resource.row(), candidate.name, &because));
        }
    }
    let found = evaluate(modes.warn, &pod);
    if !found.is_empty() {
        transaction.warnings.push(format!("would violate {}", says(modes.warn, &found)));
    }
    Ok(())
}

fn check_labels(transaction: &mut Transaction<'_>, candidate: &Candidate<'_>) -> Result<(), Status> {
    let (modes, faults) = Modes::of(&metadata(candidate.new).0["labels"]);
    let (before, had) = candidate.old.map_or_else(Default::default, |old| Modes::of(&metadata(old).0["labels"]));
    if !faults.is_empty() && faults != had {
        let mut errors = Errors::default();
        for (label, value, fault) in faults {
            errors.invalid(format!("metadata.labels[{label}]"), &Value::String(value), fault);
        }
        return errors.into_result(candidate.resource.row(), candidate.name);
    }
    let relaxed = modes.enforce.version == before.enforce.version && modes.enforce.level <= before.enforce.level;
    if candidate.old.is_some() && modes.enforce.level != Level::Privileged && !relaxed {
        warn_of_pods(transaction, candidate.name, modes.enforce);
    }
    Ok(())
}

/// Names the pods of a namespace that would be refused now.
fn warn_of_pods(transaction: &mut Transaction<'_>, namespace: &str, enforce: Standard) {
    let pods: Vec<_> = transaction.state.store.list(PODS, Some(namespace)).cloned().collect();
    let mut violations: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for object in pods.iter().take(MAX_PODS) {
        let value = object.value();
        let Some(pod) = template(PODS, &value) else { continue };
        let found = evaluate(enforce, &pod);
        if !found.is_empty() {
            let reasons: Vec<&str> = found.iter().map(|finding| finding.reason.as_str()).collect();
            violations.entry(reasons.join(", ")).or_default().push(object.name.to_string());
        }
    }
    if pods.len() > MAX_PODS {
        transaction.warnings.push(format!(
            "new PodSecurity enforce level only checked against the first {MAX_PODS} of {} existing pods",
            pods.len()
        ));
    }
    if violations.is_empty() {
        return;
    }
    transaction.warnings.push(format!(
        "existing pods in namespace \"{namespace}\" violate the new PodSecurity enforce level \"{enforce}\""
    ));
    let mut lines: Vec<String> = violations
        .into_iter()
        .filter_map(|(reasons, names)| {
            let first = names.iter().min()?;
            Some(match names.len() {
                1 => format!("{first}: {reasons}"),
                2 => format!("{first} (and 1 other pod): {reasons}"),
                many => format!("{first} (and {} other pods): {reasons}", many - 1),
            })
        })
        .collect();
    lines.sort();
    transaction.warnings.append(&mut lines);
}

/// The pod that an object is, or makes others of.
fn template(resource: ResourceId, value: &Value) -> Option<Template<'_>> {
    let template = match resource {
        PODS => value,
        POD_TEMPLATES => &value["template"],
        REPLICATION_CONTROLLERS | REPLICA_SETS | DEPLOYMENTS | STATEFUL_SETS | DAEMON_SETS | JOBS => {
            &value["spec"]["template"]
        }
        CRON_JOBS => &value["spec"]["jobTemplate"]["spec"]["template"],
        _ => return None,
    };
    let spec = &template["spec"];
    spec.is_object().then(|| Template { annotations: &template["metadata"]["annotations"], spec })
}

/// Whether a change of a pod is one that may make it violate a standard: other containers, or other images.
fn is_significant(old: &Value, new: &Value) -> bool {
    let (old, new) = (Pod(old).spec(), Pod(new).spec());
    let is_as_before = |container: EphemeralContainer<'_>| {
        let had = old.ephemeral_containers().named(container.name());
        had.is_some_and(|had| had.image() == container.image())
    };
    !old.containers().map(Container::image).eq(new.containers().map(Container::image))
        || !old.init_containers().map(Container::image).eq(new.init_containers().map(Container::image))
        || !new.ephemeral_containers().all(is_as_before)
}

fn details(found: &[Finding]) -> String {
    found.iter().map(|finding| format!("{} ({})", finding.reason, finding.detail)).collect::<Vec<_>>().join(", ")
}
