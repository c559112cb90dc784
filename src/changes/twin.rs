//! The twin: the lab at a stage, on a cluster inside this process.

use std::time::Duration;

use super::change::{Named, Objects};
use crate::error::{Context, Kind, Result};
use crate::trial::{EmbeddedWorld, World};
use klab_cluster::resource::{RESOURCES, ResourceId};
use klab_lab::spec::{Action, Lab};

/// How long the twin's checks are waited for, in its own time.
const PATIENCE: Duration = Duration::from_mins(10);
/// Kinds that nobody makes by hand, or that follow from others.
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

/// A lab on a cluster inside this process, as it should be step by step. Programs that steps run do not reach it, and are left
/// out.
pub struct Twin {
    lab: Lab,
    world: EmbeddedWorld,
    done: usize,
}

impl Twin {
    /// The twin of a lab, at its set-up.
    ///
    /// # Errors
    /// When the lab cannot be made.
    pub fn of(lab: &Lab) -> Result<Self> {
        let mut lab = lab.clone().embedded();
        for step in &mut lab.steps {
            step.actions.retain(|action| !matches!(action.value, Action::Run { .. }));
        }
        let world = EmbeddedWorld::new(lab.sim.seed.unwrap_or_default())?;
        world.up(&lab).kind(Kind::Failed, || "could not make the lab in this process, to compare with".to_owned())?;
        world.wait(&lab, PATIENCE)?;
        Ok(Self { lab, world, done: 0 })
    }

    /// The objects of the lab after its first `steps` steps, of which none was asked for before.
    ///
    /// # Errors
    /// When a step cannot be performed.
    pub fn after(&mut self, steps: usize) -> Result<Objects> {
        for step in self.done..steps.min(self.lab.steps.len()) {
            self.world
                .perform(&self.lab, step)
                .kind(Kind::Failed, || "could not perform the steps in this process, to compare with".to_owned())?;
            self.world.wait(&crate::lesson::stage(&self.lab, step + 1), PATIENCE)?;
            self.done = step + 1;
        }
        let objects = self.world.objects(kinds())?;
        Ok(objects.into_iter().map(|object| (Named::of(&object), object)).collect())
    }
}
