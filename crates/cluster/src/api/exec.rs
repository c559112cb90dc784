//! `kubectl exec`: commands whose outcome is known, on a WebSocket.

// upstream: staging/src/k8s.io/client-go/tools/remotecommand/websocket.go (v1.36)

use std::sync::{Arc, Weak};
use std::time::Duration;

use http::{Method, Response};
use hyper::upgrade::OnUpgrade;
use jiff::{SignedDuration, Timestamp};
use klab_scheduler::hash::fnv64;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, timeout};

use super::super::clock::later;
use super::super::cluster::Cluster;
use super::super::network::FromPod;
use super::super::process::{
    Answered, Changed, End, Given, Image, Made, Performance, Piece, Ran, Reach, Session, Stream, World,
    awaited_command, instance, is_prompt, is_shell, keep, keep_end, perform, present, reader, status_of,
};
use super::super::resource::PODS;
use super::super::status::Status;
use super::answer::{self, method_not_allowed};
use super::call::{Call, Shared, Target};
use super::channels::Heard;
use super::executed::{MOST, One};
use super::keyboard::{Keyboard, Typed};
use super::offer::Offer;
use super::streams::{not_known, reachable};
use super::terminal::{Asked, Terminal, ended, failed};
use crate::body::Body;
use crate::value::{items, text};

/// A command is followed for so long.
pub(super) const HORIZON: SignedDuration = SignedDuration::from_mins(10);
/// So long nobody needs to type anything.
const IDLE: Duration = Duration::from_mins(15);
/// How long the other end may take to speak the new protocol.
const CHANGE: Duration = Duration::from_secs(10);
/// How often it is looked whether the container still runs.
const LOOK: Duration = Duration::from_millis(500);
/// No command is given more to read.
const MAX_INPUT: usize = 256 * 1024;
/// What comes within this time comes at once.
const AT_ONCE: Duration = Duration::from_millis(20);

/// What a shell does itself, so that there is no program of that name.
const BUILT_IN: [&str; 16] = [
    "cd", "export", "exit", "unset", "set", "trap", "wait", "eval", "exec", "source", ".", ":", "alias", "shift",
    "break", "read",
];

/// Whose command it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    /// One of its own.
    Executed,
    /// The container's, which starts when a client attaches, and ends the container with it.
    Awaited,
    /// The container's, which has run since it started and reads now.
    Reading,
}

/// A command that is to be executed.
pub(super) struct Execution {
    /// Kept, so that the cluster stays awake.
    pub(super) cluster: Arc<Cluster>,
    /// Gone when the cluster is no longer served.
    served: Weak<Shared>,
    namespace: String,
    name: String,
    pub(super) pod: Arc<Value>,
    pub(super) container: Value,
    command: Vec<String>,
    asked: Asked,
    part: Part,
    _one: One,
}

