//! What a learner types at az for a change of a pool: pure, from the same command lines that klab runs.

use std::collections::BTreeMap;

use super::arguments;
use super::place::Place;
use crate::exec;
use crate::lesson::command::AzureNames;
use crate::spec::{Action, Lab};
use crate::state::Home;

/// Where a lab that is up is in Azure; words in place of names for one that is not.
pub fn names(home: &Home, lab: &str) -> AzureNames {
    Place::read(&home.lab(lab))
        .map_or_else(AzureNames::default, |place| AzureNames { group: place.group, cluster: place.cluster })
}

/// The command lines for an action on a pool; `stage` is the lab as it is to be afterwards.
pub fn pool_commands(stage: &Lab, action: &Action, names: &AzureNames) -> Vec<String> {
    let place = Place {
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
    let lines = match action {
        Action::AddPool { pool } => match stage.pool(pool) {
            Some(spec) => vec![arguments::pool_add(stage, &place, spec, pool, &BTreeMap::new())],
            None => Vec::new(),
        },
        Action::RemovePool { pool } => vec![arguments::pool_delete(&place, pool)],
        Action::ScalePool { pool, autoscale: Some(bounds), .. } => {
            vec![arguments::pool_autoscale(&place, pool, bounds.min, bounds.max)]
        }
        Action::ScalePool { pool, nodes, .. } => {
            nodes.iter().map(|nodes| arguments::pool_scale(&place, pool, *nodes)).collect()
        }
        Action::UpgradePool { pool, kubernetes } => vec![arguments::pool_upgrade(&place, pool, *kubernetes)],
        _ => Vec::new(),
    };
    let waiting = lines.into_iter().map(|line| line.into_iter().filter(|word| word != "--no-wait"));
    waiting.map(|line| exec::Command::new("az").args(line).to_string()).collect()
}
