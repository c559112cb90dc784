//! The pools of a lab that is up: looked at, and changed under the lab's lock and journal.

use std::collections::BTreeMap;
use std::path::Path;

use klab_lab::plan::{Action, Declared, ObservedPool};
use klab_lab::spec::{KubernetesVersion, Lab, LoadOptions, Located, Reach, UpgradeKind};
use toml::Table;

use super::changed_pools::ChangedPools;
use super::live_pools::LivePools;
use super::perform::{actions, perform};
use super::request::{PoolRequest, Wanted};
use crate::context::Context;
use crate::error::Result;
use crate::event::{About, Events, Verb};
use crate::locked_lab::LockedLab;
use crate::provider::{Options, Provider, Work, refuse_absent, refuse_foreign, refuse_without_recreation, upgrading};
use crate::running_lab;
use crate::stage::stage;
use crate::state::Progress;

/// The pools of a lab as they are.
///
/// # Errors
/// When the lab is not up, or its cluster is gone, paused or silent.
pub fn look(context: &Context, lab: &str) -> Result<LivePools> {
    look_through(context, lab).map(|(_, live)| live)
}

/// As [`look`], also where the machines are stopped.
///
/// # Errors
/// When the lab is not up, or its cluster is gone or silent.
pub fn look_even_stopped(context: &Context, lab: &str) -> Result<LivePools> {
    seen(context, lab).map(|(_, live)| live)
}

fn look_through(context: &Context, name: &str) -> Result<(Box<dyn Provider>, LivePools)> {
    let (provider, live) = seen(context, name)?;
    refuse_absent(name, &live.observed)?;
    Ok((provider, live))
}

fn seen(context: &Context, name: &str) -> Result<(Box<dyn Provider>, LivePools)> {
    let reach = Reach { outside: false, environment: true };
    let lab = running_lab::lab(context, name.to_owned(), None, LoadOptions { reach, ..LoadOptions::default() })?;
    let folder = context.home.lab(name);
    let done = Progress::of(&folder, lab.steps.len())?.done;
    refuse_foreign(
        &lab,
        "pools are changed by those who made them",
        "the cluster's owner adds and removes nodes; `klab status` shows those there are",
    )?;
    let provider = context.provider(lab.provider)?;
    let live = live(provider.as_ref(), &lab, done, &folder)?;
    Ok((provider, live))
}

/// The pools of a lab after `done` steps, as its provider sees them; `folder` holds what klab keeps of the lab.
///
/// # Errors
/// When the cluster is gone or silent, or the folder cannot be read.
pub fn live(provider: &dyn Provider, lab: &Lab, done: usize, folder: &Path) -> Result<LivePools> {
    let mut staged = stage(lab, done);
    let kept = ChangedPools::read(folder)?;
    if let Some(version) = kept.kubernetes() {
        staged.kubernetes = Some(Located::new(version, staged.name.at.clone()));
    }
    let name = &lab.name.value;
    let observed = provider.observe(name, Some(&staged))?;
    if !observed.exists {
        refuse_absent(name, &observed)?;
    }
    LivePools::of(&staged, &kept, observed)
}

/// Keeps what a pool is to be, and gives what has to be done for it.
///
/// # Errors
/// When the pool is being upgraded to something else, or the folder cannot be written.
pub fn intend(live: &LivePools, wanted: &Wanted, folder: &Path) -> Result<Vec<Action>> {
    let Wanted { lab, pool, keys, upgrade, no_wait } = wanted;
    let is_there = lab.pool(pool).is_some_and(|pool| !pool.deferred);
    if live.is_upgrading(pool) && is_there && upgrade.is_none() && !asks_for_version(live, wanted) {
        return Err(upgrading(pool));
    }
    let is_empty = lab.pool(pool).is_some_and(|pool| pool.nodes.value == 0) && live.names().contains(&pool.as_str());
    let is_seen = live.observed.pools.contains_key(pool);
    let mut observed = live.observed.clone();
    let stays = |seen: &&mut ObservedPool| (!seen.failed || seen.is_aborted()) && !asks_for_version(live, wanted);
    if let Some(seen) = observed.pools.get_mut(pool).filter(stays) {
        // Nodes that are older than the control plane stay so until they are upgraded.
        seen.kubernetes = None;
    }
    let actions = if !is_seen && is_empty { Vec::new() } else { actions(lab, pool, &observed, *upgrade, *no_wait) };
    let mut kept = ChangedPools::read(folder)?;
    kept.put(pool, keys.clone());
    // Before it is done: of a pool that is half made, its nodes say less than what was typed.
    kept.write(folder)?;
    Ok(actions)
}

/// Stops the upgrade of a pool where it is. Another klab may hold the lab's lock meanwhile, to wait for that upgrade.
///
/// # Errors
/// When there is no such pool, or the provider cannot.
pub fn abort(provider: &dyn Provider, live: &LivePools, pool: &str, events: &Events) -> Result<()> {
    live.keys(pool)?;
    let what = format!("the upgrade of pool {pool}");
    let activity = events.about(About::Pool, pool).start(Verb::AbortUpgrade, what.clone());
    provider.abort_upgrade(&live.lab, pool)?;
    activity.finish(what);
    Ok(())
}

