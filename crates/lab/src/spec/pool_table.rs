//! A pool written down as the lab file would say it: what reading it again gives is the same pool.

use toml::{Table, Value};

use super::machine::Machine;
use super::pool::{Os, Pool};

/// The table `[pool.NAME]` of a pool. What is the default of every pool is left out.
pub fn pool_table(pool: &Pool) -> Table {
    let mut table = Table::new();
    let mut set = |key: &str, value: Value| table.insert(key.to_owned(), value);
    set("mode", pool.mode.as_str().into());
    for (key, value) in machines(pool) {
        set(key, value);
    }
    let map = |entries: Vec<(&String, String)>| -> Option<Value> {
        let table: Table = entries.into_iter().map(|(key, value)| (key.clone(), value.into())).collect();
        (!table.is_empty()).then_some(Value::Table(table))
    };
    let maps = [
        ("labels", map(pool.labels.iter().map(|(key, value)| (key, value.value.clone())).collect())),
        ("annotations", map(pool.annotations.iter().map(|(key, value)| (key, value.clone())).collect())),
        ("resources", map(pool.resources.iter().map(|(key, value)| (key, value.value.0.clone())).collect())),
        ("images", map(pool.images.iter().map(|(key, value)| (key, value.to_string())).collect())),
    ];
    for (key, value) in maps {
        value.map(|value| set(key, value));
    }
    let lists = [
        ("names", pool.names.iter().map(|name| name.value.clone().into()).collect::<Vec<Value>>()),
        (
            "taints",
            pool.taints
                .iter()
                .map(|taint| klab_scheduler::taint::Taint::from(&taint.value).to_string().into())
                .collect(),
        ),
        ("zones", pool.zones.iter().filter(|_| !pool.zones_auto).map(|zone| i64::from(*zone).into()).collect()),
        ("extra_args", pool.extra_args.iter().map(|argument| argument.clone().into()).collect()),
    ];
    for (key, values) in lists {
        if !values.is_empty() {
            set(key, Value::Array(values));
        }
    }
    let devices = pool.devices.iter().filter_map(|devices| Value::try_from(&devices.value).ok());
    let devices: Vec<Value> = devices.collect();
    if !devices.is_empty() {
        set("devices", Value::Array(devices));
    }
    if pool.zones_auto {
        set("zones", "auto".into());
    }
    pool.node_image.as_ref().map(|image| set("node_image", image.value.clone().into()));
    if pool.max_pods_given.is_some() {
        set("max_pods", i64::from(pool.max_pods).into());
    }
    if let Some(spot) = &pool.spot {
        set("spot", true.into());
        spot.max_price.map(|price| set("max_price", price.into()));
        set("eviction", spot.eviction.as_str().to_ascii_lowercase().into());
    }
    if let Some(bounds) = &pool.autoscale {
        let bounds = [("min", bounds.min), ("max", bounds.max)];
        let bounds: Table = bounds.into_iter().map(|(key, count)| (key.to_owned(), i64::from(count).into())).collect();
        set("autoscale", bounds.into());
    }
    pool.capacity.as_ref().map(|capacity| set("capacity", i64::from(capacity.value).into()));
    if pool.os == Os::Windows {
        set("os", pool.os.as_str().into());
    }
    pool.os_sku.as_ref().map(|sku| set("os_sku", sku.clone().into()));
    disk(&pool.machine).map(|disk| set("os_disk", disk.into()));
    pool.kubernetes.as_ref().map(|version| set("kubernetes", version.value.to_string().into()));
    let upgrade: Table =
        pool.upgrade.given().into_iter().map(|(key, value)| (key.to_owned(), written(key, value))).collect();
    if !upgrade.is_empty() {
        set("upgrade", upgrade.into());
    }
    if pool.deferred {
        set("deferred", true.into());
    }
    table
}

