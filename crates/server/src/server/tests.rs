//! What a cluster of a server answers to one who asks too much, or at the wrong time, and that others do not notice.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt, Empty, Full, StreamBody};
use hyper::client::conn::http2;
use klab_api_machinery::resource::{CONFIG_MAPS, DEPLOYMENTS, PODS};
use serde_json::{Value, json};

use super::*;
use crate::hosted::Hosted;
use crate::{Flavour, exchange, webhooks};
use klab_cluster::api::Body;

async fn start(folder: &Path, limits: Limits) -> Server {
    let options = ServerOptions { limits, park_after: None, ..ServerOptions::at(folder.join("state")) };
    Server::start(options).await.unwrap_or_else(|error| panic!("{error:?}"))
}

fn node() -> Value {
    let resources = json!({ "cpu": "4", "memory": "8Gi", "pods": "110" });
    json!({
        "apiVersion": "v1", "kind": "Node", "metadata": { "name": "n" },
        "status": { "capacity": resources, "allocatable": resources, "conditions": [{ "type": "Ready", "status": "True" }] },
    })
}

fn seed() -> Seed {
    Seed { flavour: Flavour::Bare, objects: vec![node()], ..Seed::default() }
}

fn hosted(server: &Server, name: &str) -> Arc<Hosted> {
    server.shared.cluster(name).unwrap()
}

async fn ask(hosted: &Arc<Hosted>, method: Method, path: &str, body: &Value) -> http::Response<Body> {
    let body = if body.is_null() { Bytes::new() } else { Bytes::from(body.to_string()) };
    let mut request = Request::new(Full::new(body));
    *request.method_mut() = method;
    *request.uri_mut() = path.parse().unwrap();
    request.headers_mut().insert(http::header::CONTENT_TYPE, http::HeaderValue::from_static("application/json"));
    hosted.answer(request).await
}

async fn told(response: http::Response<Body>) -> (StatusCode, Value) {
    let status = response.status();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    (status, serde_json::from_slice(&body).unwrap_or_default())
}

