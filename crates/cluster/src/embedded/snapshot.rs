//! What a cluster holds at one moment: to go back to it, or to begin other clusters with it.

use std::sync::Arc;

use jiff::Timestamp;
use klab_api_machinery::object::Object;
use klab_api_machinery::registry;
use klab_api_machinery::renaming::Renaming;
use klab_api_machinery::resource::ResourceId;
use klab_api_machinery::schema::{Mismatch, schema};
use klab_api_machinery::status::Status;
use serde_json::Value;

use super::{Cluster, Conduct};
use crate::clock::SteppedClock;
use crate::cluster::{self, Checkpoint};
use crate::control::ControlPlane;

/// The objects of a cluster at one moment, its time and how it acts. Cheap: objects are shared, not copied.
#[derive(Debug, Clone)]
pub struct Snapshot {
    checkpoint: Checkpoint,
    at: Timestamp,
    conduct: Conduct,
}

impl Snapshot {
    /// A cluster of its own that begins where the snapshot was taken, with a clock that shows that instant. Equal
    /// requests to such clusters give equal answers: a test makes its world once and begins each case with it.
    pub fn to_cluster(&self) -> Cluster {
        let clock = Arc::new(SteppedClock::new(self.at));
        let inner = cluster::Cluster::from_checkpoint(&self.checkpoint, Arc::<SteppedClock>::clone(&clock));
        Cluster::assembled(inner, self.conduct.clone(), clock)
    }
}

impl Snapshot {
    /// The same cluster under other names. Experimental.
    #[must_use]
    pub fn renamed(&self, renaming: &Renaming) -> Self {
        Self { checkpoint: self.checkpoint.renamed(renaming), at: self.at, conduct: self.conduct.clone() }
    }

    /// The same cluster under these other names, one for each, as a server makes copies: where the names stand is found
    /// once. Experimental.
    ///
    /// # Errors
    /// When the snapshot cannot be written as text.
    pub fn copies(&self, renamings: &[Renaming]) -> std::io::Result<Vec<Self>> {
        let (template, _) = cluster::Template::new(self.checkpoint.clone(), serde_json::Value::Null)?;
        let copy = |renaming: &Renaming| Self {
            checkpoint: self.checkpoint.with_objects(template.objects_for(Some(renaming))),
            at: self.at,
            conduct: self.conduct.clone(),
        };
        Ok(renamings.iter().map(copy).collect())
    }

    /// Its objects. Experimental.
    pub fn objects(&self) -> &[Arc<Object>] {
        self.checkpoint.objects()
    }
}

/// Objects as a cluster keeps them, with their uids, times and status, to begin clusters with: no admission and no validation judges
/// them. Cheap to clone. Experimental.
#[derive(Debug, Clone, Default)]
pub struct KeptObjects(Arc<[Arc<Object>]>);

/// Behind the resourceVersions of what a new cluster makes for itself.
const FIRST_VERSION: u64 = 100_000;

