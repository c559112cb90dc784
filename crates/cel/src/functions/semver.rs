//! Versions: `semver('1.2.3').isLessThan(semver('2.0.0'))`.
//!
//! // upstream: apiserver pkg/cel/library/semverlib.go

use std::cmp::Ordering;
use std::sync::Arc;

use super::outcome::Outcome;
use super::quantity::order;
use crate::value::{Opaque, Value};

#[derive(Debug, Clone, PartialEq, Eq)]
struct Version {
    numbers: [u64; 3],
    pre: Vec<String>,
    build: String,
}

/// Functions that make versions; `None` where it is none of them.
pub(super) fn call(function: &str, values: &[Value]) -> Option<Outcome> {
    let (text, normalise) = match values {
        [Value::String(text)] => (text, false),
        [Value::String(text), Value::Bool(normalise)] => (text, *normalise),
        _ => return None,
    };
    let given = if normalise { normalised(text) } else { text.to_string() };
    Some(match function {
        "semver" => version(&given),
        "isSemver" => Ok(Value::Bool(parse(&given).is_some())),
        _ => return None,
    })
}

/// A version as a value.
pub(crate) fn version(text: &str) -> Outcome {
    parse(text)
        .map(|version| Value::Opaque(Arc::new(version) as Arc<dyn Opaque>))
        .ok_or_else(|| format!("Invalid character(s) found in version number {text:?}"))
}

fn parse(text: &str) -> Option<Version> {
    let (text, build) = text.split_once('+').unwrap_or((text, ""));
    let (core, pre) = text.split_once('-').map_or((text, None), |(core, pre)| (core, Some(pre)));
    let mut numbers = [0; 3];
    let parts: Vec<&str> = core.split('.').collect();
    if parts.len() != 3 {
        return None;
    }
    for (number, part) in numbers.iter_mut().zip(parts) {
        let good = part.bytes().all(|byte| byte.is_ascii_digit()) && (part == "0" || !part.starts_with('0'));
        *number = part.parse().ok().filter(|_| good)?;
    }
    let identifiers = |text: &str| -> Option<Vec<String>> {
        text.split('.')
            .map(|part| {
                let good = !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
                good.then(|| part.to_owned())
            })
            .collect()
    };
    let pre = match pre {
        Some(pre) => identifiers(pre)?,
        None => Vec::new(),
    };
    if !build.is_empty() {
        identifiers(build)?;
    }
    Some(Version { numbers, pre, build: build.to_owned() })
}

/// Without a leading `v`, without leading zeros, with three numbers.
fn normalised(text: &str) -> String {
    let text = text.trim_start_matches('v');
    let end = text.find(['-', '+']).unwrap_or(text.len());
    let (core, rest) = text.split_at_checked(end).unwrap_or((text, ""));
    let mut parts: Vec<String> = core
        .split('.')
        .map(|part| match part.trim_start_matches('0') {
            "" if !part.is_empty() => "0".to_owned(),
            trimmed => trimmed.to_owned(),
        })
        .collect();
    while parts.len() < 3 {
        parts.push("0".to_owned());
    }
    format!("{}{rest}", parts.join("."))
}

impl Version {
    fn compare(&self, other: &Self) -> Ordering {
        self.numbers.cmp(&other.numbers).then_with(|| match (self.pre.is_empty(), other.pre.is_empty()) {
            (true, true) => Ordering::Equal,
            (true, false) => Ordering::Greater,
            (false, true) => Ordering::Less,
            (false, false) => {
                for (one, two) in self.pre.iter().zip(&other.pre) {
                    let order = match (one.parse::<u64>(), two.parse::<u64>()) {
                        (Ok(one), Ok(two)) => one.cmp(&two),
                        (Ok(_), Err(_)) => Ordering::Less,
                        (Err(_), Ok(_)) => Ordering::Greater,
                        (Err(_), Err(_)) => one.cmp(two),
                    };
                    if order != Ordering::Equal {
                        return order;
                    }
                }
                self.pre.len().cmp(&other.pre.len())
            }
        })
    }
}

impl Opaque for Version {
    fn type_name(&self) -> &'static str {
        "kubernetes.Semver"
    }

    fn text(&self) -> String {
        let [major, minor, patch] = self.numbers;
        let mut text = format!("{major}.{minor}.{patch}");
        if !self.pre.is_empty() {
            text.push('-');
            text.push_str(&self.pre.join("."));
        }
        if !self.build.is_empty() {
            text.push('+');
            text.push_str(&self.build);
        }
        text
    }

    fn equals(&self, other: &dyn Opaque) -> bool {
        other.type_name() == self.type_name()
            && parse(&other.text()).is_some_and(|other| self.compare(&other) == Ordering::Equal)
    }

    fn call(&self, function: &str, arguments: &[Value]) -> Option<Outcome> {
        let other = match arguments {
            [Value::Opaque(opaque)] => parse(&opaque.text()),
            _ => None,
        };
        let number = |at: usize| Value::Int(self.numbers.get(at).map_or(0, |number| *number as i64));
        Some(Ok(match function {
            "isGreaterThan" => Value::Bool(self.compare(&other?) == Ordering::Greater),
            "isLessThan" => Value::Bool(self.compare(&other?) == Ordering::Less),
            "compareTo" => Value::Int(order(self.compare(&other?))),
            "major" => number(0),
            "minor" => number(1),
            "patch" => number(2),
            _ => return None,
        }))
    }
}
