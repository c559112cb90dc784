//! The environment of a container.

// upstream: pkg/kubelet/kubelet_pods.go makeEnvironmentVariables (v1.36)
// upstream: third_party/forked/golang/expansion/expand.go Expand (v1.36)

use std::collections::BTreeMap;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use serde_json::Value;

use super::fields::{amount, field};
use crate::objects::{Kind, Objects};
use klab_api_machinery::value::{items, text, time_of};

/// The variables of a container, in their order.
#[derive(Debug, Default)]
pub(super) struct Environment {
    pub(super) known: Vec<(String, String)>,
    /// Those whose value is not known, and why.
    pub(super) unknown: BTreeMap<String, String>,
    /// Why it may have further ones.
    pub(super) more: Option<String>,
}

/// What the environment is read from.
pub(super) struct Sources<'a> {
    pub(super) objects: Option<&'a Arc<dyn Objects>>,
    pub(super) pod: &'a Value,
    pub(super) container: &'a Value,
    /// When the container started: what was changed later it has not seen.
    pub(super) started: Option<Timestamp>,
    /// Whether those of the Services are wanted.
    pub(super) services: bool,
}

impl Environment {
    fn set(&mut self, name: &str, value: String) {
        self.unknown.remove(name);
        match self.known.iter_mut().find(|(own, _)| own == name) {
            Some((_, own)) => *own = value,
            None => self.known.push((name.to_owned(), value)),
        }
    }

    fn uncertain(&mut self, name: &str, why: String) {
        self.known.retain(|(own, _)| own != name);
        self.unknown.insert(name.to_owned(), why);
    }

    /// The value of a variable, as `$(NAME)` stands for it.
    pub(super) fn value(&self, name: &str) -> Option<&str> {
        self.known.iter().find(|(own, _)| own == name).map(|(_, value)| value.as_str())
    }
}

/// The variables that a pod, and what it refers to, give a container.
pub(super) fn environment(sources: &Sources<'_>) -> Environment {
    let mut environment = Environment::default();
    if sources.services {
        for (name, value) in of_services(sources) {
            environment.set(&name, value);
        }
    }
    for from in items(&sources.container["envFrom"]) {
        let prefix = text(from, &["prefix"]);
        let (kind, reference) = match from.get("secretRef") {
            Some(reference) => (Kind::Secret, reference),
            None => (Kind::ConfigMap, &from["configMapRef"]),
        };
        match read(sources, kind, reference) {
            Ok(values) => {
                for (key, value) in values {
                    environment.set(&format!("{prefix}{key}"), value);
                }
            }
            Err(why) => environment.more = environment.more.or(why),
        }
    }
    for variable in items(&sources.container["env"]) {
        let name = text(variable, &["name"]);
        match value_of(sources, &environment, variable) {
            Ok(Some(value)) => environment.set(name, value),
            Ok(None) => {}
            Err(why) => environment.uncertain(name, why),
        }
    }
    environment
}

fn value_of(sources: &Sources<'_>, environment: &Environment, variable: &Value) -> Result<Option<String>, String> {
    let from = &variable["valueFrom"];
    if !from.is_object() {
        return Ok(Some(expanded(text(variable, &["value"]), environment)));
    }
    let name = text(variable, &["name"]);
    if let Some(path) = from["fieldRef"]["fieldPath"].as_str() {
        return field(sources.pod, path).map(Some).ok_or_else(|| format!("`{path}`, which `{name}` is, is not known"));
    }
    if from["resourceFieldRef"].is_object() {
        let objects = sources.objects.map(|objects| &**objects);
        let amount = amount(objects, sources.pod, sources.container, &from["resourceFieldRef"]);
        return amount.map(Some).ok_or_else(|| format!("the amount that `{name}` is, is not known"));
    }
    let (kind, reference) = match from.get("secretKeyRef") {
        Some(reference) => (Kind::Secret, reference),
        None => (Kind::ConfigMap, &from["configMapKeyRef"]),
    };
    if !reference.is_object() {
        return Err(format!("where `{name}` is from is not followed here"));
    }
    let key = text(reference, &["key"]);
    match read(sources, kind, reference) {
        Ok(values) => match values.into_iter().find(|(own, _)| own == key) {
            Some((_, value)) => Ok(Some(value)),
            None if reference["optional"] == true => Ok(None),
            None => Err(format!("{} has no key `{key}`, which `{name}` is from", called(kind, reference))),
        },
        Err(None) => Ok(None),
        Err(Some(why)) => Err(why),
    }
}

fn called(kind: Kind, reference: &Value) -> String {
    format!("{kind:?} `{}`", text(reference, &["name"]))
}

