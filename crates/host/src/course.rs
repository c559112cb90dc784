//! A lab of a class, and what its learners are shown of it.

use std::sync::Arc;

use klab_lab::spec::Lab;
use klab_operations::board::Written;
use klab_operations::board::page::Form;
use klab_operations::changes::Twin;
use klab_operations::lesson::Tools;
use klab_operations::state::Progress;

/// A lab of the class.
pub struct Course {
    /// The lab, and what its learners type with.
    pub written: Written,
    /// How far its lesson has come when a seat begins.
    pub begins: Progress,
    /// The same without the ways of its steps, where it is a task of a practice.
    task: Option<Written>,
    /// What its seats should be, step by step.
    pub(super) twin: Arc<Twin>,
}

impl Course {
    /// A lab of the class.
    pub fn new(lab: Lab, begins: Progress) -> Self {
        let twin = Arc::new(Twin::of(&lab));
        Self { written: Written { lab, tools: Tools::Seat }, begins, task: None, twin }
    }

    /// A lab that is a task of a practice: each learner has it open from the beginning, and finds the way alone.
    pub fn of_practice(lab: Lab, begins: Progress) -> Self {
        let mut task = lab.clone();
        task.steps.iter_mut().for_each(|step| step.actions.clear());
        if let [step] = task.steps.as_mut_slice() {
            step.title.get_or_insert_with(|| "Task".to_owned());
        }
        let begins = Progress { opened: true, started: true, ..begins };
        Self { task: Some(Written { lab: task, tools: Tools::Seat }), ..Self::new(lab, begins) }
    }

    /// Whether learners find the way alone.
    pub(super) fn is_task(&self) -> bool {
        self.task.is_some()
    }

    /// What a viewer is shown: who can still solve a task does not see its way.
    pub(super) fn shown(&self, progress: &Progress, form: Form) -> &Written {
        let is_unsolved = progress.next(self.written.lab.steps.len()).is_some();
        self.task.as_ref().filter(|_| form == Form::Live && is_unsolved).unwrap_or(&self.written)
    }

    /// The lab.
    pub fn lab(&self) -> &Lab {
        &self.written.lab
    }
}
