//! Kinds that CustomResourceDefinitions bring in: each cluster's own, kept when the definition changes and over a restart.

use std::sync::Arc;

use klab_cluster::api::Api;
use klab_cluster::clock::SteppedClock;
use klab_cluster::cluster::Cluster;
use serde_json::{Value, json};

use super::{api, ask, get};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const ALL: &str = "/apis/labs.test/v1/gizmos";
const IN_DEFAULT: &str = "/apis/labs.test/v1/namespaces/default/gizmos";

fn definition(scope: &str, short: &str) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": "gizmos.labs.test" },
        "spec": {
            "group": "labs.test", "scope": scope,
            "names": { "plural": "gizmos", "kind": "Gizmo", "shortNames": [short] },
            "versions": [{
                "name": "v1", "served": true, "storage": true, "subresources": { "status": {} },
                "schema": { "openAPIV3Schema": { "type": "object", "x-kubernetes-preserve-unknown-fields": true } },
            }],
        },
    })
}

fn gizmo(name: &str) -> Value {
    json!({ "apiVersion": "labs.test/v1", "kind": "Gizmo", "metadata": { "name": name }, "spec": { "size": 1 } })
}

async fn names(api: &Api) -> Vec<String> {
    let (status, list) = get(api, ALL).await;
    assert_eq!(status, 200, "{list}");
    let items = list["items"].as_array().unwrap();
    items.iter().map(|item| item["metadata"]["name"].as_str().unwrap().to_owned()).collect()
}

async fn create(api: &Api, path: &str, body: &Value) {
    let (status, answer) = ask(api, "POST", path, body).await;
    assert_eq!(status, 201, "{answer}");
}

#[tokio::test]
async fn clusters_of_a_process_may_define_a_kind_differently() {
    let (here, there) = (api(), api());
    create(&here, DEFINITIONS, &definition("Namespaced", "gz")).await;
    create(&there, DEFINITIONS, &definition("Cluster", "gzm")).await;
    create(&here, IN_DEFAULT, &gizmo("here")).await;
    create(&there, ALL, &gizmo("there")).await;
    assert_eq!(names(&here).await, ["here"]);
    assert_eq!(names(&there).await, ["there"]);
    assert_eq!(ask(&there, "POST", IN_DEFAULT, &gizmo("x")).await.0, 404);
    for (api, short) in [(&here, "gz"), (&there, "gzm")] {
        let (_, resources) = get(api, "/apis/labs.test/v1").await;
        assert_eq!(resources["resources"][0]["shortNames"], json!([short]));
        assert_eq!(resources["resources"][1]["name"], "gizmos/status");
    }
}

#[tokio::test]
async fn objects_stay_when_their_definition_changes() {
    let api = api();
    create(&api, DEFINITIONS, &definition("Namespaced", "gz")).await;
    create(&api, IN_DEFAULT, &gizmo("kept")).await;
    let path = format!("{IN_DEFAULT}/kept");
    let mut with_status = get(&api, &path).await.1;
    with_status["status"] = json!({ "phase": "Ready" });
    assert_eq!(ask(&api, "PUT", &path, &with_status).await.1["status"], Value::Null, "status has its own path");

    let of_definition = format!("{DEFINITIONS}/gizmos.labs.test");
    let mut changed = get(&api, &of_definition).await.1;
    changed["spec"]["names"]["shortNames"] = json!(["g"]);
    changed["spec"]["versions"][0]["subresources"] = json!({});
    let (status, answer) = ask(&api, "PUT", &of_definition, &changed).await;
    assert_eq!(status, 200, "{answer}");
    assert_eq!(names(&api).await, ["kept"]);
    assert_eq!(ask(&api, "PUT", &format!("{path}/status"), &with_status).await.0, 404);
    let mut again = get(&api, &path).await.1;
    again["status"] = json!({ "phase": "Ready" });
    assert_eq!(ask(&api, "PUT", &path, &again).await.1["status"], json!({ "phase": "Ready" }));
}

