//! Upgrades of pools of the embedded cluster: asked for, waited for, and refused, as AKS does it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{ConfigMap, Node};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::api::ListParams;
use kube::{Client, ResourceExt};
use serde_json::{Value, json};

use super::node_pools::{self, change, find, machines};
use crate::client::{cause, objects};
use crate::error::{Code, Error, Result};
use crate::event::Activity;
use crate::provider::upgrading;
use klab_api_machinery::node_pools::NodePool;
use klab_api_machinery::pool_upgrades::{
    BlueGreen, End, Member, POOL_UPGRADES, PoolUpgrade, QUARANTINED, UPGRADE_STATUS_LABEL, UsedVersion,
};
use klab_lab::names::{NODE_IMAGE_LABEL, SIZE_LABEL};
use klab_lab::nodes::node_image;
use klab_lab::plan::{Declared, fixed_changes, is_version, wanted_version};
use klab_lab::spec::{KubernetesVersion, Lab, Pool, UndrainableNodeBehavior, UpgradeKind};
use klab_lab::words::plural;

/// How often a klab that waits for an upgrade looks.
const LOOK: Duration = Duration::from_secs(1);
/// How long AKS lets the drain of a node take by itself.
const DRAIN_TIMEOUT: i64 = 30 * 60;
/// How long AKS pauses between the batches of a blue-green upgrade.
const BATCH_SOAK: i64 = 15 * 60;
/// How long AKS keeps the drained nodes of a blue-green upgrade.
const FINAL_SOAK: i64 = 60 * 60;
/// From this minor version on AKS takes one surge node where there is no room for all.
const ONE_SURGE_NODE_SINCE: u32 = 35;

/// The upgrades of all pools, those that are over among them.
pub(super) async fn read(client: &Client) -> Result<BTreeMap<String, PoolUpgrade>> {
    let map = find(client, POOL_UPGRADES).await?;
    Ok(map.map(|map| PoolUpgrade::read(&json!({ "data": map.data }))).unwrap_or_default())
}

/// The nodes that pools have whatever their upgrades are doing: AKS counts no surge nodes.
pub(super) fn settled(nodes: Vec<Node>, upgrades: &BTreeMap<String, PoolUpgrade>) -> Vec<Node> {
    let is_unsettled = |upgrade: &&PoolUpgrade| upgrade.end.is_none() || upgrade.is_halfway();
    let under_way: Vec<&PoolUpgrade> = upgrades.values().filter(is_unsettled).collect();
    if under_way.is_empty() {
        return nodes;
    }
    let mut values: Vec<Value> = nodes.iter().map(|node| json!(node)).collect();
    for upgrade in under_way {
        upgrade.settle(&mut values);
    }
    values.into_iter().filter_map(|node| serde_json::from_value(node).ok()).collect()
}

/// Refuses a change of a pool that is being upgraded. That an upgrade failed is forgotten with the next change.
pub(super) async fn refuse_under_way(client: &Client, pool: &str) -> Result<()> {
    match read(client).await?.remove(pool) {
        Some(upgrade) if upgrade.end.is_none() => Err(upgrading(pool)),
        Some(upgrade) if upgrade.is_halfway() => Err(halfway(pool, &upgrade)),
        _ => forget(client, pool, false).await,
    }
}

/// Old and new nodes of a blue-green upgrade that stopped stay until it goes on.
// See https://learn.microsoft.com/azure/aks/blue-green-node-pool-upgrade ("you can't change the upgrade strategy or Kubernetes version")
fn halfway(pool: &str, upgrade: &PoolUpgrade) -> Error {
    let message = format!("the blue-green upgrade of pool `{pool}` stopped halfway: another change has to wait for it");
    let way = ways_on(pool, upgrade);
    Error::message(Code::PoolUpgrade, message).hint(format!("{way}; `kubectl get pdb -A` shows what blocks a drain"))
}

/// What can be asked of a pool whose blue-green upgrade stopped halfway.
fn ways_on(pool: &str, upgrade: &PoolUpgrade) -> String {
    let goes_on = "ask for the same upgrade again, which goes on where it stopped";
    match upgrade.rollback.as_ref().and_then(|rollback| rollback.used) {
        Some(_) if upgrade.is_undone() => format!("`klab pool rollback {pool}` goes on with the way back"),
        Some(_) => format!("{goes_on}, or bring the old nodes back with `klab pool rollback {pool}`"),
        None => goes_on.to_owned(),
    }
}

