//! `klab check`: all problems of lab files, without making anything.

use std::collections::BTreeSet;
use std::path::PathBuf;

use serde_json::json;

use super::{Context, LabOptions};
use crate::error::{Error, Kind, Result};
use crate::event::Verb;
use crate::provider;
use crate::render::{self, Manifest};
use crate::trial::files;
use crate::ui::Format;
use klab_lab::spec::{self, Action, Diagnostic, Diagnostics, Lab};
use klab_lab::words::plural;

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
                    let unmade = unmade_priority_classes(&lab, &manifests);
                    let mut diagnostics = lab.warnings;
                    diagnostics.extend(unmade);
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
    Err(Error::message(Kind::Usage, format!("{files} {have} {}{more}", plural(errors, "error"))))
}

/// What the lab's provider cannot make, whatever the machine; it would be refused before anything is made.
fn refused_by_provider(lab: &Lab) -> Diagnostics {
    provider::refused_anywhere(lab)
}

/// Priority classes that workloads ask for, in the set-up or in a step, and nothing of the lab makes: a cluster refuses their pods. Of
/// a lab whose steps apply manifests nothing is said, as those may make them.
fn unmade_priority_classes(lab: &Lab, manifests: &[Manifest]) -> Diagnostics {
    let actions = || lab.steps.iter().flat_map(|step| &step.actions);
    if actions().any(|action| matches!(action.value.tried(), Action::Apply { .. })) {
        return Diagnostics::default();
    }
    let is_made = |name: &str| {
        let made = |manifest: &Manifest| {
            manifest.object["kind"] == "PriorityClass" && manifest.object["metadata"]["name"] == name
        };
        name.is_empty()
            || ["system-cluster-critical", "system-node-critical"].contains(&name)
            || manifests.iter().any(made)
    };
    let written = lab.workloads.iter().filter_map(|workload| {
        let class = workload.priority_class.as_ref()?;
        Some((workload.name.as_str(), class.value.as_str(), &class.at))
    });
    let set = actions().filter_map(|action| match &action.value {
        Action::Set { workload, fields } => Some((workload.as_str(), fields.priority_class.as_deref()?, &action.at)),
        _ => None,
    });
    let mut told = BTreeSet::new();
    let mut found = Diagnostics::default();
    for (workload, class, at) in written.chain(set) {
        if !is_made(class) && told.insert((workload, class)) {
            let message =
                format!("workload `{workload}` asks for the priority class `{class}`, which nothing in the lab makes");
            let help = "make it with a manifest of kind PriorityClass, or leave `priority_class` out";
            let warning = Diagnostic::warning("priority-class", message);
            found.push(warning.at(at, "the cluster will refuse its pods").help(help));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use klab_lab::spec::{LoadOptions, parse};

    #[test]
    fn a_priority_class_that_nothing_makes_is_warned_of() {
        let told = |class: &str, made: &str, step: &str| {
            let text = format!(
                "lab = \"a\"\n[pool.main]\nmode = \"system\"\nnodes = 1\nsize = \"Standard_B2ms\"\n\
                 [workload.web]\nimage = \"nginx\"\npriority_class = \"{class}\"\n{step}"
            );
            let lab = parse("lab.toml", &text, &LoadOptions::default());
            let lab = lab.unwrap_or_else(|problems| panic!("{}", problems.render(false)));
            let mut manifests = render::render(&lab).unwrap();
            manifests[0].object = json!({ "kind": "PriorityClass", "metadata": { "name": made } });
            unmade_priority_classes(&lab, &manifests).iter().count()
        };
        let sets = "[[step]]\nname = \"s\"\ndo = [{ set = \"web\", priority_class = \"low\" }]\n";
        assert_eq!(told("high", "high", ""), 0);
        assert_eq!(told("high", "other", ""), 1);
        assert_eq!(told("system-node-critical", "other", ""), 0);
        assert_eq!(told("high", "high", sets), 1, "the one that a step asks for");
        assert_eq!(told("high", "other", sets), 2);
    }
}
