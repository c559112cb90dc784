//! HorizontalPodAutoscalers on synthetic metrics: every running pod uses a set share of what it requests, or what its workload
//! says that there is to do.

// upstream: pkg/controller/podautoscaler/horizontal.go reconcileAutoscaler (v1.36)
// upstream: pkg/controller/podautoscaler/replica_calculator.go GetResourceReplicas (v1.36)

use std::collections::HashMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use klab_api_machinery::resource::{HORIZONTAL_POD_AUTOSCALERS, REPLICATION_CONTROLLERS, ResourceId};
use klab_api_machinery::value::{map_mut, selects, service_selector, set_condition, time_text};
use klab_api_machinery::views::{Container, HorizontalPodAutoscaler as Autoscaler, MetricSpec, Pod, ReplicaSet};
use serde_json::{Value, json};

use super::controller::Controller;
use super::plane::Plane;
use super::pods::writes;
use super::queue::{Key, ObjectName};
use super::reconcile::{Change, Reconciler};
use super::view::PodInfo;
use crate::clock::{earlier, later};
use crate::cluster::Part;
use crate::load;
use klab_scheduler::quantity::Quantity;
use klab_scheduler::selector::Selector;

const COMPONENT: &str = "horizontal-pod-autoscaler";
/// What the controller says of a cluster without metrics of the resource.
const NO_METRICS: &str = "failed to get cpu utilization: unable to get metrics for resource cpu: unable to fetch metrics \
     from resource metrics API: the server could not find the requested resource (get pods.metrics.k8s.io)";
/// How often metrics are looked at (`--horizontal-pod-autoscaler-sync-period`).
const PERIOD: SignedDuration = SignedDuration::from_secs(15);
/// Within this share of the target nothing is changed, unless an autoscaler says otherwise.
const TOLERANCE: f64 = 0.1;
/// What sums of requests may lack of the whole percent that they are.
const ROUNDING: f64 = 1e-6;
/// How long a lower recommendation must hold before pods go.
const STABILIZATION: i64 = 300;

/// What one metric says.
struct Reading {
    current: Value,
    replicas: i64,
    name: String,
}

/// Scales for HorizontalPodAutoscalers.
#[derive(Default)]
pub(super) struct Autoscalers {
    /// When each is next due, and what it recommended lately.
    recommendations: HashMap<ObjectName, (Timestamp, Vec<(Timestamp, i64)>)>,
    /// Those that have found nothing to do, nor anything to wait for, and the version of the cluster at which they did.
    steady: HashMap<ObjectName, u64>,
}

fn key(name: ObjectName) -> Key {
    Key::new(Controller::HorizontalPodAutoscaler, HORIZONTAL_POD_AUTOSCALERS, name)
}

impl Reconciler for Autoscalers {
    fn changed(&mut self, plane: &mut Plane, change: &Change<'_>) {
        plane.queue.add(key(change.name()));
    }

    fn sync(&mut self, plane: &mut Plane, key: &Key) {
        let (before, now) = (plane.cluster.version(), plane.now());
        let is_look = self.recommendations.get(&key.name).is_some_and(|(due, _)| *due <= now);
        self.steady.remove(&key.name);
        self.sync_autoscaler(plane, &key.name);
        let all_alike = |(_, past): &(Timestamp, Vec<(Timestamp, i64)>)| {
            past.len() > 1 && past.iter().all(|(_, replicas)| *replicas == past[0].1)
        };
        let is_unchanged = is_look && plane.cluster.version() == before;
        if is_unchanged && self.recommendations.get(&key.name).is_some_and(all_alike) {
            self.steady.insert(key.name.clone(), before);
        }
    }

    /// One that has recommended nothing else for a while recommends the same as long as nothing changes.
    fn may_wait(&self, plane: &Plane, key: &Key) -> bool {
        self.steady.get(&key.name).is_some_and(|version| *version == plane.cluster.version())
    }
}

