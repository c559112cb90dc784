//! One command of az at work: klab's labs as Azure's clusters, what is remembered of them, and how az talks.

use std::cell::{OnceCell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use anstyle::{AnsiColor, Style};
use klab_lab::plan::wanted_version;
use klab_lab::spec::{DEFAULT_LOCATION, KubernetesVersion, LoadOptions, Pool, Provider, Reach};

use super::super::Context;
use super::lab_file::file_of;
use klab_az::cluster::Cluster;
use klab_az::commands::{Answer, Executor};
use klab_az::grammar::Arguments;
use klab_az::names::Site;
use klab_az::notes::{Account, ClusterNote, Group};
use klab_az::pool::Shown;
use klab_az::refusal::{Code, Refusal};
use klab_az::{messages, versions};
use klab_operations::background;
use klab_operations::event::{Event, Sink};
use klab_operations::pool::LivePools;
use klab_operations::pool::locked_pools::{LockedPools, look_even_stopped};
use klab_operations::provider::AzureNames;
use klab_operations::running_lab;
use klab_operations::state::azure;
use klab_operations::state::operation::{Operation, Task};
use klab_operations::ui::Ui;

/// The colour of az's warnings.
const CARE: Style = AnsiColor::Yellow.on_default();

/// One command of az at work.
pub(super) struct Session<'c> {
    /// What klab's own work is done with; it says nothing to the terminal that az would not say.
    pub(super) context: Context,
    ui: &'c Ui,
    is_terse: bool,
    account: OnceCell<Account>,
    /// Warnings that were given: none is given twice.
    said: RefCell<BTreeSet<String>>,
}

/// Takes what klab's work has to say, and passes on what az would say.
struct Listener {
    ui: Ui,
    is_terse: bool,
}

