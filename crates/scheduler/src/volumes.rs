//! Claims and volumes: which volume a claim is bound to, and which it may be bound to where a pod is placed.

// upstream: pkg/scheduler/framework/plugins/volumebinding/binder.go FindPodVolumes, checkVolumeProvisions (v1.36)
// upstream: staging/src/k8s.io/component-helpers/storage/volume/pv_helpers.go FindMatchingVolume (v1.36)

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::StorageClass;

use super::error::ObjectError;
use super::node_selector::NodeSelectorTerm;
use super::quantity::Quantity;
use super::selector::{Labels, Selector};

/// The provisioner that provisions nothing: volumes are made by hand.
const NO_PROVISIONER: &str = "kubernetes.io/no-provisioner";

/// The labels that say in which zone or region a volume or a node is.
pub(crate) const ZONE_LABELS: [&str; 4] = [
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
];

/// A claim of a namespace.
#[derive(Debug, Clone)]
pub(crate) struct Claim {
    /// The bound volume; `None` while unbound.
    pub(crate) volume: Option<String>,
    /// Whether it names a volume, which it may not be bound to.
    names_volume: bool,
    /// Storage class.
    pub(crate) class: Option<String>,
    /// The volume that it was bound to and that is gone.
    pub(crate) lost: Option<String>,
    /// The uid of the owner that controls it.
    pub(crate) controller: Option<String>,
    pub(crate) terminating: bool,
    /// Only one pod may use it.
    pub(crate) one_pod: bool,
    /// What a volume for it must be like.
    wanted: Wanted,
}

/// What a claim asks of a volume.
#[derive(Debug, Clone, Default)]
struct Wanted {
    size: Quantity,
    modes: Vec<String>,
    /// Whether it is used as a block device.
    block: bool,
    selector: Option<Selector>,
    attributes: Option<String>,
}

/// A volume.
#[derive(Debug, Clone)]
pub(crate) struct Volume {
    pub(crate) labels: Labels,
    /// Node affinity: one of the terms must match; `None` if not given.
    pub(crate) terms: Option<Vec<NodeSelectorTerm>>,
    /// Namespace and name of the claim it is kept for.
    claim: Option<(String, String)>,
    /// Whether it waits for a claim.
    available: bool,
    class: String,
    size: Quantity,
    modes: Vec<String>,
    block: bool,
    attributes: Option<String>,
}

impl Volume {
    /// Whether pods on a node reach it.
    pub(crate) fn is_reachable(&self, labels: &Labels, node: &str) -> bool {
        self.terms.as_ref().is_none_or(|terms| terms.iter().any(|term| term.matches(labels, node)))
    }

    /// Whether it is what a claim wants, its class apart.
    fn suits(&self, wanted: &Wanted) -> bool {
        self.size >= wanted.size
            && self.block == wanted.block
            && self.attributes == wanted.attributes
            && wanted.modes.iter().all(|mode| self.modes.contains(mode))
            && wanted.selector.as_ref().is_none_or(|selector| selector.matches(&self.labels))
    }
}

/// A storage class.
#[derive(Debug, Clone, Default)]
struct Class {
    /// Whether claims are bound only when a pod is placed.
    late: bool,
    /// Whether volumes are made on demand.
    provisions: bool,
    /// Where it makes them: one of these must match; everywhere if there are none.
    topologies: Vec<BTreeMap<String, Vec<String>>>,
}

impl Class {
    fn provisions_on(&self, labels: &Labels) -> bool {
        let fits = |term: &BTreeMap<String, Vec<String>>| {
            term.iter().all(|(key, values)| labels.get(key).is_some_and(|value| values.contains(value)))
        };
        self.provisions && (self.topologies.is_empty() || self.topologies.iter().any(fits))
    }
}

/// What became of a storage class.
pub(crate) struct ClassChange {
    pub(crate) added: bool,
    /// Whether claims of the class are bound where their pods are placed.
    pub(crate) late: bool,
    /// Whether it is new, or volumes are made elsewhere than before.
    pub(crate) moved: bool,
}

/// Claims, volumes and storage classes.
#[derive(Debug, Clone, Default)]
pub(crate) struct Volumes {
    claims: BTreeMap<(String, String), Claim>,
    by_name: BTreeMap<String, Volume>,
    /// Volumes that are kept for a claim, by its namespace and name.
    kept: BTreeMap<(String, String), String>,
    /// Volumes that wait for a claim, by class.
    free: BTreeMap<String, BTreeSet<String>>,
    /// Storage classes by name.
    classes: BTreeMap<String, Class>,
}

