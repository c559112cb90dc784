//! A lesson under way: its steps performed and undone, by the same rules at a terminal, on a host and in a trial.

use std::time::Duration;

use super::goal_arguments::GoalArguments;
use super::performer::Performer;
use super::words::{find, label, title};
use crate::error::{Code, Error, Kind, Result};
use crate::event::{About, Events, Verb};
use crate::provider::Work;
use crate::stage::{note_before, stage, staged};
use crate::state::{Progress, StepUnderWay};
use klab_lab::spec::{Lab, Step};
use klab_lab::verify::{Before, Snapshot};
use klab_lab::words::all;

/// Where a session performs steps, and who sees it. An error ends the session; the next one begins with the same step.
pub trait Engine {
    /// Whether a later session can repeat a step that failed.
    const REPEATS: bool = true;

    /// Where the session reports what it does.
    fn events(&self) -> Events;

    /// Shows the commands that do the same as an action (from 0) of a step (from 0), before it is performed.
    fn show(&mut self, _step: usize, _action: usize) {}

    /// Looks at nodes and pods.
    fn snapshot(&mut self, stage: &Lab) -> Result<Snapshot>;

    /// Refuses a step (from 0) that this engine does not perform, or undo, before anything of it is done.
    fn admit(&mut self, progress: &Progress, step: usize, back: bool) -> Result<()>;

    /// Performs actions, or undoes them.
    fn perform(&mut self, act: &mut Act<'_>) -> Result<()>;

    /// Forgets what a learner made of a pool by hand: a step has made it what the lab file says.
    fn forget_pool(&mut self, _pool: &str) -> Result<()> {
        Ok(())
    }

    /// Waits for the checks of a stage, and reports them.
    fn grade(&mut self, stage: &Lab, point: Point) -> Result<()>;

    /// Keeps how far the lesson has come.
    fn keep(&mut self, _progress: &Progress) -> Result<()> {
        Ok(())
    }

    /// The sentence after the last step.
    fn the_end(&self, lab: &Lab) -> String {
        all(lab.steps.len(), "step")
    }

    /// The end of the hint where checks do not hold after undoing, on to the last step that is done: what takes back what
    /// happened to pods.
    fn fresh_start(&self, _last: Option<&Step>) -> String {
        "`klab reset` does".to_owned()
    }
}

/// Performs an action, or undoes it.
pub type Act<'a> = dyn FnMut(&Performer<'_>, &mut Work<'_>) -> Result<()> + 'a;

/// When a session has checks graded. Steps count from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Point {
    /// Before the actions of a step.
    Before(usize),
    /// After them.
    After(usize),
    /// After later steps were undone: the last step that is done; none at the set-up.
    Back(Option<usize>),
}

impl Point {
    /// The step whose checks are graded.
    pub fn step(self) -> Option<usize> {
        match self {
            Self::Before(_) => None,
            Self::After(step) => Some(step),
            Self::Back(step) => step,
        }
    }

    /// The subject of the sentence that says whether the checks hold.
    pub fn subject(self, lab: &Lab) -> String {
        match self {
            Self::Before(step) => format!("what must hold before {}", label(lab, step)),
            _ => self.step().map_or_else(|| "the set-up".to_owned(), |step| label(lab, step)),
        }
    }

    /// How long the session waits for the checks by default.
    pub fn timeout(self) -> Duration {
        match self {
            Self::Before(_) | Self::After(_) => Duration::from_mins(2),
            Self::Back(_) => Duration::from_secs(15),
        }
    }
}

/// How far a session goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Goal {
    /// The next step.
    Next,
    /// All steps that are left.
    All,
    /// Back by one step.
    Back,
    /// On to where this step is done, or back to it.
    To(String),
    /// On to where this many steps are done, or back to it.
    Steps(usize),
}

impl From<GoalArguments> for Goal {
    fn from(going: GoalArguments) -> Self {
        match (going.to, going.all, going.back) {
            (Some(step), ..) => Self::To(step),
            (None, true, _) => Self::All,
            (None, false, true) => Self::Back,
            (None, false, false) => Self::Next,
        }
    }
}

/// A lesson, how far it has come, and where its steps are performed.
pub struct Session<'l, E> {
    /// The lab.
    pub lab: &'l Lab,
    /// How far the lesson has come.
    pub progress: Progress,
    /// Where steps are performed.
    pub engine: E,
}

