//! `klab verify`: wait until every check holds or can no longer hold, and say which.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::lesson::{Lesson, WhichLesson, find, label, note_before};
use super::verify_watch::watch;
use super::{Context, board};
use crate::changes::{Change, Told, elsewhere, live_objects, slips};
use crate::error::Result;
use crate::event::Verb;
use crate::grade::{Grading, hinted, judge, wait, wait_for_set_up, write_report};
use crate::lesson::staged;
use crate::observe;
use crate::state::Progress;
use crate::state::class::Class;
use crate::ui::Format;
use klab_lab::spec::Lab;
use klab_lab::verify::{CheckResult, Report, Verdict};
use klab_lab::words::plural;

/// What can be typed after `klab verify`.
#[derive(Debug, Clone, clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    which: WhichLesson,
    /// How long to wait until every check holds.
    #[arg(long, value_name = "DURATION", default_value = "2m", value_parser = super::duration)]
    timeout: Duration,
    /// Grade this step of the lesson; the one that is next by default.
    #[arg(long, value_name = "NAME")]
    step: Option<String>,
    /// Look at all seats of a class once, and print where everybody is; also as `--format csv`.
    #[arg(long, conflicts_with_all = ["step", "watch"])]
    seats: bool,
    /// Write the verdicts, with the cluster they are about, as a page into this file.
    #[arg(long, value_name = "FILE.html", conflicts_with = "seats")]
    report: Option<PathBuf>,
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
        let name = context.lab_or_class_name(arguments.which.lab.as_deref())?;
        return super::seats::verify(context, &Class::of(&context.home, &name)?);
    }
    let lesson = Lesson::open(context, &arguments.which)?;
    let lab = lesson.lab.name.value.clone();
    let kubeconfig = context.kubeconfig(&lab)?;
    let outcome = match &arguments.step {
        Some(name) => {
            let step = find(&lesson.lab, name)?;
            let done = lesson.progress.done;
            look(context, &lesson.lab, &lesson.progress, Some(step), &kubeconfig, arguments).and_then(|mut graded| {
                // Of a step of long ago everything since is a difference.
                let look = (step == done || step + 1 == done) && !arguments.watch;
                conclude(context, &lesson, &mut graded, arguments, look.then_some((kubeconfig.as_path(), done)))
            })
        }
        None => grade_next(context, lesson, &kubeconfig, arguments),
    };
    outcome.map_err(|error| context.why_unreachable(&lab, error))
}

/// What a look at a stage of the lesson came to.
struct Graded<'a> {
    lab: &'a Lab,
    /// The step (from 0) whose checks were graded; none: the set-up.
    step: Option<usize>,
    report: Report,
}

/// Waits for (or watches) the checks of the set-up or of a step.
fn look<'a>(
    context: &Context,
    lab: &'a Lab,
    progress: &Progress,
    step: Option<usize>,
    kubeconfig: &Path,
    arguments: &Arguments,
) -> Result<Graded<'a>> {
    let staged = staged(lab, progress, step);
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
    Ok(Graded { lab, step, report })
}

/// Writes the report, and fails where it does. Where to look for slips is the kubeconfig, and how many steps are done.
fn conclude(
    context: &Context,
    lesson: &Lesson,
    graded: &mut Graded<'_>,
    arguments: &Arguments,
    slips: Option<(&Path, usize)>,
) -> Result<()> {
    let way_back = slips.and_then(|(kubeconfig, done)| add_slips(context, graded, kubeconfig, done));
    let what = graded.step.map(|step| label(graded.lab, step));
    let grading = Grading {
        what: what.as_deref().unwrap_or("the lab"),
        step: graded.step.map(|step| (graded.lab, step)),
        quietly: false,
        document: false,
    };
    // What was watched has been shown.
    if !arguments.watch || context.ui.format() == Format::Junit {
        write_report(context, &graded.report, &grading)?;
    }
    if let Some(file) = &arguments.report {
        let stage = staged(graded.lab, &lesson.progress, graded.step);
        board::write_report(context, file, lesson, stage, graded.report.clone())?;
    }
    judge(context, &graded.report, arguments.timeout, &grading).map_err(|error| match way_back {
        Some(hint) => error.hint(hint),
        None => error,
    })
}

/// Adds to a lesson's report what was changed and not asked for, and, where nothing else says what to do, what the step asks for
/// and is not done. Where that is nothing either, returns what leads back.
fn add_slips(context: &Context, graded: &mut Graded<'_>, kubeconfig: &Path, done: usize) -> Option<String> {
    let (lab, report) = (graded.lab, &mut graded.report);
    // Of a cluster that klab did not make nobody knows what it was like.
    let is_known = lab.provider.profile().makes_nodes;
    if lab.steps.is_empty() || !is_known || (graded.step.is_none() && report.ok()) {
        return None;
    }
    let steps = graded.step.map_or(0, |step| step + 1);
    let found = context.client(&lab.name.value, kubeconfig).and_then(|client| {
        let found = context.block_on(live_objects(&client))?;
        slips(lab, graded.step, steps == done, &found)
    });
    let slips = match found {
        Ok(slips) => slips,
        Err(error) => {
            context.ui.events().warn(format!("what differs from the lab could not be found: {error}"));
            return None;
        }
    };
    let asides = |changes: &[Change]| Told::all(changes, lab, steps).into_iter().map(Told::aside).collect();
    // What is typed to mend anything would look there, so it comes first.
    let looks_elsewhere = elsewhere(kubeconfig, lab).filter(|_| !report.ok());
    report.unasked = looks_elsewhere.into_iter().chain(asides(&slips.unasked)).collect();
    let helpless = |check: &CheckResult| !check.verdict.is_held() && check.suggestions.is_empty();
    if !report.checks.iter().any(helpless) {
        return None;
    }
    report.open = asides(&slips.open);
    let nothing = report.unasked.is_empty() && report.open.is_empty();
    let name = &lab.name;
    nothing.then(|| match graded.step.and_then(|step| step.checked_sub(1)) {
        Some(before) => {
            let before = &lab.steps[before].name;
            format!("all is as the step makes it, and came about otherwise: `klab reset {name} --to {before}` goes back to where it begins")
        }
        None => format!("`klab reset {name}` goes back to where the lesson begins"),
    })
}

