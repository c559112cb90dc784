//! `klab kubeconfig`: where a lab's kubeconfig is, or what it says.

use std::path::PathBuf;

use super::Context;
use klab_operations::error::{Code, Context as _, Result};
use klab_operations::state::class::Class;

/// A file of klab's home that does not exist.
const NO_LAB: &str = "no-such-lab.kubeconfig";

/// What can be typed after `klab kubeconfig`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    lab: WhichLab,
    /// Print the path of the file instead of its text; where there is none, a path that leads nowhere.
    #[arg(long)]
    path: bool,
}

/// A lab, or one seat of a class.
#[derive(Debug, clap::Args)]
pub struct WhichLab {
    /// The lab, by its name or its file; by default the one that `KUBECONFIG` belongs to, else the one that is up.
    #[arg(value_name = "LAB")]
    lab: Option<String>,
    /// The seat of a class, by its number.
    #[arg(long, value_name = "NUMBER")]
    seat: Option<u32>,
}

impl WhichLab {
    /// The name of the lab that is meant.
    ///
    /// # Errors
    /// When no lab or more than one could be meant.
    pub(super) fn lab(&self, context: &Context) -> Result<String> {
        match self.seat {
            Some(number) => {
                let class = context.lab_or_class_name(self.lab.as_deref())?;
                Class::of(&context.home, &class)?.seat(number)
            }
            None => context.lab_name(self.lab.as_deref()),
        }
    }
}

/// A path that leads nowhere.
pub(super) fn nowhere(context: &Context) -> PathBuf {
    context.home.root().join(NO_LAB)
}

/// Prints the kubeconfig. It holds the credentials of the lab's cluster: it was asked for by name.
///
/// # Errors
/// When the lab is not up.
pub fn run(context: &Context, arguments: &Arguments) -> Result<()> {
    let found = arguments.lab.lab(context).and_then(|lab| context.kubeconfig(&lab));
    if arguments.path {
        // Into `export KUBECONFIG=$(…)` goes whatever is printed. An empty value would lead kubectl to the user's own
        // cluster; a file that is not there leads it nowhere.
        let path = found.as_ref().map_or_else(|_| nowhere(context), Clone::clone);
        context.ui.result(&path.display().to_string());
        return found.map(|_| ()).map_err(|error| {
            error.hint(
                "the path that was printed leads nowhere, so that kubectl reaches no cluster in place of the lab's",
            )
        });
    }
    let path = found?;
    let text =
        std::fs::read_to_string(&path).code(Code::Kubeconfig, || format!("could not read `{}`", path.display()))?;
    context.ui.result(&text);
    Ok(())
}
