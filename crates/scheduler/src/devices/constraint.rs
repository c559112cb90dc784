//! Constraints of a claim over its devices: all have the same value of an attribute, or each another one.

// upstream: staging/src/k8s.io/dynamic-resource-allocation/structured/internal/incubating/allocator_incubating.go
// matchAttributeConstraint; constraint.go distinctAttributeConstraint (v1.36)

use std::collections::BTreeMap;

use k8s_openapi::api::resource::v1::{DeviceAttribute, DeviceConstraint};

use super::slice::Device;

/// Whose device it is, as constraints name it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Taker<'a> {
    pub(crate) request: &'a str,
    /// The alternative's name.
    pub(crate) choice: Option<&'a str>,
}

/// The value of an attribute; those of unknown kinds equal nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Value {
    Text(String),
    Number(i64),
    Flag(bool),
    Version(String),
    Unknown,
}

impl Value {
    fn of(attribute: &DeviceAttribute) -> Self {
        match attribute {
            DeviceAttribute { string: Some(text), .. } => Self::Text(text.clone()),
            DeviceAttribute { int: Some(number), .. } => Self::Number(*number),
            DeviceAttribute { bool: Some(flag), .. } => Self::Flag(*flag),
            DeviceAttribute { version: Some(version), .. } => Self::Version(version.clone()),
            _ => Self::Unknown,
        }
    }
}

#[derive(Debug)]
enum Rule {
    /// All have this value, once there is one.
    Same(Option<Value>),
    /// None has a value of another, by request.
    Distinct(BTreeMap<String, Value>),
}

/// A constraint and what was taken under it so far.
#[derive(Debug)]
pub(crate) struct Constraint<'a> {
    /// The requests it is about; all if there are none.
    requests: &'a [String],
    attribute: &'a str,
    rule: Rule,
    devices: usize,
}

impl<'a> Constraint<'a> {
    /// `None` for one of a kind that this scheduler does not know.
    pub(crate) fn of(constraint: &'a DeviceConstraint) -> Option<Self> {
        let (attribute, rule) = match (&constraint.match_attribute, &constraint.distinct_attribute) {
            (Some(attribute), _) => (attribute, Rule::Same(None)),
            (None, Some(attribute)) => (attribute, Rule::Distinct(BTreeMap::new())),
            (None, None) => return None,
        };
        Some(Self { requests: constraint.requests.as_deref().unwrap_or_default(), attribute, rule, devices: 0 })
    }

    fn concerns(&self, taker: Taker<'_>) -> bool {
        concerns(self.requests, taker)
    }

    /// Takes a device; false if that breaks the constraint, and then nothing changed.
    pub(crate) fn add(&mut self, taker: Taker<'_>, driver: &str, device: &Device) -> bool {
        if !self.concerns(taker) {
            return true;
        }
        let Some(value) = lookup(device, driver, self.attribute).map(Value::of) else { return false };
        let first = self.devices == 0;
        match &mut self.rule {
            Rule::Same(common) if first => *common = Some(value),
            Rule::Same(common) => {
                if value == Value::Unknown || common.as_ref() != Some(&value) {
                    return false;
                }
            }
            Rule::Distinct(values) => {
                if !first && (value == Value::Unknown || values.values().any(|other| *other == value)) {
                    return false;
                }
                values.insert(taker.request.to_owned(), value);
            }
        }
        self.devices += 1;
        true
    }

    /// Gives back a device that was taken.
    pub(crate) fn remove(&mut self, taker: Taker<'_>) {
        if self.concerns(taker) {
            if let Rule::Distinct(values) = &mut self.rule {
                values.remove(taker.request);
            }
            self.devices = self.devices.saturating_sub(1);
        }
    }
}

fn concerns(requests: &[String], taker: Taker<'_>) -> bool {
    let names = |reference: &String| match (reference.split_once('/'), taker.choice) {
        (None, _) => reference == taker.request,
        (Some((request, choice)), Some(own)) => request == taker.request && choice == own,
        (Some(_), None) => false,
    };
    requests.is_empty() || requests.iter().any(names)
}

/// Whether a constraint about these requests is about a request, or about this alternative of it.
pub(crate) fn named(requests: &[String], request: &str, choice: &str) -> bool {
    concerns(requests, Taker { request, choice: (request != choice).then_some(choice) })
}

/// The value of an attribute by its full name, in words.
pub(crate) fn value_of(device: &Device, driver: &str, attribute: &str) -> Option<String> {
    Some(match Value::of(lookup(device, driver, attribute)?) {
        Value::Text(text) | Value::Version(text) => text,
        Value::Number(number) => number.to_string(),
        Value::Flag(flag) => flag.to_string(),
        Value::Unknown => "of an unknown kind".to_owned(),
    })
}

/// An attribute by its full name; names without a domain are of the driver's.
fn lookup<'a>(device: &'a Device, driver: &str, attribute: &str) -> Option<&'a DeviceAttribute> {
    device.attributes.get(attribute).or_else(|| {
        let (domain, name) = attribute.split_once('/')?;
        if domain == driver { device.attributes.get(name) } else { None }
    })
}
