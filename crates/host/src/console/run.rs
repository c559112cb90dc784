//! Runs what was typed: kubectl in the sandbox, a few commands at a time, its output as it comes.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::future::BoxFuture;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

use super::policy::{self, Files, Input, Invocation, Refusal, Source, Typed};
use super::program::{self, Program};
use super::sandbox::{Layer, Limits, MissingFeature};
use super::settings::{Settings, Unconfined};
use super::text::Pieces;
use super::workdir::{Scratch, Workdir};
use klab_filters::{Chain, Filter};
use klab_lab::words::{duration, plural};
use klab_operations::error::{Code, Context as _, Error, Result};
use klab_operations::exec::stream::{Bounds, Channel, End};
use klab_operations::exec::{self, Command};
use klab_operations::kubeconfig;

/// A piece of what a command says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece {
    /// Of its results.
    Output(String),
    /// Of its talk.
    Talk(String),
    /// The last: its exit code, and what the learner must know of its end.
    End {
        /// As a shell has it in `$?`.
        code: i32,
        /// Why it was ended.
        note: Option<String>,
    },
}

/// What somebody typed, and on what it is to work.
#[derive(Debug, Clone, Default)]
pub struct Request {
    /// Whose it is.
    pub seat: String,
    /// The kubeconfig of the seat: one server, on a port of 127.0.0.1.
    pub kubeconfig: String,
    /// The line.
    pub line: String,
    /// The files that it may name.
    pub files: Files,
}

/// A command that runs. It is ended when this is dropped.
#[derive(Debug)]
pub struct Run {
    pieces: mpsc::Receiver<Piece>,
}

impl Run {
    /// What it says next; none after its end.
    pub async fn next(&mut self) -> Option<Piece> {
        self.pieces.recv().await
    }

    /// A run whose pieces `tells` sends; it ends when its reader has gone. Call it within a runtime.
    pub fn streamed<F: Future<Output = ()> + Send + 'static>(tells: impl FnOnce(mpsc::Sender<Piece>) -> F) -> Self {
        let (sender, pieces) = mpsc::channel(WAITING);
        tokio::spawn(tells(sender));
        Self { pieces }
    }

    /// A command that has ended well with this result. Within a runtime.
    pub fn said(output: String) -> Self {
        Self::of(vec![Piece::Output(output), Piece::End { code: 0, note: None }])
    }

    /// A command that has ended, of which these pieces are all. Within a runtime.
    pub fn of(all: Vec<Piece>) -> Self {
        Self::streamed(|pieces| async move {
            for piece in all {
                // The reader may have gone.
                let _ = pieces.send(piece).await;
            }
        })
    }

    /// All that it prints.
    ///
    /// # Errors
    /// What it says, where it fails.
    async fn output(mut self) -> Result<String, Refusal> {
        let (mut output, mut talk) = (String::new(), String::new());
        while let Some(piece) = self.next().await {
            match piece {
                Piece::Output(text) => output.push_str(&text),
                Piece::Talk(text) => talk.push_str(&text),
                Piece::End { code: 0, .. } => return Ok(output),
                Piece::End { .. } => break,
            }
        }
        Err(Refusal(talk))
    }

    /// What comes out of programs that its results go through. It ends with the first that takes no more.
    fn through(mut self, filters: &[Filter]) -> Self {
        let mut chain = Chain::new(filters);
        Self::streamed(|pieces| async move {
            let mut why = None;
            while !chain.is_done() {
                let piece = tokio::select! {
                    piece = self.next() => piece,
                    () = pieces.closed() => return,
                };
                let shown = match piece {
                    None => break,
                    Some(Piece::End { note, .. }) => {
                        why = note;
                        break;
                    }
                    Some(Piece::Output(text)) => Piece::Output(chain.take(&text)),
                    Some(talk @ Piece::Talk(_)) => talk,
                };
                if shown != Piece::Output(String::new()) && pieces.send(shown).await.is_err() {
                    return;
                }
            }
            let (rest, code) = chain.finish();
            if !rest.is_empty() {
                let _ = pieces.send(Piece::Output(rest)).await;
            }
            let _ = pieces.send(Piece::End { code, note: why }).await;
        })
    }
}

/// The console of a class.
#[derive(Debug)]
pub struct Console {
    settings: Settings,
    program: Program,
    scratch: Arc<Scratch>,
    version: String,
    lacks: Vec<MissingFeature>,
    all: Arc<Semaphore>,
    following: Arc<Semaphore>,
    seats: Arc<Mutex<HashMap<String, usize>>>,
}

/// Time to try the sandbox out.
const TRIAL: Duration = Duration::from_secs(20);
/// Pieces that wait for a slow page.
const WAITING: usize = 16;

