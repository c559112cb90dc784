//! Reading the files and environment variables that a lab refers to: the one place that does so.

use std::env::VarError;
use std::path::{Component, Path, PathBuf};

use super::diagnostic::{Diagnostic, Diagnostics};
use super::files::{FileContent, Files, Reach};
use super::lab::Lab;
use super::read::read_regular;
use super::source::Located;
use super::step::Action;
use super::workload::{BundleKind, ManifestContent};
use crate::code::Code;

/// One file may be this large: more than an object can hold anyway.
const MAX_BYTES: u64 = 4 << 20;
/// All files of a lab together may be this large.
const MAX_ALL_BYTES: u64 = 64 << 20;
/// Most files that one glob may mean.
const MAX_FILES: usize = 1000;

/// Reads everything that the lab refers to, relative to its directory.
pub(super) fn gather(lab: &Lab, directory: &Path, reach: Reach) -> (Files, Diagnostics) {
    let mut files = Files { reach, ..Files::default() };
    let mut diagnostics = Diagnostics::default();
    let mut reader = Reader { directory, reach, left: MAX_ALL_BYTES };
    for pattern in patterns(lab) {
        if !files.by_pattern.contains_key(pattern.value.as_str()) {
            match reader.read(pattern) {
                Ok(contents) => {
                    files.by_pattern.insert(pattern.value.clone(), contents);
                }
                Err(diagnostic) => diagnostics.push(*diagnostic),
            }
        }
    }
    for bundle in &lab.bundles {
        let kind = if bundle.kind == BundleKind::Secret { "secret" } else { "config" };
        let takes = format!("`[{kind}.{}]` takes its value", bundle.name);
        for name in &bundle.env {
            let problem = match std::env::var(&name.value) {
                Ok(value) => {
                    // What is not read cannot be shown or sent by mistake.
                    let value = if reach.environment { value } else { format!("(value of ${name})") };
                    files.environment.insert(name.value.clone(), value);
                    continue;
                }
                Err(VarError::NotUnicode(_)) => "is not UTF-8 text",
                Err(VarError::NotPresent) => "is not set",
            };
            diagnostics.push(
                Diagnostic::error(Code::MissingVariable, format!("the environment variable `{name}` {problem}"))
                    .at(&name.at, takes.as_str())
                    .help(format!("set it, for example `export {name}=…`")),
            );
        }
    }
    (files, diagnostics)
}

/// Every path and glob of the lab.
fn patterns(lab: &Lab) -> impl Iterator<Item = &Located<String>> {
    let templates = lab.workloads.iter().filter_map(|workload| workload.template.as_ref());
    let manifests = lab.manifests.iter().filter_map(|manifest| match &manifest.content {
        ManifestContent::Path(path) => Some(path),
        ManifestContent::Yaml(_) => None,
    });
    let applied = lab.steps.iter().flat_map(|step| &step.actions).filter_map(|action| match action.value.tried() {
        Action::Apply { content: ManifestContent::Path(path) } => Some(path),
        _ => None,
    });
    let bundled = lab.bundles.iter().flat_map(|bundle| &bundle.files);
    templates.chain(manifests).chain(applied).chain(bundled)
}

/// Reads files for one lab.
struct Reader<'a> {
    directory: &'a Path,
    reach: Reach,
    /// Bytes that may still be read.
    left: u64,
}

impl Reader<'_> {
    fn read(&mut self, pattern: &Located<String>) -> Result<Vec<FileContent>, Box<Diagnostic>> {
        let folder = self.directory.display();
        let problem = |label: String| {
            Box::new(
                Diagnostic::error(Code::MissingFile, format!("cannot read `{pattern}`"))
                    .at(&pattern.at, label)
                    .note(format!("paths are relative to the lab file, here to `{folder}`")),
            )
        };
        let outside = |label: &str| {
            Box::new(
                Diagnostic::error(Code::OutsideFile, format!("`{pattern}` is outside the lab's folder"))
                    .at(&pattern.at, label)
                    .note(format!("a lab reads files in the folder of its file, here `{folder}`, and below it"))
                    .help(
                        "move the file there; or, where you trust the lab, `--allow-outside` lets it read your files",
                    ),
            )
        };
        if !self.reach.outside && escapes(pattern) {
            return Err(outside("this leads out of it"));
        }
        let paths = find(pattern, self.directory).map_err(&problem)?;
        if paths.is_empty() {
            return Err(problem("there is no such file".to_owned()));
        }
        if paths.len() > MAX_FILES {
            return Err(problem(format!("these are more than {MAX_FILES} files")));
        }
        let root = if self.directory.as_os_str().is_empty() { Path::new(".") } else { self.directory };
        let root = root.canonicalize().map_err(|error| problem(error.to_string()))?;
        let mut contents = Vec::new();
        for path in paths {
            let shown = path.strip_prefix("./").unwrap_or(&path).display().to_string();
            // Whatever links there are on the way, what is opened is what was looked at.
            let real = path.canonicalize().map_err(|error| problem(format!("{shown}: {error}")))?;
            let is_outside = !real.starts_with(&root);
            if is_outside && !self.reach.outside {
                return Err(outside(&format!("{shown} is a link that leads out of it")));
            }
            let bytes = read_regular(&real, MAX_BYTES).map_err(|unread| match unread {
                unread if unread.is_folder() => {
                    problem(format!("{shown} is a directory; write for example `{pattern}/*.yaml`"))
                }
                unread => problem(format!("{shown}: {unread}")),
            })?;
            self.left = self.left.checked_sub(bytes.len() as u64).ok_or_else(|| {
                problem(format!("with {shown}, the files of this lab are larger than {} MiB", MAX_ALL_BYTES >> 20))
            })?;
            contents.push(FileContent { path: shown, bytes, outside: is_outside });
        }
        Ok(contents)
    }
}

/// Whether a path or glob leads out of the folder it is relative to, whatever there is on the disk.
fn escapes(pattern: &str) -> bool {
    let mut depth = 0_usize;
    for part in Path::new(pattern).components() {
        match part {
            Component::RootDir | Component::Prefix(_) => return true,
            Component::CurDir => {}
            Component::Normal(_) => depth += 1,
            Component::ParentDir => match depth.checked_sub(1) {
                Some(up) => depth = up,
                None => return true,
            },
        }
    }
    false
}

/// The files of a path or of a glob (`*`, `?`, `[…]`, `**`), in the order of their names; one more than may be.
fn find(pattern: &str, directory: &Path) -> Result<Vec<PathBuf>, String> {
    // An absolute pattern replaces the directory, as in a join of paths.
    let directory = PathBuf::from(glob::Pattern::escape(&directory.to_string_lossy()));
    let options = glob::MatchOptions { require_literal_leading_dot: true, ..glob::MatchOptions::new() };
    glob::glob_with(&directory.join(pattern).to_string_lossy(), options)
        .map_err(|error| error.to_string())?
        .take(MAX_FILES + 1)
        .map(|path| path.map_err(|error| error.to_string()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_leads_out_of_the_folder_is_known_by_its_name() {
        for (pattern, outside) in [
            ("k8s/*.yaml", false),
            ("./a/../b.yaml", false),
            ("**/x", false),
            ("..", true),
            ("../x", true),
            ("a/../../x", true),
            ("/etc/passwd", true),
            ("/*/*", true),
        ] {
            assert_eq!(escapes(pattern), outside, "{pattern}");
        }
    }

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
