//! Sets of fields, as `managedFields` keeps them (FieldsV1).
//!
//! A set is a tree whose edges are path elements in their written form: `f:name` for fields and map keys,
//! `k:{"name":"main"}` for list entries with keys, `v:"value"` for entries of sets.

// upstream: vendor/sigs.k8s.io/structured-merge-diff/v6/fieldpath/set.go Set (v1.36)

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};

use klab_api_machinery::texts::Texts;
use klab_api_machinery::work;
use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::{Map, Value};

/// A set of fields.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Fields {
    /// Whether the place itself is in the set (`.` when there is more below).
    pub(crate) member: bool,
    /// What is below.
    pub(crate) below: BTreeMap<String, Fields>,
}

impl Fields {
    /// Whether no field is in the set.
    pub fn is_empty(&self) -> bool {
        !self.member && self.below.values().all(Self::is_empty)
    }

    /// Keeps an object's metadata, even where all managers give up labels and annotations in it: no manager applies what makes the
    /// object itself (name, namespace, finalizers, owners).
    pub fn keep_identity(&mut self) {
        let metadata = self.below.entry("f:metadata".to_owned()).or_default();
        metadata.below.entry("f:name".to_owned()).or_default().member = true;
    }

    /// Reads FieldsV1; what is not understood is left out.
    pub(crate) fn read(value: &Value) -> Self {
        let mut set = Self::default();
        for (key, value) in value.as_object().into_iter().flatten() {
            if key == "." {
                set.member = true;
                continue;
            }
            let mut inner = Self::read(value);
            if inner.below.is_empty() {
                inner.member = true;
            }
            set.below.insert(key.clone(), inner);
        }
        set
    }

    /// Whether that field is in the set.
    pub(crate) fn has(&self, path: &[String]) -> bool {
        path.iter().try_fold(self, |fields, part| fields.below.get(part)).is_some_and(|fields| fields.member)
    }

    pub(crate) fn child(&mut self, element: impl Into<String>) -> &mut Self {
        self.below.entry(element.into()).or_default()
    }

    /// Adds a set below an element.
    pub(crate) fn take_in(&mut self, element: &str, set: Self) {
        match self.below.get_mut(element) {
            Some(have) => have.add(&set),
            None => drop(self.below.insert(element.to_owned(), set)),
        }
    }

    /// Adds the fields of another set.
    pub fn add(&mut self, other: &Self) {
        self.member |= other.member;
        for (key, inner) in &other.below {
            work::step();
            match self.below.get_mut(key) {
                Some(have) => have.add(inner),
                None => {
                    self.below.insert(key.clone(), inner.clone());
                }
            }
        }
    }

    /// Takes out what `other` has.
    pub(crate) fn subtract(&mut self, other: &Self) {
        if other.member {
            self.member = false;
        }
        // An object has many managers: none of them pays for all that another one changes.
        if self.below.len() < other.below.len() {
            self.below.retain(|key, have| {
                work::step();
                let Some(inner) = other.below.get(key) else { return true };
                have.subtract(inner);
                !have.is_empty()
            });
            return;
        }
        for (key, inner) in &other.below {
            work::step();
            if let Some(have) = self.below.get_mut(key) {
                have.subtract(inner);
                if have.is_empty() {
                    self.below.remove(key);
                }
            }
        }
    }

    /// Takes out a place and all below it.
    pub(crate) fn cut(&mut self, path: &[&str]) {
        match path {
            [] => *self = Self::default(),
            [last] => drop(self.below.remove(*last)),
            [first, rest @ ..] => {
                if let Some(inner) = self.below.get_mut(*first) {
                    inner.cut(rest);
                    if inner.is_empty() {
                        self.below.remove(*first);
                    }
                }
            }
        }
    }

    /// What both have.
    pub(crate) fn common(&self, other: &Self) -> Self {
        let mut both = Self { member: self.member && other.member, ..Self::default() };
        let (fewer, more) = if self.below.len() < other.below.len() { (self, other) } else { (other, self) };
        for (key, inner) in &fewer.below {
            work::step();
            if let Some(theirs) = more.below.get(key) {
                let common = inner.common(theirs);
                if !common.is_empty() {
                    both.below.insert(key.clone(), common);
                }
            }
        }
        both
    }

    /// The members as text: `.spec.containers[name="main"].image`.
    pub(crate) fn paths(&self) -> Vec<String> {
        let mut found = Texts::default();
        self.collect(&mut String::new(), &mut found);
        found.into_list()
    }

    fn collect(&self, path: &mut String, found: &mut Texts) {
        if self.member {
            found.push(&*path);
        }
        for (key, inner) in &self.below {
            let length = path.len();
            write_element(path, key);
            inner.collect(path, found);
            path.truncate(length);
        }
    }
}

impl Serialize for Fields {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        if self.member && !self.below.is_empty() {
            map.serialize_entry(".", &Self::default())?;
        }
        for (key, inner) in self.below.iter().filter(|(_, inner)| !inner.is_empty()) {
            map.serialize_entry(key, inner)?;
        }
        map.end()
    }
}

/// As `Fields::read` reads it, of text that [`Fields`] wrote.
impl<'de> Deserialize<'de> for Fields {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Set;
        impl<'de> Visitor<'de> for Set {
            type Value = Fields;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a set of fields")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields, A::Error> {
                let mut set = Fields::default();
                while let Some(key) = map.next_key::<String>()? {
                    if key == "." {
                        map.next_value::<IgnoredAny>()?;
                        set.member = true;
                        continue;
                    }
                    let mut inner: Fields = map.next_value()?;
                    if inner.below.is_empty() {
                        inner.member = true;
                    }
                    set.below.insert(key, inner);
                }
                Ok(set)
            }
        }
        deserializer.deserialize_map(Set)
    }
}

/// Adds an element to a path as people read it.
pub(crate) fn write_element(path: &mut String, element: &str) {
    let (kind, rest) = element.split_once(':').unwrap_or(("f", element));
    // Writing to a String cannot fail.
    match kind {
        "k" => {
            let keys: Map<String, Value> = serde_json::from_str(rest).unwrap_or_default();
            let parts: Vec<String> = keys.iter().map(|(name, value)| format!("{name}={value}")).collect();
            let _ = write!(path, "[{}]", parts.join(","));
        }
        "v" => {
            let _ = write!(path, "[={rest}]");
        }
        "i" => {
            let _ = write!(path, "[{rest}]");
        }
        _ => {
            let _ = write!(path, ".{rest}");
        }
    }
}
