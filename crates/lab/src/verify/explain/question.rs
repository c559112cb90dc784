//! What the scheduler is asked about pods without a place, and its proof that changes give them one.

use super::reasons::Refusal;
use crate::verify::view::{PodView, View};

/// What the scheduler is asked about.
pub(crate) struct Question<'q, 'a> {
    pub(crate) view: &'q View<'a>,
    /// The pods, all alike and without a place.
    pub(crate) pods: &'q [&'q PodView<'a>],
    /// What keeps the first of them from the nodes.
    pub(crate) refusals: &'q [Refusal<'q>],
    /// Whether a node (or a new one of a pool) is where the pods are wanted.
    pub(crate) wanted: &'q dyn Fn(Destination<'_>) -> bool,
    /// Whether it is as it should be with these pods on these nodes, one for each.
    pub(crate) settles: Settles<'q>,
}

/// See [`Question::settles`].
pub(crate) type Settles<'q> = &'q dyn Fn(&[&PodView<'_>], &[String]) -> bool;

/// Where a change would bring a pod.
#[derive(Clone, Copy)]
pub(crate) enum Destination<'d> {
    /// A node of the snapshot.
    Node(&'d str),
    /// A node that the pool would get.
    NewNodeOf(&'d str),
}

/// That a combination of changes suffices.
pub(crate) struct Proof {
    /// The nodes the pods go to, in the order of the pods.
    pub(crate) nodes: Vec<String>,
    /// How many steps the stepwise change took.
    pub(crate) steps: usize,
}
