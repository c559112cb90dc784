//! A node of `klab kind` that commands are executed on: what they reach of the cluster, and what follows from them there.

use std::time::{Duration, Instant};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Namespace, Node as NodeObject, Pod};
use klab_cluster::control::SCHEDULER_CONFIGURATION_ANNOTATION;
use klab_cluster::{HEARTBEAT_ANNOTATION, Killing, REMOVED_STATIC_POD_ANNOTATION, STOPPED_COMPONENTS_ANNOTATION};
use klab_kind::machine::{Container, Effect, Output, Outside, Place, Ran, SERVING, run};
use klab_kind::nodes::{address, name_at_server};
use kube::api::{Api, DeleteParams, ListParams, LogParams, Patch, PatchParams, PostParams};
use kube::{Client, ResourceExt};
use serde_json::{Value, json};

use super::super::Context;
use super::kubeconfig;
use super::meant::{Done, asked, in_words, sim};
use super::stored::{self, Stored};
use klab_operations::exec;
use klab_operations::provider::sim::Inside;
use klab_operations::state::Lock;

/// How long a command waits for another one on the same cluster.
const TURN: Duration = Duration::from_mins(1);
/// How long kubectl may take on a node.
const KUBECTL: Duration = Duration::from_mins(1);

/// A node.
pub(super) struct Node<'c> {
    context: &'c Context,
    cluster: String,
    name: String,
    /// The folder where the next command begins.
    folder: String,
}

/// What a command on a node reaches.
struct Reached<'c> {
    context: &'c Context,
    client: Client,
    inside: Inside,
    node: String,
    is_control_plane: bool,
}

impl<'c> Node<'c> {
    /// The node of this name; none where no cluster of `klab kind` has it.
    ///
    /// # Errors
    /// When klab's state cannot be read.
    pub(super) fn find(context: &'c Context, name: &str) -> Done<Option<Self>> {
        for cluster in stored::all(context)? {
            let stored = Stored::read(context, &cluster)?;
            if stored.is_some_and(|stored| stored.nodes.iter().any(|node| node.name == name)) {
                return Ok(Some(Self { context, cluster, name: name.to_owned(), folder: "/".to_owned() }));
            }
        }
        Ok(None)
    }

    /// The folder where the next command begins.
    pub(super) fn folder(&self) -> &str {
        &self.folder
    }

    /// Runs a command; the inner error says what of it is not certain.
    ///
    /// # Errors
    /// When the cluster cannot be reached, or another command keeps it for too long.
    pub(super) fn run(&mut self, command: &[String], input: &str) -> Done<Result<Output, String>> {
        let _turn = self.turn()?;
        let gone = || format!("the cluster \"{}\" is gone", self.cluster);
        let mut stored = Stored::read(self.context, &self.cluster)?.ok_or_else(gone)?;
        let index = stored.nodes.iter().position(|node| node.name == self.name).ok_or_else(gone)?;
        let is_control_plane = stored.nodes.get(index).is_some_and(|node| node.is_control_plane);
        let inside = sim(self.context)?.inside(&name_at_server(&self.cluster)).map_err(in_words)?;
        let administrator = kubeconfig::written(&kubeconfig::of(self.context, &self.cluster, true)?)?;
        let client = self.context.block_on(inside.connect()).map_err(in_words)?;
        let nodes: Api<NodeObject> = Api::all(client.clone());
        let uid = asked(self.context, nodes.get_opt(&self.name))?.and_then(|object| object.metadata.uid);
        let place = Place {
            cluster: &self.cluster,
            node: &self.name,
            uid: uid.as_deref().unwrap_or_default(),
            address: &address(index),
            is_control_plane,
            has_peers: stored.nodes.iter().filter(|node| node.is_control_plane).count() > 1,
            version: &stored.version,
            folder: &self.folder,
            administrator: &administrator,
            created: stored.created,
            now: Timestamp::now(),
        };
        let mut reached = Reached { context: self.context, client, inside, node: self.name.clone(), is_control_plane };
        let state = stored.machines.get(&self.name).cloned().unwrap_or_default();
        let Ran { mut output, state, effects, folder } = match run(&place, &state, command, input, &mut reached) {
            Ok(ran) => ran,
            Err(why) => return Ok(Err(why)),
        };
        for effect in effects {
            self.follow(&reached, effect, &mut output)?;
        }
        self.folder = folder;
        // Written last: a klab that is killed before does all of it once more.
        if stored.machines.get(&self.name) != Some(&state) {
            stored.machines.insert(self.name.clone(), state);
            stored.write(self.context, &self.cluster)?;
        }
        Ok(Ok(output))
    }

