//! Which schedulers there are: the cluster's own, with the configuration in effect, and those that run in pods.
//!
//! In Kubernetes each is a process of its own. Here one scheduler has the profiles of all of them.

// See https://learn.microsoft.com/azure/aks/configure-aks-scheduler (the object, its name, what comes of mistakes)
// See https://kubernetes.io/docs/tasks/extend-kubernetes/configure-multiple-schedulers/ (schedulers in pods)
// upstream: cmd/kube-scheduler/app/server.go Run, leader election (v1.36)

use std::collections::{BTreeMap, BTreeSet};

use klab_api_machinery::object::Object;
use klab_api_machinery::resource::{NAMESPACES, PODS, ResourceId};
use klab_api_machinery::value::{map_mut, text};
use klab_api_machinery::views::{ContainerStatus, Pod, metadata};
use klab_api_machinery::yaml;
use klab_containers::{Container, scheduler_configuration, status_of};
use klab_scheduler::{Profiles, SCHEDULERS_ANNOTATION};
use serde_json::{Value, json};

use super::controller::Controller;
use super::plane::Plane;
use super::pods::writes;
use super::queue::{Key, ObjectName};
use super::reconcile::{Change, Reconciler};
use crate::cluster::{Cluster, Part};
use crate::containers::ClusterObjects;
use crate::rbac::{Attributes, ResourceSubject, Subject, User, authorize};
use crate::system::{SCHEDULER_CONFIGURATION, SCHEDULER_CONFIGURATIONS};

/// Annotation of the namespace `kube-system` with the `KubeSchedulerConfiguration` of the cluster's scheduler, as JSON, in place
/// of the one that it was made with.
pub const SCHEDULER_CONFIGURATION_ANNOTATION: &str = "klab.dev/scheduler-configuration";

/// The namespace whose annotations they are, and where the lock of the cluster's scheduler is.
const NAMESPACE: &str = "kube-system";
/// The lock for which schedulers compete that say nothing else.
const LOCK: &str = "kube-scheduler";
/// Most pods whose schedulers count.
const MAX_PODS: usize = 16;
/// The longest text in an annotation: all those of an object together may have 256 KiB.
const MAX_LISTED: usize = 64 * 1024;
/// What a scheduler has to be allowed to: without it, it never begins.
const NEEDS: [(&str, &str, &str, &str); 4] = [
    ("list", "", "nodes", ""),
    ("list", "", "pods", ""),
    ("list", "apps", "replicasets", ""),
    ("create", "", "pods", "binding"),
];

/// Keeps the profiles of the scheduler.
#[derive(Debug, Default)]
pub(super) struct Schedulers {
    /// The custom resource of AKS, once there is an object of it.
    aks: Option<ResourceId>,
    /// Pods whose text has the name of a scheduler.
    pods: BTreeSet<ObjectName>,
    /// What schedulers in pods have read when they started, by the uid of their pod and how often it had restarted.
    read: BTreeMap<(Box<str>, i64), Option<Value>>,
}

fn key() -> Key {
    Key::at_large(Controller::Schedulers)
}

impl Reconciler for Schedulers {
    fn changed(&mut self, plane: &mut Plane, change: &Change<'_>) {
        let (resource, object) = (change.resource(), change.object);
        let concerns = match resource {
            NAMESPACES => &*object.name == NAMESPACE,
            PODS => is_other(change) && self.may_schedule(change),
            _ => {
                resource.row().custom
                    && (self.aks == Some(resource) || resource.row().qualified() == SCHEDULER_CONFIGURATIONS)
            }
        };
        if concerns {
            self.aks = self.aks.or(resource.row().custom.then_some(resource));
            plane.queue.add(key());
        }
    }

    fn forget(&mut self) {
        self.pods.clear();
    }

    fn sync(&mut self, plane: &mut Plane, _: &Key) {
        let namespace = plane.cluster.get(NAMESPACES, "", NAMESPACE).map(|namespace| namespace.value());
        let annotation = |name| metadata(namespace.as_ref()?).annotations().get(name).map(str::to_owned);
        let of_file = annotation(SCHEDULER_CONFIGURATION_ANNOTATION).and_then(|text| serde_json::from_str(&text).ok());
        // `Null` stands for the configuration that the cluster was made with.
        let own = self.of_aks(plane).into_iter().chain([of_file.unwrap_or_default()]);
        let all: Vec<Value> = own.chain(self.in_pods(plane)).collect();
        let profiles = Profiles::of_all(&all, &plane.settings.profiles);
        let listed = (all != [Value::Null]).then(|| Value::Array(all).to_string());
        let listed = listed.filter(|text| text.len() <= MAX_LISTED);
        if annotation(SCHEDULERS_ANNOTATION) != listed {
            annotate(&plane.cluster, listed);
        }
        plane.set_profiles(profiles);
    }
}

/// Whether a change may be of a scheduler that has started or ended.
fn is_other(change: &Change<'_>) -> bool {
    let (Some(before), Some(after)) = (&change.pod.before, &change.pod.after) else { return true };
    (before.ready, before.phase, before.object.deleting) != (after.ready, after.phase, after.object.deleting)
}