impl Volumes {
    pub(crate) fn set_claim(&mut self, claim: &PersistentVolumeClaim) {
        let namespace = claim.metadata.namespace.clone().unwrap_or_else(|| "default".to_owned());
        let spec = claim.spec.as_ref();
        let phase = claim.status.as_ref().and_then(|status| status.phase.as_deref());
        let bound = claim
            .metadata
            .annotations
            .as_ref()
            .is_some_and(|annotations| annotations.contains_key("pv.kubernetes.io/bind-completed"))
            || phase == Some("Bound");
        let mut owners = claim.metadata.owner_references.iter().flatten();
        let entry = Claim {
            volume: spec.and_then(|spec| spec.volume_name.clone()).filter(|name| bound && !name.is_empty()),
            names_volume: spec.and_then(|spec| spec.volume_name.as_deref()).is_some_and(|name| !name.is_empty()),
            class: spec.and_then(|spec| spec.storage_class_name.clone()),
            lost: spec.and_then(|spec| spec.volume_name.clone()).filter(|_| phase == Some("Lost")),
            controller: owners.find(|owner| owner.controller == Some(true)).map(|owner| owner.uid.clone()),
            terminating: claim.metadata.deletion_timestamp.is_some(),
            one_pod: spec
                .and_then(|spec| spec.access_modes.as_ref())
                .is_some_and(|modes| modes.iter().any(|mode| mode == "ReadWriteOncePod")),
            wanted: Wanted {
                size: storage(spec.and_then(|spec| spec.resources.as_ref()).and_then(|all| all.requests.as_ref())),
                modes: spec.and_then(|spec| spec.access_modes.clone()).unwrap_or_default(),
                block: spec.and_then(|spec| spec.volume_mode.as_deref()) == Some("Block"),
                // A selector that cannot be read selects nothing.
                selector: spec
                    .and_then(|spec| spec.selector.as_ref())
                    .map(|selector| Selector::from_api(Some(selector)).unwrap_or(Selector::Nothing)),
                attributes: spec.and_then(|spec| spec.volume_attributes_class_name.clone()).filter(|it| !it.is_empty()),
            },
        };
        self.claims.insert((namespace, claim.metadata.name.clone().unwrap_or_default()), entry);
    }

    pub(crate) fn remove_claim(&mut self, namespace: &str, name: &str) {
        self.claims.remove(&(namespace.to_owned(), name.to_owned()));
    }

    /// Adds or replaces a volume. Whether it is new, or of another zone or region than before.
    pub(crate) fn set_volume(&mut self, volume: &PersistentVolume) -> Result<bool, ObjectError> {
        let required = volume
            .spec
            .as_ref()
            .and_then(|spec| spec.node_affinity.as_ref())
            .and_then(|affinity| affinity.required.as_ref());
        let terms = required
            .map(|required| required.node_selector_terms.iter().map(NodeSelectorTerm::from_api).collect())
            .transpose()
            .map_err(ObjectError::selector("spec.nodeAffinity"))?;
        let labels = volume.metadata.labels.clone().unwrap_or_default();
        let spec = volume.spec.as_ref();
        let phase = volume.status.as_ref().and_then(|status| status.phase.as_deref());
        let entry = Volume {
            labels,
            terms,
            claim: spec
                .and_then(|spec| spec.claim_ref.as_ref())
                .map(|claim| (claim.namespace.clone().unwrap_or_default(), claim.name.clone().unwrap_or_default())),
            available: phase.is_none_or(|phase| phase == "Available") && volume.metadata.deletion_timestamp.is_none(),
            class: spec.and_then(|spec| spec.storage_class_name.clone()).unwrap_or_default(),
            size: storage(spec.and_then(|spec| spec.capacity.as_ref())),
            modes: spec.and_then(|spec| spec.access_modes.clone()).unwrap_or_default(),
            block: spec.and_then(|spec| spec.volume_mode.as_deref()) == Some("Block"),
            attributes: spec.and_then(|spec| spec.volume_attributes_class_name.clone()).filter(|it| !it.is_empty()),
        };
        let name = volume.metadata.name.clone().unwrap_or_default();
        let zones = |volume: &Volume| ZONE_LABELS.map(|key| volume.labels.get(key).cloned());
        let moved = self.by_name.get(&name).is_none_or(|old| zones(old) != zones(&entry));
        self.remove_volume(&name);
        match &entry.claim {
            Some(claim) => drop(self.kept.insert(claim.clone(), name.clone())),
            None if entry.available => {
                self.free.entry(entry.class.clone()).or_default().insert(name.clone());
            }
            None => {}
        }
        self.by_name.insert(name, entry);
        Ok(moved)
    }

