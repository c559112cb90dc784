//! Changes of one pool brought about through the provider, with everything else left as it is.

use crate::error::Result;
use crate::provider::{Options, Provider, Work, refuse_without_recreation};
use klab_lab::plan::{Action, Declared, Observed, is_system_taint, plan, taint_text};
use klab_lab::pool_upgrade::{as_upgrade, image_upgrade, rollback};
use klab_lab::spec::{Lab, Located, UpgradeKind};

/// The pool that an action is about.
pub fn pool_of(action: &Action) -> Option<&str> {
    match action {
        Action::AddPool { pool, .. }
        | Action::ScalePool { pool, .. }
        | Action::UpdatePool { pool, .. }
        | Action::ReplacePool { pool, .. }
        | Action::UpgradePool { pool, .. }
        | Action::RemovePool { pool, .. } => Some(pool),
        Action::CreateCluster | Action::UpgradeCluster { .. } | Action::SetAutoscaler { .. } => None,
    }
}

/// What has to be done so that a pool is what `lab` says, by an upgrade of this kind where one is asked for; `no_wait`: an upgrade
/// is only begun. What others put on its nodes is none of it.
pub fn actions(lab: &Lab, pool: &str, observed: &Observed, kind: Option<UpgradeKind>, no_wait: bool) -> Vec<Action> {
    let spec = lab.pool(pool);
    match kind {
        Some(UpgradeKind::NodeImage) => {
            return spec.and_then(|spec| image_upgrade(lab, spec, observed, no_wait)).into_iter().collect();
        }
        Some(UpgradeKind::Rollback) => {
            return spec.and_then(|spec| rollback(spec, observed, no_wait)).into_iter().collect();
        }
        _ => {}
    }
    let kind = kind.unwrap_or_default();
    let mut observed = observed.clone();
    // It was named; who made it does not matter.
    observed.take(pool);
    let live = observed.pools.get(pool);
    let declared = spec.map(Declared::of);
    let is_asked_for = |action: &Action| match action {
        Action::UpdatePool { .. } => live.is_some_and(|live| live.failed || Some(&live.declared) != declared.as_ref()),
        _ => true,
    };
    let all = plan(lab, &observed).into_iter();
    let asked = all.filter(|action| pool_of(action) == Some(pool) && is_asked_for(action));
    asked.map(|action| as_upgrade(lab, &observed, action, kind, no_wait)).collect()
}

/// Does these actions on one pool. Labels and taints that others put on its nodes stay there; `before` is what was declared
/// for it until now.
///
/// # Errors
/// As the provider says.
pub fn perform(
    provider: &dyn Provider,
    lab: &Lab,
    pool: &str,
    before: &Declared,
    observed: &Observed,
    actions: Vec<Action>,
    work: &mut Work<'_>,
) -> Result<()> {
    refuse_without_recreation(provider, lab)?;
    let options = Options { replace_pools: true };
    let (updates, others): (Vec<_>, Vec<_>) =
        actions.into_iter().partition(|action| matches!(action, Action::UpdatePool { .. }));
    if lab.provider.profile().has_managed_pools {
        // Azure keeps what was put on nodes with kubectl apart from what the pool declares.
        let all: Vec<Action> = updates.into_iter().chain(others).collect();
        return provider.perform_all(lab, &all, &options, work);
    }
    if !updates.is_empty() {
        provider.perform_all(&with_what_others_put(lab, pool, before, observed), &updates, &options, work)?;
    }
    if !others.is_empty() {
        provider.perform_all(lab, &others, &options, work)?;
    }
    Ok(())
}

/// The lab with the pool's labels and taints as its nodes have them now, but for what differs between `before` and the lab, so
/// that an update of the pool changes that alone.
fn with_what_others_put(lab: &Lab, pool: &str, before: &Declared, observed: &Observed) -> Lab {
    let mut lab = lab.clone();
    let nodes = observed.pools.get(pool).map(|live| live.nodes.as_slice()).unwrap_or_default();
    let Some((first, rest)) = nodes.split_first() else { return lab };
    let Some(target) = lab.pools.iter_mut().find(|one| one.name.value == pool) else { return lab };
    let wanted = Declared::of(target);
    let of_all = |taint: &&_| !is_system_taint(taint) && rest.iter().all(|node| node.taints.contains(taint));
    let stays = |taint: &&_| !before.taints.contains(&taint_text(taint)) || wanted.taints.contains(&taint_text(taint));
    let mut taints: Vec<_> = first.taints.iter().filter(of_all).filter(stays).cloned().collect();
    for new in &target.taints {
        let text = taint_text(&new.value);
        if !before.taints.contains(&text) && !taints.iter().any(|taint| taint_text(taint) == text) {
            taints.push(new.value.clone());
        }
    }
    target.taints = taints.into_iter().map(|taint| Located::new(taint, target.at.clone())).collect();
    for (key, value) in &mut target.labels {
        if let Some(live) = first.labels.get(key).filter(|_| before.labels.get(key) == Some(&value.value)) {
            value.value.clone_from(live);
        }
    }
    lab
}
