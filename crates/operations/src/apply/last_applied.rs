//! The annotation from which `kubectl apply` learns which fields a file had before.
//!
//! Without it kubectl warns, and a field that somebody removes from what `klab render` printed stays in the object.

use std::borrow::Cow;

use serde_json::{Value, json};

const ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// Bytes that all annotations of an object may have together (apimachinery `ValidateAnnotations`).
const MAX_ANNOTATIONS: usize = 256 * 1024;

/// An object with the annotation as kubectl writes it, kept in step by being applied with the object. One that would get too
/// large by it stays as it is; one that has the annotation already keeps it.
pub(super) fn annotated(object: &Value) -> Cow<'_, Value> {
    let annotations = object["metadata"].get("annotations").and_then(Value::as_object);
    if annotations.is_some_and(|annotations| annotations.contains_key(ANNOTATION)) || !object["metadata"].is_object() {
        return Cow::Borrowed(object);
    }
    let others: usize = annotations
        .into_iter()
        .flatten()
        .map(|(name, value)| name.len().saturating_add(value.as_str().map_or(0, str::len)))
        .sum();
    let mut configuration = object.clone();
    if annotations.is_none() {
        configuration["metadata"]["annotations"] = json!({});
    }
    let text = format!("{configuration}\n");
    if others.saturating_add(ANNOTATION.len()).saturating_add(text.len()) > MAX_ANNOTATIONS {
        return Cow::Borrowed(object);
    }
    configuration["metadata"]["annotations"][ANNOTATION] = Value::String(text);
    Cow::Owned(configuration)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn last_applied(object: &Value) -> Option<String> {
        object["metadata"]["annotations"].get(ANNOTATION).and_then(Value::as_str).map(str::to_owned)
    }

    #[test]
    fn it_is_the_object_as_it_was_applied() {
        let object =
            json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "a" }, "data": { "k": "v" } });
        let annotated = annotated(&object);
        assert_eq!(
            last_applied(&annotated).unwrap(),
            r#"{"apiVersion":"v1","data":{"k":"v"},"kind":"ConfigMap","metadata":{"annotations":{},"name":"a"}}"#
                .to_owned()
                + "\n"
        );
        assert_eq!(annotated["data"], object["data"]);
    }

    #[test]
    fn other_annotations_stay() {
        let object = json!({ "kind": "ConfigMap", "metadata": { "name": "a", "annotations": { "x": "1" } } });
        let annotated = annotated(&object);
        assert_eq!(annotated["metadata"]["annotations"]["x"], "1");
        let text = last_applied(&annotated).unwrap();
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), object);
    }

    #[test]
    fn what_would_be_too_large_or_has_one_stays_as_it_is() {
        let large = json!({ "metadata": { "name": "a" }, "data": { "k": "x".repeat(MAX_ANNOTATIONS) } });
        assert_eq!(last_applied(&annotated(&large)), None);
        let crowded = json!({ "metadata": { "annotations": { "x": "y".repeat(MAX_ANNOTATIONS - 10) } } });
        assert_eq!(*annotated(&crowded), crowded);
        let own = json!({ "metadata": { "annotations": { (ANNOTATION): "{}" } } });
        assert_eq!(*annotated(&own), own);
        assert_eq!(*annotated(&json!({ "metadata": "no table" })), json!({ "metadata": "no table" }));
    }
}
