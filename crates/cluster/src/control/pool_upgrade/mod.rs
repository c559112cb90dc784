//! Upgrades of node pools as AKS does them: surge nodes come, old nodes are drained and reimaged in sets, surge nodes go.
//!
//! Kubernetes has no such controller; it stands for AKS's upgrader. The order is that of AKS's documentation: a set is as
//! large as there are buffer nodes, and the reimaged nodes of a set are the buffer of the next one.

// See https://learn.microsoft.com/azure/aks/upgrade-aks-node-pools-rolling (the order, the settings, `Drain`, `Surge`, `Upgrade`)
// See https://learn.microsoft.com/azure/aks/upgrade-conceptual (the surge node is cordoned, drained and deleted at the end)
// See https://learn.microsoft.com/azure/aks/upgrade-options (nodes that cannot be drained)
// See https://learn.microsoft.com/azure/aks/blue-green-node-pool-upgrade (old nodes are cordoned, new ones come, batches are drained)

mod drain;
mod nodes;

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use klab_api_machinery::protobuf::go_duration;
use klab_api_machinery::resource::CONFIG_MAPS;
use klab_api_machinery::views::ConfigMap;
use serde_json::json;

use self::drain::{Drained, drain};
use self::nodes::{COMPONENT, cordon, exists, quarantine, register, register_surge, tell, uncordon, withdraw};
use super::controller::Controller;
use super::plane::Plane;
use super::queue::{Key, ObjectName};
use super::reconcile::{Change, Reconciler};
use crate::clock::later;
use crate::cluster::{Part, WriteOptions};
use klab_api_machinery::node_pools::NAMESPACE;
use klab_api_machinery::pool_upgrades::{End, Member, POOL_UPGRADES, Phase, PoolUpgrade};

/// How long after an upgrade a pool can be rolled back.
// See https://learn.microsoft.com/azure/aks/roll-back-node-pool-version (seven days after upgrade completion)
const ROLLBACK: SignedDuration = SignedDuration::from_hours(7 * 24);

/// Carries upgrades out.
#[derive(Debug, Default)]
pub(super) struct PoolUpgrades {
    /// The pool of each node that is being drained.
    draining: BTreeMap<Box<str>, Box<str>>,
}

fn key(pool: &str) -> Key {
    // Behind all others: what they make of a pod that has gone is to be seen first.
    Key::new(Controller::PoolUpgrade, CONFIG_MAPS, ObjectName::new(NAMESPACE, pool)).late()
}

impl Reconciler for PoolUpgrades {
    fn changed(&mut self, plane: &mut Plane, change: &Change<'_>) {
        if change.resource() == CONFIG_MAPS {
            let object = change.object;
            if &*object.name != POOL_UPGRADES || &*object.namespace != NAMESPACE {
                return;
            }
            self.draining.clear();
            let upgrades = if change.gone { BTreeMap::new() } else { PoolUpgrade::read(&object.value()) };
            for (pool, upgrade) in upgrades.into_iter().filter(|(_, upgrade)| is_open(upgrade)) {
                self.draining.extend(upgrade.drained_nodes().map(|node| (node.into(), pool.as_str().into())));
                plane.queue.add(key(&pool));
            }
        } else if let Some(before) = &change.pod.before
            && let Some(pool) = self.draining.get(&before.node)
        {
            plane.queue.add(key(pool));
        }
    }

    fn sync(&mut self, plane: &mut Plane, key: &Key) {
        let pool = &*key.name.name;
        let Some(map) = plane.cluster.get(CONFIG_MAPS, NAMESPACE, POOL_UPGRADES) else { return };
        let Some(before) = PoolUpgrade::read(&map.value()).remove(pool).filter(is_open) else { return };
        let mut upgrade = before.clone();
        let again = match upgrade.end {
            None => Turn { plane: &mut *plane, pool, again: None }.proceed(&mut upgrade),
            Some(_) => forget_used(&mut upgrade, plane.now()),
        };
        if upgrade != before {
            let text = serde_json::to_string(&upgrade).unwrap_or_default();
            let options = WriteOptions::by(COMPONENT);
            let _noted = plane.cluster.modify(CONFIG_MAPS, Part::Main, NAMESPACE, POOL_UPGRADES, &options, |map| {
                // An upgrade that was given up meanwhile does not come back.
                if ConfigMap(map).data().get(pool).is_some() {
                    map["data"][pool] = json!(text);
                }
            });
        }
        if let Some(again) = again {
            plane.queue.add_at(key.clone(), again);
        }
    }

