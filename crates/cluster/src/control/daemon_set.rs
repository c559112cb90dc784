//! DaemonSets: one pod on every node that its template fits, replaced step by step when the template changes.

// upstream: pkg/controller/daemon/daemon_controller.go syncDaemonSet, NodeShouldRunDaemonPod (v1.36)
// upstream: pkg/controller/daemon/update.go rollingUpdate (v1.36)

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::PodSpec;
use klab_api_machinery::object::Object;
use klab_api_machinery::resource::DAEMON_SETS;
use klab_api_machinery::value::{int_or_percent, list_mut, map_mut};
use klab_api_machinery::views::{self, DaemonSet, NodeSelectorTerm, Pod, PodTemplateSpec};
use serde_json::{Value, json};

use super::controller::Controller;
use super::plane::Plane;
use super::pods::{pod_of_template, writes};
use super::queue::{Key, ObjectName};
use super::reconcile::{Change, Reconciler};
use super::revisions::{HASH_LABEL, Revision};
use super::view::{Phase, PodInfo};
use crate::cluster::Part;
use klab_scheduler::NodeSpec;
use klab_scheduler::node_selector::RequiredNodeAffinity;
use klab_scheduler::selector::Selector;
use klab_scheduler::taint::{NO_EXECUTE, Toleration, untolerated};
use klab_scheduler::typed::Typed;

const COMPONENT: &str = "daemonset-controller";
/// At most this many pods are created at once (upstream: pkg/controller/daemon/daemon_controller.go `BurstReplicas`, v1.36).
const BURST: usize = 250;
/// And at most this many before other work has its turn: on a real cluster a Deployment does not wait for DaemonSets.
const FIRST: usize = 10;
const GENERATION_LABEL: &str = "pod-template-generation";
const GENERATION_ANNOTATION: &str = "deprecated.daemonset.template.generation";
const NAME_FIELD: &str = "metadata.name";

/// One DaemonSet during a sync.
struct Daemon {
    object: Arc<Object>,
    value: Arc<Value>,
    requires: RequiredNodeAffinity,
    tolerations: Vec<Toleration>,
    revision: Revision,
}

/// What a node is to a DaemonSet.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Fit {
    /// It is to have a pod.
    runs: bool,
    /// A pod that is there may stay.
    stays: bool,
}

impl Daemon {
    fn fit(&self, node: &NodeSpec) -> Fit {
        if !self.requires.matches(&node.labels, &node.name) {
            return Fit { runs: false, stays: false };
        }
        let taints: Vec<_> = untolerated(&node.taints, &self.tolerations).collect();
        Fit { runs: taints.is_empty(), stays: !taints.iter().any(|taint| taint.effect == NO_EXECUTE) }
    }

    fn read(&self) -> DaemonSet<'_> {
        DaemonSet(&self.value)
    }

    fn min_ready(&self) -> i64 {
        self.read().spec().min_ready_seconds()
    }

    fn generation(&self) -> &str {
        let generation = self.read().metadata().annotations().get(GENERATION_ANNOTATION);
        generation.filter(|generation| !generation.is_empty()).unwrap_or("1")
    }

    fn is_updated(&self, pod: &PodInfo) -> bool {
        pod.object.label(HASH_LABEL) == Some(self.revision.hash())
    }
}

type ByNode = BTreeMap<Box<str>, Vec<Arc<PodInfo>>>;

/// Makes pods of DaemonSets.
#[derive(Default)]
pub(super) struct DaemonSets;

impl Reconciler for DaemonSets {
    fn changed(&mut self, plane: &mut Plane, change: &Change<'_>) {
        plane.workload_changed(change, Controller::DaemonSet, DAEMON_SETS, Selector::from_json);
    }

    fn sync(&mut self, plane: &mut Plane, key: &Key) {
        // The rest of a burst is to come: it will see all there is.
        if key.is_late() || !plane.queue.is_due(&key.clone().late()) {
            plane.sync_daemon_set(&key.name, if key.is_late() { BURST } else { FIRST });
        }
    }
}

