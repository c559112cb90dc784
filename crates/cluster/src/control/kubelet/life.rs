//! One look at the containers of a pod: what has ended since the last one is ended, what is to run is started.

// upstream: pkg/kubelet/kuberuntime/kuberuntime_manager.go computePodActions (v1.36)

mod starting;

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use klab_api_machinery::views::Pod;
use klab_containers::{Container as Contained, Containers, End, Instance, Objects, Program, Ran};
use serde_json::Value;

use super::super::settings::HollowDelays;
use super::super::view::PodInfo;
use super::container::{Container, Role, State};
use super::killing::Killing;
use super::memory::{Memory, Span};
use super::probe::{Probed, complaint, probed};
use super::restart::{restarts, restarts_all};
use super::volumes::Volumes;
use crate::clock::later;

/// Exit code of a container that had to be killed.
pub(super) const KILLED: i64 = 137;
/// How long containers are gone before all of them start again.
const RESET: SignedDuration = SignedDuration::from_secs(1);

/// Stands in messages for the pod's address, which it may be given by this look.
pub(super) const ADDRESS: &str = "\u{1}";

/// An event about a container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Said {
    pub(super) role: Role,
    pub(super) container: String,
    pub(super) warning: bool,
    pub(super) reason: &'static str,
    pub(super) message: String,
}

/// How a container stands after a look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    Runs,
    /// It waits for something.
    Waits,
    /// It has ended with this code and is not started again.
    Done(i64),
}

/// One look at a pod.
pub(super) struct Look<'a, 'm> {
    pub(super) pod: &'a PodInfo,
    pub(super) value: Pod<'a>,
    pub(super) now: Timestamp,
    pub(super) hollow: HollowDelays,
    /// What its containers read.
    pub(super) objects: Arc<dyn Objects>,
    /// What they do.
    pub(super) programs: Arc<dyn Containers>,
    /// Images that cannot be pulled.
    pub(super) missing: Arc<[String]>,
    /// How long containers that fail wait.
    pub(super) span: Span,
    pub(super) memory: &'m mut Memory,
    pub(super) volumes: &'m mut Volumes,
    pub(super) containers: Vec<Container<'a>>,
    /// When it is to be looked at again.
    pub(super) next: Option<Timestamp>,
    pub(super) said: Vec<Said>,
    /// Warnings about the pod as a whole: their reasons and messages.
    pub(super) said_of_pod: Vec<(&'static str, String)>,
    /// Whether it waits for a ConfigMap or Secret that is not there.
    pub(super) lacks: bool,
    /// Whether an init container waits for a name or a port.
    pub(super) awaits: bool,
    /// Whether a container has ended so that all start again.
    pub(super) resets: bool,
}

/// The annotation by which recordings set what becomes of a pod.
const RECORDED_STATE: &str = "hollow/state";

/// How and when a running container ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Ending {
    at: Timestamp,
    code: i64,
}

impl Look<'_, '_> {
    /// Has the pod looked at again no later than that.
    pub(super) fn wake(&mut self, at: Timestamp) {
        self.next = Some(self.next.map_or(at, |next| next.min(at)));
    }

    fn say(&mut self, index: usize, warning: bool, reason: &'static str, message: String) {
        let container = &self.containers[index];
        let (role, name) = (container.role, container.name().to_owned());
        if self.hollow.as_recorded && role == Role::Init {
            return;
        }
        self.said.push(Said { role, container: name, warning, reason, message });
    }

    /// Brings all containers up to the present.
    pub(super) fn advance(&mut self) {
        if let Some(reset) = self.memory.reset {
            // Nothing ends and starts again without end at one instant.
            let begins = later(reset, RESET);
            if begins > self.now {
                self.wake(begins);
                return;
            }
            self.memory.reset = None;
        }
        self.advance_each();
        if std::mem::take(&mut self.resets) {
            self.reset_all();
        }
    }

