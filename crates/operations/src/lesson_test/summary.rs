//! What came of trials in Markdown, for the summary that a pipeline shows of a run: a table, what failed, and pictures.

use std::fmt::Write as _;

use super::outcome::{Failure, LabTrial, Trial};
use klab_lab::board;
use klab_lab::report::{Styles, check_lines};
use klab_lab::words::{duration, plural};

/// GitHub shows summaries of up to 1 MiB; what failed must find room beside the pictures.
const MAX_PICTURES: usize = 512 * 1024;

/// The summary: a row for each lesson, what failed with the cluster at that moment, and every other lesson's last picture, folded.
pub fn summary(labs: &[LabTrial]) -> String {
    let failed = labs.iter().filter(|lab| !lab.ok()).count();
    let all = plural(labs.len(), "lesson");
    let mut text = match failed {
        0 => format!("## {all} passed\n\n"),
        _ => format!("## {failed} of {all} failed\n\n"),
    };
    text.push_str("| | lesson | steps | checks | seeds | took |\n|---|---|---|---|---|---|\n");
    for lab in labs {
        let mark = if lab.ok() { "✓" } else { "✗" };
        let checks = match lab.failed().next() {
            None => lab.checks.to_string(),
            Some(trial) => format!("{} of {}", trial.held(), lab.checks),
        };
        let seeds = match lab.failed().count() {
            0 => lab.trials.len().to_string(),
            failed => format!("{failed} of {} failed", lab.trials.len()),
        };
        let _ = writeln!(
            text,
            "| {mark} | {} | {} | {checks} | {seeds} | {} |",
            cell(&lab.lab),
            lab.steps,
            duration(lab.elapsed())
        );
    }
    let mut room = MAX_PICTURES;
    for lab in labs.iter().filter(|lab| !lab.ok()) {
        let _ = write!(text, "\n### {}\n\n", cell(&lab.lab));
        if let Some(trial) = lab.failed().next() {
            text.push_str(&fenced("text", &problems(trial)));
            let again = format!("klab test {}{} --seed {}", lab.path.display(), lab.options, trial.seed);
            let _ = writeln!(text, "\nTry it again: {}\n", code(&again));
            text.push_str(&picture(trial, &mut room).unwrap_or_default());
        }
    }
    for lab in labs.iter().filter(|lab| lab.ok()) {
        if let Some(picture) = lab.trials.first().and_then(|trial| picture(trial, &mut room)) {
            let _ = write!(text, "\n<details><summary>{}</summary>\n\n{picture}\n</details>\n", cell(&lab.lab));
        }
    }
    text
}

/// What did not hold or could not be done.
fn problems(trial: &Trial) -> String {
    let mut text = String::new();
    for (moment, check) in trial.failed_checks() {
        let _ = write!(text, "{moment}\n{}", check_lines(check, Styles::plain()));
    }
    let failure = match &trial.failure {
        Some(Failure::Error { moment, error }) => Some((moment.to_string(), error)),
        _ => None,
    };
    let left = trial.left.as_ref().map(|error| ("removal".to_owned(), error));
    for (moment, error) in failure.into_iter().chain(left) {
        let _ = writeln!(text, "{moment}: error: {error:#}");
        for hint in &error.hints {
            let _ = writeln!(text, "  hint: {hint}");
        }
    }
    text
}

/// The cluster when the trial ended, as a picture that GitHub draws, while there is room for one.
fn picture(trial: &Trial, room: &mut usize) -> Option<String> {
    let last = trial.pictures.last()?;
    let text = format!("The cluster after {}:\n\n{}", last.moment, fenced("mermaid", &board::mermaid(&last.after)));
    *room = room.checked_sub(text.len())?;
    Some(text)
}

/// A block of code that its text cannot end.
fn fenced(language: &str, text: &str) -> String {
    let longest = text.lines().map(str::trim_start).map(|line| line.len() - line.trim_start_matches('`').len());
    let fence = "`".repeat(longest.max().unwrap_or_default().max(2) + 1);
    format!("{fence}{language}\n{}\n{fence}\n", text.trim_end())
}

/// Code in a line.
fn code(text: &str) -> String {
    let fence = if text.contains('`') { "``" } else { "`" };
    let text = text.replace(['\n', '\r'], " ");
    format!("{fence}{text}{fence}")
}

/// A text that means nothing in Markdown or HTML, in one line.
fn cell(text: &str) -> String {
    let mut written = String::new();
    for character in text.chars() {
        match character {
            '\n' | '\r' => written.push(' '),
            '<' => written.push_str("&lt;"),
            '&' => written.push_str("&amp;"),
            '\\' | '|' | '`' | '*' | '_' | '[' | ']' | '#' | '~' => {
                written.push('\\');
                written.push(character);
            }
            _ => written.push(character),
        }
    }
    written
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::path::PathBuf;

    use super::*;
    use crate::error::{Code, Error};
    use crate::lesson_test::Moment;

    fn lab(name: &str, failure: Option<Failure>) -> LabTrial {
        let trial = Trial {
            seed: 7,
            phases: Vec::new(),
            pictures: Vec::new(),
            failure,
            left: None,
            elapsed: std::time::Duration::from_millis(80),
            cluster_time: std::time::Duration::ZERO,
        };
        LabTrial {
            path: PathBuf::from("labs/a.toml"),
            lab: name.to_owned(),
            options: "",
            steps: 2,
            checks: 5,
            planned: Vec::new(),
            step_lines: BTreeMap::new(),
            trials: vec![trial],
        }
    }

    #[test]
    fn what_failed_is_told_with_the_command_that_shows_it_again() {
        let error = Error::message(Code::StepFailed, "could not drain `a`").hint("look at the budget");
        let failed = Failure::Error { moment: Moment::Step("drain".to_owned()), error };
        let text = summary(&[lab("good", None), lab("bad", Some(failed))]);
        let expected = "## 1 of 2 lessons failed\n\n\
            | | lesson | steps | checks | seeds | took |\n|---|---|---|---|---|---|\n\
            | ✓ | good | 2 | 5 | 1 | 80 ms |\n\
            | ✗ | bad | 2 | 0 of 5 | 1 of 1 failed | 80 ms |\n\
            \n### bad\n\n\
            ```text\nstep `drain`: error: could not drain `a`\n  hint: look at the budget\n```\n\
            \nTry it again: `klab test labs/a.toml --seed 7`\n\n";
        assert_eq!(text, expected);
    }

    #[test]
    fn names_and_texts_of_labs_stay_text() {
        let error = Error::message(Code::StepFailed, "no\n````\n<script>alert(1)</script>");
        let failed = Failure::Error { moment: Moment::SetUp, error };
        let text = summary(&[lab("<b>|`x`", Some(failed))]);
        assert!(text.contains("&lt;b>\\|\\`x\\`"), "{text}");
        // The fence is longer than any in the text.
        assert!(text.contains("`````text\n"), "{text}");
    }
}
