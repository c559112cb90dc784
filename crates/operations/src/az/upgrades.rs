//! `az aks nodepool upgrade` and `rollback`: versions and node images of pools, and what there is to choose from.

use klab_lab::nodes::latest_node_image;
use klab_lab::spec::KubernetesVersion;
use serde_json::Value;

use super::clusters::{Clusters, is_later};
use super::known::version;
use super::nodepool::{UPGRADE, changed, cluster, idle, lay_upgrade, remember, shown};
use super::pool_arguments::{offered, refuse_stopped, refuse_uncertain, refuse_unknown};
use crate::pool::LivePools;
use crate::pool::live_pools::NO_ROLLBACK;
use crate::state::operation::OperationKind;
use klab_az::commands::Answer;
use klab_az::grammar::Arguments;
use klab_az::refusal::Refusal;
use klab_az::{checks, messages, pool as document, versions};

/// What a pool can be rolled back to.
fn used(live: &LivePools, name: &str) -> Value {
    document::rollback_versions(live.used_before(name))
}

/// `get-upgrades`.
pub(super) fn get_upgrades(on: &dyn Clusters, given: &Arguments) -> Answer {
    let known = cluster(on, given)?;
    let live = on.look_even_stopped(&known)?;
    let pool = shown(&known, &live, given.needed("--nodepool-name"))?;
    let text = |key: &str| pool[key].as_str().unwrap_or_default();
    let now: KubernetesVersion = text("currentOrchestratorVersion").parse().unwrap_or_else(|()| versions::newest());
    let of_cluster = version(&live);
    let to: Vec<String> = versions::minors()
        .into_iter()
        .filter(|minor| *minor > now.minor && *minor <= of_cluster.minor)
        .map(|minor| versions::patched(KubernetesVersion { minor, patch: None }))
        .collect();
    let site = known.site(&live);
    let current = text("currentOrchestratorVersion");
    let spec = live.lab.pool(text("name"));
    let latest = spec.map_or_else(|| text("nodeImageVersion").to_owned(), latest_node_image);
    let used = used(&live, text("name"));
    Ok(document::upgrades(&site, (text("name"), text("osType")), current, &latest, &to, &used))
}

/// `get-rollback-versions`.
pub(super) fn get_rollback_versions(on: &dyn Clusters, given: &Arguments) -> Answer {
    let known = cluster(on, given)?;
    let live = on.look_even_stopped(&known)?;
    let name = given.needed("--nodepool-name");
    refuse_unknown(&live, name)?;
    Ok(used(&live, name))
}

/// `rollback`: to the versions before the last upgrade.
pub(super) fn rollback(on: &dyn Clusters, given: &Arguments) -> Answer {
    let name = given.needed("--nodepool-name");
    let known = cluster(on, given)?;
    let mut pools = idle(on, &known, given, name, OperationKind::Upgrading)?;
    shown(&known, pools.live(), name)?;
    refuse_stopped(&known, pools.live(), name)?;
    let mut keys = pools.live().keys(name)?.clone();
    if !pools.live().lay_used_before(name, &mut keys) {
        return Err(Refusal::new(NO_ROLLBACK));
    }
    pools.put(name, keys)?;
    pools.end()?;
    changed(on, &known, name, given)
}

/// `operation-abort`.
pub(super) fn operation_abort(on: &dyn Clusters, given: &Arguments) -> Answer {
    let known = cluster(on, given)?;
    let name = given.needed("--nodepool-name");
    refuse_unknown(&on.look_even_stopped(&known)?, name)?;
    on.abort_upgrade(&known, name)?;
    Ok(Value::Null)
}

/// `upgrade`.
pub(super) fn upgrade(on: &dyn Clusters, given: &Arguments) -> Answer {
    let name = given.needed("--nodepool-name");
    let asked = given.word("--kubernetes-version").filter(|text| !text.is_empty()).map(checks::version).transpose()?;
    let is_image_only = given.has("--node-image-only");
    if asked.is_some() && is_image_only {
        return Err(Refusal::new(
            "Conflicting flags. Upgrading the Kubernetes version will also upgrade node image version. If you only want to upgrade the node version please use the \"--node-image-only\" option only.",
        ));
    }
    refuse_uncertain(given)?;
    if is_image_only && !given.has_none_of(&UPGRADE) {
        return Err(Refusal::new(
            "Conflicting flags. Unable to specify max-surge/drain-timeout/node-soak-duration/max-unavailable with node-image-only.If you want to use max-surge/drain-timeout/node-soak-duration with a node image upgrade, please first update max-surge/drain-timeout/node-soak-duration/max-unavailable using \"az aks nodepool update --max-surge/--drain-timeout/--node-soak-duration/--max-unavailable\".",
        ));
    }
    let mut known = cluster(on, given)?;
    let mut pools = on.pools(&known, given, name, OperationKind::Upgrading)?;
    let before = shown(&known, pools.live(), name)?;
    refuse_stopped(&known, pools.live(), name)?;
    if is_image_only {
        let mut keys = pools.live().keys(name)?.clone();
        keys.remove("node_image");
        pools.put(name, keys)?;
        pools.end()?;
        return changed(on, &known, name, given);
    }
    let now = before["orchestratorVersion"].as_str().unwrap_or_default();
    // What failed is asked for again.
    let has_failed = before["provisioningState"] == "Failed";
    let Some(wanted) = asked.filter(|wanted| *wanted != now || has_failed) else {
        let question = format!(
            "The cluster is already on version {now} and is not in a failed state. No operations will occur when upgrading to the same version if the cluster is not in a failed state."
        );
        let is_agreed = given.has("--yes") || on.agrees(&question);
        return Ok(if is_agreed && !is_later(given) { before } else { Value::Null });
    };
    let current = before["currentOrchestratorVersion"].as_str().unwrap_or_default();
    let target = offered(pools.live(), wanted)?;
    let current_version: KubernetesVersion = current.parse().unwrap_or(target);
    if target < (KubernetesVersion { patch: target.patch.and(current_version.patch), ..current_version }) {
        return Err(messages::no_upgrade(current, &versions::patched(target), &versions::upgrades(current_version)));
    }
    let mut keys = pools.live().keys(name)?.clone();
    keys.insert("kubernetes".to_owned(), target.to_string().into());
    // A version comes with its image.
    keys.remove("node_image");
    lay_upgrade(given, &mut keys);
    pools.put(name, keys)?;
    pools.end()?;
    remember(on, &mut known, name, given)?;
    changed(on, &known, name, given)
}
