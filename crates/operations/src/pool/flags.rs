//! Pure: what a learner types at klab for a change of a pool.

use toml::{Table, Value};

use crate::exec::Command;
use klab_lab::spec::{Action, Lab, UpgradeTarget, pool_table};

/// Keys that have no flag, and keys in the order in which they are read best.
const FIRST: [&str; 6] = ["nodes", "size", "sizes", "cpu", "memory", "mode"];
const WITHOUT_FLAG: [&str; 7] = ["capacity", "deferred", "extra_args", "images", "node_image", "os_disk", "type"];

/// The command for an action on a pool; `stage` is the lab as it is afterwards.
pub fn command(stage: &Lab, action: &Action) -> Option<String> {
    let klab = |verb: &str, pool: &str| Command::new("klab").args(["pool", verb, pool]);
    let command = match action {
        Action::AddPool { pool } => klab("add", pool).args(flags(&pool_table(stage.pool(pool)?))),
        Action::RemovePool { pool } => klab("delete", pool),
        Action::ScalePool { pool, autoscale: Some(bounds), .. } => {
            klab("update", pool).args(["--autoscale".to_owned(), format!("{}..{}", bounds.min, bounds.max)])
        }
        Action::ScalePool { pool, nodes, .. } => {
            klab("scale", pool).args(["--nodes".to_owned(), nodes.unwrap_or_default().to_string()])
        }
        Action::UpgradePool { pool, to, settings, no_wait } => {
            let settings =
                settings.given().into_iter().flat_map(|(key, value)| [format!("--{}", key.replace('_', "-")), value]);
            match to {
                UpgradeTarget::Kubernetes(version) => {
                    klab("upgrade", pool).args(["--kubernetes".to_owned(), version.to_string()])
                }
                UpgradeTarget::NodeImage => klab("upgrade", pool).args(["--node-image-only"]),
                UpgradeTarget::Size(size) => klab("resize", pool).args(["--size", &size.name]),
            }
            .args(settings.collect::<Vec<_>>())
            .args(no_wait.then(|| "--no-wait".to_owned()))
        }
        _ => return None,
    };
    Some(command.to_string())
}

/// The flags that say the same as these keys. A new pool is for users by itself.
fn flags(keys: &Table) -> Vec<String> {
    let is_default = |key: &str, value: &Value| key == "mode" && value.as_str() == Some("user");
    let rest = keys.keys().map(String::as_str).filter(|key| !FIRST.contains(key));
    let order = FIRST.into_iter().chain(rest).filter(|key| !WITHOUT_FLAG.contains(key));
    let given = order.filter_map(|key| Some((key, keys.get(key)?))).filter(|(key, value)| !is_default(key, value));
    given.flat_map(|(key, value)| flag(key, value)).collect()
}

fn flag(key: &str, value: &Value) -> Vec<String> {
    let name = format!("--{}", key.replace('_', "-"));
    let word = match value {
        Value::Boolean(true) => return vec![name],
        Value::Boolean(false) => return Vec::new(),
        Value::Table(bounds) if key == "autoscale" => format!("{}..{}", word(&bounds["min"]), word(&bounds["max"])),
        Value::Table(pairs) => {
            let pairs: Vec<String> = pairs.iter().map(|(key, value)| format!("{key}={}", word(value))).collect();
            pairs.join(",")
        }
        Value::Array(values) => values.iter().map(word).collect::<Vec<_>>().join(","),
        value => word(value),
    };
    vec![name, word]
}

fn word(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pool::Keys;
    use clap::Parser;
    use klab_lab::spec::{LoadOptions, parse};

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        keys: Keys,
    }

    #[test]
    fn flags_of_a_pool_say_what_its_table_says() {
        for pool in [
            "nodes = 2\nsize = \"Standard_B2ms\"\nlabels = { workload = \"extra\", team = \"a\" }",
            "nodes = 1\nsize = \"Standard_B2ms\"\nmode = \"system\"\ntaints = [\"CriticalAddonsOnly=true:NoSchedule\"]\nzones = [1, 3]",
            "nodes = 2\nsize = \"Standard_B2ms\"\nautoscale = { min = 1, max = 3 }\nmax_pods = 30\nkubernetes = \"1.35\"",
            "nodes = 1\nsize = \"Standard_B2ms\"\nspot = true\nmax_price = 0.05\neviction = \"delete\"",
            "nodes = 1\ncpu = \"2000m\"\nmemory = \"4294967296\"\nresources = { \"nvidia.com/gpu\" = \"1\" }\nannotations = { a = \"b\" }",
            "type = \"VirtualMachines\"\nsizes = { \"Standard_D4s_v5\" = 2, \"Standard_D8s_v5\" = 1 }",
            "nodes = 1\nsize = \"Standard_B2ms\"\nos = \"windows\"\nos_sku = \"Windows2022\"",
        ] {
            let mut keys: Table = toml::from_str(pool).unwrap();
            keys.entry("mode").or_insert_with(|| "user".into());
            let words = flags(&keys);
            let line = Line::try_parse_from(std::iter::once("klab".to_owned()).chain(words.clone())).unwrap();
            let mut read = Table::from_iter([("mode".to_owned(), "user".into())]);
            line.keys.lay_over(&mut read).unwrap();
            assert_eq!(read, keys, "{words:?}");
        }
    }

    #[test]
    fn every_action_on_a_pool_is_a_command() {
        let text = "lab = \"demo\"\n[pool.main]\n[pool.extra]\nlabels = { workload = \"extra\" }\ndeferred = true\n[[step]]\nname = \"all\"\ndo = [\
                    { add_pool = \"extra\" }, { scale_pool = \"extra\", nodes = 3 }, { scale_pool = \"extra\", autoscale = { min = 1, max = 3 } }, \
                    { upgrade_pool = \"extra\", kubernetes = \"1.35\" }, { upgrade_pool = \"extra\", node_image_only = true }, { resize_pool = \"extra\", size = \"Standard_D4s_v5\" }, { remove_pool = \"extra\" }]\n[[step.check]]\nnodes = \"pool:extra\"\nexist = 0\n";
        let lab = parse("lab.toml", text, &LoadOptions::default()).unwrap_or_else(|problems| panic!("{problems}"));
        let commands: Vec<_> = lab.steps[0].actions.iter().filter_map(|action| command(&lab, &action.value)).collect();
        assert_eq!(
            commands,
            [
                "klab pool add extra --nodes 1 --size Standard_B2ms --labels workload=extra",
                "klab pool scale extra --nodes 3",
                "klab pool update extra --autoscale 1..3",
                "klab pool upgrade extra --kubernetes 1.35",
                "klab pool upgrade extra --node-image-only",
                "klab pool resize extra --size Standard_D4s_v5",
                "klab pool delete extra",
            ]
        );
    }
}
