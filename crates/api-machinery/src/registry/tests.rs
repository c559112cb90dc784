//! A walk through the rows of all kinds.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::*;
use crate::resource::{NODES, PERSISTENT_VOLUME_CLAIMS, POD_TEMPLATES, PODS};
use crate::schema::{Scalar, Shape, TypeId, schema};
use crate::table::Row;

fn kinds() -> impl Iterator<Item = (ResourceId, &'static Aspects)> {
    ResourceId::fixed().map(|kind| (kind, of(kind)))
}

#[test]
fn every_kind_has_as_many_cells_as_columns() {
    let object = json!({ "metadata": { "name": "x" } });
    for (kind, aspects) in kinds() {
        let cells = (aspects.cells)(&Row { object: &object, now: jiff::Timestamp::UNIX_EPOCH });
        assert_eq!(cells.len(), aspects.columns.split('|').count(), "{}", kind.row().kind);
        let name = aspects.columns.split('|').position(|column| column.trim_end_matches('*') == "Name:name");
        assert_eq!(name.map(|at| &cells[at]), Some(&json!("x")), "{}", kind.row().kind);
    }
}

#[test]
fn a_new_object_has_a_status_where_its_kind_has_one() {
    for (kind, aspects) in kinds().filter(|(kind, _)| *kind != NODES) {
        let has_none = aspects.initial_status == InitialStatus::AsGiven;
        assert_eq!(has_none, !kind.row().has_status(), "{}", kind.row().kind);
    }
}

#[test]
fn defaults_stay_when_they_are_filled_in_again_and_no_rule_panics() {
    for (kind, aspects) in kinds() {
        let mut value = json!({ "metadata": { "name": "x", "namespace": "default" }, "spec": {} });
        let mut again = Value::Null;
        if let Some(fill) = aspects.defaults {
            fill(&mut value);
            again.clone_from(&value);
            fill(&mut again);
            assert_eq!(again, value, "{}", kind.row().kind);
        }
        let mut errors = crate::validation::Errors::default();
        aspects.check(false, None, &value, &mut errors);
        aspects.check(false, Some(&value), &value, &mut errors);
        assert!(!aspects.generation.is_some_and(|differs| differs(&value, &value)), "{}", kind.row().kind);
    }
}

/// A value of a type with all its structs, one entry in each list and map, and without single values. A type within itself
/// ends the walk.
fn frame(shape: &Shape, within: &mut Vec<TypeId>) -> Value {
    match shape {
        Shape::Scalar(Scalar::Any) => json!({}),
        Shape::Scalar(_) => Value::Null,
        Shape::List(inner) => json!([frame(inner, within)]),
        Shape::Map(inner) => json!({ "key": frame(inner, within) }),
        Shape::Struct(id) | Shape::Schema(id) if within.contains(id) => json!({}),
        Shape::Struct(id) | Shape::Schema(id) => {
            within.push(*id);
            let fields = schema().get(*id).fields.iter();
            let map: serde_json::Map<_, _> =
                fields.map(|field| (field.name.to_owned(), frame(&field.shape, within))).collect();
            within.pop();
            map.into_iter().filter(|(_, value)| !value.is_null()).collect()
        }
    }
}

/// The values of a type that are somewhere in a value, with their paths.
fn all_of(name: &str, shape: &Shape, value: &Value, path: &str, found: &mut Vec<(String, Value)>) {
    match (shape, value) {
        (Shape::Struct(id) | Shape::Schema(id), Value::Object(map)) => {
            if schema().get(*id).id == name {
                found.push((path.to_owned(), value.clone()));
            }
            for (key, inner) in map {
                let Some(field) = schema().get(*id).field(key) else { continue };
                all_of(name, &field.shape, inner, &format!("{path}.{key}"), found);
            }
        }
        (Shape::List(inner), Value::Array(list)) => {
            for entry in list {
                all_of(name, inner, entry, &format!("{path}[]"), found);
            }
        }
        (Shape::Map(inner), Value::Object(map)) => {
            for entry in map.values() {
                all_of(name, inner, entry, &format!("{path}[]"), found);
            }
        }
        _ => {}
    }
}

