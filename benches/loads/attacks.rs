//! What learners do with credentials, all of it within the limits of a seat.

use std::sync::Arc;

use futures::FutureExt;
use futures::future::{BoxFuture, join_all};
use kube::Client;
use serde_json::{Value, json};

use super::{Class, MAPS, map, send};

const PODS: &str = "/api/v1/namespaces/default/pods";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
/// Requests of a learner that are under way at a time, each over a connection of its own.
const AT_ONCE: usize = 16;

/// Has each learner send requests until the time is over.
fn all_send(class: Arc<Class>, bodies: impl Fn() -> Vec<(&'static str, String, Vec<u8>)>) -> BoxFuture<'static, ()> {
    let bodies = Arc::new(bodies());
    async move {
        let learners = class.seats.len() - 1;
        let senders = (0..learners * AT_ONCE).map(|number| {
            let (class, bodies) = (Arc::clone(&class), Arc::clone(&bodies));
            tokio::spawn(async move {
                let client = class.client(number % learners).await;
                while !class.is_over() {
                    for (method, path, body) in bodies.iter() {
                        send(&client, method, path, body).await;
                    }
                }
            })
        });
        join_all(senders).await;
    }
    .boxed()
}

fn pod(containers: impl Iterator<Item = Value>) -> Vec<u8> {
    json!({ "metadata": { "name": "p" }, "spec": { "containers": containers.collect::<Value>() } })
        .to_string()
        .into_bytes()
}

pub(super) fn ports(class: Arc<Class>) -> BoxFuture<'static, ()> {
    all_send(class, || {
        let one = json!({ "name": "c", "image": "x", "ports": vec![json!({ "containerPort": 1 }); 3_000] });
        let many = |at: usize| json!({ "name": format!("c{at}"), "image": "x", "ports": [{ "containerPort": 1 }] });
        let path = format!("{PODS}?dryRun=All");
        vec![("POST", path.clone(), pod(std::iter::once(one))), ("POST", path, pod((0..800).map(many)))]
    })
}

pub(super) fn long(class: Arc<Class>) -> BoxFuture<'static, ()> {
    all_send(class, || {
        let container =
            |at: usize| json!({ "name": format!("c{at}"), "image": "x", "ports": [{ "containerPort": 1 }] });
        vec![("POST", PODS.to_owned(), pod((0..30_000).map(container)))]
    })
}

/// Each sends hundreds of large bodies that wait for their turn.
pub(super) fn bodies(class: Arc<Class>) -> BoxFuture<'static, ()> {
    async move {
        let body = Arc::new(map("large", 3_000_000));
        let senders = (0..300 * (class.seats.len() - 1)).map(|number| {
            let (class, body) = (Arc::clone(&class), Arc::clone(&body));
            tokio::spawn(async move {
                let client = class.client(number % (class.seats.len() - 1)).await;
                while !class.is_over() {
                    send(&client, "POST", MAPS, &body).await;
                }
            })
        });
        join_all(senders).await;
    }
    .boxed()
}

fn deployment(container: &Value, more: &Value) -> Vec<u8> {
    let mut spec = json!({ "containers": [container] });
    for (name, value) in more.as_object().into_iter().flatten() {
        spec[name] = value.clone();
    }
    let template = json!({ "metadata": { "labels": { "a": "b" } }, "spec": spec });
    let spec = json!({ "replicas": 1_000, "selector": { "matchLabels": { "a": "b" } }, "template": template });
    json!({ "metadata": { "name": "large" }, "spec": spec }).to_string().into_bytes()
}

/// Deployments with very large pods, one after the other.
pub(super) fn objects(class: Arc<Class>) -> BoxFuture<'static, ()> {
    async move {
        let client = class.client(0).await;
        let plain = json!({ "name": "c", "image": "x" });
        let env: Value = (0..300).map(|at| json!({ "name": format!("N{at}"), "value": "v" })).collect();
        let tolerations: Value = (0..200).map(|at| json!({ "key": format!("k{at}"), "operator": "Exists" })).collect();
        let term =
            |at: usize| json!({ "topologyKey": "z", "labelSelector": { "matchLabels": { format!("l{at}"): "x" } } });
        let terms: Value = (0..100).map(term).collect();
        let affinity = json!({ "podAntiAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": terms } });
        for (container, more) in [
            (&plain, json!({ "affinity": affinity })),
            (&json!({ "name": "c", "image": "x", "env": env }), json!({})),
            (&plain, json!({ "tolerations": tolerations })),
        ] {
            send(&client, "POST", DEPLOYMENTS, &deployment(container, &more)).await;
            tokio::time::sleep(super::ATTACK).await;
            send(&client, "DELETE", &format!("{DEPLOYMENTS}/large"), &[]).await;
        }
        // What is left of it goes.
        tokio::time::sleep(super::ATTACK).await;
    }
    .boxed()
}

