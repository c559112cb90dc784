//! `/version`, `/healthz` and its kin.

use http::Response;
use jiff::SignedDuration;
use klab_api_machinery::object::Object;
use klab_api_machinery::resource::{CONFIG_MAPS, NAMESPACES};
use klab_api_machinery::status::Status;
use serde_json::json;

use super::super::cluster::{Cluster, ControlFault};
use super::call::{Call, Target};
use super::{answer, present};
use crate::body::Body;
use klab_api_machinery::node_pools::NAMESPACE;
use klab_api_machinery::pool_upgrades::{Member, POOL_UPGRADES, Phase, PoolUpgrade};

use crate::KUBERNETES_VERSION as VERSION;

/// Annotation of the namespace `kube-system` with another version that `/version` answers, such as `1.35.0`.
pub const VERSION_ANNOTATION: &str = "klab.dev/kubernetes";

/// The version that is asked for in place of the cluster's own, and its minor.
fn asked(cluster: &Cluster) -> Option<(String, u32)> {
    let namespace = cluster.get(NAMESPACES, "", "kube-system")?;
    let value = namespace.value();
    let text = value["metadata"]["annotations"][VERSION_ANNOTATION].as_str()?;
    let mut numbers = text.split('.').map(str::parse::<u32>);
    match (numbers.next(), numbers.next(), numbers.next(), numbers.next()) {
        (Some(Ok(1)), Some(Ok(minor)), Some(Ok(_)), None) => Some((format!("v{text}"), minor)),
        _ => None,
    }
}

/// `v1.36.2`, or the version that is asked for in its place.
pub(super) fn git_version(cluster: &Cluster) -> String {
    asked(cluster).map_or_else(|| VERSION.to_owned(), |(version, _)| version)
}

/// Clients compare these, so all of them are what the API server that is stood in for answers.
pub(super) fn version(cluster: &Cluster) -> Response<Body> {
    let (version, minor) = asked(cluster).unwrap_or_else(|| (VERSION.to_owned(), 36));
    let (before, minor) = (minor.saturating_sub(1).to_string(), minor.to_string());
    let value = json!({
        "major": "1", "minor": minor,
        "emulationMajor": "1", "emulationMinor": minor,
        "minCompatibilityMajor": "1", "minCompatibilityMinor": before,
        "gitVersion": version, "gitCommit": "$Format:%H$", "gitTreeState": "",
        "buildDate": "2026-06-09T00:00:00Z",
        "goVersion": "go1.27.3", "compiler": "gc", "platform": "linux/amd64",
    });
    let order = [
        "major",
        "minor",
        "emulationMajor",
        "emulationMinor",
        "minCompatibilityMajor",
        "minCompatibilityMinor",
        "gitVersion",
        "gitCommit",
        "gitTreeState",
        "buildDate",
        "goVersion",
        "compiler",
        "platform",
    ];
    let lines: Vec<String> = order.iter().map(|field| format!("  \"{field}\": {}", value[*field])).collect();
    answer::json_text(200, format!("{{\n{}\n}}", lines.join(",\n")))
}

/// The checks of an API server, in the order it runs them. Here they are one: the process answers.
const CHECKS: &[&str] = &[
    "ping",
    "log",
    "informer-sync",
    "poststarthook/start-apiserver-admission-initializer",
    "poststarthook/generic-apiserver-start-informers",
    "poststarthook/priority-and-fairness-config-consumer",
    "poststarthook/priority-and-fairness-filter",
    "poststarthook/storage-object-count-tracker-hook",
    "poststarthook/start-apiextensions-informers",
    "poststarthook/start-apiextensions-controllers",
    "poststarthook/crd-informer-synced",
    "poststarthook/start-system-namespaces-controller",
    "poststarthook/peer-endpoint-reconciler-controller",
    "poststarthook/start-cluster-authentication-info-controller",
    "poststarthook/start-kube-apiserver-identity-lease-controller",
    "poststarthook/start-kube-apiserver-identity-lease-garbage-collector",
    "poststarthook/storage-readiness",
    "poststarthook/start-legacy-token-tracking-controller",
    "poststarthook/start-service-ip-repair-controllers",
    "poststarthook/rbac/bootstrap-roles",
    "poststarthook/scheduling/bootstrap-system-priority-classes",
    "poststarthook/priority-and-fairness-config-producer",
    "poststarthook/bootstrap-controller",
    "poststarthook/start-kubernetes-service-cidr-controller",
    "poststarthook/start-kube-aggregator-informers",
    "poststarthook/apiservice-status-local-available-controller",
    "poststarthook/apiservice-status-remote-available-controller",
    "poststarthook/apiservice-registration-controller",
    "poststarthook/apiservice-wait-for-first-sync",
    "poststarthook/apiservice-discovery-controller",
    "poststarthook/kube-apiserver-autoregistration",
    "autoregister-completion",
    "poststarthook/apiservice-openapi-controller",
    "poststarthook/apiservice-openapiv3-controller",
];

