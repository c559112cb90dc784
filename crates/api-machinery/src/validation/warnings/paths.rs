//! Files of a volume that lie at, or below, the place of another.

// upstream: pkg/api/pod/warnings.go warningsForOverlappingVirtualPaths (v1.36)

use std::collections::HashMap;

use serde_json::Value;

use super::super::field::{entries, text};
use super::collected::Warnings;
use crate::work;

/// A path, and where what is there comes from, where that differs within a volume.
struct Place {
    path: String,
    source: String,
}

impl Place {
    fn new(path: &str, source: &str) -> Self {
        Self { path: path.trim_end_matches('/').to_owned(), source: source.to_owned() }
    }

    fn shown(&self) -> String {
        if self.source.is_empty() { format!("{:?}", self.path) } else { format!("{:?} ({})", self.path, self.source) }
    }
}

/// The places of a volume, by the parts of their paths.
#[derive(Default)]
struct Tree {
    places: Vec<Place>,
    /// The folder or file of this name in that folder; the first is the volume.
    inner: HashMap<(usize, String), usize>,
    nodes: Vec<Node>,
}

/// A folder or file. No more places are noted than there can be warnings of.
#[derive(Default)]
struct Node {
    here: Vec<usize>,
    below: Vec<usize>,
}

impl Tree {
    /// Adds a place; gives those that lie at it, above it or below it, in the order in which they came.
    fn add(&mut self, place: Place) -> Vec<usize> {
        let number = self.places.len();
        let (mut found, mut at) = (Vec::new(), 0);
        if self.nodes.is_empty() {
            self.nodes.push(Node::default());
        }
        for part in place.path.split('/').take_while(|_| !place.path.is_empty() && work::step()) {
            let below = &mut self.nodes[at].below;
            if below.len() < Warnings::MAX {
                below.push(number);
            }
            let next = self.nodes.len();
            at = *self.inner.entry((at, part.to_owned())).or_insert(next);
            if at == next {
                self.nodes.push(Node::default());
            }
            found.extend(&self.nodes[at].here);
        }
        if at > 0 {
            let node = &mut self.nodes[at];
            found.extend(&node.below);
            if node.here.len() < Warnings::MAX {
                node.here.push(number);
            }
        }
        self.places.push(place);
        found.sort_unstable();
        found
    }
}

/// The volumes of a pod.
pub(super) fn check(spec: &Value, warnings: &mut Warnings) {
    for (_, volume) in entries(spec, "volumes") {
        let name = text(volume, "name");
        for (source, kind, field) in
            [("configMap", "ConfigMap", "name"), ("secret", "Secret", "secretName"), ("downwardAPI", "DownwardAPI", "")]
        {
            let about = match field {
                "" => kind.to_owned(),
                _ => format!("{kind} {:?}", text(&volume[source], field)),
            };
            let places = entries(&volume[source], "items").map(|(_, item)| Place::new(text(item, "path"), ""));
            overlaps(places, name, &about, &mut Tree::default(), warnings);
        }
        let mut all = Tree::default();
        for (_, source) in entries(&volume["projected"], "sources") {
            if source.as_object().is_none_or(serde_json::Map::is_empty) {
                warnings.add(format!("volume {name:?} (Projected) has no sources provided"));
            }
            overlaps(projected(source).into_iter(), name, "Projected", &mut all, warnings);
        }
    }
}

fn overlaps(places: impl Iterator<Item = Place>, volume: &str, about: &str, all: &mut Tree, warnings: &mut Warnings) {
    for place in places {
        if warnings.is_full() {
            return;
        }
        let shown = place.shown();
        for other in all.add(place) {
            let pair = format!("{shown} with {}", all.places[other].shown());
            warnings.add(format!("volume {volume:?} ({about}): overlapping paths: {pair}"));
        }
    }
}

/// The files of one source among several.
fn projected(source: &Value) -> Vec<Place> {
    let items = |kind: &str, about: &str| {
        entries(&source[kind], "items").map(|(_, item)| Place::new(text(item, "path"), about)).collect()
    };
    let named = |kind: &str, called: &str| format!("{called} {:?}", text(&source[kind], "name"));
    let has = |kind: &str| source[kind]["items"].is_array();
    if has("configMap") {
        items("configMap", &named("configMap", "ConfigMap"))
    } else if has("secret") {
        items("secret", &named("secret", "Secret"))
    } else if has("downwardAPI") {
        items("downwardAPI", "DownwardAPI")
    } else if source["serviceAccountToken"].is_object() {
        vec![Place::new(text(&source["serviceAccountToken"], "path"), "ServiceAccountToken")]
    } else if source["clusterTrustBundle"].is_object() {
        let bundle = &source["clusterTrustBundle"];
        let name = bundle["name"].as_str().unwrap_or(text(bundle, "signerName"));
        vec![Place::new(text(bundle, "path"), &format!("ClusterTrustBundle {name:?}"))]
    } else {
        let parts = [
            ("certificateChainPath", "PodCertificate chain"),
            ("keyPath", "PodCertificate key"),
            ("credentialBundlePath", "PodCertificate credential bundle"),
        ];
        let given = parts.into_iter().map(|(field, about)| (text(&source["podCertificate"], field), about));
        given.filter(|(path, _)| !path.is_empty()).map(|(path, about)| Place::new(path, about)).collect()
    }
}
