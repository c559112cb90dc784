//! What `docker exec` runs on a node of klab, as far as it is certain: files that kubeadm leaves, static pods, the kubelet as a
//! service, containers as crictl shows them.
//!
//! ```text
//! surroundings, script, files ─▶ shell ─▶ programs, sed, services ─▶ run
//!                          └──── kubeadm_files ─▶ kube_scheduler ─▶ static_pods ───────┘
//! ```

mod files;
mod kube_scheduler;
mod kubeadm_files;
mod programs;
mod script;
mod sed;
mod services;
mod shell;
mod static_pods;
mod surroundings;

use serde::{Deserialize, Serialize};

pub use files::Changes;
use files::Files;
use kubeadm_files::MANIFESTS;
use shell::{Flow, Shell};
pub use surroundings::{Container, Effect, Output, Outside, Place, SERVING};

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

/// What came of a command.
#[derive(Debug, Clone, PartialEq)]
pub struct Ran {
    /// What it prints.
    pub output: Output,
    /// What it leaves.
    pub state: State,
    /// What follows in the cluster, in this order.
    pub effects: Vec<Effect>,
    /// The folder where a shell would be now.
    pub folder: String,
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
    let mut files = Files::new(kubeadm_files::files(place));
    let kubeadm = files.below(MANIFESTS);
    files.changes.clone_from(&state.changes);
    let mut shell = Shell::new(*place, files, state.kubelet_is_stopped, outside, programs::program);
    let mut output = Output::default();
    match programs::program(&mut shell, command, input, &mut output)? {
        Flow::Next => {}
        Flow::Exit(code) => output.code = code,
    }
    let Shell { files, kubelet_is_stopped, folder, .. } = shell;
    let manifests = files.below(MANIFESTS);
    let mut effects = Vec::new();
    let mut seen = state.seen.clone();
    if kubelet_is_stopped != state.kubelet_is_stopped {
        effects.push(Effect::Kubelet(!kubelet_is_stopped));
    }
    if !kubelet_is_stopped {
        let before = seen.as_ref().unwrap_or(&kubeadm);
        let (more, notes) = static_pods::effects(place, &kubeadm, before, &manifests, &files)?;
        effects.extend(more);
        if *before != manifests {
            for note in notes {
                output.err.push_str(&format!("klab: {note}\n"));
            }
            seen = Some(manifests).filter(|manifests| *manifests != kubeadm);
        }
    }
    let state = State { changes: files.changes, kubelet_is_stopped, seen };
    Ok(Ran { output, state, effects, folder })
}

#[cfg(test)]
mod tests;
