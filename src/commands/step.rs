//! `klab step`: performs the next step of the lesson and waits for its checks; or undoes the last one.

use std::cell::RefCell;
use std::path::PathBuf;
use std::time::Duration;

use anstyle::{AnsiColor, Style};

use super::lesson::{Lesson, WhichLesson, find, label, lines, note_before, only_typed, shown, the_end, title, tools};
use super::{Context, board, joined};
use crate::at_work::LabAtWork;
use crate::error::{Error, Kind, Result};
use crate::event::{About, Verb, Warning};
use crate::grade::{Grading, grade};
use crate::lesson::command::{self, Line};
use crate::lesson::{Going, Performer, Run, Tools, WallClock, stage, staged, step_kinds};
use crate::pool::Kept;
use crate::provider::{self, Work};
use crate::state::{Doing, Record};
use klab_lab::spec::Step;

/// What can be typed after `klab step`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    which: WhichLesson,
    #[command(flatten)]
    going: Going,
    /// Allow steps to run programs on this machine, as the lab file says.
    #[arg(long)]
    allow_run: bool,
    /// Write the lab as it is in the end, with its checks, as a page into this file.
    #[arg(long, value_name = "FILE.html")]
    report: Option<PathBuf>,
    /// How long to wait, after each step, until its checks hold.
    ///
    /// Default: 2m, and 15s after a step was undone.
    #[arg(long, value_name = "DURATION", value_parser = super::duration)]
    timeout: Option<Duration>,
}

impl Arguments {
    /// As `klab step LAB --to STEP`.
    pub(super) fn to(lab: &str, step: &str) -> Self {
        Self {
            which: WhichLesson::of(lab),
            going: Going { to: Some(step.to_owned()), ..Going::default() },
            allow_run: false,
            report: None,
            timeout: None,
        }
    }
}

/// How long checks are waited for by default, after a step that was done and after one that was undone.
const TIMEOUTS: (Duration, Duration) = (Duration::from_mins(2), Duration::from_secs(15));

/// Performs or undoes steps.
///
/// # Errors
/// When an action could not be done, or a check does not hold; the step is then done again by the next `klab step`.
pub fn run(context: &Context, arguments: &Arguments) -> Result<()> {
    context.ui.stream_events();
    if let Some(joined) = joined::meant(context, arguments.which.lab.as_deref())? {
        return joined::step(context, &joined, &arguments.going);
    }
    let lesson = Lesson::open_with_steps(context, &arguments.which)?;
    let name = lesson.lab.name.value.clone();
    let lab = LabAtWork::existing(context, &name, "step")?.ok_or_else(|| context.not_up(&name))?;
    // Another klab may have gone on while this one waited for the lock.
    let mut lesson = Lesson::open_with_steps(context, &arguments.which)?;
    let provider = context.provider(lesson.lab.provider)?;
    let kubeconfig = provider.kubeconfig(&name)?;
    let folder = folder_of(lab.record.as_ref());
    let mut at_work =
        AtWork { context, arguments, provider: provider.as_ref(), kubeconfig, folder, lab: RefCell::new(lab) };
    let gone = go(&mut at_work, &mut lesson);
    if let Some(file) = &arguments.report {
        let written = board::write_as_it_is(context, file, &arguments.which);
        // Why a step did not hold says more than why nothing could be written of it.
        return gone.and(written);
    }
    gone
}

fn go(at_work: &mut AtWork<'_>, lesson: &mut Lesson) -> Result<()> {
    let arguments = at_work.arguments;
    let total = lesson.lab.steps.len();
    if arguments.going.back {
        at_work.undo(lesson)?;
        return at_work.grade_back(lesson);
    }
    let wanted = match &arguments.going.to {
        Some(name) => find(&lesson.lab, name)? + 1,
        None if arguments.going.all => total,
        None => (lesson.progress.done + 1).min(total),
    };
    if lesson.progress.done == wanted && lesson.progress.doing.is_none() {
        let words = match &arguments.going.to {
            Some(_) => format!("{} is the last one done already", label(&lesson.lab, wanted - 1)),
            None => the_end(&lesson.lab),
        };
        at_work.context.ui.events().note(Verb::FinishSteps, words);
        return Ok(());
    }
    if lesson.progress.done > wanted {
        while lesson.progress.done > wanted {
            at_work.undo(lesson)?;
        }
        return at_work.grade_back(lesson);
    }
    while lesson.progress.done < wanted {
        at_work.forward(lesson)?;
    }
    Ok(())
}

/// The folder of the lab file, where programs of `run` start.
fn folder_of(record: Option<&Record>) -> PathBuf {
    let folder = record.and_then(|record| record.source.parent()).filter(|folder| folder.is_dir()).map(PathBuf::from);
    folder.or_else(|| std::env::current_dir().ok()).unwrap_or_default()
}

