//! Labs on Azure Kubernetes Service, through the `az` command.

mod account;
mod answer;
mod arguments;
pub mod az;
mod az_files;
mod azure_site;
mod azure_state;
mod catalogue;
mod cluster;
mod converge;
mod credentials;
mod drain;
mod expired;
mod failure;
pub mod live;
mod operation;
mod pools;
mod preflight;
mod printed;
mod queries;
mod reason;
mod region;
mod registry;
mod removal;
mod replace;
mod request;
mod requested_pools;
mod restore;
mod scheduler;
mod site;
mod typed;
mod wait;

use std::cell::RefCell;
use std::path::PathBuf;

use jiff::Timestamp;

use self::account::Account;
use self::answer::ToolVersion;
use self::az::{Az, Ledger, Pace};
use self::azure_site::AzureSite;
use self::azure_state::AzureState;
pub use self::expired::Expired;
use self::preflight::Offer;
use self::requested_pools::RequestedPools;
use self::site::{LabSite, Site};
pub use self::typed::pool_commands;
use super::{AzureNames, Foreign, Machines, Options, Provider, Work, refuse_absent};
use crate::client::are_credentials_refused;
use crate::error::{Code, Error, Kind, Result};
use crate::event::{About, Verb};
use crate::state::Home;
use klab_lab::plan::{Action, Observed, plan};
use klab_lab::spec::Lab;

/// Labs on AKS.
pub struct Aks {
    home: Home,
    az: Az,
    /// az's own folder, where klab may read who is logged in and how old az is.
    az_folder: Option<PathBuf>,
    known: RefCell<Option<Known>>,
}

/// What was seen of a lab during this command.
#[derive(Debug, Clone)]
struct Known {
    place: AzureSite,
    world: AzureState,
}

impl Aks {
    /// The provider for a klab home, with the az of the environment (`KLAB_AZ`, else `az` on PATH).
    pub fn new(home: &Home) -> Self {
        Self {
            home: home.clone(),
            az: Az::from_environment(),
            az_folder: az_files::folder(),
            known: RefCell::new(None),
        }
    }

    /// The provider with a certain az and pace.
    pub fn with(home: &Home, program: impl Into<std::ffi::OsString>, pace: Pace) -> Self {
        Self { home: home.clone(), az: Az::new(program, pace), az_folder: None, known: RefCell::new(None) }
    }

    /// The same provider, whose az has its login in a folder (`AZURE_CONFIG_DIR`).
    #[must_use]
    pub fn logged_in_at(self, folder: impl Into<PathBuf>) -> Self {
        Self { az_folder: Some(folder.into()), ..self }
    }

    /// When klab was inside az or waiting for Azure.
    pub fn ledger(&self) -> Ledger {
        self.az.ledger.clone()
    }

    /// az for a lab: on its subscription, with its transcript.
    fn az_for(&self, place: &AzureSite) -> Az {
        self.az.on(&place.subscription).in_folder(self.home.lab(&place.lab))
    }

    /// A site with the lab that is made there, as of now.
    fn with_lab<'a>(&self, site: Site<'a>, lab: &'a Lab) -> LabSite<'a> {
        let tags = site.place.tags(lab, Timestamp::now());
        let folder = self.home.lab(&lab.name.value);
        let asked = RequestedPools::read(&folder, site.place, Some(lab));
        LabSite { site, lab, tags, asked, kubeconfig: credentials::path(&folder) }
    }

    /// What the plan compares with the lab file, which may be gone.
    fn observed(&self, world: &AzureState, place: &AzureSite, lab: Option<&Lab>) -> Observed {
        let asked = RequestedPools::read(&self.home.lab(&place.lab), place, lab);
        converge::observed(world, place, &asked, lab)
    }

    /// az before it is known where the lab is.
    fn az_before(&self, lab: &str, subscription: Option<&str>) -> Az {
        let az = self.az.in_folder(self.home.lab(lab));
        subscription.map_or(az.clone(), |subscription| az.on(subscription))
    }

    /// The subscription that is meant and who is logged in: as az's own file says, else as az says.
    fn account(&self, az: &Az, subscription: Option<&str>) -> Result<Account> {
        if let Some(account) = self.az_folder.as_deref().and_then(|folder| az_files::account(folder, subscription)) {
            return Ok(account);
        }
        az.ask(&arguments::account_show())
            .map_err(|failure| failure.into_error("could not find out which Azure subscription is meant", None))
    }

