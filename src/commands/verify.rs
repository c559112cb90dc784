//! `klab verify`: wait until every check holds or can no longer hold, and say which.

use std::path::Path;
use std::time::{Duration, Instant};

use kube::Client;
use serde_json::json;

use super::kubeconfig::{not_up, path};
use super::lesson::{Lesson, find, label};
use super::watch::watch;
use super::{Context, LabOptions};
use crate::client::{NoAnswer, answered_within};
use crate::error::{Error, Kind, Result};
use crate::lesson::stage;
use crate::observe::{self, Observer};
use crate::state::Progress;
use crate::state::class::Class;
use crate::ui::Format;
use klab_lab::report::{self, Suite};
use klab_lab::spec::{self, Lab};
use klab_lab::verify::{CheckResult, Difference, Observation, Prediction, Report, Stability, Verdict, Windows};
use klab_lab::words::{duration, first_of, plural};

/// What can be typed after `klab verify`.
#[derive(Debug, Clone, clap::Args)]
pub struct Arguments {
    /// The lab, by its name or its file; the one that is up by default.
    #[arg(value_name = "LAB")]
    lab: Option<String>,
    #[command(flatten)]
    options: LabOptions,
    /// How long to wait until every check holds.
    #[arg(long, value_name = "DURATION", default_value = "2m", value_parser = super::duration)]
    timeout: Duration,
    /// Grade this step of the lesson; the one that is next by default.
    #[arg(long, value_name = "NAME")]
    step: Option<String>,
    /// Look at all seats of a class once, and print where everybody is; also as `--format csv`.
    #[arg(long, conflicts_with_all = ["step", "watch"])]
    seats: bool,
    /// Show the verdicts as they change, until every check holds.
    #[arg(long)]
    watch: bool,
}

impl Arguments {
    /// Whether a class is looked at.
    pub fn is_of_class(&self) -> bool {
        self.seats
    }
}

/// Verifies the lab, or grades the step of its lesson that the learner is at.
///
/// # Errors
/// When a check does not hold, with what keeps it from holding.
pub fn run(context: &Context, arguments: &Arguments) -> Result<()> {
    if arguments.seats {
        let name = context.lab_or_class_name(arguments.lab.as_deref())?;
        let class = Class::read(&context.home, &name)?;
        return super::seats::verify(context, &class.ok_or_else(|| super::seats::no_class(&name))?);
    }
    let lesson = Lesson::open(context, arguments.lab.as_deref(), &arguments.options)?;
    let lab = lesson.lab.name.value.clone();
    let kubeconfig = path(context, &lab)?;
    let outcome = match &arguments.step {
        Some(name) => {
            let step = find(&lesson.lab, name)?;
            look(context, &lesson.lab, Some(step), &kubeconfig, arguments)
                .and_then(|looked| conclude(context, &looked, arguments))
        }
        None => grade_next(context, lesson, &kubeconfig, arguments),
    };
    outcome.map_err(|error| context.why_unreachable(&lab, error))
}

/// What a look at a stage of the lesson came to.
struct Looked<'a> {
    lab: &'a Lab,
    /// The step (from 0) whose checks were looked at; none: the set-up.
    step: Option<usize>,
    report: Report,
}

/// Waits for (or watches) the checks of the set-up or of a step.
fn look<'a>(
    context: &Context,
    lab: &'a Lab,
    step: Option<usize>,
    kubeconfig: &Path,
    arguments: &Arguments,
) -> Result<Looked<'a>> {
    let staged = stage(lab, step.map_or(0, |step| step + 1));
    let hint = step.and_then(|step| lab.steps.get(step)?.hint.as_deref());
    let report = if arguments.watch {
        let title = step.map_or_else(|| format!("lab `{}`", lab.name), |step| label(lab, step));
        watch(context, &staged, kubeconfig, &title, hint)?
    } else {
        let mut report = match step {
            None => wait_for_set_up(context, &staged, kubeconfig, arguments.timeout)?,
            Some(_) => wait(context, &staged, kubeconfig, arguments.timeout)?,
        };
        hinted(&mut report, hint);
        report
    };
    Ok(Looked { lab, step, report })
}

