//! The pools of a lab that is up: looked at, and changed under the lab's lock and journal.

use std::collections::BTreeMap;

use klab_lab::plan::{Action, Declared};
use klab_lab::spec::{KubernetesVersion, Lab, LoadOptions, Located, Reach};
use toml::Table;

use super::kept::Kept;
use super::live::{Live, deferred};
use super::perform::{actions, perform};
use crate::applied;
use crate::at_work::LabAtWork;
use crate::context::Context;
use crate::error::Result;
use crate::lesson::stage;
use crate::provider::{Options, Provider, refuse_absent, refuse_foreign};
use crate::state::Progress;

/// The pools of a lab as they are.
///
/// # Errors
/// When the lab is not up, or its cluster is gone, paused or silent.
pub(crate) fn look(context: &Context, lab: &str) -> Result<Live> {
    look_through(context, lab).map(|(_, live)| live)
}

/// As [`look`], also where the machines are stopped.
///
/// # Errors
/// When the lab is not up, or its cluster is gone or silent.
pub(crate) fn look_even_stopped(context: &Context, lab: &str) -> Result<Live> {
    seen(context, lab).map(|(_, live)| live)
}

fn look_through(context: &Context, name: &str) -> Result<(Box<dyn Provider>, Live)> {
    let (provider, live) = seen(context, name)?;
    refuse_absent(name, &live.observed)?;
    Ok((provider, live))
}

fn seen(context: &Context, name: &str) -> Result<(Box<dyn Provider>, Live)> {
    let reach = Reach { outside: false, environment: true };
    let lab = applied::lab(context, name.to_owned(), None, LoadOptions { reach, ..LoadOptions::default() })?;
    let folder = context.home.lab(name);
    let mut staged = stage(&lab, Progress::of(&folder, lab.steps.len())?.done);
    refuse_foreign(
        &lab,
        "pools are changed by those who made them",
        "the cluster's owner adds and removes nodes; `klab status` shows those there are",
    )?;
    let kept = Kept::read(&folder)?;
    if let Some(version) = kept.kubernetes() {
        staged.kubernetes = Some(Located::new(version, staged.name.at.clone()));
    }
    let provider = context.provider(lab.provider)?;
    let observed = provider.observe(name, Some(&staged))?;
    if !observed.exists {
        refuse_absent(name, &observed)?;
    }
    let live = Live::of(&staged, &kept, observed)?;
    Ok((provider, live))
}

/// The pools of a lab whose lock is held.
pub(crate) struct PoolsAtWork<'c> {
    context: &'c Context,
    lab: LabAtWork<'c>,
    provider: Box<dyn Provider>,
    /// The pools as they are.
    pub(crate) live: Live,
}

impl<'c> PoolsAtWork<'c> {
    /// Takes a lab that is up.
    ///
    /// # Errors
    /// As [`look`], and when another klab works on the lab.
    pub(crate) fn of(context: &'c Context, name: &str, command: &'static str) -> Result<Self> {
        let lab = LabAtWork::existing(context, name, command)?.ok_or_else(|| context.not_up(name))?;
        let (provider, live) = look_through(context, name)?;
        Ok(Self { context, lab, provider, live })
    }

    /// Makes a pool of these keys, or makes one what they say. Says whether anything had to be done.
    ///
    /// # Errors
    /// When that breaks a rule, or the provider cannot.
    pub(crate) fn put(&mut self, pool: &str, keys: Table) -> Result<bool> {
        let wanted = self.live.with(pool, keys.clone())?;
        self.bring_about(&wanted, pool, keys)
    }

    /// Removes a pool.
    ///
    /// # Errors
    /// When there is none of that name, the cluster cannot be without it, or the provider cannot.
    pub(crate) fn remove(&mut self, pool: &str) -> Result<bool> {
        let wanted = self.live.without(pool)?;
        let mut keys = self.live.keys(pool)?.clone();
        deferred(&mut keys);
        self.bring_about(&wanted, pool, keys)
    }

    /// Brings the control plane to another version than its file says; the nodes stay as they are.
    ///
    /// # Errors
    /// When the provider cannot, or that cannot be kept.
    pub(crate) fn upgrade_control_plane(&mut self, from: KubernetesVersion, version: KubernetesVersion) -> Result<()> {
        let upgrade = Action::UpgradeCluster { from: from.to_string(), to: version.to_string() };
        let mut work = self.lab.work()?;
        self.provider.perform_all(&self.live.lab, &[upgrade], &Options::default(), &mut work)?;
        let folder = self.context.home.lab(&self.live.lab.name.value);
        let mut kept = Kept::read(&folder)?;
        kept.set_kubernetes(version);
        kept.write(&folder)
    }

    /// Gives the cluster's autoscaler these settings, and no others.
    ///
    /// # Errors
    /// When the provider cannot.
    pub(crate) fn set_autoscaler(&mut self, settings: BTreeMap<String, String>) -> Result<()> {
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

    fn bring_about(&mut self, wanted: &Lab, pool: &str, keys: Table) -> Result<bool> {
        let observed = &self.live.observed;
        let seen = observed.pools.get(pool);
        let is_empty = wanted.pool(pool).is_some_and(|pool| pool.nodes.value == 0) && self.live.names().contains(&pool);
        let actions = if seen.is_none() && is_empty { Vec::new() } else { actions(wanted, pool, observed) };
        let name = &wanted.name.value;
        let folder = self.context.home.lab(name);
        let mut kept = Kept::read(&folder)?;
        kept.put(pool, keys);
        // Before it is done: of a pool that is half made, its nodes say less than what was typed.
        kept.write(&folder)?;
        if actions.is_empty() {
            return Ok(false);
        }
        self.lab
            .interruption_leaves(format!("pool `{pool}` may be changed in part; `klab pool list` shows what there is"));
        let before = seen.map_or_else(|| wanted.pool(pool).map(Declared::of), |seen| Some(seen.declared.clone()));
        let mut work = self.lab.work()?;
        perform(self.provider.as_ref(), wanted, pool, &before.unwrap_or_default(), observed, actions, &mut work)?;
        Ok(true)
    }
}
