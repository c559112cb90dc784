//! Files of a volume that lie at, or below, the place of another.

// upstream: pkg/api/pod/warnings.go warningsForOverlappingVirtualPaths (v1.36)

use std::collections::HashMap;

use super::super::Place;
use super::collected::Warnings;
use crate::views::{KeyToPath, PodSpec, Views, VolumeProjection};
use crate::work;

/// A path, and where what is there comes from, where that differs within a volume.
struct File {
    path: String,
    source: String,
}

impl File {
    fn new(path: &str, source: &str) -> Self {
        Self { path: path.trim_end_matches('/').to_owned(), source: source.to_owned() }
    }

    fn shown(&self) -> String {
        if self.source.is_empty() { format!("{:?}", self.path) } else { format!("{:?} ({})", self.path, self.source) }
    }
}

/// The files of a volume, by the parts of their paths.
#[derive(Default)]
struct Tree {
    files: Vec<File>,
    /// The folder or file of this name in that folder; the first is the volume.
    inner: HashMap<(usize, String), usize>,
    nodes: Vec<Node>,
}

/// A folder or file. No more files are noted than there can be warnings of.
#[derive(Default)]
struct Node {
    here: Vec<usize>,
    below: Vec<usize>,
}

impl Tree {
    /// Adds a file; gives those that lie at it, above it or below it, in the order in which they came.
    fn add(&mut self, file: File) -> Vec<usize> {
        let number = self.files.len();
        let (mut found, mut at) = (Vec::new(), 0);
        if self.nodes.is_empty() {
            self.nodes.push(Node::default());
        }
        for part in file.path.split('/').take_while(|_| !file.path.is_empty() && work::step()) {
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
        self.files.push(file);
        found.sort_unstable();
        found
    }
}

/// The volumes of a pod.
pub(super) fn check(spec: &Place<'_, PodSpec<'_>>, warnings: &mut Warnings) {
    for volume in spec.volumes().each() {
        let (map, secret, downward) = (volume.config_map(), volume.secret(), volume.downward_api());
        for (about, files) in [
            (format!("ConfigMap {:?}", *map.name()), files(&map.items(), "")),
            (format!("Secret {:?}", *secret.secret_name()), files(&secret.items(), "")),
            ("DownwardAPI".to_owned(), files(&downward.items().cast(), "")),
        ] {
            overlaps(files, *volume.name(), &about, &mut Tree::default(), warnings);
        }
        let mut all = Tree::default();
        for source in volume.projected().sources().each() {
            if source.json.as_object().is_none_or(serde_json::Map::is_empty) {
                warnings.add(format!("volume {:?} (Projected) has no sources provided", *volume.name()));
            }
            overlaps(projected(&source), *volume.name(), "Projected", &mut all, warnings);
        }
    }
}

fn overlaps(files: Vec<File>, volume: &str, about: &str, all: &mut Tree, warnings: &mut Warnings) {
    for file in files {
        if warnings.is_full() {
            return;
        }
        let shown = file.shown();
        for other in all.add(file) {
            let pair = format!("{shown} with {}", all.files[other].shown());
            warnings.add(format!("volume {volume:?} ({about}): overlapping paths: {pair}"));
        }
    }
}

/// The files of a source; those of the downward API have paths, too.
fn files<'a>(items: &Place<'_, Views<'a, KeyToPath<'a>>>, source: &str) -> Vec<File> {
    items.each().map(|item| File::new(*item.path(), source)).collect()
}

/// The files of one source among several.
fn projected(source: &Place<'_, VolumeProjection<'_>>) -> Vec<File> {
    let (map, secret, downward) = (source.config_map(), source.secret(), source.downward_api());
    let (token, bundle, pod) =
        (source.service_account_token(), source.cluster_trust_bundle(), source.pod_certificate());
    if map.items().is_set() {
        files(&map.items(), &format!("ConfigMap {:?}", *map.name()))
    } else if secret.items().is_set() {
        files(&secret.items(), &format!("Secret {:?}", *secret.name()))
    } else if downward.items().is_set() {
        files(&downward.items().cast(), "DownwardAPI")
    } else if token.is_set() {
        vec![File::new(*token.path(), "ServiceAccountToken")]
    } else if bundle.is_set() {
        let name = bundle.name().or(*bundle.signer_name()).unwrap_or_default();
        vec![File::new(*bundle.path(), &format!("ClusterTrustBundle {name:?}"))]
    } else {
        let parts = [
            (*pod.certificate_chain_path(), "PodCertificate chain"),
            (*pod.key_path(), "PodCertificate key"),
            (*pod.credential_bundle_path(), "PodCertificate credential bundle"),
        ];
        let given = parts.into_iter().filter(|(path, _)| !path.is_empty());
        given.map(|(path, about)| File::new(path, about)).collect()
    }
}
