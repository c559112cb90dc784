//! watch: a stream that follows the store's history.
//!
//! A watcher holds a place in the history, not a queue: it takes what is new when its connection can take more. A slow
//! one costs nothing and delays no other; one that falls behind the whole history ends with 410.

use std::sync::Arc;
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use http::Response;
use klab_api_machinery::object::Object;
use klab_api_machinery::protobuf;
use klab_api_machinery::resource::ResourceId;
use klab_api_machinery::status::Status;
use klab_api_machinery::table::Included;
use serde_json::json;
use tokio::time::{Instant, sleep_until};

use super::super::cluster::Cluster;
use super::super::store::{Change, Event};
use super::call::{Call, Target};
use super::negotiate::{self, Form};
use super::present::partial;
use super::read::{invalid_list_options, too_large, version};
use super::table::table;
use super::{answer, versions};
use crate::body::Body;
use klab_api_machinery::selector::Selector;

/// Without `timeoutSeconds`.
const MAX_LIFETIME: Duration = Duration::from_mins(50);

/// With it: an instant much later could not even be written down.
const MAX_TIMEOUT: Duration = Duration::from_hours(24);

/// Between bookmarks: less than the 30 s after which some proxies take a silent connection for dead.
const BOOKMARKS: Duration = Duration::from_secs(25);

/// After a frame the next one waits this long, so that a burst of changes becomes few frames instead of one each.
const GATHER: Duration = Duration::from_millis(5);

/// This many watches of a cluster wait that long; each further number of them as long again, as every change wakes them all.
const WATCHES: usize = 200;

/// No watch waits longer.
const MAX_GATHER: Duration = Duration::from_millis(25);

/// About how much goes into one frame.
const FRAME: usize = 256 * 1024;

/// At most this many changes are looked at for one frame.
const AT_ONCE: usize = 2_000;

/// As many at most that a webhook has to convert.
const CONVERTED: usize = 200;

impl Call<'_> {
    pub(super) fn watch(&self, target: &Target) -> Result<Response<Body>, Status> {
        let form = self.form()?;
        let included = self.included()?;
        let mut selector = self.selector(target)?;
        if let Some(name) = &target.name {
            selector = selector.and_name(name);
        }
        let wanted = version(&self.query)?;
        let initial = self.query.get("sendInitialEvents").map(|_| self.query.flag("sendInitialEvents"));
        let matching = self.query.get("resourceVersionMatch");
        let bookmarks = self.query.flag("allowWatchBookmarks");
        match (initial, matching) {
            (Some(_), Some("NotOlderThan")) if bookmarks || initial == Some(false) => {}
            (Some(_), Some("NotOlderThan")) => {
                return Err(invalid_list_options(
                    "allowWatchBookmarks",
                    "FieldValueForbidden",
                    "Forbidden: sendInitialEvents requires setting allowWatchBookmarks to true",
                ));
            }
            (Some(_), _) => {
                return Err(invalid_list_options(
                    "resourceVersionMatch",
                    "FieldValueForbidden",
                    "Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
                ));
            }
            (None, Some(_)) => {
                return Err(invalid_list_options(
                    "resourceVersionMatch",
                    "FieldValueForbidden",
                    "Forbidden: resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
                ));
            }
            (None, None) => {}
        }
        let seconds = self.query.number("timeoutSeconds")?.and_then(|seconds| u64::try_from(seconds).ok());
        let timeout = seconds.filter(|seconds| *seconds > 0).map_or(MAX_LIFETIME, Duration::from_secs).min(MAX_TIMEOUT);

        let cluster = Arc::clone(self.cluster());
        // Subscribed before the state is read: a change between the two wakes the watch.
        let changes = cluster.changes();
        let synthetic = initial.unwrap_or(wanted.unwrap_or(0) == 0);
        let (existing, seen) = if synthetic {
            cluster.list(target.stored(), target.namespace.as_deref())
        } else {
            (Vec::new(), wanted.unwrap_or_else(|| cluster.version()))
        };
        let current = if synthetic { seen } else { cluster.version() };
        if let Some(wanted) = wanted
            && wanted > current
        {
            return Err(too_large(wanted, current));
        }
        let now = Instant::now();
        let watch = Watch {
            cluster,
            changes,
            resource: target.resource,
            stored: target.stored().family(),
            namespace: target.namespace.clone(),
            selector,
            form,
            included,
            columns_sent: false,
            existing: existing.into_iter(),
            announce: initial == Some(true),
            seen,
            bookmarks,
            next_bookmark: after(now, BOOKMARKS),
            earliest: now,
            deadline: after(now, timeout),
            ended: false,
        };
        let known = protobuf::is_known(&watch.resource.row().api_version(), watch.resource.row().kind);
        if form == Form::Protobuf && !known {
            return Err(negotiate::not_acceptable());
        }
        let stream = Body::stream(futures::stream::unfold(watch, Watch::next));
        Ok(match form {
            Form::Protobuf | Form::ProtobufMetadata => answer::protobuf_stream(stream),
            _ => answer::json_body(200, stream),
        })
    }
}

