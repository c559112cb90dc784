//! Copies of a server's cluster: what they hold, on what they are kept, and that each goes its own way.

use std::collections::BTreeMap;
use std::path::Path;

use klab_cluster::cluster::{Cluster, DeleteOptions, WriteOptions};
use klab_cluster::resource::CONFIG_MAPS;
use klab_cluster::server::{Flavour, NewCopy, Renaming, Seed, Server, ServerOptions};
use serde_json::{Value, json};

async fn start(folder: &Path) -> Server {
    let options = ServerOptions { state_directory: folder.join("state"), port: None };
    Server::start(options).await.unwrap_or_else(|error| panic!("{error:?}"))
}

/// A control plane has nothing to do in it: what it holds is what was put there.
fn seed() -> Seed {
    let namespace = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "of-a-01", "labels": { "x": "a-01" } } });
    let kind = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": { "name": "toys.copies.dev" },
        "spec": {
            "group": "copies.dev", "scope": "Namespaced", "names": { "kind": "Toy", "plural": "toys" },
            "versions": [{ "name": "v1", "served": true, "storage": true, "schema": { "openAPIV3Schema": {
                "type": "object", "x-kubernetes-preserve-unknown-fields": true,
            }}}],
        },
    });
    let toy = json!({ "apiVersion": "copies.dev/v1", "kind": "Toy", "metadata": { "name": "a-01-toy", "namespace": "default" } });
    Seed { objects: vec![namespace, kind, toy], flavour: Flavour::Bare, ..Seed::default() }
}

fn copy(name: &str) -> NewCopy {
    let words = vec![("a-01".to_owned(), name.to_owned())];
    NewCopy { name: name.to_owned(), renaming: Renaming::new(words, Vec::new()) }
}

fn cluster(server: &Server, name: &str) -> std::sync::Arc<Cluster> {
    server.api(name).unwrap().cluster().clone()
}

/// Every object's text, by kind, namespace and name.
fn objects(server: &Server, name: &str) -> BTreeMap<String, Value> {
    let cluster = cluster(server, name);
    let all = cluster.kinds().into_iter().flat_map(|kind| cluster.list(kind, None).0);
    let key = |kind: &str, namespace: &str, name: &str| format!("{kind} {namespace}/{name}");
    all.map(|object| (key(object.resource.row().kind, &object.namespace, &object.name), object.to_value())).collect()
}

fn write(server: &Server, name: &str, map: &str) {
    let value = json!({ "metadata": { "name": map } });
    cluster(server, name).create(CONFIG_MAPS, "default", value, &WriteOptions::client("test")).unwrap();
}

fn has(server: &Server, name: &str, map: &str) -> bool {
    cluster(server, name).get(CONFIG_MAPS, "default", map).is_some()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn copies_go_their_own_ways_and_outlive_the_server() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(folder.path()).await;
    server.add("a-01", seed()).unwrap();
    write(&server, "a-01", "common");
    let made = server.copy("a-01", &[copy("a-02"), copy("a-03"), copy("No name")]).unwrap();
    assert_eq!(made.iter().map(|made| made.clone().ok()).collect::<Vec<_>>(), [Some(true), Some(true), None]);

    let renamed = |name: &str| {
        let text = serde_json::to_string(&objects(&server, "a-01")).unwrap().replace("a-01", name);
        serde_json::from_str::<BTreeMap<String, Value>>(&text).unwrap()
    };
    for name in ["a-02", "a-03"] {
        assert_eq!(objects(&server, name), renamed(name), "{name}");
        assert!(objects(&server, name).contains_key(&format!("Toy default/{name}-toy")));
    }
    // What has no name in it is one object for all of them.
    let shared = |name: &str| cluster(&server, name).get(CONFIG_MAPS, "default", "common").unwrap();
    assert!(std::sync::Arc::ptr_eq(&shared("a-01"), &shared("a-02")));
    // Credentials are of each one's own.
    let kubeconfigs: std::collections::BTreeSet<_> =
        ["a-01", "a-02", "a-03"].iter().map(|name| server.kubeconfig(name).unwrap()).collect();
    assert_eq!(kubeconfigs.len(), 3);
    assert!(kubeconfigs.iter().any(|text| text.contains("/clusters/a-02\n") && text.contains("klab-a-02")));

    // A write to one is in no other, whoever makes it.
    for name in ["a-01", "a-02"] {
        write(&server, name, &format!("of-{name}"));
    }
    cluster(&server, "a-02").delete(CONFIG_MAPS, "default", "common", &DeleteOptions::default()).unwrap();
    assert!(has(&server, "a-01", "of-a-01") && !has(&server, "a-01", "of-a-02") && has(&server, "a-01", "common"));
    assert!(has(&server, "a-02", "of-a-02") && !has(&server, "a-02", "of-a-01") && !has(&server, "a-02", "common"));
    assert!(!has(&server, "a-03", "of-a-02") && has(&server, "a-03", "common"));
    // A cluster of that name stays as it is.
    let again = server.copy("a-01", &[copy("a-02")]).unwrap();
    assert!(matches!(again.as_slice(), [Ok(false)]) && has(&server, "a-02", "of-a-02"));
    assert_eq!(server.copy("b-01", &[copy("b-02")]).unwrap_err().code, 404);

    // The original may go; the others are there after a restart, with what was written and under their credentials.
    let before = ["a-02", "a-03"].map(|name| (objects(&server, name), server.kubeconfig(name)));
    server.stop();
    server.run_until_stopped().await;
    std::fs::remove_dir_all(folder.path().join("state/clusters/a-01")).unwrap();
    let server = start(folder.path()).await;
    assert!(["a-02", "a-03"].map(|name| (objects(&server, name), server.kubeconfig(name))) == before);
    write(&server, "a-03", "later");
    assert!(has(&server, "a-03", "later") && !has(&server, "a-02", "later"));
    server.stop();
    server.run_until_stopped().await;
}
