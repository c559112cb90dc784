//! Events as Kubernetes components write them: names, sources, counting of equal ones, combining of similar ones.

// upstream: staging/src/k8s.io/client-go/tools/record/events_cache.go EventCorrelate (v1.36)

use std::collections::{BTreeSet, VecDeque};

use foldhash::{HashMap, HashMapExt};
use jiff::{SignedDuration, Timestamp};
use klab_api_machinery::object::Object;
use klab_api_machinery::resource::{EVENTS, PODS};
use klab_api_machinery::value::{micro_time_text, time_text};
use klab_api_machinery::views::{self, ObjectReference};
use serde_json::{Value, json};

use crate::cluster::{Cluster, EventSource, NewEvent, Part, WriteOptions};

/// How long an event is kept after its last change (`--event-ttl` of the API server).
pub(crate) const LIFETIME: SignedDuration = SignedDuration::from_hours(1);
/// From how many different messages within the interval on similar events are combined.
const COMBINE_FROM: usize = 10;
const COMBINE_WITHIN: SignedDuration = SignedDuration::from_mins(10);
/// One source may write this many events about one object at once, and one more every five minutes.
const BURST: f64 = 25.0;
const REFILL_SECONDS: f64 = 300.0;
/// Equal scheduler events within this time become a series.
const SERIES_WITHIN: SignedDuration = SignedDuration::from_mins(6);
/// How many counters are kept before the oldest are forgotten (the size of client-go's cache).
const REMEMBERED: usize = 4096;

/// What an event says.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Note<'a> {
    /// Component that speaks: `deployment-controller`, `kubelet`, …
    pub(crate) component: &'a str,
    /// Node of the component, for kubelets.
    pub(crate) host: &'a str,
    /// `Warning` rather than `Normal`.
    pub(crate) warning: bool,
    pub(crate) reason: &'a str,
    pub(crate) message: &'a str,
}

/// Which object an event is about: a `v1.ObjectReference`.
pub(crate) fn reference(object: &Object) -> Value {
    let row = object.resource.row();
    let mut reference = json!({
        "kind": row.kind, "name": object.name, "uid": object.uid, "apiVersion": row.api_version(),
        "resourceVersion": object.resource_version.to_string(),
    });
    if row.namespaced {
        reference["namespace"] = json!(object.namespace);
    }
    reference
}

#[derive(Debug)]
struct Written {
    name: String,
    count: i64,
}

#[derive(Debug, Default)]
struct Similar {
    messages: BTreeSet<String>,
    last: Timestamp,
}

#[derive(Debug)]
struct Bucket {
    tokens: f64,
    filled: Timestamp,
}

#[derive(Debug)]
struct Series {
    name: String,
    count: i64,
    last: Timestamp,
}

/// Writes events, remembering what it wrote so that equal ones are counted rather than repeated.
#[derive(Debug, Default)]
pub(crate) struct Recorder {
    written: Remembered<Written>,
    similar: Remembered<Similar>,
    buckets: Remembered<Bucket>,
    series: Remembered<Series>,
    /// Keeps names apart that are made within one instant of the clock.
    last_name: i128,
    /// Whether only warnings are written.
    only_warnings: bool,
}

#[derive(Debug)]
struct Remembered<T> {
    entries: HashMap<String, T>,
    order: VecDeque<String>,
}

impl<T> Default for Remembered<T> {
    fn default() -> Self {
        Self { entries: HashMap::new(), order: VecDeque::new() }
    }
}

impl<T> Remembered<T> {
    fn get_mut(&mut self, key: &str) -> Option<&mut T> {
        self.entries.get_mut(key)
    }

    fn insert(&mut self, key: String, value: T) {
        if self.entries.insert(key.clone(), value).is_none() {
            self.order.push_back(key);
        }
        while self.order.len() > REMEMBERED
            && let Some(oldest) = self.order.pop_front()
        {
            self.entries.remove(&oldest);
        }
    }

    fn remove(&mut self, key: &str) {
        if self.entries.remove(key).is_some() {
            self.order.retain(|have| have != key);
        }
    }
}

