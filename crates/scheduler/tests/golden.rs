//! The scheduler against scenarios recorded from kube-scheduler v1.36.2: every field of every attempt must be equal.
//!
//! `KLAB_GOLDEN_SCHEDULER=<dir>` reads `*.jsonl` and `*.jsonl.gz` files of the same format from another directory.

#![expect(clippy::unwrap_used, reason = "a scenario that cannot be read is a failed test")]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Read, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, Pod, PodCondition};
use k8s_openapi::api::node::v1::RuntimeClass;
use k8s_openapi::api::scheduling::v1::PriorityClass;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use klab_scheduler::{
    Attempt, Cluster, Outcome, PodResources, Preemption, Profiles, Rejection, TieBreak, admission, pod_requests,
};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

/// Differences listed at most.
const LISTED: usize = 20;

/// What a pod gets from its RuntimeClass: overhead, node selector and tolerations.
fn apply_runtime_class(pod: &mut Pod, class: &RuntimeClass) {
    let Some(spec) = pod.spec.as_mut() else { return };
    if let Some(overhead) = class.overhead.as_ref().and_then(|overhead| overhead.pod_fixed.clone()) {
        spec.overhead = Some(overhead);
    }
    let Some(scheduling) = class.scheduling.as_ref() else { return };
    if let Some(selector) = scheduling.node_selector.as_ref() {
        spec.node_selector.get_or_insert_with(BTreeMap::new).extend(selector.clone());
    }
    for toleration in scheduling.tolerations.iter().flatten() {
        let tolerations = spec.tolerations.get_or_insert_with(Vec::new);
        if !tolerations.contains(toleration) {
            tolerations.push(toleration.clone());
        }
    }
}

#[test]
fn golden_scheduler() {
    let directory = std::env::var_os("KLAB_GOLDEN_SCHEDULER").map_or_else(|| golden(""), PathBuf::from);
    replay(&directory);
}

/// Each of these scenarios has the configuration that the scheduler was started with. What it leaves to chance was settled: the
/// search for candidates of preemption starts at the first name, and where no plugin scores, every node that passes is kept.
#[test]
fn golden_configured_scheduler() {
    replay(&golden("configured"));
}

fn golden(folder: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(folder)
}

fn replay(directory: &Path) {
    let mut report = Report::default();
    for file in files(directory) {
        for line in lines(&file) {
            let scenario: Value = serde_json::from_str(&line).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
            report.scenarios += 1;
            run(&scenario, &mut report);
        }
    }
    let summary = format!("scenarios {}, pods {}, differences {}\n", report.scenarios, report.pods, report.differences);
    // Past the capture of the test harness: the figures are wanted also when all is well.
    std::io::stdout().write_all(format!("{}{summary}", report.listing).as_bytes()).unwrap();
    assert!(report.scenarios > 0, "no scenario found in {}", directory.display());
    assert_eq!(report.differences, 0, "differences from kube-scheduler\n{}", report.listing);
}

fn files(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).unwrap_or_else(|e| panic!("{}: {e}", directory.display()));
    let mut files: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| {
        let name = path.to_string_lossy();
        name.ends_with(".jsonl") || name.ends_with(".jsonl.gz")
    });
    files.sort();
    files
}

fn lines(path: &Path) -> impl Iterator<Item = String> {
    let file = std::fs::File::open(path).unwrap();
    let reader: Box<dyn Read> = if path.extension().is_some_and(|extension| extension == "gz") {
        Box::new(flate2::read::MultiGzDecoder::new(file))
    } else {
        Box::new(file)
    };
    BufReader::new(reader).lines().map(Result::unwrap).filter(|line| !line.trim().is_empty())
}

#[derive(Default)]
struct Report {
    scenarios: usize,
    pods: usize,
    differences: usize,
    listing: String,
}

impl Report {
    fn compare(&mut self, place: &str, field: &str, expected: &Value, actual: &Value) {
        if expected == actual {
            return;
        }
        self.differences += 1;
        if self.differences <= LISTED {
            let _ = writeln!(self.listing, "{place}: {field}\n  expected {expected}\n  actual   {actual}");
        }
    }
}

