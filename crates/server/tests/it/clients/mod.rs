//! Clients other than kubectl against the server, over TLS.

mod kube_rs;
mod python;

use std::path::Path;

use klab_server::{Delays, Flavour, Seed, Server, ServerOptions};
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::{Value, json};

async fn start(folder: &Path) -> Server {
    let options = ServerOptions::at(folder.join("state"));
    Server::start(options).await.unwrap_or_else(|error| panic!("{error:?}"))
}

fn node(name: &str) -> Value {
    let resources = json!({"cpu": "2", "memory": "8Gi", "pods": "30"});
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "labels": {"pool": name, "kubernetes.io/hostname": name}},
        "status": {
            "capacity": resources, "allocatable": resources,
            "conditions": [{"type": "Ready", "status": "True"}],
            "nodeInfo": {"kubeletVersion": "v1.36.2"},
        },
    })
}

/// Two nodes whose containers start, work and end in no time.
fn seed() -> Seed {
    let delays = Delays { start: 20, job: 20, stop: 20, as_recorded: false };
    Seed { objects: vec![node("a"), node("b")], flavour: Flavour::Bare, delays, ..Seed::default() }
}

/// A client of a server's cluster, set up from its kubeconfig as a user's would be.
async fn client(server: &Server, name: &str) -> kube::Client {
    let kubeconfig = Kubeconfig::from_yaml(&server.kubeconfig(name).unwrap()).unwrap();
    let mut config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
    // What the server answers is wanted at once; the client would wait minutes for an eviction to be allowed.
    config.default_retry = false;
    kube::Client::try_from(config).unwrap()
}
