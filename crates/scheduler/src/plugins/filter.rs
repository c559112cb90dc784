//! What a filter is: a node as it sees it, and the verdicts it gives.

use std::borrow::Cow;

use crate::cycle::Cycle;
use crate::delta::Delta;
use crate::ids::NodeId;
use crate::node_info::NodeInfo;
use crate::reason::{Code, PluginName, Reason};

/// A node as a filter sees it: `node` already holds the delta, counts kept elsewhere do not.
#[derive(Clone, Copy)]
pub(crate) struct View<'a> {
    pub(crate) id: NodeId,
    pub(crate) node: &'a NodeInfo,
    pub(crate) delta: &'a Delta,
}

/// A verdict of a filter that looks beyond the node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) code: Code,
    pub(crate) text: &'static str,
}

/// A verdict as texts, without the facts behind them; equal verdicts are shared between nodes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Refused {
    /// `None` when the node was left out because the pod names others.
    pub(crate) plugin: Option<PluginName>,
    pub(crate) code: Code,
    pub(crate) texts: Vec<Cow<'static, str>>,
}

/// A filter.
pub(crate) enum Filter {
    /// Looks at the node and the pods on it only, so verdicts are kept until the node changes. Gives all reasons.
    Local(fn(&Cycle<'_>, &View<'_>, &mut Vec<Reason>)),
    /// Looks at pods elsewhere too.
    Topology {
        /// The verdict kube-scheduler stops at.
        refuses: fn(&Cycle<'_>, &View<'_>) -> Option<Refusal>,
        /// Every reason with its facts; the first has the text of `refuses`.
        reasons: fn(&Cycle<'_>, &View<'_>, &mut Vec<Reason>),
    },
    /// Looks at the devices that the pod's claims ask for, and gives one reason.
    Claims(fn(&Cycle<'_>, &View<'_>) -> Option<Reason>),
}