fn read<T: DeserializeOwned>(value: &Value) -> T {
    serde_json::from_value(value.clone()).unwrap_or_else(|e| panic!("{e}: {value}"))
}

fn list<'a>(scenario: &'a Value, field: &str) -> impl Iterator<Item = &'a Value> {
    scenario[field].as_array().into_iter().flatten()
}

fn time(start: &str, seconds: usize) -> Time {
    let start: Timestamp = start.parse().unwrap();
    Time(start + SignedDuration::from_secs(seconds as i64))
}

/// The API server's part of a scenario: its objects, by name.
struct Lab<'a> {
    scenario: &'a Value,
    cluster: Cluster,
    nodes: BTreeMap<String, Node>,
    pods: BTreeMap<String, Pod>,
}

fn key(pod: &Pod) -> String {
    let namespace = pod.metadata.namespace.as_deref().unwrap_or("default");
    format!("{namespace}/{}", pod.metadata.name.as_deref().unwrap_or_default())
}

impl<'a> Lab<'a> {
    fn new(scenario: &'a Value) -> Self {
        let mut cluster = Cluster::new(TieBreak::FirstName);
        if let Some(configuration) = scenario.get("configuration") {
            let profiles = Profiles::from_configuration(configuration);
            cluster.set_profiles(Arc::new(profiles.unwrap_or_else(|error| panic!("{}: {error}", scenario["id"]))));
        }
        list(scenario, "namespaces").for_each(|object| cluster.set_namespace(&read(object)));
        list(scenario, "services").for_each(|object| cluster.set_service(&read(object)));
        list(scenario, "replicaSets").for_each(|object| cluster.set_replica_set(&read(object)).unwrap());
        list(scenario, "statefulSets").for_each(|object| cluster.set_stateful_set(&read(object)).unwrap());
        list(scenario, "replicationControllers").for_each(|object| cluster.set_replication_controller(&read(object)));
        list(scenario, "pdbs").for_each(|object| cluster.set_disruption_budget(&read(object)).unwrap());
        let mut lab = Self { scenario, cluster, nodes: BTreeMap::new(), pods: BTreeMap::new() };
        for node in list(scenario, "nodes") {
            lab.set_node(node);
        }
        for (index, pod) in list(scenario, "pods").enumerate() {
            let mut pod = lab.admit(pod);
            let status = pod.status.get_or_insert_default();
            status.start_time.get_or_insert_with(|| time("2026-01-01T00:00:00Z", index));
            lab.store(pod);
        }
        lab
    }

    fn admit(&self, pod: &Value) -> Pod {
        let mut pod: Pod = read(pod);
        let spec = pod.spec.clone().unwrap();
        let named = |field: &str, name: Option<&String>| {
            list(self.scenario, field).find(|class| name.is_some_and(|name| class["metadata"]["name"] == **name))
        };
        if let Some(class) = named("runtimeClasses", spec.runtime_class_name.as_ref()) {
            apply_runtime_class(&mut pod, &read::<RuntimeClass>(class));
        }
        if let Some(class) = named("priorityClasses", spec.priority_class_name.as_ref()) {
            admission::apply_priority_class(&mut pod, &read::<PriorityClass>(class));
        }
        admission::admit(&mut pod).unwrap();
        pod
    }

    fn store(&mut self, pod: Pod) {
        self.cluster.set_pod(&pod).unwrap();
        self.pods.insert(key(&pod), pod);
    }

    fn remove(&mut self, key: &str) {
        let (namespace, name) = key.split_once('/').unwrap();
        self.cluster.remove_pod(namespace, name);
        self.pods.remove(key);
    }

    fn remove_node(&mut self, node: &str) {
        let on_node = |pod: &Pod| pod.spec.as_ref().is_some_and(|spec| spec.node_name.as_deref() == Some(node));
        let gone: Vec<_> = self.pods.iter().filter(|(_, pod)| on_node(pod)).map(|(key, _)| key.clone()).collect();
        for key in gone {
            self.remove(&key);
        }
        assert!(self.cluster.remove_node(node).is_some(), "no node {node}");
        self.nodes.remove(node);
    }

