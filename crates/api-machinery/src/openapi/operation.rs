//! What can be asked of one resource: every operation, as both forms of the specification say it.

// upstream: apiserver pkg/endpoints/installer.go registerResourceHandlers, pkg/endpoints/openapi/openapi.go;
// apiextensions-apiserver pkg/controller/openapi/builder/builder.go for custom resources (v1.36)

mod discovery;

use crate::custom::Listing;
use crate::registry;
use crate::resource::{Resource, ResourceId, Subresource};

use super::parameter::{self, Parameter};
pub(super) use discovery::discovery;

/// A path, and what can be asked there.
#[derive(Debug)]
pub(super) struct Path {
    pub(super) name: String,
    pub(super) operations: Vec<Operation>,
}

/// One request.
#[derive(Debug)]
pub(super) struct Operation {
    /// As paths name it, `get`.
    pub(super) method: &'static str,
    pub(super) id: String,
    pub(super) tag: String,
    pub(super) description: String,
    /// `x-kubernetes-action`; of discovery empty.
    pub(super) action: &'static str,
    /// Group, version and kind that are sent or answered; of discovery none.
    pub(super) kind: Option<Kind>,
    pub(super) consumes: &'static [&'static str],
    pub(super) produces: &'static [&'static str],
    /// The schema of what is sent, and whether it must be.
    pub(super) body: Option<(String, bool)>,
    pub(super) parameters: Vec<Parameter>,
    /// The codes of good answers.
    pub(super) codes: &'static [(&'static str, &'static str)],
    /// The schema of good answers; where there is none they are text.
    pub(super) answer: Option<String>,
}

/// Group, version and kind.
pub(super) type Kind = (String, String, String);

const ANY: &[&str] = &["*/*"];
const FORMS: &[&str] = &["application/json", "application/yaml", "application/vnd.kubernetes.protobuf"];
const LOGS: &[&str] = &["text/plain", "application/json", "application/yaml", "application/vnd.kubernetes.protobuf"];
const STREAMS: &[&str] = &[
    "application/json",
    "application/yaml",
    "application/vnd.kubernetes.protobuf",
    "application/json;stream=watch",
    "application/vnd.kubernetes.protobuf;stream=watch",
];
const PATCHES: &[&str] = &[
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
];
/// Of custom resources.
const CUSTOM_FORMS: &[&str] = &["application/json", "application/yaml"];
const CUSTOM_PATCHES: &[&str] =
    &["application/json-patch+json", "application/merge-patch+json", "application/apply-patch+yaml"];

const FOUND: (&str, &str) = ("200", "OK");
const CREATED: (&str, &str) = ("201", "Created");
const ACCEPTED: (&str, &str) = ("202", "Accepted");

/// Schemas of what all kinds have in common.
const COMMON: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.";

/// Schemas of what is sent to and answered by subresources, by kind.
const PART_SCHEMAS: &[(&str, &str)] = &[
    ("Binding", "io.k8s.api.core.v1.Binding"),
    ("Eviction", "io.k8s.api.policy.v1.Eviction"),
    ("Scale", "io.k8s.api.autoscaling.v1.Scale"),
    ("TokenRequest", "io.k8s.api.authentication.v1.TokenRequest"),
];

/// The name of the schema of a custom resource's kind.
pub(super) fn custom_schema_name(row: &Resource, kind: &str) -> String {
    let reversed: Vec<&str> = row.group.rsplit('.').collect();
    format!("{}.{}.{kind}", reversed.join("."), row.version)
}

/// The names of a resource's schema and of that of its lists, where it has any.
pub(super) fn schema_names(row: &Resource, list_kind: &str) -> Option<(String, String)> {
    if row.custom {
        return Some((custom_schema_name(row, row.kind), custom_schema_name(row, list_kind)));
    }
    let id = ResourceId::by_path(row.group, row.version, row.plural)?;
    let name = registry::of(id).schema.map_or_else(
        || {
            let group = row.group.split('.').next().filter(|group| !group.is_empty()).unwrap_or("core");
            format!("io.k8s.api.{group}.{}.{}", row.version, row.kind)
        },
        str::to_owned,
    );
    let list = format!("{name}List");
    Some((name, list))
}

/// Schemas that subresources have of their own, with the kinds they are of.
pub(super) fn part_schema(row: &Resource, part: &Subresource) -> Option<(&'static str, Kind)> {
    let (_, name) = PART_SCHEMAS.iter().find(|(kind, _)| *kind == part.kind)?;
    Some((name, kind_of(row, part)))
}

fn kind_of(row: &Resource, part: &Subresource) -> Kind {
    let kind = if part.kind.is_empty() { row.kind } else { part.kind };
    let (group, version) = part.group_version.unwrap_or((row.group, row.version));
    (group.to_owned(), version.to_owned(), kind.to_owned())
}

