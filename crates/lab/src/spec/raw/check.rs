//! `[[check]]` as written.

use schemars::JsonSchema;
use serde::Deserialize;

use super::{At, CountText, Skip, Table};
use crate::spec::check::{Condition, Count, NodeSet};
use klab_scheduler::selector::Selector;

/// What must hold: one subject (`workload`, `pods`, `nodes` or `object`) and at least one condition.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::spec) struct Check {
    /// What the report calls the check. Default: made from subject and conditions.
    pub name: Option<String>,
    /// Subject: the pods of this workload of the lab.
    pub workload: Option<At<String>>,
    /// Subject: pods by label, such as "app=web,tier!=db".
    pub pods: Option<At<String>>,
    /// Subject: nodes, as "pool:NAME", "node:NAME" or a label selector such as "agentpool in (a, b)".
    pub nodes: Option<At<String>>,
    /// Subject: one object, such as "deployment/web"; or "version", what the API server says of its own.
    pub object: Option<At<String>>,
    /// Namespace of `pods` or `object`. Default: default.
    pub namespace: Option<At<String>>,
    /// Every pod runs on one of these nodes: "pool:NAME", "node:NAME" or a label selector.
    pub on: Option<At<String>>,
    /// No pod is on any of these nodes.
    pub not_on: Option<At<String>>,
    /// Every pod runs on the node of this name.
    pub node: Option<At<String>>,
    /// Running pods by pool: { extra = 2, nodepool1 = "0..1" }.
    pub placement: Option<At<Table<At<CountText>>>>,
    /// The number of pods that are Running and Ready.
    pub running: Option<At<CountText>>,
    /// The number of pods that stay Pending because the scheduler finds no node for them.
    pub pending: Option<At<CountText>>,
    /// With `pending`: text that the scheduler's message must contain.
    pub reason: Option<At<String>>,
    /// The number of pods that have succeeded (jobs).
    pub succeeded: Option<At<CountText>>,
    /// The pods are spread evenly.
    pub spread: Option<At<Spread>>,
    /// Exactly one pod on each of these nodes and none elsewhere.
    pub one_per_node: Option<At<String>>,
    /// Every pod shares its node with a pod of these labels.
    #[serde(rename = "with")]
    pub with_pods: Option<At<String>>,
    /// No pod shares its node with another pod of these labels.
    pub apart_from: Option<At<String>>,
    /// In steps: the pods are those of before the step, on the nodes where they were (true), or none is one of them (false).
    pub same_pods: Option<At<bool>>,
    /// There are events of this reason about the subject, such as "Preempted". Pods that are gone count as well.
    pub event: Option<At<String>>,
    /// With `event`: the workload whose pods are the cause.
    pub by: Option<At<String>>,
    /// With `event`: how many there are. Default: at least one.
    pub times: Option<At<CountText>>,
    /// Every pod without a node is nominated to one of these nodes: others are preempted for it there.
    pub nominated: Option<At<String>>,
    /// This many pods were evicted or preempted, as pods and events say. Pods that are gone count as well.
    pub evicted: Option<At<CountText>>,
    /// The number of pods or nodes that exist; for an object 1 or 0.
    pub exist: Option<At<CountText>>,
    /// Nodes: every one is Ready (true), or none is (false).
    pub ready: Option<At<bool>>,
    /// Nodes: every one may receive pods (true), or every one is cordoned (false).
    pub schedulable: Option<At<bool>>,
    /// Nodes: every one carries this taint, "key=value:Effect" or "key:Effect".
    pub tainted: Option<At<String>>,
    /// Nodes: every one has this Kubernetes version, such as "1.36" or "1.36.2".
    pub version: Option<At<String>>,
    /// A CEL expression on `object` that is true.
    pub cel: Option<At<String>>,
    /// How long to wait for the check to hold, such as "3m". Default: 2m, or `--timeout`.
    pub within: Option<At<String>>,
    /// How long it must go on holding, such as "5s".
    pub hold: Option<At<String>>,
    /// What to tell a learner when it does not hold.
    pub hint: Option<String>,
    /// Providers on which the check is left out, each with the reason: { kind = "CoreDNS is on the control plane" }.
    pub skip: Option<Skip>,
}

/// An even spread of pods.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::spec) struct Spread {
    /// Node label whose values are the domains, such as "topology.kubernetes.io/zone". Default: kubernetes.io/hostname.
    pub over: Option<At<String>>,
    /// Greatest difference in pods between two domains. Default: 1.
    #[schemars(range(min = 1))]
    pub max_skew: Option<At<u32>>,
}

