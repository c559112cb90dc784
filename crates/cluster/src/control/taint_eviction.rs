//! NoExecute taints: pods that do not tolerate them go at once, others when their time of toleration is over.

// upstream: pkg/controller/tainteviction/taint_eviction.go processPodOnNode (v1.36)

use jiff::SignedDuration;
use serde_json::{Value, json};

use super::ControlPlane;
use super::pods::writes;
use super::queue::{Key, ObjectName};
use super::value::{items, set_condition, time_of, time_text, tolerates};
use super::view::PodInfo;
use crate::clock::later;
use crate::cluster::{DeleteOptions, Part};
use crate::resource::PODS;

const COMPONENT: &str = "taint-eviction-controller";

impl ControlPlane {
    pub(super) fn sync_eviction(&mut self, name: &ObjectName) {
        let Some(pod) = self.view.pod(name).cloned() else { return };
        if pod.object.deleting {
            self.evictions.forget(name);
            return;
        }
        let Some(node) = self.view.node(&pod.node).cloned() else { return };
        let taints: Vec<&Value> = node.taints.iter().filter(|taint| taint["effect"] == "NoExecute").collect();
        if taints.is_empty() {
            if self.evictions.0.remove(name).is_some() {
                let message = format!("Cancelling deletion of Pod {}/{}", name.namespace, name.name);
                self.note_about(&bare_reference(&pod), COMPONENT, false, "TaintManagerEviction", &message);
            }
            return;
        }
        let value = pod.object.value();
        let tolerations = items(&value["spec"]["tolerations"]);
        let mut shortest: Option<i64> = None;
        for taint in &taints {
            let Some(toleration) = tolerations.iter().find(|toleration| tolerates(toleration, taint)) else {
                self.evict(&pod);
                return;
            };
            if let Some(seconds) = toleration["tolerationSeconds"].as_i64() {
                shortest = Some(shortest.map_or(seconds, |shortest| shortest.min(seconds)).max(0));
            }
        }
        let Some(seconds) = shortest else {
            self.evictions.forget(name);
            return;
        };
        let now = self.now();
        let tainted = taints.iter().filter_map(|taint| time_of(&taint["timeAdded"])).max();
        let since = match self.evictions.0.get(name) {
            Some((uid, since)) if *uid == pod.object.uid => *since,
            _ => tainted.map_or(now, |tainted| tainted.max(pod.created)),
        };
        let due = later(since, SignedDuration::from_secs(seconds));
        if due <= now {
            self.evict(&pod);
            return;
        }
        self.evictions.0.insert(name.clone(), (pod.object.uid.clone(), since));
        self.queue.add_at(Key::Evict(name.clone()), due);
    }

    fn evict(&mut self, pod: &PodInfo) {
        self.evictions.forget(&pod.name());
        let (namespace, name) = (&pod.object.namespace, &pod.object.name);
        let condition = json!({
            "type": "DisruptionTarget", "status": "True", "lastProbeTime": null,
            "lastTransitionTime": time_text(self.now()), "reason": "DeletionByTaintManager",
            "message": "Taint manager: deleting due to NoExecute taint",
        });
        let message = format!("Marking for deletion Pod {namespace}/{name}");
        self.note_about(&bare_reference(pod), COMPONENT, false, "TaintManagerEviction", &message);
        let _marked = self.cluster.modify(PODS, Part::Status, namespace, name, &writes(), |value| {
            set_condition(&mut value["status"]["conditions"], condition);
        });
        let options = DeleteOptions { uid: Some(pod.object.uid.to_string()), ..DeleteOptions::default() };
        let _deleted = self.cluster.delete(PODS, namespace, name, &options);
    }
}

/// The eviction controller names the pod only, without uid and version.
fn bare_reference(pod: &PodInfo) -> Value {
    json!({ "kind": "Pod", "namespace": pod.object.namespace, "name": pod.object.name, "apiVersion": "v1" })
}
