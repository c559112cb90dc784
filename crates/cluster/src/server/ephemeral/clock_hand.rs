//! What moves the clock of an ephemeral cluster: from one due moment to the next, for as long as a request may take.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use jiff::{SignedDuration, Timestamp};

use crate::clock::later;
use crate::embedded::Cluster;
use crate::status::Status;

/// How long one request may move it, by the machine's clock: less than requests may take.
const PATIENCE: Duration = Duration::from_secs(45);
/// It is moved in slices of this length, after each of which is looked whether time is up.
const SLICE: SignedDuration = SignedDuration::from_mins(10);

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

    /// Has the control plane do all that is due now. On another thread: webhooks that it waits for are asked on this one.
    pub(super) async fn settle(&self) {
        if self.cluster.is_settled() {
            return;
        }
        let cluster = self.cluster.clone();
        // An error is a panic, which the control plane tells of itself.
        let _ = tokio::task::spawn_blocking(move || cluster.settle()).await;
    }

    /// Lets time pass, from one due moment to the next.
    ///
    /// # Errors
    /// When there is too much to be done.
    pub(super) async fn advance(&self, by: SignedDuration) -> Result<Timestamp, Status> {
        self.advance_within(by, PATIENCE).await
    }

    async fn advance_within(&self, by: SignedDuration, patience: Duration) -> Result<Timestamp, Status> {
        let hand = self.clone();
        let moved = tokio::task::spawn_blocking(move || {
            let _turn = hand.moving.lock().unwrap_or_else(PoisonError::into_inner);
            let (begun, cluster) = (Instant::now(), &hand.cluster);
            let from = cluster.now();
            let until = later(from, by);
            loop {
                cluster.pass_until(later(cluster.now(), SLICE).min(until));
                let now = cluster.now();
                if now >= until {
                    return Ok(now);
                }
                if begun.elapsed() >= patience {
                    let come = now.duration_since(from);
                    let message = format!(
                        "the clock was moved by {come:#} of {by:#}: there was too much to be done; move it again"
                    );
                    return Err(Status::new(504, "Timeout", message));
                }
            }
        });
        moved.await.map_err(|error| Status::new(500, "InternalError", error.to_string()))?
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
        assert_eq!(refused.message, "the clock was moved by 10m of 1h: there was too much to be done; move it again");
        assert_eq!(hand.cluster.now().duration_since(began), SLICE);
        let both = tokio::join!(hand.advance(SLICE), hand.advance(SLICE));
        assert!(both.0.is_ok() && both.1.is_ok());
        assert_eq!(hand.cluster.now().duration_since(began), SignedDuration::from_mins(30), "both moved it");
    }
}
