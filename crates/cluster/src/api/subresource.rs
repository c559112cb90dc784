//! Subresources: status, scale, binding, eviction, finalize, token and the streams of pods.

use http::{Method, Response};
use klab_api_machinery::protobuf;
use klab_api_machinery::resource::{NAMESPACES, NODES, PODS, SERVICE_ACCOUNTS, SERVICES, custom_parts};
use klab_api_machinery::status::Status;
use klab_api_machinery::views::{Binding, Eviction, metadata};
use serde_json::{Value, json};

use super::super::cluster::{DeleteOptions, Part, WriteOptions};
use super::answer::{self, method_not_allowed, no_such_resource};
use super::call::{Call, Target};
use super::write::read_delete_options;
use crate::body::Body;

impl Call<'_> {
    pub(super) fn subresource(&self, target: &Target, name: &str, rest: &str) -> Result<Response<Body>, Status> {
        let row = target.resource.row();
        let own = if row.custom {
            let definition = self.cluster().definition(target.resource);
            let version = definition.as_ref().and_then(|definition| definition.version(target.resource));
            let has = |name: &str| version.is_some_and(|version| version.spec["subresources"][name].is_object());
            custom_parts(has("scale"), has("status")).iter().find(|part| part.name == name)
        } else {
            row.subresource(name)
        };
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
        let (scale, warnings) = match self.parts.method {
            Method::GET => {
                let missing = || Status::not_found(resource.row(), name);
                let found = cluster.get(resource, namespace, name).ok_or_else(missing)?;
                let shown = self.shown(target.resource, vec![found])?;
                (cluster.scale_shown(resource, shown.first().ok_or_else(missing)?)?, Vec::new())
            }
            Method::PUT => {
                let options = self.options_for("UpdateOptions", target)?;
                let (value, problems) = self.body_noting(target)?;
                let options = WriteOptions { problems: &problems, ..options };
                cluster.scale_set(resource, namespace, name, &value, &options)?
            }
            Method::PATCH => {
                let options = self.options_for("PatchOptions", target)?;
                let (patch, problems) = self.patch_body(target)?;
                let options = WriteOptions { problems: &problems, ..options };
                cluster.scale_patch(resource, namespace, name, &patch, &options)?
            }
            _ => return Err(method_not_allowed()),
        };
        let mut response = match self.form()? {
            super::negotiate::Form::Table(meta) => {
                answer::json_text(200, meta.of(scale_table(&scale, self.cluster().now())))
            }
            super::negotiate::Form::Protobuf => answer::protobuf(200, protobuf::encode(&scale).unwrap_or_default()),
            super::negotiate::Form::Yaml => answer::yaml_value(200, &scale),
            _ => answer::json_text(200, ordered_scale(&scale)),
        };
        answer::warn_all(&mut response, &warnings);
        Ok(response)
    }

    fn bind(&self, target: &Target) -> Result<Response<Body>, Status> {
        let options = self.write_options("CreateOptions")?;
        let binding = self.body_value(target)?;
        let node = Binding(&binding).target().name();
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
        let name = metadata(&eviction).name();
        if !name.is_empty() && name != target.name() {
            return Err(Status::bad_request("name in URL does not match name in Eviction object"));
        }
        let dry_run = self.write_options("CreateOptions")?.dry_run;
        let mut options = DeleteOptions { dry_run, ..DeleteOptions::default() };
        read_delete_options(&mut options, Eviction(&eviction).delete_options().0)?;
        self.cluster().evict_by(target.namespace(), target.name(), &options, &self.deletes())?;
        Ok(success(201))
    }
}

fn success(code: u16) -> Response<Body> {
    let status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": code});
    answer::status_value(code, &status)
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
    klab_api_machinery::table::scale(scale, now)
}
