//! What a node is part of: where a command runs, what it reaches of the cluster, and what it changes there.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;

/// Where a command runs.
#[derive(Debug, Clone, Copy)]
pub struct Place<'a> {
    /// The cluster.
    pub cluster: &'a str,
    /// The node.
    pub node: &'a str,
    /// The uid of its object; empty where that is not there.
    pub uid: &'a str,
    /// Its address.
    pub address: &'a str,
    /// Whether it is a control plane.
    pub is_control_plane: bool,
    /// Whether the cluster has further control planes.
    pub has_peers: bool,
    /// Its version of Kubernetes, such as `1.36.2`.
    pub version: &'a str,
    /// The folder where the command begins.
    pub folder: &'a str,
    /// A kubeconfig of the administrator, as a text.
    pub administrator: &'a str,
    /// When the cluster was made.
    pub created: Timestamp,
    /// The present.
    pub now: Timestamp,
}

/// What a command prints, and its exit code.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Output {
    /// Its results.
    pub out: String,
    /// Its talk.
    pub err: String,
    /// 0 where all went well.
    pub code: u8,
}

/// A container of the node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Container {
    /// Its id, without the scheme.
    pub id: String,
    /// Its name.
    pub name: String,
    /// Its image, as its pod names it.
    pub image: String,
    /// Its image, as the runtime names it: with registry, path and tag.
    pub full_image: String,
    /// The id that it had before it started again, where that is known.
    pub previous: Option<String>,
    /// How often it was started before.
    pub attempt: i64,
    /// When it began; none where it does not run.
    pub since: Option<Timestamp>,
    /// Its pod.
    pub pod: String,
    /// The namespace of its pod.
    pub namespace: String,
    /// The uid of its pod.
    pub uid: String,
}

/// What a node reaches.
pub trait Outside {
    /// kubectl with these arguments and this input, as the cluster's administrator.
    ///
    /// # Errors
    /// Why it is not run.
    fn kubectl(&mut self, arguments: &[String], input: &str) -> Result<Output, String>;

    /// The containers of the node.
    ///
    /// # Errors
    /// Why they are not known.
    fn containers(&mut self) -> Result<Vec<Container>, String>;

    /// What a container has printed.
    ///
    /// # Errors
    /// Why that is not known.
    fn log(&mut self, container: &Container) -> Result<String, String>;

    /// Kills a running container, and `removes` it with its log. The kubelet then starts it again, as its pod asks.
    ///
    /// # Errors
    /// Why what follows is not certain; nothing is done then.
    fn kill(&mut self, container: &Container, removes: bool) -> Result<(), String>;

    /// Lets time pass.
    fn pause(&mut self, duration: Duration);
}

/// The components without which the API does not answer.
pub const SERVING: [&str; 2] = ["kube-apiserver", "etcd"];

/// What is to be done in the cluster.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// A component of the control plane stops or starts.
    Component {
        /// `kube-scheduler`, `kube-controller-manager`, or one of [`SERVING`].
        component: String,
        /// Whether it runs.
        runs: bool,
    },
    /// The scheduler starts with this `KubeSchedulerConfiguration`; `None`: with the default one.
    Scheduler(Option<Value>),
    /// The kubelet of the node stops or starts.
    Kubelet(bool),
    /// A static pod is gone.
    Remove {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
    },
    /// A static pod is there.
    Add(Value),
}
