//! What a new cluster holds and how it behaves, as other processes say it to a server.

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::SignedDuration;
use klab_api_machinery::part::Part;
use klab_api_machinery::resource::NAMESPACES;
use klab_api_machinery::status::Status;
use klab_scheduler::Profiles;
use klab_scheduler::features::Features;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Value, json};

use super::api::{self, Metrics};
use super::cluster::{Cluster, WriteOptions};
use super::control::{Controller, HollowDelays, Settings};
use super::system::{self, Flavour};

/// The annotation of `kube-system` that says which features a cluster has that are not as by default.
pub const FEATURES_ANNOTATION: &str = "klab.dev/features";

/// What a new cluster holds and how it behaves.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct Seed {
    /// Feeds names, uids and the scheduler's choice among equals; equal seeds give equal clusters.
    pub seed: u64,
    /// Whether the scheduler takes the first by name of nodes that are equally good, whatever the seed: then clusters whose
    /// nodes differ in their names alone are equal.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub ties_by_name: bool,
    /// Whose system workloads, roles and classes it has.
    pub flavour: Flavour,
    /// Objects to make after those, in this order: nodes first.
    pub objects: Vec<Value>,
    /// How long hollow nodes take.
    pub delays: Delays,
    /// What `kubectl top` shows.
    pub metrics: Figures,
    /// Annotation that, set to `stopped`, keeps a node from posting its status; `None` for klab's own.
    pub heartbeat_annotation: Option<String>,
    /// Images that cannot be pulled, beside those whose names say so.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub missing_images: Vec<String>,
    /// Feature gates and versions of the API that are not as by default.
    #[serde(skip_serializing_if = "is_default")]
    pub features: Features,
    /// Name of the machine the scheduler runs on, as events tell it; `None` for klab's own.
    pub host: Option<String>,
    /// The scheduler's `KubeSchedulerConfiguration`; `None` for one profile, the default one.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "configuration")]
    pub scheduler: Option<Value>,
}

fn is_default(features: &Features) -> bool {
    *features == Features::default()
}

/// Reads a configuration of the scheduler that can be used.
fn configuration<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    let configuration = Option::<Value>::deserialize(deserializer)?;
    match configuration.as_ref().map(Profiles::from_configuration) {
        Some(Err(error)) => Err(serde::de::Error::custom(format!("scheduler: {error}"))),
        _ => Ok(configuration),
    }
}

/// How long hollow nodes take, in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct Delays {
    /// From binding to Running.
    pub start: i64,
    /// How long containers of Jobs run.
    pub job: i64,
    /// From deletion of a pod to its end.
    pub stop: i64,
    /// Whether pods do no more than those of the recorded flows.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub as_recorded: bool,
}

impl Default for Delays {
    fn default() -> Self {
        let delays = HollowDelays::default();
        let millis = |duration: SignedDuration| i64::try_from(duration.as_millis()).unwrap_or(i64::MAX);
        Self {
            start: millis(delays.start),
            job: millis(delays.job),
            stop: millis(delays.stop),
            as_recorded: delays.as_recorded,
        }
    }
}

impl Delays {
    /// For clusters on the machine's clock: a pod that is deleted can be seen for a second, after which a kubelet looks
    /// again. A `kubectl delete` that waits takes a StatefulSet's next pod of the same name for the old one if that is there
    /// before it looks.
    #[must_use]
    pub fn in_real_time() -> Self {
        Self { stop: 1_000, ..Self::default() }
    }
}

/// What the metrics API of a cluster shows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Figures {
    /// There is none.
    Absent,
    /// Half of what is requested.
    #[default]
    Half,
    /// A share (0 to 1) of what is requested.
    Share(f64),
    /// Those of the recorded flows.
    Fixed,
}

impl Figures {
    /// As the API takes it.
    pub fn metrics(self) -> Metrics {
        match self {
            Self::Absent => Metrics::Absent,
            Self::Half => Metrics::Share(0.5),
            Self::Share(share) => Metrics::Share(share.clamp(0.0, 1.0)),
            Self::Fixed => Metrics::Fixed,
        }
    }
}

impl Seed {
    /// How a control plane of this seed behaves.
    pub fn settings(&self) -> Settings {
        let share = match self.metrics.metrics() {
            Metrics::Share(share) => Some(share),
            _ => None,
        };
        let millis = |millis: i64| SignedDuration::from_millis(millis.max(0));
        let defaults = Settings::default();
        // One that cannot be used is refused where the seed is read.
        let profiles = self.scheduler.as_ref().and_then(|it| Profiles::from_configuration(it).ok());
        Settings {
            seed: self.seed,
            ties_by_name: self.ties_by_name,
            shuffled: false,
            heartbeat_annotation: self.heartbeat_annotation.clone().unwrap_or(defaults.heartbeat_annotation),
            hollow: HollowDelays {
                start: millis(self.delays.start),
                job: millis(self.delays.job),
                stop: millis(self.delays.stop),
                as_recorded: self.delays.as_recorded,
            },
            missing_images: self.missing_images.as_slice().into(),
            profiles: Arc::new(profiles.unwrap_or_default()),
            features: self.features,
            metrics_share: share,
            host: self.host.clone().unwrap_or(defaults.host),
            // upstream: cmd/kube-controller-manager/app/autoscaling.go: the controller waits for this version (v1.36)
            only_warnings: false,
            switched_off: if self.features.serves("autoscaling", "v2") {
                defaults.switched_off
            } else {
                BTreeSet::from([Controller::HorizontalPodAutoscaler])
            },
        }
    }

    /// Makes everything a fresh cluster of this seed holds; what is there already stays as it is. Gives what was made.
    pub fn fill(&self, cluster: &Cluster, name: &str) -> Result<Vec<String>, Status> {
        cluster.set_flavour(self.flavour);
        cluster.set_features(self.features);
        let mut made = system::bootstrap(cluster, self.flavour);
        if !is_default(&self.features) {
            let text = self.features.to_string();
            cluster.modify(NAMESPACES, Part::Main, "", "kube-system", &WriteOptions::by("klab"), |namespace| {
                namespace["metadata"]["annotations"][FEATURES_ANNOTATION] = json!(text);
            })?;
        }
        // A seed may bring the control planes itself.
        let brings_it = self.objects.iter().any(system::is_control_plane);
        if self.flavour == Flavour::Kind && !brings_it {
            made.extend(add_objects(cluster, &[system::control_plane_node(name)])?);
        }
        made.extend(add_objects(cluster, &self.objects)?);
        Ok(made)
    }
}

/// Makes the objects of a seed; those that are there already (from a start that was cut short) stay as they are.
pub fn add_objects(cluster: &Cluster, objects: &[Value]) -> Result<Vec<String>, Status> {
    let mut made = Vec::new();
    for object in objects {
        made.extend(api::add_objects::add_objects(cluster, object)?);
    }
    Ok(made)
}
