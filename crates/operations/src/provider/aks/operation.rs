//! What is done to a pool, call by call, and how to speak of it.

use std::collections::VecDeque;

use super::arguments::Arguments;
use crate::event::Verb;

/// What one call does to a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operation {
    Add,
    Update,
    Scale,
    Delete,
    Upgrade,
    /// An upgrade that is not waited for.
    BeginUpgrade,
    /// Nothing is asked: what Azure is doing already is waited for.
    Settle,
}

impl Operation {
    /// What is done to the pool: as a verb, as an activity, and as the state that the pool is in.
    pub(super) fn words(self) -> (&'static str, Verb, &'static str) {
        match self {
            Self::Add => ("create", Verb::CreatePool, "being created"),
            Self::Update => ("change", Verb::ChangePool, "being changed"),
            Self::Scale => ("scale", Verb::ScalePool, "being scaled"),
            Self::Delete => ("remove", Verb::RemovePool, "being removed"),
            Self::Upgrade | Self::BeginUpgrade => ("upgrade", Verb::UpgradePool, "being upgraded"),
            Self::Settle => ("finish", Verb::WaitPool, "at work"),
        }
    }
}

/// One call with its operation.
#[derive(Debug, Clone)]
pub(super) struct Step {
    pub(super) operation: Operation,
    pub(super) arguments: Arguments,
}

impl Step {
    pub(super) fn new(operation: Operation, arguments: Arguments) -> Self {
        Self { operation, arguments }
    }
}

/// What is to be done to one pool, in order, and how to speak of it.
#[derive(Debug, Clone)]
pub(super) struct Job {
    pub(super) pool: String,
    pub(super) steps: VecDeque<Step>,
    /// `Creating`.
    pub(super) verb: Verb,
    /// `pool extra (2 × Standard_B2ms)`.
    pub(super) what: String,
    /// How many nodes it comes to, where that is what is done.
    pub(super) nodes: Option<u32>,
}
