//! What is in Azure of a lab: its group and its cluster, whose they are, and whether there is something to build on.

use std::collections::BTreeMap;

use super::answer::{Group, ManagedCluster};
use super::az::lost;
use super::azure_site::{AzureSite, LAB_TAG, OWNER_TAG};
use super::failure::Failure;
use super::queries::unless_absent;
use super::site::Site;
use crate::error::{Code, Error, Result};
use crate::provider::Foreign;
use klab_lab::words::listed;

/// What is in Azure of a lab.
#[derive(Debug, Clone, Default)]
pub(super) struct AzureState {
    /// The resource group, the lab's own or the user's.
    pub(super) group: Option<Group>,
    /// The cluster.
    pub(super) cluster: Option<ManagedCluster>,
    /// Whether klab has reached this very cluster before, so that it cannot have failed at its birth.
    pub(super) came_up: bool,
}

impl AzureState {
    /// Looks at group and cluster at once.
    ///
    /// # Errors
    /// When Azure does not answer, or something of that name is not klab's.
    pub(super) fn look(site: Site<'_>) -> Result<Self> {
        let Site { az, place } = site;
        let (group, cluster) = std::thread::scope(|scope| {
            let group = scope.spawn(|| az.group(&place.group));
            let cluster = az.cluster(place);
            (group.join(), cluster)
        });
        let failed = |failure: Failure| could_not_look(failure, place);
        let group = group.map_err(lost)?;
        let world = Self { group: group.map_err(failed)?, cluster: cluster.map_err(failed)?, came_up: false };
        world.refuse_foreign(place)?;
        Ok(world)
    }

    /// Looks at a lab of which this machine knows nothing: where there is no group, one question is enough.
    ///
    /// # Errors
    /// As [`AzureState::look`].
    pub(super) fn look_at_new(site: Site<'_>) -> Result<Self> {
        let Site { az, place } = site;
        if !place.own_group {
            return Self::look(site);
        }
        let cluster = az.cluster_or_why_not(place);
        if cluster.as_ref().is_err_and(Failure::is_absence_of_group) {
            return Ok(Self::default());
        }
        let failed = |failure: Failure| could_not_look(failure, place);
        let group = az.group(&place.group).map_err(failed)?;
        let world = Self { group, cluster: unless_absent(cluster).map_err(failed)?, came_up: false };
        world.refuse_foreign(place)?;
        Ok(world)
    }

    /// klab changes only what carries its tags.
    fn refuse_foreign(&self, place: &AzureSite) -> Result<()> {
        match (&self.group, &self.cluster) {
            (Some(group), _) if place.own_group && !place.owns(&group.tags) => {
                Err(without_tags(&format!("resource group `{}`", group.name), &group.tags, place).hint(ANOTHER_PLACE))
            }
            (_, Some(cluster)) if !place.owns(&cluster.tags) => {
                let what = format!("cluster `{}` in resource group `{}`", cluster.name, place.group);
                Err(without_tags(&what, &cluster.tags, place).hint(ANOTHER_PLACE))
            }
            _ => Ok(()),
        }
    }

    /// The cluster, unless it is going or its creation failed: then there is none to build on.
    pub(super) fn usable(&self) -> Option<&ManagedCluster> {
        if self.group.as_ref().is_some_and(Group::is_going) {
            return None;
        }
        self.cluster.as_ref().filter(|cluster| !cluster.is_going() && !self.failed_at_birth())
    }

    /// Whether the cluster failed before any of its pools came up. One that was reached before did not, whatever state a
    /// failed change has left it in.
    pub(super) fn failed_at_birth(&self) -> bool {
        !self.came_up && self.cluster.as_ref().is_some_and(ManagedCluster::has_nothing_up)
    }
}

/// What to do where another's things are in a lab's place.
const ANOTHER_PLACE: &str = "another lab name, or `[aks] resource_group` in the lab file, chooses another place";

/// The refusal to touch what is somebody else's.
pub(super) fn foreign(what: &str) -> Error {
    let words = format!("{what} exists and does not carry the tags of this lab; klab does not touch it");
    Error::new(Code::Foreign, Foreign(words))
}

/// The refusal to touch what is in a lab's own place with these tags: somebody else's, or the lab's own without its tags.
pub(super) fn without_tags(what: &str, tags: &BTreeMap<String, String>, place: &AzureSite) -> Error {
    let error = foreign(what);
    let missing: Vec<&str> = [LAB_TAG, OWNER_TAG].into_iter().filter(|tag| !tags.contains_key(*tag)).collect();
    if missing.is_empty() {
        return error;
    }
    // Tags of another lab or login would be there.
    let subscription = &place.subscription;
    error
        .hint(format!(
            "it has no {}; where klab made it, a policy of your organisation takes tags away, and without them klab cannot \
             tell what is its own:\naz policy assignment list --subscription {subscription} -o table",
            listed(&missing)
        ))
        .hint(format!("this removes it by hand:\n{}", removal_by_hand(place)))
}

/// What removes everything of a lab without klab.
fn removal_by_hand(AzureSite { group, cluster, subscription, own_group, .. }: &AzureSite) -> String {
    if *own_group {
        format!("az group delete -n {group} --subscription {subscription}")
    } else {
        format!("az aks delete -g {group} -n {cluster} --subscription {subscription}")
    }
}

fn could_not_look(failure: Failure, place: &AzureSite) -> Error {
    failure.into_error(&format!("could not search for lab `{}` in Azure", place.lab), Some(place))
}
