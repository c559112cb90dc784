//! Pure: what is asked of the pools of a lab, as it is typed, and what the pools are to be then.

use klab_lab::nodes::node_image;
use klab_lab::plan::{Declared, fixed_changes, size_name, taint_text, wanted_version};
use klab_lab::spec::{Lab, Pool, UpgradeKind, exchange_refusal, pool_table};
use klab_lab::words::table;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use toml::Table;

use super::keys::{Keys, UpgradeKeys, set_nodes};
use super::live_pools::{LivePools, NO_ROLLBACK, deferred};
use crate::error::{Code, Error, Result};
use crate::provider::upgrading;

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
        /// Bring the nodes to the newest node image alone, at the version that they have.
        #[arg(long, conflicts_with_all = ["kubernetes", "max_surge", "max_unavailable", "drain_timeout", "node_soak",
            "undrainable_node_behavior", "strategy", "drain_batch_size", "batch_soak", "final_soak"])]
        #[serde(default)]
        node_image_only: bool,
        /// How; what is not given is as the pool has it.
        #[command(flatten)]
        upgrade: UpgradeKeys,
        /// Do not wait until the upgrade is over.
        #[arg(long)]
        #[serde(default)]
        no_wait: bool,
    },
    /// Bring the nodes to machines of another size, with surge nodes that take their place. On kind a size changes on the nodes.
    Resize {
        /// The lab and the pool.
        #[command(flatten)]
        which: Which,
        /// Azure VM size, such as Standard_D4s_v5.
        #[arg(long, value_name = "SIZE")]
        size: String,
        /// How; what is not given is as the pool has it.
        #[command(flatten)]
        upgrade: UpgradeKeys,
        /// Do not wait until the nodes are exchanged.
        #[arg(long)]
        #[serde(default)]
        no_wait: bool,
    },
    /// Bring the nodes back to the Kubernetes version and the node image that they had before the last upgrade, within seven days.
    Rollback {
        /// The lab and the pool.
        #[command(flatten)]
        which: Which,
        /// Do not wait until the nodes are back.
        #[arg(long)]
        #[serde(default)]
        no_wait: bool,
    },
    /// Stop a blue-green upgrade where it is: the same upgrade goes on later, and in the final soak a rollback brings the old nodes
    /// back. On AKS, whatever goes on with the pool.
    Abort {
        /// The lab and the pool.
        #[command(flatten)]
        which: Which,
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
    /// What its nodes are to be upgraded to, where that is asked for.
    pub upgrade: Option<UpgradeKind>,
    /// Whether an upgrade is only begun.
    pub no_wait: bool,
}

/// Keys of a pool that its nodes have for life, besides its Kubernetes version.
const FOR_LIFE: [&str; 9] = ["type", "size", "cpu", "memory", "zones", "max_pods", "os", "os_sku", "spot"];

