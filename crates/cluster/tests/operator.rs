//! The operator of `examples/operator.rs`, tested: what it makes, what it tidies up, and how it copes with refusals.
//!
//! tokio's clock is paused in each test, so that back-off and requeues of the operator take no time; the cluster's own time
//! is stepped.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on must stop, and says where")]

#[expect(dead_code, reason = "an example has a `main`")]
#[path = "../examples/operator.rs"]
mod operator;

use std::sync::LazyLock;
use std::time::Duration;

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod};
use klab_cluster::{Cluster, Fault, HEARTBEAT_ANNOTATION, Snapshot, Verb};
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::runtime::wait::{Condition, await_condition, conditions};
use kube::{Client, Resource, ResourceExt};
use serde_json::json;

use operator::{Website, definition, has_ready, hosts, run, website, websites};

/// Two nodes and the kinds that the operator knows: made once, and the beginning of each test.
static WORLD: LazyLock<Snapshot> = LazyLock::new(|| {
    let cluster = Cluster::builder().nodes(2).objects([definition(), hosts()]).build();
    cluster.unwrap().snapshot()
});

/// Waits in tokio's paused time: a minute in which nothing happens is over at once.
async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_mins(1), future).await.unwrap_or_else(|_| panic!("never happened: {what}"))
}

async fn becomes(client: &Client, name: &str, wanted: impl Condition<Website>) -> Website {
    let waited = soon("the condition", await_condition(websites(client), name, wanted)).await;
    waited.unwrap().unwrap()
}

async fn create(client: &Client, name: &str, replicas: i32) -> Website {
    websites(client).create(&PostParams::default(), &website(name, replicas)).await.unwrap()
}

async fn patch(client: &Client, name: &str, patch: serde_json::Value) {
    websites(client).patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
}

async fn names<K>(client: &Client) -> Vec<String>
where
    K: Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope> + Clone + std::fmt::Debug,
    K: serde::de::DeserializeOwned,
{
    let list = Api::<K>::default_namespaced(client.clone()).list(&ListParams::default()).await.unwrap();
    list.items.iter().map(ResourceExt::name_any).collect()
}

async fn listed(client: &Client) -> Vec<(String, String)> {
    let hosts = Api::<ConfigMap>::default_namespaced(client.clone()).get("hosts").await.unwrap();
    hosts.data.unwrap_or_default().into_iter().collect()
}

/// Whether a website says something like this.
fn says(text: &'static str) -> impl Fn(Option<&Website>) -> bool {
    move |website| {
        let status = website.and_then(|website| website.status.as_ref());
        status.and_then(|status| status.message.as_ref()).is_some_and(|message| message.contains(text))
    }
}

#[tokio::test(start_paused = true)]
async fn a_website_is_run_and_listed_and_follows_its_spec() {
    let cluster = WORLD.to_cluster();
    let client = cluster.client();
    tokio::spawn(run(client.clone()));
    create(&client, "shop", 2).await;
    let shop = becomes(&client, "shop", has_ready(2)).await;
    assert_eq!(shop.finalizers(), ["example.com/hosts"]);
    assert_eq!(listed(&client).await, [("shop".to_owned(), "shop.example.com".to_owned())]);
    let deployment = Api::<Deployment>::default_namespaced(client.clone()).get("shop").await.unwrap();
    assert_eq!(deployment.owner_references()[0].uid, shop.uid().unwrap());

    patch(&client, "shop", json!({ "spec": { "replicas": 4 } })).await;
    becomes(&client, "shop", has_ready(4)).await;
    assert_eq!(names::<Pod>(&client).await.len(), 4);
}

