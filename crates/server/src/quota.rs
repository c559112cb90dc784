//! How the requests of one cluster share the server with those of others.
//!
//! One thread answers most requests of all clusters. So that no cluster makes others wait long:
//!
//! - Only a few requests of a cluster are in line at a time, and no cluster has all connections.
//! - A long request goes to a thread of its own, one at a time for each cluster. Together they have as much memory as they
//!   need for their bodies; the number of clusters with a long request has no other bound.
//! - A cluster that has used more than its share of the processors waits while others want them.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::Response;
use http::request::Parts;
use http_body::{Body as _, SizeHint};
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use klab_api_machinery::work::{self, CancelOnDrop, Cancelled};
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::Instant;

use super::limits::Limits;
use super::rate::Bucket;
use super::refusal::{panicked, too_many_requests};
use super::share::{Shares, weight};
use klab_cluster::api::{Api, Body, PendingWebhooks, Upgrade, status_response};

/// Requests of one cluster that are in line at a time; watches count only until they begin.
const IN_LINE: usize = 16;
/// Bytes of answers that the other ends of a cluster's connections have not read, beyond which it answers nothing: as many as
/// its objects may have, and no more than this.
const UNREAD: usize = 256 << 20;
/// Kilobytes of the bodies of requests of one cluster that are received or worked on at a time: five of the largest.
const BODIES: u32 = 16 << 10;
/// Steps after which a request is a long one: a few milliseconds.
const SHORT: u64 = 10_000;

/// The part of the server that one cluster may use.
pub(super) struct Quota {
    line: Semaphore,
    long: Arc<Semaphore>,
    connections: Arc<AtomicUsize>,
    watches: Arc<AtomicUsize>,
    unread: Arc<AtomicUsize>,
    bodies: Semaphore,
    requests: Mutex<Bucket>,
    /// Seconds of processors.
    work: Mutex<Bucket>,
}

/// One of what a cluster may have some of at a time, until this is dropped.
#[derive(Debug)]
pub(super) struct Slot(Arc<AtomicUsize>);

impl Slot {
    /// One more, unless there are that many.
    pub(super) fn take(count: &Arc<AtomicUsize>, most: usize) -> Option<Self> {
        let more = |now: usize| (now < most).then_some(now + 1);
        count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).ok()?;
        Some(Self(Arc::clone(count)))
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Bytes of an answer that the other end has not read, until this is dropped.
struct Unread(Arc<AtomicUsize>, usize);

impl Drop for Unread {
    fn drop(&mut self) {
        self.0.fetch_sub(self.1, Ordering::Relaxed);
    }
}

impl Quota {
    pub(super) fn new() -> Self {
        Self {
            line: Semaphore::new(IN_LINE),
            long: Arc::new(Semaphore::new(1)),
            connections: Arc::default(),
            watches: Arc::default(),
            unread: Arc::default(),
            bodies: Semaphore::new(BODIES as usize),
            requests: Mutex::new(Bucket::new()),
            work: Mutex::new(Bucket::new()),
        }
    }

    /// The right to one more connection, if there are fewer than `most`.
    pub(super) fn connection(&self, most: usize) -> Option<Slot> {
        Slot::take(&self.connections, most)
    }

    /// The refusal of a request that comes too soon after too many others.
    pub(super) fn refused(&self, limits: &Limits) -> Option<Response<Body>> {
        let rate = limits.requests_per_second.filter(|rate| *rate > 0)?;
        let mut requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        let most = f64::from(limits.burst.max(1));
        let taken = requests.take_one(f64::from(rate), most, Instant::now());
        let wait = taken.err()?;
        Some(too_many_requests("too many requests to this cluster, please try again later", wait))
    }

    /// Waits until there is room for the body of a request, of which this is the size that the client says.
    pub(super) async fn room(&self, size: &SizeHint) -> Option<SemaphorePermit<'_>> {
        let most = u64::from(BODIES) << 10;
        let kilobytes = size.upper().unwrap_or(most).min(most).div_ceil(1 << 10);
        // The semaphore is never closed.
        self.bodies.acquire_many(kilobytes as u32).await.ok()
    }

    /// Kilobytes of bodies for which there is room.
    #[cfg(test)]
    pub(super) fn room_left(&self) -> usize {
        self.bodies.available_permits()
    }

