//! Dynamic resource allocation: which devices the claims of a pod get, on which nodes. `inventory` is what is known,
//! `allocator` finds devices on one node, `verdicts` keeps what it found out, `outcome` is what is written down; `judge` says
//! why there are none.
#![allow(
    clippy::indexing_slicing,
    reason = "numbers of claims, requests and devices are made from the lists they index"
)]

mod allocator;
mod capacity;
mod claim;
mod constraint;
mod counters;
mod extended;
mod inventory;
mod judge;
mod language;
mod outcome;
mod pools;
mod resource_name;
mod shortage;
mod slice;
mod subject;
mod taints;
#[cfg(test)]
mod tests;
mod verdicts;

pub(crate) use claim::Claim;
pub(crate) use inventory::{ClaimChange, Devices, Felt};
pub use language::{DeviceFacts, DeviceSelector, SelectorLanguage};
pub use shortage::{
    DeviceHolder, DeviceObstacle, DeviceShortage, JudgedDevice, RequestShortage, SelectorOwner, Together, UnusablePool,
};
pub(crate) use subject::{PodClaims, known_names};
pub(crate) use verdicts::{Cells, ClaimCycle, DeviceCache, Verdict};
