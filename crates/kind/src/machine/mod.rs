//! What `docker exec` runs on a node of klab, as far as it is certain: files that kubeadm leaves, static pods, the kubelet as a
//! service, containers as crictl shows them.
//!
//! ```text
//! script, files ─▶ shell ─▶ programs, sed, services ─▶ run
//!            └──── kubeadm_files ─▶ static_pods ───────┘
//! ```

mod files;
mod kubeadm_files;
mod programs;
mod script;
mod sed;
mod services;
mod shell;
mod static_pods;

use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use files::Changes;
use files::Files;
use kubeadm_files::MANIFESTS;
use shell::{Flow, Shell};

/// Where a command runs.
#[derive(Debug, Clone, Copy)]
pub struct Place<'a> {
    /// The cluster.
    pub cluster: &'a str,
    /// The node.
    pub node: &'a str,
    /// The uid of its object; empty where that is not there.
    pub uid: &'a str,
    /// Its address.
    pub address: &'a str,
    /// Whether it is a control plane.
    pub is_control_plane: bool,
    /// Its version of Kubernetes, such as `1.36.2`.
    pub version: &'a str,
    /// A kubeconfig of the administrator, as a text.
    pub administrator: &'a str,
    /// When the cluster was made.
    pub created: Timestamp,
    /// The present.
    pub now: Timestamp,
}

/// What commands have left on a node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct State {
    /// Files.
    pub changes: Changes,
    /// Whether the kubelet does not run.
    pub kubelet_is_stopped: bool,
    /// The manifests that the kubelet saw last, where they are not kubeadm's.
    pub seen: Option<Vec<(String, String)>>,
}

/// What a command prints, and its exit code.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Output {
    /// Its results.
    pub out: String,
    /// Its talk.
    pub err: String,
    /// 0 where all went well.
    pub code: u8,
}

/// A container of the node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Container {
    /// Its id, without the scheme.
    pub id: String,
    /// Its name.
    pub name: String,
    /// Its image.
    pub image: String,
    /// How often it was started before.
    pub attempt: i64,
    /// When it began; none where it does not run.
    pub since: Option<Timestamp>,
    /// Its pod.
    pub pod: String,
    /// The namespace of its pod.
    pub namespace: String,
    /// The uid of its pod.
    pub uid: String,
}

/// What a node reaches.
pub trait Outside {
    /// kubectl with these arguments and this input, as the cluster's administrator.
    ///
    /// # Errors
    /// Why it is not run.
    fn kubectl(&mut self, arguments: &[String], input: &str) -> Result<Output, String>;

    /// The containers of the node.
    ///
    /// # Errors
    /// Why they are not known.
    fn containers(&mut self) -> Result<Vec<Container>, String>;

    /// What a container has printed.
    ///
    /// # Errors
    /// Why that is not known.
    fn log(&mut self, container: &Container) -> Result<String, String>;

    /// Lets time pass.
    fn pause(&mut self, duration: Duration);
}

/// What is to be done in the cluster.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// A component of the control plane stops or starts.
    Component {
        /// `kube-scheduler` or `kube-controller-manager`.
        component: String,
        /// Whether it runs.
        runs: bool,
    },
    /// The kubelet of the node stops or starts.
    Kubelet(bool),
    /// A static pod is gone.
    Remove {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
    },
    /// A static pod is there.
    Add(Value),
}

/// What came of a command.
#[derive(Debug, Clone, PartialEq)]
pub struct Ran {
    /// What it prints.
    pub output: Output,
    /// What it leaves.
    pub state: State,
    /// What follows in the cluster, in this order.
    pub effects: Vec<Effect>,
}

/// Runs a command on a node.
///
/// # Errors
/// What of it is not certain: nothing is done then, but what kubectl did.
pub fn run(
    place: &Place<'_>,
    state: &State,
    command: &[String],
    input: &str,
    outside: &mut dyn Outside,
) -> Result<Ran, String> {
    let ground = kubeadm_files::files(place, place.address, place.administrator);
    let files = Files::new(ground, state.changes.clone());
    let kubeadm = Files::new(kubeadm_files::files(place, place.address, ""), Changes::new()).below(MANIFESTS);
    let mut shell = Shell::new(*place, files, state.kubelet_is_stopped, outside, programs::program);
    let mut output = Output::default();
    match programs::program(&mut shell, command, input, &mut output)? {
        Flow::Next => {}
        Flow::Exit(code) => output.code = code,
    }
    let (files, kubelet_is_stopped) = shell.into_parts();
    let manifests = files.below(MANIFESTS);
    let mut effects = Vec::new();
    let mut seen = state.seen.clone();
    if kubelet_is_stopped != state.kubelet_is_stopped {
        effects.push(Effect::Kubelet(!kubelet_is_stopped));
    }
    if !kubelet_is_stopped {
        let before = seen.as_ref().unwrap_or(&kubeadm);
        let (more, notes) = static_pods::effects(place, &kubeadm, before, &manifests)?;
        effects.extend(more);
        if *before != manifests {
            for note in notes {
                output.err.push_str(&format!("klab: {note}\n"));
            }
            seen = Some(manifests).filter(|manifests| *manifests != kubeadm);
        }
    }
    let state = State { changes: files.changes, kubelet_is_stopped, seen };
    Ok(Ran { output, state, effects })
}

#[cfg(test)]
mod tests;
