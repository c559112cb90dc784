//! Expressions of admission: what they may name, what they must come to, and the words for it.

// upstream: staging/src/k8s.io/apiserver/pkg/admission/plugin/cel/compile.go CompileCELExpression, BuildRequestType,
// BuildNamespaceType (v1.36)

use std::collections::BTreeSet;
use std::sync::{Arc, LazyLock};

use klab_cel::{Declaration, Environment, Field, ObjectType, Program, Shape, Type};

use crate::work;

/// What an expression must come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted {
    Bool,
    Text,
    TextOrNull,
    /// A part of an object.
    Configuration,
    /// A JSON patch.
    Patches,
    Anything,
}

/// What an expression may name.
#[derive(Debug, Clone, Copy, Default)]
pub struct Names<'a> {
    pub params: bool,
    pub authorizer: bool,
    /// `variables.*`, and what they come to.
    pub variables: &'a [(String, Type)],
    /// What `object` is; unknown if nothing is said.
    pub object: Option<&'a Declaration>,
    /// What `params` are.
    pub of_params: Option<&'a Declaration>,
}

/// Compiles an expression.
///
/// # Errors
/// The sentence after the expression in the refusal of an object.
pub fn compile(source: &str, names: &Names<'_>, wanted: Wanted) -> Result<Program, String> {
    let patches = matches!(wanted, Wanted::Configuration | Wanted::Patches);
    let program =
        environment(source, names, patches).compile(source).map_err(|text| format!("compilation failed: {text}"))?;
    let output = program.output().to_string();
    let good: &[&str] = match wanted {
        Wanted::Anything => return Ok(program),
        Wanted::Bool => &["bool"],
        Wanted::Text => &["string"],
        Wanted::TextOrNull => &["string", "null_type"],
        Wanted::Configuration => &["Object"],
        Wanted::Patches => &["list(JSONPatch)"],
    };
    match good {
        _ if good.contains(&output.as_str()) => Ok(program),
        [one] => Err(format!("must evaluate to {one} but got {output}")),
        several => Err(format!("must evaluate to one of [{}]", several.join(" "))),
    }
}

/// The errors of an expression whose `object` is of a known kind.
pub fn type_errors(source: &str, names: &Names<'_>) -> Option<String> {
    environment(source, names, false).compile(source).err()
}

fn environment(source: &str, names: &Names<'_>, patches: bool) -> Environment {
    let opaque = |name: &str| Declaration::simple(Type::Opaque(format!("kubernetes.authorization.{name}").into()));
    let unknown = || Declaration::simple(Type::Dyn);
    let object = || names.object.cloned().unwrap_or_else(unknown);
    let mut environment = Environment::new()
        .metered(work::steps)
        .variable("object", object())
        .variable("oldObject", object())
        .variable("request", REQUEST.clone())
        .variable("namespaceObject", NAMESPACE.clone());
    if names.params {
        environment = environment.variable("params", names.of_params.cloned().unwrap_or_else(unknown));
    }
    if names.authorizer {
        environment = environment
            .variable("authorizer", opaque("Authorizer"))
            .variable("authorizer.requestResource", opaque("ResourceCheck"));
    }
    for (name, output) in names.variables {
        environment = environment.variable(&format!("variables.{name}"), Declaration::simple(output.clone()));
    }
    if patches {
        for (name, declaration) in message_types(source) {
            environment = environment.variable(&name, declaration);
        }
    }
    environment
}

