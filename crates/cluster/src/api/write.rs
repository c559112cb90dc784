//! create, update, patch, delete, deletecollection.

use std::collections::HashSet;

use http::Response;
use http::header::USER_AGENT;
use klab_api_machinery::protobuf;
use klab_api_machinery::registry;
use klab_api_machinery::resource::{CUSTOM_RESOURCE_DEFINITIONS, NAMESPACES};
use klab_api_machinery::status::Status;
use serde_json::{Value, json};

use super::super::cluster::{DeleteOptions, Deleted, FieldValidation, Part, Propagation, WriteOptions, Written};
use super::negotiate::{self, Encoding};
use super::present::ListMetadata;
use super::read::invalid_options;
use crate::body::Body;
use klab_fields::Patch;

use super::call::{Call, Target};
use super::{answer, custom};
use klab_api_machinery::{duplicate_keys, yaml};

/// Longest name of a field manager.
const MAX_MANAGER_LENGTH: usize = 128;

impl Call<'_> {
    /// Options of a write; `kind` is what API servers call them in errors.
    pub(super) fn write_options(&self, kind: &str) -> Result<WriteOptions<'_>, Status> {
        let manager = match self.query.get("fieldManager") {
            Some(manager) if manager.len() > MAX_MANAGER_LENGTH => {
                return Err(invalid_options(
                    kind,
                    "fieldManager",
                    "FieldValueTooLong",
                    &format!("Too long: may not be more than {MAX_MANAGER_LENGTH} bytes"),
                ));
            }
            Some(manager) => manager,
            None => {
                let agent = self.parts.headers.get(USER_AGENT).and_then(|agent| agent.to_str().ok());
                agent.and_then(|agent| agent.split('/').next()).filter(|agent| !agent.is_empty()).unwrap_or("unknown")
            }
        };
        let validation = match self.query.get("fieldValidation") {
            None | Some("Warn") => FieldValidation::Warn,
            Some("Strict") => FieldValidation::Strict,
            Some("Ignore") => FieldValidation::Ignore,
            Some(other) => {
                return Err(invalid_options(
                    kind,
                    "fieldValidation",
                    "FieldValueNotSupported",
                    &format!("Unsupported value: {other:?}: supported values: \"\", \"Ignore\", \"Strict\", \"Warn\""),
                ));
            }
        };
        let (dry_run, guard) = (self.dry_run(kind)?, self.guard());
        let (user, pending_webhooks) = (Some(&self.user), Some(self.pending_webhooks));
        Ok(WriteOptions { dry_run, validation, guard, user, pending_webhooks, ..WriteOptions::client(manager) })
    }

    /// Who deletes.
    pub(super) fn deletes(&self) -> WriteOptions<'_> {
        WriteOptions { user: Some(&self.user), pending_webhooks: Some(self.pending_webhooks), ..WriteOptions::by("") }
    }

    /// [`Call::deletes`], of objects of a target.
    fn deletes_of(&self, target: &Target) -> WriteOptions<'_> {
        WriteOptions { served: target.custom.then_some(target.resource), ..self.deletes() }
    }

    /// [`Call::write_options`] for objects of a target.
    pub(super) fn options_for(&self, kind: &str, target: &Target) -> Result<WriteOptions<'_>, Status> {
        let is_json = negotiate::encoding(&self.parts.headers).is_ok_and(|encoding| encoding == Encoding::Json);
        let served = (target.custom || target.resource != target.stored()).then_some(target.resource);
        Ok(WriteOptions { twice_first: !is_json, served, ..self.write_options(kind)? })
    }

    fn dry_run(&self, kind: &str) -> Result<bool, Status> {
        let wanted: Vec<&str> = self.query.all("dryRun").collect();
        match wanted.as_slice() {
            [] => Ok(false),
            all if all.iter().all(|value| *value == "All") => Ok(true),
            other => Err(unsupported_dry_run(kind, other)),
        }
    }

    /// The body as an object of the kind the path asks for, checked against the path; and what is in it twice.
    pub(super) fn body_object(&self, target: &Target) -> Result<(Value, Vec<String>), Status> {
        let (value, twice) = self.body_noting(target)?;
        let value = checked_kind(target, value)?;
        if let (Some(namespace), Some(wanted)) = (value["metadata"]["namespace"].as_str(), &target.namespace)
            && !namespace.is_empty()
            && namespace != wanted
        {
            return Err(Status::bad_request(
                "the namespace of the provided object does not match the namespace sent on the request",
            ));
        }
        Ok((value, twice))
    }

    /// The body, whatever its encoding, and what is in it twice.
    pub(super) fn body_noting(&self, target: &Target) -> Result<(Value, Vec<String>), Status> {
        Ok(match negotiate::encoding(&self.parts.headers)? {
            Encoding::Protobuf => (self.body_value(target)?, Vec::new()),
            text => {
                let (value, twice) = negotiate::read_noting(&self.body, text, target.resource.row())?;
                let is_told_at_once = text == Encoding::Yaml && !twice.is_empty() && self.is_strict();
                (value, if is_told_at_once { vec![yaml::all_at_once(&twice)] } else { twice })
            }
        })
    }

    /// The body, whatever its encoding.
    pub(super) fn body_value(&self, target: &Target) -> Result<Value, Status> {
        match negotiate::encoding(&self.parts.headers)? {
            Encoding::Protobuf => protobuf::decode(&self.body).map_err(|error| {
                Status::bad_request(format!(
                    "the object provided is unrecognized (must be of type {}): {error}",
                    target.resource.row().kind
                ))
            }),
            text => negotiate::read_text(&self.body, text, target.resource.row()),
        }
    }

    fn written(&self, code: u16, target: &Target, written: &Written) -> Result<Response<Body>, Status> {
        let mut response = self.object(code, target, &written.object)?;
        answer::warn_all(&mut response, &written.warnings);
        self.warn_of_age(&mut response, target);
        custom::finish_deletion(self.cluster(), target.resource)?;
        Ok(response)
    }

    pub(super) fn create(&self, target: &Target) -> Result<Response<Body>, Status> {
        self.form()?;
        let row = target.resource.row();
        if row.namespaced && target.namespace.is_none() {
            return Err(answer::method_not_allowed());
        }
        let options = self.options_for("CreateOptions", target)?;
        let (value, problems) = self.body_object(target)?;
        let options = WriteOptions { problems: &problems, ..options };
        let value = registry::stored(target.resource, value);
        let written = self.cluster().create_reporting(target.stored(), target.namespace(), value, &options)?;
        self.established(target, &written)?;
        self.written(201, target, &written)
    }

    pub(super) fn update(&self, target: &Target) -> Result<Response<Body>, Status> {
        self.update_part(target, Part::Main)
    }

    pub(super) fn update_part(&self, target: &Target, part: Part) -> Result<Response<Body>, Status> {
        self.form()?;
        let options = self.options_for("UpdateOptions", target)?;
        let (value, problems) = self.body_object(target)?;
        let options = WriteOptions { problems: &problems, ..options };
        let name = value["metadata"]["name"].as_str().unwrap_or_default();
        if !name.is_empty() && name != target.name() {
            return Err(Status::bad_request(format!(
                "the name of the object ({name}) does not match the name on the URL ({})",
                target.name()
            )));
        }
        let value = registry::stored(target.resource, value);
        let written = self.cluster().update_reporting(
            target.stored(),
            part,
            target.namespace(),
            target.name(),
            value,
            &options,
        )?;
        self.established(target, &written)?;
        self.written(200, target, &written)
    }

    /// After a write of a CustomResourceDefinition: its kinds are served from now on.
    fn established(&self, target: &Target, written: &Written) -> Result<(), Status> {
        let defines = target.resource == CUSTOM_RESOURCE_DEFINITIONS && written.object.resource_version > 0;
        if defines { custom::establish(self.cluster(), &written.object.name) } else { Ok(()) }
    }

    pub(super) fn patch(&self, target: &Target) -> Result<Response<Body>, Status> {
        self.patch_part(target, Part::Main)
    }

    pub(super) fn patch_part(&self, target: &Target, part: Part) -> Result<Response<Body>, Status> {
        self.form()?;
        let options = self.options_for("PatchOptions", target)?;
        let (patch, problems) = self.patch_body(target)?;
        let options = WriteOptions { problems: &problems, ..options };
        let written = self.cluster().patch_reporting(
            target.stored(),
            part,
            target.namespace(),
            target.name(),
            patch,
            &options,
        )?;
        self.established(target, &written)?;
        self.written(if written.created { 201 } else { 200 }, target, &written)
    }

    /// The patch a request carries, by its media type; and what in it a client may want to know of.
    pub(super) fn patch_body(&self, target: &Target) -> Result<(Patch, Vec<String>), Status> {
        let kind = negotiate::media_type(&self.parts.headers);
        let json = |of: fn(Value) -> Patch| {
            let (value, twice) = duplicate_keys::read(&self.body).map_err(|error| {
                let before = if kind.contains("strategic") { "" } else { "error decoding patch: " };
                Status::bad_request(format!("{before}{}", negotiate::json_error(&self.body, &error)))
            })?;
            let patch = of(value);
            let before = if matches!(patch, Patch::Json(_)) { "json patch " } else { "" };
            let twice = twice.into_iter().map(|problem| format!("{before}{problem}"));
            let problems = twice.chain(patch.unknown()).collect();
            Ok((patch, problems))
        };
        // upstream: apimachinery pkg/apis/meta/v1/validation/validation.go ValidatePatchOptions
        if !kind.starts_with("application/apply-patch+") && self.query.get("force").is_some() {
            let message = "Forbidden: may not be specified for non-apply patch";
            return Err(invalid_options("PatchOptions", "force", "FieldValueForbidden", message));
        }
        match kind {
            "application/json-patch+json" => json(Patch::Json),
            "application/merge-patch+json" => json(Patch::Merge),
            "application/strategic-merge-patch+json" if !target.resource.row().custom => json(Patch::Strategic),
            "application/strategic-merge-patch+json" => Err(Status {
                details: json!({}),
                ..Status::new(
                    415,
                    "UnsupportedMediaType",
                    "the body of the request was in an unknown format - accepted media types include: application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml",
                )
            }),
            "application/apply-patch+yaml" | "application/apply-patch+cbor" => {
                if self.query.get("fieldManager").is_none() {
                    return Err(invalid_options(
                        "PatchOptions",
                        "fieldManager",
                        "FieldValueRequired",
                        "Required value: is required for apply patch",
                    ));
                }
                let (value, problems) = match duplicate_keys::read(&self.body) {
                    Ok((value, twice)) if twice.is_empty() => (value, twice),
                    // Upstream reads all of them as YAML.
                    _ => self.configuration()?,
                };
                Ok((Patch::Apply { value, force: self.query.flag("force") }, problems))
            }
            _ => Err(negotiate::unsupported_media_type()),
        }
    }

    /// A configuration in YAML, and what is in it twice.
    // upstream: apiserver pkg/endpoints/handlers/patch.go applyPatchToCurrentObject (v1.36)
    fn configuration(&self) -> Result<(Value, Vec<String>), Status> {
        let (value, twice) =
            yaml::read(&self.body).map_err(|error| Status::bad_request(format!("error decoding YAML: {error}")))?;
        if !twice.is_empty() && self.is_strict() {
            let words = yaml::all_at_once(&twice);
            return Err(Status::bad_request(format!(
                "error strict decoding YAML: error converting YAML to JSON: {words}"
            )));
        }
        Ok((value, twice))
    }

    /// Whether the client wants nothing that is unknown or there twice.
    fn is_strict(&self) -> bool {
        self.query.get("fieldValidation") == Some("Strict")
    }

    pub(super) fn delete(&self, target: &Target) -> Result<Response<Body>, Status> {
        self.form()?;
        let options = self.delete_options()?;
        let row = target.resource.row();
        // A client that cannot be shown an object cannot delete it either, and afterwards there is none to convert.
        let found = self.cluster().get(target.stored(), target.namespace(), target.name());
        self.shown(target.resource, found.into_iter().collect())?;
        let deleted = if target.resource == CUSTOM_RESOURCE_DEFINITIONS && !options.dry_run {
            custom::delete_definition(self.cluster(), target.name(), &options, &self.deletes())?
        } else {
            let write = self.deletes_of(target);
            self.cluster().delete_by(target.stored(), target.namespace(), target.name(), &options, &write)?
        };
        custom::finish_deletion(self.cluster(), target.resource)?;
        match deleted {
            Deleted::Gone(object) if !registry::of(target.resource).answers_with_deleted => {
                let mut details = json!({"name": target.name(), "kind": row.plural, "uid": object.uid});
                if !row.group.is_empty() {
                    details["group"] = json!(row.group);
                }
                Ok(answer::status_value(
                    200,
                    &json!({
                        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details,
                    }),
                ))
            }
            Deleted::Gone(object) | Deleted::Terminating(object) => self.object(200, target, &object),
        }
    }

    pub(super) fn delete_collection(&self, target: &Target) -> Result<Response<Body>, Status> {
        self.form()?;
        let options = self.delete_options()?;
        let selector = self.selector(target)?;
        let found = self.cluster().list(target.stored(), target.namespace.as_deref()).0;
        let found = self.matching(target, &selector, found)?;
        let names: HashSet<(Box<str>, Box<str>)> =
            self.shown(target.resource, found)?.iter().map(|one| (one.namespace.clone(), one.name.clone())).collect();
        let deleted = self.cluster().delete_collection_by(
            target.stored(),
            target.namespace.as_deref(),
            &options,
            &self.deletes_of(target),
            |object| names.contains(&(object.namespace.clone(), object.name.clone())),
        )?;
        let metadata = ListMetadata { version: self.cluster().version(), ..ListMetadata::default() };
        self.objects(target.resource, &metadata, deleted)
    }

    /// Delete options, from the body where there is one, else from the query.
    pub(super) fn delete_options(&self) -> Result<DeleteOptions, Status> {
        let mut options = DeleteOptions { dry_run: self.dry_run("DeleteOptions")?, ..DeleteOptions::default() };
        let body = if self.body.is_empty() {
            Value::Null
        } else {
            match negotiate::encoding(&self.parts.headers)? {
                Encoding::Protobuf => protobuf::decode(&self.body)
                    .map_err(|error| Status::bad_request(format!("could not decode DeleteOptions: {error}")))?,
                text => negotiate::read_text(&self.body, text, NAMESPACES.row())?,
            }
        };
        read_delete_options(&mut options, &body)?;
        if body.is_null() {
            options.grace_seconds = self.query.number("gracePeriodSeconds")?;
            let orphan = self.query.get("orphanDependents").map(|_| self.query.flag("orphanDependents"));
            options.propagation = dependents(self.query.get("propagationPolicy"), orphan)?;
        }
        Ok(options)
    }
}

