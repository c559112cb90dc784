//! The container runtime that kind works with (docker, podman, nerdctl): typed calls and what they answer.

mod described;
mod inspect;
mod new_worker;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

pub use self::described::{CLUSTER_LABEL, Container, Flavour, Info, Manner, ROLE_LABEL};
use self::inspect::{docker_info, parse_containers, podman_info};
pub use self::new_worker::NewWorker;
use super::failure;
use super::machine::{Emulation, Host};
use super::tool::Tool;
use crate::environment;
use crate::error::{Code, Error, Result};
use crate::exec;
use klab_cluster::deadline;

/// A question to the runtime.
const QUESTION: Duration = Duration::from_mins(1);
/// Something the runtime does with containers.
const WORK: Duration = Duration::from_mins(3);
/// A transfer of an image.
const TRANSFER: Duration = Duration::from_mins(30);

/// Pause between two looks at what the runtime is removing.
const GOING: Duration = Duration::from_millis(200);

/// How long what was seen of a cluster counts, where several parts of one command ask in turn: each call of the runtime takes
/// as long as all of klab's own work.
const FRESH: Duration = Duration::from_secs(1);

/// What runtimes said while klab runs.
#[derive(Debug, Default)]
pub struct Memory {
    seen: Arc<ContainerCache>,
    /// The runtimes that were found, by what was asked for: they do not change while klab runs.
    found: Mutex<BTreeMap<String, (Runtime, Info)>>,
}

/// The containers that were seen last, by cluster.
#[derive(Debug, Default)]
struct ContainerCache(Mutex<BTreeMap<String, (Instant, Vec<Container>)>>);

impl ContainerCache {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, (Instant, Vec<Container>)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A container runtime.
#[derive(Debug, Clone)]
pub struct Runtime {
    tool: Tool,
    flavour: Flavour,
    seen: Arc<ContainerCache>,
}

/// Finds the runtime as kind does: the one that is asked for, else docker, nerdctl, podman, whichever answers.
///
/// # Errors
/// When the wanted one, or docker where none answers, does not answer.
pub fn find(wanted: Option<&str>, memory: &Memory) -> Result<(Runtime, Info)> {
    let candidates: Vec<Runtime> = match wanted {
        None | Some("") => ["docker", "nerdctl", "podman"].map(Runtime::named).into_iter().flatten().collect(),
        Some(name) => {
            let Some(runtime) = Runtime::named(name) else {
                let variable = environment::KIND_EXPERIMENTAL_PROVIDER.name;
                let message = format!("klab knows no container runtime `{name}`, which {variable} names");
                return Err(Error::message(Code::ContainerRuntime, message)
                    .hint(format!("unset {variable}, or set it to docker, podman or nerdctl")));
            };
            vec![runtime]
        }
    };
    let key = wanted.unwrap_or_default().to_owned();
    if let Some(found) = memory.found.lock().unwrap_or_else(PoisonError::into_inner).get(&key) {
        return Ok(found.clone());
    }
    let mut first = None;
    for mut runtime in candidates {
        runtime.seen = Arc::clone(&memory.seen);
        match runtime.info() {
            Ok(info) => {
                let found = (runtime, info);
                memory.found.lock().unwrap_or_else(PoisonError::into_inner).insert(key, found.clone());
                return Ok(found);
            }
            Err(error) => first = first.or(Some(error)),
        }
    }
    Err(first.unwrap_or_else(|| Error::message(Code::ContainerRuntime, "no container runtime was found")))
}

impl Runtime {
    /// The runtime of a program's name, as [`environment::KIND_EXPERIMENTAL_PROVIDER`] takes it.
    pub fn named(name: &str) -> Option<Self> {
        let flavour = match name {
            "docker" => Flavour::Docker,
            "podman" => Flavour::Podman,
            "nerdctl" | "finch" | "nerdctl.lima" => Flavour::Nerdctl,
            _ => return None,
        };
        Some(Self { tool: Tool::new(name), flavour, seen: Arc::default() })
    }

    /// Writes down what it says from now on.
    pub fn transcribed(&self, file: PathBuf) -> Self {
        Self { tool: self.tool.clone().transcribed(file), ..self.clone() }
    }

    /// The program's name.
    pub fn program(&self) -> &str {
        self.tool.program()
    }

    /// Which family of commands it speaks.
    pub fn flavour(&self) -> Flavour {
        self.flavour
    }