/// `/api/v1`, `/apis/apps/v1`
pub fn root(group: &str, version: &str) -> String {
    if group.is_empty() { format!("/api/{version}") } else { format!("/apis/{group}/{version}") }
}

/// All paths of a resource.
pub(super) fn paths(listing: &Listing, list_kind: &str) -> Vec<Path> {
    let row = listing.row;
    let Some((object, list)) = schema_names(row, list_kind) else { return Vec::new() };
    let scene = Scene { row, object, list, tag: tag(row.group, row.version), title: title(row.group, row.version) };
    let root = root(row.group, row.version);
    let place = if row.namespaced { "/namespaces/{namespace}" } else { "" };
    let mut found = Vec::new();
    let mut add = |name: String, operations: Vec<Operation>| {
        if !operations.is_empty() {
            found.push(Path { name, operations });
        }
    };
    let plural = row.plural;
    if row.namespaced && scene.can("list") {
        add(format!("{root}/{plural}"), vec![scene.list(Reach::AllNamespaces)]);
    }
    add(format!("{root}{place}/{plural}"), scene.collection());
    add(format!("{root}{place}/{plural}/{{name}}"), scene.single());
    for part in listing.subresources {
        let at = format!("{root}{place}/{plural}/{{name}}/{}", part.name);
        if part.kind.ends_with("Options") {
            add(at.clone(), scene.connections(part, false));
            if part.name == "proxy" {
                add(format!("{at}/{{path}}"), scene.connections(part, true));
            }
        } else {
            add(at, scene.part(part));
        }
    }
    // Those of custom resources are served, but upstream does not tell of them.
    if scene.can("watch") && !row.custom {
        if row.namespaced {
            add(format!("{root}/watch/{plural}"), vec![scene.watch_list(Reach::AllNamespaces)]);
        }
        add(format!("{root}/watch{place}/{plural}"), vec![scene.watch_list(Reach::Place)]);
        add(format!("{root}/watch{place}/{plural}/{{name}}"), vec![scene.watch_one()]);
    }
    found
}

/// Where a list is from.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reach {
    AllNamespaces,
    /// One namespace, or the cluster.
    Place,
}

/// A resource, and what its operations say of it.
struct Scene<'a> {
    row: &'a Resource,
    object: String,
    list: String,
    tag: String,
    title: String,
}

