//! How the requests of one cluster share the server with those of others.
//!
//! One thread answers most requests of all clusters. So that nobody waits long for others, only a few requests of a
//! cluster are in line at a time; what may take long goes to a thread of its own, one at a time for each cluster; and no
//! cluster has all connections.

use std::sync::Arc;

use bytes::Bytes;
use http::Response;
use http::request::Parts;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::super::api::{Api, Body, status_response};
use super::refusal::panicked;

/// Requests of one cluster that are in line at a time; watches count only until they begin.
const IN_LINE: usize = 16;

/// The part of the server that one cluster may use.
pub(super) struct Lane {
    line: Semaphore,
    long: Semaphore,
    connections: Arc<Semaphore>,
}

impl Lane {
    /// `connections`: how many connections of the server one cluster may have.
    pub(super) fn new(connections: usize) -> Self {
        Self {
            line: Semaphore::new(IN_LINE),
            long: Semaphore::new(1),
            connections: Arc::new(Semaphore::new(connections)),
        }
    }

    /// The right to one more connection, if there is one left.
    pub(super) fn connection(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.connections).try_acquire_owned().ok()
    }

    /// Answers a request whose body has arrived, when it is its turn.
    pub(super) async fn answer(&self, api: &Api, parts: Parts, body: Bytes) -> Response<Body> {
        // The semaphores are never closed.
        let _turn = self.line.acquire().await;
        if !api.is_long(&parts, &body) {
            return api.respond(&parts, body);
        }
        let _alone = self.long.acquire().await;
        let api = api.clone();
        let busy = api.cluster().be_busy();
        let answered = tokio::task::spawn_blocking(move || {
            let response = api.respond(&parts, body);
            drop(busy);
            response
        });
        answered.await.unwrap_or_else(|_| status_response(&panicked()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cluster_has_its_share_of_the_connections_and_has_it_again() {
        let lane = Lane::new(2);
        let held = [lane.connection(), lane.connection()];
        assert!(held.iter().all(Option::is_some));
        assert!(lane.connection().is_none());
        drop(held);
        assert!(lane.connection().is_some());
    }
}
