//! Typed views of objects: a method for each field, which reads it from JSON when called.
//!
//! `build.rs` writes them from the table of types. What is missing or of another type reads as Go's zero: `""`, 0, false, nothing of
//! a list; a view of a struct that is not there says so by `is_set`. The JSON below a view is its only field.

use std::marker::PhantomData;
use std::slice;

use jiff::Timestamp;
use klab_scheduler::taint;
use serde_json::{Map, Value};

use crate::value::time_of;

/// How JSON is read as a type.
pub trait View<'a> {
    /// Reads it.
    fn of(value: &'a Value) -> Self;
}

impl<'a> View<'a> for &'a Value {
    fn of(value: &'a Value) -> Self {
        value
    }
}

impl<'a> View<'a> for &'a str {
    fn of(value: &'a Value) -> Self {
        value.as_str().unwrap_or_default()
    }
}

impl View<'_> for i64 {
    fn of(value: &Value) -> Self {
        value.as_i64().unwrap_or_default()
    }
}

impl View<'_> for bool {
    fn of(value: &Value) -> Self {
        *value == true
    }
}

impl<'a> View<'a> for Option<&'a str> {
    fn of(value: &'a Value) -> Self {
        value.as_str()
    }
}

impl View<'_> for Option<i64> {
    fn of(value: &Value) -> Self {
        value.as_i64()
    }
}

impl View<'_> for Option<bool> {
    fn of(value: &Value) -> Self {
        value.as_bool()
    }
}

impl View<'_> for Option<Timestamp> {
    fn of(value: &Value) -> Self {
        time_of(value)
    }
}

/// The elements of a list.
#[derive(Debug, Clone)]
pub struct Views<'a, T>(slice::Iter<'a, Value>, PhantomData<T>);

impl<T> Views<'_, T> {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.as_slice().is_empty()
    }
}

impl<'a, T: View<'a>> Views<'a, T> {
    /// The elements as JSON.
    pub(crate) fn json(&self) -> slice::Iter<'a, Value> {
        self.0.clone()
    }

    /// The element of that name.
    pub fn named(self, name: &str) -> Option<T> {
        self.0.into_iter().find(|one| one["name"] == name).map(T::of)
    }

    /// The condition of that type.
    pub fn of_type(self, kind: &str) -> Option<T> {
        self.0.into_iter().find(|one| one["type"] == kind).map(T::of)
    }

    /// Whether the condition of that type is True.
    pub fn is_true(mut self, kind: &str) -> bool {
        self.0.find(|one| one["type"] == kind).is_some_and(|one| one["status"] == "True")
    }
}

impl<'a, T> View<'a> for Views<'a, T> {
    fn of(value: &'a Value) -> Self {
        Self(value.as_array().map(Vec::as_slice).unwrap_or_default().iter(), PhantomData)
    }
}

impl<'a, T: View<'a>> Iterator for Views<'a, T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        self.0.next().map(T::of)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.0.size_hint()
    }
}

impl<'a, T: View<'a>> DoubleEndedIterator for Views<'a, T> {
    fn next_back(&mut self) -> Option<T> {
        self.0.next_back().map(T::of)
    }
}

impl<'a, T: View<'a>> ExactSizeIterator for Views<'a, T> {}

/// The entries of a map.
#[derive(Debug, Clone, Copy)]
pub struct Entries<'a, T>(Option<&'a Map<String, Value>>, PhantomData<T>);

impl<'a, T> View<'a> for Entries<'a, T> {
    fn of(value: &'a Value) -> Self {
        Self(value.as_object(), PhantomData)
    }
}

impl<'a, T: View<'a>> Entries<'a, T> {
    /// The value of a key.
    pub fn get(self, key: &str) -> Option<T> {
        self.0?.get(key).map(T::of)
    }

    /// All keys with their values, sorted as the map is.
    pub fn iter(self) -> impl Iterator<Item = (&'a str, T)> {
        self.json().map(|(key, value)| (key, T::of(value)))
    }

    /// All keys with their values as JSON.
    pub(crate) fn json(self) -> impl Iterator<Item = (&'a str, &'a Value)> {
        self.0.into_iter().flatten().map(|(key, value)| (key.as_str(), value))
    }

    /// How many there are.
    pub fn len(self) -> usize {
        self.0.map_or(0, Map::len)
    }

    /// Whether there are none.
    pub fn is_empty(self) -> bool {
        self.0.is_none_or(Map::is_empty)
    }
}

