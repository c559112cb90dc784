//! One command of az at work: klab's labs as Azure's clusters, what is remembered of them, and how az talks.

use std::sync::Arc;

use anstyle::{AnsiColor, Style};
use k8s_openapi::api::core::v1::ConfigMap;
use klab_lab::plan::wanted_version;
use klab_lab::spec::{KubernetesVersion, Pool, Provider};
use kube::Api;

use super::super::Context;
use crate::az::cluster::Cluster;
use crate::az::grammar::Given;
use crate::az::names::Site;
use crate::az::pool::Shown;
use crate::az::refusal::Refusal;
use crate::az::{versions, words};
use crate::event::{Event, Sink};
use crate::pool::Live;
use crate::pool::at_work::{PoolsAtWork, look_even_stopped};
use crate::state::azure::{Account, ClusterNote, Group};
use crate::ui::Ui;

/// The colour of az's warnings.
const CARE: Style = AnsiColor::Yellow.on_default();

/// What a command of az gives.
pub(super) type Answer = Result<serde_json::Value, Refusal>;

/// The ConfigMap of kube-system in which a cluster is told how its autoscaler is to decide; its keys are those of az.
pub(super) const AUTOSCALER_PROFILE: &str = "cluster-autoscaler-profile";

/// One command of az at work.
pub(super) struct Session<'c> {
    /// What klab's own work is done with; it says nothing to the terminal that az would not say.
    pub(super) context: Context,
    ui: &'c Ui,
    is_terse: bool,
}

/// Takes what klab's work has to say, and passes on what az would say.
struct Listener {
    ui: Ui,
    is_terse: bool,
}

impl Sink for Listener {
    fn event(&self, event: &Event) {
        match event {
            Event::Warned { message } if !self.is_terse => self.ui.say(&format!("{CARE}WARNING: {message}{CARE:#}")),
            // A line that lives as long as the work; az has nothing to say of what was done.
            Event::Started { .. } | Event::Progress { .. } | Event::Ended { .. } => self.ui.events().pass(event),
            Event::Finished { id, subject, .. } => {
                self.ui.events().pass(&Event::Ended { id: *id, subject: subject.clone() });
            }
            Event::Warned { .. } | Event::UnderWay { .. } => {}
        }
    }
}

/// A lab as a cluster of Azure.
pub(super) struct Known {
    /// The lab.
    pub(super) lab: String,
    /// Its resource group.
    pub(super) group: String,
    /// What it is called.
    pub(super) cluster: String,
    /// What is remembered of it.
    pub(super) note: ClusterNote,
    /// Who holds it.
    pub(super) provider: Provider,
}

impl Known {
    /// Where it is said to be.
    pub(super) fn site(&self, live: &Live) -> Site {
        Site { group: self.group.clone(), cluster: self.cluster.clone(), location: live.lab.aks.location.value.clone() }
    }

    /// Whether names mean this cluster; Azure does not look at capitals.
    fn is(&self, group: &str, cluster: &str) -> bool {
        self.group.eq_ignore_ascii_case(group) && self.cluster.eq_ignore_ascii_case(cluster)
    }
}

impl<'c> Session<'c> {
    /// A session at a terminal.
    pub(super) fn new(context: &'c Context, is_terse: bool) -> Self {
        let ui = &context.ui;
        let listener = Arc::new(Listener { ui: ui.clone(), is_terse });
        Self { context: context.talking_to(listener), ui, is_terse }
    }

    /// Warns as az does.
    pub(super) fn warn(&self, message: &str) {
        if !self.is_terse {
            self.ui.say(&format!("{CARE}WARNING: {message}{CARE:#}"));
        }
    }

    /// Writes text to stdout that is not a document.
    pub(super) fn print(&self, text: &str) {
        self.ui.result(text);
    }

    /// Asks before something that cannot be taken back.
    ///
    /// # Errors
    /// When nobody agrees.
    pub(super) fn confirm(&self, given: &Given, question: &str) -> Result<(), Refusal> {
        if given.has("--yes") || self.agrees(question) {
            return Ok(());
        }
        Err(Refusal::new("Operation cancelled."))
    }

    /// Whether the person does not want it; az then leaves without a word.
    pub(super) fn declines(&self, given: &Given, question: &str) -> bool {
        !given.has("--yes") && !self.agrees(question)
    }

    /// Whether the person at the terminal agrees.
    pub(super) fn agrees(&self, question: &str) -> bool {
        self.ui.agrees(question).unwrap_or_else(|| {
            self.warn("Unable to prompt for confirmation as no tty available. Use --yes.");
            false
        })
    }

    /// What is remembered beside the labs.
    pub(super) fn account(&self) -> Result<Account, Refusal> {
        Ok(Account::read(self.context.home.root())?)
    }