    fn forget(&mut self) {
        *self = Self::default();
    }
}

/// Whether there is still something to do for an upgrade.
fn is_open(upgrade: &PoolUpgrade) -> bool {
    upgrade.end.is_none() || upgrade.rollback.is_some()
}

/// Forgets in time what a pool can be rolled back to; gives when to look again.
fn forget_used(upgrade: &mut PoolUpgrade, now: Timestamp) -> Option<Timestamp> {
    let until = upgrade.rollback.as_ref().and_then(|rollback| rollback.used).map(|used| later(used, ROLLBACK));
    let again = until.filter(|until| *until > now);
    if again.is_none() {
        upgrade.rollback = None;
    }
    again
}

/// One look at one upgrade.
struct Turn<'a> {
    plane: &'a mut Plane,
    pool: &'a str,
    again: Option<Timestamp>,
}

impl Turn<'_> {
    fn look_again(&mut self, at: Timestamp) {
        self.again = Some(self.again.map_or(at, |known| known.min(at)));
    }

    /// Goes as far as it can now; gives when time alone takes it further.
    fn proceed(mut self, upgrade: &mut PoolUpgrade) -> Option<Timestamp> {
        if upgrade.is_undone() {
            self.undo(upgrade);
            return self.again;
        }
        loop {
            for at in 0..upgrade.nodes.len() {
                self.advance(upgrade, at);
            }
            let is_active = |node: &Member| {
                !matches!(
                    node.phase,
                    Phase::Waiting | Phase::Upgraded | Phase::Blocked(_) | Phase::Drained | Phase::Removed
                )
            };
            if upgrade.nodes.iter().any(is_active) {
                return self.again;
            }
            let set = next_set(upgrade);
            if set.is_empty() {
                if self.is_soaked(upgrade) {
                    self.finish(upgrade);
                }
                return self.again;
            }
            if !self.has_surge(upgrade) {
                return self.again;
            }
            for at in set {
                self.begin_drain(&mut upgrade.nodes[at]);
            }
        }
    }

    /// Has the surge nodes made; says whether all are there.
    fn has_surge(&mut self, upgrade: &mut PoolUpgrade) -> bool {
        let now = self.plane.now();
        let started = later(now, start_time(upgrade));
        let wanted = wanted_surge(upgrade).saturating_sub(upgrade.surge_nodes.len());
        if wanted > 0 {
            if upgrade.blue_green.is_some() {
                upgrade.nodes.iter().for_each(|node| cordon(self.plane, &node.name));
            }
            let members = nodes::surge_members(self.plane, self.pool, upgrade, wanted, started);
            upgrade.surge_nodes.extend(members);
        }
        for at in 0..upgrade.surge_nodes.len() {
            match upgrade.surge_nodes[at].phase {
                Phase::Starting(until) if until > now => self.look_again(until),
                Phase::Starting(_) => {
                    register_surge(self.plane, self.pool, &upgrade.pool, &upgrade.surge_nodes[at]);
                    upgrade.surge_nodes[at].phase = Phase::Upgraded;
                }
                _ => {}
            }
        }
        !upgrade.surge_nodes.iter().any(|node| matches!(node.phase, Phase::Starting(_)))
    }

    /// Whether old nodes that stayed may go, and have gone. Where one could not be drained, they stay.
    fn is_soaked(&mut self, upgrade: &mut PoolUpgrade) -> bool {
        let now = self.plane.now();
        let Some(blue_green) = &mut upgrade.blue_green else { return true };
        if upgrade.nodes.iter().any(|node| matches!(node.phase, Phase::Blocked(_))) {
            return true;
        }
        let soak = SignedDuration::from_secs(i64::from(blue_green.final_soak));
        let until = *blue_green.until.get_or_insert_with(|| later(now, soak));
        if until > now {
            self.look_again(until);
            return false;
        }
        for node in upgrade.nodes.iter_mut().filter(|node| node.phase == Phase::Drained) {
            self.remove(node);
        }
        true
    }

    /// Has old nodes that stayed take pods again, and the new ones go.
    fn undo(&mut self, upgrade: &mut PoolUpgrade) {
        for node in upgrade.nodes.iter_mut().filter(|node| node.phase == Phase::Drained) {
            uncordon(self.plane, &node.name);
            node.phase = Phase::Upgraded;
        }
        self.finish(upgrade);
    }

    /// Deletes a node for good.
    fn remove(&mut self, node: &mut Member) {
        tell(self.plane, &node.name, false, "Upgrade", &format!("Deleting node {} from API server", node.name));
        withdraw(self.plane, &node.name);
        node.phase = Phase::Removed;
    }

    fn begin_drain(&mut self, node: &mut Member) {
        let now = self.plane.now();
        tell(self.plane, &node.name, false, "Drain", &format!("Draining node: {}", node.name));
        cordon(self.plane, &node.name);
        // So long ago that the first evictions are tried at once.
        node.phase = Phase::Draining { since: now, tried: Timestamp::UNIX_EPOCH };
    }

    /// Takes one existing node through as many phases as it can now.
    fn advance(&mut self, upgrade: &mut PoolUpgrade, at: usize) {
        let now = self.plane.now();
        let (soak, start) = (SignedDuration::from_secs(i64::from(upgrade.soak)), start_time(upgrade));
        let is_blue_green = upgrade.blue_green.is_some();
        // There is a pause between batches, and none behind the last one.
        let has_pause = !is_blue_green || upgrade.nodes.iter().any(|node| node.phase == Phase::Waiting);
        let node = &mut upgrade.nodes[at];
        if matches!(node.phase, Phase::Draining { .. }) {
            if self.is_drained(node, upgrade.drain_timeout) {
                if soak.is_positive() && has_pause {
                    let words = format!("Soak duration {} after draining node: {}", minutes(upgrade.soak), node.name);
                    tell(self.plane, &node.name, false, "Upgrade", &words);
                }
                node.phase = if has_pause { Phase::Soaking(later(now, soak)) } else { Phase::Drained };
            } else if matches!(node.phase, Phase::Blocked(_)) && !is_blue_green {
                let set_aside = if upgrade.quarantines { quarantine } else { uncordon };
                set_aside(self.plane, &node.name);
            }
        }
        if let Phase::Soaking(until) = node.phase {
            if until > now {
                self.look_again(until);
            } else if is_blue_green {
                node.phase = Phase::Drained;
            } else {
                self.remove(node);
                if !upgrade.replaces {
                    node.phase = Phase::Starting(later(now, start));
                }
            }
        }
        if let Phase::Starting(until) = node.phase {
            if until > now {
                self.look_again(until);
                return;
            }
            register(self.plane, &upgrade.pool, node);
            for what in ["reimaged", "upgraded"] {
                tell(self.plane, &node.name, false, "Upgrade", &format!("Successfully {what} node: {}", node.name));
            }
            node.phase = Phase::Upgraded;
        }
    }

    /// Whether a node that is being drained is empty. One whose time is over is blocked.
    fn is_drained(&mut self, node: &mut Member, timeout: u32) -> bool {
        let Phase::Draining { since, tried } = node.phase else { return false };
        let until = later(since, SignedDuration::from_secs(i64::from(timeout)));
        match drain(self.plane, &node.name, tried, until) {
            Drained::Empty => return true,
            Drained::Goes { tried, next } => {
                node.phase = Phase::Draining { since, tried };
                self.look_again(next);
            }
            Drained::Blocked(why) => node.phase = Phase::Blocked(why),
        }
        false
    }

    /// Removes the surge nodes, but for one for each node that has gone or is quarantined; then says what came of the upgrade.
    fn finish(&mut self, upgrade: &mut PoolUpgrade) {
        let blocked = upgrade.nodes.iter().filter(|node| matches!(node.phase, Phase::Blocked(_))).count();
        let kept = match upgrade.blue_green {
            Some(_) if upgrade.is_undone() => 0,
            Some(_) => upgrade.surge_nodes.len(),
            None => gone(upgrade).saturating_add(if upgrade.quarantines { blocked } else { 0 }),
        };
        for node in upgrade.surge_nodes.iter_mut().skip(kept) {
            if node.phase == Phase::Upgraded {
                if !exists(self.plane, &node.name) {
                    node.phase = Phase::Removed;
                    continue;
                }
                tell(self.plane, &node.name, false, "Surge", &format!("Removing surge node: {}", node.name));
                self.begin_drain(node);
            }
            if self.is_drained(node, upgrade.drain_timeout) {
                withdraw(self.plane, &node.name);
                node.phase = Phase::Removed;
            }
            if let Phase::Blocked(_) = node.phase {
                uncordon(self.plane, &node.name);
            }
        }
        if upgrade.surge_nodes.iter().any(|node| matches!(node.phase, Phase::Draining { .. })) {
            return;
        }
        let (end, is_undone) = (end(upgrade, blocked), upgrade.is_undone());
        match &mut upgrade.rollback {
            Some(before) if !is_undone && end == End::Succeeded => before.used = before.used.or(Some(self.plane.now())),
            // What is blocked on its way back can be asked to go on.
            Some(_) if is_undone && end != End::Succeeded => {}
            rollback => *rollback = None,
        }
        upgrade.end = Some(end);
    }
}

