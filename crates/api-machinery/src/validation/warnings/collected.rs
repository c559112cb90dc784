//! The warnings about an object, each once, and those that several kinds share.

use std::collections::HashSet;

use klab_cel::names;
use serde_json::Value;

use super::super::field;
use crate::schema::Path;
use crate::work;
use klab_scheduler::quantity::Quantity;

/// Texts for the client, each once. After [`Warnings::MAX`] of them others are dropped.
#[derive(Debug, Default)]
pub struct Warnings {
    texts: Vec<String>,
    seen: HashSet<String>,
}

impl Warnings {
    /// More do not fit into the headers of an answer.
    pub const MAX: usize = 100;

    /// A text.
    pub fn add(&mut self, text: impl Into<String>) {
        work::step();
        let text = text.into();
        if !self.is_full() && self.seen.insert(text.clone()) {
            self.texts.push(text);
        }
    }

    /// Whether others are dropped.
    pub fn is_full(&self) -> bool {
        self.texts.len() >= Self::MAX
    }

    /// `place: text`.
    pub fn at(&mut self, place: &Path<'_>, text: &str) {
        self.add(format!("{place}: {text}"));
    }

    /// All of them.
    pub fn texts(self) -> Vec<String> {
        self.texts
    }
}

/// A name that is good for the object, and not for the hosts that are called after it.
pub(super) fn host_name(object: &Value, of: &str, warnings: &mut Warnings) {
    let faults = names::label(field::text(&object["metadata"], "name"));
    if !faults.is_empty() {
        warnings.add(format!(
            "metadata.name: this is used in {of}, which can result in surprising behavior; a DNS label is recommended: [{}]",
            faults.join(" ")
        ));
    }
}

/// A part of a byte.
pub(super) fn fractional(amount: &Value, place: &Path<'_>, warnings: &mut Warnings) {
    let quantity = amount.as_str().and_then(|text| Quantity::parse(text).ok());
    if let Some(quantity) = quantity.filter(|quantity| quantity.millis() % 1000 != 0) {
        warnings.at(place, &format!("fractional byte value \"{quantity}\" is invalid, must be an integer"));
    }
}

/// The warnings about a new object.
#[cfg(test)]
pub(super) fn warnings_of(warn: fn(Option<&Value>, &Value, &mut Warnings), object: &Value) -> Vec<String> {
    let mut warnings = Warnings::default();
    warn(None, object, &mut warnings);
    warnings.texts()
}