impl Sink for Listener {
    fn event(&self, event: &Event) {
        match event {
            Event::Warned { message, .. } if !self.is_terse => {
                self.ui.say(&format!("{CARE}WARNING: {message}{CARE:#}"));
            }
            // A line that lives as long as the work; az has nothing to say of what was done.
            Event::Started { .. } | Event::Progress { .. } | Event::Ended { .. } => self.ui.events().pass(event),
            Event::Finished { id, facts, .. } => {
                self.ui.events().pass(&Event::Ended { id: *id, facts: facts.clone() });
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
    /// Operations that are under way, or that failed without a command that waited for them.
    pub(super) operations: Vec<Operation>,
}

impl Known {
    /// Where it is said to be.
    pub(super) fn site(&self, live: &LivePools) -> Site {
        Site { group: self.group.clone(), cluster: self.cluster.clone(), location: live.lab.aks.location.value.clone() }
    }

    /// What goes on with a pool, or with the cluster, or failed: Azure's `provisioningState`.
    pub(super) fn state(&self, pool: Option<&str>) -> &'static str {
        let is_about = |operation: &&Operation| {
            let own = operation.pool.as_deref() == pool;
            own || operation.pool.is_none() && pool.is_some_and(|pool| operation.changes(pool))
        };
        match self.operations.iter().find(is_about) {
            None => "Succeeded",
            Some(Operation { failed: Some(_), .. }) => "Failed",
            Some(operation) => operation.doing.as_str(),
        }
    }

    /// Whether an operation is making it, or failed to.
    fn is_being_made(&self) -> bool {
        self.operations.iter().any(|operation| operation.tasks.contains(&Task::Make))
    }

    /// Whether it is in the group of this name; Azure does not look at capitals.
    pub(super) fn is_in(&self, group: &str) -> bool {
        self.group.eq_ignore_ascii_case(group)
    }

    /// Whether names mean this cluster; Azure does not look at capitals.
    pub(super) fn is(&self, group: &str, cluster: &str) -> bool {
        self.is_in(group) && self.cluster.eq_ignore_ascii_case(cluster)
    }
}

/// How a session performs a command.
pub(super) type Act = fn(&Session<'_>, &Arguments) -> Answer;

impl Executor for Session<'_> {
    type Act = Act;

    fn settings(&self) -> Result<&BTreeMap<String, String>, Refusal> {
        Ok(&self.account()?.settings)
    }

    fn warn(&self, message: &str) {
        if !self.is_terse && self.said.borrow_mut().insert(message.to_owned()) {
            self.ui.say(&format!("{CARE}WARNING: {message}{CARE:#}"));
        }
    }

    fn perform(&self, act: &Act, arguments: &Arguments) -> Answer {
        act(self, arguments)
    }
}

impl<'c> Session<'c> {
    /// A session at a terminal.
    pub(super) fn new(context: &'c Context, is_terse: bool) -> Self {
        let ui = &context.ui;
        let listener = Arc::new(Listener { ui: ui.clone(), is_terse });
        let (account, said) = (OnceCell::new(), RefCell::default());
        Self { context: context.talking_to(listener), ui, is_terse, account, said }
    }

    /// Writes text to stdout that is not a document.
    pub(super) fn print(&self, text: &str) {
        self.ui.result(text);
    }

    /// Asks before something that cannot be taken back.
    ///
    /// # Errors
    /// When the user does not agree.
    pub(super) fn confirm(&self, given: &Arguments, question: &str) -> Result<(), Refusal> {
        if given.has("--yes") || self.agrees(question) {
            return Ok(());
        }
        Err(Refusal::new("Operation cancelled."))
    }

    /// Whether the person does not want it; az then leaves without a word.
    pub(super) fn declines(&self, given: &Arguments, question: &str) -> bool {
        !given.has("--yes") && !self.agrees(question)
    }

    /// Whether the person at the terminal agrees.
    pub(super) fn agrees(&self, question: &str) -> bool {
        self.ui.agrees(question).unwrap_or_else(|| {
            self.warn("Unable to prompt for confirmation as no tty available. Use --yes.");
            false
        })
    }

    /// What was remembered beside the labs when the command began.
    pub(super) fn account(&self) -> Result<&Account, Refusal> {
        if let Some(account) = self.account.get() {
            return Ok(account);
        }
        let account = azure::read::<Account>(self.context.home.root())?;
        Ok(self.account.get_or_init(|| account))
    }

    /// Changes what is remembered beside the labs, as it is now: a command may have taken a while.
    pub(super) fn change_account(&self, change: impl FnOnce(&mut Account)) -> Result<(), Refusal> {
        let home = self.context.home.root();
        let before = azure::read::<Account>(home)?;
        let mut account = before.clone();
        change(&mut account);
        if account != before {
            azure::write(&account, home)?;
        }
        Ok(())
    }

    /// Remembers what was said of a cluster.
    pub(super) fn note(&self, known: &Known) -> Result<(), Refusal> {
        Ok(azure::write(&known.note, &self.context.home.lab(&known.lab))?)
    }

    /// The labs that are up, as clusters; those that really are in Azure are the real az's.
    pub(super) fn clusters(&self) -> Result<Vec<Known>, Refusal> {
        let mut all = self.everything()?;
        all.retain(|known| known.provider.profile().stands_in_for_azure());
        Ok(all)
    }

    /// Also those that really are in Azure. A lab that cannot be read is none of them, and that is said.
    fn everything(&self) -> Result<Vec<Known>, Refusal> {
        let home = &self.context.home;
        let labs =
            home.labs().map_err(|error| klab_operations::state::home::state_error(error, "read", home.root()))?;
        let known = labs.into_iter().filter_map(|lab| {
            self.known(&lab).unwrap_or_else(|error| {
                self.warn(&format!("Lab '{lab}' is left out: {error:#}"));
                None
            })
        });
        Ok(known.collect())
    }

    /// A lab that is up as a cluster; none on a cluster that klab did not make.
    fn known(&self, lab: &str) -> klab_operations::error::Result<Option<Known>> {
        let operations = background::operations(&self.context.home, lab)?;
        let is_being_made = operations.iter().any(|operation| operation.tasks.contains(&Task::Make));
        let provider = match self.context.record(lab)? {
            Some(record) => record.provider,
            None if is_being_made => self.context.load(&file_of(&self.context, lab), &LoadOptions::default())?.provider,
            None => return Ok(None),
        };
        if !provider.profile().makes_nodes {
            return Ok(None);
        }
        let note = azure::read::<ClusterNote>(&self.context.home.lab(lab))?;
        let AzureNames { group, cluster } = self.context.azure_names(lab, provider)?;
        Ok(Some(Known { lab: lab.to_owned(), group, cluster, note, provider, operations }))
    }

    /// The cluster that `--resource-group` and the flag of its name mean.
    ///
    /// # Errors
    /// When there is none, or it really is in Azure.
    pub(super) fn cluster(&self, given: &Arguments, flag: &str) -> Result<Known, Refusal> {
        let (group, cluster) = (given.needed("--resource-group"), given.needed(flag));
        let mut all = self.everything()?;
        if let Some(at) = all.iter().position(|known| known.is(group, cluster)) {
            let known = all.swap_remove(at);
            if known.provider.profile().has_managed_pools {
                let message = format!("Cluster '{cluster}' is lab `{}`, which is on AKS itself.", known.lab);
                return Err(Refusal::new(message).advise("Ask the real az: type az without klab."));
            }
            return Ok(known);
        }
        let has_group = self.has_made(group)? || all.iter().any(|known| known.is_in(group));
        let refusal = if has_group { messages::no_cluster(group, cluster) } else { messages::no_group(group) };
        let known: Vec<String> = all
            .iter()
            .filter(|known| known.provider.profile().stands_in_for_azure())
            .map(|known| format!("{} in resource group {}", known.cluster, known.group))
            .collect();
        Err(match known.as_slice() {
            [] => refusal.advise("No lab is up; klab up or az aks create makes one."),
            known => refusal.advise(format!("klab's clusters are: {}.", known.join("; "))),
        })
    }

    /// Whether a group was made by itself.
    pub(super) fn has_made(&self, group: &str) -> Result<bool, Refusal> {
        Ok(self.account()?.groups.contains_key(&group.to_lowercase()))
    }

    /// A group that was made, or that a lab is in, with its name as it was typed first.
    pub(super) fn group(&self, group: &str) -> Result<Option<Group>, Refusal> {
        if let Some(made) = self.account()?.groups.get(&group.to_lowercase()) {
            return Ok(Some(made.clone()));
        }
        Ok(self.clusters()?.iter().find(|known| known.is_in(group)).map(|known| self.group_of(known)))
    }

    /// The group of a cluster that was made with it: its location is the lab's, which may be gone.
    pub(super) fn group_of(&self, known: &Known) -> Group {
        let reach = Reach { outside: false, environment: true };
        let options = LoadOptions { reach, ..LoadOptions::default() };
        let lab = running_lab::lab(&self.context, known.lab.clone(), None, options);
        let location = lab.map_or_else(|_| DEFAULT_LOCATION.to_owned(), |lab| lab.aks.location.value);
        Group { name: known.group.clone(), location, tags: None }
    }

    /// Remembers the group of a cluster that goes: in Azure a group outlives what is in it.
    pub(super) fn keep_group(&self, known: &Known) -> Result<(), Refusal> {
        let group = self.group_of(known);
        self.change_account(|account| {
            account.groups.entry(group.name.to_lowercase()).or_insert(group);
        })
    }

    /// A cluster's pools as they are.
    ///
    /// # Errors
    /// When it does not answer, or is stopped.
    pub(super) fn look(&self, known: &Known) -> Result<LivePools, Refusal> {
        let live = self.look_even_stopped(known)?;
        if live.observed.stopped {
            let start = format!("az aks start -g {} -n {}", known.group, known.cluster);
            return Err(messages::stopped(&format!("the managed cluster {}", known.cluster)).advise(start));
        }
        Ok(live)
    }

    /// The pools of a cluster, to be changed under its lab's lock.
    ///
    /// # Errors
    /// When it does not answer, or is stopped; when another klab works on it.
    pub(super) fn pools_at_work<'s>(&'s self, known: &Known) -> Result<LockedPools<'s>, Refusal> {
        LockedPools::of(&self.context, &known.lab, "az").map_err(|error| match self.look(known) {
            Err(refusal) if refusal.code == Some(Code::OperationNotAllowed) => refusal,
            _ => error.into(),
        })
    }

