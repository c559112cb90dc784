//! Drains of a step that the learner has not typed, or that have not ended: pods are still on the nodes.

use std::collections::BTreeSet;

use kube::{Client, ResourceExt};

use super::command;
use super::nodes::{failure, named, select};
use super::tools::Tools;
use crate::drain::{has_ended, path, pods_to_move};
use crate::error::Result;
use klab_lab::spec::{Action, Lab, Located};
use klab_lab::verify::Aside;
use klab_lab::words::{first_of, plural};

/// Most pods named in one sentence.
const NAMES: usize = 5;

/// What the drains of a step (from 0) would still move, each with the command that does it: a drain that kubectl refused leaves nodes
/// cordoned and their pods where they are.
///
/// # Errors
/// When the cluster does not answer.
pub async fn undone_drains(client: &Client, lab: &Lab, step: usize) -> Result<Vec<Aside>> {
    let mut asides = Vec::new();
    let actions = lab.steps.get(step).map_or(&[][..], |step| &step.actions);
    for (number, action) in actions.iter().enumerate() {
        let Action::Drain { nodes: set, .. } = &action.value else { continue };
        // Nodes that are opened again may have pods again.
        let is_over = |later: &Located<Action>| matches!(&later.value, Action::Uncordon { nodes } if nodes == set);
        if actions.iter().skip(number).any(is_over) {
            continue;
        }
        let nodes: BTreeSet<String> = select(client, set).await?.iter().map(ResourceExt::name_any).collect();
        let pods = pods_to_move(client, &nodes).await.map_err(|error| failure("list the pods", &error))?;
        let left: Vec<String> = pods.iter().filter(|pod| !has_ended(pod)).map(path).collect();
        if left.is_empty() {
            continue;
        }
        let names: Vec<String> = nodes.into_iter().collect();
        let verb = if left.len() == 1 { "is" } else { "are" };
        let what = format!(
            "{} that a drain evicts {verb} still on {}: {}",
            plural(left.len(), "pod"),
            named(set, &names),
            first_of(&left, NAMES)
        );
        let lines = command::lines(lab, step, number, &Tools::default());
        let command = lines.first().and_then(|line| line.commands().first().cloned());
        asides.push(Aside { what, command });
    }
    Ok(asides)
}

#[cfg(test)]
mod tests {
    use super::*;
    use klab_lab::spec::{LoadOptions, parse};
    use serde_json::json;

    #[test]
    fn a_drain_that_was_refused_is_not_done() {
        let text = "lab = 'x'\n[pool.a]\nnodes = 1\n[[step]]\nname = 'empty'\ndo = [{ drain = 'pool:a' }]\n\
                    [[step]]\nname = 'twice'\ndo = [{ drain = 'pool:a' }, { uncordon = 'pool:a' }]\n";
        let lab = parse("x.toml", text, &LoadOptions::default()).unwrap_or_else(|problems| panic!("{problems}"));
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "web" },
            "spec": { "containers": [{ "name": "c", "image": "nginx" }] },
        });
        let node = json!({
            "apiVersion": "v1", "kind": "Node", "metadata": { "name": "a-0", "labels": { "agentpool": "a" } },
            "status": {
                "allocatable": { "cpu": "1", "memory": "1Gi", "pods": "9" }, "conditions": [{ "type": "Ready", "status": "True" }],
            },
        });
        let cluster = klab_cluster::Cluster::builder().objects([node, pod]).build().unwrap();
        cluster.settle();
        let runtime = crate::client::runtime().unwrap();
        let asides =
            |step: usize| runtime.block_on(async { undone_drains(&cluster.client(), &lab, step).await }).unwrap();
        let [aside] = asides(0).try_into().unwrap();
        assert_eq!(aside.what, "1 pod that a drain evicts is still on node a-0: default/web");
        let command = "kubectl drain -l agentpool=a --ignore-daemonsets --delete-emptydir-data";
        assert_eq!(aside.command.as_deref(), Some(command));
        assert_eq!(asides(1), [], "the step opens the node again");
    }
}
