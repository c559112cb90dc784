//! Node pools that the embedded cluster's autoscaler may change, as ConfigMaps of the cluster say them.
//!
//! There is no cloud behind an embedded cluster that would know its pools, so a ConfigMap does: what a new node of each pool
//! is, how many there may be, and which machines are being started. Who makes the pools writes it; the autoscaler reads it
//! and notes the machines it starts. Experimental.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// The namespace of all these ConfigMaps.
pub const NAMESPACE: &str = "kube-system";
/// The ConfigMap that has the pools, each under its name, as JSON.
pub const NODE_POOLS: &str = "cluster-autoscaler-node-pools";
/// The ConfigMap with the autoscaler's settings by AKS's names, such as `scan-interval`.
pub const PROFILE: &str = "cluster-autoscaler-profile";
/// The ConfigMap with the priorities of pools for the expander `priority`, under the key `priorities`.
pub const PRIORITIES: &str = "cluster-autoscaler-priority-expander";
/// The ConfigMap in which the autoscaler says how it is.
pub const STATUS: &str = "cluster-autoscaler-status";
/// The label of a node that names its pool.
pub const POOL_LABEL: &str = "agentpool";
/// The key of a pool under which the autoscaler notes the machines that it starts: no other is the autoscaler's.
pub const STARTING: &str = "starting";
/// Most nodes of a pool. A ConfigMap may say any number; a greater one counts as this.
pub const MAX_NODES: u32 = 10_000;

/// Stands for the node's name in templates.
pub const NAME: &str = "{name}";
/// Stands for the node's number in templates, counted from 0.
pub const NUMBER: &str = "{number}";
/// Stands for the node's address in templates.
pub const ADDRESS: &str = "{address}";

/// A pool between whose bounds the autoscaler decides.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodePool {
    /// Fewest nodes.
    pub min: u32,
    /// Most nodes.
    pub max: u32,
    /// What events and the autoscaler's status call it: on AKS the name of the scale set.
    pub group: String,
    /// How its nodes are named.
    pub names: NodeNames,
    /// The address of its first node; the others follow.
    pub first_address: Ipv4Addr,
    /// What a new node is, one for each zone in turn, or for each size of single virtual machines, with [`NAME`], [`NUMBER`] and [`ADDRESS`] in texts.
    pub templates: Vec<Value>,
    /// Most machines that the cloud has for the pool; those beyond never register. None: as many as anybody wants.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity: Option<u32>,
    /// How long a machine takes to start and to register, in seconds.
    #[serde(default)]
    pub start_seconds: u32,
    /// When the machines that are being started will be there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub starting: Vec<Timestamp>,
}

/// How the nodes of a pool are named.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum NodeNames {
    /// As scale sets name instances: this prefix, then the number in base 36 with six digits.
    ScaleSet(String),
    /// As AKS names single virtual machines: this prefix, then the number.
    VirtualMachines(String),
    /// As kind names workers: this prefix, then the first number from 2 on that no node of the cluster has; the first has none.
    Workers(String),
}

/// A node that there is, as far as new ones depend on it.
#[derive(Debug, Clone)]
pub struct Present {
    name: String,
    address: String,
    pub pool: String,
}

impl Present {
    /// Its internal address.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// A node by its JSON.
    pub fn of(node: &Value) -> Self {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let mut addresses = node["status"]["addresses"].as_array().into_iter().flatten();
        let internal = addresses.find(|address| address["type"] == "InternalIP");
        Self {
            name: text(&node["metadata"]["name"]),
            address: internal.map(|internal| text(&internal["address"])).unwrap_or_default(),
            pool: text(&node["metadata"]["labels"][POOL_LABEL]),
        }
    }
}

impl NodeNames {
    /// The name of a node with this number, if none of `taken` has it. Workers are counted by their own number, `worker`.
    fn name(&self, number: u32, taken: &BTreeSet<&str>, worker: &mut u32) -> Option<String> {
        let is_free = |name: &String| !taken.contains(name.as_str());
        match self {
            Self::ScaleSet(prefix) => Some(format!("{prefix}{}", base36(number))).filter(is_free),
            Self::VirtualMachines(prefix) => Some(format!("{prefix}{number}")).filter(is_free),
            Self::Workers(prefix) => loop {
                *worker = worker.checked_add(1)?;
                let name = if *worker == 1 { prefix.clone() } else { format!("{prefix}{worker}") };
                if is_free(&name) {
                    return Some(name);
                }
            },
        }
    }
}

