//! Answers beside what a real control plane of Kubernetes v1.36.2 did after the same changes to the same clusters.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::ops::Range;
use std::path::{Path, PathBuf};

use klab_lab::spec::UpgradeSettings;
use klab_whatif::{Answer, COPIES, Capture, Change, agreement, what_if, what_if_of};
use serde::Deserialize;
use serde_json::{Value, json};

/// One change to a cluster, as it was recorded.
#[derive(Deserialize)]
struct Step {
    seed: u64,
    step: u64,
    /// The options of `klab whatif`.
    options: Vec<(String, String)>,
    /// The files that they name.
    files: BTreeMap<String, String>,
    before: State,
    after: State,
    /// The lines of the capture: those of the last one that are gone, by their number, and new ones.
    gone: BTreeSet<usize>,
    new: Vec<String>,
}

/// A cluster that rests.
#[derive(Deserialize, Default, Clone, PartialEq, Eq, Debug)]
struct State {
    /// Nodes by pool.
    nodes: BTreeMap<String, usize>,
    workloads: BTreeMap<String, Pods>,
    /// Workloads with pods that the API server refuses, and its words.
    refused: BTreeMap<String, String>,
    #[serde(default)]
    blocked: BTreeSet<Blocked>,
}

/// The pods of a workload.
#[derive(Deserialize, Default, Clone, PartialEq, Eq, Debug)]
struct Pods {
    /// With a node, by pool.
    placed: BTreeMap<String, i64>,
    /// Without, by the scheduler's words.
    waiting: BTreeMap<String, usize>,
}

#[derive(Deserialize, Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Blocked {
    node: String,
    pod: String,
    why: String,
}

fn changes(step: &Step) -> Vec<Change> {
    let objects = |file: &str| -> Vec<Value> {
        let files = step.files.iter().filter(|(name, _)| *name == file || name.starts_with(&format!("{file}/")));
        let parts = files.flat_map(|(_, text)| text.split("\n---\n"));
        parts.map(|part| serde_json::from_str(part).unwrap()).collect()
    };
    let change = |(option, text): &(String, String)| match option.as_str() {
        "--pool" => Change::pool(text),
        "--taint" => Change::taint(text),
        "--label" => Change::label(text),
        "--scale" => Change::scale(text),
        "--drain" => Ok(Change::Drain { target: text.clone() }),
        "--upgrade" => Ok(Change::Upgrade { pool: text.clone(), settings: UpgradeSettings::default() }),
        "--zone-down" => Ok(Change::ZoneDown { zone: text.clone() }),
        "--add" => Change::times(text).map(|(file, times)| Change::Add { objects: objects(file), times }),
        "--apply" => {
            let mut objects = objects(text);
            // The captures of the recordings do not have it.
            for spec in
                objects.iter_mut().filter_map(|object| object.pointer_mut("/spec/template/spec")?.as_object_mut())
            {
                spec.remove("terminationGracePeriodSeconds");
            }
            Ok(Change::Apply { objects })
        }
        "--profile" => Ok(Change::Profile { configuration: objects(text).remove(0) }),
        other => Err(format!("{other} is no option")),
    };
    step.options.iter().map(change).collect::<Result<_, _>>().unwrap()
}

/// The cluster that an answer foretells.
fn foretold(before: &State, answer: &Answer) -> State {
    let mut state = State { refused: BTreeMap::new(), ..before.clone() };
    state.nodes = answer.pools.iter().map(|(pool, change)| (pool.clone(), change.after.nodes)).collect();
    for pods in state.workloads.values_mut() {
        pods.waiting.clear();
    }
    for change in &answer.workloads {
        let workload = format!("{} {}/{}", change.workload.kind, change.workload.namespace, change.workload.name);
        let pods = state.workloads.entry(workload.clone()).or_default();
        for ((from, to), count) in &change.moves {
            *pods.placed.entry(from.clone()).or_default() -= i64::try_from(*count).unwrap();
            *pods.placed.entry(to.clone()).or_default() += i64::try_from(*count).unwrap();
        }
        for (pool, count) in &change.removed {
            *pods.placed.entry(pool.clone()).or_default() -= i64::try_from(*count).unwrap();
        }
        for (pool, count) in &change.added {
            *pods.placed.entry(pool.clone()).or_default() += i64::try_from(*count).unwrap();
        }
        pods.waiting = change.waiting.clone();
        if let Some(refused) = &change.refused {
            state.refused.insert(workload, refused.clone());
        }
    }
    let blocked = answer.blocked.iter();
    state.blocked =
        blocked.map(|it| Blocked { node: it.node.clone(), pod: it.pod.clone(), why: it.why.clone() }).collect();
    state
}

