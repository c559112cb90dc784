//! Pure: when AKS upgrades the nodes of a pool where klab would otherwise replace them.

use crate::plan::{Action, Declared, Observed, fixed_changes, wanted_version};
use crate::spec::{KubernetesVersion, Lab};

/// An action, or the upgrade that stands for it: where nodes are to be replaced because their version is to be newer, and for no
/// other reason. kind and clusters like it have no such upgrade; AKS goes to no older version.
pub fn as_upgrade(lab: &Lab, observed: &Observed, action: Action, no_wait: bool) -> Action {
    let Action::ReplacePool { pool, nodes, changes } = action else { return action };
    let is_upgrade = || {
        let (spec, live) = (lab.pool(&pool)?, observed.pools.get(&pool)?);
        let is_same_machine = fixed_changes(&live.declared, &Declared::of(spec)).is_empty();
        let newer = is_newer(live.kubernetes.as_deref()?, &wanted_version(lab, Some(spec))?)?;
        Some(lab.is_like_aks() && is_same_machine && newer)
    };
    if is_upgrade().unwrap_or_default() {
        return Action::UpgradePool { pool, nodes, changes, no_wait };
    }
    Action::ReplacePool { pool, nodes, changes }
}

fn is_newer(live: &str, wanted: &str) -> Option<bool> {
    let (live, wanted): (KubernetesVersion, KubernetesVersion) = (live.parse().ok()?, wanted.parse().ok()?);
    Some(wanted.minor > live.minor || (wanted.minor == live.minor && wanted.patch > live.patch))
}
