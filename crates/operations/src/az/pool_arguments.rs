//! What a pool may be, before klab's own rules judge it: what `az aks nodepool` and `az aks create` ask of names, sizes, versions.

use klab_lab::spec::{KubernetesVersion, PoolMode, VmSize};
use toml::{Table, Value as Key};

use super::clusters::Clusters;
use super::known::{Known, version};
use crate::pool::LivePools;
use klab_az::grammar::Arguments;
use klab_az::notes::Stopped;
use klab_az::refusal::{Code, Refusal};
use klab_az::{checks, messages, versions};

/// The default size of nodes: az's documentation names it for pools without a size.
const DEFAULT_SIZE: &str = "Standard_DS2_v2";

/// az's own look at a name, before it knows whether there is such a pool.
pub(super) fn refuse_name(name: &str) -> Result<(), Refusal> {
    match checks::pool_name(name) {
        Err(refusal) if refusal.code.is_none() => Err(refusal),
        _ => Ok(()),
    }
}

/// Pools of static egress gateways have nothing that a lab could show.
pub(super) fn refuse_gateway(given: &Arguments) -> Result<(), Refusal> {
    match given.word("--mode") {
        Some("Gateway") => {
            Err(Refusal::new("klab's az makes no gateway pools: labs have pools of mode System and User."))
        }
        _ => Ok(()),
    }
}

/// Previews of which AKS's pages leave open what becomes of the nodes.
// See https://learn.microsoft.com/azure/aks/upgrade-options (more blocked nodes than surge nodes)
pub(super) fn refuse_uncertain(given: &Arguments) -> Result<(), Refusal> {
    let why = if given.word("--max-blocked-nodes").is_some() {
        "klab's az has no '--max-blocked-nodes': AKS does not say what happens with more blocked nodes than surge nodes."
    } else if given.word("--vm-set-type").is_some_and(|kind| kind.eq_ignore_ascii_case("AvailabilitySet")) {
        "klab's az makes no pools of type 'AvailabilitySet', which AKS retired."
    } else {
        return Ok(());
    };
    Err(Refusal::new(why))
}

pub(super) fn refuse_unknown(live: &LivePools, name: &str) -> Result<(), Refusal> {
    if live.names().contains(&name) { Ok(()) } else { Err(messages::pool_does_not_exist(name, &live.names())) }
}

/// How a pool was when az stopped it; none where it is not stopped.
pub(super) fn stopped(known: &Known, live: &LivePools, name: &str) -> Option<Stopped> {
    let nodes = live.lab.pool(name).map_or(0, |pool| pool.nodes.value);
    known.note.pools.get(name)?.stopped(nodes)
}

pub(super) fn refuse_stopped(known: &Known, live: &LivePools, name: &str) -> Result<(), Refusal> {
    match stopped(known, live, name) {
        Some(_) => Err(messages::stopped(&format!("agent pool {name}"))),
        None => Ok(()),
    }
}

pub(super) fn is_last_system(live: &LivePools, name: &str) -> bool {
    let there = live.lab.pools.iter().filter(|pool| !pool.deferred && pool.mode == PoolMode::System);
    let systems: Vec<&str> = there.map(|pool| pool.name.value.as_str()).collect();
    systems == [name]
}

/// The number of nodes that a pool may have.
pub(super) fn refuse_count(count: i64, is_system: bool) -> Result<(), Refusal> {
    let (least, mode) = if is_system { (1, "System") } else { (0, "User") };
    if (least..=1000).contains(&count) {
        return Ok(());
    }
    let message = format!(
        "The value of parameter agentPoolProfile.count is invalid. A pool of mode {mode} has from {least} to 1000 nodes."
    );
    Err(Refusal::azure(Code::InvalidParameter, &message))
}

/// Labels and taints of the flags of these names, as keys of a pool.
pub fn labels_and_taints(given: &Arguments, labels: &str, taints: &str) -> Result<(Option<Key>, Option<Key>), Refusal> {
    let taints = given.word(taints).map(checks::taints).transpose()?;
    let labels = given.words(labels).map(checks::labels).transpose()?;
    for key in labels.iter().flatten().map(|(key, _)| key) {
        if let Some((prefix, _)) = key.split_once('/')
            && (is_within(prefix, "kubernetes.azure.com") || is_within(prefix, "kubernetes.io"))
        {
            return Err(messages::reserved_label(key));
        }
    }
    let labels =
        labels.map(|labels| labels.into_iter().map(|(key, value)| (key, value.into())).collect::<Table>().into());
    let taints = taints.map(|taints| taints.into_iter().map(Key::from).collect::<Vec<_>>().into());
    Ok((labels, taints))
}

fn is_within(prefix: &str, domain: &str) -> bool {
    prefix == domain || prefix.strip_suffix(domain).is_some_and(|rest| rest.ends_with('.'))
}

/// A size that klab knows, as Azure spells it.
pub(super) fn size(name: &str, location: &str) -> Result<String, Refusal> {
    if let Some(size) = VmSize::find(name) {
        return Ok(size.name.clone());
    }
    let near: Vec<&str> = VmSize::nearest(name).into_iter().take(5).map(|size| size.name.as_str()).collect();
    Err(messages::no_size(name, location, &near))
}

/// A new pool, as `az aks nodepool add` and `az aks create` describe it in flags of the same names.
pub struct NewPool {
    /// Whether its mode is `System`.
    pub is_system: bool,
    count: i64,
    labels: Option<Key>,
    taints: Option<Key>,
    bounds: Option<(i64, i64)>,
    max_pods: Option<i64>,
}

