//! `az aks nodepool …`: pools shown, added, changed, upgraded, stopped, started and deleted.

use klab_lab::spec::{Pool, PoolMode};
use serde_json::{Value, json};
use toml::{Table, Value as Key};

use super::clusters::{Clusters, PoolChanges, is_later, look};
use super::known::{Known, Pools};
use super::pool_arguments::{
    NewPool, autoscale, is_last_system, labels_and_taints, pool_version, refuse_count, refuse_gateway, refuse_name,
    refuse_stopped, refuse_uncertain, refuse_unknown, size, stopped,
};
use crate::pool::LivePools;
use crate::pool::keys::{UpgradeKeys, set_nodes};
use crate::state::operation::{Operation, OperationKind};
use klab_az::commands::Answer;
use klab_az::grammar::Arguments;
use klab_az::notes::{PoolNote, Stopped};
use klab_az::refusal::{Code, Refusal};
use klab_az::{checks, messages, pool as document};

/// Keys of the lab file that az has no flag for; a pool that the lab file describes keeps them.
const WITHOUT_FLAG: [&str; 5] = ["annotations", "images", "node_image", "resources", "os_disk"];

/// The flags that set how a pool is upgraded.
pub(super) const UPGRADE: [&str; 10] = [
    "--max-surge",
    "--max-unavailable",
    "--drain-timeout",
    "--node-soak-duration",
    "--undrainable-node-behavior",
    "--upgrade-strategy",
    "--drain-batch-size",
    "--drain-timeout-bg",
    "--batch-soak-duration",
    "--final-soak-duration",
];

/// Lays what was typed of how a pool is upgraded over its keys.
pub(super) fn lay_upgrade(given: &Arguments, keys: &mut Table) {
    let word = |flag: &str| given.word(flag).map(str::to_owned);
    let minutes = |flag: &str| given.number(flag).map(|minutes| u32::try_from(minutes).unwrap_or(u32::MAX));
    let strategy = word("--upgrade-strategy");
    let upgrade = UpgradeKeys {
        strategy: strategy
            .map(|name| if name.eq_ignore_ascii_case("bluegreen") { "blue-green" } else { "rolling" }.to_owned()),
        max_surge: word("--max-surge"),
        max_unavailable: word("--max-unavailable"),
        drain_timeout: minutes("--drain-timeout").or(minutes("--drain-timeout-bg")),
        node_soak: minutes("--node-soak-duration"),
        undrainable_node_behavior: word("--undrainable-node-behavior"),
        drain_batch_size: word("--drain-batch-size"),
        batch_soak: minutes("--batch-soak-duration"),
        final_soak: minutes("--final-soak-duration"),
    };
    upgrade.lay_over(keys);
}

pub(super) fn cluster(on: &dyn Clusters, given: &Arguments) -> Result<Known, Refusal> {
    on.cluster(given, "--cluster-name")
}

/// The pools, for a change of one that is not being upgraded.
pub(super) fn idle<'s>(
    on: &'s dyn Clusters,
    known: &Known,
    given: &Arguments,
    name: &str,
    doing: OperationKind,
) -> Result<Box<dyn PoolChanges + 's>, Refusal> {
    let pools = on.pools(known, given, name, doing)?;
    if pools.live().is_upgrading(name) {
        return Err(messages::pool_is_busy(name, OperationKind::Upgrading.as_str()));
    }
    Ok(pools)
}

/// A pool that is there, as its document; az's `get` of one that is not is Azure's refusal.
pub(super) fn shown(known: &Known, live: &LivePools, name: &str) -> Answer {
    let site = known.site(live);
    let pools = Pools::of(live);
    let found = pools.shown(known).into_iter().find(|shown| shown.pool.name.value == name);
    found.map(|shown| document::document(&site, &shown)).ok_or_else(|| messages::no_pool(name))
}

/// Whether a pool is of type VirtualMachines, by its document.
pub(super) fn is_virtual_machines(pool: &Value) -> bool {
    pool["typePropertiesType"] == "VirtualMachines"
}

/// Refuses what AKS does to the nodes of scale sets alone.
fn refuse_of_scale_sets(pool: &Value, given: &Arguments) -> Result<(), Refusal> {
    let flags = ["--enable-cluster-autoscaler", "--update-cluster-autoscaler", "--node-vm-size"];
    if !is_virtual_machines(pool) || given.has_none_of(&flags) {
        return Ok(());
    }
    let message = "klab's az has no autoscaler for pools of type 'VirtualMachines', which is a preview, and changes their sizes by 'az aks nodepool manual-scale'.";
    Err(Refusal::new(message))
}

