//! `klab step`: performs the next step of the lesson and waits for its checks; or undoes the last one.

use std::path::PathBuf;
use std::time::Duration;

use anstyle::{AnsiColor, Style};
use kube::Client;

use super::lesson::{Lesson, WhichLesson, label, lines, only_typed, shown, the_end, tools_of};
use super::{Context, board, joined};
use klab_lab::spec::{Action, Lab, Step};
use klab_lab::verify::Snapshot;
use klab_operations::error::{Code, Error, Result};
use klab_operations::event::Events;
use klab_operations::grade::{Grading, grade};
use klab_operations::lesson::command::{self, Line};
use klab_operations::lesson::session::{Act, Engine, Point, Session};
use klab_operations::lesson::{GoalArguments, Performer, Run, Tools, WallClock, step_kinds};
use klab_operations::locked_lab::LockedLab;
use klab_operations::observe;
use klab_operations::pool::ChangedPools;
use klab_operations::provider::Provider;
use klab_operations::state::{Progress, Record};

/// What can be typed after `klab step`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    which: WhichLesson,
    #[command(flatten)]
    going: GoalArguments,
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
            going: GoalArguments { to: Some(step.to_owned()), ..GoalArguments::default() },
            allow_run: false,
            report: None,
            timeout: None,
        }
    }
}

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
    let name = lesson.lab.name.value;
    let locked = LockedLab::existing(context, &name, "step")?.ok_or_else(|| context.not_up(&name))?;
    // Another klab may have gone on while this one waited for the lock.
    let Lesson { lab, progress, folder } = Lesson::open_with_steps(context, &arguments.which)?;
    let provider = context.provider(lab.provider)?;
    let kubeconfig = provider.kubeconfig(&name)?;
    let engine = Terminal {
        context,
        arguments,
        lab: &lab,
        provider: provider.as_ref(),
        client: context.client(&name, &kubeconfig)?,
        kubeconfig,
        folder,
        programs: folder_of(locked.record.as_ref()),
        locked,
    };
    let gone = Session { lab: &lab, progress, engine }.go(&arguments.going.clone().into());
    if let Some(file) = &arguments.report {
        let written = board::write_as_it_is(context, file, &arguments.which);
        // Why a step did not hold says more than why nothing could be written of it.
        return gone.and(written);
    }
    gone
}

/// The folder of the lab file, where programs of `run` start.
fn folder_of(record: Option<&Record>) -> PathBuf {
    let folder = record.and_then(|record| record.source.parent()).filter(|folder| folder.is_dir()).map(PathBuf::from);
    folder.or_else(|| std::env::current_dir().ok()).unwrap_or_default()
}

/// The lab of this machine, whose steps are shown at the terminal.
struct Terminal<'a> {
    context: &'a Context,
    arguments: &'a Arguments,
    lab: &'a Lab,
    provider: &'a dyn Provider,
    client: Client,
    kubeconfig: PathBuf,
    /// The lab's folder in klab's state.
    folder: PathBuf,
    /// Where programs of `run` start.
    programs: PathBuf,
    /// Held for the whole command.
    locked: LockedLab<'a>,
}

