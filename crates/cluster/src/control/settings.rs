//! What a cluster's owner may choose about how it acts.

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::SignedDuration;
use klab_scheduler::features::Features;
use klab_scheduler::{Profiles, TieBreak};

use super::controller::Controller;

/// Annotation of a node that silences it, as if its machine had stopped, when set to `stopped`.
pub const HEARTBEAT_ANNOTATION: &str = "klab.dev/heartbeat";

/// Value of that annotation that silences a hollow node.
pub(crate) const STOPPED: &str = "stopped";

/// Annotation of a node that says what it runs short of: `memory`, `disk`, `pid`, several with commas.
pub const PRESSURE_ANNOTATION: &str = "klab.dev/pressure";

/// The annotation of a node that lists the devices it has, as JSON:
/// `[{"class": "gpu.example.com", "count": 4, "attributes": {"memory": "40Gi"}}]`. They are published as ResourceSlices.
pub const DEVICES_ANNOTATION: &str = "klab.dev/devices";

/// How the acting part of an embedded cluster behaves.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Feeds the scheduler's choice among equal nodes.
    pub seed: u64,
    /// Whether it takes the first by name instead.
    pub ties_by_name: bool,
    /// Whether the seed decides, too, which of equally important pods that come at the same instant is tried first.
    pub shuffled: bool,
    /// How long the hollow nodes take.
    pub hollow: HollowDelays,
    /// Share of its requests that a running pod uses, for synthetic metrics (1.0 = all of it).
    ///
    /// `None`: there is no metrics API, and autoscalers say so.
    pub metrics_share: Option<f64>,
    /// A node with this annotation set to `stopped` no longer posts its status.
    pub heartbeat_annotation: String,
    /// Name of the machine the components run on, as in `default-scheduler-<host>`.
    pub host: String,
    /// Images that cannot be pulled, beside those whose names say so: `acme/web:2.0`, all tags of `acme/web`, `acme/*`.
    pub missing_images: Arc<[String]>,
    /// The profiles of the scheduler.
    pub profiles: Arc<Profiles>,
    /// The features of the cluster.
    pub features: Features,
    /// Controllers that do nothing. Those that cannot be switched off work all the same.
    pub switched_off: BTreeSet<Controller>,
    /// Whether only warnings become events.
    pub only_warnings: bool,
}

impl Settings {
    /// How the scheduler chooses among equal nodes.
    pub(super) fn tie_break(&self) -> TieBreak {
        match (self.ties_by_name, self.shuffled) {
            (true, _) => TieBreak::FirstName,
            (false, true) => TieBreak::Shuffled(self.seed),
            (false, false) => TieBreak::Seeded(self.seed),
        }
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            seed: 0,
            ties_by_name: false,
            shuffled: false,
            hollow: HollowDelays::default(),
            metrics_share: Some(0.5),
            heartbeat_annotation: HEARTBEAT_ANNOTATION.to_owned(),
            host: "vm".to_owned(),
            missing_images: Arc::default(),
            profiles: Arc::default(),
            features: Features::default(),
            switched_off: BTreeSet::new(),
            only_warnings: false,
        }
    }
}

/// How long hollow nodes take for what a kubelet does.
#[derive(Debug, Clone, Copy)]
pub struct HollowDelays {
    /// From binding to Running. Zero skips ContainerCreating.
    pub start: SignedDuration,
    /// How long containers run whose command takes no time, and those of a Job whose command is not known.
    pub job: SignedDuration,
    /// From the deletion of a pod to its end, never longer than its grace period. Containers that do not heed the signal
    /// take the whole of it.
    pub stop: SignedDuration,
    /// Whether pods do no more than those of the recorded flows: only containers of Jobs end, all heed the signal at once,
    /// no probe runs, and a pod that has ended is gone without another word.
    pub as_recorded: bool,
}

impl Default for HollowDelays {
    fn default() -> Self {
        Self {
            start: SignedDuration::ZERO,
            job: SignedDuration::from_secs(1),
            stop: SignedDuration::ZERO,
            as_recorded: false,
        }
    }
}

impl HollowDelays {
    /// The delays of the hollow kubelets in the recorded flows.
    pub fn recorded() -> Self {
        Self {
            start: SignedDuration::from_millis(500),
            job: SignedDuration::from_secs(1),
            stop: SignedDuration::from_millis(600),
            as_recorded: true,
        }
    }
}