/// The work on a DaemonSet.
pub(super) fn key(name: ObjectName) -> Key {
    Key::new(Controller::DaemonSet, DAEMON_SETS, name)
}

impl Plane {
    fn sync_daemon_set(&mut self, name: &ObjectName, most: usize) {
        let Some(object) = self.cluster.get(DAEMON_SETS, &name.namespace, &name.name) else {
            self.refused.remove(&key(name.clone()));
            return;
        };
        if object.deleting {
            return;
        }
        let value = object.value();
        let template = DaemonSet(&value).spec().template();
        let Ok(spec) = PodSpec::from_value(&daemon_spec(template)) else { return };
        let Ok(requires) = RequiredNodeAffinity::from_api(&spec) else { return };
        let tolerations = spec.tolerations.iter().flatten().map(Toleration::from).collect();
        let revisions = self.sync_revisions(&object, DaemonSet(&value).metadata(), template);
        let Some(revision) = revisions.last().cloned() else { return };
        let daemon = Daemon { object, value, requires, tolerations, revision };
        let selector = Selector::from_json(daemon.read().spec().selector().0);
        let owned = self.claim_pods(&daemon.object, &selector);
        let by_node = by_node(&owned);
        let fits: Vec<(Arc<str>, Fit)> = self
            .scheduler_cache
            .node_names()
            .into_iter()
            .filter_map(|node| Some((Arc::clone(&node), daemon.fit(self.scheduler_cache.node(&node)?.as_ref()))))
            .collect();
        let acted = self.place_daemons(&daemon, &fits, &by_node, most) || self.roll_daemons(&daemon, &fits, &by_node);
        let live = |revision: &Revision| owned.iter().any(|pod| pod.object.label(HASH_LABEL) == Some(revision.hash()));
        self.trim_revisions(daemon.read().spec().revision_history_limit(), &revisions, &live);
        if !acted {
            self.write_daemon_set_status(name, &daemon, &fits, &by_node);
        }
    }

    /// Creates missing pods (at most `most`), deletes misplaced, failed and surplus ones; whether it did anything.
    fn place_daemons(&mut self, daemon: &Daemon, fits: &[(Arc<str>, Fit)], by_node: &ByNode, most: usize) -> bool {
        let (mut acted, mut made) = (false, 0);
        for (node, fit) in fits {
            let pods = by_node.get(node.as_ref()).map(Vec::as_slice).unwrap_or_default();
            if fit.runs && pods.is_empty() {
                if made == most {
                    let name = ObjectName::new(&daemon.object.namespace, &daemon.object.name);
                    self.queue.add(key(name).late());
                    break;
                }
                made += 1;
                let pod = daemon_pod(daemon, node);
                if self.create_pod(&daemon.object, COMPONENT, pod).is_err() {
                    self.retry_later(key(ObjectName::new(&daemon.object.namespace, &daemon.object.name)));
                    break;
                }
                self.refused.remove(&key(ObjectName::new(&daemon.object.namespace, &daemon.object.name)));
                acted = true;
            } else if !fit.stays {
                for pod in pods.iter().filter(|pod| !pod.object.deleting) {
                    self.delete_pod(&daemon.object, COMPONENT, pod);
                    acted = true;
                }
            } else {
                acted |= self.tidy_daemons(daemon, node, pods);
            }
        }
        // Pods of nodes that are gone are left to the node's own collector.
        acted
    }

