//! What executed commands have done to the files of a pod's containers, and what these were given to read, as it is kept beside
//! the pod: a container has it until it restarts, in volumes the pod has it until it is gone.

use std::collections::BTreeMap;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::file::File;
use super::files::{Changed, Files, Made};
use super::output::Given;
use super::world::Intervention;
use crate::cluster::{Cluster, Part, WriteOptions};
use crate::pipeline;
use crate::resource::CONTAINER_FILES;
use crate::status::Status;
use crate::value::{integer, items, text};

/// So many bytes are kept of a pod.
const MOST: usize = 64 * 1024;
/// What stands around the text of a file.
const ENTRY: usize = 160;

/// A time during which a container ran: its name, and how often it had restarted before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Instance<'a> {
    pub(crate) container: &'a str,
    pub(crate) restarts: i64,
    pub(crate) since: Timestamp,
}

/// What has been done to the files of a container since it started, and before in its volumes.
pub(super) fn interventions(
    cluster: Option<&Arc<Cluster>>,
    pod: &Value,
    instance: Instance<'_>,
    files: &Files,
) -> Arc<[Intervention]> {
    let mut found: Vec<Intervention> = Vec::new();
    for entry in cluster.and_then(|cluster| entries(cluster, pod)).iter().flat_map(|kept| items(&kept["writes"])) {
        let Some(at) = entry["at"].as_str().and_then(|at| at.parse::<Timestamp>().ok()) else { continue };
        let at = at.duration_since(instance.since).max(SignedDuration::ZERO);
        let made = made(&entry["made"]);
        let changes: Vec<Changed> = match entry["volume"].as_str() {
            Some(shared) => files.own(shared).map(|path| (path, made.clone())).collect(),
            None if is_of(entry, instance.container, instance.restarts) => {
                vec![(text(entry, &["path"]).to_owned(), made)]
            }
            None => continue,
        };
        match found.last_mut() {
            Some(last) if last.at >= at => last.changes.extend(changes),
            _ => found.push(Intervention { at, changes }),
        }
    }
    found.into()
}

/// What was done to volumes last, by volume and path.
pub(super) fn last_in_volumes(cluster: &Cluster, pod: &Value) -> BTreeMap<String, Option<Made>> {
    let kept = entries(cluster, pod);
    let all = kept.iter().flat_map(|kept| items(&kept["writes"]));
    all.filter_map(|entry| Some((entry["volume"].as_str()?.to_owned(), made(&entry["made"])))).collect()
}

/// Keeps what a command has done now to the files of a container.
///
/// # Errors
/// When that is too much, or cannot be written.
pub(crate) fn keep(
    cluster: &Cluster,
    pod: &Value,
    instance: Instance<'_>,
    files: &Files,
    changes: &[Changed],
) -> Result<(), Status> {
    if changes.is_empty() {
        return Ok(());
    }
    let texts = changes.iter().map(|(path, made)| match made {
        Some(Made::File(File { text: Some(text), .. })) => ENTRY + path.len() + text.len() / 3 * 4,
        _ => ENTRY + path.len(),
    });
    if texts.sum::<usize>() > MOST {
        return Err(too_much("executed commands write"));
    }
    let now = cluster.now();
    let new = changes.iter().map(|(path, made)| {
        let mut entry = json!({
            "at": now.to_string(), "container": instance.container, "restarts": instance.restarts, "path": path,
            "made": written(made.as_ref()),
        });
        if let Some(shared) = files.shared(path) {
            entry["volume"] = json!(shared);
        }
        entry
    });
    let new: Vec<Value> = new.collect();
    let mut full = false;
    change(cluster, pod, |value| {
        let old = items(&value["writes"]).iter().filter(|entry| stays(entry, instance));
        let writes: Value = old.cloned().chain(new).collect::<Vec<_>>().into();
        full = writes.to_string().len() > MOST;
        if !full {
            value["writes"] = writes;
        }
    })?;
    if full { Err(too_much("executed commands write")) } else { Ok(()) }
}

/// Keeps that the program of a container, to which somebody was attached, has ended now.
///
/// # Errors
/// When that cannot be written.
pub(crate) fn keep_end(cluster: &Cluster, pod: &Value, instance: Instance<'_>, code: i64) -> Result<(), Status> {
    let now = cluster.now();
    change(cluster, pod, |value| {
        let others = items(&value["ends"]).iter().filter(|entry| entry["container"] != instance.container);
        let end = json!({ "at": now.to_string(), "container": instance.container, "restarts": instance.restarts,
            "code": code });
        value["ends"] = others.cloned().chain([end]).collect::<Vec<_>>().into();
    })
}

/// Keeps input that a client has sent to a container; `None` is its end.
///
/// # Errors
/// When that is too much, or cannot be written.
pub(crate) fn keep_given(
    cluster: &Cluster,
    pod: &Value,
    instance: Instance<'_>,
    text: Option<&[u8]>,
) -> Result<(), Status> {
    let now = cluster.now();
    let mut full = false;
    change(cluster, pod, |value| {
        let new = json!({ "at": now.to_string(), "container": instance.container, "restarts": instance.restarts,
            "text": text.map(|text| STANDARD.encode(text)) });
        let old = items(&value["given"]).iter().filter(|entry| stays(entry, instance));
        let given: Value = old.cloned().chain([new]).collect::<Vec<_>>().into();
        full = given.to_string().len() > MOST;
        if !full {
            value["given"] = given;
        }
    })?;
    if full { Err(too_much("a container is given to read")) } else { Ok(()) }
}

