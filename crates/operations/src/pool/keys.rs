//! The keys of a pool as flags: what is typed, laid over what the pool is.

use serde::{Deserialize, Serialize};
use toml::{Table, Value};

/// Keys of `[pool.NAME]` of the lab file.
#[derive(Debug, Clone, Default, clap::Args, Serialize, Deserialize)]
pub struct Keys {
    /// Number of nodes.
    #[arg(long, value_name = "COUNT")]
    pub nodes: Option<u32>,
    /// Azure VM size of the nodes, such as Standard_B2ms.
    #[arg(long, value_name = "SIZE")]
    pub size: Option<String>,
    /// Nodes of each size of single virtual machines (type VirtualMachines), in place of --nodes and --size.
    #[arg(long, value_name = "SIZE=COUNT,…", value_delimiter = ',', conflicts_with_all = ["nodes", "size", "cpu", "memory"])]
    #[serde(default)]
    pub sizes: Option<Vec<String>>,
    /// CPUs of a node, in place of a VM size; needs --memory. Not on AKS.
    #[arg(long, value_name = "CPUS", conflicts_with = "size")]
    pub cpu: Option<String>,
    /// Memory of a node, in place of a VM size; needs --cpu. Not on AKS.
    #[arg(long, value_name = "MEMORY", conflicts_with = "size")]
    pub memory: Option<String>,
    /// Whether the cluster's own pods may be there: system or user.
    #[arg(long, value_name = "MODE")]
    pub mode: Option<String>,
    /// Labels of the nodes, in place of those there are; `--labels ""` takes all off.
    #[arg(long, value_name = "KEY=VALUE,…", value_delimiter = ',')]
    pub labels: Option<Vec<String>>,
    /// Taints of the nodes, in place of those there are; `--taints ""` takes all off.
    #[arg(long, value_name = "KEY=VALUE:EFFECT,…", value_delimiter = ',')]
    pub taints: Option<Vec<String>>,
    /// Availability zones, 1 to 3, or `auto`.
    #[arg(long, value_name = "ZONE,…", value_delimiter = ',')]
    pub zones: Option<Vec<String>>,
    /// Most pods on a node.
    #[arg(long, value_name = "COUNT")]
    pub max_pods: Option<u32>,
    /// Fewest and most nodes, between which the cluster autoscaler decides.
    #[arg(long, value_name = "MIN..MAX", value_parser = bounds)]
    pub autoscale: Option<(u32, u32)>,
    /// Kubernetes version of the nodes, where it is not the cluster's.
    #[arg(long, value_name = "VERSION")]
    pub kubernetes: Option<String>,
    /// Spare capacity that Azure may take away at any time.
    #[arg(long)]
    pub spot: bool,
    /// Greatest price of a spot node per hour, in US dollars.
    #[arg(long, value_name = "DOLLARS", requires = "spot")]
    pub max_price: Option<f64>,
    /// What happens to an evicted spot node: delete or deallocate.
    #[arg(long, value_name = "WHAT", requires = "spot")]
    pub eviction: Option<String>,
    /// Operating system of the nodes: linux or windows.
    #[arg(long, value_name = "SYSTEM")]
    pub os: Option<String>,
    /// Flavour of the operating system on AKS, such as AzureLinux.
    #[arg(long, value_name = "FLAVOUR")]
    pub os_sku: Option<String>,
    /// Further resources of a node that pods can request, such as nvidia.com/gpu=1. Not on AKS.
    #[arg(long, value_name = "NAME=COUNT,…", value_delimiter = ',')]
    pub resources: Option<Vec<String>>,
    /// Annotations of the nodes. Not on AKS.
    #[arg(long, value_name = "KEY=VALUE,…", value_delimiter = ',')]
    pub annotations: Option<Vec<String>>,
}

/// The keys of `upgrade`, as AKS has them.
#[derive(Debug, Clone, Default, PartialEq, Eq, clap::Args, Serialize, Deserialize)]
pub struct UpgradeKeys {
    /// In which order nodes come and go: rolling or blue-green.
    #[arg(long = "upgrade-strategy", value_name = "STRATEGY")]
    pub strategy: Option<String>,
    /// Nodes added for the time of an upgrade: a number, or a share such as 33%.
    #[arg(long, value_name = "NODES")]
    pub max_surge: Option<String>,
    /// Nodes drained at the same time where none is added: a number, or a share.
    #[arg(long, value_name = "NODES")]
    pub max_unavailable: Option<String>,
    /// Minutes that the drain of a node may take, 5 to 1440; blue-green from 1.
    #[arg(long, value_name = "MINUTES")]
    pub drain_timeout: Option<u32>,
    /// Minutes that a drained node is left alone before it is reimaged, at most 30.
    #[arg(long, value_name = "MINUTES")]
    pub node_soak: Option<u32>,
    /// What becomes of a node that cannot be drained: Schedule or Cordon.
    #[arg(long, value_name = "WHAT")]
    pub undrainable_node_behavior: Option<String>,
    /// Blue-green: nodes drained at the same time, a number or a share.
    #[arg(long, value_name = "NODES")]
    pub drain_batch_size: Option<String>,
    /// Blue-green: minutes between two batches, at most 1440.
    #[arg(long, value_name = "MINUTES")]
    pub batch_soak: Option<u32>,
    /// Blue-green: minutes that the drained nodes stay in the end, at most 10080.
    #[arg(long, value_name = "MINUTES")]
    pub final_soak: Option<u32>,
}

