//! What a kubelet makes of a pod's containers: its phase and its conditions.

// upstream: pkg/kubelet/status/generate.go (v1.36)
// upstream: pkg/kubelet/kubelet_pods.go getPhase (v1.36)

use jiff::Timestamp;
use klab_api_machinery::value::time_text;
use klab_api_machinery::views::{Pod, PodCondition, PodReadinessGate};
use serde_json::{Value, json};

use super::super::events::reference;
use super::super::view::{Phase, PodInfo};
use super::container::{Container, Role, State};
use super::restart::restarts;

/// The phase of a pod whose containers are like this. `over`: none of them will run again.
pub(super) fn phase(pod: Pod<'_>, containers: &[Container<'_>], over: bool) -> Phase {
    let mains = || containers.iter().filter(|container| container.role == Role::Main);
    let begun = mains().any(Container::has_started);
    let (mut initializing, mut failed) = (false, false);
    for container in containers.iter().filter(|container| container.role == Role::Init) {
        let end = match container.state() {
            State::Waiting => container.last_end(),
            State::Ended { .. } => Some(container.state()),
            State::Running(_) => None,
        };
        match end {
            Some(State::Ended { code, .. }) if code != 0 => {
                failed |= !container.is_reset() && !restarts(pod, container, code);
            }
            Some(_) => {}
            None => initializing = true,
        }
    }
    let (mut running, mut waiting, mut stopped, mut succeeded, mut left) = (0, 0, 0, 0, false);
    for container in containers.iter().filter(|container| matches!(container.role, Role::Main | Role::Sidecar)) {
        let sidecar = container.role == Role::Sidecar;
        match container.state() {
            State::Running(_) => {
                running += 1;
                initializing |= sidecar && !container.is_started();
            }
            State::Waiting if container.last_end().is_none() => {
                waiting += 1;
                initializing |= sidecar;
            }
            _ if sidecar => {}
            state => {
                stopped += 1;
                let end = if state == State::Waiting { container.last_end() } else { Some(state) };
                if let Some(State::Ended { code, .. }) = end {
                    succeeded += usize::from(code == 0 && state != State::Waiting);
                    left |= container.is_reset() || restarts(pod, container, code);
                }
            }
        }
    }
    if failed && running == 0 {
        return Phase::Failed;
    }
    if initializing && !begun || waiting > 0 {
        return Phase::Pending;
    }
    if running > 0 {
        return Phase::Running;
    }
    if stopped == 0 {
        return Phase::Pending;
    }
    match (over || !left, stopped == succeeded) {
        (true, true) => Phase::Succeeded,
        (true, false) => Phase::Failed,
        (false, _) => Phase::Running,
    }
}

/// A phase as a status has it.
pub(super) fn phase_text(phase: Phase) -> &'static str {
    match phase {
        Phase::Pending => "Pending",
        Phase::Running => "Running",
        Phase::Succeeded => "Succeeded",
        Phase::Failed => "Failed",
        Phase::Unknown => "Unknown",
    }
}

