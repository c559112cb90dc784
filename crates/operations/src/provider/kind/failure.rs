//! What kind and the container runtime say when something fails, as klab's errors with what to do about it.

use crate::error::{Code, Error};
use crate::exec;

/// Where kind comes from.
pub const INSTALL_KIND: &str =
    "install kind: `apt install kind` (Debian 13 and newer), `brew install kind`, or https://kind.sigs.k8s.io";

/// One known text: all of these words are in it, this is what it means.
struct Known {
    words: &'static [&'static str],
    code: Code,
    message: &'static str,
    hint: &'static str,
}

const fn known(words: &'static [&'static str], code: Code, message: &'static str, hint: &'static str) -> Known {
    Known { words, code, message, hint }
}

/// In order: what is more particular comes first.
const KNOWN: &[Known] = &[
    known(
        &["executable file not found"],
        Code::ContainerRuntime,
        "the container runtime's command is not installed",
        "install Docker Engine: https://docs.docker.com/engine/install (Debian: `apt install docker.io`)",
    ),
    known(
        &["permission denied", "docker.sock"],
        Code::ContainerRuntime,
        "this user has no permission to use Docker",
        "`sudo usermod -aG docker $USER`, then log in again",
    ),
    known(
        &["Cannot connect to the Docker daemon"],
        Code::ContainerRuntime,
        "Docker is installed but does not run",
        "`sudo systemctl start docker` starts it (Docker Desktop: start the application)",
    ),
    known(
        &["Cannot connect to Podman"],
        Code::ContainerRuntime,
        "Podman is installed but does not run",
        "`podman machine start` starts it",
    ),
    known(
        &["node(s) already exist for a cluster with the name"],
        Code::Foreign,
        "a cluster of this name is there already",
        "`kind get clusters` lists the clusters, `docker ps -a` their containers",
    ),
    known(
        &["address already in use"],
        Code::PortInUse,
        "a port of this machine that the lab wants is in use",
        "`ss -ltnp` shows by whom; or change `ports` or `api_server_port` in `[kind]`",
    ),
    known(
        &["port is already allocated"],
        Code::PortInUse,
        "a port of this machine that the lab wants is in use by another container",
        "`docker ps` shows by which; or change `ports` or `api_server_port` in `[kind]`",
    ),
    known(
        &["failed to pull image"],
        Code::ImageMissing,
        "the node image cannot be pulled",
        "load it beforehand (`docker pull`, `docker load`), or name one that is here with `image` in `[kind]`",
    ),
    known(
        &["could not find a log line that matches"],
        Code::KindBoot,
        "a node's container did not boot",
        "often too little inotify or an old kernel: https://kind.sigs.k8s.io/docs/user/known-issues",
    ),
    known(
        &["requires setting systemd property \"Delegate=yes\""],
        Code::ContainerRuntime,
        "a runtime without root privileges needs delegated cgroups",
        "https://kind.sigs.k8s.io/docs/user/rootless tells how to delegate them",
    ),
    known(
        &["requires cgroup v2"],
        Code::ContainerRuntime,
        "a runtime without root privileges needs cgroup v2",
        "https://kind.sigs.k8s.io/docs/user/rootless tells what is needed",
    ),
    known(
        &["unable to apply caps: operation not permitted"],
        Code::ContainerRuntime,
        "this Docker cannot start privileged containers here",
        "Docker 26 or newer can",
    ),
    known(
        &["no space left on device"],
        Code::MachineTooSmall,
        "the disk of the container runtime is full",
        "`docker system df` shows what takes the space, `docker system prune` frees some",
    ),
    known(
        &["failed to lock config file", "file exists"],
        Code::ToolFailed,
        "the kubeconfig is locked by another kind, or by one that was killed",
        "if no kind runs, remove the `.lock` file it names",
    ),
    known(
        &["unable to decode config"],
        Code::ToolFailed,
        "kind does not understand the configuration klab wrote",
        "klab works with kind 0.27 to 0.33; `kind version` tells which one this is",
    ),
    known(
        &["failed to init node with kubeadm"],
        Code::KindNode,
        "the control plane did not start",
        "the journal of its kubelet is in the transcript",
    ),
    known(
        &["failed to join node with kubeadm"],
        Code::KindNode,
        "a node could not join the cluster",
        "the journal of its kubelet is in the transcript",
    ),
    known(
        &["content digest", "not found"],
        Code::ImageMissing,
        "an image of several platforms could not be loaded",
        "`docker pull --platform linux/amd64 IMAGE` makes it one of a single platform",
    ),
    known(
        &["could not locate any control plane nodes"],
        Code::ClusterGone,
        "there is no such cluster",
        "`kind get clusters` lists the clusters",
    ),
    known(&["failed to create cluster:"], Code::ToolFailed, "kind refused the cluster", "its words are above"),
];

