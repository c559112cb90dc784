//! `klab man`: the manual pages of klab and its subcommands, for packages.

use std::path::PathBuf;

use klab_operations::error::{Code, Context as _, Result};

/// What can be typed after `klab man`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The folder to write them into; made if it is not there.
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,
}

/// Writes a page for klab and one for each subcommand that help lists: `klab.1`, `klab-up.1`, `klab-pool-add.1`, ….
///
/// # Errors
/// When the folder cannot be written.
pub fn run(arguments: &Arguments, manual: clap::Command) -> Result<()> {
    let folder = &arguments.folder;
    let failed = || format!("could not write manual pages into `{}`", folder.display());
    std::fs::create_dir_all(folder).code(Code::FileUnwritten, failed)?;
    clap_mangen::generate_to(manual, folder).code(Code::FileUnwritten, failed)
}
