//! What of a cluster is the provider's: what was there when `up` had first made the lab, and what add-ons bring later.
//!
//! A learner did not put it there, so that it is no difference from the lab, and `klab reset` leaves it alone.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::change::{Change, Named, Objects, Scope};
use super::compare::compare;
use crate::error::Result;
use crate::state::home::state_error;
use klab_lab::names::LAB_LABEL;
use klab_lab::spec::Lab;
use klab_server::files::write_private;

/// Labels by which the managers of add-ons find what they keep: a key, and the value where only that one tells.
// upstream: https://github.com/kubernetes/kubernetes/tree/master/cluster/addons/addon-manager
const OF_ADDONS: [(&str, Option<&str>); 4] = [
    ("addonmanager.kubernetes.io/mode", None),
    ("kubernetes.io/cluster-service", None),
    ("kubernetes.azure.com/managedby", None),
    ("app.kubernetes.io/managed-by", Some("Eno")),
];
/// Labels without a prefix that AKS puts on nodes, beside the same ones with its prefix.
const OF_AKS: [&str; 3] = ["storageprofile", "storagetier", "accelerator"];

const FILE: &str = "baseline.json";

/// What was in a lab's cluster, beside the lab, when `up` had first made it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Baseline {
    objects: BTreeSet<Named>,
    /// Keys of labels of nodes.
    labels: BTreeSet<String>,
}

impl Baseline {
    /// Of what is in a cluster now; klab's own objects are the lab's.
    pub fn of(found: &Objects) -> Self {
        let of_lab = |object: &Value| object["metadata"]["labels"][LAB_LABEL].is_string();
        let others = found.iter().filter(|(name, object)| name.kind != "Node" && !of_lab(object));
        let nodes = found.iter().filter(|(name, _)| name.kind == "Node").map(|(_, node)| node);
        let keys = nodes.filter_map(|node| node["metadata"]["labels"].as_object()).flat_map(|labels| labels.keys());
        Self {
            objects: others.map(|(name, _)| name.clone()).collect(),
            labels: keys.filter(|key| !key.contains('/')).cloned().collect(),
        }
    }

    /// Reads that of the lab in `folder`; nothing where there is none, or one that says nothing.
    ///
    /// # Errors
    /// When the folder cannot be read.
    pub fn read(folder: &Path) -> Result<Self> {
        let path = folder.join(FILE);
        match std::fs::read(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(state_error(error, "read", &path)),
            Ok(text) => Ok(serde_json::from_slice(&text).unwrap_or_default()),
        }
    }

    /// Writes it into a lab's folder.
    ///
    /// # Errors
    /// When the file system refuses.
    pub fn write(&self, folder: &Path) -> Result<()> {
        let path = folder.join(FILE);
        let text = serde_json::to_vec(self).map_err(io::Error::other);
        text.and_then(|text| write_private(&path, &text)).map_err(|error| state_error(error, "write", &path))
    }

    /// What differs in a cluster from what the lab makes of it, without what is the provider's.
    pub fn differences(&self, wanted: &Objects, found: &Objects, lab: &Lab) -> Vec<Change> {
        let mut changes = compare(wanted, found, Scope::of(lab.provider));
        let profile = lab.provider.profile();
        if profile.is_embedded {
            return changes;
        }
        let declared: BTreeSet<&String> = lab.pools.iter().flat_map(|pool| pool.labels.keys()).collect();
        changes.retain(|change| match change {
            Change::New(name) => !self.has(name) && !is_of_an_addon(name, found),
            // One that the pools of the lab give is a learner's where the lab does not have it.
            Change::Label { key, wanted: None, .. } if !declared.contains(key) => {
                !(self.labels.contains(key) || (profile.has_managed_pools && OF_AKS.contains(&key.as_str())))
            }
            _ => true,
        });
        changes
    }

    /// Whether an object was there. What was in one namespace under a name is put into others by a controller, so that it comes
    /// into those that a learner makes, too.
    fn has(&self, name: &Named) -> bool {
        let in_another = |known: &Named| Named { namespace: name.namespace.clone(), ..known.clone() } == *name;
        let namespace = (name.kind != "Namespace" && name.namespace != "default")
            .then(|| Named::of_cluster("Namespace", &name.namespace));
        self.objects.contains(name)
            || namespace.is_some_and(|namespace| self.objects.contains(&namespace))
            || (name.kind == "ConfigMap" && self.objects.iter().any(in_another))
    }
}

