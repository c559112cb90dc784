//! klab's commands at a seat whose learner has no klab: typed into the page's console, or sent with kubectl alone.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use clap::Parser;
use serde_json::Value;
use tokio::sync::mpsc;

use super::azure;
use super::begin;
use super::event_stream::EventStream;
use super::queries::{self, Reply};
use super::seat::SeatId;
use super::state::{Host, Learner};
use super::steps;
use crate::console::{Piece, Run};
use klab_az::rows::ROWS;
use klab_operations::error::{Code, Context as _, Error, Result};
use klab_operations::event::Verb;
use klab_operations::lesson::GoalArguments;
use klab_operations::lesson::session::Goal;
use klab_operations::lesson::text::Page;
use klab_operations::pool::PoolRequest;

/// A line of klab's, without the name of the program.
#[derive(Debug, Parser)]
#[command(name = "klab", no_binary_name = true, disable_help_subcommand = true, about = "Your seat of the class.")]
struct Line {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Show what the step is about and what to type for it.
    Guide {
        #[command(flatten)]
        lab: Lab,
        /// Show this step; the one that is next by default.
        #[arg(long, value_name = "STEP")]
        step: Option<String>,
    },
    /// Check the step that you are at.
    Verify {
        #[command(flatten)]
        lab: Lab,
        /// Check this step.
        #[arg(long, value_name = "STEP")]
        step: Option<String>,
        /// How many seconds to wait until all checks hold.
        #[arg(long, value_name = "SECONDS", value_parser = seconds)]
        timeout: Option<Duration>,
    },
    /// Have the next step done for you.
    Step {
        #[command(flatten)]
        lab: Lab,
        #[command(flatten)]
        going: GoalArguments,
    },
    /// Say why a pod is where it is, or why it is nowhere.
    Explain {
        /// A pod or what makes it: `web-7c9f`, `deployment/web`, or a workload of the lab.
        #[arg(value_name = "POD|WORKLOAD")]
        target: String,
        /// Your lab.
        #[arg(long, value_name = "LAB")]
        lab: Option<String>,
        /// Namespace of the pod or workload.
        #[arg(short, long, value_name = "NAMESPACE")]
        namespace: Option<String>,
    },
    /// Print objects of the lab as YAML, for `kubectl apply -f -`.
    Render {
        #[command(flatten)]
        lab: Lab,
        /// Only the objects of this workload, also of one that a step makes.
        #[arg(long, value_name = "NAME")]
        workload: Option<String>,
        /// As it is after this step; at the set-up by default.
        #[arg(long, value_name = "STEP")]
        step: Option<String>,
    },
    /// Say what differs between your cluster and the lab.
    Diff {
        #[command(flatten)]
        lab: Lab,
        /// Compare with the lab after this step; after the last step that is done by default.
        #[arg(long, value_name = "STEP")]
        step: Option<String>,
    },
    /// Add, change, remove and list pools of nodes.
    #[command(subcommand)]
    Pool(PoolRequest),
    /// Answer the commands of az that show and change pools.
    #[command(disable_help_flag = true)]
    Az {
        /// What would be typed after `az`: `aks nodepool list`.
        #[arg(value_name = "COMMAND", trailing_var_arg = true, allow_hyphen_values = true)]
        words: Vec<String>,
    },
    /// Take back all that you did.
    Reset {
        #[command(flatten)]
        lab: Lab,
        /// Go on until this step is done.
        #[arg(long, value_name = "STEP")]
        to: Option<String>,
        /// Do not ask.
        #[arg(long)]
        yes: bool,
    },
    /// Say where you are.
    Status {
        #[command(flatten)]
        lab: Lab,
    },
}

#[derive(Debug, clap::Args)]
struct Lab {
    /// Your lab.
    #[arg(value_name = "LAB")]
    lab: Option<String>,
}

fn seconds(text: &str) -> Result<Duration, String> {
    let number = text.strip_suffix('s').unwrap_or(text).parse();
    number.map(Duration::from_secs).map_err(|_| "expected seconds, such as 30".to_owned())
}