fn map(name: &str, text: &str) -> Value {
    json!({ "metadata": { "name": name }, "data": { "a": text } })
}

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_asks_too_often_is_told_when_to_come_again_and_others_are_not() {
    let folder = tempfile::tempdir().unwrap();
    let limits = Limits { requests_per_second: Some(1), burst: 5, ..Limits::default() };
    let server = start(folder.path(), limits).await;
    server.add("a", seed()).unwrap();
    server.add("b", seed()).unwrap();
    let (flood, neighbour) = (hosted(&server, "a"), hosted(&server, "b"));
    let mut refused = 0;
    for _ in 0..50 {
        let answer = ask(&flood, Method::GET, MAPS, &Value::Null).await;
        if answer.status() == 429 {
            refused += 1;
            assert!(answer.headers().contains_key(http::header::RETRY_AFTER));
            let (_, answer) = told(answer).await;
            assert_eq!(answer["reason"], "TooManyRequests");
        }
    }
    assert!(refused >= 40, "{refused}");
    assert_eq!(ask(&neighbour, Method::GET, MAPS, &Value::Null).await.status(), 200);
    server.set_limits(Limits::default());
    assert_eq!(ask(&flood, Method::GET, MAPS, &Value::Null).await.status(), 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn watches_bodies_and_objects_have_their_limits() {
    let folder = tempfile::tempdir().unwrap();
    let limits = Limits { watches: 2, body_bytes: 2_000, ..Limits::default() };
    let server = start(folder.path(), limits).await;
    server.add("a", seed()).unwrap();
    let hosted = hosted(&server, "a");
    let watch = || async { ask(&hosted, Method::GET, &format!("{MAPS}?watch=true"), &Value::Null).await };
    let (one, other) = (watch().await, watch().await);
    assert_eq!([one.status(), other.status(), watch().await.status()].map(|status| status.as_u16()), [200, 200, 429]);
    drop(one);
    assert_eq!(watch().await.status(), 200);
    drop(other);

    let (status, answer) = told(ask(&hosted, Method::POST, MAPS, &map("large", &"x".repeat(3_000))).await).await;
    assert_eq!((status.as_u16(), &answer["reason"]), (413, &json!("RequestEntityTooLarge")));

    assert_eq!(ask(&hosted, Method::POST, MAPS, &map("one", "")).await.status(), 201);
    server.set_limits(Limits { objects: 1, ..limits });
    let (status, answer) = told(ask(&hosted, Method::POST, MAPS, &map("two", "")).await).await;
    assert_eq!(status, 403);
    assert!(answer["message"].as_str().is_some_and(|words| words.contains("limited: objects=1")), "{answer}");
    assert_eq!(ask(&hosted, Method::DELETE, &format!("{MAPS}/one"), &Value::Null).await.status(), 200);
}

/// A watch holds a place in the history and no changes: one that is not read costs its cluster nothing, and ends with
/// 410 when it has missed too much.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_that_does_not_read_holds_up_nobody_and_no_memory() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(folder.path(), Limits { history_bytes: 200_000, ..Limits::default() }).await;
    server.add("a", seed()).unwrap();
    let hosted = hosted(&server, "a");
    let slow = ask(&hosted, Method::GET, &format!("{MAPS}?watch=true&resourceVersion=1"), &Value::Null).await;
    assert_eq!(ask(&hosted, Method::POST, MAPS, &map("one", "")).await.status(), 201);
    let version = hosted.api().unwrap().cluster().version();
    for round in 0..50 {
        let text = format!("{round}{}", "x".repeat(20_000));
        assert_eq!(ask(&hosted, Method::PUT, &format!("{MAPS}/one"), &map("one", &text)).await.status(), 200);
    }
    let api = hosted.api().unwrap();
    assert!(api.cluster().since(version).is_err(), "a history of a megabyte is not kept");
    let kept = (version..=api.cluster().version()).find_map(|version| api.cluster().since(version).ok()).unwrap();
    let bytes: usize = kept.0.iter().map(|event| event.object.size()).sum();
    assert!(bytes <= 200_000, "{bytes}");
    let mut body = slow.into_body();
    let frame = tokio::time::timeout(Duration::from_secs(10), body.frame()).await.unwrap().unwrap().unwrap();
    let text = String::from_utf8_lossy(frame.data_ref().unwrap()).into_owned();
    assert!(text.contains("\"code\":410"), "{text}");
}

/// What a control plane writes when it begins again is in the log of each cluster that is woken: nothing, where nothing has
/// changed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn to_wake_a_cluster_changes_nothing_in_it() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(folder.path(), Limits::default()).await;
    server.add("a", Seed { flavour: Flavour::Aks, ..seed() }).unwrap();
    let web = json!({ "metadata": { "name": "web" }, "spec": { "replicas": 3, "selector": { "matchLabels": { "a": "b" } },
        "template": { "metadata": { "labels": { "a": "b" } }, "spec": { "containers": [{ "name": "c", "image": "x" }] } } } });
    let first = hosted(&server, "a");
    let made = ask(&first, Method::POST, "/apis/apps/v1/namespaces/default/deployments", &web).await;
    assert_eq!(made.status(), 201);
    let running = || {
        first
            .api()
            .unwrap()
            .cluster()
            .list(PODS, Some("default"))
            .0
            .iter()
            .filter(|pod| pod.value()["status"]["phase"] == "Running")
            .count()
    };
    while running() < 3 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let copies = [NewCopy::named("b"), NewCopy::named("c")];
    server.copy("a", &copies).unwrap();
    let copy = hosted(&server, "b");
    let before = server.state("b").unwrap();
    let (api, due) = copy.at_rest(Duration::from_secs(10)).unwrap();
    assert_eq!((api.cluster().size(), due), ((before.objects, before.bytes), before.due));
    let version = api.cluster().version();
    assert!(!api.cluster().is_written(), "{version}");
    drop(api);
    assert!(copy.park(Duration::ZERO), "nobody uses it");
    assert_eq!(server.state("b"), Some(ClusterState { used: server.state("b").unwrap().used, ..before }));
    // It acts as ever once it is asked to.
    let scaled = json!({ "spec": { "replicas": 5 } });
    let api = copy.api().unwrap();
    let options = klab_cluster::cluster::WriteOptions::client("test");
    let main = klab_cluster::cluster::Part::Main;
    api.cluster()
        .modify(DEPLOYMENTS, main, "default", "web", &options, |web| {
            web["spec"]["replicas"] = scaled["spec"]["replicas"].clone();
        })
        .unwrap();
    while api.cluster().list(PODS, Some("default")).0.len() < 5 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert!(api.cluster().get(CONFIG_MAPS, "default", "kube-root-ca.crt").is_some());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clusters_that_come_to_rest_after_a_change_are_told() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(folder.path(), Limits::default()).await;
    server.add("a", seed()).unwrap();
    server.add("b", seed()).unwrap();
    for name in ["a", "b"] {
        hosted(&server, name).at_rest(Duration::from_secs(10)).unwrap();
    }
    let mut settled = server.quiescence();
    assert_eq!(ask(&hosted(&server, "b"), Method::POST, MAPS, &map("one", "")).await.status(), 201);
    let told = tokio::time::timeout(Duration::from_secs(10), settled.next()).await.unwrap();
    assert_eq!(told.into_iter().collect::<Vec<_>>(), ["b"]);
}

