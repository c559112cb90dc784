//! What a pod tells its containers of itself: `fieldRef`, `resourceFieldRef`.

// upstream: pkg/fieldpath/fieldpath.go ExtractFieldPathAsString (v1.36)
// upstream: pkg/api/v1/resource/helpers.go ExtractContainerResourceValue (v1.36)

use klab_scheduler::quantity::Quantity;
use serde_json::{Map, Value};

use crate::objects::{Kind, Objects};
use klab_api_machinery::value::{items, text};

/// A field of a pod, as `fieldRef` names it; none where it has no value yet.
pub(super) fn field(pod: &Value, path: &str) -> Option<String> {
    let keyed = |field: &str| {
        let key = path.strip_prefix("metadata.")?.strip_prefix(field)?.strip_prefix("['")?.strip_suffix("']")?;
        Some(pod["metadata"][field][key].as_str().unwrap_or_default().to_owned())
    };
    let addresses = |field: &str, key: &str| {
        let all: Vec<&str> = items(&pod["status"][field]).iter().map(|one| text(one, &[key])).collect();
        (!all.is_empty()).then(|| all.join(","))
    };
    match path {
        "metadata.name" | "metadata.namespace" | "metadata.uid" => {
            pod["metadata"][path.get(9..)?].as_str().map(str::to_owned)
        }
        "metadata.labels" | "metadata.annotations" => Some(map_text(pod["metadata"][path.get(9..)?].as_object())),
        "spec.nodeName" | "spec.serviceAccountName" => pod["spec"][path.get(5..)?].as_str().map(str::to_owned),
        "status.hostIP" => pod["status"]["hostIP"].as_str().map(str::to_owned),
        "status.podIP" => pod["status"]["podIP"].as_str().map(str::to_owned),
        "status.hostIPs" => addresses("hostIPs", "ip"),
        "status.podIPs" => addresses("podIPs", "ip"),
        _ => keyed("annotations").or_else(|| keyed("labels")),
    }
}

/// `key="value"`, a line each, by key.
fn map_text(map: Option<&Map<String, Value>>) -> String {
    let mut lines: Vec<(&String, String)> =
        map.into_iter().flatten().map(|(key, value)| (key, quoted(value.as_str().unwrap_or_default()))).collect();
    lines.sort();
    lines.into_iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join("\n")
}

/// As `strconv.Quote` has it.
fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for letter in text.chars() {
        match letter {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            letter if (letter as u32) < 0x20 || letter as u32 == 0x7f => {
                out.push_str(&format!("\\x{:02x}", letter as u32));
            }
            letter => out.push(letter),
        }
    }
    out + "\""
}

/// An amount of a container, as `resourceFieldRef` names it.
pub(super) fn amount(
    objects: Option<&dyn Objects>,
    pod: &Value,
    container: &Value,
    reference: &Value,
) -> Option<String> {
    let wanted = reference["containerName"].as_str().filter(|name| !name.is_empty());
    let container = match wanted {
        Some(name) => ["containers", "initContainers"]
            .iter()
            .flat_map(|list| items(&pod["spec"][*list]))
            .find(|container| container["name"] == name)?,
        None => container,
    };
    let (kind, resource) = text(reference, &["resource"]).split_once('.')?;
    let own = container["resources"][kind][resource].clone();
    let amount = match own {
        Value::Null if kind == "limits" => {
            let node = objects?.get(Kind::Node, "", text(pod, &["spec", "nodeName"]))?;
            node["status"]["allocatable"][resource].clone()
        }
        Value::Null => Value::String("0".to_owned()),
        own => own,
    };
    let parse = |value: &Value| {
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        Quantity::parse(&text).ok()
    };
    let divisor = match &reference["divisor"] {
        Value::Null => None,
        divisor => parse(divisor),
    };
    let exact = |quantity: Quantity| if resource == "cpu" { quantity.millis() } else { quantity.units() };
    let divisor = divisor.map(exact).filter(|divisor| *divisor > 0);
    let divisor = divisor.unwrap_or(if resource == "cpu" { 1000 } else { 1 });
    let amount = exact(parse(&amount)?);
    Some(amount.saturating_add(divisor - 1).checked_div(divisor)?.to_string())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn fields_are_written_as_the_kubelet_writes_them() {
        let pod = json!({
            "metadata": { "name": "p", "labels": { "b": "2\n", "a": "1" }, "annotations": { "x.y/z": "v" } },
            "status": { "podIP": "10.0.0.1", "hostIPs": [{ "ip": "1.1.1.1" }] },
        });
        for (path, expected) in [
            ("metadata.name", Some("p")),
            ("metadata.labels", Some("a=\"1\"\nb=\"2\\n\"")),
            ("metadata.annotations['x.y/z']", Some("v")),
            ("metadata.labels['none']", Some("")),
            ("status.podIP", Some("10.0.0.1")),
            ("status.hostIPs", Some("1.1.1.1")),
            ("status.podIPs", None),
        ] {
            assert_eq!(field(&pod, path).as_deref(), expected, "{path}");
        }
    }

    #[test]
    fn amounts_are_rounded_up() {
        let container = json!({ "resources": { "limits": { "cpu": "1250m", "memory": "64Mi" } } });
        let of = |resource: &str, divisor: &str| {
            amount(None, &json!({}), &container, &json!({ "resource": resource, "divisor": divisor }))
        };
        assert_eq!(of("limits.cpu", "0").as_deref(), Some("2"));
        assert_eq!(of("limits.cpu", "1m").as_deref(), Some("1250"));
        assert_eq!(of("limits.memory", "1Mi").as_deref(), Some("64"));
        assert_eq!(of("requests.memory", "1").as_deref(), Some("0"));
        assert_eq!(of("limits.ephemeral-storage", "1"), None);
    }
}