impl PoolRequest {
    fn which(&self) -> Option<&Which> {
        match self {
            Self::List { .. } => None,
            Self::Add { which, .. }
            | Self::Scale { which, .. }
            | Self::Update { which, .. }
            | Self::Upgrade { which, .. }
            | Self::Resize { which, .. }
            | Self::Rollback { which, .. }
            | Self::Abort { which }
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

    /// What the lab is to be; none where pools are only listed, or an upgrade is aborted.
    ///
    /// # Errors
    /// When a rule of pools is broken, or the pool is not there.
    pub fn wanted(&self, live: &LivePools) -> Result<Option<Wanted>> {
        let Some(pool) = self.pool() else { return Ok(None) };
        self.refuse_unlike_aks(live)?;
        let mut keys = match self {
            Self::Add { .. } => Table::new(),
            _ => live.keys(pool)?.clone(),
        };
        match self {
            Self::List { .. } | Self::Abort { .. } => return Ok(None),
            Self::Delete { .. } => return Wanted::without(live, pool).map(Some),
            Self::Add { keys: given, .. } => keys = added(live, pool, given)?,
            Self::Scale { nodes, .. } => {
                if !set_nodes(&mut keys, i64::from(*nodes)) {
                    let message = format!("pool `{pool}` has nodes of several sizes");
                    return Err(Error::message(Code::PoolRefused, message).hint(format!(
                        "`klab pool update {pool} --sizes SIZE=COUNT,…` says how many of each; \
                         `az aks nodepool manual-scale update` changes the number of one"
                    )));
                }
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
            Self::Upgrade { kubernetes, upgrade, node_image_only, .. } => {
                upgrade.lay_over(&mut keys);
                keys.remove("node_image");
                match kubernetes {
                    _ if *node_image_only => {}
                    Some(version) => drop(keys.insert("kubernetes".to_owned(), version.clone().into())),
                    None => drop(keys.remove("kubernetes")),
                }
            }
            Self::Resize { size, upgrade, .. } => {
                upgrade.lay_over(&mut keys);
                let size = Keys { size: Some(size.clone()), ..Keys::default() };
                laid(&size, &mut keys)?;
            }
            Self::Rollback { .. } => used_before(live, pool, &mut keys)?,
        }
        let wanted = Wanted::with(live, pool, keys)?;
        let Some((kind, no_wait)) = self.kind() else { return Ok(Some(wanted)) };
        if kind == UpgradeKind::Machines {
            refuse_exchange(live, &wanted)?;
        }
        Ok(Some(Wanted { upgrade: Some(kind), no_wait, ..wanted }))
    }

    /// The upgrade that is asked for, and whether it is only begun.
    fn kind(&self) -> Option<(UpgradeKind, bool)> {
        match self {
            Self::Upgrade { node_image_only: true, no_wait, .. } => Some((UpgradeKind::NodeImage, *no_wait)),
            Self::Upgrade { no_wait, .. } => Some((UpgradeKind::Kubernetes, *no_wait)),
            Self::Resize { no_wait, .. } => Some((UpgradeKind::Machines, *no_wait)),
            Self::Rollback { no_wait, .. } => Some((UpgradeKind::Rollback, *no_wait)),
            _ => None,
        }
    }

    /// Refuses what only AKS does to nodes.
    fn refuse_unlike_aks(&self, live: &LivePools) -> Result<()> {
        let is_plain = match self {
            Self::Upgrade { upgrade, node_image_only, no_wait, .. } => {
                !no_wait && !node_image_only && *upgrade == UpgradeKeys::default()
            }
            Self::Resize { upgrade, no_wait, .. } => !no_wait && *upgrade == UpgradeKeys::default(),
            Self::Rollback { .. } => false,
            _ => true,
        };
        if live.lab.is_like_aks() || is_plain {
            return Ok(());
        }
        let title = live.lab.provider.profile().title;
        let message = format!(
            "{title} replaces nodes at once: there is no surge and no drain to configure, no node image and no way back"
        );
        Err(Error::message(Code::Upgrade, message).hint("leave the options out"))
    }
}

/// Lays over a pool's keys what it had before its last upgrade.
fn used_before(live: &LivePools, pool: &str, keys: &mut Table) -> Result<()> {
    // Azure knows by itself.
    if live.lab.provider.profile().has_managed_pools {
        return Ok(());
    }
    if live.lay_used_before(pool, keys) {
        return Ok(());
    }
    if live.is_upgrading(pool) {
        let hint = format!("in the final soak of a blue-green upgrade, `klab pool abort {pool}` makes way for it");
        return Err(upgrading(pool).hint(hint));
    }
    Err(Error::message(Code::PoolUpgrade, NO_ROLLBACK).hint(
        "a pool can be rolled back once, within seven days after an upgrade that succeeded, or after one that was aborted in its final soak",
    ))
}

/// Refuses machines that AKS does not exchange for others.
fn refuse_exchange(live: &LivePools, wanted: &Wanted) -> Result<()> {
    let pools = (live.lab.pool(&wanted.pool), wanted.lab.pool(&wanted.pool));
    let (Some(before), Some(after)) = pools else { return Ok(()) };
    if !live.lab.is_like_aks() || before.machine == after.machine {
        return Ok(());
    }
    let Some(why) = exchange_refusal(before, after) else { return Ok(()) };
    let size = size_name(after);
    let message = format!("AKS does not resize pool `{}` in place: {why}", wanted.pool);
    Err(Error::message(Code::Upgrade, message)
        .hint(format!("`klab pool add NAME --size {size}` makes another pool, to which a drain moves the pods")))
}

impl Wanted {
    /// A pool of these keys, new or changed.
    ///
    /// # Errors
    /// When that breaks a rule.
    pub fn with(live: &LivePools, pool: &str, keys: Table) -> Result<Self> {
        Ok(Self { lab: live.with(pool, keys.clone())?, pool: pool.to_owned(), keys, upgrade: None, no_wait: false })
    }

    /// The same, where nodes may not be replaced: what differs says which upgrade is asked for.
    ///
    /// # Errors
    /// When that breaks a rule, or AKS does not exchange such machines.
    pub fn put(live: &LivePools, pool: &str, keys: Table) -> Result<Self> {
        let wanted = Self::with(live, pool, keys)?;
        let pools = (live.observed.pools.get(pool), live.lab.pool(pool), wanted.lab.pool(pool));
        let (Some(seen), Some(before), Some(after)) = pools else { return Ok(wanted) };
        let image = |pool: &Pool| pool.node_image.as_ref().map(|image| image.value.clone());
        let version = |lab: &Lab, pool: &Pool| wanted_version(lab, Some(pool));
        let is_same_version = version(&live.lab, before) == version(&wanted.lab, after);
        let is_back = seen.rollback.as_ref().is_some_and(|(kubernetes, full, _)| {
            *full == node_image(after) && wanted_version(&wanted.lab, Some(after)).as_ref() == Some(kubernetes)
        });
        let upgrade = if !live.lab.is_like_aks() {
            None
        } else if !fixed_changes(&Declared::of(before), &Declared::of(after)).is_empty() {
            refuse_exchange(live, &wanted)?;
            Some(UpgradeKind::Machines)
        } else if is_back && !(is_same_version && image(before) == image(after)) {
            Some(UpgradeKind::Rollback)
        } else if is_same_version && image(before) != image(after) {
            Some(UpgradeKind::NodeImage)
        } else {
            None
        };
        Ok(Self { upgrade, ..wanted })
    }

    /// The lab without a pool.
    ///
    /// # Errors
    /// When there is none of that name, or the cluster cannot be without it.
    pub fn without(live: &LivePools, pool: &str) -> Result<Self> {
        let lab = live.without(pool)?;
        let mut keys = live.keys(pool)?.clone();
        deferred(&mut keys);
        Ok(Self { lab, pool: pool.to_owned(), keys, upgrade: None, no_wait: false })
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
            size_name(pool),
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
    let mut document = json!({ "name": pool.name.value, "kubernetes": version(live, &live.lab, pool), "max_pods": pool.max_pods, "nodes": pool.nodes.value });
    for (key, value) in keys.as_object().into_iter().flatten() {
        if document[key].is_null() {
            document[key] = value.clone();
        }
    }
    document
}
