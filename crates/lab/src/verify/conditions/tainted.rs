//! The condition `tainted`: every node carries this taint.

use k8s_openapi::api::core::v1::Taint;

use super::every_node::every_node;
use super::rule::{Remedy, Rollout, Rule, Subject};
use crate::code::Code;
use crate::plan::taint_text;
use crate::verify::node::has_taint;
use crate::verify::observation::Fact;
use crate::verify::view::View;

pub(super) struct Tainted<'c>(pub(super) &'c Taint);

impl Rule for Tainted<'_> {
    fn code(&self) -> Code {
        Code::Tainted
    }

    fn title(&self) -> String {
        format!("tainted {}", taint_text(self.0))
    }

    fn judge(&self, _: &View<'_>, subject: &Subject<'_>) -> Option<Fact> {
        let Subject::Nodes(nodes) = subject else { return None };
        let text = taint_text(self.0);
        let (with, without) = (format!("tainted {text}"), format!("without the taint {text}"));
        Some(every_node(nodes, &with, &without, |node| has_taint(node, self.0), |_| false))
    }

    fn rollout(&self) -> Rollout {
        Rollout::Counts
    }

    fn remedy(&self, target: &str, _: &str) -> Option<Remedy> {
        let command = format!("kubectl taint nodes {target} {} --overwrite", taint_text(self.0));
        Some(Remedy { code: "add-taint", verb: "taint", command })
    }
}