impl KeptObjects {
    /// These objects, of the kinds of Kubernetes.
    ///
    /// # Errors
    /// When one is of no such kind, or not of the types of its kind.
    pub fn of(objects: impl IntoIterator<Item = Value>) -> Result<Self, Status> {
        let kept = |(object, version): (Value, u64)| {
            let resource = resource_of_kind(&object)?;
            let mut object = completed(resource, object)?;
            object["metadata"]["resourceVersion"] = version.to_string().into();
            Ok(Arc::new(Object::keeping(resource, version, object)))
        };
        Ok(Self(objects.into_iter().zip(FIRST_VERSION..).map(kept).collect::<Result<_, Status>>()?))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// The resource that an object names.
fn resource_of_kind(object: &Value) -> Result<ResourceId, Status> {
    let text = |field: &str| object[field].as_str().unwrap_or_default();
    let (version, kind) = (text("apiVersion"), text("kind"));
    ResourceId::by_kind(version, kind)
        .ok_or_else(|| Status::bad_request(format!("Kubernetes has no {kind} of {version} among its kinds")))
}

impl Cluster {
    /// What it holds now. Faults that were injected are no part of it.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot { checkpoint: self.inner().checkpoint(), at: self.now(), conduct: self.0.conduct.clone() }
    }

    /// A cluster that acts as this one and holds these objects beside its own.
    pub(super) fn holding(&self, kept: &KeptObjects, clock: Arc<SteppedClock>) -> Self {
        let mut checkpoint = self.inner().checkpoint();
        checkpoint.extend(&kept.0);
        let inner = cluster::Cluster::from_checkpoint(&checkpoint, Arc::<SteppedClock>::clone(&clock));
        Self::assembled(inner, self.0.conduct.clone(), clock)
    }

    /// Puts the objects of a snapshot in the place of those there are, as a restore of etcd from a backup does while
    /// clients are connected: the clock and resourceVersions go on, and every watch ends with 410 Expired, so that
    /// clients list again. [`Snapshot::to_cluster`] goes back in time instead.
    pub fn restore(&self, snapshot: &Snapshot) {
        {
            let mut plane = self.plane();
            self.inner().return_to(&snapshot.checkpoint);
            *plane = ControlPlane::new(Arc::clone(self.inner()), self.0.conduct.settings.clone());
        }
        self.settle();
    }
}

/// An object as it is kept: of the types of its kind, with the defaults of fields that it does not have.
fn completed(resource: ResourceId, object: Value) -> Result<Value, Status> {
    let mut value = registry::stored(resource, object);
    let row = resource.row();
    if let Some(id) = schema().kind(&row.api_version(), row.kind) {
        let name = value["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let wrong = |mismatch: Mismatch| Status::bad_request(format!("{} {name}: {}", row.kind, mismatch.0));
        schema().tidy(id, &mut value).map_err(wrong)?;
    }
    if let Some(fill) = registry::of(resource).defaults {
        fill(&mut value);
    }
    Ok(value)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::{Value, json};

    use super::*;
    use crate::cluster::{DeleteOptions, WriteOptions};
    use klab_api_machinery::resource::{DEPLOYMENTS, PODS};

    fn deployment(replicas: usize) -> Value {
        let labels = json!({ "app": "web" });
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": "web" },
            "spec": {
                "replicas": replicas, "selector": { "matchLabels": labels },
                "template": {
                    "metadata": { "labels": labels }, "spec": { "containers": [{ "name": "web", "image": "nginx" }] },
                },
            },
        })
    }

    /// Names, nodes and phases of the pods.
    fn pods(cluster: &Cluster) -> Vec<String> {
        let line = |pod: &Value| {
            let texts = [&pod["metadata"]["name"], &pod["spec"]["nodeName"], &pod["status"]["phase"]];
            texts.map(|text| text.as_str().unwrap_or_default()).join(" ")
        };
        cluster.inner().list(PODS, Some("default")).0.iter().map(|pod| line(&pod.value())).collect()
    }

    fn scale(cluster: &Cluster, replicas: usize) {
        let options = WriteOptions::client("test");
        let written = cluster.inner().modify(DEPLOYMENTS, cluster::Part::Main, "default", "web", &options, |web| {
            web["spec"]["replicas"] = json!(replicas);
        });
        written.unwrap();
        cluster.settle();
    }

    #[test]
    fn clusters_of_one_snapshot_go_their_own_ways() {
        let cluster = Cluster::builder().nodes(3).objects([deployment(2)]).build().unwrap();
        cluster.advance(Duration::from_mins(1));
        let snapshot = cluster.snapshot();
        let at_first = pods(&cluster);
        assert!(at_first.len() == 2 && at_first.iter().all(|pod| pod.ends_with("Running")), "{at_first:?}");

        let (one, other) = (snapshot.to_cluster(), snapshot.to_cluster());
        assert_eq!((pods(&one), one.now()), (at_first.clone(), cluster.now()));
        for cluster in [&one, &other] {
            scale(cluster, 5);
            cluster.advance(Duration::from_mins(1));
        }
        assert_eq!(pods(&one), pods(&other), "equal requests, equal clusters");
        assert_eq!((pods(&one).len(), pods(&cluster)), (5, at_first));
        assert!(one.now() > cluster.now());
    }

    #[test]
    fn what_came_after_the_snapshot_is_gone_and_the_controllers_go_on() {
        let cluster = Cluster::builder().nodes(1).objects([deployment(2)]).build().unwrap();
        let (before, snapshot) = (pods(&cluster), cluster.snapshot());
        cluster.inner().delete(DEPLOYMENTS, "default", "web", &DeleteOptions::default()).unwrap();
        cluster.advance(Duration::from_mins(1));
        let later = cluster.now();
        assert_eq!(pods(&cluster), Vec::<String>::new());
        cluster.restore(&snapshot);
        assert_eq!((pods(&cluster), cluster.now()), (before, later));
        scale(&cluster, 3);
        assert_eq!(pods(&cluster).len(), 3);
    }
}
