//! The lab at a stage, with the pools as they were changed by hand since: for explanations, which ask no cluster for them.

use toml::Table;

use super::changed_pools::ChangedPools;
use super::read::read;
use klab_lab::spec::{Lab, Located, pool_table};

/// Lays what was typed over the pools of a stage: which are there, and the bounds of their autoscaler. What the lab file says
/// of them keeps its place there. Pools that the file does not have follow.
pub fn with_kept(mut stage: Lab, kept: &ChangedPools) -> Lab {
    let mut tables: Vec<(String, Table)> =
        stage.pools.iter().map(|pool| (pool.name.value.clone(), pool_table(pool))).collect();
    let known = tables.len();
    for name in kept.names() {
        let Some(keys) = kept.get(name).cloned() else { continue };
        match tables.iter_mut().find(|(known, _)| known == name) {
            Some((_, table)) => {
                for key in ["deferred", "autoscale"] {
                    match keys.get(key) {
                        Some(value) => drop(table.insert(key.to_owned(), value.clone())),
                        None => drop(table.remove(key)),
                    }
                }
            }
            None => tables.push((name.clone(), keys)),
        }
    }
    // What is kept was read when it was typed; where it cannot be by now, the file has the word.
    let Ok((pools, _)) = read(&stage, &tables) else { return stage };
    for pool in pools {
        let Some(own) = stage.pools[..known].iter_mut().find(|own| own.name.value == pool.name.value) else {
            stage.pools.push(pool);
            continue;
        };
        let at = own.autoscale.as_ref().map_or(&own.name.at, |bounds| &bounds.at).clone();
        own.deferred = pool.deferred;
        own.autoscale = pool.autoscale.map(|bounds| Located::new(bounds.value, at));
    }
    stage
}

#[cfg(test)]
mod tests {
    use super::*;
    use klab_lab::spec::{LoadOptions, parse};

    #[test]
    fn what_was_typed_is_laid_over_what_the_file_says() {
        let text = "lab = \"demo\"\n[pool.main]\nmode = \"system\"\n[pool.extra]\nautoscale = { min = 0, max = 3 }\n[pool.later]\ndeferred = true\n";
        let lab = parse("lab.toml", text, &LoadOptions::default()).unwrap();
        let mut kept = ChangedPools::default();
        for (name, keys) in [
            ("extra", "deferred = true"),
            ("later", "nodes = 1\nautoscale = { min = 1, max = 4 }"),
            ("mine", "nodes = 2\nsize = \"Standard_B2ms\"\nlabels = { a = \"b\" }"),
        ] {
            kept.put(name, toml::from_str(keys).unwrap());
        }
        let at = lab.pools[1].name.at.clone();
        let lab = with_kept(lab, &kept);
        let told: Vec<_> = lab
            .pools
            .iter()
            .map(|pool| {
                (
                    pool.name.value.as_str(),
                    pool.deferred,
                    pool.autoscale.as_ref().map(|bounds| (bounds.min, bounds.max)),
                )
            })
            .collect();
        assert_eq!(
            told,
            [("main", false, None), ("extra", true, None), ("later", false, Some((1, 4))), ("mine", false, None)]
        );
        assert_eq!(lab.pools[1].name.at, at, "what the file says keeps its place");
        assert_eq!(lab.pools[3].labels["a"].value, "b");
    }
}
