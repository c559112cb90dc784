//! A file or a directory in a container, as far as it is known.

use std::collections::BTreeSet;
use std::sync::Arc;

/// A file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct File {
    /// None where its contents are not known.
    pub(crate) text: Option<Arc<Vec<u8>>>,
    pub(crate) mode: u32,
    pub(crate) owner: Option<(u32, u32)>,
}

/// What is found at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Found {
    File(File),
    /// Its names, as far as they are known.
    Directory {
        names: Option<BTreeSet<String>>,
        mode: u32,
        owner: Option<(u32, u32)>,
    },
    Absent,
    /// It is the image's, or in a volume whose files are not followed.
    Unknown,
}
