//! Content negotiation: what the client wants to read, and what it sent.

use bytes::Bytes;
use http::HeaderMap;
use http::header::{ACCEPT, CONTENT_TYPE};
use klab_api_machinery::resource::Resource;
use klab_api_machinery::status::Status;
use serde_json::Value;

use klab_api_machinery::{duplicate_keys, yaml};

/// The form of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    Json,
    Yaml,
    /// `as=Table`: what kubectl prints.
    Table(Meta),
    /// `as=PartialObjectMetadata` and its list.
    Metadata(Meta),
    /// The kind's own message.
    Protobuf,
    /// `as=PartialObjectMetadata` and its list, as messages.
    ProtobufMetadata,
    /// `as=APIGroupDiscoveryList`.
    Discovery,
}

/// The version of meta.k8s.io that tables and metadata are in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Meta {
    V1,
    V1Beta1,
}

impl Meta {
    /// A document made in `v1`, in this version.
    pub(super) fn of(self, text: String) -> String {
        match self {
            Self::V1 => text,
            // Where these words are not a value of their own, a quote after them is escaped.
            Self::V1Beta1 => text.replace("\"meta.k8s.io/v1\"", "\"meta.k8s.io/v1beta1\""),
        }
    }
}

/// The first form of the `Accept` header that is served. Whole objects come as messages only to those who take nothing
/// else: what is stored is JSON.
pub(super) fn accepted(headers: &HeaderMap) -> Result<Form, Status> {
    let mut asked = false;
    let mut protobuf = false;
    for value in headers.get_all(ACCEPT) {
        for range in value.to_str().unwrap_or_default().split(',').filter(|range| !range.trim().is_empty()) {
            asked = true;
            match form(range) {
                Some(Form::Protobuf) => protobuf = true,
                Some(form) => return Ok(form),
                None => {}
            }
        }
    }
    if !asked {
        return Ok(Form::Json);
    }
    if protobuf { Ok(Form::Protobuf) } else { Err(not_acceptable()) }
}

/// 406, in the words of API servers.
pub(super) fn not_acceptable() -> Status {
    Status {
        details: serde_json::json!({}),
        ..Status::new(
            406,
            "NotAcceptable",
            "406: Not Acceptable\n\nAvailable representations: application/json, application/yaml, application/vnd.kubernetes.protobuf",
        )
    }
}

fn form(range: &str) -> Option<Form> {
    let mut parts = range.split(';').map(str::trim);
    let media = parts.next().unwrap_or_default();
    let parameters: Vec<(&str, &str)> = parts.filter_map(|part| part.split_once('=')).collect();
    let parameter = |name: &str| parameters.iter().find(|(have, _)| *have == name).map(|(_, value)| *value);
    let form = match media {
        "application/json" | "application/*" | "*/*" => Form::Json,
        "application/yaml" => Form::Yaml,
        "application/vnd.kubernetes.protobuf" => Form::Protobuf,
        _ => return None,
    };
    let meta = match parameter("v") {
        Some("v1beta1") => Meta::V1Beta1,
        _ => Meta::V1,
    };
    match (parameter("as"), parameter("g"), parameter("v")) {
        (None, ..) => Some(form),
        (Some("Table"), ..) if form == Form::Protobuf => None,
        (Some("Table"), Some("meta.k8s.io"), Some("v1" | "v1beta1")) => Some(Form::Table(meta)),
        (Some("PartialObjectMetadata" | "PartialObjectMetadataList"), Some("meta.k8s.io"), Some("v1"))
            if form == Form::Protobuf =>
        {
            Some(Form::ProtobufMetadata)
        }
        (Some("PartialObjectMetadata" | "PartialObjectMetadataList"), Some("meta.k8s.io"), Some("v1" | "v1beta1"))
            if form != Form::Protobuf =>
        {
            Some(Form::Metadata(meta))
        }
        (Some("APIGroupDiscoveryList"), Some("apidiscovery.k8s.io"), Some("v2")) => Some(Form::Discovery),
        _ => None,
    }
}

/// How a request body is encoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Encoding {
    Json,
    Yaml,
    Protobuf,
}

/// 415, in the words of API servers.
pub(super) fn unsupported_media_type() -> Status {
    Status { details: serde_json::json!({}), ..Status::new(415, "UnsupportedMediaType", "415: Unsupported Media Type") }
}

/// Media type of the body, without parameters.
pub(super) fn media_type(headers: &HeaderMap) -> &str {
    let text = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    text.split(';').next().unwrap_or_default().trim()
}

