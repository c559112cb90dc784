//! What runs in a container as a kubelet sees it: its course, what it does on SIGTERM, where it listens, what commands of
//! probes come to beside it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::SignedDuration;
use serde_json::Value;

use crate::file_changes::{Instance, interventions};
use crate::image::{Image, base_name, ends_alone};
use crate::kube_scheduler;
use crate::objects::Objects;
use crate::pod::file::File;
use crate::pod::files::Made;
use crate::pod::place::{Place, Purpose};
use crate::shell::execution::{End, Execution, Resolver, World};
use crate::shell::simulate;
use crate::value::words;
use klab_api_machinery::value::{items, text};

/// Exit code of a process that SIGTERM ends, as it does when it is not the first of its namespace.
const TERMINATED: i64 = 143;
/// Most times at which files may change. Beyond that klab only checks whether the file of a probe's command is there.
const MAX_TIMES: usize = 128;

/// What runs in a container.
#[derive(Debug, Clone)]
pub struct Program {
    /// How its run goes.
    pub course: Execution,
    /// How long it takes to end on SIGTERM, and its exit code; `None`: it does not heed it, and is killed when its grace is
    /// over.
    pub on_term: Option<(SignedDuration, i64)>,
    /// At which ports it takes connections.
    pub listens: Listens,
    /// The paths at which it answers HTTP requests, where that is known.
    pages: Option<&'static [&'static str]>,
    /// What it has found when it started, and commands beside it find.
    world: World,
}

/// At which ports a program takes connections.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Listens {
    /// At none.
    Nowhere,
    /// Not known: it is taken to listen where it is asked.
    Anywhere,
    /// At these TCP ports.
    At(Vec<u16>),
}

impl Listens {
    /// Whether a connection to that port is taken; a name that no port has leads nowhere.
    pub fn at(&self, port: Option<i64>) -> bool {
        match self {
            Self::Nowhere => false,
            Self::Anywhere => true,
            Self::At(own) => own.iter().any(|own| port == Some(i64::from(*own))),
        }
    }
}

/// Ends at once.
const fn at_once(code: i64) -> (SignedDuration, i64) {
    (SignedDuration::ZERO, code)
}

impl Program {
    fn of_course(course: Execution) -> Self {
        // A program that is not known is taken to end as it should.
        let on_term = if course.known { course.on_term } else { course.on_term.or(Some(at_once(0))) };
        let listens = if course.known { Listens::Nowhere } else { Listens::Anywhere };
        Self { course, world: World::default(), on_term, listens, pages: None }
    }
}

/// A container of a pod, and what it reads.
#[derive(Clone, Copy)]
pub struct Container<'a> {
    /// The cluster; none where that does not matter.
    pub objects: Option<&'a Arc<dyn Objects>>,
    /// The whole pod.
    pub pod: &'a Value,
    /// The container, as its pod specifies it.
    pub container: &'a Value,
}

/// What runs in a container that finds these files in its volumes; `instance` says which run of it that is, where it runs.
pub(crate) fn program(
    of: Container<'_>,
    files: Option<&BTreeSet<String>>,
    instance: Option<Instance<'_>>,
    network: Option<Arc<dyn Resolver>>,
) -> Program {
    let Container { objects, pod, container } = of;
    let place = Place { objects, pod, container, started: None, purpose: Purpose::Life };
    let found = |untrusted: bool| {
        let mut world = World { inside: place.inside(untrusted), ..World::default() };
        let file = || Some(Made::File(File { text: None, mode: 0o644, owner: None }));
        let files: Vec<_> = files.into_iter().flatten().map(|path| (path.clone(), file())).collect();
        world.inside.files.take_over(&files);
        if let Some((objects, instance)) = objects.zip(instance) {
            world.interventions = interventions(&**objects, pod, instance, &world.inside.files);
        }
        world
    };
    let mut program = if words(container).next().is_none() {
        let mut program = of_image(container);
        if is_asked(container) {
            program.world = found(true);
            for intervention in &*program.world.interventions {
                let changes = intervention.changes.iter();
                let noted = changes.map(|(path, made)| (intervention.at, path.clone(), made.is_some()));
                program.course.files.extend(noted);
            }
        }
        program
    } else {
        let mut world = found(false);
        world.network = network;
        // Where the image has a program of its own, arguments alone are for it; else they are the command.
        let words = world.inside.words.clone().unwrap_or_default();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        // What reads waits for a client that attaches.
        let waits = container["stdin"] == true && (is_prompt(&words) || words == ["cat"]);
        let course = if waits { Execution::endless() } else { simulate(&words, &world) };
        let world = if course.known || !is_asked(container) { world } else { found(true) };
        let program = Program::of_course(course);
        let is_scheduler = words.first().is_some_and(|word| kube_scheduler::is_named(word));
        let listens = if is_scheduler { Listens::At(vec![kube_scheduler::PORT]) } else { program.listens };
        Program { listens, world, ..program }
    };
    let shares = pod["spec"]["shareProcessNamespace"] == true || pod["spec"]["hostPID"] == true;
    if shares && program.on_term.is_none() {
        program.on_term = Some(at_once(TERMINATED));
    }
    program
}