/// The values of a ConfigMap or Secret as a container found them when it started; an optional one that is not there is
/// none without a reason.
fn read(sources: &Sources<'_>, kind: Kind, reference: &Value) -> Result<Vec<(String, String)>, Option<String>> {
    let called = || called(kind, reference);
    let objects = sources.objects.ok_or_else(|| Some(format!("what is in {} is not known", called())))?;
    let (namespace, name) = (text(sources.pod, &["metadata", "namespace"]), text(reference, &["name"]));
    let Some(object) = objects.get(kind, namespace, name) else {
        let is_optional = reference["optional"] == true;
        return Err((!is_optional).then(|| format!("{} is not there", called())));
    };
    let changed = objects.changed(kind, namespace, name);
    if sources.started.zip(changed).is_some_and(|(started, changed)| changed.as_second() > started.as_second()) {
        return Err(Some(format!("{} was changed after the container had started", called())));
    }
    Ok(values(&object).into_iter().map(|(key, value)| (key, String::from_utf8_lossy(&value).into_owned())).collect())
}

/// The values of a ConfigMap or Secret.
pub(super) fn values(object: &Value) -> Vec<(String, Vec<u8>)> {
    let secret = object["kind"] == "Secret";
    let decoded = |value: &str| STANDARD.decode(value).unwrap_or_default();
    let all = |field: &str, encoded: bool| -> Vec<(String, Vec<u8>)> {
        let map = object[field].as_object().into_iter().flatten();
        map.filter_map(|(key, value)| Some((key, value.as_str()?)))
            .map(|(key, value)| (key.clone(), if encoded { decoded(value) } else { value.as_bytes().to_vec() }))
            .collect()
    };
    let mut values = all("data", secret);
    values.extend(all("binaryData", true));
    values
}

/// A text in which `$(NAME)` stands for a variable that is set before it.
pub(super) fn expanded(text: &str, environment: &Environment) -> String {
    substituted(text, |name| environment.value(name).map(str::to_owned))
}

/// A text in which `$(NAME)` stands for a value, and for itself where there is none.
pub(super) fn substituted(text: &str, mut value: impl FnMut(&str) -> Option<String>) -> String {
    let (mut out, mut rest) = (String::new(), text);
    while let Some(at) = rest.find('$') {
        let (before, after) = rest.split_at(at);
        out.push_str(before);
        let after = &after[1..];
        if let Some(after) = after.strip_prefix('$') {
            out.push('$');
            rest = after;
            continue;
        }
        let named = after.strip_prefix('(').and_then(|inner| inner.split_once(')'));
        if let Some((name, after)) = named {
            out.push_str(&value(name).unwrap_or_else(|| format!("$({name})")));
            rest = after;
        } else {
            out.push('$');
            rest = after;
        }
    }
    out + rest
}

/// What a kubelet says of the Services that a pod finds when it starts.
fn of_services(sources: &Sources<'_>) -> Vec<(String, String)> {
    let Some(objects) = sources.objects else { return Vec::new() };
    let namespace = text(sources.pod, &["metadata", "namespace"]);
    let mut services = Vec::new();
    if sources.pod["spec"]["enableServiceLinks"] != false {
        services.extend(objects.list(Kind::Service, Some(namespace)));
    }
    if services.iter().all(|service| service["metadata"]["name"] != "kubernetes") || namespace != "default" {
        services.extend(objects.get(Kind::Service, "default", "kubernetes"));
    }
    let mut all = Vec::new();
    for service in services {
        let address = text(&service, &["spec", "clusterIP"]);
        let made = time_of(&service["metadata"]["creationTimestamp"]);
        let later = sources.started.zip(made).is_some_and(|(started, made)| made > started);
        if address.is_empty() || address == "None" || later {
            continue;
        }
        let upper = |name: &str| name.replace('-', "_").to_uppercase();
        let name = upper(text(&service, &["metadata", "name"]));
        let mut add = |suffix: String, value: String| all.push((format!("{name}_{suffix}"), value));
        add("SERVICE_HOST".to_owned(), address.to_owned());
        for (index, port) in items(&service["spec"]["ports"]).iter().enumerate() {
            let number = port["port"].to_string();
            let protocol = port["protocol"].as_str().unwrap_or("TCP");
            let lower = protocol.to_lowercase();
            let url = format!("{lower}://{address}:{number}");
            if index == 0 {
                add("SERVICE_PORT".to_owned(), number.clone());
                add("PORT".to_owned(), url.clone());
            }
            if let Some(port_name) = port["name"].as_str().filter(|name| !name.is_empty()) {
                add(format!("SERVICE_PORT_{}", upper(port_name)), number.clone());
            }
            let prefix = format!("PORT_{number}_{protocol}");
            add(prefix.clone(), url);
            add(format!("{prefix}_PROTO"), lower);
            add(format!("{prefix}_PORT"), number);
            add(format!("{prefix}_ADDR"), address.to_owned());
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn references_stand_for_what_was_set_before() {
        let container = json!({ "env": [
            { "name": "A", "value": "1" }, { "name": "B", "value": "$(A)-$(NONE)-$$(A)-$x" },
            { "name": "C", "valueFrom": { "configMapKeyRef": { "name": "c", "key": "k" } } },
        ]});
        let sources = Sources { objects: None, pod: &json!({}), container: &container, started: None, services: true };
        let environment = environment(&sources);
        assert_eq!(environment.value("B"), Some("1-$(NONE)-$(A)-$x"));
        assert_eq!(environment.unknown.keys().collect::<Vec<_>>(), ["C"]);
    }
}
