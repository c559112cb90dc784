//! CertificateSigningRequests.

// upstream: pkg/apis/certificates/validation/validation.go validateCertificateSigningRequest, ValidateSignerName (v1.36)

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use klab_cel::names;
use serde_json::Value;

use super::Errors;
use super::field::{entries, text};
use crate::certificates::{Asked, RequestFault};
use crate::schema::Path;

const MAX_SIGNER_LENGTH: usize = 571;
/// The signer of v1beta1, which signs everything.
const LEGACY: &str = "kubernetes.io/legacy-unknown";
const USAGES: [&str; 23] = [
    "any",
    "cert sign",
    "client auth",
    "code signing",
    "content commitment",
    "crl sign",
    "data encipherment",
    "decipher only",
    "digital signature",
    "email protection",
    "encipher only",
    "ipsec end system",
    "ipsec tunnel",
    "ipsec user",
    "key agreement",
    "key encipherment",
    "microsoft sgc",
    "netscape sgc",
    "ocsp signing",
    "s/mime",
    "server auth",
    "signing",
    "timestamping",
];

pub(crate) fn check(value: &Value, errors: &mut Errors) {
    let spec = &value["spec"];
    let path = Path::Root.field("spec");
    let request = STANDARD.decode(text(spec, "request")).unwrap_or_default();
    match Asked::read(&String::from_utf8_lossy(&request)) {
        // It is not signed, and a controller says why.
        Ok(_) | Err(RequestFault::Unknown) => {}
        Err(fault) => errors.invalid(path.field("request"), &spec["request"], fault.to_string()),
    }
    if entries(spec, "usages").next().is_none() {
        errors.required(path.field("usages"), "");
    }
    let usages = path.field("usages");
    let mut seen = std::collections::BTreeSet::new();
    for (index, usage) in entries(spec, "usages") {
        let name = usage.as_str().unwrap_or_default();
        if !USAGES.contains(&name) {
            errors.unsupported(usages.index(index), usage, &USAGES);
        }
        if !seen.insert(name) {
            errors.duplicate(usages.index(index), usage);
        }
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
    if name == LEGACY {
        return errors.invalid(path, &spec["signerName"], "the legacy signerName is not allowed via this API version");
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
    if name.len() > MAX_SIGNER_LENGTH {
        errors.too_long(path, MAX_SIGNER_LENGTH, "bytes");
    }
}
