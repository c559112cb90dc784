//! Shipped labs as they are read.

use std::path::Path;

use super::*;

fn load_shipped(name: &str) -> Lab {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../labs").join(name);
    load(&path, &LoadOptions::default()).unwrap_or_else(|problems| panic!("{problems}"))
}

#[test]
fn shipped_labs_have_no_problems() {
    for name in ["scheduling.toml", "taints.toml"] {
        let lab = load_shipped(name);
        assert!(lab.warnings.is_empty(), "{}", lab.warnings);
    }
}

#[test]
fn a_lab_is_read_with_defaults_and_places() {
    let lab = load_shipped("scheduling.toml");
    let made = lab.pools.iter().filter(|pool| !pool.deferred);
    let names: Vec<_> = made.map(|pool| (pool.name.as_str(), pool.mode, *pool.nodes)).collect();
    assert_eq!(names, [("nodepool1", PoolMode::System, 2), ("extra", PoolMode::User, 1)]);
    let api = lab.workload("nanomon-api").unwrap();
    assert_eq!(api.image.value, "nginx:1.27");
    assert_eq!(api.node_selector["workload"].value, "extra");
    let line = lab.source.line_text(api.node_selector["workload"].at.line());
    assert!(line.starts_with("node_selector"), "{line}");
    assert_eq!(lab.source.line_text(lab.checks[1].at.line()), "[[check]]");
}