/// What is compared: without names that are drawn by lot, and without what is nothing.
fn compared(mut state: State, other: &State) -> State {
    state.nodes.retain(|_, count| *count > 0);
    for (name, pods) in &mut state.workloads {
        // DaemonSets follow their nodes, and answers do not speak of that.
        if name.starts_with("DaemonSet ") {
            pods.placed.clear();
        }
        pods.placed.retain(|_, count| *count != 0);
    }
    state.workloads.retain(|_, pods| *pods != Pods::default());
    let is_refused = |workload: &String| other.refused.contains_key(workload);
    state.refused.retain(|workload, _| is_refused(workload));
    for why in state.refused.values_mut() {
        *why = why
            .rsplit("is forbidden: ")
            .next()
            .and_then(|why| why.rsplit("is invalid: ").next())
            .unwrap_or_default()
            .to_owned();
    }
    state.blocked = state
        .blocked
        .into_iter()
        .map(|it| {
            // Of pods of a ReplicaSet the last part of the name is drawn by lot.
            let pod = it.pod.rsplit_once('-').map_or(it.pod.clone(), |(set, _)| set.to_owned());
            Blocked { node: String::new(), pod, why: it.why }
        })
        .collect();
    state
}

/// The differences, one a line.
fn differences(real: &State, foretold: &State) -> Vec<String> {
    let mut lines = Vec::new();
    if real.nodes != foretold.nodes {
        lines.push(format!("nodes: {:?}, foretold {:?}", real.nodes, foretold.nodes));
    }
    let all: BTreeSet<&String> = real.workloads.keys().chain(foretold.workloads.keys()).collect();
    for workload in all {
        let of = |state: &State| state.workloads.get(workload).cloned().unwrap_or_default();
        let (real, foretold) = (of(real), of(foretold));
        if real.placed != foretold.placed {
            lines.push(format!("{workload}: placed {:?}, foretold {:?}", real.placed, foretold.placed));
        }
        if real.waiting != foretold.waiting {
            lines.push(format!("{workload}: waiting {:?}, foretold {:?}", real.waiting, foretold.waiting));
        }
    }
    if real.refused != foretold.refused {
        lines.push(format!("refused: {:?}, foretold {:?}", real.refused, foretold.refused));
    }
    if real.blocked != foretold.blocked {
        lines.push(format!("blocked: {:?}, foretold {:?}", real.blocked, foretold.blocked));
    }
    lines
}

/// How foretold clusters are like the real one.
#[derive(Debug)]
enum Outcome {
    /// The copy of this seed does just what the cluster did.
    Seed(u64),
    /// None of this number of copies does, but copies differ, and the cluster is among them.
    Among(usize),
    /// Something else.
    Other(Vec<String>),
}

impl Outcome {
    fn json(&self) -> Value {
        match self {
            Self::Seed(seed) => json!(seed),
            Self::Among(copies) => json!(format!("among {copies}")),
            Self::Other(_) => json!("other"),
        }
    }
}

fn outcome(step: &Step, capture: &Capture, seeds: Range<u64>) -> Outcome {
    let changes = changes(step);
    let mut states: Vec<(State, State)> = Vec::new();
    let mut outside_of_all = Vec::new();
    for seed in seeds.clone() {
        let answer = what_if_of(capture, &changes, seed..seed + 1).unwrap();
        let after = foretold(&step.before, &answer);
        let pair = (compared(step.after.clone(), &after), compared(after, &step.after));
        if pair.0 == pair.1 {
            return Outcome::Seed(seed);
        }
        states.push(pair);
        let copies = states.len();
        if seed + 1 < seeds.end && !(copies >= COPIES_ASKED && copies.is_power_of_two()) {
            continue;
        }
        let foretold: Vec<&State> = states.iter().map(|(_, foretold)| foretold).collect();
        outside_of_all = outside(&states[0].0, &foretold);
        // Where all copies of an answer agree about the pods, klab is sure of them.
        if !outside_of_all.is_empty() && what_if(capture, &changes).unwrap().agreeing == COPIES {
            break;
        }
        outside_of_all.extend(other_messages(&states[0].0, &foretold));
        if outside_of_all.is_empty() {
            return Outcome::Among(copies);
        }
    }
    let heading = |text: &str| vec![text.to_owned()];
    let first = differences(&states[0].0, &states[0].1);
    Outcome::Other([heading("the first copy:"), first, heading("outside of all copies:"), outside_of_all].concat())
}

