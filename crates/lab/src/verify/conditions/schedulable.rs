//! The condition `schedulable`: every node may receive pods, or every one is cordoned.

use super::every_node::every_node;
use super::rule::{Remedy, Rollout, Rule, Subject};
use crate::code::Code;
use crate::verify::node::is_cordoned;
use crate::verify::observation::Fact;
use crate::verify::view::View;

pub(super) struct Schedulable(pub(super) bool);

impl Rule for Schedulable {
    fn code(&self) -> Code {
        Code::Schedulable
    }

    fn title(&self) -> String {
        if self.0 { "schedulable".to_owned() } else { "cordoned".to_owned() }
    }

    fn judge(&self, _: &View<'_>, subject: &Subject<'_>) -> Option<Fact> {
        let Subject::Nodes(nodes) = subject else { return None };
        Some(if self.0 {
            every_node(nodes, "schedulable", "cordoned", |node| !is_cordoned(node), |_| false)
        } else {
            every_node(nodes, "cordoned", "not cordoned", is_cordoned, |_| false)
        })
    }

    fn rollout(&self) -> Rollout {
        Rollout::Counts
    }

    fn remedy(&self, _: &str, names: &str) -> Option<Remedy> {
        let verb = if self.0 { "uncordon" } else { "cordon" };
        Some(Remedy { code: verb, verb, command: format!("kubectl {verb} {names}") })
    }
}
