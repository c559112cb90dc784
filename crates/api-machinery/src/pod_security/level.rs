//! The standards that a namespace's labels ask for: a level, and the version of Kubernetes whose rules it means.

// upstream: staging/src/k8s.io/pod-security-admission/api/helpers.go PolicyToEvaluate, ParseLevel, ParseVersion (v1.36)

use std::fmt;

use serde_json::Value;

const PREFIX: &str = "pod-security.kubernetes.io/";

/// How much pods may do, the freest first.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    #[default]
    Privileged,
    Baseline,
    Restricted,
}

/// A level, by the rules of a version.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Standard {
    pub level: Level,
    /// The minor version; `None` is the latest.
    pub version: Option<u32>,
}

impl fmt::Display for Standard {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self.level {
            Level::Privileged => "privileged:",
            Level::Baseline => "baseline:",
            Level::Restricted => "restricted:",
        })?;
        match self.version {
            Some(minor) => write!(formatter, "v1.{minor}"),
            None => formatter.write_str("latest"),
        }
    }
}

/// What is refused, and what is warned of. (There is no audit log: the level for it is checked and has no effect.)
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Modes {
    pub enforce: Standard,
    pub warn: Standard,
}

/// A label that names no standard: the label, its value, what is wrong.
pub type Fault = (String, String, &'static str);

impl Modes {
    /// What labels ask for. Where they cannot be read, the strictest is enforced, and nothing is warned of.
    pub fn of(labels: &Value) -> (Self, Vec<Fault>) {
        let mut faults = Vec::new();
        let label = |name: &str| labels.get(format!("{PREFIX}{name}")).and_then(Value::as_str);
        let mut level = |name: &str| {
            label(name).map(|text| match text {
                "privileged" => Some(Level::Privileged),
                "baseline" => Some(Level::Baseline),
                "restricted" => Some(Level::Restricted),
                _ => {
                    let fault = "must be one of privileged, baseline, restricted";
                    faults.push((format!("{PREFIX}{name}"), text.to_owned(), fault));
                    None
                }
            })
        };
        let (enforce, _, warn) = (level("enforce"), level("audit"), level("warn"));
        let mut version = |name: &str| {
            label(name).map(|text| {
                let minor = text.strip_prefix("v1.").filter(|minor| *minor == "0" || !minor.starts_with('0'));
                let minor = minor.filter(|minor| minor.bytes().all(|byte| byte.is_ascii_digit()));
                let minor: Option<u32> = minor.and_then(|minor| minor.parse().ok());
                if minor.is_none() && text != "latest" {
                    faults.push((format!("{PREFIX}{name}"), text.to_owned(), "must be \"latest\" or \"v1.x\""));
                }
                minor
            })
        };
        let (enforce_version, _, warn_version) =
            (version("enforce-version"), version("audit-version"), version("warn-version"));
        let order = |label: &str| ["enforce", "audit", "warn"].iter().position(|mode| label.contains(mode));
        faults.sort_by_key(|(label, ..)| order(label));
        let mut modes = Self {
            enforce: Standard {
                level: enforce.map_or(Level::Privileged, |level| level.unwrap_or(Level::Restricted)),
                version: enforce_version.flatten(),
            },
            warn: Standard { level: warn.flatten().unwrap_or_default(), version: warn_version.flatten() },
        };
        // What is enforced is warned of, too, in what makes pods.
        if warn.is_none() && enforce.flatten().is_some() && modes.enforce.level > modes.warn.level {
            modes.warn.level = modes.enforce.level;
            if warn_version.is_none() {
                modes.warn.version = modes.enforce.version;
            }
        }
        (modes, faults)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn standard(level: Level, version: Option<u32>) -> Standard {
        Standard { level, version }
    }

    #[test]
    fn labels_are_read() {
        let cases = [
            (json!(null), Standard::default(), Standard::default()),
            (json!({"enforce": "baseline"}), standard(Level::Baseline, None), standard(Level::Baseline, None)),
            (
                json!({"enforce": "restricted", "enforce-version": "v1.25"}),
                standard(Level::Restricted, Some(25)),
                standard(Level::Restricted, Some(25)),
            ),
            (
                json!({"enforce": "restricted", "warn": "baseline", "warn-version": "v1.0"}),
                standard(Level::Restricted, None),
                standard(Level::Baseline, Some(0)),
            ),
            (json!({"warn": "restricted"}), Standard::default(), standard(Level::Restricted, None)),
        ];
        for (labels, enforce, warn) in cases {
            let full: serde_json::Map<String, Value> = labels
                .as_object()
                .into_iter()
                .flatten()
                .map(|(name, value)| (format!("{PREFIX}{name}"), value.clone()))
                .collect();
            assert_eq!(Modes::of(&full.into()), (Modes { enforce, warn }, vec![]), "{labels}");
        }
    }

    #[test]
    fn what_cannot_be_read_is_named_and_fails_on_the_safe_side() {
        let labels = json!({
            "pod-security.kubernetes.io/enforce": "foo",
            "pod-security.kubernetes.io/enforce-version": "1.25",
            "pod-security.kubernetes.io/audit": "",
            "pod-security.kubernetes.io/warn": "Baseline",
            "pod-security.kubernetes.io/warn-version": "v1.01",
        });
        let (modes, faults) = Modes::of(&labels);
        assert_eq!((modes.enforce.level, modes.warn.level), (Level::Restricted, Level::Privileged));
        let named: Vec<&str> =
            faults.iter().map(|(label, ..)| label.strip_prefix(PREFIX).unwrap_or_default()).collect();
        assert_eq!(named, ["enforce", "enforce-version", "audit", "warn", "warn-version"]);
    }
}
