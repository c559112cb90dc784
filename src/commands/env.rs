//! `klab env`: a lab's variables for a shell that runs already, `eval "$(klab env)"`.

use super::{Context, kubeconfig, shell};
use klab_operations::error::Result;
use klab_operations::exec::quoted;

/// What can be typed after `klab env`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    lab: kubeconfig::WhichLab,
}

/// Prints `export` lines. Where there is no lab to print them of, `KUBECONFIG` leads nowhere: a kubectl that is typed next must
/// not reach whatever cluster the user's own file names.
///
/// # Errors
/// When the lab is not up.
pub fn run(context: &Context, arguments: &Arguments) -> Result<()> {
    match shell::of(context, &arguments.lab) {
        Ok(shell) => {
            context.ui.result(shell.exports().trim_end());
            Ok(())
        }
        Err(error) => {
            let nowhere = kubeconfig::nowhere(context).display().to_string();
            context.ui.result(&format!("export KUBECONFIG={}", quoted(&nowhere)));
            Err(error
                .hint("KUBECONFIG now names a file that does not exist, so that kubectl reaches no cluster at all"))
        }
    }
}
