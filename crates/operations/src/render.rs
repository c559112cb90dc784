//! From a lab to Kubernetes objects: templates are rendered, manifests read, and every object gets klab's labels.
//!
//! Pure: files and environment were read with the lab ([`klab_lab::spec::Files`]).

mod context;
mod engine;
mod shown;
pub mod yaml;

pub use shown::{shown, shown_list, workload};

use klab_api_machinery::resource::ResourceId;
use klab_cluster::system::scheduler_configurations;
use klab_lab::code::Code;
use klab_lab::names::{LAB_LABEL, MANAGED_BY_LABEL, MANAGER, WORKLOAD_LABEL};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use serde_json::{Map, Value, json};

use engine::Engine;
use klab_lab::spec::files::FileContent;
use klab_lab::spec::{Diagnostic, Diagnostics, Lab, Located, Location, ManifestContent, Source, Workload};

/// One object to apply.
#[derive(Clone, PartialEq)]
pub struct Manifest {
    /// The object, with klab's labels and its namespace.
    pub object: Value,
    /// Where it comes from.
    pub origin: Origin,
    /// The workload it belongs to.
    pub workload: Option<String>,
}

/// Where an object comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The template or file.
    pub file: String,
    /// The line (from 1) on which the object begins: in the file, or, for a template, in what was rendered from it.
    pub line: usize,
    /// The place of the lab file that asked for it.
    pub lab: Location,
    /// Whether the template is klab's own, which no user has as a file.
    pub built_in: bool,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.built_in {
            return write!(f, "{}", self.lab);
        }
        write!(f, "{}:{}", self.file, self.line)
    }
}

impl Manifest {
    /// `apps/v1`.
    pub fn api_version(&self) -> &str {
        self.object["apiVersion"].as_str().unwrap_or_default()
    }

    /// `Deployment`.
    pub fn kind(&self) -> &str {
        self.object["kind"].as_str().unwrap_or_default()
    }

    /// The object's name.
    pub fn name(&self) -> &str {
        self.object["metadata"]["name"].as_str().unwrap_or_default()
    }

    /// The object's namespace; none for kinds that have none.
    pub fn namespace(&self) -> Option<&str> {
        self.object["metadata"]["namespace"].as_str()
    }

    /// Whether the object holds values that must not be shown.
    pub fn is_secret(&self) -> bool {
        self.kind() == "Secret" && self.api_version() == "v1"
    }

    /// The object as it may be shown: the values of a Secret replaced.
    pub fn shown(&self) -> Value {
        let mut object = self.object.clone();
        if self.is_secret() {
            for field in ["data", "stringData"] {
                if let Some(Value::Object(entries)) = object.get_mut(field) {
                    entries.values_mut().for_each(|value| *value = json!("(secret)"));
                }
            }
        }
        object
    }

    fn identity(&self) -> (String, String, String, String) {
        let group = self.api_version().split_once('/').map_or("", |(group, _)| group);
        let namespace = self.namespace().unwrap_or_default();
        (group.to_owned(), self.kind().to_owned(), namespace.to_owned(), self.name().to_owned())
    }
}

/// Values of Secrets are left out.
impl fmt::Debug for Manifest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Manifest")
            .field("object", &self.shown())
            .field("origin", &self.origin)
            .field("workload", &self.workload)
            .finish()
    }
}

/// All objects of a lab's set-up: the scheduler's configuration, namespaces, ConfigMaps and Secrets, manifests, workloads, in this order. What is
/// `deferred` is left out.
pub fn render(lab: &Lab) -> Result<Vec<Manifest>, Diagnostics> {
    let mut renderer = Renderer::new(lab)?;
    if let Some(scheduler) = lab.scheduler.as_ref().filter(|_| lab.configures_scheduler_by_object()) {
        renderer.template("scheduler.yaml.tera", &context::scheduler(&scheduler.value), &scheduler.at, None);
    }
    for namespace in &lab.namespaces {
        let context = json!({ "namespace": {
            "name": namespace.name.value,
            "labels": namespace.labels,
        }});
        renderer.template("namespace.yaml.tera", &context, &namespace.name.at, None);
    }
    for bundle in &lab.bundles {
        let (template, context) = context::bundle(lab, bundle);
        renderer.template(template, &context, &bundle.name.at, None);
    }
    for manifest in &lab.manifests {
        renderer.content(&manifest.content);
    }
    for workload in lab.workloads.iter().filter(|workload| !workload.deferred) {
        renderer.workload(workload);
    }
    renderer.missing_namespaces();
    renderer.finish()
}

