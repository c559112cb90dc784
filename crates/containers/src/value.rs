//! Reading the JSON of objects.

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

/// The instant in a time field, if there is one.
pub(crate) fn time_of(value: &Value) -> Option<Timestamp> {
    value.as_str()?.parse().ok()
}

/// The value below `path`, `Null` when a step is missing.
fn at<'a>(value: &'a Value, path: &[&str]) -> &'a Value {
    path.iter().fold(value, |below, step| &below[*step])
}

/// The text below `path`, empty when missing.
pub(crate) fn text<'a>(value: &'a Value, path: &[&str]) -> &'a str {
    at(value, path).as_str().unwrap_or_default()
}

/// The integer below `path`.
pub(crate) fn integer(value: &Value, path: &[&str]) -> Option<i64> {
    at(value, path).as_i64()
}

/// The elements of a list field, none when it is missing.
pub(crate) fn items(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

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

/// `by` after an instant, the last one where the sum is beyond what an instant can be.
pub(crate) fn later(instant: Timestamp, by: SignedDuration) -> Timestamp {
    instant.saturating_add(by).unwrap_or(Timestamp::MAX)
}
