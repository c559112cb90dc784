//! The warnings about an object, each once, and those that several kinds share.

use std::collections::HashSet;
use std::fmt::Display;

use klab_cel::names;
use klab_scheduler::quantity::Quantity;
use serde_json::Value;

use super::super::Place;
use super::super::place::Texts;
use crate::views::Pod;
use crate::work;

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
    pub fn at(&mut self, place: impl Display, text: impl Display) {
        self.add(format!("{place}: {text}"));
    }

    /// All of them.
    pub fn texts(self) -> Vec<String> {
        self.texts
    }
}

/// A name that is good for the object, and not for the hosts that are called after it.
pub(super) fn host_name(object: &Value, of: &str, warnings: &mut Warnings) {
    // Each kind has the metadata of Pods.
    let faults = names::label(Pod(object).metadata().name());
    if !faults.is_empty() {
        warnings.add(format!(
            "metadata.name: this is used in {of}, which can result in surprising behavior; a DNS label is recommended: [{}]",
            faults.join(" ")
        ));
    }
}

/// Retired annotations, each with its warning.
pub(super) fn annotations(written: &Place<'_, Texts<'_>>, old: &[(&str, &str)], warnings: &mut Warnings) {
    for (key, message) in old.iter().filter(|(key, _)| written.get(key).is_some()) {
        warnings.at(written.entry(key), message);
    }
}

/// A part of a byte.
pub(super) fn fractional(amount: &Place<'_, &Value>, warnings: &mut Warnings) {
    let quantity = Quantity::parse(amount.text()).ok();
    if let Some(quantity) = quantity.filter(|quantity| quantity.millis() % 1000 != 0) {
        warnings.at(amount, format_args!("fractional byte value \"{quantity}\" is invalid, must be an integer"));
    }
}

/// The warnings about a new object.
#[cfg(test)]
pub(super) fn warnings_of(warn: fn(Option<&Value>, &Value, &mut Warnings), object: &Value) -> Vec<String> {
    let mut warnings = Warnings::default();
    warn(None, object, &mut warnings);
    warnings.texts()
}
