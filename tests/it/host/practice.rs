//! A class that practises: tasks against each learner's own clock, without the ways to solve them.

use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams};
use serde_json::{Value, json};

use super::running::{Running, client_of};
use crate::environment::Environment;

const TASKS: [&str; 2] = ["practice/uncordon-the-right-node", "practice/customers-go-first"];

#[tokio::test]
async fn learners_find_the_way_alone_and_their_score_is_kept() {
    let mut host = Running::start(&["--practice", "--minutes", "30", TASKS[0], TASKS[1]]);
    assert_eq!(host.document["practice"], 30);
    assert_eq!(host.document["class"], "practice");
    let ann = host.join(&host.code, "Ann", "2468").await.unwrap();
    assert_eq!(ann["lab"], "uncordon-the-right-node", "the first task");
    let guide = host.of_seat(&ann, "GET", "/guide").await.unwrap()["document"].take();
    assert!(guide["steps"][0]["text"].as_str().unwrap().contains("rack-b"), "{guide}");
    assert_eq!((&guide["shown"], &guide["steps"][0]["commands"]), (&json!("task"), &json!([])), "{guide}");
    for (method, what) in
        [("POST", "/step"), ("GET", "/render?step=task"), ("GET", "/diff?step=task"), ("POST", "/reset?to=task")]
    {
        let refused = host.of_seat(&ann, method, what).await;
        let refused = refused.map_or_else(|refused| refused, |answer| answer.to_string());
        assert!(refused.contains("in a practice you find the way alone"), "{what}: {refused}");
    }
    let graded = host.of_seat(&ann, "POST", "/verify?timeout=0").await.unwrap();
    assert_eq!(graded["end"]["ok"], false, "{graded}");

    let client = client_of(&ann["kubeconfig"]).await;
    let nodes: Api<Node> = Api::all(client.clone());
    let open = Patch::Merge(json!({ "spec": { "unschedulable": false } }));
    nodes.patch("rack-b", &PatchParams::default(), &open).await.unwrap();
    let catalog = ListParams::default().labels("app=catalog");
    Api::<Pod>::default_namespaced(client).delete_collection(&DeleteParams::default(), &catalog).await.unwrap();
    let graded = host.of_seat(&ann, "POST", "/verify").await.unwrap();
    assert_eq!(graded["end"]["ok"], true, "{graded}");
    let guide = host.of_seat(&ann, "GET", "/guide").await.unwrap()["document"].take();
    assert_ne!(guide["steps"][0]["commands"], json!([]), "the way is shown afterwards: {guide}");

    host.kill();
    host.resume();
    let said = host.of_seat(&ann, "GET", "?format=human").await.unwrap();
    assert_eq!(said["done"], 1, "{said}");
    let class: Value = serde_json::from_str(&host.instruct("GET", "/teach/class.json").await.unwrap()).unwrap();
    assert_eq!((&class["seats"][0]["person"], &class["seats"][0]["done"]), (&json!(1), &json!(1)));
    let body = format!("code={}&name=Ann&pin=2468&lab=customers-go-first", host.code);
    let (status, _, text) = host.ask("POST", "/api/join", &[("accept", "application/json")], body.into_bytes()).await;
    assert_eq!(status, 200, "{text}");
    let other: Value = serde_json::from_str(&text).unwrap();
    assert_eq!((&other["lab"], &other["seat"]), (&json!("customers-go-first"), &json!("0-2")));
}

#[test]
fn tasks_are_drawn_alike_by_one_number_and_mistakes_are_refused() {
    let environment = Environment::new();
    let labs = |draw: &str| {
        Running::start(&["--practice", "--track", "cka", "--minutes", "8", "--draw", draw]).document["labs"].clone()
    };
    assert_eq!(labs("7"), labs("7"));
    assert!(labs("7").as_array().is_some_and(|labs| !labs.is_empty()));
    environment.write("no-step.toml", "lab = \"no-step\"\n[pool.system]\nmode = \"system\"\n");
    for (words, wanted) in [
        (&["--practice", "no-step.toml"][..], "lab `no-step` has no step, so it is no task"),
        (&["--minutes", "5", "scheduling"], "--practice"),
        (&["--practice", "--shards", "2"], "all shards of a class must draw the same tasks"),
        (&["--practice", "--track", "cooking"], "cooking"),
    ] {
        let said = environment.klab(&[&["host"], words].concat());
        assert!(said.contains(wanted), "{words:?}: {said}");
    }
}
