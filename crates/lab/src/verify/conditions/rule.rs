//! What verification asks of a condition.

use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use serde_json::Value;

use crate::code::Code;
use crate::spec::ObjectRef;
use crate::verify::explain::Edit;
use crate::verify::observation::Fact;
use crate::verify::rollout::Group;
use crate::verify::view::View;

/// What a condition is judged on.
pub(crate) enum Subject<'s> {
    /// The pods of a workload or of a selector.
    Pods(&'s Group<'s, 's>),
    /// Nodes by name; at least one, unless the condition counts them.
    Nodes(&'s [(&'s str, &'s Node)]),
    /// One object, and what the cluster has of it.
    Object(&'s ObjectRef, Option<&'s Value>),
}

/// Which pods a condition on pods is about while their owner rolls out a change.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rollout {
    /// All of them: it does not hold before those of the previous template are gone.
    EveryPod,
    /// Those it counts.
    Counts,
}

/// A command that makes nodes as a condition wants them.
pub(crate) struct Remedy {
    /// Stable code of the suggestion.
    pub(crate) code: &'static str,
    /// What is done to the nodes: `cordon`.
    pub(crate) verb: &'static str,
    pub(crate) command: String,
}

/// Everything that verification asks of a condition.
pub(crate) trait Rule {
    /// The code of its findings.
    fn code(&self) -> Code;

    /// What it asks for, for the name of a check whose author gave none.
    fn title(&self) -> String;

    /// What is true of a subject; nothing where the condition does not go with such a subject.
    fn judge(&self, view: &View<'_>, subject: &Subject<'_>) -> Option<Fact>;

    /// What a rollout that is under way means for it.
    fn rollout(&self) -> Rollout;

    /// Whether a pod on this node could satisfy it.
    fn accepts(&self, view: &View<'_>, node: &str) -> bool {
        let _ = (view, node);
        true
    }

    /// The change to a workload, whose pods have the labels `own`, that makes the scheduler satisfy it.
    fn steers(&self, own: &LabelSelector) -> Option<Edit> {
        let _ = own;
        None
    }

    /// The command that makes nodes satisfy it: `target` is what kubectl is to select, `names` are those of the nodes.
    fn remedy(&self, target: &str, names: &str) -> Option<Remedy> {
        let _ = (target, names);
        None
    }
}