/// Writes the report, and fails where it does.
fn conclude(context: &Context, looked: &Looked<'_>, arguments: &Arguments) -> Result<()> {
    let what = looked.step.map(|step| label(looked.lab, step));
    let grading = Grading {
        what: what.as_deref().unwrap_or("the lab"),
        step: looked.step.map(|step| (looked.lab, step)),
        quietly: false,
        document: false,
    };
    // What was watched has been shown.
    if !arguments.watch || context.ui.format() == Format::Junit {
        write(context, &looked.report, &grading)?;
    }
    judge(context, &looked.report, arguments.timeout, &grading)
}

/// Long enough to see that what holds of a step holds for a while.
const WINDOW: Duration = Duration::from_secs(2);

/// Grades where the learner is: the step that the guide has opened, else what was reached last, so that what holds goes
/// on holding however often it is asked. What holds of an opened step moves the learner on.
fn grade_next(context: &Context, mut lesson: Lesson, kubeconfig: &Path, arguments: &Arguments) -> Result<()> {
    let lab = lesson.lab.clone();
    let next = lesson.next();
    let opened = lesson.is_opened();
    let mut looked = match lesson.ahead().filter(|_| lesson.progress.started) {
        // What was typed for the next step has taken effect, or still does: then that step is meant, not the one before.
        Some(next) if is_within_reach(context, &lab, next, kubeconfig)? => {
            look(context, &lab, Some(next), kubeconfig, arguments)?
        }
        _ => look(context, &lab, lesson.graded(), kubeconfig, arguments)?,
    };
    if looked.step != lesson.graded() {
        if !looked.report.ok() {
            // What is under way may have another reason.
            let reached = look(context, &lab, lesson.graded(), kubeconfig, arguments)?;
            if reached.report.ok() {
                looked = reached;
            }
        }
    } else if let Some(next) = lesson.ahead().filter(|_| !looked.report.ok()) {
        // Who has typed the next step's commands already has left behind what was reached.
        let patience = arguments.timeout.min(WINDOW);
        let once = Arguments { timeout: patience, watch: false, ..arguments.clone() };
        let ahead = look(context, &lab, Some(next), kubeconfig, &once)?;
        if ahead.report.ok() && !ahead.report.checks.is_empty() {
            looked = ahead;
        }
    }
    conclude(context, &looked, arguments).map_err(|error| match next.filter(|_| !opened) {
        Some(next) => {
            let name = &lab.steps[next].name.value;
            error.hint(format!("`klab guide` opens the next step; `klab verify --step {name}` checks that one"))
        }
        None => error,
    })?;
    if next.is_none() {
        if !lab.steps.is_empty() {
            context.ui.events().note("Done", format!("all {}", plural(lab.steps.len(), "step")));
        }
        return Ok(());
    }
    let done = looked.step.map_or(0, |step| step + 1);
    if done > 0 && done <= lesson.progress.done && !opened {
        // It was passed before. Whoever meant the next step must see that this was not it.
        let words = match next {
            Some(next) => format!("; `klab guide` opens {}, then `klab verify` grades that", label(&lab, next)),
            None => String::new(),
        };
        context.ui.events().note("Holds", format!("{}, as before{words}", label(&lab, done - 1)));
        return Ok(());
    }
    let words = match (looked.step, lab.steps.len() > done) {
        (None, _) => format!("the set-up; `klab guide` shows {}", label(&lab, 0)),
        (Some(step), true) => format!("{}; `klab guide` shows the next", label(&lab, step)),
        (Some(step), false) => format!("{}: the lesson is done", label(&lab, step)),
    };
    if done > lesson.progress.done || !lesson.progress.started {
        lesson.progress = Progress::reached(done);
        lesson.keep_if_free("verify")?;
    }
    context.ui.events().note("Passed", words);
    Ok(())
}

