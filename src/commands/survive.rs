//! `klab survive`: which node, pool or zone of a cluster can fail, and which budgets block a drain.

use klab_whatif::survive;

use super::elsewhere::Elsewhere;
use super::whatif::captured;
use super::{Context, LabOptions};
use klab_operations::error::{Code, Error, Result};
use klab_operations::ui::Format;

/// What can be typed after `klab survive`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// A lab that is up, or a folder that `klab capture` wrote; the lab that is up by default.
    #[arg(value_name = "LAB|FOLDER", conflicts_with_all = ["context", "kubeconfig"])]
    lab: Option<String>,
    #[command(flatten)]
    elsewhere: Elsewhere,
    #[command(flatten)]
    options: LabOptions,
}

/// Lets each node, pool and zone of a copy fail, and prints which pods find no other place.
///
/// # Errors
/// When the cluster cannot be read or copied.
pub fn run(context: &Context, arguments: &Arguments) -> Result<()> {
    let capture = captured(context, arguments.lab.as_deref(), &arguments.elsewhere, &arguments.options)?;
    let found = survive(&capture).map_err(|error| Error::new(Code::Flags, error))?;
    let is_json = context.ui.format() == Format::Json;
    context.ui.result(&if is_json { found.json().to_string() } else { found.human().trim_end().to_owned() });
    Ok(())
}
