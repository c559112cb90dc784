//! The condition `ready`: every node is Ready, or none is.

use super::every_node::every_node;
use super::rule::{Rollout, Rule, Subject};
use crate::code::Code;
use crate::verify::node::{is_coming, is_ready};
use crate::verify::observation::Fact;
use crate::verify::view::View;

pub(super) struct Ready(pub(super) bool);

impl Rule for Ready {
    fn code(&self) -> Code {
        Code::Ready
    }

    fn title(&self) -> String {
        if self.0 { "ready".to_owned() } else { "not ready".to_owned() }
    }

    fn judge(&self, _: &View<'_>, subject: &Subject<'_>) -> Option<Fact> {
        let Subject::Nodes(nodes) = subject else { return None };
        Some(if self.0 {
            every_node(nodes, "ready", "not ready", is_ready, is_coming)
        } else {
            every_node(nodes, "not ready", "still ready", |node| !is_ready(node), |_| false)
        })
    }

    fn rollout(&self) -> Rollout {
        Rollout::Counts
    }
}