/// What is in the text of an event of the scheduler about a pod that fits nowhere.
const FAILED_SCHEDULING: &[u8] = b"\"FailedScheduling\"";

/// By what events of a series are alike: type, action, reason and component, the object in one version, another object.
fn series_key(said: [&str; 4], about: &Value, version: &str, related: Option<&Value>) -> String {
    let related = related.map(Value::to_string).unwrap_or_default();
    format!("{} {} {version} {related}", said.join(" "), object_key(about))
}

impl Recorder {
    /// One that writes warnings alone, if `only_warnings` says so.
    pub(crate) fn new(only_warnings: bool) -> Self {
        Self { only_warnings, ..Self::default() }
    }

    /// Writes a core event as client-go's correlator does: at most a burst for one object, similar ones combined,
    /// equal ones counted.
    pub(crate) fn record(&mut self, cluster: &Cluster, about: &Value, note: Note<'_>) {
        if self.only_warnings && !note.warning {
            return;
        }
        let now = cluster.now();
        let kind = if note.warning { "Warning" } else { "Normal" };
        // upstream: staging/src/k8s.io/client-go/tools/record/events_cache.go getSpamKey, EventAggregatorByReasonFunc,
        // getEventKey (v1.36)
        let source = format!("{} {} {} {kind}", note.component, note.host, object_key(about));
        if !self.take_token(&source, now) {
            return;
        }
        let group = format!("{source} {}", note.reason);
        let combined = self.combine(&group, note.message, now);
        let message = if combined {
            format!("(combined from similar events): {}", note.message)
        } else {
            note.message.to_owned()
        };
        let part = ObjectReference(about).field_path();
        let key = if combined { group } else { format!("{group} {part} {message}") };
        if let Some(written) = self.written.get_mut(&key) {
            written.count += 1;
            let (name, count) = (written.name.clone(), written.count);
            let namespace = event_namespace(about).to_owned();
            let counted =
                cluster.modify(EVENTS, Part::Main, &namespace, &name, &WriteOptions::by(note.component), |event| {
                    event["count"] = json!(count);
                    event["lastTimestamp"] = json!(time_text(now));
                    event["message"] = json!(message);
                });
            if counted.is_ok() {
                return;
            }
            self.written.remove(&key);
        }
        let name = self.name_for(about, now);
        // The combined event is made by the correlator, without the reporting controller.
        let (component, instance) = if combined { ("", "") } else { (note.component, note.host) };
        let (namespace, time) = (event_namespace(about), time_text(now));
        let event = NewEvent {
            action: None,
            count: Some(1),
            event_time: None,
            first_timestamp: Some(&time),
            involved_object: about,
            last_timestamp: Some(&time),
            message: &message,
            reason: note.reason,
            related: None,
            reporting_component: component,
            reporting_instance: instance,
            source: EventSource { component: note.component, host: note.host },
            kind,
        };
        if cluster.create_event(namespace, &name, &event, &WriteOptions::by(note.component)).is_ok() {
            self.written.insert(key, Written { name, count: 1 });
        }
    }