/// The conditions that a kubelet keeps, in its order.
pub(super) fn conditions(
    pod: Pod<'_>,
    containers: &[Container<'_>],
    phase: Phase,
    sandbox: bool,
    now: Timestamp,
) -> Vec<Value> {
    let over = matches!(phase, Phase::Succeeded | Phase::Failed);
    let make = |kind: &str, held: bool, reason: &str, message: &str| {
        let mut condition = json!({
            "type": kind, "observedGeneration": pod.metadata().generation(),
            "status": if held { "True" } else { "False" }, "lastProbeTime": null, "lastTransitionTime": time_text(now),
        });
        if !reason.is_empty() {
            condition["reason"] = json!(reason);
        }
        if !message.is_empty() {
            condition["message"] = json!(message);
        }
        condition
    };
    let list = |what: &str, names: &[&str]| match names {
        [] => String::new(),
        names => format!("containers with {what} status: [{}]", names.join(" ")),
    };
    let incomplete: Vec<&str> = containers
        .iter()
        .filter(|container| match container.role {
            Role::Init => !container.view().ready(),
            Role::Sidecar => !container.is_started(),
            Role::Main | Role::Ephemeral => false,
        })
        .map(Container::name)
        .collect();
    let begun = containers.iter().any(|container| container.role == Role::Main && container.has_started());
    let initialized = if phase == Phase::Succeeded {
        make("Initialized", true, "PodCompleted", "")
    } else if incomplete.is_empty() || begun {
        make("Initialized", true, "", "")
    } else {
        make("Initialized", false, "ContainersNotInitialized", &list("incomplete", &incomplete))
    };
    let unready: Vec<&str> = containers
        .iter()
        .filter(|container| matches!(container.role, Role::Main | Role::Sidecar) && !container.view().ready())
        .map(Container::name)
        .collect();
    let contained = |kind: &str| match phase {
        Phase::Succeeded => make(kind, false, "PodCompleted", ""),
        Phase::Failed => make(kind, false, "PodFailed", ""),
        _ if unready.is_empty() => make(kind, true, "", ""),
        _ => make(kind, false, "ContainersNotReady", &list("unready", &unready)),
    };
    let mut ready = contained("Ready");
    if PodCondition(&ready).status() == "True" {
        let gates = unmet_gates(pod);
        if !gates.is_empty() {
            ready = make("Ready", false, "ReadinessGatesNotReady", &gates);
        }
    }
    vec![make("PodReadyToStartContainers", sandbox && !over, "", ""), initialized, ready, contained("ContainersReady")]
}

/// What the pod's readiness gates still wait for.
fn unmet_gates(pod: Pod<'_>) -> String {
    let unmet = |gate: PodReadinessGate<'_>| {
        let kind = gate.condition_type();
        match pod.status().conditions().of_type(kind).map(PodCondition::status) {
            None => Some(format!("corresponding condition of pod readiness gate \"{kind}\" does not exist.")),
            Some("True") => None,
            Some(status) => Some(format!("the status of pod readiness gate \"{kind}\" is not \"True\", but {status}")),
        }
    };
    pod.spec().readiness_gates().filter_map(unmet).collect::<Vec<_>>().join(", ")
}

pub(super) fn container_reference(pod: &PodInfo, field: &str, container: &str) -> Value {
    let mut about = reference(&pod.object);
    about["fieldPath"] = json!(format!("spec.{field}{{{container}}}"));
    about
}

#[cfg(test)]
mod tests {
    use super::super::container::containers;
    use super::*;

    fn pod(policy: &str, init: &[Value], mains: &[Value]) -> Value {
        let named = |prefix: &str, states: &[Value]| -> (Vec<Value>, Vec<Value>) {
            let name = |at: usize| format!("{prefix}{at}");
            (
                (0..states.len()).map(|at| json!({ "name": name(at) })).collect(),
                states
                    .iter()
                    .enumerate()
                    .map(|(at, state)| json!({ "name": name(at), "state": state, "containerID": (state["waiting"].is_null()).then_some("c") }))
                    .collect(),
            )
        };
        let ((init, init_statuses), (mains, statuses)) = (named("i", init), named("m", mains));
        json!({
            "spec": { "restartPolicy": policy, "initContainers": init, "containers": mains },
            "status": { "initContainerStatuses": init_statuses, "containerStatuses": statuses },
        })
    }

    #[test]
    fn phases_follow_from_containers_and_policy() {
        let run = || json!({ "running": { "startedAt": "2026-06-01T08:00:00Z" } });
        let end = |code: i64| json!({ "terminated": { "exitCode": code, "finishedAt": "2026-06-01T08:00:00Z" } });
        let wait = || json!({ "waiting": { "reason": "x" } });
        for (policy, init, mains, expected) in [
            ("Always", vec![], vec![run()], Phase::Running),
            ("Always", vec![], vec![run(), wait()], Phase::Pending),
            ("Always", vec![], vec![end(0)], Phase::Running),
            ("Never", vec![], vec![end(0), end(0)], Phase::Succeeded),
            ("Never", vec![], vec![end(0), end(3)], Phase::Failed),
            ("Never", vec![], vec![end(3), run()], Phase::Running),
            ("OnFailure", vec![], vec![end(0), end(3)], Phase::Running),
            ("OnFailure", vec![], vec![end(0)], Phase::Succeeded),
            ("Always", vec![run()], vec![wait()], Phase::Pending),
            ("Never", vec![end(1)], vec![wait()], Phase::Failed),
            ("Always", vec![end(1)], vec![wait()], Phase::Pending),
            ("Always", vec![end(0)], vec![run()], Phase::Running),
        ] {
            let pod = pod(policy, &init, &mains);
            assert_eq!(phase(Pod(&pod), &containers(Pod(&pod)), false), expected, "{policy} {init:?} {mains:?}");
        }
        let deleted = pod("Always", &[], &[end(0)]);
        assert_eq!(phase(Pod(&deleted), &containers(Pod(&deleted)), true), Phase::Succeeded);
    }
}
