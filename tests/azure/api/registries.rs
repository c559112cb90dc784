//! Container registries of the stand-in, and the roles that are given on them.

use super::{Answer, Model, Request, Value, json};

/// Id of the role AcrPull.
const PULL: &str = "7f951dda-4ed3-4680-a7ca-43fe172d538d";

impl Model {
    pub(super) fn list_registries(&self) -> Answer {
        let registry = |name: &String| {
            let id = format!(
                "/subscriptions/{}/resourceGroups/shared/providers/Microsoft.ContainerRegistry/registries/{name}",
                self.subscription
            );
            json!({ "id": id, "name": name, "type": "Microsoft.ContainerRegistry/registries", "location": "westeurope" })
        };
        Answer::ok(json!({ "value": self.registries.iter().map(registry).collect::<Vec<_>>() }))
    }

    pub(super) fn role_definitions(&self) -> Answer {
        let id =
            format!("/subscriptions/{}/providers/Microsoft.Authorization/roleDefinitions/{PULL}", self.subscription);
        let role = json!({ "id": id, "name": PULL, "type": "Microsoft.Authorization/roleDefinitions",
            "properties": { "roleName": "AcrPull", "type": "BuiltInRole" } });
        Answer::ok(json!({ "value": [role] }))
    }

    pub(super) fn role_assignment(&mut self, request: &Request) -> Answer {
        if request.method != "PUT" {
            return Answer::ok(json!({ "value": [] }));
        }
        let properties = request.body["properties"].clone();
        let scope = request.path.split("/providers/Microsoft.Authorization").next().unwrap_or_default().to_owned();
        self.give_role(&scope, properties["principalId"].as_str().unwrap_or_default());
        Answer::new(201, json!({ "id": request.path, "name": "r", "properties": properties }))
    }

    /// Gives the right to pull from a registry.
    pub fn give_role(&mut self, registry: &str, principal: &str) {
        let name = registry.rsplit('/').next().unwrap_or_default();
        self.pullers.insert((name.to_owned(), principal.to_owned()));
    }
}

/// The identities of a cluster.
pub(super) fn identities(cluster: &str) -> Value {
    json!({ "kubeletidentity": { "objectId": format!("kubelet-of-{cluster}"), "clientId": "c", "resourceId": "r" } })
}
