//! Changes performed on a copy, and what stood in their way.

use std::collections::BTreeSet;
use std::time::Duration;

use klab_api_machinery::resource::{
    DEPLOYMENTS, NAMESPACES, NODES, REPLICA_SETS, REPLICATION_CONTROLLERS, ResourceId, STATEFUL_SETS,
};
use klab_api_machinery::value::list_mut;
use klab_cluster::Cluster;
use klab_cluster::cluster::Part;
use klab_cluster::control::SCHEDULER_CONFIGURATION_ANNOTATION;
use klab_fields::Patch;
use klab_lab::spec::{Share, UpgradeSettings, VmSize};
use serde_json::{Value, json};

use crate::change::{Change, parts, taint};
use crate::drain::{Blocked, cordon, drain, meanwhile, writer};
use crate::error::ChangeError;
use crate::kinds::Kind;
use crate::nodes;
use crate::sanitise::sanitised;
use crate::twin::{MAX_PODS, completed, wanted_pods};

/// How long a copy goes on after a change: longer than the five minutes after which pods leave a node that is silent.
const AFTERWARDS: Duration = Duration::from_mins(6);

/// What a trial came to, beside what became of the pods.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Trial {
    /// What decides where order is open.
    pub(crate) seed: u64,
    /// Pods that could not be evicted.
    pub(crate) blocked: BTreeSet<Blocked>,
    /// Objects that the copy has no place for.
    pub(crate) ignored: BTreeSet<String>,
}

impl Trial {
    /// Performs a change.
    pub(crate) fn perform(&mut self, cluster: &Cluster, change: &Change) -> Result<(), ChangeError> {
        match change {
            Change::Nodes { pool, nodes } => self.resize_pool(cluster, pool, *nodes)?,
            Change::Size { pool, size } => self.replace(cluster, pool, Some(size))?,
            Change::Upgrade { pool, settings } if settings.is_blue_green() => self.replace(cluster, pool, None)?,
            Change::Upgrade { pool, settings } => self.upgrade(cluster, pool, settings)?,
            Change::Taint { target, key, value, effect } => {
                self.change_nodes(cluster, target, |node| {
                    let taints = list_mut(&mut node["spec"]["taints"]);
                    taints.retain(|other| {
                        other["key"] != key.as_str()
                            || effect.as_ref().is_some_and(|effect| other["effect"] != effect.as_str())
                    });
                    taints.extend(effect.as_ref().map(|effect| taint(key, value, effect)));
                })?;
            }
            Change::Label { target, key, value } => {
                self.change_nodes(cluster, target, |node| match value {
                    Some(value) => node["metadata"]["labels"][key] = json!(value),
                    None => {
                        node["metadata"]["labels"].as_object_mut().map(|labels| labels.remove(key));
                    }
                })?;
            }
            Change::Drain { target } => {
                let nodes = nodes::targeted(cluster, target)?;
                self.blocked.extend(drain(cluster, &nodes, self.seed));
            }
            Change::ZoneDown { zone } => {
                for node in nodes::of_zone(cluster, zone)? {
                    nodes::remove(cluster, &node);
                }
            }
            Change::Scale { workload, replicas } => scale(cluster, workload, *replicas)?,
            Change::Add { objects, times } => self.add(cluster, objects, *times)?,
            Change::Apply { objects } => self.apply(cluster, objects)?,
            Change::Profile { configuration } => {
                cluster.inner().modify(NAMESPACES, Part::Main, "", "kube-system", &writer(), |namespace| {
                    namespace["metadata"]["annotations"][SCHEDULER_CONFIGURATION_ANNOTATION] =
                        json!(configuration.to_string());
                })?;
            }
        }
        cluster.settle();
        Ok(())
    }

    fn change_nodes(&self, cluster: &Cluster, target: &str, change: impl Fn(&mut Value)) -> Result<(), ChangeError> {
        for node in nodes::targeted(cluster, target)? {
            cluster.inner().modify(NODES, Part::Main, "", &node, &writer(), &change)?;
            meanwhile(cluster, self.seed, &node);
        }
        Ok(())
    }

    fn resize_pool(&mut self, cluster: &Cluster, pool: &str, wanted: usize) -> Result<(), ChangeError> {
        let mut present = nodes::of_pool(cluster, pool)?;
        let surplus: Vec<String> = present.iter().skip(wanted).map(|(name, _)| name.clone()).collect();
        if !surplus.is_empty() {
            self.take_away(cluster, &surplus);
        }
        let names = free_names(cluster, pool, wanted.saturating_sub(present.len()));
        nodes::add(cluster, &mut present, names, self.seed & 2 == 0)
    }

    /// Drains nodes and removes those that are empty then.
    fn take_away(&mut self, cluster: &Cluster, names: &[String]) {
        let blocked = drain(cluster, names, self.seed);
        let held: BTreeSet<&str> = blocked.iter().map(|blocked| blocked.node.as_str()).collect();
        for name in names.iter().filter(|name| !held.contains(name.as_str())) {
            nodes::remove(cluster, name);
        }
        cluster.settle();
        self.blocked.extend(blocked);
    }

    /// As many new nodes as there are, then the old ones go.
    fn replace(&mut self, cluster: &Cluster, pool: &str, size: Option<&'static VmSize>) -> Result<(), ChangeError> {
        let present = nodes::of_pool(cluster, pool)?;
        nodes::add_like(cluster, present.iter().zip(&free_names(cluster, pool, present.len())), size)?;
        let names: Vec<String> = present.into_iter().map(|(name, _)| name).collect();
        self.take_away(cluster, &names);
        Ok(())
    }

