//! Moving pods from old ReplicaSets to the new one: rolling, or all at once; and scaling in between.

// upstream: pkg/controller/deployment/rolling.go rolloutRolling (v1.36)
// upstream: pkg/controller/deployment/recreate.go rolloutRecreate (v1.36)
// upstream: pkg/controller/deployment/sync.go scale (v1.36)

use klab_api_machinery::views::ReplicaSetStatus;

use super::super::plane::Plane;
use super::progress::is_complete;
use super::sets::{ReplicaSetView, Sets};
use super::spec::{DESIRED_REPLICAS, Deployment, MAX_REPLICAS};

impl Plane {
    /// RollingUpdate: up by what surge allows, down by what availability allows.
    pub(super) fn roll(&mut self, deployment: &mut Deployment, sets: &mut Sets) {
        self.find_new_set(deployment, sets, true);
        if !self.size_new_set(deployment, sets)
            && !self.size_old_sets(deployment, sets)
            && is_complete(deployment, sets)
        {
            self.clean_up(deployment, sets);
        }
        self.write_rollout_status(deployment, sets);
    }

    /// Recreate: all old pods gone first.
    pub(super) fn recreate(&mut self, deployment: &mut Deployment, sets: &mut Sets) {
        self.find_new_set(deployment, sets, false);
        let mut scaled_down = false;
        for at in sets.old_places() {
            if sets.all[at].replicas() > 0 {
                scaled_down |= self.scale_set(deployment, &mut sets.all[at], 0);
            }
        }
        let old_pods_left = sets.old().any(|set| self.view.pods_of(&set.object.uid).iter().any(|pod| !pod.finished()));
        if !scaled_down && !old_pods_left {
            if sets.new_set().is_none() {
                self.find_new_set(deployment, sets, true);
            }
            self.size_new_set(deployment, sets);
            if is_complete(deployment, sets) {
                self.clean_up(deployment, sets);
            }
        }
        self.write_rollout_status(deployment, sets);
    }

    fn size_new_set(&mut self, deployment: &Deployment, sets: &mut Sets) -> bool {
        let Some(present) = sets.new_set().map(ReplicaSetView::replicas) else { return false };
        let wanted = deployment.replicas();
        if present == wanted {
            return false;
        }
        let next = if present > wanted { wanted } else { sets.new_replicas(deployment, present) };
        sets.new_set_mut().is_some_and(|set| self.scale_set(deployment, set, next))
    }

    fn size_old_sets(&mut self, deployment: &Deployment, sets: &mut Sets) -> bool {
        if sets.old().map(ReplicaSetView::replicas).sum::<i64>() == 0 {
            return false;
        }
        let least_available = deployment.replicas() - deployment.max_unavailable();
        let new_unavailable = sets.new_set().map_or(0, |set| set.replicas() - set.available());
        let room = sets.total() - least_available - new_unavailable;
        if room <= 0 {
            return false;
        }
        let unhealthy = self.scale_down_unhealthy(deployment, sets, room);
        let healthy = self.scale_down_healthy(deployment, sets, least_available);
        unhealthy || healthy
    }

    /// Old pods that are not available hold nothing up: they go first.
    fn scale_down_unhealthy(&mut self, deployment: &Deployment, sets: &mut Sets, room: i64) -> bool {
        let mut gone = 0;
        for at in sets.old_places() {
            let set = &mut sets.all[at];
            let unhealthy = set.replicas() - set.available();
            if gone >= room || set.replicas() == 0 || unhealthy <= 0 {
                continue;
            }
            let down = unhealthy.min(room - gone);
            let replicas = set.replicas() - down;
            self.scale_set(deployment, set, replicas);
            gone += down;
        }
        gone > 0
    }

    fn scale_down_healthy(&mut self, deployment: &Deployment, sets: &mut Sets, least_available: i64) -> bool {
        let mut room = sets.sum(ReplicaSetStatus::available_replicas) - least_available;
        let mut scaled = false;
        for at in sets.old_places() {
            let set = &mut sets.all[at];
            if room <= 0 {
                break;
            }
            if set.replicas() == 0 {
                continue;
            }
            let down = set.replicas().min(room);
            let replicas = set.replicas() - down;
            scaled |= self.scale_set(deployment, set, replicas);
            room -= down;
        }
        scaled
    }

    /// Brings the sets to the Deployment's size without moving pods between them.
    pub(super) fn scale_sets(&mut self, deployment: &Deployment, sets: &mut Sets) {
        let active: Vec<usize> = (0..sets.all.len()).filter(|at| sets.all[*at].replicas() > 0).collect();
        if active.len() <= 1 {
            let only = active
                .first()
                .copied()
                .or_else(|| (0..sets.all.len()).find(|at| sets.is_new(*at)).or_else(|| sets.all.len().checked_sub(1)));
            if let Some(at) = only {
                self.scale_set(deployment, &mut sets.all[at], deployment.replicas());
            }
            return;
        }
        if sets.new_set().is_some_and(|set| is_saturated(deployment, set)) {
            for at in sets.old_places() {
                if sets.all[at].replicas() > 0 {
                    self.scale_set(deployment, &mut sets.all[at], 0);
                }
            }
            return;
        }
        if deployment.rolling() {
            self.scale_in_proportion(deployment, sets, active);
        }
    }

    fn scale_in_proportion(&mut self, deployment: &Deployment, sets: &mut Sets, mut active: Vec<usize>) {
        let allowed = if deployment.replicas() > 0 { deployment.replicas() + deployment.max_surge() } else { 0 };
        let total = active.iter().map(|at| sets.all[*at].replicas()).sum::<i64>();
        let change = allowed - total;
        // Largest first; among equals the newest gains first and the oldest loses first.
        active.sort_by(|left, right| {
            let by_size = sets.all[*right].replicas().cmp(&sets.all[*left].replicas());
            by_size.then_with(|| if change > 0 { right.cmp(left) } else { left.cmp(right) })
        });
        let mut changed = 0;
        let mut sizes: Vec<i64> = Vec::new();
        for at in &active {
            let set = &sets.all[*at];
            let share = if change == 0 { 0 } else { proportion(deployment, set, change, changed) };
            sizes.push(set.replicas() + share);
            changed += share;
        }
        if let Some(first) = sizes.first_mut() {
            *first = (*first + change - changed).max(0);
        }
        for (at, size) in active.into_iter().zip(sizes) {
            self.scale_set(deployment, &mut sets.all[at], size);
        }
    }
}

/// Whether the set alone makes up the Deployment.
fn is_saturated(deployment: &Deployment, set: &ReplicaSetView) -> bool {
    let wanted = deployment.replicas();
    set.annotated(DESIRED_REPLICAS) == Some(wanted) && set.replicas() == wanted && set.available() == wanted
}

/// A set's share of a change in size, no more than what is left of the change.
fn proportion(deployment: &Deployment, set: &ReplicaSetView, change: i64, changed: i64) -> i64 {
    if set.replicas() == 0 || change == changed {
        return 0;
    }
    let left = change - changed;
    let share = if deployment.replicas() == 0 {
        -set.replicas()
    } else {
        let size = deployment.replicas() + deployment.max_surge();
        let annotated = set.annotated(MAX_REPLICAS).filter(|max| *max > 0).unwrap_or(size);
        (set.replicas() as f64 * size as f64 / annotated as f64).round() as i64 - set.replicas()
    };
    if change > 0 { share.min(left) } else { share.max(left) }
}
