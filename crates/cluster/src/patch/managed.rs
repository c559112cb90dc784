//! `metadata.managedFields`: who set which fields of an object.

// upstream: staging/src/k8s.io/apimachinery/pkg/util/managedfields/internal/managedfields.go BuildManagerIdentifier (v1.36)

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::fields::Fields;
use super::place::Root;
use super::typed::{Difference, compare};
use crate::cluster::{Part, time_text};
use crate::custom::{Definition, Version};
use crate::resource::ResourceId;
use crate::schema::schema;

/// More managers of plain writes than this are merged into one, the oldest first.
const MAX_UPDATERS: usize = 10;
const ANCIENT: &str = "ancient-changes";
/// Who owns the fields of an object nobody tracked before it was applied.
const BEFORE_APPLY: &str = "before-first-apply";

/// Fields nobody owns.
const UNOWNED: &[&[&str]] = &[
    &["f:apiVersion"],
    &["f:kind"],
    &["f:metadata", "f:name"],
    &["f:metadata", "f:namespace"],
    &["f:metadata", "f:creationTimestamp"],
    &["f:metadata", "f:selfLink"],
    &["f:metadata", "f:uid"],
    &["f:metadata", "f:generation"],
    &["f:metadata", "f:managedFields"],
    &["f:metadata", "f:resourceVersion"],
];

/// One manager's fields.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) manager: String,
    pub(super) applied: bool,
    pub(super) api_version: String,
    pub(super) time: Option<String>,
    pub(super) subresource: String,
    pub(super) fields: Fields,
}

impl Entry {
    /// How conflicts name the manager.
    pub(super) fn title(&self) -> String {
        let mut title = format!("{}", json!(self.manager));
        if !self.subresource.is_empty() {
            title = title + " with subresource " + &json!(self.subresource).to_string();
        }
        if !self.applied {
            title = title + " using " + &self.api_version;
        }
        title
    }

    fn is(&self, manager: &str, applied: bool, api_version: &str, subresource: &str) -> bool {
        self.manager == manager
            && self.applied == applied
            && self.subresource == subresource
            && (applied || self.api_version == api_version)
    }
}

/// All managers of an object.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Managed(pub(super) Vec<Entry>);

/// Whose write it is.
#[derive(Debug, Clone)]
pub(crate) struct Writer<'a> {
    pub(crate) manager: &'a str,
    pub(crate) resource: ResourceId,
    pub(crate) part: Part,
    /// Whether the kind has a `status` subresource.
    pub(crate) has_status: bool,
    pub(crate) now: Timestamp,
    /// Of a custom resource.
    pub(crate) definition: Option<Arc<Definition>>,
    /// How the write looks in other versions, where managers own fields in those and a webhook converts objects.
    pub(super) elsewhere: Vec<(String, Difference)>,
}

impl<'a> Writer<'a> {
    /// Somebody's write of a kind, or of the definition's version of it.
    pub(crate) fn new(manager: &'a str, resource: ResourceId, part: Part, now: Timestamp) -> Self {
        Self { manager, resource, part, has_status: false, now, definition: None, elsewhere: Vec::new() }
    }

    /// How the write looks in the version in which a manager owns fields. `own` is how it looks in the writer's.
    pub(super) fn seen_in<'b>(&'b self, api_version: &str, own: &'b Difference) -> &'b Difference {
        self.elsewhere.iter().find(|(version, _)| version == api_version).map_or(own, |(_, difference)| difference)
    }
}

impl Writer<'_> {
    /// What is known of the kind, in the version that is written.
    pub(super) fn root(&self) -> Root<'_> {
        let row = self.resource.row();
        let version = self.definition.as_ref().and_then(|definition| definition.version(self.resource));
        Root::new(&row.api_version(), row.kind, version.map(Version::schema))
    }
}

impl Managed {
    /// Reads the list of an object.
    pub(super) fn of(value: &Value) -> Self {
        let list = value["metadata"]["managedFields"].as_array().into_iter().flatten();
        let text = |entry: &Value, field: &str| entry[field].as_str().unwrap_or_default().to_owned();
        let entries = list.filter(|entry| entry["operation"].is_string()).map(|entry| Entry {
            manager: text(entry, "manager"),
            applied: entry["operation"] == "Apply",
            api_version: text(entry, "apiVersion"),
            time: entry["time"].as_str().map(str::to_owned),
            subresource: text(entry, "subresource"),
            fields: Fields::read(&entry["fieldsV1"]),
        });
        Self(entries.collect())
    }

    /// Writes the list into an object.
    pub(crate) fn store(mut self, value: &mut Value) {
        self.0.retain(|entry| !entry.fields.is_empty());
        self.0.sort_by(|left, right| {
            let rank = |entry: &Entry| (!entry.applied, entry.time.clone().unwrap_or_default());
            rank(left)
                .cmp(&rank(right))
                .then_with(|| left.manager.cmp(&right.manager))
                .then_with(|| left.api_version.cmp(&right.api_version))
                .then_with(|| left.subresource.cmp(&right.subresource))
        });
        let Some(metadata) = value["metadata"].as_object_mut() else { return };
        if self.0.is_empty() {
            metadata.remove("managedFields");
            return;
        }
        let list: Vec<Value> = self.0.iter().map(Entry::write).collect();
        metadata.insert("managedFields".to_owned(), Value::Array(list));
    }

