//! `klab pool`: adds, changes and removes pools of a lab that is up, by hand, on every provider.

use klab_lab::plan::{taint_text, wanted_version};
use klab_lab::spec::{Lab, Pool, pool_table};
use klab_lab::words::table;
use serde_json::{Value, json};
use toml::Table;

use super::Context;
use crate::error::{Error, Kind, Result};
use crate::event::{About, Verb};
use crate::pool::at_work::{PoolsAtWork, look};
use crate::pool::{Keys, Live};
use crate::ui::Format;

/// What can be typed after `klab pool`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Add a pool. What is not given is as the lab file says, where it describes the pool, else as every lab file means it.
    Add {
        #[command(flatten)]
        which: Which,
        #[command(flatten)]
        keys: Box<Keys>,
    },
    /// Change the number of nodes; a pool that the autoscaler decides about is taken from it.
    Scale {
        #[command(flatten)]
        which: Which,
        /// Number of nodes.
        #[arg(long, value_name = "COUNT")]
        nodes: u32,
    },
    /// Change what a pool is.
    Update {
        #[command(flatten)]
        which: Which,
        #[command(flatten)]
        keys: Box<Keys>,
        /// Take the pool from the autoscaler.
        #[arg(long, conflicts_with = "autoscale")]
        no_autoscale: bool,
        /// Recreate the nodes where a change cannot be made to existing ones, such as another size.
        #[arg(long)]
        replace: bool,
    },
    /// Bring the nodes to another Kubernetes version; they are recreated.
    Upgrade {
        #[command(flatten)]
        which: Which,
        /// The version; the cluster's by default.
        #[arg(long, value_name = "VERSION")]
        kubernetes: Option<String>,
    },
    /// Remove a pool with its nodes.
    Delete {
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
#[derive(Debug, clap::Args)]
struct Which {
    /// The pool.
    #[arg(value_name = "POOL")]
    pool: String,
    /// The lab, by its name or its file; by default the one that `KUBECONFIG` belongs to, else the one that is up.
    #[arg(long, value_name = "LAB")]
    lab: Option<String>,
}

/// Keys of a pool that its nodes have for life, besides its Kubernetes version.
const FOR_LIFE: [&str; 8] = ["size", "cpu", "memory", "zones", "max_pods", "os", "os_sku", "spot"];

/// Does what was asked.
///
/// # Errors
/// When the lab is not up, a rule of pools is broken, or the provider cannot do it.
pub fn run(context: &Context, arguments: &Arguments) -> Result<()> {
    let which = match &arguments.action {
        Action::List { lab } => {
            let lab = context.lab_name(lab.as_deref())?;
            list(context, &look(context, &lab)?);
            return Ok(());
        }
        Action::Add { which, .. }
        | Action::Scale { which, .. }
        | Action::Update { which, .. }
        | Action::Upgrade { which, .. }
        | Action::Delete { which } => which,
    };
    context.ui.stream_events();
    let (pool, lab) = (which.pool.as_str(), context.lab_name(which.lab.as_deref())?);
    let mut pools = PoolsAtWork::of(context, &lab, "pool")?;
    let changed = match &arguments.action {
        Action::List { .. } => false,
        Action::Add { keys, .. } => pools.put(pool, added(&pools.live, pool, keys)?)?,
        Action::Scale { nodes, .. } => {
            let mut keys = pools.live.keys(pool)?.clone();
            keys.insert("nodes".to_owned(), i64::from(*nodes).into());
            keys.remove("autoscale");
            pools.put(pool, keys)?
        }
        Action::Update { keys, no_autoscale, replace, .. } => {
            let now = pools.live.keys(pool)?.clone();
            let mut wanted = now.clone();
            laid(keys, &mut wanted)?;
            if *no_autoscale {
                wanted.remove("autoscale");
            }
            refuse_for_life(&pools.live, pool, &now, &wanted, *replace)?;
            pools.put(pool, wanted)?
        }
        Action::Upgrade { kubernetes, .. } => {
            let mut keys = pools.live.keys(pool)?.clone();
            match kubernetes {
                Some(version) => drop(keys.insert("kubernetes".to_owned(), version.clone().into())),
                None => drop(keys.remove("kubernetes")),
            }
            pools.put(pool, keys)?
        }
        Action::Delete { .. } => pools.remove(pool)?,
    };
    if !changed {
        context.ui.events().about(About::Pool, pool).note(Verb::FindPool, format!("pool {pool} as it is to be"));
    }
    Ok(())
}

/// The keys of a pool that is to be made.
fn added(live: &Live, pool: &str, keys: &Keys) -> Result<Table> {
    if live.names().contains(&pool) {
        let message = format!("lab `{}` has a pool `{pool}` already", live.lab.name);
        return Err(Error::message(Kind::Usage, message).hint(format!(
            "`klab pool update {pool}` changes it, `klab pool scale {pool}` changes its number of nodes"
        )));
    }
    let mut wanted = live.declared(pool).unwrap_or_else(|| Table::from_iter([("mode".to_owned(), "user".into())]));
    wanted.remove("deferred");
    laid(keys, &mut wanted)?;
    Ok(wanted)
}

fn laid(keys: &Keys, over: &mut Table) -> Result<()> {
    keys.lay_over(over).map_err(|words| Error::message(Kind::Usage, words))
}

/// Nobody's nodes are recreated by surprise.
fn refuse_for_life(live: &Live, pool: &str, now: &Table, wanted: &Table, may_replace: bool) -> Result<()> {
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
        Some(key) => Err(Error::message(Kind::Usage, format!("`{key}` of pool `{pool}` cannot change on its nodes"))
            .hint("`--replace` recreates the nodes; their pods start elsewhere meanwhile")),
    }
}

fn list(context: &Context, live: &Live) {
    let pools = live.lab.pools.iter().filter(|pool| !pool.deferred);
    if context.ui.format() == Format::Json {
        let pools: Vec<Value> = pools.map(|pool| document(live, pool)).collect();
        let document = json!({ "schema": "klab.pools/1", "lab": live.lab.name.value, "pools": pools });
        context.ui.result(&document.to_string());
        return;
    }
    let mut rows =
        vec![["POOL", "MODE", "NODES", "SIZE", "KUBERNETES", "LABELS", "TAINTS"].map(str::to_owned).to_vec()];
    rows.extend(pools.map(|pool| {
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
    context.ui.result(&table(&rows));
}

fn version(live: &Live, lab: &Lab, pool: &Pool) -> Option<String> {
    let seen = live.observed.pools.get(&pool.name.value).and_then(|seen| seen.kubernetes.clone());
    seen.or_else(|| wanted_version(lab, Some(pool)))
}

fn document(live: &Live, pool: &Pool) -> Value {
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
