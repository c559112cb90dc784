//! `klab pause`: stop a lab's machines so that they cost nothing; everything in the cluster is kept.

use super::Context;
use super::at_work::LabAtWork;
use crate::error::{Error, Kind, Result};
use crate::provider::{Provider, Work, machines_of};
use crate::state::class::Class;

/// What can be typed after `klab pause` and `klab resume`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The lab or class, by its name or its file; the one that is up by default.
    #[arg(value_name = "LAB")]
    lab: Option<String>,
}

/// Stops or starts the machines of one lab.
pub(super) type Switch = fn(&dyn Provider, &str, &mut Work<'_>) -> Result<()>;

/// Stops the lab's machines.
///
/// # Errors
/// When its provider has none, or they could not be stopped.
pub fn run(context: &Context, arguments: &Arguments) -> Result<()> {
    switch(context, arguments, "pause", |provider, lab, work| machines_of(provider, lab)?.pause(lab, work))
}

/// Works on a lab that is up, or on every seat of a class.
pub(super) fn switch(context: &Context, arguments: &Arguments, command: &'static str, act: Switch) -> Result<()> {
    let lab = context.lab_or_class_name(arguments.lab.as_deref())?;
    context.interruption_leaves(Some(format!("`klab {command} {lab}` goes on")));
    let outcome = match Class::read(&context.home, &lab)? {
        Some(class) => super::seats::switch(context, &class, command, act),
        None => switch_one(context, &lab, command, act),
    };
    context.interruption_leaves(None);
    outcome
}

/// Works on one lab under its lock and with its journal.
///
/// # Errors
/// When it is not up, or could not be switched.
pub(super) fn switch_one(context: &Context, lab: &str, command: &'static str, act: Switch) -> Result<()> {
    let not_up = || Error::message(Kind::Usage, format!("lab `{lab}` is not up"));
    let mut at_work = LabAtWork::existing(context, lab, command)?.ok_or_else(not_up)?;
    let record = at_work.record.as_ref().ok_or_else(not_up)?;
    let provider = context.provider(record.provider)?;
    act(provider.as_ref(), lab, &mut at_work.work()?)
}
