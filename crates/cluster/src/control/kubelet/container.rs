//! A container as a kubelet sees it: what is asked for, and its status, which says what it has come to.

use jiff::{SignedDuration, Timestamp};
use klab_api_machinery::value::time_text;
use klab_api_machinery::views::{self, ContainerStateTerminated, ContainerStatus, Pod, View, Views};
use serde_json::{Value, json};

use super::fields::{identified, unstarted};
use super::killing::{Killing, LOST, LOST_MESSAGE};
use klab_containers::{Containers, End};

/// Which list of the pod a container is in, and what that means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// Runs to its end before the others start.
    Init,
    /// An init container that goes on running beside the others.
    Sidecar,
    /// What the pod is for.
    Main,
    /// Put into a running pod, for a look around.
    Ephemeral,
}

impl Role {
    /// The list of containers in the spec.
    pub(super) fn field(self) -> &'static str {
        match self {
            Self::Init | Self::Sidecar => "initContainers",
            Self::Main => "containers",
            Self::Ephemeral => "ephemeralContainers",
        }
    }

    /// The containers in it.
    pub(super) fn containers(self, pod: Pod<'_>) -> Views<'_, views::Container<'_>> {
        View::of(&pod.spec().0[self.field()])
    }

    /// The list of their statuses.
    fn statuses(self) -> &'static str {
        match self {
            Self::Init | Self::Sidecar => "initContainerStatuses",
            Self::Main => "containerStatuses",
            Self::Ephemeral => "ephemeralContainerStatuses",
        }
    }
}

/// The reason and the message of a container that waits until all containers start again.
// upstream: pkg/kubelet/kubelet_pods.go convertToAPIContainerStatuses (v1.36)
const RESTARTING: &str = "RestartingAllContainers";
const REMOVED: &str = "The container is removed because RestartAllContainers in place";

/// What a container does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// It has not started, or waits to be started again.
    Waiting,
    /// It runs since then.
    Running(Timestamp),
    /// It has ended with this code; it ran from, until.
    Ended { code: i64, since: Timestamp, at: Timestamp },
}

/// One container of a pod, and its status.
#[derive(Debug)]
pub(super) struct Container<'a> {
    pub(super) spec: views::Container<'a>,
    pub(super) role: Role,
    pub(super) status: Value,
    /// Whether the status is another than the pod's.
    pub(super) changed: bool,
}

