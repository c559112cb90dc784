//! Endpoints: addresses grouped by the ports that they have.

// upstream: pkg/controller/endpoint/endpoints_controller.go syncService, addEndpointSubset, truncateEndpoints (v1.36)
// upstream: pkg/api/v1/endpoints/util.go RepackSubsets (v1.36)

use klab_api_machinery::resource::ENDPOINTS;
use klab_api_machinery::value::map_mut;
use klab_api_machinery::views::{self, ObjectMeta, ServicePort, metadata};
use serde_json::{Value, json};

use super::super::plane::Plane;
use super::super::pods::writes;
use super::slices::target;
use super::{Endpoints, HEADLESS, Selected, overwrite, set_trigger};

const MANAGED_BY: &str = "endpoints.kubernetes.io/managed-by";
const OVER_CAPACITY: &str = "endpoints.kubernetes.io/over-capacity";
/// How many addresses Endpoints hold.
const MAX_CAPACITY: usize = 1000;

/// Addresses with the same ports.
struct Subset {
    ports: Vec<Value>,
    /// By number, whether they are ready or not.
    members: Vec<usize>,
}

impl Endpoints {
    pub(super) fn write_endpoints(&mut self, plane: &Plane, selected: &Selected<'_>) {
        let (subsets, truncated) = self.subsets(selected);
        let service = selected.service;
        let mut labels = selected.value.metadata().0["labels"].clone();
        let map = map_mut(&mut labels);
        map.insert(MANAGED_BY.to_owned(), json!("endpoint-controller"));
        if selected.is_headless() {
            map.insert(HEADLESS.to_owned(), json!(""));
        } else {
            map.remove(HEADLESS);
        }
        let is_truncated = |object: ObjectMeta<'_>| object.annotations().get(OVER_CAPACITY) == Some("truncated");
        let set = |object: &mut Value| {
            object["metadata"]["labels"] = labels.clone();
            set_trigger(object, selected.trigger.as_deref());
            if truncated {
                object["metadata"]["annotations"][OVER_CAPACITY] = json!("truncated");
            } else if let Some(annotations) = object["metadata"]["annotations"].as_object_mut() {
                annotations.remove(OVER_CAPACITY);
            }
            object["subsets"] = json!(subsets);
        };
        let Some(object) = plane.cluster.get(ENDPOINTS, &service.namespace, &service.name) else {
            let mut object = json!({ "metadata": { "name": service.name } });
            set(&mut object);
            let _made = plane.cluster.create(ENDPOINTS, &service.namespace, object, &writes());
            return;
        };
        let old = object.value();
        let (old, metadata) = (views::Endpoints(&old), metadata(&old));
        let has_same_labels = metadata.0["labels"] == labels && is_truncated(metadata) == truncated;
        if !has_same_labels || !old.subsets().map(|subset| subset.0).eq(&subsets) {
            overwrite(plane, &object, set);
        }
    }

    /// The subsets, and whether addresses had to be left out.
    fn subsets(&mut self, selected: &Selected<'_>) -> (Vec<Value>, bool) {
        let pods: Vec<_> =
            selected.pods.iter().filter(|pod| selected.publishes_unready || !pod.object.deleting).collect();
        let backends: Vec<_> = pods.iter().map(|pod| self.backends.of(pod)).collect();
        let ports = selected.value.spec().ports();
        // Each port with those that have it; then ports that the same ones have are put together.
        let mut by_port: Vec<(Value, Vec<usize>)> = Vec::new();
        for port in ports.clone() {
            for (at, backend) in backends.iter().enumerate() {
                let Some(number) = backend.port(port) else { continue };
                let made = subset_port(port, number);
                match by_port.iter_mut().find(|(have, _)| *have == made) {
                    Some((_, members)) => members.push(at),
                    None => by_port.push((made, vec![at])),
                }
            }
        }
        let mut groups: Vec<Subset> = Vec::new();
        for (port, members) in by_port {
            match groups.iter_mut().find(|group| group.members == members) {
                Some(group) => group.ports.push(port),
                None => groups.push(Subset { ports: vec![port], members }),
            }
        }
        if ports.is_empty() && selected.is_headless() && !pods.is_empty() {
            groups.push(Subset { ports: Vec::new(), members: (0..pods.len()).collect() });
        }
        let address = |at: &usize| {
            let pod = pods[*at];
            let mut address = json!({ "ip": pod.ip, "nodeName": pod.node, "targetRef": target(pod) });
            if let Some(host) = backends[*at].host_name(&selected.service.name) {
                address["hostname"] = json!(host);
            }
            address
        };
        let is_ready = |at: &usize| selected.publishes_unready || pods[*at].ready;
        let mut split: Vec<[Vec<usize>; 2]> = groups
            .iter()
            .map(|group| {
                let (ready, unready) = group.members.iter().copied().partition(|at| is_ready(at));
                [ready, unready]
            })
            .collect();
        let truncated = truncate(&mut split);
        let subset = |(group, [ready, unready]): (&Subset, &[Vec<usize>; 2])| {
            let mut subset = json!({});
            for (field, members) in [("addresses", ready), ("notReadyAddresses", unready)] {
                if !members.is_empty() {
                    subset[field] = Value::Array(members.iter().map(address).collect());
                }
            }
            if !group.ports.is_empty() {
                subset["ports"] = json!(group.ports);
            }
            subset
        };
        (groups.iter().zip(&split).map(subset).collect(), truncated)
    }
}

fn subset_port(port: ServicePort<'_>, number: Value) -> Value {
    let mut made = json!({ "protocol": port.protocol(), "port": number });
    for (field, text) in [("name", port.name()), ("appProtocol", port.app_protocol().unwrap_or_default())] {
        if !text.is_empty() {
            made[field] = json!(text);
        }
    }
    made
}

/// Leaves out what is above the capacity, each subset's share of it: addresses that are not ready first.
fn truncate(subsets: &mut [[Vec<usize>; 2]]) -> bool {
    let total = |subsets: &[[Vec<usize>; 2]], which: usize| subsets.iter().map(|both| both[which].len()).sum::<usize>();
    let (ready, unready) = (total(subsets, 0), total(subsets, 1));
    if ready + unready <= MAX_CAPACITY {
        return false;
    }
    let which = usize::from(ready <= MAX_CAPACITY);
    let (most, all) = if which == 0 { (MAX_CAPACITY, ready) } else { (MAX_CAPACITY - ready, unready) };
    let mut left = most;
    for both in subsets {
        let share = (both[which].len() * most).div_ceil(all).min(left);
        both[which].truncate(share);
        if which == 0 {
            both[1].clear();
        }
        left -= both[which].len();
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_above_the_capacity_is_left_out_in_proportion() {
        let of = |ready: usize, unready: usize| [(0..ready).collect::<Vec<_>>(), (0..unready).collect()];
        let sizes = |mut subsets: Vec<[Vec<usize>; 2]>| {
            let truncated = truncate(&mut subsets);
            (truncated, subsets.iter().map(|both| (both[0].len(), both[1].len())).collect::<Vec<_>>())
        };
        assert_eq!(sizes(vec![of(600, 400)]), (false, vec![(600, 400)]));
        assert_eq!(sizes(vec![of(600, 600), of(0, 200)]), (true, vec![(600, 300), (0, 100)]));
        assert_eq!(sizes(vec![of(1500, 10), of(500, 0)]), (true, vec![(750, 0), (250, 0)]));
    }
}
