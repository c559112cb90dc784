//! What each check of pod security finds, and from which version on.

use serde_json::{Value, json};

use super::checks::{CHECKS, LATEST, Template, evaluate};
use super::level::{Level, Standard};

fn found(level: Level, version: Option<u32>, spec: &Value) -> String {
    let pod = Template { annotations: &spec["annotations"], spec };
    let found = evaluate(Standard { level, version }, &pod);
    found.iter().map(|finding| format!("{}: {}", finding.reason, finding.detail)).collect::<Vec<_>>().join(" | ")
}

fn good() -> Value {
    json!({
        "securityContext": { "runAsNonRoot": true, "seccompProfile": { "type": "RuntimeDefault" } },
        "containers": [{
            "name": "a",
            "securityContext": { "allowPrivilegeEscalation": false, "capabilities": { "drop": ["ALL"] } },
        }],
    })
}

#[test]
fn the_order_is_that_of_the_names_in_each_level() {
    let of = |level: Level| CHECKS.iter().filter(move |check| check.level == level).map(|check| check.id);
    assert!(of(Level::Baseline).is_sorted() && of(Level::Restricted).is_sorted());
    assert!(CHECKS.iter().map(|check| check.level).is_sorted());
    for check in CHECKS.iter().filter(|check| !check.instead_of.is_empty()) {
        assert!(of(Level::Baseline).any(|id| id == check.instead_of), "{}", check.id);
    }
    assert_eq!(CHECKS.iter().map(|check| check.since).max(), Some(LATEST));
}

#[test]
fn a_careful_pod_meets_the_strictest_standard_and_a_plain_one_does_not() {
    assert_eq!(found(Level::Restricted, None, &good()), "");
    let plain = json!({ "containers": [{ "name": "a" }, { "name": "b" }] });
    assert_eq!(found(Level::Baseline, None, &plain), "");
    assert_eq!(
        found(Level::Restricted, None, &plain),
        "allowPrivilegeEscalation != false: containers \"a\", \"b\" must set securityContext.allowPrivilegeEscalation=false \
         | unrestricted capabilities: containers \"a\", \"b\" must set securityContext.capabilities.drop=[\"ALL\"] \
         | runAsNonRoot != true: pod or containers \"a\", \"b\" must set securityContext.runAsNonRoot=true \
         | seccompProfile: pod or containers \"a\", \"b\" must set securityContext.seccompProfile.type to \
         \"RuntimeDefault\" or \"Localhost\""
    );
}

#[test]
fn each_check_finds_what_it_is_for() {
    let context = |fields: Value| json!({ "containers": [{ "name": "a", "securityContext": fields }] });
    let cases = [
        (json!({ "hostPID": true, "hostNetwork": true }), "host namespaces: hostNetwork=true, hostPID=true"),
        (json!({ "volumes": [{ "name": "v", "hostPath": {} }] }), "hostPath volumes: volume \"v\""),
        (
            json!({ "containers": [{ "name": "a", "ports": [{ "hostPort": 80 }, { "hostPort": 443 }, { "hostPort": 0 }] }] }),
            "hostPort: container \"a\" uses hostPorts 443, 80",
        ),
        (
            json!({ "containers": [{ "name": "a", "livenessProbe": { "httpGet": { "host": "10.0.0.1" } } }] }),
            "probe or lifecycle host: container \"a\" uses probe or lifecycle host \"10.0.0.1\"",
        ),
        (
            context(json!({ "privileged": true })),
            "privileged: container \"a\" must not set securityContext.privileged=true",
        ),
        (
            context(json!({ "procMount": "Unmasked" })),
            "procMount: container \"a\" must not set securityContext.procMount to \"Unmasked\"",
        ),
        (
            context(json!({ "capabilities": { "add": ["NET_RAW", "CHOWN"] } })),
            "non-default capabilities: container \"a\" must not include \"NET_RAW\" in securityContext.capabilities.add",
        ),
        (
            context(json!({ "seLinuxOptions": { "type": "x_t", "user": "u" } })),
            "seLinuxOptions: container \"a\" set forbidden securityContext.seLinuxOptions: type \"x_t\"; user may not be set",
        ),
        (
            json!({ "securityContext": { "seccompProfile": { "type": "Unconfined" } } }),
            "seccompProfile: pod must not set securityContext.seccompProfile.type to \"Unconfined\"",
        ),
        (
            json!({ "securityContext": { "sysctls": [{ "name": "kernel.msgmax" }, { "name": "net.ipv4.tcp_rmem" }] } }),
            "forbidden sysctls: kernel.msgmax",
        ),
        (
            json!({ "securityContext": { "windowsOptions": { "hostProcess": true } } }),
            "hostProcess: pod must not set securityContext.windowsOptions.hostProcess=true",
        ),
        (
            json!({ "annotations": { "container.apparmor.security.beta.kubernetes.io/a": "unconfined" } }),
            "forbidden AppArmor profile: annotation must not set AppArmor profile type to \
             \"container.apparmor.security.beta.kubernetes.io/a=\"unconfined\"\"",
        ),
        (
            json!({ "securityContext": { "appArmorProfile": { "type": "Unconfined" } } }),
            "forbidden AppArmor profile: pod must not set AppArmor profile type to \"Unconfined\"",
        ),
    ];
    for (spec, expected) in cases {
        assert_eq!(found(Level::Baseline, None, &spec), expected, "{spec}");
    }
    let mut root = good();
    root["securityContext"]["runAsUser"] = json!(0);
    assert_eq!(found(Level::Restricted, None, &root), "runAsUser=0: pod must not set runAsUser=0");
    let mut disk = good();
    disk["volumes"] =
        json!([{ "name": "v", "hostPath": {} }, { "name": "w", "nfs": {} }, { "name": "e", "emptyDir": {} }]);
    assert_eq!(
        found(Level::Restricted, None, &disk),
        "restricted volume types: volumes \"v\", \"w\" use restricted volume types \"hostPath\", \"nfs\""
    );
}

#[test]
fn versions_ask_for_what_they_knew() {
    let root = json!({ "hostUsers": false, "securityContext": { "runAsUser": 0 }, "containers": [] });
    assert_eq!(found(Level::Restricted, Some(22), &root), "");
    assert_eq!(found(Level::Restricted, Some(34), &root), "runAsUser=0: pod must not set runAsUser=0");
    assert_eq!(found(Level::Restricted, None, &root), "", "root in a user namespace of its own");
    let windows = json!({
        "os": { "name": "windows" }, "securityContext": { "runAsNonRoot": true }, "containers": [{ "name": "a" }],
    });
    assert_eq!(found(Level::Restricted, Some(99), &windows), "");
    assert!(found(Level::Restricted, Some(24), &windows).contains("seccompProfile"));
    let old = json!({
        "annotations": { "seccomp.security.alpha.kubernetes.io/pod": "unconfined" }, "containers": [{ "name": "a" }],
    });
    assert_eq!(
        found(Level::Baseline, Some(18), &old),
        "seccompProfile: forbidden annotation seccomp.security.alpha.kubernetes.io/pod=\"unconfined\""
    );
    assert_eq!(found(Level::Baseline, Some(19), &old), "");
    assert_eq!(found(Level::Privileged, None, &json!({ "hostPID": true })), "");
}
