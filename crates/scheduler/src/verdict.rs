//! A decision about a pod that is yet to be named.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::decision::{Decision, Outcome};
use super::message;
use super::pod_key::PodKey;
use super::reason::{PluginName, Reason};

/// What becomes of a pod that no node takes, if no node was kept for it.
pub(crate) const UNSCHEDULABLE: Outcome = Outcome::Unschedulable { withdraw_nomination: false };

/// A decision that says nothing more.
pub(crate) fn decision(pod: PodKey, outcome: Outcome, message: String) -> Decision {
    Decision {
        pod,
        outcome,
        message,
        refused_by: Vec::new(),
        allocations: Vec::new(),
        extended: None,
        deallocate: None,
    }
}

/// A decision about a pod that is yet to be named.
pub(crate) struct Verdict {
    pub(crate) outcome: Outcome,
    pub(crate) message: String,
    pub(crate) refused_by: BTreeSet<PluginName>,
    pub(crate) deallocate: Option<(String, String)>,
}

impl Verdict {
    pub(crate) fn plain(outcome: Outcome, message: String) -> Self {
        Self { outcome, message, refused_by: BTreeSet::new(), deallocate: None }
    }

    /// Something is wrong with a claim or a class.
    pub(crate) fn failed(message: &str) -> Self {
        let plugin = PluginName::DynamicResources;
        Self::plain(Outcome::Failed, format!("running \"{plugin}\" filter plugin: {message}"))
    }

    pub(crate) fn scheduled(node: Arc<str>) -> Self {
        Self::plain(Outcome::Scheduled { node }, String::new())
    }

    pub(crate) fn no_nodes() -> Self {
        Self::plain(Outcome::Unschedulable { withdraw_nomination: true }, message::NO_NODES.to_owned())
    }

    pub(crate) fn refused_for_all(nodes: usize, plugin: PluginName, reasons: &[Reason]) -> Self {
        let texts: Vec<_> = reasons.iter().map(ToString::to_string).collect();
        let message = message::refused_for_all(nodes, &texts);
        Self { refused_by: BTreeSet::from([plugin]), ..Self::plain(UNSCHEDULABLE, message) }
    }

    pub(crate) fn of(self, pod: PodKey) -> Decision {
        let deallocate = self.deallocate;
        let refused_by = self.refused_by.into_iter().collect();
        Decision { refused_by, deallocate, ..decision(pod, self.outcome, self.message) }
    }
}
