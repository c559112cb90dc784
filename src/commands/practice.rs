//! `klab practice`, `klab next`, `klab submit`: tasks against the clock, each on a cluster of its own.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::one::{self, make, remove};
use super::{Context, invalid, lesson};
use klab_lab::report::markdown;
use klab_lab::spec::{Lab, LoadOptions, Topic, Track};
use klab_lab::verify::Report;
use klab_lab::words::{duration, plural, table};
use klab_operations::bundled_lessons;
use klab_operations::error::{Code, Error, Result};
use klab_operations::event::Nowhere;
use klab_operations::exec::quoted;
use klab_operations::grade::{Grading, hinted, wait_for_each, write_report};
use klab_operations::lesson::staged;
use klab_operations::locked_lab::LockedLab;
use klab_operations::practice::{self, Attempt, Practice, Session, lab_name};
use klab_operations::render;
use klab_operations::state::Progress;
use klab_operations::ui::Format;

/// How long checks of a task that is submitted may take to hold: what the learner did last may still be under way.
const SETTLES: Duration = Duration::from_secs(10);

/// What can be typed after `klab practice`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Draw only tasks of this track: scheduling, cka, aks or operators.
    #[arg(long)]
    track: Option<Track>,
    /// How long to practise.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u16).range(1..=600))]
    minutes: u16,
    /// Draw by this number: with the same history, the same number gives the same tasks.
    #[arg(long, value_name = "NUMBER")]
    draw: Option<u64>,
    /// End the practice that is under way, and show what came of it.
    #[arg(long, conflicts_with_all = ["track", "draw"])]
    end: bool,
    /// Show how each topic went so far.
    #[arg(long, conflicts_with_all = ["track", "draw", "end"])]
    history: bool,
}

/// Begins a practice, or shows the task that is open.
///
/// # Errors
/// When its cluster cannot be made.
pub fn run(context: &Context, arguments: &Arguments) -> Result<()> {
    let mut practice = Practice::read(&context.home)?;
    if arguments.history {
        show_history(context, &practice);
        return Ok(());
    }
    if arguments.end {
        return finish(context, practice, Vec::new());
    }
    if practice.session.is_none() {
        let tasks = bundled_lessons::tasks();
        let drawn = practice.draw(&tasks, arguments.track, arguments.minutes, practice::dice(arguments.draw));
        practice.session = Some(Session {
            track: arguments.track,
            minutes: arguments.minutes,
            began: Timestamp::now(),
            tasks: drawn.into_iter().map(|task| lab_name(task).to_owned()).collect(),
            opened: None,
            submitted: 0,
        });
        practice.write(&context.home)?;
    } else if arguments.track.is_some() || arguments.draw.is_some() {
        context.ui.advise("`klab practice --end` ends the practice that is under way; then you can draw others");
    }
    open(context, practice, Vec::new())
}

/// Leaves the open task for later and opens the next.
///
/// # Errors
/// When no practice is under way, or the cluster of the next task cannot be made.
pub fn next(context: &Context) -> Result<()> {
    let mut practice = Practice::read(&context.home)?;
    let session = under_way(&mut practice)?;
    if session.tasks.len() > 1 {
        session.tasks.rotate_left(1);
        session.opened = None;
        practice.write(&context.home)?;
    } else {
        context.ui.advise("`klab submit` grades the open task, the last one that is left");
    }
    open(context, practice, Vec::new())
}

/// Grades the open task and opens the next.
///
/// # Errors
/// When no practice is under way, or the task's cluster does not answer.
pub fn submit(context: &Context) -> Result<()> {
    let mut practice = Practice::read(&context.home)?;
    let session = under_way(&mut practice)?;
    let name = session.tasks.first().cloned().unwrap_or_default();
    let (_, lab) = load(context, &name)?;
    let at = Timestamp::now();
    let again = || format!("`klab next` leaves it, `klab practice` makes the cluster of `{name}` again");
    let kubeconfig = context.kubeconfig(&name).map_err(|error| error.hint(again()))?;
    let progress = Progress::of(&context.home.lab(&name), lab.steps.len())?;
    let mut report = wait_for_each(context, &staged(&lab, &progress, Some(0)), &kubeconfig, SETTLES)?;
    hinted(&mut report, lab.steps.first().and_then(|step| step.hint.as_deref()));
    let is_late = session.left(at).is_zero();
    let attempt = Attempt {
        task: name,
        topics: lab.catalogue.topics.clone(),
        at,
        seconds: session.opened.map_or(0, |opened| at.duration_since(opened).as_secs().unsigned_abs()),
        held: report.held(),
        checks: report.checks.len(),
    };
    // A way that solves the task, in place of what would mend one check after the other.
    report.drop_suggestions();
    let events = graded(context, &report, &attempt, is_late)?;
    if !attempt.is_solved() && context.ui.format() != Format::Json {
        let lines = lesson::shown(&lesson::lines(&lab, 0, &lesson::tools(context, &lab)));
        context.ui.result(&format!("One way to solve it:\n\n{}\n", lines.join("\n")));
    }
    session.tasks.remove(0);
    session.opened = None;
    session.submitted = session.submitted.saturating_add(1);
    practice.history.push(attempt);
    practice.write(&context.home)?;
    open(context, practice, events)
}

