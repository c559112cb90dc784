//! Conversion of custom resources between versions: by name alone, or by a webhook that the definition names.

// upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/apiserver/conversion/{converter,webhook_converter}.go (v1.36)

use std::time::Duration;

use bytes::Bytes;
use klab_api_machinery::custom::Definition;
use klab_api_machinery::go_text::go_type;
use klab_api_machinery::validation::{Errors, metadata};
use klab_api_machinery::views::WebhookClientConfig;
use ring::digest::{SHA256, digest};
use serde_json::{Map, Value, json};

use crate::client_config::ClientConfig;
use crate::webhook::{Call, CallError};

/// How long a webhook may take.
const TIMEOUT: Duration = Duration::from_secs(30);
/// The group of the reviews.
const GROUP: &str = "apiextensions.k8s.io";
/// What of an object a conversion cannot change and hardly looks at: objects that differ in nothing else are converted
/// once in a request.
const VOLATILE: [&str; 6] =
    ["resourceVersion", "generation", "managedFields", "finalizers", "deletionTimestamp", "deletionGracePeriodSeconds"];

/// The webhook of a definition.
#[derive(Debug, Clone)]
pub(crate) struct Webhook {
    pub(crate) client: ClientConfig,
    /// The version of reviews that both know.
    review: Option<&'static str>,
}

impl Webhook {
    /// The webhook of a definition; none where versions differ by their names alone.
    pub(crate) fn of(definition: &Definition) -> Option<Self> {
        let conversion = definition.conversion.as_ref()?;
        let known = |version: &Value| ["v1", "v1beta1"].into_iter().find(|known| version == known);
        let versions = conversion["webhook"]["conversionReviewVersions"].as_array().into_iter().flatten();
        Some(Self {
            client: ClientConfig::read(WebhookClientConfig(&conversion["webhook"]["clientConfig"])),
            review: versions.into_iter().find_map(known),
        })
    }

    /// The question for these objects in the version `to`.
    ///
    /// # Errors
    /// When the webhook takes no reviews that there are.
    pub(crate) fn ask(&self, address: Option<String>, to: &str, objects: Vec<Value>) -> Result<Question, String> {
        let review = self.review.ok_or("no supported conversion review versions")?;
        let sent: Vec<Value> = objects.iter().map(without_version).collect();
        let uid = uid(&json!([to, sent]).to_string());
        let body = json!({
            "kind": "ConversionReview", "apiVersion": format!("{GROUP}/{review}"),
            "request": { "uid": uid, "desiredAPIVersion": to, "objects": sent },
        });
        let call = self.client.call(address, TIMEOUT, Bytes::from(body.to_string()));
        Ok(Question { call, review, uid, to: to.to_owned(), objects })
    }
}

/// Objects as they are asked about: in storage they have no version.
fn without_version(object: &Value) -> Value {
    let mut sent = object.clone();
    if let Some(metadata) = sent["metadata"].as_object_mut() {
        metadata.remove("resourceVersion");
    }
    sent
}

/// A uid that equal questions have in common, so that to ask draws none of the cluster's random numbers.
fn uid(text: &str) -> String {
    let digest = digest(&SHA256, text.as_bytes());
    let hex: String = digest.as_ref().iter().take(16).map(|byte| format!("{byte:02x}")).collect();
    let part = |from: usize, to: usize| hex.get(from..to).unwrap_or_default().to_owned();
    format!("{}-{}-4{}-8{}-{}", part(0, 8), part(8, 12), part(13, 16), part(17, 20), part(20, 32))
}

/// By what an object is found again that was converted for a request. `definition` is its resourceVersion.
pub(crate) fn key(definition: u64, to: &str, object: &Value) -> String {
    let mut same = object.clone();
    if let Some(metadata) = same["metadata"].as_object_mut() {
        metadata.retain(|field, _| !VOLATILE.contains(&field.as_str()));
    }
    format!("{definition} {to} {same}")
}

/// `example.com/v1, Kind=Widget`
fn title(object: &Value) -> String {
    let text = |field: &str| object[field].as_str().unwrap_or_default();
    format!("{}, Kind={}", text("apiVersion"), text("kind"))
}

/// A failure of the webhook of this object.
pub(crate) fn failed(object: &Value, because: &str) -> String {
    format!("conversion webhook for {} failed: {because}", title(object))
}

/// The failure to reach a webhook.
pub(crate) fn unreached(object: &Value, call: &Call, because: &str) -> String {
    failed(object, &format!("Post \"{}\": {because}", call.url))
}

/// What a webhook is asked.
#[derive(Debug)]
pub(crate) struct Question {
    pub(crate) call: Call,
    review: &'static str,
    uid: String,
    to: String,
    objects: Vec<Value>,
}

impl Question {
    /// Reads the answer: as many objects as were asked about.
    ///
    /// # Errors
    /// Why it is none, in the words of API servers.
    pub(crate) fn read(self, answer: Result<Bytes, CallError>) -> Result<Vec<Value>, String> {
        let first = self.objects.first().unwrap_or(&Value::Null);
        let body = match answer {
            Ok(body) => body,
            Err(CallError::Unreachable(because)) => return Err(unreached(first, &self.call, &because)),
            Err(CallError::Unreadable(because)) => return Err(failed(first, &because)),
        };
        let converted = self.converted(&body).map_err(|because| failed(first, &because))?;
        let expected = self.objects.len();
        if converted.len() != expected {
            let webhook = format!("conversion webhook for {}", title(first));
            return Err(format!("{webhook} returned {} objects, expected {expected}", converted.len()));
        }
        let mut good = Vec::with_capacity(expected);
        for (at, (original, converted)) in self.objects.iter().zip(converted).enumerate() {
            good.push(self.check(at, original, converted)?);
        }
        Ok(good)
    }