    /// The entry of that manager, added if there is none.
    pub(super) fn entry(&mut self, writer: &Writer<'_>, applied: bool) -> &mut Entry {
        let version = writer.resource.row().api_version();
        let subresource = writer.part.subresource();
        let at = self.0.iter().position(|entry| entry.is(writer.manager, applied, &version, subresource));
        let at = at.unwrap_or_else(|| {
            self.0.push(Entry {
                manager: writer.manager.to_owned(),
                applied,
                api_version: version.clone(),
                time: None,
                subresource: subresource.to_owned(),
                fields: Fields::default(),
            });
            self.0.len() - 1
        });
        self.0[at].api_version = version;
        &mut self.0[at]
    }

    /// Notes a write that is no server-side apply: the writer owns what it changed, and no one else does.
    fn note_update(&mut self, difference: &Difference, writer: &Writer<'_>) {
        for entry in &mut self.0 {
            let seen = writer.seen_in(&entry.api_version, difference);
            entry.fields.subtract(&seen.changed);
            entry.fields.subtract(&seen.removed);
        }
        if !difference.changed.is_empty() {
            let entry = self.entry(writer, false);
            entry.fields.add(&difference.changed);
            entry.time = Some(time_text(writer.now));
        }
        self.0.retain(|entry| !entry.fields.is_empty());
        self.cap_updaters();
    }

    fn cap_updaters(&mut self) {
        loop {
            let mut updaters: Vec<usize> = (0..self.0.len()).filter(|at| !self.0[*at].applied).collect();
            if updaters.len() <= MAX_UPDATERS {
                return;
            }
            updaters.sort_by(|left, right| self.0[*left].time.cmp(&self.0[*right].time));
            let (first, second) = (updaters[0], updaters[1]);
            let fields = self.0[first].fields.clone();
            self.0[second].fields.add(&fields);
            ANCIENT.clone_into(&mut self.0[second].manager);
            self.0.remove(first);
        }
    }

    /// The managers of an object about to be applied to.
    pub(super) fn before_apply(live: &Value, writer: &Writer<'_>) -> Self {
        let mut managed = Self::of(live);
        if managed.0.is_empty() {
            let difference = difference(&zero(writer.resource), live, writer);
            let first = Writer { manager: BEFORE_APPLY, ..writer.clone() };
            managed.note_update(&difference, &first);
        }
        managed
    }
}

impl Entry {
    fn write(&self) -> Value {
        let mut entry = json!({
            "manager": self.manager,
            "operation": if self.applied { "Apply" } else { "Update" },
            "apiVersion": self.api_version,
            "fieldsType": "FieldsV1",
            "fieldsV1": self.fields.write(),
        });
        if let Some(time) = &self.time {
            entry["time"] = json!(time);
        }
        if !self.subresource.is_empty() {
            entry["subresource"] = json!(self.subresource);
        }
        entry
    }
}

/// Keeps `managedFields` of `new` after a write that is no server-side apply. `old` is `None` for new objects.
pub(crate) fn track(old: Option<&Value>, new: &mut Value, writer: &Writer<'_>, tracked: bool) {
    let sent = new["metadata"].as_object_mut().and_then(|metadata| metadata.remove("managedFields"));
    let sent = sent.filter(|list| list.as_array().is_some_and(|list| !list.is_empty()));
    let mut managed = match (&sent, old) {
        (Some(list), _) => Managed::of(&json!({ "metadata": { "managedFields": list } })),
        (None, Some(old)) => Managed::of(old),
        (None, None) => Managed::default(),
    };
    if managed.0.is_empty() && (old.is_some() || !tracked) {
        return;
    }
    let nothing = if old.is_none() { zero(writer.resource) } else { Value::Null };
    managed.note_update(&difference(old.unwrap_or(&nothing), new, writer), writer);
    managed.store(new);
}

/// An object of the kind with nothing set, as Go would write it.
fn zero(resource: ResourceId) -> Value {
    let row = resource.row();
    let mut value = json!({});
    if let Some(id) = schema().kind(&row.api_version(), row.kind) {
        // An empty object has no values of wrong types.
        let tidied = schema().tidy(id, &mut value);
        debug_assert!(tidied.is_ok(), "{tidied:?}");
    }
    value
}

/// How two versions differ in fields that can be owned through the writer's part.
pub(super) fn difference(old: &Value, new: &Value, writer: &Writer<'_>) -> Difference {
    let mut difference = compare(old, new, writer.root().place());
    strip(&mut difference.changed, writer);
    strip(&mut difference.removed, writer);
    difference
}

/// Takes out fields that nobody owns, or that the part cannot write.
pub(super) fn strip(fields: &mut Fields, writer: &Writer<'_>) {
    for path in UNOWNED {
        fields.cut(path);
    }
    if let Some(metadata) = fields.below.get_mut("f:metadata") {
        metadata.member = false;
    }
    match writer.part {
        Part::Main => {
            if writer.has_status {
                fields.cut(&["f:status"]);
            }
        }
        Part::Status => fields.cut(&["f:spec"]),
        Part::Finalize | Part::EphemeralContainers | Part::Resize => fields.cut(&["f:status"]),
    }
}