/// Whether the cluster is as a step wants it, or on its way there: nothing of it is out of reach.
fn is_within_reach(context: &Context, lab: &Lab, step: usize, kubeconfig: &Path) -> Result<bool> {
    let staged = stage(lab, step + 1);
    let client = context.client(&lab.name.value, kubeconfig)?;
    let report = context.block_on(async {
        let mut snapshot = observe::look(&client).await?;
        observe::fetch(&client, &staged.checks, &mut snapshot).await?;
        Ok(klab_lab::verify::evaluate(&staged.checks, &snapshot, &klab_lab::verify::Context::of(&staged)))
    })?;
    let out_of_reach = |check: &CheckResult| matches!(check.verdict, Verdict::Impossible { .. });
    Ok(!report.checks.is_empty() && !report.checks.iter().any(out_of_reach))
}

/// The lab that is up, from the file that is named or else from the one it was made of.
///
/// # Errors
/// When the lab is not up, or its file is invalid.
pub fn lab(context: &Context, argument: Option<&str>, options: &LabOptions) -> Result<Lab> {
    let name = context.lab_name(argument)?;
    let record = context.record(&name)?.ok_or_else(|| not_up(&name))?;
    let mut load_options = options.load_options_to_make();
    load_options.reach.outside |= record.allow_outside;
    load_options.provider = Some(record.provider);
    if load_options.vars.is_empty() {
        load_options.vars.clone_from(&record.vars);
    }
    if let Some(file) = argument.map(Path::new).filter(|file| file.is_file()) {
        return context.load(file, &load_options);
    }
    let saved = context.home.lab(&name).join("lab.toml");
    let text =
        std::fs::read_to_string(&saved).map_err(|error| crate::state::home::state_error(error, "read", &saved))?;
    let folder = record.source.parent().unwrap_or(Path::new("."));
    let parsed = spec::parse_beside(&shown(&record.source), &text, folder, &load_options);
    let mut lab = parsed.map_err(|diagnostics| super::invalid(&record.source, &diagnostics))?;
    // A seat of a class is a lab of another name than its file says.
    lab.name.value = name;
    Ok(lab)
}

/// The path as the user would write it here.
fn shown(path: &Path) -> String {
    let here = std::env::current_dir().unwrap_or_default();
    path.strip_prefix(here).unwrap_or(path).display().to_string()
}

/// What is graded, and how it is told.
pub struct Grading<'a> {
    /// What holds or not: `the lab`, ``step 3 of 9 `taint` ``.
    pub what: &'a str,
    /// The lab and the step (from 0) whose checks they are, where they are a step's.
    pub step: Option<(&'a Lab, usize)>,
    /// Say little where everything holds.
    pub quietly: bool,
    /// In JSON, write the report as one event among others.
    pub document: bool,
}

/// Writes the report of a lab that was just made, where something does not hold.
///
/// # Errors
/// When a check does not hold (1) or the deadline passes before that is certain (5).
pub(super) fn report_set_up(context: &Context, report: Report, timeout: Duration) -> Result<()> {
    grade_report(context, report, timeout, &Grading { what: "the lab", step: None, quietly: true, document: false })
}

/// Waits for the checks of a stage and writes the report.
///
/// # Errors
/// When a check does not hold (1) or the deadline passes before that is certain (5).
pub fn grade(
    context: &Context,
    stage: &Lab,
    kubeconfig: &Path,
    timeout: Duration,
    grading: &Grading<'_>,
) -> Result<()> {
    let report = wait(context, stage, kubeconfig, timeout)?;
    grade_report(context, report, timeout, grading)
}

fn grade_report(context: &Context, mut report: Report, timeout: Duration, grading: &Grading<'_>) -> Result<()> {
    hinted(&mut report, grading.step.and_then(|(lab, step)| lab.steps.get(step)?.hint.as_deref()));
    write(context, &report, grading)?;
    judge(context, &report, timeout, grading)
}

/// A learner who fails a step without a word about the check gets the word about the step.
pub(super) fn hinted(report: &mut Report, hint: Option<&str>) {
    let failed = || |check: &&mut klab_lab::verify::CheckResult| !check.verdict.is_held();
    if report.checks.iter_mut().filter(failed()).any(|check| check.hint.is_some()) {
        return;
    }
    if let Some(first) = report.checks.iter_mut().find(failed()) {
        first.hint = hint.map(str::to_owned);
    }
}