    /// Remembers it.
    pub(super) fn keep(&self, account: &Account) -> Result<(), Refusal> {
        Ok(account.write(self.context.home.root())?)
    }

    /// Remembers what was said of a cluster.
    pub(super) fn note(&self, known: &Known) -> Result<(), Refusal> {
        Ok(known.note.write(&self.context.home.lab(&known.lab))?)
    }

    /// The labs that are up, as clusters; those that really are in Azure are the real az's.
    pub(super) fn clusters(&self) -> Result<Vec<Known>, Refusal> {
        let mut all = self.everything()?;
        all.retain(|known| !known.provider.profile().has_managed_pools);
        Ok(all)
    }

    fn everything(&self) -> Result<Vec<Known>, Refusal> {
        let home = &self.context.home;
        let labs = home.labs().map_err(|error| crate::state::home::state_error(error, "read", home.root()))?;
        let mut all = Vec::new();
        for lab in labs {
            let Some(record) = self.context.record(&lab)? else { continue };
            let note = ClusterNote::read(&home.lab(&lab))?;
            let names = self.context.azure_names(&lab, record.provider)?;
            all.push(Known { lab, group: names.group, cluster: names.cluster, note, provider: record.provider });
        }
        Ok(all)
    }

    /// The cluster that `--resource-group` and the flag of its name mean.
    ///
    /// # Errors
    /// When there is none, or it really is in Azure.
    pub(super) fn cluster(&self, given: &Given, flag: &str) -> Result<Known, Refusal> {
        let (group, cluster) = (given.needed("--resource-group"), given.needed(flag));
        let mut all = self.everything()?;
        if let Some(at) = all.iter().position(|known| known.is(group, cluster)) {
            let known = all.swap_remove(at);
            if known.provider.profile().has_managed_pools {
                let message = format!("Cluster '{cluster}' is lab `{}`, which is on AKS itself.", known.lab);
                return Err(
                    Refusal::new(message).advise("The az of Azure is the one to ask: type az outside of klab az.")
                );
            }
            return Ok(known);
        }
        let has_group = self.group(group)?.is_some() || all.iter().any(|known| known.group.eq_ignore_ascii_case(group));
        let refusal = if has_group { words::no_cluster(group, cluster) } else { words::no_group(group) };
        let known: Vec<String> = all
            .iter()
            .filter(|known| !known.provider.profile().has_managed_pools)
            .map(|known| format!("{} in resource group {}", known.cluster, known.group))
            .collect();
        Err(match known.as_slice() {
            [] => refusal.advise("No lab is up; klab up or az aks create makes one."),
            known => refusal.advise(format!("klab's clusters are: {}.", known.join("; "))),
        })
    }

    /// The name of a group that was made, or that a lab is in, as it was typed first.
    pub(super) fn group(&self, group: &str) -> Result<Option<String>, Refusal> {
        if let Some(made) = self.account()?.groups.get(&group.to_lowercase()) {
            return Ok(Some(made.name.clone()));
        }
        let mut clusters = self.clusters()?.into_iter();
        Ok(clusters.find(|known| known.group.eq_ignore_ascii_case(group)).map(|known| known.group))
    }

    /// Remembers the group of a cluster that goes: in Azure a group outlives what is in it.
    pub(super) fn keep_group(&self, known: &Known) -> Result<(), Refusal> {
        let mut account = self.account()?;
        let key = known.group.to_lowercase();
        if account.groups.contains_key(&key) {
            return Ok(());
        }
        let location = self.look_even_stopped(known).map(|live| live.lab.aks.location.value).unwrap_or_default();
        account.groups.insert(key, Group { name: known.group.clone(), location, tags: None });
        self.keep(&account)
    }

    /// A cluster's pools as they are.
    ///
    /// # Errors
    /// When it does not answer, or is stopped.
    pub(super) fn look(&self, known: &Known) -> Result<Live, Refusal> {
        let live = self.look_even_stopped(known)?;
        if live.observed.stopped {
            let start = format!("az aks start -g {} -n {}", known.group, known.cluster);
            return Err(words::stopped(&format!("the managed cluster {}", known.cluster)).advise(start));
        }
        Ok(live)
    }

