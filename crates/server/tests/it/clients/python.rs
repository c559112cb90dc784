//! The Python client of Kubernetes: a whole session, told step by step.
//!
//! Where the client is missing, the test says on stderr that it was skipped and why. `.ci/python-client` installs it.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use super::{seed, start};
use crate::skipped::skipped;

/// A Python that has the client: `KLAB_PYTHON`, else what `.ci/python-client` installed; the error says why there is none.
fn python() -> Result<PathBuf, String> {
    if let Some(path) = std::env::var_os("KLAB_PYTHON").map(PathBuf::from) {
        return if path.is_file() {
            Ok(path)
        } else {
            Err(format!("KLAB_PYTHON names {}, which is not there", path.display()))
        };
    }
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = cache.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache")));
    cache
        .map(|cache| cache.join("klab-ci/python-client/bin/python"))
        .filter(|path| path.is_file())
        .ok_or_else(|| "there is no Python with the client: `.ci/python-client` installs it".to_owned())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_of_the_python_client() {
    let python = match python() {
        Ok(python) => python,
        Err(reason) => return skipped(&reason),
    };
    let folder = tempfile::tempdir().unwrap();
    let server = start(folder.path()).await;
    server.add("python", seed()).unwrap();
    let kubeconfig = folder.path().join("kubeconfig");
    std::fs::write(&kubeconfig, server.kubeconfig("python").unwrap()).unwrap();
    let mut command = Command::new(python);
    command
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/clients/session.py"))
        .arg(&kubeconfig)
        .current_dir(folder.path())
        .env("HOME", folder.path())
        .stdin(Stdio::null());
    let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}{complaint}", String::from_utf8_lossy(&output.stdout));
    let steps: Vec<String> = String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect();
    let wanted = [
        "discovery",
        "create",
        "watch_pods",
        "update",
        "patches",
        "apply",
        "scale",
        "own_scheduler",
        "evict",
        "job",
        "from_yaml",
        "events_and_figures",
        "no_containers",
        "pages",
        "delete",
    ];
    assert_eq!(steps, wanted, "{complaint}");
}
