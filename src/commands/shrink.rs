//! `klab shrink`: the fewest nodes on which every pod of a cluster has a place, also where one more is lost.

use klab_whatif::shrink;

use super::Context;
use super::copied::{Copied, at_work, show};
use klab_operations::error::{Code, Error, Result};
use klab_operations::event::Verb;

/// What can be typed after `klab shrink`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    cluster: Copied,
    /// The dearest nodes go first, instead of those with the fewest pods.
    #[arg(long)]
    cheapest: bool,
}

/// Looks for nodes that can go, and prints them.
///
/// # Errors
/// When the cluster cannot be read or copied.
pub fn run(context: &Context, arguments: &Arguments) -> Result<()> {
    let capture = arguments.cluster.read(context)?;
    let found = at_work(context, Verb::TryChanges, "which nodes can go", || shrink(&capture, arguments.cheapest));
    let found = found.map_err(|error| Error::new(Code::Flags, error))?;
    show(context, &found.json(), &found.human());
    Ok(())
}
