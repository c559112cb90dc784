//! The lab file: types, spans, rules, diagnostics.
//!
//! A file goes through two layers. The raw layer is the file as written, with spans; everything that is wrong with its
//! structure is reported from there, all at once. The validated layer, [`Lab`], is what the rest of klab uses:
//! quantities, taints, selectors and ranges are parsed, the provider is resolved, templates in strings are rendered.

pub mod check;
pub mod diagnostic;
pub mod machine;
pub mod pool;
pub mod provider;
pub mod selector;
pub mod source;
pub mod step;
pub mod workload;

use std::fmt;
use std::sync::Arc;

use jiff::SignedDuration;

pub use check::{Check, Condition, Count, NodeSet, ObjectRef, Subject};
pub use diagnostic::{Diagnostic, Diagnostics, Severity};
pub use machine::Machine;
pub use pool::{Autoscale, Eviction, Os, Pool, PoolMode, Spot};
pub use provider::{
    AksNetwork, AksSettings, AksTier, KindSettings, Mount, PortMapping, Provider, SimLike, SimSettings,
};
pub use selector::Selector;
pub use source::{Located, Location, Source};
pub use step::{Action, Step, WorkloadChange};
pub use workload::{
    Bundle, BundleKind, BundleRef, ManifestContent, ManifestSource, Namespace, Port, Workload, WorkloadKind,
};

/// A valid lab.
#[derive(Clone, Debug)]
pub struct Lab {
    /// The lab file.
    pub source: Arc<Source>,
    /// Names everything klab makes: `[a-z][a-z0-9-]{0,29}`.
    pub name: Located<String>,
    /// One line for people.
    pub title: Option<String>,
    /// Markdown for people.
    pub description: Option<String>,
    /// Kubernetes version wanted.
    pub kubernetes: Option<Located<KubernetesVersion>>,
    /// Who makes the cluster: command line, environment, file, in that order.
    pub provider: Provider,
    /// Variables of templates after `[vars.PROVIDER]` and `--var`.
    pub vars: serde_json::Map<String, serde_json::Value>,
    /// How long the cluster is meant to live.
    pub ttl: Option<SignedDuration>,
    /// Parts added to the cluster.
    pub addons: Vec<Addon>,
    /// Pools in file order.
    pub pools: Vec<Pool>,
    /// Workloads in file order.
    pub workloads: Vec<Workload>,
    /// Declared namespaces in file order.
    pub namespaces: Vec<Namespace>,
    /// ConfigMaps and Secrets in file order.
    pub bundles: Vec<Bundle>,
    /// The author's own objects in file order.
    pub manifests: Vec<ManifestSource>,
    /// Checks of the set-up.
    pub checks: Vec<Check>,
    /// Steps of the lesson.
    pub steps: Vec<Step>,
    /// Settings of the embedded cluster.
    pub sim: SimSettings,
    /// Settings of kind.
    pub kind: KindSettings,
    /// Settings of AKS.
    pub aks: AksSettings,
    /// What is worth a look but does not stop.
    pub warnings: Diagnostics,
}

impl Lab {
    /// The pool of this name.
    pub fn pool(&self, name: &str) -> Option<&Pool> {
        self.pools.iter().find(|pool| *pool.name == name)
    }

    /// The workload of this name.
    pub fn workload(&self, name: &str) -> Option<&Workload> {
        self.workloads.iter().find(|workload| *workload.name == name)
    }
}

/// A part that klab adds to the cluster where the provider does not have it already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Addon {
    /// Resource usage for `kubectl top`.
    MetricsServer,
}

/// A Kubernetes version: `1.36`, or `1.36.2` where the patch matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KubernetesVersion {
    /// Second number.
    pub minor: u32,
    /// Third number, if given.
    pub patch: Option<u32>,
}

impl fmt::Display for KubernetesVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "1.{}", self.minor)?;
        self.patch.map_or(Ok(()), |patch| write!(f, ".{patch}"))
    }
}
