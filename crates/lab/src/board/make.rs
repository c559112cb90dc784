//! A board from a snapshot, a lab and a report.

use std::collections::{BTreeMap, BTreeSet};

use klab_scheduler::message::without_preemption;
use klab_scheduler::taint::Taint;
use klab_scheduler::{Cluster, PodResources, TieBreak};

use super::labels::used;
use super::legend::{COLOURS, letter};
use super::model::{
    Amounts, Board, Check, MissingPods, Node, PendingGroup, Pod, Pool, SCHEMA, Spot, Step, StepState, Usage, Workload,
    Zone,
};
use crate::code::Code;
use crate::membership::{is_spot, zone_of};
use crate::names::{HOST_LABEL, MODE_LABEL, SIZE_LABEL, is_system_namespace};
use crate::spec::{Lab, Subject};
use crate::verify::{
    Context, Places, PodLocation, PodState, PodView, Report, Snapshot, View, cluster, is_cordoned, is_ready, places,
    unmade, workload_of,
};

/// How far a lesson has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lesson {
    /// How many steps are done.
    pub done: usize,
    /// Whether the learner has been shown the next one.
    pub opened: bool,
}

impl Board {
    /// The board of a snapshot. The lab of the context, if there is one, is as it is at this stage; the report is of its
    /// checks on this snapshot.
    pub fn of(snapshot: &Snapshot, context: &Context<'_>, report: &Report, lesson: Lesson) -> Self {
        let view = View::new(snapshot, context);
        let lab = context.lab;
        let (workloads, of_pod) = workloads(&view, lab);
        let nodes = nodes(&view, lab);
        let pods: Vec<Pod> = view.pods.iter().zip(of_pod).map(|(pod, workload)| self::pod(pod, workload)).collect();
        let mut zones: BTreeMap<&str, usize> = BTreeMap::new();
        for zone in nodes.iter().filter_map(|node| node.zone.as_deref()) {
            *zones.entry(zone).or_default() += 1;
        }
        let zones = zones.into_iter().map(|(name, nodes)| Zone { name: name.to_owned(), nodes }).collect();
        Self {
            schema: SCHEMA,
            lab: lab.map(|lab| lab.name.value.clone()),
            title: lab.and_then(|lab| lab.title.clone()),
            taken_at: snapshot.taken_at.map(|time| time.to_string()),
            pools: pools(&view, &nodes, lab),
            zones,
            workloads,
            pending: pending(&view),
            checks: checks(&view, lab, report),
            steps: steps(lab, lesson),
            moves: Vec::new(),
            nodes,
            pods,
        }
    }
}

/// The id of a workload of the lab.
fn id(namespace: &str, name: &str) -> String {
    format!("{namespace}/{name}")
}

/// The workloads, and for each pod the id of its own.
fn workloads(view: &View<'_>, lab: Option<&Lab>) -> (Vec<Workload>, Vec<String>) {
    let of_lab = lab.into_iter().flat_map(|lab| &lab.workloads);
    let mut workloads: Vec<Workload> = of_lab
        .enumerate()
        .map(|(number, workload)| Workload {
            id: id(&workload.namespace, &workload.name),
            name: workload.name.value.clone(),
            letter: Some(letter(number)),
            colour: Some((number % COLOURS) as u8),
            in_lab: true,
        })
        .collect();
    let mut others: BTreeMap<String, (String, bool)> = BTreeMap::new();
    let of_pod = view.pods.iter().map(|pod| {
        if let Some(workload) = workload_of(view, pod) {
            return id(&workload.namespace, &workload.name);
        }
        let (kind, name) = match pod.owner.name() {
            "" => ("pod".to_owned(), pod.name),
            name => (pod.owner.kind().to_lowercase(), name),
        };
        let id = format!("{}/{kind}/{name}", pod.namespace);
        others.insert(id.clone(), (name.to_owned(), is_system_namespace(pod.namespace)));
        id
    });
    let of_pod = of_pod.collect();
    let mut number = workloads.len();
    for (id, (name, is_system)) in others {
        let own = (!is_system).then_some(number);
        number = number.saturating_add(usize::from(!is_system));
        let colour = own.map(|own| (own % COLOURS) as u8);
        workloads.push(Workload { id, name, letter: own.map(letter), colour, in_lab: false });
    }
    (workloads, of_pod)
}

