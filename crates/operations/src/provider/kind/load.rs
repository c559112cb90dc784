//! Local images brought into the nodes, each once.

use std::collections::BTreeMap;

use super::record::ClusterRecord;
use super::session::{Session, remove_file};
use crate::error::{Code, Error, Result};
use crate::event::{About, Verb};
use crate::provider::Work;
use klab_lab::spec::Lab;
use klab_lab::words::plural;

/// Loads the lab's images into every node that does not have them in their present version.
///
/// kind's `load docker-image` fails on images of several platforms in Docker's newer image store; an archive of one
/// platform does not.
pub(super) fn load(session: &Session, lab: &Lab, record: &mut ClusterRecord, work: &mut Work<'_>) -> Result<()> {
    if lab.kind.load.is_empty() {
        return Ok(());
    }
    let containers = session.containers()?;
    let nodes = containers.iter().filter(|node| node.running && (node.is_worker() || node.is_control_plane()));
    let nodes: Vec<String> = nodes.map(|node| node.name.clone()).collect();
    for image in &lab.kind.load {
        let reference = image.value.as_str();
        let Some(id) = session.runtime.image_id(reference)? else {
            let program = session.runtime.program();
            let message = format!("{}: the image `{reference}` is not on this machine", image.at);
            return Err(Error::message(Code::ImageMissing, message)
                .hint(format!("`{program} build` or `{program} pull {reference}` brings it here")));
        };
        let lacking = lacking(&record.loaded, &nodes, reference, &id);
        if lacking.is_empty() {
            continue;
        }
        work.intend("load-image", reference)?;
        let activity = work
            .events
            .about(About::Image, reference)
            .counting(lacking.len())
            .start(Verb::LoadImage, format!("image {reference} into {}", plural(lacking.len(), "node")));
        let file = session.names.folder().join("image.tar");
        remove_file(&file)?;
        let loaded = session
            .runtime
            .save(reference, &file)
            .and_then(|()| session.kind.load_archive(&session.names.cluster, &file, &lacking));
        remove_file(&file)?;
        loaded?;
        for node in &lacking {
            record.loaded.entry(node.clone()).or_default().insert(reference.to_owned(), id.clone());
        }
        session.save(record)?;
        activity.finish(format!("image {reference} into {}", plural(lacking.len(), "node")));
    }
    Ok(())
}

/// The nodes that do not have this version of the image from klab.
fn lacking(
    loaded: &BTreeMap<String, BTreeMap<String, String>>,
    nodes: &[String],
    reference: &str,
    id: &str,
) -> Vec<String> {
    let has = |node: &&String| loaded.get(*node).and_then(|images| images.get(reference)).is_some_and(|has| has == id);
    nodes.iter().filter(|node| !has(node)).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_nodes_without_this_version_get_it() {
        let nodes = ["a", "b", "c"].map(str::to_owned);
        let has = |id: &str| BTreeMap::from([("web:1".to_owned(), id.to_owned())]);
        let loaded = BTreeMap::from([("a".to_owned(), has("sha256:new")), ("b".to_owned(), has("sha256:old"))]);
        assert_eq!(lacking(&loaded, &nodes, "web:1", "sha256:new"), ["b", "c"]);
        assert_eq!(lacking(&loaded, &nodes, "other", "sha256:new"), ["a", "b", "c"]);
    }
}
