//! Files and environment variables that a lab refers to: the one place that reads them.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use super::Lab;
use super::diagnostic::{Diagnostic, Diagnostics};
use super::source::Located;
use super::step::Action;
use super::workload::{BundleKind, ManifestContent};

/// One file may be this large: more than an object can hold anyway.
const MAX_BYTES: u64 = 4 << 20;

/// A file that a lab refers to.
#[derive(Clone, PartialEq, Eq)]
pub struct FileContent {
    /// The path as shown: relative to where klab was called.
    pub path: String,
    /// What is in it.
    pub bytes: Vec<u8>,
}

/// Contents are left out: they may be secret.
impl fmt::Debug for FileContent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FileContent({}, {} bytes)", self.path, self.bytes.len())
    }
}

/// Everything that a lab needs from outside its file, read once.
#[derive(Clone, Default)]
pub struct Files {
    /// Files by the path or glob as the lab writes it, in the order of their names.
    by_pattern: BTreeMap<String, Vec<FileContent>>,
    /// Environment variables by name.
    environment: BTreeMap<String, String>,
}

impl Files {
    /// The files of a path or glob of the lab.
    pub fn matching(&self, pattern: &str) -> &[FileContent] {
        self.by_pattern.get(pattern).map_or(&[], Vec::as_slice)
    }

    /// An environment variable that a ConfigMap or Secret asks for.
    pub fn variable(&self, name: &str) -> Option<&str> {
        self.environment.get(name).map(String::as_str)
    }

    /// Adds a file under the path that a lab writes.
    pub fn insert(&mut self, pattern: &str, path: &str, bytes: Vec<u8>) {
        let content = FileContent { path: path.to_owned(), bytes };
        self.by_pattern.entry(pattern.to_owned()).or_default().push(content);
    }

    /// Adds an environment variable.
    pub fn insert_variable(&mut self, name: &str, value: &str) {
        self.environment.insert(name.to_owned(), value.to_owned());
    }
}

/// Values are left out: they may be secret.
impl fmt::Debug for Files {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Files")
            .field("by_pattern", &self.by_pattern)
            .field("environment", &self.environment.keys())
            .finish()
    }
}

/// Reads everything that the lab refers to, relative to its directory.
pub(super) fn gather(lab: &Lab, directory: &Path) -> (Files, Diagnostics) {
    let mut files = Files::default();
    let mut diagnostics = Diagnostics::default();
    let templates = lab.workloads.iter().filter_map(|workload| workload.template.as_ref());
    let manifests = lab.manifests.iter().filter_map(|manifest| match &manifest.content {
        ManifestContent::Path(path) => Some(path),
        ManifestContent::Yaml(_) => None,
    });
    let applied = lab.steps.iter().flat_map(|step| &step.actions).filter_map(|action| match &action.value {
        Action::Apply { path } => Some(path),
        _ => None,
    });
    let bundled = lab.bundles.iter().flat_map(|bundle| &bundle.files);
    for pattern in templates.chain(manifests).chain(applied).chain(bundled) {
        if !files.by_pattern.contains_key(pattern.value.as_str()) {
            match read(pattern, directory) {
                Ok(contents) => {
                    files.by_pattern.insert(pattern.value.clone(), contents);
                }
                Err(diagnostic) => diagnostics.push(*diagnostic),
            }
        }
    }
    for bundle in &lab.bundles {
        for name in &bundle.env {
            if let Ok(value) = std::env::var(&name.value) {
                files.environment.insert(name.value.clone(), value);
            } else {
                let kind = if bundle.kind == BundleKind::Secret { "secret" } else { "config" };
                diagnostics.push(
                    Diagnostic::error("missing-variable", format!("the environment variable `{name}` is not set"))
                        .at(&name.at, format!("`[{kind}.{}]` takes its value", bundle.name))
                        .help(format!("set it, for example `export {name}=…`")),
                );
            }
        }
    }
    (files, diagnostics)
}

fn read(pattern: &Located<String>, directory: &Path) -> Result<Vec<FileContent>, Box<Diagnostic>> {
    let problem = |label: String| {
        Box::new(
            Diagnostic::error("missing-file", format!("cannot read `{pattern}`"))
                .at(&pattern.at, label)
                .note(format!("paths are relative to the lab file, here to `{}`", directory.display())),
        )
    };
    let paths = find(pattern, directory).map_err(&problem)?;
    if paths.is_empty() {
        return Err(problem("there is no such file".to_owned()));
    }
    paths
        .into_iter()
        .map(|path| {
            let shown = path.strip_prefix("./").unwrap_or(&path).display().to_string();
            let metadata = std::fs::metadata(&path).map_err(|error| problem(format!("{shown}: {error}")))?;
            if metadata.is_dir() {
                return Err(problem(format!("{shown} is a directory; write for example `{pattern}/*.yaml`")));
            }
            if metadata.len() > MAX_BYTES {
                return Err(problem(format!("{shown} is larger than 4 MiB")));
            }
            let bytes = std::fs::read(&path).map_err(|error| problem(format!("{shown}: {error}")))?;
            Ok(FileContent { path: shown, bytes })
        })
        .collect()
}

/// The files of a path or of a glob (`*`, `?`, `[…]`, `**`), in the order of their names.
fn find(pattern: &str, directory: &Path) -> Result<Vec<PathBuf>, String> {
    // An absolute pattern replaces the directory, as in a join of paths.
    let directory = PathBuf::from(glob::Pattern::escape(&directory.to_string_lossy()));
    let options = glob::MatchOptions { require_literal_leading_dot: true, ..glob::MatchOptions::new() };
    glob::glob_with(&directory.join(pattern).to_string_lossy(), options)
        .map_err(|error| error.to_string())?
        .map(|path| path.map_err(|error| error.to_string()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_found_in_the_order_of_their_names() {
        let directory = tempfile::tempdir().unwrap();
        for name in ["k8s/b.yaml", "k8s/a.yaml", "k8s/.hidden.yaml", "k8s/c.txt"] {
            let path = directory.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, name).unwrap();
        }
        let names = |pattern| {
            let found = find(pattern, directory.path()).unwrap();
            found.iter().map(|path| path.file_name().unwrap().to_string_lossy().into_owned()).collect::<Vec<_>>()
        };
        assert_eq!(names("k8s/*.yaml"), ["a.yaml", "b.yaml"]);
        assert_eq!(names("*/c.*"), ["c.txt"]);
        assert!(names("k8s/none.yaml").is_empty());
        assert!(names("nowhere/*").is_empty());
    }
}