impl Scene<'_> {
    fn can(&self, verb: &str) -> bool {
        self.row.verbs.contains(&verb)
    }

    fn namespaced(&self) -> &'static str {
        if self.row.namespaced { "Namespaced" } else { "" }
    }

    /// An operation without parameters but those of its place, and without a body.
    fn ask(&self, method: &'static str, action: &'static str, verb: &str, rest: &str) -> Operation {
        let Resource { group, version, kind, .. } = self.row;
        let mut parameters = vec![Parameter::Shared(parameter::PRETTY)];
        if self.row.namespaced {
            parameters.push(Parameter::Shared(parameter::NAMESPACE));
        }
        let forms = if self.row.custom { CUSTOM_FORMS } else { FORMS };
        Operation {
            method,
            id: format!("{verb}{}{}", self.title, valid(rest, true)),
            tag: self.tag.clone(),
            description: String::new(),
            action,
            kind: Some(((*group).to_owned(), (*version).to_owned(), (*kind).to_owned())),
            consumes: if self.row.custom { CUSTOM_FORMS } else { ANY },
            produces: forms,
            body: None,
            parameters,
            codes: &[FOUND],
            answer: Some(self.object.clone()),
        }
    }

    /// An operation on one object, or on a part of it.
    fn ask_one(&self, method: &'static str, action: &'static str, verb: &str, part: &str) -> Operation {
        let mut asked =
            self.ask(method, action, verb, &format!("{}{}{}", self.namespaced(), self.row.kind, capital(part)));
        asked.parameters.push(Parameter::NameOf(self.row.kind.to_owned()));
        asked
    }

    fn list(&self, reach: Reach) -> Operation {
        let kind = self.row.kind;
        let rest = match reach {
            Reach::AllNamespaces => format!("{kind}ForAllNamespaces"),
            Reach::Place => format!("{}{kind}", self.namespaced()),
        };
        let mut asked = self.ask("get", "list", "list", &rest);
        if reach == Reach::AllNamespaces {
            asked.parameters.retain(|one| *one != Parameter::Shared(parameter::NAMESPACE));
        }
        let watched = self.can("watch") && !self.row.custom;
        asked.description = format!("list {}objects of kind {kind}", if watched { "or watch " } else { "" });
        asked.add(parameter::LIST);
        asked.add(parameter::WATCH);
        asked.answer = Some(self.list.clone());
        if !self.row.custom {
            asked.produces = STREAMS;
        }
        asked
    }

    fn watch_list(&self, reach: Reach) -> Operation {
        let kind = self.row.kind;
        let mut asked = self.list(reach);
        let rest = match reach {
            Reach::AllNamespaces => format!("{kind}ListForAllNamespaces"),
            Reach::Place => format!("{}{kind}List", self.namespaced()),
        };
        asked.id = format!("watch{}{rest}", self.title);
        asked.action = "watchlist";
        asked.description = format!(
            "watch individual changes to a list of {kind}. deprecated: use the 'watch' parameter with a list operation instead."
        );
        asked.answer = Some(format!("{COMMON}WatchEvent"));
        asked
    }

    fn watch_one(&self) -> Operation {
        let kind = self.row.kind;
        let mut asked = self.watch_list(Reach::Place);
        asked.id = format!("watch{}{}{kind}", self.title, self.namespaced());
        asked.action = "watch";
        asked.description = format!(
            "watch changes to an object of kind {kind}. deprecated: use the 'watch' parameter with a list operation instead, filtered to a single item with the 'fieldSelector' parameter."
        );
        asked.parameters.push(Parameter::NameOf(kind.to_owned()));
        asked
    }

    /// What is asked of all objects at a place.
    fn collection(&self) -> Vec<Operation> {
        let kind = self.row.kind;
        let mut found = Vec::new();
        if self.can("list") {
            found.push(self.list(Reach::Place));
        }
        if self.can("create") {
            let mut asked = self.ask("post", "post", "create", &format!("{}{kind}", self.namespaced()));
            asked.description = format!("create {}{kind}", article(kind));
            asked.body = Some((self.object.clone(), true));
            asked.add(parameter::WRITE);
            asked.codes = &[FOUND, CREATED, ACCEPTED];
            found.push(asked);
        }
        if self.can("deletecollection") {
            let mut asked =
                self.ask("delete", "deletecollection", "delete", &format!("Collection{}{kind}", self.namespaced()));
            asked.description = format!("delete collection of {kind}");
            asked.add(parameter::LIST);
            if self.row.custom {
                asked.add(parameter::WATCH);
            } else {
                asked.add(parameter::DELETE);
                asked.body = Some((format!("{COMMON}DeleteOptions"), false));
            }
            asked.answer = Some(format!("{COMMON}Status"));
            found.push(asked);
        }
        found
    }

    /// What is asked of one object.
    fn single(&self) -> Vec<Operation> {
        let kind = self.row.kind;
        let mut found = self.changes("", &self.object, self.row.verbs);
        if self.can("delete") {
            let mut asked = self.ask_one("delete", "delete", "delete", "");
            asked.description = format!("delete {}{kind}", article(kind));
            asked.add(parameter::DELETE);
            asked.body = Some((format!("{COMMON}DeleteOptions"), false));
            asked.codes = &[FOUND, ACCEPTED];
            let id = ResourceId::by_path(self.row.group, self.row.version, self.row.plural);
            let with_object = !self.row.custom && id.is_some_and(|id| registry::of(id).answers_with_deleted);
            if !with_object {
                asked.answer = Some(format!("{COMMON}Status"));
            }
            found.push(asked);
        }
        found
    }

    /// What is read and written as objects are: these, and some of their parts.
    fn changes(&self, part: &str, schema: &str, verbs: &[&str]) -> Vec<Operation> {
        let kind = self.row.kind;
        let of = if part.is_empty() { String::new() } else { format!("{part} of ") };
        let mut found = Vec::new();
        if verbs.contains(&"get") {
            let mut asked = self.ask_one("get", "get", "read", part);
            asked.description = format!("read {of}the specified {kind}");
            if self.row.custom {
                asked.add(parameter::GET);
            }
            found.push(asked);
        }
        if verbs.contains(&"update") {
            let mut asked = self.ask_one("put", "put", "replace", part);
            asked.description = format!("replace {of}the specified {kind}");
            asked.body = Some((schema.to_owned(), true));
            asked.add(parameter::WRITE);
            asked.codes = &[FOUND, CREATED];
            found.push(asked);
        }
        if verbs.contains(&"patch") {
            let mut asked = self.ask_one("patch", "patch", "patch", part);
            asked.description = format!("partially update {of}the specified {kind}");
            asked.body = Some((format!("{COMMON}Patch"), true));
            asked.add(parameter::PATCH);
            asked.consumes = if self.row.custom { CUSTOM_PATCHES } else { PATCHES };
            asked.codes = if self.row.custom { &[FOUND] } else { &[FOUND, CREATED] };
            found.push(asked);
        }
        for asked in &mut found {
            asked.answer = Some(schema.to_owned());
        }
        found
    }

    /// What is asked of a part that is no stream.
    fn part(&self, part: &Subresource) -> Vec<Operation> {
        let schema = part_schema(self.row, part).map_or(self.object.as_str(), |(schema, _)| schema);
        let mut found = self.changes(part.name, schema, part.verbs);
        if part.verbs.contains(&"create") {
            let mut asked = self.ask_one("post", "post", "create", part.name);
            asked.description = format!("create {} of {}{}", part.name, article(self.row.kind), self.row.kind);
            asked.body = Some((schema.to_owned(), true));
            asked.add(parameter::WRITE);
            asked.codes = &[FOUND, CREATED, ACCEPTED];
            asked.answer = Some(schema.to_owned());
            found.push(asked);
        }
        for asked in &mut found {
            // Custom resources name their own kind for all their parts.
            if !self.row.custom {
                asked.kind = Some(kind_of(self.row, part));
                if !part.kind.is_empty() {
                    asked.rename(part.kind);
                }
            }
            if part.name == "log" {
                asked.produces = LOGS;
                asked.answer = None;
                asked.add(parameter::LOG);
            }
        }
        found
    }

    /// What is asked of a stream into an object: any method means the same.
    fn connections(&self, part: &Subresource, with_path: bool) -> Vec<Operation> {
        // Those of proxies say five, and are asked in seven ways.
        let methods: &[&str] = if part.name == "proxy" {
            &["get", "put", "post", "delete", "options", "head", "patch"]
        } else {
            &["get", "post"]
        };
        let connection = |method: &&'static str| {
            let rest = format!(
                "{}{}{}{}{}",
                capital(method),
                self.namespaced(),
                self.row.kind,
                capital(part.name),
                if with_path { "WithPath" } else { "" }
            );
            let mut asked = self.ask(method, "connect", "connect", &rest);
            let upper = method.to_ascii_uppercase();
            asked.description = format!("connect {upper} requests to {} of {}", part.name, self.row.kind);
            asked.kind = Some(kind_of(self.row, part));
            asked.parameters.retain(|one| *one != Parameter::Shared(parameter::PRETTY));
            asked.parameters.push(Parameter::NameOf(part.kind.to_owned()));
            asked.add(parameter::of_connection(part.kind));
            if with_path {
                asked.parameters.push(Parameter::Shared(parameter::PATH));
            }
            asked.produces = ANY;
            asked.answer = None;
            asked
        };
        methods.iter().map(connection).collect()
    }
}

