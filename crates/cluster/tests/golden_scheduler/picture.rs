//! What the API shows of a cluster, in the form of the recordings.

use std::collections::BTreeSet;

use klab_api_machinery::object::Object;
use klab_api_machinery::resource::{
    EVENTS, PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, POD_DISRUPTION_BUDGETS, PODS, RESOURCE_CLAIMS, ResourceId,
};
use klab_cluster::cluster::Cluster;
use serde_json::{Map, Value, json};

/// A section of an entry of `expect`: the objects of a kind.
pub(crate) fn section(cluster: &Cluster, name: &str) -> Map<String, Value> {
    match name {
        "pods" => {
            let names = Names::of(cluster);
            all(cluster, PODS, |it| pod(it, &names))
        }
        "claims" => {
            let claims = cluster.list(RESOURCE_CLAIMS, None).0;
            claims.iter().map(|object| (claim_key(object), claim(&object.value()))).collect()
        }
        "pvcs" => all(cluster, PERSISTENT_VOLUME_CLAIMS, |claim| {
            entry([("volume", claim["spec"]["volumeName"].clone()), ("phase", claim["status"]["phase"].clone())])
        }),
        "pvs" => all(cluster, PERSISTENT_VOLUMES, |volume| {
            let claim = volume["spec"]["claimRef"]["name"].clone();
            entry([("phase", volume["status"]["phase"].clone()), ("claim", claim)])
        }),
        "pdbs" => all(cluster, POD_DISRUPTION_BUDGETS, |budget| budget["status"]["disruptionsAllowed"].clone()),
        other => panic!("a section {other}"),
    }
}

/// Names that are chance, with those that the recordings have instead.
struct Names(Vec<(String, String)>);

impl Names {
    fn of(cluster: &Cluster) -> Self {
        let claims = cluster.list(RESOURCE_CLAIMS, None).0;
        let claims = claims.iter().filter_map(|claim| Some((claim.name.to_string(), made_for(claim)?)));
        let mut names: Vec<(String, String)> = claims.map(|(name, made)| (name, format!("<{made}>"))).collect();
        for event in cluster.list(EVENTS, None).0 {
            let about = event.value()["involvedObject"].clone();
            let text = |field: &str| about[field].as_str().unwrap_or_default().to_owned();
            names.push((text("uid"), format!("<uid of {}/{}>", text("namespace"), text("name"))));
        }
        names.retain(|(name, _)| !name.is_empty());
        Self(names)
    }

    fn masked(&self, text: &Value) -> Value {
        let Some(text) = text.as_str() else { return text.clone() };
        let masked = self.0.iter().fold(text.to_owned(), |text, (name, instead)| text.replace(name, instead));
        Value::String(masked)
    }
}

fn all(cluster: &Cluster, resource: ResourceId, show: impl Fn(&Value) -> Value) -> Map<String, Value> {
    let key = |object: &Object| match object.namespace.as_ref() {
        "" => object.name.to_string(),
        namespace => format!("{namespace}/{}", object.name),
    };
    cluster.list(resource, None).0.iter().map(|object| (key(object), show(&object.value()))).collect()
}

/// An entry without what is not there.
fn entry<const N: usize>(fields: [(&str, Value); N]) -> Value {
    fields.into_iter().filter(|(_, value)| !value.is_null()).map(|(name, value)| (name.to_owned(), value)).collect()
}

fn pod(pod: &Value, names: &Names) -> Value {
    let condition = |kind: &str| {
        let conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
        conditions.into_iter().find(|condition| condition["type"] == kind)
    };
    let node = pod["spec"]["nodeName"].clone();
    let mut shown = json!({ "node": node });
    if let Some(nominated) = pod["status"]["nominatedNodeName"].as_str().filter(|name| !name.is_empty()) {
        shown["nominatedNodeName"] = json!(nominated);
    }
    if !pod["metadata"]["deletionTimestamp"].is_null() {
        shown["terminating"] = json!(true);
    }
    match condition("PodScheduled") {
        Some(scheduled) if scheduled["status"] == "False" => {
            shown["podScheduled"] = entry(
                ["status", "reason", "message", "observedGeneration"]
                    .map(|field| (field, names.masked(&scheduled[field]))),
            );
        }
        None if node.is_null() => shown["podScheduled"] = Value::Null,
        _ => {}
    }
    if let Some(target) = condition("DisruptionTarget") {
        shown["disruptionTarget"] = entry(["reason", "message"].map(|field| (field, target[field].clone())));
    }
    shown
}

/// Claims that are made for a pod are called after it: their own names are chance.
fn claim_key(object: &Object) -> String {
    format!("{}/{}", object.namespace, made_for(object).unwrap_or_else(|| object.name.to_string()))
}

/// The pod that a claim was made for, and what it is called there.
fn made_for(claim: &Object) -> Option<String> {
    let metadata = &claim.value()["metadata"];
    let owner = metadata["ownerReferences"].as_array().and_then(|owners| owners.first());
    let pod = owner.filter(|owner| owner["kind"] == "Pod")?["name"].as_str()?.to_owned();
    let name = metadata["annotations"]["resource.kubernetes.io/pod-claim-name"].as_str().unwrap_or_default();
    Some(format!("of:{pod}:{name}"))
}

fn claim(claim: &Value) -> Value {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let status = &claim["status"];
    let mut shown = Map::new();
    let reserved: Vec<Value> = list(&status["reservedFor"]).iter().map(|consumer| consumer["name"].clone()).collect();
    if !reserved.is_empty() {
        shown.insert("reserved".to_owned(), json!(reserved));
    }
    if !status["allocation"].is_null() {
        let device = |result: &Value| {
            // As Python writes it.
            let consumed = &result["consumedCapacity"];
            let consumed = if consumed.is_null() { String::new() } else { python_text(consumed) };
            json!([
                result["request"],
                result["driver"],
                result["pool"],
                result["device"],
                consumed,
                result["adminAccess"] == true,
            ])
        };
        let devices: Vec<Value> = list(&status["allocation"]["devices"]["results"]).iter().map(device).collect();
        shown.insert("devices".to_owned(), json!(devices));
        if !status["allocation"]["nodeSelector"].is_null() {
            shown.insert("nodeSelector".to_owned(), status["allocation"]["nodeSelector"].clone());
        }
    }
    Value::Object(shown)
}

/// A flat object with a space after each colon and comma.
fn python_text(value: &Value) -> String {
    let fields = value.as_object().into_iter().flatten();
    let fields: Vec<String> = fields.map(|(name, value)| format!("{}: {value}", json!(name))).collect();
    format!("{{{}}}", fields.join(", "))
}

/// The events about pods, without how often they were seen.
pub(crate) fn events(cluster: &Cluster) -> BTreeSet<String> {
    let names = Names::of(cluster);
    let mut shown = BTreeSet::new();
    for event in cluster.list(EVENTS, None).0 {
        let event = event.value();
        let about = &event["involvedObject"];
        if about["kind"] != "Pod" {
            continue;
        }
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let pod = format!("{}/{}", text(&about["namespace"]), text(&about["name"]));
        shown.insert(json!([pod, event["type"], event["reason"], names.masked(&event["message"])]).to_string());
    }
    shown
}
