//! Replays recorded kubectl sessions of a real Kubernetes v1.36.2 control plane against fresh embedded clusters.
//!
//! `KLAB_GOLDEN_KUBECTL=<dir>` replaces the recordings (`*.jsonl` or `*.jsonl.gz`, with `manifests/`, `bodies/` and
//! `normalise.json`), `KLAB_FLOW=a,b` picks flows, of which known differences are shown in full, `KLAB_FLOW=all` replays all instead of
//! every third, `KLAB_KUBECTL_DIR=<dir>` says where kubectl binaries are.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on must stop, and says where")]
#![expect(clippy::print_stdout, reason = "a test that reports what it replayed")]

mod compare;
mod flow;
mod known;
mod kubectl;
mod normalise;
mod replay;
#[expect(dead_code, reason = "no other program is needed")]
#[path = "../../../../tests/skipped/mod.rs"]
mod skipped;
mod unlike;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use klab_server::{Server, ServerOptions};

use self::flow::Flow;
use self::kubectl::Kubectls;
use self::normalise::Normaliser;
use self::replay::{Outcome, Replay};

/// Flows that run at the same time: kubectl mostly waits.
const SIDE_BY_SIDE: usize = 6;

/// The test replays one flow in this many, unless `KLAB_FLOW` names others.
const SHARE: usize = 3;

/// How often a flow is replayed at most until it is answered as recorded: other programs may keep the processors busy.
const ATTEMPTS: usize = 3;

fn recordings() -> PathBuf {
    std::env::var_os("KLAB_GOLDEN_KUBECTL")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden"), PathBuf::from)
}

/// What became of one flow.
struct Result {
    flow: String,
    kubectl: String,
    recorded: String,
    outcomes: Vec<Outcome>,
    seconds: f64,
}

#[test]
fn recorded_flows_are_answered_alike() {
    let folder = recordings();
    let picked = std::env::var("KLAB_FLOW").unwrap_or_default();
    let flows = flow::read_all(&folder).into_iter().enumerate();
    let is_picked = |(number, flow): &(usize, Flow)| match picked.as_str() {
        "" => number % SHARE == 0,
        names => names == "all" || names.split(',').any(|name| name == flow.name),
    };
    let mut flows: Vec<Flow> = flows.filter(is_picked).map(|(_, flow)| flow).collect();
    assert!(!flows.is_empty(), "no flows in {}", folder.display());
    let kubectls = Kubectls::find();
    if kubectls.is_empty() {
        return skipped::skipped(&format!("kubectl is not installed, so {} flows are not replayed", flows.len()));
    }
    // The longest first, so that none of them is alone at the end.
    flows.sort_by_key(|flow| std::cmp::Reverse(flow.cost()));
    let normaliser = Normaliser::read(&folder);
    let state = tempfile::tempdir().unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let server = runtime
        .block_on(Server::start(ServerOptions::at(state.path().join("server"))))
        .unwrap_or_else(|error| panic!("{error}"));
    let (next, results) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let replay = |flow: &Flow, attempt: usize| {
        let began = Instant::now();
        let kubectl = kubectls.for_version(&flow.kubectl);
        let mut outcomes = Vec::new();
        let run = AssertUnwindSafe(|| {
            Replay::new(&folder, flow, attempt, kubectl, &normaliser, &server, runtime.handle()).run(&mut outcomes);
        });
        // A step that cannot be replayed at all must not take the totals of all flows with it.
        if let Err(panic) = catch_unwind(run) {
            outcomes.push(Outcome::aborted(outcomes.len() + 1, panic.as_ref()));
        }
        let result = Result {
            flow: flow.name.clone(),
            kubectl: kubectl.version.clone(),
            recorded: flow.kubectl.clone(),
            outcomes,
            seconds: began.elapsed().as_secs_f64(),
        };
        result.print();
        result
    };
    let began = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..SIDE_BY_SIDE.min(flows.len()) {
            scope.spawn(|| {
                while let Some(flow) = flows.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let result = replay(flow, 1);
                    results.lock().unwrap().push(result);
                }
            });
        }
    });
    let mut results = results.into_inner().unwrap();
    // Side by side, commands wait for each other and see clusters later than they were recorded: what differs is
    // replayed again, alone, and that counts.
    for result in &mut results {
        let Some(flow) = flows.iter().find(|flow| flow.name == result.flow) else { continue };
        for attempt in 2..=ATTEMPTS {
            if result.unexpected().next().is_none() {
                break;
            }
            println!("{} again, alone:", flow.name);
            *result = replay(flow, attempt);
        }
    }
    report(&results, began.elapsed().as_secs_f64());
}

impl Result {
    fn known(&self, step: usize) -> Option<known::Reason> {
        known::reason(&self.flow, step, self.kubectl == self.recorded)
    }

    /// Steps that differ for no known reason.
    fn unexpected(&self) -> impl Iterator<Item = &Outcome> {
        self.outcomes.iter().filter(|outcome| outcome.difference.is_some() && self.known(outcome.step).is_none())
    }

    /// Says how the flow went, with all differences that are not known.
    fn print(&self) {
        use std::fmt::Write;
        let good = self.outcomes.iter().filter(|outcome| outcome.difference.is_none()).count();
        let mut text = format!(
            "{:18} kubectl {} (recorded with {}): {good} of {} in {:.1} s\n",
            self.flow,
            self.kubectl,
            self.recorded,
            self.outcomes.len(),
            self.seconds
        );
        for outcome in &self.outcomes {
            let Some(difference) = &outcome.difference else { continue };
            let _ = match self.known(outcome.step) {
                Some(reason) if std::env::var_os("KLAB_FLOW").is_some() => {
                    let (step, what) = (outcome.step, &outcome.what);
                    writeln!(text, "  step {step} differs as known: {reason}: {what}\n{}", indented(difference))
                }
                Some(reason) => writeln!(text, "  step {} differs as known: {reason}", outcome.step),
                None => writeln!(text, "  step {}: {}\n{}", outcome.step, outcome.what, indented(difference)),
            };
        }
        println!("{text}");
    }
}

fn report(results: &[Result], seconds: f64) {
    let (mut steps, mut identical, mut excused) = (0, 0, 0);
    let unexpected: usize = results.iter().map(|result| result.unexpected().count()).sum();
    let mut stale = Vec::new();
    for result in results {
        for outcome in &result.outcomes {
            steps += 1;
            match (&outcome.difference, result.known(outcome.step)) {
                (None, None) => identical += 1,
                (None, Some(reason)) => {
                    identical += 1;
                    if !reason.varies() {
                        stale.push(format!("{} {}", result.flow, outcome.step));
                    }
                }
                (Some(_), Some(_)) => excused += 1,
                (Some(_), None) => {}
            }
        }
    }
    println!(
        "flows {}, steps {steps}, identical {identical}, known to differ {excused}, in {seconds:.1} s",
        results.len()
    );
    assert_eq!(unexpected, 0, "steps that differ from the recordings, and are not known to");
    assert!(stale.is_empty(), "answered as recorded, so take them off the lists of known.rs and unlike.rs: {stale:?}");
}

fn indented(text: &str) -> String {
    text.lines().map(|line| format!("      {line}\n")).collect()
}