/// The types of messages that an expression may make: `JSONPatch`, `Object`, and of its parts those that it names, with
/// the fields that it names. What a part may hold is not known before the object is.
fn message_types(source: &str) -> Vec<(String, Declaration)> {
    let of_type = |name: &str, fields: Vec<(String, Declaration)>| {
        let fields = fields.into_iter().map(|(key, declaration)| (key.clone(), Field { key, declaration })).collect();
        Type::Object(Arc::new(ObjectType { name: name.to_owned(), fields }))
    };
    let named = |output: Type| Declaration::simple(Type::Type(Arc::new(output)));
    let text = || Declaration::string(u64::MAX);
    let patch = of_type(
        "JSONPatch",
        vec![
            ("op".to_owned(), text()),
            ("path".to_owned(), text()),
            ("from".to_owned(), text()),
            ("value".to_owned(), Declaration::simple(Type::Dyn)),
        ],
    );
    let mut words: Vec<String> = vec![String::new()];
    let mut keys = BTreeSet::new();
    for character in source.chars() {
        let is_part = character.is_ascii_alphanumeric() || matches!(character, '_' | '.');
        match (is_part, words.last_mut()) {
            (true, Some(word)) => word.push(character),
            (false, Some(word)) => {
                if character == ':' && !word.is_empty() {
                    keys.insert(word.clone());
                }
                if !character.is_whitespace() {
                    words.push(String::new());
                }
            }
            (_, None) => {}
        }
    }
    let fields: Vec<(String, Declaration)> =
        keys.into_iter().map(|key| (key, Declaration::simple(Type::Dyn))).collect();
    let parts: BTreeSet<&str> = words
        .iter()
        .map(String::as_str)
        .filter(|word| *word == "Object" || word.starts_with("Object."))
        .chain(["Object"])
        .collect();
    let parts: Vec<(String, Declaration)> =
        parts.into_iter().map(|name| (name.to_owned(), named(of_type(name, fields.clone())))).collect();
    std::iter::once(("JSONPatch".to_owned(), named(patch))).chain(parts).collect()
}

fn list(element: Declaration) -> Declaration {
    Declaration { shape: Shape::List(Arc::new(element), klab_cel::ListKind::Atomic), max_elements: None, min_size: 2 }
}

fn map(value: Declaration) -> Declaration {
    Declaration { shape: Shape::Map(Arc::new(value), 0), max_elements: None, min_size: 2 }
}

fn simple(of: Type) -> Declaration {
    Declaration::simple(of)
}

/// What `request` is.
pub static REQUEST: LazyLock<Declaration> = LazyLock::new(|| {
    let text = || simple(Type::String);
    let kind = || {
        Declaration::object("kubernetes.GroupVersionKind", [("group", text()), ("version", text()), ("kind", text())])
    };
    let resource = || {
        Declaration::object(
            "kubernetes.GroupVersionResource",
            [("group", text()), ("version", text()), ("resource", text())],
        )
    };
    let user = Declaration::object(
        "kubernetes.UserInfo",
        [("username", text()), ("uid", text()), ("groups", list(text())), ("extra", map(list(text())))],
    );
    Declaration::object(
        "kubernetes.AdmissionRequest",
        [
            ("kind", kind()),
            ("resource", resource()),
            ("subResource", text()),
            ("requestKind", kind()),
            ("requestResource", resource()),
            ("requestSubResource", text()),
            ("name", text()),
            ("namespace", text()),
            ("operation", text()),
            ("userInfo", user),
            ("dryRun", simple(Type::Bool)),
            ("options", simple(Type::Dyn)),
        ],
    )
});

/// What `namespaceObject` is.
pub static NAMESPACE: LazyLock<Declaration> = LazyLock::new(|| {
    let text = || simple(Type::String);
    let time = || simple(Type::Timestamp);
    let metadata = Declaration::object(
        "kubernetes.NamespaceMetadata",
        [
            ("name", text()),
            ("generateName", text()),
            ("namespace", text()),
            ("labels", map(text())),
            ("annotations", map(text())),
            ("UID", text()),
            ("creationTimestamp", time()),
            ("deletionGracePeriodSeconds", simple(Type::Int)),
            ("deletionTimestamp", time()),
            ("generation", simple(Type::Int)),
            ("resourceVersion", text()),
            ("finalizers", list(text())),
        ],
    );
    let condition = Declaration::object(
        "kubernetes.NamespaceCondition",
        [("status", text()), ("type", text()), ("lastTransitionTime", time()), ("message", text()), ("reason", text())],
    );
    Declaration::object(
        "kubernetes.Namespace",
        [
            ("metadata", metadata),
            ("spec", Declaration::object("kubernetes.NamespaceSpec", [("finalizers", list(text()))])),
            (
                "status",
                Declaration::object("kubernetes.NamespaceStatus", [("conditions", list(condition)), ("phase", text())]),
            ),
        ],
    )
});
