//! Kubeconfigs of `klab kind`: a cluster's own, merged into the user's under kind's lock, and taken out again.

use std::fs::OpenOptions;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use klab_kind::kubeconfig::{file_to_merge, files, handed_out, merged, without};
use klab_kind::nodes::name_at_server;
use serde_json::Value;

use super::super::Context;
use super::meant::{Done, in_words, sim};
use super::stored::Stored;
use klab_operations::environment;
use klab_server::files::write_private;

/// How long klab waits for another program's lock between its attempts, as kind does.
const PAUSES: [u64; 4] = [0, 1, 50, 100];

/// The kubeconfig of a cluster; `internal` leads where the nodes would find it.
///
/// # Errors
/// When there is no such cluster.
pub(super) fn of(context: &Context, name: &str, internal: bool) -> Done<Value> {
    let Some(stored) = Stored::read(context, name)? else {
        return Err(format!(
            "could not locate any control plane nodes for cluster named '{name}'. Use the --name option to select a \
             different cluster"
        ));
    };
    let path = sim(context)?.standalone_kubeconfig(&name_at_server(name)).map_err(in_words)?;
    let text = std::fs::read_to_string(&path).map_err(|error| format!("could not read {}: {error}", path.display()))?;
    let first = stored.nodes.iter().find(|node| node.is_control_plane);
    let server = first.filter(|_| internal).map(|node| format!("https://{}:6443", node.name));
    Ok(handed_out(&yaml(&path, &text)?, name, server.as_deref()))
}

/// A kubeconfig as text.
///
/// # Errors
/// When it cannot be written as YAML.
pub(super) fn written(config: &Value) -> Done<String> {
    // Scripts read certificates by their line.
    let options = serde_saphyr::ser_options! { prefer_block_scalars: false };
    serde_saphyr::to_string_with_options(config, options).map_err(|error| error.to_string())
}

/// Refuses a file that is klab's own: a lab's kubeconfig must lead to the lab.
///
/// # Errors
/// When the file that a cluster would be merged into is one of klab's.
pub(super) fn check(context: &Context, explicit: Option<&str>) -> Done {
    target(context, explicit).map(drop)
}

/// Merges a cluster's kubeconfig into the user's, where its context is then current.
///
/// # Errors
/// When the file is locked, is no kubeconfig or cannot be written.
pub(super) fn merge(context: &Context, config: &Value, explicit: Option<&str>) -> Done {
    let path = target(context, explicit)?;
    let mut outcome = Ok(());
    for pause in PAUSES {
        std::thread::sleep(Duration::from_millis(pause));
        outcome = changed(&path, |existing| merged(existing, config).map(Some));
        if outcome.is_ok() {
            break;
        }
    }
    outcome
}

/// Takes a cluster out of the user's kubeconfigs.
///
/// # Errors
/// As [`merge`].
pub(super) fn remove(context: &Context, name: &str, explicit: Option<&str>) -> Done {
    let all = list(explicit).into_iter().map(PathBuf::from);
    all.filter(|path| path.is_file() && !is_own(context, path))
        .try_for_each(|path| changed(&path, |existing| without(existing, name)))
}

fn list(explicit: Option<&str>) -> Vec<String> {
    let home = environment::HOME.text().unwrap_or_default();
    files(explicit, environment::KUBECONFIG.text().as_deref(), &home)
}

/// The file that a cluster is merged into.
fn target(context: &Context, explicit: Option<&str>) -> Done<PathBuf> {
    let files = list(explicit);
    let path = file_to_merge(&files, |file| Path::new(file).is_file()).map(PathBuf::from).unwrap_or_default();
    if is_own(context, &path) {
        return Err(format!(
            "{} is the kubeconfig of a lab, which klab keeps; --kubeconfig FILE writes another file",
            path.display()
        ));
    }
    Ok(path)
}

/// Whether a file is below klab's home.
fn is_own(context: &Context, path: &Path) -> bool {
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    ["labs", "server"].iter().any(|folder| real(path).starts_with(real(&context.home.root().join(folder))))
}

/// Changes a kubeconfig under the lock of kubectl and kind; `change` gives nothing where nothing changes.
fn changed(path: &Path, change: impl FnOnce(Value) -> Done<Option<Value>>) -> Done {
    let shown = path.display();
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    if let Some(folder) = folder {
        std::fs::create_dir_all(folder)
            .map_err(|error| format!("failed to create directory for KUBECONFIG: {error}"))?;
    }
    let _lock = Lock::take(path)?;
    let text = match std::fs::read_to_string(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        text => text.map_err(|error| format!("failed to get kubeconfig to merge: {shown}: {error}"))?,
    };
    let existing = if text.trim().is_empty() { Value::Null } else { yaml(path, &text)? };
    let Some(config) = change(existing).map_err(|why| format!("failed to get kubeconfig to merge: {shown}: {why}"))?
    else {
        return Ok(());
    };
    // What a link leads to is written, and the link stays.
    let real = path.canonicalize().or_else(|_| std::path::absolute(path)).unwrap_or_else(|_| path.to_owned());
    write_private(&real, written(&config)?.as_bytes()).map_err(|error| format!("failed to write KUBECONFIG: {error}"))
}

fn yaml(path: &Path, text: &str) -> Done<Value> {
    serde_saphyr::from_str(text).map_err(|error| format!("{}: {}", path.display(), error.without_snippet()))
}

/// The lock file beside a kubeconfig.
struct Lock(PathBuf);

impl Lock {
    fn take(path: &Path) -> Done<Self> {
        let mut lock = path.as_os_str().to_owned();
        lock.push(".lock");
        let lock = PathBuf::from(lock);
        match OpenOptions::new().write(true).create_new(true).open(&lock) {
            Ok(_) => Ok(Self(lock)),
            Err(error) => {
                let shown = lock.display();
                let why = match error.kind() {
                    io::ErrorKind::AlreadyExists => {
                        format!("file exists; where no kubectl or kind is at work, `rm {shown}` removes it")
                    }
                    _ => error.to_string(),
                };
                Err(format!("failed to lock config file: open {shown}: {why}"))
            }
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}
