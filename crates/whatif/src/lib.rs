//! What if: the placement of a cluster without its secrets, copies of it in this process, and changes that are tried on them.
//!
//! ```text
//! objects ─ sanitised ▶ Capture ─ Twin ▶ a copy ─ Change ▶ Answer ─▶ human | markdown | json | junit
//! ```
//!
//! Everything here is a function of its arguments; klab reads the cluster and prints what these functions give.

#![deny(missing_docs)]

mod agreement;
mod answer;
mod autoscaled;
mod capture;
mod captured;
mod change;
mod document;
mod drain;
mod error;
mod fit;
mod kinds;
mod lab_file;
mod model;
mod nodes;
mod pool;
mod redact;
mod sanitise;
mod settle;
mod shrink;
mod survive;
mod text;
mod trial;
mod twin;
mod world;

pub use agreement::{Agreement, agreement};
pub use answer::{Answer, COPIES, PoolChange, PoolState, TryError, WorkloadChange, what_if, what_if_of};
pub use autoscaled::take_bounds;
pub use capture::{Capture, CaptureError, FILE, Gap};
pub use captured::Captured;
pub use change::Change;
pub use document::{json, junit};
pub use drain::Blocked;
pub use error::ChangeError;
pub use fit::{Fit, fit};
pub use kinds::{AUTOSCALER_STATUS, KINDS, Kind};
pub use lab_file::{LabFolder, MANIFESTS, lab_folder};
pub use model::LostPod;
pub use pool::pool_of;
pub use redact::redacted;
pub use sanitise::sanitised;
pub use settle::{Places, kinds_of_lost_owners, places, settle};
pub use shrink::{Shrunk, shrink};
pub use survive::{Survival, survive};
pub use text::{human, lost_words, markdown};
pub use twin::{Twin, TwinError};
pub use world::Workload;
