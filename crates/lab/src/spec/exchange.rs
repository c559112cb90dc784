//! Pure: which machines of a pool AKS exchanges for which others.

use super::machine::VmSize;
use super::pool::Pool;

/// Why AKS does not exchange the machines of a pool for those of another one, or why klab cannot know that it does.
// See https://learn.microsoft.com/azure/aks/resize-node-pool ("Validation and unsupported combinations")
pub fn exchange_refusal(before: &Pool, after: &Pool) -> Option<String> {
    if before.is_virtual_machines() || after.is_virtual_machines() {
        return Some(
            "`az aks nodepool manual-scale update` gives a size of single virtual machines another one".to_owned(),
        );
    }
    let (Some(old), Some(new)) = (before.machine.size, after.machine.size) else {
        let why = "nodes have an Azure VM size that klab knows, before and afterwards";
        return (before.machine != after.machine).then(|| why.to_owned());
    };
    let pair = |what: &str, of: fn(&VmSize) -> &'static str| {
        let (before, after) = (of(old), of(new));
        (before != after).then(|| format!("{} has {what} {before}, {} has {after}", old.name, new.name))
    };
    let surge = after.upgrade.surge().is_none();
    pair("the CPU architecture", |size| size.arch)
        .or_else(|| pair("disk controllers of type", disk_controller))
        .or_else(|| pair("virtual machines of generation", generation))
        .or_else(|| pair("GPUs:", |size| if size.gpus > 0 { "yes" } else { "no" }))
        .or_else(|| {
            let why = "AKS upgrades versions and node images blue-green, and no machines";
            after.upgrade.is_blue_green().then(|| why.to_owned())
        })
        .or_else(|| surge.then(|| "it needs surge nodes, and `max_surge` of the pool is 0".to_owned()))
}

/// The sixth generation of sizes is the first that has NVMe alone.
fn disk_controller(size: &VmSize) -> &'static str {
    if size.family.ends_with("v6") { "NVMe" } else { "SCSI" }
}

/// The oldest sizes have no virtual machines of generation 2.
fn generation(size: &VmSize) -> &'static str {
    if matches!(size.family, "Av2" | "Dv2") { "1" } else { "2" }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::{LoadOptions, parse};

    #[test]
    fn machines_are_exchanged_for_machines_of_their_kind() {
        let pool = |keys: &str| {
            let lab = parse("lab.toml", &format!("lab = 'x'\n[pool.main]\n{keys}"), &LoadOptions::default());
            lab.unwrap_or_else(|problems| panic!("{problems}")).pools[0].clone()
        };
        for (before, after, why) in [
            ("size = 'Standard_D2s_v5'", "size = 'Standard_D4s_v5'", None),
            ("size = 'Standard_B2ms'", "size = 'Standard_E4s_v4'", None),
            ("size = 'Standard_D2s_v5'", "size = 'Standard_D2ps_v5'", Some("Standard_D2ps_v5 has arm64")),
            ("size = 'Standard_D2s_v5'", "size = 'Standard_D2s_v6'", Some("type SCSI, Standard_D2s_v6 has NVMe")),
            ("size = 'Standard_A2_v2'", "size = 'Standard_D2s_v5'", Some("generation 1, Standard_D2s_v5 has 2")),
            ("size = 'Standard_D2s_v3'", "size = 'Standard_NC4as_T4_v3'", Some("GPUs: no")),
            ("cpu = 2\nmemory = '4Gi'", "size = 'Standard_D2s_v3'", Some("that klab knows")),
            (
                "size = 'Standard_D2s_v5'",
                "size = 'Standard_D4s_v5'\nmode = 'user'\nupgrade = { max_surge = 0, max_unavailable = 1 }\n[pool.more]\nmode = 'system'",
                Some("`max_surge` of the pool is 0"),
            ),
        ] {
            let found = exchange_refusal(&pool(before), &pool(after));
            let as_expected = match (why, &found) {
                (None, None) => true,
                (Some(why), Some(found)) => found.contains(why),
                _ => false,
            };
            assert!(as_expected, "{before} to {after}: {found:?}");
        }
    }
}
