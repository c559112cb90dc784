//! Azure's API as far as az asks for it on behalf of klab: one function from a request to an answer, and what it changes.

mod clusters;
mod groups;
mod pools;
mod quota;
mod registries;

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::fault::{Fault, Trouble};
use super::offer;
use pools::{complete_pool, pool_properties, state};

/// How long Azure takes.
#[derive(Debug, Clone, Copy)]
pub struct Latency {
    pub create: Duration,
    pub pool: Duration,
    pub delete: Duration,
}

impl Latency {
    pub const NONE: Self = Self { create: Duration::ZERO, pool: Duration::ZERO, delete: Duration::ZERO };
}

/// A request without its transport.
#[derive(Debug, Clone)]
pub struct Request {
    pub method: String,
    /// Without query, lower case where Azure does not care.
    pub path: String,
    pub query: String,
    pub body: Value,
}

impl Request {
    pub fn new(method: &str, path: &str, body: Value) -> Self {
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        Self { method: method.to_owned(), path: path.to_owned(), query: query.to_owned(), body }
    }
}

/// An answer without its transport.
#[derive(Debug, Clone)]
pub struct Answer {
    pub status: u16,
    pub body: Value,
    pub headers: Vec<(String, String)>,
    /// The connection is cut in place of the answer.
    pub lost: bool,
}

impl Answer {
    fn new(status: u16, body: Value) -> Self {
        Self { status, body, headers: Vec::new(), lost: false }
    }

    fn ok(body: Value) -> Self {
        Self::new(200, body)
    }

    pub fn refused(status: u16, code: &str, message: &str) -> Self {
        Self::new(status, json!({ "error": { "code": code, "message": message } }))
    }

    fn with(mut self, name: &str, value: impl Into<String>) -> Self {
        self.headers.push((name.to_owned(), value.into()));
        self
    }
}

/// Whether a path, in lower case, is one of those that are meant.
pub type Fits = fn(&str) -> bool;

/// Code and message of what failed.
type Failure = (String, String);