    /// Answers a request whose body has arrived, when it is its turn.
    pub(super) async fn answer(
        &self,
        api: &Api,
        mut parts: Parts,
        body: Bytes,
        limits: &Limits,
        shares: &Shares,
    ) -> Response<Body> {
        if let Some(connection) = parts.extensions.remove::<OnUpgrade>() {
            let changed = async { connection.await.map(TokioIo::new).map_err(std::io::Error::other) };
            parts.extensions.insert(Upgrade::new(changed));
        }
        let (parts, pending_webhooks) = (Arc::new(parts), Arc::new(PendingWebhooks::default()));
        let response = loop {
            // A client that does not read its answers gets no more of them.
            if self.unread.load(Ordering::Relaxed) > limits.bytes.min(UNREAD) {
                let what = "too many answers of this cluster are not read to their end, please read them first";
                return too_many_requests(what, Duration::from_secs(1));
            }
            let response = self.attempt(api, &parts, &body, &pending_webhooks, shares).await;
            // A request that waits for a webhook is not in line.
            if !api.resolve_webhooks(&pending_webhooks).await {
                break response;
            }
        };
        if !response.body().is_watch() {
            let bytes = usize::try_from(response.body().size_hint().lower()).unwrap_or(usize::MAX / 2);
            self.unread.fetch_add(bytes, Ordering::Relaxed);
            let unread = Unread(Arc::clone(&self.unread), bytes);
            return response.map(|body| body.holding(unread));
        }
        match Slot::take(&self.watches, limits.watches) {
            Some(held) => response.map(|body| body.holding(held)),
            None => too_many_requests("too many watches of this cluster", Duration::from_secs(1)),
        }
    }

    async fn attempt(
        &self,
        api: &Api,
        parts: &Arc<Parts>,
        body: &Bytes,
        pending_webhooks: &Arc<PendingWebhooks>,
        shares: &Shares,
    ) -> Response<Body> {
        // The semaphores are never closed.
        let _turn = self.line.acquire().await;
        // Short requests are answered without another pause. Here those in line let other clusters go first; without this pause all
        // requests of a cluster would be answered in one go, and its line would bound nothing.
        tokio::task::yield_now().await;
        shares.wait(&self.work).await;
        if !api.is_long(parts, body) {
            let begun = Instant::now();
            let short = || api.respond(parts, body.clone(), pending_webhooks);
            let answered = work::within(SHORT, &Cancelled::default(), short);
            shares.spent(&self.work, begun.elapsed());
            // One that turns out to be long begins again: nothing of it was stored.
            if let Ok(response) = answered {
                return response;
            }
        }
        let alone = Arc::clone(&self.long).acquire_owned().await;
        let room = Arc::clone(&shares.long).acquire_many_owned(weight(body)).await;
        let (api, parts, body) = (api.clone(), Arc::clone(parts), body.clone());
        let pending_webhooks = Arc::clone(pending_webhooks);
        let busy = api.cluster().be_busy();
        // A request past its deadline is dropped, and this with it: its work stops and makes room.
        let cancelled = Cancelled::default();
        let _dropped = CancelOnDrop(cancelled.clone());
        let answered = tokio::task::spawn_blocking(move || {
            let _held = (alone, room);
            let begun = Instant::now();
            let answered = work::within(u64::MAX, &cancelled, || api.respond(&parts, body, &pending_webhooks));
            drop(busy);
            (answered.unwrap_or_else(|_| status_response(&work::stopped())), begun.elapsed())
        });
        let (response, time) = answered.await.unwrap_or_else(|_| (status_response(&panicked()), Duration::ZERO));
        shares.spent(&self.work, time);
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cluster_has_its_share_of_the_connections_and_has_it_again() {
        let quota = Quota::new();
        let held = [quota.connection(2), quota.connection(2)];
        assert!(held.iter().all(Option::is_some));
        assert!(quota.connection(2).is_none());
        drop(held);
        assert!(quota.connection(2).is_some());
    }

    #[test]
    fn requests_beyond_the_rate_are_told_when_to_come_again() {
        let limits = Limits { requests_per_second: Some(2), burst: 3, ..Limits::default() };
        let quota = Quota::new();
        assert_eq!((0..3).filter(|_| quota.refused(&limits).is_none()).count(), 3);
        let refused = quota.refused(&limits).unwrap();
        assert_eq!(refused.status(), 429);
        assert_eq!(refused.headers()[http::header::RETRY_AFTER], "1");
        assert!(quota.refused(&Limits::default()).is_none(), "where there is no limit");
    }
}
