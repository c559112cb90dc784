//! What is in a cluster, of the kinds that are compared; and how single things are taken back.

use std::time::Duration;

use futures::stream::{self, StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::Node;
use kube::Client;
use kube::api::{Api, DeleteParams, DynamicObject, ListParams, Patch};
use kube::discovery::ApiResource;
use kube::runtime::{conditions, wait::await_condition};
use serde_json::{Value, json};

use super::change::{Change, Named, Objects};
use super::twin;
use crate::apply::patch_parameters;
use crate::client::cause;
use crate::error::{Context, Kind, Result};
use klab_cluster::resource::{Resource, ResourceId};

/// How long an object may take to go.
const GONE: Duration = Duration::from_mins(1);

/// How many lists are under way at once.
const CONCURRENCY: usize = 8;

/// The cluster's objects; kinds that it does not serve, or does not let be listed, count as empty.
///
/// # Errors
/// When the cluster does not answer.
pub async fn objects(client: &Client) -> Result<Objects> {
    let lists = twin::kinds().map(|kind| {
        let resource = api_resource(kind.row());
        let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
        async move {
            match api.list(&ListParams::default()).await {
                Ok(list) => Ok(list.items.into_iter().map(|object| with_kind(object, &resource)).collect()),
                Err(kube::Error::Api(status)) if matches!(status.code, 403 | 404) => Ok(Vec::new()),
                Err(error) => Err(cause(&error))
                    .kind(Kind::Outside, || format!("could not list the cluster's {}", resource.plural)),
            }
        }
    });
    let all: Vec<Vec<Value>> = stream::iter(lists).buffer_unordered(CONCURRENCY).try_collect().await?;
    Ok(all.into_iter().flatten().map(|object| (Named::of(&object), object)).collect())
}

/// How a kind is reached.
fn api_resource(row: &Resource) -> ApiResource {
    let api_version =
        if row.group.is_empty() { row.version.to_owned() } else { format!("{}/{}", row.group, row.version) };
    ApiResource {
        group: row.group.to_owned(),
        version: row.version.to_owned(),
        api_version,
        kind: row.kind.to_owned(),
        plural: row.plural.to_owned(),
    }
}

/// Items of lists do not say their kind.
fn with_kind(object: DynamicObject, resource: &ApiResource) -> Value {
    let mut value = serde_json::to_value(object).unwrap_or_default();
    value["kind"] = Value::from(resource.kind.as_str());
    value["apiVersion"] = Value::from(resource.api_version.as_str());
    value
}

/// Removes an object, and waits until it is gone; gives whether it was there.
///
/// # Errors
/// When the cluster refuses, or the object does not go.
pub async fn remove(client: &Client, object: &Named) -> Result<bool> {
    let what = || format!("could not remove {}", object.label());
    let Some(row) = twin::kinds().map(ResourceId::row).find(|row| row.kind == object.kind) else { return Ok(false) };
    let resource = api_resource(row);
    let api: Api<DynamicObject> = if row.namespaced {
        Api::namespaced_with(client.clone(), &object.namespace, &resource)
    } else {
        Api::all_with(client.clone(), &resource)
    };
    let uid = match api.delete(&object.name, &DeleteParams::background()).await {
        Err(kube::Error::Api(status)) if status.code == 404 => return Ok(false),
        Err(error) => return Err(cause(&error)).kind(Kind::Failed, what),
        Ok(deleted) => deleted.left().and_then(|object| object.metadata.uid),
    };
    if let Some(uid) = uid {
        let gone = await_condition(api, &object.name, conditions::is_deleted(&uid));
        let waited = tokio::time::timeout(GONE, gone).await;
        waited
            .map_err(anyhow::Error::new)
            .and_then(|gone| gone.map_err(anyhow::Error::new))
            .kind(Kind::Deadline, || {
                format!("{} is being deleted and not gone after {}", object.label(), klab_lab::words::duration(GONE))
            })?;
    }
    Ok(true)
}

/// Gives a node back the label, the taint or the cordon that the lab has.
///
/// # Errors
/// When the cluster refuses.
pub async fn restore_node(client: &Client, change: &Change) -> Result<()> {
    let name = change.object().name;
    let what = || format!("could not change node `{name}`");
    let api: Api<Node> = Api::all(client.clone());
    let patch = match change {
        Change::Label { key, wanted, .. } => json!({ "metadata": { "labels": { key: wanted } } }),
        Change::Cordon { found, .. } => {
            json!({ "spec": { "unschedulable": if *found { Value::Null } else { json!(true) } } })
        }
        Change::Taint { taint, found, .. } => {
            let node = api.get(&name).await.map_err(|error| cause(&error)).kind(Kind::Failed, what)?;
            let taints = node.spec.unwrap_or_default().taints.unwrap_or_default();
            let (rest, effect) = taint.rsplit_once(':').unwrap_or((taint, ""));
            let (key, value) = rest.split_once('=').map_or((rest, None), |(key, value)| (key, Some(value)));
            let is_meant = |one: &k8s_openapi::api::core::v1::Taint| one.key == key && one.effect == effect;
            let mut taints: Vec<Value> = taints.iter().filter(|one| !is_meant(one)).map(|one| json!(one)).collect();
            if !found {
                taints.push(json!({ "key": key, "value": value, "effect": effect }));
            }
            json!({ "spec": { "taints": taints } })
        }
        Change::New(_) | Change::Gone(_) | Change::Field { .. } => return Ok(()),
    };
    let patched = api.patch(&name, &patch_parameters(), &Patch::Merge(&patch)).await;
    patched.map(drop).map_err(|error| cause(&error)).kind(Kind::Failed, what)
}
