//! `klab capture`: a cluster written as a lab, without its secrets.

use std::fs;
use std::path::PathBuf;

use super::Context;
use super::copied::{Copied, show};
use klab_lab::spec::lab_name_like;
use klab_lab::words::plural;
use klab_operations::error::{Code, Context as _, Error, Result};
use klab_operations::event::Verb;
use klab_whatif::{FILE, MANIFESTS, agreement, lab_folder, redacted};

/// What can be typed after `klab capture`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    cluster: Copied,
    /// The folder to write; it is made where it does not exist.
    #[arg(short, long, value_name = "FOLDER", default_value = "captured")]
    output: PathBuf,
    /// Give everything another name; the structure stays.
    #[arg(long)]
    redact: bool,
    /// Check how well a copy is like the cluster: empty it, schedule again, and report where pods go elsewhere.
    #[arg(long)]
    check: bool,
}

/// Reads the cluster and writes the folder.
///
/// # Errors
/// When the cluster cannot be read, or the folder cannot be written.
pub fn run(context: &Context, arguments: &Arguments) -> Result<()> {
    let mut capture = arguments.cluster.read(context)?;
    if arguments.redact {
        let (redacted, left_out) = redacted(&capture);
        capture = redacted;
        if left_out > 0 {
            let objects = plural(left_out, "object");
            let words =
                format!("{objects} of dynamic resource allocation are left out, because their expressions name things");
            context.ui.events().warn(Code::PartUnread, words);
        }
    }
    let folder = &arguments.output;
    let unwritten = || format!("could not write `{}`", folder.display());
    fs::create_dir_all(folder).code(Code::FileUnwritten, unwritten)?;
    let whole = fs::canonicalize(folder).code(Code::FileUnwritten, unwritten)?;
    let name = whole.file_name().and_then(|name| lab_name_like(&name.to_string_lossy()));
    let lab = lab_folder(&capture, name.as_deref().unwrap_or("captured"));
    let lab = lab.map_err(|why| Error::message(Code::FileUnwritten, why))?;
    for (file, text) in [(FILE, &capture.text()), ("lab.toml", &lab.lab), (MANIFESTS, &lab.manifests)] {
        fs::write(folder.join(file), text).code(Code::FileUnwritten, unwritten)?;
    }
    for words in capture.gap_words() {
        context.ui.events().warn(Code::PartUnread, words);
    }
    let folder = folder.display();
    let note = format!(
        "{folder}; `klab whatif {folder} --drain POOL` tries a change, `klab up {folder}/lab.toml` makes a twin"
    );
    context.ui.events().counting(3).note(Verb::WriteFiles, note);
    if arguments.check {
        let found = agreement(&capture).map_err(|error| Error::new(Code::Flags, error))?;
        show(context, &found.json(), &found.human());
        if !found.holds() {
            let message = "the copy is not like the cluster where constraints leave no choice";
            let hint =
                "the cluster may have changed since its pods were placed: labels, taints, requests of other pods";
            return Err(Error::message(Code::WouldNotRun, message).hint(hint));
        }
    }
    Ok(())
}