/// Whether an object, or the namespace that it is in, carries the label of an add-on.
fn is_of_an_addon(name: &Named, found: &Objects) -> bool {
    let namespace = Named::of_cluster("Namespace", &name.namespace);
    let labels = [name, &namespace].map(|name| found.get(name).map(|object| &object["metadata"]["labels"]));
    labels.into_iter().flatten().any(|labels| {
        OF_ADDONS
            .iter()
            .any(|(key, value)| labels[key].as_str().is_some_and(|found| value.is_none_or(|value| found == value)))
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;

    use super::*;
    use crate::changes::twin;
    use klab_lab::spec::{LoadOptions, parse};

    const NAMESPACES: [&str; 4] = ["default", "gatekeeper-system", "kube-system", "company"];

    fn lab() -> Lab {
        let text = "lab = 'x'\nprovider = 'aks'\n[pool.system]\nmode = 'system'\n[pool.extra]\nlabels = { workload = 'extra' }\n";
        parse("x.toml", text, &LoadOptions::default()).unwrap_or_else(|problems| panic!("{problems}"))
    }

    /// A namespace, or an object of a kind in a namespace or in none, with labels.
    fn object(kind: &str, group: &str, namespace: &str, name: &str, labels: &Value) -> (Named, Value) {
        let version = if group.is_empty() { "v1".to_owned() } else { format!("{group}/v1") };
        let object = json!({ "kind": kind, "apiVersion": version,
            "metadata": { "name": name, "namespace": namespace, "labels": labels } });
        (Named::of(&object), object)
    }

    fn namespaces() -> Objects {
        NAMESPACES.into_iter().map(|name| object("Namespace", "", "", name, &json!({}))).collect()
    }

    fn told(baseline: &Baseline, found: &Objects) -> Vec<String> {
        let wanted: Objects = [object("Namespace", "", "", "default", &json!({}))].into();
        let changes = baseline.differences(&wanted, found, &lab());
        changes.iter().map(|change| format!("{}: {}", change.object().label(), change.words())).collect()
    }

    /// Every kind that is compared: what was there before or comes with an add-on is no difference, anything else is.
    #[test]
    fn of_every_kind_only_what_a_learner_added_is_a_difference() {
        let mut found_some = false;
        for kind in twin::kinds() {
            let row = kind.row();
            for namespace in if row.namespaced { &NAMESPACES[..] } else { &[""] } {
                let plain = |name| object(row.kind, row.group, namespace, name, &json!({}));
                let mut found = namespaces();
                found.extend([plain("before")]);
                let baseline = Baseline::of(&found);
                assert_eq!(told(&baseline, &found), Vec::<String>::new(), "{} in {namespace}", row.kind);
                for (key, value) in OF_ADDONS {
                    let labels = json!({ key: value.unwrap_or("Reconcile") });
                    found.extend([object(row.kind, row.group, namespace, &key.replace('/', "."), &labels)]);
                }
                assert_eq!(told(&baseline, &found), Vec::<String>::new(), "{} in {namespace}", row.kind);
                // A namespace of the provider's is its own, whatever is in it.
                found.extend([plain("later")]);
                let added = told(&baseline, &found);
                assert!(added.is_empty() || *namespace == "default" || !row.namespaced, "{added:?}");
                found_some |= added.iter().any(|words| words.contains("/later"));
            }
        }
        assert!(found_some);
    }

    #[test]
    fn what_a_learner_adds_is_a_difference_wherever_a_learner_works() {
        let mut found = namespaces();
        found.extend([object("ConfigMap", "", "company", "ca", &json!({}))]);
        let baseline = Baseline::of(&found);
        found.extend([
            object("Namespace", "", "", "mine", &json!({})),
            object("Namespace", "", "", "aks-istio-ingress", &json!({})),
            object("Namespace", "", "", "later", &json!({ "kubernetes.azure.com/managedby": "aks" })),
            object("Service", "", "later", "metrics", &json!({})),
            object("Deployment", "apps", "default", "web", &json!({ "app.kubernetes.io/managed-by": "Helm" })),
            object("ConfigMap", "", "default", "mine", &json!({})),
            object("ConfigMap", "", "default", "ca", &json!({})),
        ]);
        assert_eq!(
            told(&baseline, &found),
            [
                "configmap/mine: is not in the lab",
                "deployment/web: is not in the lab",
                "namespace/mine: is not in the lab"
            ]
        );
    }

    #[test]
    fn labels_that_nodes_came_with_are_no_difference() {
        let node = |name: &str, labels: &[(&str, &str)]| {
            let labels: BTreeMap<&str, &str> = labels.iter().chain(&[("agentpool", "system")]).copied().collect();
            object("Node", "", "", name, &json!(labels))
        };
        let first: Objects = [node("a", &[("company", "x"), ("storagetier", "Premium_LRS")])].into();
        let baseline = Baseline::of(&first);
        let wanted: Objects = [node("twin", &[])].into();
        let found: Objects =
            [node("a", &[("company", "y"), ("storageprofile", "managed"), ("workload", "x"), ("disk", "ssd")])].into();
        let keys = |baseline: &Baseline| -> Vec<String> {
            let changes = baseline.differences(&wanted, &found, &lab());
            let key = |change| if let Change::Label { key, .. } = change { key } else { panic!("{change:?}") };
            changes.into_iter().map(key).collect()
        };
        assert_eq!(keys(&baseline), ["disk", "workload"]);
        assert_eq!(keys(&Baseline::default()), ["company", "disk", "workload"]);
    }

    #[test]
    fn it_comes_back_and_a_torn_one_says_nothing() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(Baseline::read(folder.path()).unwrap(), Baseline::default());
        let baseline = Baseline::of(&namespaces());
        baseline.write(folder.path()).unwrap();
        assert_eq!(Baseline::read(folder.path()).unwrap(), baseline);
        std::fs::write(folder.path().join(FILE), "{ torn").unwrap();
        assert_eq!(Baseline::read(folder.path()).unwrap(), Baseline::default());
    }
}
