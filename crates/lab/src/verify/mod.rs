//! Checks on a snapshot of the cluster, and explanations of what does not hold.
//!
//! Everything here is pure: nodes, pods and their owners go in, verdicts and sentences come out. A caller that waits
//! feeds a [`Stability`] with snapshots as they change and asks it when it next needs to look ([`Observation`]); a
//! caller that only looks once calls [`evaluate`].

mod before;
mod cause;
mod conditions;
mod context;
mod creation;
mod devices;
mod diagnose;
mod evaluate;
mod explain;
mod model;
mod mounting;
mod movement;
mod name;
mod node;
mod observation;
mod placeable;
mod places;
mod pod;
mod predict;
mod rollout;
mod snapshot;
mod stability;
mod verdict;
mod view;

#[cfg(test)]
mod properties;
#[cfg(test)]
pub(crate) mod tests;

pub use before::Before;
pub use cause::{Cause, Hindrance, NodeGroup, NodeReason, Suggestion};
pub use context::Context;
pub use devices::DeviceObjects;
pub use diagnose::diagnose;
pub use evaluate::evaluate;
#[cfg(test)]
pub(crate) use explain::properties::clusters;
pub use explain::{
    AwaitedClaim, Explained, Explainer, Explanation, NothingToExplain, Pending, Placed, PoolGrowth, Why, amount,
    explain,
};
pub(crate) use explain::{SELECTED, unmade, workload_of};
pub(crate) use model::cluster;
pub use model::scheduler;
pub use name::check as check_name;
pub(crate) use node::is_cordoned;
pub use node::is_ready;
pub(crate) use places::{Places, PodLocation, places};
pub use pod::PodState;
pub use predict::{Difference, PredictedWorkload, Prediction, compare, predict};
pub use snapshot::{BackOff, FetchedObject, Snapshot};
pub use stability::{Observation, Stability, Windows};
pub use verdict::{Aside, Asides, CheckResult, Finding, KnownAsides, Report, Verdict};
pub(crate) use view::{PodView, View};
