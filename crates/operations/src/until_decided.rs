//! Looking at a cluster until its checks are decided: the one loop behind `up`, `verify`, `verify --watch`, `step` and `test`.

use std::time::{Duration, Instant};

use kube::Client;

use crate::client::answered_within;
use crate::error::Result;
use crate::observe::{self, Observer};
use klab_lab::spec::{Check, Lab};
use klab_lab::verify::{self, Report, Snapshot, Stability, Windows};

/// Time that one look may take, however short the person's patience is.
pub const LOOK: Duration = Duration::from_secs(5);

/// A cluster that is looked at again and again, and its time.
pub trait PolledCluster {
    /// Time since the looking began.
    fn elapsed(&self) -> Duration;

    /// The cluster as it is when the looking begins, with what the checks read.
    fn first(&mut self) -> impl Future<Output = Result<Snapshot>>;

    /// The cluster as soon as it has changed since `last`, or at `until`.
    fn again(&mut self, last: Snapshot, until: Duration) -> impl Future<Output = Result<Snapshot>>;

    /// Whether the controllers of an embedded cluster have work left; if not, `snapshot` is the cluster as it is then.
    fn is_at_work(&mut self, _snapshot: &mut Snapshot) -> impl Future<Output = Result<bool>> {
        std::future::ready(Ok(false))
    }

    /// Adds what explanations read.
    fn complete(&mut self, snapshot: &mut Snapshot) -> impl Future<Output = Result<()>>;
}

/// When the looking ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Until {
    /// When time and the cluster's own doing will change no verdict, or the time is up.
    Decided(Duration),
    /// When this is so of each check by itself, or the time is up: one that cannot hold leaves no other undecided.
    Settled(Duration),
    /// When every check holds. What does not is explained at every look.
    Held,
}

impl Until {
    /// How long the looking goes on at most.
    pub fn timeout(self) -> Duration {
        match self {
            Self::Decided(timeout) | Self::Settled(timeout) => timeout,
            Self::Held => Duration::MAX,
        }
    }
}

/// Looks until the checks of a lab are decided, and explains what does not hold in the end. `seen` is shown every report,
/// the last one included.
///
/// # Errors
/// When the cluster does not answer.
pub async fn look_until(
    world: &mut impl PolledCluster,
    lab: &Lab,
    until: Until,
    mut seen: impl FnMut(&mut Report),
) -> Result<(Report, Snapshot)> {
    let judge = verify::Context::of(lab);
    let timeout = until.timeout();
    let mut stability = Stability::new(Windows::of(lab.provider));
    let is_embedded = lab.provider.profile().is_embedded;
    let mut snapshot = world.first().await?;
    // Whether the snapshot shows all that the controllers of an embedded cluster do about what came before.
    let mut is_last = !is_embedded;
    loop {
        let observation = stability.observe(&lab.checks, &snapshot, &judge, world.elapsed());
        let (mut report, look_again_at) = (observation.report, observation.look_again_at);
        let is_reached = match until {
            Until::Decided(_) => report.decided(),
            Until::Settled(_) => report.settled(),
            Until::Held => report.ok(),
        };
        let over = is_reached || world.elapsed() >= timeout;
        if over && !report.ok() && !is_last && world.elapsed() < timeout {
            // That nothing has changed for a while says nothing of a machine that gives the controllers no time.
            is_last = !world.is_at_work(&mut snapshot).await?;
            if !is_last {
                let soon = world.elapsed().saturating_add(AT_WORK).min(timeout);
                snapshot = world.again(snapshot, soon).await?;
            }
            continue;
        }
        if over {
            if !report.ok() {
                world.complete(&mut snapshot).await?;
                verify::diagnose(&mut report, &lab.checks, &snapshot, &judge);
            }
            seen(&mut report);
            return Ok((report, snapshot));
        }
        if until == Until::Held {
            let mut complete = snapshot.clone();
            world.complete(&mut complete).await?;
            verify::diagnose(&mut report, &lab.checks, &complete, &judge);
        }
        seen(&mut report);
        snapshot = world.again(snapshot, look_again_at.map_or(timeout, |at| at.min(timeout))).await?;
        is_last = !is_embedded;
    }
}

/// How long until controllers that had work left are asked again.
const AT_WORK: Duration = Duration::from_millis(50);
/// The least pause between two looks, as a multiple of the time that a look took.
const REST: u32 = 3;
/// How often objects are read again that no watch tells about.
const AGAIN: Duration = Duration::from_secs(2);

/// A cluster behind an API, in real time.
pub struct ApiPoller<'a> {
    client: &'a Client,
    checks: &'a [Check],
    /// How long the person waits for any answer.
    patience: Duration,
    observer: Option<Observer>,
    started: Instant,
    looked: Instant,
}

impl<'a> ApiPoller<'a> {
    /// A cluster to look at for no longer than `patience`. One that was just `changed` cannot hold yet and is watched at once;
    /// one that may hold already is seen with one look, without a watch.
    pub fn new(client: &'a Client, checks: &'a [Check], patience: Duration, changed: bool) -> Self {
        let observer = changed.then(|| Observer::new(client));
        Self { client, checks, patience, observer, started: Instant::now(), looked: Instant::now() }
    }
}

