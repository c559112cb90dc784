//! Typed objects of a cluster: what its API server answers is read in the one way that every type has.

use std::borrow::Cow;

use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use klab_scheduler::typed::Typed;
use kube::api::{Api, ApiResource, GetParams, ListParams, PartialObjectMeta, PostParams};
use kube::core::{DynamicResourceScope, Request};
use kube::runtime::watcher::{self, Event};
use kube::{Client, Resource};
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use serde_json::value::RawValue;

/// The objects of a kind, of one namespace or of all.
///
/// # Errors
/// When the server refuses or does not answer.
pub async fn list<K: Typed + Resource<DynamicType = ()>>(
    client: &Client,
    namespace: Option<&str>,
    parameters: &ListParams,
) -> Result<Vec<K>, kube::Error> {
    let request = Request::new(K::url_path(&(), namespace)).list(parameters).map_err(kube::Error::BuildRequest)?;
    let text = items(client, request).await?;
    let list: List<'_> = serde_json::from_str(&text).map_err(kube::Error::SerdeError)?;
    let items = list.items.unwrap_or_default();
    items.into_iter().map(|item| K::from_json(item.get().as_bytes()).map_err(kube::Error::SerdeError)).collect()
}

#[derive(Deserialize)]
struct List<'a> {
    #[serde(borrow)]
    items: Option<Vec<&'a RawValue>>,
}

async fn items(client: &Client, mut request: http::Request<Vec<u8>>) -> Result<String, kube::Error> {
    // What kube's own client names the request in its log.
    request.extensions_mut().insert("list");
    client.request_text(request).await
}

/// An object by its name; none where there is none.
///
/// # Errors
/// When the server refuses or does not answer.
pub async fn find<K: Typed + Resource<DynamicType = ()>>(
    client: &Client,
    namespace: Option<&str>,
    name: &str,
) -> Result<Option<K>, kube::Error> {
    match get(client, namespace, name).await {
        Ok(object) => Ok(Some(object)),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
        Err(error) => Err(error),
    }
}

/// An object by its name.
///
/// # Errors
/// When the server refuses, has no such object or does not answer.
pub async fn get<K: Typed + Resource<DynamicType = ()>>(
    client: &Client,
    namespace: Option<&str>,
    name: &str,
) -> Result<K, kube::Error> {
    let request = Request::new(K::url_path(&(), namespace)).get(name, &GetParams::default());
    let mut request = request.map_err(kube::Error::BuildRequest)?;
    request.extensions_mut().insert("get");
    let text = client.request_text(request).await?;
    K::from_json(text.as_bytes()).map_err(kube::Error::SerdeError)
}

/// Makes an object.
///
/// # Errors
/// When the server refuses or does not answer.
pub async fn create<K: Resource<DynamicType = ()>>(
    client: &Client,
    namespace: Option<&str>,
    object: &Value,
) -> Result<(), kube::Error> {
    let body = serde_json::to_vec(object).map_err(kube::Error::SerdeError)?;
    let request = Request::new(K::url_path(&(), namespace)).create(&PostParams::default(), body);
    let mut request = request.map_err(kube::Error::BuildRequest)?;
    request.extensions_mut().insert("create");
    client.request_text(request).await.map(drop)
}

/// Where objects of a kind without namespaces are changed and deleted by somebody who does not look at what the server shows of them.
pub fn writer<K: Resource<DynamicType = ()>>(client: &Client) -> Api<PartialObjectMeta<K>> {
    Api::all(client.clone())
}

/// As [`writer`], of a namespace.
pub fn writer_in<K>(client: &Client, namespace: &str) -> Api<PartialObjectMeta<K>>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
{
    Api::namespaced(client.clone(), namespace)
}

/// Where all objects of a kind are watched.
pub fn watched<K: Resource<DynamicType = ()>>(client: &Client) -> Api<Watched> {
    Api::all_with(client.clone(), &ApiResource::erase::<K>(&()))
}