impl Console {
    /// A console with this machine's kubectl, after the sandbox was tried out.
    ///
    /// # Errors
    /// When there is no kubectl, or the kernel cannot confine it and the settings do not allow that.
    pub fn new(settings: Settings) -> Result<Self> {
        let program = program::find(settings.kubectl.as_deref())?;
        let scratch = Scratch::new(settings.at_a_time)
            .code(Code::MachineRefused, || "could not make a folder for the console".to_owned())?;
        let all = Arc::new(Semaphore::new(settings.at_a_time));
        let following = Arc::new(Semaphore::new(settings.at_a_time.div_ceil(2)));
        let mut console = Self {
            settings,
            program,
            scratch: Arc::new(scratch),
            version: String::new(),
            lacks: Vec::new(),
            all,
            following,
            seats: Arc::default(),
        };
        console.try_out()?;
        Ok(console)
    }

    /// kubectl's version.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// What the kernel cannot confine.
    pub fn lacks(&self) -> &[MissingFeature] {
        &self.lacks
    }

    fn try_out(&mut self) -> Result<()> {
        let place = self
            .scratch
            .open("", &Files::new())
            .code(Code::MachineRefused, || "could not use the console's folder".to_owned())?;
        let Some(place) = place else { return Ok(()) };
        let report = self.sandbox(&place, 1).arg("--report").output(TRIAL);
        let report = report.code(Code::ClassSandbox, || "could not put up the console's sandbox".to_owned())?;
        self.lacks = serde_json::from_str(&report)
            .code(Code::KlabFault, || "could not read what the sandbox lacks".to_owned())?;
        let allowed = self.settings.unconfined;
        let is_hole = |lack: &&MissingFeature| match allowed {
            Unconfined::None => true,
            Unconfined::Network => lack.wall != Layer::Network,
            Unconfined::All => false,
        };
        let holes: Vec<&MissingFeature> = self.lacks.iter().filter(is_hole).collect();
        if !holes.is_empty() {
            let only_network = holes.iter().all(|lack| lack.wall == Layer::Network);
            let holes: Vec<String> = holes.iter().map(ToString::to_string).collect();
            let message = format!("the console's sandbox would have holes: {}", holes.join("; "));
            let hint = if only_network {
                "`--console-unconfined=network` goes without this wall, where a firewall or NetworkPolicy around the host has it; \
                 without `--console` learners use their own kubectl"
            } else {
                "`--console-unconfined` goes without, for learners who may do on this machine what klab may; without `--console` they \
                 use their own kubectl"
            };
            return Err(Error::message(Code::ClassSandbox, message).hint(hint));
        }
        let path = &self.program.path;
        let version =
            self.sandbox(&place, 1).arg("--").arg(path).args(["version", "--client", "--output=json"]).output(TRIAL);
        let version = version
            .code(Code::ClassSandbox, || format!("could not run `{}` in the console's sandbox", path.display()))?;
        let version: serde_json::Value = serde_json::from_str(&version).unwrap_or_default();
        version["clientVersion"]["gitVersion"]
            .as_str()
            .unwrap_or("of an unknown version")
            .clone_into(&mut self.version);
        Ok(())
    }

    /// klab as the sandbox of one command.
    fn sandbox(&self, place: &Workdir, port: u16) -> Command {
        let mut command = Command::new(&self.settings.klab)
            .own_environment()
            .env("HOME", &place.folder)
            .env("TMPDIR", &place.folder)
            .env("LANG", "C.UTF-8")
            .env("TERM", "dumb")
            // Files of the home folder would give commands other names and flags.
            .env("KUBERC", "off")
            .env("KUBECTL_KUBERC", "false")
            // It collects garbage before the limit is reached.
            .env("GOMEMLIMIT", (Limits::default().memory / 2).to_string())
            .directory(place.files())
            .arg("sandbox")
            .arg("--folder")
            .arg(&place.folder)
            .arg("--port")
            .arg(port.to_string());
        for program in &self.program.programs {
            command = command.arg("--program").arg(program);
        }
        for library in &self.program.libraries {
            command = command.arg("--library").arg(library);
        }
        if let Some(user) = place.user {
            command = command.arg("--user").arg(user.to_string());
        }
        if self.settings.unconfined != Unconfined::None {
            command = command.arg("--unconfined");
        }
        command
    }