/// The words of a list, as az separates them.
pub(super) fn split(sizes: &str) -> Vec<&str> {
    sizes.split(',').map(str::trim).collect()
}

/// The size of a new pool, as az finds it: of single virtual machines, or of a scale set.
fn new_size(given: &Arguments) -> Result<(bool, &str), Refusal> {
    let kind = given.word("--vm-set-type").unwrap_or("VirtualMachineScaleSets");
    let is_single = kind.eq_ignore_ascii_case("VirtualMachines");
    if !is_single && !kind.eq_ignore_ascii_case("VirtualMachineScaleSets") {
        return Err(Refusal::new(
            "--vm-set-type can only be VirtualMachineScaleSets or AvailabilitySet or VirtualMachines",
        ));
    }
    let (size, sizes) = (given.word("--node-vm-size"), given.word("--vm-sizes"));
    let message = match sizes.map(split) {
        Some(_) if !is_single => "--vm-sizes can only be used with --vm-set-type VirtualMachines.".to_owned(),
        Some(_) if size.is_some() => "Cannot specify -vm-sizes and --node-vm-size at the same time.".to_owned(),
        Some(list) if list.len() > 1 => {
            let list: Vec<String> = list.iter().map(|size| format!("'{size}'")).collect();
            format!("We only accept single sku size for scale profile. [{}] is invalid.", list.join(", "))
        }
        _ => return Ok((is_single, sizes.or(size).unwrap_or(DEFAULT_SIZE))),
    };
    Err(Refusal::new(message))
}

impl NewPool {
    /// Reads what az itself looks at; labels and taints are in the flags of these names.
    pub fn read(given: &Arguments, is_system: bool, labels: &str, taints: &str) -> Result<Self, Refusal> {
        refuse_uncertain(given)?;
        new_size(given)?;
        let count = given.number("--node-count").unwrap_or_default();
        let (labels, taints) = labels_and_taints(given, labels, taints)?;
        let bounds = checks::bounds(given, given.has("--enable-cluster-autoscaler"), is_system, Some(count))?;
        let max_pods = checks::max_pods(given, is_system)?;
        Ok(Self { is_system, count, labels, taints, bounds, max_pods })
    }

    /// Its keys in the lab file.
    pub fn keys(self, given: &Arguments, location: &str) -> Result<Table, Refusal> {
        refuse_count(self.count, self.is_system)?;
        let mut keys = Table::new();
        let mut set = |key: &str, value: Key| keys.insert(key.to_owned(), value);
        set("mode", if self.is_system { "system" } else { "user" }.into());
        let (is_single, name) = new_size(given)?;
        let name = size(name, location)?;
        if is_single {
            set("type", "VirtualMachines".into());
            set("sizes", Table::from_iter([(name, self.count.into())]).into());
        } else {
            set("nodes", self.count.into());
            set("size", name.into());
        }
        self.labels.map(|labels| set("labels", labels));
        self.taints.map(|taints| set("taints", taints));
        self.max_pods.map(|count| set("max_pods", count.into()));
        self.bounds.map(|bounds| set("autoscale", autoscale(bounds)));
        if let Some(zones) = given.words("--zones") {
            if zones.len() == 1 && zones[0].eq_ignore_ascii_case("auto") {
                set("zones", "auto".into());
            } else {
                let zones = checks::zones(zones, location)?;
                set("zones", zones.into_iter().map(Key::from).collect::<Vec<_>>().into());
            }
        }
        given.word("--os-sku").map(|flavour| set("os_sku", flavour.into()));
        Ok(keys)
    }
}

/// Bounds of the autoscaler as a key of a pool.
pub(super) fn autoscale((min, max): (i64, i64)) -> Key {
    Key::Table(Table::from_iter([("min".to_owned(), min.into()), ("max".to_owned(), max.into())]))
}

/// The version of a new pool; none where it is the cluster's. Guides outlive versions: one that has been retired since is
/// replaced by the cluster's, and that is said.
pub(super) fn pool_version(
    on: &dyn Clusters,
    live: &LivePools,
    wanted: &str,
) -> Result<Option<KubernetesVersion>, Refusal> {
    let oldest = versions::minors().first().copied().unwrap_or_default();
    let asked: Option<KubernetesVersion> = wanted.parse().ok();
    if asked.is_some_and(|asked| asked.minor < oldest) {
        let of_cluster = versions::patched(version(live));
        on.warn(&format!(
            "Kubernetes {wanted} is not offered any more (oldest: 1.{oldest}). The pool gets the version of the cluster, {of_cluster}; AKS would refuse it."
        ));
        return Ok(None);
    }
    offered(live, wanted).map(Some)
}

/// A version that pools of the cluster can have.
pub(super) fn offered(live: &LivePools, wanted: &str) -> Result<KubernetesVersion, Refusal> {
    let of_cluster = version(live);
    let unknown = || {
        let message = format!(
            "Version {wanted} is not supported in this region. Please use [az aks get-versions] command to get the supported version list in this region. For more information, please check https://aka.ms/supported-version-list"
        );
        Refusal::azure(Code::AgentPoolK8sVersionNotSupported, &message)
            .advise(format!("klab offers {}.", versions::offered().join(", ")))
    };
    let asked: KubernetesVersion = wanted.parse().map_err(|()| unknown())?;
    if !versions::minors().contains(&asked.minor) {
        return Err(unknown());
    }
    if asked.minor > of_cluster.minor {
        return Err(messages::newer_than_cluster(&versions::patched(asked), &versions::patched(of_cluster)));
    }
    Ok(asked)
}