struct Watch {
    cluster: Arc<Cluster>,
    changes: tokio::sync::watch::Receiver<u64>,
    resource: ResourceId,
    /// The kind whose changes it follows, whichever versions they are in.
    stored: ResourceId,
    namespace: Option<String>,
    selector: Selector,
    form: Form,
    included: Included,
    /// Tables: column definitions come with the first event only.
    columns_sent: bool,
    /// Objects still to be announced as added.
    existing: std::vec::IntoIter<Arc<Object>>,
    /// Whether the end of `existing` is marked by a bookmark.
    announce: bool,
    /// Everything up to this version has been sent.
    seen: u64,
    bookmarks: bool,
    next_bookmark: Instant,
    /// Before this instant no frame of changes is sent.
    earliest: Instant,
    deadline: Instant,
    ended: bool,
}

/// How long a watch waits after a frame, by the number of watches.
fn gather(watches: usize) -> Duration {
    let times = u32::try_from(watches / WATCHES).unwrap_or(u32::MAX).saturating_add(1);
    GATHER.saturating_mul(times).min(MAX_GATHER)
}

/// `by` after an instant.
fn after(instant: Instant, by: Duration) -> Instant {
    Instant::from_std(crate::deadline::after(instant.into_std(), by))
}

impl Watch {
    async fn next(mut self) -> Option<(Bytes, Self)> {
        if self.ended {
            return None;
        }
        self.cluster.at_leisure().await;
        let initial = if self.converts() { self.initial_converted().await } else { self.initial() };
        if let Some(frame) = initial {
            return Some((frame, self));
        }
        loop {
            if self.earliest > Instant::now() && self.earliest < self.deadline {
                sleep_until(self.earliest).await;
            }
            self.cluster.at_leisure().await;
            self.changes.mark_unchanged();
            let frame = if self.converts() { self.converted_changes().await } else { self.new_changes() };
            if self.ended {
                return Some((frame, self));
            }
            if !frame.is_empty() {
                self.earliest = after(Instant::now(), gather(self.cluster.watchers()));
                return Some((frame, self));
            }
            if self.seen < self.cluster.version() {
                // Many changes that are not for this watch; others have their turn before the next ones.
                tokio::task::yield_now().await;
                continue;
            }
            let bookmark = if self.bookmarks { self.next_bookmark.min(self.deadline) } else { self.deadline };
            tokio::select! {
                changed = self.changes.changed() => {
                    if changed.is_err() {
                        return None;
                    }
                }
                () = sleep_until(bookmark) => {
                    self.next_bookmark = after(Instant::now(), BOOKMARKS);
                    self.ended = Instant::now() >= self.deadline;
                    if !self.bookmarks {
                        return None;
                    }
                    let mark = self.bookmark(false);
                    return Some((mark, self));
                }
            }
        }
    }

