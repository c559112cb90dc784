//! kube-rs: reflectors across a restart, waiting, server-side apply, eviction.
#![expect(clippy::large_futures, reason = "a watch of kube-rs is large, and each is awaited once")]

use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use klab_api_machinery::resource::CONFIG_MAPS;
use klab_cluster::clock::SystemClock;
use klab_cluster::cluster::{Cluster, WriteOptions};
use kube::api::{
    DeleteParams, EvictParams, ListParams, Patch, PatchParams, PostParams, PropagationPolicy, WatchParams,
};
use kube::runtime::reflector::{self, ObjectRef};
use kube::runtime::wait::{await_condition, conditions};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

use super::{client, seed, start};

/// Long enough for a busy machine, short enough to tell that something never comes.
const PATIENCE: Duration = Duration::from_secs(60);

async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future).await.unwrap_or_else(|_| panic!("never happened: {what}"))
}

fn as_object<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

fn config_map(name: &str, value: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": {"seen": "yes"}},
        "data": {"a": value},
    })
}

fn deployment(replicas: i64) -> Value {
    let container = json!({"name": "main", "image": "nginx:1.27"});
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
        "spec": {
            "replicas": replicas, "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [container]}},
        },
    })
}

/// Connections end without a word, new ones hear nothing, those of other clusters go on, and all is as before when the time is
/// over.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_api_that_is_silent_answers_nobody() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(folder.path()).await;
    for name in ["one", "two"] {
        server.add(name, seed()).unwrap();
    }
    let (one, two) = (client(&server, "one").await, client(&server, "two").await);
    let namespaces: Api<Namespace> = Api::all(one.clone());
    let watch = namespaces.watch(&WatchParams::default(), "0").await.unwrap();
    let patch = json!({ "metadata": { "annotations": { klab_cluster::SILENCE_ANNOTATION: "1s" } } });
    namespaces.patch("kube-system", &PatchParams::default(), &Patch::Merge(&patch)).await.unwrap();
    // Ends only with the connection.
    let _seen: Vec<_> = watch.collect().await;
    let refused = tokio::time::timeout(Duration::from_millis(200), one.apiserver_version()).await;
    assert!(!matches!(refused, Ok(Ok(_) | Err(kube::Error::Api(_)))), "{refused:?}");
    two.apiserver_version().await.unwrap();
    // Whoever has patience is heard in the end.
    let stubborn = client(&server, "one").await;
    while stubborn.apiserver_version().await.is_err() {
        tokio::task::yield_now().await;
    }
    let annotations = namespaces.get("kube-system").await.unwrap().metadata.annotations.unwrap_or_default();
    assert!(!annotations.contains_key(klab_cluster::SILENCE_ANNOTATION));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reflector_outlives_the_server_and_its_history() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(folder.path()).await;
    server.add("lab", seed()).unwrap();
    let (address, client) = (server.address(), client(&server, "lab").await);
    let maps: Api<ConfigMap> = Api::default_namespaced(client.clone());
    for name in ["kept", "doomed"] {
        maps.create(&PostParams::default(), &as_object(config_map(name, "0"))).await.unwrap();
    }

    let (store, writer) = reflector::store::<ConfigMap>();
    let (sender, mut told) = tokio::sync::mpsc::unbounded_channel();
    let stream = watcher(maps.clone(), watcher::Config::default().labels("seen=yes"));
    let reflecting = tokio::spawn(reflector::reflector(writer, stream).default_backoff().for_each(move |event| {
        let told = match event {
            Ok(watcher::Event::InitDone) => "list",
            Ok(_) => "change",
            Err(watcher::Error::WatchError(status)) if status.code == 410 => "gone",
            Err(_) => "error",
        };
        let _ = sender.send(told);
        std::future::ready(())
    }));
    soon("the first list", store.wait_until_ready()).await.unwrap();
    assert_eq!(store.len(), 2);
    // The rest of the cluster goes on: what the reflector saw last is older than the last change.
    let namespaces: Api<Namespace> = Api::all(client.clone());
    namespaces.create(&PostParams::default(), &as_object(json!({"metadata": {"name": "later"}}))).await.unwrap();

    server.stop();
    server.run_until_stopped().await;
    {
        // Something is lost from sight while no server runs.
        let log = folder.path().join("state/clusters/lab/objects.log");
        let (cluster, recovery) = Cluster::open(&log, std::sync::Arc::new(SystemClock), 1).unwrap();
        assert_eq!(recovery.notes, Vec::<String>::new());
        cluster.delete(CONFIG_MAPS, "default", "doomed", &klab_cluster::cluster::DeleteOptions::default()).unwrap();
        cluster.create(CONFIG_MAPS, "default", config_map("new", "0"), &WriteOptions::by("test")).unwrap();
    }
    while told.try_recv().is_ok() {}
    let server = start(folder.path()).await;
    assert_eq!(server.address(), address);

    let mut heard = Vec::new();
    while heard.last() != Some(&"list") {
        heard.push(soon("another list", told.recv()).await.unwrap());
    }
    assert!(heard.contains(&"gone"), "told that its place in the history is gone: {heard:?}");
    let mut names: Vec<String> = store.state().iter().map(|map| map.name_any()).collect();
    names.sort();
    assert_eq!(names, ["kept", "new"]);
    // And it goes on from there.
    let data = json!({"data": {"a": "1"}});
    maps.patch("kept", &PatchParams::default(), &Patch::Merge(&data)).await.unwrap();
    let changed = || {
        let kept = store.get(&ObjectRef::new("kept").within("default"));
        kept.and_then(|map| map.data.as_ref()?.get("a").cloned()) == Some("1".to_owned())
    };
    while !changed() {
        soon("the change after the restart", told.recv()).await.unwrap();
    }
    reflecting.abort();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn conditions_are_awaited() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(folder.path()).await;
    server.add("lab", seed()).unwrap();
    let client = client(&server, "lab").await;
    let parameters = PostParams::default();
    let (pods, jobs): (Api<Pod>, Api<Job>) =
        (Api::default_namespaced(client.clone()), Api::default_namespaced(client.clone()));
    let deployments: Api<Deployment> = Api::default_namespaced(client);

    // Awaited before it exists.
    let running = tokio::spawn(await_condition(pods.clone(), "solo", conditions::is_pod_running()));
    let spec = json!({"containers": [{"name": "main", "image": "nginx:1.27"}]});
    let solo = json!({"metadata": {"name": "solo"}, "spec": spec});
    let made = pods.create(&parameters, &as_object(solo)).await.unwrap();
    let solo = soon("the pod runs", running).await.unwrap().unwrap().unwrap();
    assert!(solo.spec.unwrap().node_name.is_some());
    pods.delete("solo", &DeleteParams::default()).await.unwrap();
    let uid = made.uid().unwrap();
    soon("the pod is gone", await_condition(pods.clone(), "solo", conditions::is_deleted(&uid))).await.unwrap();

    deployments.create(&parameters, &as_object(deployment(2))).await.unwrap();
    let complete = conditions::is_deployment_completed();
    soon("the rollout", await_condition(deployments.clone(), "web", complete)).await.unwrap();
    let job = json!({"metadata": {"name": "count"}, "spec": {"completions": 2, "template": {
        "spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "busybox:1.36"}]}}}});
    jobs.create(&parameters, &as_object(job)).await.unwrap();
    let done = soon("the job", await_condition(jobs, "count", conditions::is_job_completed())).await.unwrap();
    assert_eq!(done.unwrap().status.unwrap().succeeded, Some(2));

    let foreground =
        DeleteParams { propagation_policy: Some(PropagationPolicy::Foreground), ..DeleteParams::default() };
    let uid = deployments.delete("web", &foreground).await.unwrap().left().unwrap().uid().unwrap();
    let deleted = conditions::is_deleted(&uid);
    soon("the deployment and its pods go", await_condition(deployments, "web", deleted)).await.unwrap();
    assert_eq!(pods.list(&ListParams::default().labels("app=web")).await.unwrap().items.len(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn applies_conflict_are_forced_and_let_go() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(folder.path()).await;
    server.add("lab", seed()).unwrap();
    let deployments: Api<Deployment> = Api::default_namespaced(client(&server, "lab").await);
    let one = PatchParams::apply("one");
    deployments.patch("web", &one, &Patch::Apply(&deployment(1))).await.unwrap();

    let scaled = json!({"apiVersion": "apps/v1", "kind": "Deployment", "spec": {"replicas": 3}});
    let refused = deployments.patch("web", &PatchParams::apply("two"), &Patch::Apply(&scaled)).await.unwrap_err();
    let kube::Error::Api(status) = refused else { panic!("{refused}") };
    assert_eq!((status.code, status.reason.as_str()), (409, "Conflict"));
    assert_eq!(status.message, "Apply failed with 1 conflict: conflict with \"one\": .spec.replicas");
    assert_eq!(status.details.unwrap().causes[0].field, ".spec.replicas");

    let forced = deployments.patch("web", &PatchParams::apply("two").force(), &Patch::Apply(&scaled)).await.unwrap();
    assert_eq!(forced.spec.as_ref().unwrap().replicas, Some(3));
    let owns = |deployment: &Deployment, manager: &str| {
        let entry = deployment.managed_fields().iter().find(|entry| entry.manager.as_deref() == Some(manager));
        entry.is_some_and(|entry| {
            entry.operation.as_deref() == Some("Apply")
                && entry.fields_v1.as_ref().is_some_and(|fields| fields.0["f:spec"].get("f:replicas").is_some())
        })
    };
    assert!(owns(&forced, "two") && !owns(&forced, "one"));
    // Nobody else owns it any more: what its owner leaves out goes back to the default.
    let nothing = json!({"apiVersion": "apps/v1", "kind": "Deployment"});
    let left = deployments.patch("web", &PatchParams::apply("two"), &Patch::Apply(&nothing)).await.unwrap();
    assert_eq!(left.spec.as_ref().unwrap().replicas, Some(1));
    assert!(left.managed_fields().iter().all(|entry| entry.manager.as_deref() != Some("two")));
    // The status is a part of its own.
    let status = json!({"apiVersion": "apps/v1", "kind": "Deployment", "status": {"collisionCount": 4}, "spec": {"replicas": 9}});
    let told = deployments.patch_status("web", &PatchParams::apply("three"), &Patch::Apply(&status)).await.unwrap();
    assert_eq!((told.status.unwrap().collision_count, told.spec.unwrap().replicas), (Some(4), Some(1)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn evictions_respect_budgets() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(folder.path()).await;
    server.add("lab", seed()).unwrap();
    let client = client(&server, "lab").await;
    let (pods, deployments): (Api<Pod>, Api<Deployment>) =
        (Api::default_namespaced(client.clone()), Api::default_namespaced(client.clone()));
    let budgets: Api<PodDisruptionBudget> = Api::default_namespaced(client);
    let parameters = PostParams::default();
    deployments.create(&parameters, &as_object(deployment(2))).await.unwrap();
    let complete = conditions::is_deployment_completed();
    soon("the rollout", await_condition(deployments, "web", complete)).await.unwrap();
    let budget = |least: i32| {
        json!({
            "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "web"},
            "spec": {"minAvailable": least, "selector": {"matchLabels": {"app": "web"}}},
        })
    };
    let allows = |wanted: i32| {
        move |budget: Option<&PodDisruptionBudget>| {
            let status = budget.and_then(|budget| budget.status.as_ref());
            status.is_some_and(|status| status.disruptions_allowed == Some(wanted) && status.current_healthy == Some(2))
        }
    };
    budgets.create(&parameters, &as_object(budget(2))).await.unwrap();
    soon("the budget counts", await_condition(budgets.clone(), "web", allows(0))).await.unwrap();

    let victim = pods.list(&ListParams::default().labels("app=web")).await.unwrap().items.remove(0);
    let name = victim.name_any();
    let refused = pods.evict(&name, &EvictParams::default()).await.unwrap_err();
    let kube::Error::Api(status) = refused else { panic!("{refused}") };
    assert_eq!((status.code, status.reason.as_str()), (429, "TooManyRequests"));
    assert_eq!(status.message, "Cannot evict pod as it would violate the pod's disruption budget.");

    budgets.patch("web", &PatchParams::apply("test").force(), &Patch::Apply(&budget(1))).await.unwrap();
    soon("the budget allows one", await_condition(budgets, "web", allows(1))).await.unwrap();
    pods.evict(&name, &EvictParams::default()).await.unwrap();
    let uid = victim.uid().unwrap();
    let deleted = conditions::is_deleted(&uid);
    soon("the evicted pod goes", await_condition(pods, &name, deleted)).await.unwrap();
}