/// As [`abort`], of a lab that is up.
///
/// # Errors
/// As [`abort`], and as [`look`].
pub fn abort_at(context: &Context, lab: &str, pool: &str) -> Result<()> {
    let (provider, live) = look_through(context, lab)?;
    abort(provider.as_ref(), &live, pool, &context.ui.events())
}

/// Whether the version of a pool's nodes is to be another one.
fn asks_for_version(live: &LivePools, wanted: &Wanted) -> bool {
    let before = live.keys(&wanted.pool).ok().and_then(|keys| keys.get("kubernetes"));
    wanted.upgrade == Some(UpgradeKind::Kubernetes) || before != wanted.keys.get("kubernetes")
}

/// Does what has to be done for a pool.
///
/// # Errors
/// As the provider says.
pub fn bring_about(
    provider: &dyn Provider,
    live: &LivePools,
    wanted: &Wanted,
    actions: Vec<Action>,
    work: &mut Work<'_>,
) -> Result<()> {
    let Wanted { lab, pool, .. } = wanted;
    let seen = live.observed.pools.get(pool);
    let before = seen.map_or_else(|| lab.pool(pool).map(Declared::of), |seen| Some(seen.declared.clone()));
    perform(provider, lab, pool, &before.unwrap_or_default(), &live.observed, actions, work)
}

/// The pools of a lab whose lock is held.
pub struct LockedPools<'c> {
    context: &'c Context,
    lab: LockedLab<'c>,
    provider: Box<dyn Provider>,
    /// The pools as they are.
    pub live: LivePools,
}

impl<'c> LockedPools<'c> {
    /// Takes a lab that is up.
    ///
    /// # Errors
    /// As [`look`], and when another klab works on the lab.
    pub fn of(context: &'c Context, name: &str, command: &'static str) -> Result<Self> {
        let lab = LockedLab::existing(context, name, command)?.ok_or_else(|| context.not_up(name))?;
        let (provider, live) = look_through(context, name)?;
        Ok(Self { context, lab, provider, live })
    }

    /// Makes a pool of these keys, or makes one what they say. Says whether anything had to be done.
    ///
    /// # Errors
    /// When that breaks a rule, or the provider cannot.
    pub fn put(&mut self, pool: &str, keys: Table) -> Result<bool> {
        self.bring_about(&Wanted::put(&self.live, pool, keys)?)
    }

    /// Removes a pool.
    ///
    /// # Errors
    /// When there is none of that name, the cluster cannot be without it, or the provider cannot.
    pub fn remove(&mut self, pool: &str) -> Result<bool> {
        self.bring_about(&Wanted::without(&self.live, pool)?)
    }

    /// Does what was asked of a pool. Says whether anything had to be done.
    ///
    /// # Errors
    /// As [`LockedPools::put`] and [`LockedPools::remove`].
    pub fn change(&mut self, asked: &PoolRequest) -> Result<bool> {
        asked.wanted(&self.live)?.map_or(Ok(false), |wanted| self.bring_about(&wanted))
    }

    /// Brings the control plane to another version than its file says; the nodes stay as they are.
    ///
    /// # Errors
    /// When the provider cannot, or that cannot be kept.
    pub fn upgrade_control_plane(&mut self, from: KubernetesVersion, version: KubernetesVersion) -> Result<()> {
        let upgrade = Action::UpgradeCluster { from: from.to_string(), to: version.to_string() };
        refuse_without_recreation(self.provider.as_ref(), &self.live.lab)?;
        let mut work = self.lab.work()?;
        self.provider.perform_all(&self.live.lab, &[upgrade], &Options::default(), &mut work)?;
        let folder = self.context.home.lab(&self.live.lab.name.value);
        let mut kept = ChangedPools::read(&folder)?;
        kept.set_kubernetes(version);
        kept.write(&folder)
    }

    /// Gives the cluster's autoscaler these settings, and no others.
    ///
    /// # Errors
    /// When the provider cannot.
    pub fn set_autoscaler(&mut self, settings: BTreeMap<String, String>) -> Result<()> {
        if settings == self.live.observed.autoscaler {
            return Ok(());
        }
        let changes = settings.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let mut wanted = self.live.lab.clone();
        let at = wanted.name.at.clone();
        let located = |(name, value)| (name, Located::new(value, at.clone()));
        wanted.autoscaler = settings.into_iter().map(located).collect();
        let mut work = self.lab.work()?;
        let action = Action::SetAutoscaler { changes };
        self.provider.perform_all(&wanted, &[action], &Options::default(), &mut work)
    }

    fn bring_about(&mut self, wanted: &Wanted) -> Result<bool> {
        let folder = self.context.home.lab(&wanted.lab.name.value);
        let actions = intend(&self.live, wanted, &folder)?;
        if actions.is_empty() {
            return Ok(false);
        }
        let pool = &wanted.pool;
        self.lab
            .interruption_leaves(format!("pool `{pool}` may be changed in part; `klab pool list` shows what there is"));
        let mut work = self.lab.work()?;
        bring_about(self.provider.as_ref(), &self.live, wanted, actions, &mut work)?;
        Ok(true)
    }
}
