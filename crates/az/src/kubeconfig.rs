//! Kubeconfigs of `az aks get-credentials`: a lab's under the names that Azure gives, merged into another.

use serde_json::{Value, json};

use crate::names::Site;
use crate::refusal::Refusal;

/// A lab's kubeconfig as Azure would hand it out.
pub fn handed_out(own: &Value, site: &Site, is_admin: bool, context: Option<&str>) -> Value {
    let first = |list: &str, item: &str| own[list][0][item].clone();
    let role = if is_admin { "clusterAdmin" } else { "clusterUser" };
    let user = format!("{role}_{}_{}", site.group, site.cluster);
    let cluster = context.unwrap_or(&site.cluster);
    let name = if is_admin { format!("{cluster}-admin") } else { cluster.to_owned() };
    json!({
        "apiVersion": "v1",
        "clusters": [{ "cluster": first("clusters", "cluster"), "name": cluster }],
        "contexts": [{ "context": { "cluster": cluster, "user": user }, "name": name }],
        "current-context": name,
        "kind": "Config",
        "preferences": {},
        "users": [{ "name": user, "user": first("users", "user") }],
    })
}

/// A kubeconfig with another one merged into it; `may_replace` is asked for the name of each entry that is there and says
/// something else.
///
/// # Errors
/// When such an entry may not be replaced, or the file is no kubeconfig.
pub fn merged(mut existing: Value, addition: &Value, may_replace: impl Fn(&str) -> bool) -> Result<Value, Refusal> {
    for list in ["clusters", "users", "contexts"] {
        let Some(kept) = existing.get_mut(list) else {
            return Err(Refusal::new(format!(
                "No such key '{list}' in existing config, please confirm whether it is a valid config file. May back up this config file, delete it and retry the command."
            )));
        };
        if kept.is_null() {
            *kept = json!([]);
        }
        let Some(kept) = kept.as_array_mut() else {
            return Err(Refusal::new(format!("'{list}' of the existing config is no list.")));
        };
        for new in addition[list].as_array().into_iter().flatten() {
            if let Some(at) = kept.iter().position(|old| old["name"] == new["name"]) {
                let name = new["name"].as_str().unwrap_or_default();
                if kept[at] != *new && !may_replace(name) {
                    let message =
                        format!("A different object named {name} already exists in {list} in your kubeconfig file.");
                    return Err(Refusal::new(message).advise("--overwrite-existing replaces it."));
                }
                kept.remove(at);
            }
            kept.push(new.clone());
        }
    }
    existing["current-context"] = addition["current-context"].clone();
    Ok(existing)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own(server: &str) -> Value {
        json!({
            "clusters": [{ "name": "lab", "cluster": { "server": server } }],
            "users": [{ "name": "lab", "user": { "token": "t" } }],
            "contexts": [{ "name": "lab", "context": { "cluster": "lab", "user": "lab" } }],
        })
    }

    fn site() -> Site {
        Site { group: "rg".into(), cluster: "c".into(), location: "westeurope".into() }
    }

    #[test]
    fn names_are_those_that_azure_gives() {
        let plain = handed_out(&own("https://a"), &site(), false, None);
        assert_eq!(plain["current-context"], "c");
        assert_eq!(plain["users"][0]["name"], "clusterUser_rg_c");
        assert_eq!(plain["clusters"][0]["cluster"]["server"], "https://a");
        let admin = handed_out(&own("https://a"), &site(), true, Some("mine"));
        assert_eq!(
            (&admin["current-context"], &admin["contexts"][0]["context"]["cluster"]),
            (&json!("mine-admin"), &json!("mine"))
        );
    }

    #[test]
    fn what_is_there_stays_and_what_differs_is_asked_about() {
        let before = json!({
            "clusters": [{ "name": "other", "cluster": {} }], "users": null, "contexts": [], "current-context": "other",
        });
        let new = handed_out(&own("https://a"), &site(), false, None);
        let both = merged(before, &new, |_| false).unwrap();
        assert_eq!(both["clusters"].as_array().unwrap().len(), 2);
        assert_eq!(both["current-context"], "c");
        assert_eq!(merged(both.clone(), &new, |_| false).unwrap(), both);
        let moved = handed_out(&own("https://b"), &site(), false, None);
        let refusal = merged(both.clone(), &moved, |_| false).unwrap_err();
        assert_eq!(refusal.message, "A different object named c already exists in clusters in your kubeconfig file.");
        assert_eq!(merged(both, &moved, |_| true).unwrap()["clusters"][1]["cluster"]["server"], "https://b");
        assert!(merged(json!({}), &new, |_| true).unwrap_err().message.starts_with("No such key 'clusters'"));
    }
}
