//! Names of resources that may be devices.

// upstream: pkg/scheduler/util/utils.go IsDRAExtendedResourceName (v1.36)

/// Resources of this beginning are the devices of a class.
const CLASS_PREFIX: &str = "deviceclass.resource.kubernetes.io/";
/// Whether a resource may be devices: it is of somebody's domain, or of a class.
pub(crate) fn may_be_devices(resource: &str) -> bool {
    let native = |domain: &str| domain == "kubernetes.io" || domain.ends_with(".kubernetes.io");
    resource.starts_with(CLASS_PREFIX)
        || resource.split_once('/').is_some_and(|(domain, _)| !native(domain) && !resource.starts_with("requests."))
}

/// The resource of a class's own name.
pub(crate) fn resource_of_class(class: &str) -> String {
    format!("{CLASS_PREFIX}{class}")
}

/// The class of a resource of its own name.
pub(crate) fn implicit_class(resource: &str) -> Option<&str> {
    resource.strip_prefix(CLASS_PREFIX)
}