impl Call<'_> {
    /// Executes a command in a container.
    pub(super) fn exec(&self, target: &Target, pod: &Arc<Value>, container: &Value) -> Result<Response<Body>, Status> {
        if !matches!(self.parts.method, Method::GET | Method::POST) {
            return Err(method_not_allowed());
        }
        let command: Vec<String> = self.query.all("command").map(str::to_owned).collect();
        if command.is_empty() {
            return Err(Status::bad_request("you must specify at least one command for the container"));
        }
        self.carried(target, pod, container, command, Part::Executed)
    }

    /// Attaches to a container whose command waits for that: one that reads what it is given, or that asks the network.
    pub(super) fn attach(
        &self,
        target: &Target,
        pod: &Arc<Value>,
        container: &Value,
    ) -> Result<Response<Body>, Status> {
        if !matches!(self.parts.method, Method::GET | Method::POST) {
            return Err(method_not_allowed());
        }
        let nothing = || {
            not_known("there is nothing to attach to (`kubectl logs -f` shows what is printed, where that is known)")
        };
        if !self.query.flag("stdin") {
            return Err(nothing());
        }
        if let Some(command) = awaited_command(self.cluster(), pod, container) {
            return self.carried(target, pod, container, command, Part::Awaited);
        }
        let reads = |performance: Performance| performance.wants_input || performance.doubt.is_some();
        if reader(self.cluster(), pod, container, SignedDuration::ZERO).is_some_and(reads) {
            return self.carried(target, pod, container, Vec::new(), Part::Reading);
        }
        Err(nothing())
    }

    /// Speaks over a connection that is to be upgraded.
    fn carried(
        &self,
        target: &Target,
        pod: &Arc<Value>,
        container: &Value,
        command: Vec<String>,
        part: Part,
    ) -> Result<Response<Body>, Status> {
        if !["stdin", "stdout", "stderr"].iter().any(|stream| self.query.flag(stream)) {
            return Err(Status::bad_request("you must specify at least 1 of stdin, stdout, stderr"));
        }
        let name = text(container, &["name"]);
        let verb = if part == Part::Executed { "exec" } else { "attach" };
        reachable(self.cluster(), pod, &format!("{verb}/{}/{}/{name}", target.namespace(), target.name()))?;
        if !status_of(pod, container)["state"]["running"].is_object() {
            // As a kubelet says it: in plain words.
            return Ok(answer::text(404, format!("container not found (\"{name}\")")));
        }
        let offer = Offer::of(&self.parts.headers)?;
        let Some(on_upgrade) = self.parts.extensions.get::<OnUpgrade>().cloned() else {
            return Err(Status::bad_request("Upgrade request required"));
        };
        let Some(one) = self.api.executed.one_more() else {
            let message = format!("{MOST} commands are being executed in this cluster, please try again later");
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
            part,
            _one: one,
        };
        let answer = offer.taken();
        tokio::spawn(async move {
            let Ok(Ok(upgraded)) = timeout(CHANGE, on_upgrade).await else { return };
            execution.run(Terminal::new(upgraded, &offer, execution.asked).await).await;
        });
        Ok(answer)
    }
}

/// How much of what a command prints was shown, of each stream: one that is followed anew prints it again.
#[derive(Debug, Default)]
pub(super) struct Printed([usize; 2]);

impl Printed {
    /// What was not shown yet; it will be.
    pub(super) fn rest(&mut self, pieces: impl IntoIterator<Item = Piece>) -> Vec<Piece> {
        let mut seen = [0; 2];
        let mut rest = Vec::new();
        for mut piece in pieces {
            let stream = usize::from(piece.stream == Stream::Err);
            let before = seen[stream];
            seen[stream] += piece.text.len();
            if seen[stream] > self.0[stream] {
                piece.text.drain(..self.0[stream].saturating_sub(before));
                rest.push(piece);
            }
        }
        self.0 = seen;
        rest
    }
}

impl Execution {
    async fn run(&self, mut terminal: Terminal) {
        if self.part == Part::Reading {
            if let Some(status) = self.feed(&mut terminal).await {
                terminal.end(&status).await;
            }
            return;
        }
        let image = text(&self.container, &["image"]).to_owned();
        let program = self.command.first().map(String::as_str).unwrap_or_default();
        let name = program.rsplit('/').next().unwrap_or_default();
        let shell = Image::named(&image).shell;
        if shell.is_known() && (shell.lacks(name) || BUILT_IN.contains(&program)) {
            return terminal.end(&failed(&self.no_such_program(program))).await;
        }
        if !shell.is_known() && !self.runs(name) {
            let why = format!("whether the image `{image}` has `{name}` is not known");
            return terminal.end(&failed(&not_known(&why).message)).await;
        }
        let Some(world) = self.world().await else {
            return terminal.end(&failed("the files of the container could not be told")).await;
        };
        let status = if self.asked.stdin && is_prompt(&self.command) {
            self.converse(&mut terminal, world).await
        } else {
            self.perform(&mut terminal, world).await
        };
        let status = if self.part == Part::Awaited { self.end_container(status).await } else { status };
        if let Some(status) = status {
            terminal.end(&status).await;
        }
    }

