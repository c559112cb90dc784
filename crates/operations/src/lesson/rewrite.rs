//! Pure: what a learner changes of a workload's pod template for `set`: the YAML to write, and patches that do the same.

use serde_json::{Map, Value, json};

use super::line::{Edit, Line, command, command_line, namespace, object};
use super::set::TEMPLATE;
use crate::render::render_main;
use klab_lab::spec::{Lab, Workload};

/// What differs between a workload before and after.
pub(super) fn set(before: &Lab, after: &Lab, name: &str) -> Vec<Line> {
    let rendered = |lab: &Lab| render_main(lab, lab.workload(name)?).ok()?.map(|main| main.object);
    let (Some(workload), Some(old), Some(new)) = (after.workload(name), rendered(before), rendered(after)) else {
        return vec![Line::Note(format!("change workload {name}"))];
    };
    let (Some(old), Some(new)) = (old.pointer(TEMPLATE), new.pointer(TEMPLATE)) else {
        return vec![Line::Note(format!("change workload {name}"))];
    };
    let images = images(workload, old, new);
    let patches = patches(workload, old, new);
    let mut lines: Vec<Line> = images;
    if !patches.is_empty() {
        lines.push(Line::Edit(edit(workload, old, new, patches)));
    }
    if lines.is_empty() {
        lines.push(Line::Note(format!("workload {name} is so already")));
    }
    lines
}

/// The containers of a template before and after.
fn containers(old: &Value, new: &Value) -> Vec<(Value, Value)> {
    let of = |spec: &Value| spec["containers"].as_array().cloned().unwrap_or_default();
    of(old).into_iter().zip(of(new)).collect()
}

fn without(value: &Value, field: &str) -> Value {
    let mut value = value.clone();
    if let Some(fields) = value.as_object_mut() {
        fields.remove(field);
    }
    value
}

/// Images have a command of their own.
fn images(workload: &Workload, old: &Value, new: &Value) -> Vec<Line> {
    let changed = containers(old, new).into_iter().filter(|(old, new)| old["image"] != new["image"]);
    changed
        .filter_map(|(_, new)| {
            let mut arguments = vec!["set".to_owned(), "image".to_owned(), object(workload)];
            arguments.push(format!("{}={}", new["name"].as_str()?, new["image"].as_str()?));
            arguments.extend(namespace(&workload.namespace));
            Some(command("kubectl", arguments))
        })
        .collect()
}

/// All but the images, as patches.
fn patches(workload: &Workload, old: &Value, new: &Value) -> Vec<String> {
    let patch_command = |kind: Option<&str>, patch: Value| {
        let patch = json!({ "spec": { "template": { "spec": patch } } }).to_string();
        let mut arguments = vec!["patch".to_owned(), object(workload)];
        arguments.extend(kind.into_iter().flat_map(|kind| ["--type".to_owned(), kind.to_owned()]));
        arguments.extend(["-p".to_owned(), patch]);
        arguments.extend(namespace(&workload.namespace));
        command_line("kubectl", arguments)
    };
    let mut commands = Vec::new();
    // Lists of containers are merged by name only in kubectl's default kind of patch; all else reads better in a merge.
    for (old, new) in containers(old, new) {
        let difference = difference(&without(&old, "image"), &without(&new, "image"));
        let Some(Value::Object(mut patch)) = difference else { continue };
        patch.insert("name".to_owned(), new["name"].clone());
        commands.push(patch_command(None, json!({ "containers": [patch] })));
    }
    if let Some(patch) = difference(&without(old, "containers"), &without(new, "containers")) {
        commands.push(patch_command(Some("merge"), patch));
    }
    commands
}

/// The same in an editor: whole fields, because an editor knows no patches.
fn edit(workload: &Workload, old: &Value, new: &Value, patches: Vec<String>) -> Edit {
    let path = "spec.template.spec";
    let (mut fields, mut gone) = fields(&without(old, "containers"), &without(new, "containers"), path);
    let mut changed = Vec::new();
    for (old, new) in containers(old, new) {
        let name = new["name"].as_str().unwrap_or_default();
        let path = format!("{path}.containers[{name}]");
        let (mut fields, taken) = self::fields(&without(&old, "image"), &without(&new, "image"), &path);
        gone.extend(taken);
        if !fields.is_empty() {
            fields.insert("name".to_owned(), json!(name));
            changed.push(Value::Object(fields));
        }
    }
    if !changed.is_empty() {
        fields.insert("containers".to_owned(), Value::Array(changed));
    }
    let yaml = if fields.is_empty() {
        String::new()
    } else {
        serde_saphyr::to_string(&json!({ "spec": { "template": { "spec": fields } } })).unwrap_or_default()
    };
    let words = ["edit".to_owned(), object(workload)].into_iter().chain(namespace(&workload.namespace));
    Edit { open: command_line("kubectl", words), yaml: yaml.trim_end().to_owned(), gone, patches }
}

/// The fields that have another value, and the paths of those that are no more.
fn fields(old: &Value, new: &Value, path: &str) -> (Map<String, Value>, Vec<String>) {
    let there = |value: &Value, field: &str| value.get(field).filter(|value| !value.is_null()).cloned();
    let names = |value: &Value| value.as_object().map(|fields| fields.keys().cloned().collect()).unwrap_or_default();
    let (before, after): (Vec<String>, Vec<String>) = (names(old), names(new));
    let gone = before.iter().filter(|field| there(old, field).is_some() && there(new, field).is_none());
    let gone = gone.map(|field| format!("{path}.{field}")).collect();
    let changed = after.into_iter().filter_map(|field| Some((there(new, &field)?, field)));
    (
        changed
            .filter(|(value, field)| there(old, field).as_ref() != Some(value))
            .map(|(value, field)| (field, value))
            .collect(),
        gone,
    )
}

/// The merge patch that turns one value into another; none where they are equal.
fn difference(old: &Value, new: &Value) -> Option<Value> {
    match (old, new) {
        (old, new) if old == new => None,
        (Value::Object(old), Value::Object(new)) => {
            let mut patch: Map<String, Value> = old
                .keys()
                .filter(|key| new.get(*key).is_none_or(Value::is_null))
                .map(|key| (key.clone(), Value::Null))
                .collect();
            for (key, value) in new.iter().filter(|(_, value)| !value.is_null()) {
                if let Some(change) = old.get(key).map_or_else(|| Some(value.clone()), |old| difference(old, value)) {
                    patch.insert(key.clone(), change);
                }
            }
            Some(Value::Object(patch))
        }
        (_, new) => Some(new.clone()),
    }
}
