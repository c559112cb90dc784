//! `klab test`: every lesson from set-up to removal, for authors and pipelines.

mod real;

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use self::real::{RealTestCluster, TestLabs};
use super::{Context, board};
use klab_lab::spec::{self, Action, Diagnostics, Lab, LoadOptions, Provider, Reach};
use klab_lab::words::{duration, plural};
use klab_operations::error::{Code, Context as _, Error, Result};
use klab_operations::event::Verb;
use klab_operations::interruption::Interruption;
use klab_operations::lesson_test::annotations::{self, Pipeline};
use klab_operations::lesson_test::{self, EmbeddedTestCluster, LabTrial, Patience, Plan, TestCluster, files, sweep};
use klab_operations::provider::Memory;
use klab_operations::state::Home;
use klab_operations::ui::{Format, Ui};

/// What can be typed after `klab test`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Lab files, folders with lab files, or names of lessons that come with klab.
    #[arg(required = true, value_name = "LAB")]
    labs: Vec<PathBuf>,
    /// Where the lessons are tried: sim (in this process), kind or aks (really).
    #[arg(long, value_name = "PROVIDER", default_value = "sim")]
    provider: Provider,
    /// Try each lesson as a seat of a class, three times: with the variables, steps and node names that it has on sim, on
    /// kind and on aks, all in this process.
    #[arg(long, conflicts_with = "provider")]
    as_seat: bool,
    /// Set a variable of the labs' templates.
    #[arg(long = "var", value_name = "NAME=VALUE", value_parser = super::variable)]
    vars: Vec<(String, String)>,
    /// The embedded scheduler's choice between equal nodes; the lab file's own by default.
    #[arg(long, value_name = "NUMBER")]
    seed: Option<u64>,
    /// Try this many seeds in a row: a lesson must not depend on a lucky tie.
    #[arg(long, value_name = "COUNT", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    seeds: u32,
    /// How long the set-up may take to hold, and each step's actions and its checks; the cluster's own time.
    #[arg(long, value_name = "DURATION", default_value = "2m", value_parser = super::duration)]
    step_timeout: Duration,
    /// Let steps run commands (`run = [...]`).
    #[arg(long)]
    allow_run: bool,
    /// Let the labs read files outside the folders of their files.
    #[arg(long)]
    allow_outside: bool,
    /// Write a page with every lesson, step and check into this file, with the cluster before and after each.
    #[arg(long, value_name = "FILE.html")]
    report: Option<PathBuf>,
    /// Write JUnit XML into this file, whatever else is written.
    #[arg(long, value_name = "FILE.xml")]
    junit: Option<PathBuf>,
    /// Append a summary in Markdown with pictures to this file, such as `$GITHUB_STEP_SUMMARY`.
    #[arg(long, value_name = "FILE.md")]
    summary: Option<PathBuf>,
    /// Also print failures as commands that a pipeline shows at the lines of the lab files.
    #[arg(long, value_name = "PIPELINE", value_enum)]
    annotations: Option<Pipeline>,
    /// Maximum number of trials at a time; by default as many as there are processors, on kind 1, on aks 4.
    #[arg(long, short = 'j', value_name = "COUNT", value_parser = clap::value_parser!(u16).range(1..))]
    jobs: Option<u16>,
}

