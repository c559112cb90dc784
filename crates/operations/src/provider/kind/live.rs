//! The cluster through its Kubernetes API: nodes listed, patched, waited for, drained.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{
    Api, ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams, PartialObjectMeta, Patch, PatchParams,
    TypeMeta,
};
use kube::{Client, ResourceExt};
use serde_json::Value;

use super::check;
use crate::apply::patch_parameters;
use crate::client::objects;
use crate::drain;
use crate::error::{Code, Context, Error, Result};
use klab_cluster::deadline;
use klab_lab::names::MANAGER;
use klab_lab::words::first_of;

/// Pause between two looks at the cluster: the first, and the longest. What is nearly there is not waited for long.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const PAUSE: Duration = Duration::from_millis(300);
/// How long pods may take to leave a node that is removed.
const DRAIN: Duration = Duration::from_mins(1);
/// One request: a server that is starting does not answer, and must not be waited for.
const REQUEST: Duration = Duration::from_secs(10);

/// A cluster's API.
pub(super) struct Live {
    runtime: tokio::runtime::Runtime,
    client: Client,
}

impl Live {
    /// The API that a kubeconfig reaches.
    ///
    /// # Errors
    /// When the kubeconfig cannot be used.
    pub(super) fn new(kubeconfig: &Path) -> Result<Self> {
        let problem = || format!("could not use the kubeconfig `{}`", kubeconfig.display());
        let runtime = crate::client::runtime()?;
        let client = runtime.block_on(async {
            let mut config = crate::client::configuration_of(kubeconfig).await?;
            config.connect_timeout = Some(REQUEST);
            crate::client::client_of(config).code(Code::NoAnswer, problem)
        })?;
        Ok(Self { runtime, client })
    }

    fn api(&self) -> Api<PartialObjectMeta<Node>> {
        objects::writer(&self.client)
    }

    fn request<T>(&self, what: &str, future: impl Future<Output = Result<T, kube::Error>>) -> Result<T> {
        self.within(REQUEST, what, future)
    }

    fn within<T>(
        &self,
        limit: Duration,
        what: &str,
        future: impl Future<Output = Result<T, kube::Error>>,
    ) -> Result<T> {
        let answer = self.runtime.block_on(async { tokio::time::timeout(limit, future).await });
        match answer {
            Ok(answer) => answer.map_err(|error| failure(what, &error)),
            Err(_) => Err(Error::message(Code::NoAnswer, format!("could not {what}: the API server does not answer"))),
        }
    }

    /// All nodes.
    ///
    /// # Errors
    /// When the API server does not answer.
    pub(super) fn nodes(&self) -> Result<Vec<Node>> {
        self.request("list the nodes", objects::list(&self.client, None, &ListParams::default()))
    }

    /// Waits until nodes are as `done` says; it gives what is still missing, in words, or none.
    ///
    /// # Errors
    /// When that takes longer than `deadline`, with what is missing.
    pub(super) fn wait(
        &self,
        deadline: Duration,
        progress: impl Fn(&str),
        done: impl Fn(&[Node]) -> Option<String>,
    ) -> Result<Vec<Node>> {
        let until = deadline::within(deadline);
        let mut pause = FIRST_PAUSE;
        loop {
            let missing = match self.nodes() {
                Ok(nodes) => match done(&nodes) {
                    None => return Ok(nodes),
                    Some(missing) => missing,
                },
                Err(error) => error.to_string(),
            };
            if Instant::now() > until {
                let after = klab_lab::words::duration(deadline);
                return Err(Error::message(Code::StillAtWork, format!("after {after} still {missing}")));
            }
            progress(&missing);
            std::thread::sleep(pause);
            pause = (pause * 2).min(PAUSE);
        }
    }

    /// Changes a node's metadata and specification.
    ///
    /// # Errors
    /// When the API server refuses.
    pub(super) fn patch(&self, node: &str, patch: &Value) -> Result<()> {
        let api = self.api();
        let what = format!("change node `{node}`");
        self.request(&what, async move { api.patch(node, &patch_parameters(), &Patch::Merge(patch)).await.map(|_| ()) })
    }

    /// Changes a node's status.
    ///
    /// # Errors
    /// When the API server refuses.
    pub(super) fn patch_status(&self, node: &str, patch: &Value) -> Result<()> {
        let api = self.api();
        let what = format!("change the status of node `{node}`");
        self.request(&what, async move {
            api.patch_status(node, &patch_parameters(), &Patch::Merge(patch)).await.map(|_| ())
        })
    }