/// The place of a pool in the order of the lab; those it does not know come after, nodes without a pool last.
fn rank<'p>(lab: Option<&Lab>, pool: Option<&'p str>) -> (usize, bool, Option<&'p str>) {
    let known = lab.and_then(|lab| lab.pools.iter().position(|one| Some(one.name.value.as_str()) == pool));
    (known.unwrap_or(usize::MAX), pool.is_none(), pool)
}

fn nodes(view: &View<'_>, lab: Option<&Lab>) -> Vec<Node> {
    let cluster = cluster(view, TieBreak::default());
    let keys = used(view.snapshot, lab);
    let mut nodes: Vec<Node> =
        view.nodes.iter().map(|(name, node)| self::node(view, &cluster, &keys, name, node)).collect();
    nodes.sort_by(|one, two| {
        let key = |node: &'_ Node| (rank(lab, node.pool.as_deref()).0, node.pool.is_none());
        (key(one), &one.pool, &one.name).cmp(&(key(two), &two.pool, &two.name))
    });
    nodes
}

fn node(
    view: &View<'_>,
    cluster: &Cluster,
    keys: &BTreeSet<String>,
    name: &str,
    node: &k8s_openapi::api::core::v1::Node,
) -> Node {
    let taints = node.spec.as_ref().and_then(|spec| spec.taints.as_ref()).into_iter().flatten();
    let labels = node.metadata.labels.iter().flatten();
    // The host's name says nothing beside the node's.
    let labels = labels.filter(|(key, value)| keys.contains(*key) && !(*key == HOST_LABEL && *value == name));
    let usage = cluster.usage(name);
    let requested = usage.as_ref().map(|usage| Usage {
        cpu_milli: usage.requested.cpu,
        memory_bytes: usage.requested.memory,
        pods: usage.pods,
    });
    let allocatable = usage.as_ref().map(|usage| Usage {
        cpu_milli: usage.allocatable.cpu,
        memory_bytes: usage.allocatable.memory,
        pods: usage.allowed_pods,
    });
    Node {
        name: name.to_owned(),
        pool: view.pool_of(name).map(str::to_owned),
        zone: zone_of(node).map(str::to_owned),
        taints: taints.map(|taint| Taint::from(taint).to_string()).collect(),
        labels: labels.map(|(key, value)| format!("{key}={value}")).collect(),
        requested: requested.unwrap_or_default(),
        allocatable: allocatable.unwrap_or_default(),
        cordoned: is_cordoned(node),
        ready: is_ready(node),
        spot: is_spot(node),
    }
}

fn pools(view: &View<'_>, nodes: &[Node], lab: Option<&Lab>) -> Vec<Pool> {
    let there = lab.into_iter().flat_map(|lab| &lab.pools).filter(|pool| !pool.deferred);
    let mut names: BTreeSet<_> = there.map(|pool| pool.name.as_str()).collect();
    names.extend(nodes.iter().filter_map(|node| node.pool.as_deref()));
    let mut names: Vec<&str> = names.into_iter().collect();
    names.sort_by_key(|name| rank(lab, Some(name)));
    let pool = |name: &str| {
        let own = || nodes.iter().filter(|node| node.pool.as_deref() == Some(name));
        let first = own().next().and_then(|node| view.nodes.get(node.name.as_str())?.metadata.labels.as_ref());
        let label = |key: &str| first.and_then(|labels| labels.get(key).cloned());
        let of = |node: &Node| view.nodes.get(node.name.as_str())?.metadata.labels.as_ref()?.get(SIZE_LABEL).cloned();
        let sizes: BTreeSet<String> = own().filter_map(of).collect();
        let size = (!sizes.is_empty()).then(|| sizes.into_iter().collect::<Vec<_>>().join(", "));
        Pool { name: name.to_owned(), nodes: own().count(), size, mode: label(MODE_LABEL) }
    };
    names.into_iter().map(pool).collect()
}

