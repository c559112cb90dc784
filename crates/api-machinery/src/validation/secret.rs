//! Secrets: keys, size, and what each type has to have.

// upstream: pkg/apis/core/validation/validation.go ValidateSecret, ValidateSecretUpdate (v1.36)

use base64::Engine as _;
use klab_cel::names;
use serde_json::{Value, json};

use super::config::{DATA_LIMIT, frozen};
use super::place::Texts;
use super::{Errors, Place};
use crate::go_text::no_map;
use crate::views::Secret;

const ACCOUNT: &str = "kubernetes.io/service-account.name";

pub fn check(value: &Value, errors: &mut Errors) {
    let secret = Place::<Secret<'_>>::root(value);
    let (metadata, data) = (secret.metadata(), secret.data());
    let mut size = 0;
    for (key, content) in data.each() {
        errors.faults(&content, key, names::config_key);
        size += content.len() / 4 * 3;
    }
    if size > DATA_LIMIT {
        errors.too_long(data, DATA_LIMIT, "bytes");
    }
    let missing = |key: &&str| data.get(key).is_none();
    match *secret.type_() {
        "kubernetes.io/service-account-token" => metadata.annotations().entry(ACCOUNT).needed(errors),
        "kubernetes.io/dockercfg" => registry(&data, ".dockercfg", errors),
        "kubernetes.io/dockerconfigjson" => registry(&data, ".dockerconfigjson", errors),
        "kubernetes.io/basic-auth" if ["username", "password"].iter().all(missing) => {
            errors.required(data.entry("username"), "");
            errors.required(data.entry("password"), "");
        }
        "kubernetes.io/ssh-auth" => data.entry("ssh-privatekey").needed(errors),
        "kubernetes.io/tls" => {
            ["tls.crt", "tls.key"]
                .iter()
                .filter(|key| missing(key))
                .for_each(|key| errors.required(data.entry(key), ""));
        }
        _ => {}
    }
}

/// Who one is to registries of images: JSON, which is not shown.
fn registry(data: &Place<'_, Texts<'_>>, key: &str, errors: &mut Errors) {
    let Some(text) = data.get(key) else { return errors.required(data.entry(key), "") };
    let text = base64::engine::general_purpose::STANDARD.decode(text).unwrap_or_default();
    if let Some(fault) = fault_of_map(&text) {
        errors.invalid(data.entry(key), &json!("<secret contents redacted>"), fault);
    }
}

/// Why Go does not read a text as a map. Of what is wrong within one it would name the place.
fn fault_of_map(text: &[u8]) -> Option<String> {
    match serde_json::from_slice::<Value>(text) {
        Ok(Value::Object(_) | Value::Null) => None,
        Ok(other) => Some(no_map(&other)),
        Err(error) if error.is_eof() => Some("unexpected end of JSON input".to_owned()),
        Err(error) => {
            let lines = text.split_inclusive(|byte| *byte == b'\n').take(error.line().saturating_sub(1));
            let at = lines.map(<[u8]>::len).sum::<usize>() + error.column().saturating_sub(1);
            let found = text.get(at).map_or(' ', |byte| char::from(*byte));
            Some(format!("invalid character '{found}' looking for beginning of value"))
        }
    }
}

/// A Secret's type stays, and what is marked immutable.
pub fn update(old: &Value, new: &Value, errors: &mut Errors) {
    Place::<Secret<'_>>::root(new).type_().stays(&Place::<Secret<'_>>::root(old).type_(), errors);
    frozen(old, new, errors);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_have_keys_of_their_own() {
        let faults = |kind: &str, data: Value| {
            Errors::found(|errors| check(&json!({ "type": format!("kubernetes.io/{kind}"), "data": data }), errors))
        };
        let redacted = "Invalid value: \"<secret contents redacted>\"";
        let base64 = |text: &str| base64::engine::general_purpose::STANDARD.encode(text);
        for (kind, data, wanted) in [
            ("basic-auth", json!({ "username": "" }), vec![]),
            (
                "basic-auth",
                json!({}),
                vec!["data[username]: Required value".to_owned(), "data[password]: Required value".to_owned()],
            ),
            ("ssh-auth", json!({ "ssh-privatekey": "" }), vec!["data[ssh-privatekey]: Required value".to_owned()]),
            ("tls", json!({ "tls.crt": "" }), vec!["data[tls.key]: Required value".to_owned()]),
            ("dockerconfigjson", json!({}), vec!["data[.dockerconfigjson]: Required value".to_owned()]),
            ("dockerconfigjson", json!({ ".dockerconfigjson": base64("{\"auths\":{}}") }), vec![]),
            (
                "dockerconfigjson",
                json!({ ".dockerconfigjson": base64("bad") }),
                vec![format!(
                    "data[.dockerconfigjson]: {redacted}: invalid character 'b' looking for beginning of value"
                )],
            ),
            (
                "dockercfg",
                json!({ ".dockercfg": "" }),
                vec![format!("data[.dockercfg]: {redacted}: unexpected end of JSON input")],
            ),
            (
                "dockercfg",
                json!({ ".dockercfg": base64("[]") }),
                vec![format!(
                    "data[.dockercfg]: {redacted}: json: cannot unmarshal array into Go value of type map[string]interface {{}}"
                )],
            ),
            (
                "service-account-token",
                json!({}),
                vec!["metadata.annotations[kubernetes.io/service-account.name]: Required value".to_owned()],
            ),
        ] {
            assert_eq!(faults(kind, data.clone()), wanted, "{kind} {data}");
        }
    }

    #[test]
    fn a_token_belongs_to_an_account() {
        for (annotations, wanted) in [
            (json!({ ACCOUNT: "robot" }), Vec::new()),
            (json!({}), vec![format!("metadata.annotations[{ACCOUNT}]: Required value")]),
        ] {
            let mut errors = Errors::default();
            let kind = "kubernetes.io/service-account-token";
            check(&json!({ "type": kind, "metadata": { "annotations": annotations }, "data": {} }), &mut errors);
            assert_eq!(errors.texts(), wanted);
        }
    }
}
