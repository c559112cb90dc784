//! `klab fit`: how many more pods like those of a file fit into a cluster, and what there is too little of then.

use std::path::PathBuf;

use klab_whatif::{Fit, TwinError, fit};

use super::Context;
use super::copied::{Copied, show};
use klab_operations::capture;
use klab_operations::error::{Code, Error, Result};

/// What can be typed after `klab fit`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// A file with a Deployment, a StatefulSet, a Job, a ReplicaSet or a Pod.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    #[command(flatten)]
    cluster: Copied,
}

/// Places pods until none fits, for each object of the file that has pods.
///
/// # Errors
/// When the cluster or the file cannot be read, or no object has pods.
pub fn run(context: &Context, arguments: &Arguments) -> Result<()> {
    let objects = capture::objects(&arguments.file)?;
    let capture = arguments.cluster.read(context)?;
    let counted = objects.iter().map(|object| fit(&capture, object));
    let counted = counted.filter(|found| !matches!(found, Err(TwinError::NoPods(_))));
    let fits = counted.collect::<std::result::Result<Vec<Fit>, _>>().map_err(|error| Error::new(Code::Flags, error))?;
    if fits.is_empty() {
        let message = format!("`{}` has no object whose pods could be counted", arguments.file.display());
        return Err(
            Error::message(Code::Flags, message).hint("a Deployment, a StatefulSet, a Job, a ReplicaSet or a Pod has")
        );
    }
    let documents = fits.iter().map(Fit::json).collect();
    show(context, &documents, &fits.iter().map(Fit::human).collect::<String>());
    Ok(())
}
