//! The pods that checks of a step compare with: noted when the step begins, and handed to its checks later.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::context::Context;
use super::name;
use super::rollout::Group;
use super::snapshot::Snapshot;
use super::view::{PodView, View};
use crate::spec::{Check, Condition, PodBefore};

/// Pods as they were before a step, by the subjects of its checks that compare with them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Before(BTreeMap<String, Vec<PodBefore>>);

impl Before {
    /// What these checks will compare with.
    pub fn of(checks: &[Check], snapshot: &Snapshot, context: &Context<'_>) -> Self {
        let view = View::new(snapshot, context);
        let subjects = checks.iter().filter(|check| compares(check)).map(|check| &check.subject);
        let pods = subjects.filter_map(|subject| {
            let group = Group::of(&view, subject)?;
            let pods = group.counted.iter().chain(&group.old).map(|pod| seen(pod)).collect();
            Some((name::subject(subject), pods))
        });
        Self(pods.collect())
    }

    /// Whether any of these checks compares with what was before.
    pub fn is_asked_for(checks: &[Check]) -> bool {
        checks.iter().any(compares)
    }

    /// Tells checks what there was before.
    pub fn tell(&self, checks: &mut [Check]) {
        for check in checks {
            let known = self.0.get(&name::subject(&check.subject));
            for condition in &mut check.conditions {
                if let Condition::SamePods { before, .. } = &mut condition.value {
                    *before = known.cloned();
                }
            }
        }
    }
}

fn compares(check: &Check) -> bool {
    check.conditions.iter().any(|condition| matches!(condition.value, Condition::SamePods { .. }))
}

fn seen(pod: &PodView<'_>) -> PodBefore {
    let uid = pod.pod.metadata.uid.clone().unwrap_or_default();
    PodBefore { pod: pod.id(), uid, node: pod.node.map(str::to_owned) }
}
