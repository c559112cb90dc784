//! Labs in Azure whose time is over, found by their tags: also those whose state is on another machine or nowhere.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::Aks;
use super::account::Account;
use super::answer::{Group, ManagedCluster};
use super::arguments;
use super::az::lost;
use super::azure_site::{AzureSite, EXPIRES_TAG, LAB_TAG, OWNER_TAG};
use super::removal;
use super::site::Site;
use crate::error::Result;
use crate::event::{About, Verb};
use crate::provider::Work;

/// A lab in Azure that carries klab's tags.
#[derive(Debug, Clone)]
pub struct Expired {
    /// The lab.
    pub lab: String,
    /// The login that made it.
    pub owner: String,
    /// Its resource group.
    pub group: String,
    /// Its cluster, where there is one.
    pub cluster: Option<String>,
    /// When its time was over; none: it has no time.
    pub expires: Option<Timestamp>,
    place: AzureSite,
}

impl Aks {
    /// Every lab of this login in the subscription, the one that expires first in front.
    ///
    /// # Errors
    /// When Azure does not answer.
    pub fn labs(&self) -> Result<Vec<Expired>> {
        let account = self.account(&self.az, None)?;
        let az = self.az.on(&account.id);
        let failed = |failure: super::failure::Failure| failure.into_error("could not search for labs in Azure", None);
        let (groups, clusters) = std::thread::scope(|scope| {
            let groups = scope.spawn(|| az.ask::<Vec<Group>>(&arguments::group_list(LAB_TAG)));
            let clusters = az.ask::<Vec<ManagedCluster>>(&arguments::cluster_list());
            (groups.join(), clusters)
        });
        let mut labs = found(&account, &groups.map_err(lost)?.map_err(failed)?, &clusters.map_err(failed)?);
        labs.sort_by(|one, other| {
            (one.expires.is_none(), one.expires, &one.lab).cmp(&(other.expires.is_none(), other.expires, &other.lab))
        });
        Ok(labs)
    }

    /// Removes such a lab and looks whether anything is left; gives what is.
    ///
    /// # Errors
    /// When Azure refuses.
    pub fn remove_expired(&self, lab: &Expired, work: &mut Work<'_>) -> Result<Vec<String>> {
        let place = &lab.place;
        let az = self.az_for(place);
        let site = Site { az: &az, place };
        let what = format!("lab {} ({})", lab.lab, lab.group);
        let activity = work.events.about(About::Lab, &lab.lab).start(Verb::RemoveExpiredLab, what.clone());
        removal::remove(site, &activity, work)?;
        activity.finish(what);
        removal::remains(site)
    }
}

/// Labs of a login by the tags of groups and clusters.
fn found(account: &Account, groups: &[Group], clusters: &[ManagedCluster]) -> Vec<Expired> {
    let mine = |tags: &BTreeMap<String, String>| {
        tags.get(OWNER_TAG).is_some_and(|owner| owner.eq_ignore_ascii_case(&account.user.name))
            && tags.contains_key(LAB_TAG)
    };
    let mut labs = Vec::new();
    for group in groups.iter().filter(|group| mine(&group.tags)) {
        let cluster = clusters
            .iter()
            .find(|cluster| cluster.resource_group.eq_ignore_ascii_case(&group.name) && mine(&cluster.tags));
        labs.push(lab(account, &group.tags, &group.name, &group.location, cluster, true));
    }
    for cluster in clusters.iter().filter(|cluster| mine(&cluster.tags)) {
        if !groups.iter().any(|group| mine(&group.tags) && cluster.resource_group.eq_ignore_ascii_case(&group.name)) {
            labs.push(lab(account, &cluster.tags, &cluster.resource_group, &cluster.location, Some(cluster), false));
        }
    }
    labs
}

fn lab(
    account: &Account,
    tags: &BTreeMap<String, String>,
    group: &str,
    location: &str,
    cluster: Option<&ManagedCluster>,
    own_group: bool,
) -> Expired {
    let name = tags.get(LAB_TAG).cloned().unwrap_or_default();
    let mut place = AzureSite::of_name(&name, account, location);
    group.clone_into(&mut place.group);
    place.own_group = own_group;
    if let Some(cluster) = cluster {
        place.cluster.clone_from(&cluster.name);
        place.node_group.clone_from(&cluster.node_resource_group);
    }
    Expired {
        lab: name,
        owner: tags.get(OWNER_TAG).cloned().unwrap_or_default(),
        group: group.to_owned(),
        cluster: cluster.map(|cluster| cluster.name.clone()),
        expires: tags.get(EXPIRES_TAG).and_then(|text| text.parse().ok()),
        place,
    }
}
