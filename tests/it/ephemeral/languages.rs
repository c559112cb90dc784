//! The tests of `examples/`, as those who write operators in these languages run them.
//!
//! Where a client is missing, a test says on stderr that it was skipped and why. `.ci/python-client` and
//! `.ci/javascript-client` install them.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::finished;
use crate::skipped::skipped;

/// What a variable names, else what a script of `.ci/` put into the cache; the error says why there is none.
pub(crate) fn installed(variable: &str, script: &str, path: &str) -> Result<PathBuf, String> {
    if let Some(named) = std::env::var_os(variable).map(PathBuf::from) {
        return if named.exists() {
            Ok(named)
        } else {
            Err(format!("{variable} names {}, which is not there", named.display()))
        };
    }
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = cache.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache")));
    let found = cache.map(|cache| cache.join("klab-ci").join(path)).filter(|path| path.exists());
    found.ok_or_else(|| format!("there is no client: `{script}` installs it"))
}

/// A copy of an example, in which nothing of it is changed.
fn copy(example: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for entry in std::fs::read_dir(Path::new("examples").join(example)).unwrap() {
        let path = entry.unwrap().path();
        if path.is_file() {
            std::fs::copy(&path, folder.path().join(path.file_name().unwrap())).unwrap();
        }
    }
    folder
}

/// Runs a test to its end.
fn passes(mut command: Command, folder: &Path) {
    command.current_dir(folder).env("KLAB", env!("CARGO_BIN_EXE_klab")).env("HOME", folder);
    let output = finished(command);
    let (told, complaint) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{told}{complaint}");
}

#[test]
fn python() {
    let python = match installed("KLAB_PYTHON", ".ci/python-client", "python-client/bin/python") {
        Ok(python) => python,
        Err(reason) => return skipped(&reason),
    };
    let has = Command::new(&python).args(["-c", "import kubernetes, pytest"]).stderr(Stdio::null()).status();
    if !has.is_ok_and(|status| status.success()) {
        return skipped("that Python has no kubernetes or no pytest: `.ci/python-client` installs both");
    }
    let folder = copy("python");
    let mut command = Command::new(python);
    command.args(["-m", "pytest", "--quiet", "-p", "no:cacheprovider"]);
    passes(command, folder.path());
}

#[test]
fn javascript() {
    let client = match installed("KLAB_NODE_CLIENT", ".ci/javascript-client", "javascript-client") {
        Ok(client) => client,
        Err(reason) => return skipped(&reason),
    };
    let folder = copy("javascript");
    std::os::unix::fs::symlink(client.join("node_modules"), folder.path().join("node_modules")).unwrap();
    let mut command = Command::new("node");
    command.arg("--test");
    passes(command, folder.path());
}
