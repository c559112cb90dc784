//! PodDisruptionBudgets: how many of the pods they cover are healthy, and how many may be disrupted.

// upstream: pkg/controller/disruption/disruption.go trySync, updatePdbStatus (v1.36)

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use klab_api_machinery::object::Object;
use klab_api_machinery::resource::{
    DEPLOYMENTS, POD_DISRUPTION_BUDGETS, PODS, REPLICA_SETS, REPLICATION_CONTROLLERS, STATEFUL_SETS,
};
use klab_api_machinery::value::{int_or_percent, selects, time_text};
use klab_api_machinery::views::{Condition, PodDisruptionBudget as Budget, PodDisruptionBudgetStatus, ReplicaSet};
use serde_json::{Value, json};

use super::controller::Controller;
use super::plane::Plane;
use super::pods::writes;
use super::queue::{Key, ObjectName};
use super::reconcile::{Change, Reconciler};
use super::view::PodInfo;
use crate::clock::later;
use crate::cluster::Part;
use klab_scheduler::selector::Selector;

const COMPONENT: &str = "controllermanager";
/// For so long an evicted pod that is still there counts as gone.
const DISRUPTION_TIMEOUT: SignedDuration = SignedDuration::from_mins(2);

/// Counts for PodDisruptionBudgets.
#[derive(Default)]
pub(super) struct DisruptionBudgets;

impl Reconciler for DisruptionBudgets {
    fn changed(&mut self, plane: &mut Plane, change: &Change<'_>) {
        match change.resource() {
            POD_DISRUPTION_BUDGETS => {
                plane.keep_selector(change, Selector::from_json);
                plane.queue.add(key(change.name()));
            }
            PODS if change.concerns_selectors_of_pods() => {
                for object in change.versions() {
                    for budget in plane.view.selecting(POD_DISRUPTION_BUDGETS, object) {
                        plane.queue.add(key(budget));
                    }
                }
            }
            PODS => {}
            // The scale of a workload decides what its budgets expect.
            _ => {
                let budgets = plane.view.selectors_in(POD_DISRUPTION_BUDGETS, &change.object.namespace);
                for (name, _) in budgets {
                    plane.queue.add(key(name.clone()));
                }
            }
        }
    }

    fn sync(&mut self, plane: &mut Plane, key: &Key) {
        plane.sync_disruption_budget(&key.name);
    }
}

fn key(name: ObjectName) -> Key {
    Key::new(Controller::Disruption, POD_DISRUPTION_BUDGETS, name)
}

impl Plane {
    fn sync_disruption_budget(&mut self, name: &ObjectName) {
        let Some(object) = self.cluster.get(POD_DISRUPTION_BUDGETS, &name.namespace, &name.name) else { return };
        let value = object.value();
        let value = Budget(&value);
        let generation = value.metadata().generation();
        let selector = Selector::from_json(value.spec().selector().0);
        let pods: Vec<Arc<PodInfo>> =
            self.view.pods_in(&name.namespace).filter(|pod| selects(&selector, &pod.object)).map(Arc::clone).collect();
        if pods.is_empty() {
            self.note_empty_budget(&object, value);
        }
        let now = self.now();
        let disrupted = self.still_disrupted(name, value, &pods);
        let healthy = pods
            .iter()
            .filter(|pod| !pod.object.deleting && pod.ready && !disrupted.contains_key(pod.object.name.as_ref()))
            .count() as i64;
        let (expected, desired) = match self.expectations(value, &pods) {
            Ok(expectations) => expectations,
            Err(message) => {
                let message = format!("Failed to calculate the number of expected pods: {message}");
                self.note(&object, COMPONENT, true, "CalculateExpectedPodCountFailed", &message);
                self.write_budget_status(name, value, |status| {
                    status["disruptionsAllowed"] = json!(0);
                    for field in ["currentHealthy", "desiredHealthy", "expectedPods"] {
                        if status[field].is_null() {
                            status[field] = json!(0);
                        }
                    }
                    set_allowed(status, generation, false, "SyncFailed", &message, now);
                });
                return;
            }
        };
        let allowed = if expected <= 0 { 0 } else { (healthy - desired).max(0) };
        self.write_budget_status(name, value, |status| {
            status["observedGeneration"] = json!(generation);
            status["disruptionsAllowed"] = json!(allowed);
            status["currentHealthy"] = json!(healthy);
            status["desiredHealthy"] = json!(desired);
            status["expectedPods"] = json!(expected);
            if let Some(status) = status.as_object_mut() {
                if disrupted.is_empty() {
                    status.remove("disruptedPods");
                } else {
                    status.insert("disruptedPods".to_owned(), json!(disrupted));
                }
            }
            let reason = if allowed > 0 { "SufficientPods" } else { "InsufficientPods" };
            set_allowed(status, generation, allowed > 0, reason, "", now);
        });
    }

