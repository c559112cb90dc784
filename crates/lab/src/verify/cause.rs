//! Why something does not hold, and what would mend it: the data that reports and explanations show.

use serde_json::{Map, Value};

use crate::code::Code;
use crate::spec::Location;

/// What keeps pods (or nodes) from being as a check wants them. Pods in the same plight share one cause.
#[derive(Clone, Debug, PartialEq)]
pub struct Cause {
    /// What is the matter: `unschedulable`, `wrong-node`, `not-starting`, ….
    pub code: Code,
    /// Names of the pods (`namespace/name`) or nodes, sorted.
    pub subjects: Vec<String>,
    /// What is the matter with them: `Pending for 31 s, fits on none of 4 nodes`.
    pub what: String,
    /// For pods without a node, all nodes by what keeps the pods from them.
    pub nodes: Vec<NodeGroup>,
}

/// Nodes that the same rules keep a pod from.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeGroup {
    /// Their names, sorted; of one pool.
    pub nodes: Vec<String>,
    /// The pool they belong to.
    pub pool: Option<String>,
    /// All rules that keep the pod out, in the scheduler's order.
    pub reasons: Vec<NodeReason>,
}

/// One rule that keeps a pod from nodes.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeReason {
    /// Which rule it is.
    pub code: Code,
    /// The exact case: `untolerated-taint`, `node-selector`, `insufficient-cpu`, ….
    pub name: String,
    /// For people: `taint dedicated=special:NoSchedule is not tolerated`.
    pub text: String,
    /// Further lines for people, where one does not say it all: device by device.
    pub details: Vec<String>,
    /// The numbers and names behind it, integers with their unit in the key.
    pub facts: Map<String, Value>,
}

/// A change after which the scheduler places the pods: it was asked.
#[derive(Clone, Debug, PartialEq)]
pub struct Suggestion {
    /// Stable code of the (first) change: `add-toleration`, `lower-request`, ….
    pub code: &'static str,
    /// For people, as an instruction: ``add `tolerations = ["dedicated=special:NoSchedule"]` to `[workload.web]` ``.
    pub text: String,
    /// Where in the lab file.
    pub at: Option<Location>,
    /// A command that does it on the running cluster, where one does.
    pub command: Option<String>,
    /// How many changes it takes.
    pub changes: usize,
    /// Names of the nodes the pods would go to, sorted, without repeats.
    pub nodes: Vec<String>,
}

impl Suggestion {
    /// A single change that is not the scheduler's to prove.
    pub(crate) fn of(code: &'static str, text: impl Into<String>, command: Option<String>) -> Self {
        Self { code, text: text.into(), at: None, command, changes: 1, nodes: Vec::new() }
    }
}

/// What keeps a workload from having its pods, or pods from what they are to do, and what would mend it.
#[derive(Clone, Debug, PartialEq)]
pub struct Hindrance {
    /// What is the matter, and with what.
    pub cause: Cause,
    /// What would mend it, the best first.
    pub suggestions: Vec<Suggestion>,
}