    /// // upstream: getConvertedObjectsFromResponse
    fn converted(&self, body: &[u8]) -> Result<Vec<Value>, String> {
        let mut review: Value = serde_json::from_slice(body)
            .map_err(|error| format!("couldn't get version/kind; json parse error: {error}"))?;
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (version, kind) = (text(&review["apiVersion"]), text(&review["kind"]));
        let response = review["response"].take();
        if self.review == "v1" {
            let wanted = format!("{GROUP}/v1");
            if version != wanted || kind != "ConversionReview" {
                return Err(format!(
                    "expected webhook response of {wanted}, Kind=ConversionReview, got {version}, Kind={kind}"
                ));
            }
            if !response.is_object() {
                return Err("no response provided".to_owned());
            }
            if response["uid"] != self.uid.as_str() {
                return Err(format!(
                    "expected response.uid={}, got {}",
                    json!(self.uid),
                    json!(text(&response["uid"]))
                ));
            }
        } else if !response.is_object() {
            return Err("no response provided".to_owned());
        }
        let result = &response["result"];
        if result["status"] != "Success" {
            return Err(match result["message"].as_str().filter(|message| !message.is_empty()) {
                Some(message) => message.chars().take(1000).collect(),
                None => format!("response.result.status was '{}', not 'Success'", text(&result["status"])),
            });
        }
        Ok(response["convertedObjects"].as_array().cloned().unwrap_or_default())
    }

    /// An object of the answer, with the metadata that it had but for labels and annotations.
    fn check(&self, at: usize, original: &Value, converted: Value) -> Result<Value, String> {
        let webhook = format!("conversion webhook for {}", title(original));
        let object = if self.objects.len() > 1 { "converted object" } else { "object" };
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let bad = |because: String| format!("{webhook} returned invalid {object} at index {at}: {because}");
        let kind = text(&converted["kind"]);
        if kind.is_empty() {
            return Err(bad(format!("Object 'Kind' is missing in '{}'", short(&converted))));
        }
        let version = text(&converted["apiVersion"]);
        if version != self.to {
            return Err(bad(format!("invalid groupVersion (expected {}, received {version})", self.to)));
        }
        if kind != text(&original["kind"]) {
            return Err(bad(format!("invalid kind (expected {}, received {kind})", text(&original["kind"]))));
        }
        // Of one object upstream leaves the place out here.
        let place =
            if self.objects.len() > 1 { format!("converted object at index {at}") } else { "object".to_owned() };
        for (field, called) in [("name", "name"), ("namespace", "namespace"), ("uid", "UID")] {
            let (had, has) = (text(&original["metadata"][field]), text(&converted["metadata"][field]));
            if had != has {
                return Err(format!("{webhook} returned invalid {place}: must have the same {called}: {had} != {has}"));
            }
        }
        let place = if self.objects.len() > 1 { format!(" in object at index {at}") } else { String::new() };
        restore(original, converted).map_err(|because| format!("{webhook} returned invalid metadata{place}: {because}"))
    }
}

fn short(value: &Value) -> String {
    value.to_string().chars().take(200).collect()
}

/// The metadata of `original` with the labels and annotations of `converted`.
///
/// // upstream: restoreObjectMeta
pub(crate) fn restore(original: &Value, mut converted: Value) -> Result<Value, String> {
    let given = match converted.get_mut("metadata") {
        None => return Err("missing metadata in converted object".to_owned()),
        Some(Value::Object(given)) => std::mem::take(given),
        Some(other) => return Err(format!("invalid metadata of type {} in converted object", go_type(other))),
    };
    let mut kept: Map<String, Value> = original["metadata"].as_object().cloned().unwrap_or_default();
    for field in ["labels", "annotations"] {
        let had = kept.remove(field);
        let texts = match given.get(field) {
            None | Some(Value::Null) => continue,
            Some(Value::Object(texts)) => texts,
            Some(other) => {
                return Err(format!("invalid metadata.{field} of type {} in converted object", go_type(other)));
            }
        };
        if let Some((key, value)) = texts.iter().find(|(_, value)| !value.is_string()) {
            let kind = go_type(value);
            return Err(format!("metadata.{field}[{key}] must be a string, but is {kind} in converted object"));
        }
        if had.as_ref().and_then(Value::as_object) != Some(texts) {
            let mut errors = Errors::default();
            metadata::check_texts(field, &Value::Object(texts.clone()), &mut errors);
            match errors.texts().as_slice() {
                [] => {}
                [only] => return Err(only.clone()),
                many => return Err(format!("[{}]", many.join(", "))),
            }
        }
        kept.insert(field.to_owned(), Value::Object(texts.clone()));
    }
    converted["metadata"] = Value::Object(kept);
    Ok(converted)
}