/// Somebody who has a cluster's objects for himself until this is dropped, as a long write has them.
struct Holder {
    release: Option<std::sync::mpsc::Sender<()>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Holder {
    fn of(hosted: &Arc<Hosted>) -> Self {
        let cluster = Arc::clone(hosted.api().unwrap().cluster());
        let (release, released) = std::sync::mpsc::channel::<()>();
        let (begins, begun) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            let main = klab_cluster::cluster::Part::Main;
            let options = klab_cluster::cluster::WriteOptions::client("test");
            let held = cluster.modify(CONFIG_MAPS, main, "default", "held", &options, |_| {
                begins.send(()).unwrap();
                // An error means that it is released.
                let _ = released.recv();
            });
            held.unwrap();
        });
        begun.recv().unwrap();
        Self { release: Some(release), thread: Some(thread) }
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        drop(self.release.take());
        self.thread.take().unwrap().join().unwrap();
    }
}

/// In a thread, as the server's: all that was asked before is there when another cluster is asked for something.
#[tokio::test(start_paused = true)]
async fn a_request_does_not_wait_for_all_those_of_another_cluster() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(folder.path(), Limits::default()).await;
    let [flood, quiet] = ["flood", "quiet"].map(|name| {
        server.add(name, seed()).unwrap();
        hosted(&server, name)
    });
    for active in [&flood, &quiet] {
        assert_eq!(ask(active, Method::GET, MAPS, &Value::Null).await.status(), 200);
    }
    let answered = Arc::new(AtomicUsize::new(0));
    let floods: Vec<_> = (0..1_000)
        .map(|_| {
            let (flood, answered) = (Arc::clone(&flood), Arc::clone(&answered));
            tokio::spawn(async move {
                assert_eq!(ask(&flood, Method::GET, MAPS, &Value::Null).await.status(), 200);
                answered.fetch_add(1, Ordering::Relaxed);
            })
        })
        .collect();
    let before = tokio::spawn(async move {
        assert_eq!(ask(&quiet, Method::GET, MAPS, &Value::Null).await.status(), 200);
        answered.load(Ordering::Relaxed)
    });
    let before = before.await.unwrap();
    assert!(before < 100, "{before} requests of the flood were answered first");
    futures::future::join_all(floods).await.into_iter().for_each(|one| one.unwrap());
}

