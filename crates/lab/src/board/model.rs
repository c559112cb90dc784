//! What a board says; its JSON is `klab.board/1`.

use serde::Serialize;

use crate::words::plural;

/// Name and version of the document's form.
pub const SCHEMA: &str = "klab.board/1";
/// What a cordon taints a node with.
const CORDON_TAINT: &str = "node.kubernetes.io/unschedulable:";

/// A cluster as it is shown. Everything refers to everything else by name: nodes and pools by theirs, pods by
/// `namespace/name`, workloads by their `id`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Board {
    /// [`SCHEMA`].
    pub schema: &'static str,
    /// Name of the lab; none where no lab describes the cluster.
    pub lab: Option<String>,
    /// The lab's title.
    pub title: Option<String>,
    /// When the cluster was looked at (RFC 3339).
    pub taken_at: Option<String>,
    /// Pools in the order of the lab, then those it does not know, by name.
    pub pools: Vec<Pool>,
    /// Zones by name.
    pub zones: Vec<Zone>,
    /// Workloads in the order of the lab, then others by namespace and name.
    pub workloads: Vec<Workload>,
    /// Nodes in the order of their pools, then by name.
    pub nodes: Vec<Node>,
    /// Pods by namespace and name.
    pub pods: Vec<Pod>,
    /// Pods without a node, by what keeps them from one.
    pub pending: Vec<PendingGroup>,
    /// Checks in the order of the lab.
    pub checks: Vec<Check>,
    /// Steps in the order of the lab.
    pub steps: Vec<Step>,
    /// What moved since the board before this one; see [`Board::after`].
    pub moves: Vec<Move>,
}

/// A pool that has nodes, or that the lab says is there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Pool {
    /// Its name.
    pub name: String,
    /// How many nodes it has.
    pub nodes: usize,
    /// The machine type of its nodes, where they say it.
    pub size: Option<String>,
    /// `system` or `user`, where its nodes say it.
    pub mode: Option<String>,
}

/// A zone that has nodes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Zone {
    /// Its name.
    pub name: String,
    /// How many nodes are in it.
    pub nodes: usize,
}

/// An owner of pods, and what distinguishes it from others.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Workload {
    /// `namespace/name` of a workload of the lab, `namespace/kind/name` of others.
    pub id: String,
    /// Its name.
    pub name: String,
    /// The letter of its pods; none for what belongs to the cluster itself.
    pub letter: Option<String>,
    /// The place of its colour in the palette; none for what belongs to the cluster itself.
    pub colour: Option<u8>,
    /// Whether the lab has it.
    pub in_lab: bool,
}

/// CPU and memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Amounts {
    /// Thousandths of a core.
    pub cpu_milli: i64,
    /// Bytes.
    pub memory_bytes: i64,
}

/// What of a node is taken, or what there is to take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Usage {
    /// Thousandths of a core.
    pub cpu_milli: i64,
    /// Bytes.
    pub memory_bytes: i64,
    /// Number of pods.
    pub pods: i64,
}

/// A node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Node {
    /// Its name.
    pub name: String,
    /// Its pool, if it is in one.
    pub pool: Option<String>,
    /// Its zone, if it is in one.
    pub zone: Option<String>,
    /// Its taints as kubectl takes them: `key=value:Effect`.
    pub taints: Vec<String>,
    /// Those of its labels that selectors ask for, as `key=value`.
    pub labels: Vec<String>,
    /// What its pods request.
    pub requested: Usage,
    /// What its pods may request.
    pub allocatable: Usage,
    /// Whether it takes no new pods (`kubectl cordon`).
    pub cordoned: bool,
    /// Whether it is Ready.
    pub ready: bool,
    /// Whether its machine may be taken away at any time.
    pub spot: bool,
}

/// A pod.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Pod {
    /// `namespace/name`.
    pub id: String,
    /// Another pod of the same name has another.
    pub uid: String,
    /// The workload it belongs to, by its `id`.
    pub workload: String,
    /// The node it is on.
    pub node: Option<String>,
    /// The node where preemption makes room for it.
    pub nominated: Option<String>,
    /// What it is doing: `running`, `not-ready`, `starting`, `terminating`, `succeeded`, `failed`, `unschedulable`, `gated`,
    /// `unscheduled`.
    pub state: &'static str,
    /// Why it does not start, or how it ended.
    pub trouble: Option<String>,
    /// What it requests.
    pub requests: Amounts,
}

