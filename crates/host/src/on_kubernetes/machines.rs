//! Pure: the lab file of the cluster on AKS that a hosted class runs on, where klab makes that, too.

use super::sizing::Sizing;
use klab_operations::error::{Code, Context, Result};
use serde::Serialize;

/// The class of the Ingress of AKS' own router, and the namespace it runs in.
pub const ROUTER: (&str, &str) = ("webapprouting.kubernetes.azure.com", "app-routing-system");

/// The machines: what Azure's workload pods leave of one, and how many disks one takes.
const SIZE: &str = "Standard_D4s_v5";
const PROCESSOR: u32 = 3400;
const MEMORY: u32 = 10 * 1024;
const DISKS: u32 = 8;

/// What may be said of the cluster.
#[derive(Debug, Clone, Copy, Default)]
pub struct Wishes<'w> {
    /// The region.
    pub location: Option<&'w str>,
    /// The subscription, by name or id.
    pub subscription: Option<&'w str>,
}

#[derive(Serialize)]
struct File<'f> {
    lab: &'f str,
    title: String,
    provider: &'static str,
    aks: Aks<'f>,
    pool: Pools,
}

#[derive(Serialize)]
struct Aks<'f> {
    #[serde(skip_serializing_if = "Option::is_none")]
    location: Option<&'f str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    subscription: Option<&'f str>,
    extra_args: [&'static str; 3],
}

#[derive(Serialize)]
struct Pools {
    system: Pool,
}

#[derive(Serialize)]
struct Pool {
    mode: &'static str,
    nodes: u32,
    size: &'static str,
}

/// What the lab of a class's cluster is called.
pub fn name(class: &str) -> String {
    format!("hosted-{class}")
}

/// Machines for these shards.
fn nodes(sizing: &Sizing) -> u32 {
    let fit = |whole: u32, part: u32| whole.checked_div(part).unwrap_or(whole);
    let of_one = fit(PROCESSOR, sizing.processor).min(fit(MEMORY, sizing.memory)).clamp(1, DISKS);
    sizing.shards.div_ceil(of_one).max(1)
}

/// The lab file of the cluster of a class.
///
/// # Errors
/// Never, as far as is known: it is plain data.
pub fn lab(class: &str, sizing: &Sizing, wishes: Wishes<'_>) -> Result<String> {
    let name = name(class);
    let file = File {
        lab: &name,
        title: format!("The cluster of class {class}"),
        provider: "aks",
        // A router of Azure's own, and somebody who keeps to the NetworkPolicy.
        aks: Aks {
            location: wishes.location,
            subscription: wishes.subscription,
            extra_args: ["--enable-app-routing", "--network-dataplane", "cilium"],
        },
        pool: Pools { system: Pool { mode: "system", nodes: nodes(sizing), size: SIZE } },
    };
    toml::to_string(&file).code(Code::KlabFault, || "could not write the lab of the cluster".to_owned())
}

#[cfg(test)]
mod tests {
    use klab_lab::spec::{self, LoadOptions};

    use super::*;

    const SIZING: Sizing = Sizing { shards: 3, seats: 500, processor: 1100, memory: 1024, disk: 2 };

    #[test]
    fn machines_are_as_many_as_the_shards_need() {
        for (sizing, wanted) in [
            (SIZING, 1),
            (Sizing { shards: 4, ..SIZING }, 2),
            (Sizing { memory: 6 * 1024, ..SIZING }, 3),
            (Sizing { processor: 5000, ..SIZING }, 3),
            (Sizing { shards: 17, processor: 100, memory: 128, ..SIZING }, 3),
        ] {
            assert_eq!(nodes(&sizing), wanted, "{sizing:?}");
        }
    }

    #[test]
    fn the_lab_is_one_that_klab_takes() {
        let wishes = Wishes { location: Some("northeurope"), subscription: Some("Teaching \"A\"") };
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lab.toml");
        std::fs::write(&path, lab("scheduling", &SIZING, wishes).unwrap()).unwrap();
        let lab =
            spec::load(&path, &LoadOptions::default()).unwrap_or_else(|problems| panic!("{}", problems.render(false)));
        assert_eq!((lab.name.value.as_str(), lab.pools.len()), ("hosted-scheduling", 1));
        assert!(lab.provider == spec::Provider::Aks && lab.workloads.is_empty());
    }
}