    /// Writes an event of the events.k8s.io form, as the scheduler does: equal ones become a series.
    pub(crate) fn record_action(
        &mut self,
        cluster: &Cluster,
        about: &Value,
        related: Option<&Value>,
        action: &str,
        note: Note<'_>,
    ) {
        if self.only_warnings && !note.warning {
            return;
        }
        let now = cluster.now();
        let kind = if note.warning { "Warning" } else { "Normal" };
        let version = ObjectReference(about).resource_version();
        let key = series_key([kind, action, note.reason, note.component], about, version, related);
        let namespace = event_namespace(about);
        if let Some(series) = self.series.get_mut(&key)
            && now.duration_since(series.last) < SERIES_WITHIN
        {
            series.last = now;
            series.count += 1;
            // The real recorder writes the second one at once and then only counts until the series ends.
            if series.count > 2 {
                return;
            }
            let name = series.name.clone();
            let counted =
                cluster.modify(EVENTS, Part::Main, namespace, &name, &WriteOptions::by("kube-scheduler"), |event| {
                    event["series"] = json!({ "count": 2, "lastObservedTime": micro_time_text(now) });
                });
            if counted.is_ok() {
                return;
            }
        }
        let name = self.name_for(about, now);
        let event = NewEvent {
            action: Some(action),
            count: None,
            event_time: Some(&micro_time_text(now)),
            first_timestamp: None,
            involved_object: about,
            last_timestamp: None,
            message: note.message,
            reason: note.reason,
            related,
            reporting_component: note.component,
            reporting_instance: &format!("{}-{}", note.component, note.host),
            source: EventSource::default(),
            kind,
        };
        if cluster.create_event(namespace, &name, &event, &WriteOptions::by("kube-scheduler")).is_ok() {
            self.series.insert(key, Series { name, count: 1, last: now });
        }
    }

    /// Remembers, of what an earlier control plane has written, that a pod fits nowhere: as long as that stays so, nothing is
    /// said again, as if the one had never ended.
    pub(crate) fn recall(&mut self, cluster: &Cluster, event: &Object) {
        if !event.json.windows(FAILED_SCHEDULING.len()).any(|part| part == FAILED_SCHEDULING) {
            return;
        }
        let value = event.value();
        let said = views::Event(&value);
        let about = said.involved_object();
        // It has been said of the version that saying so has made.
        let pod = cluster.get(PODS, event_namespace(about.0), about.name());
        let Some(pod) = pod.filter(|pod| about.uid() == &*pod.uid) else { return };
        let version = pod.resource_version.to_string();
        let related = Some(said.related().0).filter(|related| !related.is_null());
        let said = [said.type_(), said.action(), said.reason(), said.reporting_component()];
        let key = series_key(said, about.0, &version, related);
        self.series.insert(key, Series { name: event.name.to_string(), count: 2, last: cluster.now() });
    }

    fn take_token(&mut self, subject: &str, now: Timestamp) -> bool {
        if let Some(bucket) = self.buckets.get_mut(subject) {
            let elapsed = now.duration_since(bucket.filled).as_secs_f64();
            bucket.tokens = (bucket.tokens + elapsed / REFILL_SECONDS).min(BURST);
            bucket.filled = now;
            if bucket.tokens < 1.0 {
                return false;
            }
            bucket.tokens -= 1.0;
            return true;
        }
        self.buckets.insert(subject.to_owned(), Bucket { tokens: BURST - 1.0, filled: now });
        true
    }

    fn combine(&mut self, group: &str, message: &str, now: Timestamp) -> bool {
        if let Some(similar) = self.similar.get_mut(group) {
            if now.duration_since(similar.last) > COMBINE_WITHIN {
                similar.messages.clear();
            }
            similar.last = now;
            similar.messages.insert(message.to_owned());
            if similar.messages.len() < COMBINE_FROM {
                return false;
            }
            similar.messages.pop_first();
            return true;
        }
        let messages = BTreeSet::from([message.to_owned()]);
        self.similar.insert(group.to_owned(), Similar { messages, last: now });
        false
    }

    fn name_for(&mut self, about: &Value, now: Timestamp) -> String {
        self.last_name = now.as_nanosecond().max(self.last_name + 1);
        format!("{}.{:016x}", ObjectReference(about).name(), self.last_name)
    }
}

/// Events about cluster-scoped objects are in `default`.
fn event_namespace(about: &Value) -> &str {
    Some(ObjectReference(about).namespace()).filter(|namespace| !namespace.is_empty()).unwrap_or("default")
}

