//! `kind load`: images that a cluster's nodes then have. Embedded nodes have every image; klab remembers which were loaded.

use klab_kind::command_line::Typed;

use super::super::Context;
use super::meant::{Done, name};
use super::stored::Stored;

/// Loads images by name.
///
/// # Errors
/// When there is no such cluster or node.
pub(super) fn docker_images(context: &Context, typed: &Typed) -> Done {
    let (name, mut stored) = cluster(context, typed)?;
    for image in &typed.arguments {
        if stored.images.contains(image) {
            context.ui.say(&format!("Image: \"{image}\" found to be already present on all nodes."));
            continue;
        }
        for node in nodes(typed, &stored)? {
            context.ui.say(&format!("Image: \"{image}\" not yet present on node \"{node}\", loading..."));
        }
        stored.images.push(image.clone());
    }
    stored.write(context, &name)
}

/// Loads archives of images.
///
/// # Errors
/// When a file is not there, or as [`docker_images`].
pub(super) fn archives(context: &Context, typed: &Typed) -> Done {
    for file in &typed.arguments {
        std::fs::metadata(file).map_err(|error| format!("stat {file}: {error}"))?;
    }
    let (_, stored) = cluster(context, typed)?;
    nodes(typed, &stored).map(drop)
}

fn cluster(context: &Context, typed: &Typed) -> Done<(String, Stored)> {
    let name = name(typed);
    let stored = Stored::read(context, &name)?.ok_or_else(|| format!("no nodes found for cluster \"{name}\""))?;
    nodes(typed, &stored)?;
    Ok((name, stored))
}

/// The nodes of `--nodes`, or all.
fn nodes(typed: &Typed, stored: &Stored) -> Done<Vec<String>> {
    let all: Vec<String> = stored.nodes.iter().map(|node| node.name.clone()).collect();
    let Some(list) = typed.word("nodes").filter(|list| !list.is_empty()) else { return Ok(all) };
    let named: Vec<String> = list.split(',').map(str::to_owned).collect();
    match named.iter().find(|node| !all.contains(node)) {
        Some(unknown) => Err(format!("unknown node: \"{unknown}\"")),
        None => Ok(named),
    }
}
