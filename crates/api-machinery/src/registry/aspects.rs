//! What there is to say of a kind, aspect by aspect.

use klab_cel::names;
use serde_json::{Value, json};

use super::usage::Take;
use crate::table::{self, Row};
use crate::validation::warnings::Warnings;
use crate::validation::{Errors, metadata};

/// How the API server treats the objects of one kind, and shows them. A row names what differs from `PLAIN`.
pub struct Aspects {
    /// The name of its schema in OpenAPI documents, where that does not follow from its group.
    pub schema: Option<&'static str>,
    /// What is wrong with a name.
    pub name: fn(&str) -> Vec<String>,
    /// The status of a new object.
    pub initial_status: InitialStatus,
    /// Fills in what an object does not say.
    pub defaults: Option<fn(&mut Value)>,
    /// Changes a new version before its fields are assigned to managers; given the previous version, if any, and the new.
    pub prepare: Option<fn(Option<&Value>, &mut Value)>,
    /// What is wrong with an object.
    pub validation: Validation,
    /// What is wrong with a change from the previous version to the new one.
    pub(crate) update_validation: Option<fn(&Value, &Value, &mut Errors)>,
    /// How often the faults in the metadata of a changed object are reported: upstream checks it in several places, and
    /// each reports what it finds.
    pub(crate) metadata_reports: usize,
    /// What it uses of a ResourceQuota besides `count/<resource>`.
    pub quota: Option<Quota>,
    /// Whether two versions differ in what `metadata.generation` counts; `None` for kinds without a generation.
    pub generation: Option<fn(&Value, &Value) -> bool>,
    /// Whether dependents of a deleted object stay when the request does not say: so for kinds older than the garbage
    /// collector, whose clients deleted dependents themselves.
    pub orphans_dependents: bool,
    /// Whether a deletion is answered with the object that is gone, and not with a Status.
    pub answers_with_deleted: bool,
    /// Between the stored form and its own, for second versions and second groups of stored kinds.
    pub conversion: Option<Conversion>,
    /// The warning that every request for it is answered with.
    pub warning: Option<&'static str>,
    /// The warnings about a version, and about the one that it replaces, if there is one.
    pub warnings: Option<fn(Option<&Value>, &Value, &mut Warnings)>,
    /// The fields that selectors may name besides those of metadata.
    pub fields: &'static [Field],
    /// The columns of its table: names separated by `|`; `:integer` and the like give the type, `*` marks columns of
    /// `-o wide`.
    pub columns: &'static str,
    /// The cells of an object, in the order of the columns.
    pub cells: fn(&Row<'_>) -> Vec<Value>,
}

/// What most kinds have, and all of what there is to say of kinds whose objects are answered and never stored.
pub(super) const PLAIN: Aspects = Aspects {
    schema: None,
    name: names::subdomain,
    initial_status: InitialStatus::AsGiven,
    defaults: None,
    prepare: None,
    validation: Validation::None,
    update_validation: None,
    metadata_reports: 2,
    quota: None,
    generation: None,
    orphans_dependents: false,
    answers_with_deleted: false,
    conversion: None,
    warning: None,
    warnings: None,
    fields: &[],
    columns: "Name:name|Age",
    cells: table::other::name_and_age,
};

impl Aspects {
    /// What is wrong with an object, new or about to replace `old`. Some kinds name their
    /// finalizers freely.
    pub fn check(&self, free_finalizers: bool, old: Option<&Value>, new: &Value, errors: &mut Errors) {
        self.check_metadata(free_finalizers, old.is_none(), new, errors);
        match self.validation {
            Validation::Each(check) => check(new, errors),
            Validation::New(check) if old.is_none() => check(new, errors),
            Validation::New(_) | Validation::None => {}
        }
        if let (Some(old), Some(check)) = (old, self.update_validation) {
            check(old, new, errors);
        }
    }

    /// What is wrong with the metadata of an object, also of one whose status is written.
    pub fn check_metadata(&self, free_finalizers: bool, is_new: bool, value: &Value, errors: &mut Errors) {
        let times = if is_new { 1 } else { self.metadata_reports };
        let mut found = Errors::default();
        metadata::check(is_new.then_some(self.name), &value["metadata"], !free_finalizers, &mut found);
        (0..times).for_each(|_| errors.extend(&found));
    }
}

/// The status of a new object, where the kind has one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InitialStatus {
    /// What the body says: for nodes, which register with theirs, and kinds without a status of their own.
    AsGiven,
    /// None, not even an empty one.
    Removed,
    Empty,
    Phase(&'static str),
}

impl InitialStatus {
    /// The status; `None` for the one of the body, null for none.
    pub fn value(self) -> Option<Value> {
        match self {
            Self::AsGiven => None,
            Self::Removed => Some(Value::Null),
            Self::Empty => Some(json!({})),
            Self::Phase(phase) => Some(json!({ "phase": phase })),
        }
    }
}

/// Which versions of an object are looked at, and by what.
#[derive(Debug, Clone, Copy)]
pub enum Validation {
    None,
    /// Every version.
    Each(fn(&Value, &mut Errors)),
    /// New objects only: what changes is the matter of `update_validation` alone.
    New(fn(&Value, &mut Errors)),
}

/// What objects of a kind take of a ResourceQuota.
#[derive(Debug, Clone, Copy)]
pub enum Quota {
    /// One of the kind's plural name.
    Plural,
    Own {
        /// Whether they can count for a name, as a cheap filter before they are looked at.
        counts: fn(&str) -> bool,
        /// Hands over each name with the amount that an object takes of it.
        usage: fn(&Value, Take<'_>),
    },
}

/// The way between the stored form of an object and another one.
#[derive(Debug, Clone, Copy)]
pub struct Conversion {
    /// From the stored form.
    pub serve: fn(&mut Value),
    /// To the stored form.
    pub store: fn(&mut Value),
}

/// A field that selectors may name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Field {
    /// What selectors call it.
    pub label: &'static str,
    /// Where it is in the stored form.
    pub path: &'static str,
    /// Where it is looked for next, where it is not set.
    pub otherwise: Option<&'static str>,
    /// What it counts as where it is not set.
    pub absent: &'static str,
}

impl Field {
    /// A field that selectors call by its path.
    pub const fn at(path: &'static str) -> Self {
        Self { label: path, path, otherwise: None, absent: "" }
    }

    pub const fn called(mut self, label: &'static str) -> Self {
        self.label = label;
        self
    }

    /// The same as at another place, where it is not set.
    pub(crate) const fn else_at(mut self, path: &'static str) -> Self {
        self.otherwise = Some(path);
        self
    }

    pub const fn or(mut self, absent: &'static str) -> Self {
        self.absent = absent;
        self
    }
}