/// How long a machine takes to start.
fn start_time(upgrade: &PoolUpgrade) -> SignedDuration {
    SignedDuration::from_secs(i64::from(upgrade.pool.start_seconds))
}

/// How many nodes have gone for good.
fn gone(upgrade: &PoolUpgrade) -> usize {
    upgrade.nodes.iter().filter(|node| node.phase == Phase::Removed).count()
}

/// How many surge nodes there are to be by now. Where they stay, each set of nodes has its own.
fn wanted_surge(upgrade: &PoolUpgrade) -> usize {
    let all = gone(upgrade).saturating_add(upgrade.surge as usize);
    if upgrade.replaces { all.min(upgrade.nodes.len()) } else { all }
}

/// The nodes to drain next, by their places: none where all are done, or the upgrade ends early.
fn next_set(upgrade: &PoolUpgrade) -> Vec<usize> {
    let blocked = upgrade.nodes.iter().filter(|node| matches!(node.phase, Phase::Blocked(_))).count();
    let mut room = upgrade.at_once as usize;
    if blocked > 0 {
        // Each blocked node keeps a surge node.
        room = if upgrade.quarantines { (upgrade.surge as usize).saturating_sub(blocked).min(room) } else { 0 };
    }
    let waiting = upgrade.nodes.iter().enumerate().filter(|(_, node)| node.phase == Phase::Waiting);
    waiting.map(|(at, _)| at).take(room).collect()
}

fn end(upgrade: &PoolUpgrade, blocked: usize) -> End {
    let all = upgrade.nodes.iter().chain(&upgrade.surge_nodes);
    let reasons: Vec<&str> = all
        .filter_map(|node| match &node.phase {
            Phase::Blocked(why) => Some(why.as_str()),
            _ => None,
        })
        .collect();
    if reasons.is_empty() {
        return End::Succeeded;
    }
    let mut message = String::new();
    if upgrade.quarantines && upgrade.nodes.iter().any(|node| node.phase == Phase::Waiting) {
        message.push_str(
            "Cordoned nodes have used all surge nodes but there are more nodes to be upgraded. Please fix your PDBs \
             blocking node drain and kindly retry upgrade operation.",
        );
    }
    message.push_str(&reasons.join(" "));
    let lacks_surge = upgrade.quarantines && blocked > upgrade.surge as usize;
    if lacks_surge { End::Canceled(message) } else { End::Failed(message) }
}

/// A duration as Go writes it: `5m0s`.
fn minutes(seconds: u32) -> String {
    go_duration(i64::from(seconds).saturating_mul(1_000_000_000))
}