fn pod(view: &PodView<'_>, workload: String) -> Pod {
    let requests = PodResources::of(view.pod).map(|resources| resources.requests).unwrap_or_default();
    let trouble = match &view.state {
        PodState::Failed { reason } => Some(reason.clone()),
        PodState::Running { trouble, .. } | PodState::Starting { trouble } => trouble.clone(),
        _ => None,
    };
    let nominated = match &view.state {
        PodState::Unschedulable { nominated, .. } => nominated.clone(),
        _ => None,
    };
    Pod {
        id: view.id(),
        uid: view.pod.metadata.uid.clone().unwrap_or_default(),
        workload,
        node: view.node.map(str::to_owned),
        nominated,
        state: view.state.code(),
        trouble,
        requests: Amounts { cpu_milli: requests.cpu, memory_bytes: requests.memory },
    }
}

/// Pods without a node, the largest groups first, and workloads whose pods are not made.
fn pending(view: &View<'_>) -> Vec<PendingGroup> {
    let mut groups: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for pod in &view.pods {
        let reason = match &pod.state {
            PodState::Unschedulable { message, .. } => match without_preemption(message) {
                "" => "no node was found, and no message says why".to_owned(),
                reason => reason.to_owned(),
            },
            PodState::Gated { message } => message.clone(),
            PodState::Unscheduled => "no scheduler has looked at it yet".to_owned(),
            PodState::Succeeded | PodState::Failed { .. } => continue,
            _ => match pod.node.filter(|node| !view.nodes.contains_key(node)) {
                Some(node) => format!("its node {node} is gone"),
                None => continue,
            },
        };
        groups.entry(reason).or_default().push(pod.id());
    }
    // Pods that are not even made have no name, and wait for a reason all the same.
    for owner in view.owners() {
        let is_own = owner.meta().and_then(|meta| meta.namespace.as_deref()).is_some_and(|it| !is_system_namespace(it));
        let lack =
            unmade(view, owner).filter(|lack| is_own && !matches!(lack.cause.code, Code::Over | Code::ScaledToZero));
        if let Some(cause) = lack.map(|lack| lack.cause) {
            groups.entry(format!("{}: {}", cause.subjects.join(", "), cause.what)).or_default();
        }
    }
    let mut groups: Vec<_> = groups.into_iter().map(|(reason, pods)| PendingGroup { reason, pods }).collect();
    groups.sort_by(|one, two| two.pods.len().cmp(&one.pods.len()).then_with(|| one.reason.cmp(&two.reason)));
    groups
}

fn checks(view: &View<'_>, lab: Option<&Lab>, report: &Report) -> Vec<Check> {
    let checks = lab.map_or(&[][..], |lab| &lab.checks);
    // A report of other checks says nothing of places.
    let is_of_lab = checks.len() == report.checks.len();
    let mut checks = checks.iter().filter(|_| is_of_lab);
    let check = |result: &crate::verify::CheckResult| {
        let check = checks.next();
        let places = check.map_or_else(Places::default, |check| places(check, result, view));
        let workload = check.and_then(|check| match &check.subject.value {
            Subject::Workload(name) => view.context.workload(name),
            _ => None,
        });
        Check {
            name: result.name.clone(),
            standing: result.verdict.code(),
            now: result.now(),
            workload: workload.map(|workload| id(&workload.namespace, &workload.name)),
            ghosts: ghosts(places.wanted),
            misplaced: places.misplaced,
        }
    };
    report.checks.iter().map(check).collect()
}

fn ghosts(places: Vec<PodLocation>) -> Vec<MissingPods> {
    let mut counts: BTreeMap<Spot, usize> = BTreeMap::new();
    for place in places {
        let spot = match place {
            PodLocation::Node(node) => Spot::Node(node),
            PodLocation::Pool(pool) => Spot::Pool(pool),
            PodLocation::Pending => Spot::Pending,
        };
        *counts.entry(spot).or_default() += 1;
    }
    counts.into_iter().map(|(on, pods)| MissingPods { on, pods }).collect()
}

fn steps(lab: Option<&Lab>, lesson: Lesson) -> Vec<Step> {
    let steps = lab.into_iter().flat_map(|lab| &lab.steps).enumerate();
    let state = |number: usize| match number.cmp(&lesson.done) {
        std::cmp::Ordering::Less => StepState::Done,
        std::cmp::Ordering::Equal if lesson.opened => StepState::Open,
        _ => StepState::Ahead,
    };
    steps
        .map(|(number, step)| Step { name: step.name.value.clone(), title: step.title.clone(), state: state(number) })
        .collect()
}