/// Shows what came of a task.
fn graded(context: &Context, report: &Report, attempt: &Attempt, is_late: bool) -> Result<Vec<Value>> {
    if context.ui.format() == Format::Json {
        return Ok(vec![json!({ "task": attempt, "late": is_late, "report": klab_lab::report::json(report) })]);
    }
    write_report(context, report, &Grading { what: "the task", step: None, quietly: false, document: false })?;
    let mark = if attempt.is_solved() { "Solved" } else { "Not solved" };
    let late = if is_late { ", after the time was over" } else { "" };
    let took = duration(Duration::from_secs(attempt.seconds.max(1)));
    context.ui.result(&format!("\n{mark}: {} of {} in {took}{late}.\n", attempt.held, plural(attempt.checks, "check")));
    Ok(Vec::new())
}

fn under_way(practice: &mut Practice) -> Result<&mut Session> {
    practice.session.as_mut().ok_or_else(|| {
        Error::message(Code::NoPractice, "no practice is under way")
            .hint("`klab practice` draws tasks and opens the first")
    })
}

/// The file of a task, and its lab.
fn load(context: &Context, name: &str) -> Result<(PathBuf, Lab)> {
    let task = bundled_lessons::task(name).ok_or_else(|| {
        Error::message(Code::NoLabFile, format!("this klab has no task `{name}`"))
            .hint("`klab practice --end` ends the practice that another klab began")
    })?;
    let file = bundled_lessons::lab_file(&context.home, Path::new(task))?;
    let lab = context.load(&file, &LoadOptions::default())?;
    Ok((file, lab))
}

/// Opens the first task that is left, or ends the practice where there is none or no time; removes the clusters of the others.
fn open(context: &Context, mut practice: Practice, events: Vec<Value>) -> Result<()> {
    let Some(session) = practice.session.as_mut() else { return Ok(()) };
    let Some(name) = session.tasks.first().cloned().filter(|_| !session.left(Timestamp::now()).is_zero()) else {
        return finish(context, practice, events);
    };
    let (file, lab) = load(context, &name)?;
    let silent = context.talking_to(Arc::new(Nowhere));
    let is_up = context.record(&name)?.is_some_and(|record| record.applied.is_some());
    if session.opened.is_none() || !is_up {
        begin(&silent, &file, &lab)?;
        session.opened = session.opened.or(Some(Timestamp::now()));
    }
    let kubeconfig = Practice::write_kubeconfig(&context.home, &silent.kubeconfig(&name)?)?;
    practice.write(&context.home)?;
    show(context, &practice, &lab, &kubeconfig, events);
    close(&silent, &practice, Some(&name))
}

/// Makes the cluster of a task and opens its step.
fn begin(context: &Context, file: &Path, lab: &Lab) -> Result<()> {
    let arguments = one::Arguments::of(file, &[]);
    let manifests = render::render(lab).map_err(|diagnostics| invalid(file, &diagnostics))?;
    let name = &lab.name.value;
    let made = make(&mut LockedLab::new(context, name, "practice")?, &arguments, lab, &manifests)?;
    if !lab.checks.is_empty() {
        one::wait(context, &arguments, lab, &made, SETTLES)?;
    }
    let mut progress = Progress { opened: true, ..Progress::reached(0) };
    lesson::note_before(context, lab, &mut progress, &context.client(name, &made.kubeconfig)?)?;
    progress.write(&context.home.lab(name))
}

/// Removes the clusters of all tasks of the practice but one.
fn close(context: &Context, practice: &Practice, but: Option<&str>) -> Result<()> {
    let left = practice.session.iter().flat_map(|session| &session.tasks);
    let submitted = practice.submitted().iter().map(|attempt| &attempt.task);
    for name in left.chain(submitted).filter(|name| Some(name.as_str()) != but) {
        // A lab of the learner's own may have the name of a task.
        if context.record(name)?.is_some_and(|record| record.source.starts_with(context.home.lessons())) {
            remove(context, name)?;
        }
    }
    Ok(())
}

