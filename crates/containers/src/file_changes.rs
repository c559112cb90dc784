//! What executed commands have done to the files of a pod's containers, as it is kept beside the pod: a container has it until
//! it restarts, in volumes the pod has it until it is gone.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::objects::Objects;
use crate::pod::file::File;
use crate::pod::files::{Changed, Files, Made};
use crate::shell::execution::Intervention;
use klab_api_machinery::value::{integer, text};

/// A time during which a container ran: its name, and how often it had restarted before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Instance<'a> {
    /// The name of the container.
    pub container: &'a str,
    /// How often it had restarted.
    pub restarts: i64,
    /// When it started.
    pub since: Timestamp,
}

/// What has been done to the files of a container since it started, and before in its volumes.
pub(crate) fn interventions(
    objects: &dyn Objects,
    pod: &Value,
    instance: Instance<'_>,
    files: &Files,
) -> Arc<[Intervention]> {
    let mut found: Vec<Intervention> = Vec::new();
    for entry in objects.kept(pod) {
        let Some(at) = entry["at"].as_str().and_then(|at| at.parse::<Timestamp>().ok()) else { continue };
        let at = at.duration_since(instance.since).max(SignedDuration::ZERO);
        let made = made(&entry["made"]);
        let changes: Vec<Changed> = match entry["volume"].as_str() {
            Some(shared) => files.own(shared).map(|path| (path, made.clone())).collect(),
            None if is_of(&entry, instance.container, instance.restarts) => {
                vec![(text(&entry, &["path"]).to_owned(), made)]
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
pub(crate) fn last_in_volumes(objects: &dyn Objects, pod: &Value) -> BTreeMap<String, Option<Made>> {
    let all = objects.kept(pod);
    all.iter().filter_map(|entry| Some((entry["volume"].as_str()?.to_owned(), made(&entry["made"])))).collect()
}

/// What a command has done now to the files of a container, as it is kept.
pub(crate) fn entries(instance: Instance<'_>, now: Timestamp, files: &Files, changes: &[Changed]) -> Vec<Value> {
    let entry = |(path, made): &Changed| {
        let mut entry = json!({
            "at": now.to_string(), "container": instance.container, "restarts": instance.restarts, "path": path,
            "made": written(made.as_ref()),
        });
        if let Some(shared) = files.shared(path) {
            entry["volume"] = json!(shared);
        }
        entry
    };
    changes.iter().map(entry).collect()
}

/// Whether what a command has done is still of use to a run of a container: the log of the one before may be asked for.
pub fn stays(entry: &Value, now: Instance<'_>) -> bool {
    entry["volume"].is_string()
        || entry["container"] != now.container
        || integer(entry, &["restarts"]).is_some_and(|restarts| restarts >= now.restarts - 1)
}

fn is_of(entry: &Value, container: &str, restarts: i64) -> bool {
    entry["container"] == container && integer(entry, &["restarts"]) == Some(restarts)
}

/// Commands make empty files, and nothing else.
fn written(made: Option<&Made>) -> Value {
    match made {
        Some(Made::File(file)) => json!({ "owner": file.owner.map(|(user, group)| json!([user, group])) }),
        _ => json!("removed"),
    }
}

fn made(written: &Value) -> Option<Made> {
    let id = |index: usize| written["owner"][index].as_u64().and_then(|id| u32::try_from(id).ok());
    let owner = id(0).zip(id(1));
    written.is_object().then(|| Made::File(File { text: Some(Arc::default()), mode: 0o644, owner }))
}