    /// Adds a node, or replaces an existing one's labels, taints, cordon and allocatable; its images stay.
    fn set_node(&mut self, node: &Value) {
        let mut node: Node = read(node);
        let name = node.metadata.name.clone().unwrap();
        if let Some(old) = self.nodes.get(&name) {
            let images = old.status.as_ref().and_then(|status| status.images.clone());
            node.status.get_or_insert_default().images = images;
        }
        self.cluster.set_node(&node).unwrap();
        self.nodes.insert(name, node);
    }

    fn bind(&mut self, key: &str, node: &str, number: usize) {
        let mut pod = self.pods[key].clone();
        pod.spec.as_mut().unwrap().node_name = Some(node.to_owned());
        let status = pod.status.get_or_insert_default();
        status.start_time = Some(time("2026-06-01T00:00:00Z", number));
        status.nominated_node_name = None;
        self.store(pod);
    }

    fn nominate(&mut self, key: &str, node: Option<&str>) {
        let mut pod = self.pods[key].clone();
        pod.status.get_or_insert_default().nominated_node_name = node.map(str::to_owned);
        self.store(pod);
    }

    /// Marks a victim as on its way out.
    fn terminate(&mut self, key: &str) {
        let mut pod = self.pods[key].clone();
        pod.metadata.deletion_timestamp.get_or_insert_with(|| time("2026-06-01T00:00:00Z", 0));
        pod.status.get_or_insert_default().conditions.get_or_insert_default().push(PodCondition {
            type_: "DisruptionTarget".to_owned(),
            status: "True".to_owned(),
            reason: Some("PreemptionByScheduler".to_owned()),
            ..PodCondition::default()
        });
        self.store(pod);
    }

    /// Carries out what an attempt decided and returns the node the pod is on now.
    fn perform(&mut self, key: &str, outcome: &Outcome, number: usize) -> Option<String> {
        match outcome {
            Outcome::Scheduled { node } | Outcome::Bound { node } => {
                self.bind(key, node, number);
                Some(node.to_string())
            }
            Outcome::Preempting(preemption) => {
                for other in &preemption.withdrawn_nominations {
                    self.nominate(&other.to_string(), None);
                }
                let stay = self.scenario["victims"] == "terminating";
                for victim in &preemption.victims {
                    if stay { self.terminate(&victim.to_string()) } else { self.remove(&victim.to_string()) }
                }
                if stay {
                    self.nominate(key, Some(&preemption.nominated));
                    return None;
                }
                self.bind(key, &preemption.nominated, number);
                Some(preemption.nominated.to_string())
            }
            Outcome::Unschedulable { withdraw_nomination: true } => {
                self.nominate(key, None);
                None
            }
            _ => None,
        }
    }
}

fn run(scenario: &Value, report: &mut Report) {
    let mut lab = Lab::new(scenario);
    let expected: Vec<&Value> = list(scenario, "expect").collect();
    let mut number = 0;
    for step in list(scenario, "pending") {
        let mut attempts = Vec::new();
        if let Some(pod) = step.get("pod") {
            let pod = lab.admit(pod);
            match step["repeat"].as_u64() {
                None => attempts.push(key(&pod)),
                Some(copies) => {
                    for copy in 0..copies {
                        let mut pod = pod.clone();
                        pod.metadata.name = Some(format!("{}-{copy}", pod.metadata.name.unwrap_or_default()));
                        attempts.push(key(&pod));
                        lab.pods.insert(key(&pod), pod);
                    }
                }
            }
            lab.pods.entry(key(&pod)).or_insert(pod);
        } else if let Some(pod) = step["retry"].as_str() {
            attempts.push(pod.to_owned());
        } else if let Some(node) = step["deleteNode"].as_str() {
            lab.remove_node(node);
        } else if let Some(node) = step.get("addNode").or_else(|| step.get("updateNode")) {
            lab.set_node(node);
        } else if let Some(pod) = step["deletePod"].as_str() {
            lab.remove(pod);
        } else {
            panic!("unknown step {step}");
        }
        for pod in attempts {
            number += 1;
            let place = format!("{} #{number} {pod}", scenario["id"].as_str().unwrap_or("?"));
            let Some(expected) = expected.get(number - 1) else {
                report.compare(&place, "attempt", &Value::Null, &json!(pod));
                return;
            };
            try_pod(&mut lab, &pod, number, expected, &place, report);
        }
    }
    let id = scenario["id"].as_str().unwrap_or("?");
    report.compare(id, "number of attempts", &json!(expected.len()), &json!(number));
}