impl PolledCluster for ApiPoller<'_> {
    fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    async fn first(&mut self) -> Result<Snapshot> {
        let (client, checks, observer) = (self.client, self.checks, &mut self.observer);
        let first = async {
            let mut snapshot = match observer {
                Some(observer) => observer.next().await?,
                None => observe::look(client).await?,
            };
            observe::fetch(client, checks, &mut snapshot).await?;
            Ok(snapshot)
        };
        let snapshot = answered_within(self.patience.max(LOOK), first).await;
        self.looked = Instant::now();
        snapshot
    }

    async fn again(&mut self, last: Snapshot, until: Duration) -> Result<Snapshot> {
        let observer = self.observer.get_or_insert_with(|| Observer::new(self.client));
        let again = if observe::is_to_be_fetched(self.checks, &last) {
            self.started.elapsed().saturating_add(AGAIN)
        } else {
            until
        };
        let until = until.min(again);
        // A look at thousands of nodes takes longer than the time between two changes of them. A machine that slept meanwhile
        // took no longer for its look.
        let rest = self.looked.elapsed().saturating_mul(REST).min(AGAIN);
        tokio::time::sleep(rest.min(until.saturating_sub(self.started.elapsed()))).await;
        let pause = until.saturating_sub(self.started.elapsed());
        let mut snapshot = match tokio::time::timeout(pause, observer.next()).await {
            Ok(news) => news?,
            Err(_) => last,
        };
        answered_within(LOOK.max(pause), observe::fetch(self.client, self.checks, &mut snapshot)).await?;
        self.looked = Instant::now();
        Ok(snapshot)
    }

    async fn is_at_work(&mut self, snapshot: &mut Snapshot) -> Result<bool> {
        let (client, checks) = (self.client, self.checks);
        let look = async {
            if !observe::is_settled(client).await {
                return Ok(true);
            }
            // Watches may be behind.
            *snapshot = observe::look(client).await?;
            observe::fetch(client, checks, snapshot).await?;
            Ok(false)
        };
        answered_within(self.patience.max(LOOK), look).await
    }

    async fn complete(&mut self, snapshot: &mut Snapshot) -> Result<()> {
        answered_within(self.patience.max(LOOK), observe::complete(self.client, snapshot)).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lesson_test::{EmbeddedTestCluster, TestCluster as _};
    use klab_lab::spec::{LoadOptions, parse};

    /// A cluster whose controllers get no time for a while.
    struct Starved {
        clock: Duration,
        /// When the controllers have done their work, and whether the cluster says that they have not.
        until: Duration,
        says_so: bool,
        before: Snapshot,
        after: Snapshot,
    }

    impl Starved {
        fn now(&self) -> Snapshot {
            if self.clock < self.until { self.before.clone() } else { self.after.clone() }
        }
    }

    impl PolledCluster for Starved {
        fn elapsed(&self) -> Duration {
            self.clock
        }

        async fn first(&mut self) -> Result<Snapshot> {
            Ok(self.now())
        }

        async fn again(&mut self, _: Snapshot, until: Duration) -> Result<Snapshot> {
            self.clock = until;
            Ok(self.now())
        }

        async fn is_at_work(&mut self, snapshot: &mut Snapshot) -> Result<bool> {
            *snapshot = self.now();
            Ok(self.says_so && self.clock < self.until)
        }

        async fn complete(&mut self, _: &mut Snapshot) -> Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_quiet_cluster_whose_controllers_have_work_left_is_waited_for() {
        let text = "lab = \"l\"\n[pool.main]\nnodes = 1\n[workload.web]\nreplicas = 1\n\
                    [[step]]\nname = \"more\"\ndo = [{ scale = \"web\", replicas = 2 }]\n\
                    [[step.check]]\nworkload = \"web\"\nrunning = 2\n";
        let lab =
            parse("lab.toml", text, &LoadOptions::default()).unwrap_or_else(|all| panic!("{}", all.render(false)));
        let world = EmbeddedTestCluster::new(0).unwrap();
        world.up(&lab).unwrap();
        let after = crate::lesson::stage(&lab, 1);
        let [before, scaled] = [false, true].map(|scales| {
            if scales {
                world.perform(&lab, 0).unwrap();
            }
            world.wait(&after, Duration::ZERO).unwrap();
            world.snapshot(&after).unwrap()
        });
        let timeout = Duration::from_secs(60);
        for (seconds, says_so, holds) in [(0, true, true), (5, true, true), (70, true, false), (5, false, false)] {
            let (before, scaled) = (before.clone(), scaled.clone());
            let until = Duration::from_secs(seconds);
            let mut starved = Starved { clock: Duration::ZERO, until, says_so, before, after: scaled };
            let looked = look_until(&mut starved, &after, Until::Decided(timeout), |_| {});
            let (report, _) = world.block_on(looked).unwrap();
            assert_eq!(report.ok(), holds, "{seconds} s, {says_so}: {report:?}");
            assert_eq!(starved.clock >= timeout, seconds > 60, "{:?}", starved.clock);
        }
    }
}
