//! Requests to webhooks: what is asked, and who carries it there.
//!
//! The cluster itself opens no connection. Who makes it gives it a [`Transport`]: the server one that speaks HTTPS, a test
//! a closure.

use std::fmt;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::Duration;

use bytes::Bytes;
use serde_json::Value;

/// A request to a webhook: `POST` of JSON.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// `https://hook.shop.svc:443/validate?timeout=10s`
    pub url: String,
    /// Where to connect to, where the URL's host is a Service of the cluster: `192.0.2.7:8443`.
    pub address: Option<String>,
    /// The name that the certificate must have.
    pub server_name: String,
    /// Certificate authorities in PEM; without any, those the machine trusts.
    pub authorities: Bytes,
    /// How long an answer may take.
    pub timeout: Duration,
    /// The JSON that is sent.
    pub body: Bytes,
}

impl Call {
    /// The body as JSON: an `AdmissionReview`, for admission webhooks.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }
}

/// Why a webhook gave no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// No answer came.
    #[error("{0}")]
    Unreachable(String),
    /// The answer is none that can be read: another code than 200, too long.
    #[error("{0}")]
    Unreadable(String),
}

/// An answer that is waited for.
pub type Pending<'a> = Pin<Box<dyn Future<Output = Result<Bytes, CallError>> + Send + 'a>>;

/// Who carries calls to webhooks. It keeps their timeouts. Closures from a call to JSON are transports, too.
pub trait Transport: Send + Sync {
    /// Sends a call; the body of the answer.
    fn send<'a>(&'a self, call: &'a Call) -> Pending<'a>;
}

impl<F> Transport for F
where
    F: Fn(&Call) -> Result<Value, CallError> + Send + Sync,
{
    fn send<'a>(&'a self, call: &'a Call) -> Pending<'a> {
        let answer = self(call).map(|value| Bytes::from(value.to_string()));
        Box::pin(std::future::ready(answer))
    }
}

impl fmt::Debug for dyn Transport + '_ {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Transport")
    }
}

/// For clusters that were given no way out.
pub(crate) struct NoWay;

impl Transport for NoWay {
    fn send<'a>(&'a self, _: &'a Call) -> Pending<'a> {
        let because = "this cluster calls no webhooks: nothing was given that carries the call";
        Box::pin(std::future::ready(Err(CallError::Unreachable(because.to_owned()))))
    }
}

/// Waits for a future in this thread.
pub(crate) fn wait_for<T>(future: impl Future<Output = T>) -> T {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut context = Context::from_waker(&waker);
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(value) => return value,
            Poll::Pending => std::thread::park(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_waits_until_a_future_is_ready() {
        let (sender, receiver) = tokio::sync::oneshot::channel();
        let other = std::thread::spawn(move || sender.send(7));
        assert_eq!(wait_for(receiver), Ok(7));
        assert!(other.join().is_ok_and(|sent| sent.is_ok()));
    }
}
