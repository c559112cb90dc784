//! Stops or starts the machines of one lab.

use super::super::Context;
use klab_operations::error::Result;
use klab_operations::locked_lab::LockedLab;
use klab_operations::provider::{Provider, Work};

/// Stops or starts the machines of one lab.
pub(in super::super) type Switch = fn(&dyn Provider, &str, &mut Work<'_>) -> Result<()>;

/// Works on one lab under its lock and with its journal.
///
/// # Errors
/// When it is not up, or could not be switched.
pub(in super::super) fn switch_one(context: &Context, lab: &str, command: &'static str, act: Switch) -> Result<()> {
    let not_up = || context.not_up(lab);
    let mut locked = LockedLab::existing(context, lab, command)?.ok_or_else(not_up)?;
    let record = locked.record.as_ref().ok_or_else(not_up)?;
    let provider = context.provider(record.provider)?;
    act(provider.as_ref(), lab, &mut locked.work()?)
}
