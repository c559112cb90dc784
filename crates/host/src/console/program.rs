//! kubectl's program, and what it needs of the machine to start.

use std::io::Read;
use std::path::{Path, PathBuf};

use klab_operations::environment;
use klab_operations::error::{Code, Context as _, Error, Result};

/// A program that the sandbox lets through.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Program {
    pub(super) path: PathBuf,
    /// All that may be executed: some builds choose among several versions beside them.
    pub(super) programs: Vec<PathBuf>,
    /// Libraries, of a program that is not static.
    pub(super) libraries: Vec<PathBuf>,
}

/// Where Linux keeps libraries, and who finds them there.
const LIBRARIES: [&str; 5] = ["/lib", "/lib64", "/usr/lib", "/usr/lib64", "/etc/ld.so.cache"];

/// The program that is named, or the first kubectl on `PATH`.
pub(super) fn find(named: Option<&Path>) -> Result<Program> {
    let path = match named {
        Some(path) => path.to_owned(),
        None => on_path().ok_or_else(|| {
            Error::message(Code::ToolMissing, "the console runs kubectl, and there is none on PATH")
                .hint("install it (https://kubernetes.io/docs/tasks/tools/), or name it with `--console-kubectl`")
        })?,
    };
    let problem = || format!("could not use `{}` for the console", path.display());
    let path = path.canonicalize().code(Code::ToolMissing, problem)?;
    let mut head = Vec::new();
    let file = std::fs::File::open(&path).code(Code::ToolMissing, problem)?;
    file.take(4096).read_to_end(&mut head).code(Code::ToolMissing, problem)?;
    let is_program = !cfg!(target_os = "linux") || head.starts_with(b"\x7fELF");
    if !is_program {
        let message = format!("`{}` is not kubectl itself but something that starts it", path.display());
        return Err(Error::message(Code::ClassSandbox, message).hint("name the program with `--console-kubectl`"));
    }
    // The way to the loader stands near the beginning of programs that have one.
    let is_static = !head.windows(4).any(|bytes| bytes == b"/ld-");
    let libraries = LIBRARIES.iter().map(PathBuf::from).filter(|folder| !is_static && folder.exists()).collect();
    Ok(Program { programs: versions_beside(&path), path, libraries })
}

fn on_path() -> Option<PathBuf> {
    let folders = environment::PATH.value()?;
    std::env::split_paths(&folders).map(|folder| folder.join("kubectl")).find(|path| path.is_file())
}

/// The program, and those beside it that are called as it is with a version behind: Google's chooses the one nearest to
/// the server's.
fn versions_beside(path: &Path) -> Vec<PathBuf> {
    let is_version = |name: &str| {
        let own = path.file_name().and_then(|own| own.to_str()).unwrap_or_default();
        let version = name.strip_prefix(own).and_then(|rest| rest.strip_prefix('.'));
        version.is_some_and(|version| version.chars().all(|letter| letter.is_ascii_digit() || letter == '.'))
    };
    let beside = path.parent().and_then(|folder| std::fs::read_dir(folder).ok());
    let beside =
        beside.into_iter().flatten().flatten().filter(|entry| entry.file_name().to_str().is_some_and(is_version));
    let mut programs: Vec<PathBuf> = beside.map(|entry| entry.path()).collect();
    programs.sort();
    programs.insert(0, path.to_owned());
    programs
}