/// Which of the checks a path has.
pub(super) fn checks(path: &str) -> impl Iterator<Item = &'static str> {
    let ready = path == "readyz";
    let last: &[&str] = if ready { &["shutdown"] } else { &["etcd", "loopback-serving-certificate"] };
    CHECKS.iter().filter(move |check| ready || **check != "informer-sync").chain(last).copied()
}

/// The check of `/readyz` that fails while a controller goes on without an object at which it panicked.
const CONTROL: &str = "control-plane";

/// The check of `/readyz`, of this cluster alone and not among the others, that fails while controllers have work left.
pub(super) const SETTLED: &str = "settled";

/// `/readyz/settled`
pub(super) fn settled(cluster: &Cluster) -> Response<Body> {
    if cluster.is_settled() && !is_upgrading(cluster) {
        answer::text(200, "ok")
    } else {
        answer::text(500, "controllers have work left\n")
    }
}

/// How long a drain may go on until it counts as blocked, which only somebody's doing ends.
const DRAIN: SignedDuration = SignedDuration::from_mins(1);

/// Whether machines of an upgrade start, or nodes of it are emptied: the controllers rest meanwhile, and are not done.
fn is_upgrading(cluster: &Cluster) -> bool {
    let now = cluster.now();
    let is_under_way = |member: &Member| match &member.phase {
        Phase::Starting(_) | Phase::Soaking(_) | Phase::Drained => true,
        Phase::Draining { since, .. } => now.duration_since(*since) < DRAIN,
        Phase::Waiting | Phase::Blocked(_) | Phase::Upgraded | Phase::Removed => false,
    };
    let map = cluster.get(CONFIG_MAPS, NAMESPACE, POOL_UPGRADES).map(|map| map.value());
    let upgrades = map.map(|map| PoolUpgrade::read(&map)).unwrap_or_default();
    let unended = upgrades.values().filter(|upgrade| upgrade.end.is_none());
    unended.flat_map(|upgrade| upgrade.nodes.iter().chain(&upgrade.surge_nodes)).any(is_under_way)
}

/// `/healthz`, `/livez`, `/readyz`. `faults` are those of the cluster's own controllers.
pub(super) fn check(path: &str, one: Option<&str>, verbose: bool, faults: &[ControlFault]) -> Response<Body> {
    let faults = if path == "readyz" { faults } else { &[] };
    match one {
        Some(CONTROL) if !faults.is_empty() => answer::text(500, failed(faults)),
        Some(one) if checks(path).any(|check| check == one) => answer::text(200, "ok"),
        Some(_) => answer::page_not_found(),
        None if verbose || !faults.is_empty() => {
            let mut text = String::new();
            for check in checks(path) {
                text.push_str("[+]");
                text.push_str(check);
                text.push_str(" ok\n");
            }
            if faults.is_empty() {
                return answer::text(200, format!("{text}{path} check passed\n"));
            }
            answer::text(500, format!("{text}{}{path} check failed\n", failed(faults)))
        }
        None => answer::text(200, "ok"),
    }
}

/// A line for each fault, as an API server writes checks that fail.
fn failed(faults: &[ControlFault]) -> String {
    let line = |fault: &ControlFault| {
        format!("[-]{CONTROL} failed: continues without {}: {}\n", fault.about, fault.message.replace('\n', " "))
    };
    faults.iter().map(line).collect()
}

impl Call<'_> {
    /// ComponentStatuses are deprecated, and here there are no components of their own: all is one process.
    pub(super) fn component_statuses(&self, target: &Target) -> Result<Response<Body>, Status> {
        let healthy = |name: &str| {
            let value = json!({
                "metadata": {"name": name},
                "conditions": [{"type": "Healthy", "status": "True", "message": "ok"}],
            });
            std::sync::Arc::new(Object::new(target.resource, 0, &value))
        };
        let names = ["controller-manager", "scheduler", "etcd-0"];
        let mut response = match target.name.as_deref() {
            Some(name) if names.contains(&name) => self.object(200, target, &healthy(name))?,
            Some(name) => return Err(Status::not_found(target.resource.row(), name)),
            None => {
                let items = names.iter().map(|name| healthy(name)).collect();
                self.objects(target.resource, &present::ListMetadata::default(), items)?
            }
        };
        answer::warn(&mut response, "v1 ComponentStatus is deprecated in v1.19+");
        Ok(response)
    }
}