impl UpgradeKeys {
    /// Lays what was given over the keys of a pool.
    pub fn lay_over(&self, keys: &mut Table) {
        let minutes = |minutes: Option<u32>| minutes.map(|minutes| format!("{minutes}m"));
        let given = [
            ("strategy", self.strategy.clone()),
            ("max_surge", self.max_surge.clone()),
            ("max_unavailable", self.max_unavailable.clone()),
            ("drain_timeout", minutes(self.drain_timeout)),
            // No time at all is what a pool has by itself.
            ("node_soak", minutes(self.node_soak.filter(|minutes| *minutes > 0))),
            ("undrainable_node_behavior", self.undrainable_node_behavior.clone()),
            ("drain_batch_size", self.drain_batch_size.clone()),
            ("batch_soak", minutes(self.batch_soak)),
            ("final_soak", minutes(self.final_soak)),
        ];
        if *self == Self::default() {
            return;
        }
        let known = keys.entry("upgrade").or_insert_with(|| Table::new().into());
        let Some(known) = known.as_table_mut() else { return };
        if self.node_soak == Some(0) {
            known.remove("node_soak");
        }
        if self.strategy.as_deref() == Some("rolling") {
            known.retain(|key, _| !matches!(key, "drain_batch_size" | "batch_soak" | "final_soak"));
        }
        known.extend(given.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?.into()))));
    }
}

fn bounds(text: &str) -> Result<(u32, u32), String> {
    let parsed = text.split_once("..").and_then(|(min, max)| Some((min.parse().ok()?, max.parse().ok()?)));
    parsed.ok_or_else(|| "expected the fewest and the most nodes, such as 1..3".to_owned())
}

impl Keys {
    /// Lays the keys that were given over those of a pool.
    ///
    /// # Errors
    /// With a word that cannot be what it stands for.
    pub fn lay_over(&self, keys: &mut Table) -> Result<(), String> {
        let is_alike = self.nodes.is_some() || [&self.size, &self.cpu, &self.memory].into_iter().any(Option::is_some);
        if is_alike && keys.contains_key("sizes") {
            return Err("the sizes of single virtual machines are given as `--sizes SIZE=COUNT,…`".to_owned());
        }
        let count = |count: u32| Value::from(i64::from(count));
        let mut set = |key: &str, value: Option<Value>| value.map(|value| keys.insert(key.to_owned(), value));
        set("nodes", self.nodes.map(count));
        set("max_pods", self.max_pods.map(count));
        let texts = [
            ("size", &self.size),
            ("cpu", &self.cpu),
            ("memory", &self.memory),
            ("mode", &self.mode),
            ("kubernetes", &self.kubernetes),
            ("eviction", &self.eviction),
            ("os", &self.os),
            ("os_sku", &self.os_sku),
        ];
        for (key, text) in texts {
            set(key, text.as_ref().map(|text| text.clone().into()));
        }
        set("spot", self.spot.then(|| true.into()));
        set("max_price", self.max_price.map(Value::from));
        let maps = [("labels", &self.labels), ("resources", &self.resources), ("annotations", &self.annotations)];
        for (key, pairs) in maps {
            set(key, pairs.as_deref().map(map).transpose()?);
        }
        set("taints", self.taints.as_deref().map(|taints| Value::Array(given(taints).map(Value::from).collect())));
        set("zones", self.zones.as_deref().map(zones).transpose()?);
        if let Some(sizes) = &self.sizes {
            keys.retain(|key, _| !matches!(key, "nodes" | "size" | "cpu" | "memory"));
            keys.insert("type".to_owned(), "VirtualMachines".into());
            keys.insert("sizes".to_owned(), sizes_of(sizes)?);
        }
        if self.size.is_some() {
            keys.remove("cpu");
            keys.remove("memory");
        } else if self.cpu.is_some() || self.memory.is_some() {
            keys.remove("size");
        }
        if let Some((min, max)) = self.autoscale {
            let bounds = Table::from_iter([("min".to_owned(), count(min)), ("max".to_owned(), count(max))]);
            keys.insert("autoscale".to_owned(), bounds.into());
            // A pool begins within its bounds.
            let nodes = keys.get("nodes").and_then(Value::as_integer).unwrap_or(1);
            let within = nodes.clamp(min.into(), max.max(min).into());
            keys.insert("nodes".to_owned(), within.into());
        }
        Ok(())
    }
}