/// The kinds of subjects, for the question which conditions go with them.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::spec) enum SubjectKind {
    Pods,
    Nodes,
    Object,
}

impl SubjectKind {
    pub(in crate::spec) fn conditions(self) -> Vec<&'static str> {
        CONDITIONS.iter().filter(|key| key.subjects.contains(&self)).map(|key| key.name).collect()
    }

    pub(in crate::spec) fn name(self) -> &'static str {
        match self {
            Self::Pods => "pods",
            Self::Nodes => "nodes",
            Self::Object => "an object",
        }
    }
}

/// The form of a condition's value: where it is written, and the condition of what is read from it.
pub(in crate::spec) enum ConditionForm {
    /// `pool:NAME`, `node:NAME` or a label selector.
    Nodes(fn(&Check) -> Option<&At<String>>, fn(NodeSet) -> Condition),
    /// A label selector.
    Selector(fn(&Check) -> Option<&At<String>>, fn(Selector) -> Condition),
    /// A number or a range.
    Count(fn(&Check) -> Option<&At<CountText>>, fn(Count) -> Condition),
    /// True or false.
    Flag(fn(&Check) -> Option<&At<bool>>, fn(bool) -> Condition),
    /// Any other: `validate/check.rs` has an arm for the key.
    Own,
}

/// A key of a check that states a condition.
pub(in crate::spec) struct ConditionKey {
    /// As it is written.
    pub name: &'static str,
    /// The subjects that it goes with.
    pub subjects: &'static [SubjectKind],
    /// The form of its value.
    pub form: ConditionForm,
}

const fn key(name: &'static str, subjects: &'static [SubjectKind], form: ConditionForm) -> ConditionKey {
    ConditionKey { name, subjects, form }
}

const PODS: &[SubjectKind] = &[SubjectKind::Pods];
const NODES: &[SubjectKind] = &[SubjectKind::Nodes];

/// Every condition, in the order in which messages list them.
pub(in crate::spec) const CONDITIONS: &[ConditionKey] = &[
    key("on", PODS, ConditionForm::Nodes(|raw| raw.on.as_ref(), Condition::On)),
    key("not_on", PODS, ConditionForm::Nodes(|raw| raw.not_on.as_ref(), Condition::NotOn)),
    key("node", PODS, ConditionForm::Own),
    key("placement", PODS, ConditionForm::Own),
    key("running", PODS, ConditionForm::Count(|raw| raw.running.as_ref(), Condition::Running)),
    key("pending", PODS, ConditionForm::Own),
    key("succeeded", PODS, ConditionForm::Count(|raw| raw.succeeded.as_ref(), Condition::Succeeded)),
    key("spread", PODS, ConditionForm::Own),
    key("one_per_node", PODS, ConditionForm::Nodes(|raw| raw.one_per_node.as_ref(), Condition::OnePerNode)),
    key("with", PODS, ConditionForm::Selector(|raw| raw.with_pods.as_ref(), Condition::With)),
    key("apart_from", PODS, ConditionForm::Selector(|raw| raw.apart_from.as_ref(), Condition::ApartFrom)),
    key(
        "same_pods",
        PODS,
        ConditionForm::Flag(|raw| raw.same_pods.as_ref(), |wanted| Condition::SamePods { wanted, before: None }),
    ),
    key("event", &[SubjectKind::Pods, SubjectKind::Nodes, SubjectKind::Object], ConditionForm::Own),
    key("nominated", PODS, ConditionForm::Nodes(|raw| raw.nominated.as_ref(), Condition::Nominated)),
    key("evicted", PODS, ConditionForm::Count(|raw| raw.evicted.as_ref(), Condition::Evicted)),
    key(
        "exist",
        &[SubjectKind::Pods, SubjectKind::Nodes, SubjectKind::Object],
        ConditionForm::Count(|raw| raw.exist.as_ref(), Condition::Exist),
    ),
    key("ready", NODES, ConditionForm::Flag(|raw| raw.ready.as_ref(), Condition::Ready)),
    key("schedulable", NODES, ConditionForm::Flag(|raw| raw.schedulable.as_ref(), Condition::Schedulable)),
    key("tainted", NODES, ConditionForm::Own),
    key("version", NODES, ConditionForm::Own),
    key("cel", &[SubjectKind::Object], ConditionForm::Own),
];
