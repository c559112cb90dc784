//! The kubeconfig of a lab on AKS: a private file, never the user's own.

use std::fs;
use std::path::{Path, PathBuf};

use super::answer::ManagedCluster;
use super::arguments;
use super::az::ASK;
use super::catalogue::Class;
use super::request::answered;
use super::site::Site;
use crate::error::{Code, Context, Error, Result};
use crate::state::home::state_error;
use klab_server::files::write_private;

/// Where the kubeconfig of the lab in `folder` is.
pub(super) fn path(folder: &Path) -> PathBuf {
    folder.join("kubeconfig")
}

/// Whether the file is there and, where the cluster was seen, speaks of that very cluster.
pub(super) fn reaches(file: &Path, cluster: Option<&ManagedCluster>) -> bool {
    let Ok(text) = fs::read_to_string(file) else { return false };
    cluster.and_then(|cluster| cluster.fqdn.as_ref()).is_none_or(|host| text.contains(host.as_str()))
}

/// Fetches it; the file is replaced whole.
///
/// # Errors
/// When there is no such cluster, or Azure refuses.
pub(super) fn fetch(site: Site<'_>, file: &Path) -> Result<()> {
    let Site { az, place } = site;
    let folder = file.parent().unwrap_or(Path::new("."));
    // az would merge into a file that is there.
    let fresh = tempfile::Builder::new()
        .prefix(".kubeconfig-")
        .tempdir_in(folder)
        .map_err(|error| state_error(error, "make a folder in", folder))?;
    let target = fresh.path().join("kubeconfig");
    let arguments = arguments::credentials(place, &target.display().to_string());
    // az itself asks only once for credentials.
    let fetched = answered(az, || az.run(&arguments, ASK));
    if fetched.as_ref().is_err_and(|failure| failure.class == Class::Lock) && file.is_file() {
        // A lock against changes keeps credentials from being asked for; those that are here are as good as before.
        return Ok(());
    }
    fetched.map_err(|failure| {
        let absent = failure.is_absence();
        let error =
            failure.into_error(&format!("could not fetch the kubeconfig of cluster `{}`", place.cluster), Some(place));
        if absent { error.hint("`klab up` with the lab file makes the cluster again") } else { error }
    })?;
    let text = fs::read(&target).code(Code::ToolFailed, || "az wrote no kubeconfig".to_owned())?;
    if text.is_empty() {
        return Err(Error::message(Code::ToolFailed, "az wrote an empty kubeconfig"));
    }
    write_private(file, &text).map_err(|error| state_error(error, "write", file))
}