/// Forgets the upgrade of a pool; one that is under way ends where it is. What succeeded is kept, unless `all` goes: the pool can
/// be rolled back.
pub(super) async fn forget(client: &Client, pool: &str, all: bool) -> Result<()> {
    change(client, POOL_UPGRADES, |known| {
        let known = PoolUpgrade::read(&json!({ "data": known?.data })).remove(pool)?;
        (all || known.end != Some(End::Succeeded)).then(|| json!({ pool: null }))
    })
    .await
}

/// Stops the upgrade of a pool where it is.
pub(super) async fn abort(client: &Client, pool: &str) -> Result<()> {
    let known = read(client).await?.remove(pool).filter(|known| known.end.is_none());
    let Some(known) = known else {
        let message = format!("pool `{pool}` is not being upgraded: there is nothing to abort");
        return Err(Error::message(Code::PoolUpgrade, message));
    };
    if known.is_undone() {
        let message = format!("pool `{pool}` goes back to its old nodes: there is nothing to abort");
        return Err(Error::message(Code::PoolUpgrade, message));
    }
    if known.blue_green.is_none() {
        let message = format!("klab aborts blue-green upgrades alone, and that of pool `{pool}` is not");
        return Err(Error::message(Code::PoolUpgrade, message).hint(
            "AKS's pages do not say which surge nodes an aborted rolling upgrade leaves, so klab does not simulate it",
        ));
    }
    change(client, POOL_UPGRADES, |map| {
        let known = PoolUpgrade::read(&json!({ "data": map?.data })).remove(pool)?;
        Some(json!({ pool: serde_json::to_string(&known.aborted(Timestamp::now())?).unwrap_or_default() }))
    })
    .await
}

/// Begins to upgrade the nodes of a pool, `nodes`, to what the lab says; gives `false` where that is under way, and goes on.
pub(super) async fn begin(
    client: &Client,
    lab: &Lab,
    pool: &Pool,
    nodes: Vec<Node>,
    kind: UpgradeKind,
) -> Result<bool> {
    let name = &pool.name.value;
    let machines = machines(lab, pool);
    let known = read(client).await?.remove(name);
    if let Some(known) = known.as_ref().filter(|known| known.end.is_none()) {
        return if known.pool.templates == machines.templates { Ok(false) } else { Err(upgrading(name)) };
    }
    refuse_impossible_budgets(client).await?;
    if let Some(known) = known.as_ref().filter(|known| known.is_halfway()) {
        if kind == UpgradeKind::Rollback {
            let undone = known.clone().undone(machines).ok_or_else(|| halfway(name, known))?;
            write(client, name, &undone).await?;
            return Ok(true);
        }
        if known.pool.templates != machines.templates || !pool.upgrade.is_blue_green() || known.is_undone() {
            return Err(halfway(name, known));
        }
        write(client, name, &resumed(known.clone(), pool)).await?;
        return Ok(true);
    }
    let rollback = match kind {
        UpgradeKind::Kubernetes | UpgradeKind::NodeImage => used_version(&nodes),
        UpgradeKind::Machines => known.and_then(|known| known.rollback),
        // One cannot go back twice.
        UpgradeKind::Rollback => None,
    };
    let replaces = kind == UpgradeKind::Machines;
    let upgrade = PoolUpgrade { rollback, ..upgrade(lab, pool, machines, nodes, replaces)? };
    write(client, name, &upgrade).await?;
    Ok(true)
}

/// A blue-green upgrade that stopped, with the settings that the pool has now.
fn resumed(upgrade: PoolUpgrade, pool: &Pool) -> PoolUpgrade {
    let (settings, batch) = (&pool.upgrade, batch(pool, upgrade.nodes.len()));
    let (pause, end) = (seconds(settings.batch_soak, BATCH_SOAK), seconds(settings.final_soak, FINAL_SOAK));
    upgrade.resumed(drain_timeout(pool), pause, batch, end)
}

async fn write(client: &Client, pool: &str, upgrade: &PoolUpgrade) -> Result<()> {
    let text = serde_json::to_string(upgrade).unwrap_or_default();
    change(client, POOL_UPGRADES, |_: Option<&ConfigMap>| Some(json!({ pool: text }))).await
}

fn seconds(time: Option<SignedDuration>, usual: i64) -> u32 {
    u32::try_from(time.map_or(usual, |time| time.as_secs())).unwrap_or(u32::MAX)
}

fn drain_timeout(pool: &Pool) -> u32 {
    seconds(pool.upgrade.drain_timeout, DRAIN_TIMEOUT)
}

/// How many of these old nodes a blue-green upgrade drains at the same time.
fn batch(pool: &Pool, old: usize) -> u32 {
    pool.upgrade.batch().of(u32::try_from(old).unwrap_or(u32::MAX)).max(1)
}

