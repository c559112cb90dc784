//! Texts by which a workload names ConfigMaps, Secrets, volume claims and claims for devices.

use super::syntax::{Mistake, Parsed, dns_subdomain, quantity};
use crate::spec::workload::{BundleKind, BundleRef, ResourceClaimSource, VolumeSource};

/// `config/NAME` or `secret/NAME`.
pub(super) fn bundle(text: &str) -> Parsed<BundleRef> {
    let (kind, name) = bundle_parts(text).ok_or_else(|| {
        Mistake::new(format!("`{text}` is neither a ConfigMap nor a Secret"), "expected `config/NAME` or `secret/NAME`")
    })?;
    dns_subdomain(name).map(|name| BundleRef { kind, name })
}

/// `config/NAME`, `secret/NAME`, `claim/NAME` or `claim-template/SIZE`.
pub(super) fn volume_source(text: &str) -> Parsed<VolumeSource> {
    if let Some(("claim" | "pvc" | "persistentvolumeclaim", name)) = text.split_once('/') {
        return dns_subdomain(name).map(VolumeSource::Claim);
    }
    if let Some(("claim-template", size)) = text.split_once('/') {
        return quantity(size).map(|_| VolumeSource::ClaimTemplate(size.to_owned()));
    }
    let (kind, name) = bundle_parts(text).ok_or_else(|| {
        let message = format!("`{text}` is no ConfigMap, Secret or volume claim");
        Mistake::new(message, "expected `config/NAME`, `secret/NAME`, `claim/NAME` or `claim-template/SIZE`")
    })?;
    dns_subdomain(name).map(|name| VolumeSource::Bundle(BundleRef { kind, name }))
}

/// `claim/NAME` or `template/NAME`.
pub(super) fn resource_claim(text: &str) -> Parsed<ResourceClaimSource> {
    match text.split_once('/') {
        Some(("claim", name)) => dns_subdomain(name).map(ResourceClaimSource::Claim),
        Some(("template", name)) => dns_subdomain(name).map(ResourceClaimSource::Template),
        _ => {
            let message = format!("`{text}` is neither a ResourceClaim nor a ResourceClaimTemplate");
            Err(Mistake::new(message, "expected `claim/NAME` or `template/NAME`"))
        }
    }
}

fn bundle_parts(text: &str) -> Option<(BundleKind, &str)> {
    match text.split_once('/')? {
        ("config" | "configmap", name) => Some((BundleKind::Config, name)),
        ("secret", name) => Some((BundleKind::Secret, name)),
        _ => None,
    }
}
