//! The HTTP face of the embedded cluster, in process, on a clock that is stepped.

mod access;
mod aks;
mod corners;
mod custom;
mod judged;
mod patches;
mod status;
mod stopped;
mod versions;

use std::sync::Arc;

use bytes::Bytes;
use futures::StreamExt;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use klab_api_machinery::resource::CONFIG_MAPS;
use klab_cluster::api::{Api, Body};
use klab_cluster::clock::SteppedClock;
use klab_cluster::cluster::{Cluster, Part, WriteOptions};
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::runtime::{WatchStreamExt, watcher};
use proptest::prelude::*;
use serde_json::{Value, json};

fn cluster() -> Arc<Cluster> {
    let start: Timestamp = "2026-06-01T08:00:00Z".parse().unwrap();
    Arc::new(Cluster::new(Arc::new(SteppedClock::new(start)), 7))
}

fn api() -> Api {
    Api::new(cluster())
}

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

fn config_map(name: &str, label: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": {"n": label}}, "data": {"a": "0"}})
}

fn create(cluster: &Cluster, name: &str, label: &str) -> u64 {
    let options = WriteOptions::by("test");
    cluster.create(CONFIG_MAPS, "default", config_map(name, label), &options).unwrap().resource_version
}

fn change(cluster: &Cluster, name: &str, text: &str) -> u64 {
    let options = WriteOptions::by("test");
    let changed = cluster.modify(CONFIG_MAPS, Part::Main, "default", name, &options, |value| {
        value["data"]["a"] = json!(text);
    });
    changed.unwrap().resource_version
}

fn relabel(cluster: &Cluster, name: &str, label: &str) {
    let options = WriteOptions::by("test");
    let changed = cluster.modify(CONFIG_MAPS, Part::Main, "default", name, &options, |value| {
        value["metadata"]["labels"]["n"] = json!(label);
    });
    changed.unwrap();
}

