//! Configurations of admission webhooks, and the conversion of a definition's versions.

// upstream: pkg/apis/admissionregistration/validation/validation.go validateValidatingWebhook, validateMutatingWebhook;
// staging/src/k8s.io/apiserver/pkg/util/webhook/validation.go (v1.36)

use std::collections::HashSet;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use klab_cel::names;
use serde_json::{Value, json};

use super::{Errors, Place, admission_policy, admission_rules, metadata};
use crate::policy_expression::Names;
use crate::schema::Path;
use crate::views::{
    AdmissionregistrationServiceReference as ServiceReference, MutatingWebhook, MutatingWebhookConfiguration, Views,
    WebhookClientConfig,
};

/// Versions of reviews that API servers know.
const REVIEWS: [&str; 2] = ["v1", "v1beta1"];
const FORM: &str = "; desired format: https://host[/path]";

/// `spec.conversion` of a CustomResourceDefinition. Errors name it as the old form of definitions did.
// upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation/validation.go
// validateCustomResourceConversion (v1.36)
pub fn conversion(conversion: &Value, is_established: bool, errors: &mut Errors) {
    let spec = Path::Root.field("spec");
    let path = spec.field("conversion");
    let (strategy, webhook) =
        (Place::<&str>::new(path.field("strategy"), &conversion["strategy"]), &conversion["webhook"]);
    let versions: Place<'_, Views<'_, &str>> =
        Place::new(path.field("conversionReviewVersions"), &webhook["conversionReviewVersions"]);
    let client = Place::<WebhookClientConfig<'_>>::new(path.field("webhookClientConfig"), &webhook["clientConfig"]);
    strategy.needed(errors);
    strategy.supported(&["None", "Webhook"], errors);
    if *strategy != "Webhook" {
        let detail = "should not be set when strategy is not set to Webhook";
        client.absent(detail, errors);
        if !versions.is_empty() {
            errors.forbidden(versions, detail);
        }
        return;
    }
    if client.is_set() {
        place(&client, errors);
        let bundle = client.ca_bundle();
        if is_established && !bundle.is_empty() && !holds_certificates(*bundle) {
            let detail = "unable to load root certificates: unable to parse bytes as PEM block";
            errors.invalid_at(&bundle, detail);
        }
    } else {
        errors.required(client, "required when strategy is set to Webhook");
    }
    reviews(&versions, "", errors);
}

fn holds_certificates(bundle: &str) -> bool {
    let text = STANDARD.decode(bundle).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    text.trim().is_empty() || text.contains("-----BEGIN CERTIFICATE-----")
}

/// A Validating- or MutatingWebhookConfiguration.
pub fn configuration(value: &Value, errors: &mut Errors) {
    let mut seen = HashSet::new();
    for hook in Place::<MutatingWebhookConfiguration<'_>>::root(value).webhooks().each() {
        webhook(&hook, errors);
        reviews(&hook.admission_review_versions(), "must specify one of v1, v1beta1", errors);
        if !hook.name().is_empty() {
            hook.name().unique(&mut seen, errors);
        }
    }
}

fn webhook(hook: &Place<'_, MutatingWebhook<'_>>, errors: &mut Errors) {
    qualified_name(&hook.name(), errors);
    hook.rules().each().for_each(|one| admission_rules::rule(&one, errors));
    hook.failure_policy().supported(&["Fail", "Ignore"], errors);
    hook.match_policy().supported(&["Equivalent", "Exact"], errors);
    if !hook.side_effects().is_set() {
        errors.required(hook.side_effects(), "must specify one of None, NoneOnDryRun");
    }
    hook.side_effects().supported(&["None", "NoneOnDryRun"], errors);
    hook.timeout_seconds().within(1..=30, "the timeout value must be between 1 and 30 seconds", errors);
    metadata::selector(&hook.namespace_selector(), errors);
    metadata::selector(&hook.object_selector(), errors);
    hook.reinvocation_policy().supported(&["IfNeeded", "Never"], errors);
    place(&hook.client_config(), errors);
    let names = Names { authorizer: true, ..Names::default() };
    admission_policy::conditions(&hook.match_conditions(), &names, errors);
}

/// The name of a webhook: a domain with three segments.
// upstream: staging/src/k8s.io/apimachinery/pkg/util/validation/validation.go IsFullyQualifiedName (v1.36)
fn qualified_name(name: &Place<'_, &str>, errors: &mut Errors) {
    let faults = names::subdomain(name);
    if name.is_empty() {
        errors.required(name, "");
    } else if !faults.is_empty() {
        errors.invalid_at(name, faults.join(","));
    } else if name.split('.').count() < 3 {
        errors.invalid_at(name, "should be a domain with at least three segments separated by dots");
    }
}

/// Where a webhook is.
fn place(client: &Place<'_, WebhookClientConfig<'_>>, errors: &mut Errors) {
    match (*client.url(), client.service().is_set()) {
        (Some(url), false) => self::url(url, &client.url().path, errors),
        (None, true) => service(&client.service(), errors),
        _ => errors.required(client, "exactly one of url or service is required"),
    }
}

fn reviews<'a>(versions: &Place<'_, Views<'a, &'a str>>, missing: &str, errors: &mut Errors) {
    if versions.is_empty() {
        return errors.required(versions, missing);
    }
    let mut seen = HashSet::new();
    for version in versions.each() {
        if seen.insert(*version) {
            version.check(names::label_1035, errors);
        } else {
            errors.invalid_at(&version, "duplicate version");
        }
    }
    if !REVIEWS.iter().any(|version| seen.contains(version)) {
        errors.invalid_at(versions, "must include at least one of v1, v1beta1");
    }
}

fn url(url: &str, path: &Path<'_>, errors: &mut Errors) {
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    if scheme != "https" {
        errors.invalid(path, &json!(scheme), format!("'https' is the only allowed URL scheme{FORM}"));
    }
    let (rest, fragment) = rest.split_once('#').unwrap_or((rest, ""));
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let authority = rest.split('/').next().unwrap_or_default();
    let (user, host) = authority.rsplit_once('@').unwrap_or(("", authority));
    if host.is_empty() || scheme.is_empty() {
        errors.invalid(path, &json!(""), format!("host must be specified{FORM}"));
    }
    for (part, what) in [(user, "user information is"), (fragment, "fragments are"), (query, "query parameters are")] {
        if !part.is_empty() {
            errors.invalid(path, &json!(part), format!("{what} not permitted in the URL"));
        }
    }
}

fn service(service: &Place<'_, ServiceReference<'_>>, errors: &mut Errors) {
    service.name().needed(errors);
    service.namespace().needed(errors);
    let fault = "port is not valid: must be between 1 and 65535, inclusive";
    service.port().within(1..=65_535, fault, errors);
    let place = service.path();
    let path = place.text();
    match path {
        "" | "/" => return,
        "//" => return errors.invalid_at(&place, "segment[0] may not be empty"),
        _ => {}
    }
    if !path.starts_with('/') {
        errors.invalid_at(&place, "must start with a '/'");
    }
    let inner = path.strip_prefix('/').unwrap_or(path);
    for (at, segment) in inner.strip_suffix('/').unwrap_or(inner).split('/').enumerate() {
        if segment.is_empty() {
            errors.invalid_at(&place, format!("segment[{at}] may not be empty"));
            continue;
        }
        for fault in names::subdomain(segment) {
            errors.invalid_at(&place, format!("segment[{at}]: {fault}"));
        }
    }
}
