//! The changes that can be tried, as they are written on a command line.

use klab_lab::spec::{UpgradeSettings, VmSize, singular};
use klab_lab::words::plural;
use serde_json::{Value, json};

/// A change to try.
#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    /// A pool gets this number of nodes.
    Nodes {
        /// The pool.
        pool: String,
        /// How many nodes it is to have.
        nodes: usize,
    },
    /// The nodes of a pool are replaced by nodes of another size.
    Size {
        /// The pool.
        pool: String,
        /// The size.
        size: &'static VmSize,
    },
    /// Nodes get a taint, or lose one.
    Taint {
        /// A node or a pool.
        target: String,
        /// Its key.
        key: String,
        /// Its value.
        value: String,
        /// Its effect; none removes every taint of the key.
        effect: Option<String>,
    },
    /// Nodes get a label, or lose it.
    Label {
        /// A node or a pool.
        target: String,
        /// Its key.
        key: String,
        /// Its value; none removes it.
        value: Option<String>,
    },
    /// Nodes are cordoned and drained.
    Drain {
        /// A node or a pool.
        target: String,
    },
    /// The nodes of a pool are replaced a few at a time, as an upgrade does it.
    Upgrade {
        /// The pool.
        pool: String,
        /// Its upgrade settings, where they are known.
        settings: UpgradeSettings,
    },
    /// All nodes of a zone are gone at once.
    ZoneDown {
        /// The zone, or what follows its last `-`.
        zone: String,
    },
    /// A workload gets this number of pods.
    Scale {
        /// `KIND/NAME` or `NAMESPACE/KIND/NAME`.
        workload: String,
        /// How many pods it is to have.
        replicas: u32,
    },
    /// Objects are made, several times each.
    Add {
        /// The objects.
        objects: Vec<Value>,
        /// How often.
        times: usize,
    },
    /// Objects are applied.
    Apply {
        /// The objects.
        objects: Vec<Value>,
    },
    /// The scheduler gets another configuration.
    Profile {
        /// A `KubeSchedulerConfiguration`.
        configuration: Value,
    },
}

/// Most objects or nodes that one change makes.
const MAX_MADE: usize = 10_000;

fn pair<'a>(text: &'a str, form: &str) -> Result<(&'a str, &'a str), String> {
    text.split_once('=')
        .filter(|(name, value)| !name.is_empty() && !value.is_empty())
        .ok_or_else(|| format!("`{text}` is not of the form {form}"))
}

impl Change {
    /// `NAME=COUNT`, or `NAME.size=SIZE`.
    ///
    /// # Errors
    /// What is wrong with the text.
    pub fn pool(text: &str) -> Result<Self, String> {
        let (pool, value) = pair(text, "POOL=NODES or POOL.size=SIZE")?;
        if let Some(pool) = pool.strip_suffix(".size") {
            let size = VmSize::find(value).ok_or_else(|| {
                let near: Vec<&str> = VmSize::nearest(value).iter().take(3).map(|size| size.name.as_str()).collect();
                format!("klab does not know the size `{value}`; it knows {} and others of Azure", near.join(", "))
            })?;
            return Ok(Self::Size { pool: pool.to_owned(), size });
        }
        let nodes = value.parse().ok().filter(|nodes| *nodes <= MAX_MADE);
        let nodes = nodes.ok_or_else(|| format!("`{value}` is not a number of nodes from 0 to {MAX_MADE}"))?;
        Ok(Self::Nodes { pool: pool.to_owned(), nodes })
    }