    /// Waits until nothing goes on with a cluster any more.
    ///
    /// # Errors
    /// When that cannot be seen.
    pub(super) fn wait_until_gone(&self, known: &Known) -> Answer {
        background::wait(&self.context.home, &known.lab, || {})?;
        Ok(serde_json::Value::Null)
    }

    /// A cluster's pools as they will be when all operations are done: what Azure shows meanwhile.
    ///
    /// # Errors
    /// When it does not answer.
    pub(super) fn displayed(&self, known: &Known) -> Result<LivePools, Refusal> {
        if known.is_being_made() && self.context.record(&known.lab)?.is_none_or(|_| known.state(None) == "Creating") {
            let lab = self.context.load(&file_of(&self.context, &known.lab), &LoadOptions::default())?;
            return Ok(LivePools::planned(lab));
        }
        let mut live = self.look_even_stopped(known)?;
        let tasks = known.operations.iter().flat_map(|operation| &operation.tasks);
        let puts = tasks.filter_map(|task| match task {
            Task::Put { pool, keys } => Some((pool.as_str(), keys.clone())),
            _ => None,
        });
        // What breaks a rule by now is shown as it is.
        if let Ok(lab) = live.with_all(puts) {
            live.lab = lab;
        }
        Ok(live)
    }

    /// A cluster's pools, also of one that is stopped.
    ///
    /// # Errors
    /// When it does not answer.
    pub(super) fn look_even_stopped(&self, known: &Known) -> Result<LivePools, Refusal> {
        Ok(look_even_stopped(&self.context, &known.lab)?)
    }
}

