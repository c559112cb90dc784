//! Priority and fairness: which flow and which level a request belongs to. Requests do not wait for it here; the answer's
//! headers say it, as those of API servers do.

// upstream: staging/src/k8s.io/apiserver/pkg/util/flowcontrol/rule.go matchesFlowSchema;
// staging/src/k8s.io/apiserver/pkg/server/filters/priority-and-fairness.go setResponseHeaders (v1.36)

use std::collections::BTreeMap;
use std::sync::LazyLock;

use http::{HeaderValue, Response};
use klab_api_machinery::resource::{FLOW_SCHEMAS, PRIORITY_LEVEL_CONFIGURATIONS};
use serde_json::Value;

use super::super::cluster::Cluster;
use super::super::rbac::{Attributes, Subject, User};
use super::super::store::Store;
use super::unstored::unstored;
use crate::body::Body;
use crate::builtin;

/// Requests that an API server works on at a time: 400 of readers and 200 of writers.
const SEATS: i64 = 600;
const FLOW: &str = "x-kubernetes-pf-flowschema-uid";
const LEVEL: &str = "x-kubernetes-pf-prioritylevel-uid";

/// The uids of flow and level.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Class {
    flow: HeaderValue,
    level: HeaderValue,
}

impl Class {
    /// Says it in an answer.
    pub(super) fn tell(&self, response: &mut Response<Body>) {
        response.headers_mut().insert(FLOW, self.flow.clone());
        response.headers_mut().insert(LEVEL, self.level.clone());
    }

    fn built_in(flow: &str, level: &str) -> Self {
        Self::of(&builtin::uid(FLOW_SCHEMAS, flow), &builtin::uid(PRIORITY_LEVEL_CONFIGURATIONS, level))
    }

    fn of(flow: &str, level: &str) -> Self {
        // A uid is a header's value, or nothing is said.
        let value = |uid: &str| HeaderValue::from_str(uid).unwrap_or_else(|_| HeaderValue::from_static(""));
        Self { flow: value(flow), level: value(level) }
    }
}

/// The class of the administrator's requests, which nothing comes before.
pub(super) fn exempt() -> Class {
    static CLASS: LazyLock<Class> = LazyLock::new(|| Class::built_in("exempt", "exempt"));
    CLASS.clone()
}

/// The class of a request of anybody else.
pub(super) fn classify(store: &Store, user: &User, asked: &Attributes<'_>) -> Class {
    let (precedence, flow, level) = default_flow(user);
    let mut own: Vec<_> = store.list(FLOW_SCHEMAS, None).map(|flow| (flow, flow.value())).collect();
    own.sort_by_key(|(flow, value)| (value["spec"]["matchingPrecedence"].as_i64().unwrap_or(1000), flow.name.clone()));
    let found = own.iter().find(|(_, value)| {
        value["spec"]["matchingPrecedence"].as_i64().unwrap_or(1000) <= precedence
            && value["spec"]["rules"].as_array().into_iter().flatten().any(|rule| matches(rule, user, asked))
    });
    let Some((flow, value)) = found else { return Class::built_in(flow, level) };
    let level = value["spec"]["priorityLevelConfiguration"]["name"].as_str().unwrap_or_default();
    let level = match store.get(PRIORITY_LEVEL_CONFIGURATIONS, "", level) {
        Some(level) => level.uid.to_string(),
        None => builtin::uid(PRIORITY_LEVEL_CONFIGURATIONS, level),
    };
    Class::of(&flow.uid, &level)
}

/// How many requests at a time each level may have that is limited, as its share says; klab holds no request to it.
// upstream: staging/src/k8s.io/apiserver/pkg/util/flowcontrol/apf_controller.go updateConcurrency (v1.36)
pub(super) fn nominal_limits(cluster: &Cluster) -> BTreeMap<String, i64> {
    let stored = cluster.list(PRIORITY_LEVEL_CONFIGURATIONS, None).0;
    // Of two with one name, what is stored counts.
    let mut shares: BTreeMap<String, i64> = BTreeMap::new();
    for level in unstored(cluster, PRIORITY_LEVEL_CONFIGURATIONS).into_iter().chain(stored) {
        let value = level.value();
        let (spec, kind) = (&value["spec"], if value["spec"]["type"] == "Exempt" { "exempt" } else { "limited" });
        let otherwise = if kind == "exempt" { 0 } else { 30 };
        shares.insert(level.name.to_string(), spec[kind]["nominalConcurrencyShares"].as_i64().unwrap_or(otherwise));
    }
    let sum = shares.values().fold(0_i64, |sum, share| sum.saturating_add((*share).max(0))).max(1);
    let limit = |share: i64| {
        let wanted = share.max(0).saturating_mul(SEATS);
        wanted.saturating_add(sum - 1).checked_div(sum).unwrap_or_default()
    };
    shares.into_iter().map(|(name, share)| (name, limit(share))).collect()
}

/// Of the flows that every API server tells apart, the one of this user: precedence, name, level.
fn default_flow(user: &User) -> (i64, &'static str, &'static str) {
    let is_in = |group: &str| user.groups.iter().any(|one| one == group);
    if is_in("system:nodes") {
        return (500, "system-nodes", "system");
    }
    match user.name.as_str() {
        "system:kube-controller-manager" => return (800, "kube-controller-manager", "workload-high"),
        "system:kube-scheduler" => return (800, "kube-scheduler", "workload-high"),
        _ => {}
    }
    if is_in("system:serviceaccounts:kube-system") {
        return (900, "kube-system-service-accounts", "workload-high");
    }
    if is_in("system:serviceaccounts") {
        return (9000, "service-accounts", "workload-low");
    }
    (9900, "global-default", "global-default")
}

fn has(list: &Value, wanted: &str) -> bool {
    list.as_array().into_iter().flatten().any(|one| one == "*" || one == wanted)
}

fn matches(rule: &Value, user: &User, asked: &Attributes<'_>) -> bool {
    let subjects = rule["subjects"].as_array().into_iter().flatten();
    let about = subjects.into_iter().any(|subject| {
        let named = |value: &Value, name: &str| value["name"] == "*" || value["name"] == name;
        match subject["kind"].as_str() {
            Some("User") => named(&subject["user"], &user.name),
            Some("Group") => user.groups.iter().any(|group| named(&subject["group"], group)),
            Some("ServiceAccount") => {
                let account = &subject["serviceAccount"];
                let place = user.name.strip_prefix("system:serviceaccount:").and_then(|rest| rest.split_once(':'));
                place.is_some_and(|(namespace, name)| account["namespace"] == namespace && named(account, name))
            }
            _ => false,
        }
    });
    let list = |field: &str| rule[field].as_array().into_iter().flatten();
    about
        && match &asked.to {
            Subject::Path(path) => list("nonResourceRules").any(|one| {
                has(&one["verbs"], asked.verb)
                    && one["nonResourceURLs"].as_array().into_iter().flatten().filter_map(Value::as_str).any(|known| {
                        known == "*"
                            || known == *path
                            || known.strip_suffix("/*").is_some_and(|start| path.starts_with(&format!("{start}/")))
                    })
            }),
            Subject::Resource(to) => list("resourceRules").any(|one| {
                let resource = if to.subresource.is_empty() {
                    to.resource.to_owned()
                } else {
                    format!("{}/{}", to.resource, to.subresource)
                };
                has(&one["verbs"], asked.verb)
                    && has(&one["apiGroups"], to.group)
                    && has(&one["resources"], &resource)
                    && if to.namespace.is_empty() {
                        one["clusterScope"] == true
                    } else {
                        has(&one["namespaces"], to.namespace)
                    }
            }),
        }
}