    /// `TARGET:KEY=VALUE:EFFECT`, or `TARGET:KEY-` without the taint.
    ///
    /// # Errors
    /// What is wrong with the text.
    pub fn taint(text: &str) -> Result<Self, String> {
        let form = || format!("`{text}` is not of the form NODE|POOL:KEY[=VALUE]:EFFECT or NODE|POOL:KEY-");
        let (target, taint) = text.split_once(':').filter(|(target, _)| !target.is_empty()).ok_or_else(form)?;
        if let Some(key) = taint.strip_suffix('-') {
            let (target, key) = (target.to_owned(), key.to_owned());
            return Ok(Self::Taint { target, key, value: String::new(), effect: None });
        }
        let (pair, effect) = taint.rsplit_once(':').ok_or_else(form)?;
        if !["NoSchedule", "PreferNoSchedule", "NoExecute"].contains(&effect) {
            return Err(format!("`{effect}` is no effect of taints: NoSchedule, PreferNoSchedule or NoExecute"));
        }
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        if key.is_empty() {
            return Err(form());
        }
        let [target, key, value, effect] = [target, key, value, effect].map(str::to_owned);
        Ok(Self::Taint { target, key, value, effect: Some(effect) })
    }

    /// `TARGET:KEY=VALUE`, or `TARGET:KEY-` without the label.
    ///
    /// # Errors
    /// What is wrong with the text.
    pub fn label(text: &str) -> Result<Self, String> {
        let form = "NODE|POOL:KEY=VALUE or NODE|POOL:KEY-";
        let wrong = || format!("`{text}` is not of the form {form}");
        let (target, label) = text.split_once(':').filter(|(target, _)| !target.is_empty()).ok_or_else(wrong)?;
        let (key, value) = match label.strip_suffix('-') {
            Some(key) if !key.contains('=') => (key, None),
            _ => label.split_once('=').map(|(key, value)| (key, Some(value.to_owned()))).ok_or_else(wrong)?,
        };
        Ok(Self::Label { target: target.to_owned(), key: key.to_owned(), value })
    }

    /// `[NAMESPACE/]KIND/NAME=REPLICAS`.
    ///
    /// # Errors
    /// What is wrong with the text.
    pub fn scale(text: &str) -> Result<Self, String> {
        let form = "[NAMESPACE/]KIND/NAME=REPLICAS, such as deployment/web=3";
        let (workload, count) = pair(text, form)?;
        let workload = match parts(workload) {
            (_, "", _) => return Err(format!("`{text}` is not of the form {form}")),
            (None, kind, name) => format!("{}/{name}", singular(kind)),
            (Some(namespace), kind, name) => format!("{namespace}/{}/{name}", singular(kind)),
        };
        let most = u32::try_from(MAX_MADE).unwrap_or(u32::MAX);
        let replicas = count.parse().ok().filter(|replicas| *replicas <= most);
        let replicas = replicas.ok_or_else(|| format!("`{count}` is not a number of pods from 0 to {most}"))?;
        Ok(Self::Scale { workload, replicas })
    }

    /// The file and how often: `FILE`, `FILE×20` or `FILE*20`.
    ///
    /// # Errors
    /// Where the number is none, or too large.
    pub fn times(text: &str) -> Result<(&str, usize), String> {
        let Some((file, times)) = text.rsplit_once(['×', '*']) else { return Ok((text, 1)) };
        let times: Option<usize> = times.trim().parse().ok().filter(|times| (1..=MAX_MADE).contains(times));
        let times = times.ok_or_else(|| format!("`{text}` does not end in a number from 1 to {MAX_MADE}"))?;
        Ok((file.trim_end(), times))
    }

