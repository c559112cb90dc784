//! Probes whose outcome is known without running anything: commands that succeed or fail, files that the container
//! makes and removes, ports where nothing listens. All others succeed.

// upstream: pkg/kubelet/prober/worker.go doProbe (v1.36)

use jiff::SignedDuration;
use klab_api_machinery::views::{self, Container};
use klab_containers::Program;

/// What the probes of a running container have come to, in time since its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Probed {
    /// It has passed its startup probe.
    pub(super) started: bool,
    pub(super) ready: bool,
    /// A probe has it ended: when, which, and the grace period of its own.
    pub(super) killed: Option<(SignedDuration, &'static str, Option<i64>)>,
    /// The first probe that fails: when, which.
    pub(super) complaint: Option<(SignedDuration, &'static str)>,
    /// When any of this changes next.
    pub(super) next: Option<SignedDuration>,
}

/// What the probes of a container have come to after it has run for so long.
pub(super) fn probed(container: Container<'_>, program: &Program, ran: SignedDuration) -> Probed {
    let mut probed = Probed { started: true, ready: true, ..Probed::default() };
    let mut from = Some(SignedDuration::ZERO);
    if container.startup_probe().is_set() {
        let probe = Probe::new(container, "Startup", program);
        let flip = probe.flips(SignedDuration::ZERO, None).into_iter().next();
        probed.note(&probe, SignedDuration::ZERO, ran);
        from = flip.filter(|(_, passed)| *passed).map(|(at, _)| at);
        probed.started = from.is_some_and(|at| at <= ran);
        match flip {
            Some((at, false)) => probed.kill(&probe, at),
            Some((at, true)) if at > ran => probed.wake(at),
            _ => {}
        }
    }
    let Some(from) = from else {
        probed.ready = false;
        return probed;
    };
    if container.readiness_probe().is_set() {
        let probe = Probe::new(container, "Readiness", program);
        let flips = probe.flips(from, Some(false));
        probed.note(&probe, from, ran);
        probed.ready = flips.iter().take_while(|(at, _)| *at <= ran).last().is_some_and(|(_, passed)| *passed);
        if let Some((at, _)) = flips.iter().find(|(at, _)| *at > ran) {
            probed.wake(*at);
        }
    }
    probed.ready &= probed.started;
    if container.liveness_probe().is_set() {
        let probe = Probe::new(container, "Liveness", program);
        probed.note(&probe, from, ran);
        if let Some((at, _)) = probe.flips(from, Some(true)).into_iter().find(|(_, passed)| !passed) {
            probed.kill(&probe, at);
        }
    }
    probed
}

impl Probed {
    fn wake(&mut self, at: SignedDuration) {
        self.next = Some(self.next.map_or(at, |next| next.min(at)));
    }

    fn kill(&mut self, probe: &Probe<'_>, at: SignedDuration) {
        if self.killed.is_none_or(|(earlier, ..)| at < earlier) {
            self.killed = Some((at, probe.kind, probe.spec.termination_grace_period_seconds()));
        }
    }

    fn note(&mut self, probe: &Probe<'_>, from: SignedDuration, ran: SignedDuration) {
        let Some(at) = probe.first_failure(from) else { return };
        if self.complaint.is_none_or(|(earlier, _)| at < earlier) {
            self.complaint = Some((at, probe.kind));
            if at > ran {
                self.wake(at);
            }
        }
    }
}

/// A probe, and what it finds from when on.
struct Probe<'a> {
    spec: views::Probe<'a>,
    kind: &'static str,
    /// Each outcome with the time from which it holds; the first holds from the start.
    outcomes: Vec<(SignedDuration, bool)>,
}

impl<'a> Probe<'a> {
    fn new(container: Container<'a>, kind: &'static str, program: &Program) -> Self {
        let spec = of_kind(container, kind);
        let timeout = SignedDuration::from_secs(or(spec.timeout_seconds(), 1));
        let outcomes = if spec.exec().is_set() {
            program.outcomes(&spec.exec().command().collect::<Vec<_>>(), timeout)
        } else {
            let (http, tcp) = (spec.http_get(), spec.tcp_socket());
            let elsewhere = !http.host().is_empty() || !tcp.host().is_empty();
            let answers = elsewhere || program.listens.at(port(container, spec));
            let asks = answers && !elsewhere && !http.path().is_empty();
            let answers =
                Some(http.path()).filter(|_| asks).and_then(|path| program.answers_at(path)).unwrap_or(answers);
            vec![(SignedDuration::ZERO, answers)]
        };
        Self { spec, kind, outcomes }
    }