/// What of a cluster is outside of what several copies do.
fn outside(real: &State, foretold: &[&State]) -> Vec<String> {
    let mut lines = Vec::new();
    if foretold.iter().all(|state| state.nodes != real.nodes) {
        lines.push(format!("nodes {:?}", real.nodes));
    }
    let none = Pods::default();
    let of = |state: &'_ State, workload: &str| state.workloads.get(workload).cloned().unwrap_or_default();
    let all: BTreeSet<&String> =
        foretold.iter().flat_map(|state| state.workloads.keys()).chain(real.workloads.keys()).collect();
    for workload in all {
        let was = real.workloads.get(workload).unwrap_or(&none);
        let copies: Vec<Pods> = foretold.iter().map(|state| of(state, workload)).collect();
        let is_within = |count: &dyn Fn(&Pods) -> i64| {
            let counts = || copies.iter().map(count);
            (counts().min().unwrap()..=counts().max().unwrap()).contains(&count(was))
        };
        let pools: BTreeSet<&String> = copies.iter().chain([was]).flat_map(|pods| pods.placed.keys()).collect();
        let waiting = |pods: &Pods| i64::try_from(pods.waiting.values().sum::<usize>()).unwrap();
        let placed = pools.iter().all(|pool| is_within(&|pods| pods.placed.get(*pool).copied().unwrap_or_default()));
        if !placed || !is_within(&waiting) {
            lines.push(format!("{workload}: {was:?}"));
        }
    }
    let quota = |why: &String| why.split_once(", used: ").map_or(why.clone(), |(quota, _)| quota.to_owned());
    for (workload, why) in &real.refused {
        let known: BTreeSet<String> =
            foretold.iter().filter_map(|state| state.refused.get(workload)).map(quota).collect();
        if !known.contains(&quota(why)) {
            lines.push(format!("{workload}: refused {why}, foretold {known:?}"));
        }
    }
    let blocked: BTreeSet<&Blocked> = foretold.iter().flat_map(|state| &state.blocked).collect();
    lines.extend(real.blocked.iter().filter(|it| !blocked.contains(it)).map(|it| format!("blocked {it:?}")));
    lines
}

/// What of the messages of pods that wait is outside of what several copies say: reasons, and at how many nodes each holds.
fn other_messages(real: &State, foretold: &[&State]) -> Vec<String> {
    let mut lines = Vec::new();
    for (workload, was) in &real.workloads {
        let copies = foretold.iter().filter_map(|state| state.workloads.get(workload));
        let known: Vec<BTreeMap<String, i64>> =
            copies.flat_map(|pods| pods.waiting.keys()).map(|message| numbers(message)).collect();
        let is_other = |reason: &str, number: i64| {
            let counts = || known.iter().map(|numbers| numbers.get(reason).copied().unwrap_or_default());
            !(counts().min().unwrap_or(number)..=counts().max().unwrap_or(number)).contains(&number)
        };
        for message in was.waiting.keys() {
            let numbers = numbers(message);
            let reasons: BTreeSet<&String> = known.iter().flat_map(BTreeMap::keys).chain(numbers.keys()).collect();
            let number = |reason: &String| numbers.get(reason).copied().unwrap_or_default();
            let other: Vec<&String> = reasons.into_iter().filter(|reason| is_other(reason, number(reason))).collect();
            if !other.is_empty() {
                lines.push(format!("{workload}: {other:?} of {message}"));
            }
        }
    }
    lines
}

/// The numbers of nodes in a message by reason, those of preemption on their own.
fn numbers(message: &str) -> BTreeMap<String, i64> {
    let mut numbers = BTreeMap::new();
    for (part, sentence) in message.split(". ").enumerate() {
        for reason in sentence.rsplit(": ").next().unwrap_or_default().trim_end_matches('.').split(", ") {
            let (number, text) = reason.split_once(' ').unwrap_or((reason, ""));
            let (number, text) = number.parse().map_or((1, reason), |number| (number, text));
            numbers.insert(format!("{part} {text}"), number);
        }
    }
    numbers
}

