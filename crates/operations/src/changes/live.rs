//! What is in a cluster, of the kinds that are compared.

use futures::stream::{self, StreamExt, TryStreamExt};
use klab_api_machinery::resource::Resource;
use kube::Client;
use kube::api::{Api, DynamicObject, ListParams};
use kube::discovery::ApiResource;
use serde_json::Value;

use super::change::{Named, Objects};
use super::twin;
use crate::client::cause;
use crate::error::{Code, Context, Result};

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
                    .code(Code::NoAnswer, || format!("could not list the cluster's {}", resource.plural)),
            }
        }
    });
    let all: Vec<Vec<Value>> = stream::iter(lists).buffer_unordered(CONCURRENCY).try_collect().await?;
    Ok(all.into_iter().flatten().map(|object| (Named::of(&object), object)).collect())
}

/// How a kind is reached.
fn api_resource(row: &Resource) -> ApiResource {
    ApiResource {
        group: row.group.to_owned(),
        version: row.version.to_owned(),
        api_version: row.api_version(),
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
