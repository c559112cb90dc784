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
pub trait World {
    /// Time since the looking began.
    fn elapsed(&self) -> Duration;

    /// The cluster as it is when the looking begins, with what the checks read.
    fn first(&mut self) -> impl Future<Output = Result<Snapshot>>;

    /// The cluster as soon as it has changed since `last`, or at `until`.
    fn again(&mut self, last: Snapshot, until: Duration) -> impl Future<Output = Result<Snapshot>>;

    /// Adds what explanations read.
    fn complete(&mut self, snapshot: &mut Snapshot) -> impl Future<Output = Result<()>>;
}

/// When the looking ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Until {
    /// When time and the cluster's own doing will change no verdict, or the time is up.
    Decided(Duration),
    /// When every check holds. What does not is explained at every look.
    Held,
}

/// Looks until the checks of a lab are decided, and explains what does not hold in the end. `seen` is shown every report,
/// the last one included.
///
/// # Errors
/// When the cluster does not answer.
pub async fn look_until(
    world: &mut impl World,
    lab: &Lab,
    until: Until,
    mut seen: impl FnMut(&mut Report),
) -> Result<(Report, Snapshot)> {
    let judge = verify::Context::of(lab);
    let mut stability = Stability::new(Windows::of(lab.provider));
    let mut snapshot = world.first().await?;
    loop {
        let observation = stability.observe(&lab.checks, &snapshot, &judge, world.elapsed());
        let (mut report, look_again_at) = (observation.report, observation.look_again_at);
        let (over, timeout) = match until {
            Until::Decided(timeout) => (report.decided() || world.elapsed() >= timeout, timeout),
            Until::Held => (report.ok(), Duration::MAX),
        };
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
    }
}

/// So many times as long as a look took, nobody looks again.
const REST: u32 = 3;
/// How often objects are read again that no watch tells about.
const AGAIN: Duration = Duration::from_secs(2);

/// A cluster behind an API, in real time.
pub struct Live<'a> {
    client: &'a Client,
    checks: &'a [Check],
    /// How long the person waits for any answer.
    patience: Duration,
    observer: Option<Observer>,
    started: Instant,
    looked: Instant,
}

impl<'a> Live<'a> {
    /// A cluster to look at for no longer than `patience`. One that was just `changed` cannot hold yet and is watched at once;
    /// one that may hold already is seen with one look, without a watch.
    pub fn new(client: &'a Client, checks: &'a [Check], patience: Duration, changed: bool) -> Self {
        let observer = changed.then(|| Observer::new(client));
        Self { client, checks, patience, observer, started: Instant::now(), looked: Instant::now() }
    }
}

impl World for Live<'_> {
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

    async fn complete(&mut self, snapshot: &mut Snapshot) -> Result<()> {
        answered_within(self.patience.max(LOOK), observe::complete(self.client, snapshot)).await
    }
}
