//! What the containers of a pod have done until now: what one of them has printed, and what a command finds in it.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;

use crate::file_changes::{Instance, interventions, last_in_volumes};
use crate::log::{last_words, lines};
use crate::objects::Objects;
use crate::pod::file::Found;
use crate::pod::files::{Changed, Made};
use crate::pod::place::{Place, Purpose};
use crate::program::Container;
use crate::shell::execute;
use crate::shell::execution::{End, Performed, World};
use crate::value::{status_of, words};
use klab_api_machinery::value::{integer, items, text, time_of};

/// Most other containers of the pod that are followed for the files that they share.
const MAX_OTHERS: usize = 8;
/// So much of what a container leaves as its last message is kept.
const MAX_MESSAGE: usize = 4096;

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
}

/// Files in volumes that containers share, by volume and path.
type Shared = BTreeMap<String, Option<Made>>;

/// What the containers of a pod have done to the volumes of one of them.
struct Past<'a> {
    objects: &'a Arc<dyn Objects>,
    pod: &'a Value,
    /// What it found there when it started.
    before: Shared,
    /// What containers have done there beside it.
    beside: Shared,
    /// Why that is not known, where it is not.
    doubt: Option<String>,
}

impl<'a> Past<'a> {
    fn of(objects: &'a Arc<dyn Objects>, pod: &'a Value, container: &Value, now: Timestamp) -> Self {
        let mut past = Self { objects, pod, before: Shared::new(), beside: Shared::new(), doubt: None };
        let volumes = |one: &Value| -> Vec<String> {
            let is_shared = |name: &&str| {
                items(&pod["spec"]["volumes"]).iter().any(|one| one["name"] == **name && one["emptyDir"].is_object())
            };
            let mounts = items(&one["volumeMounts"]).iter().map(|mount| text(mount, &["name"]));
            mounts.filter(is_shared).map(str::to_owned).collect()
        };
        let own = volumes(container);
        let last = last_in_volumes(&**objects, pod);
        let mut begun = Shared::new();
        for list in ["initContainers", "containers"] {
            begun.clone_from(&past.before);
            let others = items(&pod["spec"][list]).iter();
            let others = others.filter(|other| volumes(other).iter().any(|name| own.contains(name)));
            for (index, other) in others.enumerate() {
                let (itself, status) = (other["name"] == container["name"], status_of(pod, other));
                let comes_before = itself || list == "initContainers";
                let mut ground = if comes_before { past.before.clone() } else { begun.clone() };
                for state in if itself { &["lastState"][..] } else { &["lastState", "state"] } {
                    let Some(ran) = Ran::of(&status[*state]) else { continue };
                    let performed = past.run(other, ran, now, &ground).ok().filter(|past| past.unknown.is_none());
                    let Some(performed) = performed.filter(|_| index < MAX_OTHERS) else {
                        past.doubt = Some("what another container has left in a volume is not known".to_owned());
                        continue;
                    };
                    // What commands have done reaches every container at its time.
                    let news = changes(&performed, &ground)
                        .filter(|(path, made)| comes_before || last.get(path) != Some(made));
                    let news: Shared = news.collect();
                    ground.extend(news.clone());
                    if comes_before { &mut past.before } else { &mut past.beside }.extend(news);
                }
                if itself && list == "initContainers" {
                    return past;
                }
            }
        }
        past
    }

    /// Follows a container in a time when it ran, until then at most, on what was left in its volumes before.
    fn run(&self, container: &Value, ran: Ran, until: Timestamp, before: &Shared) -> Result<Performed, String> {
        let (objects, pod, purpose) = (self.objects, self.pod, Purpose::Log);
        let place = Place { objects: Some(objects), pod, container, started: Some(ran.since), purpose };
        let mut world = World { inside: place.inside(false), start: Some(ran.since), ..World::default() };
        take_over(&mut world, before);
        let files = &world.inside.files;
        let mut all = interventions(&**objects, pod, instance(pod, container, ran), files).to_vec();
        for intervention in all.iter_mut().filter(|intervention| intervention.at.is_zero()) {
            intervention.changes.retain(|(path, _)| files.shared(path).is_none_or(|path| !before.contains_key(&path)));
        }
        world.interventions = all.into();
        let words = world.inside.words.clone().ok_or_else(|| {
            format!("what the program of the image `{}` prints is not known", text(container, &["image"]))
        })?;
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let horizon = ran.ended.map_or(until, |(at, _)| at).duration_since(ran.since);
        Ok(execute(&words, &world, horizon))
    }
}

