//! Validation errors: collected per object, answered as one 422 with a cause for each.

use std::collections::HashSet;
use std::fmt::Display;

use serde_json::{Value, json};

use klab_scheduler::features::{Features, Gate};

use crate::resource::Resource;
use crate::status::Status;
use crate::texts::MAX_BYTES;
use crate::work;

/// What is wrong with a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Problem {
    /// The value is not acceptable.
    Invalid,
    /// There is no value.
    Required,
    /// The value occurs twice in a list whose entries must differ.
    Duplicate,
    /// The value is right in itself, but not here.
    Forbidden,
    /// The value is not one of a fixed set.
    NotSupported,
    /// The object it refers to does not exist.
    NotFound,
    /// The value is too long.
    TooLong,
    /// The list or map has too many entries.
    TooMany,
}

impl Problem {
    /// `reason` of the cause.
    fn reason(self) -> &'static str {
        match self {
            Self::Invalid => "FieldValueInvalid",
            Self::Required => "FieldValueRequired",
            Self::Duplicate => "FieldValueDuplicate",
            Self::Forbidden => "FieldValueForbidden",
            Self::NotSupported => "FieldValueNotSupported",
            Self::NotFound => "FieldValueNotFound",
            Self::TooLong => "FieldValueTooLong",
            Self::TooMany => "FieldValueTooMany",
        }
    }
}

/// One thing wrong with one field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FieldError {
    /// What is wrong.
    pub problem: Problem,
    /// Path of the field, `spec.containers[0].image`.
    pub field: String,
    /// The sentence after the path.
    pub message: String,
}

/// What is wrong with one object.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Errors {
    /// Each mistake.
    found: Vec<FieldError>,
    /// A reason that is none of its own.
    reason: Option<String>,
    /// Bytes of all paths and messages.
    bytes: usize,
    /// Those of the cluster that judges it.
    features: Features,
}

impl Errors {
    /// Judges by the features of a cluster.
    pub fn judge_by(&mut self, features: Features) {
        self.features = features;
    }

    /// Whether the cluster has a feature gate on.
    pub(crate) fn has(&self, gate: Gate) -> bool {
        self.features.has(gate)
    }

    /// Calls a field otherwise.
    pub fn rename(&mut self, field: &str, other: &str) {
        let found = self.found.iter_mut().filter(|error| error.field == field);
        found.for_each(|error| other.clone_into(&mut error.field));
    }

    /// Notes why an object that has no mistakes cannot be stored all the same. The first such reason counts.
    pub fn internal(&mut self, because: String) {
        self.reason.get_or_insert(because);
    }

    /// `field: Invalid value: value: detail`.
    pub fn invalid(&mut self, field: impl Display, value: &Value, detail: impl AsRef<str>) {
        // A rule of each entry may show the whole list.
        if self.is_full() {
            return;
        }
        self.add(Problem::Invalid, field, format!("Invalid value: {}: {}", shown(value), detail.as_ref()));
    }

    /// [`Errors::invalid`] of a value that is printed already.
    pub(crate) fn invalid_as(&mut self, field: impl Display, shown: &str, detail: impl AsRef<str>) {
        self.add(Problem::Invalid, field, format!("Invalid value: {shown}: {}", detail.as_ref()));
    }

    /// `field: Invalid value: detail`, of a value that is not shown.
    pub(crate) fn invalid_without(&mut self, field: impl Display, detail: impl AsRef<str>) {
        self.add(Problem::Invalid, field, format!("Invalid value: {}", detail.as_ref()));
    }

    /// `field: Required value`, with `: detail` if there is one.
    pub fn required(&mut self, field: impl Display, detail: &str) {
        let message = if detail.is_empty() { "Required value".to_owned() } else { format!("Required value: {detail}") };
        self.add(Problem::Required, field, message);
    }

    /// `field: Duplicate value: value`.
    pub fn duplicate(&mut self, field: impl Display, value: &Value) {
        self.add(Problem::Duplicate, field, format!("Duplicate value: {}", shown(value)));
    }

    /// [`Errors::duplicate`] of a value that Go shows in a form of its own.
    pub(crate) fn duplicate_as(&mut self, field: impl Display, shown: &str) {
        self.add(Problem::Duplicate, field, format!("Duplicate value: {shown}"));
    }

    /// `field: Forbidden: detail`.
    pub fn forbidden(&mut self, field: impl Display, detail: impl AsRef<str>) {
        self.add(Problem::Forbidden, field, format!("Forbidden: {}", detail.as_ref()));
    }

