//! NodePorts: host ports must be free.

use super::View;
use crate::scheduling::cycle::Cycle;
use crate::scheduling::reason::Reason;

/// One reason for each of the pod's ports that is taken; kube-scheduler names only the fact.
pub(super) fn filter(cycle: &Cycle<'_>, view: &View<'_>, reasons: &mut Vec<Reason>) {
    for wanted in &cycle.info.host_ports {
        if let Some((_, holder)) = view.node.ports.iter().find(|(port, _)| port.conflicts_with(wanted)) {
            let holder = cycle.state.pod(*holder).map(|entry| entry.key.clone());
            reasons.push(Reason::HostPort { wanted: wanted.clone(), holder });
            return;
        }
    }
}