impl Operation {
    fn add(&mut self, shared: &[&'static str]) {
        self.parameters.extend(shared.iter().map(|name| Parameter::Shared(name)));
    }

    fn rename(&mut self, kind: &str) {
        for one in &mut self.parameters {
            if matches!(one, Parameter::NameOf(_)) {
                *one = Parameter::NameOf(kind.to_owned());
            }
        }
    }
}

/// Parameters that all operations at a path have, which are said once for all of them.
pub(super) fn shared(operations: &[Operation]) -> Vec<&Parameter> {
    let Some((first, others)) = operations.split_first() else { return Vec::new() };
    let of_all = |one: &&Parameter| others.iter().all(|asked| asked.parameters.contains(one));
    let mut found: Vec<&Parameter> = first.parameters.iter().filter(of_all).collect();
    found.sort_by_key(|one| one.place());
    found
}

fn trimmed(group: &str) -> &str {
    if group.is_empty() { "core" } else { group.strip_suffix(".k8s.io").unwrap_or(group) }
}

/// `CoreV1`
fn title(group: &str, version: &str) -> String {
    format!("{}{}", valid(trimmed(group), true), valid(version, true))
}

/// `core_v1`
fn tag(group: &str, version: &str) -> String {
    format!("{}_{}", valid(trimmed(group), false), valid(version, false))
}

/// What may stand in the id of an operation: what may not begins a new word.
// upstream: ToValidOperationID
fn valid(text: &str, capital: bool) -> String {
    let mut capital = capital;
    let mut found = String::new();
    for (at, letter) in text.char_indices() {
        if letter.is_alphabetic() || letter == '_' || (at != 0 && letter.is_numeric()) {
            if capital {
                found.extend(letter.to_uppercase());
            } else {
                found.push(letter);
            }
            capital = false;
        } else {
            capital = true;
        }
    }
    found
}

fn capital(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

/// `a `, `an `, and nothing for plurals.
// upstream: GetArticleForNoun
fn article(noun: &str) -> &'static str {
    if noun.ends_with('s') && !noun.ends_with("ss") {
        return "";
    }
    let vowel = noun.chars().next().is_some_and(|first| "aeiou".contains(first.to_ascii_lowercase()));
    if vowel { "an " } else { "a " }
}
