//! A configuration as a tree: its fields with their paths, and every problem found in it, in the words of Kubernetes.

// upstream: staging/src/k8s.io/apimachinery/pkg/util/validation/field/errors.go Error (v1.36)

use std::cell::RefCell;
use std::fmt;

use serde_json::{Map, Value};

/// Why a configuration cannot be used: every problem found, each with the path of its field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigurationError {
    /// The problems; never empty.
    pub problems: Vec<String>,
}

impl fmt::Display for ConfigurationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.problems.as_slice() {
            [only] => f.write_str(only),
            all => write!(f, "[{}]", all.join(", ")),
        }
    }
}

impl std::error::Error for ConfigurationError {}

/// The problems of a document.
#[derive(Debug, Default)]
pub(super) struct Problems(RefCell<Vec<String>>);

impl Problems {
    pub(super) fn add(&self, problem: String) {
        self.0.borrow_mut().push(problem);
    }

    /// What was read, unless there was a problem.
    pub(super) fn none_or<T>(self, read: T) -> Result<T, ConfigurationError> {
        let problems = self.0.into_inner();
        if problems.is_empty() { Ok(read) } else { Err(ConfigurationError { problems }) }
    }
}

/// The fields of an object. Null is as good as missing.
pub(super) struct Fields<'d> {
    pub(super) path: String,
    map: &'d Map<String, Value>,
    problems: &'d Problems,
}

impl<'d> Fields<'d> {
    /// The fields of a value at a path, of which `known` may be there.
    pub(super) fn of(value: &'d Value, path: &str, known: &[&str], problems: &'d Problems) -> Option<Self> {
        let Some(map) = value.as_object() else {
            problems.add(format!("{path}: expected an object, found {value}"));
            return None;
        };
        let fields = Self { path: path.to_owned(), map, problems };
        for unknown in map.keys().filter(|key| !known.contains(&key.as_str())) {
            let path = fields.at(unknown);
            problems.add(format!("strict decoding error: unknown field \"{path}\""));
        }
        Some(fields)
    }

    /// The path of a field.
    pub(super) fn at(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) }
    }

    /// A field as it is.
    pub(super) fn value(&self, key: &str) -> Option<&'d Value> {
        self.map.get(key).filter(|value| !value.is_null())
    }

    fn read<T>(&self, key: &str, what: &str, read: impl FnOnce(&'d Value) -> Option<T>) -> Option<T> {
        let value = self.value(key)?;
        let found = read(value);
        if found.is_none() {
            self.problems.add(format!("{}: expected {what}, found {value}", self.at(key)));
        }
        found
    }

    pub(super) fn text(&self, key: &str) -> Option<&'d str> {
        self.read(key, "a string", Value::as_str)
    }

    pub(super) fn flag(&self, key: &str) -> Option<bool> {
        self.read(key, "true or false", Value::as_bool)
    }

    /// A duration in Go's form, with its length in milliseconds.
    pub(super) fn duration(&self, key: &str) -> Option<(&'d str, i64)> {
        let text = self.text(key)?;
        let length = go_milliseconds(text);
        if length.is_none() {
            self.problem(format!("{}: time: invalid duration {text:?}", self.at(key)));
        }
        Some((text, length?))
    }

    /// A number of 32 bits, as all are.
    pub(super) fn number(&self, key: &str) -> Option<i64> {
        self.read(key, "an integer of 32 bits", |value| value.as_i64().filter(|n| i32::try_from(*n).is_ok()))
    }

    /// A list with the path of each item; empty if it is missing.
    pub(super) fn list(&self, key: &str) -> Vec<(String, &'d Value)> {
        let items = self.read(key, "a list", Value::as_array).into_iter().flatten().enumerate();
        items.map(|(index, item)| (format!("{}[{index}]", self.at(key)), item)).collect()
    }

    /// The objects of a list.
    pub(super) fn objects(&self, key: &str, known: &[&str]) -> Vec<Self> {
        self.list(key).into_iter().filter_map(|(path, item)| Self::of(item, &path, known, self.problems)).collect()
    }

    /// The texts of a list with the path of each.
    pub(super) fn texts(&self, key: &str) -> Vec<(String, &'d str)> {
        let text = |(path, item): (String, &'d Value)| {
            let text = item.as_str();
            if text.is_none() {
                self.problems.add(format!("{path}: expected a string, found {item}"));
            }
            text.map(|text| (path, text))
        };
        self.list(key).into_iter().filter_map(text).collect()
    }

    /// The fields of an object below.
    pub(super) fn below(&self, key: &str, known: &[&str]) -> Option<Self> {
        Self::of(self.value(key)?, &self.at(key), known, self.problems)
    }

    /// How many problems of the document have been noted.
    pub(super) fn noted(&self) -> usize {
        self.problems.0.borrow().len()
    }

    /// Notes a problem as it is worded.
    pub(super) fn problem(&self, problem: String) {
        self.problems.add(problem);
    }

    /// Notes that a field holds what it may not.
    pub(super) fn invalid(&self, key: &str, value: impl fmt::Display, why: &str) {
        self.problem(format!("{}: Invalid value: {value}: {why}", self.at(key)));
    }

    /// Notes that a field is missing.
    pub(super) fn required(&self, key: &str, why: &str) {
        self.problem(format!("{}: Required value{}{why}", self.at(key), if why.is_empty() { "" } else { ": " }));
    }

    /// Notes that a field holds none of the values there are.
    pub(super) fn unsupported(&self, key: &str, value: &str, supported: &[&str]) {
        let supported: Vec<_> = supported.iter().map(|value| format!("{value:?}")).collect();
        let supported = supported.join(", ");
        self.problem(format!("{}: Unsupported value: {value:?}: supported values: {supported}", self.at(key)));
    }

    /// A number that must be in a range.
    pub(super) fn within(&self, key: &str, least: i64, greatest: i64, why: &str) -> Option<i64> {
        let number = self.number(key)?;
        if number < least || number > greatest {
            self.invalid(key, number, why);
        }
        Some(number)
    }
}

/// Reads `1m30s`, `-1.5h`, `0`.
fn go_milliseconds(text: &str) -> Option<i64> {
    const UNITS: [(&str, f64); 8] =
        [("ns", 1e-6), ("us", 1e-3), ("µs", 1e-3), ("μs", 1e-3), ("ms", 1.0), ("s", 1e3), ("m", 6e4), ("h", 3.6e6)];
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let mut rest = if unsigned == "0" { "0s" } else { unsigned };
    let mut sum = 0.0;
    while !rest.is_empty() || unsigned.is_empty() {
        let (number, behind) = rest.split_at(rest.find(|c: char| !c.is_ascii_digit() && c != '.')?);
        let end = behind.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(behind.len());
        let (unit, behind) = behind.split_at(end);
        let (_, length) = UNITS.iter().find(|(name, _)| *name == unit)?;
        sum += number.parse::<f64>().ok()? * length;
        rest = behind;
    }
    Some(if text.starts_with('-') { -sum } else { sum }.ceil() as i64)
}
