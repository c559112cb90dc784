//! Actions on pools: what the plan has to do for one pool between the cluster and the stage, through the provider.

use crate::error::{Code, Error, Result};
use crate::event::{About, Verb};
use crate::pool::perform::{perform, pool_of};
use crate::provider::{Work, refuse_absent};
use crate::stage::advance;
use klab_lab::plan::{self, Declared, Observed, plan};
use klab_lab::pool_upgrade::{as_upgrade, image_upgrade};
use klab_lab::spec::{Action, Lab, Located, Pool, UpgradeKind};

use super::performer::Performer;

/// Brings one pool to what the stage says, as far as the action is about it. Taints, labels and other pools are left as
/// they are: other steps, or the learner, may have changed them.
pub(super) fn change(performer: &Performer<'_>, stage: &Lab, action: &Action, work: &mut Work<'_>) -> Result<()> {
    let Some(name) = action.pool() else { return Ok(()) };
    let stage = &after(stage, action);
    let pool =
        stage.pool(name).ok_or_else(|| Error::message(Code::StepFailed, format!("the lab has no pool `{name}`")))?;
    let mut observed = performer.provider.observe(&stage.name.value, Some(stage))?;
    refuse_absent(&stage.name.value, &observed)?;
    // The lab file names it; who typed it does not matter.
    observed.take(name);
    let (kind, no_wait) = match action {
        Action::UpgradePool { to, no_wait, .. } => (to.kind(), *no_wait),
        _ => (UpgradeKind::default(), false),
    };
    let planned = plan(stage, &observed).into_iter().filter(|planned| belongs(planned, action, pool, &observed));
    let planned = planned.map(|planned| as_upgrade(stage, &observed, planned, kind, no_wait));
    let images = (kind == UpgradeKind::NodeImage).then(|| image_upgrade(stage, pool, &observed, no_wait)).flatten();
    let actions: Vec<plan::Action> =
        if kind == UpgradeKind::NodeImage { images.into_iter().collect() } else { planned.collect() };
    if actions.is_empty() {
        work.events.about(About::Pool, name).note(Verb::FindPool, format!("pool {name}, which needs no change"));
        return Ok(());
    }
    perform(performer.provider, stage, name, &Declared::of(pool), &observed, actions, work)
}

/// The lab after an action; a stage does not have what the cluster is to refuse.
fn after(stage: &Lab, action: &Action) -> Lab {
    let mut after = stage.clone();
    if matches!(action, Action::UpgradePool { .. }) {
        advance(&mut after, stage, &Located::new(action.clone(), stage.name.at.clone()));
    }
    after
}

/// Whether what the plan wants is what the action says.
fn belongs(planned: &plan::Action, action: &Action, pool: &Pool, observed: &Observed) -> bool {
    use plan::Action as Planned;
    let Some(name) = pool_of(planned) else { return false };
    if name != pool.name.value {
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
