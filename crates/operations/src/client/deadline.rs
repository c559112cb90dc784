//! The deadline of every request: a cluster that hangs never hangs klab, and the person learns what does not answer.

use std::error::Error as StdError;
use std::pin::Pin;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use http::{Request, Response, Uri};
use http_body::{Body, Frame, SizeHint};
use tokio::time::Sleep;
use tower::{BoxError, Service};

use crate::error::Error;
use klab_lab::words::duration;

/// Time without an answer after which klab says that it waits, and for what.
const SILENCE: Duration = Duration::from_secs(5);
/// Longest pause in a watch: watches end by themselves after a little less.
const WATCH: Duration = Duration::from_secs(330);

/// Something that did not answer in time.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{who} has not answered for {}", duration(*.after))]
pub struct NoAnswer {
    /// `the embedded cluster's server (127.0.0.1:6443)`
    pub who: String,
    /// Whether it is klab's own server, which klab can end and start again.
    pub own: bool,
    /// How long it was waited for.
    pub after: Duration,
}

impl NoAnswer {
    /// klab's own server, by its address or process.
    pub fn of_server(which: &str, after: Duration) -> Self {
        Self { who: format!("the embedded cluster's server ({which})"), own: true, after }
    }

    /// The API at a URL.
    pub(super) fn of(url: &Uri, own: bool, after: Duration) -> Self {
        let authority = url.authority().map_or("", http::uri::Authority::as_str);
        if own {
            return Self::of_server(authority, after);
        }
        Self { who: format!("the cluster's API server ({authority})"), own, after }
    }

    /// What did not answer, if that is why something failed.
    pub fn in_error(error: &Error) -> Option<&Self> {
        find(&error.source)
    }
}

/// The first error of a type in a chain; klab's own errors hide the chains within them.
pub(super) fn find<T: StdError + 'static>(error: &anyhow::Error) -> Option<&T> {
    error.chain().find_map(|cause| {
        cause.downcast_ref::<T>().or_else(|| cause.downcast_ref::<Error>().and_then(|error| find(&error.source)))
    })
}

static TELL: OnceLock<Box<dyn Fn(String) + Send + Sync>> = OnceLock::new();

/// Names the listener, called once when something has been silent for some seconds while klab goes on waiting.
pub fn tell_of_silence(tell: impl Fn(String) + Send + Sync + 'static) {
    // A second one in this process hears nothing; the first one does.
    let _ = TELL.set(Box::new(tell));
}

/// Reports that something is silent, unless it has reported that already.
fn tell(silent: &NoAnswer, patience: Duration) {
    static TOLD: AtomicBool = AtomicBool::new(false);
    if let Some(tell) = TELL.get()
        && !TOLD.swap(true, Ordering::Relaxed)
    {
        tell(format!("{silent}; klab waits up to {}", duration(patience)));
    }
}

/// Waits for something that may not come, and reports a long wait.
///
/// # Errors
/// When it has not come after `patience`.
async fn waited_for<T>(
    who: impl Fn(Duration) -> NoAnswer,
    patience: Duration,
    future: impl Future<Output = T>,
) -> Result<T, NoAnswer> {
    let mut future = std::pin::pin!(future);
    if let Ok(done) = tokio::time::timeout(patience.min(SILENCE), future.as_mut()).await {
        return Ok(done);
    }
    if let Some(left) = patience.checked_sub(SILENCE).filter(|left| !left.is_zero()) {
        tell(&who(SILENCE), patience);
        if let Ok(done) = tokio::time::timeout(left, future).await {
            return Ok(done);
        }
    }
    Err(who(patience))
}

/// Puts deadlines on what a service answers.
#[derive(Clone)]
pub(super) struct Deadlines<S> {
    pub(super) inner: S,
    /// Whether the service is klab's own server.
    pub(super) own: bool,
    /// Where the cluster is.
    pub(super) url: Uri,
    /// Until the head of an answer is there, with connecting and TLS; and between two pieces of its body.
    pub(super) answer: Duration,
}