    /// The version of az, where its own file says it.
    fn az_version(&self) -> Option<ToolVersion> {
        self.az_folder.as_deref().and_then(az_files::version)
    }

    /// Where the lab is: as remembered, else as the lab file says.
    fn place_of_lab(&self, lab: &Lab) -> Result<AzureSite> {
        let name = &lab.name.value;
        let Some(place) = AzureSite::read(&self.home.lab(name)) else {
            let subscription = lab.aks.subscription.as_deref();
            let account = self.account(&self.az_before(name, subscription), subscription)?;
            return Ok(AzureSite::of_lab(lab, &account));
        };
        let location = &lab.aks.location.value;
        let group = lab.aks.resource_group.as_ref().map(|group| group.value.as_str());
        let same_group = match group {
            Some(group) => !place.own_group && place.group.eq_ignore_ascii_case(group),
            None => place.own_group,
        };
        if place.location != *location || !same_group {
            let message = format!(
                "lab `{name}` is up in resource group `{}` in {}; its file now names another place",
                place.group, place.location
            );
            return Err(
                Error::message(Code::UpElsewhere, message).hint(format!("`klab down {name}` removes it there first"))
            );
        }
        Ok(place)
    }

    /// Where a lab is of which only the name is known.
    fn place_of_name(&self, lab: &str) -> Result<AzureSite> {
        match AzureSite::read(&self.home.lab(lab)) {
            Some(place) => Ok(place),
            None => Ok(AzureSite::of_name(lab, &self.account(&self.az_before(lab, None), None)?, "")),
        }
    }

    /// What is in Azure, looked at once a command.
    fn look(&self, place: AzureSite) -> Result<Known> {
        if let Some(known) = self.known.borrow().as_ref().filter(|known| known.place == place) {
            return Ok(known.clone());
        }
        let az = self.az_for(&place);
        let site = Site { az: &az, place: &place };
        let mut world =
            if self.remembers(&place.lab) { AzureState::look(site)? } else { AzureState::look_at_new(site)? };
        let cluster = world.cluster.as_ref().filter(|cluster| cluster.fqdn.is_some());
        let kubeconfig = credentials::path(&self.home.lab(&place.lab));
        world.came_up = cluster.is_some_and(|cluster| credentials::reaches(&kubeconfig, Some(cluster)));
        let known = Known { place, world };
        *self.known.borrow_mut() = Some(known.clone());
        Ok(known)
    }

    /// Whether a lab was made from this machine.
    fn remembers(&self, lab: &str) -> bool {
        AzureSite::read(&self.home.lab(lab)).is_some()
    }

    fn forget(&self) {
        *self.known.borrow_mut() = None;
    }

    /// What keeps this many labs of a file from being made.
    fn problems(&self, lab: &Lab, seats: u32) -> Result<Vec<Error>> {
        let limits = preflight::limits(lab);
        if !limits.is_empty() {
            return Ok(limits);
        }
        let (known, early) = if self.remembers(&lab.name.value) {
            (self.place_of_lab(lab).and_then(|place| self.look(place))?, None)
        } else {
            // Of a lab that is new, everything has to be asked: what the region offers while the lab is looked for.
            let az = self.az_before(&lab.name.value, lab.aks.subscription.as_deref());
            let version = self.az_version();
            std::thread::scope(|scope| {
                let offer = scope.spawn(|| Offer::ask(&az, lab, version));
                let known = self.place_of_lab(lab).and_then(|place| self.look(place));
                known.map(|known| (known, offer.join().ok().flatten()))
            })?
        };
        let Known { place, world } = &known;
        if world.cluster.as_ref().is_some_and(answer::ManagedCluster::is_stopped) {
            let message = format!("lab `{}` is paused", place.lab);
            return Ok(vec![Error::message(Code::PausedLab, message).hint(format!("klab resume {}", place.lab))]);
        }
        if !place.own_group && world.group.is_none() {
            let message = format!("there is no resource group `{}`", place.group);
            let command = format!(
                "az group create -n {} -l {} --subscription {}",
                place.group, place.location, place.subscription
            );
            return Ok(vec![Error::message(Code::AzureResource, message).hint(command)]);
        }
        let actions = plan(lab, &self.observed(world, place, Some(lab)));
        if actions.iter().all(|action| matches!(action, Action::UpdatePool { .. } | Action::RemovePool { .. })) {
            return Ok(Vec::new());
        }
        let offer = early.or_else(|| Offer::ask(&self.az_for(place), lab, self.az_version()));
        let offer =
            offer.ok_or_else(|| Error::message(Code::KlabFault, "could not run several calls of az at once"))?;
        Ok(offer.problems(lab, &actions, place, seats))
    }
}

