//! The Kubernetes versions that klab's Azure offers, and the steps between them.

use klab_lab::nodes::{VERSION, full_version};
use klab_lab::spec::KubernetesVersion;
use serde_json::{Value, json};

/// How many minors are offered.
const OFFERED: u32 = 4;

/// The newest version: that of the embedded cluster.
pub fn newest() -> KubernetesVersion {
    VERSION.parse().unwrap_or(KubernetesVersion { minor: 36, patch: Some(2) })
}

/// The offered minors, the oldest first.
pub fn minors() -> Vec<u32> {
    let newest = newest().minor;
    (newest.saturating_sub(OFFERED.saturating_sub(1))..=newest).collect()
}

/// The patch that is meant where none is said: the newest that is offered of the minor.
pub fn patched(version: KubernetesVersion) -> String {
    full_version(version)
}

/// The offered versions, down to the patch, the oldest first.
pub fn offered() -> Vec<String> {
    minors().into_iter().map(|minor| patched(KubernetesVersion { minor, patch: None })).collect()
}

/// What a version can be upgraded to in one step, down to the patch.
pub fn upgrades(version: KubernetesVersion) -> Vec<String> {
    let next = minors().into_iter().filter(|minor| *minor == version.minor.saturating_add(1));
    next.map(|minor| patched(KubernetesVersion { minor, patch: None })).collect()
}

/// What an upgrade of a cluster comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// It has the version already.
    Nothing,
    /// To a newer patch, or to the next minor.
    Forward,
    /// Back, or over a minor: Kubernetes does not do that.
    Refused,
}

/// The step from a cluster's version to another; one without a patch is any of its minor.
pub fn step(now: KubernetesVersion, asked: KubernetesVersion) -> Step {
    let full = |version| patched(version).parse().unwrap_or(version);
    let (have, wanted) = (full(now), full(asked));
    if have == wanted || (asked.patch.is_none() && asked.minor == now.minor && wanted < have) {
        Step::Nothing
    } else if wanted > have && wanted.minor <= have.minor.saturating_add(1) {
        Step::Forward
    } else {
        Step::Refused
    }
}

/// What `az aks get-versions` answers.
pub fn document() -> Value {
    let newest = newest().minor;
    let row = |minor: u32| {
        let version = KubernetesVersion { minor, patch: None };
        json!({
            "capabilities": { "supportPlan": ["KubernetesOfficial", "AKSLongTermSupport"] },
            "isDefault": (minor == newest).then_some(true),
            "isPreview": null,
            "patchVersions": { (patched(version)): { "upgrades": upgrades(version) } },
            "version": version.to_string(),
        })
    };
    json!({ "values": minors().into_iter().rev().map(row).collect::<Vec<_>>() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clusters_go_forward_and_never_back() {
        for (now, asked, expected) in [
            ("1.35", "1.35", Step::Nothing),
            ("1.36", "1.36.2", Step::Nothing),
            ("1.35.4", "1.35", Step::Nothing),
            ("1.36.1", "1.36", Step::Forward),
            ("1.35.1", "1.35.4", Step::Forward),
            ("1.35.4", "1.36", Step::Forward),
            ("1.36", "1.36.1", Step::Refused),
            ("1.35.4", "1.35.1", Step::Refused),
            ("1.35", "1.34.9", Step::Refused),
            ("1.33", "1.35", Step::Refused),
        ] {
            assert_eq!(step(now.parse().unwrap(), asked.parse().unwrap()), expected, "{now} to {asked}");
        }
    }

    #[test]
    fn each_offered_version_but_the_newest_has_one_upgrade() {
        assert_eq!(offered(), ["1.33.0", "1.34.0", "1.35.0", "1.36.2"]);
        let of = |text: &str| upgrades(text.parse().unwrap()).join(" ");
        assert_eq!(
            (of("1.34"), of("1.35.0"), of("1.36.2"), of("1.20")),
            ("1.35.0".into(), "1.36.2".into(), String::new(), String::new())
        );
        assert_eq!(document()["values"][0]["patchVersions"]["1.36.2"]["upgrades"], json!([]));
    }
}
