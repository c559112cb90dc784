//! Azure's API as far as az asks for it on behalf of klab: one function from a request to an answer, and what it changes.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::fault::{Fault, Trouble};
use super::offer;

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

/// What something is going through.
#[derive(Debug, Clone)]
enum Phase {
    Settled(&'static str),
    Busy { doing: &'static str, until: Instant, fails: Option<(String, String)>, removes: bool },
}

#[derive(Debug, Clone)]
struct Pool {
    name: String,
    properties: Value,
    phase: Phase,
    error: Option<(String, String)>,
    operation: u64,
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
    error: Option<(String, String)>,
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
    /// Outcome of operations that are over.
    ended: BTreeMap<u64, Option<(String, String)>>,
    next_operation: u64,
}

impl Model {
    pub fn new(latency: Latency) -> Self {
        Self {
            subscription: "00000000-0000-0000-0000-00000000a2c3".to_owned(),
            tenant: "00000000-0000-0000-0000-0000000007e4".to_owned(),
            latency,
            faults: Vec::new(),
            registered: true,
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
        let ready = pools
            .filter(|pool| !matches!(&pool.phase, Phase::Busy { doing: "Creating", .. } | Phase::Settled("Failed")));
        ready
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
        let ready =
            |pool: &&Pool| !matches!(&pool.phase, Phase::Busy { doing: "Creating", .. } | Phase::Settled("Failed"));
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

    /// Lets time do its work.
    fn advance(&mut self, now: Instant) {
        let ended = &mut self.ended;
        let mut end = |phase: &mut Phase, error: &mut Option<(String, String)>, operation: u64| -> bool {
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
                cluster.pools.retain(|_, pool| !end(&mut pool.phase, &mut pool.error, pool.operation));
                let was_creating = matches!(cluster.phase, Phase::Busy { doing: "Creating", .. });
                let removed = end(&mut cluster.phase, &mut cluster.error, cluster.operation);
                if was_creating && matches!(cluster.phase, Phase::Settled("Failed")) {
                    first_failed.clone_from(&cluster.error);
                }
                if let Some(error) = first_failed {
                    for pool in cluster.pools.values_mut() {
                        pool.phase = Phase::Settled("Failed");
                        pool.error = Some(error.clone());
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

    fn route(&mut self, request: &Request, now: Instant, fails: Option<(String, String)>) -> Answer {
        let lower = request.path.to_lowercase();
        let parts: Vec<&str> = lower.trim_matches('/').split('/').collect();
        let original: Vec<String> = request.path.trim_matches('/').split('/').map(str::to_owned).collect();
        let method = request.method.as_str();
        match parts.as_slice() {
            ["subscriptions"] => Answer::ok(json!({ "value": [self.subscription_view()] })),
            ["tenants"] => {
                Answer::ok(json!({ "value": [{ "id": format!("/tenants/{}", self.tenant), "tenantId": self.tenant }] }))
            }
            ["subscriptions", id, ..] if *id != self.subscription => {
                Answer::refused(404, "SubscriptionNotFound", &format!("The subscription '{id}' could not be found."))
            }
            ["subscriptions", _] => Answer::ok(self.subscription_view()),
            ["subscriptions", _, "resourcegroups"] => self.list_groups(&request.query),
            ["subscriptions", _, "resourcegroups", group] => self.group(method, group, &original[3], request, now),
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
            ["subscriptions", _, "providers", "microsoft.containerservice", "managedclusters"] => self.list_clusters(),
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
            [.., "providers", "microsoft.resources", "tags", "default"] => self.tags(method, &parts, request),
            _ => Answer::refused(404, "NotFound", &format!("the stand-in has no {} {}", request.method, request.path)),
        }
    }

    fn subscription_view(&self) -> Value {
        json!({ "id": format!("/subscriptions/{}", self.subscription), "subscriptionId": self.subscription, "tenantId": self.tenant,
            "displayName": "Stand-in", "state": "Enabled", "authorizationSource": "RoleBased" })
    }

    fn group_view(&self, group: &Group) -> Value {
        let state = state(&group.phase);
        json!({ "id": format!("/subscriptions/{}/resourceGroups/{}", self.subscription, group.name), "name": group.name,
            "type": "Microsoft.Resources/resourceGroups", "location": group.location, "tags": group.tags,
            "managedBy": group.managed_by, "properties": { "provisioningState": state } })
    }

    fn list_groups(&self, query: &str) -> Answer {
        let query = query.replace("%20", " ").replace('+', " ").replace("%27", "'").replace("%24", "$");
        let quoted = |name: &str| {
            query.split(&format!("{name} eq '")).nth(1).and_then(|rest| rest.split('\'').next()).map(str::to_owned)
        };
        let (name, value) =
            (quoted("tagname").or_else(|| quoted("tagName")), quoted("tagvalue").or_else(|| quoted("tagValue")));
        let has = |group: &&Group| match (&name, &value) {
            (Some(name), Some(value)) => group.tags[name] == json!(value),
            (Some(name), None) => !group.tags[name].is_null(),
            _ => true,
        };
        let groups: Vec<Value> = self.groups.values().filter(has).map(|group| self.group_view(group)).collect();
        Answer::ok(json!({ "value": groups }))
    }

    fn group(&mut self, method: &str, key: &str, name: &str, request: &Request, now: Instant) -> Answer {
        let absent =
            || Answer::refused(404, "ResourceGroupNotFound", &format!("Resource group '{name}' could not be found."));
        match (method, self.groups.get(key)) {
            ("PUT", Some(group)) if matches!(group.phase, Phase::Busy { .. }) => Answer::refused(
                409,
                "ResourceGroupBeingDeleted",
                &format!("The resource group '{name}' is in deprovisioning state and cannot perform this operation."),
            ),
            ("PUT", Some(group)) if request.body["location"] != json!(group.location) => Answer::refused(
                409,
                "InvalidResourceGroupLocation",
                &format!(
                    "Invalid resource group location. The resource group '{name}' already exists in location '{}'.",
                    group.location
                ),
            ),
            ("PUT", found) => {
                let status = if found.is_some() { 200 } else { 201 };
                let clusters = found.map(|group| group.clusters.clone()).unwrap_or_default();
                let group = Group {
                    name: name.to_owned(),
                    location: request.body["location"].as_str().unwrap_or_default().to_owned(),
                    tags: request.body["tags"].clone(),
                    managed_by: None,
                    clusters,
                    phase: Phase::Settled("Succeeded"),
                    operation: 0,
                };
                let view = self.group_view(&group);
                self.groups.insert(key.to_owned(), group);
                Answer::new(status, view)
            }
            (_, None) => absent(),
            ("GET", Some(group)) => Answer::ok(self.group_view(group)),
            ("HEAD", Some(_)) => Answer::new(204, Value::Null),
            ("DELETE", Some(_)) => {
                let operation = self.operation();
                let until = now + self.latency.delete;
                if let Some(group) = self.groups.get_mut(key) {
                    group.phase = Phase::Busy { doing: "Deleting", until, fails: None, removes: true };
                    group.operation = operation;
                    for cluster in group.clusters.values_mut() {
                        cluster.phase = Phase::Busy { doing: "Deleting", until, fails: None, removes: true };
                    }
                }
                self.accepted(202, Value::Null, operation)
            }
            _ => Answer::refused(405, "MethodNotAllowed", "not on groups"),
        }
    }

    #[allow(clippy::too_many_arguments, reason = "everything a request to a cluster can be about")]
    fn in_cluster(
        &mut self,
        method: &str,
        group: &str,
        cluster: &str,
        rest: &[&str],
        (group_name, cluster_name, pool_name): (String, String, String),
        request: &Request,
        now: Instant,
        fails: Option<(String, String)>,
    ) -> Answer {
        match self.groups.get(group) {
            None => {
                return Answer::refused(
                    404,
                    "ResourceGroupNotFound",
                    &format!("Resource group '{group_name}' could not be found."),
                );
            }
            Some(group) if matches!(group.phase, Phase::Busy { .. }) && method != "GET" => {
                let message = format!(
                    "The resource group '{group_name}' is in deprovisioning state and cannot perform this operation."
                );
                return Answer::refused(409, "ResourceGroupBeingDeleted", &message);
            }
            Some(_) => {}
        }
        let exists = self.groups.get(group).is_some_and(|group| group.clusters.contains_key(cluster));
        if !exists && (method != "PUT" || !rest.is_empty()) {
            if method == "DELETE" && rest.is_empty() {
                return Answer::new(204, Value::Null);
            }
            let code = if rest.is_empty() { "ResourceNotFound" } else { "ParentResourceNotFound" };
            let message = format!(
                "The Resource 'Microsoft.ContainerService/managedClusters/{cluster_name}' under resource group '{group_name}' was not found."
            );
            return Answer::refused(404, code, &message);
        }
        let operation = self.operation();
        match (method, rest) {
            ("GET", []) => self.cluster_answer(200, group, cluster),
            ("PUT", []) => self.put_cluster(group, cluster, &cluster_name, request, now, fails, operation),
            ("DELETE", []) => {
                let until = now + self.latency.delete;
                self.change_cluster(group, cluster, |cluster| {
                    cluster.phase = Phase::Busy { doing: "Deleting", until, fails, removes: true };
                    cluster.operation = operation;
                });
                self.accepted(202, Value::Null, operation)
            }
            ("POST", ["listclusterusercredential"]) => {
                let file = (self.kubeconfig)(&cluster_name);
                let value = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, file);
                Answer::ok(json!({ "kubeconfigs": [{ "name": "clusterUser", "value": value }] }))
            }
            ("POST", [switch @ ("stop" | "start")]) => self.switch(group, cluster, switch, now, fails, operation),
            ("GET", ["agentpools"]) => {
                let pools: Vec<Value> = self
                    .cluster(group, cluster)
                    .map(|found| found.pools.values().map(|pool| self.pool_view(group, found, pool)).collect())
                    .unwrap_or_default();
                Answer::ok(json!({ "value": pools }))
            }
            (_, ["agentpools", pool]) => {
                self.in_pool(method, group, cluster, pool, &pool_name, request, now, fails, operation)
            }
            _ => Answer::refused(404, "NotFound", &format!("the stand-in has no {} {}", request.method, request.path)),
        }
    }

    fn cluster(&self, group: &str, cluster: &str) -> Option<&Cluster> {
        self.groups.get(group)?.clusters.get(cluster)
    }

    fn change_cluster(&mut self, group: &str, cluster: &str, change: impl FnOnce(&mut Cluster)) {
        if let Some(cluster) = self.groups.get_mut(group).and_then(|group| group.clusters.get_mut(cluster)) {
            change(cluster);
        }
    }

    fn cluster_answer(&self, status: u16, group: &str, cluster: &str) -> Answer {
        match self.groups.get(group).and_then(|found| Some((found, found.clusters.get(cluster)?))) {
            Some((group, cluster)) => Answer::new(status, self.cluster_view(group, cluster)),
            None => Answer::refused(404, "ResourceNotFound", "gone"),
        }
    }

    fn cluster_view(&self, group: &Group, cluster: &Cluster) -> Value {
        let mut properties = cluster.properties.clone();
        properties["provisioningState"] = json!(state(&cluster.phase));
        properties["powerState"] = json!({ "code": if cluster.stopped { "Stopped" } else { "Running" } });
        properties["agentPoolProfiles"] = cluster
            .pools
            .values()
            .map(|pool| {
                let mut profile = pool_properties(pool);
                profile["name"] = json!(pool.name);
                profile
            })
            .collect();
        if let Some((code, message)) = &cluster.error {
            properties["status"] = json!({ "provisioningError": { "code": code, "message": message } });
        }
        json!({ "id": self.cluster_id(group, &cluster.name), "name": cluster.name, "type": "Microsoft.ContainerService/ManagedClusters",
            "location": cluster.location, "tags": cluster.tags, "sku": cluster.sku, "identity": cluster.identity, "properties": properties })
    }

    fn cluster_id(&self, group: &Group, cluster: &str) -> String {
        format!(
            "/subscriptions/{}/resourceGroups/{}/providers/Microsoft.ContainerService/managedClusters/{cluster}",
            self.subscription, group.name
        )
    }

    fn pool_view(&self, group: &str, cluster: &Cluster, pool: &Pool) -> Value {
        let id = self.groups.get(group).map(|group| self.cluster_id(group, &cluster.name)).unwrap_or_default();
        json!({ "id": format!("{id}/agentPools/{}", pool.name), "name": pool.name,
            "type": "Microsoft.ContainerService/managedClusters/agentPools", "properties": pool_properties(pool) })
    }

    fn list_clusters(&self) -> Answer {
        let groups = self.groups.values();
        let clusters: Vec<Value> =
            groups.flat_map(|group| group.clusters.values().map(|cluster| self.cluster_view(group, cluster))).collect();
        Answer::ok(json!({ "value": clusters }))
    }

    #[allow(clippy::too_many_arguments, reason = "everything a request to make a cluster is about")]
    fn put_cluster(
        &mut self,
        group: &str,
        key: &str,
        name: &str,
        request: &Request,
        now: Instant,
        fails: Option<(String, String)>,
        operation: u64,
    ) -> Answer {
        if !self.registered {
            return Answer::refused(
                409,
                "MissingSubscriptionRegistration",
                "The subscription is not registered to use namespace 'Microsoft.ContainerService'. See https://aka.ms/rps-not-found for how to register subscriptions.",
            );
        }
        let body = &request.body;
        if let Some(cluster) = self.cluster(group, key) {
            if let Some(busy) = busy(cluster) {
                return busy;
            }
            let until = now + self.latency.pool;
            let version = body["properties"]["kubernetesVersion"].clone();
            let upgrades = offer::patch_of(version.as_str())
                .map(|patch| json!(patch))
                .filter(|patch| *patch != cluster.properties["currentKubernetesVersion"]);
            let tags = body["tags"].clone();
            self.change_cluster(group, key, |cluster| {
                cluster.phase = Phase::Busy {
                    doing: if upgrades.is_some() { "Upgrading" } else { "Updating" },
                    until,
                    fails,
                    removes: false,
                };
                cluster.operation = operation;
                cluster.tags = tags;
                if let Some(patch) = upgrades {
                    cluster.properties["kubernetesVersion"] = version;
                    cluster.properties["currentKubernetesVersion"] = patch;
                }
            });
            let view = self.cluster_answer(200, group, key).body;
            return self.accepted(200, view, operation);
        }
        let mut properties = body["properties"].clone();
        let version = properties["kubernetesVersion"].as_str().filter(|version| !version.is_empty()).map(str::to_owned);
        let version = version.as_deref();
        let Some(patch) = offer::patch_of(version.or(Some(offer::DEFAULT_VERSION))) else {
            return Answer::refused(
                400,
                "K8sVersionNotSupported",
                &format!(
                    "Managed cluster {name} is on version {} which is not supported in this region. Please use [az aks get-versions] command to get the supported version list in this region.",
                    version.unwrap_or("?")
                ),
            );
        };
        let profiles = properties["agentPoolProfiles"].as_array().cloned().unwrap_or_default();
        let mut pools = BTreeMap::new();
        for profile in profiles {
            let pool_name = profile["name"].as_str().unwrap_or_default().to_owned();
            if let Some(refusal) = self.quota_refusal(&profile, 0) {
                return refusal;
            }
            let pool = Pool {
                name: pool_name.clone(),
                properties: complete_pool(profile, &patch),
                phase: Phase::Settled("Creating"),
                error: None,
                operation: 0,
                generation: operation,
            };
            pools.insert(pool_name.to_lowercase(), pool);
        }
        let until = now + self.latency.create;
        for pool in pools.values_mut() {
            pool.phase = Phase::Busy { doing: "Creating", until, fails: None, removes: false };
        }
        let machines = match properties["nodeResourceGroup"].as_str() {
            Some(group) if !group.is_empty() => group.to_owned(),
            _ => format!("MC_{group}_{name}_{}", body["location"].as_str().unwrap_or_default()),
        };
        properties["nodeResourceGroup"] = json!(machines);
        properties["currentKubernetesVersion"] = json!(patch);
        properties["kubernetesVersion"] = json!(version.unwrap_or(offer::DEFAULT_VERSION));
        properties["fqdn"] = json!("127.0.0.1");
        properties["maxAgentPools"] = json!(100);
        let cluster = Cluster {
            name: name.to_owned(),
            location: body["location"].as_str().unwrap_or_default().to_owned(),
            tags: body["tags"].clone(),
            properties,
            sku: body["sku"].clone(),
            identity: body["identity"].clone(),
            pools,
            phase: Phase::Busy { doing: "Creating", until, fails, removes: false },
            error: None,
            operation,
            stopped: false,
        };
        let location = cluster.location.clone();
        let view = match self.groups.get_mut(group) {
            Some(found) => {
                found.clusters.insert(key.to_owned(), cluster.clone());
                let found = found.clone();
                self.cluster_view(&found, &cluster)
            }
            None => Value::Null,
        };
        let machines_of = Group {
            name: machines.clone(),
            location,
            tags: Value::Null,
            managed_by: view["id"].as_str().map(str::to_owned),
            clusters: BTreeMap::new(),
            phase: Phase::Settled("Succeeded"),
            operation: 0,
        };
        self.groups.insert(machines.to_lowercase(), machines_of);
        self.accepted(201, view, operation)
    }

    fn switch(
        &mut self,
        group: &str,
        cluster: &str,
        switch: &str,
        now: Instant,
        fails: Option<(String, String)>,
        operation: u64,
    ) -> Answer {
        let stops = switch == "stop";
        let Some(found) = self.cluster(group, cluster) else { return Answer::refused(404, "ResourceNotFound", "gone") };
        if let Some(busy) = busy(found) {
            return busy;
        }
        if found.stopped == stops {
            return Answer::refused(409, "OperationNotAllowed", "The cluster is in that power state already.");
        }
        let until = now + self.latency.pool;
        self.change_cluster(group, cluster, |cluster| {
            cluster.stopped = stops;
            cluster.phase =
                Phase::Busy { doing: if stops { "Stopping" } else { "Starting" }, until, fails, removes: false };
            cluster.operation = operation;
        });
        self.accepted(202, Value::Null, operation)
    }

    #[allow(clippy::too_many_arguments, reason = "everything a request to a pool can be about")]
    fn in_pool(
        &mut self,
        method: &str,
        group: &str,
        cluster: &str,
        key: &str,
        name: &str,
        request: &Request,
        now: Instant,
        fails: Option<(String, String)>,
        operation: u64,
    ) -> Answer {
        let Some(found) = self.cluster(group, cluster) else {
            return Answer::refused(404, "ParentResourceNotFound", "gone");
        };
        let pool = found.pools.get(key).cloned();
        if method == "GET" {
            return match &pool {
                Some(pool) => Answer::ok(self.pool_view(group, found, pool)),
                None => Answer::refused(404, "NotFound", &format!("Could not find the agent pool {name}")),
            };
        }
        if let Phase::Busy { doing, .. } = &found.phase {
            return in_progress(&format!(
                "Managed Cluster operation is not allowed: Another operation ({doing}) is in progress, please wait for it to finish before starting a new operation."
            ));
        }
        if found.stopped {
            return Answer::refused(409, "OperationNotAllowed", "The cluster is stopped.");
        }
        match (&pool, method) {
            (Some(Pool { phase: Phase::Busy { doing: "Deleting", .. }, .. }), "PUT") => {
                return Answer::refused(
                    409,
                    "OperationNotAllowed",
                    &format!(
                        "Unable to perform 'Updating' operation on '{name}' since deletion was issued on '{name}'. The only allowed operation is deletion once deletion has started."
                    ),
                );
            }
            (Some(Pool { phase: Phase::Busy { doing, .. }, .. }), _) if *doing != "Deleting" => {
                return in_progress(&format!(
                    "Operation is not allowed: Another agentpool operation ({name} - {doing}) is in progress, please wait for it to finish before starting a new operation."
                ));
            }
            _ => {}
        }
        let is_system = |pool: &Pool| pool.properties["mode"] == "System";
        match method {
            "DELETE" => {
                let Some(pool) = &pool else { return Answer::new(204, Value::Null) };
                if is_system(pool) && !found.pools.values().any(|other| other.name != pool.name && is_system(other)) {
                    return Answer::refused(400, "BadRequest", "There has to be at least one system agent pool.");
                }
                let until = now + self.latency.delete;
                self.change_pool(group, cluster, key, |pool| {
                    pool.phase = Phase::Busy { doing: "Deleting", until, fails, removes: true };
                    pool.operation = operation;
                });
                self.accepted(202, Value::Null, operation)
            }
            "PUT" => {
                let version = found.properties["currentKubernetesVersion"].as_str().unwrap_or_default().to_owned();
                let properties = request.body["properties"].clone();
                if let Some(refusal) = pool.as_ref().and_then(|old| immutable(old, &properties)) {
                    return refusal;
                }
                let before = pool.as_ref().map_or(0, |old| old.properties["count"].as_i64().unwrap_or(0));
                if let Some(refusal) = self.quota_refusal(&properties, before) {
                    return refusal;
                }
                let doing = match &pool {
                    None => "Creating",
                    Some(old) if old.properties["count"] != properties["count"] => "Scaling",
                    Some(_) => "Updating",
                };
                let until = now + self.latency.pool;
                let phase = Phase::Busy { doing, until, fails, removes: false };
                let made = Pool {
                    name: name.to_owned(),
                    properties: complete_pool(properties, &version),
                    phase,
                    error: None,
                    operation,
                    generation: pool.as_ref().map_or(operation, |old| old.generation),
                };
                self.change_cluster(group, cluster, |cluster| {
                    cluster.pools.insert(key.to_owned(), made.clone());
                });
                let busy = self.cluster(group, cluster).map_or(0, |cluster| {
                    cluster.pools.values().filter(|pool| matches!(pool.phase, Phase::Busy { .. })).count()
                });
                self.most_busy_pools = self.most_busy_pools.max(busy);
                let view = self
                    .cluster(group, cluster)
                    .map(|cluster| self.pool_view(group, cluster, &made))
                    .unwrap_or_default();
                self.accepted(if pool.is_some() { 200 } else { 201 }, view, operation)
            }
            _ => Answer::refused(405, "MethodNotAllowed", "not on pools"),
        }
    }

    fn change_pool(&mut self, group: &str, cluster: &str, pool: &str, change: impl FnOnce(&mut Pool)) {
        self.change_cluster(group, cluster, |cluster| {
            if let Some(pool) = cluster.pools.get_mut(pool) {
                change(pool);
            }
        });
    }

    fn operation_view(&self, id: &str, kind: &str) -> Answer {
        let number: u64 = id.parse().unwrap_or(0);
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

    /// vCPUs in use, by counter.
    fn used(&self) -> BTreeMap<String, i64> {
        let mut used = BTreeMap::new();
        let clusters = self.groups.values().flat_map(|group| group.clusters.values());
        for pool in clusters.flat_map(|cluster| cluster.pools.values()) {
            let count = pool.properties["count"].as_i64().unwrap_or(0);
            for (counter, cpus) in counters(&pool.properties) {
                *used.entry(counter).or_insert(0) += cpus * count;
            }
        }
        used
    }

    fn usage(&self) -> Vec<Value> {
        let used = self.used();
        let row = |(counter, limit): (&String, &i64)| {
            json!({ "name": { "value": counter, "localizedValue": counter }, "unit": "Count",
                "currentValue": used.get(counter).copied().unwrap_or(0), "limit": limit })
        };
        self.quota.iter().map(row).collect()
    }

    fn quota_refusal(&self, properties: &Value, before: i64) -> Option<Answer> {
        let used = self.used();
        let more = properties["count"].as_i64().unwrap_or(0) - before;
        for (counter, cpus) in counters(properties) {
            let limit = self.quota.get(&counter).copied().unwrap_or(i64::MAX);
            let left = limit - used.get(&counter).copied().unwrap_or(0);
            if more > 0 && cpus * more > left {
                let message = format!(
                    "Insufficient regional vcpu quota left for location westeurope. left regional vcpu quota {left}, requested quota {}.",
                    cpus * more
                );
                return Some(Answer::refused(400, "ErrCode_InsufficientVCPUQuota", &message));
            }
        }
        None
    }
}

fn state(phase: &Phase) -> &'static str {
    match phase {
        Phase::Settled(state) => state,
        Phase::Busy { doing, .. } => doing,
    }
}

fn pool_properties(pool: &Pool) -> Value {
    let mut properties = pool.properties.clone();
    properties["provisioningState"] = json!(state(&pool.phase));
    if let Some((code, message)) = &pool.error {
        properties["status"] = json!({ "provisioningError": { "code": code, "message": message } });
    }
    properties
}

/// What Azure adds to a pool of its own accord.
fn complete_pool(mut properties: Value, version: &str) -> Value {
    if let Some(map) = properties.as_object_mut() {
        map.remove("name");
        map.remove("provisioningState");
        map.remove("status");
    }
    let default = |properties: &mut Value, key: &str, value: Value| {
        if properties[key].is_null() {
            properties[key] = value;
        }
    };
    default(&mut properties, "powerState", json!({ "code": "Running" }));
    default(&mut properties, "osType", json!("Linux"));
    default(&mut properties, "maxPods", json!(250));
    default(&mut properties, "mode", json!("User"));
    default(&mut properties, "orchestratorVersion", json!(version));
    let wanted = properties["orchestratorVersion"].as_str().map(str::to_owned);
    properties["currentOrchestratorVersion"] =
        json!(offer::patch_of(wanted.as_deref()).unwrap_or_else(|| version.to_owned()));
    if properties["scaleSetPriority"] == "Spot" {
        if !properties["nodeLabels"].is_object() {
            properties["nodeLabels"] = json!({});
        }
        properties["nodeLabels"]["kubernetes.azure.com/scalesetpriority"] = json!("spot");
        let spot = json!("kubernetes.azure.com/scalesetpriority=spot:NoSchedule");
        let mut taints = properties["nodeTaints"].as_array().cloned().unwrap_or_default();
        if !taints.contains(&spot) {
            taints.push(spot);
        }
        properties["nodeTaints"] = json!(taints);
    }
    properties
}

fn counters(properties: &Value) -> Vec<(String, i64)> {
    let Some((cpus, family)) = offer::size(properties["vmSize"].as_str().unwrap_or_default()) else {
        return Vec::new();
    };
    if properties["scaleSetPriority"] == "Spot" {
        vec![("lowPriorityCores".to_owned(), cpus)]
    } else {
        vec![("cores".to_owned(), cpus), (family.to_owned(), cpus)]
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

fn immutable(old: &Pool, new: &Value) -> Option<Answer> {
    let changed = ["vmSize", "availabilityZones", "maxPods", "scaleSetPriority", "osType"].into_iter().find(|key| {
        let (before, after) = (&old.properties[*key], &new[*key]);
        !after.is_null() && !before.is_null() && before != after
    })?;
    Some(Answer::refused(
        400,
        "PropertyChangeNotAllowed",
        &format!("Changing property 'properties.{changed}' is not allowed."),
    ))
}