/// What an error leaves in Azure, as far as Azure says, because it costs money; a refusal leaves what was there.
fn with_what_is_left(mut error: Error, site: Site<'_>) -> Error {
    if error.kind() == Kind::Usage {
        return error;
    }
    match removal::remains(site) {
        Ok(left) => {
            // Azure says it of group and cluster as they are now; and what was in them is gone with them.
            error.left_behind.retain(|words| !left.is_empty() && words.starts_with("pool"));
            error.left_behind.extend(left);
        }
        Err(_) => {
            error
                .left_behind
                .push(format!("whatever there is of {}: Azure does not say", removal::subject(site.place)));
        }
    }
    error
}

impl Provider for Aks {
    fn preflight(&self, lab: &Lab) -> Vec<Error> {
        self.preflight_class(lab, 1)
    }

    fn preflight_class(&self, lab: &Lab, seats: u32) -> Vec<Error> {
        self.problems(lab, seats).unwrap_or_else(|error| vec![error])
    }

    fn refuses_class(&self, lab: &Lab) -> Option<Error> {
        lab.aks.node_resource_group.as_ref()?;
        let message =
            format!("`node_resource_group` of lab `{}` names one group, and each seat needs its own", lab.name);
        Some(Error::message(Code::NotOnProvider, message).hint("remove it from `[aks]`; Azure then names the groups"))
    }

    fn refusals(&self, lab: &Lab, actions: &[Action]) -> Vec<Error> {
        let backward = actions.iter().filter_map(|action| match action {
            Action::UpgradeCluster { from, to } => cluster::upgrade_path(from, to).err(),
            _ => None,
        });
        self.preflight(lab).into_iter().chain(backward).collect()
    }

    fn caveats(&self, lab: &Lab) -> Vec<String> {
        preflight::small_system_pools(lab)
    }

    fn observe(&self, lab: &str, file: Option<&Lab>) -> Result<Observed> {
        let place = file.map_or_else(|| self.place_of_name(lab), |file| self.place_of_lab(file));
        let known = place.and_then(|place| self.look(place))?;
        Ok(self.observed(&known.world, &known.place, file))
    }

    fn perform_all(&self, lab: &Lab, actions: &[Action], options: &Options, work: &mut Work<'_>) -> Result<()> {
        let Known { place, world } = self.place_of_lab(lab).and_then(|place| self.look(place))?;
        let folder = self.home.lab(&lab.name.value);
        if AzureSite::read(&folder).as_ref() != Some(&place) || place.removing.is_some() {
            AzureSite { removing: None, ..place.clone() }.write(&folder)?;
        }
        let az = self.az_for(&place);
        let at = self.with_lab(Site { az: &az, place: &place }, lab);
        self.forget();
        let outcome = converge::converge(&at, &world, actions, *options, work);
        work.events.under_way(Vec::new());
        outcome.map_err(|error| with_what_is_left(error, at.site))
    }

    fn abort_upgrade(&self, lab: &Lab, pool: &str) -> Result<()> {
        let place = self.place_of_lab(lab)?;
        let asked = self.az_for(&place).change(&arguments::pool_abort(&place, pool));
        let what = format!("could not abort the upgrade of pool `{pool}`");
        asked.map(drop).map_err(|failure| failure.into_error(&what, Some(&place)))
    }

    fn commands(&self, lab: &Lab, actions: &[Action]) -> Result<Vec<String>> {
        let known = match self.place_of_lab(lab).and_then(|place| self.look(place)) {
            // Commands of a lab that was never made can be read without az and without a login.
            Err(error)
                if error.kind() == Kind::Outside
                    && !error.source.is::<Foreign>()
                    && !self.remembers(&lab.name.value) =>
            {
                Known { place: AzureSite::of_lab(lab, &Account::unknown()), world: AzureState::default() }
            }
            known => known?,
        };
        let Known { place, world } = known;
        let az = self.az.on(&place.subscription);
        Ok(converge::commands(&self.with_lab(Site { az: &az, place: &place }, lab), &world, actions))
    }

