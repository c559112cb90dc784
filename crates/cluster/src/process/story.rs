//! What the containers of a pod have done until now: what one of them has printed, and what a command finds in it.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::clients::is_client;
use super::environment::Environment;
use super::file::Found;
use super::files::{Changed, Made};
use super::kept::{Instance, given, interventions, last_in_volumes};
use super::log::{last_words, lines};
use super::mounts::began_empty;
use super::place::{Place, Purpose};
use super::run::perform;
use super::session::is_prompt;
use super::world::{Performance, World};
use crate::cluster::Cluster;
use crate::value::{integer, items, text, time_of};

/// So many other containers of the pod are followed for the files that they share.
const MAX_OTHERS: usize = 8;

/// A time during which a container ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ran {
    pub(crate) since: Timestamp,
    /// When it ended, and with which code; none while it runs.
    pub(crate) ended: Option<(Timestamp, i64)>,
}

impl Ran {
    /// The time in the state of a container, or in that of its last end.
    pub(crate) fn of(state: &Value) -> Option<Self> {
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
    cluster: &Arc<Cluster>,
    pod: &Value,
    container: &Value,
    ran: Ran,
    until: Timestamp,
) -> Result<Performance, String> {
    if awaited_command(cluster, pod, container).is_some() {
        return match ran.ended {
            // Nobody has attached, or is still there.
            None => Ok(Performance::nothing()),
            Some(_) => Err("what was said to who was attached to it is not kept".to_owned()),
        };
    }
    let (shared, _) = others(cluster, pod, container, until);
    run(cluster, pod, container, ran, ran.horizon(until), shared)
}

/// What a container with `stdin` has done within the horizon, with the input that clients have sent; none without `stdin`.
pub(crate) fn reader(
    cluster: &Arc<Cluster>,
    pod: &Value,
    container: &Value,
    horizon: SignedDuration,
) -> Option<Performance> {
    let ran = Ran::of(&status_of(pod, container)["state"]).filter(|_| container["stdin"] == true)?;
    let (shared, _) = others(cluster, pod, container, cluster.now());
    run(cluster, pod, container, ran, horizon, shared).ok()
}

/// The command of a container that does what it does when somebody attaches to it: a shell without a script, a command that
/// asks the network.
pub(crate) fn awaited_command(cluster: &Arc<Cluster>, pod: &Value, container: &Value) -> Option<Vec<String>> {
    if container["stdin"] != true {
        return None;
    }
    let status = status_of(pod, container);
    let place = Place { cluster: Some(cluster), pod, container, status, started: None, purpose: Purpose::Exec };
    let (_, environment) = place.world();
    let command = place.words(&environment)?;
    (is_prompt(&command) || is_client(&command)).then_some(command)
}

/// What a command finds that is run in a container now, which runs since then.
pub(crate) fn present(cluster: &Arc<Cluster>, pod: &Value, container: &Value, now: Timestamp) -> World {
    let status = status_of(pod, container);
    let (mut shared, mut trusted) = others(cluster, pod, container, now);
    let ran = Ran::of(&status["state"]);
    let mut own: Vec<Changed> = Vec::new();
    if let Some(ran) = ran {
        match run(cluster, pod, container, ran, ran.horizon(now), shared.clone()) {
            Ok(performance) if performance.doubt.is_none() => {
                let files = &performance.files;
                let changes = files.changes().filter(|(path, _)| files.shared(path).is_none());
                own = changes.map(|(path, made)| (path.to_owned(), made.clone())).collect();
                merge(&mut shared, shared_changes(&performance), &last_in_volumes(cluster, pod));
            }
            _ => trusted = false,
        }
    }
    let started = ran.map(|ran| ran.since);
    let place = Place { cluster: Some(cluster), pod, container, status, started, purpose: Purpose::Exec };
    let (mut world, _) = place.world_with(!trusted);
    take_over(&mut world, &shared);
    world.files.take_over(&own);
    if let Some(instance) = ran.filter(|_| !trusted).map(|ran| instance(pod, container, ran)) {
        // What a program that nobody knows does to the files of executed commands is taken to be nothing.
        for intervention in &*interventions(Some(cluster), pod, instance, &world.files) {
            world.files.take_over(&intervention.changes);
        }
    }
    world.start = Some(now);
    world
}

/// So much of what a container leaves as its last message is kept.
const MAX_MESSAGE: usize = 4096;

/// What a container that has ended with this code leaves as its message, where that is known.
// upstream: pkg/kubelet/kuberuntime/kuberuntime_container.go getTerminationMessage (v1.36)
pub(crate) fn last_message(
    cluster: &Arc<Cluster>,
    pod: &Value,
    container: &Value,
    since: Timestamp,
    now: Timestamp,
    code: i64,
) -> Option<String> {
    let path = container["terminationMessagePath"].as_str().unwrap_or("/dev/termination-log");
    let falls_back = container["terminationMessagePolicy"] == "FallbackToLogsOnError" && code != 0;
    let words = ["command", "args"].iter().flat_map(|field| items(&container[*field])).filter_map(Value::as_str);
    let writes = words.into_iter().any(|word| word.contains(path.rsplit('/').next().unwrap_or(path)));
    if !falls_back && !writes {
        return None;
    }
    let ran = Ran { since, ended: Some((now, code)) };
    let performance = past(cluster, pod, container, ran, now).ok().filter(|performance| performance.doubt.is_none())?;
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

/// The status of a container; `Null` without one.
pub(crate) fn status_of<'a>(pod: &'a Value, container: &Value) -> &'a Value {
    ["containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"]
        .iter()
        .flat_map(|list| items(&pod["status"][*list]))
        .find(|status| status["name"] == container["name"])
        .unwrap_or(&Value::Null)
}

