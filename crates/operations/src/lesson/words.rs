//! Pure: how steps of a lesson are named, for people and for programs.

use serde_json::{Value, json};

use super::command::{Line, of_step as lines};
use super::tools::Tools;
use crate::error::{Code, Error, Result};
use klab_lab::spec::{Action, Lab, Located, Step, did_you_mean};
use klab_lab::words::all;

/// The index (from 0) of a step by its name, or by its number as `Step 4 of 21` shows it. A name that is a number comes first.
///
/// # Errors
/// When the lab has no such step: the nearest name, and all of them.
pub fn find(lab: &Lab, asked: &str) -> Result<usize> {
    let names: Vec<&str> = lab.steps.iter().map(|step| step.name.value.as_str()).collect();
    let numbered = || asked.parse().ok().and_then(|number: usize| number.checked_sub(1)).filter(|at| *at < names.len());
    names.iter().position(|name| *name == asked).or_else(numbered).ok_or_else(|| {
        let error = Error::message(Code::NoSuchStep, format!("lab `{}` has no step `{asked}`", lab.name));
        let error = match did_you_mean(asked, names.iter().copied()) {
            Some(near) => error.hint(format!("did you mean step `{near}`?")),
            None => error,
        };
        match names.len() {
            0 => error.hint("the lab has no steps"),
            count => error.hint(format!("its steps are 1 to {count}: {}", names.join(", "))),
        }
    })
}

/// ``step 3 of 9 `taint` ``.
pub fn label(lab: &Lab, step: usize) -> String {
    let name = lab.steps.get(step).map_or("", |step| step.name.value.as_str());
    format!("step {} of {} `{name}`", step.saturating_add(1), lab.steps.len())
}

/// What is said where the last step is done.
pub fn the_end(lab: &Lab) -> String {
    let steps = all(lab.steps.len(), "step");
    format!("{steps}; `klab lessons` shows what to learn next, `klab down {}` removes this lab", lab.name)
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
pub fn step_document(lab: &Lab, number: usize, tools: &Tools) -> Value {
    let Some(step) = lab.steps.get(number) else { return Value::Null };
    let lines = lines(lab, number, tools);
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

#[cfg(test)]
mod tests {
    use super::*;
    use klab_lab::spec::{LoadOptions, parse};

    #[test]
    fn a_step_is_found_by_name_and_by_number() {
        let steps = ["taint", "2", "drain"].map(|name| format!("[[step]]\nname = '{name}'\n")).concat();
        let text = format!("lab = 'x'\n[pool.a]\nnodes = 1\n{steps}");
        let lab = parse("x.toml", &text, &LoadOptions::default()).unwrap();
        for (asked, index) in [("taint", Some(0)), ("1", Some(0)), ("2", Some(1)), ("3", Some(2)), ("drain", Some(2))] {
            assert_eq!(find(&lab, asked).ok(), index, "{asked}");
        }
        for (asked, hints) in [
            ("tiant", vec!["did you mean step `taint`?", "its steps are 1 to 3: taint, 2, drain"]),
            ("0", vec!["its steps are 1 to 3: taint, 2, drain"]),
            ("4", vec!["its steps are 1 to 3: taint, 2, drain"]),
        ] {
            assert_eq!(find(&lab, asked).unwrap_err().hints, hints, "{asked}");
        }
    }
}
