//! What runs in a container as a kubelet sees it: its course, what it does on SIGTERM, where it listens.

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::SignedDuration;
use serde_json::Value;

use super::health::Health;
use super::image::{Image, SHELLS, base_name, is_official};
use super::kept::{Instance, end_of, given, interventions};
use super::place::{Place, Purpose};
use super::reach::{Protocol, Reach};
use super::run::follow;
use super::servers::Server;
use super::session::is_prompt;
use super::world::{Course, End, World};
use crate::cluster::Cluster;
use crate::value::{items, text};

/// Exit code of a process that SIGTERM ends, as it does when it is not the first of its namespace.
const TERMINATED: i64 = 143;

/// What runs in a container.
#[derive(Debug, Clone)]
pub(crate) struct Program {
    pub(crate) course: Course,
    /// What it has found when it started, and commands beside it find.
    pub(super) world: World,
    /// How long it takes to end on SIGTERM, and its exit code; `None`: it does not heed it, and is killed when its grace is
    /// over.
    pub(crate) on_term: Option<(SignedDuration, i64)>,
    pub(crate) listens: Listens,
    /// The directory with whose files it answers, where it does.
    pub(crate) serves: Option<&'static str>,
    /// How it is, where it says so itself.
    pub(crate) health: Option<Health>,
}

/// At which ports a program takes connections.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Listens {
    Nowhere,
    /// Nobody knows: at those that it is asked at.
    Anywhere,
    At(Vec<u16>),
}

impl Listens {
    /// Whether a connection to that port is taken; a name that no port has leads nowhere.
    pub(crate) fn at(&self, port: Option<i64>) -> bool {
        match self {
            Self::Nowhere => false,
            Self::Anywhere => true,
            Self::At(own) => own.iter().any(|own| port == Some(i64::from(*own))),
        }
    }

    fn of(server: &Server) -> Self {
        let tcp = server.ports().into_iter().filter(|(_, protocol)| *protocol == Protocol::Tcp);
        Self::At(tcp.map(|(port, _)| port).collect())
    }
}

/// Ends at once.
const fn at_once(code: i64) -> (SignedDuration, i64) {
    (SignedDuration::ZERO, code)
}

impl Program {
    fn of_course(course: Course) -> Self {
        // A program that is not known is taken to end as it should.
        let on_term = if course.known { course.on_term } else { course.on_term.or(Some(at_once(0))) };
        let listens = if course.known { Listens::Nowhere } else { Listens::Anywhere };
        Self { course, world: World::default(), on_term, listens, serves: None, health: None }
    }

    fn endless(code: i64, listens: Listens) -> Self {
        let (course, world) = (Course::endless(), World::default());
        Self { course, world, on_term: Some(at_once(code)), listens, serves: None, health: None }
    }
}

/// What runs in a container of this pod that finds these files in its volumes; `instance` says which run of it that is,
/// where it runs.
pub(crate) fn program(
    cluster: Option<&Arc<Cluster>>,
    pod: &Value,
    container: &Value,
    files: Option<&BTreeSet<String>>,
    instance: Option<Instance<'_>>,
    network: Option<Arc<dyn Reach>>,
) -> Program {
    let words = |field: &str| items(&container[field]).iter().filter_map(Value::as_str).collect::<Vec<_>>();
    let (command, args) = (words("command"), words("args"));
    let name = base_name(text(container, &["image"]));
    let tester = match name {
        "agnhost" => args.first().is_some_and(|first| TESTERS.contains(first)),
        "nonewprivs" => is_official(text(container, &["image"])),
        _ => false,
    };
    let place = Place { cluster, pod, container, status: &Value::Null, started: None, purpose: Purpose::Life };
    let found = |untrusted: bool| {
        let (mut world, environment) = place.world_with(untrusted);
        for file in files.into_iter().flatten() {
            world = world.with_file(file);
        }
        if let Some(instance) = instance {
            world.interventions = interventions(cluster, pod, instance, &world.files);
        }
        if container["stdin"] == true {
            world.given = given(cluster, pod, instance);
        }
        (world, environment)
    };
    let mut program = if command.is_empty() && (args.is_empty() || name == "agnhost") && !tester {
        let mut program = of_image(container, name, &args);
        if is_asked(container, program.serves.is_some()) {
            program.world = found(true).0;
            for intervention in &*program.world.interventions {
                let changes = intervention.changes.iter();
                let noted = changes.map(|(path, made)| (intervention.at, path.clone(), made.is_some()));
                program.course.files.extend(noted);
            }
        }
        program
    } else {
        let (mut world, environment) = found(false);
        world.network = network;
        // Where the image has a program of its own, arguments alone are for it; else they are the command.
        let words = place.words(&environment).unwrap_or_default();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        world.has_unknown_company = words.iter().any(|word| word.contains("tail")) && has_unknown_company(&place);
        // A shell waits for whoever attaches to it.
        let waits = container["stdin"] == true && is_prompt(&words);
        let course = if waits { Course::endless() } else { follow(&words, &world) };
        let world = if course.known || !is_asked(container, false) { world } else { found(true).0 };
        Program { world, ..Program::of_course(course) }
    };
    program.health = Health::of(container);
    if let Some(health) = &program.health {
        program.listens = Listens::At(health.ports.clone());
    }
    if let (Some(cluster), Some(instance)) = (cluster.filter(|_| container["stdin"] == true), instance)
        && let Some((at, code)) = end_of(cluster, pod, instance)
    {
        program.course.end = End::After(at, code);
    }
    let shares = pod["spec"]["shareProcessNamespace"] == true || pod["spec"]["hostPID"] == true;
    if shares && program.on_term.is_none() {
        program.on_term = Some(at_once(TERMINATED));
    }
    program
}