/// Encoding of the body of a create or update.
pub(super) fn encoding(headers: &HeaderMap) -> Result<Encoding, Status> {
    match media_type(headers) {
        "" | "application/json" | "*/*" => Ok(Encoding::Json),
        "application/yaml" => Ok(Encoding::Yaml),
        "application/vnd.kubernetes.protobuf" => Ok(Encoding::Protobuf),
        _ => Err(unsupported_media_type()),
    }
}

/// Reads a body as JSON or YAML. `row` is the kind that the path asks for.
pub(super) fn read_text(body: &Bytes, encoding: Encoding, row: &Resource) -> Result<Value, Status> {
    read_noting(body, encoding, row).map(|(value, _)| value)
}

/// [`read_text`], with what is there twice.
pub(super) fn read_noting(body: &Bytes, encoding: Encoding, row: &Resource) -> Result<(Value, Vec<String>), Status> {
    let unrecognised = |error: String| {
        let excerpt: String = String::from_utf8_lossy(body).chars().take(256).collect();
        Status::bad_request(format!(
            "the object provided is unrecognized (must be of type {}): couldn't get version/kind; {error} ({excerpt})",
            row.kind
        ))
    };
    let (value, twice): (Value, Vec<String>) = match encoding {
        Encoding::Yaml => yaml::read(body).map_err(|error| unrecognised(format!("yaml: {error}")))?,
        _ => duplicate_keys::read(body)
            .map_err(|error| unrecognised(format!("json parse error: {}", json_error(body, &error))))?,
    };
    if value.is_object() { Ok((value, twice)) } else { Err(unrecognised("not an object".to_owned())) }
}

/// The words of Go's JSON parser for the commonest mistakes.
pub(super) fn json_error(body: &[u8], error: &serde_json::Error) -> String {
    let offset = body
        .split_inclusive(|byte| *byte == b'\n')
        .take(error.line().saturating_sub(1))
        .map(<[u8]>::len)
        .sum::<usize>()
        + error.column().saturating_sub(1);
    if error.is_eof() {
        return "unexpected end of JSON input".to_owned();
    }
    let found = body.get(offset).map_or_else(String::new, |byte| format!("'{}'", char::from(*byte)));
    let text = error.to_string();
    let looking = if text.starts_with("key must be a string") {
        "looking for beginning of object key string"
    } else if text.starts_with("expected `:`") {
        "after object key"
    } else if text.starts_with("expected `,` or `}`") {
        "after object key:value pair"
    } else if text.starts_with("expected `,` or `]`") {
        "after array element"
    } else if text.starts_with("expected value") {
        "looking for beginning of value"
    } else {
        return text;
    };
    format!("invalid character {found} {looking}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use klab_api_machinery::resource::CONFIG_MAPS;

    fn accept(text: &'static str) -> Option<Form> {
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, http::HeaderValue::from_static(text));
        accepted(&headers).ok()
    }

    #[test]
    fn the_first_served_form_is_taken() {
        assert_eq!(accept("application/vnd.kubernetes.protobuf,application/json"), Some(Form::Json));
        assert_eq!(
            accept("application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io"),
            Some(Form::Table(Meta::V1))
        );
        assert_eq!(accept("application/json;as=Table;v=v1beta1;g=meta.k8s.io"), Some(Form::Table(Meta::V1Beta1)));
        assert_eq!(accept("application/vnd.kubernetes.protobuf"), Some(Form::Protobuf));
        assert_eq!(
            accept("application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"),
            Some(Form::ProtobufMetadata)
        );
        assert_eq!(accept("application/vnd.kubernetes.protobuf;as=Table;g=meta.k8s.io;v=v1"), None);
        assert_eq!(
            accept("application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json"),
            Some(Form::Json)
        );
        assert_eq!(accept("text/csv"), None);
        assert_eq!(accept("application/json;stream=watch"), Some(Form::Json));
        assert_eq!(accepted(&HeaderMap::new()).ok(), Some(Form::Json));
    }

    #[test]
    fn broken_json_is_described_as_go_does() {
        let error = read_text(&Bytes::from_static(b"{bad"), Encoding::Json, CONFIG_MAPS.row()).unwrap_err();
        assert_eq!(
            error.message,
            "the object provided is unrecognized (must be of type ConfigMap): couldn't get version/kind; json parse error: invalid character 'b' looking for beginning of object key string ({bad)"
        );
    }
}