impl Autoscalers {
    fn sync_autoscaler(&mut self, plane: &mut Plane, name: &ObjectName) {
        let Some(object) = plane.cluster.get(HORIZONTAL_POD_AUTOSCALERS, &name.namespace, &name.name) else {
            self.recommendations.remove(name);
            return;
        };
        let now = plane.now();
        let due = self.recommendations.entry(name.clone()).or_insert_with(|| (later(now, PERIOD), Vec::new())).0;
        plane.queue.add_at(key(name.clone()), due.max(now));
        if due > now {
            return;
        }
        if let Some((due, _)) = self.recommendations.get_mut(name) {
            *due = later(now, PERIOD);
        }
        plane.queue.add_at(key(name.clone()), later(now, PERIOD));
        let value = object.value();
        let value = Autoscaler(&value);
        let mut status = value.status().0.clone();
        map_mut(&mut status);
        let target = value.spec().scale_target_ref();
        let found = ResourceId::by_kind(target.api_version(), target.kind()).and_then(|resource| {
            let scaled = plane.cluster.get(resource, &name.namespace, target.name())?;
            Some((resource, scaled.value()))
        });
        let Some((resource, scaled)) = found else {
            let (kind, target) = (target.kind().to_lowercase(), target.name());
            let message = format!(
                "the HPA controller was unable to get the target's current scale: {kind} \"{target}\" not found"
            );
            set(&mut status, "AbleToScale", "False", "FailedGetScale", &message, now);
            write_autoscaler(plane, name, value, status);
            return;
        };
        let message = "the HPA controller was able to get the target's current scale";
        set(&mut status, "AbleToScale", "True", "SucceededGetScale", message, now);
        // All that can be scaled have these fields.
        let scaled = ReplicaSet(&scaled);
        let current = scaled.spec().replicas().unwrap_or(1);
        status["currentReplicas"] = json!(scaled.status().replicas());
        if current == 0 {
            let message = "scaling is disabled since the replica count of the target is zero";
            set(&mut status, "ScalingActive", "False", "ScalingDisabled", message, now);
            status["desiredReplicas"] = json!(0);
            write_autoscaler(plane, name, value, status);
            return;
        }
        let selector = selector_of(resource, scaled);
        let pods: Vec<Arc<PodInfo>> = plane
            .view
            .pods_in(&name.namespace)
            .filter(|pod| pod.active() && selects(&selector, &pod.object))
            .map(Arc::clone)
            .collect();
        let share = plane.settings.metrics_share;
        let metrics = value.spec().metrics();
        let readings: Vec<Reading> =
            metrics.filter_map(|metric| read(share, scaled, metric, &pods, (current, tolerances(value)))).collect();
        let Some(best) = readings.iter().max_by_key(|reading| reading.replicas) else {
            let why = failure(share, value, &pods);
            plane.note(&object, COMPONENT, true, "FailedGetResourceMetric", &why);
            let message = format!("the HPA was unable to compute the replica count: {why}");
            set(&mut status, "ScalingActive", "False", "FailedGetResourceMetric", &message, now);
            write_autoscaler(plane, name, value, status);
            return;
        };
        let message = format!("the HPA was able to successfully calculate a replica count from {}", best.name);
        set(&mut status, "ScalingActive", "True", "ValidMetricFound", &message, now);
        status["currentMetrics"] = Value::Array(readings.iter().map(|reading| reading.current.clone()).collect());
        let wanted = self.settle(name, value, &mut status, current, best.replicas, now);
        status["desiredReplicas"] = json!(wanted);
        if wanted != current {
            let reason = reason(value, current, wanted, &best.name);
            if rescaled(plane, resource, &name.namespace, target.name(), wanted) {
                let message = format!("New size: {wanted}; reason: {reason}");
                plane.note(&object, COMPONENT, false, "SuccessfulRescale", &message);
                let message = format!("the HPA controller was able to update the target scale to {wanted}");
                set(&mut status, "AbleToScale", "True", "SucceededRescale", &message, now);
                status["lastScaleTime"] = json!(time_text(now));
            }
        }
        write_autoscaler(plane, name, value, status);
    }

