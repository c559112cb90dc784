//! Differences in words: by object, with one command where one takes all of it back.

use serde_json::{Value, json};

use super::change::Change;
use crate::lesson::Tools;
use crate::lesson::command::{Line, of_step};
use crate::lesson::words::label;
use klab_lab::spec::Lab;
use klab_lab::verify::Aside;

/// Most fields of an object named in one line.
const FIELDS: usize = 3;

/// What differs in one object, or one thing that differs in a node.
#[derive(Debug, PartialEq)]
pub struct Summary {
    /// `deployment/web`.
    pub object: String,
    /// `spec.replicas is 3, the lab has 2`; of nodes exactly one.
    pub words: Vec<String>,
    /// What takes it back, as it is typed.
    pub undo: Option<String>,
}

impl Summary {
    /// Differences that follow each other by object, as comparing gives them; those of nodes one by one.
    pub fn all(changes: &[Change], lab: &Lab, steps: usize) -> Vec<Self> {
        let alike = |one: &Change, two: &Change| matches!((one, two), (Change::Field { object, .. }, Change::Field { object: other, .. }) if object == other);
        changes.chunk_by(alike).map(|group| Self::of(group, lab, steps)).collect()
    }

    /// What a step (from 0) asks for and is not done: as [`Summary::all`], but an object that the step makes was never there, and is
    /// made as the step makes it.
    pub fn to_do(changes: &[Change], lab: &Lab, step: usize, tools: &Tools) -> Vec<Self> {
        let steps = step.saturating_add(1);
        let of_step = |change: &Change| match change {
            Change::Gone(object) if lab.workload(&object.name).is_none() => {
                let undo = Some(made_by(lab, step, tools));
                Self { object: object.label(), words: vec!["is not there yet".to_owned()], undo }
            }
            Change::Gone(_) => Self {
                words: vec!["is not there yet".to_owned()],
                ..Self::of(std::slice::from_ref(change), lab, steps)
            },
            _ => Self::of(std::slice::from_ref(change), lab, steps),
        };
        changes.iter().map(of_step).collect()
    }

    /// What stands above all differences.
    pub fn heading(changes: &[Change], lab: &Lab, steps: usize) -> String {
        let stage = match steps.checked_sub(1) {
            Some(last) => format!("after {}", label(lab, last)),
            None => "at its set-up".to_owned(),
        };
        match changes {
            [] => format!("nothing differs from lab `{}` {stage}", lab.name),
            _ => format!("differs from lab `{}` {stage}:", lab.name),
        }
    }

    /// All differences for programs.
    pub fn document(changes: &[Change], lab: &Lab, steps: usize) -> Value {
        let changes: Vec<Value> = changes.iter().map(|change| change.document(lab, steps)).collect();
        json!({ "schema": "klab.diff/1", "lab": lab.name.value, "steps": steps, "changes": changes })
    }

    /// All differences as text: each object, what differs in it, and what takes that back.
    pub fn text(changes: &[Change], lab: &Lab, steps: usize) -> String {
        let mut text = String::new();
        let mut last = None;
        for change in Self::all(changes, lab, steps) {
            if last.as_ref() != Some(&change.object) {
                text.push_str(&format!("{}\n", change.object));
            }
            change.words.iter().for_each(|words| text.push_str(&format!("  {words}\n")));
            if let Some(undo) = &change.undo {
                text.push_str(&format!("    to undo:\n        {undo}\n"));
            }
            last = Some(change.object);
        }
        text
    }

    fn of(changes: &[Change], lab: &Lab, steps: usize) -> Self {
        let object = changes.first().map(Change::object);
        let undo = match changes {
            [one] => one.undo(lab, steps),
            // Of several fields, what takes back the one that asks for most.
            all => all
                .iter()
                .filter_map(Change::again)
                .max()
                .zip(object.as_ref())
                .and_then(|(again, object)| again.command(object, lab, steps)),
        };
        Self {
            object: object.map(|object| object.label()).unwrap_or_default(),
            words: changes.iter().map(Change::words).collect(),
            undo,
        }
    }

    /// As a report shows it, on one line.
    pub fn aside(self) -> Aside {
        let more = self.words.len().saturating_sub(FIELDS);
        let mut what = format!("{}: {}", self.object, self.words[..self.words.len() - more].join("; "));
        if more > 0 {
            what = format!("{what}; {more} more fields");
        }
        Aside { what, command: self.undo }
    }
}

