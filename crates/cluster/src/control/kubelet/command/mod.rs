//! What the image and the command of a container say about how it runs: how long, how it ends, what it does on SIGTERM.
//!
//! Nothing is run. Shell scripts are followed as far as their outcome can be told from the script, the environment that
//! the pod gives and the files that containers left in volumes; the end of other programs is unknown.

mod amounts;
mod arithmetic;
mod course;
mod script;
mod tokens;
mod world;

use std::collections::{BTreeMap, BTreeSet};

use jiff::SignedDuration;
use serde_json::Value;

pub(super) use self::course::follow;
pub(super) use self::world::{Course, End, World};
use super::super::value::{items, text};
use super::volumes::directories;

/// Images that are a shell and a few tools: without a command they end at once, as nobody types anything.
const SHELLS: [&str; 9] =
    ["busybox", "alpine", "ubuntu", "debian", "fedora", "centos", "amazonlinux", "bash", "python"];
/// Exit code of a process that SIGTERM ends, as it does when it is not the first of its namespace.
const TERMINATED: i64 = 143;

/// What runs in a container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Program {
    pub(super) course: Course,
    /// How long it takes to end on SIGTERM, and its exit code; `None`: it does not heed it, and is killed when its grace is
    /// over.
    pub(super) on_term: Option<(SignedDuration, i64)>,
    pub(super) listens: Listens,
}

/// At which ports a program takes connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Listens {
    Nowhere,
    /// Nobody knows: at those that it is asked at.
    Anywhere,
    At(u16),
}

impl Listens {
    /// Whether a connection to that port is taken; a name that no port has leads nowhere.
    pub(super) fn at(self, port: Option<i64>) -> bool {
        match self {
            Self::Nowhere => false,
            Self::Anywhere => true,
            Self::At(own) => port == Some(i64::from(own)),
        }
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
        Self { course, on_term, listens }
    }

    fn endless(code: i64, listens: Listens) -> Self {
        Self { course: Course::endless(), on_term: Some(at_once(code)), listens }
    }
}

/// The name of an image without registry, path, tag and digest.
fn base_name(image: &str) -> &str {
    let name = image.split('@').next().unwrap_or_default().rsplit('/').next().unwrap_or_default();
    name.split(':').next().unwrap_or_default()
}

/// What runs in a container of this pod that finds these files in its volumes.
pub(super) fn program(pod: &Value, container: &Value, files: Option<&BTreeSet<String>>) -> Program {
    let words = |field: &str| items(&container[field]).iter().filter_map(Value::as_str).collect::<Vec<_>>();
    let (command, args) = (words("command"), words("args"));
    let name = base_name(text(container, &["image"]));
    let mut program = if command.is_empty() && (args.is_empty() || name == "agnhost") {
        of_image(container, name, &args)
    } else {
        let world = World {
            variables: environment(pod, container),
            directories: directories(pod, container),
            files: files.cloned().unwrap_or_default(),
        };
        // Where the image has a program of its own, arguments alone are for it; else they are the command.
        Program::of_course(follow(&[command, args].concat(), &world))
    };
    let shares = pod["spec"]["shareProcessNamespace"] == true || pod["spec"]["hostPID"] == true;
    if shares && program.on_term.is_none() {
        program.on_term = Some(at_once(TERMINATED));
    }
    program
}

fn of_image(container: &Value, name: &str, args: &[&str]) -> Program {
    match (name, args.first().copied()) {
        ("pause", _) => Program::endless(0, Listens::Nowhere),
        // Kubernetes' image for tests: its servers run until they are stopped.
        ("agnhost", None | Some("pause")) => Program::endless(2, Listens::Nowhere),
        ("agnhost", Some("test-webserver")) => Program::endless(0, Listens::At(option(args, "port", 80))),
        ("agnhost", Some("netexec")) => Program::endless(0, Listens::At(option(args, "http-port", 8080))),
        ("agnhost", _) => Program::endless(0, Listens::Anywhere),
        // As the image comes; a configuration in a volume may have it listen elsewhere.
        ("nginx" | "httpd", _) if is_official(container, name) && !is_configured(container) => {
            Program { listens: Listens::At(80), ..Program::of_course(follow(&[""], &World::default())) }
        }
        _ if SHELLS.contains(&name) => {
            let waits = container["stdin"] == true || container["tty"] == true;
            Program::of_course(if waits { Course::endless() } else { follow(&["sh"], &World::default()) })
        }
        _ => Program::of_course(follow(&[""], &World::default())),
    }
}

/// Whether the image is the one that everybody means by that name: others of the name may listen elsewhere.
fn is_official(container: &Value, name: &str) -> bool {
    let image = text(container, &["image"]).split('@').next().unwrap_or_default();
    let home = image.rfind(name).and_then(|at| image.get(..at)).unwrap_or_default();
    let home = home.strip_prefix("docker.io/").unwrap_or(home);
    matches!(home, "" | "library/" | "registry.k8s.io/e2e-test-images/")
}