/// An object in a watch, whatever its kind: one machinery watches them all.
#[derive(Debug, Clone)]
pub struct Watched {
    metadata: ObjectMeta,
    json: Vec<u8>,
}

impl Watched {
    /// The object.
    ///
    /// # Errors
    /// When it is none of this type.
    pub fn typed<K: Typed>(&self) -> serde_json::Result<K> {
        K::from_json(&self.json)
    }

    /// What happened to it.
    ///
    /// # Errors
    /// When it is none of this type.
    pub fn event<K: Typed>(event: Event<Self>) -> Result<Event<K>, watcher::Error> {
        let typed =
            |object: Self| object.typed().map_err(|error| watcher::Error::WatchFailed(kube::Error::SerdeError(error)));
        Ok(match event {
            Event::Apply(object) => Event::Apply(typed(object)?),
            Event::Delete(object) => Event::Delete(typed(object)?),
            Event::Init => Event::Init,
            Event::InitApply(object) => Event::InitApply(typed(object)?),
            Event::InitDone => Event::InitDone,
        })
    }
}

impl<'de> Deserialize<'de> for Watched {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let object = Value::deserialize(deserializer)?;
        let read = ObjectMeta::from_value(&object["metadata"])
            .and_then(|metadata| Ok(Self { metadata, json: serde_json::to_vec(&object)? }));
        read.map_err(serde::de::Error::custom)
    }
}

impl Resource for Watched {
    type DynamicType = ApiResource;
    type Scope = DynamicResourceScope;

    fn kind(resource: &ApiResource) -> Cow<'_, str> {
        resource.kind.as_str().into()
    }

    fn group(resource: &ApiResource) -> Cow<'_, str> {
        resource.group.as_str().into()
    }

    fn version(resource: &ApiResource) -> Cow<'_, str> {
        resource.version.as_str().into()
    }

    fn plural(resource: &ApiResource) -> Cow<'_, str> {
        resource.plural.as_str().into()
    }

    fn api_version(resource: &ApiResource) -> Cow<'_, str> {
        resource.api_version.as_str().into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::core::v1::Node;
    use kube::api::WatchEvent;
    use serde_json::json;

    #[test]
    fn objects_are_listed_and_found() {
        let cluster = klab_cluster::Cluster::builder().nodes(2).build().unwrap();
        let runtime = crate::client::runtime().unwrap();
        runtime.block_on(async {
            let client = cluster.client();
            let nodes: Vec<Node> = list(&client, None, &ListParams::default()).await.unwrap();
            assert_eq!(nodes.len(), 2);
            let name = nodes[0].metadata.name.clone().unwrap();
            assert_eq!(find::<Node>(&client, None, &name).await.unwrap().as_ref(), Some(&nodes[0]));
            assert_eq!(find::<Node>(&client, None, "none").await.unwrap(), None);
            assert!(
                matches!(get::<Node>(&client, None, "none").await, Err(kube::Error::Api(status)) if status.code == 404)
            );
            let of_none = ListParams::default().labels("a=none");
            assert_eq!(list::<Node>(&client, None, &of_none).await.unwrap(), Vec::new());
        });
    }

    #[test]
    fn watched_objects_are_read_whatever_stands_first() {
        let node = json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": "n", "resourceVersion": "4" } });
        for text in
            [format!("{{\"type\":\"ADDED\",\"object\":{node}}}"), format!("{{\"object\":{node},\"type\":\"ADDED\"}}")]
        {
            let WatchEvent::Added(object) = serde_json::from_str::<WatchEvent<Watched>>(&text).unwrap() else {
                panic!("{text}")
            };
            assert_eq!(object.meta().resource_version.as_deref(), Some("4"));
            assert_eq!(object.typed::<Node>().unwrap(), Node::from_value(&node).unwrap());
            assert!(object.typed::<k8s_openapi::api::core::v1::Pod>().is_err());
        }
        assert!(serde_json::from_str::<Watched>("{\"metadata\":3}").is_err());
    }
}
