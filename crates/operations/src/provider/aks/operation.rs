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
    pub(super) fn verb(self) -> &'static str {
        match self {
            Self::Add => "create",
            Self::Update => "change",
            Self::Scale => "scale",
            Self::Delete => "remove",
            Self::Upgrade | Self::BeginUpgrade => "upgrade",
            Self::Settle => "finish",
        }
    }

    /// What is done to the pool.
    pub(super) fn activity(self) -> Verb {
        match self {
            Self::Add => Verb::CreatePool,
            Self::Update => Verb::ChangePool,
            Self::Scale => Verb::ScalePool,
            Self::Delete => Verb::RemovePool,
            Self::Upgrade | Self::BeginUpgrade => Verb::UpgradePool,
            Self::Settle => Verb::WaitPool,
        }
    }

    pub(super) fn state(self) -> &'static str {
        match self {
            Self::Add => "being created",
            Self::Update => "being changed",
            Self::Scale => "being scaled",
            Self::Delete => "being removed",
            Self::Upgrade | Self::BeginUpgrade => "being upgraded",
            Self::Settle => "at work",
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
