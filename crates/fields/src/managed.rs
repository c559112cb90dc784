//! `metadata.managedFields`: who set which fields of an object.

// upstream: staging/src/k8s.io/apimachinery/pkg/util/managedfields/internal/managedfields.go BuildManagerIdentifier (v1.36)

use std::collections::HashSet;
use std::sync::Arc;

use jiff::Timestamp;
use klab_api_machinery::custom::{Definition, Version};
use klab_api_machinery::managed_fields::ManagedFields;
use klab_api_machinery::object::Object;
use klab_api_machinery::part::Part;
use klab_api_machinery::resource::ResourceId;
use klab_api_machinery::schema::schema;
use klab_api_machinery::value::time_text;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::fields::Fields;
use super::place::Root;
use super::typed::{Difference, compare};

/// More managers of plain writes than this are merged into one, the oldest first.
const MAX_UPDATERS: usize = 10;
const ANCIENT: &str = "ancient-changes";
/// The manager of the fields of an object that had no managers before it was applied.
const BEFORE_APPLY: &str = "before-first-apply";

/// Fields without managers.
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
pub struct Entry {
    /// Who manages them.
    pub manager: String,
    /// Whether by server-side apply.
    pub applied: bool,
    /// The version in which the fields are named.
    pub api_version: String,
    /// When the manager last changed them, in RFC 3339.
    pub time: Option<String>,
    /// The subresource that they were written through; empty for the object itself.
    pub subresource: String,
    /// The fields.
    pub fields: Fields,
}

impl Entry {
    /// How conflicts name the manager.
    pub(crate) fn title(&self) -> String {
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
pub struct Managed(pub Vec<Entry>);

/// Whose write it is.
#[derive(Debug, Clone)]
pub struct Writer<'a> {
    /// What the writer calls itself.
    pub manager: &'a str,
    /// The kind, as it is written.
    pub resource: ResourceId,
    /// The part that is written.
    pub part: Part,
    /// Whether the kind has a `status` subresource.
    pub has_status: bool,
    /// When.
    pub now: Timestamp,
    /// Of a custom resource.
    pub definition: Option<Arc<Definition>>,
    /// How the write looks in other versions, where managers own fields in those and a webhook converts objects.
    pub elsewhere: Vec<(String, Difference)>,
}

impl<'a> Writer<'a> {
    /// Somebody's write of a kind, or of the definition's version of it.
    pub fn new(manager: &'a str, resource: ResourceId, part: Part, now: Timestamp) -> Self {
        Self { manager, resource, part, has_status: false, now, definition: None, elsewhere: Vec::new() }
    }

    /// How the write looks in the version in which a manager owns fields. `own` is how it looks in the writer's.
    pub(crate) fn seen_in<'b>(&'b self, api_version: &str, own: &'b Difference) -> &'b Difference {
        self.elsewhere.iter().find(|(version, _)| version == api_version).map_or(own, |(_, difference)| difference)
    }
}

impl Writer<'_> {
    /// What is known of the kind, in the version that is written.
    pub fn root(&self) -> Root<'_> {
        let row = self.resource.row();
        let version = self.definition.as_ref().and_then(|definition| definition.version(self.resource));
        Root::new(&row.api_version(), row.kind, version.map(Version::schema))
    }
}

/// An entry as it is written, in the order of API servers.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Written<F> {
    manager: String,
    operation: Operation,
    api_version: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    time: Option<String>,
    fields_type: String,
    fields_v1: F,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    subresource: String,
}

#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum Operation {
    Apply,
    Update,
}

impl Managed {
    /// The managers of an object.
    pub fn of(object: &Object) -> Self {
        let Some(managed) = object.managed() else { return Self::default() };
        Self::of_text(&managed.text()).unwrap_or_else(|| Self::of_list(&object.managed_fields()))
    }

    /// Reads text that was written here, or by an earlier klab, by way of a value.
    fn of_text(text: &str) -> Option<Self> {
        let list: Vec<Written<Fields>> = serde_json::from_str(text).ok()?;
        let entries = list.into_iter().map(|written| Entry {
            manager: written.manager,
            applied: written.operation == Operation::Apply,
            api_version: written.api_version,
            time: written.time,
            subresource: written.subresource,
            fields: written.fields_v1,
        });
        Some(Self(entries.collect()))
    }