    /// Bounds a recommendation: not down before it has held, not up by leaps, within the limits.
    fn settle(
        &mut self,
        name: &ObjectName,
        value: Autoscaler<'_>,
        status: &mut Value,
        current: i64,
        recommended: i64,
        now: Timestamp,
    ) -> i64 {
        let window = value.spec().behavior().scale_down().stabilization_window_seconds();
        let since = earlier(now, SignedDuration::from_secs(window.unwrap_or(STABILIZATION)));
        let mut stable = recommended;
        if let Some((_, past)) = self.recommendations.get_mut(name) {
            if past.is_empty() {
                // As after a start of the controller: the present size counts as recommended.
                past.push((now, current));
            }
            past.retain(|(at, _)| *at >= since);
            past.push((now, recommended));
            let highest = past.iter().map(|(_, replicas)| *replicas).max().unwrap_or(recommended);
            stable = if recommended < current { highest.min(current) } else { recommended };
        }
        if stable == recommended {
            set(status, "AbleToScale", "True", "ReadyForNewScale", "recommended size matches current size", now);
        } else {
            set(
                status,
                "AbleToScale",
                "True",
                "ScaleDownStabilized",
                "recent recommendations were higher than current one, applying the highest recent recommendation",
                now,
            );
        }
        let (least, most) = (value.spec().min_replicas().unwrap_or(1), value.spec().max_replicas());
        let leap = (current * 2).max(current + 4);
        let (wanted, limited, reason, message) = if stable > most {
            (most, "True", "TooManyReplicas", "the desired replica count is more than the maximum replica count")
        } else if stable < least {
            (least, "True", "TooFewReplicas", "the desired replica count is less than the minimum replica count")
        } else if stable > leap {
            (leap, "True", "ScaleUpLimit", "the desired replica count is increasing faster than the maximum scale rate")
        } else {
            (stable, "False", "DesiredWithinRange", "the desired count is within the acceptable range")
        };
        set(status, "ScalingLimited", limited, reason, message, now);
        wanted.min(leap.max(least))
    }
}

/// Which pods are scaled.
fn selector_of(resource: ResourceId, scaled: ReplicaSet<'_>) -> Selector {
    let selector = scaled.spec().selector().0;
    if resource == REPLICATION_CONTROLLERS { service_selector(selector) } else { Selector::from_json(selector) }
}

/// Why the number of replicas is to be another one.
fn reason(autoscaler: Autoscaler<'_>, current: i64, wanted: i64, metric: &str) -> String {
    if current > autoscaler.spec().max_replicas() {
        "Current number of replicas above Spec.MaxReplicas".to_owned()
    } else if current < autoscaler.spec().min_replicas().unwrap_or(1) {
        "Current number of replicas below Spec.MinReplicas".to_owned()
    } else if wanted > current {
        format!("{metric} above target")
    } else {
        "All metrics below target".to_owned()
    }
}

/// Why no metric says anything.
// upstream: pkg/controller/podautoscaler/replica_calculator.go calculatePodRequests, GetResourceReplicas (v1.36)
fn failure(share: Option<f64>, autoscaler: Autoscaler<'_>, pods: &[Arc<PodInfo>]) -> String {
    let metric = autoscaler.spec().metrics().map(MetricSpec::resource).find(|metric| metric.is_set());
    let (Some(metric), Some(_)) = (metric, share) else { return NO_METRICS.to_owned() };
    let resource = metric.name();
    let lacking = pods.iter().find_map(|pod| {
        let value = pod.object.value();
        let lacks = |container: &Container<'_>| container.resources().requests().get(resource).is_none();
        let container = Pod(&value).spec().containers().find(lacks)?.name();
        Some(format!("missing request for {resource} in container {container} of Pod {}", pod.object.name))
    });
    let lacking = lacking.filter(|_| metric.target().type_() == "Utilization");
    let none = || "did not receive metrics for targeted pods (pods might be unready)".to_owned();
    format!("failed to get {resource} utilization: {}", lacking.unwrap_or_else(none))
}