impl Engine for Terminal<'_> {
    fn events(&self) -> Events {
        self.context.ui.events()
    }

    fn show(&mut self, step: usize, action: usize) {
        let dim = Style::new().fg_color(Some(AnsiColor::Cyan.into()));
        let lines = command::lines(self.lab, step, action, &self.tools());
        let show = |command| self.context.ui.say(&format!("{:>12} {dim}{command}{dim:#}", "$"));
        lines.iter().flat_map(Line::commands).for_each(show);
    }

    fn snapshot(&mut self, _: &Lab) -> Result<Snapshot> {
        self.context.block_on(observe::look(&self.client))
    }

    fn admit(&mut self, _: &Progress, step: usize, back: bool) -> Result<()> {
        if !back {
            self.refuse_runs(step)?;
        }
        self.refuse_nodes(step, back)?;
        self.keep_kinds(step)
    }

    fn perform(&mut self, act: &mut Act<'_>) -> Result<()> {
        let run = Run { kubeconfig: &self.kubeconfig, folder: &self.programs };
        let performer = Performer {
            runtime: self.context.runtime()?,
            client: &self.client,
            provider: self.provider,
            time: &WallClock::default(),
            run: self.arguments.allow_run.then_some(run),
        };
        act(&performer, &mut self.locked.work()?)
    }

    fn forget_pool(&mut self, pool: &str) -> Result<()> {
        ChangedPools::forget(&self.folder, pool)
    }

    fn grade(&mut self, stage: &Lab, point: Point) -> Result<()> {
        let is_first = matches!(point, Point::Before(_));
        let what = point.subject(self.lab);
        let step = point.step().map(|step| (self.lab, step));
        let grading = Grading { what: &what, step, quietly: is_first, document: !is_first };
        let timeout = self.arguments.timeout.unwrap_or(point.timeout());
        grade(self.context, stage, &self.kubeconfig, timeout, &grading)
    }

    fn keep(&mut self, progress: &Progress) -> Result<()> {
        progress.write(&self.folder)?;
        self.context.interruption_leaves(progress.doing.as_ref().map(|doing| {
            let number = self.lab.steps.iter().position(|step| step.name.value == doing.step).unwrap_or_default();
            let label = label(self.lab, number);
            if doing.back {
                format!("{label} is partly undone; `klab step --back` continues")
            } else {
                format!("{label} is partly done; `klab step` does it again")
            }
        }));
        Ok(())
    }

    fn the_end(&self, lab: &Lab) -> String {
        the_end(lab)
    }

    fn fresh_start(&self, last: Option<&Step>) -> String {
        let there = last.map_or(String::new(), |last| format!(", then `klab step --to {}`", last.name));
        format!("`klab up {}`{there} comes to the same point from the beginning", self.lab.source.name())
    }
}

impl Terminal<'_> {
    fn tools(&self) -> Tools {
        tools_of(Some(self.provider), self.lab)
    }

    /// Refuses a step that runs programs, before anything of it is done.
    fn refuse_runs(&self, number: usize) -> Result<()> {
        let Some(step) = self.lab.steps.get(number).filter(|_| !self.arguments.allow_run) else { return Ok(()) };
        let run = step.actions.iter().find_map(|action| match &action.value {
            Action::Run { argv } => Some((argv, &action.at)),
            _ => None,
        });
        let Some((argv, at)) = run else { return Ok(()) };
        let message =
            format!("step `{}` runs `{}` on this machine ({at}); nothing was done", step.name, argv.join(" "));
        Err(Error::message(Code::StepRunsProgram, message)
            .hint("read what it does, then `klab step --allow-run`; or type the step yourself (`klab guide`)"))
    }

    /// Refuses a step that changes nodes of a cluster that klab did not make: the learner types it.
    fn refuse_nodes(&self, number: usize, back: bool) -> Result<()> {
        let (Some(step), Some(action)) = (self.lab.steps.get(number), only_typed(self.lab, number)) else {
            return Ok(());
        };
        let tools = self.tools();
        let (instead, typed) = if back {
            ("take back yourself what you typed for it", command::of_undoing(self.lab, number, &tools))
        } else {
            ("type it yourself, then `klab verify`", lines(self.lab, number, &tools))
        };
        let message = format!(
            "step `{}` changes nodes ({}), and klab changes none on {}; nothing was done",
            step.name,
            action.at,
            self.lab.provider.profile().title
        );
        Err(Error::message(Code::StepChangesNodes, message).hint(format!("{instead}:\n{}", shown(&typed).join("\n"))))
    }

    /// Notes the kinds that a step may make before it does, so that `up` and `down` know where to look.
    fn keep_kinds(&mut self, number: usize) -> Result<()> {
        let kinds = step_kinds(self.lab, number);
        match self.locked.record.clone() {
            Some(mut record) if !kinds.is_subset(&record.kinds) => {
                record.kinds.extend(kinds);
                self.locked.write_record(&record)
            }
            _ => Ok(()),
        }
    }
}
