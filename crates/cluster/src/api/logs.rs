//! `kubectl logs`: what a container has printed, where that is known.

// upstream: pkg/kubelet/kubelet_pods.go GetKubeletContainerLogs, validateContainerLogStatus (v1.36)
// upstream: pkg/apis/core/validation/validation.go ValidatePodLogOptions (v1.36)

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::Response;
use jiff::{SignedDuration, Timestamp};
use klab_api_machinery::resource::PODS;
use klab_api_machinery::status::Status;
use klab_api_machinery::views::{self, ContainerStatus, Pod};
use klab_containers::{Container, Line, LogOptions, Ran, Stream, lines, status_of};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::super::clock::earlier;
use super::super::cluster::Cluster;
use super::super::containers::ClusterObjects;
use super::answer;
use super::call::{Call, Target};
use super::streams::{not_known, reachable};
use crate::body::Body;

/// So far ahead a log that is followed is worked out.
const AHEAD: SignedDuration = SignedDuration::from_secs(60);
/// How long a log is followed, as a kubelet's streams are.
const MAX_FOLLOWED: Duration = Duration::from_hours(4);
/// How often it is looked at, at least and at most.
const MIN_WAIT: Duration = Duration::from_millis(20);
const MAX_WAIT: Duration = Duration::from_millis(500);

impl Call<'_> {
    /// What a container of a pod has printed.
    pub(super) fn logs(&self, target: &Target, pod: &Value, container: &Value) -> Result<Response<Body>, Status> {
        let options = self.log_options(target)?;
        let name = views::Container(container).name();
        let path = format!("containerLogs/{}/{}/{name}", target.namespace(), target.name());
        reachable(self.cluster(), pod, &path)?;
        let status = ContainerStatus(status_of(pod, container));
        let ran = state(target.name(), name, status, self.query.flag("previous"))?;
        let Some(ran) = ran else { return Ok(answer::text(200, "")) };
        let now = self.cluster().now();
        let objects = ClusterObjects::of(self.cluster());
        let of = Container { objects: Some(&objects), pod, container };
        let log = self.cluster().containers().log(of, ran, now).map_err(|why| not_known(&why))?;
        if let Some(unknown) = log.unknown.filter(|unknown| unknown.at <= until(ran, now)) {
            return Err(not_known(&unknown.why));
        }
        let ended = ran.ended.is_some();
        let all = lines(log.pieces.iter().filter(|piece| piece.at <= until(ran, now)), ended);
        let position = Position::after(&all);
        let chosen = options.choose(all, ran.since);
        let mut shown: Vec<u8> = chosen.iter().flat_map(|line| options.shown(line, ran.since)).collect();
        let left = options.bytes.map(|bytes| bytes.saturating_sub(shown.len()));
        if let Some(bytes) = options.bytes {
            shown.truncate(bytes);
        }
        if !self.query.flag("follow") || ended || left == Some(0) {
            return Ok(answer::text(200, shown));
        }
        let followed = Followed {
            cluster: Arc::clone(self.cluster()),
            namespace: target.namespace().to_owned(),
            name: target.name().to_owned(),
            uid: Pod(pod).metadata().uid().to_owned(),
            container: name.to_owned(),
            options,
            since: ran.since,
            position,
            known: now,
            waiting: VecDeque::new(),
            first: (!shown.is_empty()).then(|| Bytes::from(shown)),
            left,
            deadline: Instant::from_std(crate::deadline::after(Instant::now().into_std(), MAX_FOLLOWED)),
            last_words: None,
            over: false,
        };
        Ok(answer::text_body(200, Body::stream(futures::stream::unfold(followed, Followed::next))))
    }

    fn log_options(&self, target: &Target) -> Result<LogOptions, Status> {
        let number = |name: &str| self.query.number(name);
        let (tail, bytes, seconds) = (number("tailLines")?, number("limitBytes")?, number("sinceSeconds")?);
        let time = self.query.get("sinceTime").filter(|text| !text.is_empty());
        let invalid = |field: &str, reason: &str, message: String| {
            let at = if field.is_empty() { "[]" } else { field };
            let details = json!({
                "name": target.name(), "kind": "PodLogOptions",
                "causes": [{ "reason": reason, "message": message, "field": at }],
            });
            let message = format!("PodLogOptions \"{}\" is invalid: {at}: {message}", target.name());
            Status { details, ..Status::new(422, "Invalid", message) }
        };
        if let Some(tail) = tail.filter(|tail| *tail < 0) {
            let message = format!("Invalid value: {tail}: must be greater than or equal to 0");
            return Err(invalid("tailLines", "FieldValueInvalid", message));
        }
        if let Some(bytes) = bytes.filter(|bytes| *bytes < 1) {
            return Err(invalid(
                "limitBytes",
                "FieldValueInvalid",
                format!("Invalid value: {bytes}: must be greater than 0"),
            ));
        }
        if seconds.is_some() && time.is_some() {
            let message = "Forbidden: at most one of `sinceTime` or `sinceSeconds` may be specified".to_owned();
            return Err(invalid("", "FieldValueForbidden", message));
        }
        if let Some(seconds) = seconds.filter(|seconds| *seconds < 1) {
            let message = format!("Invalid value: {seconds}: must be greater than 0");
            return Err(invalid("sinceSeconds", "FieldValueInvalid", message));
        }
        let time = match time {
            Some(text) => Some(text.parse::<Timestamp>().map_err(|_| {
                Status::bad_request(format!(
                    "parsing time \"{text}\" as \"2006-01-02T15:04:05Z07:00\": cannot parse \"{text}\" as \"2006\""
                ))
            })?),
            None => seconds.map(|seconds| earlier(self.cluster().now(), SignedDuration::from_secs(seconds))),
        };
        let stream = match self.query.get("stream") {
            None | Some("" | "All") => None,
            Some("Stdout") => Some(Stream::Out),
            Some("Stderr") => Some(Stream::Err),
            Some(other) => {
                let message =
                    format!("Unsupported value: \"{other}\": supported values: \"All\", \"Stderr\", \"Stdout\"");
                return Err(invalid("stream", "FieldValueNotSupported", message));
            }
        };
        if stream.is_some() && tail.is_some() {
            let message = "Forbidden: `tailLines` and specific `stream` cannot be specified together".to_owned();
            return Err(invalid("", "FieldValueForbidden", message));
        }
        let count = |number: Option<i64>| number.map(|number| usize::try_from(number).unwrap_or(usize::MAX));
        let timestamps = self.query.flag("timestamps");
        Ok(LogOptions { since: time, tail: count(tail), bytes: count(bytes), timestamps, stream })
    }
}