    /// Reads a list that a client sent.
    fn of_list(list: &Value) -> Self {
        let text = |entry: &Value, field: &str| entry[field].as_str().unwrap_or_default().to_owned();
        let entries = list.as_array().into_iter().flatten().filter(|entry| entry["operation"].is_string());
        let entries = entries.map(|entry| Entry {
            manager: text(entry, "manager"),
            applied: entry["operation"] == "Apply",
            api_version: text(entry, "apiVersion"),
            time: entry["time"].as_str().map(str::to_owned),
            subresource: text(entry, "subresource"),
            fields: Fields::read(&entry["fieldsV1"]),
        });
        Self(entries.collect())
    }

    /// Reads the list that admission has left in an object.
    ///
    /// # Errors
    /// What is wrong with it.
    // upstream: apimachinery pkg/util/managedfields/internal/managedfields.go DecodeManagedFields (v1.36)
    pub fn checked(list: &Value) -> Result<Self, String> {
        for (at, entry) in list.as_array().into_iter().flatten().enumerate() {
            if !["Apply", "Update"].iter().any(|operation| entry["operation"] == *operation) {
                return Err("operation must be `Apply` or `Update`".to_owned());
            }
            if entry["apiVersion"].as_str().unwrap_or_default().is_empty() {
                return Err("apiVersion must not be empty".to_owned());
            }
            match entry["fieldsType"].as_str().unwrap_or_default() {
                "FieldsV1" => {}
                "" => return Err(format!("missing fieldsType in managed fields entry {at}")),
                other => return Err(format!("invalid fieldsType {other:?} in managed fields entry {at}")),
            }
            if !entry["fieldsV1"].is_null() && !entry["fieldsV1"].is_object() {
                return Err(format!("error decoding versioned set in managed fields entry {at}"));
            }
        }
        Ok(Self::of_list(list))
    }

    /// The list as an object of the kind keeps it; none of an empty one.
    pub fn kept(mut self, resource: ResourceId) -> Option<ManagedFields> {
        self.0.retain(|entry| !entry.fields.is_empty());
        self.0.sort_by(|left, right| {
            let rank = |entry: &Entry| (!entry.applied, entry.time.clone().unwrap_or_default());
            rank(left)
                .cmp(&rank(right))
                .then_with(|| left.manager.cmp(&right.manager))
                .then_with(|| left.api_version.cmp(&right.api_version))
                .then_with(|| left.subresource.cmp(&right.subresource))
        });
        if self.0.is_empty() {
            return None;
        }
        let list = self.0.into_iter().map(|entry| Written {
            manager: entry.manager,
            operation: if entry.applied { Operation::Apply } else { Operation::Update },
            api_version: entry.api_version,
            time: entry.time,
            fields_type: "FieldsV1".to_owned(),
            fields_v1: entry.fields,
            subresource: entry.subresource,
        });
        let list: Vec<_> = list.collect();
        // Strings and trees of strings always serialise. Fields of custom resources are sorted.
        let text = if resource.row().custom {
            serde_json::to_value(&list).unwrap_or_default().to_string()
        } else {
            serde_json::to_string(&list).unwrap_or_default()
        };
        Some(ManagedFields::of(&text))
    }