    /// The change in words, as a heading has it.
    pub fn words(&self) -> String {
        match self {
            Self::Nodes { pool, nodes } => format!("pool {pool} has {}", plural(*nodes, "node")),
            Self::Size { pool, size } => format!("the nodes of pool {pool} are {}", size.name),
            Self::Taint { target, key, value, effect: Some(effect) } => {
                let value = if value.is_empty() { String::new() } else { format!("={value}") };
                format!("{target} has the taint {key}{value}:{effect}")
            }
            Self::Taint { target, key, .. } => format!("{target} loses the taint {key}"),
            Self::Label { target, key, value: Some(value) } => format!("{target} has the label {key}={value}"),
            Self::Label { target, key, value: None } => format!("{target} loses the label {key}"),
            Self::Drain { target } => format!("{target} is drained"),
            Self::Upgrade { pool, settings } if settings.is_blue_green() => {
                format!("pool {pool} is upgraded blue-green")
            }
            Self::Upgrade { pool, settings } if settings.surge().is_none() => {
                format!("pool {pool} is upgraded with its max_unavailable of {}", settings.unavailable())
            }
            Self::Upgrade { pool, settings } => {
                let whose = if settings.max_surge.is_some() { "its" } else { "AKS's default" };
                format!("pool {pool} is upgraded with {whose} max_surge of {}", settings.surge())
            }
            Self::ZoneDown { zone } => format!("zone {zone} is down"),
            Self::Scale { workload, replicas } => {
                format!("{workload} has {}", plural(*replicas as usize, "pod"))
            }
            Self::Add { objects, times } => {
                let objects = plural(objects.len(), "more object");
                if *times == 1 { objects } else { format!("{objects}, {times} times") }
            }
            Self::Apply { objects } => format!("{} applied", plural(objects.len(), "object")),
            Self::Profile { .. } => "the scheduler has another configuration".to_owned(),
        }
    }
}

/// The workload that `KIND/NAME` or `NAMESPACE/KIND/NAME` names: namespace, kind, name.
pub(crate) fn parts(workload: &str) -> (Option<&str>, &str, &str) {
    let parts: Vec<&str> = workload.split('/').collect();
    match parts.as_slice() {
        [namespace, kind, name] => (Some(namespace), kind, name),
        [kind, name] => (None, kind, name),
        _ => (None, "", workload),
    }
}

/// The taint of a change, as a node has it.
pub(crate) fn taint(key: &str, value: &str, effect: &str) -> Value {
    if value.is_empty() {
        json!({ "key": key, "effect": effect })
    } else {
        json!({ "key": key, "value": value, "effect": effect })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_changes_or_say_what_is_wrong() {
        let words =
            |change: Result<Change, String>| change.map_or_else(|error| format!("error: {error}"), |it| it.words());
        for (said, meant) in [
            (words(Change::pool("general=3")), "pool general has 3 nodes"),
            (words(Change::pool("general.size=standard_d4s_v5")), "the nodes of pool general are Standard_D4s_v5"),
            (words(Change::pool("general")), "error: `general` is not of the form POOL=NODES or POOL.size=SIZE"),
            (words(Change::pool("general=-1")), "error: `-1` is not a number of nodes from 0 to 10000"),
            (words(Change::taint("general:a=b:NoSchedule")), "general has the taint a=b:NoSchedule"),
            (words(Change::taint("general:a:NoExecute")), "general has the taint a:NoExecute"),
            (words(Change::taint("general:a-")), "general loses the taint a"),
            (
                words(Change::taint("general:a=b:Never")),
                "error: `Never` is no effect of taints: NoSchedule, PreferNoSchedule or NoExecute",
            ),
            (words(Change::label("n1:disk=ssd")), "n1 has the label disk=ssd"),
            (words(Change::label("n1:disk-")), "n1 loses the label disk"),
            (words(Change::label("n1")), "error: `n1` is not of the form NODE|POOL:KEY=VALUE or NODE|POOL:KEY-"),
            (words(Change::scale("team/deploy/web=30")), "team/deployment/web has 30 pods"),
            (
                words(Change::scale("web=30")),
                "error: `web=30` is not of the form [NAMESPACE/]KIND/NAME=REPLICAS, such as deployment/web=3",
            ),
        ] {
            assert_eq!(said, meant);
        }
        assert!(
            Change::pool("general.size=Standard_D3")
                .unwrap_err()
                .starts_with("klab does not know the size `Standard_D3`; it knows Standard_")
        );
        assert_eq!(Change::times("web.yaml×20").unwrap(), ("web.yaml", 20));
        assert_eq!(Change::times("web.yaml").unwrap(), ("web.yaml", 1));
        assert!(Change::times("web.yaml*0").is_err());
    }
}