/// What something is going through.
#[derive(Debug, Clone)]
enum Phase {
    Settled(&'static str),
    Busy { doing: &'static str, until: Instant, fails: Option<Failure>, removes: bool },
}

#[derive(Debug, Clone)]
struct Pool {
    name: String,
    properties: Value,
    phase: Phase,
    error: Option<Failure>,
    operation: u64,
    /// Whether it has ever come up: then it has its machines, whatever fails later.
    came_up: bool,
    /// Tells a pool from one of the same name before it: its machines are others.
    generation: u64,
}

#[derive(Debug, Clone)]
struct Cluster {
    name: String,
    location: String,
    tags: Value,
    properties: Value,
    sku: Value,
    identity: Value,
    pools: BTreeMap<String, Pool>,
    phase: Phase,
    error: Option<Failure>,
    operation: u64,
    stopped: bool,
}

#[derive(Debug, Clone)]
struct Group {
    name: String,
    location: String,
    tags: Value,
    managed_by: Option<String>,
    clusters: BTreeMap<String, Cluster>,
    phase: Phase,
    operation: u64,
}

/// A pool as others see it: what the embedded cluster's nodes follow.
#[derive(Debug, Clone, PartialEq)]
pub struct PoolView {
    pub name: String,
    pub properties: Value,
    pub generation: u64,
}

/// The whole of Azure.
pub struct Model {
    pub subscription: String,
    pub tenant: String,
    pub latency: Latency,
    pub faults: Vec<Fault>,
    pub registered: bool,
    /// Whether operations that are under way stay so, however much time passes.
    pub held: bool,
    /// Whether what failed keeps the reason itself, as most regions have it; its last operation always does.
    pub keeps_reasons: bool,
    /// Whether whoever gives tokens fails.
    pub gives_no_tokens: bool,
    /// A policy that takes tags away which begin so, of what a path fits.
    pub strips: Option<(Fits, &'static str)>,
    /// Names of container registries.
    pub registries: Vec<String>,
    /// Who may pull from which registry.
    pub pullers: BTreeSet<(String, String)>,
    /// vCPUs that may be used, by counter.
    pub quota: BTreeMap<String, i64>,
    /// Every request, in order: `PUT …/agentPools/extra`.
    pub requests: Vec<String>,
    /// What `get-credentials` gives, by cluster.
    pub kubeconfig: Box<dyn Fn(&str) -> String + Send>,
    /// Where operations are looked up.
    pub base: String,
    /// Most pools of one cluster that were created at the same time.
    pub most_busy_pools: usize,
    groups: BTreeMap<String, Group>,
    /// What pools were before their last upgrade, by their keys.
    used: BTreeMap<String, Value>,
    /// Outcome of operations that are over.
    ended: BTreeMap<u64, Option<Failure>>,
    next_operation: u64,
}

impl Model {
    pub fn new(latency: Latency) -> Self {
        Self {
            subscription: "00000000-0000-0000-0000-00000000a2c3".to_owned(),
            tenant: "00000000-0000-0000-0000-0000000007e4".to_owned(),
            latency,
            faults: Vec::new(),
            used: BTreeMap::new(),
            registered: true,
            held: false,
            keeps_reasons: true,
            gives_no_tokens: false,
            strips: None,
            registries: vec!["shop".to_owned()],
            pullers: BTreeSet::new(),
            quota: BTreeMap::from([
                ("cores".to_owned(), 100),
                ("lowPriorityCores".to_owned(), 20),
                ("standardBSFamily".to_owned(), 50),
                ("standardDSv5Family".to_owned(), 50),
            ]),
            requests: Vec::new(),
            kubeconfig: Box::new(|cluster| {
                format!(
                    "apiVersion: v1\nkind: Config\ncurrent-context: {cluster}\nclusters: [{{name: {cluster}, cluster: {{server: 'https://127.0.0.1:1'}}}}]\ncontexts: [{{name: {cluster}, context: {{cluster: {cluster}, user: u}}}}]\nusers: [{{name: u, user: {{token: t}}}}]\n"
                )
            }),
            base: "https://127.0.0.1".to_owned(),
            most_busy_pools: 0,
            groups: BTreeMap::new(),
            ended: BTreeMap::new(),
            next_operation: 1,
        }
    }

    /// Names of everything there is: `group/klab-x`, `cluster/klab-x`, `pool/klab-x/extra`.
    pub fn everything(&mut self) -> Vec<String> {
        self.advance(Instant::now());
        let mut names = Vec::new();
        for group in self.groups.values() {
            names.push(format!("group/{}", group.name));
            for cluster in group.clusters.values() {
                names.push(format!("cluster/{}", cluster.name));
                names.extend(cluster.pools.values().map(|pool| format!("pool/{}/{}", cluster.name, pool.name)));
            }
        }
        names
    }

    /// The pools of the only cluster that have nodes, with their properties.
    pub fn pools(&mut self) -> Vec<PoolView> {
        self.advance(Instant::now());
        let clusters = self.groups.values().flat_map(|group| group.clusters.values());
        let pools = clusters.flat_map(|cluster| cluster.pools.values());
        pools
            .filter(|pool| pool.came_up)
            .map(|pool| PoolView {
                name: pool.name.clone(),
                properties: pool.properties.clone(),
                generation: pool.generation,
            })
            .collect()
    }

    /// The pools that have nodes, by cluster.
    pub fn pools_by_cluster(&mut self) -> Vec<(String, Vec<PoolView>)> {
        self.advance(Instant::now());
        let clusters = self.groups.values().flat_map(|group| group.clusters.values());
        let ready = |pool: &&Pool| pool.came_up;
        let view = |pool: &Pool| PoolView {
            name: pool.name.clone(),
            properties: pool.properties.clone(),
            generation: pool.generation,
        };
        clusters
            .filter(|cluster| !matches!(cluster.phase, Phase::Busy { doing: "Creating", .. }) && !cluster.stopped)
            .map(|cluster| (cluster.name.clone(), cluster.pools.values().filter(ready).map(view).collect()))
            .collect()
    }

    /// Whether users configure the scheduler of the cluster of this name.
    pub fn configures_scheduler(&self, name: &str) -> bool {
        let mut clusters = self.groups.values().flat_map(|group| group.clusters.values());
        clusters.any(|cluster| {
            cluster.name == name
                && cluster.properties["schedulerProfile"]["upstream"]["schedulerConfigMode"] == "ManagedByCRD"
        })
    }

    /// Makes a group as a user would.
    pub fn add_group(&mut self, name: &str, tags: Value) {
        let group = Group {
            name: name.to_owned(),
            location: "westeurope".to_owned(),
            tags,
            managed_by: None,
            clusters: BTreeMap::new(),
            phase: Phase::Settled("Succeeded"),
            operation: 0,
        };
        self.groups.insert(name.to_lowercase(), group);
    }

    /// Makes a cluster in a group as a user would.
    pub fn add_cluster(&mut self, group: &str, name: &str, tags: Value) {
        let cluster = Cluster {
            name: name.to_owned(),
            location: "westeurope".to_owned(),
            tags,
            properties: json!({ "nodeResourceGroup": format!("MC_{name}") }),
            sku: Value::Null,
            identity: Value::Null,
            pools: BTreeMap::new(),
            phase: Phase::Settled("Succeeded"),
            error: None,
            operation: 0,
            stopped: false,
        };
        let group = self.groups.get_mut(&group.to_lowercase()).expect("the group is there");
        group.clusters.insert(name.to_lowercase(), cluster);
    }

    /// Changes a pool behind klab's back.
    pub fn tamper(&mut self, pool: &str, property: &str, value: Value) {
        for group in self.groups.values_mut() {
            for cluster in group.clusters.values_mut() {
                if let Some(pool) = cluster.pools.get_mut(pool) {
                    pool.properties[property] = value.clone();
                }
            }
        }
    }

    /// Takes away a group with all that is in it, as a user would.
    pub fn remove_group(&mut self, prefix: &str) {
        self.groups.retain(|name, _| !name.trim_start_matches("mc_").starts_with(prefix));
    }

    /// Every cluster and pool is in the state that a failed change leaves.
    pub fn fail_all(&mut self, code: &str, message: &str) {
        let error = Some((code.to_owned(), message.to_owned()));
        for cluster in self.groups.values_mut().flat_map(|group| group.clusters.values_mut()) {
            (cluster.phase, cluster.error) = (Phase::Settled("Failed"), error.clone());
            for pool in cluster.pools.values_mut() {
                (pool.phase, pool.error) = (Phase::Settled("Failed"), error.clone());
            }
        }
    }

    /// Changes a tag of every group and cluster.
    pub fn tag_all(&mut self, name: &str, value: &str) {
        for group in self.groups.values_mut() {
            if group.tags.is_object() {
                group.tags[name] = json!(value);
            }
            for cluster in group.clusters.values_mut() {
                cluster.tags[name] = json!(value);
            }
        }
    }

    /// Answers one request.
    pub fn handle(&mut self, request: &Request) -> Answer {
        let now = Instant::now();
        self.advance(now);
        self.requests.push(format!("{} {}", request.method, request.path));
        let request = &self.after_policies(request);
        let fault = self.faults.iter_mut().find(|fault| fault.times > 0 && fault.hits(request));
        let trouble = fault.map(|fault| {
            fault.times -= 1;
            fault.trouble.clone()
        });
        match trouble {
            Some(Trouble::Refuse { status, code, message, retry_after }) => {
                let answer = Answer::refused(status, &code, &message);
                match retry_after {
                    Some(seconds) => answer.with("Retry-After", seconds.to_string()),
                    None => answer,
                }
            }
            Some(Trouble::Cut) => Answer { lost: true, ..Answer::ok(Value::Null) },
            Some(Trouble::LoseAnswer) => Answer { lost: true, ..self.route(request, now, None) },
            Some(Trouble::FailLater { code, message }) => self.route(request, now, Some((code, message))),
            None => self.route(request, now, None),
        }
    }

    /// A request as a policy lets it through.
    fn after_policies(&self, request: &Request) -> Request {
        fn strip(value: &mut Value, prefix: &str) {
            match value {
                Value::Object(fields) => {
                    if let Some(Value::Object(tags)) = fields.get_mut("tags") {
                        tags.retain(|tag, _| !tag.starts_with(prefix));
                    }
                    fields.values_mut().for_each(|value| strip(value, prefix));
                }
                Value::Array(items) => items.iter_mut().for_each(|value| strip(value, prefix)),
                _ => {}
            }
        }
        let mut request = request.clone();
        if let Some((fits, prefix)) = self.strips
            && fits(&request.path.to_lowercase())
        {
            strip(&mut request.body, prefix);
        }
        request
    }

    /// Lets time do its work.
    fn advance(&mut self, now: Instant) {
        if self.held {
            return;
        }
        let ended = &mut self.ended;
        let mut end = |phase: &mut Phase, error: &mut Option<Failure>, operation: u64| -> bool {
            let Phase::Busy { until, fails, removes, .. } = phase else { return false };
            if now < *until {
                return false;
            }
            let (fails, removes) = (fails.clone(), *removes);
            ended.insert(operation, fails.clone());
            *phase = Phase::Settled(if fails.is_some() { "Failed" } else { "Succeeded" });
            let failed = fails.is_some();
            *error = fails;
            removes && !failed
        };
        let mut gone_machines = Vec::new();
        for group in self.groups.values_mut() {
            group.clusters.retain(|_, cluster| {
                let mut first_failed = None;
                cluster.pools.retain(|_, pool| {
                    let removed = end(&mut pool.phase, &mut pool.error, pool.operation);
                    pool.came_up |= matches!(pool.phase, Phase::Settled("Succeeded"));
                    !removed
                });
                let was_creating = matches!(cluster.phase, Phase::Busy { doing: "Creating", .. });
                let removed = end(&mut cluster.phase, &mut cluster.error, cluster.operation);
                if was_creating && matches!(cluster.phase, Phase::Settled("Failed")) {
                    first_failed.clone_from(&cluster.error);
                }
                if let Some(error) = first_failed {
                    for pool in cluster.pools.values_mut() {
                        pool.phase = Phase::Settled("Failed");
                        pool.error = Some(error.clone());
                        pool.came_up = false;
                    }
                }
                if removed {
                    gone_machines
                        .push(cluster.properties["nodeResourceGroup"].as_str().unwrap_or_default().to_lowercase());
                }
                !removed
            });
        }
        let mut nothing = None;
        let mut machines_of_groups = Vec::new();
        self.groups.retain(|_, group| {
            let removed = end(&mut group.phase, &mut nothing, group.operation);
            // A group that could not be removed is as it was.
            if matches!(group.phase, Phase::Settled("Failed")) {
                group.phase = Phase::Settled("Succeeded");
            }
            if removed {
                let clusters = group.clusters.values();
                machines_of_groups.extend(clusters.map(|cluster| {
                    cluster.properties["nodeResourceGroup"].as_str().unwrap_or_default().to_lowercase()
                }));
            }
            !removed
        });
        self.groups.retain(|name, _| !gone_machines.contains(name) && !machines_of_groups.contains(name));
    }

    fn operation(&mut self) -> u64 {
        self.next_operation += 1;
        self.next_operation
    }

    fn accepted(&self, status: u16, body: Value, operation: u64) -> Answer {
        let path = format!(
            "{}/subscriptions/{}/providers/Microsoft.ContainerService/locations/westeurope/operations/{operation}?api-version=2026-06-01",
            self.base, self.subscription
        );
        // `Location` alone is how groups answer; az takes the first of the two.
        Answer::new(status, body)
            .with("Azure-AsyncOperation", path.clone())
            .with("Location", path.replace("/operations/", "/operationresults/"))
            .with("Retry-After", "1")
    }

    fn route(&mut self, request: &Request, now: Instant, fails: Option<Failure>) -> Answer {
        let lower = request.path.to_lowercase();
        let parts: Vec<&str> = lower.trim_matches('/').split('/').collect();
        let original: Vec<String> = request.path.trim_matches('/').split('/').map(str::to_owned).collect();
        let method = request.method.as_str();
        match parts.as_slice() {
            ["subscriptions"] => Answer::ok(json!({ "value": [self.subscription_view()] })),
            [.., "providers", "microsoft.resources", "tags", "default"] => self.tags(method, &parts, request),
            ["tenants"] => {
                Answer::ok(json!({ "value": [{ "id": format!("/tenants/{}", self.tenant), "tenantId": self.tenant }] }))
            }
            ["subscriptions", id, ..] if *id != self.subscription => {
                Answer::refused(404, "SubscriptionNotFound", &format!("The subscription '{id}' could not be found."))
            }
            [.., "providers", "microsoft.authorization", "roledefinitions"] => self.role_definitions(),
            [.., "providers", "microsoft.authorization", "roleassignments"]
            | [.., "providers", "microsoft.authorization", "roleassignments", _] => self.role_assignment(request),
            ["subscriptions", _, "resources"] => self.list_registries(),
            ["subscriptions", _] => Answer::ok(self.subscription_view()),
            ["subscriptions", _, "resourcegroups"] => self.list_groups(&request.query),
            ["subscriptions", _, "resourcegroups", group] => {
                self.group(method, group, &original[3], request, now, fails)
            }
            [
                "subscriptions",
                _,
                "resourcegroups",
                group,
                "providers",
                "microsoft.containerservice",
                "managedclusters",
                cluster,
                rest @ ..,
            ] => {
                let names = (original[3].clone(), original[7].clone(), original.get(9).cloned().unwrap_or_default());
                self.in_cluster(method, group, cluster, rest, names, request, now, fails)
            }
            ["subscriptions", _, "providers", "microsoft.containerservice", "managedclusters"] => {
                self.list_clusters(None)
            }
            [
                "subscriptions",
                _,
                "resourcegroups",
                group,
                "providers",
                "microsoft.containerservice",
                "managedclusters",
            ] => self.list_clusters(Some(group)),
            [
                "subscriptions",
                _,
                "providers",
                "microsoft.containerservice",
                "locations",
                _,
                kind @ ("operations" | "operationresults"),
                id,
            ] => self.operation_view(id, kind),
            ["subscriptions", _, "providers", "microsoft.containerservice", "locations", _, "kubernetesversions"] => {
                Answer::ok(offer::versions())
            }
            ["subscriptions", _, "providers", "microsoft.containerservice"] => {
                let state = if self.registered { "Registered" } else { "NotRegistered" };
                Answer::ok(
                    json!({ "namespace": "Microsoft.ContainerService", "registrationState": state, "resourceTypes": [] }),
                )
            }
            ["subscriptions", _, "providers", "microsoft.compute", "skus"] => {
                Answer::ok(json!({ "value": offer::skus() }))
            }
            ["subscriptions", _, "providers", "microsoft.compute", "locations", _, "usages"] => {
                let usage = self.usage();
                Answer::ok(json!({ "value": usage }))
            }
            _ => Answer::refused(404, "NotFound", &format!("the stand-in has no {} {}", request.method, request.path)),
        }
    }

    fn operation_view(&self, id: &str, kind: &str) -> Answer {
        self.operation_answer(id.parse().unwrap_or(0), id, kind)
    }

    fn operation_answer(&self, number: u64, id: &str, kind: &str) -> Answer {
        match self.ended.get(&number) {
            Some(Some((code, message))) => {
                Answer::ok(json!({ "name": id, "status": "Failed", "error": { "code": code, "message": message } }))
            }
            Some(None) => Answer::ok(json!({ "name": id, "status": "Succeeded" })),
            None if kind == "operationresults" => Answer::new(202, Value::Null).with("Retry-After", "1"),
            None => Answer::ok(json!({ "name": id, "status": "InProgress" })).with("Retry-After", "1"),
        }
    }

    fn tags(&mut self, method: &str, parts: &[&str], request: &Request) -> Answer {
        let tags = request.body["properties"]["tags"].clone();
        let merge = |target: &mut Value| {
            if !target.is_object() {
                *target = json!({});
            }
            for (name, value) in tags.as_object().into_iter().flatten() {
                target[name] = value.clone();
            }
        };
        if method != "PATCH" {
            return Answer::refused(405, "MethodNotAllowed", "only PATCH on tags");
        }
        let group = parts.get(3).copied().unwrap_or_default();
        let Some(found) = self.groups.get_mut(group) else {
            return Answer::refused(404, "ResourceGroupNotFound", "no such group");
        };
        match parts.iter().position(|part| *part == "managedclusters").and_then(|at| parts.get(at + 1)) {
            Some(cluster) => match found.clusters.get_mut(*cluster) {
                Some(cluster) => merge(&mut cluster.tags),
                None => return Answer::refused(404, "ResourceNotFound", "no such cluster"),
            },
            None => merge(&mut found.tags),
        }
        Answer::ok(
            json!({ "id": request.path, "name": "default", "type": "Microsoft.Resources/tags", "properties": { "tags": tags } }),
        )
    }
}

fn in_progress(message: &str) -> Answer {
    Answer::refused(
        409,
        "OperationNotAllowed",
        &format!("{message} See https://aka.ms/aks-pending-operation for more details."),
    )
}

/// The refusal of a cluster that is not at rest.
fn busy(cluster: &Cluster) -> Option<Answer> {
    if let Phase::Busy { doing, .. } = &cluster.phase {
        return Some(in_progress(&format!(
            "Operation is not allowed: Another operation ({doing}) is in progress, please wait for it to finish before starting a new operation."
        )));
    }
    let pool = cluster.pools.values().find(|pool| matches!(pool.phase, Phase::Busy { .. }))?;
    let message = format!(
        "Managed Cluster operation is not allowed: Another operation ({}) is in progress on agent pool ({}).",
        state(&pool.phase),
        pool.name
    );
    Some(in_progress(&message))
}
