//! Programs of PATH behind those that are klab under their name, as in a `klab shell`.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use crate::environment;

/// The program of this name on PATH, or where it is, if a klab that is called so comes before it. None where klab's own is the
/// only one.
pub fn program(name: &str) -> Option<OsString> {
    let path = environment::PATH.value().unwrap_or_default();
    let klab = std::env::current_exe().and_then(|klab| klab.canonicalize()).ok();
    behind(name, &path, klab.as_deref())
}

fn behind(name: &str, path: &OsStr, klab: Option<&Path>) -> Option<OsString> {
    let mut all = std::env::split_paths(path).map(|folder| folder.join(name)).filter(|file| file.is_file()).peekable();
    let is_klab = |file: &PathBuf| klab.is_some() && file.canonicalize().ok().as_deref() == klab;
    if !all.peek().is_some_and(is_klab) {
        return Some(OsString::from(name));
    }
    all.find(|file| !is_klab(file)).map(PathBuf::into_os_string)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tool_of_a_labs_shell_is_passed_over_for_the_one_behind_it() {
        let folder = tempfile::tempdir().unwrap();
        let [ours, theirs] = ["ours", "theirs"].map(|name| folder.path().join(name));
        let klab = folder.path().join("klab");
        for place in [&ours, &theirs] {
            std::fs::create_dir(place).unwrap();
        }
        std::fs::write(&klab, "").unwrap();
        std::fs::write(theirs.join("az"), "").unwrap();
        std::os::unix::fs::symlink(&klab, ours.join("az")).unwrap();
        let klab = klab.canonicalize().unwrap();
        let of = |folders: &[&PathBuf]| behind("az", &std::env::join_paths(folders).unwrap(), Some(&klab));
        assert_eq!(of(&[&ours, &theirs]), Some(theirs.join("az").into_os_string()));
        assert_eq!([of(&[&theirs, &ours]), of(&[])], ["az", "az"].map(|az| Some(OsString::from(az))));
        assert_eq!(of(&[&ours]), None);
    }
}
