//! Managed clusters of the stand-in.

use super::{
    Answer, BTreeMap, Cluster, Group, Instant, Model, Phase, Pool, Request, Value, busy, complete_pool, json, offer,
    pool_properties, state,
};

impl Model {
    #[allow(clippy::too_many_arguments, reason = "everything a request to a cluster can be about")]
    pub(super) fn in_cluster(
        &mut self,
        method: &str,
        group: &str,
        cluster: &str,
        rest: &[&str],
        (group_name, cluster_name, pool_name): (String, String, String),
        request: &Request,
        now: Instant,
        fails: Option<super::Failure>,
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
            ("GET", ["operations", "latest"]) => {
                let number = self.cluster(group, cluster).map_or(0, |cluster| cluster.operation);
                self.operation_answer(number, &number.to_string(), "operations")
            }
            ("GET", ["agentpools", pool, "operations", "latest"]) => {
                let pools = self.cluster(group, cluster).map(|cluster| &cluster.pools);
                let number = pools.and_then(|pools| pools.get(*pool)).map_or(0, |pool| pool.operation);
                self.operation_answer(number, &number.to_string(), "operations")
            }
            ("GET", ["agentpools"]) => {
                let pools: Vec<Value> = self
                    .cluster(group, cluster)
                    .map(|found| found.pools.values().map(|pool| self.pool_view(group, found, pool)).collect())
                    .unwrap_or_default();
                Answer::ok(json!({ "value": pools }))
            }
            ("GET", ["agentpools", pool, "upgradeprofiles", "default"]) => self.upgrade_profile(group, cluster, pool),
            ("POST", ["agentpools", pool, "upgradenodeimageversion"]) => {
                self.upgrade_image(group, cluster, pool, now, fails, operation)
            }
            ("POST", ["agentpools", pool, "abort"]) => self.abort(group, cluster, pool, operation),
            (_, ["agentpools", pool]) => {
                self.in_pool(method, group, cluster, pool, &pool_name, request, now, fails, operation)
            }
            _ => Answer::refused(404, "NotFound", &format!("the stand-in has no {} {}", request.method, request.path)),
        }
    }

    pub(super) fn cluster(&self, group: &str, cluster: &str) -> Option<&Cluster> {
        self.groups.get(group)?.clusters.get(cluster)
    }

    pub(super) fn change_cluster(&mut self, group: &str, cluster: &str, change: impl FnOnce(&mut Cluster)) {
        if let Some(cluster) = self.groups.get_mut(group).and_then(|group| group.clusters.get_mut(cluster)) {
            change(cluster);
        }
    }

    pub(super) fn cluster_answer(&self, status: u16, group: &str, cluster: &str) -> Answer {
        match self.groups.get(group).and_then(|found| Some((found, found.clusters.get(cluster)?))) {
            Some((group, cluster)) => Answer::new(status, self.cluster_view(group, cluster)),
            None => Answer::refused(404, "ResourceNotFound", "gone"),
        }
    }

    pub(super) fn cluster_view(&self, group: &Group, cluster: &Cluster) -> Value {
        let mut properties = cluster.properties.clone();
        properties["provisioningState"] = json!(state(&cluster.phase));
        properties["identityProfile"] = super::registries::identities(&cluster.name);
        properties["powerState"] = json!({ "code": if cluster.stopped { "Stopped" } else { "Running" } });
        properties["agentPoolProfiles"] = cluster
            .pools
            .values()
            .map(|pool| {
                let mut profile = pool_properties(pool, self.keeps_reasons);
                profile["name"] = json!(pool.name);
                profile
            })
            .collect();
        if let Some((code, message)) = cluster.error.as_ref().filter(|_| self.keeps_reasons) {
            properties["status"] = json!({ "provisioningError": { "code": code, "message": message } });
        }
        json!({ "id": self.cluster_id(group, &cluster.name), "name": cluster.name, "type": "Microsoft.ContainerService/ManagedClusters",
            "location": cluster.location, "tags": cluster.tags, "sku": cluster.sku, "identity": cluster.identity, "properties": properties })
    }

    pub(super) fn cluster_id(&self, group: &Group, cluster: &str) -> String {
        format!(
            "/subscriptions/{}/resourceGroups/{}/providers/Microsoft.ContainerService/managedClusters/{cluster}",
            self.subscription, group.name
        )
    }

    pub(super) fn pool_view(&self, group: &str, cluster: &Cluster, pool: &Pool) -> Value {
        let id = self.groups.get(group).map(|group| self.cluster_id(group, &cluster.name)).unwrap_or_default();
        json!({ "id": format!("{id}/agentPools/{}", pool.name), "name": pool.name,
            "type": "Microsoft.ContainerService/managedClusters/agentPools", "properties": pool_properties(pool, self.keeps_reasons) })
    }

    pub(super) fn list_clusters(&self, of_group: Option<&str>) -> Answer {
        let groups = self.groups.iter().filter(|(name, _)| of_group.is_none_or(|group| group == *name));
        let groups = groups.map(|(_, group)| group);
        let clusters: Vec<Value> =
            groups.flat_map(|group| group.clusters.values().map(|cluster| self.cluster_view(group, cluster))).collect();
        Answer::ok(json!({ "value": clusters }))
    }

    #[allow(clippy::too_many_arguments, reason = "everything a request to make a cluster is about")]
    #[expect(clippy::too_many_lines, reason = "a row for each request")]
    pub(super) fn put_cluster(
        &mut self,
        group: &str,
        key: &str,
        name: &str,
        request: &Request,
        now: Instant,
        fails: Option<super::Failure>,
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
            let [profile, scheduler] =
                ["autoScalerProfile", "schedulerProfile"].map(|name| body["properties"][name].clone());
            self.change_cluster(group, key, |cluster| {
                cluster.phase = Phase::Busy {
                    doing: if upgrades.is_some() { "Upgrading" } else { "Updating" },
                    until,
                    fails,
                    removes: false,
                };
                cluster.operation = operation;
                cluster.tags = tags;
                cluster.properties["autoScalerProfile"] = profile;
                cluster.properties["schedulerProfile"] = scheduler;
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
                came_up: false,
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

    pub(super) fn switch(
        &mut self,
        group: &str,
        cluster: &str,
        switch: &str,
        now: Instant,
        fails: Option<super::Failure>,
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
}
