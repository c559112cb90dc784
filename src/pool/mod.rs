//! Pools changed by hand, by `klab pool` or `klab az`: the lab whose pools are as they are, changed, and brought about in the
//! way that steps do it.
//!
//! A pool is a table of the lab file's keys all the way ([`Table`](toml::Table)): what is typed is laid over what is there, and
//! the lab file's own rules judge the result.

mod asked;
pub(crate) mod at_work;
pub mod flags;
pub mod kept;
pub mod keys;
pub mod live;
pub mod perform;
pub mod read;
pub(crate) mod staged;

pub(crate) use asked::{Asked, list, list_document};
pub use kept::Kept;
pub use keys::Keys;
pub use live::Live;
