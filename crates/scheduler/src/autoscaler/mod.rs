//! The cluster autoscaler's decisions, pure: which pools grow for the pods that wait, and which nodes are unneeded.
//!
//! Equal to the cluster autoscaler 1.36 with the defaults of AKS: [`scale_up`] simulates the pods that wait on new nodes of
//! each [`NodeGroup`] and lets the expander choose; [`judge`] says of each node whether it could go, [`Unneeded`] since when,
//! and [`Unneeded::removable`] which ones go now. Times are handed in, chance is a seed, and nothing is written anywhere.
//!
//! Inside: `profile` holds the settings by AKS's names; `group` pools and their templates; `simulation` a cluster to try pods
//! on; `estimate` packs pods on new nodes; `expander` chooses among pools; `balance` shares nodes among similar pools;
//! `backoff` remembers the pools whose nodes did not come;
//! `drain` says which pods may be moved, `utilization` how full a node is.

mod backoff;
mod balance;
mod drain;
mod estimate;
mod expander;
mod group;
mod profile;
mod scale_down;
mod scale_up;
mod simulation;
mod unneeded;
mod utilization;

pub use backoff::{Backoffs, FIRST as FIRST_BACKOFF, Failure};
pub use drain::{BlockingReason, Budgets, Drain, Owner};
pub use expander::Expander;
pub use group::{NodeGroup, Template};
pub use profile::{Profile, Setting, SettingError, SettingForm};
pub use scale_down::{Candidate, Judgement, Obstacle, Verdict, judge};
pub use scale_up::{Refused, Remaining, Resize, ScaleUp, Skipped, refusal, scale_up};
pub use unneeded::{InProgress, Removal, Unneeded};
pub use utilization::Utilization;

/// Pods of a lower priority neither make a pool grow nor keep a node: the autoscaler takes them for placeholders
/// (`--expendable-pods-priority-cutoff`).
pub const EXPENDABLE_BELOW: i32 = -10;
/// At most this many nodes are added to a pool in one go (`--max-nodes-per-scaleup`).
pub const MAX_AT_ONCE: u32 = 1000;
/// How old the oldest of the pods that wait must be before a pool grows: there may be more to come.
pub const NEW_PODS_WAIT: jiff::SignedDuration = jiff::SignedDuration::from_secs(2);
/// Annotation of a node that the autoscaler is to leave alone, when `true`.
pub const SCALE_DOWN_DISABLED: &str = "cluster-autoscaler.kubernetes.io/scale-down-disabled";
/// Taint of a node that is about to be removed.
pub const TO_BE_DELETED: &str = "ToBeDeletedByClusterAutoscaler";
/// Taint of a node that has become unneeded.
pub const DELETION_CANDIDATE: &str = "DeletionCandidateOfClusterAutoscaler";
/// The taints that the autoscaler puts on nodes and takes off again.
pub const TAINTS: [&str; 2] = [DELETION_CANDIDATE, TO_BE_DELETED];

#[cfg(test)]
mod tests;
