//! `klab pause`: stop a lab's machines so that they cost nothing; everything in the cluster is kept.

use super::Context;
use super::one::{Switch, switch_one};
use klab_operations::error::Result;
use klab_operations::provider::machines_of;
use klab_operations::state::class::Class;

/// What can be typed after `klab pause` and `klab resume`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The lab or class, by its name or its file; the one that is up by default.
    #[arg(value_name = "LAB")]
    lab: Option<String>,
}

/// Stops the lab's machines.
///
/// # Errors
/// When its provider has none, or they could not be stopped.
pub fn run(context: &Context, arguments: &Arguments) -> Result<()> {
    switch(context, arguments, "pause", |provider, lab, work| machines_of(provider, lab)?.pause(lab, work))
}

/// Works on a lab that is up, or on every seat of a class.
pub(super) fn switch(context: &Context, arguments: &Arguments, command: &'static str, act: Switch) -> Result<()> {
    context.ui.stream_events();
    let lab = context.lab_or_class_name(arguments.lab.as_deref())?;
    context.ui.works_on(&lab);
    context.interruption_leaves(Some(format!("`klab {command} {lab}` continues")));
    let outcome = match Class::read(&context.home, &lab)? {
        Some(class) => super::seats::switch(context, &class, command, act),
        None => switch_one(context, &lab, command, act),
    };
    context.interruption_leaves(None);
    outcome
}