    fn kubeconfig(&self, lab: &str) -> Result<PathBuf> {
        let place = self.place_of_name(lab)?;
        let file = credentials::path(&self.home.lab(lab));
        let known = self.known.borrow();
        let cluster = known.as_ref().and_then(|known| known.world.cluster.as_ref());
        if credentials::reaches(&file, cluster) {
            return Ok(file);
        }
        let az = self.az_for(&place);
        let site = Site { az: &az, place: &place };
        credentials::fetch(site, &file).map_err(|error| with_what_is_left(error, site))?;
        Ok(file)
    }

    fn check_nodes(&self, lab: &Lab, changed: bool, work: &mut Work<'_>) -> Result<()> {
        let name = &lab.name.value;
        let file = credentials::path(&self.home.lab(name));
        let Err(mut error) = live::check(&file, lab, changed, work) else { return Ok(()) };
        if are_credentials_refused(&error) {
            let place = self.place_of_lab(lab)?;
            credentials::fetch(Site { az: &self.az_for(&place), place: &place }, &file)?;
            match live::check(&file, lab, changed, work) {
                Ok(()) => return Ok(()),
                Err(again) => error = again,
            }
        }
        // Somebody may have stopped the machines meanwhile: then the nodes say nothing.
        self.forget();
        if let Ok(observed) = self.observe(name, Some(lab)) {
            refuse_absent(name, &observed)?;
        }
        Err(error)
    }

    fn remove(&self, lab: &str, work: &mut Work<'_>) -> Result<()> {
        let place = self.place_of_name(lab)?;
        let az = self.az_for(&place);
        self.forget();
        let what = removal::subject(&place);
        let activity = work.events.about(About::Lab, lab).start(Verb::RemoveCluster, what.clone());
        if removal::remove(Site { az: &az, place: &place }, &activity, work)? {
            activity.finish(what);
        } else {
            activity.finish_as(Verb::FindNothing, format!("no {what}: it was gone"));
        }
        Ok(())
    }

    fn begin_removal(&self, lab: &str, work: &mut Work<'_>) -> Result<()> {
        let mut place = self.place_of_name(lab)?;
        let az = self.az_for(&place);
        self.forget();
        place.removing = Some(Timestamp::now());
        place.write(&self.home.lab(lab))?;
        let activity = work.events.about(About::Lab, lab).start(Verb::RemoveCluster, removal::subject(&place));
        removal::begin(Site { az: &az, place: &place }, &activity, work)?;
        activity.end();
        Ok(())
    }

    fn is_being_removed(&self, lab: &str) -> bool {
        AzureSite::read(&self.home.lab(lab)).is_some_and(|place| place.removing.is_some())
    }

    fn azure_names(&self, lab: &str) -> Option<AzureNames> {
        AzureSite::read(&self.home.lab(lab)).map(|place| AzureNames { group: place.group, cluster: place.cluster })
    }

    fn machines(&self) -> Option<&dyn Machines> {
        Some(self)
    }

    fn remains(&self, lab: &str) -> Result<Vec<String>> {
        let place = self.place_of_name(lab)?;
        removal::remains(Site { az: &self.az_for(&place), place: &place })
    }
}

impl Machines for Aks {
    fn pause(&self, lab: &str, work: &mut Work<'_>) -> Result<()> {
        let place = self.place_of_name(lab)?;
        self.forget();
        cluster::switch(Site { az: &self.az_for(&place), place: &place }, false, work)
    }

    fn resume(&self, lab: &str, work: &mut Work<'_>) -> Result<()> {
        let place = self.place_of_name(lab)?;
        self.forget();
        cluster::switch(Site { az: &self.az_for(&place), place: &place }, true, work)
    }

    fn reclaim_nodes(&self, lab: &str, ids: &[String], work: &mut Work<'_>) -> Result<()> {
        let place = self.place_of_name(lab)?;
        let az = self.az_for(&place);
        for id in ids {
            let unknown = || {
                let message = format!("could not have Azure take `{id}` back: it is no machine of a scale set");
                Error::message(Code::StepFailed, message)
            };
            let asked = arguments::simulate_eviction(id).ok_or_else(unknown)?;
            work.intend(&arguments::journal_action(&asked), id)?;
            let what = format!("could not have Azure take `{id}` back");
            az.change(&asked).map_err(|failure| failure.into_error(&what, Some(&place)))?;
        }
        Ok(())
    }
}