impl<E: Engine> Session<'_, E> {
    /// Performs or undoes steps until the goal is reached.
    ///
    /// # Errors
    /// When an action fails, or checks do not hold; the next session then begins with the same step.
    pub fn go(&mut self, goal: &Goal) -> Result<()> {
        let (done, total) = (self.progress.done, self.lab.steps.len());
        let wanted = match goal {
            Goal::Back => return self.undo().and_then(|()| self.grade_back()),
            Goal::Next => done.saturating_add(1).min(total),
            Goal::All => total,
            Goal::To(step) => find(self.lab, step)?.saturating_add(1),
            Goal::Steps(wanted) => (*wanted).min(total),
        };
        if done == wanted && self.progress.doing.is_none() {
            let words = match goal {
                Goal::To(_) => format!("{} is the last one done already", label(self.lab, wanted.saturating_sub(1))),
                _ => self.engine.the_end(self.lab),
            };
            self.engine.events().note(Verb::FinishSteps, words);
            return Ok(());
        }
        if done > wanted {
            while self.progress.done > wanted {
                self.undo()?;
            }
            return self.grade_back();
        }
        while self.progress.done < wanted {
            self.forward()?;
        }
        Ok(())
    }

    fn forward(&mut self) -> Result<()> {
        let (lab, number) = (self.lab, self.progress.done);
        let Some(step) = lab.steps.get(number) else { return Ok(()) };
        self.announce(Verb::BeginStep, number, step);
        // What was before a step that was interrupted is known already.
        if self.progress.doing.is_none() {
            let before = Lab { checks: step.before.clone(), ..stage(lab, number) };
            if !before.checks.is_empty() {
                self.engine.grade(&before, Point::Before(number))?;
            }
            self.note_before()?;
        }
        self.engine.admit(&self.progress, number, false)?;
        self.begin(step, false)?;
        for action in 0..step.actions.len() {
            self.engine.show(number, action);
            self.act(step, action, false, &mut |performer, work| performer.perform_action(lab, number, action, work))?;
        }
        let after = staged(lab, &self.progress, Some(number));
        self.engine.grade(&after, Point::After(number))?;
        self.progress.reach(number.saturating_add(1));
        self.note_before()?;
        self.engine.keep(&self.progress)?;
        let label = label(lab, number);
        let next = lab.steps.get(number.saturating_add(1));
        let words = match next {
            Some(next) => format!("{label}; next is `{}`", next.name),
            None => format!("{label}, the last one"),
        };
        let events = self.engine.events();
        events.about(About::Step, &step.name.value).note(Verb::FinishStep, words);
        if next.is_none() {
            events.note(Verb::FinishSteps, self.engine.the_end(self.lab));
        }
        Ok(())
    }

    fn undo(&mut self) -> Result<()> {
        let (lab, done) = (self.lab, self.progress.done);
        let is_begun = self.progress.doing.as_ref().is_some_and(|doing| !doing.back);
        let undone = if is_begun { Some(done) } else { done.checked_sub(1) };
        let Some((number, step)) = undone.and_then(|number| Some((number, lab.steps.get(number)?))) else {
            return Err(Error::message(Code::NoStepDone, "no step is done: the lab is at its set-up"));
        };
        self.engine.admit(&self.progress, number, true)?;
        self.announce(Verb::UndoStep, number, step);
        self.begin(step, true)?;
        let mut kept = Vec::new();
        for action in (0..step.actions.len()).rev() {
            self.act(step, action, true, &mut |performer, work| {
                kept.extend(performer.undo_action(lab, number, action, work)?);
                Ok(())
            })?;
        }
        for words in &kept {
            self.engine.events().warn(Code::NotUndone, format!("not undone: {words}"));
        }
        self.progress.reach(number);
        self.engine.keep(&self.progress)
    }

    /// Grades whether undoing has brought back what held before: what happened to pods leaves traces that no step undoes.
    fn grade_back(&mut self) -> Result<()> {
        let last = self.progress.done.checked_sub(1);
        let stage = staged(self.lab, &self.progress, last);
        self.engine.grade(&stage, Point::Back(last)).map_err(|error| {
            let way = self.engine.fresh_start(last.and_then(|last| self.lab.steps.get(last)));
            Error { hints: Vec::new(), ..error }
                .hint(format!("undoing does not take back what happened to pods meanwhile; {way}"))
        })
    }

    fn announce(&self, verb: Verb, number: usize, step: &Step) {
        let label = label(self.lab, number);
        let label = label.strip_prefix("step ").unwrap_or(&label);
        self.engine.events().about(About::Step, &step.name.value).note(verb, format!("{label}: {}", title(step)));
    }

    /// Keeps which step is under way, before anything of it is done.
    fn begin(&mut self, step: &Step, back: bool) -> Result<()> {
        self.progress.doing = Some(StepUnderWay { step: step.name.value.clone(), back });
        self.engine.keep(&self.progress)
    }

    fn act(&mut self, step: &Step, action: usize, back: bool, act: &mut Act<'_>) -> Result<()> {
        let acted = self.engine.perform(act).and_then(|()| {
            let pool = step.actions.get(action).and_then(|action| action.value.pool());
            pool.map_or(Ok(()), |pool| self.engine.forget_pool(pool))
        });
        acted.map_err(|error| match (error.kind(), back) {
            (Kind::Failed | Kind::Deadline, false) if E::REPEATS => {
                error.hint("`klab step` does the step again, `klab step --back` undoes it")
            }
            (Kind::Failed | Kind::Deadline, true) if E::REPEATS => {
                error.hint("`klab step --back` tries again, `klab step` does the step again")
            }
            _ => error,
        })
    }

    /// Notes the pods as they are now, where checks of the next step compare with them.
    fn note_before(&mut self) -> Result<()> {
        let (lab, next) = (self.lab, self.progress.done);
        if lab.steps.get(next).is_some_and(|step| Before::is_asked_for(&step.checks)) {
            let snapshot = self.engine.snapshot(&stage(lab, next))?;
            note_before(lab, &mut self.progress, &snapshot);
        }
        Ok(())
    }
}
