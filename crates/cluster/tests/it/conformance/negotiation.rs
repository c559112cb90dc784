//! Tables, metadata alone, and messages.

use serde_json::{Value, json};

use super::ground::Ground;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

fn ground() -> Ground {
    let ground = Ground::with_nodes(0);
    let map = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "one" }, "data": { "a": "b" } });
    ground.post(MAPS, &map).good();
    ground
}

// upstream test: [sig-api-machinery] Servers with support for Table transformation should return pod details
// upstream test: [sig-api-machinery] Servers with support for Table transformation should return chunks of table results for list calls
// upstream test: [sig-api-machinery] Servers with support for Table transformation should return generic metadata details across all namespaces for nodes
#[test]
fn tables_come_in_both_versions() {
    let ground = ground();
    for version in ["v1", "v1beta1"] {
        let accept = format!("application/json;as=Table;v={version};g=meta.k8s.io");
        let table = ground.send("GET", MAPS, &[("accept", &accept)], "").good();
        assert_eq!(table["apiVersion"], format!("meta.k8s.io/{version}"));
        assert_eq!(table["rows"][0]["object"]["apiVersion"], format!("meta.k8s.io/{version}"));
    }
}

// upstream test: [sig-api-machinery] Servers with support for Table transformation should return a 406 for a backend which does not implement metadata [Conformance]
#[test]
fn reviews_have_no_table() {
    let ground = ground();
    let review = json!({
        "apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
        "spec": { "resourceAttributes": { "verb": "get", "resource": "pods" } },
    });
    let headers = [("accept", "application/json;as=Table;v=v1;g=meta.k8s.io")];
    let path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    assert_eq!(ground.send("POST", path, &headers, review.to_string()).status, 406);
}

// upstream test: [sig-api-machinery] API Streaming (aka. WatchList) [FeatureGate:WatchList] [Beta] server supports sending resources in Table format
// upstream test: [sig-api-machinery] API Streaming (aka. WatchList) [FeatureGate:WatchList] [Beta] reflector doesn't support receiving resources as Tables
#[test]
fn every_event_of_a_watch_is_a_table() {
    let ground = ground();
    let path =
        format!("{MAPS}?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true");
    let events = ground.events(&path, &[("accept", "application/json;as=Table;v=v1;g=meta.k8s.io")]);
    let last = events.last().unwrap();
    assert_eq!(last["type"], "BOOKMARK");
    assert!(events.iter().all(|event| event["object"]["kind"] == "Table"), "{events:?}");
    let annotations = &last["object"]["rows"][0]["object"]["metadata"]["annotations"];
    assert_eq!(annotations["k8s.io/initial-events-end"], "true");
}

// upstream test: [sig-api-machinery] client-go should negotiate watch and report errors with accept "application/vnd.kubernetes.protobuf"
#[test]
fn messages_go_to_those_who_take_nothing_else() {
    let ground = ground();
    let one = ground.send("GET", &format!("{MAPS}/one"), &[("accept", PROTOBUF)], "");
    assert_eq!(one.headers["content-type"], PROTOBUF);
    assert!(one.bytes.starts_with(b"k8s\0"));
    // What was read can be sent back.
    let sent = ground.send("PUT", &format!("{MAPS}/one"), &[("content-type", PROTOBUF)], one.bytes);
    assert_eq!(sent.good()["data"], json!({ "a": "b" }));
    let both = [("accept", "application/vnd.kubernetes.protobuf,application/json")];
    assert_eq!(ground.send("GET", MAPS, &both, "").good()["kind"], "ConfigMapList");
    let partial = [("accept", "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1")];
    let list = ground.send("GET", MAPS, &partial, "");
    assert_eq!((list.status, &list.bytes[..4]), (200, &b"k8s\0"[..]));
}

// upstream test: [sig-api-machinery] Servers with support for API chunking should support continue listing from the last key if the original version has been compacted away, though the list is inconsistent [Slow] [Conformance]
#[test]
fn a_list_in_pages_shows_one_state_until_it_is_forgotten() {
    let ground = Ground::with_nodes(1);
    let map = |name: &str| json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name } });
    let names = |page: &Value| -> Vec<String> {
        let items = page["items"].as_array().into_iter().flatten();
        items.filter_map(|item| item["metadata"]["name"].as_str().map(str::to_owned)).collect()
    };
    for name in ["a", "c", "e", "g"] {
        ground.post(MAPS, &map(name)).good();
    }
    let first = ground.get(&format!("{MAPS}?limit=2")).good();
    assert_eq!(names(&first), ["a", "c"]);
    let token = first["metadata"]["continue"].as_str().unwrap();
    // What was made in the meantime is on none of the pages, what was deleted still is.
    ground.post(MAPS, &map("d")).good();
    ground.delete(&format!("{MAPS}/e")).good();
    let second = ground.get(&format!("{MAPS}?limit=2&continue={token}")).good();
    assert_eq!(names(&second), ["e", "g"]);
    assert_eq!(second["metadata"]["resourceVersion"], first["metadata"]["resourceVersion"]);
    ground.pass(301);
    let expired = ground.get(&format!("{MAPS}?limit=2&continue={token}"));
    let message = expired.refused(410);
    assert!(message.starts_with("The provided continue parameter is too old"), "{message}");
    let status = expired.json();
    assert_eq!(status["reason"], "Expired");
    let rest = status["metadata"]["continue"].as_str().unwrap();
    let second = ground.get(&format!("{MAPS}?limit=2&continue={rest}")).good();
    assert_eq!(names(&second), ["d", "g"]);
    assert_ne!(second["metadata"]["resourceVersion"], first["metadata"]["resourceVersion"]);
    let last = second["metadata"]["continue"].as_str().unwrap();
    assert_eq!(names(&ground.get(&format!("{MAPS}?continue={last}")).good()), ["kube-root-ca.crt"]);
}
