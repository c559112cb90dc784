//! What moves the clock of an ephemeral cluster: from one due moment to the next, for as long as a request may take.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use jiff::{SignedDuration, Timestamp};
use klab_api_machinery::status::Status;
use klab_api_machinery::work::{CancelOnDrop, Cancelled};

use klab_cluster::Cluster;
use klab_cluster::clock::later;

/// How long one request may move it, or have the control plane work, by the machine's clock: less than requests may take.
const PATIENCE: Duration = Duration::from_secs(45);
/// The farthest that one request may move it. Something is due every few seconds: it would not come to the end of more.
const FARTHEST: SignedDuration = SignedDuration::from_hours(366 * 24);

/// What moves the clock.
#[derive(Clone)]
pub(super) struct ClockHand {
    cluster: Cluster,
    /// Held by who moves it: two who do so at the same time move it by the sum.
    moving: Arc<Mutex<()>>,
}

impl ClockHand {
    pub(super) fn new(cluster: Cluster) -> Self {
        Self { cluster, moving: Arc::default() }
    }

    /// Has the control plane do all that is due now, for as long as a request may take; the next request goes on. On another
    /// thread: webhooks that it waits for are asked on this one.
    pub(super) async fn settle(&self) {
        if self.cluster.is_settled() {
            return;
        }
        let _ = self.work(|cluster, go_on| cluster.pass_while(cluster.now(), go_on), PATIENCE).await;
    }

    /// Lets time pass, from one due moment to the next.
    ///
    /// # Errors
    /// When the move is too far, or there would be too much to do.
    pub(super) async fn advance(&self, by: SignedDuration) -> Result<Timestamp, Status> {
        self.advance_within(by, PATIENCE).await
    }

    async fn advance_within(&self, by: SignedDuration, patience: Duration) -> Result<Timestamp, Status> {
        if by > FARTHEST {
            let message = format!("the clock cannot be moved by {by:#} at once: {FARTHEST:#} is the most");
            return Err(Status::bad_request(message));
        }
        let moving = Arc::clone(&self.moving);
        let moved = self.work(
            move |cluster, go_on| {
                let _turn = moving.lock().unwrap_or_else(PoisonError::into_inner);
                let from = cluster.now();
                let is_there = cluster.pass_while(later(from, by), go_on);
                (is_there, cluster.now(), from)
            },
            patience,
        );
        let (is_there, now, from) = moved.await?;
        if is_there {
            return Ok(now);
        }
        let come = now.duration_since(from);
        let message =
            format!("the clock was moved by {come:#} of {by:#}: there was too much to be done; move it again");
        Err(Status::new(504, "Timeout", message))
    }

    /// Does some work on another thread, until this is dropped or `patience` is over.
    async fn work<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Cluster, &mut dyn FnMut() -> bool) -> T + Send + 'static,
        patience: Duration,
    ) -> Result<T, Status> {
        let cluster = self.cluster.clone();
        let cancelled = Cancelled::default();
        let _dropped = CancelOnDrop(cancelled.clone());
        let done = tokio::task::spawn_blocking(move || {
            let begun = Instant::now();
            work(&cluster, &mut || begun.elapsed() < patience && !cancelled.is_cancelled())
        });
        // An error is a panic, which the control plane tells of itself.
        done.await.map_err(|error| Status::new(500, "InternalError", error.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn who_has_no_time_left_says_how_far_it_came() {
        let hand = ClockHand::new(Cluster::builder().build().unwrap());
        let began = hand.cluster.now();
        let refused = hand.advance_within(SignedDuration::from_hours(1), Duration::ZERO).await.unwrap_err();
        let come = hand.cluster.now().duration_since(began);
        let told = format!("the clock was moved by {come:#} of 1h: there was too much to be done; move it again");
        assert_eq!(refused.message, told);
        assert!(come < SignedDuration::from_hours(1));
        let ten = SignedDuration::from_mins(10);
        let both = tokio::join!(hand.advance(ten), hand.advance(ten));
        assert!(both.0.is_ok() && both.1.is_ok());
        let moved = hand.cluster.now().duration_since(began);
        assert_eq!(moved, SignedDuration::from_mins(20).checked_add(come).unwrap(), "both moved it");
    }

    #[tokio::test]
    async fn no_request_moves_the_clock_for_ever() {
        let hand = ClockHand::new(Cluster::builder().build().unwrap());
        let began = hand.cluster.now();
        for far in [SignedDuration::MAX, SignedDuration::from_hours(366 * 24 + 1)] {
            let refused = hand.advance(far).await.unwrap_err();
            assert_eq!(refused.code, 400);
            assert!(refused.message.ends_with(" at once: 8784h is the most"), "{refused}");
        }
        assert_eq!(hand.cluster.now(), began);
    }
}
