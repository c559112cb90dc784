//! Steps that are known to differ, each with the reason; `docs/understand/fidelity.md` says the same to users.

use std::fmt;

use super::unlike;

/// Why a step differs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reason {
    /// What is seen in the middle of a change depends on how long its parts took, here and there.
    Pace,
    /// Equal nodes are chosen at random, and so are the names by which slices are listed.
    Chance,
    /// Another minor version of kubectl than the one that recorded the flow.
    OtherKubectl,
    /// The embedded cluster runs no containers, and says so in its own words.
    NoContainers,
    /// ComponentStatuses show parts that are one process here.
    OneProcess,
    /// OpenAPI v3 lists only versions of groups, with hashes of its own.
    OwnOpenApi3,
    /// The control plane that was recorded had a role of its distribution's own.
    RecordersRole,
    /// The kubeconfig says by which name the server is to be asked for in the handshake.
    OwnKubeconfig,
    /// Not as recorded yet: a row of `unlike.rs`, which goes when the step is answered alike.
    NotYet,
}

impl Reason {
    /// Whether the step may be answered alike in one run and differ in the next.
    pub(crate) fn varies(self) -> bool {
        matches!(self, Self::Pace | Self::Chance | Self::OtherKubectl)
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Pace => "what is seen in the middle of a change depends on the pace of its parts",
            Self::Chance => "what is equal is chosen at random",
            Self::OtherKubectl => "another kubectl than the one that recorded the flow",
            Self::NoContainers => "the embedded cluster runs no containers, and says so",
            Self::OneProcess => "scheduler and controllers are no processes of their own",
            Self::OwnOpenApi3 => "OpenAPI v3 has documents of its own",
            Self::OwnKubeconfig => "the kubeconfig names the host of the handshake",
            Self::RecordersRole => "the control plane recorded had a role of its distribution's own",
            Self::NotYet => "not as recorded yet",
        })
    }
}

use Reason::{Chance, NoContainers, OneProcess, OtherKubectl, OwnKubeconfig, OwnOpenApi3, Pace, RecordersRole};

/// Flow, steps, reason.
const KNOWN: &[(&str, &[usize], Reason)] = &[
    ("kuberaw", &[67, 68, 69, 79, 80, 81, 82], Pace),
    ("kuberaw", &[88], OwnOpenApi3),
    ("kuberaw", &[85], RecordersRole),
    ("misc", &[23], RecordersRole),
    ("auth2", &[35], OwnOpenApi3),
    ("misc", &[40], OwnKubeconfig),
    ("apply_multi", &[22], OwnKubeconfig),
    ("misc", &[45, 46], OneProcess),
    ("unreachable", &[20], NoContainers),
    ("rollout", &[41], Pace),
    ("smoke-1.27", &[30, 42], Pace),
    ("smoke-1.30", &[30, 42], Pace),
    ("smoke-1.36", &[19, 30, 42], Pace),
    ("apply_client", &[5], Pace),
    ("edit_patch", &[26], Pace),
    ("pods_watch", &[3], Pace),
    ("quotas", &[13, 14, 16], Pace),
    ("node_describe", &[5], Chance),
    ("endpoints2", &[11], Chance),
    ("jobs2", &[9, 11, 12, 13, 78], Pace),
];

/// What may differ in a step that has to be the same otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Freedom {
    /// The order of lines: kubectl prints the entries of a map as they come, and ReplicaSets of one Deployment are
    /// listed by their hashes, which have upstream's form but not its values.
    Lines,
    /// Blanks in JSON: the recorder's stand-in for a metrics server wrote some.
    Blanks,
}

/// Flow, steps, what may differ.
const FREE: &[(&str, &[usize], Freedom)] = &[
    ("smoke-1.27", &[17], Freedom::Lines),
    ("smoke-1.30", &[17], Freedom::Lines),
    ("smoke-1.36", &[17], Freedom::Lines),
    ("rollout", &[9], Freedom::Lines),
    ("limitranges", &[5, 6, 13], Freedom::Lines),
    ("configs", &[9], Freedom::Lines),
    ("cordon_drain", &[24], Freedom::Lines),
    ("metrics", &[20, 21, 22], Freedom::Blanks),
];

/// What may differ in a step.
pub(crate) fn freedom(flow: &str, step: usize) -> Option<Freedom> {
    FREE.iter().find(|(known, steps, _)| *known == flow && steps.contains(&step)).map(|(_, _, freedom)| *freedom)
}

/// Steps that differ when the flow is replayed with another kubectl.
const OTHER_KUBECTL: &[(&str, &[usize])] = &[("smoke-1.36", &[25, 59, 62, 66])];

/// Why the step differs, if that is known.
pub(crate) fn reason(flow: &str, step: usize, same_kubectl: bool) -> Option<Reason> {
    let listed = KNOWN.iter().find(|(known, steps, _)| *known == flow && steps.contains(&step));
    let other = OTHER_KUBECTL.iter().any(|(known, steps)| *known == flow && steps.contains(&step));
    let unlike = unlike::STEPS.iter().any(|(known, steps)| *known == flow && steps.contains(&step));
    listed
        .map(|(_, _, reason)| *reason)
        .or((other && !same_kubectl).then_some(OtherKubectl))
        .or(unlike.then_some(Reason::NotYet))
}