    fn ask<T: AsRef<str>>(&self, arguments: &[T]) -> Result<String> {
        self.call(arguments, QUESTION)
    }

    fn call<T: AsRef<str>>(&self, arguments: &[T], deadline: Duration) -> Result<String> {
        self.tool.run(arguments, deadline).map_err(|error| failure::of_runtime(self.program(), error))
    }

    /// What it says of itself.
    ///
    /// # Errors
    /// When it is not there or does not run.
    pub fn info(&self) -> Result<Info> {
        let format = if self.flavour == Flavour::Podman { "json" } else { "{{json .}}" };
        let text = self.ask(&["info", "--format", format])?;
        let info = if self.flavour == Flavour::Podman { podman_info(&text) } else { docker_info(&text) };
        info.ok_or_else(|| {
            let message = format!("could not understand what `{} info` says", self.program());
            Error::message(Code::ToolAnswer, message)
                .hint(format!("look at `{} info --format '{format}'`", self.program()))
        })
    }

    /// Whether it runs on this very machine, and not behind a network or in a machine of its own.
    pub fn is_local(&self, info: &Info) -> bool {
        if info.system.contains("Docker Desktop") || !cfg!(target_os = "linux") {
            return false;
        }
        let remote = |host: &str| ["tcp:", "ssh:", "http:", "https:"].iter().any(|scheme| host.starts_with(scheme));
        match (self.flavour, environment::DOCKER_HOST.text()) {
            (Flavour::Docker, Some(host)) => !remote(&host),
            (Flavour::Docker, _) => {
                let context = self.ask(&["context", "inspect", "--format", "{{.Endpoints.docker.Host}}"]);
                // A runtime without contexts is on this machine.
                context.map_or(true, |host| !remote(host.trim()))
            }
            _ => true,
        }
    }

    /// The machine as far as node sizes go. `KLAB_KIND_SIZES=shrink` keeps klab from mounting generated files, `full` has it
    /// mount them on untested container runtimes as well.
    pub fn host(&self, info: &Info) -> Host {
        let able = match environment::KLAB_KIND_SIZES.text().as_deref() {
            Some("shrink") => false,
            Some("full") => true,
            _ => {
                self.flavour == Flavour::Docker
                    && !info.rootless
                    && Path::new("/sys/devices/system/node").is_dir()
                    && self.is_local(info)
            }
        };
        let emulation = if able { Emulation::Full } else { Emulation::Shrink };
        Host { cpus: info.cpus, memory: info.memory, emulation }
    }

    /// The containers of a cluster as they were seen a moment ago, or are now: for those who change nothing.
    ///
    /// # Errors
    /// When the runtime does not answer.
    pub fn containers_seen(&self, cluster: &str) -> Result<Vec<Container>> {
        let seen = self.seen.lock().get(cluster).cloned();
        match seen {
            Some((when, containers)) if when.elapsed() < FRESH => Ok(containers),
            _ => self.containers(cluster),
        }
    }

    /// The containers of a cluster, running or not.
    ///
    /// # Errors
    /// When the runtime does not answer.
    pub fn containers(&self, cluster: &str) -> Result<Vec<Container>> {
        let containers = self.look_for(cluster)?;
        let seen = (Instant::now(), containers.clone());
        self.seen.lock().insert(cluster.to_owned(), seen);
        Ok(containers)
    }

    /// Looks until none is on its way out: a call that a killed klab had made goes on, and what it removes cannot be started and
    /// keeps its name.
    fn look_for(&self, cluster: &str) -> Result<Vec<Container>> {
        let until = deadline::within(WORK);
        loop {
            let mut containers = self.look_once(cluster)?;
            if !containers.iter().any(|container| container.going) {
                return Ok(containers);
            }
            if Instant::now() > until {
                containers.retain(|container| !container.going);
                return Ok(containers);
            }
            std::thread::sleep(GOING);
        }
    }

    fn look_once(&self, cluster: &str) -> Result<Vec<Container>> {
        let filter = format!("label={CLUSTER_LABEL}={cluster}");
        let ids = self.ask(&["ps", "--all", "--quiet", "--no-trunc", "--filter", &filter])?;
        let ids: Vec<&str> = ids.split_whitespace().collect();
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let mut arguments = vec!["inspect", "--type", "container"];
        arguments.extend(&ids);
        match self.tool.run(&arguments, QUESTION) {
            Ok(text) => parse_containers(&text).ok_or_else(|| {
                Error::message(Code::ToolAnswer, format!("could not understand what `{} inspect` says", self.program()))
            }),
            // One that vanished in between is no error: look again.
            Err(exec::Error::Failed { stderr, .. }) if failure::is_gone(&stderr) => self.look_once(cluster),
            Err(error) => Err(failure::of_runtime(self.program(), error)),
        }
    }