/// The metadata of an object of any kind.
pub fn metadata(object: &Value) -> ObjectMeta<'_> {
    ObjectMeta(&object["metadata"])
}

impl Pod<'_> {
    /// Whether it only shows a pod that a kubelet runs from a file.
    pub fn is_mirror(self) -> bool {
        self.metadata().annotations().get("kubernetes.io/config.mirror").is_some()
    }
}

impl<'a> PodSpec<'a> {
    /// Init containers, main containers, ephemeral containers.
    pub fn all_containers(self) -> impl Iterator<Item = Container<'a>> {
        let ephemeral = self.ephemeral_containers().map(|container| Container(container.0));
        self.init_containers().chain(self.containers()).chain(ephemeral)
    }
}

impl<'a> Toleration<'a> {
    /// What tells it from others: not for how long.
    pub fn identity(self) -> [&'a str; 4] {
        [self.key(), self.operator(), self.value(), self.effect()]
    }

    /// Whether a pod with this toleration stands a node with that taint.
    pub fn tolerates(self, taint: Taint<'_>) -> bool {
        let toleration = taint::Toleration {
            key: self.key().to_owned(),
            value: self.value().to_owned(),
            operator: self.operator().to_owned(),
            effect: self.effect().to_owned(),
        };
        toleration.tolerates(&taint::Taint {
            key: taint.key().to_owned(),
            value: taint.value().to_owned(),
            effect: taint.effect().to_owned(),
        })
    }
}

include!(concat!(env!("OUT_DIR"), "/views.rs"));

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn fields_are_read_as_their_types() {
        let json = json!({
            "metadata": { "labels": { "app": "web" }, "creationTimestamp": "2026-01-01T00:00:00Z" },
            "spec": {
                "hostIPC": true, "priority": 0, "nodeName": 7,
                "containers": [{ "name": "a", "ports": [{ "hostPort": 80, "hostIP": "::1" }] }, { "name": "b" }],
            },
            "status": { "podIPs": [{ "ip": "10.0.0.1" }], "conditions": [{ "type": "Ready" }] },
        });
        let (pod, spec, status) = (Pod(&json), Pod(&json).spec(), Pod(&json).status());
        assert_eq!(pod.metadata().labels().get("app"), Some("web"));
        assert!(pod.metadata().creation_timestamp().is_some() && pod.metadata().deletion_timestamp().is_none());
        assert_eq!((spec.host_ipc(), spec.host_network(), spec.node_name()), (true, false, ""));
        assert_eq!((spec.priority(), spec.active_deadline_seconds()), (Some(0), None));
        assert_eq!(spec.containers().map(Container::name).collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!((spec.containers().len(), spec.tolerations().len()), (2, 0));
        let port = spec.containers().next().and_then(|container| container.ports().next()).unwrap();
        assert_eq!((port.host_port(), port.host_ip()), (80, "::1"));
        assert_eq!(status.pod_ips().next_back().map(PodIP::ip), Some("10.0.0.1"));
        assert_eq!(status.conditions().map(PodCondition::type_).collect::<Vec<_>>(), ["Ready"]);
        assert!(!spec.security_context().is_set() && spec.security_context().run_as_user().is_none());
        assert!(spec.init_containers().is_empty() && spec.node_selector().is_empty());
    }

    #[test]
    fn tolerations_match_taints() {
        let taint = json!({"key": "a", "value": "b", "effect": "NoExecute"});
        assert!(Toleration(&json!({"operator": "Exists"})).tolerates(Taint(&taint)));
        assert!(Toleration(&json!({"key": "a", "operator": "Exists"})).tolerates(Taint(&taint)));
        assert!(Toleration(&json!({"key": "a", "value": "b"})).tolerates(Taint(&taint)));
        assert!(!Toleration(&json!({"key": "a", "value": "c"})).tolerates(Taint(&taint)));
        assert!(
            !Toleration(&json!({"key": "a", "operator": "Exists", "effect": "NoSchedule"})).tolerates(Taint(&taint))
        );
    }
}