/// Each kind that has defaults, with the type of its objects and an object of nothing but structs and defaults.
fn defaulted() -> impl Iterator<Item = (ResourceId, Shape, Value)> {
    kinds().filter_map(|(kind, aspects)| {
        let shape = Shape::Struct(schema().kind(&kind.row().api_version(), kind.row().kind)?);
        let mut value = frame(&shape, &mut Vec::new());
        aspects.defaults?(&mut value);
        Some((kind, shape, value))
    })
}

#[test]
fn defaults_are_fields_of_their_type() {
    for (kind, shape, value) in defaulted() {
        let Shape::Struct(id) = shape else { unreachable!("kinds are structs") };
        let mut decoded = value.clone();
        let found = schema().tidy(id, &mut decoded).unwrap_or_else(|error| panic!("{}: {error}", kind.row().kind));
        assert_eq!(found.unknown, Vec::<String>::new(), "{}", kind.row().kind);
    }
}

/// A template has the defaults of what is made of it, in whichever kind and however deep it is.
#[test]
fn nested_templates_have_the_defaults_of_their_kind() {
    let of = |wanted: ResourceId, name: &str| {
        let mut found = Vec::new();
        let (_, shape, value) = defaulted().find(|(kind, ..)| *kind == wanted).unwrap();
        all_of(name, &shape, &value, "", &mut found);
        found.remove(0).1
    };
    // Beside what all pods have, a pod has what its node needs to know.
    for (name, reference, but) in [
        ("PodSpec", of(POD_TEMPLATES, "PodSpec"), PODS),
        (
            "PersistentVolumeClaimSpec",
            of(PERSISTENT_VOLUME_CLAIMS, "PersistentVolumeClaimSpec"),
            PERSISTENT_VOLUME_CLAIMS,
        ),
    ] {
        let mut places = 0;
        for (kind, shape, value) in defaulted().filter(|(kind, ..)| *kind != but) {
            let mut found = Vec::new();
            all_of(name, &shape, &value, kind.row().kind, &mut found);
            for (path, value) in found {
                assert_eq!(value, reference, "{path}");
                places += 1;
            }
        }
        assert!(places >= 8, "{name} is in {places} places");
    }
}

#[test]
fn only_second_versions_are_converted_and_there_and_back_is_the_same() {
    for (kind, aspects) in kinds() {
        assert_eq!(aspects.conversion.is_some(), kind.row().stored_as.is_some(), "{}", kind.row().kind);
        if let Some(conversion) = aspects.conversion {
            let stored = json!({ "metadata": { "name": "x" }, "spec": {} });
            let mut value = stored.clone();
            (conversion.serve)(&mut value);
            (conversion.store)(&mut value);
            assert_eq!(value, stored, "{}", kind.row().kind);
        }
    }
}

#[test]
fn only_stored_kinds_have_rules() {
    for (kind, aspects) in kinds().filter(|(kind, _)| !kind.row().is_stored()) {
        let rules = aspects.defaults.is_some()
            || aspects.prepare.is_some()
            || !matches!(aspects.validation, Validation::None)
            || aspects.update_validation.is_some()
            || aspects.quota.is_some()
            || aspects.generation.is_some();
        assert!(!rules, "{}", kind.row().kind);
    }
}

#[test]
fn no_field_is_listed_twice_and_none_is_that_of_metadata() {
    for (kind, aspects) in kinds() {
        let labels: BTreeSet<&str> = aspects.fields.iter().map(|field| field.label).collect();
        assert_eq!(labels.len(), aspects.fields.len(), "{}", kind.row().kind);
        assert!(!labels.iter().any(|label| label.starts_with("metadata.")), "{}", kind.row().kind);
    }
}