    /// All containers are removed, and start again a moment later, those that initialize the pod first.
    // upstream: pkg/kubelet/kuberuntime/kuberuntime_manager.go getContainersToReset (v1.36)
    fn reset_all(&mut self) {
        for index in 0..self.containers.len() {
            if self.containers[index].role == Role::Ephemeral {
                continue;
            }
            if self.containers[index].is_running() {
                self.say(index, false, "Killing", "killing".to_owned());
                self.end(index, KILLED);
            }
            self.containers[index].reset();
        }
        self.memory.reset = Some(self.now);
        self.wake(later(self.now, RESET));
    }

    fn advance_each(&mut self) {
        let of = |role: Role, containers: &[Container<'_>]| -> Vec<usize> {
            (0..containers.len()).filter(|index| containers[*index].role == role).collect()
        };
        for index in of(Role::Ephemeral, &self.containers) {
            self.bring(index);
        }
        let mains = of(Role::Main, &self.containers);
        let begun = mains.iter().any(|index| self.containers[*index].has_started());
        let (mut initialized, mut failed) = (true, false);
        for index in 0..self.containers.len() {
            match self.containers[index].role {
                Role::Init if begun => {}
                Role::Init => match self.bring(index) {
                    Standing::Done(0) => {}
                    standing => {
                        failed |= matches!(standing, Standing::Done(_));
                        initialized = false;
                    }
                },
                Role::Sidecar if self.is_over(&mains) => {}
                Role::Sidecar => {
                    let runs = self.bring(index) == Standing::Runs;
                    self.probe(index);
                    initialized &= begun || (runs && self.containers[index].is_started());
                }
                Role::Main | Role::Ephemeral => break,
            }
            if !initialized {
                break;
            }
        }
        let mut over = failed;
        if initialized {
            let standings: Vec<Standing> = mains.iter().map(|index| self.bring(*index)).collect();
            over = standings.iter().all(|standing| matches!(standing, Standing::Done(_)));
        }
        if over {
            self.end_sidecars(&mains);
        }
        for index in 0..self.containers.len() {
            self.probe(index);
        }
    }

    /// Whether all main containers have ended for good.
    fn is_over(&self, mains: &[usize]) -> bool {
        mains.iter().all(|index| match self.containers[*index].state() {
            State::Ended { code, .. } => !restarts(self.value, &self.containers[*index], code),
            _ => false,
        })
    }

    /// No container needs the sidecars any more: they end, the last one first.
    fn end_sidecars(&mut self, mains: &[usize]) {
        let ends = mains.iter().filter_map(|index| match self.containers[*index].state() {
            State::Ended { at, .. } => Some(at),
            _ => None,
        });
        let since = ends.max().unwrap_or(self.now);
        let grace = self.grace();
        for index in (0..self.containers.len()).rev() {
            if self.containers[index].role == Role::Sidecar && self.containers[index].is_running() {
                self.stop(index, since, grace);
            }
        }
    }

    /// How long the pod's containers may take to end.
    pub(super) fn grace(&self) -> SignedDuration {
        SignedDuration::from_secs(self.value.spec().termination_grace_period_seconds().unwrap_or(30).max(0))
    }

    /// A container has had the signal to end since then: it ends at once if it heeds it, else when its grace is over. Whether it has ended.
    pub(super) fn stop(&mut self, index: usize, since: Timestamp, grace: SignedDuration) -> bool {
        let State::Running(_) = self.containers[index].state() else { return true };
        let program = self.program(index);
        let before = self.containers[index].pre_stop(&*self.programs);
        let deadline = later(since, grace);
        let (mut at, mut code) = match program.on_term.map(|(took, code)| (before.saturating_add(took), code)) {
            Some((took, code)) if took <= grace => (later(since, took), code),
            _ => (deadline, KILLED),
        };
        if let Some(natural) = self.natural_end(index, &program).filter(|natural| natural.at < at) {
            (at, code) = (natural.at, natural.code);
        }
        if at > self.now {
            self.wake(at);
            return false;
        }
        self.end(index, code);
        true
    }

    /// What runs in a container, as it found its volumes when it started.
    pub(super) fn program(&self, index: usize) -> Program {
        let container = &self.containers[index];
        let seen = self.memory.known(container.name()).and_then(|kept| kept.seen.as_ref());
        let since = self.since(index);
        let instance =
            since.map(|since| Instance { container: container.name(), restarts: container.restarts(), since });
        self.programs.program(self.contained(index), seen, instance, self.answered(index))
    }

