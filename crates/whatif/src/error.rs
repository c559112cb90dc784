//! Why a change cannot be tried.

use klab_api_machinery::status::Status;

use crate::twin::MAX_PODS;

/// Why a change cannot be tried.
#[derive(Debug, thiserror::Error)]
pub enum ChangeError {
    /// No pool has the name.
    #[error("there is no pool `{name}`; there are: {pools}")]
    NoPool {
        /// The name.
        name: String,
        /// Those that there are.
        pools: String,
    },
    /// No node and no pool has the name.
    #[error("there is no node and no pool `{name}`; the pools are: {pools}")]
    NoTarget {
        /// The name.
        name: String,
        /// The pools that there are.
        pools: String,
    },
    /// No zone has the name.
    #[error("no node is in a zone `{name}`; the zones are: {zones}")]
    NoZone {
        /// The name.
        name: String,
        /// Those that there are.
        zones: String,
    },
    /// No workload has the name.
    #[error("there is no workload `{0}`")]
    NoWorkload(String),
    /// Several have it.
    #[error("there are several workloads `{name}`; name the namespace: {all}")]
    SeveralWorkloads {
        /// The name.
        name: String,
        /// All of them.
        all: String,
    },
    /// There would be too many pods.
    #[error("the change makes {0} pods, and klab tries at most {MAX_PODS}")]
    TooManyPods(u64),
    /// The API server refuses the change.
    #[error("the API server refuses the change: {0}")]
    Refused(#[from] Status),
}