fn try_pod(lab: &mut Lab<'_>, pod: &str, number: usize, expected: &Value, place: &str, report: &mut Report) {
    report.pods += 1;
    let object = lab.pods[pod].clone();
    let attempt = lab.cluster.attempt(&object).unwrap();
    let brief = lab.cluster.schedule(&object).unwrap();
    if brief != attempt.decision {
        report.compare(place, "fast path", &json!(format!("{:?}", attempt.decision)), &json!(format!("{brief:?}")));
    }
    let detail = expected.get("nonZero").is_some();
    let mut actual = describe(&attempt, detail);
    actual.insert("pod".to_owned(), json!(pod));
    if detail {
        requests(&object, &mut actual);
        agree_with_evaluation(lab, &object, &attempt, place, report);
    }
    let node = lab.perform(pod, &attempt.decision.outcome, number);
    if let Some(node) = node {
        actual.insert("node".to_owned(), json!(node));
    }
    let mut fields: Vec<_> = expected.as_object().unwrap().keys().chain(actual.keys()).collect();
    fields.sort();
    fields.dedup();
    for field in fields {
        let actual = actual.get(field).unwrap_or(&Value::Null);
        report.compare(place, field, &expected[field], actual);
    }
}

/// `requests` and `nonZero`.
fn requests(pod: &Pod, entry: &mut Map<String, Value>) {
    let requests: Map<String, Value> = pod_requests(pod)
        .unwrap()
        .into_iter()
        .map(|(name, amount)| {
            let base = amount.base_units(&name);
            (name, json!(base))
        })
        .collect();
    if !requests.is_empty() {
        entry.insert("requests".to_owned(), Value::Object(requests));
    }
    let placed = PodResources::of(pod).unwrap().placed;
    entry.insert("nonZero".to_owned(), json!([placed.cpu, placed.memory]));
}

/// Every reason of an attempt is among all reasons of the node, and feasible nodes have none.
fn agree_with_evaluation(lab: &mut Lab<'_>, pod: &Pod, attempt: &Attempt, place: &str, report: &mut Report) {
    if attempt.nodes.len() < 2 {
        return;
    }
    let all = lab.cluster.evaluate_all(pod).unwrap();
    for verdict in &attempt.nodes {
        let reasons = &all[&verdict.node];
        let given = verdict.rejection.as_ref().map_or(&[][..], |rejection| &rejection.reasons);
        let agree = given.is_empty() == reasons.is_empty() && given.iter().all(|reason| reasons.contains(reason));
        if !agree {
            let field = format!("evaluation of {}", verdict.node);
            report.compare(place, &field, &json!(format!("{given:?}")), &json!(format!("{reasons:?}")));
        }
    }
}