fn write(context: &Context, report: &Report, grading: &Grading<'_>) -> Result<()> {
    let quietly = grading.quietly && report.ok();
    match context.ui.format() {
        Format::Human | Format::Csv => {
            let text = report::human(report, report::Styles::coloured());
            if quietly { context.ui.say(text.trim_end()) } else { context.ui.result(&text) }
        }
        Format::Json if quietly => {}
        Format::Json => {
            let mut document = report::json(report);
            if let Some((lab, step)) = grading.step {
                document["step"] = json!({
                    "name": lab.steps.get(step).map(|step| &step.name.value), "number": step + 1,
                    "of": lab.steps.len(),
                });
            }
            if grading.document {
                document["event"] = json!("report");
            }
            context.ui.result(&document.to_string());
        }
        Format::Junit => {
            let name = grading.step.map_or(report.lab.as_str(), |(lab, step)| {
                lab.steps.get(step).map_or(report.lab.as_str(), |step| step.name.value.as_str())
            });
            context.ui.result(&report::junit(&[Suite { name, report }]).map_err(anyhow::Error::from)?);
        }
    }
    Ok(())
}

fn judge(context: &Context, report: &Report, timeout: Duration, grading: &Grading<'_>) -> Result<()> {
    let total = report.checks.len();
    let what = grading.what;
    if report.ok() {
        context.ui.events().note(
            "Verified",
            format!("{} of {} in {}", report.held(), plural(total, "check"), duration(report.elapsed)),
        );
        return Ok(());
    }
    let failed = format!("{} of {}", total - report.held(), plural(total, "check"));
    if report.decided() {
        return Err(Error::message(Kind::NotHeld, format!("{what} does not hold: {failed} failed")));
    }
    let message = format!("{what} does not hold after {}: {failed} may still come to hold", duration(timeout));
    Err(Error::message(Kind::Deadline, message).hint("`--timeout 10m` waits longer"))
}

/// Watches until every check holds, or one can no longer hold, or the time is up.
///
/// # Errors
/// When the cluster does not answer.
pub(super) fn wait(context: &Context, lab: &Lab, kubeconfig: impl AsRef<Path>, timeout: Duration) -> Result<Report> {
    let client = client(context, lab, kubeconfig.as_ref(), timeout)?;
    watch_until_final(context, lab, Cluster { client: &client, changed: false }, timeout, None)
}

/// As [`wait`], for a lab that was just made: where its pods were to go is compared with where they are.
///
/// # Errors
/// When the cluster does not answer.
pub(super) fn wait_for_made(context: &Context, lab: &Lab, cluster: Cluster<'_>, timeout: Duration) -> Result<Report> {
    let predicted = predicted(context, lab)?;
    watch_until_final(context, lab, cluster, timeout, predicted.as_ref())
}

/// As [`wait`], for the set-up: where its pods were to go is compared with where they are.
fn wait_for_set_up(context: &Context, lab: &Lab, kubeconfig: &Path, timeout: Duration) -> Result<Report> {
    let (predicted, client) = (predicted(context, lab)?, client(context, lab, kubeconfig, timeout)?);
    watch_until_final(context, lab, Cluster { client: &client, changed: false }, timeout, predicted.as_ref())
}

/// A client of the lab's cluster that waits for no answer longer than the person does.
fn client(context: &Context, lab: &Lab, kubeconfig: &Path, timeout: Duration) -> Result<Client> {
    let client = context.client_within(&lab.name.value, kubeconfig, timeout.max(LOOK));
    client.map_err(|error| in_time(error, timeout))
}

/// Time that one look may take, however short the person's patience is.
const LOOK: Duration = Duration::from_secs(5);

/// A cluster that is silent as long as the person would wait is a deadline that passed.
fn in_time(mut error: Error, timeout: Duration) -> Error {
    if NoAnswer::in_error(&error).is_some_and(|silent| silent.after >= timeout) {
        error.kind = Kind::Deadline;
    }
    error
}

