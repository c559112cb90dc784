//! `klab host --on-kubernetes --provider aks`: a class with a cluster of its own, through the fake az, with Kubernetes behind it.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::aks_binary::Setup;
use crate::azure::api::Latency;
use crate::environment::has_kubectl;

/// What is typed for a class of so many seats.
fn host(setup: &Setup, seats: &str) -> String {
    setup.succeeds(&[
        "host",
        "scheduling",
        "--on-kubernetes",
        "--provider",
        "aks",
        "--location",
        "northeurope",
        "--url",
        "https://labs.example.org",
        "--image",
        "registry.example.org/klab:0.1.0",
        "--max-seats",
        seats,
    ])
}

fn object(setup: &Setup, words: &str) -> Value {
    let path = setup.run(&["kubeconfig", "hosted-scheduling", "--path"]);
    let path = String::from_utf8(path.stdout).unwrap();
    let mut kubectl = Command::new("kubectl");
    kubectl.args(["--kubeconfig", path.trim(), "--request-timeout", "20s", "get", "-o", "json"]).args(words.split(' '));
    let output = kubectl.env("HOME", setup.environment.folder()).output().unwrap();
    assert!(output.status.success(), "{words}: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The line of the output that begins so.
fn line<'t>(shown: &'t str, begins: &str) -> &'t str {
    shown.lines().find(|line| line.starts_with(begins)).unwrap_or_else(|| panic!("no line `{begins}`: {shown}"))
}

#[test]
fn a_class_gets_a_cluster_and_a_router_and_grows_with_its_seats() {
    if !has_kubectl() {
        return;
    }
    let setup = Setup::new(Latency::NONE);
    let shown = host(&setup, "600");
    let made = setup.fake.take_calls();
    let create = made.iter().find(|call| call.starts_with("aks create")).unwrap_or_else(|| panic!("{made:?}"));
    for words in ["--enable-app-routing", "--network-dataplane cilium", "--node-vm-size Standard_D4s_v5", "northeurope"]
    {
        assert!(create.contains(words), "{words} in {create}");
    }
    let code = line(&shown, "code ").to_owned();
    let shards = |setup: &Setup| object(setup, "statefulset klab -n klab");
    assert_eq!(shards(&setup)["status"]["readyReplicas"], json!(2));
    assert_eq!(
        object(&setup, "ingress klab -n klab")["spec"]["ingressClassName"],
        json!("webapprouting.kubernetes.azure.com")
    );
    // The NetworkPolicy lets in whoever stands in a namespace with this label.
    let router = object(&setup, "namespace app-routing-system");
    assert_eq!(router["metadata"]["labels"]["klab.dev/routes"], json!("true"));
    let pools = |setup: &Setup| {
        setup.fake.model().pools().iter().map(|pool| pool.properties["count"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(pools(&setup), [json!(1)]);

    // Typed again with more seats, it has more shards and machines, and the same code.
    let grown = host(&setup, "2000");
    assert_eq!(line(&grown, "code "), code);
    assert_eq!(shards(&setup)["status"]["readyReplicas"], json!(7));
    assert_eq!(pools(&setup), [json!(3)]);
    let calls = setup.fake.take_calls();
    assert!(!calls.iter().any(|call| call.starts_with("aks create")), "{calls:?}");

    setup.succeeds(&["down", "hosted-scheduling"]);
    assert_eq!(setup.everything(), Vec::<String>::new());
}

#[test]
fn a_cluster_is_made_by_klab_or_named_by_the_user() {
    let setup = Setup::new(Latency::NONE);
    let url = ["--url", "https://labs.example.org", "--image", "i"];
    for arguments in [
        &["--provider", "aks", "--context", "mine"][..],
        &["--provider", "kind"],
        &["--location", "northeurope"],
        &["--provider", "aks", "--write", "there"],
    ] {
        let output = setup.run(&[&["host", "scheduling", "--on-kubernetes"], &url[..], arguments].concat());
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {}", setup.environment.shown(&output));
    }
    assert!(!Path::new(&setup.environment.home()).join("clusters").exists());
    assert_eq!(setup.everything(), Vec::<String>::new());
}