/// Which run of a container that was.
pub(crate) fn instance<'a>(pod: &Value, container: &'a Value, ran: Ran) -> Instance<'a> {
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

fn shared_changes(performance: &Performance) -> Shared {
    let files = &performance.files;
    files.changes().filter_map(|(path, made)| Some((files.shared(path)?, made.clone()))).collect()
}

fn take_over(world: &mut World, shared: &Shared) {
    let mut found = Vec::new();
    for (path, made) in shared {
        found.extend(world.files.own(path).map(|path| (path, made.clone())));
    }
    world.files.take_over(&found);
}

fn run(
    cluster: &Arc<Cluster>,
    pod: &Value,
    container: &Value,
    ran: Ran,
    horizon: SignedDuration,
    shared: Shared,
) -> Result<Performance, String> {
    let status = status_of(pod, container);
    let place =
        Place { cluster: Some(cluster), pod, container, status, started: Some(ran.since), purpose: Purpose::Log };
    let (mut world, environment) = place.world();
    take_over(&mut world, &shared);
    let mut all = interventions(Some(cluster), pod, instance(pod, container, ran), &world.files).to_vec();
    for intervention in &mut all {
        // With these another container has gone on.
        intervention
            .changes
            .retain(|(path, _)| world.files.shared(path).is_none_or(|path| !shared.contains_key(&path)));
    }
    world.interventions = all.into();
    if container["stdin"] == true {
        world.given = given(Some(cluster), pod, Some(instance(pod, container, ran)));
    }
    let words = words_of(&place, &environment)?;
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    // What ends at once has its time, too.
    Ok(perform(&words, &world, horizon))
}

fn words_of(place: &Place<'_>, environment: &Environment) -> Result<Vec<String>, String> {
    let image = text(place.container, &["image"]);
    place.words(environment).ok_or_else(|| format!("what the program of the image `{image}` prints is not known"))
}

/// What the other containers of a pod, and this one before, have left in the volumes that it has, too; and whether all of
/// that is known.
fn others(cluster: &Arc<Cluster>, pod: &Value, container: &Value, now: Timestamp) -> (Shared, bool) {
    let has_shared = |one: &Value| -> Vec<String> {
        let mounts = items(&one["volumeMounts"]).iter();
        mounts.map(|mount| text(mount, &["name"]).to_owned()).collect()
    };
    let empty = |name: &String| {
        let mut volumes = items(&pod["spec"]["volumes"]).iter();
        volumes.any(|volume| volume["name"] == name.as_str() && began_empty(cluster, pod, volume))
    };
    let own: Vec<String> = has_shared(container).into_iter().filter(|name| empty(name)).collect();
    let (mut shared, mut known) = (Shared::new(), true);
    if own.is_empty() {
        return (shared, known);
    }
    let last = last_in_volumes(cluster, pod);
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
            match run(cluster, pod, other, ran, ran.horizon(now), shared.clone()) {
                Ok(performance) => {
                    known &= performance.doubt.is_none();
                    // What commands have done there is told every container at its time, by [`interventions`].
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