    fn turn(&self) -> Done<Option<Lock>> {
        let (folder, begun) = (self.context.home.kind().join(&self.cluster), Instant::now());
        loop {
            match Lock::take_existing(&folder, &self.cluster, "docker exec") {
                Err(_) if begun.elapsed() < TURN => std::thread::sleep(Duration::from_millis(20)),
                taken => return taken.map_err(in_words),
            }
        }
    }

    fn follow(&self, reached: &Reached<'_>, effect: Effect, output: &mut Output) -> Done {
        let client = &reached.client;
        let with = PatchParams::default();
        match effect {
            Effect::Component { component, runs } => {
                let namespaces: Api<Namespace> = Api::all(client.clone());
                let namespace = asked(self.context, namespaces.get("kube-system"))?;
                let now = namespace.annotations().get(STOPPED_COMPONENTS_ANNOTATION).map(String::as_str);
                let mut stopped: Vec<&str> = now.unwrap_or_default().split(',').filter(|one| !one.is_empty()).collect();
                stopped.retain(|one| *one != component);
                if !runs {
                    stopped.push(&component);
                }
                let is_served = !stopped.iter().any(|one| SERVING.contains(one));
                if SERVING.contains(&component.as_str()) {
                    self.context.block_on(reached.inside.stop_api(!is_served)).map_err(in_words)?;
                }
                let value = Some(stopped.join(",")).filter(|stopped| !stopped.is_empty());
                let patch = json!({ "metadata": { "annotations": { STOPPED_COMPONENTS_ANNOTATION: value } } });
                asked(self.context, namespaces.patch("kube-system", &with, &Patch::Merge(&patch))).map(drop)
            }
            Effect::Scheduler(configuration) => {
                let text = configuration.map(|configuration| configuration.to_string());
                let patch = json!({ "metadata": { "annotations": { SCHEDULER_CONFIGURATION_ANNOTATION: text } } });
                let namespaces: Api<Namespace> = Api::all(client.clone());
                asked(self.context, namespaces.patch("kube-system", &with, &Patch::Merge(&patch))).map(drop)
            }
            Effect::Kubelet(runs) => {
                let value = if runs { Value::Null } else { json!("stopped") };
                let patch = json!({ "metadata": { "annotations": { HEARTBEAT_ANNOTATION: value } } });
                asked(
                    self.context,
                    Api::<NodeObject>::all(client.clone()).patch(&self.name, &with, &Patch::Merge(&patch)),
                )
                .map(drop)
            }
            Effect::Remove { namespace, name } => {
                let pods: Api<Pod> = Api::namespaced(client.clone(), &namespace);
                let patch = json!({ "metadata": { "annotations": { REMOVED_STATIC_POD_ANNOTATION: "true" } } });
                if asked(self.context, pods.get_opt(&name))?.is_none() {
                    return Ok(());
                }
                asked(self.context, pods.patch(&name, &with, &Patch::Merge(&patch)))?;
                asked(self.context, pods.delete(&name, &DeleteParams::default().grace_period(0))).map(drop)
            }
            Effect::Add(pod) => {
                let read: Result<Pod, _> = serde_json::from_value(pod);
                let made = read.map_err(|error| error.to_string()).and_then(|pod| {
                    let pods: Api<Pod> = Api::namespaced(client.clone(), &pod.namespace().unwrap_or_default());
                    match asked(self.context, pods.get_opt(&pod.name_any()))? {
                        Some(_) => Ok(()),
                        None => asked(self.context, pods.create(&PostParams::default(), &pod)).map(drop),
                    }
                });
                // A kubelet goes on without the mirror of its pod.
                if let Err(why) = made {
                    output.err.push_str(&format!("klab: the kubelet cannot show its static pod: {why}\n"));
                }
                Ok(())
            }
        }
    }
}