/// The `KubeSchedulerConfiguration` of the kube-scheduler that a container runs, with what its flags say of leader election;
/// `None` where another program runs, or where its file is not known.
///
/// # Errors
/// Why it ends at once: a file that is not there or cannot be read, a configuration that kube-scheduler refuses, or one that
/// klab does not follow.
pub fn scheduler_configuration(of: Container<'_>) -> Result<Option<Value>, String> {
    let Container { objects, pod, container } = of;
    if !words(container).next().is_some_and(kube_scheduler::is_named) {
        return Ok(None);
    }
    let inside = Place { objects, pod, container, started: None, purpose: Purpose::Life }.inside(false);
    let words = inside.words.unwrap_or_default();
    kube_scheduler::read(&words.iter().map(String::as_str).collect::<Vec<_>>(), &inside.files)
}

/// Whether a command is a shell without a script, which reads what a client types.
fn is_prompt(command: &[&str]) -> bool {
    let Some((program, rest)) = command.split_first() else { return false };
    let name = program.rsplit('/').next().unwrap_or_default();
    let is_flag = |word: &&str| word.starts_with('-') && !word.contains('c');
    matches!(name, "sh" | "bash" | "ash" | "dash") && rest.iter().all(is_flag)
}

/// Whether commands of probes look at files beside what the container does.
fn is_asked(container: &Value) -> bool {
    ["startupProbe", "readinessProbe", "livenessProbe"].iter().any(|probe| container[*probe]["exec"].is_object())
}

/// The program of an image, which is given no words.
fn of_image(container: &Value) -> Program {
    let image = text(container, &["image"]);
    if base_name(image) == "pause" {
        return Program { on_term: Some(at_once(0)), ..Program::of_course(Execution::endless()) };
    }
    if ends_alone(image) {
        let waits = container["stdin"] == true || container["tty"] == true;
        return Program::of_course(if waits { Execution::endless() } else { simulate(&["sh"], &World::default()) });
    }
    let program = Program::of_course(simulate(&["the image's program"], &World::default()));
    // A configuration in a volume may have a web server listen elsewhere.
    let is_own = |mount: &Value| !text(mount, &["mountPath"]).starts_with("/var/run/secrets/");
    match Image::named(image).pages {
        Some(pages) if !items(&container["volumeMounts"]).iter().any(is_own) => {
            Program { listens: Listens::At(vec![80]), pages: Some(pages), ..program }
        }
        _ => program,
    }
}

/// What happens to files, by time.
type Changes<'a> = BTreeMap<SignedDuration, Vec<(&'a str, Option<Made>)>>;

impl Program {
    /// Whether a command that a kubelet runs beside it succeeds within its time, each outcome with the time from which it
    /// holds; the first holds from the start. It finds the container's files as the program and executed commands have left
    /// them.
    pub fn outcomes(&self, command: &[&str], timeout: SignedDuration) -> Vec<(SignedDuration, bool)> {
        let (changes, made) = self.changes();
        let named = self.named(command);
        let mut there = named.filter(|path| made.contains(path)).map(|_| false);
        let mut world = World { interventions: Arc::default(), ..self.world.clone() };
        // What the program is to make is not there before, wherever that is.
        let absent = made.into_iter().filter(|path| world.inside.files.is_there(path).is_none());
        let absent: Vec<_> = absent.map(|path| (path.to_owned(), None)).collect();
        world.inside.files.take_over(&absent);
        let many = changes.len() > MAX_TIMES;
        let mut outcomes: Vec<(SignedDuration, bool)> = Vec::new();
        for (at, changes) in changes {
            there =
                changes.iter().rfind(|(path, _)| Some(*path) == named).map_or(there, |(_, made)| Some(made.is_some()));
            let succeeds = if many && at > SignedDuration::ZERO {
                there.unwrap_or(outcomes.last().is_some_and(|(_, last)| *last))
            } else {
                let changes: Vec<_> = changes.into_iter().map(|(path, made)| (path.to_owned(), made)).collect();
                world.inside.files.take_over(&changes);
                succeeds(command, &world, timeout, there)
            };
            if outcomes.last().is_none_or(|(_, last)| *last != succeeds) {
                outcomes.push((at, succeeds));
            }
        }
        outcomes
    }

    /// Whether it answers an HTTP request for a path; none where that is not known.
    pub fn answers_at(&self, path: &str) -> Option<bool> {
        let pages = self.pages.filter(|_| !path.contains('%'))?;
        Some(pages.contains(&path.split(['?', '#']).next().unwrap_or_default()))
    }

