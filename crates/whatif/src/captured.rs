//! An object of a capture: its text, which takes a tenth of the memory of its tree, and what klab asks of every object.

use jiff::Timestamp;
use serde_json::Value;

use crate::kinds::{KINDS, Kind};

/// An object of which a capture keeps what placement depends on.
#[derive(Debug, Clone, PartialEq)]
pub struct Captured {
    /// Its kind.
    pub kind: &'static Kind,
    /// Its namespace; empty where its kind has none.
    pub namespace: Box<str>,
    /// Its name.
    pub name: Box<str>,
    /// Its uid, where it has one.
    pub uid: Option<Box<str>>,
    /// The node of a pod that has one.
    pub node: Option<Box<str>>,
    /// The controller that owns it, by kind and uid; none where captures hold no such kind.
    pub(crate) owner: Option<(&'static Kind, Box<str>)>,
    /// The latest moment that it speaks of.
    pub(crate) moment: Option<Timestamp>,
    /// JSON.
    pub(crate) text: Box<str>,
}

impl Captured {
    /// The object of a tree from which all is gone that a capture does not keep.
    pub(crate) fn of(kind: &'static Kind, value: &Value) -> Self {
        let metadata = &value["metadata"];
        let text = |value: &Value| value.as_str().map(Box::from);
        let time = |value: &Value| value.as_str()?.parse().ok();
        let owners = metadata["ownerReferences"].as_array().into_iter().flatten();
        let owner = owners
            .filter(|owner| owner["controller"] == true)
            .find_map(|owner| Some((Kind::of(owner)?, text(&owner["uid"])?)));
        Self {
            kind,
            namespace: text(&metadata["namespace"]).unwrap_or_default(),
            name: text(&metadata["name"]).unwrap_or_default(),
            uid: text(&metadata["uid"]),
            node: text(&value["spec"]["nodeName"]).filter(|_| kind.kind == "Pod"),
            owner,
            moment: time(&metadata["creationTimestamp"]).max(time(&value["status"]["startTime"])),
            text: value.to_string().into(),
        }
    }

    /// Its tree.
    pub fn value(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_default()
    }

    /// Changes its tree.
    pub fn edit(&mut self, change: impl FnOnce(&mut Value)) {
        let mut value = self.value();
        change(&mut value);
        *self = Self::of(self.kind, &value);
    }

    /// `namespace/name`.
    pub(crate) fn path(&self) -> String {
        match &*self.namespace {
            "" => self.name.to_string(),
            namespace => format!("{namespace}/{}", self.name),
        }
    }

    /// Where it stands in a capture: by kind in the order of [`KINDS`], namespace and name.
    pub(crate) fn place(&self) -> (Option<usize>, &str, &str) {
        (KINDS.iter().position(|kind| kind == self.kind), &self.namespace, &self.name)
    }
}
