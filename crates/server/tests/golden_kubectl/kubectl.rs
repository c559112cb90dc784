//! Which kubectl binaries there are.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A kubectl binary.
#[derive(Debug, Clone)]
pub(crate) struct Kubectl {
    /// `1.33`
    pub(crate) version: String,
    pub(crate) path: PathBuf,
}

/// All that were found, by minor version.
pub(crate) struct Kubectls {
    found: BTreeMap<u32, Kubectl>,
    /// Where each is called `kubectl`: by its name it tells servers who manages fields.
    _links: tempfile::TempDir,
}

impl Kubectls {
    /// Looks in `KLAB_KUBECTL_DIR`, where the kubectl of PATH really is (some are dispatchers beside the real ones),
    /// and in PATH.
    pub(crate) fn find() -> Self {
        let mut folders: Vec<PathBuf> = std::env::var_os("KLAB_KUBECTL_DIR").map(PathBuf::from).into_iter().collect();
        let path = std::env::var_os("PATH").unwrap_or_default();
        for folder in std::env::split_paths(&path) {
            if let Ok(real) = folder.join("kubectl").canonicalize() {
                folders.extend(real.parent().map(Path::to_owned));
            }
            folders.push(folder);
        }
        let mut found: BTreeMap<u32, Kubectl> = BTreeMap::new();
        for folder in folders {
            let Ok(entries) = std::fs::read_dir(&folder) else { continue };
            for path in entries.filter_map(|entry| Some(entry.ok()?.path())) {
                let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
                let minor = name.strip_prefix("kubectl.1.").or_else(|| name.strip_prefix("kubectl-1."));
                let minor = match minor {
                    Some(minor) => minor.parse().ok(),
                    None if name == "kubectl" => minor_version(&path),
                    None => None,
                };
                if let Some(minor) = minor {
                    found.entry(minor).or_insert_with(|| Kubectl { version: format!("1.{minor}"), path: path.clone() });
                }
            }
        }
        let links = tempfile::tempdir().unwrap();
        for (minor, kubectl) in &mut found {
            let folder = links.path().join(minor.to_string());
            std::fs::create_dir(&folder).unwrap();
            let link = folder.join("kubectl");
            std::os::unix::fs::symlink(&kubectl.path, &link).unwrap();
            kubectl.path = link;
        }
        Self { found, _links: links }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    /// The kubectl of that version, or else the nearest.
    pub(crate) fn for_version(&self, version: &str) -> &Kubectl {
        let wanted: u32 = version.strip_prefix("1.").and_then(|minor| minor.parse().ok()).unwrap_or(33);
        let nearest = self.found.iter().min_by_key(|(minor, _)| minor.abs_diff(wanted));
        nearest.map(|(_, kubectl)| kubectl).unwrap()
    }
}

fn minor_version(path: &Path) -> Option<u32> {
    let output = Command::new(path).args(["version", "--client", "-o", "json"]).output().ok()?;
    let value: serde_json::Value = serde_json::from_slice(&output.stdout).ok()?;
    value["clientVersion"]["minor"].as_str()?.trim_end_matches('+').parse().ok()
}