#[tokio::test]
async fn a_definition_that_may_not_go_keeps_its_objects_and_bears_the_name_of_its_kind() {
    let api = api();
    let mut misnamed = definition("Namespaced", "gz");
    misnamed["metadata"]["name"] = json!("a");
    let (status, answer) = ask(&api, "POST", DEFINITIONS, &misnamed).await;
    let words = r#"metadata.name: Invalid value: "a": must be spec.names.plural+"."+spec.group"#;
    assert_eq!((status, answer["message"].as_str().unwrap().contains(words)), (422, true), "{answer}");

    create(&api, DEFINITIONS, &definition("Namespaced", "gz")).await;
    create(&api, IN_DEFAULT, &gizmo("kept")).await;
    let of_definition = format!("{DEFINITIONS}/gizmos.labs.test");
    let other = json!({ "preconditions": { "uid": "another" } });
    assert_eq!(ask(&api, "DELETE", &of_definition, &other).await.0, 409);
    assert_eq!(names(&api).await, ["kept"]);
    assert_eq!(ask(&api, "DELETE", &of_definition, &Value::Null).await.0, 200);
    create(&api, DEFINITIONS, &definition("Namespaced", "gz")).await;
    assert_eq!(names(&api).await, Vec::<String>::new());
}

/// The log is rewritten while it holds the definition and no object of the kind, and an object is made then.
#[tokio::test]
async fn objects_made_after_the_log_was_written_again_are_restored() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    let open = || {
        let clock = Arc::new(SteppedClock::new("2026-06-01T08:00:00Z".parse().unwrap()));
        Cluster::open(&path, clock, 7).unwrap()
    };
    let api = Api::new(Arc::new(open().0));
    create(&api, DEFINITIONS, &definition("Namespaced", "gz")).await;
    create(&api, IN_DEFAULT, &gizmo("short-lived")).await;
    assert_eq!(ask(&api, "DELETE", &format!("{IN_DEFAULT}/short-lived"), &Value::Null).await.0, 200);
    let text = "x".repeat(900_000);
    for at in 0..6 {
        let map = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": format!("large-{at}") }, "data": { "a": text },
        });
        create(&api, super::MAPS, &map).await;
    }
    api.cluster().sync().unwrap();
    create(&api, IN_DEFAULT, &gizmo("kept")).await;
    drop(api);
    let (cluster, recovery) = open();
    assert_eq!(recovery.notes, Vec::<String>::new());
    assert_eq!(names(&Api::new(Arc::new(cluster))).await, ["kept"]);
}

/// Each version of a definition is a kind.
fn definition_of(plural: &str, versions: usize) -> Value {
    let mut definition = definition("Namespaced", "g");
    let version = definition["spec"]["versions"][0].clone();
    definition["metadata"]["name"] = json!(format!("{plural}.labs.test"));
    definition["spec"]["names"] = json!({ "plural": plural, "kind": plural });
    let versions = (1..=versions).map(|number| {
        let mut version = version.clone();
        version["name"] = json!(format!("v{number}"));
        version["storage"] = json!(number == 1);
        version
    });
    definition["spec"]["versions"] = versions.collect();
    definition
}

#[tokio::test]
async fn a_cluster_has_so_many_kinds_of_its_own_and_is_told_when_it_has_them() {
    let (here, there) = (api(), api());
    create(&here, DEFINITIONS, &definition_of("many", 990)).await;
    create(&here, DEFINITIONS, &definition_of("few", 10)).await;
    let (status, answer) = ask(&here, "POST", DEFINITIONS, &definition_of("more", 5)).await;
    let words = "this lab has 1000 kinds of CustomResourceDefinitions and would have 1005; the limit is 1000";
    assert_eq!(status, 403, "{answer}");
    assert!(answer["message"].as_str().unwrap().contains(words), "{answer}");
    assert_eq!(get(&here, &format!("{DEFINITIONS}/more.labs.test")).await.0, 404);
    // To change one that there is, and to make it smaller, is allowed.
    for versions in [10, 5] {
        let (status, answer) =
            ask(&here, "PUT", &format!("{DEFINITIONS}/few.labs.test"), &definition_of("few", versions)).await;
        assert_eq!(status, 200, "{answer}");
    }
    create(&here, DEFINITIONS, &definition_of("more", 5)).await;
    assert_eq!(get(&here, "/apis/labs.test/v5/more").await.0, 200);
    create(&there, DEFINITIONS, &definition_of("more", 5)).await;
    assert_eq!(get(&there, "/apis/labs.test/v5/more").await.0, 200, "another cluster has its own");
}

#[tokio::test]
async fn kinds_that_were_removed_count_no_longer() {
    let api = api();
    for round in 0..3 {
        let plural = format!("round{round}");
        create(&api, DEFINITIONS, &definition_of(&plural, 600)).await;
        assert_eq!(get(&api, &format!("/apis/labs.test/v600/{plural}")).await.0, 200);
        let (status, answer) = ask(&api, "DELETE", &format!("{DEFINITIONS}/{plural}.labs.test"), &Value::Null).await;
        assert_eq!(status, 200, "{answer}");
    }
}
