//! The ConfigMap in which the autoscaler says how it is.

// upstream: cluster-autoscaler/clusterstate/clusterstate.go GetStatus (v1.36)
// upstream: cluster-autoscaler/clusterstate/utils/status.go WriteStatusConfigMap (v1.36)

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use jiff::Timestamp;
use klab_api_machinery::resource::CONFIG_MAPS;
use klab_api_machinery::value::{map_mut, time_text};
use serde_json::{Map, Value, json};

use super::component::writes;
use crate::cluster::Part;
use crate::control::plane::Plane;
use klab_api_machinery::node_pools::{NAMESPACE, NodePool, POOL_LABEL, STATUS};
use klab_scheduler::autoscaler::{Backoffs, Failure, NodeGroup};

const LAST_UPDATED: &str = "cluster-autoscaler.kubernetes.io/last-updated";

/// The status as it was written last; its times of transition go on.
#[derive(Debug, Default)]
pub(super) struct Status(Value);

/// What the status is made of.
pub(super) struct Facts<'a> {
    pub(super) groups: &'a [NodeGroup],
    pub(super) pools: &'a BTreeMap<String, NodePool>,
    /// How many nodes of each group no pod needs.
    pub(super) candidates: &'a BTreeMap<Arc<str>, usize>,
    pub(super) backoffs: &'a Backoffs,
    pub(super) is_healthy: bool,
}

/// Nodes by their condition.
#[derive(Debug, Clone, Copy, Default)]
struct Counts {
    total: usize,
    ready: usize,
    upcoming: usize,
}

impl Status {
    /// Writes the status where anything but the time of the last look has changed: an embedded cluster whose pods and nodes
    /// rest is not to write every ten seconds.
    pub(super) fn write(&mut self, plane: &Plane, facts: &Facts<'_>) {
        let now = plane.now();
        let status = facts.status(plane, &self.0, now);
        let without_probes = |status: &Value| {
            let mut status = status.clone();
            remove_probes(&mut status);
            status
        };
        if without_probes(&status) == without_probes(&self.0) {
            return;
        }
        let updated = now.strftime("%Y-%m-%d %H:%M:%S.%f +0000 UTC").to_string();
        let mut stamped = status.clone();
        stamped["time"] = json!(updated);
        let mut text = String::new();
        yaml(&mut text, &stamped, 0);
        let fill = |map: &mut Value| {
            map_mut(&mut map["metadata"]["annotations"]).insert(LAST_UPDATED.to_owned(), json!(updated));
            map["data"] = json!({ "status": text });
        };
        if plane.cluster.modify(CONFIG_MAPS, Part::Main, NAMESPACE, STATUS, &writes(), fill).is_err() {
            let mut map = json!({ "metadata": { "name": STATUS, "namespace": NAMESPACE, "annotations": {} } });
            fill(&mut map);
            let _made = plane.cluster.create(CONFIG_MAPS, NAMESPACE, map, &writes());
        }
        self.0 = status;
    }
}

