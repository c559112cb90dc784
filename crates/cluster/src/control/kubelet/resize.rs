//! Containers that are given other resources while they run.

// upstream: pkg/kubelet/allocation/allocation_manager.go handlePodResourcesResize (v1.36)
// upstream: pkg/kubelet/status/status_manager.go SetPodResizePendingCondition (v1.36)

use jiff::SignedDuration;
use klab_api_machinery::value::time_text;
use klab_api_machinery::views::{Pod, ResourceRequirements};
use serde_json::{Value, json};

use super::super::plane::Plane;
use super::super::view::NodeInfo;
use super::container::Role;
use super::fields::put_resources;
use super::life::{KILLED, Look};
use crate::clock::later;

const PENDING: &str = "PodResizePending";
const IN_PROGRESS: &str = "PodResizeInProgress";
/// How long it takes until containers have what they were granted.
const ACTUATION: SignedDuration = SignedDuration::from_secs(1);

/// What a look at a pod's resources says of it.
#[derive(Debug, Default)]
pub(super) struct Resized {
    /// Conditions of the pod that hold.
    pub(super) conditions: Vec<Value>,
    /// Conditions that no longer hold.
    pub(super) lifted: Vec<&'static str>,
    /// Events about the pod: whether a warning, reason, message.
    pub(super) said: Vec<(bool, &'static str, String)>,
    /// Whether it waits for room on its node.
    pub(super) deferred: bool,
}

/// Resources as they are compared: without claims, and nothing where there is nothing.
fn given(resources: ResourceRequirements<'_>) -> Value {
    let mut given = json!({});
    for (field, amounts) in [("limits", resources.limits()), ("requests", resources.requests())] {
        if !amounts.is_empty() {
            given[field] = resources.0[field].clone();
        }
    }
    given
}

impl Plane {
    /// Takes a running pod's wishes for other resources one step further.
    pub(super) fn resize(&self, look: &mut Look<'_, '_>, node: &NodeInfo) -> Resized {
        let mut resized = Resized::default();
        let (value, now) = (look.value, look.now);
        let generation = value.metadata().generation();
        let condition = |kind: &str| value.status().conditions().of_type(kind);
        let has = |kind: &str| condition(kind).is_some();
        let wanting: Vec<usize> = (0..look.containers.len())
            .filter(|index| {
                let container = &look.containers[*index];
                container.role != Role::Ephemeral
                    && container.is_running()
                    && given(container.spec.resources()) != given(container.view().resources())
            })
            .collect();
        if wanting.is_empty() {
            resized.lifted.extend([PENDING, IN_PROGRESS].into_iter().filter(|kind| has(kind)));
            return resized;
        }
        if let Some(begun) = condition(IN_PROGRESS).filter(|begun| begun.observed_generation() == generation) {
            let end = later(begun.last_transition_time().unwrap_or(now), ACTUATION);
            if end > now {
                look.wake(end);
                resized.conditions.push(begun.0.clone());
                return resized;
            }
            for index in wanting {
                actuate(look, index);
            }
            resized.lifted.extend([PENDING, IN_PROGRESS].into_iter().filter(|kind| has(kind)));
            resized.said.push((false, "ResizeCompleted", summary("Pod resize completed", value, "")));
            return resized;
        }
        let make = |kind: &str| {
            json!({
                "type": kind, "status": "True", "observedGeneration": generation, "lastProbeTime": null,
                "lastTransitionTime": time_text(now),
            })
        };
        let refusal = if node.object.label("kubernetes.io/os") == Some("windows") {
            Some(("Infeasible", "In-place pod resize is not supported on Windows".to_owned()))
        } else {
            self.shortage(look.pod, value).map(|shortage| ("Deferred", shortage.message))
        };
        let Some((reason, message)) = refusal else {
            for index in wanting {
                let requests = look.containers[index].spec.resources().0["requests"].clone();
                look.containers[index].set("allocatedResources", requests);
            }
            resized.lifted.extend(has(PENDING).then_some(PENDING));
            resized.conditions.push(make(IN_PROGRESS));
            resized.said.push((false, "ResizeStarted", summary("Pod resize started", value, "")));
            look.wake(later(now, ACTUATION));
            return resized;
        };
        let known =
            condition(PENDING).is_some_and(|have| have.reason() == reason && have.observed_generation() == generation);
        if !known {
            let event = if reason == "Infeasible" { "ResizeInfeasible" } else { "ResizeDeferred" };
            resized.said.push((true, event, summary(&format!("Pod resize {reason}"), value, &message)));
        }
        let mut pending = make(PENDING);
        (pending["reason"], pending["message"]) = (json!(reason), json!(message));
        resized.conditions.push(pending);
        resized.deferred = reason == "Deferred";
        resized
    }
}

/// A container gets what it was granted; it starts again where its policy asks for that.
fn actuate(look: &mut Look<'_, '_>, index: usize) {
    let spec = look.containers[index].spec;
    let (wanted, have) = (spec.resources(), look.containers[index].view().resources());
    let differs = |name: &str| {
        wanted.requests().get(name) != have.requests().get(name) || wanted.limits().get(name) != have.limits().get(name)
    };
    let restart = spec
        .resize_policy()
        .any(|policy| policy.restart_policy() == "RestartContainer" && differs(policy.resource_name()));
    if restart {
        let code = look.program(index).on_term.map_or(KILLED, |(_, code)| code);
        look.restart(index, code);
    }
    let container = &mut look.containers[index];
    put_resources(&mut container.status, wanted);
    container.changed = true;
}

/// What an event says of a resize: all containers with the resources asked for.
// upstream: pkg/kubelet/events/resize.go makeResourceSummaryFromSpec (v1.36)
fn summary(what: &str, pod: Pod<'_>, error: &str) -> String {
    let mut summary = json!({});
    for role in [Role::Init, Role::Main] {
        let all: Vec<Value> = role
            .containers(pod)
            .map(|container| json!({ "name": container.name(), "resources": given(container.resources()) }))
            .collect();
        if !all.is_empty() {
            summary[role.field()] = json!(all);
        }
    }
    summary["generation"] = json!(pod.metadata().generation());
    if !error.is_empty() {
        summary["error"] = json!(error);
    }
    format!("{what}: {summary}")
}
