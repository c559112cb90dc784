//! Bodies of responses: whole, a list pieced together from stored objects, or an endless watch.

use std::any::Any;
use std::convert::Infallible;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::{BufMut, Bytes, BytesMut};
use futures::Stream;
use http_body::{Frame, SizeHint};
use klab_api_machinery::object::Object;

/// About how much of a list is copied together at a time.
const CHUNK: usize = 256 * 1024;

/// Body of a response.
pub struct Body {
    kind: Kind,
    /// What lives as long as the body, and as what it has given of itself.
    held: Option<Arc<dyn Any + Send + Sync>>,
}

enum Kind {
    Whole(Option<Bytes>),
    List(List),
    Stream(Pin<Box<dyn Stream<Item = Bytes> + Send>>),
}

struct List {
    head: Option<Bytes>,
    items: std::vec::IntoIter<Arc<Object>>,
    tail: Option<Bytes>,
    first: bool,
    left: u64,
}

impl Body {
    /// A body that is all there.
    pub fn whole(bytes: impl Into<Bytes>) -> Self {
        Self::of(Kind::Whole(Some(bytes.into())))
    }

    /// `head`, the objects without their types and with commas between, `tail`. Objects are copied when they are sent.
    pub(super) fn list(head: String, items: Vec<Arc<Object>>, tail: &'static str) -> Self {
        let objects: usize = items.iter().map(|object| object.size_without_type()).sum();
        let left = (head.len() + objects + items.len().saturating_sub(1) + tail.len()) as u64;
        Self::of(Kind::List(List {
            head: Some(head.into()),
            items: items.into_iter(),
            tail: Some(Bytes::from_static(tail.as_bytes())),
            first: true,
            left,
        }))
    }

    pub(super) fn stream(stream: impl Stream<Item = Bytes> + Send + 'static) -> Self {
        Self::of(Kind::Stream(Box::pin(stream)))
    }

    /// The bytes of a body that has an end.
    ///
    /// # Errors
    /// The body, if it has none.
    pub(crate) fn into_text(self) -> Result<Bytes, Box<Self>> {
        match self.kind {
            Kind::Whole(bytes) => Ok(bytes.unwrap_or_default()),
            Kind::List(mut list) => {
                let mut text = BytesMut::new();
                while let Some(chunk) = list.next() {
                    text.put(chunk);
                }
                Ok(text.freeze())
            }
            Kind::Stream(_) => Err(Box::new(self)),
        }
    }

    fn of(kind: Kind) -> Self {
        Self { kind, held: None }
    }

    /// Whether it goes on for as long as somebody reads it.
    pub fn is_watch(&self) -> bool {
        matches!(self.kind, Kind::Stream(_))
    }

    /// Keeps something for as long as the body lives, and until what it has given of itself is sent.
    pub fn holding(self, what: impl Any + Send + Sync) -> Self {
        Self { held: Some(Arc::new((self.held, what))), ..self }
    }
}

/// Bytes that keep something until they are sent: a connection whose other end reads nothing has them for long.
pub fn keeping(bytes: Bytes, held: Arc<dyn Any + Send + Sync>) -> Bytes {
    struct Keeping(Bytes, #[expect(dead_code, reason = "it is only kept")] Arc<dyn Any + Send + Sync>);
    impl AsRef<[u8]> for Keeping {
        fn as_ref(&self) -> &[u8] {
            &self.0
        }
    }
    Bytes::from_owner(Keeping(bytes, held))
}

impl List {
    fn next(&mut self) -> Option<Bytes> {
        let mut chunk = BytesMut::new();
        if let Some(head) = self.head.take() {
            chunk.put(head);
        }
        while chunk.len() < CHUNK {
            let Some(object) = self.items.next() else {
                if let Some(tail) = self.tail.take() {
                    chunk.put(tail);
                }
                break;
            };
            chunk.reserve(object.size_without_type() + 1);
            if !std::mem::take(&mut self.first) {
                chunk.put_u8(b',');
            }
            object.write_without_type(&mut chunk);
        }
        self.left -= (chunk.len() as u64).min(self.left);
        (!chunk.is_empty()).then(|| chunk.freeze())
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let body = self.get_mut();
        let bytes = match &mut body.kind {
            Kind::Whole(bytes) => bytes.take(),
            Kind::List(list) => list.next(),
            Kind::Stream(stream) => {
                let bytes = std::task::ready!(stream.as_mut().poll_next(context));
                return Poll::Ready(bytes.map(|bytes| Ok(Frame::data(bytes))));
            }
        };
        let kept = |bytes| match &body.held {
            Some(held) => keeping(bytes, Arc::clone(held)),
            None => bytes,
        };
        Poll::Ready(bytes.map(|bytes| Ok(Frame::data(kept(bytes)))))
    }

    fn is_end_stream(&self) -> bool {
        match &self.kind {
            Kind::Whole(bytes) => bytes.as_ref().is_none_or(Bytes::is_empty),
            Kind::List(list) => list.left == 0,
            Kind::Stream(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.kind {
            Kind::Whole(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, Bytes::len) as u64),
            Kind::List(list) => SizeHint::with_exact(list.left),
            Kind::Stream(_) => SizeHint::default(),
        }
    }
}

impl fmt::Debug for Body {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match &self.kind {
            Kind::Whole(_) => "Body::Whole",
            Kind::List(_) => "Body::List",
            Kind::Stream(_) => "Body::Stream",
        })
    }
}

impl Default for Body {
    fn default() -> Self {
        Self::of(Kind::Whole(None))
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt as _;

    use super::*;

    #[tokio::test]
    async fn what_a_body_holds_is_held_until_its_bytes_are_sent() {
        let held = Arc::new(());
        let mut body = Body::whole("text").holding(Arc::clone(&held)).holding(());
        let sent = body.frame().await.unwrap().unwrap().into_data().unwrap();
        drop(body);
        assert_eq!((&*sent, Arc::strong_count(&held)), (&b"text"[..], 2));
        drop(sent.slice(1..));
        drop(sent);
        assert_eq!(Arc::strong_count(&held), 1);
    }
}