    fn contained(&self, index: usize) -> Contained<'_> {
        Contained { objects: Some(&self.objects), pod: self.value.0, container: self.containers[index].spec.0 }
    }

    /// Since when the network answers a running container whose end the pod waits for.
    fn answered(&self, index: usize) -> Option<SignedDuration> {
        let container = &self.containers[index];
        if container.role != Role::Init || self.hollow.as_recorded {
            return None;
        }
        let since = self.since(index)?;
        let kept = self.memory.known(container.name()).and_then(|kept| kept.answered);
        Some(kept.unwrap_or(self.now).duration_since(since))
    }

    /// A running container ends, and leaves files in its volumes.
    fn end(&mut self, index: usize, code: i64) {
        self.leave_files(index);
        let since = self.since(index).unwrap_or(self.now);
        let ran = Ran { since, ended: Some((self.now, code)) };
        let message = self.programs.last_message(self.contained(index), ran);
        self.containers[index].end(code, self.now, message);
    }

    /// Notes what a running container has written into its volumes.
    fn leave_files(&mut self, index: usize) {
        let spec = self.containers[index].spec;
        let Some(since) = self.since(index).filter(|_| !spec.volume_mounts().is_empty()) else { return };
        let ran = self.now.duration_since(since);
        for (at, file, there) in self.program(index).course.files {
            if at <= ran {
                self.volumes.note(self.value, spec, &file, there);
            }
        }
    }

    /// When a running container started: as exactly as that is known.
    fn since(&self, index: usize) -> Option<Timestamp> {
        let container = &self.containers[index];
        let State::Running(since) = container.state() else { return None };
        let kept = self.memory.known(container.name()).and_then(|kept| kept.since);
        Some(kept.filter(|kept| kept.as_second() == since.as_second()).unwrap_or(since))
    }

    fn recorded_state(&self) -> &str {
        self.value.metadata().annotations().get(RECORDED_STATE).unwrap_or_default()
    }

    /// When a running container ends by itself.
    fn natural_end(&self, index: usize, program: &Program) -> Option<Ending> {
        let container = &self.containers[index];
        let since = self.since(index)?;
        let of_job = self.pod.object.controller().is_some_and(|owner| &*owner.kind == "Job");
        if self.hollow.as_recorded && container.role == Role::Main {
            let at = later(since, self.hollow.job);
            match self.recorded_state() {
                "Succeeded" => return Some(Ending { at, code: 0 }),
                "Failed" => return Some(Ending { at, code: 1 }),
                _ => {}
            }
        }
        if self.hollow.as_recorded && !of_job {
            let done = Ending { at: since, code: 0 };
            return (container.role == Role::Init).then_some(done);
        }
        let (took, code) = match (program.course.end, container.role) {
            (End::After(took, code), _) | (End::Unknown(took, code), Role::Init) => (took, code),
            (End::Unknown(took, code), Role::Main) if of_job => (took, code),
            (End::Never | End::Unknown(..), _) => return None,
        };
        let took = if took.is_zero() && container.role == Role::Main { self.hollow.job } else { took };
        Some(Ending { at: later(since, took), code })
    }

    /// When a running container ends: by itself, or because a probe has it ended.
    fn ending(&mut self, index: usize) -> Option<Ending> {
        let program = self.program(index);
        let natural = self.natural_end(index, &program);
        let since = self.since(index)?;
        if program.course.asks && program.course.end == End::Never {
            self.awaits = true;
        } else if program.course.asks {
            self.memory.of(self.containers[index].name()).answered.get_or_insert(self.now);
        }
        let Some((killed, kind, grace)) = self.probes(index, &program, since).killed else { return natural };
        let killed = later(since, killed);
        if natural.is_some_and(|natural| natural.at <= killed) {
            return natural;
        }
        let name = self.containers[index].name();
        if killed <= self.now && !std::mem::replace(&mut self.memory.of(name).end_reported, true) {
            if !std::mem::replace(&mut self.memory.of(name).failures_reported, true) {
                self.say(index, true, "Unhealthy", self.complaint(index, kind));
            }
            let message = format!("Container {name} failed {} probe, will be restarted", kind.to_lowercase());
            self.say(index, false, "Killing", message);
        }
        let grace = grace.map_or_else(|| self.grace(), SignedDuration::from_secs);
        let by_probe = match program.on_term {
            Some((took, code)) if took <= grace => Ending { at: later(killed, took), code },
            _ => Ending { at: later(killed, grace), code: KILLED },
        };
        if killed > self.now {
            self.wake(killed);
        }
        natural.filter(|natural| natural.at < by_probe.at).or(Some(by_probe))
    }

    /// What is said of a probe that fails.
    fn complaint(&self, index: usize, kind: &str) -> String {
        complaint(self.containers[index].spec, kind, ADDRESS, &self.program(index))
    }

    fn probes(&self, index: usize, program: &Program, since: Timestamp) -> Probed {
        if self.hollow.as_recorded {
            return Probed { started: true, ready: self.recorded_state() != "NotReady", ..Probed::default() };
        }
        let ran = self.now.duration_since(since);
        probed(self.containers[index].spec, program, ran)
    }

    /// Sets what the probes of a running container have come to.
    fn probe(&mut self, index: usize) {
        let container = &self.containers[index];
        if !matches!(container.role, Role::Main | Role::Sidecar) {
            return;
        }
        let Some(since) = self.since(index) else { return };
        let probed = self.probes(index, &self.program(index), since);
        if let Some((at, kind)) = probed.complaint
            && later(since, at) <= self.now
            && !std::mem::replace(&mut self.memory.of(container.name()).failures_reported, true)
        {
            self.say(index, true, "Unhealthy", self.complaint(index, kind));
        }
        if let Some(next) = probed.next {
            let kept = self.memory.of(self.containers[index].name());
            kept.since.get_or_insert(since);
            self.wake(later(since, next));
        }
        self.containers[index].set("started", Value::Bool(probed.started));
        self.containers[index].set("ready", Value::Bool(probed.ready));
    }

    /// Brings one container up to the present.
    fn bring(&mut self, index: usize) -> Standing {
        loop {
            let container = &self.containers[index];
            match container.state() {
                State::Running(_) => {
                    if let Some(killing) = container.killing() {
                        self.end(index, KILLED);
                        if killing == Killing::Removed {
                            self.containers[index].lose();
                        }
                        continue;
                    }
                    let ran = container.view().image();
                    if !ran.is_empty() && ran != container.image() && container.role != Role::Init {
                        let message = format!("Container {} definition changed, will be restarted", container.name());
                        let code = self.program(index).on_term.map_or(KILLED, |(_, code)| code);
                        self.say(index, false, "Killing", message);
                        self.end(index, code);
                        if !self.start(index) {
                            return Standing::Waits;
                        }
                        continue;
                    }
                    let Some(ending) = self.ending(index) else { return Standing::Runs };
                    if ending.at > self.now {
                        self.wake(ending.at);
                        return Standing::Runs;
                    }
                    self.end(index, ending.code);
                }
                State::Ended { code, .. } if restarts_all(container.spec, code) => {
                    self.resets = true;
                    return Standing::Waits;
                }
                State::Ended { code, .. } if !restarts(self.value, container, code) => return Standing::Done(code),
                State::Ended { since, at, .. } => {
                    if !self.start_again(index, since, at) {
                        return Standing::Waits;
                    }
                }
                State::Waiting => {
                    let ready = match container.last_end().filter(|_| container.waits_for() == "CrashLoopBackOff") {
                        Some(State::Ended { since, at, .. }) => self.start_again(index, since, at),
                        _ => self.start(index),
                    };
                    if !ready {
                        return Standing::Waits;
                    }
                }
            }
        }
    }

    /// Ends a running container and starts it again.
    pub(super) fn restart(&mut self, index: usize, code: i64) {
        self.end(index, code);
        self.start(index);
        self.probe(index);
    }
}