/// Whether there are files of the pod's, beside the credentials that every container has.
fn is_configured(container: &Value) -> bool {
    let own = |mount: &Value| !text(mount, &["mountPath"]).starts_with("/var/run/secrets/");
    items(&container["volumeMounts"]).iter().any(own)
}

/// The port that `--name=80` or `--name 80` gives.
fn option(args: &[&str], name: &str, otherwise: u16) -> u16 {
    let mut rest = args.iter();
    while let Some(arg) = rest.next() {
        let Some(said) = arg.trim_start_matches('-').strip_prefix(name).filter(|_| arg.starts_with('-')) else {
            continue;
        };
        let value = match said.strip_prefix('=') {
            Some(value) => Some(value),
            None if said.is_empty() => rest.next().copied(),
            None => continue,
        };
        return value.and_then(|value| value.parse().ok()).unwrap_or(otherwise);
    }
    otherwise
}

/// The variables that a pod gives a container, as far as the pod alone says them.
fn environment(pod: &Value, container: &Value) -> BTreeMap<String, String> {
    let value = |variable: &Value| -> Option<String> {
        if let Some(value) = variable["value"].as_str() {
            return (!value.contains("$(")).then(|| value.to_owned());
        }
        let path = variable["valueFrom"]["fieldRef"]["fieldPath"].as_str()?;
        let keyed = |field: &str| {
            let key = path.strip_prefix("metadata.")?.strip_prefix(field)?.strip_prefix("['")?.strip_suffix("']")?;
            pod["metadata"][field][key].as_str()
        };
        let found = match path {
            "metadata.name" | "metadata.namespace" | "metadata.uid" => pod["metadata"][path.get(9..)?].as_str(),
            "spec.nodeName" | "spec.serviceAccountName" => pod["spec"][path.get(5..)?].as_str(),
            _ => keyed("annotations").or_else(|| keyed("labels")),
        };
        found.map(str::to_owned)
    };
    items(&container["env"])
        .iter()
        .filter_map(|variable| Some((text(variable, &["name"]).to_owned(), value(variable)?)))
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn of(container: Value) -> Program {
        program(&json!({}), &container, None)
    }

    #[test]
    fn images_and_commands_say_what_runs() {
        let pause = of(json!({"image": "registry.k8s.io/pause:3.10"}));
        assert_eq!((pause.course.end, pause.on_term, pause.listens), (End::Never, Some(at_once(0)), Listens::Nowhere));
        let nginx = of(json!({"image": "nginx:1.27"}));
        assert!(matches!(nginx.course.end, End::Unknown(..)) && nginx.on_term == Some(at_once(0)));
        assert_eq!(nginx.listens, Listens::At(80));
        let sleep = of(json!({"image": "busybox@sha256:1", "command": ["sleep"], "args": ["5"]}));
        assert!(matches!(sleep.course.end, End::After(..)) && sleep.on_term.is_none());
        assert_eq!(sleep.listens, Listens::Nowhere);
        assert!(matches!(of(json!({"image": "busybox"})).course.end, End::After(..)));
        assert_eq!(of(json!({"image": "docker.io/library/busybox", "stdin": true})).course.end, End::Never);
        let exits = json!({"image": "acme/tool", "args": ["sh", "-c", "exit 3"]});
        assert_eq!(of(exits).course.end, End::After(SignedDuration::ZERO, 3));
        let agnhost = |args: &[&str]| of(json!({"image": "k8s/agnhost:2", "args": args})).listens;
        assert_eq!(agnhost(&["netexec"]), Listens::At(8080));
        assert_eq!(agnhost(&["netexec", "--http-port=81"]), Listens::At(81));
        assert_eq!(agnhost(&["test-webserver", "-port", "82"]), Listens::At(82));
        assert_eq!(agnhost(&["nettest"]), Listens::Anywhere);
        for (image, port) in [
            ("nginx", Listens::At(80)),
            ("docker.io/library/httpd:2.4", Listens::At(80)),
            ("registry.k8s.io/e2e-test-images/nginx:1.15-4@sha256:1", Listens::At(80)),
            ("bitnami/nginx:1.27", Listens::Anywhere),
            ("localhost:5000/nginx", Listens::Anywhere),
        ] {
            assert_eq!(of(json!({"image": image})).listens, port, "{image}");
        }
        let configured = json!({"image": "nginx", "volumeMounts": [{"name": "conf", "mountPath": "/etc/nginx"}]});
        assert_eq!(of(configured).listens, Listens::Anywhere);
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
        assert_eq!(program(&pod, &container, None).course.end, End::After(SignedDuration::ZERO, 43));
    }

    #[test]
    fn only_the_first_process_of_a_namespace_may_ignore_signals() {
        let pod = json!({"spec": {"shareProcessNamespace": true}});
        assert_eq!(program(&pod, &json!({"command": ["sleep", "60"]}), None).on_term, Some(at_once(143)));
    }
}
