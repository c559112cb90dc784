//! The lab whose pools are as they are: what the cluster shows, over what was typed, over what the lab file says.

use std::collections::BTreeMap;

use toml::{Table, Value};

use super::changed_pools::ChangedPools;
use super::read::{Tables, read, refuse_new};
use crate::error::{Code, Error, Result};
use klab_lab::plan::{Declared, Observed, ObservedPool, is_version, size_name, wanted_version};
use klab_lab::spec::{Diagnostics, Lab, NODE_IMAGE, Pool, PoolMode, pool_table};
use klab_lab::words::listed;

/// The pools of a lab that is up.
#[derive(Debug, Clone)]
pub struct LivePools {
    /// The lab as its file and the steps that were done say, but for its pools.
    pub lab: Lab,
    /// The cluster as its provider sees it.
    pub observed: Observed,
    tables: Tables,
    problems: Diagnostics,
    /// The pools of the lab file, there or not.
    declared: Tables,
}

impl LivePools {
    /// The pools as they are. `staged` is the lab after the steps that were done.
    ///
    /// # Errors
    /// When they cannot be written as a lab file would.
    pub fn of(staged: &Lab, kept: &ChangedPools, observed: Observed) -> Result<Self> {
        let mut names: Vec<&String> = staged.pools.iter().map(|pool| &pool.name.value).collect();
        for name in kept.names().chain(observed.pools.keys()) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        let table = |name: &String| {
            let declared = staged.pool(name).map(pool_table);
            let mut table = kept.get(name).cloned().or(declared).unwrap_or_default();
            match observed.pools.get(name) {
                Some(seen) => show(&mut table, staged, name, seen),
                // Where nodes are all that is seen of a pool, one that has none is not gone.
                None if number(&table, "nodes") == Some(0) => {}
                None => deferred(&mut table),
            }
            (name.clone(), table)
        };
        let tables: Tables = names.into_iter().map(table).collect();
        let (lab, problems) = with_pools(staged, &tables)?;
        let declared = staged.pools.iter().map(|pool| (pool.name.value.clone(), pool_table(pool))).collect();
        Ok(Self { lab, observed, tables, problems, declared })
    }

    /// The pools of a lab that is still to be made.
    pub fn planned(lab: Lab) -> Self {
        let declared = lab.pools.iter().map(|pool| (pool.name.value.clone(), pool_table(pool))).collect();
        let (observed, tables, problems) = (Observed::default(), Tables::new(), Diagnostics::default());
        Self { lab, observed, tables, problems, declared }
    }

    /// What the lab file says of a pool, whether it is there or not.
    pub fn declared(&self, name: &str) -> Option<Table> {
        self.declared.iter().find(|(known, _)| known == name).map(|(_, table)| table.clone())
    }

    /// The names of the pools that there are, in order.
    pub fn names(&self) -> Vec<&str> {
        let there = self.lab.pools.iter().filter(|pool| !pool.deferred);
        there.map(|pool| pool.name.value.as_str()).collect()
    }

    /// Kubernetes version and node image of a pool before its last upgrade, and when they were last used; none where it cannot be
    /// rolled back.
    pub fn used_before(&self, name: &str) -> Option<&(String, String, String)> {
        self.observed.pools.get(name)?.rollback.as_ref()
    }

    /// Lays over a pool's keys what it had before its last upgrade; says whether it can be rolled back.
    pub(crate) fn lay_used_before(&self, name: &str, keys: &mut Table) -> bool {
        let Some((version, image, _)) = self.used_before(name) else { return false };
        keys.insert("kubernetes".to_owned(), version.clone().into());
        set_node_image(keys, image);
        true
    }

    /// Whether a pool is being upgraded.
    pub fn is_upgrading(&self, name: &str) -> bool {
        self.observed.pools.get(name).is_some_and(|pool| pool.upgrading)
    }

