//! Kinds that are only ever posted: reviews of who one is and what one may do, and bindings.

use http::{Method, Response};
use klab_api_machinery::object::Object;
use klab_api_machinery::resource::{
    BINDINGS, LOCAL_SUBJECT_ACCESS_REVIEWS, SELF_SUBJECT_ACCESS_REVIEWS, SELF_SUBJECT_REVIEWS,
    SELF_SUBJECT_RULES_REVIEWS, SUBJECT_ACCESS_REVIEWS, TOKEN_REVIEWS,
};
use klab_api_machinery::status::Status;
use serde_json::{Value, json};

use super::super::rbac::{Attributes, PolicyRule, ResourceSubject, Subject, User, authorize, rules_for};
use super::answer::{self, method_not_allowed};
use super::call::{Call, Target};
use super::negotiate::{self, Form};
use super::token;
use crate::body::Body;
use klab_fields::new_managers;

impl Call<'_> {
    pub(super) fn review(&self, target: &Target) -> Result<Response<Body>, Status> {
        // A review has no columns.
        if matches!(self.form()?, Form::Table(_)) {
            return Err(negotiate::not_acceptable());
        }
        if self.parts.method != Method::POST || target.name.is_some() {
            return Err(method_not_allowed());
        }
        let (mut body, _) = self.body_object(target)?;
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
                check_review(&spec, None)?;
                let status = self.verdict(&self.user, &spec);
                (spec, status)
            }
            SUBJECT_ACCESS_REVIEWS | LOCAL_SUBJECT_ACCESS_REVIEWS => {
                let user = User::written(&spec, "user");
                check_review(&spec, Some(&user))?;
                let status = self.verdict(&user, &spec);
                (spec, status)
            }
            SELF_SUBJECT_RULES_REVIEWS => {
                let namespace = spec["namespace"].as_str().unwrap_or("default").to_owned();
                (json!({}), self.own_rules(&namespace))
            }
            TOKEN_REVIEWS => {
                let status = token::review(self.cluster(), &spec);
                (spec, status)
            }
            _ => return Err(method_not_allowed()),
        };
        let row = target.resource.row();
        let mut value = json!({"kind": row.kind, "apiVersion": row.api_version(), "metadata": {}, "spec": spec});
        let managed = match target.resource {
            SELF_SUBJECT_RULES_REVIEWS => None,
            resource => {
                new_managers(resource, &mut value, self.write_options("CreateOptions")?.manager, self.cluster().now())
            }
        };
        value["status"] = status;
        Ok(answer::json_line(201, Object::new(target.resource, 0, &value).managed_by(managed).served()))
    }

    /// `status` of an access review.
    fn verdict(&self, user: &User, spec: &Value) -> Value {
        let attributes = &spec["resourceAttributes"];
        let text = |value: &'_ Value, field: &str| value[field].as_str().unwrap_or_default().to_owned();
        let field = |name: &str| text(attributes, name);
        let (group, resource, subresource) = (field("group"), field("resource"), field("subresource"));
        let (namespace, name) = (field("namespace"), field("name"));
        let path = &spec["nonResourceAttributes"];
        let (path, verb) = (text(path, "path"), text(if attributes.is_object() { attributes } else { path }, "verb"));
        let to = if attributes.is_object() {
            Subject::Resource(ResourceSubject {
                group: &group,
                resource: &resource,
                subresource: &subresource,
                namespace: &namespace,
                name: &name,
                fields: "",
            })
        } else {
            Subject::Path(&path)
        };
        let decision = self.cluster().read(|store| authorize(store, user, &Attributes { verb: &verb, to }));
        let mut status = json!({ "allowed": decision.allowed });
        if !decision.reason.is_empty() {
            status["reason"] = json!(decision.reason);
        }
        status
    }

    /// `kubectl auth whoami`
    fn whoami(&self) -> Response<Body> {
        let mut info = json!({"username": self.user.name, "groups": self.user.groups});
        if !self.user.uid.is_empty() {
            info["uid"] = json!(self.user.uid);
        }
        if !self.user.extra.is_empty() {
            info["extra"] = json!(self.user.extra);
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
    // upstream: plugin/pkg/auth/authorizer/rbac/rbac.go RBACAuthorizer.RulesFor (v1.36)
    fn own_rules(&self, namespace: &str) -> Value {
        let rules = self.cluster().read(|store| rules_for(store, &self.user, namespace));
        let mut resources = Vec::new();
        let mut paths = Vec::new();
        for (rule, _) in &rules.rules {
            let PolicyRule { verbs, .. } = rule;
            if !rule.resources.is_empty() {
                let mut one = json!({"verbs": verbs, "apiGroups": rule.api_groups, "resources": rule.resources});
                if !rule.resource_names.is_empty() {
                    one["resourceNames"] = json!(rule.resource_names);
                }
                resources.push(one);
            }
            if !rule.paths.is_empty() {
                paths.push(json!({"verbs": verbs, "nonResourceURLs": rule.paths}));
            }
        }
        let mut status = json!({"resourceRules": resources, "nonResourceRules": paths, "incomplete": false});
        if let Some(error) = rules.errors_text() {
            status["evaluationError"] = json!(error);
        }
        status
    }
}

/// Refuses an access review that asks nothing, or about no user (`user`, where the review names one).
// upstream: pkg/apis/authorization/validation/validation.go ValidateSubjectAccessReviewSpec (v1.36)
fn check_review(spec: &Value, user: Option<&User>) -> Result<(), Status> {
    let mut causes = Vec::new();
    let mut fault = |field: &str, message: String| {
        causes.push(json!({"reason": "FieldValueInvalid", "message": message, "field": field}));
    };
    let (resource, path) = (&spec["resourceAttributes"], &spec["nonResourceAttributes"]);
    if resource.is_object() && path.is_object() {
        let because = "cannot be specified in combination with resourceAttributes";
        fault("spec.nonResourceAttributes", format!("Invalid value: {path}: {because}"));
    }
    if !resource.is_object() && !path.is_object() {
        let because = "exactly one of nonResourceAttributes or resourceAttributes must be specified";
        fault("spec.resourceAttributes", format!("Invalid value: null: {because}"));
    }
    if user.is_some_and(|user| user.name.is_empty() && user.groups.is_empty()) {
        fault("spec.user", "Invalid value: \"\": at least one of user or group must be specified".to_owned());
    }
    let texts: Vec<String> = causes
        .iter()
        .map(|cause| {
            let text = |field: &str| cause[field].as_str().unwrap_or_default();
            format!("{}: {}", text("field"), text("message"))
        })
        .collect();
    let faults = match texts.as_slice() {
        [] => return Ok(()),
        [one] => one.clone(),
        more => format!("[{}]", more.join(", ")),
    };
    let group = SUBJECT_ACCESS_REVIEWS.row().group;
    // Upstream leaves out the kind.
    let message = format!(".{group} \"\" is invalid: {faults}");
    Err(Status { details: json!({"group": group, "causes": causes}), ..Status::new(422, "Invalid", message) })
}