    /// Surge nodes come, then a few nodes at a time are drained, and back empty under their names. Ends at the first that a budget
    /// keeps.
    fn upgrade(&mut self, cluster: &Cluster, pool: &str, settings: &UpgradeSettings) -> Result<(), ChangeError> {
        let present = nodes::of_pool(cluster, pool)?;
        let all = u32::try_from(present.len()).unwrap_or(u32::MAX);
        let nodes = |share: Share| usize::try_from(share.of(all)).unwrap_or(usize::MAX);
        let surge = nodes(settings.surge());
        let at_once = if surge > 0 { surge } else { nodes(settings.unavailable()).max(1) };
        let added = free_names(cluster, pool, surge);
        nodes::add_like(cluster, present.iter().cycle().zip(&added), None)?;
        for group in present.chunks(at_once) {
            let names: Vec<String> = group.iter().map(|(name, _)| name.clone()).collect();
            let before = self.blocked.len();
            self.take_away(cluster, &names);
            if self.blocked.len() > before {
                cordon(cluster, &names, false);
                break;
            }
            nodes::add_like(cluster, group.iter().zip(&names), None)?;
        }
        self.take_away(cluster, &added);
        Ok(())
    }

    fn add(&mut self, cluster: &Cluster, objects: &[Value], times: usize) -> Result<(), ChangeError> {
        refuse_too_many(objects, times)?;
        let mut made = Vec::new();
        for number in 1..=times {
            for object in objects {
                let Some(mut object) = self.of_copy(object) else { continue };
                if times > 1 {
                    let name = object["metadata"]["name"].as_str().unwrap_or_default();
                    object["metadata"]["name"] = json!(format!("{name}-{number}"));
                }
                made.push(object);
            }
        }
        Ok(cluster.add_objects(&made)?)
    }

    fn apply(&mut self, cluster: &Cluster, objects: &[Value]) -> Result<(), ChangeError> {
        refuse_too_many(objects, 1)?;
        for object in objects {
            let Some(value) = self.of_copy(object) else { continue };
            let Some(resource) = Kind::of(&value).and_then(|kind| ResourceId::by_kind(kind.api_version, kind.kind))
            else {
                continue;
            };
            let namespace = value["metadata"]["namespace"].as_str().unwrap_or("default");
            let namespace = if resource.row().namespaced { namespace.to_owned() } else { String::new() };
            let name = value["metadata"]["name"].as_str().unwrap_or_default().to_owned();
            // A manifest that is applied says all that pods are made of: what it leaves out, goes.
            if value["kind"] != "Job" && value["spec"]["template"].is_object() {
                let template = value["spec"]["template"].clone();
                let change = |object: &mut Value| object["spec"]["template"] = template.clone();
                // An object that is new has nothing that could go.
                let _new = cluster.inner().modify(resource, Part::Main, &namespace, &name, &writer(), change);
            }
            let patch = Patch::Apply { value, force: true };
            cluster.inner().patch(resource, Part::Main, &namespace, &name, patch, &writer())?;
        }
        Ok(())
    }

    /// An object of a user as the copy has its like; none where placement does not depend on it.
    fn of_copy(&mut self, object: &Value) -> Option<Value> {
        let Some(kind) = Kind::of(object) else {
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            self.ignored.insert(format!("{} {}", text(&object["kind"]), text(&object["metadata"]["name"])));
            return None;
        };
        let mut kept = sanitised(kind, object)?;
        kept.as_object_mut().map(|kept| kept.remove("status"));
        Some(completed(kept))
    }
}

fn refuse_too_many(objects: &[Value], times: usize) -> Result<(), ChangeError> {
    let each = |object: &Value| wanted_pods(object).max(1);
    let pods = objects.iter().map(each).fold(0, u64::saturating_add).saturating_mul(times as u64);
    if pods > MAX_PODS { Err(ChangeError::TooManyPods(pods)) } else { Ok(()) }
}

/// Lets a copy go on until it rests.
pub(crate) fn rest(cluster: &Cluster) {
    cluster.advance(AFTERWARDS);
}

/// Names for nodes that no other has.
fn free_names(cluster: &Cluster, pool: &str, count: usize) -> Vec<String> {
    let is_free = |name: &String| cluster.inner().get(NODES, "", name).is_none();
    let base: String =
        pool.to_lowercase().chars().map(|each| if each.is_ascii_alphanumeric() { each } else { '-' }).collect();
    (1..usize::MAX).map(|number| format!("{base}-new-{number}")).filter(is_free).take(count).collect()
}

fn scale(cluster: &Cluster, workload: &str, replicas: u32) -> Result<(), ChangeError> {
    let none = || ChangeError::NoWorkload(workload.to_owned());
    let (namespace, kind, name) = parts(workload);
    let mut kinds = [DEPLOYMENTS, STATEFUL_SETS, REPLICA_SETS, REPLICATION_CONTROLLERS].into_iter();
    let resource = kinds.find(|resource| resource.row().singular() == kind).ok_or_else(none)?;
    let all = cluster.inner().list(resource, namespace).0;
    let found: Vec<_> = all.iter().filter(|object| &*object.name == name).collect();
    match found.as_slice() {
        [] => Err(none()),
        [one] => {
            let change = |object: &mut Value| object["spec"]["replicas"] = json!(replicas);
            cluster.inner().modify(resource, Part::Main, &one.namespace, name, &writer(), change)?;
            Ok(())
        }
        several => {
            let all: Vec<String> = several.iter().map(|object| format!("{}/{kind}/{name}", object.namespace)).collect();
            Err(ChangeError::SeveralWorkloads { name: workload.to_owned(), all: all.join(", ") })
        }
    }
}