    /// Runs a line, once it is its turn. `klab` does what is typed of klab.
    ///
    /// # Errors
    /// Why it is not run, for the learner.
    pub async fn run<'k>(
        &self,
        request: Request,
        klab: impl Fn(Vec<String>) -> BoxFuture<'k, Result<Run, Refusal>>,
    ) -> Result<Run, Refusal> {
        let Typed { source, filters } = policy::read(&request.line, &request.files)?;
        let run = match source {
            Source::Klab(words) => klab(words).await?,
            Source::Kubectl(invocation) => {
                let input = match &invocation.input {
                    None => String::new(),
                    Some(Input::Text(text)) => text.clone(),
                    Some(Input::Rendered(words)) => klab(words.clone()).await?.output().await?,
                };
                self.run_kubectl(request, invocation, input).await?
            }
        };
        Ok(if filters.is_empty() { run } else { run.through(&filters) })
    }

    async fn run_kubectl(&self, request: Request, invocation: Invocation, input: String) -> Result<Run, Refusal> {
        let turn = self.turn(&request.seat, invocation.follows).await?;
        let (port, root) = server_of(&request.kubeconfig)
            .ok_or_else(|| Refusal("your cluster's address is not known yet: try again".into()))?;
        let of = |(name, placed): &(String, String)| Some((placed.clone(), request.files.get(name)?.clone()));
        let files: Files = invocation.files.iter().filter_map(of).collect();
        let place = self.scratch.open(&request.kubeconfig, &files);
        let place = place
            .map_err(|error| Refusal(format!("the console's folder cannot be used ({error}): tell the instructor")))?;
        let place = place.ok_or_else(busy)?;
        let command = self.kubectl(&place, port, &with_root(&invocation.arguments, &root));
        let bounds = Bounds { time: self.settings.time, output: self.settings.output };
        let (sender, pieces) = mpsc::channel(WAITING);
        tokio::task::spawn_blocking(move || {
            let end = stream(&command, input, bounds, &sender);
            drop(place);
            drop(turn);
            // The page may have gone.
            let _ = sender.blocking_send(end);
        });
        Ok(Run { pieces })
    }

    fn kubectl(&self, place: &Workdir, port: u16, arguments: &[String]) -> Command {
        let flag = |name: &str, path: std::path::PathBuf| format!("--{name}={}", path.display());
        self.sandbox(place, port)
            .arg("--")
            .arg(&self.program.path)
            .arg(flag("kubeconfig", place.kubeconfig()))
            .arg(flag("cache-dir", place.folder.join("cache")))
            .args(arguments)
    }

    /// Waits until a command of a seat may run.
    async fn turn(&self, seat: &str, follows: bool) -> Result<Turn, Refusal> {
        let of_seat = OfSeat::take(&self.seats, seat, self.settings.of_a_seat).ok_or_else(|| {
            let many = plural(self.settings.of_a_seat, "command");
            Refusal(format!("{many} of yours run already: end one of them first"))
        })?;
        let following =
            if follows {
                let free = Arc::clone(&self.following).try_acquire_owned();
                Some(free.map_err(|_| {
                    Refusal("too many watches are open in this class: leave out `-w`, or try again".into())
                })?)
            } else {
                None
            };
        let place = tokio::time::timeout(self.settings.patience, Arc::clone(&self.all).acquire_owned()).await;
        let place = place.ok().and_then(Result::ok).ok_or_else(busy)?;
        Ok(Turn { _of_seat: of_seat, _following: following, _place: place })
    }
}

fn busy() -> Refusal {
    Refusal("all learners type at once: try again in a moment".to_owned())
}

/// The right to run a command.
struct Turn {
    _of_seat: OfSeat,
    _following: Option<OwnedSemaphorePermit>,
    _place: OwnedSemaphorePermit,
}

/// A command counted for its seat.
struct OfSeat {
    seats: Arc<Mutex<HashMap<String, usize>>>,
    seat: String,
}

impl OfSeat {
    fn take(seats: &Arc<Mutex<HashMap<String, usize>>>, seat: &str, most: usize) -> Option<Self> {
        let mut counts = seats.lock().unwrap_or_else(PoisonError::into_inner);
        let count = counts.entry(seat.to_owned()).or_default();
        if *count >= most {
            return None;
        }
        *count += 1;
        Some(Self { seats: Arc::clone(seats), seat: seat.to_owned() })
    }
}

impl Drop for OfSeat {
    fn drop(&mut self) {
        let mut counts = self.seats.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = counts.get_mut(&self.seat) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                counts.remove(&self.seat);
            }
        }
    }
}

/// The port of the server that a kubeconfig names by its address, and the path at which the API of the seat begins there.
fn server_of(kubeconfig: &str) -> Option<(u16, String)> {
    let config = kubeconfig::file::parse(kubeconfig).ok()?;
    let server: http::Uri = config.clusters.first()?.cluster.as_ref()?.server.as_ref()?.parse().ok()?;
    // A name would have to be looked up, and the sandbox has no resolver.
    let is_address = server.host()?.trim_matches(['[', ']']).parse::<std::net::IpAddr>().is_ok();
    let port = is_address.then(|| server.port_u16()).flatten()?;
    Some((port, server.path().trim_end_matches('/').to_owned()))
}