/// What all steps of one command need.
struct AtWork<'a> {
    context: &'a Context,
    arguments: &'a Arguments,
    provider: &'a dyn provider::Provider,
    kubeconfig: PathBuf,
    folder: PathBuf,
    /// Held for the whole command.
    lab: RefCell<LabAtWork<'a>>,
}

impl AtWork<'_> {
    fn forward(&mut self, lesson: &mut Lesson) -> Result<()> {
        let number = lesson.progress.done;
        let lab = lesson.lab.clone();
        let Some(step) = lab.steps.get(number) else { return Ok(()) };
        let label = label(&lab, number);
        self.announce(Verb::BeginStep, &label, step);
        let again = lesson.progress.doing.is_some();
        if !step.before.is_empty() && !again {
            let mut before = stage(&lab, number);
            before.checks.clone_from(&step.before);
            let what = format!("what must hold before {label}");
            self.grade(&before, Grading { what: &what, step: None, quietly: true, document: false })?;
        }
        self.refuse_runs(step)?;
        let typed = |tools: &Tools| lines(&lab, number, tools);
        self.refuse_nodes(&lab, number, "type it yourself, then `klab verify`", typed)?;
        self.keep_kinds(&lab, number)?;
        // Of a step that was interrupted, what was before it is known already.
        if !again {
            self.note_before(lesson)?;
        }
        lesson.progress.doing = Some(Doing { step: step.name.value.clone(), back: false });
        lesson.keep()?;
        self.context.interruption_leaves(Some(format!("{label} is partly done; `klab step` does it again")));
        self.with_performer(&lab.name.value, |performer, work| {
            let tools = tools(self.context, &lab);
            for action in 0..step.actions.len() {
                let lines = command::lines(&lab, number, action, &tools);
                lines.iter().flat_map(Line::commands).for_each(|command| self.show(command));
                performer.perform_action(&lab, number, action, work)?;
                self.forget_pool(&lab, step, action)?;
            }
            Ok(())
        })
        .map_err(|error| again_hint(error, "`klab step` does the step again, `klab step --back` undoes it"))?;
        let after = staged(&lab, &lesson.progress, Some(number));
        self.grade(&after, Grading { what: &label, step: Some((&lab, number)), quietly: false, document: true })?;
        lesson.progress.reach(number + 1);
        self.note_before(lesson)?;
        lesson.keep()?;
        let next = match lab.steps.get(number + 1) {
            Some(next) => format!("{label}; next is `{}`", next.name),
            None => format!("{label}, the last one"),
        };
        let events = self.context.ui.events();
        events.about(About::Step, &step.name.value).note(Verb::FinishStep, next);
        if lab.steps.len() == number + 1 {
            events.note(Verb::FinishSteps, the_end(&lab));
        }
        Ok(())
    }

    fn undo(&mut self, lesson: &mut Lesson) -> Result<()> {
        let begun = lesson.progress.doing.as_ref().is_some_and(|doing| !doing.back);
        let undone = if begun { Some(lesson.progress.done) } else { lesson.progress.done.checked_sub(1) };
        let lab = lesson.lab.clone();
        let Some((number, step)) = undone.and_then(|number| Some((number, lab.steps.get(number)?))) else {
            return Err(Error::message(Kind::Usage, "no step is done: the lab is at its set-up"));
        };
        let typed = |tools: &Tools| command::of_undoing(&lab, number, tools);
        self.refuse_nodes(&lab, number, "take back yourself what you typed for it", typed)?;
        let label = label(&lab, number);
        self.announce(Verb::UndoStep, &label, step);
        self.keep_kinds(&lab, number)?;
        lesson.progress.doing = Some(Doing { step: step.name.value.clone(), back: true });
        lesson.keep()?;
        self.context.interruption_leaves(Some(format!("{label} is partly undone; `klab step --back` continues")));
        let mut kept = Vec::new();
        self.with_performer(&lab.name.value, |performer, work| {
            for action in (0..step.actions.len()).rev() {
                kept.extend(performer.undo_action(&lab, number, action, work)?);
                self.forget_pool(&lab, step, action)?;
            }
            Ok(())
        })
        .map_err(|error| again_hint(error, "`klab step --back` tries again, `klab step` does the step again"))?;
        for words in &kept {
            self.context.ui.events().warn(Warning::NotUndone, format!("not undone: {words}"));
        }
        lesson.progress.reach(number);
        lesson.keep()
    }

    fn note_before(&self, lesson: &mut Lesson) -> Result<()> {
        let client = self.context.client(&lesson.lab.name.value, &self.kubeconfig)?;
        note_before(self.context, &lesson.lab, &mut lesson.progress, &client).map(drop)
    }

    /// Whether undoing has brought back what held before: what pods went through leaves traces that nothing undoes.
    fn grade_back(&mut self, lesson: &Lesson) -> Result<()> {
        let (lab, number) = (&lesson.lab, lesson.progress.done);
        let before = staged(lab, &lesson.progress, number.checked_sub(1));
        let what = match number.checked_sub(1) {
            Some(last) => label(lab, last),
            None => "the set-up".to_owned(),
        };
        let step = number.checked_sub(1).map(|last| (lab, last));
        let timeout = self.arguments.timeout.unwrap_or(TIMEOUTS.1);
        let grading = Grading { what: &what, step, quietly: false, document: true };
        grade(self.context, &before, &self.kubeconfig, timeout, &grading).map_err(|error| {
            let name = number.checked_sub(1).and_then(|last| lab.steps.get(last)).map(|step| &step.name.value);
            let there = name.map_or(String::new(), |name| format!(", then `klab step --to {name}`"));
            let error = Error { hints: Vec::new(), ..error };
            error.hint(format!(
                "undoing does not take back what happened to pods meanwhile; `klab up {}`{there} comes to the same \
                 point from the beginning",
                lab.source.name()
            ))
        })
    }

    fn announce(&self, verb: Verb, label: &str, step: &Step) {
        let label = label.strip_prefix("step ").unwrap_or(label);
        self.context.ui.events().about(About::Step, &step.name.value).note(verb, format!("{label}: {}", title(step)));
    }

    /// Shows a command that does the same.
    fn show(&self, line: &str) {
        let dim = Style::new().fg_color(Some(AnsiColor::Cyan.into()));
        self.context.ui.say(&format!("{:>12} {dim}{line}{dim:#}", "$"));
    }

    /// What was typed of a pool is over where a step has made of it what the lab file says.
    fn forget_pool(&self, lab: &klab_lab::spec::Lab, step: &klab_lab::spec::Step, action: usize) -> Result<()> {
        let pool = step.actions.get(action).and_then(|action| action.value.pool());
        pool.map_or(Ok(()), |pool| Kept::forget(&self.context.home.lab(&lab.name.value), pool))
    }

    /// Nothing is done of a step that would be refused in the middle.
    fn refuse_runs(&self, step: &klab_lab::spec::Step) -> Result<()> {
        let run = step.actions.iter().find_map(|action| match &action.value {
            klab_lab::spec::Action::Run { argv } => Some((argv, &action.at)),
            _ => None,
        });
        match run {
            Some((argv, at)) if !self.arguments.allow_run => {
                let message =
                    format!("step `{}` runs `{}` on this machine ({at}); nothing was done", step.name, argv.join(" "));
                Err(Error::message(Kind::Usage, message)
                    .hint("read what it does, then `klab step --allow-run`; or type the step yourself (`klab guide`)"))
            }
            _ => Ok(()),
        }
    }

    /// Nodes of somebody else's cluster are the learner's to change, or nobody's.
    fn refuse_nodes(
        &self,
        lab: &klab_lab::spec::Lab,
        number: usize,
        instead: &str,
        typed: impl Fn(&Tools) -> Vec<Line>,
    ) -> Result<()> {
        let (Some(step), Some(action)) = (lab.steps.get(number), only_typed(lab, number)) else { return Ok(()) };
        let typed = shown(&typed(&tools(self.context, lab)));
        let message = format!(
            "step `{}` changes nodes ({}), and klab changes none on {}; nothing was done",
            step.name,
            action.at,
            lab.provider.profile().title
        );
        Err(Error::message(Kind::Usage, message).hint(format!("{instead}:\n{}", typed.join("\n"))))
    }

    /// Notes the kinds that a step may make before it does, so that `up` and `down` know where to look.
    fn keep_kinds(&self, lab: &klab_lab::spec::Lab, number: usize) -> Result<()> {
        let kinds = step_kinds(lab, number);
        let mut at_work = self.lab.borrow_mut();
        match at_work.record.clone() {
            Some(mut record) if !kinds.is_subset(&record.kinds) => {
                record.kinds.extend(kinds);
                at_work.write_record(&record)
            }
            _ => Ok(()),
        }
    }

    fn with_performer(&self, lab: &str, act: impl FnOnce(&Performer<'_>, &mut Work<'_>) -> Result<()>) -> Result<()> {
        let mut at_work = self.lab.borrow_mut();
        let mut work = at_work.work()?;
        let client = self.context.client(lab, &self.kubeconfig)?;
        let run = Run { kubeconfig: &self.kubeconfig, folder: &self.folder };
        let performer = Performer {
            runtime: self.context.runtime()?,
            client: &client,
            provider: self.provider,
            time: &WallClock::default(),
            run: self.arguments.allow_run.then_some(run),
        };
        act(&performer, &mut work)
    }

    fn grade(&self, stage: &klab_lab::spec::Lab, grading: Grading<'_>) -> Result<()> {
        let timeout = self.arguments.timeout.unwrap_or(TIMEOUTS.0);
        grade(self.context, stage, &self.kubeconfig, timeout, &grading)
    }
}

fn again_hint(error: Error, words: &str) -> Error {
    if matches!(error.kind, Kind::Failed | Kind::Deadline) { error.hint(words) } else { error }
}
