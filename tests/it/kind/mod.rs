//! kind: golden configurations, decoded by the real kind; the whole life of a lab on a stand-in for kind and docker.

mod faults;
mod golden;
mod lessons;
mod live;
mod nodes;
#[path = "../../kind/pair.rs"]
mod pair;

use std::collections::BTreeMap;
use std::process::{Command, Output};

use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt;

use self::pair::Pair;
use crate::environment::Environment;

/// A lab of two pools, the shape of the shipped ones.
const LAB: &str = r#"
lab        = "pools"
kubernetes = "1.36"

[pool.nodepool1]
mode  = "system"
nodes = 2
size  = "Standard_B2ms"

[pool.extra]
nodes  = 1
size   = "Standard_B2ms"
labels = { workload = "extra" }
taints = ["dedicated=special:NoSchedule"]

[workload.web]
replicas      = 2
image         = "nginx:1.27"
requests      = { cpu = "50m", memory = "64Mi" }
node_selector = { workload = "extra" }
tolerations   = ["dedicated=special:NoSchedule"]

[[check]]
workload = "web"
on       = "pool:extra"
running  = 2
"#;

/// klab, its home, and the pair it finds on its PATH.
pub(crate) struct Stage {
    // Its servers end before their folder goes.
    pair: Pair,
    environment: Environment,
}

impl Stage {
    pub(crate) fn new(lab: &str) -> Self {
        let environment = Environment::new();
        let pair = Pair::new(environment.folder());
        environment.write("pools.toml", lab);
        Self { pair, environment }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        self.pair.rests();
        let mut command = self.environment.command(arguments);
        command
            .env("PATH", self.pair.path())
            // The first network of a machine is made under a lock of all klabs; each test is a machine.
            .env("TMPDIR", self.environment.folder())
            .env("KLAB_PROVIDER", "kind")
            .env("KLAB_KIND_READY", "120")
            .env("KLAB_KIND_LATE", "50");
        command
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    pub(crate) fn succeeds(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert!(output.status.success(), "klab {arguments:?}\n{}", self.environment.shown(&output));
        String::from_utf8(output.stderr).unwrap()
    }

    /// The talk of a command that must fail with this exit code.
    fn fails(&self, code: i32, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        let talk = self.environment.shown(&output);
        assert_eq!(output.status.code(), Some(code), "{talk}");
        talk
    }

    pub(crate) fn up(&self) -> String {
        self.succeeds(&["up", "pools.toml"])
    }

    fn write(&self, lab: &str) {
        self.environment.write("pools.toml", lab);
    }

    fn down(&self) {
        self.succeeds(&["down", "pools"]);
        self.nothing_is_left();
    }

    fn nothing_is_left(&self) {
        assert_eq!(self.pair.containers(), Vec::<String>::new());
        assert_eq!(self.environment.leftovers(), Vec::<String>::new());
        assert!(!self.environment.folder().join(".kube").exists(), "the user's kubeconfig is not klab's");
    }

    /// The live nodes, by name.
    fn nodes(&self) -> BTreeMap<String, Node> {
        let kubeconfig = std::fs::read_to_string(self.environment.home().join("labs/pools/kubeconfig")).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let kubeconfig = kube::config::Kubeconfig::from_yaml(&kubeconfig).unwrap();
            let config = kube::Config::from_custom_kubeconfig(kubeconfig, &kube::config::KubeConfigOptions::default())
                .await
                .unwrap();
            let api: kube::Api<Node> = kube::Api::all(kube::Client::try_from(config).unwrap());
            let nodes = api.list(&kube::api::ListParams::default()).await.unwrap();
            nodes.items.into_iter().map(|node| (node.name_any(), node)).collect()
        })
    }

    /// Deletes a node object, as kubectl does.
    fn delete_node(&self, name: &str) {
        let kubeconfig = std::fs::read_to_string(self.environment.home().join("labs/pools/kubeconfig")).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let kubeconfig = kube::config::Kubeconfig::from_yaml(&kubeconfig).unwrap();
            let options = kube::config::KubeConfigOptions::default();
            let config = kube::Config::from_custom_kubeconfig(kubeconfig, &options).await.unwrap();
            let api: kube::Api<Node> = kube::Api::all(kube::Client::try_from(config).unwrap());
            api.delete(name, &kube::api::DeleteParams::default()).await.unwrap();
        });
    }

    /// Pool of each worker.
    fn pools(&self) -> Vec<String> {
        let nodes = self.nodes();
        let workers =
            nodes.iter().filter_map(|(name, node)| Some(format!("{name}={}", node.labels().get("agentpool")?)));
        workers.collect()
    }
}

fn resource(node: &Node, list: &str, resource: &str) -> String {
    serde_json::to_value(node).unwrap()["status"][list][resource].as_str().unwrap_or_default().to_owned()
}

fn taints(node: &Node) -> Vec<String> {
    let taints = node.spec.iter().flat_map(|spec| spec.taints.iter().flatten());
    taints.map(|taint| format!("{}={}:{}", taint.key, taint.value.as_deref().unwrap_or(""), taint.effect)).collect()
}