    /// Keeps new pods off a node and moves those that are there elsewhere, within budgets while time allows. Gives the
    /// pods that were still there when it ended.
    ///
    /// # Errors
    /// When the API server does not answer.
    pub(super) fn drain(&self, node: &str) -> Result<Vec<String>> {
        if !self.request(&format!("cordon node `{node}`"), drain::cordon(&self.client, node))? {
            return Ok(Vec::new());
        }
        let nodes = BTreeSet::from([node.to_owned()]);
        let until = deadline::within(DRAIN);
        loop {
            let pods = self.request("list the node's pods", drain::pods_to_move(&self.client, &nodes))?;
            // The node goes in any case: what does not go in this round may go in the next, whatever the reason.
            let round = async { Ok(drain::round(&self.client, &pods).await) };
            let round = self.within(DRAIN, "evict the node's pods", round)?;
            if round.left.is_empty() || Instant::now() > until {
                return Ok(round.left);
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// Removes the pods that were on a node that is gone: without a kubelet they would stay for a minute.
    ///
    /// # Errors
    /// When the API server does not answer.
    pub(super) fn forget_pods(&self, node: &str) -> Result<()> {
        for pod in self.pods_on(node)? {
            let api = objects::writer_in::<Pod>(&self.client, &pod.namespace().unwrap_or_default());
            let (name, at_once) = (pod.name_any(), DeleteParams::default().grace_period(0));
            // The garbage collector may have been faster.
            let _ = self.request("delete a pod", async move { api.delete(&name, &at_once).await.map(|_| ()) });
        }
        Ok(())
    }

    fn pods_on(&self, node: &str) -> Result<Vec<Pod>> {
        let of_node = ListParams::default().fields(&format!("spec.nodeName={node}"));
        self.request("list the node's pods", objects::list(&self.client, None, &of_node))
    }

    /// Applies an object on the server's side, as klab's own.
    ///
    /// # Errors
    /// When the API server refuses.
    pub(super) fn apply(&self, object: &Value) -> Result<()> {
        let (api, name) = self.api_of(object)?;
        let parameters = PatchParams::apply(MANAGER).force();
        let what = format!("apply {}", words(object));
        self.request(&what, async move { api.patch(&name, &parameters, &Patch::Apply(object)).await.map(|_| ()) })
    }

    /// Deletes an object; one that is gone is no error.
    ///
    /// # Errors
    /// When the API server refuses.
    pub(super) fn delete(&self, object: &Value) -> Result<()> {
        let (api, name) = self.api_of(object)?;
        let what = format!("delete {}", words(object));
        let deleted = self.request(&what, async move { api.delete(&name, &DeleteParams::default()).await.map(|_| ()) });
        match deleted {
            Err(error) if is_not_found(&error) => Ok(()),
            result => result,
        }
    }

    fn api_of(&self, object: &Value) -> Result<(Api<DynamicObject>, String)> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let types = TypeMeta { api_version: text(&object["apiVersion"]), kind: text(&object["kind"]) };
        let kind = GroupVersionKind::try_from(&types)
            .map_err(|error| Error::message(Code::KlabFault, format!("{}: {error}", words(object))))?;
        let resource = ApiResource::from_gvk(&kind);
        let api = match object["metadata"]["namespace"].as_str() {
            Some(namespace) => Api::namespaced_with(self.client.clone(), namespace, &resource),
            None => Api::all_with(self.client.clone(), &resource),
        };
        Ok((api, text(&object["metadata"]["name"])))
    }

    /// Deletes a node object; one that is gone is no error.
    ///
    /// # Errors
    /// When the API server refuses.
    pub(super) fn delete_node(&self, node: &str) -> Result<()> {
        let api = self.api();
        let what = format!("delete node `{node}`");
        let deleted = self.request(&what, async move { api.delete(node, &DeleteParams::default()).await.map(|_| ()) });
        match deleted {
            Err(error) if is_not_found(&error) => Ok(()),
            result => result,
        }
    }
}

fn words(object: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    format!("{} `{}`", text(&object["kind"]), text(&object["metadata"]["name"]))
}

fn failure(what: &str, error: &kube::Error) -> Error {
    let words = match error {
        kube::Error::Api(status) => format!("{} ({})", status.message, status.code),
        other => format!("{:#}", anyhow::anyhow!("{other}")),
    };
    Error::new(Code::ClusterRefused, anyhow::Error::msg(words).context(format!("could not {what}")))
}

fn is_not_found(error: &Error) -> bool {
    error.to_string().ends_with("(404)")
}

/// Which of these nodes have not registered, in words; none when all have.
pub(super) fn unregistered(nodes: &[Node], wanted: &[String]) -> Option<String> {
    let there: Vec<String> = nodes.iter().map(ResourceExt::name_any).collect();
    let missing: Vec<&str> = wanted.iter().filter(|name| !there.contains(name)).map(String::as_str).collect();
    (!missing.is_empty()).then(|| format!("waiting for {} to register", missing.join(", ")))
}

/// When containers were started last, by name.
pub(super) type Starts = BTreeMap<String, Timestamp>;

/// What is missing until all these nodes are there and Ready, in words; none when nothing is.
///
/// Of a node that was stopped the API says for most of a minute that it is Ready, as it last was: what counts is what its
/// kubelet said since the container was started.
pub(super) fn missing(nodes: &[Node], wanted: &[String], starts: &Starts) -> Option<String> {
    let mut missing = Vec::new();
    for name in wanted {
        match nodes.iter().find(|node| node.name_any() == *name) {
            None => missing.push(format!("{name} (not registered)")),
            Some(node) if !klab_lab::verify::is_ready(node) => {
                missing.push(format!("{name} ({})", check::readiness(node)));
            }
            Some(node) if starts.get(name).is_some_and(|started| !check::has_reported_since(node, *started)) => {
                missing.push(format!("{name} (its kubelet has not reported since it was started)"));
            }
            Some(_) => {}
        }
    }
    (!missing.is_empty()).then(|| format!("waiting for {}", first_of(&missing, 3)))
}
