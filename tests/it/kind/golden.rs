//! Configurations as kept, decoded by the real kind.

use std::path::{Path, PathBuf};

use klab_lab::spec::{Lab, LoadOptions, Provider, load};
use klab_operations::provider::kind::config::{Surroundings, render};
use klab_operations::provider::kind::machine::{Emulation, Host};
use klab_operations::provider::kind::names::Names;
use klab_operations::provider::kind::roster::Roster;
use klab_operations::provider::kind::rules;
use klab_operations::provider::kind::version::KindVersion;
use klab_operations::state::Home;

use crate::skipped::skipped;

use super::*;

const KIND: KindVersion = KindVersion::new(33, 0);

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The lab files whose configurations are kept: all that ship, and one that says everything.
fn lab_files() -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = std::fs::read_dir(root().join("labs"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "toml"))
        .collect();
    files.push(root().join("tests/kind/everything.toml"));
    files.sort();
    files
}

fn lab(file: &Path) -> Lab {
    let options = LoadOptions { provider: Some(Provider::Kind), ..LoadOptions::default() };
    load(file, &options).unwrap_or_else(|diagnostics| panic!("{}: {diagnostics:?}", file.display()))
}

fn host(emulation: Emulation) -> Host {
    Host { cpus: 4, memory: 16 << 30, emulation }
}

/// The configuration as it would be on a machine of 4 CPUs, with this repository at `/klab`.
fn configuration(lab: &Lab, kind: KindVersion, emulation: Emulation, cgroup_v1: bool) -> String {
    let names = Names::new(&Home::new("/state"), &lab.name.value, None).unwrap();
    let roster = Roster::of_new_cluster(&names, lab);
    let around = Surroundings { names: &names, host: &host(emulation), kind, cgroup_v1 };
    render(lab, &roster, &around).unwrap().replace(&root().display().to_string(), "/klab")
}

fn goldens() -> Vec<(String, String)> {
    let mut goldens = Vec::new();
    for file in lab_files() {
        let lab = lab(&file);
        assert_eq!(rules::problems(&lab, KIND, &host(Emulation::Full)), [], "{}", file.display());
        goldens.push((lab.name.value.clone(), configuration(&lab, KIND, Emulation::Full, false)));
    }
    let scheduling = lab(&root().join("labs/scheduling.toml"));
    let older = configuration(&scheduling, KindVersion::new(27, 0), Emulation::Shrink, true);
    goldens.push(("scheduling.shrunk-on-cgroup-v1-with-kind-0.27".to_owned(), older));
    goldens
}

/// `KLAB_GOLDEN=write cargo test golden` writes them again.
#[test]
fn golden_configurations_are_as_kept() {
    let folder = root().join("tests/golden/kind");
    let mut kept: Vec<String> = std::fs::read_dir(&folder)
        .map(|entries| entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect())
        .unwrap_or_default();
    for (name, text) in goldens() {
        let file = format!("{name}.yaml");
        let path = folder.join(&file);
        if std::env::var("KLAB_GOLDEN").as_deref() == Ok("write") {
            std::fs::write(&path, &text).unwrap();
        }
        let golden = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(text == golden, "{} differs; `KLAB_GOLDEN=write cargo test golden` writes:\n{text}", path.display());
        kept.retain(|other| *other != file);
    }
    assert_eq!(kept, Vec::<String>::new(), "golden configurations of no lab");
}

/// The real kind, if this machine has it.
fn real_kind() -> Option<PathBuf> {
    if let Some(path) = std::env::var_os("KLAB_KIND").filter(|path| !path.is_empty()) {
        return Some(PathBuf::from(path));
    }
    std::env::split_paths(&std::env::var_os("PATH")?).map(|folder| folder.join("kind")).find(|path| path.is_file())
}

/// What kind says to a configuration. It reads and decodes it strictly, and then finds no docker: so no cluster is made.
fn said_by_kind(kind: &Path, configuration: &Path) -> String {
    let folder = tempfile::tempdir().unwrap();
    let output = Command::new(kind)
        .args(["create", "cluster", "--name", "klab-golden", "--config"])
        .arg(configuration)
        .arg("--kubeconfig")
        .arg(folder.path().join("kubeconfig"))
        .env("KIND_EXPERIMENTAL_PROVIDER", "docker")
        .env("DOCKER_HOST", format!("unix://{}", folder.path().join("no-docker.sock").display()))
        .env_remove("DOCKER_CONTEXT")
        .output()
        .unwrap();
    assert!(!output.status.success());
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn real_kind_decodes_every_golden_configuration() {
    let Some(kind) = real_kind() else {
        return skipped("kind is not installed, and KLAB_KIND names none; `.ci/kind` gets one");
    };
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("cluster.yaml");
    for (name, text) in goldens() {
        std::fs::write(&file, &text).unwrap();
        let said = said_by_kind(&kind, &file);
        assert!(!said.contains("unable to decode config"), "{name}: {said}");
        assert!(said.contains("failed to get docker info"), "{name}: {said}");
        // The same with a field kind does not have: this test can fail.
        std::fs::write(&file, text.replace("- role: control-plane\n", "- role: control-plane\n  taints: []\n"))
            .unwrap();
        let said = said_by_kind(&kind, &file);
        assert!(said.contains("field taints not found"), "{name}: {said}");
    }
}
