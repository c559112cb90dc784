//! Rows of workloads and of what governs them.

// upstream: pkg/printers/internalversion/printers.go printDeployment, printJob (v1.36)

use serde_json::{Value, json};

use super::age;
use super::row::{Row, label_selector, labels, names, none_if_empty, scalar};

fn containers(row: &Row<'_>, template: &str) -> [Value; 2] {
    let containers = row.list(&format!("{template}.spec.containers"));
    [json!(names(containers, "name")), json!(names(containers, "image"))]
}

pub fn deployment(row: &Row<'_>) -> Vec<Value> {
    let [containers, images] = containers(row, "spec.template");
    vec![
        row.name(),
        json!(format!("{}/{}", row.number("status.readyReplicas"), row.number("spec.replicas"))),
        json!(row.number("status.updatedReplicas")),
        json!(row.number("status.availableReplicas")),
        row.age(),
        containers,
        images,
        json!(label_selector(row.at("spec.selector"))),
    ]
}

/// ReplicaSets, and ReplicationControllers, whose selector is a plain map.
pub fn replica_set(row: &Row<'_>) -> Vec<Value> {
    let [containers, images] = containers(row, "spec.template");
    let selector = row.at("spec.selector");
    let plain = row.text("kind") == "ReplicationController";
    vec![
        row.name(),
        json!(row.number("spec.replicas")),
        json!(row.number("status.replicas")),
        json!(row.number("status.readyReplicas")),
        row.age(),
        containers,
        images,
        json!(if plain { labels(selector) } else { label_selector(selector) }),
    ]
}

pub fn stateful_set(row: &Row<'_>) -> Vec<Value> {
    let [containers, images] = containers(row, "spec.template");
    vec![
        row.name(),
        json!(format!("{}/{}", row.number("status.readyReplicas"), row.number("spec.replicas"))),
        row.age(),
        containers,
        images,
    ]
}

pub fn daemon_set(row: &Row<'_>) -> Vec<Value> {
    let [containers, images] = containers(row, "spec.template");
    vec![
        row.name(),
        json!(row.number("status.desiredNumberScheduled")),
        json!(row.number("status.currentNumberScheduled")),
        json!(row.number("status.numberReady")),
        json!(row.number("status.updatedNumberScheduled")),
        json!(row.number("status.numberAvailable")),
        json!(labels(row.at("spec.template.spec.nodeSelector"))),
        row.age(),
        containers,
        images,
        json!(label_selector(row.at("spec.selector"))),
    ]
}

pub(crate) fn controller_revision(row: &Row<'_>) -> Vec<Value> {
    let owner = row.list("metadata.ownerReferences").iter().find(|owner| owner["controller"] == true);
    let controller = owner.map_or_else(
        || "<none>".to_owned(),
        |owner| {
            let kind = owner["kind"].as_str().unwrap_or_default().to_ascii_lowercase();
            let group = owner["apiVersion"].as_str().and_then(|version| version.split_once('/'));
            let name = owner["name"].as_str().unwrap_or_default();
            match group {
                Some((group, _)) => format!("{kind}.{group}/{name}"),
                None => format!("{kind}/{name}"),
            }
        },
    );
    vec![row.name(), json!(controller), json!(row.number("revision").to_string()), row.age()]
}

pub fn job(row: &Row<'_>) -> Vec<Value> {
    let succeeded = row.number("status.succeeded");
    let completions = match row.at("spec.completions").as_i64() {
        Some(wanted) => format!("{succeeded}/{wanted}"),
        None => match row.number("spec.parallelism") {
            many if many > 1 => format!("{succeeded}/1 of {many}"),
            _ => format!("{succeeded}/1"),
        },
    };
    let has = |kind: &str| {
        row.list("status.conditions").iter().any(|condition| condition["type"] == kind && condition["status"] == "True")
    };
    let status = match () {
        () if has("Complete") => "Complete",
        () if has("Failed") => "Failed",
        () if !row.at("metadata.deletionTimestamp").is_null() => "Terminating",
        () if has("Suspended") => "Suspended",
        () if has("FailureTarget") => "FailureTarget",
        () if has("SuccessCriteriaMet") => "SuccessCriteriaMet",
        () => "Running",
    };
    let duration = age::time(row.at("status.startTime")).map_or_else(String::new, |start| {
        let end = age::time(row.at("status.completionTime")).unwrap_or(row.now);
        age::duration(age::seconds(start, end))
    });
    let [containers, images] = containers(row, "spec.template");
    vec![
        row.name(),
        json!(status),
        json!(completions),
        json!(duration),
        row.age(),
        containers,
        images,
        json!(label_selector(row.at("spec.selector"))),
    ]
}

