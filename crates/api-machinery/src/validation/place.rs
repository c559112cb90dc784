//! Fields as rules read them: as their types, with the paths that messages name them by.

use std::collections::HashSet;
use std::fmt;
use std::hash::Hash;
use std::ops::{Deref, RangeBounds};

use klab_cel::names;
use serde_json::{Value, json};

use super::errors::Errors;
use crate::schema::Path;
use crate::views::{Container, Entries, PodSpec, View, Views};
use crate::work;

/// Labels, annotations and the like.
pub(super) type Texts<'a> = Entries<'a, &'a str>;

/// What is wrong with a text.
pub(super) type Faults = fn(&str) -> Vec<String>;

/// What stands at a path of an object, as its type. `build.rs` writes a method for each field below it.
#[derive(Debug, Clone, Copy)]
pub struct Place<'p, T> {
    /// What messages call it.
    pub path: Path<'p>,
    /// What stands there, `null` if nothing does.
    pub json: &'p Value,
    read: T,
}

impl<'p, T> Place<'p, T> {
    /// What stands at a path.
    pub fn new<'a: 'p>(path: Path<'p>, json: &'a Value) -> Self
    where
        T: View<'a>,
    {
        Self { path, json, read: T::of(json) }
    }

    /// An object.
    pub fn root<'a: 'p>(json: &'a Value) -> Self
    where
        T: View<'a>,
    {
        Self::new(Path::Root, json)
    }

    /// The spec of an object.
    pub fn of_spec<'a: 'p>(json: &'a Value) -> Self
    where
        T: View<'a>,
    {
        Self::new(Path::Root.field("spec"), &json["spec"])
    }

    /// The same, where messages call it otherwise.
    pub(super) fn called(self, path: Path<'p>) -> Self {
        Self { path, ..self }
    }

    /// A field whose name a list of names gives.
    pub(super) fn field(&'p self, name: &'p str) -> Place<'p, &'p Value> {
        Place::new(self.path.field(name), &self.json[name])
    }

    /// The name of the field that it is, empty if it is none.
    pub(super) fn field_name(&self) -> &'p str {
        if let Path::Field(_, name) = self.path { name } else { "" }
    }

    /// The same as another type.
    pub(super) fn cast<U: View<'p>>(&self) -> Place<'p, U> {
        Place::new(self.path, self.json)
    }

    /// Whether it is there.
    pub(super) fn is_set(&self) -> bool {
        !self.json.is_null()
    }

    /// Its text, empty if it has none.
    pub(super) fn text(&self) -> &'p str {
        self.json.as_str().unwrap_or_default()
    }

    /// A number must not be below 0.
    pub(super) fn not_negative(&self, errors: &mut Errors) {
        if self.json.as_i64().is_some_and(|number| number < 0) {
            errors.invalid_at(self, "must be greater than or equal to 0");
        }
    }

    /// A number must be among these, if there is one.
    pub(super) fn within(&self, range: impl RangeBounds<i64>, fault: &str, errors: &mut Errors) {
        if self.json.as_i64().is_some_and(|number| !range.contains(&number)) {
            errors.invalid_at(self, fault);
        }
    }

    /// A text must be one of the choices, if it is there.
    pub(super) fn supported(&self, choices: &[&str], errors: &mut Errors) {
        if self.is_set() && !choices.contains(&self.text()) {
            errors.unsupported_at(self, choices);
        }
    }

    /// A text, also an empty one, must be one of the choices.
    pub(super) fn one_of(&self, choices: &[&str], errors: &mut Errors) {
        if !choices.contains(&self.text()) {
            errors.unsupported(self, &json!(self.text()), choices);
        }
    }

    /// A text must be there and one of the choices.
    pub(super) fn needed_of(&self, choices: &[&str], errors: &mut Errors) {
        self.needed(errors);
        if !self.text().is_empty() {
            self.supported(choices, errors);
        }
    }

    /// What was there must stay.
    pub(super) fn stays(&self, was: &Self, errors: &mut Errors) {
        if self.json != was.json {
            errors.invalid_at(self, "field is immutable");
        }
    }

    /// A text, a list or a map must be there and not be empty.
    pub(super) fn needed(&self, errors: &mut Errors) {
        self.needed_for("", errors);
    }

    /// [`Place::needed`], for that reason.
    pub(super) fn needed_for(&self, detail: &str, errors: &mut Errors) {
        let is_empty = match self.json {
            Value::String(text) => text.is_empty(),
            Value::Array(list) => list.is_empty(),
            Value::Object(map) => map.is_empty(),
            other => other.is_null(),
        };
        if is_empty {
            errors.required(self, detail);
        }
    }

    /// It must not be there.
    pub(super) fn absent(&self, detail: &str, errors: &mut Errors) {
        if self.is_set() {
            errors.forbidden(self, detail);
        }
    }

    /// A text must have no more bytes than that.
    pub(super) fn no_longer_than(&self, limit: usize, errors: &mut Errors) {
        if self.text().len() > limit {
            errors.too_long(self, limit, "bytes");
        }
    }

    /// A text must have no such faults.
    pub(super) fn check(&self, faults: Faults, errors: &mut Errors) {
        errors.faults(self, self.text(), faults);
    }

    /// A text, also an empty one, must have no such faults, if it is there.
    pub(super) fn check_given(&self, faults: Faults, errors: &mut Errors) {
        if self.is_set() {
            self.check(faults, errors);
        }
    }

    /// A text must have no such faults, if there is one.
    pub(super) fn check_if_set(&self, faults: Faults, errors: &mut Errors) {
        if !self.text().is_empty() {
            self.check(faults, errors);
        }
    }

