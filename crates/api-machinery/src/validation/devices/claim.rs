//! ResourceClaims and their templates.

// upstream: pkg/apis/resource/validation/validation.go validateDeviceClaim, ValidateResourceClaimUpdate,
// ValidateResourceClaimTemplate (v1.36)

use std::collections::{HashMap, HashSet};

use klab_cel::names;
use serde_json::{Value, json};

use super::super::field::{entries, text};
use super::super::{Errors, Place, metadata};
use super::{common, internal};
use crate::schema::Path;

const MAX_REQUESTS: usize = 32;
const MAX_CONSTRAINTS: usize = 32;
const MAX_ALTERNATIVES: usize = 8;

/// A new ResourceClaim.
pub fn claim(value: &Value, errors: &mut Errors) {
    spec(&value["spec"], &Path::Root.field("spec"), errors);
}

/// What a claim asks for stays as it is.
pub fn claim_update(old: &Value, new: &Value, errors: &mut Errors) {
    if old["spec"] != new["spec"] {
        errors.invalid_as("spec", &internal::claim_spec(&new["spec"]), "field is immutable");
    }
}

/// A new ResourceClaimTemplate.
pub fn template(value: &Value, errors: &mut Errors) {
    let path = Path::Root.field("spec");
    let own = path.field("metadata");
    let given = &value["spec"]["metadata"];
    metadata::labels(&Place::new(own.field("labels"), &given["labels"]), errors);
    metadata::annotations(&Place::new(own.field("annotations"), &given["annotations"]), errors);
    spec(&value["spec"]["spec"], &path.field("spec"), errors);
}

/// A template stays as it is.
pub fn template_update(old: &Value, new: &Value, errors: &mut Errors) {
    if old["spec"] != new["spec"] {
        errors.invalid_as("spec", &internal::template_spec(&new["spec"]), "field is immutable");
    }
}

fn spec(spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    let devices = &spec["devices"];
    let path = path.field("devices");
    let known = Names::of(devices);
    let list = path.field("requests");
    if common::within(devices, "requests", MAX_REQUESTS, &list, errors) {
        for (at, one) in entries(devices, "requests") {
            request(one, &list.index(at), errors);
        }
        common::distinct(devices, "requests", |request| request["name"].clone(), &list, errors);
    }
    let list = path.field("constraints");
    if common::within(devices, "constraints", MAX_CONSTRAINTS, &list, errors) {
        for (at, one) in entries(devices, "constraints") {
            constraint(one, &known, &list.index(at), errors);
        }
    }
    let list = path.field("config");
    if common::within(devices, "config", common::MAX_CONFIG, &list, errors) {
        for (at, config) in entries(devices, "config") {
            let path = list.index(at);
            references(config, &known, &path.field("requests"), errors);
            common::configuration(config, &path, errors);
        }
    }
}

fn request(request: &Value, path: &Path<'_>, errors: &mut Errors) {
    common::label(&request["name"], &path.field("name"), errors);
    let alternatives = entries(request, "firstAvailable").next().is_some();
    match (alternatives, request["exactly"].is_object()) {
        (false, false) => errors.required(path, "exactly one of `exactly` or `firstAvailable` is required"),
        (true, true) => {
            let message = "exactly one of `exactly` or `firstAvailable` is required, but multiple fields are set";
            errors.invalid(path, &Value::Null, message);
        }
        (false, true) => wanted(&request["exactly"], &path.field("exactly"), errors),
        (true, false) => {
            let list = path.field("firstAvailable");
            if common::within(request, "firstAvailable", MAX_ALTERNATIVES, &list, errors) {
                for (at, one) in entries(request, "firstAvailable") {
                    let path = list.index(at);
                    common::label(&one["name"], &path.field("name"), errors);
                    wanted(one, &path, errors);
                }
                common::distinct(request, "firstAvailable", |one| one["name"].clone(), &list, errors);
            }
        }
    }
}

/// What is asked for, exactly or as an alternative.
fn wanted(request: &Value, path: &Path<'_>, errors: &mut Errors) {
    let class = path.field("deviceClassName");
    if text(request, "deviceClassName").is_empty() {
        errors.required(class, "");
    } else {
        for fault in names::subdomain(text(request, "deviceClassName")) {
            errors.invalid(class, &request["deviceClassName"], fault);
        }
    }
    common::selectors(request, &path.field("selectors"), errors);
    let count = request["count"].as_i64().unwrap_or(0);
    match text(request, "allocationMode") {
        "All" if count != 0 => {
            errors.invalid(path.field("count"), &json!(count), "must not be specified when allocationMode is 'All'");
        }
        "ExactCount" if count <= 0 => {
            errors.invalid(path.field("count"), &json!(count), "must be greater than zero");
        }
        "All" | "ExactCount" => {}
        mode => errors.unsupported(path.field("allocationMode"), &json!(mode), &["All", "ExactCount"]),
    }
    common::tolerations(request, &path.field("tolerations"), errors);
}

fn constraint(constraint: &Value, known: &Names<'_>, path: &Path<'_>, errors: &mut Errors) {
    references(constraint, known, &path.field("requests"), errors);
    for field in ["matchAttribute", "distinctAttribute"] {
        if constraint[field].is_string() {
            common::fully_qualified_name(&constraint[field], &path.field(field), errors);
            return;
        }
    }
    let message = "exactly one of \"matchAttribute\" or \"distinctAttribute\" is required, but multiple fields are set";
    errors.required(path, message);
}

fn references(value: &Value, known: &Names<'_>, list: &Path<'_>, errors: &mut Errors) {
    if common::within(value, "requests", MAX_REQUESTS, list, errors) {
        for (at, name) in entries(value, "requests") {
            known.check(name, &list.index(at), errors);
        }
        common::distinct(value, "requests", Value::clone, list, errors);
    }
}

/// The requests of a claim and their alternatives, as constraints, configuration and results refer to them.
pub(super) struct Names<'a>(HashMap<&'a str, HashSet<&'a str>>);

impl<'a> Names<'a> {
    pub(super) fn of(devices: &'a Value) -> Self {
        let alternatives = |request: &'a Value| {
            entries(request, "firstAvailable").map(|(_, one)| text(one, "name")).collect::<HashSet<_>>()
        };
        let mut names = HashMap::new();
        for (_, one) in entries(devices, "requests") {
            // The first of a name counts.
            names.entry(text(one, "name")).or_insert_with(|| alternatives(one));
        }
        Self(names)
    }

    fn has(&self, reference: &str) -> bool {
        let (request, alternative) =
            reference.split_once('/').map_or((reference, None), |(request, one)| (request, Some(one)));
        self.0.get(request).is_some_and(|known| alternative.is_none_or(|one| known.contains(one)))
    }

    /// A reference to a request.
    pub(super) fn check(&self, value: &Value, path: &Path<'_>, errors: &mut Errors) {
        let message =
            "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'";
        let name = value.as_str().unwrap_or_default();
        if name.split('/').count() > 2 {
            errors.invalid(path, value, message);
            return;
        }
        for segment in name.split('/') {
            common::label(&json!(segment), path, errors);
        }
        if !self.has(name) {
            errors.invalid(path, value, message);
        }
    }
}