/// Long enough to see that what holds of a step holds for a while.
const WINDOW: Duration = Duration::from_secs(2);

/// Grades where the learner is: the step that the guide has opened, else what was reached last, so that what holds goes
/// on holding however often it is asked. What holds of an opened step moves the learner on.
fn grade_next(context: &Context, mut lesson: Lesson, kubeconfig: &Path, arguments: &Arguments) -> Result<()> {
    let lab = lesson.lab.clone();
    let next = lesson.next();
    let opened = lesson.is_opened();
    let mut graded = match lesson.ahead().filter(|_| lesson.progress.started) {
        // What was typed for the next step has taken effect, or still does: then that step is meant, not the one before.
        Some(next) if is_within_reach(context, &lab, &lesson.progress, next, kubeconfig)? => {
            look(context, &lab, &lesson.progress, Some(next), kubeconfig, arguments)?
        }
        _ => look(context, &lab, &lesson.progress, lesson.graded(), kubeconfig, arguments)?,
    };
    if graded.step != lesson.graded() {
        if !graded.report.ok() {
            // What is under way may have another reason.
            let reached = look(context, &lab, &lesson.progress, lesson.graded(), kubeconfig, arguments)?;
            if reached.report.ok() {
                graded = reached;
            }
        }
    } else if let Some(next) = lesson.ahead().filter(|_| !graded.report.ok()) {
        // Who has typed the next step's commands already has left behind what was reached.
        let patience = arguments.timeout.min(WINDOW);
        let once = Arguments { timeout: patience, watch: false, ..arguments.clone() };
        let ahead = look(context, &lab, &lesson.progress, Some(next), kubeconfig, &once)?;
        if ahead.report.ok() && !ahead.report.checks.is_empty() {
            graded = ahead;
        }
    }
    let slips = (!arguments.watch).then_some((kubeconfig, lesson.progress.done));
    conclude(context, &lesson, &mut graded, arguments, slips).map_err(|error| match next.filter(|_| !opened) {
        Some(next) => {
            let name = &lab.steps[next].name.value;
            error.hint(format!("`klab guide` opens the next step; `klab verify --step {name}` checks that one"))
        }
        None => error,
    })?;
    if next.is_none() {
        if !lab.steps.is_empty() {
            context.ui.events().note(Verb::FinishSteps, format!("all {}", plural(lab.steps.len(), "step")));
        }
        return Ok(());
    }
    let done = graded.step.map_or(0, |step| step + 1);
    if done > 0 && done <= lesson.progress.done && !opened {
        // It was passed before. Whoever meant the next step must see that this was not it.
        let words = match next {
            Some(next) => format!("; `klab guide` opens {}, then `klab verify` grades that", label(&lab, next)),
            None => String::new(),
        };
        context.ui.events().note(Verb::HoldStep, format!("{}, as before{words}", label(&lab, done - 1)));
        return Ok(());
    }
    let words = match (graded.step, lab.steps.len() > done) {
        (None, _) => format!("the set-up; `klab guide` shows {}", label(&lab, 0)),
        (Some(step), true) => format!("{}; `klab guide` shows the next", label(&lab, step)),
        (Some(step), false) => format!("{}: the lesson is done", label(&lab, step)),
    };
    if done > lesson.progress.done || !lesson.progress.started {
        lesson.progress.reach(done);
        note_before(context, &lab, &mut lesson.progress, &context.client(&lab.name.value, kubeconfig)?)?;
        lesson.keep_if_free("verify")?;
    }
    context.ui.events().note(Verb::PassStep, words);
    Ok(())
}

/// Whether the cluster is as a step wants it, or on its way there: nothing of it is out of reach.
fn is_within_reach(context: &Context, lab: &Lab, progress: &Progress, step: usize, kubeconfig: &Path) -> Result<bool> {
    let staged = staged(lab, progress, Some(step));
    let client = context.client(&lab.name.value, kubeconfig)?;
    let report = context.block_on(async {
        let mut snapshot = observe::look(&client).await?;
        observe::fetch(&client, &staged.checks, &mut snapshot).await?;
        Ok(klab_lab::verify::evaluate(&staged.checks, &snapshot, &klab_lab::verify::Context::of(&staged)))
    })?;
    let out_of_reach = |check: &CheckResult| matches!(check.verdict, Verdict::Impossible { .. });
    Ok(!report.checks.is_empty() && !report.checks.iter().any(out_of_reach))
}
