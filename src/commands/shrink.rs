//! `klab shrink`: the fewest nodes on which every pod of a cluster has a place, also where one more is lost.

use klab_whatif::shrink;

use super::elsewhere::Elsewhere;
use super::whatif::captured;
use super::{Context, LabOptions};
use klab_operations::error::{Code, Error, Result};
use klab_operations::ui::Format;

/// What can be typed after `klab shrink`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// A lab that is up, or a folder that `klab capture` wrote; the lab that is up by default.
    #[arg(value_name = "LAB|FOLDER", conflicts_with_all = ["context", "kubeconfig"])]
    lab: Option<String>,
    /// The dearest nodes go first, instead of those with the fewest pods.
    #[arg(long)]
    cheapest: bool,
    #[command(flatten)]
    elsewhere: Elsewhere,
    #[command(flatten)]
    options: LabOptions,
}

/// Looks for nodes that can go, and prints them.
///
/// # Errors
/// When the cluster cannot be read or copied.
pub fn run(context: &Context, arguments: &Arguments) -> Result<()> {
    let capture = captured(context, arguments.lab.as_deref(), &arguments.elsewhere, &arguments.options)?;
    let found = shrink(&capture, arguments.cheapest).map_err(|error| Error::new(Code::Flags, error))?;
    let is_json = context.ui.format() == Format::Json;
    context.ui.result(&if is_json { found.json().to_string() } else { found.human().trim_end().to_owned() });
    Ok(())
}