/// An attempt in the form of the golden data.
fn describe(attempt: &Attempt, detail: bool) -> Map<String, Value> {
    let mut entry = Map::new();
    let mut set = |field: &str, value: Value| {
        entry.insert(field.to_owned(), value);
    };
    let outcome = match &attempt.decision.outcome {
        Outcome::Scheduled { .. } => "scheduled",
        Outcome::Unschedulable { .. } => "unschedulable",
        Outcome::Preempting(_) => "preempting",
        Outcome::Bound { .. } => "bound",
        Outcome::Gated { .. } => "gated",
        Outcome::Ignored { .. } => "ignored",
        Outcome::AwaitingClaims => "awaiting claims",
        Outcome::Failed => "failed",
    };
    set("outcome", json!(outcome));
    if !attempt.decision.message.is_empty() {
        set("message", json!(attempt.decision.message));
    }
    if let Outcome::Preempting(preemption) = &attempt.decision.outcome {
        set("preemption", describe_preemption(preemption));
    }
    if let Some((plugin, reasons)) = &attempt.pre_filter {
        let texts: Vec<_> = reasons.iter().map(ToString::to_string).collect();
        let code = reasons.iter().map(klab_scheduler::Reason::code).max().map(klab_scheduler::Code::as_str);
        set("preFilter", json!({"plugin": plugin.as_str(), "code": code, "reasons": texts}));
    }
    if !attempt.top.is_empty() {
        set("top", json!(names(&attempt.top)));
    }
    if let Some(table) = &attempt.scores {
        set("topScore", json!(table.rows.iter().map(|row| row.total).max()));
    }
    if !detail {
        return entry;
    }
    let feasible: Vec<_> = attempt.feasible().map(ToString::to_string).collect();
    if !feasible.is_empty() {
        set("feasible", json!(feasible));
    }
    let mut groups: Vec<(Value, Vec<String>)> = Vec::new();
    for (node, rejection) in attempt.nodes.iter().filter_map(|n| Some((n.node.to_string(), n.rejection.as_ref()?))) {
        let group = describe_rejection(rejection);
        match groups.iter_mut().find(|(have, _)| *have == group) {
            Some((_, nodes)) => nodes.push(node),
            None => groups.push((group, vec![node])),
        }
    }
    if !groups.is_empty() {
        let groups: Vec<_> = groups
            .into_iter()
            .map(|(mut group, nodes)| {
                group["nodes"] = json!(nodes);
                group
            })
            .collect();
        set("rejected", json!(groups));
    }
    if let Some(table) = &attempt.scores {
        let shown: Vec<usize> = (0..table.plugins.len())
            .filter(|&p| table.rows.iter().any(|row| row.scores[p].raw != 0 || row.scores[p].normalized != 0))
            .collect();
        let plugins: Vec<_> = shown.iter().map(|&p| table.plugins[p].0.as_str()).collect();
        let nodes: Map<String, Value> = table
            .rows
            .iter()
            .map(|row| {
                let p: Vec<_> = shown
                    .iter()
                    .map(|&p| [row.scores[p].raw, row.scores[p].normalized, row.scores[p].weighted])
                    .collect();
                (row.node.to_string(), json!({"total": row.total, "p": p}))
            })
            .collect();
        set("scores", json!({"plugins": plugins, "nodes": nodes}));
    }
    entry
}

fn names(names: &[std::sync::Arc<str>]) -> Vec<&str> {
    names.iter().map(AsRef::as_ref).collect()
}

fn describe_rejection(rejection: &Rejection) -> Value {
    let mut reasons: Vec<_> = rejection.reasons.iter().map(ToString::to_string).collect();
    reasons.sort();
    let plugin = rejection.plugin.map_or("", klab_scheduler::PluginName::as_str);
    json!({"plugin": plugin, "code": rejection.code.as_str(), "reasons": reasons})
}

fn describe_preemption(preemption: &Preemption) -> Value {
    let pods = |pods: &[klab_scheduler::PodKey]| pods.iter().map(ToString::to_string).collect::<Vec<_>>();
    let candidates: Vec<_> = preemption
        .candidates
        .iter()
        .map(|candidate| {
            let mut entry = json!({"node": *candidate.node, "pdbViolations": candidate.pdb_violations});
            if !candidate.victims.is_empty() {
                entry["victims"] = json!(pods(&candidate.victims));
            }
            entry
        })
        .collect();
    let mut entry =
        json!({"candidates": candidates, "best": names(&preemption.best), "nominated": *preemption.nominated});
    if !preemption.victims.is_empty() {
        entry["victims"] = json!(pods(&preemption.victims));
    }
    entry
}
