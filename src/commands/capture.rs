//! `klab capture`: a cluster written as a lab, without its secrets.

use std::fs;
use std::path::PathBuf;

use super::elsewhere::Elsewhere;
use super::whatif::captured;
use super::{Context, LabOptions};
use klab_operations::error::{Code, Context as _, Result};
use klab_operations::event::Verb;
use klab_whatif::FILE;

/// What can be typed after `klab capture`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// A lab that is up, or a folder with a capture; the lab that is up by default.
    #[arg(value_name = "LAB|FOLDER", conflicts_with_all = ["context", "kubeconfig"])]
    lab: Option<String>,
    #[command(flatten)]
    elsewhere: Elsewhere,
    /// The folder to write; it is made where it does not exist.
    #[arg(short, long, value_name = "FOLDER", default_value = "captured")]
    output: PathBuf,
    #[command(flatten)]
    options: LabOptions,
}

/// Reads the cluster and writes the folder.
///
/// # Errors
/// When the cluster cannot be read, or the folder cannot be written.
pub fn run(context: &Context, arguments: &Arguments) -> Result<()> {
    let capture = captured(context, arguments.lab.as_deref(), &arguments.elsewhere, &arguments.options)?;
    let folder = &arguments.output;
    let unwritten = || format!("could not write `{}`", folder.display());
    fs::create_dir_all(folder).code(Code::FileUnwritten, unwritten)?;
    fs::write(folder.join(FILE), capture.text()).code(Code::FileUnwritten, unwritten)?;
    for gap in &capture.gaps {
        context.ui.events().warn(Code::PartUnread, format!("you may not read {}", gap.words()));
    }
    let note = format!("{}; `klab whatif {} --drain POOL` tries a change", folder.display(), folder.display());
    context.ui.events().counting(1).note(Verb::WriteFiles, note);
    Ok(())
}