/// Whether a pod may run a scheduler: its text has the name.
fn is_named(pod: &Object) -> bool {
    std::str::from_utf8(&pod.json).is_ok_and(|text| text.contains(LOCK))
}

fn annotate(cluster: &Cluster, configurations: Option<String>) {
    // Gone meanwhile, or changed: the next change comes back here.
    let _written = cluster.modify(NAMESPACES, Part::Main, "", NAMESPACE, &writes(), |namespace| {
        let annotations = map_mut(&mut namespace["metadata"]["annotations"]);
        match configurations {
            Some(text) => annotations.insert(SCHEDULERS_ANNOTATION.to_owned(), json!(text)),
            None => annotations.remove(SCHEDULERS_ANNOTATION),
        };
    });
}

impl Schedulers {
    /// Whether a pod that has changed may run a scheduler, or may have run one.
    fn may_schedule(&mut self, change: &Change<'_>) -> bool {
        let is_named = is_named(change.object);
        if is_named && !change.gone {
            self.pods.insert(change.name());
        } else if is_named {
            self.pods.remove(&change.name());
        }
        is_named
    }

    /// The configuration of AKS's object; the last one that was good, where it has a mistake. Writes into the object what came
    /// of it.
    fn of_aks(&self, plane: &Plane) -> Option<Value> {
        let object = plane.cluster.get(self.aks?, "", SCHEDULER_CONFIGURATION)?.value();
        let raw = text(&object, &["spec", "rawConfig"]);
        let judged = read_for_aks(raw);
        let last = text(&object, &["status", "acceptedConfig"]);
        let status = match &judged {
            Ok(_) => json!({ "configuration": "Succeeded", "acceptedConfig": raw }),
            Err(why) if last.is_empty() => json!({ "configuration": "Failed", "message": why }),
            Err(why) => json!({ "configuration": "Failed", "message": why, "acceptedConfig": last }),
        };
        if object["status"] != status {
            let _written =
                plane.cluster.modify(self.aks?, Part::Status, "", SCHEDULER_CONFIGURATION, &writes(), |object| {
                    object["status"] = status;
                });
        }
        judged.or_else(|_| read_for_aks(last)).ok()
    }

    /// The configurations of schedulers that run in pods, in the order of their names.
    fn in_pods(&mut self, plane: &Plane) -> Vec<Value> {
        let mut kept = BTreeMap::new();
        let mut configurations = Vec::new();
        let known = self.pods.iter().filter_map(|name| plane.view.pod(name));
        for info in known.filter(|info| info.ready && !info.object.deleting).take(MAX_PODS) {
            let (pod, value) = (&info.object, info.object.value());
            if Pod(&value).is_mirror() {
                continue;
            }
            for container in Pod(&value).spec().containers() {
                let container = container.0;
                let restarts = ContainerStatus(status_of(&value, container)).restart_count();
                let run = (pod.uid.clone(), restarts);
                let read = self.read.get(&run).cloned().unwrap_or_else(|| configuration(plane, &value, container));
                if let Some(read) = read.clone().filter(|read| leads(read) && may(&plane.cluster, &value)) {
                    configurations.push(read);
                }
                kept.insert(run, read);
            }
        }
        self.read = kept;
        configurations
    }
}

/// Reads a configuration as AKS does.
///
/// # Errors
/// Why AKS refuses it.
fn read_for_aks(raw: &str) -> Result<Value, String> {
    let (configuration, _) = yaml::read(raw.as_bytes())?;
    Profiles::for_aks(&configuration).map_err(|error| error.to_string())?;
    Ok(configuration)
}

fn configuration(plane: &Plane, pod: &Value, container: &Value) -> Option<Value> {
    let objects = ClusterObjects::of(&plane.cluster);
    // One with a mistake has ended, and is not ready.
    scheduler_configuration(Container { objects: Some(&objects), pod, container }).ok().flatten()
}

/// Whether a scheduler ever becomes the leader: not where it competes with the cluster's own, which has the lock.
fn leads(configuration: &Value) -> bool {
    let election = &configuration["leaderElection"];
    let named = |field: &str, default: &'static str| election[field].as_str().unwrap_or(default).to_owned();
    election["leaderElect"] == false
        || named("resourceName", LOCK) != LOCK
        || named("resourceNamespace", NAMESPACE) != NAMESPACE
}

/// Whether the service account of a pod may do what a scheduler does.
fn may(cluster: &Cluster, pod: &Value) -> bool {
    let user = User::service_account(Pod(pod).metadata().namespace(), Pod(pod).spec().service_account_name());
    NEEDS.iter().all(|(verb, group, resource, subresource)| {
        let subject = ResourceSubject { group, resource, subresource, ..ResourceSubject::default() };
        let asked = Attributes { verb, to: Subject::Resource(subject) };
        cluster.read(|store| authorize(store, &user, &asked).allowed)
    })
}
