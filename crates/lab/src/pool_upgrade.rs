//! Pure: when AKS upgrades the nodes of a pool where klab would otherwise replace them.

use crate::nodes::latest_node_image;
use crate::plan::{Action, Declared, Observed, ObservedPool, fixed_changes, wanted_version};
use crate::spec::{KubernetesVersion, Lab, Pool, UpgradeKind};

/// An action, or the upgrade that stands for it: where nodes are to be replaced because their version is to be newer, and for no
/// other reason, or where other machines are asked for (`kind`). kind and clusters like it have no such upgrade; AKS goes to no
/// older version.
pub fn as_upgrade(lab: &Lab, observed: &Observed, action: Action, kind: UpgradeKind, no_wait: bool) -> Action {
    let Action::ReplacePool { pool, nodes, changes } = action else { return action };
    let is_upgrade = || {
        let (spec, live) = (lab.pool(&pool)?, observed.pools.get(&pool)?);
        let is_same_machine = fixed_changes(&live.declared, &Declared::of(spec)).is_empty();
        let is_newer = || is_newer(live.kubernetes.as_deref()?, &wanted_version(lab, Some(spec))?);
        Some(lab.is_like_aks() && (kind == UpgradeKind::Machines || is_same_machine && is_newer()?))
    };
    if is_upgrade().unwrap_or_default() {
        return Action::UpgradePool { pool, kind, nodes, changes, no_wait };
    }
    Action::ReplacePool { pool, nodes, changes }
}

fn is_newer(live: &str, wanted: &str) -> Option<bool> {
    let (live, wanted): (KubernetesVersion, KubernetesVersion) = (live.parse().ok()?, wanted.parse().ok()?);
    Some(wanted.minor > live.minor || (wanted.minor == live.minor && wanted.patch > live.patch))
}

/// The upgrade of a pool's nodes to the newest node image; none where they have it. Azure alone knows what it has.
pub fn image_upgrade(lab: &Lab, pool: &Pool, observed: &Observed, no_wait: bool) -> Option<Action> {
    let live = observed.pools.get(&pool.name.value)?;
    let latest = latest_node_image(pool);
    let is_embedded = lab.provider.profile().is_embedded;
    let (image, what) = match &live.node_image {
        Some(image) if is_embedded => (Some(image), format!("node image {image} becomes {latest}")),
        _ => (None, "the newest node image".to_owned()),
    };
    let action = upgrade(live, pool, UpgradeKind::NodeImage, vec![what], no_wait);
    (image != Some(&latest)).then_some(action)
}

/// What brings a pool back to what it had before its last upgrade, which `pool` says.
pub fn rollback(pool: &Pool, observed: &Observed, no_wait: bool) -> Option<Action> {
    let live = observed.pools.get(&pool.name.value)?;
    let changes = match &live.rollback {
        Some((version, image, _)) => {
            let pairs = [("Kubernetes", &live.kubernetes, version), ("node image", &live.node_image, image)];
            let changed = pairs.into_iter().filter(|(_, now, then)| now.as_ref() != Some(then));
            let text = |now: &Option<String>| now.clone().unwrap_or_default();
            let changes: Vec<String> =
                changed.map(|(what, now, then)| format!("{what} {} becomes {then}", text(now))).collect();
            // A blue-green upgrade that was aborted has its old nodes still.
            if changes.is_empty() { vec![format!("back to the nodes of Kubernetes {version}")] } else { changes }
        }
        None => vec!["the versions before its last upgrade".to_owned()],
    };
    Some(upgrade(live, pool, UpgradeKind::Rollback, changes, no_wait))
}

fn upgrade(live: &ObservedPool, pool: &Pool, kind: UpgradeKind, changes: Vec<String>, no_wait: bool) -> Action {
    let nodes = u32::try_from(live.nodes.len()).unwrap_or(u32::MAX);
    Action::UpgradePool { pool: pool.name.value.clone(), kind, nodes, changes, no_wait }
}
