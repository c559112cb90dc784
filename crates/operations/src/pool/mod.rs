//! Pools changed by hand, by `klab pool` or `klab az`: the lab whose pools are as they are, changed, and brought about in the
//! way that steps do it.
//!
//! A pool is a table of the lab file's keys all the way ([`Table`](toml::Table)): what is typed is laid over what is there, and
//! the lab file's own rules judge the result.

pub mod changed_pools;
pub mod flags;
pub mod keys;
pub mod live_pools;
pub mod locked_pools;
pub mod perform;
pub mod read;
mod request;
pub mod staged;

pub use changed_pools::ChangedPools;
pub use keys::Keys;
pub use live_pools::LivePools;
pub use request::{PoolRequest, Wanted, list, list_document};