    /// The container ends with the command that somebody was attached to. How it ended says the container.
    async fn end_container(&self, status: Option<Value>) -> Option<Value> {
        let code = match &status {
            // Nobody is there any more: what is read is at its end.
            None if self.container["stdinOnce"] == true => 0,
            None => return None,
            Some(status) if status["status"] == "Success" => 0,
            Some(status) => match status["details"]["causes"][0]["message"].as_str().and_then(|code| code.parse().ok())
            {
                Some(code) => code,
                None => return Some(status.clone()),
            },
        };
        let (cluster, pod, container) = (Arc::clone(&self.cluster), Arc::clone(&self.pod), self.container.clone());
        let kept = tokio::task::spawn_blocking(move || {
            let Some(ran) = Ran::of(&status_of(&pod, &container)["state"]) else { return Ok(()) };
            keep_end(&cluster, &pod, instance(&pod, &container, ran), code)
        });
        match kept.await.unwrap_or(Ok(())) {
            Ok(()) => status.map(|_| ended(0)),
            Err(refused) => Some(failed(&refused.message)),
        }
    }

    /// Whether the container's own command runs a program, so that the image must have it.
    fn runs(&self, name: &str) -> bool {
        let first = items(&self.container["command"]).first().and_then(Value::as_str).unwrap_or_default();
        let own = first.rsplit('/').next().unwrap_or_default();
        own == name || (is_shell(own) && super::super::process::is_of_every_shell(name))
    }

