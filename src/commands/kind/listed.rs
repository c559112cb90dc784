//! The clusters of `klab kind` as `klab list` shows them.

use serde_json::{Value, json};

use super::super::Context;
use super::stored::{Stored, all};
use klab_operations::error::{Code, Error, Result};

/// A row and a document for each.
///
/// # Errors
/// When klab's state cannot be read.
pub(in super::super) fn rows(context: &Context) -> Result<Vec<(Vec<String>, Value)>> {
    let unread = |why: String| Error::message(Code::StateFolder, why);
    let names = all(context).map_err(unread)?;
    let row = |name: String| {
        let stored = Stored::read(context, &name).map_err(unread)?;
        let nodes = stored.as_ref().map(|stored| stored.nodes.len());
        let created = stored.map(|stored| stored.created);
        let row = [
            name.clone(),
            "klab kind".to_owned(),
            if nodes.is_some() { "up" } else { "partly up" }.to_owned(),
            nodes.map_or("-".to_owned(), |nodes| nodes.to_string()),
            created.map_or("-".to_owned(), |created| created.strftime("%Y-%m-%d %H:%M").to_string()),
            "-".to_owned(),
        ];
        Ok((row.to_vec(), json!({ "kindCluster": name, "nodes": nodes, "created": created })))
    };
    names.into_iter().map(row).collect()
}
