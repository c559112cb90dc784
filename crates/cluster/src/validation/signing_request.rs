//! CertificateSigningRequests.

// upstream: pkg/apis/certificates/validation/validation.go validateCertificateSigningRequest, ValidateSignerName (v1.36)

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::field::{entries, text};
use super::{Errors, names};
use crate::schema::Path;

const BEGIN: &str = "-----BEGIN CERTIFICATE REQUEST-----";
const LONGEST_SIGNER: usize = 571;

pub(crate) fn check(value: &Value, errors: &mut Errors) {
    let spec = &value["spec"];
    let path = Path::Root.field("spec");
    let request = STANDARD.decode(text(spec, "request")).unwrap_or_default();
    if !String::from_utf8_lossy(&request).contains(BEGIN) {
        errors.invalid(path.field("request"), &spec["request"], "PEM block type must be CERTIFICATE REQUEST");
    }
    if entries(spec, "usages").next().is_none() {
        errors.required(path.field("usages"), "");
    }
    if spec["expirationSeconds"].as_i64().is_some_and(|seconds| seconds < 600) {
        let message = "may not specify a duration less than 600 seconds (10 minutes)";
        errors.invalid(path.field("expirationSeconds"), &spec["expirationSeconds"], message);
    }
    signer(spec, &path.field("signerName"), errors);
}

fn signer(spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    let name = text(spec, "signerName");
    if name.is_empty() {
        return errors.required(path, "");
    }
    let Some((domain, rest)) = name.split_once('/').filter(|(_, rest)| !rest.is_empty() && !rest.contains('/')) else {
        let message = "must be a fully qualified domain and path of the form 'example.com/signer-name'";
        return errors.invalid(path, &spec["signerName"], message);
    };
    for fault in names::subdomain(domain) {
        errors.invalid(path, &spec["signerName"], format!("validating label \"{domain}\": {fault}"));
    }
    if !domain.contains('.') {
        errors.invalid(path, &spec["signerName"], "should be a domain with at least two segments separated by dots");
    }
    for fault in names::subdomain(rest) {
        errors.invalid(path, &spec["signerName"], fault);
    }
    if name.len() > LONGEST_SIGNER {
        errors.too_long(path, LONGEST_SIGNER, "bytes");
    }
}
