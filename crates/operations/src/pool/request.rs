//! Pure: what is asked of the pools of a lab, as it is typed, and what the pools are to be then.

use klab_lab::plan::{taint_text, wanted_version};
use klab_lab::spec::{Lab, Pool, pool_table};
use klab_lab::words::table;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use toml::Table;

use super::keys::{Keys, UpgradeKeys};
use super::live_pools::{LivePools, deferred};
use crate::error::{Code, Error, Result};

/// What is asked of the pools of a lab.
#[derive(Debug, Clone, clap::Subcommand, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PoolRequest {
    /// Add a pool. What is not given is as the lab file says, where it describes the pool, else as every lab file means it.
    Add {
        /// The lab and the pool.
        #[command(flatten)]
        which: Which,
        /// The keys that the command line gives.
        #[command(flatten)]
        keys: Box<Keys>,
    },
    /// Change the number of nodes; a pool that the autoscaler decides about is taken from it.
    Scale {
        /// The lab and the pool.
        #[command(flatten)]
        which: Which,
        /// Number of nodes.
        #[arg(long, value_name = "COUNT")]
        nodes: u32,
    },
    /// Change what a pool is.
    Update {
        /// The lab and the pool.
        #[command(flatten)]
        which: Which,
        /// The keys that the command line gives.
        #[command(flatten)]
        keys: Box<Keys>,
        /// Take the pool from the autoscaler.
        #[arg(long, conflicts_with = "autoscale")]
        no_autoscale: bool,
        /// Recreate the nodes where a change cannot be made to existing ones, such as another size.
        #[arg(long)]
        replace: bool,
    },
    /// Bring the nodes to another Kubernetes version. As on AKS, surge nodes come and old ones are drained and reimaged; on kind
    /// the nodes are recreated.
    Upgrade {
        /// The lab and the pool.
        #[command(flatten)]
        which: Which,
        /// The version; the cluster's by default.
        #[arg(long, value_name = "VERSION")]
        kubernetes: Option<String>,
        /// How; what is not given is as the pool has it.
        #[command(flatten)]
        upgrade: UpgradeKeys,
        /// Do not wait until the upgrade is over.
        #[arg(long)]
        #[serde(default)]
        no_wait: bool,
    },
    /// Remove a pool with its nodes.
    Delete {
        /// The lab and the pool.
        #[command(flatten)]
        which: Which,
    },
    /// List the pools.
    List {
        /// The lab, by its name or its file; by default the one that `KUBECONFIG` belongs to, else the one that is up.
        #[arg(long, value_name = "LAB")]
        lab: Option<String>,
    },
}

/// A pool of a lab.
#[derive(Debug, Clone, clap::Args, Serialize, Deserialize)]
pub struct Which {
    /// The pool.
    #[arg(value_name = "POOL")]
    pub pool: String,
    /// The lab, by its name or its file; by default the one that `KUBECONFIG` belongs to, else the one that is up.
    #[arg(long, value_name = "LAB")]
    pub lab: Option<String>,
}

/// What a lab is to be after a change of one pool.
#[derive(Debug)]
pub struct Wanted {
    /// The lab with the pool as it should be.
    pub lab: Lab,
    /// The pool.
    pub pool: String,
    /// Its keys, which klab keeps.
    pub keys: Table,
    /// Whether the version of its nodes is asked for.
    pub is_upgrade: bool,
    /// Whether an upgrade is only begun.
    pub no_wait: bool,
}

/// Keys of a pool that its nodes have for life, besides its Kubernetes version.
const FOR_LIFE: [&str; 8] = ["size", "cpu", "memory", "zones", "max_pods", "os", "os_sku", "spot"];

impl PoolRequest {
    fn which(&self) -> Option<&Which> {
        match self {
            Self::List { .. } => None,
            Self::Add { which, .. }
            | Self::Scale { which, .. }
            | Self::Update { which, .. }
            | Self::Upgrade { which, .. }
            | Self::Delete { which } => Some(which),
        }
    }

    /// The lab that is meant, where it is named.
    pub fn lab(&self) -> Option<&str> {
        match self {
            Self::List { lab } => lab.as_deref(),
            _ => self.which().and_then(|which| which.lab.as_deref()),
        }
    }

    /// The pool to change; none where pools are only listed.
    pub fn pool(&self) -> Option<&str> {
        self.which().map(|which| which.pool.as_str())
    }

    /// What the lab is to be; none where pools are only listed.
    ///
    /// # Errors
    /// When a rule of pools is broken, or the pool is not there.
    pub fn wanted(&self, live: &LivePools) -> Result<Option<Wanted>> {
        let Some(pool) = self.pool() else { return Ok(None) };
        let mut keys = match self {
            Self::Add { .. } => Table::new(),
            _ => live.keys(pool)?.clone(),
        };
        match self {
            Self::List { .. } => return Ok(None),
            Self::Delete { .. } => return Wanted::without(live, pool).map(Some),
            Self::Add { keys: given, .. } => keys = added(live, pool, given)?,
            Self::Scale { nodes, .. } => {
                keys.insert("nodes".to_owned(), i64::from(*nodes).into());
                keys.remove("autoscale");
            }
            Self::Update { keys: given, no_autoscale, replace, .. } => {
                let now = keys.clone();
                laid(given, &mut keys)?;
                if *no_autoscale {
                    keys.remove("autoscale");
                }
                refuse_for_life(live, pool, &now, &keys, *replace)?;
            }
            Self::Upgrade { kubernetes, upgrade, no_wait, .. } => {
                if !live.lab.is_like_aks() && (*no_wait || *upgrade != UpgradeKeys::default()) {
                    return Err(not_like_aks(live));
                }
                upgrade.lay_over(&mut keys);
                match kubernetes {
                    Some(version) => drop(keys.insert("kubernetes".to_owned(), version.clone().into())),
                    None => drop(keys.remove("kubernetes")),
                }
            }
        }
        let wanted = Wanted::with(live, pool, keys)?;
        Ok(Some(match self {
            Self::Upgrade { no_wait, .. } => Wanted { is_upgrade: true, no_wait: *no_wait, ..wanted },
            _ => wanted,
        }))
    }
}

