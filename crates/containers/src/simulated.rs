//! What containers do that do not run, as far as it is certain: the one that klab ships.

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use crate::file_changes::{Instance, entries};
use crate::history::{Ran, instance, last_message, past, present};
use crate::image::{Image, Shell};
use crate::network::Network;
use crate::program::{Container, Program, program};
use crate::shell::execution::{End, Resolver};
use crate::shell::output::{Piece, Unknown};
use crate::shell::{execute, is_network_command};
use crate::value::{status_of, words};
use klab_api_machinery::value::{items, text};

/// A command is followed for so long.
const HORIZON: SignedDuration = SignedDuration::from_mins(10);
/// The programs that can be executed.
const EXECUTED: [&str; 16] = [
    "env", "printenv", "cat", "ls", "stat", "id", "hostname", "date", "echo", "test", "[", "touch", "rm", "true",
    "false", "sleep",
];
/// Where what is not followed here can be tried.
pub const REAL_CONTAINERS: &str = "kind runs real containers (`klab up LAB --provider kind`)";

/// What a container has printed.
#[derive(Debug, Clone)]
pub struct Log {
    /// In the order in which it was printed.
    pub pieces: Vec<Piece>,
    /// From when on it is not certain.
    pub unknown: Option<Unknown>,
}

/// A command that is executed in a container.
#[derive(Debug, Clone)]
pub struct Executed {
    /// What it prints, in order.
    pub pieces: Vec<Piece>,
    /// How long it takes.
    pub took: SignedDuration,
    /// Its exit code.
    pub code: i64,
    /// What it has done to files, to be kept beside the pod.
    pub changes: Vec<Value>,
}

/// Why a command is not executed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// It is not certain what it would do, with the reason.
    NotKnown(String),
    /// The image has no such program.
    NoSuchProgram,
}

/// What containers do.
pub trait Containers: Send + Sync {
    /// What runs in a container that finds these files in its volumes. `instance` says which run of it that is, where it runs,
    /// and `answered` since when the network answers one whose end its pod waits for.
    fn program(
        &self,
        of: Container<'_>,
        files: Option<&BTreeSet<String>>,
        instance: Option<Instance<'_>>,
        answered: Option<SignedDuration>,
    ) -> Program;

    /// What a container has printed in a time when it ran, until then at most.
    ///
    /// # Errors
    /// Why that is not certain.
    fn log(&self, of: Container<'_>, ran: Ran, until: Timestamp) -> Result<Log, String>;

    /// What a container that has ended leaves as its message, where that is certain.
    fn last_message(&self, of: Container<'_>, ran: Ran) -> Option<String>;

    /// What comes of a command that is executed in a running container; `typed` where a client sends it input.
    ///
    /// # Errors
    /// Why it is not executed.
    fn exec(&self, of: Container<'_>, command: &[String], typed: bool, tty: bool) -> Result<Executed, Refusal>;
}

/// Follows what is certain, and refuses the rest.
#[derive(Debug, Clone, Copy, Default)]
pub struct Simulated;

impl Containers for Simulated {
    fn program(
        &self,
        of: Container<'_>,
        files: Option<&BTreeSet<String>>,
        instance: Option<Instance<'_>>,
        answered: Option<SignedDuration>,
    ) -> Program {
        let objects = of.objects.filter(|_| is_network_command(words(of.container)));
        let network = objects.zip(answered).map(|(objects, news)| -> Arc<dyn Resolver> {
            Arc::new(Network { objects: Arc::clone(objects), pod: Arc::new(of.pod.clone()), news })
        });
        program(of, files, instance, network)
    }

    fn log(&self, of: Container<'_>, ran: Ran, until: Timestamp) -> Result<Log, String> {
        let performance = past(of, ran, until)?;
        Ok(Log { pieces: performance.pieces.into(), unknown: performance.unknown })
    }

    fn last_message(&self, of: Container<'_>, ran: Ran) -> Option<String> {
        last_message(of, ran)
    }

    fn exec(&self, of: Container<'_>, command: &[String], typed: bool, tty: bool) -> Result<Executed, Refusal> {
        let refused = |why: String| Err(Refusal::NotKnown(why));
        let program = command.first().map(String::as_str).unwrap_or_default();
        let name = program.rsplit('/').next().unwrap_or_default();
        let image = text(of.container, &["image"]);
        match Image::named(image).shell {
            Shell::Nothing => return Err(Refusal::NoSuchProgram),
            // What a shell does itself is no program.
            Shell::Busybox | Shell::Dash | Shell::Bash if program == "exit" => return Err(Refusal::NoSuchProgram),
            Shell::Unknown if !has_shell(of.container) => {
                return refused(format!("whether the image `{image}` has `{name}` is not known"));
            }
            _ => {}
        }
        let is_script = is_shell_of(name, image) && matches!(command, [_, flag, _] if flag == "-c");
        if !is_script && !EXECUTED.contains(&name) {
            let known = EXECUTED.iter().filter(|name| **name != "[").copied().collect::<Vec<_>>().join(", ");
            return refused(format!("`{name}` is not followed; klab follows {known}, sh -c"));
        }
        if typed && name == "cat" && command.len() == 1 {
            return refused("what a client types is not followed".to_owned());
        }
        if tty && name == "ls" {
            let why = "how `ls` fills a terminal is not followed (`kubectl exec` without `-t` has one name a line)";
            return refused(why.to_owned());
        }
        let objects = of.objects.ok_or_else(|| Refusal::NotKnown("the cluster is not known".to_owned()))?;
        let world = present(objects, of.pod, of.container);
        let words: Vec<&str> = command.iter().map(String::as_str).collect();
        let performance = execute(&words, &world, HORIZON);
        if let Some(unknown) = performance.unknown {
            return refused(unknown.why);
        }
        let (took, code) = match performance.end {
            End::After(took, code) => (took, code),
            End::Never | End::Unknown(..) => {
                return refused(format!("a command is followed for {} minutes", HORIZON.as_mins()));
            }
        };
        let changes = performance.files.changed_since(&world.inside.files);
        let changes = match Ran::of(&status_of(of.pod, of.container)["state"]) {
            Some(ran) => entries(instance(of.pod, of.container, ran), objects.now(), &world.inside.files, &changes),
            None => Vec::new(),
        };
        Ok(Executed { pieces: performance.pieces.into(), took, code, changes })
    }
}

/// Whether a name is that of a shell which an image has. Debian and what is upon it have two.
fn is_shell_of(name: &str, image: &str) -> bool {
    let shell = Image::named(image).shell;
    matches!(
        (name, shell),
        ("sh", _) | ("ash", Shell::Busybox) | ("bash", Shell::Bash | Shell::Dash) | ("dash", Shell::Dash)
    )
}

/// Whether a container's own command is a shell, so that its image has the programs of every shell.
fn has_shell(container: &Value) -> bool {
    let first = items(&container["command"]).first().and_then(Value::as_str).unwrap_or_default();
    matches!(first.rsplit('/').next(), Some("sh" | "bash" | "ash" | "dash"))
}
