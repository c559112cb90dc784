//! Files of a volume that lie at, or below, the place of another.

// upstream: pkg/api/pod/warnings.go warningsForOverlappingVirtualPaths (v1.36)

use serde_json::Value;

use super::super::field::{entries, text};
use super::told::Warnings;

/// A path, and where what is there comes from, where that differs within a volume.
#[derive(PartialEq, Eq)]
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

    fn meets(&self, other: &Self) -> bool {
        let (own, its) = (format!("{}/", self.path), format!("{}/", other.path));
        !self.path.is_empty() && !other.path.is_empty() && (own.starts_with(&its) || its.starts_with(&own))
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
            overlaps(places, name, &about, &mut Vec::new(), warnings);
        }
        let mut all = Vec::new();
        for (_, source) in entries(&volume["projected"], "sources") {
            if source.as_object().is_none_or(serde_json::Map::is_empty) {
                warnings.add(format!("volume {name:?} (Projected) has no sources provided"));
            }
            overlaps(projected(source).into_iter(), name, "Projected", &mut all, warnings);
        }
    }
}

fn overlaps(
    places: impl Iterator<Item = Place>,
    volume: &str,
    about: &str,
    all: &mut Vec<Place>,
    warnings: &mut Warnings,
) {
    for place in places {
        for other in all.iter().filter(|other| place.meets(other)) {
            let pair = format!("{} with {}", place.shown(), other.shown());
            warnings.add(format!("volume {volume:?} ({about}): overlapping paths: {pair}"));
        }
        all.push(place);
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