impl Reached<'_> {
    fn pods(&self) -> Result<Vec<Pod>, String> {
        let list = ListParams::default().fields(&format!("spec.nodeName={}", self.node));
        let pods: Api<Pod> = Api::all(self.client.clone());
        asked(self.context, pods.list(&list)).map(|list| list.items)
    }
}

impl Outside for Reached<'_> {
    fn kubectl(&mut self, arguments: &[String], input: &str) -> Result<Output, String> {
        if !self.is_control_plane {
            return Err("kubectl has no kubeconfig on a worker".to_owned());
        }
        let names_files = |word: &String| {
            ["-f", "-k", "--filename", "--kustomize", "--kubeconfig"].iter().any(|option| word.starts_with(option))
        };
        if !input.is_empty() || arguments.iter().any(names_files) {
            return Err("kubectl reads no file on a node; type `kubectl` on your own machine".to_owned());
        }
        if arguments.iter().any(|word| word == "config") {
            return Err("the kubeconfig of a node does not change".to_owned());
        }
        let command = exec::Command::new("kubectl").arg("--kubeconfig").arg(&self.inside.kubeconfig);
        match command.args(arguments.iter().cloned()).written(KUBECTL) {
            Ok(written) => Ok(Output { out: written.stdout, err: written.stderr, code: 0 }),
            Err(exec::Error::Failed { code, stderr, .. }) => {
                let code = code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1);
                Ok(Output { out: String::new(), err: stderr, code })
            }
            Err(why) => Err(why.to_string()),
        }
    }

    fn containers(&mut self) -> Result<Vec<Container>, String> {
        let mut containers = Vec::new();
        for pod in self.pods()? {
            let (namespace, name, uid) = (pod.namespace(), pod.name_any(), pod.uid());
            let statuses = pod.status.and_then(|status| status.container_statuses).unwrap_or_default();
            for status in statuses {
                let Some(id) = status.container_id.as_deref().and_then(|id| id.strip_prefix("containerd://")) else {
                    continue;
                };
                let ended = status.last_state.and_then(|state| state.terminated).and_then(|ended| ended.container_id);
                let previous = ended.as_deref().and_then(|id| id.strip_prefix("containerd://"));
                let running = status.state.and_then(|state| state.running).and_then(|running| running.started_at);
                containers.push(Container {
                    id: id.to_owned(),
                    name: status.name,
                    image: status.image,
                    full_image: status.image_id.split('@').next().unwrap_or_default().to_owned(),
                    previous: previous.map(str::to_owned),
                    attempt: status.restart_count.into(),
                    since: running.map(|since| since.0),
                    pod: name.clone(),
                    namespace: namespace.clone().unwrap_or_default(),
                    uid: uid.clone().unwrap_or_default(),
                });
            }
        }
        Ok(containers)
    }

    fn log(&mut self, container: &Container) -> Result<String, String> {
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), &container.namespace);
        let with = LogParams { container: Some(container.name.clone()), ..LogParams::default() };
        asked(self.context, pods.logs(&container.pod, &with))
    }

    fn kill(&mut self, container: &Container, removes: bool) -> Result<(), String> {
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), &container.namespace);
        let pod = asked(self.context, pods.get(&container.pod))?;
        let starts_again = pod.spec.as_ref().is_some_and(|spec| spec.restart_policy.as_deref() == Some("Always"));
        if removes && !starts_again {
            return Err("what becomes of a removed container whose pod does not always start it again is not certain"
                .to_owned());
        }
        let mut pod = serde_json::to_value(pod).map_err(|error| error.to_string())?;
        let killing = if removes { Killing::Removed } else { Killing::Stopped };
        if !klab_cluster::kill(&mut pod, &container.name, killing) {
            return Err(format!("the kubelet does not look at pod {} before it is ready", container.pod));
        }
        let patch = Patch::Merge(json!({ "status": pod["status"] }));
        asked(self.context, pods.patch_status(&container.pod, &PatchParams::default(), &patch)).map(drop)
    }

    fn pause(&mut self, duration: Duration) {
        std::thread::sleep(duration);
    }
}
