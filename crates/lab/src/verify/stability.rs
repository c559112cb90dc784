//! Verdicts over time: a check must hold for its window, and a cluster be quiet for one before anything is impossible.
//!
//! The caller feeds snapshots with the time of its own clock (time since it began to watch). Nothing here looks at a
//! clock, so a test can play any history.

use std::hash::{BuildHasher, Hash, Hasher};
use std::time::Duration;

use foldhash::fast::{FixedState, FoldHasher};

use super::context::Context;
use super::evaluate::results;
use super::pod::PodState;
use super::snapshot::Snapshot;
use super::verdict::{CheckResult, Report, Verdict};
use super::view::View;
use crate::spec::{Check, Provider};

/// How long things must last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Windows {
    /// How long nothing may change before a check counts as impossible.
    pub settle: Duration,
    /// How long pods must stay Pending where the check does not say (`hold`).
    pub pending: Duration,
}

impl Windows {
    /// Windows that fit a provider: the embedded cluster acts within milliseconds, real ones take seconds between a
    /// cause and its effect.
    pub fn of(provider: Provider) -> Self {
        let profile = provider.profile();
        Self { settle: profile.settle, pending: profile.pending }
    }
}

/// The history of a cluster as far as verdicts need it.
#[derive(Clone, Debug)]
pub struct Stability {
    windows: Windows,
    /// Fingerprint of the last snapshot, and since when it is the same.
    quiet: Option<(u64, Duration)>,
    /// Per check, since when it holds.
    held_since: Vec<Option<Duration>>,
}

/// Verdicts after a look, and when time alone will change one.
#[derive(Clone, Debug)]
pub struct Observation {
    /// The verdicts.
    pub report: Report,
    /// When, on the caller's clock, a verdict changes though nothing in the cluster does. The caller looks again then,
    /// or sooner if the cluster changes; none: only a change can bring news.
    pub look_again_at: Option<Duration>,
}

impl Stability {
    /// A history in which nothing has been seen.
    pub fn new(windows: Windows) -> Self {
        Self { windows, quiet: None, held_since: Vec::new() }
    }

    /// Takes in a snapshot seen at `now` (time since the caller began to watch; never less than before) and gives the
    /// verdicts. The checks must be the same at every call.
    pub fn observe(
        &mut self,
        checks: &[Check],
        snapshot: &Snapshot,
        context: &Context<'_>,
        now: Duration,
    ) -> Observation {
        let view = View::new(snapshot, context);
        let fingerprint = fingerprint(&view);
        let quiet_since = match self.quiet {
            Some((same, since)) if same == fingerprint => since,
            _ => now,
        };
        self.quiet = Some((fingerprint, quiet_since));
        self.held_since.resize(checks.len(), None);
        let mut next = Next { now, at: None };
        let results = results(checks, &view)
            .into_iter()
            .zip(checks)
            .zip(&mut self.held_since)
            .map(|((result, check), held_since)| {
                *held_since = result.verdict.is_held().then(|| held_since.unwrap_or(now));
                let verdict = self.windows.verdict(check, &result, *held_since, quiet_since, &mut next);
                CheckResult { verdict, ..result }
            })
            .collect();
        let report = Report { lab: context.name().to_owned(), elapsed: now, checks: results, ..Report::default() };
        Observation { report, look_again_at: next.at }
    }
}

/// The next moment at which a verdict changes by itself.
struct Next {
    now: Duration,
    at: Option<Duration>,
}

impl Next {
    /// Whether a moment has come; if not, remembers it.
    fn is_past(&mut self, moment: Duration) -> bool {
        if moment > self.now {
            self.at = Some(self.at.map_or(moment, |at| at.min(moment)));
        }
        moment <= self.now
    }
}

