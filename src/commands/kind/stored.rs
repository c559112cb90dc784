//! What klab remembers of a cluster that `klab kind` made: a folder and a record below klab's home.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;

use jiff::Timestamp;
use klab_kind::machine::State;
use klab_kind::nodes::Node;
use serde::{Deserialize, Serialize};

use super::super::Context;
use super::meant::{Done, in_words};
use klab_operations::state::home::{read_document, state_error};
use klab_server::files::{create_private_folder, write_private};

/// The file within a cluster's folder.
const FILE: &str = "cluster.json";

/// A cluster.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Stored {
    /// When it was made.
    pub(super) created: Timestamp,
    /// Its nodes.
    pub(super) nodes: Vec<Node>,
    /// The version of its first control plane.
    pub(super) version: String,
    /// What commands have left on nodes, by name.
    #[serde(default)]
    pub(super) machines: BTreeMap<String, State>,
    /// Images that were loaded.
    #[serde(default)]
    pub(super) images: Vec<String>,
}

impl Stored {
    /// The record of a cluster; none where there is no such cluster.
    ///
    /// # Errors
    /// When it cannot be read.
    pub(super) fn read(context: &Context, name: &str) -> Done<Option<Self>> {
        read_document(&folder(context, name)?.join(FILE)).map_err(in_words)
    }

    /// Writes the record of a cluster that must not be there yet.
    ///
    /// # Errors
    /// In kind's words where one of this name is there.
    pub(super) fn begin(&self, context: &Context, name: &str) -> Done {
        let folder = folder(context, name)?;
        let failed = |error| in_words(state_error(error, "write", &folder));
        create_private_folder(&context.home.kind()).map_err(failed)?;
        // Of two that make a cluster of one name at the same time, one makes its folder.
        match std::fs::create_dir(&folder) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(exists(name)),
            made => made.map_err(failed).and_then(|()| self.write(context, name)),
        }
    }

    /// Writes the record.
    ///
    /// # Errors
    /// When the file system refuses.
    pub(super) fn write(&self, context: &Context, name: &str) -> Done {
        let path = folder(context, name)?.join(FILE);
        let text = serde_json::to_vec(self).map_err(|error| error.to_string())?;
        write_private(&path, &text).map_err(|error| in_words(state_error(error, "write", &path)))
    }
}

/// What kind says where a cluster of the name is there.
pub(super) fn exists(name: &str) -> String {
    format!("node(s) already exist for a cluster with the name \"{name}\"")
}

/// The clusters there are, by name.
///
/// # Errors
/// When klab's state cannot be read.
pub(in super::super) fn all(context: &Context) -> Done<Vec<String>> {
    context.home.kind_clusters().map_err(|error| in_words(state_error(error, "read", &context.home.kind())))
}

/// Forgets a cluster, and klab's folders that are then empty.
///
/// # Errors
/// When the file system refuses.
pub(super) fn forget(context: &Context, name: &str) -> Done {
    let folder = folder(context, name)?;
    match std::fs::remove_dir_all(&folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(in_words(state_error(error, "remove", &folder)));
        }
        _ => {}
    }
    // They go only where nothing is in them.
    let _ = std::fs::remove_dir(context.home.kind()).and_then(|()| std::fs::remove_dir(context.home.root()));
    Ok(())
}

/// The folder of a cluster. A name that leads to another place has none.
fn folder(context: &Context, name: &str) -> Done<PathBuf> {
    let is_plain = !name.is_empty() && !name.contains('/') && ![".", ".."].contains(&name);
    if is_plain { Ok(context.home.kind().join(name)) } else { Err(format!("'{name}' is not a valid cluster name")) }
}