    /// `field: Unsupported value: value: supported values: "A", "B"`.
    pub fn unsupported(&mut self, field: impl Display, value: &Value, supported: &[&str]) {
        let list = supported.iter().map(|one| format!("\"{one}\"")).collect::<Vec<_>>().join(", ");
        let message = format!("Unsupported value: {}: supported values: {list}", shown(value));
        self.add(Problem::NotSupported, field, message);
    }

    /// `field: Too long: may not be more than limit bytes`.
    pub(crate) fn too_long(&mut self, field: impl Display, limit: usize, unit: &str) {
        self.add(Problem::TooLong, field, format!("Too long: may not be more than {limit} {unit}"));
    }

    /// [`Errors::unsupported`], of values as JSON.
    pub(crate) fn unsupported_values(&mut self, field: impl Display, value: &Value, supported: &[String]) {
        if self.is_full() {
            return;
        }
        let message = format!("Unsupported value: {}: supported values: {}", shown(value), supported.join(", "));
        self.add(Problem::NotSupported, field, message);
    }

    /// That rules were not looked at, because what they look at is wrong in itself.
    pub(crate) fn add_unchecked(&mut self) {
        let detail = "some validation rules were not checked because the object was invalid; correct the existing errors to complete validation";
        self.invalid("<nil>", &Value::Null, detail);
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.found.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    /// `field: Too many: count: must have at most limit items`.
    pub fn too_many(&mut self, field: impl Display, count: usize, limit: usize) {
        self.add(Problem::TooMany, field, format!("Too many: {count}: must have at most {limit} items"));
    }

    /// `field: Not found: value`.
    pub fn not_found(&mut self, field: impl Display, value: &Value) {
        self.add(Problem::NotFound, field, format!("Not found: {}", shown(value)));
    }

    /// `field: Not found: value: detail`.
    pub(crate) fn not_found_among(&mut self, field: impl Display, value: &Value, detail: &str) {
        self.add(Problem::NotFound, field, format!("Not found: {}: {detail}", shown(value)));
    }

    /// All of them, in the words for clients.
    pub fn texts(&self) -> Vec<String> {
        self.found.iter().map(|error| format!("{}: {}", error.field, error.message)).collect()
    }

    /// What a check finds, for its tests.
    #[cfg(test)]
    pub fn found(check: impl FnOnce(&mut Self)) -> Vec<String> {
        let mut errors = Self::default();
        check(&mut errors);
        errors.texts()
    }

    /// Whether the texts are longer than any request: no client reads what is added after that.
    pub fn is_full(&self) -> bool {
        self.bytes > MAX_BYTES
    }

    fn add(&mut self, problem: Problem, field: impl Display, message: String) {
        work::step();
        if self.is_full() {
            return;
        }
        let field = field.to_string();
        self.bytes += field.len() + message.len();
        self.found.push(FieldError { problem, field, message });
    }

    /// Adds what is wrong elsewhere.
    pub fn extend(&mut self, other: &Self) {
        if !self.is_full() {
            self.bytes = self.bytes.saturating_add(other.bytes);
            self.found.extend_from_slice(&other.found);
        }
    }

    /// The errors as the answer to a request, `Ok` if there are none.
    ///
    /// # Errors
    /// 422 with a cause for each error.
    pub fn into_result(self, resource: &Resource, name: &str) -> Result<(), Status> {
        if self.found.is_empty() {
            return self.reason.map_or(Ok(()), |because| Err(Status::internal(&because)));
        }
        let mut texts: Vec<String> = Vec::with_capacity(self.found.len());
        let mut seen: HashSet<String> = HashSet::with_capacity(self.found.len());
        let mut causes: Vec<Value> = Vec::with_capacity(self.found.len());
        for error in &self.found {
            let text = format!("{}: {}", error.field, error.message);
            if seen.insert(text.clone()) {
                texts.push(text);
            }
            causes.push(json!({
                "reason": error.problem.reason(), "message": error.message, "field": error.field,
            }));
        }
        let summary = match texts.as_slice() {
            [only] => only.clone(),
            many => format!("[{}]", many.join(", ")),
        };
        let kind = if resource.group.is_empty() {
            resource.kind.to_owned()
        } else {
            format!("{}.{}", resource.kind, resource.group)
        };
        let mut details = json!({ "name": name, "kind": resource.kind, "causes": causes });
        if !resource.group.is_empty() {
            details["group"] = json!(resource.group);
        }
        Err(Status { details, ..Status::new(422, "Invalid", format!("{kind} \"{name}\" is invalid: {summary}")) })
    }
}

/// A value as Go prints it in these messages: JSON, which for strings and numbers is the same.
fn shown(value: &Value) -> String {
    value.to_string()
}