/// In steps of a clock that is stepped: no request of this test waits for anything but the others.
#[tokio::test(start_paused = true)]
async fn long_requests_of_two_clusters_leave_room_for_a_third_and_end_with_their_deadline() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(folder.path(), Limits::of_a_class()).await;
    let [a, b, c] = ["a", "b", "c"].map(|name| {
        server.add(name, seed()).unwrap();
        hosted(&server, name)
    });
    for cluster in [&a, &b] {
        assert_eq!(ask(cluster, Method::POST, MAPS, &map("held", "")).await.status(), 201);
    }
    let holders = [Holder::of(&a), Holder::of(&b)];
    let containers: Vec<Value> = (0..5_000).map(|at| json!({ "name": format!("c{at}"), "image": "x" })).collect();
    let long = json!({ "metadata": { "name": "long" }, "spec": { "containers": containers } });
    let pods = "/api/v1/namespaces/default/pods";
    let waiting = [&a, &b].map(|cluster| {
        let (cluster, long) = (Arc::clone(cluster), long.clone());
        tokio::spawn(async move { exchange::in_time(ask(&cluster, Method::POST, pods, &long)).await })
    });
    tokio::task::yield_now().await;
    let large = map("large", &"x".repeat(600_000));
    assert_eq!(exchange::in_time(ask(&c, Method::POST, MAPS, &large)).await.unwrap().status(), 201);
    assert!(waiting.iter().all(|one| !one.is_finished()), "they still wait");
    tokio::time::advance(exchange::REQUEST).await;
    for one in waiting {
        assert_eq!(one.await.unwrap().map(|_| ()).map_err(|status| status.code), Err(504));
    }
    // What they asked for stops, stores nothing, and gives its place to the next.
    drop(holders);
    for cluster in [&a, &b] {
        assert_eq!(exchange::in_time(ask(cluster, Method::POST, MAPS, &large)).await.unwrap().status(), 201);
        assert_eq!(ask(cluster, Method::GET, &format!("{pods}/long"), &Value::Null).await.status(), 404);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_reads_no_answers_gets_no_more_of_them() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(folder.path(), Limits { bytes: 1_000_000, ..Limits::of_a_class() }).await;
    server.add("a", seed()).unwrap();
    let hosted = hosted(&server, "a");
    assert_eq!(ask(&hosted, Method::POST, MAPS, &map("large", &"x".repeat(400_000))).await.status(), 201);
    let path = format!("{MAPS}/large");
    let get = || ask(&hosted, Method::GET, &path, &Value::Null);
    let mut unread = Vec::new();
    let refused = loop {
        let mut answer = get().await;
        if answer.status() != 200 {
            break answer;
        }
        // Its bytes are with the connection, which does not send them.
        unread.push(answer.body_mut().frame().await.unwrap().unwrap());
        assert!(unread.len() < 9);
    };
    assert_eq!((refused.status().as_u16(), unread.len()), (429, 3));
    assert!(refused.headers().contains_key(http::header::RETRY_AFTER));
    drop(unread);
    assert_eq!(get().await.status(), 200);
}

/// A body that never arrives whole keeps its room, in its own cluster alone.
#[tokio::test(start_paused = true)]
async fn bodies_under_way_have_room_for_few_and_hold_up_no_other_cluster() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(folder.path(), Limits::of_a_class()).await;
    let [a, b] = ["a", "b"].map(|name| {
        server.add(name, seed()).unwrap();
        hosted(&server, name)
    });
    let slow: Vec<_> = (0..20)
        .map(|_| {
            let body = StreamBody::new(futures::stream::pending::<std::io::Result<http_body::Frame<Bytes>>>());
            let (cluster, mut request) = (Arc::clone(&a), Request::new(body));
            *request.method_mut() = Method::POST;
            *request.uri_mut() = MAPS.parse().unwrap();
            tokio::spawn(async move { exchange::in_time(cluster.answer(request)).await.map(|_| ()) })
        })
        .collect();
    tokio::task::yield_now().await;
    assert_eq!(ask(&b, Method::POST, MAPS, &map("one", "")).await.status(), 201);
    assert_eq!(ask(&a, Method::GET, MAPS, &Value::Null).await.status(), 200, "a request without a body needs no room");
    tokio::time::advance(exchange::REQUEST).await;
    for one in slow {
        assert_eq!(one.await.unwrap().map_err(|status| status.code), Err(504));
    }
    assert_eq!(ask(&a, Method::POST, MAPS, &map("one", "")).await.status(), 201);
}

type Answered = hyper::Result<http::Response<hyper::body::Incoming>>;
type Sent = http_body_util::combinators::UnsyncBoxBody<Bytes, std::io::Error>;

/// A connection to a server that reads one byte of each answer.
struct Dialled {
    requests: http2::SendRequest<Sent>,
    address: String,
    token: String,
    /// The same connection, to cut it.
    wire: std::net::TcpStream,
}

impl Dialled {
    async fn to(server: &Server, name: &str) -> Self {
        let kubeconfig: Value = serde_saphyr::from_str(&server.kubeconfig(name).unwrap()).unwrap();
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let authority = Bytes::from(server.shared.host.identity.authority.clone());
        let mut config = rustls::ClientConfig::clone(&webhooks::client_config(&authority).unwrap());
        config.alpn_protocols = vec![tls::HTTP_2.to_vec()];
        let stream = tokio::net::TcpStream::connect(server.address()).await.unwrap().into_std().unwrap();
        let wire = stream.try_clone().unwrap();
        let stream = tokio::net::TcpStream::from_std(stream).unwrap();
        let connector = tokio_rustls::TlsConnector::from(Arc::new(config));
        let stream = connector.connect(server.address().ip().into(), stream).await.unwrap();
        let mut builder = http2::Builder::new(hyper_util::rt::TokioExecutor::new());
        let dialled = builder.initial_stream_window_size(1).handshake(hyper_util::rt::TokioIo::new(stream));
        let (requests, connection) = dialled.await.unwrap();
        tokio::spawn(connection);
        Self {
            requests,
            address: text(&kubeconfig["clusters"][0]["cluster"]["server"]),
            token: text(&kubeconfig["users"][0]["user"]["token"]),
            wire,
        }
    }

