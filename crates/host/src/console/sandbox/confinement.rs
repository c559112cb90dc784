//! What a sandbox leaves to a process.

use std::path::PathBuf;

use super::limits::Limits;

/// What is left to a process.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Confinement {
    /// The folder that it may read and write.
    pub folder: PathBuf,
    /// Programs that it may execute.
    pub programs: Vec<PathBuf>,
    /// Folders of libraries that these need.
    pub libraries: Vec<PathBuf>,
    /// The TCP port that it may connect to.
    pub port: u16,
    /// Limits of what it uses.
    pub limits: Limits,
}
