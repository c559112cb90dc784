//! Files and environment variables that a lab refers to, as they were read.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

/// A file that a lab refers to.
#[derive(Clone, PartialEq, Eq)]
pub struct FileContent {
    /// The path as shown: relative to where klab was called.
    pub path: String,
    /// What is in it.
    pub bytes: Vec<u8>,
    /// Whether it is outside the lab's folder: then nothing of it is shown in a message.
    pub outside: bool,
}

impl FileContent {
    /// Whether manifests in it are rendered first: its name ends in `.tera`.
    pub fn is_template(&self) -> bool {
        Path::new(&self.path).extension().is_some_and(|extension| extension == "tera")
    }
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
    pub(super) by_pattern: BTreeMap<String, Vec<FileContent>>,
    /// Environment variables by name.
    pub(super) environment: BTreeMap<String, String>,
    pub(super) reach: Reach,
}

impl Files {
    /// Whether files outside the lab's folder may be read.
    pub fn allow_outside(&self) -> bool {
        self.reach.outside
    }

    /// The files of a path or glob of the lab.
    pub fn matching(&self, pattern: &str) -> &[FileContent] {
        self.by_pattern.get(pattern).map_or(&[], Vec::as_slice)
    }

    /// Whether one of them is a template by its name.
    pub(super) fn has_templates(&self) -> bool {
        self.by_pattern.values().flatten().any(FileContent::is_template)
    }

    /// An environment variable that a ConfigMap or Secret asks for.
    pub fn variable(&self, name: &str) -> Option<&str> {
        self.environment.get(name).map(String::as_str)
    }
}

/// Values are left out: they may be secret.
impl fmt::Debug for Files {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Files")
            .field("by_pattern", &self.by_pattern)
            .field("environment", &self.environment.keys())
            .field("reach", &self.reach)
            .finish()
    }
}

/// Whose word counts on what a lab reads of the machine besides its own file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reach {
    /// Files outside the lab file's folder are read, too.
    pub outside: bool,
    /// Values of environment variables are read; else it is only looked whether they are set.
    pub environment: bool,
}