#[tokio::test(start_paused = true)]
async fn a_website_that_goes_takes_all_along() {
    let cluster = WORLD.to_cluster();
    let client = cluster.client();
    let operator = tokio::spawn(run(client.clone()));
    for name in ["shop", "blog"] {
        create(&client, name, 1).await;
        becomes(&client, name, has_ready(1)).await;
    }
    // While no operator runs, the finalizer keeps the object, and with it what it owns.
    operator.abort();
    let shop = websites(&client).delete("shop", &DeleteParams::default()).await.unwrap().left().unwrap();
    assert!(shop.metadata.deletion_timestamp.is_some());
    cluster.advance(Duration::from_hours(1));
    assert_eq!((names::<Deployment>(&client).await.len(), listed(&client).await.len()), (2, 2));

    tokio::spawn(run(client.clone()));
    let uid = shop.uid().unwrap();
    let deleted = conditions::is_deleted(&uid);
    soon("the end", await_condition(websites(&client), "shop", deleted)).await.unwrap();
    assert_eq!(listed(&client).await.len(), 1);
    assert_eq!(names::<Deployment>(&client).await, ["blog"], "the garbage collector deleted the other");
    assert_eq!((names::<ReplicaSet>(&client).await.len(), names::<Pod>(&client).await.len()), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn a_field_that_somebody_else_has_taken_is_left_to_them() {
    let cluster = WORLD.to_cluster();
    let client = cluster.client();
    tokio::spawn(run(client.clone()));
    create(&client, "shop", 1).await;
    becomes(&client, "shop", has_ready(1)).await;
    let scaled = json!({ "apiVersion": "apps/v1", "kind": "Deployment", "spec": { "replicas": 3 } });
    let force = PatchParams::apply("autoscaler").force();
    let deployments = Api::<Deployment>::default_namespaced(client.clone());
    deployments.patch("shop", &force, &Patch::Apply(scaled)).await.unwrap();
    becomes(&client, "shop", says("conflict with \"autoscaler\"")).await;
    assert_eq!(deployments.get("shop").await.unwrap().spec.unwrap().replicas, Some(3));

    patch(&client, "shop", json!({ "spec": { "replicas": 3 } })).await;
    becomes(&client, "shop", has_ready(3)).await;
}

#[tokio::test(start_paused = true)]
async fn refused_writes_are_tried_again() {
    let cluster = WORLD.to_cluster();
    let client = cluster.client();
    let refused = [
        cluster.inject(Fault::conflict().verb(Verb::Patch).resource("websites/status").times(2)),
        cluster.inject(Fault::too_many_requests().verb(Verb::Patch).resource("deployments").times(2)),
        cluster.inject(Fault::internal_error().verb(Verb::Patch).resource("configmaps").name("hosts").times(2)),
    ];
    tokio::spawn(run(client.clone()));
    create(&client, "shop", 1).await;
    becomes(&client, "shop", has_ready(1)).await;
    assert_eq!(refused.map(|fault| fault.left()), [0, 0, 0]);
}

#[tokio::test(start_paused = true)]
async fn the_operator_starts_although_the_server_has_trouble() {
    let cluster = WORLD.to_cluster();
    let client = cluster.client();
    create(&client, "shop", 1).await;
    let trouble = [
        cluster.inject(Fault::internal_error().verb(Verb::List).resource("websites").times(3)),
        cluster.inject(Fault::expired().verb(Verb::Watch).resource("websites.example.com")),
        cluster.inject(Fault::too_many_requests().verb(Verb::Watch).resource("deployments").times(2)),
    ];
    tokio::spawn(run(client.clone()));
    for fault in &trouble {
        soon("the refusals", fault.used_up()).await;
    }
    becomes(&client, "shop", has_ready(1)).await;
}

#[tokio::test(start_paused = true)]
async fn the_operator_outlives_a_restore_of_the_cluster() {
    let cluster = WORLD.to_cluster();
    let client = cluster.client();
    tokio::spawn(run(client.clone()));
    create(&client, "shop", 1).await;
    becomes(&client, "shop", has_ready(1)).await;
    let backup = cluster.snapshot();
    create(&client, "lost", 1).await;
    becomes(&client, "lost", has_ready(1)).await;
    patch(&client, "shop", json!({ "spec": { "replicas": 5 } })).await;
    becomes(&client, "shop", has_ready(5)).await;

    // Its watches end with 410; what it had seen is no more.
    cluster.restore(&backup);
    assert_eq!(names::<Deployment>(&client).await, ["shop"]);
    patch(&client, "shop", json!({ "spec": { "replicas": 2 } })).await;
    becomes(&client, "shop", has_ready(2)).await;
}

#[tokio::test(start_paused = true)]
async fn a_test_may_stand_in_for_a_controller() {
    let world = Cluster::builder().objects([definition(), hosts()]).without_controller("deployment");
    let client = world.build().unwrap().client();
    tokio::spawn(run(client.clone()));
    create(&client, "shop", 2).await;
    becomes(&client, "shop", has_ready(0)).await;
    let deployments = Api::<Deployment>::default_namespaced(client.clone());
    let status = Patch::Merge(json!({ "status": { "replicas": 2, "readyReplicas": 2 } }));
    deployments.patch_status("shop", &PatchParams::default(), &status).await.unwrap();
    becomes(&client, "shop", has_ready(2)).await;
    assert!(names::<Pod>(&client).await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_website_moves_when_its_node_stops() {
    let cluster = WORLD.to_cluster();
    let client = cluster.client();
    tokio::spawn(run(client.clone()));
    create(&client, "shop", 1).await;
    becomes(&client, "shop", has_ready(1)).await;
    let node = async || {
        let pods = Api::<Pod>::default_namespaced(client.clone());
        let pods = pods.list(&ListParams::default().fields("status.phase=Running")).await.unwrap();
        pods.items.iter().find_map(|pod| pod.spec.as_ref()?.node_name.clone())
    };
    let first = node().await.unwrap();
    let stop = json!({ "metadata": { "annotations": { HEARTBEAT_ANNOTATION: "stopped" } } });
    let nodes = Api::<Node>::all(client.clone());
    nodes.patch(&first, &PatchParams::default(), &Patch::Merge(stop)).await.unwrap();

    // 50 seconds until the node counts as unreachable.
    cluster.advance(Duration::from_mins(1));
    becomes(&client, "shop", has_ready(0)).await;
    // Five minutes until its pods are evicted.
    cluster.advance(Duration::from_mins(5));
    becomes(&client, "shop", has_ready(1)).await;
    let pods = Api::<Pod>::default_namespaced(client.clone()).list(&ListParams::default()).await.unwrap();
    let nodes: Vec<_> = pods.items.iter().filter_map(|pod| pod.spec.as_ref()?.node_name.clone()).collect();
    assert!(nodes.iter().any(|node| *node != first), "{nodes:?}");
}
