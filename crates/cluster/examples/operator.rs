//! A small operator written with kube-rs, and a cluster to try it in. `tests/operator.rs` tests it.
//!
//! A Website is run by a Deployment that it owns, and is listed in the ConfigMap `hosts`, which belongs to nobody: a finalizer
//! takes it off the list.
//!
//!     cargo run -p klab-cluster --features client --example operator
#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{ApiResource, DeleteParams, GroupVersionKind, Patch, PatchParams, PostParams};
use kube::core::Object;
use kube::runtime::controller::Action;
use kube::runtime::finalizer::{self, Event, finalizer};
use kube::runtime::wait::{await_condition, conditions};
use kube::runtime::{Controller, watcher};
use kube::{Api, Client, Resource, ResourceExt};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// What a user wants.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct WebsiteSpec {
    pub(crate) image: String,
    pub(crate) replicas: i32,
}

/// What there is.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct WebsiteStatus {
    pub(crate) ready: i32,
    /// Why it is not as wanted.
    pub(crate) message: Option<String>,
}

/// With the feature `derive` of kube this would be `#[derive(CustomResource)]`.
pub(crate) type Website = Object<WebsiteSpec, WebsiteStatus>;

const MANAGER: &str = "website-operator";
const FINALIZER: &str = "example.com/hosts";

/// Where Websites are served.
pub(crate) fn resource() -> ApiResource {
    ApiResource::from_gvk(&GroupVersionKind::gvk("example.com", "v1", "Website"))
}

/// The CustomResourceDefinition of Websites.
pub(crate) fn definition() -> Value {
    let spec = json!({
        "type": "object", "required": ["image", "replicas"],
        "properties": { "image": { "type": "string" }, "replicas": { "type": "integer" } },
    });
    let status = json!({
        "type": "object",
        "properties": { "ready": { "type": "integer" }, "message": { "type": "string", "nullable": true } },
    });
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": "websites.example.com" },
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": { "kind": "Website", "plural": "websites" },
            "versions": [{
                "name": "v1", "served": true, "storage": true, "subresources": { "status": {} },
                "schema": { "openAPIV3Schema": { "type": "object", "properties": { "spec": spec, "status": status } } },
            }],
        },
    })
}

/// The list of all Websites.
pub(crate) fn hosts() -> Value {
    json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "hosts", "namespace": "default" } })
}

pub(crate) fn website(name: &str, replicas: i32) -> Website {
    Website::new(name, &resource(), WebsiteSpec { image: "nginx:1.27".to_owned(), replicas }).within("default")
}

pub(crate) fn websites(client: &Client) -> Api<Website> {
    Api::namespaced_with(client.clone(), "default", &resource())
}

/// Runs the operator until it is dropped.
pub(crate) async fn run(client: Client) {
    let websites = Api::all_with(client.clone(), &resource());
    let deployments: Api<Deployment> = Api::all(client.clone());
    Controller::new_with(websites, watcher::Config::default(), resource())
        .owns(deployments, watcher::Config::default())
        .run(reconcile, |_, _, _| Action::requeue(Duration::from_secs(1)), Arc::new(client))
        .for_each(|_| std::future::ready(()))
        .await;
}

async fn reconcile(website: Arc<Website>, client: Arc<Client>) -> Result<Action, finalizer::Error<kube::Error>> {
    let namespace = website.namespace().unwrap_or_default();
    let api: Api<Website> = Api::namespaced_with(Client::clone(&client), &namespace, &resource());
    finalizer(&api, FINALIZER, website, async |event| match event {
        Event::Apply(website) => apply(&website, &client, &api).await,
        Event::Cleanup(website) => list_host(&website, &client, None).await.map(|()| Action::await_change()),
    })
    .await
}

async fn apply(website: &Website, client: &Client, api: &Api<Website>) -> Result<Action, kube::Error> {
    let name = website.name_any();
    list_host(website, client, Some(&format!("{name}.example.com"))).await?;
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), &website.namespace().unwrap_or_default());
    // Without force: what somebody else has taken over is theirs, and the user is told.
    let wanted = Patch::Apply(deployment(website));
    let status = match deployments.patch(&name, &PatchParams::apply(MANAGER), &wanted).await {
        Ok(deployment) => {
            let ready = deployment.status.and_then(|status| status.ready_replicas).unwrap_or_default();
            WebsiteStatus { ready, message: None }
        }
        Err(kube::Error::Api(conflict)) if conflict.code == 409 => {
            WebsiteStatus { ready: 0, message: Some(conflict.message.clone()) }
        }
        Err(error) => return Err(error),
    };
    let status = Patch::Merge(json!({ "status": status }));
    api.patch_status(&name, &PatchParams::default(), &status).await?;
    Ok(Action::await_change())
}

/// Puts the website on the list of hosts, or takes it off.
async fn list_host(website: &Website, client: &Client, host: Option<&str>) -> Result<(), kube::Error> {
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), "default");
    let data = Patch::Merge(json!({ "data": { website.name_any(): host } }));
    maps.patch("hosts", &PatchParams::default(), &data).await.map(drop)
}

fn deployment(website: &Website) -> Value {
    let name = website.name_any();
    let labels = json!({ "website": name });
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": { "name": name, "ownerReferences": [website.controller_owner_ref(&resource())] },
        "spec": {
            "replicas": website.spec.replicas, "selector": { "matchLabels": labels },
            "template": {
                "metadata": { "labels": labels },
                "spec": { "containers": [{ "name": "web", "image": website.spec.image }] },
            },
        },
    })
}

/// Whether so many pods of a website are ready.
pub(crate) fn has_ready(count: i32) -> impl Fn(Option<&Website>) -> bool {
    move |website| {
        let status = website.and_then(|website| website.status.as_ref());
        status.is_some_and(|status| status.ready == count && status.message.is_none())
    }
}

/// tokio's clock is paused: timers of the operator fire as soon as there is nothing else to do.
#[tokio::main(flavor = "current_thread", start_paused = true)]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let cluster = klab_cluster::Cluster::builder().nodes(2).objects([definition(), hosts()]).build()?;
    let client = cluster.client();
    let operator = tokio::spawn(run(client.clone()));

    let websites = websites(&client);
    let made = websites.create(&PostParams::default(), &website("shop", 3)).await?;
    await_condition(websites.clone(), "shop", has_ready(3)).await?;
    println!("shop has 3 pods that are ready");

    websites.delete("shop", &DeleteParams::default()).await?;
    await_condition(websites.clone(), "shop", conditions::is_deleted(&made.uid().unwrap_or_default())).await?;
    let left = Api::<Deployment>::default_namespaced(client).get_opt("shop").await?;
    println!("shop is gone, {}", if left.is_none() { "and so is its deployment" } else { "its deployment is not" });
    operator.abort();
    Ok(())
}
