//! Templates to manifests, and what is refused.

use std::path::Path;

use super::*;
use klab_lab::names::{LAB_LABEL, WORKLOAD_LABEL};
use klab_lab::spec::{LoadOptions, load};

#[test]
fn shipped_labs_render() {
    for (name, expected) in [
        (
            "scheduling.toml",
            &["Deployment/nanomon-api", "Deployment/nanomon-web", "Deployment/plain", "DaemonSet/node-agent"][..],
        ),
        ("taints.toml", &["Deployment/selects", "Deployment/tolerates-and-selects", "Deployment/tolerates"]),
    ] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("labs").join(name);
        let lab = load(&path, &LoadOptions::default()).unwrap();
        let manifests = render(&lab).unwrap();
        let names: Vec<_> =
            manifests.iter().map(|manifest| format!("{}/{}", manifest.kind(), manifest.name())).collect();
        assert_eq!(names, expected);
        for manifest in &manifests {
            let labels = &manifest.object["metadata"]["labels"];
            assert_eq!(labels[LAB_LABEL], lab.name.as_str());
            assert_eq!(labels[MANAGED_BY_LABEL], "klab");
            assert_eq!(labels[WORKLOAD_LABEL], manifest.name());
            assert_eq!(manifest.object["spec"]["template"]["metadata"]["labels"][WORKLOAD_LABEL], manifest.name());
            assert_eq!(manifest.namespace(), Some("default"));
        }
    }
}
