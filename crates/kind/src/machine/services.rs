//! What a node's services say: systemd of its kubelet, containerd of its containers, certificates of their end.

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::files::Found;
use super::kubeadm_files::{KUBELET, KUBELET_UNIT};
use super::shell::{Shell, failed};
use super::surroundings::{Container, Output, SERVING};

/// For how long the certificates are good that kubeadm makes, and those of its authorities.
const LEAF: SignedDuration = SignedDuration::from_hours(365 * 24);
const AUTHORITY: SignedDuration = SignedDuration::from_hours(3650 * 24);
const AUTHORITIES: [&str; 3] = ["ca.crt", "front-proxy-ca.crt", "etcd/ca.crt"];
const LEAVES: [&str; 7] = [
    "apiserver.crt",
    "apiserver-kubelet-client.crt",
    "apiserver-etcd-client.crt",
    "front-proxy-client.crt",
    "etcd/server.crt",
    "etcd/peer.crt",
    "etcd/healthcheck-client.crt",
];
/// Letters of an id that crictl shows.
const SHORT_ID: usize = 13;

pub(super) fn systemctl(shell: &mut Shell<'_>, words: &[&str], output: &mut Output) -> Result<(), String> {
    let is_kubelet = |unit: &str| matches!(unit, "kubelet" | "kubelet.service");
    match words {
        ["daemon-reload"] => {}
        ["stop", unit] if is_kubelet(unit) => shell.kubelet_is_stopped = true,
        ["start" | "restart", unit] if is_kubelet(unit) => shell.kubelet_is_stopped = !kubelet_can_start(shell),
        ["enable", "--now", unit] if is_kubelet(unit) => shell.kubelet_is_stopped = !kubelet_can_start(shell),
        ["enable", unit] if is_kubelet(unit) => {}
        ["is-active", unit] if is_kubelet(unit) => {
            output.out.push_str(if shell.kubelet_is_stopped { "inactive\n" } else { "active\n" });
            output.code = if shell.kubelet_is_stopped { 3 } else { 0 };
        }
        ["is-enabled", unit] if is_kubelet(unit) => output.out.push_str("enabled\n"),
        ["status", rest @ ..] if rest.iter().any(|unit| is_kubelet(unit)) => {
            let active = if shell.kubelet_is_stopped { "inactive (dead)" } else { "active (running)" };
            output.out.push_str(&format!(
                "● kubelet.service - kubelet: The Kubernetes Node Agent\n    Drop-In: {KUBELET_UNIT}\n     Active: {active}\n"
            ));
            output.code = if shell.kubelet_is_stopped { 3 } else { 0 };
        }
        _ => {
            return Err(format!(
                "`systemctl {}` is not followed on a node; klab follows stop, start, restart, status and is-active of kubelet, \
                 and daemon-reload",
                words.join(" ")
            ));
        }
    }
    Ok(())
}

/// Whether what starts the kubelet names its program.
fn kubelet_can_start(shell: &Shell<'_>) -> bool {
    let Found::File(unit) = shell.files.find(KUBELET_UNIT) else { return false };
    let starts = unit.lines().filter_map(|line| line.trim().strip_prefix("ExecStart=")).next_back();
    starts.and_then(|starts| starts.split_whitespace().next()) == Some(KUBELET)
}

/// `openssl x509 -noout -enddate -in FILE`.
pub(super) fn openssl(shell: &Shell<'_>, words: &[&str], output: &mut Output) -> Result<(), String> {
    let file = words.iter().position(|word| *word == "-in").and_then(|at| words.get(at.saturating_add(1)));
    let asked = words.iter().filter(|word| !["x509", "-noout", "-in"].contains(*word) && Some(*word) != file);
    let (Some(file), true) = (file, words.first() == Some(&"x509") && asked.eq(&["-enddate"])) else {
        return Err(format!(
            "`openssl {}` is not followed on a node; `openssl x509 -noout -enddate -in /etc/kubernetes/pki/…` is",
            words.join(" ")
        ));
    };
    let path = shell.full(file);
    let name = path.strip_prefix("/etc/kubernetes/pki/").filter(|_| shell.place.is_control_plane).unwrap_or_default();
    let good = match name {
        name if LEAVES.contains(&name) => LEAF,
        name if AUTHORITIES.contains(&name) => AUTHORITY,
        _ => {
            failed(output, 1, &format!("Could not open file or uri for loading certificate from {file}"));
            return Ok(());
        }
    };
    let end = shell.place.created.checked_add(good).unwrap_or(shell.place.created);
    output.out.push_str(&format!("notAfter={}\n", end.strftime("%b %e %H:%M:%S %Y GMT")));
    Ok(())
}

