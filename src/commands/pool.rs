//! `klab pool`: adds, changes and removes pools of a lab that is up, by hand, on every provider.

use super::{Context, joined};
use klab_operations::error::Result;
use klab_operations::event::{About, Verb};
use klab_operations::pool::locked_pools::{LockedPools, abort_at, look};
use klab_operations::pool::{PoolRequest, list, list_document};
use klab_operations::ui::Format;

/// What can be typed after `klab pool`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    #[command(subcommand)]
    action: PoolRequest,
}

/// Does what was asked.
///
/// # Errors
/// When the lab is not up, a rule of pools is broken, or the provider cannot do it.
pub fn run(context: &Context, arguments: &Arguments) -> Result<()> {
    let asked = &arguments.action;
    if asked.pool().is_some() {
        context.ui.stream_events();
    }
    if let Some(joined) = joined::meant(context, asked.lab())? {
        return joined::pool(context, &joined, asked);
    }
    let lab = context.lab_name(asked.lab())?;
    let Some(pool) = asked.pool() else {
        let live = look(context, &lab)?;
        match context.ui.format() {
            Format::Json => context.ui.result(&list_document(&live).to_string()),
            _ => context.ui.result(&list(&live)),
        }
        return Ok(());
    };
    if let PoolRequest::Abort { .. } = asked {
        return abort_at(context, &lab, pool);
    }
    let changed = LockedPools::of(context, &lab, "pool")?.change(asked)?;
    if !changed {
        context
            .ui
            .events()
            .about(About::Pool, pool)
            .note(Verb::FindPool, format!("pool {pool}, which needs no change"));
    }
    Ok(())
}
