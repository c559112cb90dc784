//! The lab as the rest of klab uses it.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::SignedDuration;
use klab_scheduler::Profiles;
use klab_scheduler::features::Features;

use super::catalogue::Catalogue;
use super::check::{Check, ObjectRef};
use super::diagnostic::Diagnostics;
use super::files::{Files, Reach};
use super::kind_name::singular;
use super::pool::Pool;
use super::provider::{Addon, AksSettings, ExistingSettings, KindSettings, Provider, SimLike, SimSettings};
use super::scheduler::Scheduler;
use super::source::{Located, Source};
use super::step::{Action, SkippedStep, Step};
use super::version::KubernetesVersion;
use super::workload::{Bundle, ManifestSource, Namespace, Workload, WorkloadKind};
use crate::names::WORKLOAD_LABEL;

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
    /// Where it stands in the list of lessons and tasks.
    pub catalogue: Catalogue,
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
    /// Settings of the cluster autoscaler, by the names of AKS's cluster autoscaler profile; those that are not given have
    /// their defaults.
    pub autoscaler: BTreeMap<String, Located<String>>,
    /// The configured scheduler; `None`: the provider's own.
    pub scheduler: Option<Located<Scheduler>>,
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
    /// Steps that are left out on this provider, in order.
    pub skipped_steps: Vec<SkippedStep>,
    /// Settings of the embedded cluster.
    pub sim: SimSettings,
    /// Settings of kind.
    pub kind: KindSettings,
    /// Settings of AKS.
    pub aks: AksSettings,
    /// Which cluster of somebody else's.
    pub existing: ExistingSettings,
    /// What the lab refers to outside its file.
    pub files: Files,
    /// What is worth a look but does not stop.
    pub warnings: Diagnostics,
}

impl Lab {
    /// Its title, or its name where it has none.
    pub fn shown_title(&self) -> &str {
        self.title.as_deref().unwrap_or(&self.name.value)
    }

    /// Whether objects of the lab, or of one of its steps, are made from templates of the author's.
    pub fn has_templates(&self) -> bool {
        self.workloads.iter().any(|workload| workload.template.is_some()) || self.files.has_templates()
    }

    /// The pool of this name.
    pub fn pool(&self, name: &str) -> Option<&Pool> {
        self.pools.iter().find(|pool| *pool.name == name)
    }

    /// Whether a pool is there from the start, or a step of this provider makes it.
    pub fn makes(&self, pool: &Pool) -> bool {
        let actions = self.steps.iter().flat_map(|step| &step.actions);
        let mut added = actions.filter_map(|action| match &action.value {
            Action::AddPool { pool } => Some(pool),
            _ => None,
        });
        !pool.deferred || added.any(|name| *name == pool.name.value)
    }

    /// Whether its nodes and their upgrades are those of AKS.
    pub fn is_like_aks(&self) -> bool {
        self.provider.profile().like.unwrap_or(self.sim.like) == SimLike::Aks
    }

    /// The settings of the cluster autoscaler as text, by name.
    pub fn autoscaler_settings(&self) -> BTreeMap<String, String> {
        self.autoscaler.iter().map(|(name, value)| (name.clone(), value.value.clone())).collect()
    }

    /// Whether its scheduler is configured by an object of AKS: on AKS, and on an embedded cluster that is like AKS.
    pub fn configures_scheduler_by_object(&self) -> bool {
        self.scheduler.is_some() && self.like() == SimLike::Aks
    }

    /// The features of its cluster, as far as klab makes it.
    pub fn features(&self) -> Features {
        if self.provider.profile().is_embedded { self.sim.features } else { Features::observed() }
    }

    /// The profiles of its scheduler.
    pub fn profiles(&self) -> Arc<Profiles> {
        self.scheduler.as_ref().map(|scheduler| Arc::clone(&scheduler.value.profiles)).unwrap_or_default()
    }

    /// The workload that an object is: named as such (`workload/web`), or by its kind (`deployment/web`).
    pub fn workload_of(&self, object: &ObjectRef) -> Option<&Workload> {
        if object.kind.eq_ignore_ascii_case("workload") {
            return self.workload(&object.name);
        }
        let (wanted, group) = match singular(&object.kind).as_str() {
            "deployment" => (WorkloadKind::Deployment, "apps"),
            "daemonset" => (WorkloadKind::DaemonSet, "apps"),
            "statefulset" => (WorkloadKind::StatefulSet, "apps"),
            "job" => (WorkloadKind::Job, "batch"),
            "pod" => (WorkloadKind::Pod, ""),
            _ => return None,
        };
        self.workloads.iter().find(|workload| {
            *workload.name == *object.name
                && workload.kind == wanted
                && workload.namespace == object.namespace
                && object.group.as_deref().is_none_or(|named| named == group)
        })
    }

    /// The workload of this name.
    pub fn workload(&self, name: &str) -> Option<&Workload> {
        self.workloads.iter().find(|workload| *workload.name == name)
    }
}

impl Lab {
    /// The labels of a workload's pods: the author's, `app`, and the one by which klab finds them.
    pub fn pod_labels(&self, workload: &Workload) -> BTreeMap<String, String> {
        let mut labels: BTreeMap<_, _> =
            workload.labels.iter().map(|(key, value)| (key.clone(), value.value.clone())).collect();
        labels.entry("app".to_owned()).or_insert_with(|| workload.name.value.clone());
        labels.insert(WORKLOAD_LABEL.to_owned(), workload.name.value.clone());
        labels
    }
}

/// What the command line and the environment say about a lab.
#[derive(Clone, Debug, Default)]
pub struct LoadOptions {
    /// `--var NAME=VALUE`, in the order given.
    pub vars: Vec<(String, String)>,
    /// `--provider` or `KLAB_PROVIDER`.
    pub provider: Option<Provider>,
    /// `--seed`: breaks ties of the embedded cluster's scheduler instead of the file's `[sim] seed`.
    pub seed: Option<u64>,
    /// What the lab may read of this machine.
    pub reach: Reach,
}
