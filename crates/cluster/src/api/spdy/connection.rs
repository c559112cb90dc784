//! A command's streams by SPDY, on a connection that was upgraded.

use std::time::Duration;

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::timeout;

use super::super::carried::{Channel, Heard};
use super::frame::next;
use super::session::Session;

/// So long a client may take to make its streams.
// upstream: pkg/kubelet/server/server.go, k8s.io/kubelet DefaultStreamCreationTimeout (v1.36)
const ARRIVAL: Duration = Duration::from_secs(30);
/// So long it is tried to say that the other end does not speak as it should.
const PARTING: Duration = Duration::from_secs(1);
/// So many bytes are in a frame at most.
const MAX_DATA: usize = 32 * 1024;
/// So much is asked for at once.
const MAX_READ: usize = 16 * 1024;

/// A connection with a command's streams.
pub(in super::super) struct Connection<S> {
    socket: S,
    session: Session,
    /// What has come and is not yet a frame.
    come: BytesMut,
    /// Whether something may lie in the socket that is not on its way.
    unflushed: bool,
    /// Whether nothing more is to be expected.
    gone: bool,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Connection<S> {
    /// Waits for the streams that are wanted; none where they do not come.
    pub(in super::super) async fn accept(socket: S, wanted: Vec<Channel>) -> Option<Self> {
        let session = Session::new(wanted);
        let mut own = Self { socket, session, come: BytesMut::new(), unflushed: false, gone: false };
        timeout(ARRIVAL, async {
            while !own.session.is_complete() && !own.gone {
                own.step().await;
            }
            own.flush().await
        })
        .await
        .ok()??;
        own.session.is_complete().then_some(own)
    }

    /// Takes what comes next, after what is to be said. Where nobody waits for it any longer, nothing is lost.
    async fn step(&mut self) {
        if self.flush().await.is_none() {
            self.gone = true;
            return;
        }
        let taken = match next(&mut self.come) {
            Ok(Some(frame)) => self.session.take(frame),
            Ok(None) => {
                self.come.reserve(MAX_READ);
                // What is read belongs to a frame that is not too long, as `next` has seen.
                match self.socket.read_buf(&mut self.come).await {
                    Ok(0) | Err(_) => self.gone = true,
                    Ok(_) => {}
                }
                return;
            }
            Err(malformed) => Err(malformed),
        };
        if taken.is_err() {
            self.gone = true;
            self.session.give_up();
            let _ = timeout(PARTING, self.flush()).await;
        }
    }

    async fn flush(&mut self) -> Option<()> {
        while self.session.out.has_remaining() {
            self.unflushed = true;
            let written = self.socket.write_buf(&mut self.session.out).await.ok()?;
            (written > 0).then_some(())?;
        }
        if self.unflushed {
            self.socket.flush().await.ok()?;
            self.unflushed = false;
        }
        Some(())
    }

    pub(in super::super) async fn send(&mut self, channel: Channel, text: &[u8]) -> Option<()> {
        for part in text.chunks(MAX_DATA) {
            self.session.say(channel, part);
            self.flush().await?;
        }
        (!self.gone).then_some(())
    }

    pub(in super::super) async fn hear(&mut self) -> Heard {
        loop {
            if let Some(heard) = self.session.heard() {
                return heard;
            }
            if self.gone {
                return Heard::Gone;
            }
            self.step().await;
        }
    }

    /// Says that nothing more comes.
    pub(in super::super) async fn close(&mut self) {
        self.session.finish();
        let _ = self.flush().await;
    }
}