/// Which time of a container its log is about; none where there is nothing to be read.
fn state(pod: &str, name: &str, status: ContainerStatus<'_>, previous: bool) -> Result<Option<Ran>, Status> {
    let fault = |what: &str| Err(Status::bad_request(format!("container \"{name}\" in pod \"{pod}\" is {what}")));
    if !status.is_set() {
        return fault("not available");
    }
    let (state, last) = (status.state(), status.last_state());
    if previous {
        if last.terminated().container_id().is_empty() {
            return Err(Status::bad_request(format!(
                "previous terminated container \"{name}\" in pod \"{pod}\" not found"
            )));
        }
        return Ok(Ran::of(last.0));
    }
    if state.running().is_set() || state.terminated().is_set() {
        return Ok(Ran::of(state.0));
    }
    if last.terminated().is_set() {
        return Ok(Ran::of(last.0));
    }
    match state.waiting().reason() {
        "" => fault("waiting to start - no logs yet"),
        "ErrImagePull" => fault("waiting to start: image can't be pulled"),
        "ImagePullBackOff" => fault("waiting to start: trying and failing to pull image"),
        reason => fault(&format!("waiting to start: {reason}")),
    }
}

/// How long a container has run at that time.
fn until(ran: Ran, now: Timestamp) -> SignedDuration {
    ran.ended.map_or(now, |(at, _)| at).duration_since(ran.since)
}

/// How far somebody has read: the time of the last line, and how many there were at that time.
#[derive(Debug, Clone, Copy, Default)]
struct Position {
    at: SignedDuration,
    count: usize,
}

impl Position {
    fn after(lines: &[Line]) -> Self {
        let Some(last) = lines.last() else { return Self::default() };
        Self { at: last.at, count: lines.iter().rev().take_while(|line| line.at == last.at).count() }
    }

    /// The lines that come later.
    fn rest(self, lines: Vec<Line>) -> VecDeque<Line> {
        let mut at_once = 0;
        let is_new = |line: &Line| {
            if line.at == self.at {
                at_once += 1;
            }
            line.at > self.at || (line.at == self.at && at_once > self.count)
        };
        lines.into_iter().filter(is_new).collect()
    }
}

