//! What a pod's JSON says of a container.

use klab_api_machinery::value::items;
use serde_json::Value;

/// A field of a container's `securityContext`: its own, or else its pod's.
// upstream: pkg/securitycontext/util.go DetermineEffectiveSecurityContext (v1.36)
pub(crate) fn security_setting<'a>(pod: &'a Value, container: &'a Value, field: &str) -> &'a Value {
    let own = &container["securityContext"][field];
    if own.is_null() { &pod["spec"]["securityContext"][field] } else { own }
}

/// The words of a container's command and arguments.
pub(crate) fn words(container: &Value) -> impl Iterator<Item = &str> {
    ["command", "args"].into_iter().flat_map(|field| items(&container[field])).filter_map(Value::as_str)
}

/// The status of a container; `Null` without one.
pub fn status_of<'a>(pod: &'a Value, container: &Value) -> &'a Value {
    ["containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"]
        .iter()
        .flat_map(|list| items(&pod["status"][*list]))
        .find(|status| status["name"] == container["name"])
        .unwrap_or(&Value::Null)
}