    /// On one node: failed pods are deleted to be recreated, and of several the oldest stays.
    fn tidy_daemons(&mut self, daemon: &Daemon, node: &str, pods: &[Arc<PodInfo>]) -> bool {
        let mut acted = false;
        let mut running = Vec::new();
        for pod in pods.iter().filter(|pod| !pod.object.deleting) {
            if pod.phase == Phase::Failed {
                let own = key(ObjectName::new(&daemon.object.namespace, &daemon.object.name));
                if !self.may_replace(&own, node, pod.created) {
                    continue;
                }
                let (namespace, name) = (&pod.object.namespace, &pod.object.name);
                let message = format!("Found failed daemon pod {namespace}/{name} on node {node}, will try to kill it");
                self.note(&daemon.object, COMPONENT, true, "FailedDaemonPod", &message);
                self.delete_pod(&daemon.object, COMPONENT, pod);
                acted = true;
            } else {
                running.push(pod);
            }
        }
        let surge = daemon.read().spec().update_strategy().rolling_update().max_surge();
        if running.len() > 1 && int_or_percent(surge, 100, true).unwrap_or_default() == 0 {
            running.sort_by_key(|pod| (pod.node.is_empty(), pod.created));
            for pod in running.into_iter().skip(1) {
                self.delete_pod(&daemon.object, COMPONENT, pod);
                acted = true;
            }
        }
        acted
    }

    /// Deletes old pods of a changed template, as many as may be unavailable; whether it did.
    fn roll_daemons(&mut self, daemon: &Daemon, fits: &[(Arc<str>, Fit)], by_node: &ByNode) -> bool {
        let strategy = daemon.read().spec().update_strategy();
        if strategy.type_() == "OnDelete" {
            return false;
        }
        let now = self.now();
        let desired = fits.iter().filter(|(_, fit)| fit.runs).count();
        let most = |bound: &Value| int_or_percent(bound, desired as i64, true).unwrap_or_default();
        let surge = most(strategy.rolling_update().max_surge());
        let mut room = if surge > 0 { surge } else { most(strategy.rolling_update().max_unavailable()).max(1) };
        let mut old = Vec::new();
        for (node, fit) in fits {
            if !fit.runs {
                continue;
            }
            let pods = by_node.get(node.as_ref()).map(Vec::as_slice).unwrap_or_default();
            let alive: Vec<_> = pods.iter().filter(|pod| !pod.object.deleting).collect();
            let available = alive.iter().any(|pod| pod.available(daemon.min_ready(), now));
            let outdated = alive.iter().find(|pod| !daemon.is_updated(pod));
            let updated = alive.iter().find(|pod| daemon.is_updated(pod));
            match (outdated, updated) {
                (Some(pod), None) => old.push((available, node, *pod)),
                // With surge the new pod is there first; the old one goes when the new one is available.
                (Some(pod), Some(new)) if new.available(daemon.min_ready(), now) => {
                    self.delete_pod(&daemon.object, COMPONENT, pod);
                    return true;
                }
                (Some(_), Some(_)) => room -= 1,
                _ if !available => room -= i64::from(surge == 0),
                _ => {}
            }
        }
        if surge > 0 {
            let mut acted = false;
            for (_, node, _) in old.into_iter().take(usize::try_from(room).unwrap_or_default()) {
                acted |= self.create_pod(&daemon.object, COMPONENT, daemon_pod(daemon, node)).is_ok();
            }
            return acted;
        }
        // Pods that are not ready cost nothing to replace.
        let mut acted = false;
        for (_, _, pod) in old.iter().filter(|(available, ..)| !available) {
            self.delete_pod(&daemon.object, COMPONENT, pod);
            room -= 1;
            acted = true;
        }
        for (_, _, pod) in old.iter().filter(|(available, ..)| *available) {
            if room <= 0 {
                break;
            }
            self.delete_pod(&daemon.object, COMPONENT, pod);
            room -= 1;
            acted = true;
        }
        acted
    }