    /// A text must be there and have no such faults.
    pub(super) fn needed_as(&self, faults: Faults, errors: &mut Errors) {
        self.needed(errors);
        self.check_if_set(faults, errors);
    }

    /// A text must begin with somebody's domain: `acme.io/foo`.
    // upstream: staging/src/k8s.io/apimachinery/pkg/util/validation/validation.go IsDomainPrefixedPath (v1.36)
    pub(super) fn domain_path(&self, errors: &mut Errors) {
        let (domain, rest) = self.text().split_once('/').unwrap_or_default();
        if self.text().is_empty() {
            return errors.required(self, "");
        }
        if domain.is_empty() || rest.is_empty() {
            return errors.invalid_text(self, "must be a domain-prefixed path (such as \"acme.io/foo\")");
        }
        errors.faults(self, domain, names::subdomain);
        if !rest.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"/-._~%!$&'()*+,;=:".contains(&byte)) {
            let fault = "Invalid path (regex used for validation is '[A-Za-z0-9/\\-._~%!$&'()*+,;=:]+')";
            errors.invalid(self, &json!(rest), fault);
        }
    }
}

impl<T: Copy + Eq + Hash> Place<'_, T> {
    /// No other may be the same.
    pub(super) fn unique(&self, seen: &mut HashSet<T>, errors: &mut Errors) {
        if !seen.insert(self.read) {
            errors.duplicate_at(self);
        }
    }
}

impl Place<'_, Views<'_, &str>> {
    /// Texts, which must be there if something says what is needed, or `*` alone. Whether there are any, and not all.
    pub(super) fn some_or_all(&self, needed: Option<&str>, many: &str, errors: &mut Errors) -> bool {
        let has_all = self.each().any(|one| *one == "*");
        if let Some(needed) = needed.filter(|_| self.is_empty()) {
            errors.required(self, needed);
        }
        if has_all && self.len() > 1 {
            errors.invalid_at(self, format!("if '*' is present, must not specify other {many}"));
        }
        !self.is_empty() && !has_all
    }
}

impl<'a, T: View<'a>> Place<'_, Views<'a, T>> {
    /// Whether there are no more than that.
    pub(super) fn at_most(&self, most: usize, errors: &mut Errors) -> bool {
        if self.len() > most {
            errors.too_many(self, self.len(), most);
        }
        self.len() <= most
    }

    /// The elements. Each is a step.
    pub(super) fn each(&self) -> impl Iterator<Item = Place<'_, T>> {
        let steps = self.read.json().enumerate().take_while(|_| work::step());
        steps.map(|(at, one)| Place::new(self.path.index(at), one))
    }
}

impl<'a, T: View<'a> + Copy> Place<'_, Entries<'a, T>> {
    /// The entries, by key.
    pub(super) fn each(&self) -> impl Iterator<Item = (&'a str, Place<'_, T>)> {
        self.read.json().map(|(key, one)| (key, Place::new(self.path.key(key), one)))
    }

    /// The entry of a key, which may not be there.
    pub(super) fn entry<'s>(&'s self, key: &'s str) -> Place<'s, &'s Value> {
        Place::new(self.path.key(key), &self.json[key])
    }
}

impl<'a> Place<'_, PodSpec<'a>> {
    /// All containers, in the order in which upstream visits them.
    pub(super) fn each_container(&self, mut visit: impl FnMut(&Place<'_, Container<'a>>)) {
        self.init_containers().each().for_each(|one| visit(&one));
        self.containers().each().for_each(|one| visit(&one));
        for one in self.ephemeral_containers().each() {
            visit(&Place { path: one.path, json: one.json, read: Container(one.0) });
        }
    }
}

impl Errors {
    /// What is wrong with a text, which is that of a field, a key or a part of it.
    pub(super) fn faults(&mut self, field: &impl fmt::Display, text: &str, faults: Faults) {
        for fault in faults(text) {
            self.invalid(field, &json!(text), fault);
        }
    }

    /// [`Errors::invalid`] of a field with its value.
    pub(super) fn invalid_at<T>(&mut self, place: &Place<'_, T>, detail: impl AsRef<str>) {
        self.invalid(place, place.json, detail);
    }

    /// [`Errors::invalid_at`] of a text, which is empty if it is not there.
    pub(super) fn invalid_text<T>(&mut self, place: &Place<'_, T>, detail: impl AsRef<str>) {
        self.invalid(place, &json!(place.text()), detail);
    }

    /// [`Errors::not_found`] of a text, which is empty if it is not there.
    pub(super) fn not_found_text<T>(&mut self, place: &Place<'_, T>) {
        self.not_found(place, &json!(place.text()));
    }

    /// [`Errors::unsupported`] of a field with its value.
    pub(super) fn unsupported_at<T>(&mut self, place: &Place<'_, T>, supported: &[&str]) {
        self.unsupported(place, place.json, supported);
    }

    /// [`Errors::duplicate`] of a field with its value.
    pub(super) fn duplicate_at<T>(&mut self, place: &Place<'_, T>) {
        self.duplicate(place, place.json);
    }
}

impl<T> Deref for Place<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.read
    }
}

impl<T> fmt::Display for Place<'_, T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.path.fmt(formatter)
    }
}

/// A method for each field.
mod fields {
    use jiff::Timestamp;
    use serde_json::Value;

    use super::Place;
    #[cfg_attr(not(test), expect(clippy::wildcard_imports, reason = "each view has a place"))]
    use crate::views::*;

    include!(concat!(env!("OUT_DIR"), "/places.rs"));
}
