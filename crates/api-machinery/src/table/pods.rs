//! The row of a pod: its Status cell tells more than its phase.

// upstream: pkg/printers/internalversion/printers.go printPod (v1.36)

use serde_json::{Value, json};

use super::age;
use super::row::{Row, none_if_empty};

pub fn pod(row: &Row<'_>) -> Vec<Value> {
    let status = PodStatus::of(row);
    let ips = row.list("status.podIPs");
    let ip = ips.first().map_or(row.text("status.podIP"), |ip| ip["ip"].as_str().unwrap_or_default());
    let gates = row.list("spec.readinessGates");
    let ready_gates = gates
        .iter()
        .filter(|gate| {
            row.list("status.conditions")
                .iter()
                .any(|condition| condition["type"] == gate["conditionType"] && condition["status"] == "True")
        })
        .count();
    vec![
        row.name(),
        json!(format!("{}/{}", status.ready, status.total)),
        json!(status.reason),
        json!(status.restarts),
        row.age(),
        json!(none_if_empty(ip.to_owned())),
        row.text_or("spec.nodeName", "<none>"),
        row.text_or("status.nominatedNodeName", "<none>"),
        json!(if gates.is_empty() { "<none>".to_owned() } else { format!("{ready_gates}/{}", gates.len()) }),
    ]
}

struct PodStatus {
    ready: usize,
    total: usize,
    reason: String,
    restarts: String,
}

/// The reason a finished container gives: its own, its signal, or its exit code.
fn terminated(state: &Value) -> Option<String> {
    let terminated = state.get("terminated").filter(|terminated| !terminated.is_null())?;
    let number = |field: &str| terminated[field].as_i64().unwrap_or_default();
    Some(match terminated["reason"].as_str().unwrap_or_default() {
        "" if number("signal") != 0 => format!("Signal:{}", number("signal")),
        "" => format!("ExitCode:{}", number("exitCode")),
        reason => reason.to_owned(),
    })
}

fn waiting(state: &Value) -> &str {
    state["waiting"]["reason"].as_str().unwrap_or_default()
}

impl PodStatus {
    #[expect(clippy::too_many_lines, reason = "mirrors printPod of upstream")]
    fn of(row: &Row<'_>) -> Self {
        let phase = row.text("status.phase");
        let mut reason = match row.text("status.reason") {
            "" => phase.to_owned(),
            reason => reason.to_owned(),
        };
        let conditions = row.list("status.conditions");
        let condition = |kind: &str| conditions.iter().find(|condition| condition["type"] == kind);
        if condition("PodScheduled").is_some_and(|condition| condition["reason"] == "SchedulingGated") {
            "SchedulingGated".clone_into(&mut reason);
        }

        let init_specs = row.list("spec.initContainers");
        let is_sidecar = |name: &Value| {
            init_specs.iter().any(|container| container["name"] == *name && container["restartPolicy"] == "Always")
        };
        let sidecars = init_specs.iter().filter(|container| container["restartPolicy"] == "Always").count();
        let mut total = row.list("spec.containers").len();
        total += sidecars;
        let (mut ready, mut restarts, mut last_restart) = (0, 0, None);
        let (mut sidecar_restarts, mut last_sidecar_restart) = (0, None);
        let mut initializing = false;
        let finished_at = |status: &Value| age::time(&status["lastState"]["terminated"]["finishedAt"]);

        for (at, status) in row.list("status.initContainerStatuses").iter().enumerate() {
            let count = status["restartCount"].as_i64().unwrap_or_default();
            restarts += count;
            last_restart = last_restart.max(finished_at(status));
            let sidecar = is_sidecar(&status["name"]);
            if sidecar {
                sidecar_restarts += count;
                last_sidecar_restart = last_sidecar_restart.max(finished_at(status));
            }
            let state = &status["state"];
            if state["terminated"]["exitCode"].as_i64() == Some(0) {
                continue;
            }
            if sidecar && status["started"] == true {
                if status["ready"] == true {
                    ready += 1;
                }
                continue;
            }
            reason = match (terminated(state), waiting(state)) {
                (Some(ended), _) => format!("Init:{ended}"),
                (None, waiting) if !waiting.is_empty() && waiting != "PodInitializing" => format!("Init:{waiting}"),
                _ => format!("Init:{at}/{}", init_specs.len()),
            };
            initializing = true;
            break;
        }

        let initialized = condition("Initialized").is_some_and(|condition| condition["status"] == "True");
        if !initializing || initialized {
            (restarts, last_restart) = (sidecar_restarts, last_sidecar_restart);
            let mut running = false;
            for status in row.list("status.containerStatuses").iter().rev() {
                restarts += status["restartCount"].as_i64().unwrap_or_default();
                last_restart = last_restart.max(finished_at(status));
                let state = &status["state"];
                if !waiting(state).is_empty() {
                    waiting(state).clone_into(&mut reason);
                } else if let Some(ended) = terminated(state) {
                    reason = ended;
                } else if status["ready"] == true && state.get("running").is_some() {
                    running = true;
                    ready += 1;
                }
            }
            if reason == "Completed" && running {
                let is_ready = condition("Ready").is_some_and(|condition| condition["status"] == "True");
                if is_ready { "Running" } else { "NotReady" }.clone_into(&mut reason);
            }
        }

        if !row.at("metadata.deletionTimestamp").is_null() {
            if row.text("status.reason") == "NodeLost" {
                "Unknown".clone_into(&mut reason);
            } else if !matches!(phase, "Succeeded" | "Failed") {
                "Terminating".clone_into(&mut reason);
            }
        }
        let restarts = match last_restart {
            Some(then) if restarts > 0 => {
                format!("{restarts} ({} ago)", age::duration(age::seconds(then, row.now)))
            }
            _ => restarts.to_string(),
        };
        Self { ready, total, reason, restarts }
    }
}
