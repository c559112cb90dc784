//! Where a lab's cluster is said to be in Azure: subscription, group, names, ids.

use klab_scheduler::hash::fnv64_closed;

/// The only subscription that there is.
pub const SUBSCRIPTION: &str = "00000000-0000-0000-0000-000000000000";
/// What it is called.
pub const SUBSCRIPTION_NAME: &str = "klab";
/// Its directory.
pub const TENANT: &str = "00000000-0000-0000-0000-00000000c1ab";
/// Who is logged in.
pub const USER: &str = "learner@klab.invalid";

/// Where a cluster is said to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Site {
    /// Its resource group.
    pub group: String,
    /// What it is called.
    pub cluster: String,
    /// Its region.
    pub location: String,
}

impl Site {
    /// Azure's path of the cluster.
    pub fn id(&self) -> String {
        format!(
            "/subscriptions/{SUBSCRIPTION}/resourcegroups/{}/providers/Microsoft.ContainerService/managedClusters/{}",
            self.group, self.cluster
        )
    }

    /// The group of its machines.
    pub fn node_group(&self) -> String {
        format!("MC_{}_{}_{}", self.group, self.cluster, self.location).chars().take(80).collect()
    }

    /// What its API server's name begins with, as az makes it up.
    pub fn dns_prefix(&self) -> String {
        let part = |text: &str, most: usize| -> String {
            let plain = text.chars().filter(|letter| letter.is_ascii_alphanumeric() || *letter == '-');
            plain.take(most).collect()
        };
        format!("{}-{}-{}", part(&self.cluster, 10), part(&self.group, 16), part(SUBSCRIPTION, 6))
    }

    /// The name of its API server in Azure.
    pub fn fqdn(&self) -> String {
        let own = fnv64_closed(&[&self.group, &self.cluster], 0xff) as u32;
        format!("{}-{own:08x}.hcp.{}.azmk8s.io", self.dns_prefix().to_lowercase(), self.location)
    }
}

/// Azure's path of a resource group.
pub fn group_id(group: &str) -> String {
    format!("/subscriptions/{SUBSCRIPTION}/resourceGroups/{group}")
}

/// What a lab of this cluster can be called: `[a-z][a-z0-9-]{0,29}`.
pub fn lab_name(cluster: &str) -> String {
    let plain = |letter: char| if letter.is_ascii_alphanumeric() { letter.to_ascii_lowercase() } else { '-' };
    let name: String = cluster.chars().map(plain).collect();
    let name = name.trim_matches('-');
    let name = if name.starts_with(|letter: char| letter.is_ascii_lowercase()) {
        name.to_owned()
    } else {
        format!("aks-{name}")
    };
    name.chars().take(30).collect::<String>().trim_end_matches('-').to_owned()
}

/// An entity tag: the same for what is the same.
pub fn entity_tag(text: &str) -> String {
    let (one, two) = (fnv64_closed(&[text], 0xff), fnv64_closed(&[text, "klab"], 0xff));
    let (low, high) = (one as u32, (one >> 32) as u16);
    format!("{low:08x}-{high:04x}-4{:03x}-8{:03x}-{:012x}", two & 0xfff, (two >> 12) & 0xfff, two >> 16)
}

/// A region as Azure writes it in ids: `West Europe` is `westeurope`.
pub fn region(text: &str) -> String {
    text.chars().filter(|letter| !letter.is_whitespace()).flat_map(char::to_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clusters_give_labs_names_that_labs_can_have() {
        for (cluster, lab) in [
            ("aks-cluster", "aks-cluster"),
            ("myAKSCluster", "myakscluster"),
            ("1st_one", "aks-1st-one"),
            ("a-very-long-name-of-a-cluster-that-goes-on", "a-very-long-name-of-a-cluster"),
        ] {
            assert_eq!(lab_name(cluster), lab);
        }
    }

    #[test]
    fn paths_and_names_are_formed_as_azure_forms_them() {
        let site = Site { group: "Rg_1".into(), cluster: "My_Cluster01".into(), location: region("West Europe") };
        assert_eq!(site.node_group(), "MC_Rg_1_My_Cluster01_westeurope");
        assert_eq!(site.dns_prefix(), "MyCluster0-Rg1-000000");
        assert!(site.fqdn().ends_with(".hcp.westeurope.azmk8s.io"));
        assert_eq!(entity_tag("a").len(), 36);
    }
}
