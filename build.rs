//! What `klab --version --verbose` says of this build: commit, its date and the target.
//!
//! A release is told by `KLAB_COMMIT` and `KLAB_COMMIT_DATE`; else a release build asks git, and other builds say nothing, so that a
//! commit does not have them built again.

use std::env;
use std::path::Path;
use std::process::Command;

fn main() {
    for name in ["KLAB_COMMIT", "KLAB_COMMIT_DATE"] {
        println!("cargo::rerun-if-env-changed={name}");
    }
    println!("cargo::rerun-if-changed=build.rs");
    let given = |name: &str| env::var(name).ok().filter(|value| !value.is_empty());
    let is_release = given("PROFILE").as_deref() == Some("release");
    let asked = if is_release && given("KLAB_COMMIT").is_none() { committed() } else { None };
    let (commit, date) = asked.unzip();
    let pairs = [
        ("KLAB_BUILD_COMMIT", given("KLAB_COMMIT").or(commit)),
        ("KLAB_BUILD_DATE", given("KLAB_COMMIT_DATE").or(date)),
        ("KLAB_BUILD_TARGET", given("TARGET")),
    ];
    for (name, value) in pairs {
        println!("cargo::rustc-env={name}={}", value.unwrap_or_default());
    }
}

/// The commit of the checkout that this is built in, and its date; none where it is none, as in a package from a registry.
fn committed() -> Option<(String, String)> {
    if !Path::new(".git").exists() {
        return None;
    }
    for file in [".git/HEAD", ".git/logs/HEAD"] {
        if Path::new(file).exists() {
            println!("cargo::rerun-if-changed={file}");
        }
    }
    let output = Command::new("git").args(["log", "-1", "--format=%H %cs"]).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let (commit, date) = text.trim().split_once(' ')?;
    Some((commit.to_owned(), date.to_owned()))
}
