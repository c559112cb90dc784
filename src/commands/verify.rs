//! `klab verify`: wait until every check holds or can no longer hold, and say which.

use std::path::{Path, PathBuf};
use std::time::Duration;

use futures::FutureExt;

use super::lesson::{Lesson, WhichLesson, at_hand, find, label, note_before, the_end};
use super::seats::hosted;
use super::verify_watch::watch;
use super::{Context, board, joined};
use klab_lab::spec::Lab;
use klab_lab::verify::Report;
use klab_operations::changes::{elsewhere, find_asides, way_back};
use klab_operations::error::{Code, Error, Result};
use klab_operations::event::Verb;
use klab_operations::grade::{Grading, hinted, judge, wait, wait_for_set_up, write_report};
use klab_operations::lesson::pass::{self, Grader, Passed};
use klab_operations::lesson::staged;
use klab_operations::observe;
use klab_operations::state::Progress;
use klab_operations::state::class::Class;
use klab_operations::ui::Format;

/// What can be typed after `klab verify`.
#[derive(Debug, Clone, clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    which: WhichLesson,
    /// How long to wait until every check holds.
    #[arg(long, value_name = "DURATION", default_value = "2m", value_parser = super::duration)]
    timeout: Duration,
    /// Grade this step of the lesson, by name or number; the next one by default.
    #[arg(long, value_name = "STEP")]
    step: Option<String>,
    /// Look at all seats of a class once, and print each learner's progress; also as `--format csv`. Of a hosted class `--watch` keeps it
    /// there.
    #[arg(long, conflicts_with = "step")]
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
        if Class::read(&context.home, &name)?.is_none() && hosted::is_hosted(context, &name) {
            return hosted::verify(context, &name, arguments.watch);
        }
        if arguments.watch {
            let message = format!("class `{name}` is not hosted: its seats are labs of this machine");
            return Err(
                Error::message(Code::NoSuchClass, message).hint(format!("`klab watch {name}` shows it as it changes"))
            );
        }
        return super::seats::verify(context, &Class::of(&context.home, &name)?);
    }
    if let Some(joined) = joined::meant(context, arguments.which.lab.as_deref())? {
        return joined::verify(context, &joined, arguments.step.as_deref(), arguments.timeout.as_secs());
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
    if graded.step.is_none() && report.ok() {
        return None;
    }
    let looks_elsewhere = elsewhere(kubeconfig, lab).filter(|_| !report.ok());
    let mentioned = context.client(&lab.name.value, kubeconfig).and_then(|client| {
        let Some(at_hand) = at_hand(context, lab)? else { return Ok(None) };
        let at = (graded.step, done);
        let mut asides = context.block_on(find_asides(&client, lab, at, report.ok(), at_hand))?;
        // What is typed to mend anything would look there, so it comes first.
        asides.unasked.splice(0..0, looks_elsewhere);
        report.mention(asides);
        Ok(way_back(report, lab, graded.step))
    });
    mentioned.unwrap_or_else(|error| {
        let words = format!("what differs from the lab could not be found: {error}");
        context.ui.events().warn(Code::DifferencesUnknown, words);
        None
    })
}

/// Grades where the learner is. What holds of an opened step moves the learner on.
fn grade_next(context: &Context, mut lesson: Lesson, kubeconfig: &Path, arguments: &Arguments) -> Result<()> {
    let lab = lesson.lab.clone();
    let next = lesson.next();
    let opened = lesson.is_opened();
    let mut looks = TerminalGrader { context, lab: &lab, progress: &lesson.progress, kubeconfig, arguments };
    let grading = pass::graded(&mut looks, &lab, &lesson.progress, arguments.timeout);
    // Every look waits for its own end: there is nothing to come back for.
    let pass::Graded { step, report } = grading.now_or_never().unwrap_or_else(|| Err(interrupted()))?;
    let mut graded = Graded { lab: &lab, step, report };
    let slips = (!arguments.watch).then_some((kubeconfig, lesson.progress.done));
    conclude(context, &lesson, &mut graded, arguments, slips).map_err(|error| match next.filter(|_| !opened) {
        Some(next) => {
            let name = &lab.steps[next].name.value;
            error.hint(format!("`klab guide` opens the next step; `klab verify --step {name}` checks that one"))
        }
        None => error,
    })?;
    let done = match pass::passed(&lab, &lesson.progress, graded.step) {
        Passed::All => {
            if !lab.steps.is_empty() {
                context.ui.events().note(Verb::FinishSteps, the_end(&lab));
            }
            return Ok(());
        }
        Passed::Before(done) => {
            let words = next.map_or(String::new(), |next| format!("; `klab guide` opens {}", label(&lab, next)));
            context.ui.events().note(Verb::HoldStep, format!("{}{words}", label(&lab, done - 1)));
            return Ok(());
        }
        Passed::Now(done) => done,
    };
    let words = match (graded.step, lab.steps.len() > done) {
        (None, _) => format!("the set-up; `klab guide` shows {}", label(&lab, 0)),
        (Some(step), true) => format!("{}; `klab guide` shows the next", label(&lab, step)),
        (Some(step), false) => label(&lab, step),
    };
    if pass::moves_on(&lesson.progress, done) {
        lesson.progress.reach(done);
        note_before(context, &lab, &mut lesson.progress, &context.client(&lab.name.value, kubeconfig)?)?;
        lesson.keep_if_free("verify")?;
    }
    context.ui.events().note(Verb::PassStep, words);
    if graded.step.is_some() && lab.steps.len() <= done {
        context.ui.events().note(Verb::FinishSteps, the_end(&lab));
    }
    Ok(())
}

fn interrupted() -> Error {
    Error::message(Code::KlabFault, "the cluster was not looked at to the end")
}

/// The cluster as `klab verify` looks at it: each look has ended when it returns.
struct TerminalGrader<'a> {
    context: &'a Context,
    lab: &'a Lab,
    progress: &'a Progress,
    kubeconfig: &'a Path,
    arguments: &'a Arguments,
}

impl Grader for TerminalGrader<'_> {
    async fn wait(&mut self, step: Option<usize>, once: Option<Duration>) -> Result<Report> {
        let once = once.map(|timeout| Arguments { timeout, watch: false, ..self.arguments.clone() });
        let arguments = once.as_ref().unwrap_or(self.arguments);
        look(self.context, self.lab, self.progress, step, self.kubeconfig, arguments).map(|graded| graded.report)
    }

    async fn glance(&mut self, step: usize) -> Result<Report> {
        let staged = staged(self.lab, self.progress, Some(step));
        let client = self.context.client(&self.lab.name.value, self.kubeconfig)?;
        self.context.block_on(async {
            let mut snapshot = observe::look(&client).await?;
            observe::fetch(&client, &staged.checks, &mut snapshot).await?;
            Ok(klab_lab::verify::evaluate(&staged.checks, &snapshot, &klab_lab::verify::Context::of(&staged)))
        })
    }
}
