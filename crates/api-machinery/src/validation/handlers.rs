//! What is done in containers while they run: probes and hooks.

// upstream: pkg/apis/core/validation/validation.go validateProbe, validateHandler, validateLifecycle (v1.36)

use klab_cel::names;
use serde_json::{Value, json};

use super::field::{entries, not_negative, supported, text};
use super::{Errors, container};
use crate::schema::Path;

const PROBES: [&str; 3] = ["livenessProbe", "readinessProbe", "startupProbe"];
const OF_PROBES: [&str; 4] = ["exec", "httpGet", "tcpSocket", "grpc"];
const OF_HOOKS: [&str; 4] = ["exec", "httpGet", "tcpSocket", "sleep"];
/// Signals that a Linux container is stopped with, without the numbered ones.
const SIGNALS: [&str; 36] = [
    "SIGABRT",
    "SIGALRM",
    "SIGBUS",
    "SIGCHLD",
    "SIGCLD",
    "SIGCONT",
    "SIGFPE",
    "SIGHUP",
    "SIGILL",
    "SIGINT",
    "SIGIO",
    "SIGIOT",
    "SIGKILL",
    "SIGPIPE",
    "SIGPOLL",
    "SIGPROF",
    "SIGPWR",
    "SIGQUIT",
    "SIGRTMAX",
    "SIGRTMIN",
    "SIGSEGV",
    "SIGSTKFLT",
    "SIGSTOP",
    "SIGSYS",
    "SIGTERM",
    "SIGTRAP",
    "SIGTSTP",
    "SIGTTIN",
    "SIGTTOU",
    "SIGURG",
    "SIGUSR1",
    "SIGUSR2",
    "SIGVTALRM",
    "SIGWINCH",
    "SIGXCPU",
    "SIGXFSZ",
];

/// The probes and hooks of a container that goes on.
pub(super) fn check(spec: &Value, container: &Value, path: &Path<'_>, errors: &mut Errors) {
    if container["lifecycle"].is_object() {
        lifecycle(spec, &container["lifecycle"], &path.field("lifecycle"), errors);
    }
    for kind in PROBES {
        if container[kind].is_object() {
            probe(&container[kind], &path.field(kind), kind, errors);
        }
    }
}

/// A container that ends by itself has none.
pub(super) fn none(container: &Value, path: &Path<'_>, errors: &mut Errors) {
    for field in std::iter::once("lifecycle").chain(PROBES) {
        if container[field].is_object() {
            errors.forbidden(path.field(field), "may not be set for init containers without restartPolicy=Always");
        }
    }
}

fn lifecycle(spec: &Value, lifecycle: &Value, path: &Path<'_>, errors: &mut Errors) {
    for hook in ["postStart", "preStop"] {
        if lifecycle[hook].is_object() {
            handler(&lifecycle[hook], &OF_HOOKS, &spec["terminationGracePeriodSeconds"], &path.field(hook), errors);
        }
    }
    let signal = &lifecycle["stopSignal"];
    let path = path.field("stopSignal");
    let Some(name) = signal.as_str() else { return };
    match spec["os"]["name"].as_str() {
        None => errors.forbidden(path, "may not be set for containers with empty `spec.os.name`"),
        Some("windows") => supported(signal, &path, &["SIGKILL", "SIGTERM"], errors),
        Some("linux") if !is_signal(name) => {
            let all = signals();
            let all: Vec<&str> = all.iter().map(String::as_str).collect();
            errors.unsupported(path, signal, &all);
        }
        _ => {}
    }
}

fn is_signal(name: &str) -> bool {
    signals().iter().any(|known| known == name)
}

fn signals() -> Vec<String> {
    let named = SIGNALS.iter().map(|name| (*name).to_owned());
    let from_first = (1..=15).map(|number| format!("SIGRTMIN+{number}"));
    let from_last = (1..=14).map(|number| format!("SIGRTMAX-{number}"));
    let mut all: Vec<String> = named.chain(from_first).chain(from_last).collect();
    all.sort_unstable();
    all
}

fn probe(probe: &Value, path: &Path<'_>, kind: &str, errors: &mut Errors) {
    handler(probe, &OF_PROBES, &Value::Null, path, errors);
    for field in ["initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"] {
        not_negative(&probe[field], &path.field(field), errors);
    }
    let grace = &probe["terminationGracePeriodSeconds"];
    let grace_path = path.field("terminationGracePeriodSeconds");
    if grace.as_i64().is_some_and(|seconds| seconds <= 0) {
        errors.invalid(grace_path, grace, "must be greater than 0");
    }
    if kind == "readinessProbe" {
        if !grace.is_null() {
            errors.invalid(grace_path, grace, "must not be set for readinessProbes");
        }
    } else if probe["successThreshold"].as_i64().is_some_and(|count| count != 1) {
        errors.invalid(path.field("successThreshold"), &probe["successThreshold"], "must be 1");
    }
}