    /// What happens to files, from the start on, and those that the program is the first to make. What executed commands
    /// have made is known whole; what the program makes, only that it is there.
    fn changes(&self) -> (Changes<'_>, BTreeSet<&str>) {
        let mut known: BTreeMap<(SignedDuration, &str), &Option<Made>> = BTreeMap::new();
        for intervention in &*self.world.interventions {
            known.extend(intervention.changes.iter().map(|(path, made)| ((intervention.at, path.as_str()), made)));
        }
        let mut changes = Changes::from([(SignedDuration::ZERO, Vec::new())]);
        let (mut seen, mut first) = (BTreeSet::new(), BTreeSet::new());
        for (at, path, there) in &self.course.files {
            let made = known.get(&(*at, path.as_str())).map(|made| (*made).clone());
            if seen.insert(path.as_str()) && made.is_none() {
                first.insert(path.as_str());
            }
            let file = || Some(Made::File(File { text: None, mode: 0o644, owner: None }));
            let made = made.unwrap_or_else(|| there.then(file).flatten());
            changes.entry(*at).or_default().push((path.as_str(), made));
        }
        (changes, first)
    }

    /// A file of the container's that a command is about.
    fn named<'a>(&self, command: &[&'a str]) -> Option<&'a str> {
        let parts = |word: &&'a str| word.split(|letter: char| letter.is_whitespace() || "[];&|".contains(letter));
        let mut words = command.iter().flat_map(parts);
        words.find(|word| self.course.files.iter().any(|(_, file, _)| file == word))
    }
}

fn succeeds(command: &[&str], world: &World, timeout: SignedDuration, there: Option<bool>) -> bool {
    match simulate(command, world).end {
        End::After(took, code) => code == 0 && took < timeout,
        End::Unknown(took, _) => took < timeout && there != Some(false),
        End::Never => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn of(container: &Value) -> Program {
        program(Container { objects: None, pod: &json!({}), container }, None, None, None)
    }

    #[test]
    fn images_and_commands_say_what_runs() {
        let pause = of(&json!({"image": "registry.k8s.io/pause:3.10"}));
        assert_eq!((pause.course.end, pause.on_term, pause.listens), (End::Never, Some(at_once(0)), Listens::Nowhere));
        let nginx = of(&json!({"image": "nginx:1.27"}));
        assert!(matches!(nginx.course.end, End::Unknown(..)) && nginx.on_term == Some(at_once(0)));
        assert_eq!(nginx.listens, Listens::At(vec![80]));
        let sleep = of(&json!({"image": "busybox@sha256:1", "command": ["sleep"], "args": ["5"]}));
        assert!(matches!(sleep.course.end, End::After(..)) && sleep.on_term.is_none());
        assert_eq!(sleep.listens, Listens::Nowhere);
        assert!(matches!(of(&json!({"image": "busybox"})).course.end, End::After(..)));
        assert_eq!(of(&json!({"image": "docker.io/library/busybox", "stdin": true})).course.end, End::Never);
        let exits = json!({"image": "acme/tool", "args": ["sh", "-c", "exit 3"]});
        assert_eq!(of(&exits).course.end, End::After(SignedDuration::ZERO, 3));
        for image in ["bitnami/nginx:1.27", "localhost:5000/nginx", "acme/web"] {
            assert_eq!(of(&json!({"image": image})).listens, Listens::Anywhere, "{image}");
        }
        let configured = json!({ "image": "nginx", "volumeMounts": [{ "name": "conf", "mountPath": "/etc/nginx" }] });
        assert_eq!(of(&configured).listens, Listens::Anywhere);
    }

    #[test]
    fn the_environment_is_the_pods() {
        let pod = json!({"metadata": {"name": "p", "annotations": {"batch.kubernetes.io/job-completion-index": "3"}}});
        let container = json!({
            "command": ["sh", "-c", "exit $((INDEX + BASE))"],
            "env": [
                {"name": "INDEX", "valueFrom": {"fieldRef": {"fieldPath": "metadata.annotations['batch.kubernetes.io/job-completion-index']"}}},
                {"name": "BASE", "value": "40"},
            ],
        });
        let program = program(Container { objects: None, pod: &pod, container: &container }, None, None, None);
        assert_eq!(program.course.end, End::After(SignedDuration::ZERO, 43));
    }

    #[test]
    fn only_the_first_process_of_a_namespace_may_ignore_signals() {
        let pod = json!({"spec": {"shareProcessNamespace": true}});
        let container = json!({"command": ["sleep", "60"]});
        let program = program(Container { objects: None, pod: &pod, container: &container }, None, None, None);
        assert_eq!(program.on_term, Some(at_once(143)));
    }
}