    fn note_empty_budget(&mut self, object: &Object, value: Budget<'_>) {
        // Said once for each version of the budget, not at every sync.
        if value.status().observed_generation() != value.metadata().generation() {
            self.note(object, COMPONENT, false, "NoPods", "No matching pods found");
        }
    }

    /// Evicted pods that have not gone yet; they are looked at again when their time is over.
    fn still_disrupted(
        &mut self,
        name: &ObjectName,
        value: Budget<'_>,
        pods: &[Arc<PodInfo>],
    ) -> BTreeMap<String, String> {
        let now = self.now();
        let mut disrupted = BTreeMap::new();
        for (pod, since) in value.status().disrupted_pods().iter() {
            let Some((since, end)) = since.map(|since| (since, later(since, DISRUPTION_TIMEOUT))) else { continue };
            let there = pods.iter().any(|have| have.object.name.as_ref() == pod && !have.object.deleting);
            if there && end > now {
                disrupted.insert(pod.to_owned(), time_text(since));
                self.queue.add_at(key(name.clone()), end);
            }
        }
        disrupted
    }

    /// How many pods there ought to be, and how many of them healthy.
    fn expectations(&self, value: Budget<'_>, pods: &[Arc<PodInfo>]) -> Result<(i64, i64), String> {
        let present = pods.len() as i64;
        let most = value.spec().max_unavailable();
        if !most.is_null() {
            let expected = self.scale_of_controllers(pods)?;
            let unavailable = int_or_percent(most, expected, true).unwrap_or_default();
            return Ok((expected, (expected - unavailable).max(0)));
        }
        match value.spec().min_available() {
            least @ Value::String(_) => {
                let expected = self.scale_of_controllers(pods)?;
                Ok((expected, int_or_percent(least, expected, true).unwrap_or_default()))
            }
            Value::Number(number) => Ok((present, number.as_i64().unwrap_or_default())),
            _ => Ok((present, 1)),
        }
    }

    /// Sum of the replicas that the pods' controllers ask for.
    fn scale_of_controllers(&self, pods: &[Arc<PodInfo>]) -> Result<i64, String> {
        let mut scales: BTreeMap<Box<str>, i64> = BTreeMap::new();
        for pod in pods {
            let Some(owner) = pod.object.controller() else {
                return Err(format!("found no controllers for pod \"{}\"", pod.object.name));
            };
            let resource = match owner.kind.as_ref() {
                "ReplicaSet" => REPLICA_SETS,
                "ReplicationController" => REPLICATION_CONTROLLERS,
                "StatefulSet" => STATEFUL_SETS,
                kind => return Err(format!("{} does not implement the scale subresource", kind_plural(kind))),
            };
            let Some(mut object) = self.cluster.get(resource, &pod.object.namespace, &owner.name) else { continue };
            if let Some(deployment) = object.controller().filter(|above| above.kind.as_ref() == "Deployment")
                && let Some(above) = self.cluster.get(DEPLOYMENTS, &pod.object.namespace, &deployment.name)
            {
                object = above;
            }
            // All of these have the same field.
            scales.insert(object.uid.clone(), ReplicaSet(&object.value()).spec().replicas().unwrap_or(1));
        }
        Ok(scales.values().sum())
    }

    fn write_budget_status(&mut self, name: &ObjectName, value: Budget<'_>, change: impl FnOnce(&mut Value)) {
        let mut status = if value.status().is_set() { value.status().0.clone() } else { json!({}) };
        change(&mut status);
        if status != *value.status().0 {
            let _written = self.cluster.modify(
                POD_DISRUPTION_BUDGETS,
                Part::Status,
                &name.namespace,
                &name.name,
                &writes(),
                |value| value["status"] = status,
            );
        }
    }
}

fn kind_plural(kind: &str) -> String {
    format!("{}s", kind.to_lowercase())
}

fn set_allowed(status: &mut Value, generation: i64, allowed: bool, reason: &str, message: &str, now: Timestamp) {
    let held = if allowed { "True" } else { "False" };
    let have = PodDisruptionBudgetStatus(status).conditions().of_type("DisruptionAllowed");
    let since = have.filter(|have| have.status() == held).map_or(Some(now), Condition::last_transition_time);
    status["conditions"] = json!([{
        "type": "DisruptionAllowed", "status": held, "observedGeneration": generation,
        "lastTransitionTime": since.map(time_text), "reason": reason, "message": message,
    }]);
}
