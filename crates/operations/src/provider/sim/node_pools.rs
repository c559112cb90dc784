//! The configuration of the embedded cluster's autoscaler: which pools it may change, what their nodes are, and its settings.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::Client;
use kube::api::Patch;
use serde_json::{Value, json};

use crate::apply::patch_parameters;
use crate::client::{cause, objects};
use crate::error::{Code, Error, Result};
use klab_api_machinery::node_pools::{ADDRESS, NAME, NAMESPACE, NODE_POOLS, NUMBER, NodeNames, NodePool, PROFILE};
use klab_lab::names::DECLARED_ANNOTATION;
use klab_lab::nodes;
use klab_lab::plan::Declared;
use klab_lab::spec::{Lab, Pool, SimLike};

/// So often a ConfigMap is written that somebody else changes at the same time.
const TRIES: u32 = 10;

/// The autoscaler's settings.
#[derive(Debug, Default)]
pub(super) struct AutoscalerSettings {
    /// The pools, as they were declared.
    pub(super) pools: BTreeMap<String, Declared>,
    /// Its settings.
    pub(super) settings: BTreeMap<String, String>,
}

/// Reads the autoscaler's settings.
pub(super) async fn read(client: &Client) -> Result<AutoscalerSettings> {
    let pools = find(client, NODE_POOLS).await?.map(|map| NodePool::read(&json!({ "data": map.data })));
    let named = |(name, pool): (String, NodePool)| Some((name, declared(pool.templates.first()?)?));
    let pools = pools.into_iter().flatten().filter_map(named).collect();
    let settings = find(client, PROFILE).await?.and_then(|map| map.data).unwrap_or_default();
    Ok(AutoscalerSettings { pools, settings })
}

/// What was declared for the pool of a node.
pub(super) fn declared(node: &Value) -> Option<Declared> {
    serde_json::from_str(node["metadata"]["annotations"][DECLARED_ANNOTATION].as_str()?).ok()
}

/// Tells the autoscaler about a pool; it must know nothing of one that is not autoscaled.
pub(super) async fn set(client: &Client, lab: &Lab, pool: &Pool) -> Result<()> {
    let name = &pool.name.value;
    let wanted = node_pool(lab, pool);
    change(client, NODE_POOLS, |known| {
        let before = known.and_then(|map| NodePool::read(&json!({ "data": map.data })).remove(name));
        let Some(wanted) = &wanted else { return before.map(|_| json!({ name: null })) };
        // Machines that are on their way come.
        let starting = before.map(|before| before.starting).unwrap_or_default();
        let text = serde_json::to_string(&NodePool { starting, ..wanted.clone() }).unwrap_or_default();
        Some(json!({ name: text }))
    })
    .await
}

/// The autoscaler is to know nothing of a pool any more.
pub(super) async fn forget(client: &Client, pool: &str) -> Result<()> {
    change(client, NODE_POOLS, |known| {
        let is_known = known?.data.as_ref().is_some_and(|data| data.contains_key(pool));
        is_known.then(|| json!({ pool: null }))
    })
    .await
}

/// Gives the autoscaler these settings, and no others.
pub(super) async fn set_profile(client: &Client, settings: &BTreeMap<String, String>) -> Result<()> {
    change(client, PROFILE, |known| {
        let known = known.and_then(|map| map.data.as_ref());
        let gone = known.into_iter().flatten().map(|(name, _)| (name, Value::Null));
        let mut data: BTreeMap<&String, Value> = gone.collect();
        data.extend(settings.iter().map(|(name, value)| (name, json!(value))));
        Some(json!(data))
    })
    .await
}

/// A pool as the autoscaler is to know it; none where it is not autoscaled.
pub(super) fn node_pool(lab: &Lab, pool: &Pool) -> Option<NodePool> {
    let bounds = pool.autoscale.as_ref()?;
    Some(NodePool { min: bounds.min, max: bounds.max, ..machines(lab, pool) })
}

/// What the nodes of a pool are, and how they are named.
pub(super) fn machines(lab: &Lab, pool: &Pool) -> NodePool {
    let declared = serde_json::to_string(&Declared::of(pool)).unwrap_or_default();
    let zones = u32::try_from(pool.zones.len()).unwrap_or_default().max(1);
    let template = |(part, number): (&Pool, u32)| {
        let mut node = nodes::template(lab, part, number, NAME, NUMBER, ADDRESS);
        node["metadata"]["annotations"][DECLARED_ANNOTATION] = json!(declared);
        node
    };
    let parts = pool.parts();
    let (group, names) = match lab.sim.like {
        SimLike::Aks => {
            let names = if pool.is_virtual_machines() { NodeNames::VirtualMachines } else { NodeNames::ScaleSet };
            (nodes::scale_set(lab, pool), names(nodes::scale_set(lab, pool)))
        }
        SimLike::Kind => (pool.name.value.clone(), NodeNames::Workers(format!("{}-worker", lab.name.value))),
    };
    NodePool {
        min: 0,
        max: 0,
        group,
        names,
        first_address: nodes::address(lab, pool, 0).parse().unwrap_or(Ipv4Addr::UNSPECIFIED),
        templates: parts.iter().flat_map(|part| (0..zones).map(|zone| (&**part, zone))).map(template).collect(),
        capacity: pool.capacity.as_ref().map(|capacity| capacity.value),
        start_seconds: u32::try_from(lab.sim.node_start.as_secs()).unwrap_or_default(),
        starting: Vec::new(),
    }
}

pub(super) async fn find(client: &Client, name: &str) -> Result<Option<ConfigMap>> {
    objects::find(client, Some(NAMESPACE), name).await.map_err(|error| failure("read", name, &error))
}