/// Pods that have no node for one reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PendingGroup {
    /// The scheduler's words, without what preemption came to.
    pub reason: String,
    /// The pods.
    pub pods: Vec<String>,
}

/// A check, and what it says of places.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Check {
    /// Its name.
    pub name: String,
    /// `held`, `not-yet` or `impossible`.
    pub standing: &'static str,
    /// What is true now.
    pub now: String,
    /// The workload it is about, if it is about one of the lab.
    pub workload: Option<String>,
    /// Where pods should be and are not.
    pub ghosts: Vec<MissingPods>,
    /// Pods that should not be where they are.
    pub misplaced: Vec<String>,
}

/// The number of pods that should be in a place and are not there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MissingPods {
    /// The place.
    #[serde(flatten)]
    pub on: Spot,
    /// How many.
    pub pods: usize,
}

/// A place for a pod.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(tag = "place", content = "name", rename_all = "lowercase")]
pub enum Spot {
    /// A node.
    Node(String),
    /// A pool that has no node for it yet.
    Pool(String),
    /// Among the pods without a node.
    Pending,
}

/// A step of the lesson.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Step {
    /// Its name.
    pub name: String,
    /// Its title.
    pub title: Option<String>,
    /// Where the learner is with it.
    pub state: StepState,
}

/// Where the learner is with a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum StepState {
    /// Behind.
    Done,
    /// The learner is at it.
    Open,
    /// To come.
    Ahead,
}

/// A pod that left, and one of the same workload that came elsewhere.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Move {
    /// The workload.
    pub workload: String,
    /// The pod that left.
    pub left: String,
    /// Its node; none where it had none.
    pub from: Option<String>,
    /// The pod that came: the same, or another.
    pub came: String,
    /// Its node; none where it has none.
    pub to: Option<String>,
}

impl Board {
    /// The workload of this id.
    pub fn workload(&self, id: &str) -> Option<&Workload> {
        self.workloads.iter().find(|workload| workload.id == id)
    }

    /// Where the lesson is, in words; none where there is none.
    pub fn position(&self) -> Option<String> {
        let (done, total) = (self.steps_done(), self.steps.len());
        Some(match self.open_step() {
            _ if total == 0 => return None,
            Some((number, step)) => {
                format!("Step {number} of {total}: {}", step.title.as_deref().unwrap_or(&step.name))
            }
            None if done == 0 => format!("Set-up, {} ahead", plural(total, "step")),
            None if done == total => "All steps done".to_owned(),
            None => format!("{done} of {} done", plural(total, "step")),
        })
    }

    /// How many steps are behind.
    pub fn steps_done(&self) -> usize {
        self.steps.iter().filter(|step| step.state == StepState::Done).count()
    }

    /// The step that the learner is at, with its number from 1.
    pub fn open_step(&self) -> Option<(usize, &Step)> {
        (1..).zip(&self.steps).find(|(_, step)| step.state == StepState::Open)
    }
}

impl Node {
    /// Its name without what all nodes of its pool have in common on AKS: `vmss000001` of `aks-POOL-HASH-vmss000001`.
    pub fn short_name(&self) -> &str {
        let of_pool = self.pool.as_ref().and_then(|pool| self.name.strip_prefix("aks-")?.strip_prefix(pool.as_str()));
        let short = of_pool.and_then(|rest| rest.strip_prefix('-')?.split_once('-')).map(|(_, short)| short);
        short.unwrap_or(&self.name)
    }

    /// Its taints, but for the one that says again that it is cordoned.
    pub fn shown_taints(&self) -> impl Iterator<Item = &String> {
        self.taints.iter().filter(|taint| !(self.cordoned && taint.starts_with(CORDON_TAINT)))
    }

    /// What is the matter with it, or special about it, in words.
    pub fn states(&self) -> impl Iterator<Item = &'static str> {
        let all = [(!self.ready, "NotReady"), (self.cordoned, "cordoned"), (self.spot, "spot")];
        all.into_iter().filter(|(is_so, _)| *is_so).map(|(_, word)| word)
    }
}

impl Pod {
    /// Whether it has a node, and neither is over nor about to go.
    pub fn stays(&self) -> bool {
        !matches!(self.state, "terminating" | "succeeded" | "failed")
    }
}
