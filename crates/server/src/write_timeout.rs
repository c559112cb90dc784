//! A connection that shares its thread and its patience: it writes a bounded amount at a time, and a peer that takes nothing
//! for too long is cut off.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};

/// Bytes that a connection writes before other connections of the thread have their turn. On a fast network a peer takes
/// megabytes at once, and hundreds of peers that do would keep the next request waiting for a second.
const MAX_TURN: usize = 64 * 1024;

/// A stream that gives up when nothing of a write was taken for a while.
pub(super) struct WriteTimeout<S> {
    stream: S,
    patience: Duration,
    /// Bytes written in this turn.
    written: usize,
    /// Runs out while a write waits.
    until: Option<Pin<Box<Sleep>>>,
    /// Ends when the other end has nothing more to say here, though it may have become something else than HTTP.
    ended: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

impl<S> WriteTimeout<S> {
    pub(super) fn new(stream: S, patience: Duration, ended: impl Future<Output = ()> + Send + 'static) -> Self {
        Self { stream, patience, written: 0, until: None, ended: Some(Box::pin(ended)) }
    }

    /// What a write came to, if its time is not over.
    fn within<T>(&mut self, context: &mut Context<'_>, outcome: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if outcome.is_ready() {
            self.until = None;
            return outcome;
        }
        let patience = self.patience;
        let until = self.until.get_or_insert_with(|| Box::pin(sleep(patience)));
        ready!(until.as_mut().poll(context));
        // The next attempt is refused as well.
        until.as_mut().reset(Instant::now());
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the other end takes nothing")))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for WriteTimeout<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if let Some(ended) = &mut self.ended
            && ended.as_mut().poll(context).is_ready()
        {
            self.ended = None;
        }
        if self.ended.is_none() {
            return Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()));
        }
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for WriteTimeout<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        if self.written >= MAX_TURN {
            self.written = 0;
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        let part = &bytes[..bytes.len().min(MAX_TURN)];
        let outcome = Pin::new(&mut self.stream).poll_write(context, part);
        match &outcome {
            Poll::Ready(Ok(taken)) => self.written = self.written.saturating_add(*taken),
            _ => self.written = 0,
        }
        self.within(context, outcome)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let outcome = Pin::new(&mut self.stream).poll_flush(context);
        self.within(context, outcome)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let outcome = Pin::new(&mut self.stream).poll_shutdown(context);
        self.within(context, outcome)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn who_takes_nothing_is_cut_off_and_who_is_slow_is_not() {
        let (patience, (near, _far)) = (Duration::from_secs(10), duplex(4));
        let mut patient = WriteTimeout::new(near, patience, std::future::pending());
        let began = Instant::now();
        let error = patient.write_all(&[0; 5]).await.unwrap_err();
        assert_eq!((error.kind(), began.elapsed()), (io::ErrorKind::TimedOut, patience));

        let (near, mut far) = duplex(4);
        let mut patient = WriteTimeout::new(near, patience, std::future::pending());
        let slow = async {
            for _ in 0..9 {
                tokio::time::sleep(Duration::from_secs(9)).await;
                far.read_exact(&mut [0; 1]).await.unwrap();
            }
        };
        let (written, ()) = tokio::join!(patient.write_all(&[0; 4 + 9]), slow);
        written.unwrap();
    }

    #[tokio::test]
    async fn a_large_answer_lets_others_have_their_turn() {
        let size = 16 * MAX_TURN;
        let (near, _far) = duplex(size);
        let mut patient = WriteTimeout::new(near, Duration::from_secs(10), std::future::pending());
        let (is_written, turns) = (Cell::new(false), Cell::new(0));
        let writing = async {
            patient.write_all(&vec![0; size]).await.unwrap();
            is_written.set(true);
        };
        let others = async {
            while !is_written.get() {
                turns.set(turns.get() + 1);
                tokio::task::yield_now().await;
            }
        };
        tokio::join!(writing, others);
        assert!(turns.get() >= size / MAX_TURN - 1, "{}", turns.get());
    }

    #[tokio::test(start_paused = true)]
    async fn who_waits_for_words_of_one_who_is_sent_away_waits_no_longer() {
        let (near, _far) = duplex(4);
        let mut patient = WriteTimeout::new(near, Duration::from_secs(10), sleep(Duration::from_secs(3)));
        let error = patient.read(&mut [0; 1]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionAborted);
        assert!(patient.read(&mut [0; 1]).await.is_err());
    }
}