    pub(crate) fn remove_volume(&mut self, name: &str) {
        let Some(volume) = self.by_name.remove(name) else { return };
        if let Some(claim) = &volume.claim
            && self.kept.get(claim).is_some_and(|kept| kept == name)
        {
            self.kept.remove(claim);
        }
        if let Some(free) = self.free.get_mut(&volume.class) {
            free.remove(name);
        }
    }

    /// Adds or replaces a storage class.
    pub(crate) fn set_storage_class(&mut self, class: &StorageClass) -> ClassChange {
        let topologies = class.allowed_topologies.iter().flatten();
        let requirements = |term: &k8s_openapi::api::core::v1::TopologySelectorTerm| {
            let all = term.match_label_expressions.iter().flatten();
            all.map(|requirement| (requirement.key.clone(), requirement.values.clone())).collect()
        };
        let entry = Class {
            late: class.volume_binding_mode.as_deref() == Some("WaitForFirstConsumer"),
            provisions: !matches!(class.provisioner.as_str(), "" | NO_PROVISIONER),
            topologies: topologies.map(requirements).collect(),
        };
        let (late, topologies) = (entry.late, entry.topologies.clone());
        let old = self.classes.insert(class.metadata.name.clone().unwrap_or_default(), entry);
        let moved = old.as_ref().is_none_or(|old| old.topologies != topologies);
        ClassChange { added: old.is_none(), late, moved }
    }

    pub(crate) fn remove_storage_class(&mut self, name: &str) {
        self.classes.remove(name);
    }

    pub(crate) fn claim(&self, namespace: &str, name: &str) -> Option<&Claim> {
        self.claims.get(&(namespace.to_owned(), name.to_owned()))
    }

    pub(crate) fn volume(&self, name: &str) -> Option<&Volume> {
        self.by_name.get(name)
    }

    /// Whether an unbound claim waits for a pod to be placed before it is bound. One that names its volume does not.
    // upstream: pkg/scheduler/framework/plugins/volumebinding/binder.go GetPodVolumeClaims (v1.36)
    pub(crate) fn binds_late(&self, claim: &Claim) -> bool {
        let class = claim.class.as_ref().and_then(|class| self.classes.get(class));
        !claim.names_volume && class.is_some_and(|class| class.late)
    }

    /// The first of the unbound claims that find no volume on a node, and for which none can be made there.
    pub(crate) fn without_volume<'a>(
        &self,
        namespace: &str,
        claims: &'a [String],
        labels: &Labels,
        node: &str,
    ) -> Option<&'a String> {
        let unbound = |name: &&'a String| self.claim(namespace, name).filter(|claim| claim.volume.is_none());
        let mut waiting: Vec<(&'a String, &Claim)> =
            claims.iter().filter_map(|name| Some((name, unbound(&name)?))).collect();
        // The smallest first, so that it does not take what only a larger one could do without.
        waiting.sort_by_key(|(_, claim)| claim.wanted.size);
        let mut taken: BTreeSet<&str> = BTreeSet::new();
        waiting.into_iter().find_map(|(name, claim)| {
            let class = claim.class.as_deref().unwrap_or_default();
            let of = (namespace.to_owned(), name.clone());
            if let Some(volume) = self.kept.get(&of).and_then(|kept| self.by_name.get(kept)) {
                return (!volume.is_reachable(labels, node)).then_some(name);
            }
            let free = self.free.get(class).into_iter().flatten();
            let free = free.filter_map(|volume| Some((volume, self.by_name.get(volume)?)));
            let fitting = free.filter(|(volume, entry)| {
                !taken.contains(volume.as_str()) && entry.suits(&claim.wanted) && entry.is_reachable(labels, node)
            });
            if let Some((volume, _)) = fitting.min_by_key(|(_, entry)| entry.size) {
                taken.insert(volume);
                return None;
            }
            let made = self.classes.get(class).is_some_and(|class| class.provisions_on(labels));
            (!made).then_some(name)
        })
    }
}

