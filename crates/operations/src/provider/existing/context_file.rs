//! The kubeconfig of a lab: one context of the user's, in a file of klab's own.

use std::io;
use std::path::{Path, PathBuf};

use kube::config::Kubeconfig;
use serde_json::Value;

use crate::error::Result;
use crate::state::home::state_error;
use klab_server::files::{create_private_folder, write_private};

/// The file in a lab's folder.
pub(super) fn path(folder: &Path) -> PathBuf {
    folder.join("kubeconfig")
}

/// Writes it for its owner alone, unless it says so already. Paths in it are absolute, as [`crate::kubeconfig::read`] makes them.
///
/// # Errors
/// When the file system refuses.
pub(super) fn write(kubeconfig: &Kubeconfig, path: &Path) -> Result<()> {
    let failed = |error: io::Error| state_error(error, "write", path);
    let mut value = serde_json::to_value(kubeconfig).map_err(io::Error::other).map_err(failed)?;
    without_nulls(&mut value);
    value["apiVersion"] = "v1".into();
    value["kind"] = "Config".into();
    let text = serde_saphyr::to_string(&value).map_err(io::Error::other).map_err(failed)?;
    if std::fs::read_to_string(path).is_ok_and(|present| present == text) {
        return Ok(());
    }
    path.parent().map_or(Ok(()), create_private_folder).map_err(failed)?;
    write_private(path, text.as_bytes()).map_err(failed)
}

fn without_nulls(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.retain(|_, value| !value.is_null());
            map.values_mut().for_each(without_nulls);
        }
        Value::Array(list) => list.iter_mut().for_each(without_nulls),
        _ => {}
    }
}