    /// How many nodes of kind there are on this machine, of all clusters.
    ///
    /// # Errors
    /// When the runtime does not answer.
    pub fn all_nodes(&self) -> Result<usize> {
        let text = self.ask(&["ps", "--quiet", "--filter", &format!("label={CLUSTER_LABEL}")])?;
        Ok(text.split_whitespace().count())
    }

    /// Whether there is a network of that name.
    ///
    /// # Errors
    /// When the runtime does not answer.
    pub fn has_network(&self, name: &str) -> Result<bool> {
        let text = self.ask(&["network", "ls", "--format", "{{.Name}}"])?;
        Ok(text.lines().any(|line| line.trim() == name))
    }

    /// The volumes of these names that exist.
    ///
    /// # Errors
    /// When the runtime does not answer.
    pub fn volumes_of(&self, names: &[String]) -> Result<Vec<String>> {
        if names.is_empty() {
            return Ok(Vec::new());
        }
        let text = self.ask(&["volume", "ls", "--quiet"])?;
        Ok(text
            .split_whitespace()
            .filter(|name| names.iter().any(|wanted| wanted == name))
            .map(str::to_owned)
            .collect())
    }

    /// Removes volumes.
    ///
    /// # Errors
    /// When one is in use.
    pub fn remove_volumes(&self, names: &[String]) -> Result<()> {
        self.on_all(&["volume", "rm", "--force"], names)
    }

    /// Removes containers with their volumes, running or not; what is gone already is no error.
    ///
    /// # Errors
    /// When one cannot be removed.
    pub fn remove(&self, names: &[String]) -> Result<()> {
        if names.is_empty() {
            return Ok(());
        }
        self.seen.lock().clear();
        let mut arguments = vec!["rm", "--force", "--volumes"];
        arguments.extend(names.iter().map(String::as_str));
        match self.tool.run(&arguments, WORK) {
            Err(exec::Error::Failed { stderr, .. }) if failure::is_gone(&stderr) => Ok(()),
            Err(error) => Err(failure::of_runtime(self.program(), error)),
            Ok(_) => Ok(()),
        }
    }

    /// Starts containers; what is gone meanwhile is no error.
    ///
    /// # Errors
    /// When one does not start.
    pub fn start(&self, names: &[String]) -> Result<()> {
        match self.on_all(&["start"], names) {
            Err(error) if failure::is_gone(&format!("{:#}", error.source)) => Ok(()),
            started => started,
        }
    }

    /// Stops containers; what is in them may end in its own time.
    ///
    /// # Errors
    /// When one does not stop.
    pub fn stop(&self, names: &[String]) -> Result<()> {
        self.on_all(&["stop"], names)
    }

    /// Stops containers as if they had lost power, or nearly so.
    ///
    /// # Errors
    /// When one does not stop.
    pub fn stop_at_once(&self, names: &[String]) -> Result<()> {
        self.on_all(&["stop", "-t", "1"], names)
    }

    /// Freezes what runs in containers; frozen ones stay so.
    ///
    /// # Errors
    /// When one does not freeze.
    pub fn freeze(&self, names: &[String]) -> Result<()> {
        self.unless_so_already("pause", names)
    }

    /// Lets what runs in frozen containers go on.
    ///
    /// # Errors
    /// When one does not go on.
    pub fn thaw(&self, names: &[String]) -> Result<()> {
        self.unless_so_already("unpause", names)
    }

    fn unless_so_already(&self, verb: &str, names: &[String]) -> Result<()> {
        self.seen.lock().clear();
        names.iter().try_for_each(|name| match self.tool.run(&[verb, name], WORK) {
            Err(exec::Error::Failed { stderr, .. }) if failure::is_paused_or_not(&stderr) => Ok(()),
            Err(error) => Err(failure::of_runtime(self.program(), error)),
            Ok(_) => Ok(()),
        })
    }