/// Changes a ConfigMap as it is at the moment of the change: `changed` says what of its data changes, null for what goes. The
/// autoscaler writes the same ConfigMap; where it was faster, what to change is asked again.
pub(super) async fn change(
    client: &Client,
    name: &str,
    changed: impl Fn(Option<&ConfigMap>) -> Option<Value>,
) -> Result<()> {
    let mut tries = 0;
    loop {
        let known = find(client, name).await?;
        let Some(data) = changed(known.as_ref()) else { return Ok(()) };
        tries += 1;
        match write(client, name, known.as_ref(), &data).await {
            Err(kube::Error::Api(status)) if status.code == 409 && tries < TRIES => {}
            written => return written.map_err(|error| failure("change", name, &error)),
        }
    }
}

async fn write(
    client: &Client,
    name: &str,
    known: Option<&ConfigMap>,
    data: &Value,
) -> std::result::Result<(), kube::Error> {
    if let Some(known) = known {
        let version = &known.metadata.resource_version;
        let patch = Patch::Merge(json!({ "metadata": { "resourceVersion": version }, "data": data }));
        let maps = objects::writer_in::<ConfigMap>(client, NAMESPACE);
        return maps.patch(name, &patch_parameters(), &patch).await.map(drop);
    }
    let metadata = json!({ "name": name, "namespace": NAMESPACE });
    let map = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data });
    objects::create::<ConfigMap>(client, Some(NAMESPACE), &map).await
}

fn failure(verb: &str, what: &str, error: &kube::Error) -> Error {
    Error::new(
        Code::ClusterRefused,
        cause(error).context(format!("could not {verb} ConfigMap `{what}` of the embedded cluster")),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use klab_lab::spec::{LoadOptions, parse};

    #[test]
    fn nodes_of_the_autoscaler_are_those_that_klab_would_make() {
        for like in ["aks", "kind"] {
            let text = format!(
                "lab = \"demo\"\n[sim]\nlike = \"{like}\"\n[pool.main]\nmode = \"system\"\nnodes = 2\n[pool.burst]\nnodes = 0\n\
                 autoscale = {{ min = 0, max = 40 }}\nzones = [1, 2]\ntaints = [\"a=b:NoSchedule\"]\n"
            );
            let lab = parse("lab.toml", &text, &LoadOptions::default()).unwrap();
            let burst = lab.pool("burst").unwrap();
            let pool = node_pool(&lab, burst).unwrap();
            assert_eq!(node_pool(&lab, &lab.pools[0]), None);
            let cluster = klab_cluster::Cluster::builder().build().unwrap();
            let mains = (0..2).map(|number| nodes::node(&lab, &lab.pools[0], number));
            cluster.add_objects(&mains.collect::<Vec<_>>()).unwrap();
            let starting = vec![cluster.now(); 40];
            let map = NodePool::config_map(&[("burst".to_owned(), NodePool { starting, ..pool })].into());
            cluster.add_objects(&[map]).unwrap();
            let taken = (0..2).map(|number| nodes::node_name(&lab, &lab.pools[0], number)).collect();
            let expected: Vec<Value> = nodes::missing(&lab, burst, &[], taken).take(40).collect();
            for node in expected {
                let name = node["metadata"]["name"].as_str().unwrap();
                let nodes = klab_api_machinery::resource::NODES;
                let made = cluster.inner().get(nodes, "", name).unwrap_or_else(|| panic!("no node {name}")).value();
                assert_eq!(made["spec"]["providerID"], node["spec"]["providerID"]);
                assert_eq!(made["status"]["addresses"], node["status"]["addresses"]);
                assert_eq!(made["status"]["allocatable"]["pods"], node["status"]["allocatable"]["pods"]);
                for (key, value) in node["metadata"]["labels"].as_object().unwrap() {
                    assert_eq!(made["metadata"]["labels"][key], *value, "{name} {key}");
                }
            }
        }
    }

    #[test]
    fn what_the_autoscaler_writes_at_the_same_time_is_kept() {
        let cluster = klab_cluster::Cluster::builder().build().unwrap();
        let map = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": { "name": NODE_POOLS, "namespace": NAMESPACE }, "data": { "burst": "0" },
        });
        cluster.add_objects(&[map]).unwrap();
        let read = || {
            let maps = klab_api_machinery::resource::CONFIG_MAPS;
            let map = cluster.inner().get(maps, NAMESPACE, NODE_POOLS).unwrap().value();
            map["data"]["burst"].as_str().unwrap().to_owned()
        };
        let asked = std::cell::Cell::new(0);
        let add_one = |known: Option<&ConfigMap>| {
            let before = known.unwrap().data.as_ref().unwrap()["burst"].clone();
            // Others write between what is read and what is written, twice.
            if asked.replace(asked.get() + 1) < 2 {
                let write = klab_cluster::cluster::WriteOptions::client("autoscaler");
                let other = |map: &mut Value| map["data"]["burst"] = json!(format!("{before}a"));
                let maps = klab_api_machinery::resource::CONFIG_MAPS;
                let part = klab_cluster::cluster::Part::Main;
                cluster.inner().modify(maps, part, NAMESPACE, NODE_POOLS, &write, other).unwrap();
            }
            Some(json!({ "burst": format!("{before}k") }))
        };
        let runtime = crate::client::runtime().unwrap();
        runtime.block_on(async { change(&cluster.client(), NODE_POOLS, add_one).await }).unwrap();
        assert_eq!((read(), asked.get()), ("0aak".to_owned(), 3));
    }
}
