//! Devices that a pool's nodes are about to lose, and the pods that have them: a driver takes nothing from a running pod.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::resource::v1::ResourceClaim;
use kube::api::ListParams;
use kube::{Client, ResourceExt};

use crate::client::{cause, objects};
use crate::error::{Code, Error, Result};
use crate::event::Events;
use klab_lab::names::DEVICES_ANNOTATION;
use klab_lab::nodes::devices_annotation;
use klab_lab::spec::Pool;
use klab_lab::words::first_of;

/// Most pods that are named.
const NAMED: usize = 5;

/// Says which pods keep devices that the pool will no longer have.
pub(super) async fn tell_who_keeps(client: &Client, pool: &Pool, nodes: &[Node], events: &Events) -> Result<()> {
    let wanted = devices_annotation(pool);
    let changes = |node: &&Node| node.annotations().get(DEVICES_ANNOTATION) != wanted.as_ref();
    let changed: BTreeSet<String> = nodes.iter().filter(changes).map(ResourceExt::name_any).collect();
    if changed.is_empty() {
        return Ok(());
    }
    let listed = objects::list::<ResourceClaim>(client, None, &ListParams::default()).await;
    let claims = listed.map_err(|error| {
        Error::new(
            Code::ClusterRefused,
            cause(&error).context("could not list the resource claims of the embedded cluster"),
        )
    })?;
    let pods = keepers(pool, &changed, &claims);
    if !pods.is_empty() {
        let (noun, verb) = if pods.len() == 1 { ("pod", "goes") } else { ("pods", "go") };
        let first = pods.first().and_then(|pod| pod.split_once('/')).unwrap_or_default();
        events.warn(
            Code::DevicesKept,
            format!(
                "{noun} {} {verb} on with devices that pool {} no longer has: `kubectl delete pod {} -n {}` frees them, what \
                 makes such a pod makes it again",
                first_of(&pods, NAMED),
                pool.name.value,
                first.1,
                first.0
            ),
        );
    }
    Ok(())
}

/// The pods with devices on these nodes that are beyond those the pool is to have.
fn keepers(pool: &Pool, nodes: &BTreeSet<String>, claims: &[ResourceClaim]) -> Vec<String> {
    let left = |driver: &str| -> u32 {
        pool.devices.iter().filter(|devices| devices.driver() == driver).map(|devices| devices.count).sum()
    };
    let is_lost = |claim: &&ResourceClaim| {
        let allocation = claim.status.as_ref().and_then(|status| status.allocation.as_ref());
        let devices = allocation.and_then(|allocation| allocation.devices.as_ref()?.results.as_ref());
        devices.into_iter().flatten().any(|device| {
            // `gpu-3`: devices are numbered, and the last ones go.
            let number = device.device.rsplit_once('-').and_then(|(_, number)| number.parse::<u32>().ok());
            nodes.contains(&device.pool) && number.is_some_and(|number| number >= left(&device.driver))
        })
    };
    let mut pods = BTreeSet::new();
    for claim in claims.iter().filter(is_lost) {
        let namespace = claim.namespace().unwrap_or_default();
        let consumers = claim.status.iter().flat_map(|status| status.reserved_for.iter().flatten());
        let of_pods = consumers.filter(|consumer| consumer.resource == "pods");
        pods.extend(of_pods.map(|consumer| format!("{namespace}/{}", consumer.name)));
    }
    pods.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use klab_lab::spec::{LoadOptions, parse};
    use serde_json::json;

    #[test]
    fn pods_with_the_last_devices_are_told_of() {
        let text = "lab = 'x'\n[pool.a]\nnodes = 1\ndevices = [{ class = 'gpu.example.com', count = 2 }]\n";
        let lab = parse("x.toml", text, &LoadOptions::default()).unwrap_or_else(|problems| panic!("{problems}"));
        let claim = |pod: &str, driver: &str, node: &str, device: &str| -> ResourceClaim {
            let results = json!([{ "request": "r", "driver": driver, "pool": node, "device": device }]);
            serde_json::from_value(json!({
                "metadata": { "name": pod, "namespace": "team" }, "spec": {},
                "status": { "allocation": { "devices": { "results": results } },
                    "reservedFor": [{ "resource": "pods", "name": pod, "uid": pod }] },
            }))
            .unwrap()
        };
        let claims = [
            claim("stays", "gpu.example.com", "n1", "gpu-1"),
            claim("keeps", "gpu.example.com", "n1", "gpu-2"),
            claim("elsewhere", "gpu.example.com", "n2", "gpu-3"),
            claim("gone", "nic.example.com", "n1", "nic-0"),
        ];
        let nodes = BTreeSet::from(["n1".to_owned()]);
        assert_eq!(keepers(&lab.pools[0], &nodes, &claims), ["team/gone", "team/keeps"]);
    }
}
