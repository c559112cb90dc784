//! A connection that changes from HTTP to a WebSocket, as the server that has the connection gives it to a request.

use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::future::BoxFuture;
use tokio::io::{AsyncRead, AsyncWrite};

/// The bytes of a connection, once it has changed.
pub(super) type Upgraded = Box<dyn Stream>;

/// What a connection is: bytes in both directions.
pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

/// The connection of a request, for when it has changed to another protocol. A server puts one into the extensions of a request
/// whose connection can change; requests without one are refused where they need it.
#[derive(Clone)]
pub struct Upgrade(Arc<Mutex<Option<BoxFuture<'static, io::Result<Upgraded>>>>>);

impl Upgrade {
    /// The connection that `changed` gives after the answer 101.
    pub fn new<S: Stream + 'static>(changed: impl Future<Output = io::Result<S>> + Send + 'static) -> Self {
        let changed = async move { changed.await.map(|stream| Box::new(stream) as Upgraded) };
        Self(Arc::new(Mutex::new(Some(Box::pin(changed)))))
    }

    /// The connection, if it changes within this time and nothing else has taken it.
    pub(super) async fn within(self, patience: Duration) -> Option<Upgraded> {
        let changed = self.0.lock().unwrap_or_else(PoisonError::into_inner).take()?;
        tokio::time::timeout(patience, changed).await.ok()?.ok()
    }
}

impl fmt::Debug for Upgrade {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Upgrade")
    }
}
