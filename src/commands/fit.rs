//! `klab fit`: how many more pods like those of a file fit into a cluster, and what there is too little of then.

use std::path::PathBuf;

use klab_whatif::{Fit, TwinError, fit};

use super::elsewhere::Elsewhere;
use super::whatif::captured;
use super::{Context, LabOptions};
use klab_operations::capture;
use klab_operations::error::{Code, Error, Result};
use klab_operations::ui::Format;

/// What can be typed after `klab fit`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// A file with a Deployment, a StatefulSet, a Job, a ReplicaSet or a Pod.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// A lab that is up, or a folder that `klab capture` wrote; the lab that is up by default.
    #[arg(value_name = "LAB|FOLDER", conflicts_with_all = ["context", "kubeconfig"])]
    lab: Option<String>,
    #[command(flatten)]
    elsewhere: Elsewhere,
    #[command(flatten)]
    options: LabOptions,
}

/// Places pods until none fits, for each object of the file that has pods.
///
/// # Errors
/// When the cluster or the file cannot be read, or no object has pods.
pub fn run(context: &Context, arguments: &Arguments) -> Result<()> {
    let objects = capture::objects(&arguments.file)?;
    let capture = captured(context, arguments.lab.as_deref(), &arguments.elsewhere, &arguments.options)?;
    let fits = objects.iter().filter(|object| !matches!(fit(&capture, object), Err(TwinError::Object(_))));
    let fits = fits.map(|object| fit(&capture, object)).collect::<std::result::Result<Vec<_>, _>>();
    let fits = fits.map_err(|error| Error::new(Code::Flags, error))?;
    if fits.is_empty() {
        let message = format!("`{}` has no object whose pods could be counted", arguments.file.display());
        return Err(
            Error::message(Code::Flags, message).hint("a Deployment, a StatefulSet, a Job, a ReplicaSet or a Pod has")
        );
    }
    if context.ui.format() == Format::Json {
        let documents: Vec<_> = fits.iter().map(Fit::json).collect();
        context.ui.result(&serde_json::Value::Array(documents).to_string());
    } else {
        for fit in &fits {
            context.ui.result(fit.human().trim_end());
        }
    }
    Ok(())
}
