//! Whose turn it is on the processors: a cluster that has used more than its share waits, while others want them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::time::Instant;

use super::rate::Bucket;

/// Who has asked for anything within this time wants something.
const RECENT: Duration = Duration::from_millis(200);
/// Seconds of a processor that each may use at once before it waits: many times what a command costs.
const AT_ONCE: f64 = 0.1;
/// No request waits longer than this.
const MAX_WAIT: Duration = Duration::from_secs(2);

/// Bodies of long requests that are worked on at a time: some twenty of the largest. Each takes many times its length.
const LONG_KILOBYTES: u32 = 64 << 10;
/// What a long request without a large body counts for: a list, or a change of a large object.
const LEAST_KILOBYTES: u32 = 512;

/// How many kilobytes a long request counts for.
pub(super) fn weight(body: &[u8]) -> u32 {
    u32::try_from(body.len() >> 10).unwrap_or(LONG_KILOBYTES).clamp(LEAST_KILOBYTES, LONG_KILOBYTES)
}

/// The processors, as clusters share them.
pub(super) struct Shares {
    /// Kilobytes of the bodies of long requests that are worked on at a time.
    pub(super) long: Arc<Semaphore>,
    processors: f64,
    /// When each quota, by its place in memory, last wanted something.
    wanting: Mutex<BTreeMap<usize, Instant>>,
}

impl Shares {
    pub(super) fn new() -> Self {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let long = Arc::new(Semaphore::new(LONG_KILOBYTES as usize));
        Self { long, processors: processors as f64, wanting: Mutex::default() }
    }

    /// Seconds of processors that each of those who want something has in a second.
    fn each(&self, work: &Mutex<Bucket>) -> f64 {
        let now = Instant::now();
        let mut wanting = self.wanting.lock().unwrap_or_else(PoisonError::into_inner);
        wanting.insert(std::ptr::from_ref(work).addr(), now);
        if wanting.len() > 1 {
            wanting.retain(|_, at| now.saturating_duration_since(*at) <= RECENT);
        }
        self.processors / wanting.len() as f64
    }

    /// Waits until the cluster with this bucket owes nothing to those who want something, too. Who is alone never waits.
    pub(super) async fn wait(&self, work: &Mutex<Bucket>) {
        let each = self.each(work);
        if each >= self.processors {
            return;
        }
        let owed = work.lock().unwrap_or_else(PoisonError::into_inner).owes(each, AT_ONCE, Instant::now());
        if !owed.is_zero() {
            tokio::time::sleep(owed.min(MAX_WAIT)).await;
        }
    }

    /// Notes what a request has cost.
    pub(super) fn spent(&self, work: &Mutex<Bucket>, time: Duration) {
        let each = self.each(work);
        let mut work = work.lock().unwrap_or_else(PoisonError::into_inner);
        work.spend(time.as_secs_f64(), each, AT_ONCE, Instant::now());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run<T>(work: impl Future<Output = T>) -> T {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
        runtime.unwrap().block_on(work)
    }

    #[test]
    fn two_clusters_leave_room_for_the_long_requests_of_others() {
        let shares = Shares::new();
        let large = vec![0; 3 << 20];
        let held: Vec<_> = (0..20).map(|_| shares.long.try_acquire_many(weight(&large))).collect();
        assert!(held.iter().all(Result::is_ok), "each cluster has one");
        assert!(shares.long.try_acquire_many(weight(&[])).is_ok());
        assert_eq!((weight(&[]), weight(&large)), (LEAST_KILOBYTES, 3 << 10));
    }

    #[test]
    fn who_is_alone_never_waits() {
        let waited = run(async {
            let (shares, work) = (Shares::new(), Mutex::new(Bucket::new()));
            let begun = Instant::now();
            for _ in 0..100 {
                shares.wait(&work).await;
                shares.spent(&work, Duration::from_secs(1));
            }
            begun.elapsed()
        });
        assert_eq!(waited, Duration::ZERO);
    }

    #[test]
    fn who_floods_waits_for_others_and_they_do_not_wait_for_him() {
        let (flood, neighbour) = run(async {
            let shares = Shares::new();
            let (flood, neighbour) = (Mutex::new(Bucket::new()), Mutex::new(Bucket::new()));
            let (mut flooded, mut waited) = (Duration::ZERO, Duration::ZERO);
            for _ in 0..100 {
                for (work, cost, total) in [(&flood, 50, &mut flooded), (&neighbour, 1, &mut waited)] {
                    let begun = Instant::now();
                    shares.wait(work).await;
                    *total += begun.elapsed();
                    shares.spent(work, Duration::from_millis(cost));
                    tokio::time::advance(Duration::from_millis(cost)).await;
                }
            }
            (flooded, waited)
        });
        assert_eq!(neighbour, Duration::ZERO);
        // On one or two processors half of the time is his; on more there is room for both.
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        assert!(processors > 2 || flood > Duration::ZERO || processors == 2, "{flood:?}");
    }
}