    /// The keys of a pool that is there.
    ///
    /// # Errors
    /// When there is none of that name.
    pub fn keys(&self, name: &str) -> Result<&Table> {
        let there = self.names().contains(&name);
        let found = self.tables.iter().find(|(known, _)| known == name).filter(|_| there);
        found.map(|(_, table)| table).ok_or_else(|| {
            Error::message(Code::NoSuchPool, format!("lab `{}` has no pool `{name}`", self.lab.name))
                .hint(format!("its pools are {}", listed(&self.names())))
        })
    }

    /// The lab with other keys of one pool, which may be a new one.
    ///
    /// # Errors
    /// When that breaks a rule that holds now.
    pub fn with(&self, name: &str, keys: Table) -> Result<Lab> {
        self.with_all([(name, keys)])
    }

    /// The lab with other keys of several pools.
    ///
    /// # Errors
    /// As [`LivePools::with`].
    pub fn with_all<'n>(&self, pools: impl IntoIterator<Item = (&'n str, Table)>) -> Result<Lab> {
        let mut tables = self.tables.clone();
        for (name, keys) in pools {
            match tables.iter_mut().find(|(known, _)| known == name) {
                Some((_, table)) => *table = keys,
                None => tables.push((name.to_owned(), keys)),
            }
        }
        let (lab, problems) = with_pools(&self.lab, &tables)?;
        refuse_new(&self.problems, &problems)?;
        Ok(lab)
    }

    /// The lab without a pool.
    ///
    /// # Errors
    /// When a cluster cannot be without it.
    pub fn without(&self, name: &str) -> Result<Lab> {
        let mut keys = self.keys(name)?.clone();
        let is_system = |pool: &&Pool| pool.mode == PoolMode::System && !pool.deferred;
        let mut systems = self.lab.pools.iter().filter(is_system);
        if systems.clone().count() == 1 && systems.any(|pool| pool.name.value == name) {
            let message = format!("pool `{name}` is the last system pool: the cluster's own pods have no other place");
            return Err(Error::message(Code::PoolRefused, message).hint(
                "`klab pool add NAME --mode system` makes another one, or `klab pool update NAME --mode system`",
            ));
        }
        deferred(&mut keys);
        self.with(name, keys)
    }
}

/// Says that a pool is not there, and keeps its place.
pub(super) fn deferred(keys: &mut Table) {
    keys.insert("deferred".to_owned(), true.into());
}

fn with_pools(lab: &Lab, tables: &Tables) -> Result<(Lab, Diagnostics)> {
    let (pools, problems) = read(lab, tables)?;
    Ok((Lab { pools, ..lab.clone() }, problems))
}

/// A number among the keys of a pool that is meant to be there.
fn number(keys: &Table, key: &str) -> Option<i64> {
    let is_deferred = keys.get("deferred").and_then(Value::as_bool).unwrap_or_default();
    keys.get(key).filter(|_| !is_deferred)?.as_integer()
}