fn steps(file: &Path) -> Vec<(Step, Capture)> {
    let mut text = String::new();
    flate2::read::GzDecoder::new(std::fs::File::open(file).unwrap()).read_to_string(&mut text).unwrap();
    let mut lines: Vec<String> = Vec::new();
    let mut steps = Vec::new();
    for line in text.lines() {
        let step: Step = serde_json::from_str(line).unwrap();
        let kept = lines.into_iter().enumerate().filter(|(number, _)| !step.gone.contains(number));
        lines = kept.map(|(_, line)| line).chain(step.new.iter().cloned()).collect();
        let capture = Capture::read(&lines.join("\n")).unwrap();
        steps.push((step, capture));
    }
    steps
}

fn folder() -> PathBuf {
    let own = || Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/real");
    std::env::var("KLAB_REAL_FOLDER").map_or_else(|_| own(), PathBuf::from)
}

fn recordings() -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "gz"));
    files.sort();
    files
}

/// How many copies are asked, and how many at most where those of an answer do not agree.
const COPIES_ASKED: usize = 16;
const MOST_COPIES: u64 = 128;
/// The test replays one recording in this many, unless `KLAB_REAL` asks for all.
const OF_RECORDINGS: usize = 4;

/// What became of each change, by `cluster/step`: the first seed whose copy does just what the cluster did, `among` a number of copies,
/// `other` and why, or why it is left out.
fn outcomes() -> BTreeMap<String, Value> {
    let text = std::fs::read_to_string(folder().join("outcomes.json")).unwrap_or_else(|_| "{}".to_owned());
    serde_json::from_str(&text).unwrap()
}

#[test]
fn a_real_cluster_does_what_the_answer_says() {
    let known = outcomes();
    let is_all = std::env::var("KLAB_REAL").is_ok();
    let mut lines = Vec::new();
    for file in recordings().iter().step_by(if is_all { 1 } else { OF_RECORDINGS }) {
        for (step, capture) in steps(file) {
            let name = format!("{}/{}", step.seed, step.step);
            let Some(known) = known.get(&name) else { continue };
            let among = known.as_str().and_then(|known| known.strip_prefix("among ")?.parse().ok());
            let seeds =
                known.as_u64().map(|seed| seed..seed + 1).or(among.filter(|_| is_all).map(|copies: u64| 0..copies));
            if let Some(outcome) = seeds.map(|seeds| outcome(&step, &capture, seeds)).filter(|it| it.json() != *known) {
                lines.push(format!("{name} {:?}\n    {outcome:?}", step.options));
            }
        }
    }
    assert!(lines.is_empty(), "{}", lines.join("\n"));
}

#[test]
fn emptied_copies_of_real_clusters_have_the_same_pods_waiting() {
    for file in recordings() {
        let (step, capture) = steps(&file).remove(0);
        let agreement = agreement(&capture).unwrap();
        assert!(agreement.holds(), "{}/{}: {}", step.seed, step.step, agreement.json());
    }
}

/// Asks many copies about every change, and writes down what came of it: `KLAB_REAL=bless`, of one cluster or change `KLAB_REAL=3` or
/// `KLAB_REAL=3/14,4/2`, with as many copies as `KLAB_COPIES` says.
#[test]
fn every_change_to_a_real_cluster_has_its_outcome() {
    let mut known = outcomes();
    let all: Vec<(Step, Capture)> = recordings().iter().flat_map(|file| steps(file)).collect();
    let mode = std::env::var("KLAB_REAL").unwrap_or_default();
    let is_meant = |name: &str| {
        mode == "bless" || mode.split(',').any(|part| part == name || name.split('/').next() == Some(part))
    };
    let copies = std::env::var("KLAB_COPIES").ok().and_then(|copies| copies.parse().ok()).unwrap_or(MOST_COPIES);
    for (step, capture) in &all {
        let name = format!("{}/{}", step.seed, step.step);
        let is_left_out = known.get(&name).and_then(Value::as_str).is_some_and(|known| known.starts_with("left out"));
        if is_meant(&name) && !is_left_out {
            let outcome = outcome(step, capture, 0..copies);
            println!("{name} {}", outcome.json());
            if let Outcome::Other(other) = &outcome {
                println!("{:?}\n    {}", step.options, other.join("\n    "));
            }
            let is_known = known.get(&name).and_then(Value::as_str).is_some_and(|text| text.starts_with("other"));
            if !(is_known && matches!(outcome, Outcome::Other(_))) {
                known.insert(name, outcome.json());
            }
        }
    }
    if known != outcomes() {
        let text = serde_json::to_string_pretty(&known).unwrap().replace("\n  ", "\n") + "\n";
        std::fs::write(folder().join("outcomes.json"), text).unwrap();
    }
    assert_eq!(all.len(), known.len(), "each change has one");
}