async fn send(api: &Api, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Response<Body> {
    let mut request = Request::builder().method(method).uri(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    api.answer(request.body(Full::new(Bytes::from(body.to_owned()))).unwrap()).await
}

/// Status and body of a whole answer.
async fn ask(api: &Api, method: &str, path: &str, body: &Value) -> (u16, Value) {
    let text = if body.is_null() { String::new() } else { body.to_string() };
    let response = send(api, method, path, &[], &text).await;
    let status = response.status().as_u16();
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    (status, serde_json::from_slice(&bytes).unwrap_or_default())
}

async fn get(api: &Api, path: &str) -> (u16, Value) {
    ask(api, "GET", path, &Value::Null).await
}

/// A watch, event by event.
struct Events {
    body: Body,
    text: Vec<u8>,
}

impl Events {
    async fn open(api: &Api, query: &str) -> Self {
        let response = send(api, "GET", &format!("{MAPS}?watch=1&{query}"), &[], "").await;
        assert_eq!(response.status(), 200);
        Self { body: response.into_body(), text: Vec::new() }
    }

    async fn next(&mut self) -> Option<Value> {
        loop {
            if let Some(end) = self.text.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.text.drain(..=end).collect();
                return Some(serde_json::from_slice(&line).unwrap());
            }
            let frame = self.body.frame().await?.unwrap();
            self.text.extend_from_slice(&frame.into_data().unwrap());
        }
    }

    /// Kind of event and name of the object.
    async fn take(&mut self, count: usize) -> Vec<(String, String)> {
        let mut taken = Vec::new();
        for _ in 0..count {
            let event = self.next().await.unwrap();
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            taken.push((text(&event["type"]), text(&event["object"]["metadata"]["name"])));
        }
        taken
    }
}

fn pairs(events: &[(String, String)]) -> Vec<(&str, &str)> {
    events.iter().map(|(kind, name)| (kind.as_str(), name.as_str())).collect()
}

#[tokio::test]
async fn a_watch_sees_every_change_once_and_in_order() {
    let api = api();
    let from = create(api.cluster(), "a", "0");
    let mut events = Events::open(&api, &format!("resourceVersion={from}")).await;
    let writer = {
        let cluster = Arc::clone(api.cluster());
        tokio::task::spawn_blocking(move || {
            (0..300).map(|at| change(&cluster, "a", &format!("change {at}"))).collect::<Vec<_>>()
        })
    };
    let mut seen = Vec::new();
    while seen.len() < 300 {
        let event = events.next().await.unwrap();
        assert_eq!(event["type"], "MODIFIED");
        seen.push(event["object"]["metadata"]["resourceVersion"].as_str().unwrap().parse::<u64>().unwrap());
    }
    assert_eq!(seen, writer.await.unwrap());
}

#[tokio::test]
async fn a_watcher_that_does_not_read_holds_nobody_up_and_misses_nothing() {
    let api = api();
    let from = create(api.cluster(), "a", "0");
    let mut events = Events::open(&api, &format!("resourceVersion={from}")).await;
    let written: Vec<u64> = (0..2000).map(|at| change(api.cluster(), "a", &format!("change {at}"))).collect();
    for version in written {
        let event = events.next().await.unwrap();
        assert_eq!(event["object"]["metadata"]["resourceVersion"], version.to_string());
    }
}

#[tokio::test]
async fn documents_are_not_sent_to_whoever_has_them() {
    let api = api();
    let discovery = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
    for path in ["/apis", "/openapi/v3", "/openapi/v3/apis/apps/v1"] {
        let accept = ("accept", discovery);
        let first = send(&api, "GET", path, &[accept], "").await;
        assert_eq!(first.status(), 200, "{path}");
        let tag = first.headers()["etag"].to_str().unwrap().to_owned();
        let again = send(&api, "GET", path, &[accept, ("if-none-match", &tag)], "").await;
        assert_eq!((again.status().as_u16(), again.headers()["etag"].to_str().unwrap()), (304, tag.as_str()), "{path}");
        let other = send(&api, "GET", path, &[accept, ("if-none-match", "\"0\"")], "").await;
        assert_eq!(other.status(), 200, "{path}");
    }
    // A command that applies gets documents without descriptions, under another tag.
    let rich = send(&api, "GET", "/openapi/v3", &[], "").await.headers()["etag"].clone();
    let plain = send(&api, "GET", "/openapi/v3", &[("kubectl-command", "kubectl apply")], "").await;
    assert_ne!(rich, plain.headers()["etag"]);
}

#[tokio::test]
async fn objects_enter_and_leave_the_selector_of_a_watch() {
    let api = api();
    create(api.cluster(), "a", "1");
    create(api.cluster(), "b", "0");
    let mut events = Events::open(&api, "labelSelector=n%3D1").await;
    assert_eq!(pairs(&events.take(1).await), [("ADDED", "a")]);
    relabel(api.cluster(), "b", "1");
    relabel(api.cluster(), "a", "0");
    change(api.cluster(), "a", "not seen");
    change(api.cluster(), "b", "seen");
    let taken = events.take(3).await;
    assert_eq!(pairs(&taken), [("ADDED", "b"), ("DELETED", "a"), ("MODIFIED", "b")]);
}

#[tokio::test]
async fn a_streaming_list_ends_with_a_bookmark_and_goes_on() {
    let api = api();
    create(api.cluster(), "a", "0");
    let query = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
    let mut events = Events::open(&api, query).await;
    // The namespace's own ConfigMap sorts after it.
    assert_eq!(pairs(&events.take(2).await), [("ADDED", "a"), ("ADDED", "kube-root-ca.crt")]);
    let bookmark = events.next().await.unwrap();
    assert_eq!(bookmark["type"], "BOOKMARK");
    assert_eq!(bookmark["object"]["metadata"]["annotations"]["k8s.io/initial-events-end"], "true");
    create(api.cluster(), "b", "0");
    assert_eq!(pairs(&events.take(1).await), [("ADDED", "b")]);

    let (status, refused) = get(&api, &format!("{MAPS}?watch=1&sendInitialEvents=true")).await;
    assert_eq!((status, &refused["reason"]), (422, &json!("Invalid")));
}

#[tokio::test(start_paused = true)]
async fn a_watch_ends_after_its_timeout_with_a_bookmark() {
    let api = api();
    let from = create(api.cluster(), "a", "0");
    let query = format!("resourceVersion={from}&timeoutSeconds=5&allowWatchBookmarks=true");
    let mut events = Events::open(&api, &query).await;
    let bookmark = events.next().await.unwrap();
    assert_eq!(
        (&bookmark["type"], &bookmark["object"]["metadata"]["resourceVersion"]),
        (&json!("BOOKMARK"), &json!(from.to_string()))
    );
    assert_eq!(events.next().await, None);
}

#[tokio::test]
async fn a_watch_from_before_the_history_is_told_so() {
    let folder = tempfile::tempdir().unwrap();
    let clock = || Arc::new(SteppedClock::new("2026-06-01T08:00:00Z".parse().unwrap()));
    let path = folder.path().join("log");
    let (cluster, _) = Cluster::open(&path, clock(), 7).unwrap();
    let old = create(&cluster, "a", "0");
    change(&cluster, "a", "1");
    drop(cluster);
    // The history does not outlive the process; the objects and their versions do.
    let (cluster, _) = Cluster::open(&path, clock(), 7).unwrap();
    let api = Api::new(Arc::new(cluster));
    let mut events = Events::open(&api, &format!("resourceVersion={old}")).await;
    let event = events.next().await.unwrap();
    assert_eq!((&event["type"], &event["object"]["code"]), (&json!("ERROR"), &json!(410)));
    assert_eq!(event["object"]["reason"], "Expired");
    assert_eq!(events.next().await, None);
}

#[tokio::test]
async fn pages_of_a_list_hold_every_object_once() {
    let api = api();
    for at in 0..7 {
        create(api.cluster(), &format!("c{at}"), &(at % 2).to_string());
    }
    let (mut names, mut more, mut pages) = (Vec::new(), String::new(), 0);
    loop {
        let (status, page) = get(&api, &format!("{MAPS}?limit=3&continue={more}")).await;
        assert_eq!(status, 200);
        names.extend(page["items"].as_array().unwrap().iter().map(|item| item["metadata"]["name"].clone()));
        pages += 1;
        match page["metadata"]["continue"].as_str() {
            Some(next) => next.clone_into(&mut more),
            None => break,
        }
    }
    assert_eq!(pages, 3);
    assert_eq!(names, ["c0", "c1", "c2", "c3", "c4", "c5", "c6", "kube-root-ca.crt"]);
    let (_, page) = get(&api, &format!("{MAPS}?limit=3")).await;
    assert_eq!(page["metadata"]["remainingItemCount"], 5);
    let (status, refused) = get(&api, &format!("{MAPS}?continue=garbage")).await;
    assert_eq!((status, &refused["reason"]), (400, &json!("BadRequest")));
}

#[tokio::test]
async fn lists_can_be_read_as_they_were() {
    let api = api();
    let before = create(api.cluster(), "a", "0");
    change(api.cluster(), "a", "later");
    create(api.cluster(), "b", "0");
    let exact = format!("{MAPS}?resourceVersionMatch=Exact&resourceVersion={before}&labelSelector=n");
    let (_, list) = get(&api, &exact).await;
    assert_eq!(list["items"].as_array().unwrap().len(), 1);
    assert_eq!(list["items"][0]["data"]["a"], "0");
    let (status, refused) = get(&api, &format!("{MAPS}?resourceVersionMatch=NotOlderThan&resourceVersion=99999")).await;
    assert_eq!((status, &refused["details"]["causes"][0]["reason"]), (504, &json!("ResourceVersionTooLarge")));
}

#[tokio::test]
async fn who_updates_version_0_does_not_mind_which_there_is() {
    let api = api();
    create(api.cluster(), "a", "0");
    for (version, code) in [("0", 200), ("", 200), ("1", 409)] {
        let mut body = config_map("a", version);
        body["metadata"]["resourceVersion"] = json!(version);
        let (status, answer) = ask(&api, "PUT", &format!("{MAPS}/a"), &body).await;
        assert_eq!(status, code, "{version}: {answer}");
    }
}

#[tokio::test]
async fn errors_are_statuses() {
    let api = api();
    create(api.cluster(), "a", "0");
    for (method, path, body, code, reason) in [
        ("GET", "/api/v1/namespaces/default/configmaps/none", Value::Null, 404, "NotFound"),
        ("GET", "/api/v1/nosuch", Value::Null, 404, "NotFound"),
        ("POST", MAPS, config_map("a", "0"), 409, "AlreadyExists"),
        ("POST", "/api/v1/namespaces/none/configmaps", config_map("a", "0"), 404, "NotFound"),
        ("PUT", "/api/v1/namespaces/default/configmaps/b", config_map("a", "0"), 400, "BadRequest"),
        ("POST", "/api/v1/namespaces/default/pods/x", json!({}), 405, "MethodNotAllowed"),
        ("GET", "/api/v1/pods?fieldSelector=bad%3D1", Value::Null, 400, "BadRequest"),
        ("GET", "/api/v1/pods?limit=abc", Value::Null, 400, "BadRequest"),
        ("POST", "/api/v1/namespaces/default/configmaps?dryRun=Some", config_map("x", "0"), 422, "Invalid"),
        ("DELETE", "/api/v1/namespaces/default/configmaps/a?dryRun=", Value::Null, 422, "Invalid"),
    ] {
        let (status, answer) = ask(&api, method, path, &body).await;
        assert_eq!((status, answer["reason"].as_str()), (code, Some(reason)), "{method} {path}: {answer}");
        assert_eq!((&answer["kind"], &answer["status"]), (&json!("Status"), &json!("Failure")), "{method} {path}");
    }
    let text = send(&api, "GET", "/apis/no.such/v1/things", &[], "").await;
    assert_eq!(
        (text.status().as_u16(), text.headers()["content-type"].to_str().unwrap()),
        (404, "text/plain; charset=utf-8")
    );
    let refused = send(&api, "GET", MAPS, &[("accept", "text/csv")], "").await;
    assert_eq!(refused.status(), 406);
    let refused = send(&api, "PATCH", &format!("{MAPS}/a"), &[("content-type", "text/plain")], "{}").await;
    assert_eq!(refused.status(), 415);
    let large = "x".repeat(4 * 1024 * 1024);
    let refused = send(&api, "POST", MAPS, &[("content-type", "application/json")], &large).await;
    assert_eq!(refused.status(), 413);
}

async fn json_patch(api: &Api, operations: &Value) -> (u16, Value) {
    let headers = [("content-type", "application/json-patch+json")];
    let response = send(api, "PATCH", &format!("{MAPS}/a"), &headers, &operations.to_string()).await;
    let status = response.status().as_u16();
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    (status, serde_json::from_slice(&bytes).unwrap())
}

#[tokio::test]
async fn json_patches_that_do_not_fit_leave_everything_as_it_was() {
    let api = api();
    let version = create(api.cluster(), "a", "0");
    // What came before the operation that fails could not even be undone.
    let tangled = json!([
        {"op": "move", "from": "/metadata/labels", "path": "/data"},
        {"op": "copy", "from": "", "path": "/metadata/labels"},
        {"op": "move", "from": "/metadata", "path": "/metadata/labels/x"},
    ]);
    assert_eq!(json_patch(&api, &tangled).await.0, 422);
    let doubling: Vec<Value> =
        (0..64).map(|at| json!({"op": "copy", "from": "/data", "path": format!("/data/{at}")})).collect();
    assert_eq!(json_patch(&api, &json!(doubling)).await.0, 422);
    let many: Vec<Value> = (0..10_001).map(|_| json!({"op": "test", "path": "/data/a", "value": "0"})).collect();
    assert_eq!(json_patch(&api, &json!(many)).await.0, 413);
    let mut deep = vec![json!({"op": "add", "path": "/metadata/labels", "value": {}})];
    deep.extend((1..300).map(|at| json!({"op": "add", "path": format!("/data{}", "/x".repeat(at)), "value": {}})));
    let (status, refused) = json_patch(&api, &json!(deep)).await;
    assert_eq!(status, 422, "{refused}");
    assert!(refused["message"].as_str().unwrap().ends_with("json: exceeded max depth"), "{refused}");
    assert_eq!(get(&api, &format!("{MAPS}/a")).await.1["metadata"]["resourceVersion"], version.to_string());
}

#[tokio::test]
async fn unknown_fields_are_refused_named_or_dropped_as_asked() {
    let api = api();
    let mut body = config_map("a", "0");
    body["dato"] = json!({});
    let (status, refused) = ask(&api, "POST", &format!("{MAPS}?fieldValidation=Strict"), &body).await;
    assert_eq!(status, 400);
    assert!(
        refused["message"].as_str().unwrap().ends_with("strict decoding error: unknown field \"dato\""),
        "{refused}"
    );
    let warned = send(&api, "POST", MAPS, &[], &body.to_string()).await;
    assert_eq!(warned.status(), 201);
    assert_eq!(warned.headers()["warning"], "299 - \"unknown field \\\"dato\\\"\"");
}

#[tokio::test]
async fn dry_runs_answer_and_store_nothing() {
    let api = api();
    let (status, made) = ask(&api, "POST", &format!("{MAPS}?dryRun=All"), &config_map("a", "0")).await;
    assert_eq!((status, made["metadata"]["resourceVersion"].as_str()), (201, None));
    assert_eq!(get(&api, &format!("{MAPS}/a")).await.0, 404);
}

#[tokio::test]
async fn yaml_goes_both_ways() {
    let api = api();
    let yaml = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: plain\ndata:\n  answer: \"42\"\n";
    let headers = [("content-type", "application/yaml"), ("accept", "application/yaml")];
    let response = send(&api, "POST", MAPS, &headers, yaml).await;
    let (status, kind) = (response.status(), response.headers()["content-type"].clone());
    let text = response.into_body().collect().await.unwrap().to_bytes();
    assert_eq!((status.as_u16(), kind.to_str().unwrap()), (201, "application/yaml"), "{text:?}");
    assert!(String::from_utf8_lossy(&text).contains("answer: \"42\""), "{text:?}");
}

#[tokio::test]
async fn options_that_contradict_each_other_are_refused() {
    let api = api();
    let path = "/api/v1/namespaces/default/configmaps/kept";
    assert_eq!(ask(&api, "POST", "/api/v1/namespaces/default/configmaps", &config_map("kept", "x")).await.0, 201);
    let both = json!({ "propagationPolicy": "Foreground", "orphanDependents": true });
    let words = r#"propagationPolicy: Invalid value: "Foreground": orphanDependents and deletionPropagation cannot be both set"#;
    let in_query = format!("{path}?propagationPolicy=Foreground&orphanDependents=false");
    for (path, body) in [(path, &both), (in_query.as_str(), &Value::Null)] {
        let (code, answer) = ask(&api, "DELETE", path, body).await;
        assert!(code == 422 && answer["message"].as_str().unwrap().contains(words), "{answer}");
    }
    let merge = [("content-type", "application/merge-patch+json")];
    for (query, code) in [("?force=true", 422), ("?force=false", 422), ("", 200)] {
        let answer = send(&api, "PATCH", &format!("{path}{query}"), &merge, r#"{"data":{"a":"b"}}"#).await;
        assert_eq!(answer.status(), code, "{query}");
    }
}

#[tokio::test]
async fn keys_that_yaml_has_twice_are_told_or_refused() {
    let api = api();
    let body = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: twice\ndata:\n  a: first\n  a: last\nother: 1\n";
    let path = "/api/v1/namespaces/default/configmaps";
    let yaml = [("content-type", "application/yaml")];
    let refused = send(&api, "POST", &format!("{path}?fieldValidation=Strict"), &yaml, body).await;
    assert_eq!(refused.status(), 400);
    let text = refused.into_body().collect().await.unwrap().to_bytes();
    let words = r#"strict decoding error: yaml: unmarshal errors:\n  line 7: key \"a\" already set in map, unknown field \"other\""#;
    assert!(String::from_utf8_lossy(&text).contains(words), "{text:?}");
    let made = send(&api, "POST", path, &yaml, body).await;
    let warnings: Vec<_> =
        made.headers().get_all("warning").iter().map(|one| one.to_str().unwrap().to_owned()).collect();
    assert_eq!(made.status(), 201);
    assert_eq!(warnings, [r#"299 - "line 7: key \"a\" already set in map""#, r#"299 - "unknown field \"other\"""#]);
    assert_eq!(get(&api, &format!("{path}/twice")).await.1["data"], json!({ "a": "last" }));
    let apply = [("content-type", "application/apply-patch+yaml")];
    let query = "fieldManager=me&fieldValidation";
    let refused = send(&api, "PATCH", &format!("{path}/twice?{query}=Strict"), &apply, body).await;
    assert_eq!(refused.status(), 400);
    let valid = body.replace("other: 1\n", "");
    assert_eq!(
        send(&api, "PATCH", &format!("{path}/twice?{query}=Ignore&force=true"), &apply, &valid).await.status(),
        200
    );
}

#[tokio::test]
async fn kube_rs_applies_lists_and_watches() {
    let api = api();
    let client = api.client();
    let maps: kube::Api<ConfigMap> = kube::Api::default_namespaced(client.clone());
    let wanted = config_map("applied", "1");
    let parameters = PatchParams::apply("klab-test");
    let applied = maps.patch("applied", &parameters, &Patch::Apply(&wanted)).await.unwrap();
    let again = maps.patch("applied", &parameters, &Patch::Apply(&wanted)).await.unwrap();
    assert_eq!(applied.metadata.resource_version, again.metadata.resource_version);
    let other = PatchParams::apply("other");
    let mut stolen = wanted.clone();
    stolen["data"]["a"] = json!("9");
    let conflict = maps.patch("applied", &other, &Patch::Apply(&stolen)).await.unwrap_err();
    assert!(matches!(conflict, kube::Error::Api(status) if status.code == 409));

    let mut stream =
        watcher(maps.clone(), watcher::Config::default().labels("n=1")).default_backoff().applied_objects().boxed();
    assert_eq!(stream.next().await.unwrap().unwrap().metadata.name.as_deref(), Some("applied"));
    maps.create(&PostParams::default(), &serde_json::from_value(config_map("second", "1")).unwrap()).await.unwrap();
    assert_eq!(stream.next().await.unwrap().unwrap().metadata.name.as_deref(), Some("second"));
    assert_eq!(maps.list(&ListParams::default().labels("n=1")).await.unwrap().items.len(), 2);

    let pods: kube::Api<Pod> = kube::Api::default_namespaced(client.clone());
    let evicted = pods.evict("none", &kube::api::EvictParams::default()).await.unwrap_err();
    assert!(matches!(evicted, kube::Error::Api(status) if status.code == 404));
    let discovery = kube::discovery::Discovery::new(client).run().await.unwrap();
    assert!(discovery.has_group("apps"));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    /// Whatever is asked, there is an answer.
    #[test]
    fn no_request_breaks_the_server(
        method in prop_oneof!["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"],
        path in prop_oneof![
            "(/(api|apis|v1|apps|pods|configmaps|namespaces|default|a|scale|status|watch|log|eviction|deployments|%2F|%ff|\\.\\.)){0,8}",
            "/[ -~]{0,40}",
        ],
        query in "[a-zA-Z=&%0-9,!()]{0,40}",
        kind in prop_oneof![
            Just("application/json"), Just("application/yaml"), Just("application/vnd.kubernetes.protobuf"),
            Just("application/merge-patch+json"), Just("application/json-patch+json"),
            Just("application/strategic-merge-patch+json"), Just("application/apply-patch+yaml"), Just("x"),
        ],
        accept in prop_oneof![
            Just("application/json"), Just("application/json;as=Table;v=v1;g=meta.k8s.io"), Just("application/yaml"),
            Just("application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"), Just("x"),
        ],
        body in prop_oneof!["[ -~]{0,60}", "\\{\"(metadata|spec|kind)\":(\\{\\}|null|1|\"Pod\")\\}", "k8s\\x00[\\x00-\\x7f]{0,40}"],
    ) {
        let uri: Result<http::Uri, _> = format!("{}?{query}", path.replace(' ', "+")).parse();
        prop_assume!(uri.is_ok());
        let api = api();
        create(api.cluster(), "a", "0");
        let request = Request::builder()
            .method(method.as_str())
            .uri(uri.unwrap())
            .header("content-type", kind)
            .header("accept", accept)
            .header("user-agent", "fuzz/1")
            .body(Full::new(Bytes::from(body)));
        prop_assume!(request.is_ok());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let status = runtime.block_on(api.answer(request.unwrap())).status().as_u16();
        prop_assert!((200..600).contains(&status));
    }
}

#[tokio::test]
async fn version_is_the_clusters_own_or_the_one_that_kube_system_names() {
    let cluster = cluster();
    let api = Api::new(Arc::clone(&cluster));
    let namespace = |version: &str| {
        let annotations = json!({ klab_cluster::VERSION_ANNOTATION: version });
        json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "kube-system", "annotations": annotations } })
    };
    let answered = async || {
        let (_, version) = get(&api, "/version").await;
        let field = |name: &str| version[name].as_str().unwrap().to_owned();
        format!("{} {} {}", field("gitVersion"), field("minor"), field("minCompatibilityMinor"))
    };
    assert_eq!(answered().await, "v1.36.2 36 35");
    for (asked, expected) in [("1.35.0", "v1.35.0 35 34"), ("1.35", "v1.36.2 36 35"), ("soon", "v1.36.2 36 35")] {
        let path = "/api/v1/namespaces/kube-system";
        let made = send(&api, "POST", "/api/v1/namespaces", &[], &namespace(asked).to_string()).await.status();
        if made != 201 {
            let patch = [("content-type", "application/merge-patch+json")];
            assert_eq!(send(&api, "PATCH", path, &patch, &namespace(asked).to_string()).await.status(), 200);
        }
        assert_eq!(answered().await, expected, "{asked}");
    }
}