/// Tries every lesson.
///
/// # Errors
/// When a lab file is invalid (all problems of all files), or a lesson fails.
pub fn run(context: &Context, arguments: &Arguments) -> Result<()> {
    let started = Instant::now();
    if arguments.annotations.is_some() && context.ui.format() != Format::Human {
        let message = "`--annotations` are lines of a log, and `--format` writes a document in its place";
        return Err(Error::message(Code::Flags, message).hint("`--junit FILE.xml` writes JUnit XML beside them"));
    }
    real::refuse_foreign(arguments.provider)?;
    real::refuse_seeds(arguments.provider, arguments.seeds, arguments.seed)?;
    let paths = files::lab_files(&context.home, &arguments.labs)?;
    let lessons = load(context, arguments, &paths)?;
    let (labs, outlines): (Vec<Lab>, Vec<LabTrial>) = lessons.into_iter().unzip();
    let total = labs.len() * arguments.seeds as usize;
    let lessons = if arguments.as_seat { plural(labs.len(), "seat") } else { plural(labs.len(), "lab") };
    let what = match arguments.seeds as usize {
        1 => lessons,
        many => format!("{lessons} with {}", plural(many, "seed")),
    };
    let activity = context.ui.events().counting(labs.len()).start(Verb::TestLabs, what.clone());
    let stop = Arc::new(AtomicBool::new(false));
    let plan = Plan {
        labs: labs.iter().zip(outlines).collect(),
        first_seed: arguments.seed,
        seeds: arguments.seeds,
        patience: Patience { set_up: arguments.step_timeout, step: arguments.step_timeout },
        workers: arguments.jobs.map_or_else(|| real::jobs(arguments.provider), usize::from),
        draws: arguments.report.is_some() || arguments.summary.is_some(),
        stop: &stop,
    };
    let live = TestLabs::default();
    let worlds = Worlds {
        terminal: context.ui.clone(),
        home: context.home.clone(),
        memory: context.memory.clone(),
        arguments,
        live: live.clone(),
    };
    let is_real = |lab: &Lab| is_real(lab, arguments);
    if labs.iter().any(is_real) {
        context.interruption_leaves(Some("what was made is being removed; a second interruption leaves it".to_owned()));
        let (interrupted, stop) = (worlds.context(), Arc::clone(&stop));
        let ui = context.ui.clone();
        context.interruption_cleans_up(Some(Box::new(move || {
            stop.store(true, Ordering::Relaxed);
            for error in live.remove_all(&interrupted) {
                ui.error(&error);
            }
        })));
    }
    let world = |lab: &Lab, seed: u64| -> Result<Box<dyn TestCluster>> {
        if !is_real(lab) {
            return Ok(Box::new(EmbeddedTestCluster::new(seed)?));
        }
        worlds.real(lab, seed)
    };
    let trials = sweep(plan, &world, &|done| activity.progress(format!("{what}: {done} of {total} done")))?;
    context.interruption_cleans_up(None);
    context.interruption_leaves(None);
    activity.end();
    tell(context, arguments, &trials)?;
    if stop.load(Ordering::Relaxed) {
        let left = trials.iter().flat_map(|lab| &lab.trials).any(|trial| trial.left.is_some());
        let message =
            if left { "interrupted; not everything could be removed" } else { "interrupted; nothing is left" };
        return Err(Error::message(Code::Interrupted, message));
    }
    let failed: Vec<&LabTrial> = trials.iter().filter(|lab| !lab.ok()).collect();
    if failed.is_empty() {
        context
            .ui
            .events()
            .counting(trials.len())
            .note(Verb::TestLabs, format!("{what} in {}", duration(started.elapsed())));
        return Ok(());
    }
    let names: Vec<&str> = failed.iter().map(|lab| lab.lab.as_str()).collect();
    let message = format!("{} of {} failed: {}", failed.len(), plural(trials.len(), "lesson"), names.join(", "));
    Err(Error::message(Code::LessonFailed, message))
}

/// Writes what came of it, and the page that was asked for.
fn tell(context: &Context, arguments: &Arguments, trials: &[LabTrial]) -> Result<()> {
    match context.ui.format() {
        Format::Human | Format::Csv | Format::Svg | Format::Mermaid | Format::Markdown => {
            context.ui.result(&lesson_test::report::human(trials));
        }
        Format::Json => context.ui.result(&lesson_test::report::json(trials).to_string()),
        Format::Junit => context.ui.result(&lesson_test::report::junit(trials)?),
    }
    if let Some(pipeline) = arguments.annotations {
        annotate(context, &annotations::of_trials(trials, pipeline));
    }
    if let Some(file) = &arguments.report {
        board::write(context, file, &lesson_test::page::page(trials)?)?;
    }
    if let Some(file) = &arguments.junit {
        board::write(context, file, &lesson_test::report::junit(trials)?)?;
    }
    if let Some(file) = &arguments.summary {
        append(file, &lesson_test::summary::summary(trials))?;
    }
    Ok(())
}

/// Prints lines for a pipeline, if there are any.
fn annotate(context: &Context, lines: &str) {
    if !lines.is_empty() {
        context.ui.result(lines);
    }
}

/// Adds a text to the end of a file, in which others may have written before.
fn append(file: &Path, text: &str) -> Result<()> {
    let opened = std::fs::OpenOptions::new().append(true).create(true).open(file);
    opened
        .and_then(|mut opened| opened.write_all(text.as_bytes()))
        .code(Code::FileUnwritten, || format!("could not write `{}`", file.display()))
}

/// Whether a provider other than the embedded cluster makes clusters.
fn is_made_elsewhere(provider: Provider) -> bool {
    let profile = provider.profile();
    !profile.is_embedded && profile.makes_nodes
}