    fn on_all(&self, verb: &[&str], names: &[String]) -> Result<()> {
        if names.is_empty() {
            return Ok(());
        }
        self.seen.lock().clear();
        let mut arguments = verb.to_vec();
        arguments.extend(names.iter().map(String::as_str));
        self.call(&arguments, WORK).map(|_| ())
    }

    /// Runs a program in a node and gives its stdout.
    ///
    /// # Errors
    /// When it fails.
    pub fn exec(&self, node: &str, program: &[&str]) -> Result<String> {
        let mut arguments = vec!["exec", "--privileged", node];
        arguments.extend(program);
        self.call(&arguments, WORK)
    }

    /// Copies a file into a node.
    ///
    /// # Errors
    /// When it cannot be copied.
    pub fn copy_in(&self, file: &Path, node: &str, path: &str) -> Result<()> {
        self.call(&["cp", &file.to_string_lossy(), &format!("{node}:{path}")], WORK).map(|_| ())
    }

    /// All that a node's first process said.
    ///
    /// # Errors
    /// When there is no such node.
    pub fn logs(&self, node: &str) -> Result<String> {
        let written = self.tool.written(&["logs", node], QUESTION);
        written
            .map(|written| written.stdout + &written.stderr)
            .map_err(|error| failure::of_runtime(self.program(), error))
    }

    /// Starts a worker as kind does.
    ///
    /// # Errors
    /// When it does not start.
    pub fn run_worker(&self, worker: &NewWorker<'_>) -> Result<()> {
        self.seen.lock().clear();
        let volume = if self.flavour == Flavour::Podman {
            // Podman takes options only for a volume that has a name; kind finds it again by this label.
            let label = format!("{}=true", worker.name);
            let name = self.ask(&["volume", "create", "--label", &label])?;
            Some(name.trim().to_owned())
        } else {
            None
        };
        self.call(&worker.arguments(self.flavour, volume.as_deref()), WORK).map(|_| ())
    }

    /// Tags of a repository's images that are on this machine, as whole references.
    ///
    /// # Errors
    /// When the runtime does not answer.
    pub fn images_of(&self, repository: &str) -> Result<Vec<String>> {
        let text = self.ask(&["image", "ls", "--format", "{{.Repository}}:{{.Tag}}", repository])?;
        Ok(text.lines().map(str::trim).filter(|line| !line.is_empty()).map(str::to_owned).collect())
    }

    /// The id of a local image; none if it is not here.
    ///
    /// # Errors
    /// When the runtime does not answer.
    pub fn image_id(&self, reference: &str) -> Result<Option<String>> {
        match self.tool.run(&["image", "inspect", "--format", "{{.Id}}", reference], QUESTION) {
            Ok(id) => Ok(id.lines().next().map(|id| id.trim().to_owned()).filter(|id| !id.is_empty())),
            Err(exec::Error::Failed { stderr, .. }) if failure::is_gone(&stderr) => Ok(None),
            Err(error) => Err(failure::of_runtime(self.program(), error)),
        }
    }

    /// Fetches an image.
    ///
    /// # Errors
    /// When it cannot be had.
    pub fn pull(&self, reference: &str) -> Result<()> {
        let pulled = self.tool.run(&["pull", "--quiet", reference], TRANSFER);
        pulled.map(|_| ()).map_err(|error| failure::of_pull(reference, self.program(), error))
    }

    /// Writes a local image into an archive: of one platform only where the runtime can, as an archive of several is what
    /// nodes refuse.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn save(&self, reference: &str, file: &Path) -> Result<()> {
        let file = file.to_string_lossy();
        let plain = ["save", "--output", &*file, reference];
        if self.flavour == Flavour::Docker {
            let platform = if cfg!(target_arch = "aarch64") { "linux/arm64" } else { "linux/amd64" };
            let single = ["save", "--platform", platform, "--output", &*file, reference];
            // Docker before 28 does not know the flag, and its older image store needs it not.
            if self.tool.run(&single, TRANSFER).is_ok() {
                return Ok(());
            }
        }
        self.call(&plain, TRANSFER).map(|_| ())
    }

    /// The command line that starts a worker, for people to read.
    pub fn shown_worker(&self, worker: &NewWorker<'_>) -> String {
        self.tool.shown(&worker.arguments(self.flavour, Some("VOLUME")))
    }

    /// Any of its command lines, for people to read.
    pub fn shown<T: AsRef<str>>(&self, arguments: &[T]) -> String {
        self.tool.shown(arguments)
    }
}

#[cfg(test)]
mod tests;
