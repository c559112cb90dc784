//! What differs between a cluster and its lab at a step: found by comparing it with a twin inside this process, on which the
//! set-up was made and the steps were performed.

mod baseline;
mod change;
mod compare;
mod live;
mod mention;
mod namespace;
mod slips;
mod told;
mod twin;

pub use baseline::Baseline;
pub use change::{Change, Named, Objects};
pub use live::objects as live_objects;
pub use mention::{Asides, AtHand, way_back};
pub use namespace::elsewhere;
pub use slips::{Slips, slips};
pub use told::Told;
pub use twin::Twin;
