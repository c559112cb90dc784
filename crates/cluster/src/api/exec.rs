//! `kubectl exec`: commands whose outcome is known, on a WebSocket.

// upstream: staging/src/k8s.io/client-go/tools/remotecommand/websocket.go (v1.36)

use std::sync::{Arc, Weak};
use std::time::Duration;

use http::{Method, Response};
use jiff::Timestamp;
use klab_api_machinery::resource::PODS;
use klab_api_machinery::status::Status;
use klab_api_machinery::views::{self, ContainerStatus, metadata};
use klab_containers::{Container, Executed, Ran, Refusal, Stream, instance, status_of};
use klab_scheduler::hash::fnv64;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::super::clock::later;
use super::super::cluster::Cluster;
use super::super::containers::{ClusterObjects, keep};
use super::answer::{self, method_not_allowed};
use super::call::{Call, Shared, Target};
use super::channels::Heard;
use super::executed::{MAX_COMMANDS, One};
use super::streams::{not_known, reachable};
use super::subprotocol::Offer;
use super::terminal::{Asked, Terminal, ended, failed};
use super::upgrade::Upgrade;
use crate::body::Body;

/// How long the other end may take to speak the new protocol.
const CHANGE: Duration = Duration::from_secs(10);
/// How often it is looked whether the container still runs.
const LOOK: Duration = Duration::from_millis(500);

/// A command that is to be executed.
struct Execution {
    /// Kept, so that the cluster stays awake.
    cluster: Arc<Cluster>,
    /// Gone when the cluster is no longer served.
    served: Weak<Shared>,
    namespace: String,
    name: String,
    pod: Arc<Value>,
    container: Value,
    command: Vec<String>,
    asked: Asked,
    _one: One,
}

impl Call<'_> {
    /// Executes a command in a container, over a connection that is to be upgraded.
    pub(super) fn exec(&self, target: &Target, pod: &Arc<Value>, container: &Value) -> Result<Response<Body>, Status> {
        if !matches!(self.parts.method, Method::GET | Method::POST) {
            return Err(method_not_allowed());
        }
        let command: Vec<String> = self.query.all("command").map(str::to_owned).collect();
        if command.is_empty() {
            return Err(Status::bad_request("you must specify at least one command for the container"));
        }
        if !["stdin", "stdout", "stderr"].iter().any(|stream| self.query.flag(stream)) {
            return Err(Status::bad_request("you must specify at least 1 of stdin, stdout, stderr"));
        }
        let name = views::Container(container).name();
        reachable(self.cluster(), pod, &format!("exec/{}/{}/{name}", target.namespace(), target.name()))?;
        if !ContainerStatus(status_of(pod, container)).state().running().is_set() {
            // As a kubelet says it: in plain words.
            return Ok(answer::text(404, format!("container not found (\"{name}\")")));
        }
        let offer = Offer::of(&self.parts.headers)?;
        let Some(upgrade) = self.parts.extensions.get::<Upgrade>().cloned() else {
            return Err(Status::bad_request("Upgrade request required"));
        };
        let Some(one) = self.api.executed.one_more() else {
            let message = format!("{MAX_COMMANDS} commands are being executed in this cluster, please try again later");
            return Err(Status {
                details: json!({"retryAfterSeconds": 1}),
                ..Status::new(429, "TooManyRequests", message)
            });
        };
        let execution = Execution {
            cluster: Arc::clone(self.cluster()),
            served: self.api.itself(),
            namespace: target.namespace().to_owned(),
            name: target.name().to_owned(),
            pod: Arc::clone(pod),
            container: container.clone(),
            command,
            asked: Asked {
                stdin: self.query.flag("stdin"),
                stdout: self.query.flag("stdout"),
                stderr: self.query.flag("stderr"),
                tty: self.query.flag("tty"),
            },
            _one: one,
        };
        let answer = offer.taken();
        tokio::spawn(async move {
            let Some(upgraded) = upgrade.within(CHANGE).await else { return };
            let mut terminal = Terminal::new(upgraded, &offer, execution.asked).await;
            if let Some(status) = execution.run(&mut terminal).await {
                terminal.end(&status).await;
            }
        });
        Ok(answer)
    }
}