/// The kubelet's version.
fn version(node: &Node) -> Option<&str> {
    Some(node.status.as_ref()?.node_info.as_ref()?.kubelet_version.trim_start_matches('v'))
}

/// The oldest version and node image of these nodes.
fn used_version(nodes: &[Node]) -> Option<UsedVersion> {
    let parsed = |node: &Node| version(node)?.parse::<KubernetesVersion>().ok();
    let kubernetes = nodes.iter().filter_map(parsed).min()?.to_string();
    let node_image = nodes.iter().filter_map(|node| node.labels().get(NODE_IMAGE_LABEL)).min()?.clone();
    Some(UsedVersion { kubernetes, node_image, used: None })
}

/// What is asked of AKS: these nodes, in sets of a size that follows from the pool's settings.
fn upgrade(lab: &Lab, pool: &Pool, machines: NodePool, mut nodes: Vec<Node>, replaces: bool) -> Result<PoolUpgrade> {
    if let Some(why) = pool.surge_refusal() {
        return Err(Error::message(Code::PoolUpgrade, format!("pool `{}` cannot be upgraded here: {why}", pool.name))
            .hint("`--max-surge 0 --max-unavailable 1` upgrades the nodes of a user pool in place"));
    }
    let all = u32::try_from(nodes.len()).unwrap_or(u32::MAX);
    let wanted = wanted_version(lab, Some(pool)).unwrap_or_default();
    nodes.sort_by_key(|node| (node.name_any().len(), node.name_any()));
    let (image, declared) = (node_image(pool), Declared::of(pool));
    let is_old = |node: &&Node| {
        let is_wanted = version(node).is_some_and(|version| is_version(version, &wanted))
            && node.labels().get(NODE_IMAGE_LABEL).is_none_or(|own| *own == image)
            && node_pools::declared(&json!(node)).is_none_or(|own| fixed_changes(&own, &declared).is_empty());
        // One that an upgrade could not drain is left alone until its mark is taken off.
        !is_wanted && node.labels().get(UPGRADE_STATUS_LABEL).is_none_or(|mark| mark != QUARANTINED)
    };
    let members = nodes.iter().filter(is_old).filter_map(|node| {
        let addresses = node.status.as_ref()?.addresses.iter().flatten();
        let address = addresses.into_iter().find(|address| address.type_ == "InternalIP")?;
        let member = PoolUpgrade::member(&machines, &node.name_any(), &address.address)?;
        let template = pool.scale.iter().position(|profile| node.labels().get(SIZE_LABEL) == Some(&profile.size.value));
        Some(Member { template: template.and_then(|place| u32::try_from(place).ok()), ..member })
    });
    let members: Vec<_> = members.collect();
    let settings = &pool.upgrade;
    let old = u32::try_from(members.len()).unwrap_or(u32::MAX);
    let is_blue_green = settings.is_blue_green() && !replaces;
    let mut surge = if is_blue_green { old } else { settings.surge().of(all).min(old) };
    let unavailable = settings.unavailable().of(all).min(old);
    let room = pool.capacity.as_ref().map_or(u32::MAX, |capacity| capacity.value.saturating_sub(all));
    if surge > room {
        let takes_one = wanted
            .parse()
            .is_ok_and(|version: klab_lab::spec::KubernetesVersion| version.minor >= ONE_SURGE_NODE_SINCE);
        surge = match (room, unavailable) {
            (1.., _) if takes_one && !is_blue_green => 1,
            // New machines need a surge node each.
            (_, 1..) if !replaces && !is_blue_green => 0,
            _ => return Err(no_room(pool, surge, room)),
        };
    }
    let blue_green = is_blue_green.then(|| BlueGreen {
        final_soak: seconds(settings.final_soak, FINAL_SOAK),
        until: None,
        is_undone: false,
    });
    let at_once = match surge {
        _ if is_blue_green => batch(pool, members.len()),
        0 => unavailable,
        _ => surge,
    };
    let soak = if is_blue_green { seconds(settings.batch_soak, BATCH_SOAK) } else { seconds(settings.node_soak, 0) };
    Ok(PoolUpgrade {
        pool: machines,
        surge,
        at_once,
        drain_timeout: drain_timeout(pool),
        soak,
        quarantines: settings.undrainable_node_behavior == Some(UndrainableNodeBehavior::Cordon),
        replaces: replaces || is_blue_green,
        blue_green,
        rollback: None,
        nodes: members,
        surge_nodes: Vec::new(),
        end: None,
    })
}

