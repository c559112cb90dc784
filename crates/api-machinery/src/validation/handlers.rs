//! What is done in containers while they run: probes and hooks.

// upstream: pkg/apis/core/validation/validation.go validateProbe, validateHandler, validateLifecycle (v1.36)

use klab_cel::names;
use serde_json::{Value, json};

use super::{Errors, Place, container};
use crate::views::{Container, ExecAction, HTTPGetAction, Lifecycle, PodSpec, Probe, SleepAction, TCPSocketAction};

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
pub(super) fn check(spec: PodSpec<'_>, container: &Place<'_, Container<'_>>, errors: &mut Errors) {
    if container.lifecycle().is_set() {
        lifecycle(spec, &container.lifecycle(), errors);
    }
    for (one, is_readiness) in
        [(container.liveness_probe(), false), (container.readiness_probe(), true), (container.startup_probe(), false)]
    {
        if one.is_set() {
            probe(&one, is_readiness, errors);
        }
    }
}

/// A container that ends by itself has none.
pub(super) fn none(container: &Place<'_, Container<'_>>, errors: &mut Errors) {
    let probes = [container.liveness_probe(), container.readiness_probe(), container.startup_probe()];
    for field in std::iter::once(container.lifecycle().cast()).chain(probes).filter(super::place::Place::is_set) {
        errors.forbidden(field, "may not be set for init containers without restartPolicy=Always");
    }
}

fn lifecycle(spec: PodSpec<'_>, lifecycle: &Place<'_, Lifecycle<'_>>, errors: &mut Errors) {
    for hook in [lifecycle.post_start(), lifecycle.pre_stop()].iter().filter(|hook| hook.is_set()) {
        handler(&hook.cast(), &OF_HOOKS, spec.termination_grace_period_seconds(), errors);
    }
    let signal = lifecycle.stop_signal();
    let Some(name) = *signal else { return };
    match spec.os().name() {
        "" => errors.forbidden(signal, "may not be set for containers with empty `spec.os.name`"),
        "windows" => signal.supported(&["SIGKILL", "SIGTERM"], errors),
        "linux" if !is_signal(name) => {
            let all = signals();
            let all: Vec<&str> = all.iter().map(String::as_str).collect();
            errors.unsupported_at(&signal, &all);
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

fn probe(probe: &Place<'_, Probe<'_>>, is_readiness: bool, errors: &mut Errors) {
    handler(&probe.cast(), &OF_PROBES, None, errors);
    probe.initial_delay_seconds().not_negative(errors);
    probe.timeout_seconds().not_negative(errors);
    probe.period_seconds().not_negative(errors);
    probe.success_threshold().not_negative(errors);
    probe.failure_threshold().not_negative(errors);
    let grace = probe.termination_grace_period_seconds();
    if grace.is_some_and(|seconds| seconds <= 0) {
        errors.invalid_at(&grace, "must be greater than 0");
    }
    let successes = probe.success_threshold();
    if is_readiness && grace.is_set() {
        errors.invalid_at(&grace, "must not be set for readinessProbes");
    } else if !is_readiness && successes.is_set() && *successes != 1 {
        errors.invalid_at(&successes, "must be 1");
    }
}

/// One of several ways to do something. `grace` is how long a pod has to end, where that matters.
fn handler(handler: &Place<'_, &Value>, ways: &[&str], grace: Option<i64>, errors: &mut Errors) {
    let mut given = ways.iter().filter(|way| handler.field(way).is_set());
    let Some(way) = given.next() else { return errors.required(handler, "must specify a handler type") };
    let action = handler.field(way);
    match *way {
        "exec" => {
            let action = action.cast::<ExecAction<'_>>();
            action.command().needed(errors);
        }
        "httpGet" => request(&action.cast(), errors),
        "sleep" => {
            let seconds = *action.cast::<SleepAction<'_>>().seconds();
            if let Some(grace) = grace.filter(|grace| !(0..=*grace).contains(&seconds)) {
                let fault = format!("must be non-negative and less than terminationGracePeriodSeconds ({grace})");
                errors.invalid(action, &json!(seconds), fault);
            }
        }
        // Of gRPC it is a number, called alike.
        _ => port(&action.cast::<TCPSocketAction<'_>>().port(), errors),
    }
    for other in given {
        errors.forbidden(handler.field(other), "may not specify more than 1 handler type");
    }
}

fn request(action: &Place<'_, HTTPGetAction<'_>>, errors: &mut Errors) {
    action.path().needed(errors);
    port(&action.port(), errors);
    action.scheme().supported(&["HTTP", "HTTPS"], errors);
    let headers = action.http_headers();
    for header in headers.each() {
        header.name().called(headers.path).check(names::header, errors);
    }
}

/// A port by number or name.
pub(super) fn port(port: &Place<'_, &Value>, errors: &mut Errors) {
    match port.json {
        Value::String(_) => port.check(names::port, errors),
        Value::Null => container::number(&Place::<i64>::new(port.path, &json!(0)), errors),
        _ => container::number(port, errors),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::Path;

    fn faults(container: Value) -> Vec<String> {
        let mut errors = Errors::default();
        let spec = json!({ "terminationGracePeriodSeconds": 30, "os": { "name": "linux" } });
        check(PodSpec(&spec), &Place::new(Path::Root.field("c"), &container), &mut errors);
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