/// Whether another container of the pod that shares a volume with this one runs what is not known.
fn has_unknown_company(place: &Place<'_>) -> bool {
    let volumes = |container: &'_ Value| -> Vec<Value> {
        items(&container["volumeMounts"]).iter().map(|mount| mount["name"].clone()).collect()
    };
    let own = volumes(place.container);
    let all = ["initContainers", "containers"].iter().flat_map(|list| items(&place.pod["spec"][*list]));
    all.filter(|other| other["name"] != place.container["name"])
        .filter(|other| volumes(other).iter().any(|volume| own.contains(volume)))
        .any(|container| {
            let other = Place { container, ..*place };
            let (world, environment) = other.world();
            let words = other.words(&environment).unwrap_or_default();
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            words.is_empty() || !follow(&words, &world).known
        })
}

/// Whether it is looked at files beside what the container does: by commands, or by those who ask for them.
fn is_asked(container: &Value, serves_files: bool) -> bool {
    let probes = ["startupProbe", "readinessProbe", "livenessProbe"].map(|probe| &container[probe]);
    probes.into_iter().any(|probe| probe["exec"].is_object() || (serves_files && probe["httpGet"].is_object()))
}

/// Programs of Kubernetes' image for tests that end by themselves.
const TESTERS: [&str; 5] = ["mounttest", "entrypoint-tester", "etc-hosts", "dns-suffix", "dns-server-list"];

fn of_image(container: &Value, name: &str, args: &[&str]) -> Program {
    let server = Server::of(container);
    let listens = server.as_ref().map_or(Listens::Anywhere, Listens::of);
    match (name, args.first().copied()) {
        ("pause", _) => Program::endless(0, Listens::Nowhere),
        // Kubernetes' image for tests: its servers run until they are stopped.
        ("agnhost", None | Some("pause")) => Program::endless(2, Listens::Nowhere),
        ("agnhost", _) => {
            let serves = matches!(server, Some(Server::TestWebserver(_))).then_some("");
            Program { serves, ..Program::endless(0, listens) }
        }
        _ if SHELLS.contains(&name) => {
            let waits = container["stdin"] == true || container["tty"] == true;
            Program::of_course(if waits { Course::endless() } else { follow(&["sh"], &World::default()) })
        }
        _ if server.is_some() => {
            let serves = Image::named(text(container, &["image"])).pages;
            Program { listens, serves, ..Program::of_course(follow(&[""], &World::default())) }
        }
        _ => Program::of_course(follow(&[""], &World::default())),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn of(container: Value) -> Program {
        program(None, &json!({}), &container, None, None, None)
    }

    #[test]
    fn images_and_commands_say_what_runs() {
        let pause = of(json!({"image": "registry.k8s.io/pause:3.10"}));
        assert_eq!((pause.course.end, pause.on_term, pause.listens), (End::Never, Some(at_once(0)), Listens::Nowhere));
        let nginx = of(json!({"image": "nginx:1.27"}));
        assert!(matches!(nginx.course.end, End::Unknown(..)) && nginx.on_term == Some(at_once(0)));
        assert_eq!(nginx.listens, Listens::At(vec![80]));
        let sleep = of(json!({"image": "busybox@sha256:1", "command": ["sleep"], "args": ["5"]}));
        assert!(matches!(sleep.course.end, End::After(..)) && sleep.on_term.is_none());
        assert_eq!(sleep.listens, Listens::Nowhere);
        assert!(matches!(of(json!({"image": "busybox"})).course.end, End::After(..)));
        assert_eq!(of(json!({"image": "docker.io/library/busybox", "stdin": true})).course.end, End::Never);
        let exits = json!({"image": "acme/tool", "args": ["sh", "-c", "exit 3"]});
        assert_eq!(of(exits).course.end, End::After(SignedDuration::ZERO, 3));
        let agnhost = |args: &[&str]| of(json!({"image": "k8s/agnhost:2", "args": args})).listens;
        assert_eq!(agnhost(&["netexec", "--http-port=81"]), Listens::At(vec![81]));
        assert_eq!(agnhost(&["nettest"]), Listens::Anywhere);
        assert_eq!(of(json!({"image": "bitnami/nginx:1.27"})).listens, Listens::Anywhere);
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
        assert_eq!(program(None, &pod, &container, None, None, None).course.end, End::After(SignedDuration::ZERO, 43));
    }

    #[test]
    fn only_the_first_process_of_a_namespace_may_ignore_signals() {
        let pod = json!({"spec": {"shareProcessNamespace": true}});
        assert_eq!(
            program(None, &pod, &json!({"command": ["sleep", "60"]}), None, None, None).on_term,
            Some(at_once(143))
        );
    }
}
