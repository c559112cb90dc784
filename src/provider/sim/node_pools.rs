//! What the embedded cluster's autoscaler is told: which pools it may change, what their nodes are, and its settings.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::Client;
use kube::api::{Api, Patch, PostParams};
use serde_json::{Value, json};

use crate::apply::patch_parameters;
use crate::client::cause;
use crate::error::{Error, Kind, Result};
use klab_cluster::node_pools::{ADDRESS, NAME, NAMESPACE, NODE_POOLS, NUMBER, NodeNames, NodePool, PROFILE};
use klab_lab::names::DECLARED_ANNOTATION;
use klab_lab::nodes;
use klab_lab::plan::Declared;
use klab_lab::spec::{Lab, Pool, SimLike};

/// What the autoscaler was told.
#[derive(Debug, Default)]
pub(super) struct Told {
    /// The pools, as they were declared.
    pub(super) pools: BTreeMap<String, Declared>,
    /// Its settings.
    pub(super) settings: BTreeMap<String, String>,
}

/// Reads what the autoscaler was told.
pub(super) async fn read(client: &Client) -> Result<Told> {
    let pools = find(client, NODE_POOLS).await?.map(|map| NodePool::read(&json!({ "data": map.data })));
    let declared = |(name, pool): (String, NodePool)| {
        let template = pool.templates.into_iter().next()?;
        let text = template["metadata"]["annotations"][DECLARED_ANNOTATION].as_str()?;
        Some((name, serde_json::from_str(text).ok()?))
    };
    let pools = pools.into_iter().flatten().filter_map(declared).collect();
    let settings = find(client, PROFILE).await?.and_then(|map| map.data).unwrap_or_default();
    Ok(Told { pools, settings })
}

/// Tells the autoscaler of a pool as it is to be; of one that is not autoscaled it is to know nothing.
pub(super) async fn set(client: &Client, lab: &Lab, pool: &Pool) -> Result<()> {
    let name = &pool.name.value;
    let known = find(client, NODE_POOLS).await?.map(|map| NodePool::read(&json!({ "data": map.data })));
    let before = known.as_ref().and_then(|known| known.get(name));
    let Some(mut pool) = node_pool(lab, pool) else {
        return if before.is_some() { forget(client, name).await } else { Ok(()) };
    };
    // Machines that are on their way come.
    pool.starting = before.map(|before| before.starting.clone()).unwrap_or_default();
    let text = serde_json::to_string(&pool).unwrap_or_default();
    write(client, NODE_POOLS, &json!({ name: text }), known.is_some()).await
}

/// The autoscaler is to know nothing of a pool any more.
pub(super) async fn forget(client: &Client, pool: &str) -> Result<()> {
    match find(client, NODE_POOLS).await? {
        Some(map) if map.data.as_ref().is_some_and(|data| data.contains_key(pool)) => {
            write(client, NODE_POOLS, &json!({ pool: null }), true).await
        }
        _ => Ok(()),
    }
}

/// Gives the autoscaler these settings, and no others.
pub(super) async fn set_profile(client: &Client, settings: &BTreeMap<String, String>) -> Result<()> {
    let known = find(client, PROFILE).await?;
    let gone = known.iter().flat_map(|map| map.data.iter().flatten()).map(|(name, _)| (name, Value::Null));
    let mut data: BTreeMap<&String, Value> = gone.collect();
    data.extend(settings.iter().map(|(name, value)| (name, json!(value))));
    write(client, PROFILE, &json!(data), known.is_some()).await
}

/// A pool as the autoscaler is to know it; none where it is not autoscaled.
pub(super) fn node_pool(lab: &Lab, pool: &Pool) -> Option<NodePool> {
    let bounds = pool.autoscale.as_ref()?;
    let declared = serde_json::to_string(&Declared::of(pool)).unwrap_or_default();
    let zones = u32::try_from(pool.zones.len()).unwrap_or_default().max(1);
    let template = |number| {
        let mut node = nodes::template(lab, pool, number, NAME, NUMBER, ADDRESS);
        node["metadata"]["annotations"][DECLARED_ANNOTATION] = json!(declared);
        node
    };
    let (group, names) = match lab.sim.like {
        SimLike::Aks => (nodes::scale_set(lab, pool), NodeNames::ScaleSet(nodes::scale_set(lab, pool))),
        SimLike::Kind => (pool.name.value.clone(), NodeNames::Workers(format!("{}-worker", lab.name.value))),
    };
    Some(NodePool {
        min: bounds.min,
        max: bounds.max,
        group,
        names,
        first_address: nodes::address(lab, pool, 0).parse().ok()?,
        templates: (0..zones).map(template).collect(),
        start_seconds: u32::try_from(lab.sim.node_start.as_secs()).unwrap_or_default(),
        starting: Vec::new(),
    })
}

fn maps(client: &Client) -> Api<ConfigMap> {
    Api::namespaced(client.clone(), NAMESPACE)
}

async fn find(client: &Client, name: &str) -> Result<Option<ConfigMap>> {
    maps(client).get_opt(name).await.map_err(|error| failure("read", name, &error))
}

async fn write(client: &Client, name: &str, data: &Value, exists: bool) -> Result<()> {
    if exists {
        let patch = Patch::Merge(json!({ "data": data }));
        let written = maps(client).patch(name, &patch_parameters(), &patch).await;
        return written.map(drop).map_err(|error| failure("change", name, &error));
    }
    let map = json!({ "metadata": { "name": name, "namespace": NAMESPACE }, "data": data });
    let map: ConfigMap = serde_json::from_value(map).map_err(|error| Error::new(Kind::Failed, error))?;
    let made = maps(client).create(&PostParams::default(), &map).await;
    made.map(drop).map_err(|error| failure("make", name, &error))
}

fn failure(verb: &str, what: &str, error: &kube::Error) -> Error {
    Error::new(
        Kind::Failed,
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
                let nodes = klab_cluster::resource::NODES;
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
}