/// The kinds of objects, as `apiVersion/Kind`.
pub fn kinds(manifests: &[Manifest]) -> BTreeSet<String> {
    manifests.iter().map(|manifest| format!("{}/{}", manifest.api_version(), manifest.kind())).collect()
}

/// The objects of one workload, for a step that makes or changes it.
pub fn render_workload(lab: &Lab, workload: &Workload) -> Result<Vec<Manifest>, Diagnostics> {
    let mut renderer = Renderer::new(lab)?;
    renderer.workload(workload);
    renderer.finish()
}

/// The object that owns a workload's pods, where the workload's template makes one.
pub fn render_main(lab: &Lab, workload: &Workload) -> Result<Option<Manifest>, Diagnostics> {
    let is_main = |one: &Manifest| one.kind() == workload.kind.kind() && one.name() == *workload.name;
    Ok(render_workload(lab, workload)?.into_iter().find(is_main))
}

/// The objects that a step applies.
pub fn render_content(lab: &Lab, content: &ManifestContent) -> Result<Vec<Manifest>, Diagnostics> {
    let mut renderer = Renderer::new(lab)?;
    renderer.content(content);
    renderer.finish()
}

struct Renderer<'a> {
    lab: &'a Lab,
    engine: Engine,
    manifests: Vec<Manifest>,
    diagnostics: Diagnostics,
    /// The file of which nothing may be shown: the user let the lab read it, but it is none of the lab's.
    outside: Option<(String, Location)>,
}

impl<'a> Renderer<'a> {
    fn new(lab: &'a Lab) -> Result<Self, Diagnostics> {
        let (engine, diagnostics) = (Engine::new(lab)?, Diagnostics::default());
        Ok(Self { lab, engine, manifests: Vec::new(), diagnostics, outside: None })
    }

    /// Reports a problem; of one in a file outside the lab's folder only which file and that it cannot be used.
    fn report(&mut self, diagnostic: Diagnostic) {
        self.diagnostics.push(match &self.outside {
            None => diagnostic,
            Some((file, lab)) => Diagnostic::error(diagnostic.code, format!("{file} cannot be used"))
                .at(lab, "named here")
                .note("what is wrong in it is not shown: it is outside the lab's folder"),
        });
    }

    /// Does something with a file, as its problems may be shown.
    fn with_file(&mut self, file: &FileContent, at: &Located<String>, work: impl FnOnce(&mut Self)) {
        self.outside = file.outside.then(|| (file.path.clone(), at.at.clone()));
        work(self);
        self.outside = None;
    }

    fn finish(mut self) -> Result<Vec<Manifest>, Diagnostics> {
        self.duplicates();
        if self.diagnostics.is_empty() { Ok(self.manifests) } else { Err(self.diagnostics) }
    }

    fn workload(&mut self, workload: &Workload) {
        let context = context::workload(self.lab, workload);
        let name = &workload.name;
        if let Some(template) = &workload.template {
            let lab = self.lab;
            for file in lab.files.matching(template) {
                self.with_file(file, template, |this| {
                    if let Some(text) = this.text(file, template) {
                        this.own_template(&file.path, &text, &context, template, Some(name));
                    }
                });
            }
        } else {
            self.template(&format!("{}.yaml.tera", workload.kind.as_str()), &context, &name.at, Some(name));
        }
        if workload.service.is_some() {
            self.template("service.yaml.tera", &context, &name.at, Some(name));
        }
    }

    /// Renders a built-in template.
    fn template(&mut self, name: &str, context: &Value, at: &Location, workload: Option<&Located<String>>) {
        let shown = format!("templates/{name}");
        match self.engine.render(name, context) {
            Ok(text) => {
                let before = self.manifests.len();
                self.documents(&shown, &text, at, workload, true);
                self.manifests.iter_mut().skip(before).for_each(|manifest| manifest.origin.built_in = true);
            }
            Err(error) => self.report(Engine::diagnostic(*error, &shown, None, at)),
        }
    }

    /// Renders a template of the author's own.
    fn own_template(
        &mut self,
        name: &str,
        text: &str,
        context: &Value,
        at: &Located<String>,
        workload: Option<&Located<String>>,
    ) {
        match self.engine.render_text(text, context) {
            Ok(rendered) => self.documents(name, &rendered, &at.at, workload, true),
            Err(error) => self.report(Engine::diagnostic(*error, name, Some(text), &at.at)),
        }
    }

    fn content(&mut self, content: &ManifestContent) {
        match content {
            ManifestContent::Path(path) => self.files(path),
            ManifestContent::Yaml(yaml) => self.inline(yaml),
        }
    }