impl Execution {
    /// Runs the command, and says how it has ended; `None` where the client is gone.
    async fn run(&self, terminal: &mut Terminal) -> Option<Value> {
        let begun = self.cluster.now();
        let (cluster, pod, container) = (Arc::clone(&self.cluster), Arc::clone(&self.pod), self.container.clone());
        let (command, asked) = (self.command.clone(), self.asked);
        let executed = tokio::task::spawn_blocking(move || {
            let objects = ClusterObjects::of(&cluster);
            let of = Container { objects: Some(&objects), pod: &pod, container: &container };
            cluster.containers().exec(of, &command, asked.stdin, asked.tty)
        });
        let Executed { pieces, took, code, changes } = match executed.await.ok()? {
            Ok(executed) => executed,
            Err(Refusal::NotKnown(why)) => return Some(failed(&not_known(&why).message)),
            Err(Refusal::NoSuchProgram) => return Some(failed(&self.no_such_program())),
        };
        for piece in pieces {
            if let Some(status) = self.wait(terminal, later(begun, piece.at)).await? {
                return Some(status);
            }
            terminal.print(piece.stream == Stream::Err, &piece.text).await?;
        }
        if let Some(status) = self.wait(terminal, later(begun, took)).await? {
            return Some(status);
        }
        match self.keep(changes).await {
            Ok(()) => Some(ended(code)),
            Err(status) => Some(failed(&status.message)),
        }
    }

    /// Keeps what was done to the container's files.
    async fn keep(&self, changes: Vec<Value>) -> Result<(), Status> {
        let (cluster, pod, container) = (Arc::clone(&self.cluster), Arc::clone(&self.pod), self.container.clone());
        let kept = tokio::task::spawn_blocking(move || {
            let state = ContainerStatus(status_of(&pod, &container)).state();
            let Some(ran) = Ran::of(state.0) else { return Ok(()) };
            keep(&cluster, &pod, instance(&pod, &container, ran), changes)
        });
        kept.await.unwrap_or(Ok(()))
    }

    fn no_such_program(&self) -> String {
        let program = self.command.first().map(String::as_str).unwrap_or_default();
        let (uid, at) = (metadata(&self.pod).uid(), self.cluster.now().as_nanosecond().to_be_bytes());
        let part = |part: u8| fnv64(&[&[part], uid.as_bytes(), program.as_bytes(), &at]);
        let id = format!("{:016x}{:016x}{:016x}{:016x}", part(0), part(1), part(2), part(3));
        let not_found = if program.contains('/') {
            format!("exec: \"{program}\": stat {program}: no such file or directory")
        } else {
            format!("exec: \"{program}\": executable file not found in $PATH")
        };
        format!(
            "Internal error occurred: error executing command in container: failed to exec in container: failed to start exec \
             \"{id}\": OCI runtime exec failed: exec failed: unable to start container process: {not_found}"
        )
    }

    /// Whether the container still runs.
    fn runs_on(&self) -> bool {
        let pod = self.cluster.get(PODS, &self.namespace, &self.name).map(|pod| pod.value());
        let own = ContainerStatus(status_of(&self.pod, &self.container));
        self.served.strong_count() > 0
            && pod.is_some_and(|pod| {
                let status = ContainerStatus(status_of(&pod, &self.container));
                status.container_id() == own.container_id() && status.state().running().is_set()
            })
    }

    /// Waits until the cluster's clock has come to that. A status where it ends before: `Ctrl-C`, the end of the container.
    async fn wait(&self, terminal: &mut Terminal, until: Timestamp) -> Option<Option<Value>> {
        let patience = Instant::now();
        loop {
            let now = self.cluster.now();
            if now >= until {
                return Some(None);
            }
            if !self.runs_on() {
                return Some(Some(ended(137)));
            }
            if patience.elapsed() > Duration::from_hours(1) {
                return None;
            }
            let left = until.duration_since(now).unsigned_abs().min(LOOK);
            tokio::select! {
                () = sleep(left.max(Duration::from_millis(1))) => {}
                heard = terminal.hear() => match heard {
                    Heard::Gone => return None,
                    Heard::Input(text) if self.asked.tty && text.contains(&3) => return Some(Some(ended(130))),
                    _ => {}
                }
            }
        }
    }
}
