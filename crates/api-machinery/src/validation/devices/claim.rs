//! ResourceClaims and their templates.

// upstream: pkg/apis/resource/validation/validation.go validateDeviceClaim, ValidateResourceClaimUpdate,
// ValidateResourceClaimTemplate (v1.36)

use std::collections::{HashMap, HashSet};

use klab_cel::names;
use serde_json::{Value, json};

use super::super::{Errors, Place, metadata};
use super::{common, internal};
use crate::views::{
    DeviceClaim, DeviceConstraint, DeviceRequest, DeviceSubRequest, ExactDeviceRequest, ResourceClaim,
    ResourceClaimSpec, ResourceClaimTemplate, ResourceClaimTemplateSpec, Views,
};

const MAX_REQUESTS: usize = 32;
const MAX_CONSTRAINTS: usize = 32;
const MAX_ALTERNATIVES: usize = 8;

/// A new ResourceClaim.
pub fn claim(value: &Value, errors: &mut Errors) {
    spec(&Place::<ResourceClaim<'_>>::root(value).spec(), errors);
}

/// What a claim asks for stays as it is.
pub fn claim_update(old: &Value, new: &Value, errors: &mut Errors) {
    let spec = ResourceClaim(new).spec();
    if ResourceClaim(old).spec() != spec {
        errors.invalid_as("spec", &internal::claim_spec(spec), "field is immutable");
    }
}

/// A new ResourceClaimTemplate.
pub fn template(value: &Value, errors: &mut Errors) {
    let inner = Place::<ResourceClaimTemplateSpec<'_>>::of_spec(value);
    metadata::labels(&inner.metadata().labels(), errors);
    metadata::annotations(&inner.metadata().annotations(), errors);
    spec(&inner.spec(), errors);
}

/// A template stays as it is.
pub fn template_update(old: &Value, new: &Value, errors: &mut Errors) {
    let spec = ResourceClaimTemplate(new).spec();
    if ResourceClaimTemplate(old).spec() != spec {
        errors.invalid_as("spec", &internal::template_spec(spec), "field is immutable");
    }
}

fn spec(spec: &Place<'_, ResourceClaimSpec<'_>>, errors: &mut Errors) {
    let devices = spec.devices();
    let (requests, constraints, config) = (devices.requests(), devices.constraints(), devices.config());
    let known = Names::of(*devices);
    if requests.at_most(MAX_REQUESTS, errors) {
        requests.each().for_each(|one| request(&one, errors));
        common::distinct(&requests, |request| request.name().json.clone(), errors);
    }
    if constraints.at_most(MAX_CONSTRAINTS, errors) {
        constraints.each().for_each(|one| constraint(&one, &known, errors));
    }
    if config.at_most(common::MAX_CONFIG, errors) {
        for config in config.each() {
            references(&config.requests(), &known, errors);
            common::configuration(&config.opaque(), errors);
        }
    }
}

fn request(request: &Place<'_, DeviceRequest<'_>>, errors: &mut Errors) {
    let (exactly, alternatives) = (request.exactly(), request.first_available());
    request.name().check(names::label, errors);
    match (!alternatives.is_empty(), exactly.is_set()) {
        (false, false) => errors.required(request, "exactly one of `exactly` or `firstAvailable` is required"),
        (true, true) => {
            let message = "exactly one of `exactly` or `firstAvailable` is required, but multiple fields are set";
            errors.invalid(request, &Value::Null, message);
        }
        (false, true) => wanted(&exactly, errors),
        (true, false) if alternatives.at_most(MAX_ALTERNATIVES, errors) => {
            for one in alternatives.each() {
                one.name().check(names::label, errors);
                wanted(&one.cast(), errors);
            }
            common::distinct(&alternatives, |one| one.name().json.clone(), errors);
        }
        (true, false) => {}
    }
}

/// What is asked for, exactly or as an alternative.
fn wanted(request: &Place<'_, ExactDeviceRequest<'_>>, errors: &mut Errors) {
    let (mode, count) = (request.allocation_mode(), request.count());
    request.device_class_name().needed_as(names::subdomain, errors);
    common::selectors(&request.selectors(), errors);
    match *mode {
        "All" if *count != 0 => errors.invalid_at(&count, "must not be specified when allocationMode is 'All'"),
        "ExactCount" if *count <= 0 => errors.invalid(count, &json!(*count), "must be greater than zero"),
        _ => mode.one_of(&["All", "ExactCount"], errors),
    }
    common::tolerations(&request.tolerations(), errors);
}

fn constraint(constraint: &Place<'_, DeviceConstraint<'_>>, known: &Names<'_>, errors: &mut Errors) {
    references(&constraint.requests(), known, errors);
    let attributes = [constraint.match_attribute(), constraint.distinct_attribute()];
    if let Some(attribute) = attributes.iter().find(|attribute| attribute.is_set()) {
        return common::fully_qualified_name(attribute, errors);
    }
    let message = "exactly one of \"matchAttribute\" or \"distinctAttribute\" is required, but multiple fields are set";
    errors.required(constraint, message);
}

fn references<'a>(list: &Place<'_, Views<'a, &'a str>>, known: &Names<'_>, errors: &mut Errors) {
    if list.at_most(MAX_REQUESTS, errors) {
        list.each().for_each(|name| known.check(&name, errors));
        common::distinct(list, |name| name.json.clone(), errors);
    }
}

/// The requests of a claim and their alternatives, as constraints, configuration and results refer to them.
pub(super) struct Names<'a>(HashMap<&'a str, HashSet<&'a str>>);

impl<'a> Names<'a> {
    pub(super) fn of(devices: DeviceClaim<'a>) -> Self {
        let mut names = HashMap::new();
        for one in devices.requests() {
            // The first of a name counts.
            names.entry(one.name()).or_insert_with(|| one.first_available().map(DeviceSubRequest::name).collect());
        }
        Self(names)
    }

    fn has(&self, reference: &str) -> bool {
        let (request, alternative) =
            reference.split_once('/').map_or((reference, None), |(request, one)| (request, Some(one)));
        self.0.get(request).is_some_and(|known| alternative.is_none_or(|one| known.contains(one)))
    }

    /// A reference to a request.
    pub(super) fn check(&self, name: &Place<'_, &str>, errors: &mut Errors) {
        let message =
            "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'";
        if name.split('/').count() > 2 {
            return errors.invalid_at(name, message);
        }
        for segment in name.split('/') {
            errors.faults(name, segment, names::label);
        }
        if !self.has(name) {
            errors.invalid_at(name, message);
        }
    }
}
