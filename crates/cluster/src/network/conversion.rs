//! What agnhost's conversion webhook makes of objects of `stable.example.com`.

// upstream: test/images/agnhost/crd-conversion-webhook/converter (v1.36)

use serde_json::{Value, json};

use crate::value::items;

/// The answer to a review; none to what is none.
pub(super) fn convert(body: &[u8]) -> Option<Value> {
    let review: Value = serde_json::from_slice(body).ok()?;
    let request = &review["request"];
    if review["kind"] != "ConversionReview" || !request.is_object() {
        return None;
    }
    let to = request["desiredAPIVersion"].as_str().unwrap_or_default();
    let converted: Result<Vec<Value>, String> = items(&request["objects"]).iter().map(|one| object(one, to)).collect();
    let mut response = match converted {
        Ok(objects) => json!({ "convertedObjects": objects, "result": { "metadata": {}, "status": "Success" } }),
        Err(message) => json!({
            "convertedObjects": null, "result": { "metadata": {}, "status": "Failure", "message": message },
        }),
    };
    response["uid"] = request["uid"].clone();
    Some(json!({ "kind": "ConversionReview", "apiVersion": review["apiVersion"], "response": response }))
}

fn object(original: &Value, to: &str) -> Result<Value, String> {
    let from = original["apiVersion"].as_str().unwrap_or_default();
    let mut object = original.as_object().cloned().unwrap_or_default();
    if from == to {
        return Err(format!("conversion from a version to itself should not call the webhook: {to}"));
    }
    let unexpected = |version: &str| Err(format!("unexpected conversion version {version:?}"));
    match (from, to) {
        ("stable.example.com/v1", "stable.example.com/v2") => {
            if let Some(both) = object.remove("hostPort") {
                let both = both.as_str().unwrap_or_default();
                let parts: Vec<&str> = both.split(':').collect();
                let [host, port] = parts[..] else { return Err(format!("invalid hostPort value `{both}`")) };
                object.insert("host".to_owned(), json!(host));
                object.insert("port".to_owned(), json!(port));
            }
        }
        ("stable.example.com/v2", "stable.example.com/v1") => {
            let (host, port) = (object.remove("host"), object.remove("port"));
            if host.is_some() || port.is_some() {
                let of = |value: Option<Value>| match value {
                    Some(Value::String(text)) => text,
                    Some(other) => other.to_string(),
                    None => String::new(),
                };
                object.insert("hostPort".to_owned(), json!(format!("{}:{}", of(host), of(port))));
            }
        }
        ("stable.example.com/v1" | "stable.example.com/v2", _) => return unexpected(to),
        _ => return unexpected(from),
    }
    object.insert("apiVersion".to_owned(), json!(to));
    Ok(Value::Object(object))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn converted(objects: Value, to: &str) -> Value {
        let review = json!({ "kind": "ConversionReview", "apiVersion": "apiextensions.k8s.io/v1",
            "request": { "uid": "u", "desiredAPIVersion": to, "objects": objects } });
        convert(review.to_string().as_bytes()).map(|answer| answer["response"].clone()).unwrap_or_default()
    }

    #[test]
    fn hosts_and_ports_are_parted_and_joined() {
        let first = json!({ "apiVersion": "stable.example.com/v1", "kind": "T", "hostPort": "a:1" });
        let second = json!({ "apiVersion": "stable.example.com/v2", "kind": "T", "host": "a", "port": "1" });
        assert_eq!(converted(json!([first]), "stable.example.com/v2")["convertedObjects"], json!([second]));
        assert_eq!(converted(json!([second]), "stable.example.com/v1")["convertedObjects"], json!([first]));
        let wrong = json!({ "apiVersion": "stable.example.com/v1", "hostPort": "a" });
        assert_eq!(
            converted(json!([wrong]), "stable.example.com/v2")["result"]["message"],
            "invalid hostPort value `a`"
        );
        let other = converted(json!([first]), "stable.example.com/v3")["result"]["status"].clone();
        assert_eq!(other, "Failure");
    }
}