pub fn cron_job(row: &Row<'_>) -> Vec<Value> {
    let [containers, images] = containers(row, "spec.jobTemplate.spec.template");
    let last = match age::time(row.at("status.lastScheduleTime")) {
        Some(_) => age::since(row.at("status.lastScheduleTime"), row.now),
        None => "<none>".to_owned(),
    };
    let suspend = match row.at("spec.suspend").as_bool() {
        Some(true) => "True",
        Some(false) => "False",
        None => "<unset>",
    };
    vec![
        row.name(),
        json!(row.text("spec.schedule")),
        row.text_or("spec.timeZone", "<none>"),
        json!(suspend),
        json!(row.list("status.active").len()),
        json!(last),
        row.age(),
        containers,
        images,
        json!(label_selector(row.at("spec.jobTemplate.spec.selector"))),
    ]
}

pub(crate) fn horizontal_pod_autoscaler(row: &Row<'_>) -> Vec<Value> {
    let reference = format!("{}/{}", row.text("spec.scaleTargetRef.kind"), row.text("spec.scaleTargetRef.name"));
    vec![
        row.name(),
        json!(reference),
        json!(metric_targets(row)),
        scalar(row.at("spec.minReplicas"), "<unset>"),
        scalar(row.at("spec.maxReplicas"), "0"),
        scalar(row.at("status.currentReplicas"), "0"),
        row.age(),
    ]
}

/// `cpu: 12%/70%`, `cpu: <unknown>/70%`; of many metrics the first two.
fn metric_targets(row: &Row<'_>) -> String {
    let current = row.list("status.currentMetrics");
    let mut texts = Vec::new();
    for (at, metric) in row.list("spec.metrics").iter().enumerate() {
        let kind = metric["type"].as_str().unwrap_or_default();
        let (source, prefix) = match kind {
            "Resource" => ("resource", format!("{}: ", metric["resource"]["name"].as_str().unwrap_or_default())),
            "ContainerResource" => {
                ("containerResource", format!("{}: ", metric["containerResource"]["name"].as_str().unwrap_or_default()))
            }
            "Pods" => ("pods", String::new()),
            "Object" => ("object", String::new()),
            _ => ("external", String::new()),
        };
        let (target, now) =
            (&metric[source]["target"], current.get(at).map_or(&Value::Null, |found| &found[source]["current"]));
        let percent = |value: &Value| value.as_i64().map(|value| format!("{value}%"));
        let quantity = |value: &Value| value.as_str().map(str::to_owned);
        let pair = if target["averageUtilization"].is_null() {
            let field = if target["averageValue"].is_null() { "value" } else { "averageValue" };
            let average = if field == "averageValue" && !matches!(source, "resource" | "containerResource" | "pods") {
                " (avg)"
            } else {
                ""
            };
            (quantity(&now[field]), quantity(&target[field]).map(|text| text + average))
        } else {
            (percent(&now["averageUtilization"]), percent(&target["averageUtilization"]))
        };
        texts.push(format!(
            "{prefix}{}/{}",
            pair.0.unwrap_or_else(|| "<unknown>".to_owned()),
            pair.1.unwrap_or_else(|| "<auto>".to_owned())
        ));
    }
    match texts.len() {
        0 => "<none>".to_owned(),
        1 | 2 => texts.join(", "),
        many => format!("{} + {} more...", texts[..2].join(", "), many - 2),
    }
}

pub(crate) fn pod_disruption_budget(row: &Row<'_>) -> Vec<Value> {
    vec![
        row.name(),
        scalar(row.at("spec.minAvailable"), "N/A"),
        scalar(row.at("spec.maxUnavailable"), "N/A"),
        json!(row.number("status.disruptionsAllowed")),
        row.age(),
    ]
}

pub fn priority_class(row: &Row<'_>) -> Vec<Value> {
    vec![
        row.name(),
        json!(row.number("value")),
        json!(row.at("globalDefault").as_bool().unwrap_or_default()),
        row.age(),
        json!(none_if_empty(row.text("preemptionPolicy").to_owned())),
    ]
}