/// What a command that changed a pool answers.
pub(super) fn changed(on: &dyn Clusters, known: &Known, name: &str, given: &Arguments) -> Answer {
    if is_later(given) {
        return Ok(Value::Null);
    }
    shown(known, &look(on, known)?, name)
}

/// `list`.
pub(super) fn list(on: &dyn Clusters, given: &Arguments) -> Answer {
    let known = cluster(on, given)?;
    let live = on.displayed(&known)?;
    let (site, pools) = (known.site(&live), Pools::of(&live));
    Ok(pools.shown(&known).iter().map(|shown| document::document(&site, shown)).collect())
}

/// `show`.
pub fn show(on: &dyn Clusters, given: &Arguments) -> Answer {
    let known = cluster(on, given)?;
    shown(&known, &on.displayed(&known)?, given.needed("--nodepool-name"))
}

/// `add`.
pub(super) fn add(on: &dyn Clusters, given: &Arguments) -> Answer {
    let name = given.needed("--nodepool-name");
    refuse_name(name)?;
    refuse_gateway(given)?;
    let pool = NewPool::read(given, given.word("--mode") == Some("System"), "--labels", "--node-taints")?;
    let price = checks::spot_price(given)?;
    let asked = given.word("--kubernetes-version").map(checks::version).transpose()?;
    let mut known = cluster(on, given)?;
    let is_coming = known.operations.iter().any(|operation| {
        operation.pool.as_deref() == Some(name)
            && operation.doing == OperationKind::Creating
            && operation.failed.is_none()
    });
    let exists = || {
        let message = format!(
            "Node pool {name} already exists, please try a different name, use 'aks nodepool list' to get current list of node pool"
        );
        Refusal::new(message)
    };
    if is_coming {
        return Err(exists());
    }
    let mut pools = on.pools(&known, given, name, OperationKind::Creating)?;
    if pools.live().names().iter().any(|there| there.eq_ignore_ascii_case(name)) {
        return Err(exists());
    }
    checks::pool_name(name)?;
    let location = pools.live().lab.aks.location.value.clone();
    let mut keys: Table = pools.live().declared(name).unwrap_or_default();
    keys = keys.into_iter().filter(|(key, _)| WITHOUT_FLAG.contains(&key.as_str())).collect();
    keys.extend(pool.keys(given, &location)?);
    let mut set = |key: &str, value: Key| keys.insert(key.to_owned(), value);
    if let Some(wanted) = asked
        && let Some(version) = pool_version(on, pools.live(), wanted)?
    {
        set("kubernetes", version.to_string().into());
    }
    if given.word("--priority") == Some("Spot") {
        set("spot", true.into());
        price.map(|price| set("max_price", price.into()));
        set("eviction", given.needed("--eviction-policy").to_lowercase().into());
    }
    if let Some(system) = given.word("--os-type") {
        match system.to_lowercase().as_str() {
            "linux" => {}
            "windows" => drop(set("os", "windows".into())),
            _ => {
                return Err(Refusal::azure(
                    Code::InvalidParameter,
                    "The value of parameter agentPoolProfile.osType is invalid.",
                ));
            }
        }
    }
    if given.word("--os-sku").is_some_and(|flavour| flavour.starts_with("Windows")) && !keys.contains_key("os") {
        let message = "OS SKU is invalid for Linux OS Type. Please specify '--os-type Windows' for Windows SKUs";
        return Err(Refusal::new(message));
    }
    lay_upgrade(given, &mut keys);
    pools.put(name, keys)?;
    pools.end()?;
    known.note.pools.remove(name);
    remember(on, &mut known, name, given)?;
    changed(on, &known, name, given)
}

