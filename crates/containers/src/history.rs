//! What the containers of a pod have done until now: what one of them has printed, and what a command finds in it.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use crate::file_changes::{Instance, interventions, last_in_volumes};
use crate::log::{last_words, lines};
use crate::objects::Objects;
use crate::pod::file::Found;
use crate::pod::files::{Changed, Made};
use crate::pod::mounts::began_empty;
use crate::pod::place::{Place, Purpose};
use crate::shell::execute;
use crate::shell::execution::{End, Performed, World};
use crate::value::{status_of, words};
use klab_api_machinery::value::{integer, items, text, time_of};

/// Most other containers of the pod that are followed for the files that they share.
const MAX_OTHERS: usize = 8;

/// A time during which a container ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ran {
    /// When it started.
    pub since: Timestamp,
    /// When it ended, and with which code; none while it runs.
    pub ended: Option<(Timestamp, i64)>,
}

impl Ran {
    /// The time in the state of a container, or in that of its last end.
    pub fn of(state: &Value) -> Option<Self> {
        if let Some(since) = time_of(&state["running"]["startedAt"]) {
            return Some(Self { since, ended: None });
        }
        let terminated = &state["terminated"];
        let (since, at) = (time_of(&terminated["startedAt"])?, time_of(&terminated["finishedAt"])?);
        Some(Self { since, ended: Some((at, terminated["exitCode"].as_i64().unwrap_or_default())) })
    }

    fn horizon(&self, now: Timestamp) -> SignedDuration {
        self.ended.map_or(now, |(at, _)| at).duration_since(self.since)
    }
}

/// Files in volumes that containers share, by volume and path.
type Shared = BTreeMap<String, Option<Made>>;

/// What a container has printed in a time when it ran, until then at most; else why that is not known.
pub(crate) fn past(
    objects: &Arc<dyn Objects>,
    pod: &Value,
    container: &Value,
    ran: Ran,
    until: Timestamp,
) -> Result<Performed, String> {
    if container["stdin"] == true {
        return Err("what a container does with what it is given to read is not followed".to_owned());
    }
    let (shared, _) = others(objects, pod, container, until);
    let performance = run(objects, pod, container, ran, ran.horizon(until), shared)?;
    let ended_itself = matches!(performance.end, End::After(..));
    if ran.ended.is_some() && performance.has_handler && !ended_itself {
        return Err("what its handler of SIGTERM has printed is not followed".to_owned());
    }
    Ok(performance)
}

/// What a command finds that is run in a container now, which runs since then.
pub(crate) fn present(objects: &Arc<dyn Objects>, pod: &Value, container: &Value, now: Timestamp) -> World {
    let status = status_of(pod, container);
    let (mut shared, mut trusted) = others(objects, pod, container, now);
    let ran = Ran::of(&status["state"]);
    let mut own: Vec<Changed> = Vec::new();
    if let Some(ran) = ran {
        match run(objects, pod, container, ran, ran.horizon(now), shared.clone()) {
            Ok(performance) if performance.unknown.is_none() => {
                let files = &performance.files;
                let changes = files.changes().filter(|(path, _)| files.shared(path).is_none());
                own = changes.map(|(path, made)| (path.to_owned(), made.clone())).collect();
                merge(&mut shared, shared_changes(&performance), &last_in_volumes(&**objects, pod));
            }
            _ => trusted = false,
        }
    }
    let started = ran.map(|ran| ran.since);
    let place = Place { objects: Some(objects), pod, container, started, purpose: Purpose::Exec };
    let mut world = World { inside: place.inside(!trusted), start: Some(now), ..World::default() };
    take_over(&mut world, &shared);
    world.inside.files.take_over(&own);
    if let Some(instance) = ran.filter(|_| !trusted).map(|ran| instance(pod, container, ran)) {
        // An unknown program is taken to leave the files of executed commands alone.
        for intervention in &*interventions(&**objects, pod, instance, &world.inside.files) {
            world.inside.files.take_over(&intervention.changes);
        }
    }
    world
}

/// So much of what a container leaves as its last message is kept.
const MAX_MESSAGE: usize = 4096;

/// What a container that has ended with this code leaves as its message, where that is known.
// upstream: pkg/kubelet/kuberuntime/kuberuntime_container.go getTerminationMessage (v1.36)
pub(crate) fn last_message(objects: &Arc<dyn Objects>, pod: &Value, container: &Value, ran: Ran) -> Option<String> {
    let (now, code) = ran.ended?;
    let path = container["terminationMessagePath"].as_str().unwrap_or("/dev/termination-log");
    let falls_back = container["terminationMessagePolicy"] == "FallbackToLogsOnError" && code != 0;
    let writes = words(container).any(|word| word.contains(path.rsplit('/').next().unwrap_or(path)));
    if !falls_back && !writes {
        return None;
    }
    let performance =
        past(objects, pod, container, ran, now).ok().filter(|performance| performance.unknown.is_none())?;
    let text = match performance.files.find(path) {
        Found::File(file) => file.text?,
        _ => Arc::default(),
    };
    let text = &text[..text.len().min(MAX_MESSAGE)];
    if text.is_empty() && falls_back {
        let message = last_words(&lines(&performance.pieces, true));
        return (!message.is_empty()).then_some(message);
    }
    (!text.is_empty()).then(|| String::from_utf8_lossy(text).into_owned())
}