    fn files(&mut self, path: &Located<String>) {
        let lab = self.lab;
        for file in lab.files.matching(path) {
            self.with_file(file, path, |this| {
                let Some(text) = this.text(file, path) else { return };
                if file.is_template() {
                    this.own_template(&file.path, &text, &json!({}), path, None);
                } else {
                    this.documents(&file.path, &text, &path.at, None, false);
                }
            });
        }
    }

    fn inline(&mut self, yaml: &Located<String>) {
        // A text without escapes and templates stands in the lab file as it is: then lines are those of the lab file.
        let source = yaml.at.source();
        let written = &source.text()[yaml.at.span()];
        if let Some(start) = written.find(yaml.value.as_str()) {
            let line = source.line(yaml.at.span().start + start);
            let padded = "\n".repeat(line - 1) + &yaml.value;
            let name = source.name().to_owned();
            self.documents(&name, &padded, &yaml.at, None, false);
        } else {
            let name = format!("{} (`yaml` on line {})", source.name(), yaml.at.line());
            self.documents(&name, &yaml.value, &yaml.at, None, true);
        }
    }

    fn text(&mut self, file: &FileContent, path: &Located<String>) -> Option<String> {
        let Ok(text) = std::str::from_utf8(&file.bytes) else {
            self.report(
                Diagnostic::error(Code::ManifestText, format!("{} is not UTF-8 text", file.path))
                    .at(&path.at, "named here"),
            );
            return None;
        };
        Some(text.strip_prefix('\u{feff}').unwrap_or(text).to_owned())
    }

    /// Takes the objects out of YAML text; `rendered` says that the text came out of a template.
    fn documents(
        &mut self,
        name: &str,
        text: &str,
        lab: &Location,
        workload: Option<&Located<String>>,
        rendered: bool,
    ) {
        let shown = match (rendered, workload) {
            (true, Some(workload)) => format!("{name} (rendered for workload `{workload}`)"),
            (true, None) => format!("{name} (rendered)"),
            (false, _) => name.to_owned(),
        };
        let source = Source::new(shown, text);
        for document in yaml::documents(text) {
            match document.parse() {
                Ok(Value::Null) => {}
                Ok(value) => self.object(value, name, document.line, &source, lab, workload),
                Err(problem) => {
                    let line = source.line_span(problem.line);
                    let at = match problem.column {
                        Some(column) => {
                            let start = (line.start + column - 1).min(line.end);
                            source.at(start..line.end.max(start))
                        }
                        None => source.at(line),
                    };
                    self.report(
                        Diagnostic::error(Code::ManifestYaml, format!("{name} is not YAML"))
                            .at(&at, problem.message)
                            .note(format!("asked for at {lab}")),
                    );
                }
            }
        }
    }

    fn object(
        &mut self,
        mut value: Value,
        file: &str,
        line: usize,
        source: &Arc<Source>,
        lab: &Location,
        workload: Option<&Located<String>>,
    ) {
        let is_list = value["kind"].as_str().is_some_and(|kind| kind.ends_with("List"));
        if is_list && let Some(Value::Array(items)) = value.get_mut("items").map(Value::take) {
            for item in items {
                self.object(item, file, line, source, lab, workload);
            }
            return;
        }
        if let Some(missing) = missing_part(&value) {
            let at = source.at(source.line_span(line));
            self.report(
                Diagnostic::error(Code::ManifestObject, format!("a document of {file} is not a Kubernetes object"))
                    .at(&at, missing)
                    .note(format!("asked for at {lab}")),
            );
            return;
        }
        let mut manifest = Manifest {
            object: value,
            origin: Origin { file: file.to_owned(), line, lab: lab.clone(), built_in: false },
            workload: workload.map(|workload| workload.value.clone()),
        };
        self.complete(&mut manifest);
        self.manifests.push(manifest);
    }

    /// Sets the namespace and klab's labels.
    fn complete(&self, manifest: &mut Manifest) {
        let namespaced = ResourceId::by_kind(manifest.api_version(), manifest.kind())
            .map_or_else(|| !self.is_cluster_scoped_custom(manifest), |id| id.row().namespaced);
        let workload = manifest.workload.clone();
        let metadata = &mut manifest.object["metadata"];
        if !namespaced {
            if let Value::Object(metadata) = metadata {
                metadata.remove("namespace");
            }
        } else if metadata["namespace"].as_str().is_none_or(str::is_empty) {
            metadata["namespace"] = json!("default");
        }
        set_label(metadata, MANAGED_BY_LABEL, MANAGER);
        set_label(metadata, LAB_LABEL, &self.lab.name);
        if let Some(workload) = workload {
            set_label(metadata, WORKLOAD_LABEL, &workload);
            for path in ["/spec/template", "/spec/jobTemplate/spec/template"] {
                if let Some(template @ Value::Object(_)) = manifest.object.pointer_mut(path) {
                    if !template["metadata"].is_object() {
                        template["metadata"] = json!({});
                    }
                    set_label(&mut template["metadata"], WORKLOAD_LABEL, &workload);
                }
            }
        }
    }