impl<S, Sent, Received> Service<Request<Sent>> for Deadlines<S>
where
    S: Service<Request<Sent>, Response = Response<Received>>,
    S::Future: Send + 'static,
    S::Error: Into<BoxError>,
    Received: Body<Data = Bytes> + Send + Unpin + 'static,
    Received::Error: Into<BoxError>,
{
    type Response = Response<Timely<Received>>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, request: Request<Sent>) -> Self::Future {
        let (own, url, answer) = (self.own, self.url.clone(), self.answer);
        let between = if is_watch(request.uri()) { WATCH } else { answer };
        let answered = self.inner.call(request);
        Box::pin(async move {
            let who = |after| NoAnswer::of(&url, own, after);
            let response = waited_for(who, answer, answered).await?.map_err(Into::into)?;
            let silent = who(between);
            Ok(response.map(|body| Timely { body, between, silent, pause: None }))
        })
    }
}

fn is_watch(uri: &Uri) -> bool {
    let query = form_urlencoded::parse(uri.query().unwrap_or_default().as_bytes());
    query.into_iter().any(|(name, value)| name == "watch" && matches!(&*value, "1" | "true"))
}

/// A body whose pieces come in time.
pub(super) struct Timely<B> {
    body: B,
    between: Duration,
    silent: NoAnswer,
    /// Runs while a piece is waited for.
    pause: Option<Pin<Box<Sleep>>>,
}

impl<B> Body for Timely<B>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Into<BoxError>,
{
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let this = &mut *self;
        if let Poll::Ready(frame) = Pin::new(&mut this.body).poll_frame(context) {
            this.pause = None;
            return Poll::Ready(frame.map(|frame| frame.map_err(Into::into)));
        }
        let pause = this.pause.get_or_insert_with(|| Box::pin(tokio::time::sleep(this.between)));
        match pause.as_mut().poll(context) {
            Poll::Ready(()) => Poll::Ready(Some(Err(this.silent.clone().into()))),
            Poll::Pending => Poll::Pending,
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::{BodyExt, Empty, StreamBody};

    use super::*;

    const ANSWER: Duration = Duration::from_secs(15);

    /// A service whose heads take `head`, and whose bodies send a piece and then fall silent.
    async fn ask(path: &str, head: Duration) -> Result<Bytes, BoxError> {
        let inner = tower::service_fn(move |_: Request<Empty<Bytes>>| async move {
            tokio::time::sleep(head).await;
            let piece = futures::stream::iter([Ok::<_, BoxError>(Frame::data(Bytes::from_static(b"piece")))]);
            let silence = futures::stream::pending();
            let body = StreamBody::new(futures::StreamExt::chain(piece, silence));
            Ok::<_, BoxError>(Response::new(body))
        });
        let url = Uri::from_static("https://127.0.0.1:6443/clusters/a");
        let mut service = Deadlines { inner, own: true, url, answer: ANSWER };
        let request = Request::get(path).body(Empty::new()).unwrap();
        Ok(service.call(request).await?.into_body().collect().await?.to_bytes())
    }

    async fn silence(path: &str, head: Duration) -> (String, Duration) {
        let started = tokio::time::Instant::now();
        let error = ask(path, head).await.unwrap_err();
        (error.downcast::<NoAnswer>().unwrap().who, started.elapsed())
    }

    #[tokio::test(start_paused = true)]
    async fn a_head_a_body_and_a_watch_have_deadlines_of_their_own() {
        let soon = Duration::from_secs(1);
        let who = "the embedded cluster's server (127.0.0.1:6443)".to_owned();
        for (path, head, waited) in [
            ("/api/v1/pods", Duration::MAX, ANSWER),
            ("/api/v1/pods?watch=true", Duration::MAX, ANSWER),
            ("/api/v1/pods?limit=500", soon, soon + ANSWER),
            ("/api/v1/pods?limit=500&watch=1", soon, soon + WATCH),
        ] {
            let (named, took) = silence(path, head).await;
            assert_eq!(named, who, "{path}");
            // Timers are as fine as milliseconds.
            assert!(took >= waited && took < waited + Duration::from_millis(20), "{path}: {took:?}");
        }
    }

    #[test]
    fn silence_is_found_in_whatever_wraps_it() {
        use crate::error::{Code, Context as _};
        let silent = NoAnswer::of_server("127.0.0.1:1", ANSWER);
        let error = Error::new(Code::NoAnswer, anyhow::Error::new(silent.clone()).context("could not read"));
        let wrapped = Err::<(), _>(error).code(Code::KlabFault, || "could not continue".to_owned()).unwrap_err();
        assert_eq!(NoAnswer::in_error(&wrapped), Some(&silent));
        let words =
            "could not continue: could not read: the embedded cluster's server (127.0.0.1:1) has not answered for 15 s";
        assert!(wrapped.to_string().starts_with(words), "{wrapped}");
    }
}
