//! `status.typeChecking` of ValidatingAdmissionPolicies: their expressions held against the types of the kinds they are for.

// upstream: staging/src/k8s.io/apiserver/pkg/admission/plugin/policy/validating/typechecking.go Check (v1.36)

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::policy_expression::{Names, Wanted, compile, type_errors};
use crate::resource::ResourceId;
use crate::schema::{self, Scalar, TypeId, schema};
use klab_cel::{Declaration, Field, ListKind, ObjectType, Shape, Type};
use serde_json::{Value as Json, json};

/// Most kinds that are looked at.
const MAX_KINDS: usize = 10;
/// How deep types are followed; no type of Kubernetes nests deeper but those that hold themselves.
const MAX_DEPTH: usize = 20;

/// The type of a custom resource by group, version and plural, and its kind.
pub type OfCustom<'a> = &'a dyn Fn(&str, &str, &str) -> Option<(ResourceId, Declaration)>;

/// The status of a policy.
pub fn status(policy: &Json, generation: i64, of_custom: OfCustom<'_>) -> Json {
    let warnings = warnings(&policy["spec"], of_custom);
    let checked = if warnings.is_empty() { json!({}) } else { json!({ "expressionWarnings": warnings }) };
    json!({ "observedGeneration": generation, "typeChecking": checked })
}

fn warnings(spec: &Json, of_custom: OfCustom<'_>) -> Vec<Json> {
    let kinds = kinds(spec, of_custom);
    let of_params = spec["paramKind"].is_object().then(|| {
        let text = |field: &str| spec["paramKind"][field].as_str().unwrap_or_default();
        declaration(text("apiVersion"), text("kind"))
    });
    let list = |field: &str| spec[field].as_array().into_iter().flatten();
    let mut found = Vec::new();
    let mut check = |place: String, source: &str| {
        let lines: Vec<String> = kinds
            .iter()
            .filter_map(|(kind, object)| {
                let mut known: Vec<(String, Type)> = Vec::new();
                for variable in list("variables") {
                    let source = variable["expression"].as_str().unwrap_or_default();
                    let names = names(object, of_params.as_ref(), &known);
                    let output = compile(source, &names, Wanted::Anything).map_or(Type::Dyn, |it| it.output().clone());
                    known.push((variable["name"].as_str().unwrap_or_default().to_owned(), output));
                }
                let errors = type_errors(source, &names(object, of_params.as_ref(), &known))?;
                Some(format!("{kind}: {errors}\n"))
            })
            .collect();
        if !lines.is_empty() {
            found.push(json!({ "fieldRef": place, "warning": lines.concat() }));
        }
    };
    for (at, validation) in list("validations").enumerate() {
        check(format!("spec.validations[{at}].expression"), validation["expression"].as_str().unwrap_or_default());
        if let Some(source) = validation["messageExpression"].as_str() {
            check(format!("spec.validations[{at}].messageExpression"), source);
        }
    }
    found
}

fn names<'a>(
    object: &'a Declaration,
    of_params: Option<&'a Option<Declaration>>,
    known: &'a [(String, Type)],
) -> Names<'a> {
    Names {
        params: of_params.is_some(),
        authorizer: true,
        variables: known,
        object: Some(object),
        of_params: of_params.and_then(Option::as_ref),
    }
}

/// The kinds that rules name without wildcards, as `apps/v1, Kind=Deployment`, with their types.
fn kinds(spec: &Json, of_custom: OfCustom<'_>) -> Vec<(String, Declaration)> {
    let mut found: BTreeMap<String, Declaration> = BTreeMap::new();
    for rule in spec["matchConstraints"]["resourceRules"].as_array().into_iter().flatten() {
        let list = |field: &str| -> Vec<&str> {
            rule[field].as_array().into_iter().flatten().filter_map(Json::as_str).collect()
        };
        let (groups, versions, resources) = (list("apiGroups"), list("apiVersions"), list("resources"));
        for (group, version) in groups.iter().flat_map(|group| versions.iter().map(move |version| (*group, *version))) {
            for plural in &resources {
                let declared = match ResourceId::by_path(group, version, plural) {
                    Some(id) => declaration(&id.row().api_version(), id.row().kind).map(|declared| (id, declared)),
                    None => of_custom(group, version, plural),
                };
                let Some((id, declared)) = declared else { continue };
                let (row, declared) = (id.row(), with_metadata(declared));
                let version = if group.is_empty() { format!("/{version}") } else { row.api_version() };
                if found.len() < MAX_KINDS {
                    found.insert(format!("{version}, Kind={}", row.kind), declared);
                }
            }
        }
    }
    found.into_iter().collect()
}

/// The type of a kind of Kubernetes' own.
fn declaration(api_version: &str, kind: &str) -> Option<Declaration> {
    schema().kind(api_version, kind).map(|id| object(id, kind, 0))
}

/// Kinds of all sorts have the same metadata.
fn with_metadata(mut declared: Declaration) -> Declaration {
    let any = schema().kind("v1", "ConfigMap").and_then(|id| schema().get(id).field("metadata"));
    if let (Shape::Object(object), Some(field)) = (&mut declared.shape, any) {
        let declaration = of_shape(&field.shape, &format!("{}.metadata", object.name), 0);
        let field = Field { key: "metadata".to_owned(), declaration };
        if let Some(object) = Arc::get_mut(object) {
            object.fields.insert("metadata".to_owned(), field);
        }
    }
    declared
}

fn object(id: TypeId, name: &str, depth: usize) -> Declaration {
    let fields = schema().get(id).fields.iter().map(|field| {
        let declared = of_shape(&field.shape, &format!("{name}.{}", field.name), depth);
        (field.name.to_owned(), Field { key: field.name.to_owned(), declaration: declared })
    });
    let declared = ObjectType { name: name.to_owned(), fields: fields.collect() };
    Declaration { shape: Shape::Object(Arc::new(declared)), max_elements: None, min_size: 2 }
}

fn of_shape(shape: &schema::Shape, name: &str, depth: usize) -> Declaration {
    if depth > MAX_DEPTH {
        return Declaration::simple(Type::Dyn);
    }
    let collection = |shape: Shape| Declaration { shape, max_elements: None, min_size: 2 };
    match shape {
        schema::Shape::Scalar(scalar) => Declaration::simple(match scalar {
            Scalar::String | Scalar::Quantity | Scalar::Duration => Type::String,
            Scalar::Bool => Type::Bool,
            Scalar::Int32 | Scalar::Int64 | Scalar::Uint32 => Type::Int,
            Scalar::Float64 => Type::Double,
            Scalar::Bytes => Type::Bytes,
            Scalar::Time | Scalar::MicroTime => Type::Timestamp,
            Scalar::IntOrString | Scalar::Any => Type::Dyn,
        }),
        schema::Shape::Struct(id) => object(*id, name, depth + 1),
        schema::Shape::List(inner) => {
            let element = of_shape(inner, &format!("{name}.@idx"), depth + 1);
            collection(Shape::List(Arc::new(element), ListKind::Atomic))
        }
        schema::Shape::Map(inner) => {
            collection(Shape::Map(Arc::new(of_shape(inner, &format!("{name}.@elem"), depth + 1)), 0))
        }
        schema::Shape::Schema(_) => Declaration::simple(Type::Dyn),
    }
}
