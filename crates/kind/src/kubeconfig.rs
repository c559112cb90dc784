//! Kubeconfigs as kind writes them: a cluster's own, merged into another and taken out again, and which file it is.

use serde_json::{Value, json};

/// The lists of a kubeconfig.
const LISTS: [&str; 3] = ["clusters", "users", "contexts"];

/// What context, cluster and user of a cluster are called.
pub fn key(name: &str) -> String {
    format!("kind-{name}")
}

/// The kubeconfig of a cluster of this name from one that leads there; with `server`, by another address.
pub fn handed_out(own: &Value, name: &str, server: Option<&str>) -> Value {
    let first = |list: &str, item: &str| own[list][0][item].clone();
    let key = key(name);
    let mut cluster = first("clusters", "cluster");
    if let Some(server) = server {
        cluster["server"] = json!(server);
    }
    json!({
        "apiVersion": "v1",
        "clusters": [{ "cluster": cluster, "name": key }],
        "contexts": [{ "context": { "cluster": key, "user": key }, "name": key }],
        "current-context": key,
        "kind": "Config",
        "users": [{ "name": key, "user": first("users", "user") }],
    })
}

/// A kubeconfig with a cluster's in it, whose context is then current; entries of its name are replaced.
///
/// # Errors
/// When what is there is no kubeconfig.
pub fn merged(existing: Value, addition: &Value) -> Result<Value, String> {
    let mut config = object(existing)?;
    for list in LISTS {
        let kept = entries(&mut config, list)?;
        for new in addition[list].as_array().into_iter().flatten() {
            match kept.iter_mut().find(|old| old["name"] == new["name"]) {
                Some(old) => old.clone_from(new),
                None => kept.push(new.clone()),
            }
        }
    }
    config["current-context"] = addition["current-context"].clone();
    for field in ["apiVersion", "kind"] {
        if config[field].is_null() {
            config[field] = addition[field].clone();
        }
    }
    Ok(config)
}

/// A kubeconfig without the cluster of this name; `None` where it has nothing of it.
///
/// # Errors
/// As [`merged`].
pub fn without(existing: Value, name: &str) -> Result<Option<Value>, String> {
    let mut config = object(existing)?;
    let key = key(name);
    let mut has_changed = false;
    for list in LISTS {
        let kept = entries(&mut config, list)?;
        let before = kept.len();
        kept.retain(|entry| entry["name"] != key);
        has_changed |= kept.len() != before;
    }
    if config["current-context"] == key {
        config["current-context"] = json!("");
        has_changed = true;
    }
    Ok(has_changed.then_some(config))
}

/// The files of `--kubeconfig`, `KUBECONFIG` or the home folder, each once.
pub fn files(explicit: Option<&str>, variable: Option<&str>, home: &str) -> Vec<String> {
    if let Some(file) = explicit.filter(|file| !file.is_empty()) {
        return vec![file.to_owned()];
    }
    let mut files: Vec<String> = Vec::new();
    for file in variable.unwrap_or_default().split(':').filter(|file| !file.is_empty()) {
        if !files.iter().any(|known| known == file) {
            files.push(file.to_owned());
        }
    }
    if files.is_empty() { vec![format!("{home}/.kube/config")] } else { files }
}

/// The file of these that a cluster is merged into: the first that is there, else the last.
pub fn file_to_merge(files: &[String], is_there: impl Fn(&str) -> bool) -> Option<&str> {
    files.iter().find(|file| is_there(file)).or(files.last()).map(String::as_str)
}

fn object(existing: Value) -> Result<Value, String> {
    match existing {
        Value::Null => Ok(json!({})),
        Value::Object(_) => Ok(existing),
        _ => Err("it is no kubeconfig".to_owned()),
    }
}

fn entries<'a>(config: &'a mut Value, list: &str) -> Result<&'a mut Vec<Value>, String> {
    let entry = &mut config[list];
    if entry.is_null() {
        *entry = json!([]);
    }
    entry.as_array_mut().ok_or_else(|| format!("`{list}` is no list"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addition(server: &str) -> Value {
        let own = json!({
            "clusters": [{ "name": "x", "cluster": { "server": server } }], "users": [{ "name": "x", "user": { "token": "t" } }],
        });
        handed_out(&own, "a", None)
    }

    #[test]
    fn a_cluster_comes_and_goes_and_the_rest_stays() {
        let before = json!({
            "apiVersion": "v1", "kind": "Config", "preferences": { "colors": true }, "users": null,
            "clusters": [{ "name": "mine", "cluster": {} }], "contexts": [], "current-context": "mine",
        });
        let with = merged(before.clone(), &addition("https://a")).unwrap();
        assert_eq!((&with["current-context"], &with["preferences"]), (&json!("kind-a"), &before["preferences"]));
        assert_eq!(with["clusters"].as_array().unwrap().len(), 2);
        let moved = merged(with, &addition("https://b")).unwrap();
        assert_eq!(moved["clusters"][1]["cluster"]["server"], "https://b");
        let after = without(moved, "a").unwrap().unwrap();
        assert_eq!((&after["clusters"], &after["current-context"]), (&before["clusters"], &json!("")));
        assert_eq!(without(after, "a").unwrap(), None);
    }

    #[test]
    fn another_current_context_stays_when_a_cluster_goes() {
        let mut with = merged(Value::Null, &addition("https://a")).unwrap();
        with["current-context"] = json!("mine");
        assert_eq!(without(with, "a").unwrap().unwrap()["current-context"], "mine");
    }

    #[test]
    fn an_empty_file_becomes_the_clusters_own_and_text_is_refused() {
        let own = addition("https://a");
        assert_eq!(merged(Value::Null, &own).unwrap(), own);
        assert!(merged(json!("x"), &own).is_err());
        assert!(merged(json!({ "users": "x" }), &own).unwrap_err().contains("`users`"));
    }

    #[test]
    fn the_file_is_that_of_kind() {
        let of = |explicit, variable| files(explicit, variable, "/home/me");
        assert_eq!(of(Some("x"), Some("a:b")), ["x"]);
        assert_eq!(of(None, Some("a::b:a")), ["a", "b"]);
        assert_eq!(of(None, Some(":")), ["/home/me/.kube/config"]);
        let two = of(None, Some("a:b"));
        assert_eq!(file_to_merge(&two, |file| file == "b"), Some("b"));
        assert_eq!(file_to_merge(&two, |_| true), Some("a"));
        assert_eq!(file_to_merge(&two, |_| false), Some("b"));
    }
}