/// A log that somebody follows.
struct Followed {
    cluster: Arc<Cluster>,
    namespace: String,
    name: String,
    uid: String,
    container: String,
    options: LogOptions,
    since: Timestamp,
    position: Position,
    /// Up to when it has been worked out.
    known: Timestamp,
    /// What is printed by then.
    waiting: VecDeque<Line>,
    first: Option<Bytes>,
    left: Option<usize>,
    deadline: Instant,
    /// Why it goes on no further.
    last_words: Option<(SignedDuration, String)>,
    over: bool,
}

/// How a container that is followed stands.
struct Stand {
    pod: Arc<Value>,
    container: Value,
    ran: Ran,
}

impl Followed {
    /// The container, if it is the one that was followed from the beginning.
    fn stand(&self) -> Option<Stand> {
        let pod = self.cluster.get(PODS, &self.namespace, &self.name)?.value();
        if Pod(&pod).metadata().uid() != self.uid {
            return None;
        }
        let container = Pod(&pod).spec().all_containers().find(|one| one.name() == self.container)?.0.clone();
        let status = ContainerStatus(status_of(&pod, &container));
        let states = [status.state(), status.last_state()];
        let ran = states.into_iter().filter_map(|state| Ran::of(state.0)).find(|ran| ran.since == self.since)?;
        Some(Stand { pod, container, ran })
    }

    async fn next(mut self) -> Option<(Bytes, Self)> {
        if let Some(first) = self.first.take() {
            return Some((first, self));
        }
        if self.over || self.left == Some(0) {
            return None;
        }
        loop {
            self.cluster.at_leisure().await;
            let now = self.cluster.now();
            let stand = self.stand();
            let ended = stand.as_ref().is_none_or(|stand| stand.ran.ended.is_some());
            if let Some(stand) = stand.filter(|stand| ended || now >= self.known || stand.ran.ended.is_some()) {
                self.work_out(stand, now).await;
            }
            let ran = now.duration_since(self.since);
            let mut out = Vec::new();
            while let Some(line) = self.waiting.front().filter(|line| line.at <= ran) {
                if line.at == self.position.at {
                    self.position.count += 1;
                } else {
                    self.position = Position { at: line.at, count: 1 };
                }
                let stream = self.options.stream.is_none_or(|stream| stream == line.stream);
                if stream
                    && self.options.since.is_none_or(|since| super::super::clock::later(self.since, line.at) >= since)
                {
                    out.extend(self.options.shown(line, self.since));
                }
                self.waiting.pop_front();
            }
            if let Some((_, why)) = self.last_words.take_if(|(at, _)| *at <= ran) {
                out.extend(format!("{why}\n").into_bytes());
                self.over = true;
            }
            self.over |= ended || Instant::now() >= self.deadline;
            if let Some(left) = &mut self.left {
                out.truncate(*left);
                *left -= out.len();
            }
            if !out.is_empty() {
                return Some((out.into(), self));
            }
            if self.over {
                return None;
            }
            let due = self.waiting.front().map(|line| line.at.saturating_sub(ran).unsigned_abs());
            sleep(due.unwrap_or(MAX_WAIT).clamp(MIN_WAIT, MAX_WAIT)).await;
        }
    }

    /// Works out what is printed next, on a thread that no other request needs.
    async fn work_out(&mut self, stand: Stand, now: Timestamp) {
        let until_then = super::super::clock::later(now, AHEAD);
        let cluster = Arc::clone(&self.cluster);
        let ran = stand.ran;
        let known = tokio::task::spawn_blocking(move || {
            let objects = ClusterObjects::of(&cluster);
            let of = Container { objects: Some(&objects), pod: &stand.pod, container: &stand.container };
            cluster.containers().log(of, ran, until_then)
        });
        self.known = until_then;
        let Ok(Ok(log)) = known.await else {
            self.over = true;
            return;
        };
        let horizon = until(ran, until_then);
        let pieces = log.pieces.iter().filter(|piece| piece.at <= horizon);
        let all = lines(
            pieces.filter(|piece| log.unknown.as_ref().is_none_or(|unknown| piece.at <= unknown.at)),
            ran.ended.is_some(),
        );
        self.waiting = self.position.rest(all);
        let unknown = log.unknown.filter(|unknown| unknown.at <= horizon);
        self.last_words = unknown.map(|unknown| (unknown.at, not_known(&unknown.why).message));
    }
}