impl NodePool {
    /// The ConfigMap of pools.
    pub fn config_map(pools: &BTreeMap<String, Self>) -> Value {
        let data: BTreeMap<&String, String> =
            pools.iter().map(|(name, pool)| (name, serde_json::to_string(pool).unwrap_or_default())).collect();
        json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": { "name": NODE_POOLS, "namespace": NAMESPACE }, "data": data,
        })
    }

    /// The pools of that ConfigMap, no number above [`MAX_NODES`]. An entry that says nothing is none.
    pub fn read(config_map: &Value) -> BTreeMap<String, Self> {
        let entries = config_map["data"].as_object().into_iter().flatten();
        let read = |text: &Value| serde_json::from_str(text.as_str()?).ok().map(Self::bounded);
        entries.filter_map(|(name, text)| Some((name.clone(), read(text)?))).collect()
    }

    fn bounded(mut self) -> Self {
        self.min = self.min.min(MAX_NODES);
        self.max = self.max.min(MAX_NODES);
        self.starting.truncate(MAX_NODES as usize);
        self
    }

    /// The address of the node with this number.
    fn address(&self, number: u32) -> String {
        Ipv4Addr::from(u32::from(self.first_address).wrapping_add(number)).to_string()
    }

    /// The template of the node with this number, if there is any.
    fn template(&self, number: u32) -> Option<&Value> {
        let count = u32::try_from(self.templates.len()).ok().filter(|count| *count > 0)?;
        self.templates.get((number % count) as usize)
    }

    /// A node as the scheduler would see it, under the template's own name.
    pub fn sample(&self) -> Option<Value> {
        Some(filled(self.template(0)?, &self.group, 0, &self.address(0)))
    }

    /// The node with this number, under this name, by the template of this place, else by the one of its number.
    pub fn node(&self, number: u32, name: &str, template: Option<u32>) -> Option<Value> {
        Some(filled(self.template(template.unwrap_or(number))?, name, number, &self.address(number)))
    }

    /// The next nodes of the pool of this name where these are there: each takes up the first number that is free.
    pub fn new_nodes<'a>(&'a self, pool: &str, present: &'a [Present]) -> impl Iterator<Item = Value> + 'a {
        let of_pool = present.iter().filter(|node| node.pool == pool);
        let addresses: BTreeSet<&str> = of_pool.map(|node| node.address.as_str()).collect();
        let taken: BTreeSet<&str> = present.iter().map(|node| node.name.as_str()).collect();
        // The nodes that are there take no more numbers than twice as many, by their addresses and by their names.
        let most = u32::try_from(present.len()).unwrap_or(u32::MAX).saturating_mul(2).saturating_add(MAX_NODES);
        let mut worker = 0;
        (0..most).filter_map(move |number| {
            let address = Some(self.address(number)).filter(|address| !addresses.contains(address.as_str()))?;
            let name = self.names.name(number, &taken, &mut worker)?;
            Some(filled(self.template(number)?, &name, number, &address))
        })
    }
}

/// A template with a node's own texts.
fn filled(template: &Value, name: &str, number: u32, address: &str) -> Value {
    match template {
        Value::String(text) if text.contains('{') => {
            let number = number.to_string();
            text.replace(NAME, name).replace(NUMBER, &number).replace(ADDRESS, address).into()
        }
        Value::Array(items) => items.iter().map(|item| filled(item, name, number, address)).collect(),
        Value::Object(map) => {
            // Annotations are texts of others that may hold anything.
            let fill = |(key, value): (&String, &Value)| {
                let value = if key == "annotations" { value.clone() } else { filled(value, name, number, address) };
                (key.clone(), value)
            };
            Value::Object(map.iter().map(fill).collect())
        }
        other => other.clone(),
    }
}

