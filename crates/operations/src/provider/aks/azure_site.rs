//! Where a lab is in Azure: subscription, groups, cluster, owner; how its things are named and tagged.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::account::Account;
use crate::error::Result;
use crate::state::home::state_error;
use klab_lab::spec::Lab;
use klab_server::files::{create_private_folder, write_private};

/// Tag with the lab's name.
pub(super) const LAB_TAG: &str = "klab-lab";
/// Tag with the name of the login that made it.
pub(super) const OWNER_TAG: &str = "klab-owner";
/// Tag with the time after which `klab gc` may remove it.
pub(super) const EXPIRES_TAG: &str = "klab-expires";
/// The `ttl` that the end was reckoned from.
pub(super) const TTL_TAG: &str = "klab-ttl";
/// The end of a lab whose `ttl` was taken out of its file: tags are merged, so none can be taken away.
pub(super) const NEVER: &str = "never";

/// Where a lab is in Azure. Kept in the lab's folder before anything is made, so that `down` needs no lab file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct AzureSite {
    /// The lab.
    pub(super) lab: String,
    /// Subscription id.
    pub(super) subscription: String,
    /// The login that makes it.
    pub(super) owner: String,
    /// Region.
    pub(super) location: String,
    /// Resource group.
    pub(super) group: String,
    /// Whether the group is the lab's own, made and removed by klab.
    pub(super) own_group: bool,
    /// Cluster.
    pub(super) cluster: String,
    /// Group of the cluster's machines, made and removed by Azure.
    pub(super) node_group: String,
    /// When a removal was begun that no command waited for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) removing: Option<Timestamp>,
}

const FILE: &str = "aks.json";

impl AzureSite {
    /// Where a lab file puts its lab for a login.
    pub(super) fn of_lab(lab: &Lab, account: &Account) -> Self {
        let mut place = Self::of_name(&lab.name.value, account, &lab.aks.location.value);
        if let Some(group) = &lab.aks.resource_group {
            place.group.clone_from(&group.value);
            place.own_group = false;
            place.node_group = shortened(format!("MC_{}_{}", place.group, place.cluster), 80);
        }
        if let Some(group) = &lab.aks.node_resource_group {
            place.node_group.clone_from(group);
        }
        place
    }

    /// Where a lab is of which only the name is known.
    pub(super) fn of_name(lab: &str, account: &Account, location: &str) -> Self {
        // Two people who run the same lab in one subscription must not meet; one person on two machines must.
        let mark = if account.is_unknown() { "xxxxxx".to_owned() } else { owner_mark(&account.user.name) };
        let name = format!("klab-{lab}-{mark}");
        Self {
            lab: lab.to_owned(),
            subscription: account.id.clone(),
            owner: account.user.name.clone(),
            location: location.to_owned(),
            node_group: format!("MC_{name}"),
            cluster: name.clone(),
            group: name,
            own_group: true,
            removing: None,
        }
    }

    /// The tags of everything klab makes there.
    pub(super) fn tags(&self, lab: &Lab, now: Timestamp) -> BTreeMap<String, String> {
        let mut tags = lab.aks.tags.clone();
        tags.insert(LAB_TAG.to_owned(), self.lab.clone());
        tags.insert(OWNER_TAG.to_owned(), self.owner.clone());
        if let Some((ttl, expires)) = lab.ttl.and_then(|ttl| Some((ttl, now.checked_add(ttl).ok()?))) {
            tags.insert(EXPIRES_TAG.to_owned(), expires.strftime("%Y-%m-%dT%H:%M:%SZ").to_string());
            tags.insert(TTL_TAG.to_owned(), format!("{ttl:#}"));
        }
        tags
    }

    /// Whether tags say that something is this lab's and this owner's.
    pub(super) fn owns(&self, tags: &BTreeMap<String, String>) -> bool {
        tags.get(LAB_TAG) == Some(&self.lab)
            && tags.get(OWNER_TAG).is_some_and(|owner| owner.eq_ignore_ascii_case(&self.owner))
    }

    /// Reads what a lab's folder remembers; `None` when it remembers nothing that can be read.
    pub(super) fn read(folder: &Path) -> Option<Self> {
        serde_json::from_slice(&std::fs::read(folder.join(FILE)).ok()?).ok()
    }

    /// Writes it into a lab's folder. On disk when this returns.
    ///
    /// # Errors
    /// When the file system refuses.
    pub(super) fn write(&self, folder: &Path) -> Result<()> {
        let path: PathBuf = folder.join(FILE);
        create_private_folder(folder).map_err(|error| state_error(error, "create", folder))?;
        let text = serde_json::to_vec_pretty(self).map_err(io::Error::other);
        text.and_then(|text| write_private(&path, &text)).map_err(|error| state_error(error, "write", &path))
    }
}

/// Six hexadecimal digits that differ from owner to owner.
fn owner_mark(owner: &str) -> String {
    let digest = ring::digest::digest(&ring::digest::SHA256, owner.to_lowercase().as_bytes());
    let number = digest.as_ref().iter().take(3).fold(0u32, |number, byte| number << 8 | u32::from(*byte));
    format!("{number:06x}")
}

fn shortened(mut name: String, length: usize) -> String {
    name.truncate((0..=length.min(name.len())).rev().find(|end| name.is_char_boundary(*end)).unwrap_or(0));
    name
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::provider::aks::account::User;

    fn account(user: &str) -> Account {
        Account { id: "0000-1".to_owned(), user: User { name: user.to_owned() } }
    }

    #[test]
    fn names_are_within_azures_bounds_and_differ_by_owner_only() {
        let longest = "a".repeat(30);
        let ann = AzureSite::of_name(&longest, &account("ann@example.com"), "westeurope");
        assert!(ann.cluster.len() <= 54 && ann.group.len() <= 90 && ann.node_group.len() <= 80, "{ann:?}");
        assert_eq!(ann, AzureSite::of_name(&longest, &account("ann@example.com"), "westeurope"));
        assert_eq!(ann.group, AzureSite::of_name(&longest, &account("Ann@Example.com"), "westeurope").group);
        assert_ne!(ann.group, AzureSite::of_name(&longest, &account("bob@example.com"), "westeurope").group);
        assert_ne!(ann.group, AzureSite::of_name(&"b".repeat(30), &account("ann@example.com"), "westeurope").group);
    }

    #[test]
    fn only_things_with_both_tags_are_owned() {
        let place = AzureSite::of_name("taints", &account("ann"), "westeurope");
        let tags = |pairs: &[(&str, &str)]| {
            pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
        };
        assert!(place.owns(&tags(&[(LAB_TAG, "taints"), (OWNER_TAG, "ann"), ("other", "x")])));
        for foreign in [
            vec![],
            vec![(LAB_TAG, "taints")],
            vec![(OWNER_TAG, "ann")],
            vec![(LAB_TAG, "spread"), (OWNER_TAG, "ann")],
            vec![(LAB_TAG, "taints"), (OWNER_TAG, "bob")],
        ] {
            assert!(!place.owns(&tags(&foreign)), "{foreign:?}");
        }
    }

    #[test]
    fn place_comes_back() {
        let folder = tempfile::tempdir().unwrap();
        let place = AzureSite::of_name("taints", &account("ann"), "westeurope");
        assert_eq!(AzureSite::read(folder.path()), None);
        place.write(folder.path()).unwrap();
        assert_eq!(AzureSite::read(folder.path()), Some(place));
    }
}