/// What a text means, if klab knows it.
fn look_up(text: &str) -> Option<&'static Known> {
    let lower = text.to_lowercase();
    KNOWN.iter().find(|known| known.words.iter().all(|words| lower.contains(&words.to_lowercase())))
}

/// Most lines of a tool's words in an error; the rest is in the transcript.
const LINES: usize = 12;

/// The tool's own words that matter: what follows `ERROR: `, without the log, the JSON and the trace.
pub fn own_words(stderr: &str) -> String {
    let start = stderr.rfind("ERROR: ").map_or(0, |at| at + "ERROR: ".len());
    let lines: Vec<&str> = stderr[start..]
        .lines()
        .map(str::trim_end)
        .filter(|line| !line.is_empty() && !line.starts_with('{') && !line.starts_with("Command Output: {"))
        .collect();
    if lines.len() <= LINES {
        return lines.join("\n");
    }
    let (head, tail) = (&lines[..2], &lines[lines.len() - (LINES - 3)..]);
    format!("{}\n…\n{}", head.join("\n"), tail.join("\n"))
}

/// An error of kind.
pub fn of_kind(error: exec::Error) -> Error {
    match error {
        exec::Error::Missing { .. } => Error::message(Code::ToolMissing, "kind is not installed").hint(INSTALL_KIND),
        error => of_tool(error),
    }
}

/// An error of the container runtime.
pub fn of_runtime(program: &str, error: exec::Error) -> Error {
    match error {
        exec::Error::Missing { .. } => Error::message(
            Code::ToolMissing,
            format!("`{program}` is not installed, and kind needs a container runtime"),
        )
        .hint("install Docker Engine: https://docs.docker.com/engine/install (Debian: `apt install docker.io`)"),
        error => of_tool(error),
    }
}

/// An image that could not be fetched.
pub fn of_pull(reference: &str, program: &str, error: exec::Error) -> Error {
    let words = match &error {
        exec::Error::Failed { stderr, .. } => own_words(stderr),
        other => other.to_string(),
    };
    Error::new(Code::ImageMissing, anyhow::Error::msg(words).context(format!("could not pull the image `{reference}`")))
        .hint(format!("without a network, `{program} load --input FILE` brings an image onto this machine"))
        .hint("`image` in `[kind]` names another node image")
}

fn of_tool(error: exec::Error) -> Error {
    let exec::Error::Failed { command, status, stderr, .. } = &error else {
        let code = if matches!(error, exec::Error::Deadline { .. }) { Code::StillAtWork } else { Code::ToolFailed };
        return Error::new(code, error);
    };
    let cause = anyhow::Error::msg(format!("`{command}` {status}:\n{}", own_words(stderr)));
    match look_up(stderr) {
        Some(known) => Error::new(known.code, cause.context(known.message)).hint(known.hint),
        None => Error::new(Code::ToolFailed, cause),
    }
}

/// Whether the runtime says that what it was asked about is not there.
pub fn is_gone(stderr: &str) -> bool {
    let lower = stderr.to_lowercase();
    [
        "no such container",
        "removal of container",
        "no such object",
        "no such image",
        "no container with name",
        "no such",
        "image not known",
    ]
    .iter()
    .any(|words| lower.contains(words))
}

/// Whether the runtime says that what it was to freeze is frozen, or what it was to thaw is not.
pub fn is_paused_or_not(stderr: &str) -> bool {
    let lower = stderr.to_lowercase();
    lower.contains("is already paused") || lower.contains("is not paused")
}

/// What in a kubelet's journal names the cause, newest first: the lines in which it gives up.
pub fn causes_in_journal(journal: &str) -> Vec<String> {
    let telling = |line: &&str| {
        let lower = line.to_lowercase();
        // Of pods, not of the node.
        if lower.contains("error syncing pod") || lower.contains("pullimage") || lower.contains("imagepullbackoff") {
            return false;
        }
        ["command failed", "failed to run kubelet", "invalid", "unknown flag", "err=", "unable to", "failed to"]
            .iter()
            .any(|words| lower.contains(words))
    };
    let mut causes: Vec<String> = Vec::new();
    for line in journal.lines().rev().filter(telling) {
        // `Aug 21 10:00:00 node kubelet[123]: E0821 … file.go:12] "words"`: the words are the end.
        let words = line.split_once("]: ").map_or(line, |(_, words)| words);
        let words = words.split_once("] ").map_or(words, |(_, words)| words).trim();
        if !words.is_empty() && !causes.iter().any(|known| known == words) {
            causes.push(words.to_owned());
        }
        if causes.len() == 3 {
            break;
        }
    }
    causes
}

#[cfg(test)]
mod tests;
