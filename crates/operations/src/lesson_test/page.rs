//! What came of trials as one HTML file that needs nothing else: every moment with the cluster before and after it.

use std::collections::HashMap;
use std::fmt::Write as _;

use serde_json::{Value, json};

use super::outcome::{Failure, LabTrial, Moment, Picture, Trial};
use super::report;
use crate::board::page::{Form, STYLE, checks, embedded, picture, rendered};
use crate::error::Result;
use klab_lab::board::{Board, parts};
use klab_lab::words::{duration, plural};

/// The file. Lessons that failed come first, with the first seed that failed; others with their first.
///
/// # Errors
/// When a template fails.
pub fn page(labs: &[LabTrial]) -> Result<String> {
    let mut shapes = Shapes::default();
    let mut ordered: Vec<&LabTrial> = labs.iter().collect();
    ordered.sort_by_key(|lab| lab.ok());
    let pages: Result<Vec<Value>> =
        (1..).zip(ordered).map(|(number, lab)| lab_page(lab, number, &mut shapes)).collect();
    let pages = pages?;
    let failed = labs.iter().filter(|lab| !lab.ok()).count();
    let all = plural(labs.len(), "lesson");
    let summary = if failed == 0 { format!("{all} passed") } else { format!("{failed} of {all} failed") };
    let failures: Vec<&Value> = pages.iter().filter_map(|lab| lab["failures"].as_array()).flatten().collect();
    rendered(
        "trials.html",
        &json!({
            "title": format!("klab test: {summary}"), "summary": summary, "failures": failures, "total": labs.len(), "style": STYLE, "version": env!("CARGO_PKG_VERSION"),
            "labs": pages, "shapes": shapes.definitions, "document": embedded(&report::json(labs)),
        }),
    )
}

fn lab_page(lab: &LabTrial, number: usize, shapes: &mut Shapes) -> Result<Value> {
    let trial = lab.failed().next().or(lab.trials.first());
    let seed = trial.map(|trial| trial.seed);
    let failed: Vec<u64> = lab.failed().map(|trial| trial.seed).collect();
    let again = format!("klab test {}{} --seed {}", lab.path.display(), lab.options, seed.unwrap_or_default());
    let moments = match trial {
        Some(trial) => moments(trial, number, shapes)?,
        None => Vec::new(),
    };
    let problems = trial.map(problems).unwrap_or_default();
    let at = format!("lab-{number}");
    let mut failures: Vec<Value> =
        problems.iter().map(|what| json!({ "at": at, "lab": lab.lab, "what": what })).collect();
    let failing = moments.iter().filter(|moment| moment["failing"].is_string());
    failures.extend(failing.map(
        |moment| json!({ "at": moment["id"], "lab": lab.lab, "moment": moment["title"], "what": moment["failing"] }),
    ));
    if failures.is_empty() && !lab.ok() {
        failures.push(json!({ "at": at, "lab": lab.lab }));
    }
    Ok(json!({
        "failures": failures,
        "lab": lab.lab, "ok": lab.ok(), "file": lab.path.display().to_string(), "steps": lab.steps, "checks": lab.checks,
        "seeds": lab.trials.len(), "failed_seeds": if lab.trials.len() > 1 { failed } else { Vec::new() }, "again": again,
        "seed": seed, "took": duration(lab.elapsed()), "problems": problems, "moments": moments,
    }))
}

/// What could not be done, and what is left.
fn problems(trial: &Trial) -> Vec<String> {
    let failure = match &trial.failure {
        Some(Failure::Error { moment, error }) => Some(format!("{moment}: {error}")),
        _ => None,
    };
    let left = trial.left.as_ref().map(|error| format!("removal: {error}"));
    failure.into_iter().chain(left).collect()
}

fn moments(trial: &Trial, lab: usize, shapes: &mut Shapes) -> Result<Vec<Value>> {
    let moment = |(number, picture): (usize, &Picture)| {
        let mut results = String::new();
        let (mut warning, mut failing) = (None, None);
        let is_before =
            |of: &Moment| matches!((of, &picture.moment), (Moment::Before(one), Moment::Step(other)) if one == other);
        for phase in trial.phases.iter().filter(|phase| phase.moment == picture.moment || is_before(&phase.moment)) {
            results.push_str(&checks(&phase.report, Form::Saved)?);
            let open = phase.report.checks.iter().find(|check| !check.verdict.is_held());
            failing = failing.or(open.map(|check| format!("{} → {}", check.name, check.now())));
            if phase.held_before {
                warning = Some("all its checks held before its actions, so they prove nothing");
            }
        }
        let before = picture.before.as_deref().map(|board| shapes.drawn(board));
        let after = shapes.drawn(&picture.after);
        // What changed nothing that is drawn needs no picture of before.
        let before = before.filter(|before| *before != after);
        Ok(json!({
            "id": format!("lab-{lab}-{number}"), "title": picture.moment.to_string(), "before": before, "after": after,
            "checks": results, "warning": warning, "failing": failing,
        }))
    };
    trial.pictures.iter().enumerate().map(moment).collect()
}

/// Pictures of nodes, each once: most nodes are the same before and after a step.
#[derive(Default)]
struct Shapes {
    known: HashMap<String, usize>,
    definitions: String,
}

impl Shapes {
    fn drawn(&mut self, board: &Board) -> String {
        let parts: Vec<(String, String)> = parts(board)
            .into_iter()
            .map(|(name, html)| if name.starts_with("node/") { (name, self.used(&html)) } else { (name, html) })
            .collect();
        picture(&parts)
    }

    /// A picture that uses a shape: `<svg ATTRIBUTES>SHAPE</svg>` with the shape elsewhere.
    fn used(&mut self, svg: &str) -> String {
        let Some((attributes, shape)) = svg.split_once('>') else { return svg.to_owned() };
        let shape = shape.strip_suffix("</svg>").unwrap_or(shape);
        let next = self.known.len();
        let number = *self.known.entry(shape.to_owned()).or_insert_with(|| {
            let _ = write!(self.definitions, "<g id=\"node-{next}\">{shape}</g>");
            next
        });
        // What is used is not read out: the table says it.
        format!("{attributes} aria-hidden=\"true\"><use href=\"#node-{number}\"/></svg>")
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::path::PathBuf;

    use super::*;

    #[test]
    fn colours_of_drawings_follow_the_page_also_where_a_shape_is_used() {
        let rules: Vec<&str> =
            STYLE.lines().filter(|line| line.contains("[fill=") || line.contains("[stroke=")).collect();
        assert!(rules.len() > 6, "{rules:?}");
        for selector in rules.iter().flat_map(|rule| rule.split('{').next().unwrap().split(',')) {
            assert!(
                selector.trim().starts_with('[') && !selector.trim().contains(' '),
                "`{selector}` names an ancestor"
            );
        }
    }

    #[test]
    fn a_page_escapes_what_it_is_told_and_closes_its_own_script() {
        let lab = LabTrial {
            path: PathBuf::from("a<b>.toml"),
            lab: "</script><script>alert(1)</script>".to_owned(),
            options: "",
            steps: 0,
            checks: 0,
            planned: Vec::new(),
            step_lines: BTreeMap::new(),
            trials: Vec::new(),
        };
        let html = page(&[lab]).unwrap();
        assert!(!html.contains("<script>alert"), "{html}");
        assert_eq!(html.matches("</script>").count(), 1);
        assert!(html.contains("a&lt;b&gt;.toml"));
    }
}