/// The object that an event is about, whichever part of it.
fn object_key(about: &Value) -> String {
    let about = ObjectReference(about);
    [about.kind(), about.namespace(), about.name(), about.uid(), about.api_version()].join("/")
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::clock::SteppedClock;

    fn note(message: &str) -> Note<'_> {
        Note { component: "replicaset-controller", host: "", warning: true, reason: "FailedCreate", message }
    }

    fn cluster() -> (Cluster, Arc<SteppedClock>) {
        let clock = Arc::new(SteppedClock::new("2026-01-01T00:00:00Z".parse().unwrap()));
        (Cluster::new(Arc::<SteppedClock>::clone(&clock), 1), clock)
    }

    fn events(cluster: &Cluster) -> Vec<Value> {
        cluster.list(EVENTS, None).0.iter().map(|event| event.to_value()).collect()
    }

    #[test]
    fn equal_events_are_counted() {
        let (cluster, clock) = cluster();
        let about = json!({"kind": "ReplicaSet", "namespace": "default", "name": "web", "uid": "u"});
        let mut recorder = Recorder::default();
        recorder.record(&cluster, &about, note("no"));
        clock.step(SignedDuration::from_secs(5));
        recorder.record(&cluster, &about, note("no"));
        let events = events(&cluster);
        assert_eq!(events.len(), 1);
        assert_eq!(events[0]["count"], 2);
        assert_eq!(events[0]["firstTimestamp"], "2026-01-01T00:00:00Z");
        assert_eq!(events[0]["lastTimestamp"], "2026-01-01T00:00:05Z");
        assert_eq!(events[0]["metadata"]["name"].as_str().map(str::len), Some("web.".len() + 16));
    }

    #[test]
    fn many_similar_events_are_combined_and_then_limited() {
        let (cluster, _) = cluster();
        let about = json!({"kind": "ReplicaSet", "namespace": "default", "name": "web", "uid": "u"});
        let mut recorder = Recorder::default();
        for number in 0..40 {
            recorder.record(&cluster, &about, note(&format!("pod web-{number:02} is forbidden")));
        }
        let events = events(&cluster);
        assert_eq!(events.len(), 10);
        let combined: Vec<_> =
            events.iter().filter(|event| event["message"].as_str().unwrap().starts_with("(combined")).collect();
        assert_eq!(combined.len(), 1);
        assert_eq!(combined[0]["count"], 16, "25 of 40 pass, 9 of them on their own");
        assert_eq!(combined[0]["reportingComponent"], "");
    }

    #[test]
    fn warnings_do_not_use_up_what_other_events_may_be_and_the_parts_of_an_object_share_it() {
        let (cluster, _) = cluster();
        let mut recorder = Recorder::default();
        let part =
            |name: &str| json!({"kind": "Pod", "namespace": "default", "name": "p", "uid": "u", "fieldPath": name});
        let normal = Note { warning: false, reason: "Pulled", ..note("") };
        for number in 0..20 {
            recorder.record(&cluster, &part("spec.containers{a}"), note("no"));
            recorder.record(&cluster, &part("spec.containers{b}"), note("no"));
            recorder.record(
                &cluster,
                &part("spec.containers{a}"),
                Note { message: &format!("{}", number / 10), ..normal },
            );
        }
        let mut counts: Vec<i64> = events(&cluster).iter().filter_map(|event| event["count"].as_i64()).collect();
        counts.sort_unstable();
        assert_eq!(counts, [10, 10, 12, 13], "25 of 40 warnings about two parts, all 20 of the others");
    }

    #[test]
    fn repeated_scheduler_events_become_a_series() {
        let (cluster, clock) = cluster();
        let about = json!({"kind": "Pod", "namespace": "default", "name": "p", "uid": "u", "resourceVersion": "7"});
        let mut recorder = Recorder::default();
        let note = Note {
            component: "default-scheduler",
            host: "klab",
            warning: true,
            reason: "FailedScheduling",
            message: "0/1",
        };
        for _ in 0..3 {
            recorder.record_action(&cluster, &about, None, "Scheduling", note);
            clock.step(SignedDuration::from_secs(60));
        }
        let events = events(&cluster);
        assert_eq!(events.len(), 1);
        assert_eq!(events[0]["series"]["count"], 2);
        assert_eq!(events[0]["reportingInstance"], "default-scheduler-klab");
    }
}
