//! Objects and lists in the form the client asked for.

use std::fmt::Write;
use std::sync::Arc;

use bytes::Bytes;
use http::Response;
use klab_api_machinery::object::Object;
use klab_api_machinery::protobuf;
use klab_api_machinery::resource::ResourceId;
use klab_api_machinery::status::Status;
use klab_api_machinery::table::Included;
use serde_json::{Value, json};

use super::call::{Call, Target};
use super::negotiate::{self, Form};
use super::table::table;
use super::{answer, versions};
use crate::body::Body;

/// What a list answer says besides its items.
#[derive(Debug, Default)]
pub(super) struct ListMetadata {
    pub(super) version: u64,
    pub(super) more: Option<String>,
    pub(super) remaining: Option<usize>,
}

impl ListMetadata {
    /// `{"resourceVersion":"7","continue":"…","remainingItemCount":2}`
    pub(super) fn to_text(&self) -> String {
        let mut text = format!("{{\"resourceVersion\":\"{}\"", self.version);
        if let Some(more) = &self.more {
            let _ = write!(text, ",\"continue\":\"{more}\"");
        }
        if let Some(remaining) = self.remaining {
            let _ = write!(text, ",\"remainingItemCount\":{remaining}");
        }
        text.push('}');
        text
    }
}

/// `{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":…}`
pub(super) fn partial(object: &Object) -> String {
    format!(
        "{{\"kind\":\"PartialObjectMetadata\",\"apiVersion\":\"meta.k8s.io/v1\",\"metadata\":{}}}",
        object.metadata_text()
    )
}

impl Call<'_> {
    pub(super) fn form(&self) -> Result<Form, Status> {
        negotiate::accepted(&self.parts.headers)
    }

    /// Which part of each object a Table's rows carry.
    pub(super) fn included(&self) -> Result<Included, Status> {
        match self.query.get("includeObject") {
            None | Some("Metadata") => Ok(Included::Metadata),
            Some("Object") => Ok(Included::Object),
            Some("None") => Ok(Included::None),
            Some(other) => Err(Status::bad_request(format!("unrecognized includeObject value: {other:?}"))),
        }
    }

    /// Objects in the version that is asked for, where a webhook converts them.
    pub(super) fn shown(&self, resource: ResourceId, objects: Vec<Arc<Object>>) -> Result<Vec<Arc<Object>>, Status> {
        self.cluster().in_version(self.pending_webhooks, resource, objects)
    }

    /// One object.
    pub(super) fn object(&self, code: u16, target: &Target, object: &Arc<Object>) -> Result<Response<Body>, Status> {
        let resource = target.resource;
        let shown = self.shown(resource, vec![Arc::clone(object)])?;
        let object: &Object = shown.first().unwrap_or(object);
        let text = || versions::text(self.cluster(), resource, object);
        Ok(match self.form()? {
            Form::Json | Form::Discovery => answer::json_line(code, text()),
            Form::Yaml => answer::yaml_value(code, &serde_json::from_slice::<Value>(&text()).unwrap_or_default()),
            Form::Metadata(meta) => answer::json_line(code, meta.of(partial(object))),
            Form::ProtobufMetadata => answer::protobuf(code, protobuf::encode_partial(&object.whole()["metadata"])),
            Form::Protobuf => {
                let value: Value = serde_json::from_slice(&text()).unwrap_or_default();
                answer::protobuf(code, protobuf::encode(&value).ok_or_else(negotiate::not_acceptable)?)
            }
            Form::Table(meta) => {
                let metadata = format!("{{\"resourceVersion\":\"{}\"}}", object.resource_version);
                let now = self.cluster().now();
                answer::json_line(
                    code,
                    meta.of(table(self.cluster(), resource, &metadata, &[object], self.included()?, true, now)),
                )
            }
        })
    }

    /// Many objects.
    pub(super) fn objects(
        &self,
        resource: ResourceId,
        metadata: &ListMetadata,
        items: Vec<Arc<Object>>,
    ) -> Result<Response<Body>, Status> {
        let items = self.shown(resource, items)?;
        let row = resource.row();
        let metadata = metadata.to_text();
        let head = format!(
            "{{\"kind\":\"{}List\",\"apiVersion\":\"{}\",\"metadata\":{metadata},\"items\":[",
            row.kind,
            row.api_version()
        );
        Ok(match self.form()? {
            Form::Json | Form::Discovery if row.stored_as.is_none() && !row.custom => {
                answer::json_body(200, Body::list(head, items, "]}\n"))
            }
            Form::Json | Form::Discovery => {
                let texts: Vec<Bytes> =
                    items.iter().map(|object| versions::text(self.cluster(), resource, object)).collect();
                answer::json_line(200, joined(&head, texts.iter().map(Bytes::as_ref)))
            }
            Form::Yaml => {
                let values: Vec<Value> = items
                    .iter()
                    .map(|object| {
                        serde_json::from_slice(&versions::text(self.cluster(), resource, object)).unwrap_or_default()
                    })
                    .collect();
                let list = json!({
                    "kind": format!("{}List", row.kind), "apiVersion": row.api_version(),
                    "metadata": serde_json::from_str::<Value>(&metadata).unwrap_or_default(), "items": values,
                });
                answer::yaml_value(200, &list)
            }
            Form::ProtobufMetadata => {
                let values: Vec<Value> = items.iter().map(|object| object.whole()).collect();
                let metadata = serde_json::from_str(&metadata).unwrap_or_default();
                let parts = values.iter().map(|value| &value["metadata"]);
                answer::protobuf(200, protobuf::encode_partial_list(&metadata, parts))
            }
            Form::Protobuf => {
                let values: Vec<Value> = items
                    .iter()
                    .map(|object| {
                        serde_json::from_slice(&versions::text(self.cluster(), resource, object)).unwrap_or_default()
                    })
                    .collect();
                let metadata = serde_json::from_str(&metadata).unwrap_or_default();
                let list = protobuf::encode_list(&row.api_version(), row.kind, &metadata, &values);
                answer::protobuf(200, list.ok_or_else(negotiate::not_acceptable)?)
            }
            Form::Metadata(meta) => {
                let head = format!(
                    "{{\"kind\":\"PartialObjectMetadataList\",\"apiVersion\":\"meta.k8s.io/v1\",\"metadata\":{metadata},\"items\":["
                );
                let texts: Vec<String> = items.iter().map(|object| partial(object)).collect();
                let text = String::from_utf8(joined(&head, texts.iter().map(String::as_bytes))).unwrap_or_default();
                answer::json_line(200, meta.of(text))
            }
            Form::Table(meta) => {
                let rows: Vec<&Object> = items.iter().map(Arc::as_ref).collect();
                let now = self.cluster().now();
                answer::json_line(
                    200,
                    meta.of(table(self.cluster(), resource, &metadata, &rows, self.included()?, true, now)),
                )
            }
        })
    }
}

fn joined<'a>(head: &str, items: impl Iterator<Item = &'a [u8]>) -> Vec<u8> {
    let mut text = Vec::from(head);
    for (at, item) in items.enumerate() {
        if at > 0 {
            text.push(b',');
        }
        text.extend_from_slice(item);
    }
    text.extend_from_slice(b"]}");
    text
}