/// `update`.
pub fn update(on: &dyn Clusters, given: &Arguments) -> Answer {
    let name = given.needed("--nodepool-name");
    refuse_gateway(given)?;
    refuse_uncertain(given)?;
    let (enable, update, disable) = (
        given.has("--enable-cluster-autoscaler"),
        given.has("--update-cluster-autoscaler"),
        given.has("--disable-cluster-autoscaler"),
    );
    let (labels, taints) = labels_and_taints(given, "--labels", "--node-taints")?;
    let flags =
        ["--labels", "--node-taints", "--mode", "--tags", "--os-sku", "--scale-down-mode", "--node-vm-size", "--zones"];
    let autoscaler = ["--min-count", "--max-count"];
    if !(enable || update || disable)
        && [&flags[..], &UPGRADE, &autoscaler].iter().all(|flags| given.has_none_of(flags))
        && given.warnings.is_empty()
    {
        let message = "Please specify one or more of \"--enable-cluster-autoscaler\" or \"--disable-cluster-autoscaler\" or \"--update-cluster-autoscaler\" or \"--tags\" or \"--mode\" or \"--labels\" or \"--node-taints\" or \"--max-surge\".";
        return Err(Refusal::new(message));
    }
    if u8::from(enable) + u8::from(update) + u8::from(disable) > 1 {
        return Err(Refusal::new(
            "Can only specify one of --enable-cluster-autoscaler, --update-cluster-autoscaler and --disable-cluster-autoscaler",
        ));
    }
    let zones = given.words("--zones").map(|zones| zones.join(" "));
    if zones.as_ref().is_some_and(|zones| !zones.eq_ignore_ascii_case("auto")) {
        return Err(Refusal::new(
            "klab's az brings a pool to no other zones than '--zones auto': AKS documents no other change.",
        ));
    }
    let mut known = cluster(on, given)?;
    let mut pools = idle(on, &known, given, name, OperationKind::Updating)?;
    let before = shown(&known, pools.live(), name)?;
    refuse_stopped(&known, pools.live(), name)?;
    refuse_of_scale_sets(&before, given)?;
    let mut keys = pools.live().keys(name)?.clone();
    let location = pools.live().lab.aks.location.value.clone();
    let mode = given.word("--mode").unwrap_or(before["mode"].as_str().unwrap_or_default());
    let bounds = checks::bounds(given, enable || update, mode == "System", None)?;
    let is_scaled = before["enableAutoScaling"] == json!(true);
    if enable && is_scaled {
        on.warn(
            "Cluster autoscaler is already enabled for this node pool.\nPlease run \"az aks --update-cluster-autoscaler\" if you want to update min-count or max-count.",
        );
        return Ok(Value::Null);
    }
    if update && !is_scaled {
        return Err(Refusal::new(
            "Cluster autoscaler is not enabled for this node pool.\nRun \"az aks nodepool update --enable-cluster-autoscaler\" to enable cluster with min-count and max-count.",
        ));
    }
    if disable && !is_scaled {
        on.warn("Cluster autoscaler is already disabled for this node pool.");
        return Ok(Value::Null);
    }
    if mode == "User" && is_last_system(pools.live(), name) {
        return Err(messages::last_system_pool());
    }
    let mut set = |key: &str, value: Key| keys.insert(key.to_owned(), value);
    labels.map(|labels| set("labels", labels));
    taints.map(|taints| set("taints", taints));
    set("mode", mode.to_lowercase().into());
    given.word("--os-sku").map(|flavour| set("os_sku", flavour.into()));
    zones.map(|zones| set("zones", zones.to_lowercase().into()));
    if let Some(wanted) = given.word("--node-vm-size") {
        set("size", size(wanted, &location)?.into());
    }
    if let Some((min, max)) = bounds {
        set("autoscale", autoscale((min, max)));
        let now = before["count"].as_i64().unwrap_or(min);
        set("nodes", now.clamp(min, max).into());
    }
    if disable {
        keys.remove("autoscale");
    }
    lay_upgrade(given, &mut keys);
    pools.put(name, keys)?;
    pools.end()?;
    remember(on, &mut known, name, given)?;
    changed(on, &known, name, given)
}

/// `scale`.
pub(super) fn scale(on: &dyn Clusters, given: &Arguments) -> Answer {
    let known = cluster(on, given)?;
    scale_pool(on, &known, given.needed("--nodepool-name"), given)
}

/// Brings a pool to the number of nodes that was typed.
pub fn scale_pool(on: &dyn Clusters, known: &Known, name: &str, given: &Arguments) -> Answer {
    let count = given.number("--node-count").unwrap_or_default();
    let mut pools = idle(on, known, given, name, OperationKind::Scaling)?;
    let before = shown(known, pools.live(), name)?;
    if before["enableAutoScaling"] == json!(true) {
        return Err(Refusal::new("Cannot scale cluster autoscaler enabled node pool."));
    }
    if before["count"] == json!(count) {
        return Err(Refusal::new("The new node count is the same as the current node count."));
    }
    refuse_stopped(known, pools.live(), name)?;
    refuse_count(count, before["mode"] == "System")?;
    let mut keys = pools.live().keys(name)?.clone();
    if !set_nodes(&mut keys, count) {
        return Err(Refusal::new("Cannot scale virtual machines node pool with more than one size."));
    }
    pools.put(name, keys)?;
    pools.end()?;
    changed(on, known, name, given)
}