    /// Whether a CustomResourceDefinition of the lab, or of AKS, says that objects of this kind have no namespace.
    fn is_cluster_scoped_custom(&self, manifest: &Manifest) -> bool {
        let group = manifest.api_version().split_once('/').map_or("", |(group, _)| group);
        let of_aks = scheduler_configurations();
        self.manifests.iter().map(|manifest| &manifest.object).chain([&of_aks]).any(|definition| {
            let spec = &definition["spec"];
            definition["kind"] == "CustomResourceDefinition"
                && spec["group"] == group
                && spec["names"]["kind"] == manifest.kind()
                && spec["scope"] == "Cluster"
        })
    }

    /// Namespaces that objects name and no manifest declares come first.
    fn missing_namespaces(&mut self) {
        let declared: BTreeSet<&str> =
            self.manifests.iter().filter(|manifest| manifest.kind() == "Namespace").map(Manifest::name).collect();
        let mut missing: BTreeMap<String, Location> = BTreeMap::new();
        let deferred = self.lab.workloads.iter().filter(|workload| workload.deferred);
        let named = self
            .manifests
            .iter()
            .filter_map(|manifest| Some((manifest.namespace()?, &manifest.origin.lab)))
            .chain(deferred.map(|workload| (workload.namespace.as_str(), &workload.name.at)));
        for (namespace, lab) in named {
            // Every cluster has these.
            let is_there = namespace == "default" || namespace.starts_with("kube-");
            if !is_there && !declared.contains(namespace) {
                missing.entry(namespace.to_owned()).or_insert_with(|| lab.clone());
            }
        }
        let rest = std::mem::take(&mut self.manifests);
        for (name, lab) in missing {
            let context = json!({ "namespace": { "name": name, "labels": {} } });
            self.template("namespace.yaml.tera", &context, &lab, None);
        }
        self.manifests.extend(rest);
    }

    fn duplicates(&mut self) {
        let mut seen: BTreeMap<_, &Manifest> = BTreeMap::new();
        for manifest in &self.manifests {
            if let Some(first) = seen.insert(manifest.identity(), manifest) {
                let place = manifest.namespace().map(|name| format!(" in namespace `{name}`")).unwrap_or_default();
                let message = format!("the object {} `{}`{place} is there twice", manifest.kind(), manifest.name());
                self.diagnostics.push(
                    Diagnostic::error(Code::DuplicateManifest, message)
                        .at(&manifest.origin.lab, format!("from {}", manifest.origin))
                        .and_at(&first.origin.lab, format!("from {}", first.origin)),
                );
            }
        }
    }
}

fn set_label(metadata: &mut Value, key: &str, value: &str) {
    if !metadata["labels"].is_object() {
        metadata["labels"] = Value::Object(Map::new());
    }
    metadata["labels"][key] = json!(value);
}

/// What keeps a document from being an object.
fn missing_part(value: &Value) -> Option<String> {
    let Value::Object(_) = value else {
        return Some("expected an object with `apiVersion`, `kind` and `metadata`".to_owned());
    };
    let text = |value: &Value| value.as_str().is_some_and(|text| !text.is_empty());
    if !text(&value["apiVersion"]) {
        return Some("`apiVersion` is missing".to_owned());
    }
    if !text(&value["kind"]) {
        return Some("`kind` is missing".to_owned());
    }
    let metadata = &value["metadata"];
    if !text(&metadata["name"]) {
        return Some(if text(&metadata["generateName"]) {
            "`metadata.generateName` gives a new object every time; klab needs `metadata.name`".to_owned()
        } else if metadata["name"].is_null() {
            "`metadata.name` is missing".to_owned()
        } else {
            "`metadata.name` is not a string; put it in quotes".to_owned()
        });
    }
    if let Some(namespace) = metadata["namespace"].as_str() {
        let fine = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        if namespace.len() > 63 || !namespace.chars().all(fine) {
            return Some(format!("`metadata.namespace` is not a valid name: {namespace}"));
        }
    }
    let labels = &metadata["labels"];
    if !labels.is_null() && !labels.is_object() {
        return Some("`metadata.labels` is not a table of labels".to_owned());
    }
    None
}

#[cfg(test)]
mod tests;
