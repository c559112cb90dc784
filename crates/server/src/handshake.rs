//! TLS handshakes, in turns: a few at a time, one of each cluster after the other, and other work between some and the next.
//!
//! A handshake costs more than most requests. Where somebody opens very many connections at once, requests on the others
//! go on meanwhile, and connections of another cluster do not wait for all of them.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use rustls::ServerConfig;
use rustls::server::Acceptor;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio::sync::{Notify, oneshot};
use tokio_rustls::server::TlsStream;
use tokio_rustls::{LazyConfigAcceptor, StartHandshake};

use super::host_name::HostNames;

/// Handshakes between which nothing else is done: two milliseconds.
const AT_ONCE: usize = 8;

/// A fatal alert of TLS 1.2 and 1.3, before anything is agreed.
// source: RFC 8446, 5.1 and 6
const INTERNAL_ERROR: [u8; 7] = [21, 3, 3, 0, 2, 2, 80];

/// Connections whose other end has said what it wants, and that wait for their turn.
pub(super) struct Handshakes {
    names: HostNames,
    waiting: Mutex<Waiting>,
    more: Notify,
}

/// A connection whose other end has said what it wants.
pub(super) struct Heard {
    hello: StartHandshake<TcpStream>,
    /// The host name of a cluster; none where it asked for none that this server made.
    pub(super) name: Option<String>,
}

impl Heard {
    /// Ends the connection with a word: where it just ends, kubectl tries for a quarter of a minute.
    pub(super) async fn refuse(mut self) {
        // The other end may have gone.
        let _ = self.hello.io.write_all(&INTERNAL_ERROR).await;
    }
}

/// Those of each host name in the order in which they came, and the names in the order of their turns. Connections that ask
/// for no name of a cluster share one.
#[derive(Default)]
struct Waiting {
    of: HashMap<String, VecDeque<oneshot::Sender<()>>>,
    turns: VecDeque<String>,
}

impl Waiting {
    fn add(&mut self, name: &str, begin: oneshot::Sender<()>) {
        if let Some(queue) = self.of.get_mut(name) {
            queue.push_back(begin);
        } else {
            self.of.insert(name.to_owned(), VecDeque::from([begin]));
            self.turns.push_back(name.to_owned());
        }
    }

    /// The one whose turn it is.
    fn next(&mut self) -> Option<oneshot::Sender<()>> {
        let name = self.turns.pop_front()?;
        let queue = self.of.get_mut(&name)?;
        let next = queue.pop_front();
        if queue.is_empty() {
            self.of.remove(&name);
        } else {
            self.turns.push_back(name);
        }
        next
    }
}

impl Handshakes {
    /// `names` are those of the server's clusters.
    pub(super) fn new(names: HostNames) -> Self {
        Self { names, waiting: Mutex::default(), more: Notify::new() }
    }

    /// Hears which host name the other end of a connection wants.
    ///
    /// # Errors
    /// When it does not speak TLS.
    pub(super) async fn hear(&self, stream: TcpStream) -> io::Result<Heard> {
        let hello = LazyConfigAcceptor::new(Acceptor::default(), stream).await?;
        let name = hello.client_hello().server_name().filter(|name| self.names.knows(name)).map(str::to_owned);
        Ok(Heard { hello, name })
    }

    /// Makes a connection one of TLS.
    ///
    /// # Errors
    /// When the other end does not agree.
    pub(super) async fn shake(&self, heard: Heard, config: Arc<ServerConfig>) -> io::Result<TlsStream<TcpStream>> {
        self.turn(heard.name.as_deref().unwrap_or_default()).await;
        // All of this end's computing is done when this is polled for the first time.
        heard.hello.into_stream(config).await
    }

    async fn turn(&self, name: &str) {
        let (begin, began) = oneshot::channel();
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).add(name, begin);
        self.more.notify_one();
        // An error means that turns are no longer given: the server ends.
        let _ = began.await;
    }

    fn next(&self) -> Option<oneshot::Sender<()>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).next()
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

    use super::super::credentials::Token;
    use super::*;

    fn handshakes() -> Handshakes {
        let folder = tempfile::tempdir().unwrap();
        Handshakes::new(HostNames::new(&Token::open(&folder.path().join("token")).unwrap()))
    }

    /// Who is served in which order, of connections that ask for these names and of which the first is given up; and how
    /// many were served after each pause.
    fn served(names: &[&str]) -> (Vec<usize>, Vec<usize>) {
        let handshakes = handshakes();
        let order = Mutex::new(Vec::new());
        let waits = |(number, name): (usize, &&str)| {
            let (handshakes, order, name) = (&handshakes, &order, (*name).to_owned());
            async move {
                handshakes.turn(&name).await;
                order.lock().unwrap().push(number);
            }
            .boxed()
            .fuse()
        };
        let mut waiting: Vec<_> = names.iter().enumerate().map(waits).collect();
        for one in &mut waiting {
            assert!(one.now_or_never().is_none(), "nobody gives turns yet");
        }
        drop(waiting.remove(0));
        let mut run = handshakes.run().boxed();
        let mut after = Vec::new();
        while order.lock().unwrap().len() < names.len() - 1 {
            let _ = (&mut run).now_or_never();
            for one in &mut waiting {
                let _ = one.now_or_never();
            }
            after.push(order.lock().unwrap().len());
        }
        drop(run);
        drop(waiting);
        (order.into_inner().unwrap(), after)
    }

    #[test]
    fn a_few_at_a_time_and_none_for_who_gave_up() {
        let (order, after) = served(&[""; AT_ONCE + 3]);
        assert_eq!(after, [AT_ONCE, AT_ONCE + 2], "others have their turn in between");
        assert_eq!(order, (1..AT_ONCE + 3).collect::<Vec<_>>());
    }

    #[test]
    fn one_cluster_does_not_wait_for_all_connections_of_another() {
        let mut names = vec!["flood"; 100];
        names.extend(["quiet", "flood", "quiet"]);
        let (order, after) = served(&names);
        let place = |number: usize| order.iter().position(|one| *one == number).unwrap();
        assert!(place(100) < AT_ONCE && place(102) < AT_ONCE, "{order:?}");
        assert_eq!(after[0], AT_ONCE);
        assert!(place(1) < place(2) && place(99) < place(101), "those of one cluster in the order in which they came");
    }
}
