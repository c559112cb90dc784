//! The text of an object: its fields in the order of API servers, and where the list of its managers stands in it.

use bytes::Bytes;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::managed_fields::ManagedFields;
use crate::resource::ResourceId;

/// Fields of metadata in the order API servers write them; readers of raw answers see the same text.
const METADATA_ORDER: &[&str] = &[
    "name",
    "generateName",
    "namespace",
    "selfLink",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "labels",
    "annotations",
    "ownerReferences",
    "finalizers",
];

/// The name in an object's metadata.
const NAME: &str = "\"name\":";
/// What stands between the other fields of metadata and the list of managers.
pub(super) const MANAGED: &str = ",\"managedFields\":";

const MANAGED_FIELDS_ORDER: &[&str] =
    &["manager", "operation", "apiVersion", "time", "fieldsType", "fieldsV1", "subresource"];

/// A list of managers as text, in the order of API servers; none of an empty one.
pub(super) fn managed_text(resource: ResourceId, list: &Value) -> Option<String> {
    let list = list.as_array().filter(|list| !list.is_empty())?;
    if resource.row().custom {
        return serde_json::to_string(list).ok();
    }
    let mut text = vec![b'['];
    for (at, entry) in list.iter().enumerate() {
        if at > 0 {
            text.push(b',');
        }
        ordered(&mut text, entry, MANAGED_FIELDS_ORDER);
    }
    text.push(b']');
    String::from_utf8(text).ok()
}

/// The metadata in the text of an object.
pub(super) fn metadata_of(json: &[u8]) -> Option<&str> {
    #[derive(serde::Deserialize)]
    struct Outline<'a> {
        #[serde(borrow)]
        metadata: &'a RawValue,
    }
    serde_json::from_slice::<Outline<'_>>(json).ok().map(|outline| outline.metadata.get())
}

/// Where managers are to stand in the text of an object.
pub(super) fn place_of_managed(resource: ResourceId, json: &[u8]) -> u32 {
    let Some(metadata) = metadata_of(json) else { return 0 };
    let start = metadata.as_ptr().addr() - json.as_ptr().addr();
    let name = resource.row().custom.then(|| first_behind_managed(metadata)).flatten();
    u32::try_from(start + name.unwrap_or(metadata.len().saturating_sub(1))).unwrap_or_default()
}

/// Where the first field begins in sorted metadata that comes after `managedFields`.
fn first_behind_managed(metadata: &str) -> Option<usize> {
    #[derive(serde::Deserialize)]
    struct Names<'a> {
        #[serde(borrow)]
        name: Option<&'a RawValue>,
    }
    let name = serde_json::from_str::<Names<'_>>(metadata).ok()?.name?.get();
    let value = name.as_ptr().addr() - metadata.as_ptr().addr();
    metadata[..value].ends_with(NAME).then(|| value - NAME.len())
}

/// The text of an object without its managers, and these, if there are any and they stand where this program writes them.
pub(super) fn taken_apart(text: &Bytes) -> Option<(Bytes, ManagedFields)> {
    #[derive(serde::Deserialize)]
    struct Outline<'a> {
        #[serde(borrow)]
        metadata: Metadata<'a>,
    }
    #[derive(serde::Deserialize)]
    struct Metadata<'a> {
        #[serde(borrow, rename = "managedFields")]
        managed: Option<&'a RawValue>,
    }
    let outline: Outline<'_> = serde_json::from_slice(text).ok()?;
    let managed = outline.metadata.managed?.get();
    let from = managed.as_ptr().addr() - text.as_ptr().addr();
    let head = text.get(..from)?.strip_suffix(MANAGED.as_bytes())?;
    let rest = text.get(from + managed.len()..).filter(|rest| rest.first() == Some(&b'}'))?;
    Some((Bytes::from([head, rest].concat()), ManagedFields::of(managed)))
}

/// Writes `kind`, `apiVersion`, `metadata`, then the rest, and tells where the metadata ends; [`Object::start_without_type`]
/// relies on the first two.
pub(super) fn encode(resource: ResourceId, value: &Value) -> (Bytes, u32) {
    let row = resource.row();
    if row.custom {
        return encode_sorted(resource, value);
    }
    let mut text = Vec::with_capacity(4096);
    text.extend_from_slice(br#"{"kind":""#);
    text.extend_from_slice(row.kind.as_bytes());
    text.extend_from_slice(br#"","apiVersion":""#);
    if !row.group.is_empty() {
        text.extend_from_slice(row.group.as_bytes());
        text.push(b'/');
    }
    text.extend_from_slice(row.version.as_bytes());
    text.extend_from_slice(br#"","metadata":"#);
    ordered(&mut text, &value["metadata"], METADATA_ORDER);
    let managed_at = u32::try_from(text.len() - 1).unwrap_or_default();
    for (field, value) in value.as_object().into_iter().flatten() {
        if !matches!(field.as_str(), "kind" | "apiVersion" | "metadata") {
            text.push(b',');
            write_value(&mut text, field);
            text.push(b':');
            write_value(&mut text, value);
        }
    }
    text.push(b'}');
    // Most objects are much smaller than the room that was made, and they stay for long.
    (Bytes::copy_from_slice(&text), managed_at)
}

/// Writes a custom resource, whose fields are sorted: for API servers it is a map.
fn encode_sorted(resource: ResourceId, value: &Value) -> (Bytes, u32) {
    let row = resource.row();
    let mut text = Vec::with_capacity(1024);
    let (kind, version) = (Value::from(row.kind), Value::from(row.api_version()));
    let mut fields: Vec<(&str, &Value)> =
        value.as_object().into_iter().flatten().map(|(field, value)| (field.as_str(), value)).collect();
    fields.retain(|(field, _)| !matches!(*field, "kind" | "apiVersion"));
    fields.extend([("kind", &kind), ("apiVersion", &version)]);
    fields.sort_unstable_by_key(|(field, _)| *field);
    text.push(b'{');
    for (at, (field, value)) in fields.into_iter().enumerate() {
        if at > 0 {
            text.push(b',');
        }
        write_value(&mut text, field);
        text.push(b':');
        if field == "metadata" { ordered(&mut text, value, &[]) } else { write_value(&mut text, value) }
    }
    text.push(b'}');
    let managed_at = place_of_managed(resource, &text);
    (text.into(), managed_at)
}

/// Writes a JSON object with the fields of `order` first, then what else there is but for managers.
fn ordered(text: &mut Vec<u8>, value: &Value, order: &[&str]) {
    let Some(map) = value.as_object() else { return text.extend_from_slice(b"{}") };
    let first = order.iter().filter_map(|field| map.get_key_value(*field));
    let rest = map.iter().filter(|(field, _)| !order.contains(&field.as_str()) && *field != "managedFields");
    text.push(b'{');
    for (at, (field, value)) in first.chain(rest).enumerate() {
        if at > 0 {
            text.push(b',');
        }
        write_value(text, field);
        text.push(b':');
        write_value(text, value);
    }
    text.push(b'}');
}

fn write_value<T: serde::Serialize + ?Sized>(text: &mut Vec<u8>, value: &T) {
    let start = text.len();
    // Strings and trees of strings always serialise.
    if serde_json::to_writer(&mut *text, value).is_err() {
        text.truncate(start);
        text.extend_from_slice(b"null");
    }
}