    fn period(&self) -> SignedDuration {
        SignedDuration::from_secs(or(self.spec.period_seconds(), 10))
    }

    fn first(&self, from: SignedDuration) -> SignedDuration {
        from.max(SignedDuration::from_secs(self.spec.initial_delay_seconds().max(0)))
    }

    /// The outcomes, each with its first time of asking and the number of times.
    fn asked(&self, from: SignedDuration) -> impl Iterator<Item = (SignedDuration, i128, bool)> + '_ {
        let (period, mut at) = (self.period(), self.first(from));
        self.outcomes.iter().enumerate().filter_map(move |(index, (_, outcome))| {
            let times = match self.outcomes.get(index + 1) {
                Some((end, _)) if *end <= at => 0,
                Some((end, _)) => (end.saturating_sub(at).as_millis() - 1) / period.as_millis() + 1,
                None => i128::MAX,
            };
            let begun = at;
            at = after(at, period, times);
            (times > 0).then_some((begun, times, *outcome))
        })
    }

    fn first_failure(&self, from: SignedDuration) -> Option<SignedDuration> {
        self.asked(from).find(|(.., outcome)| !outcome).map(|(at, ..)| at)
    }

    /// When its verdict changes, and to what; `verdict` is what holds before anything was asked.
    fn flips(&self, from: SignedDuration, mut verdict: Option<bool>) -> Vec<(SignedDuration, bool)> {
        let (mut streak, mut last, mut flips) = (0_i128, None, Vec::new());
        for (at, times, outcome) in self.asked(from) {
            if last != Some(outcome) {
                streak = 0;
            }
            let (success, failure) = (or(self.spec.success_threshold(), 1), or(self.spec.failure_threshold(), 3));
            let threshold = if outcome { success } else { failure };
            let left = i128::from(threshold) - streak;
            if verdict != Some(outcome) && left <= times {
                verdict = Some(outcome);
                flips.push((after(at, self.period(), (left - 1).max(0)), outcome));
            }
            streak = streak.saturating_add(times);
            last = Some(outcome);
        }
        flips
    }
}

/// What is said of a probe of that kind that fails, for a pod at that address.
// upstream: pkg/probe/http/http.go DoHTTPProbe, pkg/probe/tcp/tcp.go DoTCPProbe (v1.36)
pub(super) fn complaint(container: Container<'_>, kind: &str, address: &str, program: &Program) -> String {
    let spec = of_kind(container, kind);
    let asked = port(container, spec);
    let port = asked.unwrap_or_default();
    let refused = format!("dial tcp {address}:{port}: connect: connection refused");
    let http = spec.http_get();
    let reason = if http.is_set() && program.listens.at(asked) {
        // It answers that it has no such page.
        "HTTP probe failed with statuscode: 404".to_owned()
    } else if spec.grpc().is_set() {
        let within = or(spec.timeout_seconds(), 1);
        format!("timeout: failed to connect service \"{address}:{port}\" within {within}s: context deadline exceeded")
    } else if http.is_set() {
        let scheme = if http.scheme().is_empty() { "http".to_owned() } else { http.scheme().to_lowercase() };
        let slash = if http.path().starts_with('/') { "" } else { "/" };
        format!("Get \"{scheme}://{address}:{port}{slash}{}\": {refused}", http.path())
    } else if spec.tcp_socket().is_set() {
        refused
    } else {
        String::new()
    };
    format!("{kind} probe failed: {reason}")
}

fn of_kind<'a>(container: Container<'a>, kind: &str) -> views::Probe<'a> {
    match kind {
        "Startup" => container.startup_probe(),
        "Readiness" => container.readiness_probe(),
        _ => container.liveness_probe(),
    }
}

/// The port that a probe asks, by its number or the name that the container gives it.
fn port(container: Container<'_>, probe: views::Probe<'_>) -> Option<i64> {
    if probe.grpc().is_set() {
        return Some(probe.grpc().port());
    }
    let port = if probe.http_get().is_set() { probe.http_get().port() } else { probe.tcp_socket().port() };
    port.as_i64().or_else(|| Some(container.ports().named(port.as_str()?)?.container_port()))
}

fn after(at: SignedDuration, period: SignedDuration, times: i128) -> SignedDuration {
    let times = i32::try_from(times).unwrap_or(i32::MAX);
    at.saturating_add(period.saturating_mul(times))
}

fn or(number: i64, otherwise: i64) -> i64 {
    if number > 0 { number } else { otherwise }
}

#[cfg(test)]
mod tests {
    use klab_containers::{Containers, Simulated};
    use serde_json::{Value, json};