/// What a container has done to volumes that were as `ground` says.
fn changes<'p>(performed: &'p Performed, ground: &'p Shared) -> impl Iterator<Item = (String, Option<Made>)> + 'p {
    let all = performed.files.made().iter();
    let all = all.filter_map(|(path, made)| Some((performed.files.shared(path)?, made.clone())));
    all.filter(|(path, made)| ground.get(path) != Some(made))
}

/// What a container has printed in a time when it ran, until then at most; else why that is not known.
pub(crate) fn past(of: Container<'_>, ran: Ran, until: Timestamp) -> Result<Performed, String> {
    let objects = of.objects.ok_or("the cluster is not known")?;
    if of.container["stdin"] == true {
        return Err("what a container does with what it is given to read is not followed".to_owned());
    }
    let past = Past::of(objects, of.pod, of.container, until);
    if let Some(doubt) = past.doubt {
        return Err(doubt);
    }
    if !past.beside.is_empty() {
        return Err("what comes first of what containers do in a volume is not known".to_owned());
    }
    let performance = past.run(of.container, ran, until, &past.before)?;
    let ended_itself = matches!(performance.end, End::After(..));
    if ran.ended.is_some() && performance.has_handler && !ended_itself {
        return Err("what its handler of SIGTERM has printed is not followed".to_owned());
    }
    Ok(performance)
}

/// What a command finds that is run in a container now.
pub(crate) fn present(objects: &Arc<dyn Objects>, pod: &Value, container: &Value) -> World {
    let now = objects.now();
    let ran = Ran::of(&status_of(pod, container)["state"]);
    let past = Past::of(objects, pod, container, now);
    let performed = ran.and_then(|ran| past.run(container, ran, now, &past.before).ok());
    let performed = performed.filter(|performed| performed.unknown.is_none() && past.doubt.is_none());
    let last = last_in_volumes(&**objects, pod);
    let performed = performed.filter(|performed| {
        // Two containers that write the same file: what comes first is not known.
        let mut own = changes(performed, &past.before).filter(|(path, made)| last.get(path) != Some(made));
        own.all(|(path, made)| past.beside.get(&path).is_none_or(|other| *other == made))
    });
    let (started, purpose) = (ran.map(|ran| ran.since), Purpose::Exec);
    let place = Place { objects: Some(objects), pod, container, started, purpose };
    let mut world = World { inside: place.inside(performed.is_none()), start: Some(now), ..World::default() };
    match (performed, ran) {
        (Some(performed), _) => {
            let own: Vec<Changed> =
                performed.files.made().iter().map(|(path, made)| (path.clone(), made.clone())).collect();
            world.inside.files.take_over(&own);
            take_over(&mut world, &past.beside);
        }
        // An unknown program is taken to leave the files of executed commands alone.
        (None, Some(ran)) => {
            for intervention in &*interventions(&**objects, pod, instance(pod, container, ran), &world.inside.files) {
                world.inside.files.take_over(&intervention.changes);
            }
        }
        (None, None) => {}
    }
    world
}

/// What a container that has ended with this code leaves as its message, where that is known.
// upstream: pkg/kubelet/kuberuntime/kuberuntime_container.go getTerminationMessage (v1.36)
pub(crate) fn last_message(of: Container<'_>, ran: Ran) -> Option<String> {
    let (now, code) = ran.ended?;
    let container = of.container;
    let path = container["terminationMessagePath"].as_str().unwrap_or("/dev/termination-log");
    let falls_back = container["terminationMessagePolicy"] == "FallbackToLogsOnError" && code != 0;
    let writes = words(container).any(|word| word.contains(path.rsplit('/').next().unwrap_or(path)));
    if !falls_back && !writes {
        return None;
    }
    let performance = past(of, ran, now).ok().filter(|performance| performance.unknown.is_none())?;
    let text = match performance.files.find(path) {
        Found::File(file) => file.text?,
        _ => Arc::default(),
    };
    let text = &text[..text.len().min(MAX_MESSAGE)];
    let message = match text {
        [] if falls_back => last_words(&lines(&performance.pieces, true)),
        text => String::from_utf8_lossy(text).into_owned(),
    };
    (!message.is_empty()).then_some(message)
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

fn take_over(world: &mut World, shared: &Shared) {
    let own = |(path, made): (&String, &Option<Made>)| -> Vec<Changed> {
        world.inside.files.own(path).map(|path| (path, made.clone())).collect()
    };
    let found: Vec<Changed> = shared.iter().flat_map(own).collect();
    world.inside.files.take_over(&found);
}
