//! What a client is told of an object that is taken all the same.

// upstream: pkg/registry/<group>/<kind>/strategy.go WarningsOnCreate, WarningsOnUpdate (v1.36)

mod addresses;
mod kinds;
mod labels;
mod paths;
mod pod;
mod ports;
mod storage;
mod workloads;

pub(crate) use kinds::{endpoint_slice, resource_slice};
pub(crate) use kinds::{
    endpoints, ingress, network_policy, node, quota, runtime_class, secret, service, service_account,
};
pub(crate) use pod::pod;
pub(crate) use storage::{capacity, claim, class, driver, volume};
pub(crate) use workloads::{
    cron_job, daemon_set, deployment, job, pod_template, replica_set, replication_controller, stateful_set,
};

use serde_json::Value;

use super::names;
use crate::schema::Path;
use klab_scheduler::quantity::Quantity;

/// Texts for the client. None is told twice.
#[derive(Debug, Default)]
pub(crate) struct Warnings(Vec<String>);

impl Warnings {
    fn add(&mut self, text: impl Into<String>) {
        let text = text.into();
        if !self.0.contains(&text) {
            self.0.push(text);
        }
    }

    /// `place: text`.
    fn at(&mut self, place: &Path<'_>, text: &str) {
        self.add(format!("{place}: {text}"));
    }

    /// All of them.
    pub(crate) fn texts(self) -> Vec<String> {
        self.0
    }
}

/// A name that is good for the object, and not for the hosts that are called after it.
fn host_name(object: &Value, of: &str, warnings: &mut Warnings) {
    let faults = names::label(super::field::text(&object["metadata"], "name"));
    if !faults.is_empty() {
        warnings.add(format!(
            "metadata.name: this is used in {of}, which can result in surprising behavior; a DNS label is recommended: [{}]",
            faults.join(" ")
        ));
    }
}

/// A part of a byte.
fn fractional(amount: &Value, place: &Path<'_>, warnings: &mut Warnings) {
    let quantity = amount.as_str().and_then(|text| Quantity::parse(text).ok());
    if let Some(quantity) = quantity.filter(|quantity| quantity.millis() % 1000 != 0) {
        warnings.at(place, &format!("fractional byte value \"{quantity}\" is invalid, must be an integer"));
    }
}

#[cfg(test)]
fn told(warn: fn(Option<&Value>, &Value, &mut Warnings), object: &Value) -> Vec<String> {
    let mut warnings = Warnings::default();
    warn(None, object, &mut warnings);
    warnings.texts()
}
