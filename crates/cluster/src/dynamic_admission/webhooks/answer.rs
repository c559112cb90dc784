//! What a webhook answers: an AdmissionReview that allows or refuses, and may change the object.

// upstream: staging/src/k8s.io/apiserver/pkg/admission/plugin/webhook/request/admissionreview.go
// VerifyAdmissionResponse, plugin/webhook/errors/statuserror.go ToStatusErr (v1.36)

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use klab_api_machinery::status::Status;
use serde_json::{Value, json};

const REASONS: [&str; 19] = [
    "Unauthorized",
    "Forbidden",
    "NotFound",
    "AlreadyExists",
    "Conflict",
    "Gone",
    "Invalid",
    "ServerTimeout",
    "StoreReadError",
    "Timeout",
    "TooManyRequests",
    "BadRequest",
    "MethodNotAllowed",
    "NotAcceptable",
    "RequestEntityTooLarge",
    "UnsupportedMediaType",
    "InternalError",
    "Expired",
    "ServiceUnavailable",
];

/// An answer that is one.
#[derive(Debug, PartialEq)]
pub(crate) struct Answer {
    pub(crate) allowed: bool,
    pub(crate) status: Value,
    pub(crate) warnings: Vec<String>,
    /// A JSON patch.
    pub(crate) patch: Option<Vec<u8>>,
}

/// Reads an answer to the request with this uid.
///
/// # Errors
/// Why it is none.
pub(crate) fn read(body: &[u8], uid: &str, mutating: bool) -> Result<Answer, String> {
    let review: Value = serde_json::from_slice(body).map_err(|error| format!("couldn't get version/kind; {error}"))?;
    let response = &review["response"];
    if !response.is_object() {
        return Err("webhook response was absent".to_owned());
    }
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (version, kind) = (text(&review["apiVersion"]), text(&review["kind"]));
    if version != "admission.k8s.io/v1" || kind != "AdmissionReview" {
        return Err(format!(
            "expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, got {version}, Kind={kind}"
        ));
    }
    if response["uid"] != uid {
        return Err(format!("expected response.uid=\"{uid}\", got \"{}\"", text(&response["uid"])));
    }
    let warnings = response["warnings"].as_array().into_iter().flatten();
    let given = response["patch"].as_str().filter(|patch| !patch.is_empty());
    let kind = response["patchType"].as_str();
    let patch = match (given, kind) {
        (Some(_), None) => return Err("webhook returned response.patch but not response.patchType".to_owned()),
        (None, Some(_)) => return Err("webhook returned response.patchType but not response.patch".to_owned()),
        (Some(_), Some(_)) if !mutating => {
            return Err("webhook may not return response.patch".to_owned());
        }
        (Some(_), Some(kind)) if kind != "JSONPatch" => {
            return Err(format!("webhook returned invalid response.patchType of \"{kind}\""));
        }
        (Some(patch), Some(_)) => {
            Some(STANDARD.decode(patch).map_err(|error| format!("illegal base64 data: {error}"))?)
        }
        (None, None) => None,
    };
    Ok(Answer {
        allowed: response["allowed"] == true,
        status: response["status"].clone(),
        warnings: warnings.filter_map(Value::as_str).map(str::to_owned).collect(),
        patch,
    })
}

/// The refusal of a webhook, as the client gets it.
pub(crate) fn refusal(webhook: &str, status: &Value) -> Status {
    let text = |field: &str| status[field].as_str().filter(|text| !text.is_empty());
    let by = format!("admission webhook \"{webhook}\" denied the request");
    let message = match text("message").or_else(|| text("reason")) {
        Some(because) => format!("{by}: {because}"),
        None => format!("{by} without explanation"),
    };
    let code = status["code"].as_u64().and_then(|code| u16::try_from(code).ok());
    let code = code.filter(|code| (400..600).contains(code)).unwrap_or(400);
    let reason = text("reason").and_then(|given| REASONS.iter().find(|known| **known == given)).copied();
    let details = if status["details"].is_object() { status["details"].clone() } else { json!(null) };
    Status { details, ..Status::new(code, reason.unwrap_or_default(), message) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(response: &Value, mutating: bool) -> Result<Answer, String> {
        let review = json!({ "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response });
        read(review.to_string().as_bytes(), "u", mutating)
    }

    #[test]
    fn only_what_the_protocol_allows_is_an_answer() {
        let good = answer(&json!({ "uid": "u", "allowed": true, "warnings": ["careful"] }), false).unwrap();
        assert_eq!((good.allowed, good.warnings), (true, vec!["careful".to_owned()]));
        let patch = json!({ "uid": "u", "allowed": true, "patchType": "JSONPatch", "patch": "W10=" });
        assert_eq!(answer(&patch, true).unwrap().patch.as_deref(), Some(&b"[]"[..]));
        for (response, wanted) in [
            (json!(null), "webhook response was absent"),
            (json!({ "uid": "v", "allowed": true }), "expected response.uid=\"u\", got \"v\""),
            (patch, "webhook may not return response.patch"),
            (json!({ "uid": "u", "patch": "W10=" }), "webhook returned response.patch but not response.patchType"),
        ] {
            assert_eq!(answer(&response, false).unwrap_err(), wanted);
        }
        assert!(read(b"<html>", "u", false).is_err());
    }

    #[test]
    fn a_refusal_says_what_the_webhook_said() {
        let status = refusal("a.b.c", &json!({ "code": 200, "message": "no" }));
        assert_eq!((status.code, &*status.message), (400, "admission webhook \"a.b.c\" denied the request: no"));
        let status = refusal("a.b.c", &json!({ "code": 403, "reason": "Forbidden" }));
        assert_eq!((status.code, status.reason), (403, "Forbidden"));
        assert!(refusal("a.b.c", &Value::Null).message.ends_with("without explanation"));
    }
}
