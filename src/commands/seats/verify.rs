//! `klab verify --seats`: each learner's progress, at one glance. It waits for nothing and moves no learner on.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::super::Context;
use super::super::lesson::{Lesson, WhichLesson};
use super::{Failed, Workshop, jobs, listed, show};
use crate::watch::grid::{Seat, SeatResult};
use klab_lab::report::{self, Suite};
use klab_lab::verify::Report;
use klab_lab::words::{plural, table};
use klab_operations::error::{Code, Error, Result};
use klab_operations::event::{About, Verb};
use klab_operations::lesson::peek;
use klab_operations::parallel::parallel;
use klab_operations::state::Progress;
use klab_operations::state::class::Class;
use klab_operations::ui::Format;

/// What a glance at a seat showed.
struct Glance {
    number: u32,
    seat: String,
    /// Number (from 1) and name of the step that its learner is at; none at the set-up.
    step: Option<(usize, String)>,
    /// How many steps are done, and how many there are.
    done: usize,
    steps: usize,
    report: Report,
}

impl Glance {
    /// The first check that does not hold, and what is true instead.
    fn failing(&self) -> String {
        let failing = self.report.checks.iter().find(|check| !check.verdict.is_held());
        failing.map_or_else(String::new, |check| format!("{} → {}", check.name, check.now()))
    }

    fn position(&self) -> String {
        match &self.step {
            None => "set-up".to_owned(),
            Some((number, name)) => format!("{number} of {} `{name}`", self.steps),
        }
    }
}

/// Looks at every seat, for who shows the class and goes on looking.
///
/// # Errors
/// When the system refuses threads.
pub(in super::super) fn looks(workshop: &Workshop, class: &Class) -> Result<Vec<SeatResult>> {
    let seats: Vec<(u32, String)> = class.names().collect();
    parallel(&seats, jobs(class.provider), |(number, seat)| {
        let context = workshop.context();
        let glance = glance(&context, *number, seat).map_err(|error| (*number, error.to_string()))?;
        Ok(Seat {
            number: *number,
            name: None,
            step: glance.step.as_ref().map_or(0, |(step, _)| *step),
            done: glance.done,
            steps: glance.steps,
            held: (glance.report.held(), glance.report.checks.len()),
            failing: glance.failing(),
            since: Progress::written_at(&context.home.lab(seat)).and_then(|time| Timestamp::try_from(time).ok()),
        })
    })
}

/// Looks at every seat and prints the class as a table.
///
/// # Errors
/// When a seat does not hold (1), or one could not be looked at.
pub(in super::super) fn verify(context: &Context, class: &Class) -> Result<()> {
    let workshop = Workshop::new(context);
    let seats: Vec<(u32, String)> = class.names().collect();
    let activity = context
        .ui
        .events()
        .about(About::Lab, &class.lab)
        .counting(seats.len())
        .start(Verb::VerifySeats, plural(seats.len(), "seat"));
    let workers = jobs(class.provider);
    let looks = parallel(&seats, workers, |(number, seat)| {
        glance(&workshop.context(), *number, seat).map_err(|error| Failed { number: *number, error })
    })?;
    activity.end();
    let (mut glances, mut failed) = (Vec::new(), Vec::new());
    for look in looks {
        match look {
            Ok(glance) => glances.push(glance),
            Err(error) => failed.push(error),
        }
    }
    write(context, class, &glances, &failed)?;
    let open: Vec<String> =
        glances.iter().filter(|glance| !glance.report.ok()).map(|glance| glance.number.to_string()).collect();
    let total = plural(seats.len(), "seat");
    context
        .ui
        .events()
        .about(About::Lab, &class.lab)
        .counting(seats.len())
        .note(Verb::VerifySeats, format!("{} of {total} hold", glances.len() - open.len()));
    if !failed.is_empty() {
        let count = plural(failed.len(), "seat");
        let numbers = show(context, failed);
        return Err(Error::message(Code::SeatsUnseen, format!("{count} could not be looked at: {numbers}"))
            .hint(format!("`klab up {} --seats {}` makes them again", class.source.display(), seats.len())));
    }
    if open.is_empty() {
        return Ok(());
    }
    let verb = if open.len() == 1 { "does" } else { "do" };
    Err(Error::message(Code::SeatsNotHolding, format!("{} of {total} {verb} not hold: {}", open.len(), listed(&open))))
}