/// The arguments of kubectl, which asks for a raw path at the root of the server: of the seat, here.
// upstream: staging/src/k8s.io/kubectl/pkg/rawhttp/raw.go raw (v1.36): RequestURI leaves out the path of the server.
fn with_root(arguments: &[String], root: &str) -> Vec<String> {
    let rooted = |argument: &String| match argument.strip_prefix("--raw=") {
        Some(path) => format!("--raw={root}{path}"),
        None => argument.clone(),
    };
    arguments.iter().map(rooted).collect()
}

/// Runs the command to its end, which it gives.
fn stream(command: &Command, input: String, bounds: Bounds, to: &mpsc::Sender<Piece>) -> Piece {
    let (mut output, mut talk) = (Pieces::default(), Pieces::default());
    let ended = command.stream(input.into_bytes(), bounds, |channel, piece| {
        if to.is_closed() {
            return ControlFlow::Break(());
        }
        let piece = match channel {
            Channel::Stdout => output.take(piece).map(Piece::Output),
            Channel::Stderr => talk.take(piece).map(Piece::Talk),
        };
        match piece.map(|piece| to.blocking_send(piece)) {
            Some(Err(_)) => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        }
    });
    for rest in [output.rest().map(Piece::Output), talk.rest().map(Piece::Talk)].into_iter().flatten() {
        // The page may have gone.
        let _ = to.blocking_send(rest);
    }
    end(ended, bounds)
}

/// What a shell would have as exit code, and why a command was ended.
fn end(ended: Result<End, exec::Error>, bounds: Bounds) -> Piece {
    let killed =
        |signal: i32, note: &str| Piece::End { code: 128_i32.saturating_add(signal), note: Some(note.to_owned()) };
    match ended {
        Ok(End::Exited(code)) => Piece::End { code, note: None },
        Ok(End::Killed(9 | 24)) => killed(9, "it was ended: it used more of the processor than a command here may"),
        Ok(End::Killed(signal)) => killed(signal, &format!("it was ended by signal {signal}")),
        Ok(End::TooLong) => {
            killed(9, &format!("it was ended: a command here runs for {} at most", duration(bounds.time)))
        }
        Ok(End::TooMuch) => killed(
            9,
            &format!("it was ended after {} KiB: choose less of it, with `-l` or `-o name`", bounds.output / 1024),
        ),
        Ok(End::Unwanted) => killed(2, "it was ended"),
        Err(_) => Piece::End { code: 126, note: Some("it could not be started: tell the instructor".to_owned()) },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_known_by_its_address() {
        let of = |server: &str| server_of(&format!("clusters: [{{name: a, cluster: {{server: '{server}'}}}}]"));
        assert_eq!(of("https://127.0.0.1:8443/seats/0/1"), Some((8443, "/seats/0/1".to_owned())));
        assert_eq!(of("http://[::1]:8443"), Some((8443, String::new())));
        let arguments = ["get", "--raw=/version", "--output=json"].map(str::to_owned);
        assert_eq!(with_root(&arguments, "/seats/0/1"), ["get", "--raw=/seats/0/1/version", "--output=json"]);
        for server in
            ["https://127.0.0.1", "https://evil.example:8443", "https://127.0.0.1.evil.example:8443", "x y", ""]
        {
            assert_eq!(of(server), None, "{server}");
        }
        assert_eq!(server_of("[]"), None);
    }

    #[test]
    fn a_seat_has_so_many_commands_and_no_more() {
        let seats = Arc::default();
        let one = OfSeat::take(&seats, "a", 2);
        let two = OfSeat::take(&seats, "a", 2);
        assert!(one.is_some() && two.is_some() && OfSeat::take(&seats, "a", 2).is_none());
        assert!(OfSeat::take(&seats, "b", 2).is_some());
        drop(one);
        assert!(OfSeat::take(&seats, "a", 2).is_some());
        drop(two);
        assert!(seats.lock().unwrap().is_empty());
    }

    #[test]
    fn ends_are_told_as_a_shell_tells_them() {
        let bounds = Bounds { time: Duration::from_secs(300), output: 2 << 20 };
        let of = |ended| match end(Ok(ended), bounds) {
            Piece::End { code, note } => (code, note.unwrap_or_default()),
            piece => panic!("{piece:?}"),
        };
        assert_eq!(of(End::Exited(1)), (1, String::new()));
        assert_eq!(of(End::Killed(24)).0, 137);
        assert!(of(End::TooLong).1.contains("5m"), "{}", of(End::TooLong).1);
        assert!(of(End::TooMuch).1.contains("2048 KiB"));
    }
}