/// The command that makes what a step (from 0) applies: the step's own line, where it is a single one of one line.
fn made_by(lab: &Lab, step: usize, tools: &Tools) -> String {
    let lines = of_step(lab, step, tools);
    let applies = |command: &&String| command.starts_with("kubectl apply ") || command.starts_with("kubectl create ");
    let commands: Vec<&String> = lines.iter().flat_map(Line::commands).filter(applies).collect();
    match commands.as_slice() {
        [one] if !one.contains('\n') => (*one).clone(),
        _ => format!("klab step {}", lab.name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::changes::Named;
    use klab_lab::spec::{LoadOptions, load, parse};
    use std::path::Path;

    fn field(name: &str, path: &str, found: u32, wanted: Option<u32>) -> Change {
        let object = json!({ "kind": "Deployment", "apiVersion": "apps/v1", "metadata": { "name": name } });
        Change::Field {
            object: Named::of(&object),
            path: path.to_owned(),
            found: Some(json!(found)),
            wanted: wanted.map(|wanted| json!(wanted)),
        }
    }

    #[test]
    fn an_object_is_taken_back_by_one_command() {
        let text = "lab = 'x'\n[pool.a]\nnodes = 1\n[workload.web]\n[workload.api]\n[[step]]\nname = 'more'\n\
                    do = [{ scale = 'api', replicas = 2 }]\n";
        let lab = parse("x.toml", text, &LoadOptions::default()).unwrap();
        for (changes, undo) in [
            (vec![field("web", "spec.replicas", 3, Some(2))], Some("kubectl scale deployment/web --replicas=2")),
            (
                vec![field("web", "spec.replicas", 3, Some(2)), field("web", "spec.a", 1, Some(2))],
                Some("klab render x --workload web | kubectl apply -f -"),
            ),
            (
                vec![field("web", "spec.a", 1, None), field("web", "spec.b", 1, Some(2))],
                Some("klab render x --workload web | kubectl replace -f -"),
            ),
            (
                vec![field("web", "spec.selector.a", 1, None), field("web", "spec.b", 1, None)],
                Some("klab render x --workload web | kubectl replace --force -f -"),
            ),
            (
                vec![field("api", "spec.a", 1, Some(2))],
                Some("klab render x --workload api --step more | kubectl apply -f -"),
            ),
            (
                vec![field("web", "spec.template.spec.topologySpreadConstraints[0].topologyKey", 1, Some(2))],
                Some("klab render x --workload web | kubectl replace -f -"),
            ),
            (vec![field("unknown", "spec.a", 1, Some(2))], None),
        ] {
            let told = Summary::all(&changes, &lab, 1);
            assert_eq!(told.len(), 1);
            assert_eq!(told[0].undo.as_deref(), undo);
        }
    }

    #[test]
    fn what_a_step_makes_is_made_as_the_step_does() {
        let gone = |kind: &str, name: &str| {
            Change::Gone(Named::of(&json!({ "kind": kind, "apiVersion": "v1", "metadata": { "name": name } })))
        };
        let text = "lab = 'x'\n[pool.a]\nnodes = 1\n[workload.web]\n[[step]]\nname = 'more'\n\
                    do = [{ yaml = 'kind: ResourceQuota' }, { cordon = 'pool:a' }]\n";
        let lab = parse("x.toml", text, &LoadOptions::default()).unwrap();
        let lesson = load(Path::new("labs/affinity.toml"), &LoadOptions::default()).unwrap();
        let quota = lesson.steps.iter().position(|step| *step.name == "quota").unwrap();
        let here = Tools::default;
        for (lab, step, tools, change, undo) in [
            // A here-document is no line to paste.
            (&lab, 0, here(), gone("ResourceQuota", "q"), "klab step x"),
            (&lab, 0, here(), gone("Pod", "web"), "klab render x --workload web | kubectl apply -f -"),
            (&lesson, quota, here(), gone("ResourceQuota", "q"), "kubectl apply -f labs/affinity/quota.yaml"),
            // The lab's files are on the host's machine.
            (&lesson, quota, Tools::Seat, gone("ResourceQuota", "q"), "klab step affinity"),
        ] {
            let told = Summary::to_do(&[change], lab, step, &tools);
            assert_eq!((told[0].words[0].as_str(), told[0].undo.as_deref()), ("is not there yet", Some(undo)));
        }
    }
}