impl Command {
    fn lab(&self) -> Option<&str> {
        match self {
            Self::Pool(asked) => asked.lab(),
            Self::Az { .. } => None,
            Self::Explain { lab, .. } => lab.as_deref(),
            Self::Guide { lab, .. }
            | Self::Verify { lab, .. }
            | Self::Step { lab, .. }
            | Self::Render { lab, .. }
            | Self::Diff { lab, .. }
            | Self::Reset { lab, .. }
            | Self::Status { lab } => lab.lab.as_deref(),
        }
    }

    /// Whether it changes something.
    fn acts(&self) -> bool {
        match self {
            Self::Step { .. } | Self::Reset { .. } => true,
            Self::Pool(asked) => asked.pool().is_some(),
            // It looks itself, once it has understood what is asked for.
            Self::Az { .. }
            | Self::Guide { .. }
            | Self::Verify { .. }
            | Self::Explain { .. }
            | Self::Render { .. }
            | Self::Diff { .. }
            | Self::Status { .. } => false,
        }
    }
}

/// What a page offers while a line of klab's is typed: commands with their options, `=` behind one that takes a value.
pub(super) fn words() -> BTreeMap<String, Vec<String>> {
    fn add(command: &clap::Command, path: &str, all: &mut BTreeMap<String, Vec<String>>) {
        for under in command.get_subcommands() {
            let path = format!("{path} {}", under.get_name()).trim_start().to_owned();
            let options = under.get_opts().filter_map(|option| Some(format!("--{}=", option.get_long()?)));
            let switches = under.get_arguments().filter(|one| !one.get_action().takes_values());
            let switches = switches.filter_map(|one| Some(format!("--{}", one.get_long()?)));
            all.insert(path.clone(), switches.chain(options.collect::<Vec<_>>()).collect());
            add(under, &path, all);
        }
    }
    let mut all = BTreeMap::new();
    add(&<Line as clap::CommandFactory>::command(), "", &mut all);
    for row in ROWS.iter().filter(|row| klab_operations::az::act(row.command.words).is_some()) {
        let flags = row.command.flags.iter().copied().flatten().filter_map(|flag| flag.each().next());
        all.insert(format!("az {}", row.command.words), flags.map(str::to_owned).collect());
    }
    all
}

