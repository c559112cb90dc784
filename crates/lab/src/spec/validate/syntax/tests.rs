//! Texts that each syntax accepts, refuses and corrects.

use super::*;

fn fine<T>(parse: impl Fn(&str) -> Parsed<T>, good: &[&str], bad: &[&str]) {
    for text in good {
        assert!(parse(text).is_ok(), "{text:?} should be accepted");
    }
    for text in bad {
        assert!(parse(text).is_err(), "{text:?} should be refused");
    }
}

#[test]
fn names() {
    fine(lab_name, &["a", "x-1", "abcdefghijklmnopqrstuvwxyz0123"], &["", "1a", "A", "a_b", "a-", "-a", "ä"]);
    fine(lab_name, &[], &["abcdefghijklmnopqrstuvwxyz01234"]);
    fine(|text| pool_name(text, false), &["a", "pool12345678"], &["", "1a", "Bad", "a-b", "pool123456789"]);
    fine(|text| pool_name(text, true), &["win123"], &["windows"]);
    fine(dns_label, &["a", "0", "a-b"], &["", "a.b", "A", "-a", "a-"]);
    fine(dns_subdomain, &["a.b", "a"], &["", ".", "a..b", "A.b"]);
    assert_eq!(lab_name("My Lab").unwrap_err().instead.as_deref(), Some("my-lab"));
}

#[test]
fn counts() {
    let read = |text: &str| count(&raw::CountText::Text(text.to_owned())).ok().map(|count| (count.min, count.max));
    for (text, expected) in [
        ("3", Some((3, Some(3)))),
        ("1..3", Some((1, Some(3)))),
        (" 1 .. 3 ", Some((1, Some(3)))),
        ("1..=3", Some((1, Some(3)))),
        ("2..", Some((2, None))),
        ("..4", Some((0, Some(4)))),
        ("..", Some((0, None))),
        ("3..1", None),
        ("", None),
        ("-1", None),
        ("a..b", None),
        ("99999999999", None),
    ] {
        assert_eq!(read(text), expected, "{text}");
    }
    assert!(count(&raw::CountText::Number(-1)).is_err());
}

#[test]
fn quantities() {
    fine(quantity, &["0", "2", "500m", "1.5", "64Mi", "1e3", "2G"], &["", "a", "64MB", "1 Gi", "-1", "1..2"]);
    for (text, instead) in [("64MB", "64Mi"), ("2 GB", "2Gi"), ("1gib", "1Gi")] {
        assert_eq!(quantity(text).unwrap_err().instead.as_deref(), Some(instead), "{text}");
    }
}

#[test]
fn images() {
    let digest = format!("nginx@sha256:{}", "a".repeat(64));
    fine(
        image,
        &[
            "nginx",
            "nginx:1.27",
            "ghcr.io/acme/web:latest",
            "localhost:5000/a/b",
            "registry.k8s.io/pause:3.10",
            &digest,
        ],
        &["", "nginx:", "Nginx", "a b", "nginx@sha256:12", "a//b", "/a", "nginx:-x"],
    );
}

#[test]
fn node_sets_and_objects() {
    assert_eq!(node_set("pool:extra").unwrap(), NodeSet::Pool("extra".to_owned()));
    assert_eq!(node_set("node:aks-1").unwrap(), NodeSet::Node("aks-1".to_owned()));
    assert!(matches!(node_set("agentpool in (a, b)").unwrap(), NodeSet::Selector(_)));
    fine(node_set, &["!gpu", "a=b,c!=d"], &["", "pools:x", "a=b=c", "a in ("]);
    let parsed = object("deployment.apps/web", "x").unwrap();
    assert_eq!(
        (parsed.kind.as_str(), parsed.group.as_deref(), parsed.name.as_str()),
        ("deployment", Some("apps"), "web")
    );
    fine(|text| object(text, ""), &["pod/a", "clusterrole/system:node"], &["pod", "/a", "pod/", "a b/c", "pod/a/b"]);
}

#[test]
fn durations_and_versions() {
    fine(duration, &["30s", "2m", "1h 30m", "1h30m"], &["", "0s", "-1s", "10", "soon", "745h", "99999999999h"]);
    fine(version, &["1.36", "1.36.2", "v1.36"], &["", "1", "2.0", "1.x", "1.36.2.1", "latest"]);
    fine(subnet, &["10.0.0.0/16", "fd00::/64"], &["10.0.0.0", "10.0.0.0/33", "x/8"]);
}