pub(super) fn definitions(class: Arc<Class>) -> BoxFuture<'static, ()> {
    all_send(class, || {
        let definition = |schema: Value| {
            let version =
                json!({ "name": "v1", "served": true, "storage": true, "schema": { "openAPIV3Schema": schema } });
            json!({
                "metadata": { "name": "things.a.example" },
                "spec": { "group": "a.example", "scope": "Namespaced", "names": { "plural": "things", "kind": "Thing" }, "versions": [version] },
            })
            .to_string()
            .into_bytes()
        };
        let patterns = ["(((a{1000}){1000}){1000})", "^(a|a?)+$", "((a*)*)*b", "(\\pL{500}){500}"];
        let schemas = patterns.iter().map(|pattern| json!({ "type": "string", "pattern": pattern }));
        let rules: Value =
            (0..200).map(|at| json!({ "rule": format!("self.all(x, self.all(y, x + y != {at}))") })).collect();
        let rule = json!({ "type": "array", "items": { "type": "integer" }, "x-kubernetes-validations": rules });
        let wide: serde_json::Map<String, Value> = (0..20_000)
            .map(|at| (format!("f{at}"), json!({ "type": "string", "pattern": format!("^a{{{at}}}$") })))
            .collect();
        let wide = json!({ "type": "object", "properties": wide });
        let path = format!("{DEFINITIONS}?dryRun=All");
        let schemas = schemas.chain([rule, wide]);
        schemas
            .map(|schema| {
                ("POST", path.clone(), definition(json!({ "type": "object", "properties": { "s": schema } })))
            })
            .collect()
    })
}

async fn fill(client: &Client, count: usize, bytes: usize) {
    for number in 0..count {
        send(client, "POST", MAPS, &map(&format!("m{number}"), bytes)).await;
    }
}

/// Lists of very much, and watches that see changes of it.
pub(super) fn lists(class: Arc<Class>) -> BoxFuture<'static, ()> {
    async move {
        let learners = class.seats.len() - 1;
        let clients = join_all((0..learners).map(|seat| class.client(seat))).await;
        join_all(clients.iter().map(|client| fill(client, 400, 50_000))).await;
        let watchers = (0..learners * 200).map(|number| {
            let class = Arc::clone(&class);
            let client = clients[number % learners].clone();
            tokio::spawn(async move {
                let path = format!("{MAPS}?watch=true&timeoutSeconds=5");
                while !class.is_over() {
                    let watch = send(&client, "GET", &path, &[]);
                    let _ = tokio::time::timeout(super::ATTACK, watch).await;
                }
            })
        });
        let watchers: Vec<_> = watchers.collect();
        let changed = map("m0", 50_000);
        let acting = all_send(Arc::clone(&class), || {
            vec![("GET", MAPS.to_owned(), Vec::new()), ("PUT", format!("{MAPS}/m0"), changed.clone())]
        });
        acting.await;
        join_all(watchers).await;
    }
    .boxed()
}

/// Each seat is used once; they are parked a while later.
pub(super) fn parked(class: Arc<Class>) -> BoxFuture<'static, ()> {
    async move {
        for seats in (0..class.seats.len() - 1).collect::<Vec<_>>().chunks(AT_ONCE) {
            join_all(seats.iter().map(|seat| async {
                let client = class.client(*seat).await;
                for path in ["/api/v1/nodes", "/api/v1/pods", "/apis/apps/v1/deployments", "/api/v1/events"] {
                    send(&client, "GET", path, &[]).await;
                }
                fill(&client, 3, 1_000).await;
                send(&client, "POST", DEPLOYMENTS, &deployment(&json!({ "name": "c", "image": "x" }), &json!({})))
                    .await;
                send(&client, "PATCH", &format!("{DEPLOYMENTS}/large"), br#"{"spec":{"replicas":20}}"#).await;
            }))
            .await;
        }
        // They are parked 15 s after their last word.
        tokio::time::sleep(2 * super::ATTACK).await;
    }
    .boxed()
}
