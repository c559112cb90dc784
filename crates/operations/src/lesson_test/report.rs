//! What came of trials, as text, JSON and JUnit.

use std::fmt::Write as _;

use anstyle::{AnsiColor, Style};
use quick_junit::{NonSuccessKind, Report as Document, TestCase, TestCaseStatus, TestSuite};
use serde_json::{Value, json};

use super::outcome::{Failure, LabTrial, Moment, Trial};
use crate::error::Error;
use klab_lab::report::{self, Styles, check_lines, with_commands_apart};
use klab_lab::words::{duration, first_of, plural};

/// Name and version of the JSON document's form.
pub const SCHEMA: &str = "klab.test/1";
/// Most seeds that are named.
const SEEDS: usize = 8;

/// A line for each lab, and under it what failed, as `klab verify` explains it.
pub fn human(labs: &[LabTrial]) -> String {
    let good = AnsiColor::Green.on_default().bold();
    let bad = AnsiColor::Red.on_default().bold();
    let care = AnsiColor::Yellow.on_default().bold();
    let rows: Vec<[String; 5]> = labs.iter().map(cells).collect();
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or_default();
    let widths: [usize; 5] = std::array::from_fn(width);
    let mut text = String::new();
    for (lab, row) in labs.iter().zip(&rows) {
        let (style, mark, word) = if lab.ok() { (good, "✓", "passed") } else { (bad, "✗", "failed") };
        let mut line = String::new();
        for (cell, width) in row.iter().zip(widths) {
            let _ = write!(line, "  {cell:width$}");
        }
        let _ = writeln!(text, "  {style}{mark} {word}{style:#}{}", line.trim_end());
        if let Some(first) = lab.failed().next() {
            text.push_str(&failure_lines(lab, first));
        }
        for step in first_proves_nothing(lab) {
            let _ = writeln!(text, "      {care}warning{care:#}: {}", proves_nothing(step));
        }
    }
    text
}

fn proves_nothing(step: &str) -> String {
    format!("step `{step}`: all its checks held before its actions, so they prove nothing")
}

fn cells(lab: &LabTrial) -> [String; 5] {
    let checks = match lab.failed().next() {
        None => plural(lab.checks, "check"),
        Some(trial) => format!("{} of {}", trial.held(), plural(lab.checks, "check")),
    };
    let seeds = match lab.trials.as_slice() {
        [_] => String::new(),
        all => plural(all.len(), "seed"),
    };
    [lab.lab.clone(), plural(lab.steps, "step"), checks, duration(lab.elapsed()), seeds]
}

/// The first trial that failed, explained, and which seeds fail.
fn failure_lines(lab: &LabTrial, trial: &Trial) -> String {
    let mut text = String::new();
    match &trial.failure {
        None => {}
        Some(Failure::Checks) => {
            if let Some(phase) = trial.phases.last() {
                let _ = writeln!(text, "      {}: {}", phase.moment, report::summary(&phase.report));
                for check in phase.report.checks.iter().filter(|check| !check.verdict.is_held()) {
                    text.push_str(&moved_in(&check_lines(check, Styles::coloured()), "      "));
                }
            }
        }
        Some(Failure::Error { moment, error }) => text.push_str(&error_lines(&moment.to_string(), error)),
    }
    if let Some(error) = &trial.left {
        text.push_str(&error_lines("removal", error));
    }
    if lab.trials.len() > 1 {
        let failed: Vec<String> = lab.failed().map(|trial| trial.seed.to_string()).collect();
        let named = first_of(&failed, SEEDS);
        let (word, verb) = if failed.len() == 1 { ("seed", "fails") } else { ("seeds", "fail") };
        let _ = writeln!(
            text,
            "      {word} {named} of {} {verb}; this shows seed {seed} again:\n          klab test {}{} --seed {seed}",
            lab.trials.len(),
            lab.path.display(),
            lab.options,
            seed = trial.seed,
        );
    }
    text
}

/// An error with its causes, what is left behind and what mends it.
fn error_lines(moment: &str, error: &Error) -> String {
    let bad: Style = AnsiColor::Red.on_default().bold();
    let lead: Style = AnsiColor::Cyan.on_default().bold();
    let mut text = moved_in(&error.diagnostics, "      ");
    let mut chain = error.source.chain();
    let first = chain.next().map(ToString::to_string).unwrap_or_default();
    let _ = writeln!(text, "      {moment}: {bad}error{bad:#}: {}", first.replace('\n', "\n        "));
    for cause in chain {
        let _ = writeln!(text, "        caused by: {}", cause.to_string().trim_end().replace('\n', "\n          "));
    }
    for left in &error.left_behind {
        let _ = writeln!(text, "        left behind: {left}");
    }
    for hint in &error.hints {
        let hint = with_commands_apart(hint).replace('\n', "\n          ");
        let _ = writeln!(text, "        {lead}hint:{lead:#} {hint}");
    }
    text
}

