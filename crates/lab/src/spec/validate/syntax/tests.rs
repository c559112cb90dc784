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
fn taints_have_key_and_effect() {
    fine(
        taint,
        &["a=b:NoSchedule", "a:NoExecute", "example.com/a=b:PreferNoSchedule", "a=:NoSchedule"],
        &["", "a", "a=b", "a=b:noschedule", ":NoSchedule", "=b:NoSchedule", "a b:NoSchedule", "a=b c:NoSchedule"],
    );
    let parsed = taint("a:NoSchedule").unwrap();
    assert_eq!((parsed.key.as_str(), parsed.value, parsed.effect.as_str()), ("a", None, "NoSchedule"));
    let colons = taint("dedicated:special:NoSchedule").unwrap_err();
    assert_eq!(colons.instead.as_deref(), Some("dedicated=special:NoSchedule"));
    assert_eq!(taint("a:b:c:NoSchedule").unwrap_err().instead, None);
    assert_eq!(taint("a=b:NoSchedul").unwrap_err().instead.as_deref(), Some("a=b:NoSchedule"));
}

#[test]
fn tolerations_mean_what_kubernetes_means() {
    let read = |text: &str| toleration(&raw::TolerationText::Text(text.to_owned()));
    let equal = read("a=b:NoSchedule").unwrap();
    assert_eq!(
        (equal.key.as_deref(), equal.operator.as_deref(), equal.value.as_deref(), equal.effect.as_deref()),
        (Some("a"), Some("Equal"), Some("b"), Some("NoSchedule"))
    );
    let exists = read("a:NoExecute").unwrap();
    assert_eq!((exists.operator.as_deref(), exists.value.as_deref()), (Some("Exists"), None));
    assert_eq!(read("a").unwrap().effect, None);
    assert_eq!(read(":NoSchedule").unwrap().key, None);
    fine(|text| read(text), &["a=:NoSchedule"], &["", "=b", "a:Never", "a b"]);

    let table = |key: &str, operator: &str, value: &str, effect: &str, seconds| Toleration {
        key: Some(key.to_owned()),
        operator: Some(operator.to_owned()),
        value: Some(value.to_owned()),
        effect: Some(effect.to_owned()),
        toleration_seconds: seconds,
    };
    for (given, is_fine) in [
        (table("a", "Exists", "", "NoExecute", Some(30)), true),
        (table("", "Exists", "", "", None), true),
        (table("", "Equal", "", "", None), false),
        (table("a", "Exists", "b", "", None), false),
        (table("a", "In", "b", "", None), false),
        (table("a", "Gt", "-5", "NoSchedule", None), true),
        (table("a", "Lt", "05", "", None), false),
        (table("", "Lt", "5", "", None), false),
        (table("a", "Equal", "b", "Never", None), false),
        (table("a", "Equal", "b", "NoSchedule", Some(30)), false),
    ] {
        assert_eq!(toleration(&raw::TolerationText::Table(Box::new(given.clone()))).is_ok(), is_fine, "{given:?}");
    }
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