/// `delete`.
pub(super) fn delete(on: &dyn Clusters, given: &Arguments) -> Answer {
    let name = given.needed("--nodepool-name");
    let mut known = cluster(on, given)?;
    let is_own = |operation: &&Operation| operation.pool.as_deref().is_some_and(|pool| pool.eq_ignore_ascii_case(name));
    let own = known.operations.iter().find(is_own);
    // Who asks twice for a deletion gets it once.
    if own.is_some_and(|operation| operation.doing == OperationKind::Deleting && operation.failed.is_none()) {
        return if is_later(given) { Ok(Value::Null) } else { on.wait_until_gone(&known) };
    }
    let has_failed = own.is_some_and(|operation| operation.failed.is_some());
    let mut pools = on.pools(&known, given, name, OperationKind::Deleting)?;
    let names = pools.live().names();
    let Some(name) = names.iter().find(|there| there.eq_ignore_ascii_case(name)).map(|name| (*name).to_owned()) else {
        let refusal = messages::pool_does_not_exist(name, &names);
        // Nothing came of making it but the memory that it failed.
        let is_forgotten = has_failed && on.forget_failed(&known, name)?;
        return if is_forgotten { Ok(Value::Null) } else { Err(refusal) };
    };
    if is_last_system(pools.live(), &name) {
        return Err(messages::last_system_pool());
    }
    pools.remove(&name)?;
    pools.end()?;
    // What is left for later forgets it when the pool is gone.
    if !is_later(given) && known.note.pools.remove(&name).is_some() {
        on.note(&known)?;
    }
    Ok(Value::Null)
}

/// `stop`: the nodes go, the pool keeps their number.
pub(super) fn stop(on: &dyn Clusters, given: &Arguments) -> Answer {
    let name = given.needed("--nodepool-name");
    let mut known = cluster(on, given)?;
    let mut pools = idle(on, &known, given, name, OperationKind::Stopping)?;
    refuse_unknown(pools.live(), name)?;
    if pools.live().lab.pool(name).is_some_and(|pool| pool.mode == PoolMode::System) {
        return Err(Refusal::azure(Code::OperationNotAllowed, "System node pools can't be stopped."));
    }
    if pools.live().lab.pool(name).is_some_and(Pool::is_virtual_machines) {
        return Err(Refusal::new(
            "klab's az stops pools of scale sets alone: AKS does not say what a stopped pool of type 'VirtualMachines' is.",
        ));
    }
    if stopped(&known, pools.live(), name).is_none() {
        let autoscale = pools.live().lab.pool(name).and_then(|pool| pool.autoscale.as_ref());
        let autoscale = autoscale.map(|bounds| (bounds.min, bounds.max));
        let mut keys = pools.live().keys(name)?.clone();
        let nodes = keys.get("nodes").and_then(Key::as_integer).and_then(|count| u32::try_from(count).ok());
        keys.insert("nodes".to_owned(), 0.into());
        keys.remove("autoscale");
        known.note.pool(name).set_stopped(Some(Stopped { nodes: nodes.unwrap_or_default(), autoscale }));
        on.note(&known)?;
        pools.put(name, keys)?;
    }
    pools.end()?;
    changed(on, &known, name, given)
}

/// `start`: the nodes of a stopped pool come back.
pub(super) fn start(on: &dyn Clusters, given: &Arguments) -> Answer {
    let name = given.needed("--nodepool-name");
    let mut known = cluster(on, given)?;
    let mut pools = idle(on, &known, given, name, OperationKind::Starting)?;
    refuse_unknown(pools.live(), name)?;
    if let Some(Stopped { nodes, autoscale: bounds }) = stopped(&known, pools.live(), name) {
        let mut keys = pools.live().keys(name)?.clone();
        keys.insert("nodes".to_owned(), i64::from(nodes).into());
        bounds.map(|(min, max)| keys.insert("autoscale".to_owned(), autoscale((min.into(), max.into()))));
        pools.put(name, keys)?;
    }
    pools.end()?;
    known.note.pool(name).set_stopped(None);
    remember(on, &mut known, name, given)?;
    changed(on, &known, name, given)
}

/// Keeps what a lab has no place for: tags.
pub(super) fn remember(on: &dyn Clusters, known: &mut Known, name: &str, given: &Arguments) -> Result<(), Refusal> {
    let note = known.note.pool(name);
    if let Some(tags) = given.words("--tags") {
        let tags = checks::tags(tags);
        note.tags = (!tags.is_empty()).then_some(tags);
    }
    if *note == PoolNote::default() {
        known.note.pools.remove(name);
    }
    on.note(known)
}