pub(super) fn crictl(shell: &mut Shell<'_>, words: &[&str], output: &mut Output) -> Result<(), String> {
    let containers = shell.outside.containers()?;
    let refused = || {
        format!(
            "`crictl {}` is not followed on a node; klab follows `ps [-a] [-q] [--name NAME]`, `images`, `inspect ID`, `logs ID`, \
             `stop ID…` and `rm [-f] ID…`",
            words.join(" ")
        )
    };
    match words {
        ["ps", options @ ..] => {
            let listed = Listed::read(options).ok_or_else(refused)?;
            output.out.push_str(&listed.table(&containers, shell.place.now));
        }
        ["images"] => {
            let of = |image: &'_ String| image.rsplit_once(':').map(|(name, tag)| (name.to_owned(), tag.to_owned()));
            let mut images: Vec<_> = containers.iter().filter_map(|one| of(&one.full_image)).collect();
            images.sort_unstable();
            images.dedup();
            let width = images.iter().map(|(name, _)| name.len()).max().unwrap_or_default().max(5);
            output.out.push_str(&format!("{:width$}   TAG\n", "IMAGE"));
            for (name, tag) in images {
                output.out.push_str(&format!("{name:width$}   {tag}\n"));
            }
        }
        ["inspect", id, rest @ ..] => match found(&containers, id) {
            Some(container) => output.out.push_str(&inspected(container, rest).ok_or_else(refused)?),
            None => not_found(id, output),
        },
        ["logs", id] => match found(&containers, id).cloned() {
            Some(container) => output.out.push_str(&shell.outside.log(&container)?),
            None => not_found(id, output),
        },
        ["stop", ids @ ..] if are_ids(ids) => {
            ids.iter().try_for_each(|id| end(shell, &containers, id, Ending::Stopped, output))?;
        }
        ["rm", "-f" | "--force", ids @ ..] if are_ids(ids) => {
            ids.iter().try_for_each(|id| end(shell, &containers, id, Ending::Forced, output))?;
        }
        ["rm", ids @ ..] if are_ids(ids) => {
            ids.iter().try_for_each(|id| end(shell, &containers, id, Ending::Removed, output))?;
        }
        _ => return Err(refused()),
    }
    Ok(())
}

/// How `crictl` ends a container.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ending {
    /// `stop`.
    Stopped,
    /// `rm`, which takes none that runs.
    Removed,
    /// `rm --force`.
    Forced,
}

fn are_ids(words: &[&str]) -> bool {
    !words.is_empty() && words.iter().all(|word| !word.starts_with('-'))
}

/// Ends a container, and prints its id once for each call of the runtime.
// upstream: cri-tools cmd/crictl/container.go removeContainerCommand, StopContainer
fn end(
    shell: &mut Shell<'_>,
    containers: &[Container],
    id: &str,
    ending: Ending,
    output: &mut Output,
) -> Result<(), String> {
    let is_previous = |one: &Container| one.previous.as_deref().is_some_and(|own| own.starts_with(id));
    let Some(container) = found(containers, id) else {
        if !id.is_empty() && containers.iter().any(is_previous) {
            output.out.push_str(&format!("{id}\n"));
        } else {
            not_found(id, output);
        }
        return Ok(());
    };
    let why = match (ending, container.since) {
        (Ending::Removed, Some(_)) => {
            failed(output, 1, &format!("E: container \"{id}\" is running, please stop it first"));
            return Ok(());
        }
        (Ending::Stopped, None) => {
            output.out.push_str(&format!("{id}\n"));
            return Ok(());
        }
        (Ending::Removed | Ending::Forced, None) => "what the kubelet does without a container that has ended",
        _ if shell.kubelet_is_stopped => "what becomes of a container while the kubelet is stopped",
        _ if SERVING.contains(&container.name.as_str()) && container.namespace == "kube-system" => {
            "how a control plane starts again"
        }
        (ending, Some(_)) => {
            shell.outside.kill(container, ending == Ending::Forced)?;
            output.out.push_str(&format!("{id}\n").repeat(if ending == Ending::Forced { 2 } else { 1 }));
            return Ok(());
        }
    };
    Err(format!("{why} is not followed"))
}