    fn write_daemon_set_status(
        &mut self,
        name: &ObjectName,
        daemon: &Daemon,
        fits: &[(Arc<str>, Fit)],
        by_node: &ByNode,
    ) {
        let now = self.now();
        let (mut desired, mut current, mut ready, mut available, mut updated, mut misplaced) = (0, 0, 0, 0, 0, 0);
        let mut waiting = false;
        for (node, fit) in fits {
            let pods = by_node.get(node.as_ref()).map(Vec::as_slice).unwrap_or_default();
            if !fit.runs {
                misplaced += i64::from(!pods.is_empty());
                continue;
            }
            desired += 1;
            let Some(pod) = pods.iter().min_by_key(|pod| (!pod.ready, pod.created)) else { continue };
            current += 1;
            if pod.ready {
                ready += 1;
                let enough = pod.available(daemon.min_ready(), now);
                available += i64::from(enough);
                waiting |= !enough;
            }
            updated += i64::from(pods.iter().any(|pod| daemon.is_updated(pod)));
        }
        if waiting {
            let pods: Vec<_> = by_node.values().flatten().cloned().collect();
            self.wait_for_availability(key(name.clone()), &pods, daemon.min_ready());
        }
        let mut status = json!({
            "currentNumberScheduled": current, "numberMisscheduled": misplaced, "desiredNumberScheduled": desired,
            "numberReady": ready, "observedGeneration": daemon.read().metadata().generation(),
        });
        for (field, number) in [
            ("updatedNumberScheduled", updated),
            ("numberAvailable", available),
            ("numberUnavailable", desired - available),
        ] {
            if number > 0 {
                status[field] = json!(number);
            }
        }
        if status != *daemon.read().status().0 {
            let _written =
                self.cluster.modify(DAEMON_SETS, Part::Status, &name.namespace, &name.name, &writes(), |value| {
                    value["status"] = status;
                });
        }
    }
}

/// The pods by the node they are on, or are meant for.
fn by_node(pods: &[Arc<PodInfo>]) -> ByNode {
    let mut by_node = ByNode::new();
    for pod in pods {
        let node = if pod.node.is_empty() { target_of(pod) } else { pod.node.clone() };
        by_node.entry(node).or_default().push(Arc::clone(pod));
    }
    by_node
}

/// The node an unbound pod is pinned to.
fn target_of(pod: &PodInfo) -> Box<str> {
    let value = pod.object.value();
    let affinity = Pod(&value).spec().affinity().node_affinity();
    let terms = affinity.required_during_scheduling_ignored_during_execution().node_selector_terms();
    let field = terms.flat_map(NodeSelectorTerm::match_fields).find(|field| field.key() == NAME_FIELD);
    field.and_then(|field| field.values().next()).unwrap_or_default().into()
}

/// The template's pod spec with the tolerations every daemon has.
fn daemon_spec(template: PodTemplateSpec<'_>) -> Value {
    let mut spec = template.spec().0.clone();
    let mut wanted = vec![
        ("node.kubernetes.io/not-ready", "NoExecute"),
        ("node.kubernetes.io/unreachable", "NoExecute"),
        ("node.kubernetes.io/disk-pressure", "NoSchedule"),
        ("node.kubernetes.io/memory-pressure", "NoSchedule"),
        ("node.kubernetes.io/pid-pressure", "NoSchedule"),
        ("node.kubernetes.io/unschedulable", "NoSchedule"),
    ];
    if template.spec().host_network() {
        wanted.push(("node.kubernetes.io/network-unavailable", "NoSchedule"));
    }
    let tolerations = list_mut(&mut spec["tolerations"]);
    for (key, effect) in wanted {
        let toleration = json!({ "key": key, "operator": "Exists", "effect": effect });
        let is_same = |have: views::Toleration<'_>| have.identity() == [key, "Exists", "", effect];
        match tolerations.iter_mut().find(|have| is_same(views::Toleration(have))) {
            Some(have) => *have = toleration,
            None => tolerations.push(toleration),
        }
    }
    spec
}

/// A pod pinned to a node.
fn daemon_pod(daemon: &Daemon, node: &str) -> Value {
    let template = daemon.read().spec().template();
    let mut pod = pod_of_template(&daemon.object, template);
    let labels = map_mut(&mut pod["metadata"]["labels"]);
    labels.insert(HASH_LABEL.to_owned(), json!(daemon.revision.hash()));
    labels.insert(GENERATION_LABEL.to_owned(), json!(daemon.generation()));
    pod["spec"] = daemon_spec(template);
    pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"] = json!({
        "nodeSelectorTerms": [{ "matchFields": [{ "key": NAME_FIELD, "operator": "In", "values": [node] }] }],
    });
    pod
}
