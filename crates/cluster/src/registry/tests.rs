//! A walk through the rows of all kinds.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::*;
use crate::resource::NODES;
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
            || aspects.complete.is_some()
            || aspects.admission.is_some()
            || !matches!(aspects.validation, Validation::None)
            || aspects.update_validation.is_some()
            || aspects.restriction.is_some()
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