fn base36(mut number: u32) -> String {
    let mut digits = [b'0'; 6];
    for digit in digits.iter_mut().rev() {
        *digit = b"0123456789abcdefghijklmnopqrstuvwxyz"[(number % 36) as usize];
        number /= 36;
    }
    digits.into_iter().map(char::from).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(names: NodeNames) -> NodePool {
        let template = |zone: &str| {
            json!({
                "metadata": { "name": NAME, "labels": { "zone": zone }, "annotations": { "x": "{name}" } },
                "spec": { "providerID": format!("azure:///{NUMBER}") },
                "status": { "addresses": [{ "type": "InternalIP", "address": ADDRESS }] },
            })
        };
        NodePool {
            min: 0,
            max: 9,
            group: "set".to_owned(),
            names,
            first_address: Ipv4Addr::new(10, 224, 0, 254),
            templates: vec![template("1"), template("2")],
            capacity: None,
            start_seconds: 5,
            starting: Vec::new(),
        }
    }

    fn present(name: &str, address: &str, is_of_pool: bool) -> Present {
        let pool = if is_of_pool { "a" } else { "b" }.to_owned();
        Present { name: name.to_owned(), address: address.to_owned(), pool }
    }

    #[test]
    fn new_nodes_take_the_numbers_and_names_that_are_free() {
        let set = pool(NodeNames::ScaleSet("aks-a-vmss".to_owned()));
        let told = |pool: &NodePool, present: &[Present]| {
            let node = pool.new_nodes("a", present).next().unwrap();
            let texts =
                [&node["metadata"]["name"], &node["spec"]["providerID"], &node["status"]["addresses"][0]["address"]];
            format!(
                "{} zone {}",
                texts.map(|text| text.as_str().unwrap()).join(" "),
                node["metadata"]["labels"]["zone"]
            )
        };
        assert_eq!(told(&set, &[]), "aks-a-vmss000000 azure:///0 10.224.0.254 zone \"1\"");
        let first = present("aks-a-vmss000000", "10.224.0.254", true);
        let third = present("aks-a-vmss000002", "10.224.1.0", true);
        assert_eq!(told(&set, &[first.clone(), third]), "aks-a-vmss000001 azure:///1 10.224.0.255 zone \"2\"");
        let foreign = present("aks-a-vmss000001", "10.224.0.255", false);
        assert_eq!(told(&set, &[first, foreign]), "aks-a-vmss000002 azure:///2 10.224.1.0 zone \"1\"");
        let workers = pool(NodeNames::Workers("lab-worker".to_owned()));
        let others = [present("lab-worker", "10.0.0.1", false), present("lab-worker3", "10.224.0.254", true)];
        assert_eq!(told(&workers, &others), "lab-worker2 azure:///1 10.224.0.255 zone \"2\"");
        assert_eq!(set.sample().unwrap()["metadata"]["annotations"]["x"], "{name}");
        assert_eq!(NodePool { templates: Vec::new(), ..set }.new_nodes("a", &[]).next(), None);
    }

    #[test]
    fn several_new_nodes_share_no_number_and_no_name() {
        let others = [present("w2", "10.0.0.1", false), present("aks-a-vmss000001", "10.224.0.255", true)];
        for (names, expected) in [
            (
                NodeNames::ScaleSet("aks-a-vmss".to_owned()),
                ["aks-a-vmss000000", "aks-a-vmss000002", "aks-a-vmss000003"],
            ),
            (NodeNames::Workers("w".to_owned()), ["w", "w3", "w4"]),
        ] {
            let pool = pool(names);
            let nodes: Vec<Present> = pool.new_nodes("a", &others).take(3).map(|node| Present::of(&node)).collect();
            let names: Vec<&str> = nodes.iter().map(|node| node.name.as_str()).collect();
            let addresses: Vec<&str> = nodes.iter().map(|node| node.address.as_str()).collect();
            assert_eq!((names, addresses), (expected.to_vec(), vec!["10.224.0.254", "10.224.1.0", "10.224.1.1"]));
        }
    }

    #[test]
    fn numbers_that_anybody_may_write_are_bounded() {
        let starting = vec![Timestamp::UNIX_EPOCH; 20_000];
        let pool = NodePool { min: u32::MAX, max: u32::MAX, starting, ..pool(NodeNames::Workers("w".to_owned())) };
        let read = NodePool::read(&NodePool::config_map(&[("a".to_owned(), pool)].into()));
        let pool = &read["a"];
        assert_eq!((pool.min, pool.max, pool.starting.len()), (MAX_NODES, MAX_NODES, MAX_NODES as usize));
    }

    #[test]
    fn pools_survive_their_config_map() {
        let pools = BTreeMap::from([("a".to_owned(), pool(NodeNames::Workers("w".to_owned())))]);
        let mut map = NodePool::config_map(&pools);
        map["data"]["torn"] = json!("{");
        assert_eq!(NodePool::read(&map), pools);
        assert_eq!(NodePool::read(&json!({})), BTreeMap::new());
    }
}
