//! `klab survive`: which node, pool or zone of a cluster can fail, and which budgets block a drain.

use klab_whatif::survive;

use super::Context;
use super::copied::{Copied, at_work, show};
use klab_operations::error::{Code, Error, Result};
use klab_operations::event::Verb;

/// What can be typed after `klab survive`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    cluster: Copied,
}

/// Lets each node, pool and zone of a copy fail, and prints which pods find no other place.
///
/// # Errors
/// When the cluster cannot be read or copied.
pub fn run(context: &Context, arguments: &Arguments) -> Result<()> {
    let capture = arguments.cluster.read(context)?;
    let found = at_work(context, Verb::TryChanges, "what can fail", || survive(&capture));
    let found = found.map_err(|error| Error::new(Code::Flags, error))?;
    show(context, &found.json(), &found.human());
    Ok(())
}
