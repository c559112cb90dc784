//! `klab down`: remove everything the lab made, then look at the world.

use super::Context;
use super::host::stored_classes;
use super::one::{remove_and_wait, retire};
use super::seats::hosted;
use klab_operations::error::Result;
use klab_operations::event::Verb;
use klab_operations::state::Joined;
use klab_operations::state::class::Class;
use klab_operations::state::home::state_error;

/// What can be typed after `klab down`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The lab, by its name or its file; the one that is up by default.
    #[arg(value_name = "LAB")]
    lab: Option<String>,
    /// Remove a class that was hosted here, with its seats, without asking.
    #[arg(long)]
    yes: bool,
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
            let classes = context.home.hosted().map_err(|error| state_error(error, "read", &context.home.hosts()))?;
            let kept =
                classes.iter().map(|class| format!("; `klab down {class}` removes the class that was hosted here"));
            let clusters = super::kind::clusters(context).unwrap_or_default();
            let of_kind =
                clusters.iter().map(|name| format!("; `klab kind delete cluster --name {name}` removes that one"));
            context
                .ui
                .events()
                .note(Verb::RemoveLab, format!("no lab is up{}", kept.chain(of_kind).collect::<String>()));
            return Ok(());
        }
        (_, argument) => context.lab_or_class_name(argument)?,
    };
    context.ui.works_on(&lab);
    if let Some(joined) = Joined::read(&context.home, &lab)? {
        return super::joined::leave(context, &joined);
    }
    if Class::read(&context.home, &lab)?.is_some() {
        return super::seats::down(context, &lab);
    }
    // A lab of this machine is meant before a class of the same name.
    if !context.home.lab(&lab).exists() && hosted::is_hosted(context, &lab) {
        return stored_classes::remove(context, &lab, arguments.yes);
    }
    // A lab that goes on running because of a slip in its name may cost money.
    if !context.home.lab(&lab).exists() && context.similar(&lab).is_some() {
        return Err(context.not_up(&lab));
    }
    remove_and_wait(context, &lab, !arguments.no_wait)
}