/// Whether a lesson needs a cluster that other programs reach.
fn is_real(lab: &Lab, arguments: &Arguments) -> bool {
    let mut actions = lab.steps.iter().flat_map(|step| &step.actions);
    let runs = actions.any(|action| matches!(action.value, Action::Run { .. }));
    !arguments.provider.profile().is_embedded || (runs && arguments.allow_run)
}

/// What real worlds are made of, in whichever thread.
struct Worlds<'a> {
    terminal: Ui,
    home: Home,
    memory: Memory,
    arguments: &'a Arguments,
    live: TestLabs,
}

impl Worlds<'_> {
    /// A context for another thread.
    fn context(&self) -> Context {
        Context::new(self.terminal.clone(), self.home.clone(), Interruption::default()).remembering(&self.memory)
    }

    fn real(&self, lab: &Lab, seed: u64) -> Result<Box<dyn TestCluster>> {
        let file = Path::new(lab.source.name());
        let (vars, allow_run) = (&self.arguments.vars, self.arguments.allow_run);
        Ok(Box::new(RealTestCluster::new(&self.context(), lab, file, vars, seed, allow_run, &self.live)?))
    }
}

/// Loads all lab files; the problems of all of them are shown before the command ends.
fn load(context: &Context, arguments: &Arguments, paths: &[PathBuf]) -> Result<Vec<(Lab, LabTrial)>> {
    let read = |path: &PathBuf, provider: Provider| {
        let reach = Reach { outside: arguments.allow_outside, environment: true };
        let options = LoadOptions { provider: Some(provider), vars: arguments.vars.clone(), seed: None, reach };
        spec::load(path, &options).and_then(rendered)
    };
    let (mut lessons, mut invalid) = (Vec::new(), Vec::new());
    for path in paths {
        match read(path, arguments.provider) {
            Ok(lab) if arguments.as_seat => {
                lessons.push(as_seat(path, lab));
                for provider in Provider::ALL.into_iter().filter(|provider| is_made_elsewhere(*provider)) {
                    match read(path, provider) {
                        Ok(lab) => lessons.push(as_seat(path, lab)),
                        Err(_) => context.ui.events().warn(Code::NotTried, format!(
                            "{} is not for {provider}, and was not tried so; `klab check --provider {provider} {}` says why",
                            path.display(),
                            path.display()
                        )),
                    }
                }
            }
            Ok(lab) => {
                let outline = LabTrial::new(path.clone(), &lab);
                lessons.push((lab, outline));
            }
            Err(diagnostics) => invalid.push((path.as_path(), diagnostics)),
        }
    }
    if invalid.is_empty() {
        return Ok(lessons);
    }
    if let Some(pipeline) = arguments.annotations {
        for (path, diagnostics) in &invalid {
            let file = path.display().to_string();
            annotate(context, &annotations::of_diagnostics(&file, diagnostics.iter(), pipeline));
        }
    }
    Err(all_invalid(context, &invalid))
}

/// A lesson as a seat has it, and what is said of it.
fn as_seat(path: &Path, lab: Lab) -> (Lab, LabTrial) {
    let provider = lab.provider;
    let lab = lesson_test::as_seat(lab);
    let named = format!("{} as on {provider}", lab.name);
    let outline = LabTrial { lab: named, options: " --as-seat", ..LabTrial::new(path.to_owned(), &lab) };
    (lab, outline)
}

/// The lab, if its templates can be rendered.
fn rendered(lab: Lab) -> Result<Lab, Diagnostics> {
    klab_operations::render::render(&lab).map(|_| lab)
}

fn all_invalid(context: &Context, invalid: &[(&Path, Diagnostics)]) -> Error {
    let errors: usize = invalid.iter().map(|(_, diagnostics)| diagnostics.errors()).sum();
    if context.ui.format() == Format::Json {
        let files: Vec<_> = invalid
            .iter()
            .map(|(path, diagnostics)| serde_json::json!({ "file": path, "diagnostics": diagnostics.to_json() }))
            .collect();
        let document = serde_json::json!({ "schema": lesson_test::report::SCHEMA, "ok": false, "invalid": files });
        context.ui.result(&document.to_string());
    }
    let (files, have) = match invalid {
        [(only, _)] => (only.display().to_string(), "has"),
        several => (plural(several.len(), "lab file"), "have"),
    };
    let message = format!("{files} {have} {}; nothing was tried", plural(errors, "error"));
    let diagnostics = invalid.iter().map(|(_, diagnostics)| diagnostics.render(true)).collect::<Vec<_>>().join("\n");
    Error { diagnostics, ..Error::message(Code::InvalidLab, message) }
}
