//! TLS handshakes, in turns: a few at a time, in the order in which they came, and other work between some and the next.
//!
//! A handshake costs more than most requests, and nobody knows yet whose it is. Where somebody opens very many connections
//! at once, requests on the others go on meanwhile. (Who comes last first, or by turns with who waits longest, was tried:
//! the slowest command of a neighbour took a third longer.)

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use rustls::ServerConfig;
use rustls::server::Acceptor;
use tokio::net::TcpStream;
use tokio::sync::{Notify, oneshot};
use tokio_rustls::LazyConfigAcceptor;
use tokio_rustls::server::TlsStream;

/// Handshakes between which nothing else is done: two milliseconds.
const AT_ONCE: usize = 8;

/// Connections whose other end has said what it wants, and that wait for their turn.
#[derive(Default)]
pub(super) struct Handshakes {
    waiting: Mutex<VecDeque<oneshot::Sender<()>>>,
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
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).push_back(begin);
        self.more.notify_one();
        // An error means that nobody gives turns any more: the server ends.
        let _ = began.await;
    }

    /// The one whose turn it is.
    fn next(&self) -> Option<oneshot::Sender<()>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }

    /// Gives turns, for as long as it is polled.
    pub(super) async fn run(&self) {
        let mut given = 0;
        loop {
            match self.next().map(|next| next.send(())) {
                None => {
                    given = 0;
                    self.more.notified().await;
                }
                Some(Ok(())) => given += 1,
                // One that has given up costs nothing.
                Some(Err(())) => {}
            }
            if given == AT_ONCE {
                given = 0;
                tokio::task::yield_now().await;
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
    fn a_few_at_a_time_and_none_for_who_gave_up() {
        let handshakes = Handshakes::default();
        let order = Mutex::new(Vec::new());
        let waits = |number: usize| {
            let (handshakes, order) = (&handshakes, &order);
            async move {
                handshakes.turn().await;
                order.lock().unwrap().push(number);
            }
            .boxed()
            .fuse()
        };
        let mut waiting: Vec<_> = (0..AT_ONCE + 3).map(waits).collect();
        for one in &mut waiting {
            assert!(one.now_or_never().is_none(), "nobody gives turns yet");
        }
        drop(waiting.remove(0));
        let mut run = handshakes.run().boxed();
        let mut served = Vec::new();
        while order.lock().unwrap().len() < AT_ONCE + 2 {
            let _ = (&mut run).now_or_never();
            for one in &mut waiting {
                let _ = one.now_or_never();
            }
            served.push(order.lock().unwrap().len());
        }
        assert_eq!(served, [AT_ONCE, AT_ONCE + 2], "others have their turn in between");
        assert_eq!(*order.lock().unwrap(), (1..AT_ONCE + 3).collect::<Vec<_>>());
    }
}