/// The input of a container. It stays open until a client has ended it.
pub(super) fn given(cluster: Option<&Arc<Cluster>>, pod: &Value, instance: Option<Instance<'_>>) -> Given {
    let mut given = Given::open();
    let Some((kept, instance)) = cluster.and_then(|cluster| entries(cluster, pod)).zip(instance) else { return given };
    for entry in items(&kept["given"]).iter().filter(|entry| is_of(entry, instance.container, instance.restarts)) {
        let Some(at) = entry["at"].as_str().and_then(|at| at.parse::<Timestamp>().ok()) else { continue };
        let at = at.duration_since(instance.since).max(SignedDuration::ZERO);
        match entry["text"].as_str().and_then(|text| STANDARD.decode(text).ok()) {
            Some(text) => given.pieces.push((at, text)),
            None => given.ended = Some(at),
        }
    }
    given
}

/// When a container's program ended by what somebody did who was attached to it, and with which code.
pub(super) fn end_of(cluster: &Cluster, pod: &Value, instance: Instance<'_>) -> Option<(SignedDuration, i64)> {
    let kept = entries(cluster, pod)?;
    let entry = items(&kept["ends"]).iter().find(|entry| is_of(entry, instance.container, instance.restarts))?;
    let at = entry["at"].as_str()?.parse::<Timestamp>().ok()?;
    Some((at.duration_since(instance.since).max(SignedDuration::ZERO), integer(entry, &["code"])?))
}

/// Changes what is kept of this very pod.
fn change(cluster: &Cluster, pod: &Value, change: impl FnOnce(&mut Value)) -> Result<(), Status> {
    let metadata = &pod["metadata"];
    let (namespace, name) = (text(metadata, &["namespace"]), text(metadata, &["name"]));
    let owners = json!([{ "apiVersion": "v1", "kind": "Pod", "name": name, "uid": metadata["uid"] }]);
    cluster.transact(&WriteOptions::by("kubelet"), |transaction| {
        if transaction.existing(CONTAINER_FILES, namespace, name).is_err() {
            let mut object = json!({
                "apiVersion": CONTAINER_FILES.row().api_version(), "kind": CONTAINER_FILES.row().kind,
                "metadata": { "name": name, "namespace": namespace, "ownerReferences": owners },
            });
            change(&mut object);
            return pipeline::create(transaction, CONTAINER_FILES, namespace, object).map(drop);
        }
        pipeline::modify(transaction, CONTAINER_FILES, Part::Main, namespace, name, |value| {
            let is_its = value["metadata"]["ownerReferences"][0]["uid"] == metadata["uid"];
            if let Some(value) = value.as_object_mut().filter(|_| !is_its) {
                value.retain(|field, _| !["writes", "ends", "given"].contains(&field.as_str()));
            }
            value["metadata"]["ownerReferences"] = owners;
            change(value);
        })
        .map(drop)
    })
}

/// Whether something that was done may still matter to somebody: the last run before this one may be asked for its log.
fn stays(entry: &Value, now: Instance<'_>) -> bool {
    entry["volume"].is_string()
        || entry["container"] != now.container
        || integer(entry, &["restarts"]).is_some_and(|restarts| restarts >= now.restarts - 1)
}

fn too_much(what: &str) -> Status {
    let why = format!("what {what} is kept up to {} KiB of a pod, and this would be more", MOST / 1024);
    Status::new(507, "InsufficientStorage", why)
}

/// What is kept of this very pod, not of one of its name that is gone.
fn entries(cluster: &Cluster, pod: &Value) -> Option<Arc<Value>> {
    if !cluster.has_any(CONTAINER_FILES) {
        return None;
    }
    let metadata = &pod["metadata"];
    let kept = cluster.get(CONTAINER_FILES, text(metadata, &["namespace"]), text(metadata, &["name"]))?.value();
    (kept["metadata"]["ownerReferences"][0]["uid"] == metadata["uid"]).then_some(kept)
}

fn is_of(entry: &Value, container: &str, restarts: i64) -> bool {
    entry["container"] == container && integer(entry, &["restarts"]) == Some(restarts)
}

fn written(made: Option<&Made>) -> Value {
    match made {
        None => json!("removed"),
        Some(Made::Directory) => json!("directory"),
        Some(Made::Unknown) => json!("unknown"),
        Some(Made::File(file)) => json!({
            "text": file.text.as_ref().map(|text| STANDARD.encode(text.as_slice())), "mode": file.mode,
            "owner": file.owner.map(|(user, group)| json!([user, group])),
        }),
    }
}

fn made(written: &Value) -> Option<Made> {
    match written.as_str() {
        Some("removed") => return None,
        Some("directory") => return Some(Made::Directory),
        Some(_) => return Some(Made::Unknown),
        None => {}
    }
    let number = |value: &Value| value.as_u64().and_then(|number| u32::try_from(number).ok());
    let text = written["text"].as_str().and_then(|text| STANDARD.decode(text).ok()).map(Arc::new);
    let owner = number(&written["owner"][0]).zip(number(&written["owner"][1]));
    Some(Made::File(File { text, mode: number(&written["mode"]).unwrap_or(0o644), owner }))
}
