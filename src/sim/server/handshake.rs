//! TLS handshakes, in turns: the newest connection first, and whatever else is ready between two of them.
//!
//! A handshake costs more than most requests, and nobody knows yet whose it is. Where somebody opens very many connections
//! at once, who comes later must not wait for all of them: the last one to come is served first, as in adaptive queues.
//! While there is no crowd, nobody waits.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use rustls::ServerConfig;
use rustls::server::Acceptor;
use tokio::net::TcpStream;
use tokio::sync::{Notify, oneshot};
use tokio_rustls::LazyConfigAcceptor;
use tokio_rustls::server::TlsStream;

/// Connections whose other end has said what it wants, and that wait for their turn.
#[derive(Default)]
pub(super) struct Handshakes {
    waiting: Mutex<Vec<oneshot::Sender<()>>>,
    more: Notify,
}

impl Handshakes {
    /// Makes a connection one of TLS.
    ///
    /// # Errors
    /// When the other end does not speak it.
    pub(super) async fn shake(&self, stream: TcpStream, config: Arc<ServerConfig>) -> io::Result<TlsStream<TcpStream>> {
        let hello = LazyConfigAcceptor::new(Acceptor::default(), stream).await?;
        self.turn().await;
        // All of this end's computing is done when this is polled for the first time.
        hello.into_stream(config).await
    }

    async fn turn(&self) {
        let (begin, began) = oneshot::channel();
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).push(begin);
        self.more.notify_one();
        // An error means that nobody gives turns any more: the server ends.
        let _ = began.await;
    }

    /// Gives turns, for as long as it is polled.
    pub(super) async fn run(&self) {
        loop {
            let newest = self.waiting.lock().unwrap_or_else(PoisonError::into_inner).pop();
            match newest.map(|newest| newest.send(())) {
                None => self.more.notified().await,
                Some(Ok(())) => tokio::task::yield_now().await,
                // One that has given up costs nothing.
                Some(Err(())) => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use futures::FutureExt;

    use super::*;

    #[test]
    fn the_newest_has_the_first_turn_and_one_that_gave_up_none() {
        let handshakes = Handshakes::default();
        let order = Mutex::new(Vec::new());
        let waits = |number: u32| {
            let (handshakes, order) = (&handshakes, &order);
            async move {
                handshakes.turn().await;
                order.lock().unwrap().push(number);
            }
            .boxed()
            .fuse()
        };
        let mut waiting: Vec<_> = (0..4).map(waits).collect();
        for one in &mut waiting {
            assert!(one.now_or_never().is_none(), "nobody gives turns yet");
        }
        drop(waiting.remove(1));
        let mut run = handshakes.run().boxed();
        for _ in 0..4 {
            let _ = (&mut run).now_or_never();
            for one in &mut waiting {
                let _ = one.now_or_never();
            }
        }
        assert_eq!(*order.lock().unwrap(), [3, 2, 0]);
    }
}
