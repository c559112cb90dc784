//! Agent pools of the stand-in.

use super::{Answer, Instant, Model, Phase, Pool, Request, Value, in_progress, json, offer};

/// The newest node image.
const NEWEST_IMAGE: &str = "AKSUbuntu-2204gen2containerd-202608.14.0";

impl Model {
    #[allow(clippy::too_many_arguments, reason = "everything a request to a pool can be about")]
    #[expect(clippy::too_many_lines, reason = "a row for each request")]
    pub(super) fn in_pool(
        &mut self,
        method: &str,
        group: &str,
        cluster: &str,
        key: &str,
        name: &str,
        request: &Request,
        now: Instant,
        fails: Option<super::Failure>,
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
                let mut properties = properties;
                let is_upgrade = pool.as_ref().is_some_and(|old| self.upgraded(key, old, &mut properties));
                let doing = match &pool {
                    None => "Creating",
                    Some(_) if is_upgrade => "Upgrading",
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
                    came_up: pool.as_ref().is_some_and(|old| old.came_up),
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

    /// Keeps what a pool had, if its version is to be another one; one that does not ask for an image gets the newest.
    fn upgraded(&mut self, key: &str, old: &Pool, new: &mut Value) -> bool {
        let before = &old.properties;
        if new["orchestratorVersion"].is_null() || new["orchestratorVersion"] == before["orchestratorVersion"] {
            return false;
        }
        if new["nodeImageVersion"] == before["nodeImageVersion"] {
            new["nodeImageVersion"] = json!(NEWEST_IMAGE);
        }
        let used = json!({ "orchestratorVersion": before["currentOrchestratorVersion"],
            "nodeImageVersion": before["nodeImageVersion"], "timestamp": "2026-08-20T10:00:00Z" });
        self.used.insert(key.to_owned(), used);
        true
    }

    pub(super) fn upgrade_profile(&self, group: &str, cluster: &str, key: &str) -> Answer {
        let Some(pool) = self.cluster(group, cluster).and_then(|found| found.pools.get(key)) else {
            return Answer::refused(404, "NotFound", "no such pool");
        };
        let version = &pool.properties["currentOrchestratorVersion"];
        let used = self.used.get(key).map(|used| [used]);
        Answer::ok(json!({ "name": "default", "properties": { "kubernetesVersion": version, "osType": "Linux",
            "latestNodeImageVersion": NEWEST_IMAGE, "recentlyUsedVersions": used } }))
    }

    pub(super) fn upgrade_image(
        &mut self,
        group: &str,
        cluster: &str,
        key: &str,
        now: Instant,
        fails: Option<super::Failure>,
        operation: u64,
    ) -> Answer {
        let until = now + self.latency.pool;
        self.change_pool(group, cluster, key, |pool| {
            pool.properties["nodeImageVersion"] = json!(NEWEST_IMAGE);
            pool.phase = Phase::Busy { doing: "UpgradingNodeImageVersion", until, fails, removes: false };
            pool.operation = operation;
        });
        self.accepted(202, Value::Null, operation)
    }

    pub(super) fn abort(&mut self, group: &str, cluster: &str, key: &str, operation: u64) -> Answer {
        let pool = self.cluster(group, cluster).and_then(|found| found.pools.get(key));
        if !pool.is_some_and(|pool| matches!(pool.phase, Phase::Busy { .. })) {
            return Answer::refused(409, "OperationNotAllowed", "There is no operation to abort.");
        }
        self.change_pool(group, cluster, key, |pool| pool.phase = Phase::Settled("Canceled"));
        self.accepted(202, Value::Null, operation)
    }

    pub(super) fn change_pool(&mut self, group: &str, cluster: &str, pool: &str, change: impl FnOnce(&mut Pool)) {
        self.change_cluster(group, cluster, |cluster| {
            if let Some(pool) = cluster.pools.get_mut(pool) {
                change(pool);
            }
        });
    }
}

pub(super) fn state(phase: &Phase) -> &'static str {
    match phase {
        Phase::Settled(state) => state,
        Phase::Busy { doing, .. } => doing,
    }
}

pub(super) fn pool_properties(pool: &Pool, keeps_reasons: bool) -> Value {
    let mut properties = pool.properties.clone();
    properties["provisioningState"] = json!(state(&pool.phase));
    if let Some((code, message)) = pool.error.as_ref().filter(|_| keeps_reasons) {
        properties["status"] = json!({ "provisioningError": { "code": code, "message": message } });
    }
    properties
}

/// What Azure adds to a pool of its own accord.
pub(super) fn complete_pool(mut properties: Value, version: &str) -> Value {
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
    default(&mut properties, "nodeImageVersion", json!("AKSUbuntu-2204gen2containerd-202607.20.0"));
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

pub(super) fn immutable(old: &Pool, new: &Value) -> Option<Answer> {
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