impl Facts<'_> {
    fn status(&self, plane: &Plane, last: &Value, now: Timestamp) -> Value {
        let mut all = Counts::default();
        let mut by_pool: BTreeMap<&str, Counts> = BTreeMap::new();
        for node in plane.view.nodes() {
            let pool = node.object.label(POOL_LABEL).unwrap_or_default();
            for counts in [&mut all, by_pool.entry(pool).or_default()] {
                counts.total += 1;
                counts.ready += usize::from(&*node.ready == "True");
            }
        }
        let condition = |last: &Value, status: &str, more: Value| {
            let time = time_text(now);
            let since = if last["status"] == status { last["lastTransitionTime"].clone() } else { json!(time) };
            let mut condition = Map::from_iter([
                ("status".to_owned(), json!(status)),
                ("lastProbeTime".to_owned(), json!(time)),
                ("lastTransitionTime".to_owned(), since),
            ]);
            condition.extend(more.as_object().cloned().unwrap_or_default());
            Value::Object(condition)
        };
        let scale_down = |last: &Value, candidates: usize| {
            let status = if candidates > 0 { "CandidatesPresent" } else { "NoCandidates" };
            // Nothing is said of none.
            let more = if candidates > 0 { json!({ "candidates": candidates }) } else { json!({}) };
            condition(last, status, more)
        };
        let scale_up = |last: &Value, upcoming: usize, failure: Option<&Failure>| match failure {
            _ if upcoming > 0 => condition(last, "InProgress", json!({})),
            Some(failure) => {
                let info = json!({ "errorCode": failure.code, "errorMessage": failure.message });
                condition(last, "Backoff", json!({ "backoffInfo": info }))
            }
            None => condition(last, "NoActivity", json!({})),
        };
        let groups: Vec<Value> = self
            .pools
            .iter()
            .filter_map(|(name, pool)| {
                let group = self.groups.iter().find(|group| *group.name == *pool.group)?;
                let last = last["nodeGroups"].as_array().into_iter().flatten().find(|it| it["name"] == pool.group);
                let last = last.unwrap_or(&Value::Null);
                let mut counts = by_pool.get(name.as_str()).copied().unwrap_or_default();
                counts.upcoming = pool.starting.len();
                all.upcoming += counts.upcoming;
                let target = counts.total + counts.upcoming;
                let health = json!({
                    "nodeCounts": counts.to_json(), "cloudProviderTarget": target, "minSize": pool.min, "maxSize": pool.max,
                });
                Some(json!({
                    "name": pool.group,
                    "health": condition(&last["health"], "Healthy", health),
                    "scaleUp": scale_up(&last["scaleUp"], counts.upcoming, self.backoffs.of(&pool.group, now)),
                    "scaleDown": scale_down(&last["scaleDown"], self.candidates.get(&group.name).copied().unwrap_or_default()),
                }))
            })
            .collect();
        let last = &last["clusterWide"];
        let health = if self.is_healthy { "Healthy" } else { "Unhealthy" };
        json!({
            "autoscalerStatus": "Running",
            "clusterWide": {
                "health": condition(&last["health"], health, json!({ "nodeCounts": all.to_json() })),
                "scaleUp": scale_up(&last["scaleUp"], all.upcoming, None),
                "scaleDown": scale_down(&last["scaleDown"], self.candidates.values().sum()),
            },
            "nodeGroups": groups,
        })
    }
}

impl Counts {
    fn to_json(self) -> Value {
        json!({
            "registered": {
                "total": self.total, "ready": self.ready, "notStarted": 0, "suspended": 0,
                "unready": { "total": self.total - self.ready, "resourceUnready": 0 },
            },
            "longUnregistered": 0,
            "unregistered": self.upcoming,
        })
    }
}

fn remove_probes(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.remove("lastProbeTime");
            map.values_mut().for_each(remove_probes);
        }
        Value::Array(items) => items.iter_mut().for_each(remove_probes),
        _ => {}
    }
}

/// YAML as Kubernetes' tools write it: keys in alphabetical order, list items no deeper than their key, times in quotes.
fn yaml(text: &mut String, value: &Value, depth: usize) {
    let Value::Object(map) = value else { return };
    for (at, (key, value)) in map.iter().enumerate() {
        // The first key of a list item stands behind its dash.
        if at > 0 || !text.ends_with("- ") {
            text.push_str(&"  ".repeat(depth));
        }
        text.push_str(key);
        text.push(':');
        match value {
            Value::Object(map) if !map.is_empty() => {
                text.push('\n');
                yaml(text, value, depth + 1);
            }
            Value::Array(items) if !items.is_empty() => {
                text.push('\n');
                for item in items {
                    text.push_str(&"  ".repeat(depth));
                    text.push_str("- ");
                    yaml(text, item, depth + 1);
                }
            }
            // What a plain scalar cannot say is written as JSON, which is YAML too.
            Value::String(plain)
                if plain.ends_with('Z') || [": ", " #", "\n"].iter().any(|mark| plain.contains(mark)) =>
            {
                let _written = writeln!(text, " {value}");
            }
            Value::String(plain) => {
                let _written = writeln!(text, " {plain}");
            }
            other => {
                let _written = writeln!(text, " {other}");
            }
        }
    }
}