fn found<'c>(containers: &'c [Container], id: &str) -> Option<&'c Container> {
    containers.iter().find(|one| !id.is_empty() && one.id.starts_with(id))
}

fn not_found(id: &str, output: &mut Output) {
    failed(output, 1, &format!("E: container \"{id}\": not found"));
}

/// What `crictl ps` lists.
#[derive(Default)]
struct Listed<'w> {
    all: bool,
    quiet: bool,
    name: Option<&'w str>,
}

impl<'w> Listed<'w> {
    fn read(words: &[&'w str]) -> Option<Self> {
        let mut listed = Self::default();
        let mut words = words.iter();
        while let Some(word) = words.next() {
            match *word {
                "-a" | "--all" => listed.all = true,
                "-q" | "--quiet" => listed.quiet = true,
                "-aq" | "-qa" => (listed.all, listed.quiet) = (true, true),
                "--name" => listed.name = Some(words.next()?),
                word => listed.name = Some(word.strip_prefix("--name=")?),
            }
        }
        Some(listed)
    }

    fn table(&self, containers: &[Container], now: Timestamp) -> String {
        let is_meant = |one: &&Container| {
            (self.all || one.since.is_some()) && self.name.is_none_or(|name| one.name.contains(name))
        };
        let listed = containers.iter().filter(is_meant);
        if self.quiet {
            return listed.map(|one| format!("{}\n", one.id)).collect();
        }
        let head = ["CONTAINER", "IMAGE", "CREATED", "STATE", "NAME", "ATTEMPT", "POD", "NAMESPACE"];
        let mut rows: Vec<[String; 8]> = vec![head.map(str::to_owned)];
        rows.extend(listed.map(|one| {
            let age = one.since.map(|since| format!("{} ago", age(now.duration_since(since)))).unwrap_or_default();
            let state = if one.since.is_some() { "Running" } else { "Exited" };
            let id = one.id.chars().take(SHORT_ID).collect();
            let attempt = one.attempt.to_string();
            [
                id,
                one.image.clone(),
                age,
                state.to_owned(),
                one.name.clone(),
                attempt,
                one.pod.clone(),
                one.namespace.clone(),
            ]
        }));
        let width = |column: usize| rows.iter().filter_map(|row| row.get(column)).map(String::len).max();
        let widths: Vec<usize> = (0..8).filter_map(width).collect();
        let line = |row: &[String; 8]| {
            let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}   "));
            format!("{}\n", cells.collect::<String>().trim_end())
        };
        rows.iter().map(line).collect()
    }
}

/// A time as containerd's tools write it.
fn age(time: SignedDuration) -> String {
    let (seconds, minutes, hours) = (time.as_secs(), time.as_mins(), time.as_hours());
    match (seconds, minutes, hours) {
        (..1, ..) => "Less than a second".to_owned(),
        (1, ..) => "1 second".to_owned(),
        (..60, ..) => format!("{seconds} seconds"),
        (_, 1, _) => "About a minute".to_owned(),
        (_, ..60, _) => format!("{minutes} minutes"),
        (_, _, 1) => "About an hour".to_owned(),
        (_, _, ..48) => format!("{hours} hours"),
        _ => format!("{} days", hours / 24),
    }
}

/// What is known of a container; `--template` takes the path of one field.
fn inspected(container: &Container, words: &[&str]) -> Option<String> {
    let state = if container.since.is_some() { "CONTAINER_RUNNING" } else { "CONTAINER_EXITED" };
    let document = json!({
        "info": { "runtimeType": "io.containerd.runc.v2" },
        "status": {
            "id": container.id, "image": { "image": container.full_image },
            "labels": {
                "io.kubernetes.container.name": container.name, "io.kubernetes.pod.name": container.pod,
                "io.kubernetes.pod.namespace": container.namespace, "io.kubernetes.pod.uid": container.uid,
            },
            "metadata": { "attempt": container.attempt, "name": container.name },
            "startedAt": container.since.map(|since| since.to_string()), "state": state,
        },
    });
    let template = match words {
        [] => return serde_json::to_string_pretty(&document).ok().map(|text| text + "\n"),
        ["--template", template] | ["-o", "go-template", "--template", template] => template,
        _ => return None,
    };
    let path = template.strip_prefix("{{")?.strip_suffix("}}")?.trim().strip_prefix('.')?;
    match path.split('.').try_fold(&document, |value, field| value.get(field))? {
        Value::String(text) => Some(format!("{text}\n")),
        Value::Number(number) => Some(format!("{number}\n")),
        _ => None,
    }
}
