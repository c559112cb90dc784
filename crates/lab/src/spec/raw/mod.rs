//! The lab file as written: serde types with spans, from which the JSON Schema is made, too.
//!
//! Doc comments of this layer are the descriptions that editors show. Nothing here says whether a value makes sense;
//! [`super::validate`] turns this layer into [`super::Lab`].

mod autoscaler;
mod check;
mod pool;
mod provider;
mod scheduler;
mod skip;
mod step;
mod text;
mod workload;

use schemars::JsonSchema;
use serde::Deserialize;

use super::catalogue::{Topic, Track};
use super::provider::{Addon, Provider};

pub(super) use autoscaler::Autoscaler;
pub(super) use check::{CONDITIONS, Check, ConditionForm, ConditionKey, SubjectKind};
pub(super) use pool::{Devices, Pool, PoolType, Upgrade};
pub(super) use provider::{Aks, Existing, Kind, PortMapping, Sim};
pub(super) use scheduler::Scheduler;
pub(super) use skip::Skip;
pub(super) use step::{ACTIONS, Action, ActionForm, Step};
pub(super) use text::{
    Anything, At, CountText, KubernetesObject, KubernetesType, NodesText, PortText, QuantityText, SettingText, Table,
    TolerationText, ZonesText,
};
pub(super) use workload::{Config, Manifest, Namespace, RestartPolicy, Secret, Workload};

/// A klab lab: the cluster's pools, the workloads on it, the checks that say where their pods must be, and the steps of the lesson.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Lab")]
#[expect(clippy::struct_field_names, reason = "`lab` is the key in the file")]
pub(super) struct Lab {
    /// Name of the lab; it names everything klab creates. Lower-case letters, digits and `-`, at most 30, beginning with a letter.
    #[schemars(regex(pattern = "^[a-z][a-z0-9-]{0,29}$"))]
    pub lab: At<String>,
    /// One line that says what the lab is about.
    pub title: Option<String>,
    /// Text for the learner, in Markdown.
    pub description: Option<String>,
    /// Tracks to list the lab in, such as `["cka"]`.
    #[serde(default)]
    pub tracks: Vec<Track>,
    /// What the lab practises, such as `["taints"]`; `klab practice` brings topics back that went wrong.
    #[serde(default)]
    pub topics: Vec<Topic>,
    /// How many minutes a learner needs.
    pub minutes: Option<u16>,
    /// Kubernetes version of the cluster, such as "1.36" or "1.36.2". Default: the newest that the provider offers.
    pub kubernetes: Option<At<String>>,
    /// Provider to use where neither `--provider` nor KLAB_PROVIDER says otherwise. Default: sim.
    #[expect(dead_code, reason = "read from the tree before strings are rendered; here for the schema and the key")]
    pub provider: Option<At<Provider>>,
    /// How long the cluster is meant to live, such as "8h"; `klab gc` removes what has outlived it.
    pub ttl: Option<At<String>>,
    /// Parts to add to the cluster where the provider does not have them already.
    #[serde(default)]
    pub addons: Vec<At<Addon>>,
    /// Variables for templates, as `{{ vars.NAME }}` in every string and file. The tables `sim`, `kind`, `aks` and `existing` hold values for that provider only; `--var NAME=VALUE` overrides.
    #[serde(default)]
    #[expect(dead_code, reason = "read from the tree before strings are rendered; here for the schema and the key")]
    pub vars: Table<Anything>,
    /// Node pools by name, in order of creation. A name has at most 12 lower-case letters and digits, beginning with a letter.
    #[serde(default)]
    pub pool: Table<Pool>,
    /// Settings of the cluster autoscaler, for pools with `autoscale`.
    #[serde(default)]
    pub autoscaler: Option<Autoscaler>,
    /// Configuration of the cluster's scheduler: a `KubeSchedulerConfiguration` as TOML, without `apiVersion` and `kind`.
    pub scheduler: Option<At<Scheduler>>,
    /// Workloads by name.
    #[serde(default)]
    pub workload: Table<Workload>,
    /// Namespaces that need labels. Namespaces that objects name are created without being declared here.
    #[serde(default)]
    pub namespace: Table<Namespace>,
    /// ConfigMaps by name.
    #[serde(default)]
    pub config: Table<Config>,
    /// Secrets by name.
    #[serde(default)]
    pub secret: Table<Secret>,
    /// Objects of your own, from files or from text.
    #[serde(default)]
    pub manifest: Vec<At<Manifest>>,
    /// What must hold once the lab is up.
    #[serde(default)]
    pub check: Vec<At<Check>>,
    /// Steps of the lesson, in order.
    #[serde(default)]
    pub step: Vec<At<Step>>,
    /// Settings of the embedded cluster.
    #[serde(default)]
    pub sim: Option<Sim>,
    /// Settings of kind.
    #[serde(default)]
    pub kind: Option<Kind>,
    /// Settings of Azure Kubernetes Service.
    #[serde(default)]
    pub aks: Option<Aks>,
    /// Which cluster of somebody else's, for `provider = "existing"`.
    #[serde(default)]
    pub existing: Option<Existing>,
}
