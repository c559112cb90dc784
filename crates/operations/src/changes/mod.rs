//! What differs between a cluster and its lab at a step: found by comparing it with a twin inside this process, on which the
//! set-up was made and the steps were performed.

mod baseline;
mod change;
mod compare;
mod drift;
mod findings;
mod live;
mod namespace;
mod summary;
mod twin;

pub use baseline::Baseline;
pub use change::{Change, Named, Objects};
pub use drift::{Slips, slips};
pub use findings::{AtHand, find_asides, way_back};
pub use live::objects as live_objects;
pub use namespace::elsewhere;
pub use summary::Summary;
pub use twin::Twin;