    /// The pools of a cluster, to be changed under its lab's lock.
    ///
    /// # Errors
    /// When it does not answer, or is stopped; when another klab works on it.
    pub(super) fn pools_at_work<'s>(&'s self, known: &Known) -> Result<PoolsAtWork<'s>, Refusal> {
        PoolsAtWork::of(&self.context, &known.lab, "az").map_err(|error| match self.look(known) {
            Err(refusal) if refusal.message.starts_with("(OperationNotAllowed)") => refusal,
            _ => error.into(),
        })
    }

    /// A cluster's pools, also of one that is stopped.
    ///
    /// # Errors
    /// When it does not answer.
    pub(super) fn look_even_stopped(&self, known: &Known) -> Result<Live, Refusal> {
        Ok(look_even_stopped(&self.context, &known.lab)?)
    }

    /// What a cluster's autoscaler was told.
    pub(super) fn autoscaler(&self, known: &Known) -> Result<std::collections::BTreeMap<String, String>, Refusal> {
        let kubeconfig = self.context.kubeconfig(&known.lab)?;
        let client = self.context.client(&known.lab, &kubeconfig)?;
        let maps: Api<ConfigMap> = Api::namespaced(client, "kube-system");
        let found = self.context.runtime()?.block_on(maps.get_opt(AUTOSCALER_PROFILE));
        let found = found.map_err(|error| Refusal::new(format!("could not read the autoscaler's profile: {error}")))?;
        Ok(found.and_then(|map| map.data).unwrap_or_default())
    }

    /// Tells a cluster's autoscaler how to decide.
    pub(super) fn tell_autoscaler(
        &self,
        known: &Known,
        profile: &std::collections::BTreeMap<String, String>,
    ) -> Result<(), Refusal> {
        let kubeconfig = self.context.kubeconfig(&known.lab)?;
        let client = self.context.client(&known.lab, &kubeconfig)?;
        let maps: Api<ConfigMap> = Api::namespaced(client, "kube-system");
        let failed = |error: kube::Error| Refusal::new(format!("could not write the autoscaler's profile: {error}"));
        let runtime = self.context.runtime()?;
        if profile.is_empty() {
            return match runtime.block_on(maps.delete(AUTOSCALER_PROFILE, &kube::api::DeleteParams::default())) {
                Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
                outcome => outcome.map(drop).map_err(failed),
            };
        }
        let map = serde_json::json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": { "name": AUTOSCALER_PROFILE, "namespace": "kube-system" },
            "data": profile,
        });
        let parameters = crate::apply::patch_parameters();
        // What is not said any more is to be gone, which a merge would leave.
        let whole = serde_json::json!([{ "op": "add", "path": "/data", "value": profile }]);
        let whole = serde_json::from_value(whole).map_err(|error| Refusal::new(error.to_string()))?;
        let patch = kube::api::Patch::<ConfigMap>::Json(whole);
        match runtime.block_on(maps.patch(AUTOSCALER_PROFILE, &parameters, &patch)) {
            Err(kube::Error::Api(status)) if status.code == 404 => {
                let map = serde_json::from_value(map).map_err(|error| Refusal::new(error.to_string()))?;
                runtime.block_on(maps.create(&kube::api::PostParams::default(), &map)).map(drop).map_err(failed)
            }
            outcome => outcome.map(drop).map_err(failed),
        }
    }
}

/// The version of a cluster's API server.
pub(super) fn version(live: &Live) -> KubernetesVersion {
    let wanted = wanted_version(&live.lab, None).and_then(|text| text.parse().ok());
    wanted.unwrap_or_else(versions::newest)
}

/// The pools that there are, for what is shown of them.
pub(super) struct Pools<'l> {
    live: &'l Live,
    wanted: Vec<Option<String>>,
}

impl<'l> Pools<'l> {
    /// The pools of a cluster.
    pub(super) fn of(live: &'l Live) -> Self {
        let wanted = there(live).map(|pool| wanted_version(&live.lab, Some(pool))).collect();
        Self { live, wanted }
    }

    /// Each as az shows it.
    pub(super) fn shown<'s>(&'s self, note: &'s ClusterNote) -> Vec<Shown<'s>> {
        let each = there(self.live).zip(&self.wanted);
        each.map(|(pool, wanted)| {
            let name = &pool.name.value;
            let seen = self.live.observed.pools.get(name).and_then(|seen| seen.kubernetes.as_deref());
            Shown { pool, version: seen, wanted: wanted.as_deref(), note: note.pools.get(name) }
        })
        .collect()
    }
}

fn there(live: &Live) -> impl Iterator<Item = &Pool> {
    live.lab.pools.iter().filter(|pool| !pool.deferred)
}

/// A cluster as az shows it, without what only its API tells.
pub(super) fn shown<'s>(site: &'s Site, known: &'s Known, live: &Live, pools: &'s Pools<'_>) -> Cluster<'s> {
    let version = version(live);
    Cluster {
        site,
        version,
        patched: live.observed.kubernetes.clone().unwrap_or_else(|| versions::patched(version)),
        pools: pools.shown(&known.note),
        note: &known.note,
        is_stopped: live.observed.stopped,
        autoscaler: std::collections::BTreeMap::new(),
    }
}
