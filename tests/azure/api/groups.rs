//! Subscriptions and resource groups of the stand-in.

use super::{Answer, Failure, Group, Instant, Model, Phase, Request, Value, json, state};

impl Model {
    pub(super) fn subscription_view(&self) -> Value {
        json!({ "id": format!("/subscriptions/{}", self.subscription), "subscriptionId": self.subscription, "tenantId": self.tenant,
            "displayName": "Stand-in", "state": "Enabled", "authorizationSource": "RoleBased" })
    }

    pub(super) fn group_view(&self, group: &Group) -> Value {
        let state = state(&group.phase);
        json!({ "id": format!("/subscriptions/{}/resourceGroups/{}", self.subscription, group.name), "name": group.name,
            "type": "Microsoft.Resources/resourceGroups", "location": group.location, "tags": group.tags,
            "managedBy": group.managed_by, "properties": { "provisioningState": state } })
    }

    pub(super) fn list_groups(&self, query: &str) -> Answer {
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

    pub(super) fn group(
        &mut self,
        method: &str,
        key: &str,
        name: &str,
        request: &Request,
        now: Instant,
        fails: Option<Failure>,
    ) -> Answer {
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
                    group.phase = Phase::Busy { doing: "Deleting", until, fails: fails.clone(), removes: true };
                    group.operation = operation;
                    for cluster in group.clusters.values_mut() {
                        cluster.phase = Phase::Busy { doing: "Deleting", until, fails: fails.clone(), removes: true };
                        cluster.operation = operation;
                    }
                }
                self.accepted(202, Value::Null, operation)
            }
            _ => Answer::refused(405, "MethodNotAllowed", "not on groups"),
        }
    }
}
