//! Pure: the lab as it should be after this many of its steps.

use crate::state::Progress;
use klab_lab::spec::{Action, KubernetesVersion, Lab, Located, Location, Machine, Pool, UpgradeTarget};
use klab_lab::verify::{self, Before, Snapshot};

/// The lab after its first `steps` steps: pools and workloads that are not there at that point are `deferred`, the others
/// are as the steps left them; the checks are those that hold then, of the set-up for 0, else of the last step done.
///
/// Taints, labels and the like that steps put on nodes are no part of it: they are not what pools are made of, and nodes
/// that come later do not carry them.
pub fn stage(lab: &Lab, steps: usize) -> Lab {
    let mut staged = stage_within(lab, steps, 0);
    if let Some(last) = steps.checked_sub(1).and_then(|last| lab.steps.get(last)) {
        staged.checks.clone_from(&last.checks);
    }
    staged
}

/// The lab after a step (from 0), or at its set-up, with the checks that hold then: they know what was noted before the step.
pub fn staged(lab: &Lab, progress: &Progress, step: Option<usize>) -> Lab {
    let mut staged = stage(lab, step.map_or(0, |step| step + 1));
    let step = step.and_then(|step| lab.steps.get(step));
    if let Some(before) = step.and_then(|step| progress.before.get(&step.name.value)) {
        before.tell(&mut staged.checks);
    }
    staged
}

/// Notes the pods of a snapshot, where checks of the next step will compare with them.
pub fn note_before(lab: &Lab, progress: &mut Progress, snapshot: &Snapshot) {
    if let Some(step) = lab.steps.get(progress.done).filter(|step| Before::is_asked_for(&step.checks)) {
        let before = Before::of(&step.checks, snapshot, &verify::Context::of(&stage(lab, progress.done)));
        progress.before.insert(step.name.value.clone(), before);
    }
}

/// Notes that the learner is shown the next step, and the pods of a snapshot unless those before it are noted already.
pub fn open_next(lab: &Lab, progress: &mut Progress, snapshot: &Snapshot) {
    let Some(step) = lab.steps.get(progress.done) else { return };
    progress.opened = true;
    if !progress.before.contains_key(&step.name.value) {
        note_before(lab, progress, snapshot);
    }
}

/// The lab after its first `steps` steps and this many `actions` of the next one. The checks are those of the set-up.
pub fn stage_within(lab: &Lab, steps: usize, actions: usize) -> Lab {
    let mut staged = lab.clone();
    for action in actions_before(lab, steps, actions) {
        advance(&mut staged, lab, action);
    }
    staged
}

/// The actions of the first `steps` steps and this many `actions` of the next one, in order.
pub fn actions_before(lab: &Lab, steps: usize, actions: usize) -> impl Iterator<Item = &Located<Action>> {
    let whole = lab.steps.iter().take(steps).flat_map(|step| &step.actions);
    let begun = lab.steps.get(steps).into_iter().flat_map(move |step| step.actions.iter().take(actions));
    whole.chain(begun)
}

/// Changes a staged lab by one action; what is made again is made as `written` in the lab file.
pub fn advance(staged: &mut Lab, written: &Lab, action: &Located<Action>) {
    let at = &action.at;
    match &action.value {
        Action::Scale { workload, replicas } => {
            if let Some(workload) = staged.workloads.iter_mut().find(|one| *one.name == *workload) {
                workload.replicas = Some(Located::new(*replicas, at.clone()));
            }
        }
        Action::Set { workload, fields } => {
            if let Some(workload) = staged.workloads.iter_mut().find(|one| *one.name == *workload) {
                *workload = fields.applied_to(workload, at);
            }
        }
        Action::Deploy { workload } => {
            if let (Some(made), Some(written)) =
                (staged.workloads.iter_mut().find(|one| *one.name == *workload), written.workload(workload))
            {
                made.clone_from(written);
                made.deferred = false;
            }
        }
        Action::Delete { object } => {
            let name = staged.workload_of(object).map(|workload| workload.name.value.clone());
            if let Some(workload) = staged.workloads.iter_mut().find(|one| Some(&one.name.value) == name.as_ref()) {
                workload.deferred = true;
            }
        }
        Action::AddPool { pool } => {
            if let (Some(made), Some(written)) =
                (staged.pools.iter_mut().find(|one| *one.name == *pool), written.pool(pool))
            {
                made.clone_from(written);
                made.deferred = false;
            }
        }
        Action::RemovePool { pool } => {
            if let Some(pool) = staged.pools.iter_mut().find(|one| *one.name == *pool) {
                pool.deferred = true;
            }
        }
        Action::ScalePool { pool, nodes, autoscale } => {
            let Some(pool) = staged.pools.iter_mut().find(|one| *one.name == *pool) else { return };
            // A number of nodes without bounds is the author's decision, no longer the autoscaler's.
            if nodes.is_some() || autoscale.is_some() {
                pool.autoscale = autoscale.map(|bounds| Located::new(bounds, at.clone()));
            }
            let mut wanted = nodes.unwrap_or(pool.nodes.value);
            if let Some(bounds) = autoscale {
                wanted = wanted.clamp(bounds.min, bounds.max.max(bounds.min));
            }
            pool.set_nodes(Located::new(wanted, at.clone()));
        }
        Action::UpgradePool { pool, to, settings, .. } => {
            if let Some(pool) = staged.pools.iter_mut().find(|one| *one.name == *pool) {
                upgrade_pool(pool, to, at);
                // AKS keeps them for the pool.
                pool.upgrade = settings.or(pool.upgrade);
            }
        }
        Action::UpgradeControlPlane { kubernetes } => {
            upgrade_control_plane(staged, Located::new(*kubernetes, at.clone()));
        }
        // Other actions change nodes, single objects or time, which pools and workloads are not made of.
        _ => {}
    }
}

fn upgrade_pool(pool: &mut Pool, to: &UpgradeTarget, at: &Location) {
    match to {
        UpgradeTarget::Kubernetes(version) => {
            pool.kubernetes = Some(Located::new(*version, at.clone()));
            // A version comes with its image.
            pool.node_image = None;
        }
        UpgradeTarget::NodeImage => pool.node_image = None,
        UpgradeTarget::Size(size) => {
            pool.size = Some(Located::new(size.name.clone(), at.clone()));
            let disk = (pool.machine.os_disk_gib, pool.machine.os_disk_ephemeral);
            pool.machine = Machine::of_size(size);
            (pool.machine.os_disk_gib, pool.machine.os_disk_ephemeral) = disk;
        }
    }
}

/// Pools without a version of their own were made with the cluster's, and stay at that.
fn upgrade_control_plane(staged: &mut Lab, version: Located<KubernetesVersion>) {
    let before = staged.kubernetes.clone();
    for pool in staged.pools.iter_mut().filter(|pool| !pool.deferred && pool.kubernetes.is_none()) {
        pool.kubernetes.clone_from(&before);
    }
    if let Some(own) = &mut staged.aks.kubernetes {
        own.value = version.value;
    }
    staged.kubernetes = Some(version);
}
