//! The condition `version`: every node's kubelet has this Kubernetes version.

use k8s_openapi::api::core::v1::Node;

use super::every_node::every_node;
use super::rule::{Rollout, Rule, Subject};
use crate::code::Code;
use crate::plan::is_version;
use crate::spec::KubernetesVersion;
use crate::verify::observation::Fact;
use crate::verify::view::View;

pub(super) struct Version<'c>(pub(super) &'c KubernetesVersion);

impl Rule for Version<'_> {
    fn code(&self) -> Code {
        Code::NodeVersion
    }

    fn title(&self) -> String {
        format!("version {}", self.0)
    }

    fn judge(&self, _: &View<'_>, subject: &Subject<'_>) -> Option<Fact> {
        let Subject::Nodes(nodes) = subject else { return None };
        let wanted = self.0.to_string();
        let has = |node: &Node| {
            let info = node.status.as_ref().and_then(|status| status.node_info.as_ref());
            info.is_some_and(|info| is_version(info.kubelet_version.trim_start_matches('v'), &wanted))
        };
        // Nodes of two versions are those of a pool that is being upgraded.
        let goes_on = nodes.iter().any(|(_, node)| has(node));
        Some(every_node(nodes, &format!("of version {wanted}"), "of another version", has, |_| goes_on))
    }

    fn rollout(&self) -> Rollout {
        Rollout::Counts
    }
}