/// Shows the open task.
fn show(context: &Context, practice: &Practice, lab: &Lab, kubeconfig: &Path, mut events: Vec<Value>) {
    let Some(session) = &practice.session else { return };
    let left = session.left(Timestamp::now());
    let number = session.submitted.saturating_add(1);
    let step = lab.steps.first();
    let text = step.and_then(|step| step.text.as_deref()).unwrap_or_default();
    if context.ui.format() == Format::Json {
        events.push(json!({
            "schema": "klab.practice/1", "open": lab.name.value, "title": lab.title, "number": number, "of": session.drawn(),
            "seconds_left": left.as_secs(), "text": text, "kubeconfig": kubeconfig,
        }));
        print(context, &events);
        return;
    }
    let heading = anstyle::Style::new().bold();
    let minutes = lab.catalogue.minutes.map_or(String::new(), |minutes| format!(" · {minutes} min"));
    context.ui.result(&format!(
        "\n{heading}Task {number} of {}: {}{heading:#}{minutes}\n\n{}",
        session.drawn(),
        lab.shown_title(),
        markdown(text, context.ui.width(), context.ui.colours())
    ));
    if session.submitted == 0 {
        context.ui.say(&format!(
            "\n  export KUBECONFIG={}    # leads to the open task",
            quoted(&kubeconfig.display().to_string())
        ));
    }
    context
        .ui
        .say(&format!("\n  klab submit    klab next    # {} left", duration(Duration::from_secs(left.as_secs()))));
}

/// Ends the practice: what came of it, and nothing left behind.
fn finish(context: &Context, mut practice: Practice, mut events: Vec<Value>) -> Result<()> {
    let session = under_way(&mut practice)?.clone();
    close(&context.talking_to(Arc::new(Nowhere)), &practice, None)?;
    let submitted = practice.submitted().to_vec();
    practice.session = None;
    practice.write(&context.home)?;
    let kubeconfig = Practice::kubeconfig(&context.home);
    klab_server::files::gone(std::fs::remove_file(&kubeconfig))
        .map_err(|error| klab_operations::state::home::state_error(error, "remove", &kubeconfig))?;
    let sum = |of: fn(&Attempt) -> usize| submitted.iter().map(of).sum::<usize>();
    let (held, checks) = (sum(|attempt| attempt.held), sum(|attempt| attempt.checks));
    let solved = submitted.iter().filter(|attempt| attempt.is_solved()).count();
    if context.ui.format() == Format::Json {
        events.push(json!({
            "schema": "klab.practice/1", "ended": true, "drawn": session.drawn(), "solved": solved, "held": held,
            "checks": checks, "tasks": submitted,
        }));
        print(context, &events);
        return Ok(());
    }
    let mut rows = vec![["TASK", "CHECKS", "TIME", "TOPICS"].map(str::to_owned).to_vec()];
    for attempt in &submitted {
        let topics: Vec<String> = attempt.topics.iter().map(ToString::to_string).collect();
        rows.push(vec![
            attempt.task.clone(),
            format!("{} of {}", attempt.held, attempt.checks),
            duration(Duration::from_secs(attempt.seconds)),
            topics.join(", "),
        ]);
    }
    rows.extend(session.tasks.iter().map(|task| vec![task.clone(), "not submitted".to_owned()]));
    context.ui.result(&format!("\n{}\nSolved {solved} of {}.\n", table(&rows), plural(session.drawn(), "task")));
    context.ui.advise("`klab practice` draws others; topics that went wrong come back");
    Ok(())
}

/// Prints events for programs, a line each.
fn print(context: &Context, events: &[Value]) {
    for event in events {
        context.ui.result(&event.to_string());
    }
}

/// Shows how each topic went.
fn show_history(context: &Context, practice: &Practice) {
    let topics = practice.topics();
    if context.ui.format() == Format::Json {
        let of = |(topic, (solved, tried)): (&Topic, &(usize, usize))| json!({ "topic": topic, "solved": solved, "tried": tried });
        let topics: Vec<Value> = topics.iter().map(of).collect();
        context
            .ui
            .result(&json!({ "schema": "klab.practice/1", "topics": topics, "history": practice.history }).to_string());
        return;
    }
    let mut rows = vec![["TOPIC", "SOLVED", "OF THE LATEST"].map(str::to_owned).to_vec()];
    rows.extend(
        topics.iter().map(|(topic, (solved, tried))| vec![topic.to_string(), solved.to_string(), tried.to_string()]),
    );
    context.ui.result(&table(&rows));
    context.ui.advise(&format!("{} submitted so far", plural(practice.history.len(), "task")));
}
