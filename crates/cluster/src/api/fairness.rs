//! Priority and fairness: which flow and which level a request belongs to. Requests do not wait for it here; the answer's
//! headers say it, as those of API servers do.

// upstream: staging/src/k8s.io/apiserver/pkg/util/flowcontrol/rule.go matchesFlowSchema;
// staging/src/k8s.io/apiserver/pkg/server/filters/priority-and-fairness.go setResponseHeaders (v1.36)

use std::collections::BTreeMap;
use std::sync::LazyLock;

use http::{HeaderValue, Response};
use klab_api_machinery::resource::{FLOW_SCHEMAS, PRIORITY_LEVEL_CONFIGURATIONS};
use klab_api_machinery::views::{FlowSchema, PolicyRulesWithSubjects, PriorityLevelConfiguration, Views};

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
    own.sort_by_key(|(flow, value)| (FlowSchema(value).spec().matching_precedence(), flow.name.clone()));
    let found = own.iter().find(|(_, value)| {
        let spec = FlowSchema(value).spec();
        spec.matching_precedence() <= precedence && spec.rules().any(|rule| matches(rule, user, asked))
    });
    let Some((flow, value)) = found else { return Class::built_in(flow, level) };
    let level = FlowSchema(value).spec().priority_level_configuration().name();
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
        let spec = PriorityLevelConfiguration(&value).spec();
        let share = match spec.type_() {
            "Exempt" => spec.exempt().nominal_concurrency_shares().unwrap_or(0),
            _ => spec.limited().nominal_concurrency_shares().unwrap_or(30),
        };
        shares.insert(level.name.to_string(), share);
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

fn has<'a>(mut list: Views<'a, &'a str>, wanted: &str) -> bool {
    list.any(|one| one == "*" || one == wanted)
}

fn matches(rule: PolicyRulesWithSubjects<'_>, user: &User, asked: &Attributes<'_>) -> bool {
    let about = rule.subjects().any(|subject| {
        let named = |value: &str, name: &str| value == "*" || value == name;
        match subject.kind() {
            "User" => named(subject.user().name(), &user.name),
            "Group" => user.groups.iter().any(|group| named(subject.group().name(), group)),
            "ServiceAccount" => {
                let account = subject.service_account();
                let place = user.name.strip_prefix("system:serviceaccount:").and_then(|rest| rest.split_once(':'));
                place.is_some_and(|(namespace, name)| account.namespace() == namespace && named(account.name(), name))
            }
            _ => false,
        }
    });
    about
        && match &asked.to {
            Subject::Path(path) => rule.non_resource_rules().any(|one| {
                has(one.verbs(), asked.verb)
                    && one.non_resource_urls().any(|known| {
                        known == "*"
                            || known == *path
                            || known.strip_suffix("/*").is_some_and(|start| path.starts_with(&format!("{start}/")))
                    })
            }),
            Subject::Resource(to) => rule.resource_rules().any(|one| {
                let resource = if to.subresource.is_empty() {
                    to.resource.to_owned()
                } else {
                    format!("{}/{}", to.resource, to.subresource)
                };
                has(one.verbs(), asked.verb)
                    && has(one.api_groups(), to.group)
                    && has(one.resources(), &resource)
                    && if to.namespace.is_empty() { one.cluster_scope() } else { has(one.namespaces(), to.namespace) }
            }),
        }
}