/// How many nodes, and of which size.
fn machines(pool: &Pool) -> Vec<(&'static str, Value)> {
    if pool.is_virtual_machines() {
        let sizes: Table = pool.sizes().into_iter().map(|(size, nodes)| (size, i64::from(nodes).into())).collect();
        return vec![("type", "VirtualMachines".into()), ("sizes", sizes.into())];
    }
    let nodes = ("nodes", i64::from(pool.nodes.value).into());
    if let Some(size) = &pool.size {
        return vec![nodes, ("size", size.value.clone().into())];
    }
    let (cpu, memory) = (format!("{}m", pool.machine.cpu_millis), pool.machine.memory.to_string());
    vec![nodes, ("cpu", cpu.into()), ("memory", memory.into())]
}

/// A setting of upgrades: az takes minutes, a lab file durations.
fn written(key: &str, value: String) -> Value {
    if matches!(key, "drain_timeout" | "node_soak" | "batch_soak" | "final_soak") {
        format!("{value}m").into()
    } else {
        value.into()
    }
}

/// The disk, where it is not the one that a machine of that size has by itself.
fn disk(machine: &Machine) -> Option<Table> {
    let usual = machine.size.map_or_else(|| Machine::custom(machine.cpu_millis, machine.memory), Machine::of_size);
    let (size, ephemeral) = (machine.os_disk_gib, machine.os_disk_ephemeral);
    let differs = (size, ephemeral) != (usual.os_disk_gib, usual.os_disk_ephemeral);
    let entries = [("size", Value::from(i64::from(size))), ("ephemeral", ephemeral.into())];
    differs.then(|| entries.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::{Lab, LoadOptions, parse};

    fn lab(pool: &str) -> Lab {
        let text = format!("lab = \"demo\"\n[pool.main]\n{pool}");
        parse("lab.toml", &text, &LoadOptions::default()).unwrap_or_else(|problems| panic!("{problems}"))
    }

    #[test]
    fn reading_what_was_written_gives_the_same_pool() {
        for pool in [
            "",
            "[pool.a]\nnodes = 0\nmode = \"user\"\ndeferred = true\n",
            "[pool.a]\nsize = \"Standard_D4s_v5\"\nlabels = { team = \"a\" }\ntaints = [\"k=v:NoSchedule\", \"l:NoExecute\"]\nzones = [1, 3]\n",
            "[pool.a]\ncpu = \"1500m\"\nmemory = \"3Gi\"\nmax_pods = 40\nresources = { \"example.com/dongle\" = 2 }\n",
            "[pool.a]\nspot = true\nmax_price = 0.05\neviction = \"deallocate\"\nautoscale = { min = 1, max = 4 }\ncapacity = 3\n",
            "[pool.a]\ntype = \"VirtualMachines\"\nsizes = { \"Standard_D8s_v5\" = 1, \"standard_d4s_v5\" = 2 }\n",
            "[pool.a]\nzones = \"auto\"\nnode_image = \"202607.20.0\"\n",
            "[pool.a]\nupgrade = { max_surge = 0, max_unavailable = \"25%\", drain_timeout = \"1h\", node_soak = \"5m\", undrainable_node_behavior = \"Cordon\" }\n",
            "[pool.a]\nos = \"windows\"\nos_sku = \"Windows2022\"\nos_disk = { size = 64, ephemeral = true }\n",
            "[pool.a]\nkubernetes = \"1.35\"\nnames = [\"worker1\"]\nannotations = { note = \"n\" }\nimages = { \"busybox:1\" = \"4Mi\" }\nextra_args = [\"--gpu-driver\"]\n",
        ] {
            let first = lab(pool);
            let mut written = String::new();
            for pool in first.pools.iter().filter(|pool| pool.name.value != "main") {
                let table = Table::from_iter([(pool.name.value.clone(), pool_table(pool).into())]);
                written = toml::to_string(&Table::from_iter([("pool".to_owned(), table.into())])).unwrap();
            }
            let second = lab(&written);
            let tables = |lab: &Lab| lab.pools.iter().map(pool_table).collect::<Vec<_>>();
            assert_eq!(tables(&first), tables(&second), "{written}");
            for (one, other) in first.pools.iter().zip(&second.pools) {
                assert_eq!((&one.machine, one.max_pods, &one.spot), (&other.machine, other.max_pods, &other.spot));
            }
        }
    }
}
