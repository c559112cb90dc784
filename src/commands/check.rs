//! `klab check`: all problems of lab files, without making anything.

use std::path::PathBuf;

use serde_json::json;

use super::{Context, LabOptions};
use klab_lab::spec::{self, Diagnostics, Lab};
use klab_lab::words::plural;
use klab_operations::error::{Code, Error, Result};
use klab_operations::event::Verb;
use klab_operations::lesson_test::{files, objects};
use klab_operations::provider;
use klab_operations::render;
use klab_operations::ui::Format;

/// What can be typed after `klab check`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Lab files, folders with lab files, or names of lessons that come with klab.
    #[arg(required = true, value_name = "LAB")]
    labs: Vec<PathBuf>,
    #[command(flatten)]
    options: LabOptions,
}

/// Checks every file, its templates included.
///
/// # Errors
/// When any file has an error.
pub fn run(context: &Context, arguments: &Arguments) -> Result<()> {
    let (mut errors, mut warnings, mut documents) = (0, 0, Vec::new());
    let paths = files::lab_files(&context.home, &arguments.labs)?;
    for path in &paths {
        let (diagnostics, facts) = match spec::load(path, &arguments.options.load_options()) {
            Err(diagnostics) => (diagnostics, None),
            Ok(lab) => match render::render(&lab) {
                Err(diagnostics) => (diagnostics, None),
                Ok(manifests) => {
                    let refused = refused_by_provider(&lab);
                    let facts = format!(
                        "{}: {}, {}, {}, {}",
                        path.display(),
                        plural(lab.pools.iter().filter(|pool| !pool.deferred).count(), "pool"),
                        plural(manifests.len(), "object"),
                        plural(lab.checks.len(), "check"),
                        plural(lab.steps.len(), "step")
                    );
                    let is_good = refused.is_empty();
                    let problems = objects::problems(&lab, &manifests)?;
                    let mut diagnostics = lab.warnings;
                    diagnostics.extend(problems);
                    diagnostics.extend(refused);
                    (diagnostics, is_good.then_some(facts))
                }
            },
        };
        errors += diagnostics.errors();
        warnings += diagnostics.iter().count() - diagnostics.errors();
        if context.ui.format() == Format::Json {
            documents.push(json!({ "file": path, "diagnostics": diagnostics.to_json() }));
        } else {
            if !diagnostics.is_empty() {
                context.ui.say(diagnostics.render(true).trim_end());
            }
            if let Some(facts) = facts {
                context.ui.events().note(Verb::CheckLab, facts);
            }
        }
    }
    if context.ui.format() == Format::Json {
        let document = json!({ "schema": "klab.check/1", "ok": errors == 0, "files": documents });
        context.ui.result(&document.to_string());
    }
    if errors == 0 {
        return Ok(());
    }
    let more = if warnings == 0 { String::new() } else { format!(" and {}", plural(warnings, "warning")) };
    let files = match paths.as_slice() {
        [only] => only.display().to_string(),
        several => plural(several.len(), "file"),
    };
    let have = if paths.len() == 1 { "has" } else { "have" };
    Err(Error::message(Code::InvalidLab, format!("{files} {have} {}{more}", plural(errors, "error"))))
}

/// What the lab's provider cannot make, whatever the machine; it would be refused before anything is made.
fn refused_by_provider(lab: &Lab) -> Diagnostics {
    provider::refused_anywhere(lab)
}