    fn no_such_program(&self, program: &str) -> String {
        let (uid, at) = (text(&self.pod, &["metadata", "uid"]), self.cluster.now().as_nanosecond().to_be_bytes());
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

    /// What a command finds now; worked out where nobody waits for it.
    async fn world(&self) -> Option<World> {
        let (cluster, pod, container) = (Arc::clone(&self.cluster), Arc::clone(&self.pod), self.container.clone());
        let now = self.cluster.now();
        tokio::task::spawn_blocking(move || present(&cluster, &pod, &container, now)).await.ok()
    }

    async fn performed(&self, world: World) -> Option<Performance> {
        let command = self.command.clone();
        let words = move || {
            let words: Vec<&str> = command.iter().map(String::as_str).collect();
            perform(&words, &world, HORIZON)
        };
        tokio::task::spawn_blocking(words).await.ok()
    }

    /// Whether the container still runs.
    fn runs_on(&self) -> bool {
        let pod = self.cluster.get(PODS, &self.namespace, &self.name).map(|pod| pod.value());
        let own = status_of(&self.pod, &self.container);
        self.served.strong_count() > 0
            && pod.is_some_and(|pod| {
                let status = status_of(&pod, &self.container);
                status["containerID"] == own["containerID"] && status["state"]["running"].is_object()
            })
    }

    /// The network for what begins at a time.
    fn network(&self, begun: Timestamp) -> Arc<dyn Reach> {
        Arc::new(FromPod::new(&self.cluster, &self.pod, begun))
    }

    /// Runs a command, and says how it has ended; `None` where nobody is there any more.
    async fn perform(&self, terminal: &mut Terminal, mut world: World) -> Option<Value> {
        let begun = self.cluster.now();
        world.network = Some(self.network(begun));
        if self.asked.stdin {
            world.given = Given::open();
        }
        let mut performance = self.performed(world.clone()).await?;
        let mut printed = Printed::default();
        let (played, doubt) = loop {
            let doubt = performance.doubt.take();
            let until = doubt.as_ref().map_or(HORIZON, |doubt| doubt.at);
            let pieces = performance.pieces.iter().filter(|piece| piece.at <= until).cloned();
            let mut played = self.play(terminal, &printed.rest(pieces), begun).await;
            if played == Some(None) && doubt.is_none() && performance.wants_input && world.given.ended.is_none() {
                let at = |now: Timestamp| now.duration_since(begun);
                match self.input(terminal).await? {
                    Ok((text, is_end)) => {
                        world.given.pieces.push((at(self.cluster.now()), text));
                        world.given.ended = is_end.then(|| at(self.cluster.now()));
                    }
                    Err(status) => break (Some(Some(status)), None),
                }
                if world.given.pieces.iter().map(|(_, text)| text.len()).sum::<usize>() > MAX_INPUT {
                    break (
                        Some(Some(failed(&not_known("a command is given more than 256 KiB to read").message))),
                        None,
                    );
                }
                // What it asks may be another thing now.
                world.network = Some(self.network(begun));
                performance = self.performed(world.clone()).await?;
                continue;
            }
            match doubt {
                Some(doubt) if performance.waits && played == Some(None) => {
                    played = self.wait(terminal, later(begun, doubt.at)).await;
                    if played != Some(None) {
                        break (played, Some(doubt));
                    }
                    performance = self.performed(world.clone()).await?;
                }
                doubt => break (played, doubt),
            }
        };
        let changes = performance.files.changed_since(&world.files);
        let (took, status) = match (doubt, performance.end) {
            (Some(doubt), _) => (doubt.at, Err(failed(&not_known(&doubt.why).message))),
            (None, End::After(took, code) | End::Unknown(took, code)) => (took, Ok(ended(code))),
            (None, End::Never) => {
                let why = format!("a command is followed for {} minutes, and this one goes on", HORIZON.as_mins());
                (HORIZON, Err(failed(&not_known(&why).message)))
            }
        };
        let played = match played {
            Some(None) => self.wait(terminal, later(begun, took)).await,
            ended => ended,
        };
        let is_done = played == Some(None) && status.is_ok();
        let kept = self.keep(&world, changes, is_done).await;
        let status = status.unwrap_or_else(|status| status);
        Some(played?.or_else(|| kept.err().map(|status| failed(&status.message))).unwrap_or(status))
    }

    /// Keeps what was done to the container's files: of a command that is not done, only what it may have done.
    async fn keep(&self, world: &World, mut changes: Vec<Changed>, is_done: bool) -> Result<(), Status> {
        if !is_done {
            for (_, made) in &mut changes {
                *made = Some(Made::Unknown);
            }
        }
        if changes.is_empty() {
            return Ok(());
        }
        let (cluster, pod, container) = (Arc::clone(&self.cluster), Arc::clone(&self.pod), self.container.clone());
        let files = world.files.clone();
        let kept = tokio::task::spawn_blocking(move || {
            // Of a container that has ended meanwhile it is of no concern but in volumes.
            let Some(ran) = Ran::of(&status_of(&pod, &container)["state"]) else { return Ok(()) };
            keep(&cluster, &pod, instance(&pod, &container, ran), &files, &changes)
        });
        kept.await.unwrap_or(Ok(()))
    }

    /// What is given to be read next, all of it that comes at once, and whether that is the end. A status where the command ends
    /// before.
    pub(super) async fn input(&self, terminal: &mut Terminal) -> Option<Result<(Vec<u8>, bool), Value>> {
        let (idle, mut input) = (Instant::now(), Vec::new());
        while input.len() <= MAX_INPUT {
            let patience = if input.is_empty() { LOOK } else { AT_ONCE };
            match timeout(patience, terminal.hear()).await {
                Ok(Heard::Input(text)) if self.asked.tty && text.contains(&3) => return Some(Err(ended(130))),
                Ok(Heard::Input(text)) if self.asked.tty && text.contains(&4) => return Some(Ok((input, true))),
                Ok(Heard::Input(text)) => input.extend_from_slice(&text),
                Ok(Heard::EndOfInput) => return Some(Ok((input, true))),
                Ok(Heard::Gone) => return None,
                Err(_) if !input.is_empty() => break,
                Err(_) if !self.runs_on() => return Some(Err(ended(137))),
                Err(_) if idle.elapsed() > IDLE => return None,
                Ok(Heard::Other) | Err(_) => {}
            }
        }
        Some(Ok((input, false)))
    }

    /// Prints each piece at its time. A status where it ends before.
    pub(super) async fn play(
        &self,
        terminal: &mut Terminal,
        pieces: &[Piece],
        begun: Timestamp,
    ) -> Option<Option<Value>> {
        for piece in pieces {
            if let Some(status) = self.wait(terminal, later(begun, piece.at)).await? {
                return Some(Some(status));
            }
            terminal.print(piece.stream == Stream::Err, &piece.text).await?;
        }
        Some(None)
    }

    /// Waits until the cluster's clock has come to that. A status where it ends before: `Ctrl-C`, the end of the container.
    pub(super) async fn wait(&self, terminal: &mut Terminal, until: Timestamp) -> Option<Option<Value>> {
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

    /// A shell that is given one line after another: typed at a terminal, which shows them, or not.
    async fn converse(&self, terminal: &mut Terminal, world: World) -> Option<Value> {
        let root = world.is_root();
        let mut session = Session::new(world);
        let mut keyboard = Keyboard::new(self.asked.tty);
        let mut unfinished = String::new();
        let prompt = |session: &Session| match session.directory() {
            _ if !self.asked.tty => String::new(),
            directory => format!("{} {} ", directory.unwrap_or("/"), if root { "#" } else { "$" }),
        };
        terminal.print(false, prompt(&session).as_bytes()).await?;
        let mut idle = Instant::now();
        loop {
            let heard = match timeout(LOOK, terminal.hear()).await {
                Ok(heard) => heard,
                Err(_) if !self.runs_on() => return Some(ended(137)),
                Err(_) if idle.elapsed() > IDLE => return Some(ended(0)),
                Err(_) => continue,
            };
            idle = Instant::now();
            let keys = match heard {
                Heard::Input(text) => text.iter().map(|byte| keyboard.press(*byte)).collect(),
                // The last line may lack a line break.
                Heard::EndOfInput => vec![keyboard.rest(), (Vec::new(), Some(Typed::End))],
                Heard::Other => continue,
                Heard::Gone => return None,
            };
            for (echo, typed) in keys {
                terminal.print(false, &echo).await?;
                let is_end = typed == Some(Typed::End);
                let line = match typed {
                    None => continue,
                    Some(Typed::Interrupt) => {
                        unfinished.clear();
                        terminal.print(false, prompt(&session).as_bytes()).await?;
                        continue;
                    }
                    Some(Typed::TooLong) => return Some(failed(&not_known("a line of more than 64 KiB").message)),
                    Some(Typed::End) if self.asked.tty || unfinished.is_empty() => return Some(ended(session.code())),
                    Some(Typed::End) => String::new(),
                    Some(Typed::Line(line)) => line,
                };
                unfinished.push_str(&line);
                if !is_end && Session::is_unfinished(&unfinished) {
                    unfinished.push('\n');
                    terminal.print(false, if self.asked.tty { b"> " } else { b"" }).await?;
                    continue;
                }
                let line = std::mem::take(&mut unfinished);
                let (again, end) = self.line(terminal, session, line).await?;
                session = again;
                if end.is_some() {
                    return end;
                }
                if is_end {
                    return Some(ended(session.code()));
                }
                terminal.print(false, prompt(&session).as_bytes()).await?;
            }
        }
    }

    /// Runs a line of a shell that somebody types into; a status where the shell has ended with it.
    async fn line(
        &self,
        terminal: &mut Terminal,
        mut session: Session,
        line: String,
    ) -> Option<(Session, Option<Value>)> {
        let begun = self.cluster.now();
        let mut found = self.world().await?;
        found.network = Some(self.network(begun));
        let mut printed = Printed::default();
        let (played, unknown, exit, changes) = loop {
            let (line, world) = (line.clone(), found.clone());
            let worked = tokio::task::spawn_blocking(move || {
                let answered = session.line(&line, world);
                (session, answered)
            });
            let (again, answered) = worked.await.ok()?;
            session = again;
            let Answered { pieces, took, unknown, exit, waits, changes } = answered;
            let played = match self.play(terminal, &printed.rest(pieces), begun).await {
                Some(None) if unknown.is_none() => self.wait(terminal, later(begun, took)).await,
                ended => ended,
            };
            if !waits || played != Some(None) {
                break (played, unknown, exit, changes);
            }
        };
        let is_done = played == Some(None) && unknown.is_none();
        let kept = self.keep(&found, changes, is_done).await;
        if let Some(status) = played? {
            if status["details"]["causes"][0]["message"] != "130" {
                return Some((session, Some(status)));
            }
            terminal.print(false, b"^C\n").await?;
        }
        let why = unknown.map(|why| not_known(&why).message).or_else(|| kept.err().map(|status| status.message));
        match why {
            // At a terminal it is seen, and the next line may be known again.
            Some(why) if self.asked.tty => terminal.print(true, format!("klab: {why}\n").as_bytes()).await?,
            Some(why) => return Some((session, Some(failed(&why)))),
            None => {}
        }
        Some((session, exit.map(ended)))
    }
}