/// The version of a cluster's API server.
pub(super) fn version(live: &LivePools) -> KubernetesVersion {
    let wanted = wanted_version(&live.lab, None).and_then(|text| text.parse().ok());
    wanted.unwrap_or_else(versions::newest)
}

/// The pools that there are, for what is shown of them.
pub(super) struct Pools<'l> {
    live: &'l LivePools,
    wanted: Vec<Option<String>>,
}

impl<'l> Pools<'l> {
    /// The pools of a cluster.
    pub(super) fn of(live: &'l LivePools) -> Self {
        let wanted = there(live).map(|pool| wanted_version(&live.lab, Some(pool))).collect();
        Self { live, wanted }
    }

    /// Each as az shows it.
    pub(super) fn shown<'s>(&'s self, known: &'s Known) -> Vec<Shown<'s>> {
        let each = there(self.live).zip(&self.wanted);
        each.map(|(pool, wanted)| {
            let name = &pool.name.value;
            let seen = self.live.observed.pools.get(name).and_then(|seen| seen.kubernetes.as_deref());
            let (note, state) = (known.note.pools.get(name), known.state(Some(name)));
            Shown { pool, version: seen, wanted: wanted.as_deref(), note, state }
        })
        .collect()
    }
}

fn there(live: &LivePools) -> impl Iterator<Item = &Pool> {
    live.lab.pools.iter().filter(|pool| !pool.deferred)
}

/// A cluster as az shows it.
pub(super) fn shown<'s>(site: &'s Site, known: &'s Known, live: &'s LivePools, pools: &'s Pools<'_>) -> Cluster<'s> {
    let version = version(live);
    Cluster {
        site,
        version,
        patched: live.observed.kubernetes.clone().unwrap_or_else(|| versions::patched(version)),
        pools: pools.shown(known),
        note: &known.note,
        is_stopped: live.observed.stopped,
        state: known.state(None),
        autoscaler: &live.observed.autoscaler,
    }
}