/// What makes `klab` of kubectl, in bash and zsh, and in PowerShell. Each word is a line of what is sent to the seat; each line of the
/// answer begins as [`marked`] says.
pub(super) fn shell_functions(host: &Host, seat: SeatId) -> [(&'static str, String); 2] {
    let send = format!("kubectl create --raw {}/api/seats/{seat}/klab -f -", host.base());
    let posix = format!(
        "klab() {{ printf '%s\\n' \"$@\" | {send} | (c=1; while IFS= read -r l; do case $l in 1*) printf '%s\\n' \"${{l#1}}\";; \
         2*) printf '%s\\n' \"${{l#2}}\" >&2;; x*) c=${{l#x}};; esac; done; exit $c); }}"
    );
    let powershell = format!(
        "function klab {{ $c = 1; $args -join \"`n\" | {send} | Where-Object {{ $_ }} | ForEach-Object {{ $l = $_.Substring(1); \
         switch ($_.Substring(0, 1)) {{ '1' {{ $l }} '2' {{ [Console]::Error.WriteLine($l) }} 'x' {{ $c = [int]$l }} }} }}; $global:LASTEXITCODE = $c }}"
    );
    [("bash, zsh", posix), ("PowerShell", powershell)]
}

/// A piece for a shell that has no klab: each line begins with the stream that it belongs to, and `x` stands before the exit code.
/// An empty line says nothing.
pub(super) fn marked(piece: &Piece) -> String {
    let lines = |stream: u8, text: &str| text.lines().map(|line| format!("{stream}{line}\n")).collect();
    match piece {
        Piece::Output(text) => lines(1, text),
        Piece::Talk(text) => lines(2, text),
        Piece::End { code, note } => lines(2, note.as_deref().unwrap_or_default()) + &format!("x{code}\n"),
    }
}

/// A command that could not begin, reported as one that has failed.
pub(super) async fn failed(error: Error) -> Run {
    let (talk, lines) = EventStream::heard();
    talk.end(Err(error)).await;
    streamed(lines)
}

/// Begins what the words behind `klab` say.
///
/// # Errors
/// When it cannot be understood, or cannot begin.
pub(super) async fn run(host: &Arc<Host>, learner: &Learner, words: &[String]) -> Result<Run> {
    let command = match Line::try_parse_from(words) {
        Ok(line) => line.command,
        // Help is an answer like any.
        Err(help) if help.exit_code() == 0 => return Ok(Run::said(help.to_string())),
        Err(error) => {
            let text = error.to_string();
            let text = text.strip_prefix("error: ").unwrap_or(&text).trim_end().to_owned();
            return Err(Error::message(Code::SeatCommand, text));
        }
    };
    if let Some(lab) = command.lab().filter(|lab| *lab != learner.lab) {
        let message = format!("this is your seat in lab `{}`, and not in `{lab}`", learner.lab);
        return Err(Error::message(Code::SeatCommand, message));
    }
    if command.acts() {
        host.refuse_late(learner.person).map_err(|refusal| Error::message(Code::ClassRefuses, refusal.message))?;
    }
    let page = Page { width: 100, colours: false };
    let said = match command {
        Command::Guide { step, .. } => queries::guide(host, learner, step.as_deref(), page).await,
        Command::Explain { target, namespace, .. } => {
            queries::explain(host, learner, &target, namespace.as_deref()).await
        }
        Command::Render { workload, step, .. } => {
            queries::render(host, learner, workload.as_deref(), step.as_deref()).await
        }
        Command::Diff { step, .. } => queries::diff(host, learner, step.as_deref()).await,
        Command::Status { .. } => queries::status(host, learner),
        Command::Az { words } => {
            let (host, learner) = (Arc::clone(host), learner.clone());
            let said = tokio::task::spawn_blocking(move || azure::said(&host, &learner, &words)).await;
            return said.map(Run::of).code(Code::ClassFault, || "az met a fault of the host".to_owned());
        }
        Command::Pool(PoolRequest::List { .. }) => queries::pools(host, learner).await,
        Command::Verify { step, timeout, .. } => {
            let (talk, lines) = EventStream::heard();
            begin::grading(Arc::clone(host), learner.clone(), step, timeout, talk);
            return Ok(streamed(lines));
        }
        Command::Step { going, .. } => {
            let goal = Goal::from(going);
            return Ok(working(host, learner, "step", move |host, learner, talk| {
                steps::go(host, learner, &goal, talk)
            }));
        }
        Command::Pool(pool) => {
            return Ok(working(host, learner, "pool", move |host, learner, talk| {
                steps::change_pool(host, learner, &pool, talk)
            }));
        }
        Command::Reset { yes: false, .. } => {
            Err(Error::message(Code::NotConfirmed, "all that you did would be taken back")
                .hint("`klab reset --yes` takes it back"))
        }
        Command::Reset { to, .. } => {
            let goal = to.map(Goal::To);
            return Ok(working(host, learner, "reset", move |host, learner, talk| {
                steps::reset(host, learner, goal.as_ref(), talk)
            }));
        }
    };
    let Reply { text, .. } = said?;
    Ok(Run::said(plain(&text)))
}

/// Text without styles, with an end.
fn plain(text: &str) -> String {
    format!("{}\n", anstream::adapter::strip_str(text).to_string().trim_end())
}

/// Has work done that waits for what it does.
fn working(
    host: &Arc<Host>,
    learner: &Learner,
    what: &'static str,
    work: impl FnOnce(&Arc<Host>, &Learner, &EventStream) -> Result<()> + Send + 'static,
) -> Run {
    host.audit.seat(what, learner.seat, "learner");
    let (talk, lines) = EventStream::heard();
    let (host, learner) = (Arc::clone(host), learner.clone());
    begin::in_the_background(talk, move |talk| work(&host, &learner, talk));
    streamed(lines)
}

/// The lines of a talk as a terminal shows them.
fn streamed(mut lines: mpsc::Receiver<Value>) -> Run {
    Run::streamed(|pieces| async move {
        loop {
            let line = tokio::select! {
                line = lines.recv() => line,
                () = pieces.closed() => None,
            };
            let Some(line) = line else { return };
            let ends = line["end"].is_object();
            for piece in shown(&line) {
                if pieces.send(piece).await.is_err() {
                    return;
                }
            }
            if ends {
                return;
            }
        }
    })
}

/// What a line of a talk says.
fn shown(line: &Value) -> Vec<Piece> {
    let text = |key: &str| line[key].as_str();
    let row = |word: &str, what: &str| vec![Piece::Talk(plain(&format!("{word:>12} {what}")))];
    if let Some(report) = line["report"]["human"].as_str() {
        return vec![Piece::Output(plain(report))];
    }
    if line["end"].is_object() {
        let end = &line["end"];
        let texts = |key: &str| end[key].as_array().into_iter().flatten().filter_map(Value::as_str);
        let causes: Vec<&str> = texts("causes").collect();
        let code = end["exit_code"].as_i64().and_then(|code| i32::try_from(code).ok()).unwrap_or_default();
        let mut pieces = Vec::new();
        if end["ok"] != true {
            pieces.push(Piece::Talk(plain(&format!(
                "error[{}]: {}",
                end["code"].as_str().unwrap_or_default(),
                causes.join("\ncaused by: ")
            ))));
            pieces.extend(texts("hints").map(|hint| Piece::Talk(plain(&format!("hint: {hint}")))));
        }
        pieces.push(Piece::End { code, note: None });
        return pieces;
    }
    match (text("command"), text("warning"), text("done")) {
        (Some(command), ..) => row("$", command),
        (_, Some(warning), _) => vec![Piece::Talk(plain(&format!("warning: {warning}")))],
        (_, _, Some(done)) => {
            let verb = Verb::ALL.iter().find(|verb| Some(verb.action()) == text("action"));
            row(verb.map_or("Done", |verb| verb.done()), done)
        }
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_page_offers_commands_and_their_options() {
        let words = words();
        assert!(
            words["guide"].contains(&"--step=".to_owned()) && words["step"].contains(&"--all".to_owned()),
            "{words:?}"
        );
        assert!(
            words["az aks nodepool scale"].contains(&"--node-count".to_owned())
                && words["pool add"].contains(&"--nodes=".to_owned())
                && !words["guide"].contains(&"--step".to_owned()),
            "{words:?}"
        );
    }

    #[test]
    fn klabs_own_lines_are_understood_without_klab() {
        use clap::CommandFactory;
        Line::command().debug_assert();
        for line in [
            "guide",
            "guide scheduling --step taint",
            "verify --timeout 30",
            "verify scheduling --timeout 30s",
            "step --all",
            "step --back",
            "render scheduling --workload web --step taint",
            "pool add extra --nodes 2 --size Standard_B2ms --labels a=b,c=d --taints k=v:NoSchedule",
            "pool update burst --autoscale 2..5",
            "pool list",
            "explain web -n team",
            "reset --to taint --yes",
            "diff",
            "az aks nodepool add --name extra -c 1 --help",
            "status",
        ] {
            assert!(Line::try_parse_from(line.split(' ')).is_ok(), "{line}");
        }
        for line in ["", "up scheduling", "aks show", "step --to a --back", "board", "pool add"] {
            assert!(Line::try_parse_from(line.split(' ')).is_err(), "{line}");
        }
    }

    #[test]
    fn what_the_host_says_is_shown_as_a_terminal_shows_it() {
        let of = |line: Value| -> String {
            let texts = shown(&line).into_iter().map(|piece| match piece {
                Piece::Output(text) | Piece::Talk(text) => text,
                Piece::End { code, .. } => format!("[{code}]"),
            });
            texts.collect()
        };
        assert_eq!(of(json!({ "command": "kubectl get nodes" })), "           $ kubectl get nodes\n");
        assert_eq!(of(json!({ "done": "pool extra", "action": "create-pool" })), "     Created pool extra\n");
        assert_eq!(of(json!({ "report": { "human": "\u{1b}[1mheld\u{1b}[0m" } })), "held\n");
        assert_eq!(of(json!({ "end": { "ok": true } })), "[0]");
        let end = json!({ "ok": false, "code": "K0620", "exit_code": 1, "causes": ["a", "b"], "hints": ["c"] });
        assert_eq!(of(json!({ "end": end })), "error[K0620]: a\ncaused by: b\nhint: c\n[1]");
    }
}