/// Takes what a DeleteOptions object says.
pub(super) fn read_delete_options(options: &mut DeleteOptions, body: &Value) -> Result<(), Status> {
    options.grace_seconds = body["gracePeriodSeconds"].as_i64();
    options.propagation = dependents(body["propagationPolicy"].as_str(), body["orphanDependents"].as_bool())?;
    let text = |value: &Value| value.as_str().map(str::to_owned);
    options.uid = text(&body["preconditions"]["uid"]);
    options.resource_version = text(&body["preconditions"]["resourceVersion"]);
    if let Some(wanted) = body["dryRun"].as_array() {
        let wanted: Vec<&str> = wanted.iter().filter_map(Value::as_str).collect();
        if wanted.iter().any(|value| *value != "All") {
            return Err(unsupported_dry_run("DeleteOptions", &wanted));
        }
        options.dry_run |= !wanted.is_empty();
    }
    Ok(())
}

/// Refuses a body of another kind than the path's; kind and version that are left out are filled in.
fn checked_kind(target: &Target, mut value: Value) -> Result<Value, Status> {
    let row = target.resource.row();
    let api_version = row.api_version();
    let text = |field: &str| value[field].as_str().unwrap_or_default().to_owned();
    let (version, kind) = (text("apiVersion"), text("kind"));
    if (!kind.is_empty() && kind != row.kind) || (!version.is_empty() && version != api_version) {
        let version = if version.is_empty() { api_version } else { version };
        let (_, short) = version.rsplit_once('/').unwrap_or(("", &version));
        return Err(Status::bad_request(format!(
            "{kind} in version \"{short}\" cannot be handled as a {}: {}",
            row.kind,
            row.not_of(&version, &kind)
        )));
    }
    value["apiVersion"] = json!(api_version);
    value["kind"] = json!(row.kind);
    Ok(value)
}

