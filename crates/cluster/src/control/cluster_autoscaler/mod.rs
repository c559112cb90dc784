//! The cluster autoscaler: looks at the cluster every ten seconds, lets pools grow and takes nodes away that no pod needs.
//!
//! What it decides is the pure core's (`klab_scheduler::autoscaler`); here it is carried out, with events. Without a pool that
//! is autoscaled it does nothing and is woken by nothing. It looks when something has changed, at the next of its ticks, or
//! when a time is over; at all other ticks there would be nothing new to see.

// upstream: cluster-autoscaler/core/static_autoscaler.go RunOnce (v1.36)

mod component;
mod configuration;
mod growth;
mod machines;
mod removal;
mod shrinking;
mod status;

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use klab_api_machinery::resource::CONFIG_MAPS;
use klab_scheduler::autoscaler::{Backoffs, NodeGroup, Profile, TO_BE_DELETED};

use self::component::{set_taint, tell};
use self::removal::Removals;
use self::shrinking::{Member, Shrinking};
use self::status::{Facts, Status};
use super::controller::Controller;
use super::plane::Plane;
use super::queue::Key;
use super::reconcile::{Change, Reconciler};
use crate::clock::later;
use klab_api_machinery::node_pools::{NAMESPACE, NODE_POOLS, NodePool};

/// Lets pools grow and shrink.
#[derive(Debug, Default)]
pub(super) struct ClusterAutoscaler {
    /// Whether any pool is autoscaled.
    is_active: bool,
    /// When it looked first: its ticks are counted from then on.
    began: Option<Timestamp>,
    /// When it looked last.
    looked: Option<Timestamp>,
    /// When a change or a time calls for the next look.
    look_at: Option<Timestamp>,
    interval: SignedDuration,
    /// What is wrong with the settings, as the last event said.
    problems: Vec<String>,
    last_growth: Option<Timestamp>,
    last_removal: Option<Timestamp>,
    last_failure: Option<Timestamp>,
    backoffs: Backoffs,
    removals: Removals,
    shrinking: Shrinking,
    status: Status,
}

fn key() -> Key {
    // Behind all others: what they are about to do is not to be decided about.
    Key::at_large(Controller::ClusterAutoscaler).late()
}

impl Reconciler for ClusterAutoscaler {
    fn changed(&mut self, plane: &mut Plane, change: &Change<'_>) {
        if change.resource() == CONFIG_MAPS {
            let object = change.object;
            if &*object.namespace != NAMESPACE || !configuration::READ.contains(&&*object.name) {
                return;
            }
            if &*object.name == NODE_POOLS {
                self.is_active = !change.gone && !NodePool::read(&object.value()).is_empty();
            }
            plane.queue.add(key());
        }
        if self.is_active {
            self.look_by(plane, plane.now());
            if self.removals.in_progress().drained > 0 {
                plane.queue.add(key());
            }
        }
    }

    fn sync(&mut self, plane: &mut Plane, _: &Key) {
        if !self.is_active {
            if self.began.is_some() {
                shrinking::unmark_others(plane, &BTreeMap::new());
                self.forget();
            }
            return;
        }
        let now = plane.now();
        let (profile, problems) = configuration::profile(&plane.cluster);
        self.interval = profile.scan_interval;
        if self.began.is_none() {
            self.begin(plane);
        }
        self.tell_problems(plane, problems);
        let (has_registered, next_machine) = machines::register(plane);
        let groups: BTreeSet<String> =
            configuration::pools(&plane.cluster).into_values().map(|pool| pool.group).collect();
        let outcome = self.removals.proceed(plane, &profile, &groups);
        if outcome.has_failed {
            self.last_failure = Some(now);
        }
        for due in [next_machine, outcome.again].into_iter().flatten() {
            plane.queue.add_at(key(), due);
        }
        // What has just been done is to be seen first.
        if has_registered || outcome.has_removed || outcome.has_failed {
            plane.queue.add(key());
        } else if self.look_at.is_some_and(|at| at <= now) {
            self.look(plane, &profile);
        }
        // A key has one timer, the earliest: those behind it are asked for again.
        if let Some(at) = self.look_at {
            plane.queue.add_at(key(), at.max(now));
        }
    }

    fn forget(&mut self) {
        *self = Self::default();
    }
}

impl ClusterAutoscaler {
    /// Asks for a look at the first tick from `instant` on.
    fn look_by(&mut self, plane: &mut Plane, instant: Timestamp) {
        let at = match (self.began, self.looked) {
            (Some(began), Some(looked)) => tick(began, self.interval, looked, instant),
            _ => plane.now(),
        };
        if self.look_at.is_none_or(|known| at < known) {
            self.look_at = Some(at);
        }
        plane.queue.add_at(key(), at);
    }

    /// What is left of an autoscaler that was stopped is put right.
    fn begin(&mut self, plane: &mut Plane) {
        self.began = Some(plane.now());
        let tainted: Vec<String> = plane
            .view
            .nodes()
            .filter(|node| node.taints().any(|taint| taint.key() == TO_BE_DELETED))
            .map(|node| node.object.name.to_string())
            .collect();
        for node in tainted {
            set_taint(plane, &node, TO_BE_DELETED, None);
        }
    }