/// One look at a seat, judged by the checks of the step that its learner is at.
fn glance(context: &Context, number: u32, seat: &str) -> Result<Glance> {
    let lesson = Lesson::open(context, &WhichLesson::of(seat))?;
    let kubeconfig = context.kubeconfig(seat)?;
    let lab = &lesson.lab;
    let client = context.client(seat, &kubeconfig)?;
    let peek::Glance { step, report, .. } = context.block_on(peek::glance(&client, lab, &lesson.progress))?;
    let step = step.and_then(|step| Some((step + 1, lab.steps.get(step)?.name.value.clone())));
    let (done, steps) = (lesson.progress.done, lab.steps.len());
    Ok(Glance { number, seat: seat.to_owned(), step, done, steps, report })
}

fn write(context: &Context, class: &Class, glances: &[Glance], failed: &[Failed]) -> Result<()> {
    let ui = &context.ui;
    match ui.format() {
        Format::Human | Format::Svg | Format::Mermaid | Format::Markdown => {
            let mut rows =
                vec![["SEAT", "LAB", "STEP", "CHECKS", "FIRST THAT DOES NOT HOLD"].map(str::to_owned).to_vec()];
            rows.extend(glances.iter().map(|glance| {
                let held = format!("{} of {}", glance.report.held(), glance.report.checks.len());
                vec![glance.number.to_string(), glance.seat.clone(), glance.position(), held, glance.failing()]
            }));
            ui.result(&table(&rows));
        }
        Format::Csv => ui.result(&csv(glances)),
        Format::Json => {
            let unreachable: Vec<Value> = failed
                .iter()
                .map(|failed| json!({ "seat": failed.number, "message": failed.error.to_string() }))
                .collect();
            let document = json!({
                "schema": "klab.class-report/1", "lab": class.lab,
                "ok": failed.is_empty() && glances.iter().all(|glance| glance.report.ok()),
                "seats": glances.iter().map(document).collect::<Vec<_>>(), "unreachable": unreachable,
            });
            ui.result(&document.to_string());
        }
        Format::Junit => {
            let suites: Vec<Suite<'_>> =
                glances.iter().map(|glance| Suite { name: &glance.seat, report: &glance.report }).collect();
            ui.result(&report::junit(&suites).map_err(anyhow::Error::from)?);
        }
    }
    Ok(())
}

fn document(glance: &Glance) -> Value {
    let step = glance.step.as_ref();
    json!({
        "seat": glance.number, "lab": glance.seat, "ok": glance.report.ok(), "steps": glance.steps,
        "step": step.map(|(number, name)| json!({ "number": number, "name": name })),
        "held": glance.report.held(), "total": glance.report.checks.len(), "report": report::json(&glance.report),
    })
}

/// A line for each seat, as spreadsheets read it (RFC 4180).
fn csv(glances: &[Glance]) -> String {
    let mut text = "seat,lab,step,step_name,steps,held,total,ok,first_failing\n".to_owned();
    for glance in glances {
        let (step, name) = glance.step.clone().unwrap_or_default();
        let (held, total) = (glance.report.held(), glance.report.checks.len());
        let cells = [
            glance.number.to_string(),
            glance.seat.clone(),
            step.to_string(),
            name,
            glance.steps.to_string(),
            held.to_string(),
            total.to_string(),
            glance.report.ok().to_string(),
            glance.failing(),
        ];
        text.push_str(&cells.map(|cell| quoted(&cell)).join(","));
        text.push('\n');
    }
    text
}

/// A cell that a spreadsheet reads as text and never as a formula.
pub(in super::super) fn quoted(cell: &str) -> String {
    let cell = if cell.starts_with(['=', '+', '-', '@']) { format!("'{cell}") } else { cell.to_owned() };
    if cell.contains([',', '"', '\n', '\r']) { format!("\"{}\"", cell.replace('"', "\"\"")) } else { cell }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_text_to_a_spreadsheet() {
        for (cell, written) in [
            ("taint", "taint"),
            ("web: on a, 2 running", "\"web: on a, 2 running\""),
            ("say \"no\"", "\"say \"\"no\"\"\""),
            ("=1+1", "'=1+1"),
            ("", ""),
        ] {
            assert_eq!(quoted(cell), written);
        }
    }
}