    /// What was there when the watch began, piece by piece, and the bookmark that ends it.
    fn initial(&mut self) -> Option<Bytes> {
        let mut frame = BytesMut::new();
        while frame.len() < FRAME {
            let Some(object) = self.existing.next() else {
                if std::mem::take(&mut self.announce) {
                    frame.put(self.bookmark(true));
                }
                break;
            };
            if self.selector.matches(&object) {
                self.write(&mut frame, "ADDED", &object);
            }
        }
        (!frame.is_empty()).then(|| frame.freeze())
    }

    /// What changed since the last frame.
    fn new_changes(&mut self) -> Bytes {
        let Ok((events, reached)) = self.cluster.since_at_most(self.seen, AT_ONCE) else {
            return self.gone();
        };
        let mut frame = BytesMut::new();
        for event in events {
            if frame.len() >= FRAME {
                return frame.freeze();
            }
            self.seen = event.version;
            if let Some(kind) = self.kind_of(&event) {
                self.write(&mut frame, kind, &event.object);
            }
        }
        self.seen = self.seen.max(reached);
        frame.freeze()
    }

    /// The end of a watch that lies too far behind.
    fn gone(&mut self) -> Bytes {
        let message = format!("too old resource version: {} ({})", self.seen, self.cluster.version());
        self.broken(&Status::new(410, "Expired", message))
    }

    /// The end of a watch that cannot go on.
    fn broken(&mut self, status: &Status) -> Bytes {
        self.ended = true;
        if matches!(self.form, Form::Protobuf | Form::ProtobufMetadata) {
            let object = protobuf::encode(&status.to_value()).unwrap_or_default();
            return Bytes::from(protobuf::encode_event("ERROR", &object));
        }
        Bytes::from(format!("{{\"type\":\"ERROR\",\"object\":{}}}\n", status.to_value()))
    }

    /// Whether a webhook is asked for the version that is watched.
    fn converts(&self) -> bool {
        self.cluster.converts(self.resource)
    }

    /// The end of a watch whose objects cannot be converted.
    // upstream: staging/src/k8s.io/apiserver/pkg/storage/etcd3/watcher.go parseError (v1.36)
    fn unconverted(&mut self, status: &Status) -> Bytes {
        let message = format!("Internal error occurred: {}", status.message);
        self.broken(&Status::new(500, "InternalError", message))
    }

    /// [`Watch::initial`], of objects that a webhook converts. No other request waits for it.
    async fn initial_converted(&mut self) -> Option<Bytes> {
        loop {
            let some: Vec<_> = self.existing.by_ref().take(CONVERTED).collect();
            if some.is_empty() {
                return std::mem::take(&mut self.announce).then(|| self.bookmark(true));
            }
            let objects = match self.cluster.in_version_asking(self.resource, some).await {
                Ok(objects) => objects,
                Err(status) => return Some(self.unconverted(&status)),
            };
            let mut frame = BytesMut::new();
            for object in objects.iter().filter(|object| self.selector.matches(object)).cloned().collect::<Vec<_>>() {
                self.write(&mut frame, "ADDED", &object);
            }
            if !frame.is_empty() {
                return Some(frame.freeze());
            }
        }
    }

    /// [`Watch::new_changes`], of objects that a webhook converts.
    async fn converted_changes(&mut self) -> Bytes {
        let Ok((mut events, reached)) = self.cluster.since_at_most(self.seen, CONVERTED) else {
            return self.gone();
        };
        events.retain(|event| self.is_followed(&event.object));
        let objects: Vec<Arc<Object>> =
            events.iter().flat_map(|event| std::iter::once(&event.object).chain(&event.previous)).cloned().collect();
        let mut converted = match self.cluster.in_version_asking(self.resource, objects).await {
            Ok(converted) => converted.into_iter(),
            Err(status) => return self.unconverted(&status),
        };
        let mut frame = BytesMut::new();
        for mut event in events {
            if let Some(object) = converted.next() {
                event.object = object;
            }
            if event.previous.is_some() {
                event.previous = converted.next();
            }
            if let Some(kind) = self.kind_of(&event) {
                self.write(&mut frame, kind, &event.object);
            }
        }
        self.seen = self.seen.max(reached);
        frame.freeze()
    }

