//! `klab down`: remove everything the lab made, then look at the world.

use super::Context;
use super::one::{remove_and_wait, retire};
use crate::error::Result;
use crate::event::Verb;
use crate::state::class::Class;

/// What can be typed after `klab down`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The lab, by its name or its file; the one that is up by default.
    #[arg(value_name = "LAB")]
    lab: Option<String>,
    /// Do not wait until everything is gone (aks); `klab list` or another `klab down` finishes it.
    #[arg(long)]
    no_wait: bool,
}

/// Removes the lab's cluster and state; the lab file may be edited or gone.
///
/// # Errors
/// When something could not be removed or is left (exit code 4).
pub fn run(context: &Context, arguments: &Arguments) -> Result<()> {
    context.ui.stream_events();
    let lab = match (context.home.labs(), arguments.lab.as_deref()) {
        (Ok(labs), None) if labs.is_empty() => {
            retire(context)?;
            context.ui.events().note(Verb::RemoveLab, "no lab is up");
            return Ok(());
        }
        (_, argument) => context.lab_or_class_name(argument)?,
    };
    context.ui.works_on(&lab);
    if Class::read(&context.home, &lab)?.is_some() {
        return super::seats::down(context, &lab);
    }
    remove_and_wait(context, &lab, !arguments.no_wait)
}