/// How far below and above its target a metric changes nothing.
// upstream: pkg/controller/podautoscaler/horizontal.go tolerancesForHpa (v1.36)
fn tolerances(autoscaler: Autoscaler<'_>) -> (f64, f64) {
    let behavior = autoscaler.spec().behavior();
    let of = |own: &Value| own.as_str().and_then(|own| Quantity::parse(own).ok()).map_or(TOLERANCE, Quantity::as_f64);
    (of(behavior.scale_down().tolerance()), of(behavior.scale_up().tolerance()))
}

/// What a Resource metric with a target says of the pods; other kinds of metrics have no synthetic source.
fn read(
    share: Option<f64>,
    scaled: ReplicaSet<'_>,
    metric: MetricSpec<'_>,
    pods: &[Arc<PodInfo>],
    (current, (down, up)): (i64, (f64, f64)),
) -> Option<Reading> {
    let share = share?;
    if metric.type_() != "Resource" {
        return None;
    }
    let (resource, target) = (metric.resource().name(), metric.resource().target());
    let ready = pods.iter().filter(|pod| pod.ready).count();
    let load = load::share(scaled.metadata(), ready).filter(|_| resource == "cpu");
    let share = load.unwrap_or(share);
    let (mut requested, mut used, mut ready) = (0.0, 0.0, 0_i64);
    for pod in pods.iter().filter(|pod| pod.ready) {
        let value = pod.object.value();
        let mut of_pod = 0.0;
        for container in Pod(&value).spec().containers() {
            let amount = load::amount(container.resources().requests(), resource)?;
            of_pod += amount;
            used += load::within_limit(container, resource, amount * share);
        }
        requested += of_pod;
        ready += 1;
    }
    if ready == 0 {
        return None;
    }
    let average = used / ready as f64;
    let shown =
        if resource == "cpu" { format!("{}m", (average * 1000.0).round()) } else { format!("{}", average.round()) };
    let (ratio, found, name) = match target.type_() {
        "Utilization" => {
            let utilization = (used / requested.max(f64::MIN_POSITIVE) * 100.0 + ROUNDING).floor();
            let wanted = target.average_utilization()? as f64;
            (
                utilization / wanted,
                json!({ "averageUtilization": utilization as i64, "averageValue": shown }),
                format!("{resource} resource utilization (percentage of request)"),
            )
        }
        "AverageValue" => {
            let wanted = Quantity::parse(target.average_value().as_str()?).ok()?.as_f64();
            (average / wanted, json!({ "averageValue": shown }), format!("{resource} resource"))
        }
        _ => return None,
    };
    let is_close = 1.0 - down <= ratio && ratio <= 1.0 + up;
    let replicas = if is_close { current } else { (ratio * ready as f64).ceil() as i64 };
    let current = json!({ "type": "Resource", "resource": { "name": resource, "current": found } });
    Some(Reading { current, replicas, name })
}

/// Scales what an autoscaler is for, as far as that can be.
fn rescaled(plane: &Plane, resource: ResourceId, namespace: &str, name: &str, wanted: i64) -> bool {
    let resize = |mut scale: Value| {
        scale["spec"]["replicas"] = json!(wanted);
        Ok(scale)
    };
    plane.cluster.scale_modify(resource, namespace, name, &writes(), resize).is_ok()
}

fn write_autoscaler(plane: &Plane, name: &ObjectName, value: Autoscaler<'_>, status: Value) {
    if status == *value.status().0 {
        return;
    }
    let _written = plane.cluster.modify(
        HORIZONTAL_POD_AUTOSCALERS,
        Part::Status,
        &name.namespace,
        &name.name,
        &writes(),
        |value| value["status"] = status,
    );
}

/// Sets a condition in place; its transition time stays while its status stays.
fn set(status: &mut Value, kind: &str, held: &str, reason: &str, message: &str, now: Timestamp) {
    let condition = json!({
        "type": kind, "status": held, "lastTransitionTime": time_text(now), "reason": reason, "message": message,
    });
    set_condition(&mut status["conditions"], condition);
}
