//! What a learner types at az for a change of a pool: pure, from the same command lines that klab runs.

use std::collections::BTreeMap;

use super::arguments;
use super::azure_site::AzureSite;
use crate::exec;
use crate::provider::AzureNames;
use klab_lab::spec::{Action, Lab, UpgradeTarget};

/// The command lines for an action on a pool or on the control plane; `before` and `stage` are the lab as it is before and afterwards.
pub fn pool_commands(before: &Lab, stage: &Lab, action: &Action, names: &AzureNames) -> Vec<String> {
    let place = AzureSite {
        lab: stage.name.value.clone(),
        subscription: String::new(),
        owner: String::new(),
        location: stage.aks.location.value.clone(),
        group: names.group.clone(),
        own_group: false,
        cluster: names.cluster.clone(),
        node_group: String::new(),
        removing: None,
    };
    // az has one word for an autoscaler that is on and another for one that is off, and scales no pool by hand that has one.
    let autoscaled = |pool: &str| before.pool(pool).is_some_and(|pool| pool.autoscale.is_some());
    let lines = match action {
        Action::AddPool { pool } => match stage.pool(pool) {
            Some(spec) => std::iter::once(arguments::pool_add(stage, &place, spec, pool, &BTreeMap::new()))
                .chain(arguments::pool_further_sizes(&place, spec, pool))
                .collect(),
            None => Vec::new(),
        },
        Action::RemovePool { pool } => vec![arguments::pool_delete(&place, pool)],
        Action::ScalePool { pool, autoscale: Some(bounds), .. } => {
            vec![arguments::pool_autoscale(&place, pool, autoscaled(pool), bounds.min, bounds.max)]
        }
        Action::ScalePool { pool, nodes, .. } => {
            let off = autoscaled(pool).then(|| arguments::pool_autoscale_off(&place, pool));
            let scale = nodes.iter().map(|nodes| arguments::pool_scale(&place, pool, *nodes));
            off.into_iter().chain(scale).collect()
        }
        Action::UpgradePool { pool, to, settings, no_wait } => {
            let line = match to {
                UpgradeTarget::Kubernetes(version) => {
                    arguments::pool_upgrade(&place, pool, Some(&version.to_string()), settings)
                }
                UpgradeTarget::NodeImage => arguments::pool_image_upgrade(&place, pool),
                UpgradeTarget::Size(size) => arguments::pool_resize(&place, pool, &size.name, settings),
            };
            if *no_wait {
                return vec![exec::Command::new("az").args(line).to_string()];
            }
            vec![line]
        }
        Action::UpgradeControlPlane { kubernetes } => {
            vec![arguments::cluster_upgrade(&place, &kubernetes.to_string())]
        }
        _ => Vec::new(),
    };
    let waiting = lines.into_iter().map(|line| line.into_iter().filter(|word| word != "--no-wait"));
    waiting.map(|line| exec::Command::new("az").args(line).to_string()).collect()
}