    fn is_followed(&self, object: &Object) -> bool {
        object.resource.family() == self.stored
            && self.namespace.as_deref().is_none_or(|wanted| wanted == object.namespace.as_ref())
    }

    /// How the event looks to this watch: an object that leaves the selector is deleted, one that enters it is added.
    fn kind_of(&self, event: &Event) -> Option<&'static str> {
        let object = &event.object;
        if !self.is_followed(object) {
            return None;
        }
        if self.selector.is_empty() {
            return Some(match event.change {
                Change::Added => "ADDED",
                Change::Modified => "MODIFIED",
                Change::Deleted => "DELETED",
            });
        }
        let before = event.previous.as_ref().is_some_and(|previous| self.selector.matches(previous));
        let after = event.change != Change::Deleted && self.selector.matches(object);
        match (before, after) {
            (false, true) => Some("ADDED"),
            (true, true) => Some("MODIFIED"),
            (true, false) => Some("DELETED"),
            (false, false) => None,
        }
    }

    fn write(&mut self, frame: &mut BytesMut, kind: &str, object: &Object) {
        let message = match self.form {
            Form::Protobuf => {
                let text = versions::text(&self.cluster, self.resource, object);
                serde_json::from_slice(&text).ok().and_then(|value| protobuf::encode(&value))
            }
            Form::ProtobufMetadata => Some(protobuf::encode_partial(&object.whole()["metadata"])),
            _ => None,
        };
        if let Some(message) = message {
            return frame.put_slice(&protobuf::encode_event(kind, &message));
        }
        frame.put_slice(b"{\"type\":\"");
        frame.put_slice(kind.as_bytes());
        frame.put_slice(b"\",\"object\":");
        match self.form {
            Form::Json | Form::Yaml | Form::Discovery => {
                frame.put(versions::text(&self.cluster, self.resource, object));
            }
            Form::Protobuf | Form::ProtobufMetadata => {}
            Form::Metadata(meta) => frame.put(meta.of(partial(object)).as_bytes()),
            Form::Table(meta) => {
                let metadata = format!("{{\"resourceVersion\":\"{}\"}}", object.resource_version);
                let columns = !std::mem::replace(&mut self.columns_sent, true);
                let now = self.cluster.now();
                let text = table(&self.cluster, self.resource, &metadata, &[object], self.included, columns, now);
                frame.put(meta.of(text).as_bytes());
            }
        }
        frame.put_slice(b"}\n");
    }

    /// A bookmark is an object that says nothing but how far the watch is, in the form of all others.
    fn bookmark(&mut self, end_of_initial: bool) -> Bytes {
        let row = self.resource.row();
        let mut metadata = json!({ "resourceVersion": self.seen.to_string() });
        if end_of_initial {
            metadata["annotations"] = json!({ "k8s.io/initial-events-end": "true" });
        }
        if matches!(self.form, Form::Json | Form::Yaml | Form::Discovery) {
            return Bytes::from(format!(
                "{{\"type\":\"BOOKMARK\",\"object\":{{\"kind\":\"{}\",\"apiVersion\":\"{}\",\"metadata\":{metadata}}}}}\n",
                row.kind,
                row.api_version()
            ));
        }
        let mark = Object::new(
            self.resource,
            self.seen,
            &json!({
                "kind": row.kind, "apiVersion": row.api_version(), "metadata": metadata,
            }),
        );
        let mut frame = BytesMut::new();
        self.write(&mut frame, "BOOKMARK", &mark);
        frame.freeze()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_more_watches_there_are_the_longer_each_gathers() {
        for (watches, millis) in [(0, 5), (1, 5), (199, 5), (200, 10), (500, 15), (1000, 25), (usize::MAX, 25)] {
            assert_eq!(gather(watches), Duration::from_millis(millis), "{watches}");
        }
    }
}
