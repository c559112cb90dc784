//! What did not hold in trials, as lines that a pipeline shows beside the lab file: commands of GitHub Actions or Azure Pipelines.

use std::fmt::Write as _;

use super::outcome::{Failure, LabTrial, Moment, Trial};
use klab_lab::report::{Styles, check_lines};
use klab_lab::spec::{Diagnostic, Severity};

/// Whose log shows them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Pipeline {
    /// GitHub Actions: `::error file=…,line=…::…`.
    Github,
    /// Azure Pipelines: `##vso[task.logissue type=error;sourcepath=…;linenumber=…]…`.
    Azure,
}

/// One thing to look at, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Annotation {
    is_error: bool,
    file: String,
    /// Line from 1, where it is known.
    line: Option<usize>,
    title: String,
    text: String,
}

/// A line for each check that failed, each thing that could not be done and each step whose checks prove nothing; of each lab the
/// first trial that failed tells.
pub fn of_trials(labs: &[LabTrial], pipeline: Pipeline) -> String {
    labs.iter().flat_map(of_lab).map(|annotation| annotation.written(pipeline)).collect()
}

/// A line for each problem of a lab file.
pub fn of_diagnostics<'a>(
    file: &str,
    diagnostics: impl IntoIterator<Item = &'a Diagnostic>,
    pipeline: Pipeline,
) -> String {
    let annotation = |diagnostic: &Diagnostic| {
        let at = diagnostic.source.as_ref().zip(diagnostic.primary.as_ref());
        let label = diagnostic.primary.as_ref().map(|label| label.text.as_str()).filter(|text| !text.is_empty());
        let text: Vec<&str> = label.into_iter().chain(diagnostic.notes.iter().map(String::as_str)).collect();
        Annotation {
            is_error: diagnostic.severity == Severity::Error,
            file: at.map_or(file, |(source, _)| source.name()).to_owned(),
            line: at.map(|(source, label)| source.line(label.span.start)),
            title: diagnostic.message.clone(),
            text: if text.is_empty() { diagnostic.message.clone() } else { text.join("\n") },
        }
    };
    diagnostics.into_iter().map(annotation).map(|annotation| annotation.written(pipeline)).collect()
}

fn of_lab(lab: &LabTrial) -> Vec<Annotation> {
    let file = lab.path.display().to_string();
    let of_step = |moment: &Moment| match moment {
        Moment::Before(step) | Moment::Step(step) => lab.step_lines.get(step).copied(),
        Moment::SetUp => None,
    };
    let mut annotations: Vec<Annotation> =
        lab.failed().next().map(|trial| of_trial(lab, trial, &of_step)).unwrap_or_default();
    let proves_nothing = lab.trials.first().into_iter().flat_map(Trial::proves_nothing);
    annotations.extend(proves_nothing.map(|step| Annotation {
        is_error: false,
        file: file.clone(),
        line: lab.step_lines.get(step).copied(),
        title: format!("{}: step `{step}` proves nothing", lab.lab),
        text: "all its checks held before its actions".to_owned(),
    }));
    annotations
}

fn of_trial(lab: &LabTrial, trial: &Trial, line_of: &dyn Fn(&Moment) -> Option<usize>) -> Vec<Annotation> {
    let checks = trial.failed_checks().map(|(moment, check)| Annotation {
        is_error: true,
        file: check.at.file().to_owned(),
        line: Some(check.at.line()),
        title: format!("{}, {moment}: {}", lab.lab, check.name),
        text: check_lines(check, Styles::plain()).trim().to_owned(),
    });
    let failure = match &trial.failure {
        Some(Failure::Error { moment, error }) => Some((moment.to_string(), line_of(moment), error)),
        _ => None,
    };
    let left = trial.left.as_ref().map(|error| ("removal".to_owned(), None, error));
    let errors = failure.into_iter().chain(left).map(|(moment, line, error)| Annotation {
        is_error: true,
        file: lab.path.display().to_string(),
        line,
        title: format!("{}, {moment}", lab.lab),
        text: std::iter::once(format!("{error:#}")).chain(error.hints.iter().cloned()).collect::<Vec<_>>().join("\n"),
    });
    checks.chain(errors).collect()
}