/// All containers of a pod: init containers and sidecars in their order, then the main ones, then ephemeral ones.
pub(super) fn containers(pod: Pod<'_>) -> Vec<Container<'_>> {
    let initializes = !pod.spec().init_containers().is_empty();
    let mut all = Vec::new();
    for list in [Role::Init, Role::Main, Role::Ephemeral] {
        let statuses = Views::<&Value>::of(&pod.status().0[list.statuses()]);
        for spec in list.containers(pod) {
            let role = match list {
                Role::Init if spec.restart_policy() == Some("Always") => Role::Sidecar,
                list => list,
            };
            let have = statuses.clone().named(spec.name());
            let status = have.cloned().unwrap_or_else(|| {
                let reason =
                    if initializes && list != Role::Ephemeral { "PodInitializing" } else { "ContainerCreating" };
                unstarted(spec, json!({ "waiting": { "reason": reason } }))
            });
            all.push(Container { spec, role, status, changed: have.is_none() });
        }
    }
    all
}

/// The statuses as fields of a pod's status; lists of which there are no containers are left out.
pub(super) fn statuses(containers: &[Container<'_>]) -> Vec<(&'static str, Value)> {
    [Role::Init, Role::Main, Role::Ephemeral]
        .into_iter()
        .filter_map(|list| {
            let all: Vec<Value> = containers
                .iter()
                .filter(|container| container.role.field() == list.field())
                .map(|container| container.status.clone())
                .collect();
            (!all.is_empty()).then(|| (list.statuses(), Value::Array(all)))
        })
        .collect()
}

fn ended(terminated: ContainerStateTerminated<'_>) -> Option<State> {
    let at = terminated.finished_at();
    terminated.is_set().then(|| State::Ended {
        code: terminated.exit_code(),
        since: terminated.started_at().or(at).unwrap_or_default(),
        at: at.unwrap_or_default(),
    })
}

impl<'a> Container<'a> {
    pub(super) fn name(&self) -> &'a str {
        self.spec.name()
    }

    pub(super) fn image(&self) -> &'a str {
        self.spec.image()
    }

    /// Its status to read.
    pub(super) fn view(&self) -> ContainerStatus<'_> {
        ContainerStatus(&self.status)
    }

    /// How long the hook takes that runs before the container ends.
    pub(super) fn pre_stop(&self, programs: &dyn Containers) -> SignedDuration {
        let hook = self.spec.lifecycle().pre_stop();
        if hook.sleep().is_set() {
            return SignedDuration::from_secs(hook.sleep().seconds().max(0));
        }
        if hook.exec().command().is_empty() {
            return SignedDuration::ZERO;
        }
        let of = klab_containers::Container { objects: None, pod: &Value::Null, container: hook.exec().0 };
        match programs.program(of, None, None, None).course.end {
            End::After(took, _) | End::Unknown(took, _) => took,
            End::Never => SignedDuration::MAX,
        }
    }

    pub(super) fn state(&self) -> State {
        let state = self.view().state();
        if let Some(since) = state.running().started_at() {
            return State::Running(since);
        }
        ended(state.terminated()).unwrap_or(State::Waiting)
    }

    /// How it ended before it came to wait or to run again.
    pub(super) fn last_end(&self) -> Option<State> {
        ended(self.view().last_state().terminated())
    }

    pub(super) fn is_running(&self) -> bool {
        matches!(self.state(), State::Running(_))
    }

    /// Whether it runs or has run.
    pub(super) fn has_started(&self) -> bool {
        !self.view().container_id().is_empty()
    }

    /// Why it waits.
    pub(super) fn waits_for(&self) -> &str {
        self.view().state().waiting().reason()
    }

    pub(super) fn restarts(&self) -> i64 {
        self.view().restart_count()
    }

    /// Whether a running container has passed its startup probe.
    pub(super) fn is_started(&self) -> bool {
        self.view().started() == Some(true)
    }

    /// Sets a field of the status.
    pub(super) fn set(&mut self, field: &str, value: Value) {
        if self.status[field] != value {
            self.status[field] = value;
            self.changed = true;
        }
    }

    /// It starts, for the first time or again.
    pub(super) fn start(&mut self, pod_uid: &str, now: Timestamp, with_resources: bool) {
        let again = self.has_started();
        let before = match self.status["state"]["terminated"].take() {
            Value::Null => self.status["lastState"].take(),
            terminated => json!({ "terminated": terminated }),
        };
        let restarts = self.restarts() + i64::from(again);
        self.status = identified(self.spec, pod_uid, restarts, with_resources);
        self.status["state"] = json!({ "running": { "startedAt": time_text(now) } });
        // upstream: pkg/kubelet/prober/prober_manager.go UpdatePodStatus: ready is an init container that has succeeded.
        self.status["ready"] = json!(self.role != Role::Init);
        if before.is_object() {
            self.status["lastState"] = before;
        }
        self.changed = true;
    }

    /// Whether it waits until all containers start again.
    pub(super) fn is_reset(&self) -> bool {
        self.waits_for() == RESTARTING
    }

    /// It is removed, and starts again with all others.
    pub(super) fn reset(&mut self) {
        let restarts = self.restarts() + i64::from(self.has_started());
        let last =
            json!({ "exitCode": 137, "reason": RESTARTING, "message": REMOVED, "startedAt": null, "finishedAt": null });
        self.status = unstarted(self.spec, json!({ "waiting": { "reason": RESTARTING, "message": REMOVED } }));
        self.status["lastState"] = json!({ "terminated": last });
        self.status["restartCount"] = json!(restarts);
        self.changed = true;
    }

    /// What another program than the kubelet has done to it while it ran, which [`kill`] has noted.
    pub(super) fn killing(&self) -> Option<Killing> {
        let terminated = self.view().state().terminated();
        let killing = if terminated.reason() == LOST { Killing::Removed } else { Killing::Stopped };
        (self.is_running() && terminated.is_set()).then_some(killing)
    }

    /// Its kubelet finds nothing of it any more. Where it lost the last one, too, it counts no further start.
    // upstream: pkg/kubelet/kubelet_pods.go convertToAPIContainerStatuses (v1.36)
    pub(super) fn lose(&mut self) {
        let (before, restarts) = (self.status["lastState"].take(), self.restarts());
        let was_lost = before["terminated"]["reason"] == LOST;
        let last = json!({ "terminated": {
            "exitCode": 137, "reason": LOST, "message": LOST_MESSAGE, "startedAt": null, "finishedAt": null,
        }});
        self.status = unstarted(self.spec, json!({ "waiting": { "reason": "ContainerCreating" } }));
        self.status["lastState"] = if before["terminated"].is_object() { before } else { last };
        self.status["restartCount"] = json!(restarts.saturating_add(i64::from(!was_lost)));
        self.changed = true;
    }

    /// It ends.
    pub(super) fn end(&mut self, code: i64, now: Timestamp, message: Option<String>) {
        let reason = if code == 0 { "Completed" } else { "Error" };
        self.status["state"] = json!({ "terminated": {
            "exitCode": code, "reason": reason, "startedAt": self.status["state"]["running"]["startedAt"],
            "finishedAt": time_text(now), "containerID": self.status["containerID"],
        }});
        if let Some(message) = message {
            self.status["state"]["terminated"]["message"] = json!(message);
        }
        self.status["ready"] = json!(self.role == Role::Init && code == 0);
        self.status["started"] = json!(false);
        self.changed = true;
    }

    /// It waits; how it ended before is kept.
    pub(super) fn wait(&mut self, reason: &str, message: &str) {
        let mut waiting = json!({ "reason": reason });
        if !message.is_empty() {
            waiting["message"] = json!(message);
        }
        let terminated = self.status["state"]["terminated"].take();
        if !terminated.is_null() {
            self.status["lastState"] = json!({ "terminated": terminated });
            self.changed = true;
        }
        self.set("state", json!({ "waiting": waiting }));
        self.set("ready", json!(false));
        self.set("started", json!(false));
    }
}
