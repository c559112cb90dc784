//! The lab file: types, spans, rules, diagnostics.
//!
//! A file goes through two layers. The raw layer is the file as written, with spans; everything that is wrong with its
//! structure is reported from there, all at once. The validated layer, [`Lab`], is what the rest of klab uses:
//! quantities, taints, selectors and ranges are parsed, the provider is resolved, templates in strings are rendered.

pub mod catalogue;
pub mod check;
pub mod diagnostic;
mod exchange;
pub mod files;
mod gather;
mod kind_name;
mod kubernetes;
mod lab;
mod load;
pub mod machine;
pub mod membership;
pub mod pool;
mod pool_table;
mod profile;
pub mod provider;
mod raw;
mod read;
pub mod rules;
mod scheduler;
mod schema;
pub mod source;
pub mod step;
mod structure;
mod syntax_error;
pub mod template;
mod tree;
pub mod upgrade;
mod validate;
pub mod version;
pub mod workload;

pub use catalogue::{Catalogue, Topic, Track};
pub(crate) use check::EVICTIONS;
pub use check::{Check, Condition, Count, NodeSet, ObjectRef, PodBefore, Subject};
pub use diagnostic::{Diagnostic, Diagnostics, Severity, did_you_mean};
pub use exchange::exchange_refusal;
pub use files::{Files, Reach};
pub use kind_name::singular;
pub use klab_scheduler::selector::Selector;
pub use lab::{Lab, LoadOptions};
pub use load::{MAX_BYTES, load, parse, parse_beside, parse_bytes, parse_whatever_it_breaks};
pub use machine::{Machine, NodeResources, VmSize};
pub use pool::{Autoscale, DeviceAttribute, Devices, Eviction, Os, Pool, PoolMode, ScaleProfile, Spot};
pub use pool_table::pool_table;
pub use profile::{NodeForm, Profile};
pub use provider::{
    Addon, AksNetwork, AksSettings, AksTier, DEFAULT_LOCATION, ExistingSettings, KindSettings, Mount, PortMapping,
    Provider, SimLike, SimSettings,
};
pub use read::{Unread, read_regular};
pub use scheduler::Scheduler;
pub use schema::schema;
pub use source::{Located, Location, Source};
pub use step::{Action, SkippedStep, Step, UpgradeTarget, WorkloadChange};
pub use upgrade::{NODE_IMAGE, Share, UndrainableNodeBehavior, UpgradeKind, UpgradeSettings, UpgradeStrategy};
#[cfg(test)]
pub(crate) use validate::condition_keys;
pub use validate::lab_name_like;
pub use version::KubernetesVersion;
pub use workload::{
    Bundle, BundleKind, BundleRef, ManifestContent, ManifestSource, Namespace, Port, VolumeSource, Workload,
    WorkloadKind,
};
#[cfg(test)]
mod tests;