/// Lays what is seen of a pool over what was said of it.
fn show(keys: &mut Table, lab: &Lab, name: &str, seen: &ObservedPool) {
    keys.remove("deferred");
    let is_auto = keys.get("zones").is_some_and(Value::is_str);
    if let Some(image) = seen.node_image.as_ref().filter(|_| lab.provider.profile().is_embedded) {
        set_node_image(keys, image);
    }
    let mut set = |key: &str, value: Option<Value>| match value {
        Some(value) => drop(keys.insert(key.to_owned(), value)),
        None => drop(keys.remove(key)),
    };
    set("nodes", i64::try_from(seen.nodes.len()).ok().map(Value::from));
    if seen.declared == Declared::default() {
        return;
    }
    let Declared {
        mode,
        zones,
        max_pods,
        labels,
        taints,
        os,
        spot,
        autoscale,
        capacity,
        size,
        virtual_machines,
        devices,
    } = &seen.declared;
    set("mode", Some(mode.clone().into()));
    set("os", (os != "linux").then(|| os.clone().into()));
    set("max_pods", Some(i64::from(*max_pods).into()));
    let list = |values: Vec<Value>| (!values.is_empty()).then_some(Value::Array(values));
    if !is_auto || *zones != [1, 2, 3] {
        set("zones", list(zones.iter().map(|zone| i64::from(*zone).into()).collect()));
    }
    set("taints", list(taints.iter().map(|taint| taint.clone().into()).collect()));
    set("labels", (!labels.is_empty()).then(|| text_table(labels)));
    let bounds = autoscale.map(|(min, max)| {
        let entry = |key: &str, count: u32| (key.to_owned(), Value::from(i64::from(count)));
        Value::Table(Table::from_iter([entry("min", min), entry("max", max)]))
    });
    set("autoscale", bounds);
    set("capacity", capacity.map(|machines| i64::from(machines).into()));
    if lab.provider.profile().is_embedded {
        set("devices", list(devices.iter().filter_map(|devices| Value::try_from(devices).ok()).collect()));
    }
    set("spot", spot.then(|| true.into()));
    if !spot {
        set("max_price", None);
        set("eviction", None);
    }
    set("type", virtual_machines.then(|| "VirtualMachines".into()));
    let known = lab.pool(name).map(size_name);
    if *virtual_machines {
        keys.retain(|key, _| !matches!(key, "nodes" | "size" | "cpu" | "memory"));
        let sizes = seen.sizes().into_iter().map(|(size, nodes)| (size, i64::from(nodes).into()));
        keys.insert("sizes".to_owned(), Value::Table(sizes.collect()));
    } else if keys.remove("sizes").is_some()
        || known.as_ref() != Some(size)
        || !(keys.contains_key("size") || keys.contains_key("cpu"))
    {
        machine(keys, size);
    }
    let wanted = lab.pool(name).and_then(|pool| wanted_version(lab, Some(pool)));
    let wanted = keys.get("kubernetes").and_then(Value::as_str).map(str::to_owned).or(wanted);
    let wanted = wanted.or_else(|| wanted_version(lab, None));
    // An upgrade that was aborted is not given up: what is asked for stays so.
    if let Some(live) = seen.kubernetes.as_ref().filter(|_| !seen.is_aborted())
        && wanted.is_some_and(|wanted| !is_version(live, &wanted))
    {
        keys.insert("kubernetes".to_owned(), live.clone().into());
    }
}

/// What az says of a pool that cannot be rolled back.
pub(crate) const NO_ROLLBACK: &str = "No rollback versions available. The nodepool must have been upgraded at least once to have rollback history available.";

/// Says which node image a pool has, by its full name; the newest goes without saying.
pub(crate) fn set_node_image(keys: &mut Table, full: &str) {
    let version = full.rsplit('-').next().unwrap_or_default();
    keys.remove("node_image");
    if version != NODE_IMAGE && keys.get("os").is_none() {
        keys.insert("node_image".to_owned(), version.into());
    }
}

/// A size as [`size_name`] writes it.
fn machine(keys: &mut Table, size: &str) {
    let made_to_measure = size.split_once("m CPU, ").and_then(|(cpu, rest)| Some((cpu, rest.strip_suffix(" MiB")?)));
    let pairs = match made_to_measure {
        Some((cpu, memory)) => vec![("cpu", format!("{cpu}m")), ("memory", format!("{memory}Mi"))],
        None => vec![("size", size.to_owned())],
    };
    for key in ["size", "cpu", "memory"] {
        keys.remove(key);
    }
    keys.extend(pairs.into_iter().map(|(key, text)| (key.to_owned(), text.into())));
}

