//! Every console block of the README is what klab and kubectl print.

#[expect(dead_code, reason = "no other program is needed")]
mod skipped;

use std::path::{Path, PathBuf};
use std::process::Command;

#[test]
fn console_blocks_are_true() {
    let Some(kubectl) = on_path("kubectl") else {
        return skipped::skipped("kubectl is not installed, which the README's blocks use");
    };
    let home = tempfile::tempdir().expect("a temporary folder");
    let state = home.path().join("state");
    trycmd::TestCases::new()
        .register_bin("kubectl", kubectl.as_path())
        .env("HOME", home.path().display().to_string())
        .env("KLAB_HOME", state.display().to_string())
        .env("KUBECONFIG", state.join("labs/scheduling/kubeconfig").display().to_string())
        .env("COLUMNS", "100")
        .case("README.md")
        .run();
    // Whatever a block left running when it was not what it should be.
    let down = Command::new(env!("CARGO_BIN_EXE_klab")).arg("down").env("KLAB_HOME", &state).status();
    assert!(down.is_ok_and(|status| status.success()));
}

fn on_path(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(program)).find(|file| Path::is_file(file))
}