/// The amount of storage in a list of resources.
fn storage(amounts: Option<&BTreeMap<String, k8s_openapi::apimachinery::pkg::api::resource::Quantity>>) -> Quantity {
    amounts.and_then(|amounts| Quantity::parse(&amounts.get("storage")?.0).ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::{Cluster, TieBreak};

    fn read<T: serde::de::DeserializeOwned>(value: Value) -> T {
        serde_json::from_value(value).unwrap()
    }

    fn claim(name: &str, volume: Option<&str>, class: &str, mode: &str) -> Value {
        json!({
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"volumeName": volume, "storageClassName": class, "accessModes": [mode]},
            "status": {"phase": if volume.is_some() { "Bound" } else { "Pending" }},
        })
    }

    fn pod(name: &str, claim: &str) -> k8s_openapi::api::core::v1::Pod {
        read(json!({
            "metadata": {"name": name, "namespace": "default"},
            "spec": {
                "containers": [{"name": "c", "image": "x"}],
                "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": claim}}],
            },
        }))
    }

    fn cluster() -> Cluster {
        let mut cluster = Cluster::new(TieBreak::FirstName);
        for (name, zone) in [("n1", "a"), ("n2", "b")] {
            let node = json!({
                "metadata": {"name": name, "labels": {"topology.kubernetes.io/zone": zone}},
                "status": {"allocatable": {"cpu": "1", "memory": "1Gi", "pods": "10"}},
            });
            cluster.set_node(&read(node)).unwrap();
        }
        for (name, mode) in [("now", "Immediate"), ("late", "WaitForFirstConsumer")] {
            let class = json!({"metadata": {"name": name}, "provisioner": "p", "volumeBindingMode": mode});
            cluster.set_storage_class(&read(class));
        }
        cluster
    }

    /// The node, or the message.
    fn outcome(cluster: &mut Cluster, pod: &k8s_openapi::api::core::v1::Pod) -> String {
        let decision = cluster.schedule(pod).unwrap();
        assert_eq!(decision, cluster.attempt(pod).unwrap().decision);
        decision.outcome.node().map_or(decision.message.clone(), ToString::to_string)
    }

    #[test]
    fn claims_must_exist_and_be_bound_unless_they_bind_late() {
        let mut cluster = cluster();
        let pod = pod("p", "data");
        let refused = |why: &str| format!("0/2 nodes are available: {why}. not found");
        let missing = refused("persistentvolumeclaim \"data\" not found");
        assert_eq!(outcome(&mut cluster, &pod), missing);
        cluster.set_claim(&read(claim("data", None, "now", "ReadWriteOnce")));
        assert_eq!(outcome(&mut cluster, &pod), refused("pod has unbound immediate PersistentVolumeClaims"));
        cluster.set_claim(&read(claim("data", None, "late", "ReadWriteOnce")));
        assert_eq!(outcome(&mut cluster, &pod), "n1");
        let mut lost = claim("data", Some("disk"), "now", "ReadWriteOnce");
        lost["status"]["phase"] = json!("Lost");
        cluster.set_claim(&read(lost));
        let gone = "persistentvolumeclaim \"data\" bound to non-existent persistentvolume \"disk\"";
        assert_eq!(outcome(&mut cluster, &pod), refused(gone));
        cluster.remove_claim("default", "data");
        assert_eq!(outcome(&mut cluster, &pod), missing);
    }

    // upstream: pkg/scheduler/framework/plugins/volumebinding/volume_binding_test.go (v1.36)
    #[test]
    fn claims_of_ephemeral_volumes_are_awaited_and_must_be_the_pods_own() {
        let mut cluster = cluster();
        let mut pod = pod("p", "data");
        pod.metadata.uid = Some("1".to_owned());
        let volume = json!({"name": "v", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}});
        pod.spec.as_mut().unwrap().volumes = Some(vec![read(volume)]);
        let refused = |why: &str| format!("0/2 nodes are available: {why}. not found");
        let awaited = "waiting for ephemeral volume controller to create the persistentvolumeclaim \"p-v\"";
        assert_eq!(outcome(&mut cluster, &pod), refused(awaited));
        let mut made = claim("p-v", None, "late", "ReadWriteOnce");
        for (owner, wanted) in [
            (None, refused("PVC default/p-v was not created for pod default/p (pod is not owner)")),
            (Some("2"), refused("PVC default/p-v was not created for pod default/p (pod is not owner)")),
            (Some("1"), "n1".to_owned()),
        ] {
            made["metadata"]["ownerReferences"] = owner.map_or(
                Value::Null,
                |uid| json!([{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": uid, "controller": true}]),
            );
            cluster.set_claim(&read(made.clone()));
            assert_eq!(outcome(&mut cluster, &pod), wanted);
        }
    }

    #[test]
    fn bound_volumes_keep_to_their_nodes_and_zones() {
        let mut cluster = cluster();
        let pod = pod("p", "data");
        cluster.set_claim(&read(claim("data", Some("disk"), "now", "ReadWriteOnce")));
        let gone = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)";
        assert!(outcome(&mut cluster, &pod).starts_with(&format!("0/2 nodes are available: 2 {gone}.")));
        let affinity = json!({"required": {"nodeSelectorTerms": [{"matchExpressions": [
            {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["b"]}]}]}});
        cluster.set_volume(&read(json!({"metadata": {"name": "disk"}, "spec": {"nodeAffinity": affinity}}))).unwrap();
        assert_eq!(outcome(&mut cluster, &pod), "n2");
        let zone = json!({"topology.kubernetes.io/zone": "a__c"});
        cluster.set_volume(&read(json!({"metadata": {"name": "disk", "labels": zone}, "spec": {}}))).unwrap();
        assert_eq!(outcome(&mut cluster, &pod), "n1");
        let reasons = cluster.evaluate(&pod, "n2").unwrap().unwrap();
        assert_eq!(
            reasons.iter().map(ToString::to_string).collect::<Vec<_>>(),
            ["node(s) had no available volume zone"]
        );
    }

    #[test]
    fn a_claim_that_binds_late_needs_a_volume_on_the_node_or_one_that_can_be_made() {
        let mut cluster = cluster();
        let by_hand = json!({"metadata": {"name": "local"}, "provisioner": "kubernetes.io/no-provisioner",
            "volumeBindingMode": "WaitForFirstConsumer"});
        cluster.set_storage_class(&read(by_hand));
        let mut wanted = claim("data", None, "local", "ReadWriteOnce");
        wanted["spec"]["resources"] = json!({"requests": {"storage": "2Gi"}});
        cluster.set_claim(&read(wanted));
        let pod = pod("p", "data");
        let none = "0/2 nodes are available: 2 node(s) didn't find available persistent volumes to bind.";
        assert!(outcome(&mut cluster, &pod).starts_with(none));
        let disk = |size: &str, class: &str, mode: &str, phase: &str| {
            json!({"metadata": {"name": "disk"}, "status": {"phase": phase}, "spec": {
                "capacity": {"storage": size}, "storageClassName": class, "accessModes": [mode],
                "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [
                    {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["b"]}]}]}}}})
        };
        for unfit in [
            disk("1Gi", "local", "ReadWriteOnce", "Available"),
            disk("3Gi", "other", "ReadWriteOnce", "Available"),
            disk("3Gi", "local", "ReadOnlyMany", "Available"),
            disk("3Gi", "local", "ReadWriteOnce", "Released"),
        ] {
            cluster.set_volume(&read(unfit)).unwrap();
            assert!(outcome(&mut cluster, &pod).starts_with(none));
        }
        cluster.set_volume(&read(disk("3Gi", "local", "ReadWriteOnce", "Available"))).unwrap();
        assert_eq!(outcome(&mut cluster, &pod), "n2");
        let mut kept = disk("3Gi", "local", "ReadWriteOnce", "Available");
        kept["spec"]["claimRef"] = json!({"namespace": "default", "name": "someone"});
        cluster.set_volume(&read(kept)).unwrap();
        assert!(outcome(&mut cluster, &pod).starts_with(none));
    }

    #[test]
    fn volumes_are_made_where_their_class_says() {
        let mut cluster = cluster();
        let zonal = json!({"metadata": {"name": "zonal"}, "provisioner": "p", "volumeBindingMode": "WaitForFirstConsumer",
            "allowedTopologies": [{"matchLabelExpressions": [{"key": "topology.kubernetes.io/zone", "values": ["b"]}]}]});
        cluster.set_storage_class(&read(zonal));
        cluster.set_claim(&read(claim("data", None, "zonal", "ReadWriteOnce")));
        assert_eq!(outcome(&mut cluster, &pod("p", "data")), "n2");
    }

    #[test]
    fn a_claim_for_one_pod_is_used_once() {
        let mut cluster = cluster();
        cluster.set_claim(&read(claim("data", None, "late", "ReadWriteOncePod")));
        cluster.bind(&pod("first", "data"), "n1").unwrap();
        let text = "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by \
                    another pod";
        let message = outcome(&mut cluster, &pod("second", "data"));
        assert!(message.starts_with(&format!("0/2 nodes are available: 2 {text}.")), "{message}");
        cluster.remove_pod("default", "first");
        assert_eq!(outcome(&mut cluster, &pod("second", "data")), "n1");
    }
}