fn moved_in(text: &str, indent: &str) -> String {
    text.lines().map(|line| if line.is_empty() { "\n".to_owned() } else { format!("{indent}{line}\n") }).collect()
}

fn first_proves_nothing(lab: &LabTrial) -> Vec<&str> {
    lab.trials.first().map(|trial| trial.proves_nothing().collect()).unwrap_or_default()
}

/// One document.
pub fn json(labs: &[LabTrial]) -> Value {
    let ok = labs.iter().all(LabTrial::ok);
    json!({ "schema": SCHEMA, "ok": ok, "labs": labs.iter().map(lab_json).collect::<Vec<_>>() })
}

fn lab_json(lab: &LabTrial) -> Value {
    let failed: Vec<u64> = lab.failed().map(|trial| trial.seed).collect();
    let shown = lab.failed().next().or(lab.trials.first());
    json!({
        "lab": lab.lab, "file": lab.path, "ok": lab.ok(), "steps": lab.steps, "checks": lab.checks,
        "elapsed_ms": u64::try_from(lab.elapsed().as_millis()).ok(),
        "seeds": lab.trials.len(), "failed_seeds": failed,
        "trial": shown.map(trial_json),
    })
}

/// The trial that is shown in full: the first that failed, else the first.
fn trial_json(trial: &Trial) -> Value {
    let phases: Vec<Value> = trial
        .phases
        .iter()
        .map(|phase| {
            json!({
                "at": phase.moment.to_string(), "step": step_of(&phase.moment), "ok": phase.report.ok(),
                "held_before": phase.held_before, "report": report::json(&phase.report),
            })
        })
        .collect();
    let error = match &trial.failure {
        Some(Failure::Error { moment, error }) => error_json(&moment.to_string(), error),
        _ => Value::Null,
    };
    let left = trial.left.as_ref().map(|error| error_json("removal", error));
    json!({
        "seed": trial.seed, "ok": trial.ok(), "elapsed_ms": u64::try_from(trial.elapsed.as_millis()).ok(),
        "cluster_ms": u64::try_from(trial.cluster_time.as_millis()).ok(), "phases": phases, "error": error,
        "left": left,
    })
}

fn error_json(at: &str, error: &Error) -> Value {
    let causes: Vec<String> = error.source.chain().skip(1).map(ToString::to_string).collect();
    let message = error.source.chain().next().map(ToString::to_string);
    json!({
        "at": at, "message": message, "causes": causes, "left_behind": error.left_behind, "hints": error.hints,
    })
}

fn step_of(moment: &Moment) -> Option<&str> {
    match moment {
        Moment::Before(step) | Moment::Step(step) => Some(step),
        Moment::SetUp => None,
    }
}

/// JUnit XML: a suite for each lab, a case for each check, and one for whatever could not be done.
///
/// # Errors
/// When the XML cannot be written, which a text in memory does not give cause for.
pub fn junit(labs: &[LabTrial]) -> anyhow::Result<String> {
    let mut document = Document::new("klab test");
    document.set_time(labs.iter().map(LabTrial::elapsed).sum());
    for lab in labs {
        let mut suite = TestSuite::new(lab.lab.as_str());
        suite.set_time(lab.elapsed());
        suite.add_property(("file", lab.path.display().to_string().as_str()));
        suite.add_property(("seeds", lab.trials.len().to_string().as_str()));
        if let Some(trial) = lab.failed().next().or(lab.trials.first()) {
            suite.add_property(("seed", trial.seed.to_string().as_str()));
            suite.add_test_cases(trial.phases.iter().flat_map(|phase| {
                let class = format!("{} / {}", lab.lab, phase.moment);
                phase.report.checks.iter().map(move |check| report::junit_case(check, &class, phase.report.elapsed))
            }));
            suite.add_test_cases(lab.not_reached(trial).map(|(moment, check)| {
                let mut status = TestCaseStatus::skipped();
                status.set_message("not reached: the lesson failed before");
                let mut case = TestCase::new(check.as_str(), status);
                case.set_classname(format!("{} / {moment}", lab.lab));
                case
            }));
            let warnings: Vec<String> = trial.proves_nothing().map(proves_nothing).collect();
            if !warnings.is_empty() {
                suite.set_system_out(format!("warning: {}", warnings.join("\nwarning: ")));
            }
            let failure = match &trial.failure {
                Some(Failure::Error { moment, error }) => Some((moment.to_string(), error)),
                _ => None,
            };
            let left = trial.left.as_ref().map(|error| ("removal".to_owned(), error));
            for (moment, error) in failure.into_iter().chain(left) {
                let mut status = TestCaseStatus::non_success(NonSuccessKind::Error);
                status.set_message(error.to_string());
                status.set_description(error.hints.join("\n"));
                let mut case = TestCase::new(moment, status);
                case.set_classname(lab.lab.as_str());
                suite.add_test_case(case);
            }
        }
        document.add_test_suite(suite);
    }
    Ok(document.to_string()?)
}