impl Windows {
    fn verdict(
        self,
        check: &Check,
        result: &CheckResult,
        held_since: Option<Duration>,
        quiet_since: Duration,
        next: &mut Next,
    ) -> Verdict {
        let within = check.within.and_then(|within| Duration::try_from(within).ok());
        // An author who says how long it may take knows of something that begins after a quiet time.
        let expected = |next: &mut Next| within.is_some_and(|within| !next.is_past(within));
        let verdict = match (&result.verdict, held_since) {
            (Verdict::Held, Some(since)) => {
                let hold = self.hold(check);
                if next.is_past(since.saturating_add(hold)) {
                    return Verdict::Held;
                }
                let so_far = next.now.saturating_sub(since);
                Verdict::NotYet {
                    waiting_for: format!("it holds, for {:.1} s of {:.1} s", so_far.as_secs_f64(), hold.as_secs_f64()),
                }
            }
            (Verdict::Impossible { because }, _)
                if !next.is_past(quiet_since.saturating_add(self.settle)) || expected(next) =>
            {
                Verdict::NotYet { waiting_for: because.clone() }
            }
            (verdict, _) => verdict.clone(),
        };
        match within {
            Some(within) if held_since.is_none() && next.is_past(within) => {
                Verdict::Impossible { because: format!("it did not hold within {}", crate::words::duration(within)) }
            }
            _ => verdict,
        }
    }

    /// How long a check must hold: as its author says, else a window for Pending pods, else no time.
    fn hold(self, check: &Check) -> Duration {
        let default = if check.wants_pending() { self.pending } else { Duration::ZERO };
        check.hold.and_then(|hold| Duration::try_from(hold).ok()).unwrap_or(default)
    }
}

/// A number that changes whenever something changes that a verdict depends on, and not with heartbeats. The order of
/// objects in the snapshot plays no part.
fn fingerprint(view: &View<'_>) -> u64 {
    let mut sum = 0_u64;
    let hashes = FixedState::default();
    let mut add = |thing: &dyn Fn(&mut FoldHasher<'_>)| {
        let mut hasher = hashes.build_hasher();
        thing(&mut hasher);
        sum = sum.wrapping_add(hasher.finish());
    };
    for pod in &view.pods {
        add(&|hasher| {
            (pod.namespace, pod.name, pod.node, pod.current, &pod.pod.metadata.uid, &pod.pod.metadata.labels)
                .hash(hasher);
            state(&pod.state, hasher);
        });
    }
    for (name, node) in &view.nodes {
        add(&|hasher| {
            let spec = node.spec.as_ref();
            (name, &node.metadata.uid, &node.metadata.labels, super::node::is_ready(node)).hash(hasher);
            spec.and_then(|spec| spec.unschedulable).hash(hasher);
            for taint in spec.and_then(|spec| spec.taints.as_deref()).unwrap_or_default() {
                (&taint.key, &taint.value, &taint.effect).hash(hasher);
            }
            for (resource, amount) in node.status.iter().flat_map(|status| status.allocatable.iter().flatten()) {
                (resource, &amount.0).hash(hasher);
            }
        });
    }
    let snapshot = view.snapshot;
    let owners = (snapshot.deployments.iter().map(|owner| &owner.metadata))
        .chain(snapshot.replica_sets.iter().map(|owner| &owner.metadata))
        .chain(snapshot.daemon_sets.iter().map(|owner| &owner.metadata))
        .chain(snapshot.stateful_sets.iter().map(|owner| &owner.metadata))
        .chain(snapshot.jobs.iter().map(|owner| &owner.metadata));
    for meta in owners {
        add(&|hasher| (&meta.uid, &meta.namespace, &meta.name, meta.generation).hash(hasher));
    }
    for deployment in &snapshot.deployments {
        let status = deployment.status.as_ref();
        add(&|hasher| status.map(|status| (status.observed_generation, status.ready_replicas)).hash(hasher));
    }
    for fetched in &snapshot.objects {
        add(&|hasher| {
            fetched.reference.to_string().hash(hasher);
            fetched.object.as_ref().map(|object| object["metadata"]["resourceVersion"].to_string()).hash(hasher);
        });
    }
    sum
}

fn state(state: &PodState, hasher: &mut FoldHasher<'_>) {
    std::mem::discriminant(state).hash(hasher);
    match state {
        PodState::Unschedulable { message, nominated } => (message, nominated).hash(hasher),
        PodState::Running { ready, .. } => ready.hash(hasher),
        _ => {}
    }
}