    use super::*;

    fn after_seconds(container: &Value, seconds: i64) -> Probed {
        let of = klab_containers::Container { objects: None, pod: &json!({}), container };
        let program = Simulated.program(of, None, None, None);
        probed(Container(container), &program, SignedDuration::from_secs(seconds))
    }

    fn seconds(seconds: i64) -> SignedDuration {
        SignedDuration::from_secs(seconds)
    }

    #[test]
    fn readiness_comes_after_the_initial_delay_and_the_threshold() {
        let probe =
            json!({ "httpGet": { "port": 80 }, "initialDelaySeconds": 15, "successThreshold": 2, "periodSeconds": 5 });
        let container = json!({ "image": "nginx", "readinessProbe": probe });
        let before = after_seconds(&container, 19);
        assert_eq!((before.ready, before.next), (false, Some(seconds(20))));
        let after = after_seconds(&container, 20);
        assert_eq!((after.ready, after.next, after.complaint), (true, None, None));
        let pause = json!({ "image": "pause", "readinessProbe": probe });
        assert_eq!(
            (after_seconds(&pause, 900).ready, after_seconds(&pause, 900).complaint),
            (false, Some((seconds(15), "Readiness")))
        );
    }

    #[test]
    fn files_of_the_container_are_what_commands_find() {
        let container = json!({
            "command": ["/bin/sh", "-c", "touch /tmp/healthy; sleep 30; rm -f /tmp/healthy; sleep 600"],
            "livenessProbe": { "exec": { "command": ["cat", "/tmp/healthy"] }, "initialDelaySeconds": 5, "periodSeconds": 5 },
            "readinessProbe": { "exec": { "command": ["sh", "-c", "test -f /tmp/healthy"] }, "failureThreshold": 1 },
        });
        let early = after_seconds(&container, 10);
        assert!(early.ready && early.started);
        assert_eq!(early.killed, Some((seconds(40), "Liveness", None)));
        assert_eq!(early.complaint, Some((seconds(30), "Readiness")));
        assert!(!after_seconds(&container, 30).ready);
    }

    #[test]
    fn commands_of_probes_are_followed_as_long_as_files_change_seldom() {
        let container = |times: u32, probe: &[&str]| {
            let script =
                format!("i=0; while [ $i -lt {times} ]; do touch /tmp/f$i; sleep 1; i=$((i + 1)); done; sleep 9999");
            json!({
                "image": "busybox", "command": ["sh", "-c", script],
                "readinessProbe": { "exec": { "command": probe }, "periodSeconds": 1 },
            })
        };
        let few = container(100, &["sh", "-c", "[ ! -e /tmp/f60 ]"]);
        assert!(after_seconds(&few, 59).ready && !after_seconds(&few, 63).ready);
        let many = container(180, &["cat", "/tmp/f150"]);
        assert!(!after_seconds(&many, 149).ready && after_seconds(&many, 150).ready);
        let elsewhere = json!({ "image": "busybox", "command": ["sleep", "9999"],
            "readinessProbe": { "exec": { "command": ["cat", "/tmp/ready"] } } });
        assert!(!after_seconds(&elsewhere, 900).ready, "nobody has made it");
    }

    #[test]
    fn nothing_is_asked_before_the_startup_probe_has_passed() {
        let container = |command: &[&str]| {
            json!({
                "image": "nginx", "readinessProbe": { "exec": { "command": ["true"] } },
                "startupProbe": { "exec": { "command": command }, "initialDelaySeconds": 60, "failureThreshold": 2,
                    "terminationGracePeriodSeconds": 3 },
            })
        };
        let passes = container(&["true"]);
        assert!(!after_seconds(&passes, 59).started && after_seconds(&passes, 60).ready);
        let fails = after_seconds(&container(&["false"]), 0);
        assert_eq!(fails.killed, Some((seconds(70), "Startup", Some(3))));
        assert!(!fails.ready && !fails.started);
        assert_eq!(
            after_seconds(&container(&["sleep", "5"]), 0).killed.map(|(at, ..)| at),
            Some(seconds(70)),
            "too slow"
        );
    }

    #[test]
    fn extreme_numbers_are_counted_at_once() {
        let most = i64::from(i32::MAX);
        let container = json!({
            "command": ["sh", "-c", "touch /a; sleep 99999999999; rm /a"],
            "livenessProbe": { "exec": { "command": ["cat", "/a"] }, "failureThreshold": most, "periodSeconds": most,
                "initialDelaySeconds": most },
        });
        assert!(after_seconds(&container, most).killed.is_some());
    }
}