/// One of several ways to do something. `grace` is how long a pod has to end, where that matters.
fn handler(handler: &Value, ways: &[&str], grace: &Value, path: &Path<'_>, errors: &mut Errors) {
    let mut given = ways.iter().filter(|way| handler[**way].is_object());
    let Some(way) = given.next() else { return errors.required(path, "must specify a handler type") };
    let (action, place) = (&handler[*way], path.field(way));
    match *way {
        "exec" => {
            if entries(action, "command").next().is_none() {
                errors.required(place.field("command"), "");
            }
        }
        "httpGet" => request(action, &place, errors),
        "sleep" => {
            let seconds = action["seconds"].as_i64().unwrap_or_default();
            if let Some(grace) = grace.as_i64().filter(|grace| !(0..=*grace).contains(&seconds)) {
                let fault = format!("must be non-negative and less than terminationGracePeriodSeconds ({grace})");
                errors.invalid(place, &json!(seconds), fault);
            }
        }
        _ => port(&action["port"], &place.field("port"), errors),
    }
    for other in given {
        errors.forbidden(path.field(other), "may not specify more than 1 handler type");
    }
}

fn request(action: &Value, path: &Path<'_>, errors: &mut Errors) {
    if text(action, "path").is_empty() {
        errors.required(path.field("path"), "");
    }
    port(&action["port"], &path.field("port"), errors);
    supported(&action["scheme"], &path.field("scheme"), &["HTTP", "HTTPS"], errors);
    for (_, header) in entries(action, "httpHeaders") {
        for fault in names::header(text(header, "name")) {
            errors.invalid(path.field("httpHeaders"), &json!(text(header, "name")), fault);
        }
    }
}

/// A port by number or name.
pub(super) fn port(value: &Value, path: &Path<'_>, errors: &mut Errors) {
    match value {
        Value::String(name) => {
            for fault in names::port(name) {
                errors.invalid(path, value, fault);
            }
        }
        Value::Null => container::number(&json!(0), path, errors),
        _ => container::number(value, path, errors),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(container: Value) -> Vec<String> {
        let mut errors = Errors::default();
        let spec = json!({ "terminationGracePeriodSeconds": 30, "os": { "name": "linux" } });
        check(&spec, &container, &Path::Root.field("c"), &mut errors);
        errors.texts()
    }

    #[test]
    fn handlers_say_what_they_do() {
        for (handler, wanted) in [
            (json!({ "exec": { "command": ["echo"] } }), vec![]),
            (
                json!({ "httpGet": { "path": "/", "port": "http-1", "scheme": "HTTPS", "httpHeaders": [{ "name": "X-A" }] } }),
                vec![],
            ),
            (json!({ "sleep": { "seconds": 0 } }), vec![]),
            (json!({}), vec![": Required value: must specify a handler type"]),
            (json!({ "exec": { "command": [] } }), vec![".exec.command: Required value"]),
            (
                json!({ "httpGet": { "path": "", "port": 0, "scheme": "FTP", "httpHeaders": [{ "name": "a b" }] } }),
                vec![
                    ".httpGet.path: Required value",
                    ".httpGet.port: Invalid value: 0: must be between 1 and 65535, inclusive",
                    ".httpGet.scheme: Unsupported value: \"FTP\": supported values: \"HTTP\", \"HTTPS\"",
                    ".httpGet.httpHeaders: Invalid value: \"a b\": a valid HTTP header must consist of alphanumeric characters or '-' (e.g. 'X-Header-Name', regex used for validation is '[-A-Za-z0-9]+')",
                ],
            ),
            (
                json!({ "tcpSocket": { "port": "A" } }),
                vec![
                    ".tcpSocket.port: Invalid value: \"A\": must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)",
                    ".tcpSocket.port: Invalid value: \"A\": must contain at least one letter (a-z)",
                ],
            ),
            (
                json!({ "sleep": { "seconds": 31 } }),
                vec![
                    ".sleep: Invalid value: 31: must be non-negative and less than terminationGracePeriodSeconds (30)",
                ],
            ),
            (
                json!({ "exec": { "command": ["a"] }, "sleep": { "seconds": 90 } }),
                vec![".sleep: Forbidden: may not specify more than 1 handler type"],
            ),
        ] {
            let wanted: Vec<String> = wanted.iter().map(|fault| format!("c.lifecycle.preStop{fault}")).collect();
            assert_eq!(faults(json!({ "lifecycle": { "preStop": handler } })), wanted, "{handler}");
        }
        let probe = json!({ "readinessProbe": { "grpc": { "port": 70000 }, "terminationGracePeriodSeconds": 0 } });
        assert_eq!(
            faults(probe),
            [
                "c.readinessProbe.grpc.port: Invalid value: 70000: must be between 1 and 65535, inclusive",
                "c.readinessProbe.terminationGracePeriodSeconds: Invalid value: 0: must be greater than 0",
                "c.readinessProbe.terminationGracePeriodSeconds: Invalid value: 0: must not be set for readinessProbes",
            ]
        );
    }

    #[test]
    fn containers_stop_with_signals_of_their_system() {
        assert_eq!(signals().len(), 65);
        assert_eq!(faults(json!({ "lifecycle": { "stopSignal": "SIGRTMAX-14" } })), [""; 0]);
        let wrong = faults(json!({ "lifecycle": { "stopSignal": "SIGNOT" } }));
        assert!(
            wrong[0]
                .starts_with("c.lifecycle.stopSignal: Unsupported value: \"SIGNOT\": supported values: \"SIGABRT\"")
        );
    }
}