    /// Sends a request, of whose body `length` bytes are promised; gives the answer when it begins.
    fn send(
        &mut self,
        method: Method,
        path: &str,
        length: usize,
        body: Sent,
    ) -> impl Future<Output = Answered> + use<> {
        let request = Request::builder().method(method).uri(format!("{}{path}", self.address));
        let request = request.header("authorization", format!("Bearer {}", self.token));
        let request = request.header("content-type", "application/json").header("content-length", length);
        self.requests.send_request(request.body(body).unwrap())
    }

    fn get(&mut self, path: &str) -> impl Future<Output = Answered> + use<> {
        self.send(Method::GET, path, 0, Empty::new().map_err(|never| match never {}).boxed_unsync())
    }

    fn post(&mut self, value: &Value) -> impl Future<Output = Answered> + use<> {
        let text = Bytes::from(value.to_string());
        self.send(Method::POST, MAPS, text.len(), Full::new(text).map_err(|never| match never {}).boxed_unsync())
    }
}

impl Drop for Dialled {
    fn drop(&mut self) {
        // The server may have done so already.
        let _ = self.wire.shutdown(std::net::Shutdown::Both);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_that_a_connection_does_not_read_keep_their_place_in_the_cluster_alone() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(folder.path(), Limits { bytes: 1_000_000, ..Limits::of_a_class() }).await;
    for name in ["a", "b"] {
        server.add(name, seed()).unwrap();
        let large = map("large", &"x".repeat(400_000));
        assert_eq!(ask(&hosted(&server, name), Method::POST, MAPS, &large).await.status(), 201);
    }
    let path = format!("{MAPS}/large");
    let mut first = Dialled::to(&server, "a").await;
    let mut unread = Vec::new();
    for status in [200, 200, 200, 429] {
        let answer = first.get(&path).await.unwrap();
        assert_eq!(answer.status().as_u16(), status, "{} are not read", unread.len());
        unread.push(answer);
    }
    // It is the cluster that has no more, whichever connection asks; another cluster has its own.
    let mut second = Dialled::to(&server, "a").await;
    assert_eq!(second.get(&path).await.unwrap().status(), 429);
    assert_eq!(Dialled::to(&server, "b").await.get(&path).await.unwrap().status(), 200);
    drop((first, unread));
    let again = async { while second.get(&path).await.unwrap().status() != 200 {} };
    tokio::time::timeout(Duration::from_secs(60), again).await.expect("what is gone keeps its place");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bodies_that_do_not_arrive_keep_their_room_in_the_cluster_alone() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(folder.path(), Limits::of_a_class()).await;
    let [a, b] = ["a", "b"].map(|name| {
        server.add(name, seed()).unwrap();
        hosted(&server, name)
    });
    let mut slow = Dialled::to(&server, "a").await;
    let before = a.quota().room_left();
    let under_way: Vec<_> = [3_000_000, 3_000_000, 3_000_000, 3_000_000, 3_000_000, 1_500_000]
        .into_iter()
        .map(|length| {
            let body = StreamBody::new(futures::stream::pending::<std::io::Result<http_body::Frame<Bytes>>>());
            tokio::spawn(slow.send(Method::POST, MAPS, length, body.boxed_unsync()))
        })
        .collect();
    while a.quota().room_left() > 500 {
        tokio::task::yield_now().await;
    }
    let large = map("large", &"x".repeat(1_000_000));
    let (mut of_a, mut of_b) = (Dialled::to(&server, "a").await, Dialled::to(&server, "b").await);
    let waiting = tokio::spawn(of_a.post(&large));
    assert_eq!(of_b.post(&large).await.unwrap().status(), 201);
    assert_eq!(of_a.get(MAPS).await.unwrap().status(), 200, "a request without a body needs no room");
    assert!(!waiting.is_finished() && b.quota().room_left() == before);
    drop(slow);
    assert_eq!(waiting.await.unwrap().unwrap().status(), 201);
    for one in under_way {
        assert!(one.await.unwrap().is_err(), "its connection is gone");
    }
    while a.quota().room_left() < before {
        tokio::task::yield_now().await;
    }
}
