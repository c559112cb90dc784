//! Subresources: status, scale, binding, eviction, finalize, token and the streams of pods.

use http::{Method, Response};
use serde_json::{Value, json};

use super::super::cluster::{DeleteOptions, Part};
use super::super::resource::{NAMESPACES, NODES, ONLY_STATUS, PODS, SECRETS, SERVICE_ACCOUNTS, SERVICES};
use super::super::status::Status;
use super::answer::{self, method_not_allowed, no_such_resource};
use super::body::Body;
use super::call::{Call, Target};
use super::write::read_delete_options;

impl Call<'_> {
    pub(super) fn subresource(&self, target: &Target, name: &str, rest: &str) -> Result<Response<Body>, Status> {
        let row = target.resource.row();
        let custom_status = row.custom && name == "status" && self.cluster().has_status(target.resource);
        let own = if custom_status { ONLY_STATUS.first() } else { row.subresource(name) };
        let Some(subresource) = own else { return Err(no_such_resource()) };
        let method = &self.parts.method;
        let part = match (target.resource, name) {
            (_, "status" | "approval") => Part::Status,
            (NAMESPACES, "finalize") => Part::Finalize,
            (PODS, "ephemeralcontainers") => Part::EphemeralContainers,
            (PODS, "resize") => Part::Resize,
            (_, "scale") => return self.scale(target),
            (PODS, "binding") if method == Method::POST => return self.bind(target),
            (PODS, "eviction") if method == Method::POST => return self.evict(target),
            (SERVICE_ACCOUNTS, "token") if method == Method::POST => return self.token(target),
            (PODS, "log" | "exec" | "attach" | "portforward") => return self.stream(target, name),
            (PODS | NODES | SERVICES, "proxy") => return self.proxy(target, rest),
            _ => return Err(method_not_allowed()),
        };
        match *method {
            Method::GET if subresource.verbs.contains(&"get") => self.get(target),
            Method::PUT => self.update_part(target, part),
            Method::PATCH if subresource.verbs.contains(&"patch") => self.patch_part(target, part),
            _ => Err(method_not_allowed()),
        }
    }

    fn scale(&self, target: &Target) -> Result<Response<Body>, Status> {
        let (cluster, resource) = (self.cluster(), target.stored());
        let (namespace, name) = (target.namespace(), target.name());
        let scale = match self.parts.method {
            Method::GET => cluster.scale_get(resource, namespace, name)?,
            Method::PUT => {
                let options = self.write_options("UpdateOptions")?;
                let value = self.body_value(target)?;
                cluster.scale_set(resource, namespace, name, value, &options)?
            }
            Method::PATCH => {
                let options = self.write_options("PatchOptions")?;
                let patch = self.patch_body(target)?;
                cluster.scale_patch(resource, namespace, name, patch, &options)?
            }
            _ => return Err(method_not_allowed()),
        };
        Ok(match self.form()? {
            super::negotiate::Form::Table => answer::json_text(200, scale_table(&scale, self.cluster().now())),
            super::negotiate::Form::Yaml => answer::yaml_value(200, &scale),
            _ => answer::json_text(200, ordered_scale(&scale)),
        })
    }

    fn bind(&self, target: &Target) -> Result<Response<Body>, Status> {
        let options = self.write_options("CreateOptions")?;
        let binding = self.body_value(target)?;
        let node = binding["target"]["name"].as_str().unwrap_or_default();
        if node.is_empty() {
            return Err(Status {
                details: json!({
                    "name": target.name(), "kind": "Binding",
                    "causes": [{"reason": "FieldValueRequired", "message": "Required value", "field": "target.name"}],
                }),
                ..Status::new(
                    422,
                    "Invalid",
                    format!("Binding \"{}\" is invalid: target.name: Required value", target.name()),
                )
            });
        }
        self.cluster().bind_with(target.namespace(), target.name(), node, &options)?;
        Ok(success(201))
    }

    fn evict(&self, target: &Target) -> Result<Response<Body>, Status> {
        let eviction = self.body_value(target)?;
        let name = eviction["metadata"]["name"].as_str().unwrap_or_default();
        if !name.is_empty() && name != target.name() {
            return Err(Status::bad_request("name in URL does not match name in Eviction object"));
        }
        let dry_run = self.write_options("CreateOptions")?.dry_run;
        let mut options = DeleteOptions { dry_run, ..DeleteOptions::default() };
        read_delete_options(&mut options, &eviction["deleteOptions"])?;
        self.cluster().evict(target.namespace(), target.name(), &options)?;
        Ok(success(201))
    }

    /// A token for a ServiceAccount. It is well-formed and says whom it stands for, but nothing accepts it: containers
    /// do not run, and kubectl users have the lab's own credentials.
    fn token(&self, target: &Target) -> Result<Response<Body>, Status> {
        use base64::Engine;
        use base64::engine::general_purpose::URL_SAFE_NO_PAD;
        let row = target.resource.row();
        let account = self.cluster().get(target.resource, target.namespace(), target.name());
        let account = account.ok_or_else(|| Status::not_found(row, target.name()))?;
        let request = self.body_value(target)?;
        let seconds = request["spec"]["expirationSeconds"].as_i64().unwrap_or(3600);
        check_expiration(seconds)?;
        let bound = &request["spec"]["boundObjectRef"];
        let bound_name = bound["name"].as_str().unwrap_or_default();
        for (kind, resource, namespace) in
            [("Pod", PODS, target.namespace()), ("Secret", SECRETS, target.namespace()), ("Node", NODES, "")]
        {
            if bound["kind"] == kind && self.cluster().get(resource, namespace, bound_name).is_none() {
                return Err(Status::not_found(resource.row(), bound_name));
            }
        }
        let audiences = match request["spec"]["audiences"].as_array() {
            Some(audiences) if !audiences.is_empty() => json!(audiences),
            _ => json!(["https://kubernetes.default.svc"]),
        };
        let now = self.cluster().now();
        let expires = crate::clock::later(now, jiff::SignedDuration::from_secs(seconds));
        let claims = json!({
            "aud": audiences, "exp": expires.as_second(), "iat": now.as_second(), "nbf": now.as_second(),
            "iss": "https://kubernetes.default.svc",
            "sub": format!("system:serviceaccount:{}:{}", target.namespace(), target.name()),
            "kubernetes.io": {"namespace": target.namespace(),
                "serviceaccount": {"name": target.name(), "uid": account.uid}},
        });
        let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let token = format!(
            "{}.{}.{}",
            part(&json!({"alg": "none", "typ": "JWT"})),
            part(&claims),
            URL_SAFE_NO_PAD.encode(b"klab-not-signed")
        );
        let time = |instant: jiff::Timestamp| instant.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        let answer = json!({
            "kind": "TokenRequest", "apiVersion": "authentication.k8s.io/v1",
            "metadata": {"name": target.name(), "namespace": target.namespace(), "uid": account.uid,
                "creationTimestamp": time(now)},
            "spec": {"audiences": audiences, "expirationSeconds": seconds, "boundObjectRef": bound},
            "status": {"token": token, "expirationTimestamp": time(expires)},
        });
        Ok(answer::json_value(201, &answer))
    }
}