    /// The entry of that manager, added if there is none.
    pub fn entry(&mut self, writer: &Writer<'_>, applied: bool) -> &mut Entry {
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

    /// Whether the same own the same fields in two lists, whenever they wrote them.
    // upstream: apiserver pkg/endpoints/handlers/fieldmanager/equality.go IgnoreManagedFieldsTimestampsTransformer (v1.36)
    pub fn are_alike(one: Option<&ManagedFields>, other: Option<&ManagedFields>) -> bool {
        let timeless = |managed: &ManagedFields| {
            let mut managed = Self::of_text(&managed.text())?;
            managed.0.iter_mut().for_each(|entry| entry.time = None);
            Some(managed)
        };
        match (one, other) {
            (Some(one), Some(other)) => one == other || timeless(one).is_some_and(|one| Some(one) == timeless(other)),
            (one, other) => one.is_none() && other.is_none(),
        }
    }

    fn cap_updaters(&mut self) {
        let mut updaters: Vec<usize> = (0..self.0.len()).filter(|at| !self.0[*at].applied).collect();
        let Some(many) = updaters.len().checked_sub(MAX_UPDATERS).filter(|many| *many > 0) else { return };
        updaters.sort_by(|left, right| self.0[*left].time.cmp(&self.0[*right].time));
        // The last of those that go into one stays where it is.
        let (old, last) = (&updaters[..many], updaters[many]);
        let mut fields = Fields::default();
        for at in old {
            fields.add(&self.0[*at].fields);
        }
        self.0[last].fields.add(&fields);
        ANCIENT.clone_into(&mut self.0[last].manager);
        let gone: HashSet<usize> = old.iter().copied().collect();
        let mut at = 0;
        self.0.retain(|_| {
            at += 1;
            !gone.contains(&(at - 1))
        });
    }

    /// The managers of an object about to be applied to.
    pub fn before_apply(current: &Object, live: &Value, writer: &Writer<'_>) -> Self {
        let mut managed = Self::of(current);
        if managed.0.is_empty() {
            let difference = difference(&zero(writer.resource), live, writer);
            let first = Writer { manager: BEFORE_APPLY, ..writer.clone() };
            managed.note_update(&difference, &first);
        }
        managed
    }
}

/// What becomes of the managers of an object in a write that is no server-side apply; `None` if they stay. `current` is
/// `None` for a new object.
pub fn track(current: Option<(&Object, &Value)>, new: &mut Value, writer: &Writer<'_>) -> Option<Managed> {
    let sent = new["metadata"].as_object_mut().and_then(|metadata| metadata.remove("managedFields"));
    let sent = sent.filter(|_| writer.part == Part::Main).and_then(|list| asked_for(&list));
    if writer.manager.is_empty() {
        return None;
    }
    let difference = match current {
        Some((_, old)) => difference(old, new, writer),
        None => difference(&zero(writer.resource), new, writer),
    };
    if current.is_some() && sent.is_none() && difference.is_empty() {
        return None;
    }
    let mut managed = match (sent, current) {
        (Some(sent), _) => sent,
        (None, Some((current, _))) => Managed::of(current),
        (None, None) => Managed::default(),
    };
    // upstream: skipnonapplied.go: who has no managers gets none before something is applied.
    if current.is_none() || !managed.0.is_empty() {
        managed.note_update(&difference, writer);
    }
    Some(managed)
}

/// The managers that a client asks for: none with an empty list, or one empty entry. `None` where it does not say.
// upstream: apimachinery pkg/util/managedfields/internal/fieldmanager.go decodeLiveOrNew, isResetManagedFields (v1.36)
fn asked_for(list: &Value) -> Option<Managed> {
    let entries = list.as_array()?;
    let is_reset = match entries.as_slice() {
        [] => true,
        [one] => one.as_object().is_some_and(serde_json::Map::is_empty),
        _ => false,
    };
    let managed = Managed::of_list(list);
    (is_reset || !managed.0.is_empty()).then_some(managed)
}

/// Who manages the fields of an object that is answered and not stored.
pub fn new_managers(resource: ResourceId, value: &mut Value, manager: &str, now: Timestamp) -> Option<ManagedFields> {
    let writer = Writer { has_status: true, ..Writer::new(manager, resource, Part::Main, now) };
    track(None, value, &writer)?.kept(resource)
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
pub fn difference(old: &Value, new: &Value, writer: &Writer<'_>) -> Difference {
    let mut difference = compare(old, new, writer.root().place());
    strip(&mut difference.changed, writer);
    strip(&mut difference.removed, writer);
    difference
}

/// Takes out fields that have no managers, or that the part cannot write.
pub fn strip(fields: &mut Fields, writer: &Writer<'_>) {
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
