//! The twin: the lab at a stage, on a cluster inside this process.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::change::{Named, Objects};
use crate::error::{Code, Context, Result};
use crate::lesson_test::{EmbeddedTestCluster, TestCluster, shows};
use klab_api_machinery::resource::{RESOURCES, ResourceId};
use klab_lab::spec::{Action, Lab};

/// How long the twin's checks are waited for, in its own time.
const PATIENCE: Duration = Duration::from_mins(10);
/// Kinds that people do not make by hand, or that follow from others.
const FOLLOWING: [&str; 13] = [
    "APIService",
    "FlowSchema",
    "PriorityLevelConfiguration",
    "Event",
    "Lease",
    "Endpoints",
    "EndpointSlice",
    "ControllerRevision",
    "IPAddress",
    "ServiceCIDR",
    "CSINode",
    "ResourceSlice",
    "VolumeAttachment",
];

/// Kinds that are compared: rows of the embedded cluster's table.
pub(super) fn kinds() -> impl Iterator<Item = ResourceId> {
    let rows = (0u32..).zip(RESOURCES);
    let compared = rows
        .filter(|(_, row)| row.stored_as.is_none() && row.verbs.contains(&"watch") && !FOLLOWING.contains(&row.kind));
    compared.map(|(number, _)| ResourceId(number))
}

/// What a lab should be step by step, as a cluster inside this process makes it. Programs that steps run do not reach it, and are
/// left out. What was found is kept: all learners of a class are compared with one twin.
#[derive(Debug)]
pub struct Twin {
    lab: Lab,
    /// The lab after each number of steps, up to the highest that was asked for.
    stages: Mutex<Vec<Stage>>,
}

/// The twin after a number of steps.
#[derive(Debug, Clone)]
struct Stage {
    objects: Arc<Objects>,
    /// Whether the checks of the last of those steps show that it was done.
    shows: bool,
}

impl Twin {
    /// The twin of a lab.
    pub fn of(lab: &Lab) -> Self {
        let mut lab = lab.clone().embedded();
        for step in &mut lab.steps {
            step.actions.retain(|action| !matches!(action.value, Action::Run { .. }));
        }
        Self { lab, stages: Mutex::default() }
    }

    /// The objects of the lab after its first `steps` steps. Not to be called from within a runtime.
    ///
    /// # Errors
    /// When the lab cannot be made, or a step not be performed.
    pub fn after(&self, steps: usize) -> Result<Arc<Objects>> {
        Ok(self.stage(steps)?.objects)
    }

    /// Whether the lab was made that far already: comparing with it takes no time then.
    pub fn is_made(&self, steps: usize) -> bool {
        self.stages.try_lock().is_ok_and(|stages| stages.len() > steps.min(self.lab.steps.len()))
    }

    /// Whether the checks of a step (from 0) show that it was done: not all of them hold before its actions. Not to be called from
    /// within a runtime.
    ///
    /// # Errors
    /// As [`Twin::after`].
    pub fn shows(&self, step: usize) -> Result<bool> {
        Ok(self.stage(step.saturating_add(1))?.shows)
    }

    fn stage(&self, steps: usize) -> Result<Stage> {
        let steps = steps.min(self.lab.steps.len());
        // Others who compare with the same stage wait here, and find it.
        let mut stages = self.stages.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(stage) = stages.get(steps) {
            return Ok(stage.clone());
        }
        // The world is not kept, so each time goes twice as far as the last: a class that goes on is not compared from the beginning
        // at each of its steps.
        let far = steps.max(stages.len().saturating_mul(2)).min(self.lab.steps.len());
        let world = EmbeddedTestCluster::new(self.lab.sim.seed.unwrap_or_default())?;
        let made = "could not make the lab in this process, to compare with";
        world.up(&self.lab).code(Code::KlabFault, || made.to_owned())?;
        world.wait(&self.lab, PATIENCE)?;
        *stages = vec![Stage { objects: Arc::new(objects(&world)?), shows: false }];
        for step in 0..far {
            match self.step(&world, step) {
                Ok(stage) => stages.push(stage),
                Err(error) if step < steps => return Err(error),
                Err(_) => break,
            }
        }
        Ok(stages[steps].clone())
    }

    fn step(&self, world: &EmbeddedTestCluster, step: usize) -> Result<Stage> {
        let shows = shows(world, &self.lab, step)?;
        let performed = "could not perform the steps in this process, to compare with";
        world.perform(&self.lab, step).code(Code::KlabFault, || performed.to_owned())?;
        world.wait(&crate::lesson::stage(&self.lab, step + 1), PATIENCE)?;
        Ok(Stage { objects: Arc::new(objects(world)?), shows })
    }
}

fn objects(world: &EmbeddedTestCluster) -> Result<Objects> {
    let objects = world.objects(kinds())?;
    Ok(objects.into_iter().map(|object| (Named::of(&object), object)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use klab_lab::spec::{LoadOptions, parse};

    #[test]
    fn checks_that_hold_before_a_step_do_not_show_that_it_was_done() {
        let text = "lab = \"l\"\n[pool.main]\nnodes = 1\n[workload.web]\nreplicas = 1\n\
                    [[step]]\nname = \"more\"\ndo = [{ scale = \"web\", replicas = 2 }]\n\
                    [[step.check]]\nworkload = \"web\"\nrunning = 2\n\
                    [[step]]\nname = \"label\"\ndo = [{ label = \"disk=ssd\", nodes = \"pool:main\" }]\n\
                    [[step.check]]\nworkload = \"web\"\nrunning = 2\n";
        let lab =
            parse("lab.toml", text, &LoadOptions::default()).unwrap_or_else(|all| panic!("{}", all.render(false)));
        let twin = Twin::of(&lab);
        assert!(!twin.is_made(0));
        assert_eq!([0, 1].map(|step| twin.shows(step).unwrap()), [true, false]);
        assert!(twin.is_made(2));
    }
}