fn not_like_aks(live: &LivePools) -> Error {
    let title = live.lab.provider.profile().title;
    let message = format!("{title} replaces nodes at once: there is no surge and no drain to configure");
    Error::message(Code::Upgrade, message).hint("leave the options out")
}

impl Wanted {
    /// A pool of these keys, new or changed.
    ///
    /// # Errors
    /// When that breaks a rule.
    pub fn with(live: &LivePools, pool: &str, keys: Table) -> Result<Self> {
        Ok(Self { lab: live.with(pool, keys.clone())?, pool: pool.to_owned(), keys, is_upgrade: false, no_wait: false })
    }

    /// The lab without a pool.
    ///
    /// # Errors
    /// When there is none of that name, or the cluster cannot be without it.
    pub fn without(live: &LivePools, pool: &str) -> Result<Self> {
        let lab = live.without(pool)?;
        let mut keys = live.keys(pool)?.clone();
        deferred(&mut keys);
        Ok(Self { lab, pool: pool.to_owned(), keys, is_upgrade: false, no_wait: false })
    }
}

/// The keys of a pool that is to be made.
fn added(live: &LivePools, pool: &str, keys: &Keys) -> Result<Table> {
    if live.names().contains(&pool) {
        let message = format!("lab `{}` has a pool `{pool}` already", live.lab.name);
        return Err(Error::message(Code::PoolRefused, message).hint(format!(
            "`klab pool update {pool}` changes it, `klab pool scale {pool}` changes its number of nodes"
        )));
    }
    let mut wanted = live.declared(pool).unwrap_or_else(|| Table::from_iter([("mode".to_owned(), "user".into())]));
    wanted.remove("deferred");
    laid(keys, &mut wanted)?;
    Ok(wanted)
}

fn laid(keys: &Keys, over: &mut Table) -> Result<()> {
    keys.lay_over(over).map_err(|words| Error::message(Code::PoolRefused, words))
}

/// Nodes are recreated only when the user asks for it.
fn refuse_for_life(live: &LivePools, pool: &str, now: &Table, wanted: &Table, may_replace: bool) -> Result<()> {
    if may_replace {
        return Ok(());
    }
    // What was not said of the pool has its default: that is seen in the pool, not in its keys.
    let as_they_are = live.lab.pool(pool).map(pool_table).unwrap_or_default();
    let after = live.with(pool, wanted.clone())?.pool(pool).map(pool_table).unwrap_or_default();
    let changed = FOR_LIFE.iter().chain(["kubernetes"].iter()).find(|key| {
        let was = |keys: &Table| keys.get(**key).cloned();
        was(now) != was(wanted) && was(&as_they_are) != was(&after)
    });
    match changed {
        None => Ok(()),
        Some(key) => {
            Err(Error::message(Code::NeedsNewNodes, format!("`{key}` of pool `{pool}` cannot change on its nodes"))
                .hint("`--replace` recreates the nodes; their pods start elsewhere meanwhile"))
        }
    }
}

/// The pools, for people.
pub fn list(live: &LivePools) -> String {
    let mut rows =
        vec![["POOL", "MODE", "NODES", "SIZE", "KUBERNETES", "LABELS", "TAINTS"].map(str::to_owned).to_vec()];
    rows.extend(there(live).map(|pool| {
        let bounds = pool.autoscale.as_ref().map(|bounds| format!(" ({}..{})", bounds.min, bounds.max));
        vec![
            pool.name.value.clone(),
            pool.mode.as_str().to_owned(),
            format!("{}{}", pool.nodes.value, bounds.unwrap_or_default()),
            klab_lab::plan::size_name(pool),
            version(live, &live.lab, pool).unwrap_or_default(),
            pool.labels.iter().map(|(key, value)| format!("{key}={}", value.value)).collect::<Vec<_>>().join(" "),
            pool.taints.iter().map(|taint| taint_text(&taint.value)).collect::<Vec<_>>().join(" "),
        ]
    }));
    table(&rows)
}

/// The pools, for programs.
pub fn list_document(live: &LivePools) -> Value {
    let pools: Vec<Value> = there(live).map(|pool| document(live, pool)).collect();
    json!({ "schema": "klab.pools/1", "lab": live.lab.name.value, "pools": pools })
}

fn there(live: &LivePools) -> impl Iterator<Item = &Pool> {
    live.lab.pools.iter().filter(|pool| !pool.deferred)
}

fn version(live: &LivePools, lab: &Lab, pool: &Pool) -> Option<String> {
    let seen = live.observed.pools.get(&pool.name.value).and_then(|seen| seen.kubernetes.clone());
    seen.or_else(|| wanted_version(lab, Some(pool)))
}

fn document(live: &LivePools, pool: &Pool) -> Value {
    let keys = serde_json::to_value(pool_table(pool)).unwrap_or_default();
    let mut document =
        json!({ "name": pool.name.value, "kubernetes": version(live, &live.lab, pool), "max_pods": pool.max_pods });
    for (key, value) in keys.as_object().into_iter().flatten() {
        if document[key].is_null() {
            document[key] = value.clone();
        }
    }
    document
}
