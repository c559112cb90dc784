//! Kinds that are only ever posted: reviews of who one is and what one may do, and bindings.

use http::{Method, Response};
use serde_json::{Value, json};

use super::super::resource::{
    BINDINGS, LOCAL_SUBJECT_ACCESS_REVIEWS, SELF_SUBJECT_ACCESS_REVIEWS, SELF_SUBJECT_REVIEWS,
    SELF_SUBJECT_RULES_REVIEWS, SUBJECT_ACCESS_REVIEWS, TOKEN_REVIEWS,
};
use super::super::status::Status;
use super::access::{User, Wish, granted, path_granted, rules};
use super::body::Body;
use super::{Call, Target, answer, method_not_allowed};

impl Call<'_> {
    pub(super) fn review(&self, target: &Target) -> Result<Response<Body>, Status> {
        if self.parts.method != Method::POST || target.name.is_some() {
            return Err(method_not_allowed());
        }
        let mut body = self.body_object(target)?;
        let spec = body["spec"].take();
        let (spec, status) = match target.resource {
            BINDINGS => {
                let name = body["metadata"]["name"].as_str().unwrap_or_default();
                let node = body["target"]["name"].as_str().unwrap_or_default();
                self.cluster().bind_with(target.namespace(), name, node, &self.write_options("CreateOptions")?)?;
                let status =
                    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201});
                return Ok(answer::json_value(201, &status));
            }
            SELF_SUBJECT_REVIEWS => return Ok(self.whoami()),
            SELF_SUBJECT_ACCESS_REVIEWS => {
                let status = self.verdict(&self.user, &spec);
                (spec, status)
            }
            SUBJECT_ACCESS_REVIEWS | LOCAL_SUBJECT_ACCESS_REVIEWS => {
                let texts = |value: &Value| -> Vec<String> {
                    value.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
                };
                let user = User {
                    name: spec["user"].as_str().unwrap_or_default().to_owned(),
                    groups: texts(&spec["groups"]),
                    credential: None,
                };
                let status = self.verdict(&user, &spec);
                (spec, status)
            }
            SELF_SUBJECT_RULES_REVIEWS => {
                let namespace = spec["namespace"].as_str().unwrap_or("default").to_owned();
                (json!({}), self.own_rules(&namespace))
            }
            TOKEN_REVIEWS => (spec, json!({"user": {}, "error": "tokens of the embedded cluster are not reviewed"})),
            _ => return Err(method_not_allowed()),
        };
        let row = target.resource.row();
        Ok(answer::json_value(
            201,
            &json!({
                "kind": row.kind, "apiVersion": row.api_version(), "metadata": {}, "spec": spec, "status": status,
            }),
        ))
    }

    /// `status` of an access review.
    fn verdict(&self, user: &User, spec: &Value) -> Value {
        let attributes = &spec["resourceAttributes"];
        let text = |value: &'_ Value, field: &str| value[field].as_str().unwrap_or_default().to_owned();
        let reason = if attributes.is_object() {
            let field = |name: &str| text(attributes, name);
            let (verb, group, resource) = (field("verb"), field("group"), field("resource"));
            let (subresource, namespace, name) = (field("subresource"), field("namespace"), field("name"));
            let wish = Wish {
                verb: &verb,
                group: &group,
                resource: &resource,
                subresource: &subresource,
                namespace: &namespace,
                name: &name,
            };
            granted(self.cluster(), user, &wish)
        } else {
            let path = &spec["nonResourceAttributes"];
            path_granted(self.cluster(), user, &text(path, "verb"), &text(path, "path")).then(String::new)
        };
        match reason {
            Some(reason) if reason.is_empty() => json!({"allowed": true}),
            Some(reason) => json!({"allowed": true, "reason": reason}),
            None => json!({"allowed": false}),
        }
    }

    /// `kubectl auth whoami`
    fn whoami(&self) -> Response<Body> {
        let mut info = json!({"username": self.user.name, "groups": self.user.groups});
        if let Some(credential) = &self.user.credential {
            info["extra"] = json!({"authentication.kubernetes.io/credential-id": [credential]});
        }
        let now = self.cluster().now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        answer::json_value(
            201,
            &json!({
                "kind": "SelfSubjectReview", "apiVersion": "authentication.k8s.io/v1",
                "metadata": {"creationTimestamp": now}, "status": {"userInfo": info},
            }),
        )
    }

    /// `kubectl auth can-i --list`
    fn own_rules(&self, namespace: &str) -> Value {
        let mut resources = Vec::new();
        let mut paths = Vec::new();
        let mut add = |rule: &Value| {
            if rule["nonResourceURLs"].is_array() {
                paths.push(json!({"verbs": rule["verbs"], "nonResourceURLs": rule["nonResourceURLs"]}));
            } else {
                let mut one =
                    json!({"verbs": rule["verbs"], "apiGroups": rule["apiGroups"], "resources": rule["resources"]});
                if rule["resourceNames"].is_array() {
                    one["resourceNames"] = rule["resourceNames"].clone();
                }
                resources.push(one);
            }
        };
        let master = self.user.groups.iter().any(|group| group == "system:masters");
        if master {
            add(&json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}));
        }
        add(&json!({"verbs": ["create"], "apiGroups": ["authorization.k8s.io"],
            "resources": ["selfsubjectaccessreviews", "selfsubjectrulesreviews"]}));
        add(&json!({"verbs": ["create"], "apiGroups": ["authentication.k8s.io"], "resources": ["selfsubjectreviews"]}));
        add(&json!({"verbs": ["get"],
            "nonResourceURLs": ["/healthz", "/livez", "/readyz", "/version", "/version/"]}));
        add(&json!({"verbs": ["get"], "nonResourceURLs": ["/.well-known", "/.well-known/*"]}));
        if master {
            add(&json!({"verbs": ["*"], "nonResourceURLs": ["*"]}));
        }
        add(&json!({"verbs": ["get"], "nonResourceURLs": ["/api", "/api/*", "/apis", "/apis/*", "/healthz", "/livez",
            "/openapi", "/openapi/*", "/readyz", "/version", "/version/"]}));
        if !master {
            for (rule, _) in rules(self.cluster(), &self.user, namespace) {
                add(&rule);
            }
        }
        json!({"resourceRules": resources, "nonResourceRules": paths, "incomplete": false})
    }
}