/// Where the lab's pods were to go, as `up` has noted it.
fn predicted(context: &Context, lab: &Lab) -> Result<Option<Prediction>> {
    Ok(context.record(&lab.name.value)?.and_then(|record| record.predicted))
}

/// The cluster that is looked at.
#[derive(Clone, Copy)]
pub(super) struct Cluster<'a> {
    pub(super) client: &'a Client,
    /// Whether it was just changed: then it cannot hold yet and is watched at once. One that may hold already is seen with
    /// one look, without a watch.
    pub(super) changed: bool,
}

fn watch_until_final(
    context: &Context,
    lab: &Lab,
    cluster: Cluster<'_>,
    timeout: Duration,
    predicted: Option<&Prediction>,
) -> Result<Report> {
    let activity = context.ui.events().start("Verifying", plural(lab.checks.len(), "check"));
    let result = context.block_on(async {
        let started = Instant::now();
        let judge = klab_lab::verify::Context::of(lab);
        let mut stability = Stability::new(Windows::of(lab.provider));
        let client = cluster.client;
        let mut observer = cluster.changed.then(|| Observer::new(client));
        let first = async {
            let mut snapshot = match &mut observer {
                Some(observer) => observer.next().await?,
                None => observe::look(client).await?,
            };
            observe::fetch(client, &lab.checks, &mut snapshot).await?;
            Ok(snapshot)
        };
        let mut snapshot = answered_within(timeout.max(LOOK), first).await?;
        let mut looked = Instant::now();
        let mut seen = stability.observe(&lab.checks, &snapshot, &judge, started.elapsed());
        while !is_final(&seen) && started.elapsed() < timeout {
            activity.progress(waiting_for(&seen.report, timeout));
            let observer = observer.get_or_insert_with(|| Observer::new(client));
            let until = seen.look_again_at.map_or(timeout, |at| at.min(timeout));
            // A look at thousands of nodes takes longer than the time between two changes of them.
            tokio::time::sleep(looked.elapsed().saturating_mul(REST).min(until.saturating_sub(started.elapsed())))
                .await;
            let pause = until.saturating_sub(started.elapsed());
            if let Ok(news) = tokio::time::timeout(pause, observer.next()).await {
                snapshot = news?;
                answered_within(LOOK.max(pause), observe::fetch(client, &lab.checks, &mut snapshot)).await?;
            }
            looked = Instant::now();
            seen = stability.observe(&lab.checks, &snapshot, &judge, started.elapsed());
        }
        if !seen.report.ok() {
            warn_of_faults(context, client).await;
            answered_within(timeout.max(LOOK), observe::complete(client, &mut snapshot)).await?;
            klab_lab::verify::diagnose(&mut seen.report, &lab.checks, &snapshot, &judge);
        }
        if let Some(prediction) = predicted {
            let differences = klab_lab::verify::compare(prediction, &snapshot, &judge);
            // A workload that was scaled since says nothing about the prediction.
            seen.report.differences = differences.into_iter().filter(Difference::is_of_place).collect();
        }
        Ok(seen.report)
    });
    activity.end();
    result.map_err(|error| in_time(error, timeout))
}

/// Says what is wrong with the cluster itself: a learner would look for it in his own work.
pub(super) async fn warn_of_faults(context: &Context, client: &Client) {
    for fault in observe::faults(client).await {
        context.ui.events().warn(format!("the cluster is not well: {fault}"));
    }
}

/// So many times as long as a look took, nobody looks again.
const REST: u32 = 3;

/// Whether time and the cluster's own doing will change nothing.
fn is_final(seen: &Observation) -> bool {
    seen.report.decided()
}

fn waiting_for(report: &Report, timeout: Duration) -> String {
    let open: Vec<&str> =
        report.checks.iter().filter(|check| !check.verdict.is_held()).map(|check| check.name.as_str()).collect();
    let open = if open.is_empty() { "checks".to_owned() } else { first_of(&open, 1) };
    format!("{open}, up to {}", duration(timeout))
}
