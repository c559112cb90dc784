//! CertificateSigningRequests.

// upstream: pkg/apis/certificates/validation/validation.go validateCertificateSigningRequest, ValidateSignerName (v1.36)

use std::collections::HashSet;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use klab_cel::names;
use serde_json::Value;

use super::{Errors, Place};
use crate::certificates::{Asked, RequestFault};
use crate::views::CertificateSigningRequest;

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
    let request = Place::<CertificateSigningRequest<'_>>::root(value);
    let spec = request.spec();
    let (request, usages, seconds) = (spec.request(), spec.usages(), spec.expiration_seconds());
    match Asked::read(&String::from_utf8_lossy(&STANDARD.decode(*request).unwrap_or_default())) {
        // It is not signed, and a controller says why.
        Ok(_) | Err(RequestFault::Unknown) => {}
        Err(fault) => errors.invalid_at(&request, fault.to_string()),
    }
    usages.needed(errors);
    let mut seen = HashSet::new();
    for usage in usages.each() {
        usage.supported(&USAGES, errors);
        usage.unique(&mut seen, errors);
    }
    seconds.within(600.., "may not specify a duration less than 600 seconds (10 minutes)", errors);
    signer(&spec.signer_name(), errors);
}

fn signer(name: &Place<'_, &str>, errors: &mut Errors) {
    if name.is_empty() {
        return name.needed(errors);
    }
    if **name == LEGACY {
        return errors.invalid_at(name, "the legacy signerName is not allowed via this API version");
    }
    let Some((domain, rest)) = name.split_once('/').filter(|(_, rest)| !rest.is_empty() && !rest.contains('/')) else {
        let message = "must be a fully qualified domain and path of the form 'example.com/signer-name'";
        return errors.invalid_at(name, message);
    };
    for fault in names::subdomain(domain) {
        errors.invalid_at(name, format!("validating label \"{domain}\": {fault}"));
    }
    if !domain.contains('.') {
        errors.invalid_at(name, "should be a domain with at least two segments separated by dots");
    }
    for fault in names::subdomain(rest) {
        errors.invalid_at(name, fault);
    }
    name.no_longer_than(MAX_SIGNER_LENGTH, errors);
}
