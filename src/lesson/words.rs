//! Pure: how steps of a lesson are named, for people and for programs.

use serde_json::{Value, json};

use super::command::{Line, of_step as lines};
use crate::error::{Error, Kind, Result};
use crate::provider::AzureNames;
use klab_lab::spec::{Action, Lab, Located, Step};

/// The number (from 0) of a step by its name.
///
/// # Errors
/// When there is none of that name, with those there are.
pub fn find(lab: &Lab, name: &str) -> Result<usize> {
    lab.steps.iter().position(|step| *step.name == *name).ok_or_else(|| {
        let names: Vec<&str> = lab.steps.iter().map(|step| step.name.value.as_str()).collect();
        Error::message(Kind::Usage, format!("lab `{}` has no step `{name}`", lab.name))
            .hint(format!("its steps are {}", names.join(", ")))
    })
}

/// ``step 3 of 9 `taint` ``.
pub fn label(lab: &Lab, step: usize) -> String {
    let name = lab.steps.get(step).map_or("", |step| step.name.value.as_str());
    format!("step {} of {} `{name}`", step.saturating_add(1), lab.steps.len())
}

/// `taint  Repel pods with a taint`: the title, or the name where there is none.
pub fn title(step: &Step) -> &str {
    step.title.as_deref().unwrap_or(&step.name.value)
}

/// The action of a step that klab leaves to the learner: one on nodes of a cluster that klab did not make.
pub fn only_typed(lab: &Lab, step: usize) -> Option<&Located<Action>> {
    let step = lab.steps.get(step).filter(|_| !lab.provider.profile().makes_nodes)?;
    step.actions.iter().find(|action| action.value.nodes().is_some())
}

/// A step for machines: what it is, and what is typed for it.
pub fn step_document(lab: &Lab, number: usize, azure: &AzureNames) -> Value {
    let Some(step) = lab.steps.get(number) else { return Value::Null };
    let lines = lines(lab, number, azure);
    let line = |line: &Line| match line {
        Line::Note(note) => vec![json!({ "note": note })],
        Line::Command(_) | Line::Edit(_) => {
            line.commands().iter().map(|command| json!({ "command": command })).collect()
        }
    };
    json!({
        "number": number.saturating_add(1), "name": step.name.value, "title": step.title, "text": step.text, "hint": step.hint,
        "commands": lines.iter().flat_map(line).collect::<Vec<_>>(), "checks": step.checks.len(),
        "before": step.before.len(),
    })
}
