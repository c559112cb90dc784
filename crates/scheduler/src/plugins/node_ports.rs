//! NodePorts: host ports must be free.

// upstream: pkg/scheduler/framework/plugins/nodeports/node_ports.go Filter, Fits (v1.36)

use super::filter::View;
use crate::cycle::Cycle;
use crate::reason::Reason;

/// One reason, for the first of the pod's ports that is taken.
pub(super) fn filter(cycle: &Cycle<'_>, view: &View<'_>, reasons: &mut Vec<Reason>) {
    for wanted in &cycle.info.host_ports {
        let taken = view.node.ports.iter().filter(|(port, _)| port.conflicts_with(wanted));
        let holders = taken.filter_map(|(_, holder)| cycle.state.pod(*holder)).map(|entry| &entry.key);
        if let Some(holder) = holders.min() {
            reasons.push(Reason::HostPort { wanted: wanted.clone(), holder: holder.clone() });
            return;
        }
    }
}