    /// Tells what of the settings is wrong, when that is new.
    fn tell_problems(&mut self, plane: &mut Plane, problems: Vec<String>) {
        for problem in problems.iter().filter(|problem| !self.problems.contains(problem)) {
            tell(plane, true, "InvalidProfile", problem);
        }
        self.problems = problems;
    }

    fn look(&mut self, plane: &mut Plane, profile: &Profile) {
        let now = plane.now();
        self.looked = Some(now);
        self.look_at = None;
        let mut pools = configuration::pools(&plane.cluster);
        growth::give_up_late(plane, profile, &mut pools, &mut self.backoffs);
        let groups = growth::groups(plane, &pools, &machines::counts(plane), &self.backoffs);
        let nodes = plane.view.nodes().count();
        let unready = plane.view.nodes().filter(|node| &*node.ready != "True").count();
        let is_healthy = profile.is_healthy(unready, nodes);
        let members = shrinking::members(plane, &pools);
        if is_healthy {
            self.decide(plane, profile, &groups, &members, &mut pools);
        } else {
            self.shrinking.clear();
            tell(plane, true, "ClusterUnhealthy", "Cluster is unhealthy");
        }
        let candidates = self.shrinking.candidates(&members);
        let backoffs = &self.backoffs;
        self.status
            .write(plane, &Facts { groups: &groups, pools: &pools, candidates: &candidates, backoffs, is_healthy });
    }

    fn decide(
        &mut self,
        plane: &mut Plane,
        profile: &Profile,
        groups: &[NodeGroup],
        members: &[Member],
        pools: &mut BTreeMap<String, NodePool>,
    ) {
        let now = plane.now();
        let growth = growth::grow(plane, profile, groups, pools, &mut self.backoffs);
        if growth.has_grown {
            self.last_growth = Some(now);
        }
        self.shrinking.find(plane, profile, groups, members, &self.removals);
        let rests = [
            (self.last_growth, profile.delay_after_add),
            (self.last_failure, profile.delay_after_failure),
            (self.last_removal, profile.after_delete()),
        ];
        let rest = rests.into_iter().filter_map(|(since, time)| Some(later(since?, time))).max();
        let mut again: Vec<Timestamp> = growth.again.into_iter().collect();
        if growth.keeps_nodes || growth.has_grown {
            again.extend(self.shrinking.again(plane, profile).map(|due| due.max(rest.unwrap_or(now))));
        } else if let Some(rest) = rest.filter(|rest| *rest > now) {
            again.extend(self.shrinking.again(plane, profile).map(|due| due.max(rest)));
        } else {
            if self.shrinking.remove(plane, profile, groups, members, &mut self.removals) {
                self.last_removal = Some(now);
            }
            again.extend(self.shrinking.again(plane, profile));
        }
        self.shrinking.mark(plane, members, &self.removals);
        shrinking::unmark_others(plane, pools);
        if !growth.has_grown && growth::grow_to_least(plane, groups, pools, &mut self.backoffs) {
            self.last_growth = Some(now);
        }
        // A time must be over before it counts.
        let over = |until: Timestamp| later(until, SignedDuration::from_millis(1));
        for pool in pools.values() {
            again.extend(pool.starting.iter().copied().filter(|due| *due > now));
            again.extend(machines::asked(pool).map(|asked| over(later(asked, profile.provision_time))));
        }
        again.extend(self.backoffs.ends(now).map(over));
        for due in again {
            self.look_by(plane, due);
        }
        plane.queue.add(key());
    }
}

/// The first tick from `instant` on, and not the one at which it looked last, which may have come a moment late.
fn tick(began: Timestamp, interval: SignedDuration, looked: Timestamp, instant: Timestamp) -> Timestamp {
    let interval = interval.as_millis().max(1);
    let passed = |until: Timestamp| until.duration_since(began).as_millis().max(0);
    let due = passed(instant).div_euclid(interval) + i128::from(passed(instant).rem_euclid(interval) > 0);
    let ticks = due.max(passed(looked).div_euclid(interval) + 1);
    let since = i64::try_from(ticks.saturating_mul(interval)).unwrap_or(i64::MAX);
    later(began, SignedDuration::from_millis(since))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_look_that_came_late_does_not_cost_the_next_tick() {
        let at = |millis: i64| Timestamp::from_millisecond(millis).unwrap();
        for (looked, instant, expected) in [
            (0, 0, 10_000),
            (7, 100, 10_000),
            (7, 10_000, 10_000),
            (10_030, 10_030, 20_000),
            (10_030, 20_001, 30_000),
            (10_000, 60_000, 60_000),
            (9_999, 9_999, 10_000),
        ] {
            let tick = tick(at(0), SignedDuration::from_secs(10), at(looked), at(instant));
            assert_eq!(tick, at(expected), "looked at {looked}, asked at {instant}");
        }
    }
}