fn unsupported_dry_run(kind: &str, wanted: &[&str]) -> Status {
    let message = format!("Unsupported value: {}: supported values: \"All\"", json!(wanted));
    invalid_options(kind, "dryRun", "FieldValueNotSupported", &message)
}

/// What becomes of dependents, by the field and by the one that was there before it; not by both.
// upstream: apimachinery pkg/apis/meta/v1/validation/validation.go ValidateDeleteOptions
fn dependents(policy: Option<&str>, orphan: Option<bool>) -> Result<Option<Propagation>, Status> {
    let as_before = orphan.map(|orphan| if orphan { Propagation::Orphan } else { Propagation::Background });
    let Some(policy) = policy else { return Ok(as_before) };
    if orphan.is_some() {
        let message = format!("Invalid value: {policy:?}: orphanDependents and deletionPropagation cannot be both set");
        return Err(invalid_options("DeleteOptions", "propagationPolicy", "FieldValueInvalid", &message));
    }
    propagation(policy).map(Some)
}

fn propagation(text: &str) -> Result<Propagation, Status> {
    match text {
        "Background" => Ok(Propagation::Background),
        "Foreground" => Ok(Propagation::Foreground),
        "Orphan" => Ok(Propagation::Orphan),
        other => Err(invalid_options(
            "DeleteOptions",
            "propagationPolicy",
            "FieldValueNotSupported",
            &format!(
                "Unsupported value: {other:?}: supported values: \"Foreground\", \"Background\", \"Orphan\", \"nil\""
            ),
        )),
    }
}
