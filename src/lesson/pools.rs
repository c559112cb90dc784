//! Actions on pools: what the plan has to do for one pool between the cluster and the stage, through the provider.

use crate::error::{Error, Kind, Result};
use crate::provider::{Options, Work};
use klab_lab::plan::{self, Declared, Observed, is_system_taint, plan};
use klab_lab::spec::{Action, Lab, Located, Pool};

use super::performer::Performer;

/// Brings one pool to what the stage says, as far as the action is about it. Taints, labels and other pools are left as
/// they are: other steps, or the learner, may have changed them.
pub(super) fn change(performer: &Performer<'_>, stage: &Lab, action: &Action, work: &mut Work<'_>) -> Result<()> {
    let (Action::AddPool { pool: name }
    | Action::RemovePool { pool: name }
    | Action::ScalePool { pool: name, .. }
    | Action::UpgradePool { pool: name, .. }) = action
    else {
        return Ok(());
    };
    let pool = stage.pool(name).ok_or_else(|| Error::message(Kind::Failed, format!("the lab has no pool `{name}`")))?;
    let observed = performer.provider.observe(&stage.name.value, Some(stage))?;
    if !observed.exists {
        let message = format!("the cluster of lab `{}` is gone", stage.name);
        return Err(Error::message(Kind::Outside, message).hint("`klab up` creates it again"));
    }
    let actions: Vec<plan::Action> =
        plan(stage, &observed).into_iter().filter(|planned| belongs(planned, action, pool, &observed)).collect();
    if actions.is_empty() {
        work.events.note("Found", format!("pool {name} as it is to be"));
        return Ok(());
    }
    let options = Options { replace_pools: true, ..Options::default() };
    let (updates, others): (Vec<_>, Vec<_>) =
        actions.into_iter().partition(|planned| matches!(planned, plan::Action::UpdatePool { .. }));
    if stage.provider.profile().has_managed_pools {
        // Azure keeps what was put on nodes with kubectl apart from what the pool declares.
        let all: Vec<plan::Action> = updates.into_iter().chain(others).collect();
        return performer.provider.perform_all(stage, &all, &options, work);
    }
    if !updates.is_empty() {
        performer.provider.perform_all(&with_live_nodes(stage, pool, &observed), &updates, &options, work)?;
    }
    if !others.is_empty() {
        performer.provider.perform_all(stage, &others, &options, work)?;
    }
    Ok(())
}

/// Whether what the plan wants is what the action says.
fn belongs(planned: &plan::Action, action: &Action, pool: &Pool, observed: &Observed) -> bool {
    use plan::Action as Planned;
    let (Planned::AddPool { pool: name, .. }
    | Planned::ScalePool { pool: name, .. }
    | Planned::UpdatePool { pool: name, .. }
    | Planned::ReplacePool { pool: name, .. }
    | Planned::RemovePool { pool: name, .. }) = planned
    else {
        return false;
    };
    if *name != pool.name.value {
        return false;
    }
    let live = observed.pools.get(name);
    match (action, planned) {
        // What failed in Azure is asked for again.
        (Action::AddPool { .. } | Action::ScalePool { .. }, Planned::UpdatePool { .. })
            if live.is_some_and(|live| live.failed) =>
        {
            true
        }
        // A klab that was killed may have made a part of the pool.
        (Action::AddPool { .. }, Planned::AddPool { .. } | Planned::ScalePool { .. })
        | (Action::RemovePool { .. }, Planned::RemovePool { .. })
        // A pool of no nodes is not to be seen where nodes are all there is of a pool: to scale it up is to add it.
        | (Action::ScalePool { .. }, Planned::ScalePool { .. } | Planned::AddPool { .. })
        | (Action::UpgradePool { .. }, Planned::ReplacePool { .. }) => true,
        (Action::ScalePool { .. }, Planned::UpdatePool { .. }) => {
            live.is_some_and(|live| live.declared.autoscale != Declared::of(pool).autoscale)
        }
        _ => false,
    }
}

/// The lab with the pool's labels and taints as its nodes have them now, so that an update of the pool leaves them alone.
fn with_live_nodes(stage: &Lab, pool: &Pool, observed: &Observed) -> Lab {
    let mut stage = stage.clone();
    let nodes = observed.pools.get(&pool.name.value).map(|live| live.nodes.as_slice()).unwrap_or_default();
    let Some((first, rest)) = nodes.split_first() else { return stage };
    let Some(target) = stage.pools.iter_mut().find(|one| one.name.value == pool.name.value) else { return stage };
    let at = &pool.at;
    target.taints = first
        .taints
        .iter()
        .filter(|taint| !is_system_taint(taint) && rest.iter().all(|node| node.taints.contains(taint)))
        .map(|taint| Located::new(taint.clone(), at.clone()))
        .collect();
    for (key, value) in &mut target.labels {
        if let Some(live) = first.labels.get(key) {
            value.value.clone_from(live);
        }
    }
    stage
}