fn text_table(entries: &BTreeMap<String, String>) -> Value {
    Value::Table(entries.iter().map(|(key, value)| (key.clone(), value.clone().into())).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use klab_lab::plan::ObservedNode;
    use klab_lab::spec::{LoadOptions, parse};

    const LAB: &str = "lab = \"demo\"\nkubernetes = \"1.36\"\n[pool.main]\nmode = \"system\"\n[pool.extra]\nsize = \"Standard_D4s_v5\"\n\
                       os_sku = \"AzureLinux\"\n[pool.later]\ndeferred = true\n[pool.idle]\nnodes = 0\n";

    fn seen(lab: &Lab, nodes: usize, version: &str) -> ObservedPool {
        let extra = lab.pool("extra").unwrap();
        let nodes = vec![ObservedNode::default(); nodes];
        ObservedPool {
            declared: Declared::of(extra),
            nodes,
            kubernetes: Some(version.to_owned()),
            ..ObservedPool::default()
        }
    }

    fn live(change: impl FnOnce(&mut Observed, &mut ChangedPools)) -> LivePools {
        let lab = parse("lab.toml", LAB, &LoadOptions::default()).unwrap();
        let pools = [("main", seen(&lab, 1, "1.36.2")), ("extra", seen(&lab, 3, "1.36.2"))];
        let pools = pools.into_iter().map(|(name, pool)| (name.to_owned(), pool)).collect();
        let mut observed = Observed { exists: true, pools, ..Observed::default() };
        observed.pools.get_mut("main").unwrap().declared.mode = "system".to_owned();
        let mut kept = ChangedPools::default();
        change(&mut observed, &mut kept);
        LivePools::of(&lab, &kept, observed).unwrap()
    }

    #[test]
    fn pools_are_as_the_cluster_shows_them_and_the_file_says_the_rest() {
        let live = live(|observed, _| {
            let extra = observed.pools["extra"].clone();
            let mut found = ObservedPool { nodes: vec![ObservedNode::default()], ..extra };
            found.declared.size = "1500m CPU, 3072 MiB".to_owned();
            found.kubernetes = Some("1.35.1".to_owned());
            found.declared.taints = ["a=b:NoSchedule".to_owned()].into();
            observed.pools.insert("found".to_owned(), found);
            observed.pools.get_mut("extra").unwrap().declared.autoscale = Some((2, 5));
        });
        assert_eq!(live.names(), ["main", "extra", "idle", "found"]);
        let extra = live.lab.pool("extra").unwrap();
        assert_eq!(
            (extra.nodes.value, extra.os_sku.as_deref(), extra.kubernetes.is_some()),
            (3, Some("AzureLinux"), false)
        );
        assert_eq!(extra.autoscale.as_ref().map(|bounds| (bounds.min, bounds.max)), Some((2, 5)));
        let found = live.lab.pool("found").unwrap();
        assert_eq!(Declared::of(found), live.observed.pools["found"].declared);
        assert_eq!(found.kubernetes.as_ref().unwrap().value.to_string(), "1.35.1");
        assert_eq!(live.keys("later").unwrap_err().to_string(), "lab `demo` has no pool `later`");
    }

    #[test]
    fn pool_without_nodes_is_there_until_it_is_removed() {
        let of = |keys: &str| live(|_, kept| kept.put("mine", toml::from_str(keys).unwrap()));
        assert_eq!(of("nodes = 0").names(), ["main", "extra", "idle", "mine"]);
        assert_eq!(of("nodes = 0\ndeferred = true").names(), ["main", "extra", "idle"]);
        assert_eq!(of("nodes = 2").names(), ["main", "extra", "idle"], "its nodes are gone");
    }

    #[test]
    fn what_breaks_a_rule_is_refused_with_what_mends_it() {
        let live = live(|_, _| {});
        for (name, keys, words) in [
            ("Bad", "", "AKS refuses the pool name `Bad`"),
            ("more", "size = \"B2ms\"", "klab does not know the VM size `B2ms`: no such size in klab's table"),
            ("more", "taints = [\"dedicated\"]", "`dedicated` is not a taint"),
            ("more", "max_pods = 5", "pool `more` cannot hold 5 pods on a node: must be from 10 to 250"),
            (
                "more",
                "mode = \"system\"\nspot = true",
                "pool `more` cannot be a system pool: a system pool is never spot",
            ),
        ] {
            let error = live.with(name, toml::from_str(keys).unwrap()).unwrap_err();
            assert!(error.to_string().contains(words), "{keys}: {error}");
        }
        let error = live.without("main").unwrap_err();
        assert!(error.to_string().starts_with("pool `main` is the last system pool"), "{error}");
        assert!(live.without("extra").unwrap().pool("extra").unwrap().deferred);
    }
}
