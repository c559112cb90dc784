//! Programs of Kubernetes' image for tests that are well for a while, as probes see it.

// upstream: test/images/agnhost/{liveness,grpc-health-checking} (v1.36)

use jiff::SignedDuration;
use serde_json::Value;

use super::servers::{agnhost, number};

/// How long `liveness` is well.
const ALIVE: SignedDuration = SignedDuration::from_secs(10);
/// It is no longer well after that time, not at it.
const A_MOMENT: SignedDuration = SignedDuration::from_millis(1);

/// A program that says how it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Health {
    pub(super) ports: Vec<u16>,
    is_http: bool,
    /// None: for ever.
    well_for: Option<SignedDuration>,
}

/// Whether it answers well, each with the time from which that holds.
type Outcomes = Vec<(SignedDuration, bool)>;

impl Health {
    /// That of a container's program, where its image and words say it.
    pub(super) fn of(container: &Value) -> Option<Self> {
        let words = agnhost(container)?;
        let (program, flags) = words.split_first()?;
        match *program {
            "liveness" => {
                Some(Self { ports: vec![8080], is_http: true, well_for: Some(ALIVE.saturating_add(A_MOMENT)) })
            }
            "grpc-health-checking" => {
                let port = |name: &str, otherwise: i64| u16::try_from(number(flags, name).unwrap_or(otherwise)).ok();
                let seconds = number(flags, "delay-unhealthy-sec").filter(|seconds| *seconds >= 0);
                let well_for = seconds.map(SignedDuration::from_secs);
                let ports = vec![port("port", 5000)?, port("http-port", 8080)?];
                Some(Self { ports, is_http: false, well_for })
            }
            _ => None,
        }
    }

    /// What a GET of this path comes to; none where that is not known.
    pub(crate) fn http(&self, path: &str) -> Option<Outcomes> {
        if !self.is_http {
            return None;
        }
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        match path {
            "/started" => Some(vec![(SignedDuration::ZERO, true)]),
            "/healthz" => Some(self.outcomes()),
            "/redirect" => {
                let (_, to) = form_urlencoded::parse(query.as_bytes()).find(|(name, _)| name == "loc")?;
                // A probe follows within the host, and takes being led elsewhere for an answer.
                if to.starts_with('/') && to != "/redirect" {
                    self.http(&to)
                } else {
                    Some(vec![(SignedDuration::ZERO, true)])
                }
            }
            _ => Some(vec![(SignedDuration::ZERO, false)]),
        }
    }

    /// What it says of itself.
    pub(crate) fn outcomes(&self) -> Outcomes {
        let end = self.well_for.filter(|end| *end > SignedDuration::ZERO);
        match (self.well_for, end) {
            (Some(_), None) => vec![(SignedDuration::ZERO, false)],
            (_, end) => [(SignedDuration::ZERO, true)].into_iter().chain(end.map(|end| (end, false))).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_probes_hear() {
        let of = |words: &[&str]| Health::of(&json!({ "image": "k8s/agnhost:2", "args": words }));
        let (now, then) = (SignedDuration::ZERO, ALIVE.saturating_add(A_MOMENT));
        let liveness = of(&["liveness"]).unwrap();
        for (path, expected) in [
            ("/healthz", vec![(now, true), (then, false)]),
            ("/started", vec![(now, true)]),
            ("/redirect?loc=%2Fhealthz", vec![(now, true), (then, false)]),
            ("/redirect?loc=http%3A%2F%2F0.0.0.0%2F", vec![(now, true)]),
            ("/else", vec![(now, false)]),
        ] {
            assert_eq!(liveness.http(path), Some(expected), "{path}");
        }
        let grpc = |words: &[&str]| of(words).unwrap().outcomes();
        assert_eq!(grpc(&["grpc-health-checking"]), [(now, true)]);
        let five = SignedDuration::from_secs(5);
        assert_eq!(
            grpc(&["/agnhost", "grpc-health-checking", "--delay-unhealthy-sec=5"]),
            [(now, true), (five, false)]
        );
        assert_eq!(grpc(&["grpc-health-checking", "--delay-unhealthy-sec", "0"]), [(now, false)]);
        assert_eq!(of(&["netexec"]), None);
        assert_eq!(Health::of(&json!({ "image": "nginx", "args": ["liveness"] })), None);
    }
}