impl Annotation {
    fn written(&self, pipeline: Pipeline) -> String {
        let mut line = String::new();
        let kind = if self.is_error { "error" } else { "warning" };
        // Writing to a text cannot fail.
        let _ = match pipeline {
            Pipeline::Github => {
                let at = self.line.map_or_else(String::new, |line| format!(",line={line}"));
                let (file, title) = (escaped(&self.file, GITHUB_PROPERTY), escaped(&self.title, GITHUB_PROPERTY));
                writeln!(line, "::{kind} file={file}{at},title={title}::{}", escaped(&self.text, GITHUB_TEXT))
            }
            Pipeline::Azure => {
                let at = self.line.map_or_else(String::new, |line| format!("linenumber={line};"));
                let file = escaped(&self.file, AZURE_PROPERTY);
                // One line of text is all that Azure Pipelines shows.
                let text = escaped(&format!("{}: {}", self.title, self.text.replace('\n', " ")), AZURE_TEXT);
                writeln!(line, "##vso[task.logissue type={kind};sourcepath={file};{at}]{text}")
            }
        };
        line
    }
}

/// What stands for a character in a text of a command; a text that is not escaped could be a command of its own.
type Escapes = &'static [(char, &'static str)];

/// See <https://github.com/actions/toolkit/blob/main/packages/core/src/command.ts>.
const GITHUB_TEXT: Escapes = &[('%', "%25"), ('\r', "%0D"), ('\n', "%0A")];
const GITHUB_PROPERTY: Escapes = &[('%', "%25"), ('\r', "%0D"), ('\n', "%0A"), (':', "%3A"), (',', "%2C")];
/// See <https://learn.microsoft.com/azure/devops/pipelines/scripts/logging-commands>.
const AZURE_TEXT: Escapes = &[('%', "%AZP25"), ('\r', "%0D"), ('\n', "%0A")];
const AZURE_PROPERTY: Escapes = &[('%', "%AZP25"), ('\r', "%0D"), ('\n', "%0A"), (';', "%3B"), (']', "%5D")];

fn escaped(text: &str, escapes: Escapes) -> String {
    let mut written = String::with_capacity(text.len());
    for character in text.chars() {
        match escapes.iter().find(|(plain, _)| *plain == character) {
            Some((_, escape)) => written.push_str(escape),
            None => written.push(character),
        }
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;

    fn annotation(title: &str, text: &str) -> Annotation {
        Annotation {
            is_error: true,
            file: "labs/a,b.toml".to_owned(),
            line: Some(12),
            title: title.to_owned(),
            text: text.to_owned(),
        }
    }

    #[test]
    fn each_pipeline_gets_its_own_form() {
        let one = annotation("web: 2 running", "✗ failed\n0 of 2, 100% Pending");
        assert_eq!(
            one.written(Pipeline::Github),
            "::error file=labs/a%2Cb.toml,line=12,title=web%3A 2 running::✗ failed%0A0 of 2, 100%25 Pending\n"
        );
        assert_eq!(
            one.written(Pipeline::Azure),
            "##vso[task.logissue type=error;sourcepath=labs/a,b.toml;linenumber=12;]web: 2 running: ✗ failed 0 of 2, 100%AZP25 Pending\n"
        );
    }

    #[test]
    fn a_text_of_a_lab_is_no_command() {
        for hostile in ["a\n::set-output name=x::y", "a\r\n##vso[task.setvariable variable=x]y", "a::b,c;d]e"] {
            for pipeline in [Pipeline::Github, Pipeline::Azure] {
                let line = annotation(hostile, hostile).written(pipeline);
                assert_eq!(line.matches('\n').count(), 1, "{line}");
                assert!(!line.contains('\r'), "{line}");
            }
        }
    }
}
