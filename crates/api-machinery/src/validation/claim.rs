//! PersistentVolumeClaims, and what of one may change: its size once it is bound, and what it does not have yet.

// upstream: pkg/apis/core/validation/validation.go ValidatePersistentVolumeClaimUpdate (v1.36)
// upstream: staging/src/k8s.io/apimachinery/pkg/util/diff/diff.go Diff (v1.36)

use klab_scheduler::quantity::Quantity;
use serde_json::{Value, json};

use super::{Errors, Place, claim_spec};
use crate::views::{Entries, PersistentVolumeClaim, PersistentVolumeClaimSpec, TypedObjectReference};

const IMMUTABLE: &str =
    "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims";
/// How many equal lines are shown around one that differs.
const CONTEXT: usize = 3;

/// A claim.
pub fn check(value: &Value, errors: &mut Errors) {
    claim_spec::check(&Place::<PersistentVolumeClaim<'_>>::root(value).spec(), errors);
}

/// What is wrong with a change of a claim.
pub fn update(old: &Value, new: &Value, errors: &mut Errors) {
    let (old, new) = (PersistentVolumeClaim(old), PersistentVolumeClaim(new));
    let is_bound = new.status().phase() == "Bound";
    let (before, mut after) = (old.spec(), new.spec().0.clone());
    let mut set_back = |field: &str| after[field] = before.0[field].clone();
    if before.volume_name().is_empty() {
        set_back("volumeName");
    }
    if before.storage_class_name().is_none() {
        set_back("storageClassName");
    }
    if is_bound {
        set_back("volumeAttributesClassName");
        let amount = before.resources().requests().get("storage");
        after["resources"]["requests"]["storage"] = amount.cloned().unwrap_or_default();
    }
    let (left, right) = (shown(&Place::root(before.0)), shown(&Place::root(&after)));
    if left != right {
        errors.forbidden("spec", format!("{IMMUTABLE}\n{}", difference(&left, &right)));
    }
    let size = |of: Entries<'_, &Value>| Quantity::parse(of.get("storage")?.as_str()?).ok();
    let (had, wanted) = (size(before.resources().requests()), size(new.spec().resources().requests()));
    if is_bound && wanted < had && wanted <= size(old.status().capacity()) {
        errors.forbidden("spec.resources.requests.storage", "field can not be less than status.capacity");
    }
}

/// The specification as Go prints the struct, a line for each field.
fn shown(spec: &Place<'_, PersistentVolumeClaimSpec<'_>>) -> Vec<String> {
    let resources = spec.resources();
    let (source, target) = (spec.data_source(), spec.data_source_ref());
    let source = source.cast::<TypedObjectReference<'_>>();
    let parts = |of: &Place<'_, TypedObjectReference<'_>>| {
        let (group, kind, name) = (of.api_group().json.clone(), of.kind().json.clone(), of.name().json.clone());
        [("APIGroup", group), ("Kind", kind), ("Name", name), ("Namespace", of.namespace().json.clone())]
    };
    let amounts = [("Limits", resources.limits().json.clone()), ("Requests", resources.requests().json.clone())];
    let mut lines = vec!["{".to_owned()];
    field(&mut lines, 1, "AccessModes", spec.access_modes().json, false);
    field(&mut lines, 1, "Selector", spec.selector().json, false);
    group(&mut lines, "Resources", true, &amounts);
    field(&mut lines, 1, "VolumeName", &json!(*spec.volume_name()), false);
    field(&mut lines, 1, "StorageClassName", spec.storage_class_name().json, false);
    field(&mut lines, 1, "VolumeMode", spec.volume_mode().json, false);
    // Only the reference has a namespace.
    group(&mut lines, "DataSource", source.is_set(), &parts(&source)[..3]);
    group(&mut lines, "DataSourceRef", target.is_set(), &parts(&target));
    field(&mut lines, 1, "VolumeAttributesClassName", spec.volume_attributes_class_name().json, true);
    lines.push("}".to_owned());
    lines
}

fn group(lines: &mut Vec<String>, name: &str, is_set: bool, fields: &[(&str, Value)]) {
    if !is_set {
        return lines.push(format!(" \"{name}\": null,"));
    }
    lines.push(format!(" \"{name}\": {{"));
    for (at, (name, value)) in fields.iter().enumerate() {
        field(lines, 2, name, value, at + 1 == fields.len());
    }
    lines.push(" },".to_owned());
}

/// A field with its value, which may take several lines, each indented by a blank more than what is around it.
fn field(lines: &mut Vec<String>, depth: usize, name: &str, value: &Value, last: bool) {
    let comma = if last { "" } else { "," };
    let pad = " ".repeat(depth);
    let pretty = serde_json::to_string_pretty(value).unwrap_or_default();
    let count = pretty.lines().count();
    for (at, line) in pretty.lines().enumerate() {
        let text = line.trim_start_matches(' ');
        // The printer indents by two.
        let inner = " ".repeat((line.len() - text.len()) / 2);
        let head = if at == 0 { format!("\"{name}\": ") } else { String::new() };
        let tail = if at + 1 == count { comma } else { "" };
        lines.push(format!("{pad}{inner}{head}{text}{tail}"));
    }
}

/// The lines in which two texts differ, as a unified diff.
fn difference(old: &[String], new: &[String]) -> String {
    let changes = changes(old, new);
    let differs = |at: usize| changes[at].0 != ' ';
    let mut text = String::new();
    let mut at = 0;
    while let Some(first) = (at..changes.len()).find(|at| differs(*at)) {
        let mut last = first;
        while let Some(next) = (last + 1..changes.len().min(last + 2 * CONTEXT + 2)).find(|at| differs(*at)) {
            last = next;
        }
        let (start, end) = (first.saturating_sub(CONTEXT).max(at), (last + CONTEXT + 1).min(changes.len()));
        let count =
            |range: std::ops::Range<usize>, but: char| changes[range].iter().filter(|(mark, _)| *mark != but).count();
        let (before, after) = (count(0..start, '+'), count(0..start, '-'));
        let (removed, added) = (count(start..end, '+'), count(start..end, '-'));
        text.push_str(&format!("@@ -{},{removed} +{},{added} @@\n", before + 1, after + 1));
        for (mark, line) in &changes[start..end] {
            text.push(*mark);
            text.push_str(line);
            text.push('\n');
        }
        at = end;
    }
    text
}

/// All lines of both texts: those that both have, those that only the old one has, and those that only the new one has.
fn changes<'a>(old: &'a [String], new: &'a [String]) -> Vec<(char, &'a str)> {
    // How many lines the ends of both have in common, from each place on.
    let mut common = vec![vec![0_usize; new.len() + 1]; old.len() + 1];
    for left in (0..old.len()).rev() {
        for right in (0..new.len()).rev() {
            common[left][right] = if old[left] == new[right] {
                common[left + 1][right + 1] + 1
            } else {
                common[left + 1][right].max(common[left][right + 1])
            };
        }
    }
    let (mut left, mut right) = (0, 0);
    let mut all = Vec::new();
    while left < old.len() || right < new.len() {
        if left < old.len() && right < new.len() && old[left] == new[right] {
            all.push((' ', old[left].as_str()));
            (left, right) = (left + 1, right + 1);
        } else if right == new.len() || (left < old.len() && common[left + 1][right] >= common[left][right + 1]) {
            all.push(('-', old[left].as_str()));
            left += 1;
        } else {
            all.push(('+', new[right].as_str()));
            right += 1;
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(class: &str, size: &str, phase: &str) -> Value {
        json!({
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}},
                "volumeName": "keep", "storageClassName": class, "volumeMode": "Filesystem"},
            "status": {"phase": phase, "capacity": {"storage": "1Gi"}},
        })
    }

    fn faults(old: &Value, new: &Value) -> String {
        let mut errors = Errors::default();
        update(old, new, &mut errors);
        let row = crate::resource::PERSISTENT_VOLUME_CLAIMS.row();
        errors.into_result(row, "again").err().map(|status| status.message).unwrap_or_default()
    }

    #[test]
    fn what_may_not_change_is_shown_as_a_difference() {
        let text = faults(&claim("slow", "1Gi", "Bound"), &claim("other", "1Gi", "Bound"));
        let shown = concat!(
            "PersistentVolumeClaim \"again\" is invalid: spec: Forbidden: spec is immutable after creation except ",
            "resources.requests and volumeAttributesClassName for bound claims\n@@ -10,7 +10,7 @@\n   }\n  },\n",
            "  \"VolumeName\": \"keep\",\n- \"StorageClassName\": \"slow\",\n+ \"StorageClassName\": \"other\",\n",
            "  \"VolumeMode\": \"Filesystem\",\n  \"DataSource\": null,\n  \"DataSourceRef\": null,\n",
        );
        assert_eq!(text, shown);
    }

    #[test]
    fn bound_claims_may_grow() {
        assert_eq!(faults(&claim("slow", "2Gi", "Bound"), &claim("slow", "6Gi", "Bound")), "");
        assert!(
            faults(&claim("slow", "2Gi", "Pending"), &claim("slow", "6Gi", "Pending"))
                .contains("+   \"storage\": \"6Gi\"")
        );
        assert!(
            faults(&claim("slow", "2Gi", "Bound"), &claim("slow", "1Gi", "Bound"))
                .contains("less than status.capacity")
        );
    }
}