/// The words of a list; `""` is an empty one.
fn given(words: &[String]) -> impl Iterator<Item = &str> {
    words.iter().map(|word| word.trim()).filter(|word| !word.is_empty())
}

fn map(pairs: &[String]) -> Result<Value, String> {
    let pair = |word: &str| {
        let (key, value) = word.split_once('=').ok_or_else(|| format!("`{word}` is not KEY=VALUE"))?;
        Ok((key.to_owned(), value.into()))
    };
    given(pairs).map(pair).collect::<Result<Table, String>>().map(Value::Table)
}

fn sizes_of(words: &[String]) -> Result<Value, String> {
    let pair = |word: &str| {
        let pair = word.split_once('=').and_then(|(size, count)| Some((size, count.parse::<u32>().ok()?)));
        let (size, count) = pair.ok_or_else(|| format!("`{word}` is not SIZE=COUNT"))?;
        Ok((size.to_owned(), i64::from(count).into()))
    };
    given(words).map(pair).collect::<Result<Table, String>>().map(Value::Table)
}

/// Gives a pool this many nodes; says whether it could, which a pool of several sizes cannot.
pub(crate) fn set_nodes(keys: &mut Table, count: i64) -> bool {
    match keys.get_mut("sizes").and_then(Value::as_table_mut) {
        None => drop(keys.insert("nodes".to_owned(), count.into())),
        Some(sizes) if sizes.len() == 1 => sizes.iter_mut().for_each(|(_, nodes)| *nodes = count.into()),
        Some(_) => return false,
    }
    true
}

fn zones(words: &[String]) -> Result<Value, String> {
    if words == ["auto"] {
        return Ok("auto".into());
    }
    let zone = |word: &str| word.parse::<i64>().map(Value::from).map_err(|_| format!("`{word}` is not a zone"));
    given(words).map(zone).collect::<Result<Vec<_>, String>>().map(Value::Array)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        keys: Keys,
    }

    fn laid(flags: &str, over: &str) -> String {
        let line = Line::try_parse_from(std::iter::once("klab").chain(flags.split_whitespace())).unwrap();
        let mut keys: Table = toml::from_str(over).unwrap();
        match line.keys.lay_over(&mut keys) {
            Ok(()) => toml::to_string(&keys).unwrap().trim().replace('\n', "; "),
            Err(words) => words,
        }
    }

    #[test]
    fn flags_are_keys_of_the_lab_file() {
        for (flags, over, expected) in [
            ("", "nodes = 2", "nodes = 2"),
            ("--nodes 3 --mode user", "nodes = 2", "mode = \"user\"; nodes = 3"),
            ("--labels a=1,b=x=y --labels c=", "", "[labels]; a = \"1\"; b = \"x=y\"; c = \"\""),
            ("--labels=", "labels = { a = \"1\" }", "[labels]"),
            ("--labels a", "", "`a` is not KEY=VALUE"),
            (
                "--taints k=v:NoSchedule,l:NoExecute",
                "taints = [\"m:NoExecute\"]",
                "taints = [\"k=v:NoSchedule\", \"l:NoExecute\"]",
            ),
            ("--taints=", "taints = [\"m:NoExecute\"]", "taints = []"),
            ("--zones 1,3", "", "zones = [1, 3]"),
            ("--zones one", "", "`one` is not a zone"),
            (
                "--sizes Standard_D4s_v5=2,Standard_D8s_v5=1",
                "nodes = 3\nsize = \"Standard_B2ms\"",
                "type = \"VirtualMachines\"; ; [sizes]; Standard_D4s_v5 = 2; Standard_D8s_v5 = 1",
            ),
            (
                "--nodes 2",
                "sizes = { A = 1 }",
                "the sizes of single virtual machines are given as `--sizes SIZE=COUNT,…`",
            ),
            ("--sizes Standard_D4s_v5", "", "`Standard_D4s_v5` is not SIZE=COUNT"),
            ("--size Standard_B2ms", "cpu = 2\nmemory = \"4Gi\"", "size = \"Standard_B2ms\""),
            ("--cpu 2 --memory 4Gi", "size = \"Standard_B2ms\"", "cpu = \"2\"; memory = \"4Gi\""),
            ("--autoscale 2..5", "nodes = 1", "nodes = 2; ; [autoscale]; max = 5; min = 2"),
            ("--autoscale 0..0", "nodes = 3", "nodes = 0; ; [autoscale]; max = 0; min = 0"),
            ("--spot --max-price 0.05", "", "max_price = 0.05; spot = true"),
        ] {
            assert_eq!(laid(flags, over), expected, "{flags}");
        }
        for wrong in ["--autoscale 3", "--nodes -1", "--max-price 1", "--size a --cpu 1"] {
            assert!(Line::try_parse_from(std::iter::once("klab").chain(wrong.split(' '))).is_err(), "{wrong}");
        }
    }
}
