//! Containers that are given other resources while they run.

// upstream: pkg/kubelet/allocation/allocation_manager.go handlePodResourcesResize (v1.36)
// upstream: pkg/kubelet/status/status_manager.go SetPodResizePendingCondition (v1.36)

use jiff::SignedDuration;
use klab_api_machinery::value::{condition, items, map_mut, text, time_of, time_text};
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
fn given(resources: &Value) -> Value {
    let mut given = json!({});
    for field in ["limits", "requests"] {
        if resources[field].as_object().is_some_and(|amounts| !amounts.is_empty()) {
            given[field] = resources[field].clone();
        }
    }
    given
}

impl Plane {
    /// Takes a running pod's wishes for other resources one step further.
    pub(super) fn resize(&self, look: &mut Look<'_, '_>, node: &NodeInfo) -> Resized {
        let mut resized = Resized::default();
        let (value, now) = (look.value, look.now);
        let conditions = &value["status"]["conditions"];
        let has = |kind: &str| condition(conditions, kind).is_some();
        let wanting: Vec<usize> = (0..look.containers.len())
            .filter(|index| {
                let container = &look.containers[*index];
                container.role != Role::Ephemeral
                    && container.is_running()
                    && given(&container.spec["resources"]) != given(&container.status["resources"])
            })
            .collect();
        if wanting.is_empty() {
            resized.lifted.extend([PENDING, IN_PROGRESS].into_iter().filter(|kind| has(kind)));
            return resized;
        }
        let generation = &value["metadata"]["generation"];
        if let Some(begun) =
            condition(conditions, IN_PROGRESS).filter(|begun| begun["observedGeneration"] == *generation)
        {
            let end = later(time_of(&begun["lastTransitionTime"]).unwrap_or(now), ACTUATION);
            if end > now {
                look.wake(end);
                resized.conditions.push(begun.clone());
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
                let requests = look.containers[index].spec["resources"]["requests"].clone();
                look.containers[index].set("allocatedResources", requests);
            }
            resized.lifted.extend(has(PENDING).then_some(PENDING));
            resized.conditions.push(make(IN_PROGRESS));
            resized.said.push((false, "ResizeStarted", summary("Pod resize started", value, "")));
            look.wake(later(now, ACTUATION));
            return resized;
        };
        let known = condition(conditions, PENDING)
            .is_some_and(|have| have["reason"] == reason && have["observedGeneration"] == *generation);
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
    let (wanted, have) = (&spec["resources"], &look.containers[index].status["resources"]);
    let differs = |name: &str| ["requests", "limits"].iter().any(|field| wanted[*field][name] != have[*field][name]);
    let restart = items(&spec["resizePolicy"])
        .iter()
        .any(|policy| policy["restartPolicy"] == "RestartContainer" && differs(text(policy, &["resourceName"])));
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
fn summary(what: &str, pod: &Value, error: &str) -> String {
    let list = |field: &str| -> Vec<Value> {
        items(&pod["spec"][field])
            .iter()
            .map(|container| json!({ "name": container["name"], "resources": given(&container["resources"]) }))
            .collect()
    };
    let mut summary = json!({});
    let fields = map_mut(&mut summary);
    for field in ["initContainers", "containers"] {
        let all = list(field);
        if !all.is_empty() {
            fields.insert(field.to_owned(), Value::Array(all));
        }
    }
    fields.insert("generation".to_owned(), pod["metadata"]["generation"].clone());
    if !error.is_empty() {
        fields.insert("error".to_owned(), json!(error));
    }
    format!("{what}: {summary}")
}