/// The cloud has fewer machines than the surge asks for.
// See https://learn.microsoft.com/azure/aks/upgrade-options (insufficient surge nodes: the upgrade fails)
fn no_room(pool: &Pool, surge: u32, room: u32) -> Error {
    let message = format!(
        "pool `{}` cannot be upgraded: {} are asked for, and the cloud has {room} more for it",
        pool.name,
        plural(surge as usize, "surge node")
    );
    Error::message(Code::PoolUpgrade, message)
        .hint("`max_surge = 0` with `max_unavailable = 1` upgrades nodes in place; a greater `capacity` makes room")
}

/// Refuses an upgrade that a budget of the cluster can never allow, as AKS does before it begins.
// See https://learn.microsoft.com/troubleshoot/azure/azure-kubernetes/error-codes/unsatisfiablepdb-error (`maxunavailble`)
// See https://github.com/Azure/AKS/issues/4860 (`minAvailable`, and the words around the list)
async fn refuse_impossible_budgets(client: &Client) -> Result<()> {
    let listed = objects::list::<PodDisruptionBudget>(client, None, &ListParams::default()).await;
    let budgets = listed.map_err(|error| {
        Error::new(Code::ClusterRefused, cause(&error).context("could not list the budgets of the embedded cluster"))
    })?;
    let mut impossible = BTreeSet::new();
    for budget in &budgets {
        let Some(spec) = &budget.spec else { continue };
        let expected = budget.status.as_ref().and_then(|status| status.expected_pods).unwrap_or_default();
        let why = match (&spec.max_unavailable, &spec.min_available) {
            (Some(IntOrString::Int(0)), _) => "maxunavailble == 0".to_owned(),
            (Some(IntOrString::String(share)), _) if share == "0%" => "maxunavailble == 0".to_owned(),
            (_, Some(IntOrString::Int(least))) if expected > 0 && *least >= expected => {
                format!("minAvailable({least}) >= expectedPods({expected}) ")
            }
            (_, Some(IntOrString::String(share))) if share == "100%" && expected > 0 => {
                format!("minAvailable({share}) >= expectedPods({expected}) ")
            }
            _ => continue,
        };
        let namespace = budget.namespace().unwrap_or_default();
        impossible
            .insert(format!("* PDB {namespace}/{} has {why} can't proceed with put operation", budget.name_any()));
    }
    if impossible.is_empty() {
        return Ok(());
    }
    let count = impossible.len();
    let list: Vec<String> = impossible.into_iter().collect();
    let message = format!(
        "(UnsatisfiablePDB) Upgrade is blocked due to invalid Pod Disruption Budgets (PDBs). Please review the PDB spec to allow \
         disruptions during upgrades. Invalid PDBs details: {count} error{} occurred:\n\t{}",
        if count == 1 { "" } else { "s" },
        list.join("\n\t")
    );
    Err(Error::message(Code::PoolUpgrade, message)
        .hint("`kubectl get pdb -A` shows the budgets; one that allows a disruption lets the upgrade begin"))
}

/// Waits until the upgrade of a pool is over; `pass` lets time pass.
pub(super) async fn wait(
    client: &Client,
    pool: &str,
    pass: impl AsyncFn(Duration),
    activity: &Activity,
    what: &str,
) -> Result<()> {
    loop {
        let Some(upgrade) = read(client).await?.remove(pool) else {
            let message = format!("the upgrade of pool `{pool}` was given up");
            return Err(Error::message(Code::PoolUpgrade, message));
        };
        let left = "nodes of the old version; the next upgrade of the pool goes on with them";
        let failed = |state: &str, message: String| {
            Error::message(Code::PoolUpgrade, format!("(UpgradeFailed) {message}"))
                .left_behind(format!("pool `{pool}`, in state {state}, with {left}"))
                .hint("`kubectl get pdb -A` shows which budget allows no disruption")
        };
        match upgrade.end {
            Some(End::Succeeded) => return Ok(()),
            Some(End::Failed(message)) => return Err(failed("Failed", message)),
            Some(End::Canceled(_)) if upgrade.is_halfway() => {
                let message = format!("the upgrade of pool `{pool}` was aborted: its old and its new nodes stay");
                return Err(Error::message(Code::PoolUpgrade, message).hint(ways_on(pool, &upgrade)));
            }
            Some(End::Canceled(message)) => return Err(failed("Canceled", message)),
            None => {}
        }
        let (done, all) = upgrade.progress();
        let drained: Vec<&str> = upgrade.drained_nodes().collect();
        let now = if drained.is_empty() { String::new() } else { format!(", draining {}", drained.join(", ")) };
        activity.progress(format!("{what}: {done} of {}{now}", plural(all, "node")));
        pass(LOOK).await;
    }
}