/// Refuses a token for less than ten minutes, or for more than 2³² seconds.
// upstream: pkg/apis/authentication/validation/validation.go ValidateTokenRequest (v1.36)
fn check_expiration(seconds: i64) -> Result<(), Status> {
    let because = match seconds {
        ..600 => "may not specify a duration less than 10 minutes",
        600..=0x1_0000_0000 => return Ok(()),
        _ => "may not specify a duration larger than 2^32 seconds",
    };
    let (kind, group, field) = ("TokenRequest", "authentication.k8s.io", "spec.expirationSeconds");
    let message = format!("Invalid value: {seconds}: {because}");
    Err(Status {
        details: json!({
            "group": group, "kind": kind,
            "causes": [{"reason": "FieldValueInvalid", "message": message, "field": field}],
        }),
        ..Status::new(422, "Invalid", format!("{kind}.{group} \"\" is invalid: {field}: {message}"))
    })
}

fn success(code: u16) -> Response<Body> {
    let status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": code});
    answer::json_value(code, &status)
}

/// Kind first, as everywhere.
fn ordered_scale(scale: &Value) -> String {
    format!(
        "{{\"kind\":\"Scale\",\"apiVersion\":\"autoscaling/v1\",\"metadata\":{},\"spec\":{},\"status\":{}}}",
        scale["metadata"], scale["spec"], scale["status"]
    )
}

/// What `kubectl get … --subresource=scale` prints.
fn scale_table(scale: &Value, now: jiff::Timestamp) -> String {
    super::super::table::scale(scale, now)
}