/// Which run of a container that was.
pub fn instance<'a>(pod: &Value, container: &'a Value, ran: Ran) -> Instance<'a> {
    let status = status_of(pod, container);
    let restarts = integer(status, &["restartCount"]).unwrap_or_default();
    let is_last = Ran::of(&status["state"]).is_none_or(|now| now.since.as_second() != ran.since.as_second())
        && Ran::of(&status["lastState"]).is_some_and(|last| last.since.as_second() == ran.since.as_second());
    Instance {
        container: text(container, &["name"]),
        restarts: restarts - i64::from(is_last && restarts > 0),
        since: ran.since,
    }
}

/// Adds what a container has left in volumes: of what commands were the last to write, as `last` says, only where no other
/// container has gone on with it.
fn merge(shared: &mut Shared, new: Shared, last: &Shared) {
    for (path, made) in new {
        if last.get(&path) != Some(&made) || !shared.contains_key(&path) {
            shared.insert(path, made);
        }
    }
}

fn shared_changes(performance: &Performed) -> Shared {
    let files = &performance.files;
    files.changes().filter_map(|(path, made)| Some((files.shared(path)?, made.clone()))).collect()
}

fn take_over(world: &mut World, shared: &Shared) {
    let mut found = Vec::new();
    for (path, made) in shared {
        found.extend(world.inside.files.own(path).map(|path| (path, made.clone())));
    }
    world.inside.files.take_over(&found);
}

fn run(
    objects: &Arc<dyn Objects>,
    pod: &Value,
    container: &Value,
    ran: Ran,
    horizon: SignedDuration,
    shared: Shared,
) -> Result<Performed, String> {
    let place = Place { objects: Some(objects), pod, container, started: Some(ran.since), purpose: Purpose::Log };
    let mut world = World { inside: place.inside(false), start: Some(ran.since), ..World::default() };
    take_over(&mut world, &shared);
    let mut all = interventions(&**objects, pod, instance(pod, container, ran), &world.inside.files).to_vec();
    for intervention in &mut all {
        // With these another container has gone on.
        intervention
            .changes
            .retain(|(path, _)| world.inside.files.shared(path).is_none_or(|path| !shared.contains_key(&path)));
    }
    world.interventions = all.into();
    let image = text(container, &["image"]);
    let words = world.inside.words.clone();
    let words = words.ok_or_else(|| format!("what the program of the image `{image}` prints is not known"))?;
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    // What ends at once has its time, too.
    Ok(execute(&words, &world, horizon))
}

/// What the other containers of a pod, and this one before, have left in the volumes that it has, too; and whether all of
/// that is known.
fn others(objects: &Arc<dyn Objects>, pod: &Value, container: &Value, now: Timestamp) -> (Shared, bool) {
    let has_shared = |one: &Value| -> Vec<String> {
        let mounts = items(&one["volumeMounts"]).iter();
        mounts.map(|mount| text(mount, &["name"]).to_owned()).collect()
    };
    let empty = |name: &String| {
        let mut volumes = items(&pod["spec"]["volumes"]).iter();
        volumes.any(|volume| volume["name"] == name.as_str() && began_empty(objects, pod, volume))
    };
    let own: Vec<String> = has_shared(container).into_iter().filter(|name| empty(name)).collect();
    let (mut shared, mut known) = (Shared::new(), true);
    if own.is_empty() {
        return (shared, known);
    }
    let last = last_in_volumes(&**objects, pod);
    let mut followed = 0;
    for list in ["initContainers", "containers"] {
        for other in items(&pod["spec"][list]) {
            let itself = other["name"] == container["name"];
            if itself && list == "initContainers" {
                return (shared, known);
            }
            if !itself && !has_shared(other).iter().any(|name| own.contains(name)) {
                continue;
            }
            let status = status_of(pod, other);
            // Of its own runs only the last one before this one is followed.
            let state = if itself { &status["lastState"] } else { &status["state"] };
            let Some(ran) = Ran::of(state) else { continue };
            followed += 1;
            if followed > MAX_OTHERS {
                return (shared, false);
            }
            match run(objects, pod, other, ran, ran.horizon(now), shared.clone()) {
                Ok(performance) => {
                    known &= performance.unknown.is_none();
                    // What commands have done there reaches every container at its time, by [`interventions`].
                    shared.extend(
                        shared_changes(&performance).into_iter().filter(|(path, made)| last.get(path) != Some(made)),
                    );
                }
                Err(_) => known = false,
            }
        }
    }
    (shared, known)
}
