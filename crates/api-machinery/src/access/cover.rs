//! Whether what somebody holds covers what is to be granted, and how what is missing is written.

use super::{PolicyRule, path_covers, quoted};

/// The parts of `wanted` that `held` does not cover, each a rule of one verb on one thing.
// upstream: staging/src/k8s.io/component-helpers/auth/rbac/validation/policy_comparator.go Covers (v1.36)
pub fn uncovered(held: &[PolicyRule], wanted: &[PolicyRule]) -> Vec<PolicyRule> {
    let parts = wanted.iter().flat_map(broken_down);
    parts.filter(|part| !held.iter().any(|rule| covers(rule, part))).collect()
}

// upstream: policy_comparator.go BreakdownRule (v1.36)
fn broken_down(rule: &PolicyRule) -> Vec<PolicyRule> {
    let one = |text: &String| vec![text.clone()];
    let mut parts = Vec::new();
    for group in &rule.api_groups {
        for resource in &rule.resources {
            for verb in &rule.verbs {
                let part = PolicyRule {
                    api_groups: one(group),
                    resources: one(resource),
                    verbs: one(verb),
                    ..PolicyRule::default()
                };
                if rule.resource_names.is_empty() {
                    parts.push(part);
                } else {
                    let named = |name| PolicyRule { resource_names: one(name), ..part.clone() };
                    parts.extend(rule.resource_names.iter().map(named));
                }
            }
        }
    }
    for path in &rule.paths {
        parts.extend(rule.verbs.iter().map(|verb| PolicyRule {
            paths: one(path),
            verbs: one(verb),
            ..PolicyRule::default()
        }));
    }
    parts
}

// upstream: policy_comparator.go ruleCovers (v1.36)
fn covers(held: &PolicyRule, part: &PolicyRule) -> bool {
    let names = held.resource_names.is_empty()
        || (!part.resource_names.is_empty() && has_all(&held.resource_names, &part.resource_names));
    names
        && (has(&held.verbs, "*") || has_all(&held.verbs, &part.verbs))
        && (has(&held.api_groups, "*") || has_all(&held.api_groups, &part.api_groups))
        && resources_cover(&held.resources, &part.resources)
        && part.paths.iter().all(|path| held.paths.iter().any(|own| path_covers(own, path)))
}

fn has(list: &[String], wanted: &str) -> bool {
    list.iter().any(|one| one == wanted)
}

fn has_all(list: &[String], wanted: &[String]) -> bool {
    wanted.iter().all(|one| list.contains(one))
}

// upstream: policy_comparator.go resourceCoversAll (v1.36)
fn resources_cover(held: &[String], wanted: &[String]) -> bool {
    has(held, "*")
        || wanted.iter().all(|resource| {
            let part = resource.split_once('/').map(|(_, part)| format!("*/{part}"));
            held.contains(resource) || part.is_some_and(|part| held.contains(&part))
        })
}

/// Rules that differ only in their verbs as one.
// upstream: pkg/registry/rbac/validation/policy_compact.go CompactRules (v1.36)
pub fn compacted(rules: Vec<PolicyRule>) -> Vec<PolicyRule> {
    let mut all: Vec<PolicyRule> = Vec::new();
    for mut rule in rules {
        let verbs = std::mem::take(&mut rule.verbs);
        let same = |have: &&mut PolicyRule| {
            have.paths.is_empty()
                && (&have.api_groups, &have.resources, &have.resource_names, &have.paths)
                    == (&rule.api_groups, &rule.resources, &rule.resource_names, &rule.paths)
        };
        match all.iter_mut().find(same) {
            Some(have) => have.verbs.extend(verbs),
            None => all.push(PolicyRule { verbs, ..rule }),
        }
    }
    all
}

/// `{APIGroups:[""], Resources:["pods"], Verbs:["get" "list"]}`
// upstream: pkg/apis/rbac/v1/evaluation_helpers.go CompactString (v1.36)
pub fn text(rule: &PolicyRule) -> String {
    let parts = [
        ("APIGroups", &rule.api_groups),
        ("Resources", &rule.resources),
        ("NonResourceURLs", &rule.paths),
        ("ResourceNames", &rule.resource_names),
        ("Verbs", &rule.verbs),
    ];
    let parts = parts.into_iter().filter(|(_, list)| !list.is_empty());
    let parts: Vec<String> = parts.map(|(name, list)| format!("{name}:{}", quoted_list(list))).collect();
    format!("{{{}}}", parts.join(", "))
}

/// `["a" "b"]`
pub fn quoted_list(list: &[String]) -> String {
    let texts: Vec<String> = list.iter().map(|text| quoted(text)).collect();
    format!("[{}]", texts.join(" "))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn rules(value: Value) -> Vec<PolicyRule> {
        serde_json::from_value(value).expect("rules")
    }

    fn on(resources: &[&str], verbs: &[&str]) -> Value {
        json!({ "apiGroups": [""], "resources": resources, "verbs": verbs })
    }

    #[test]
    fn what_is_held_covers_what_upstream_says_it_covers() {
        let named = |names: &[&str]| {
            let mut rule = on(&["pods"], &["get"]);
            rule["resourceNames"] = json!(names);
            rule
        };
        let paths = |paths: &[&str]| json!({ "nonResourceURLs": paths, "verbs": ["get"] });
        let all = json!({ "apiGroups": ["*"], "resources": ["*"], "verbs": ["*"] });
        for (held, wanted, missing) in [
            (json!([on(&["pods"], &["get"])]), on(&["pods"], &["get"]), ""),
            (
                json!([on(&["pods"], &["get"])]),
                on(&["pods"], &["*"]),
                r#"{APIGroups:[""], Resources:["pods"], Verbs:["*"]}"#,
            ),
            (json!([on(&["pods"], &["get"]), on(&["pods"], &["list"])]), on(&["pods"], &["get", "list"]), ""),
            (json!([on(&["*/scale"], &["get"])]), on(&["pods/scale"], &["get"]), ""),
            (
                json!([on(&["pods"], &["get"])]),
                on(&["pods/log"], &["get"]),
                r#"{APIGroups:[""], Resources:["pods/log"], Verbs:["get"]}"#,
            ),
            (json!([on(&["pods"], &["get"])]), named(&["x"]), ""),
            (json!([named(&["x"])]), on(&["pods"], &["get"]), r#"{APIGroups:[""], Resources:["pods"], Verbs:["get"]}"#),
            (
                json!([named(&["x"])]),
                named(&["x", "y"]),
                r#"{APIGroups:[""], Resources:["pods"], ResourceNames:["y"], Verbs:["get"]}"#,
            ),
            (json!([all]), on(&["pods"], &["get"]), ""),
            (json!([all]), paths(&["/x"]), r#"{NonResourceURLs:["/x"], Verbs:["get"]}"#),
            (json!([paths(&["/healthz/*"])]), paths(&["/healthz/etcd"]), ""),
            (
                json!([]),
                on(&["pods"], &["get", "list"]),
                r#"{APIGroups:[""], Resources:["pods"], Verbs:["get" "list"]}"#,
            ),
        ] {
            let found = compacted(uncovered(&rules(held.clone()), &rules(json!([wanted]))));
            let found: Vec<String> = found.iter().map(text).collect();
            assert_eq!(found.join("\n"), missing, "{held} {wanted}");
        }
    }
}
