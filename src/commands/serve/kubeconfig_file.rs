//! The file with the kubeconfig of an ephemeral cluster: for its user only, never in the place of somebody else's, gone in
//! the end.

use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

use serde_json::Value;

use klab_server::ephemeral::CONTEXT;
use klab_server::files::write_private_later;

use klab_operations::error::{Code, Error, Result};

/// Longest text that is read to see whose kubeconfig it is.
const MAX_BYTES: u64 = 1 << 20;

/// A kubeconfig that was written.
pub(super) struct KubeconfigFile {
    path: PathBuf,
    text: String,
}

/// Whether a kubeconfig may be written there: nothing is there, or nothing that anybody misses.
///
/// # Errors
/// When it may not.
pub(super) fn check(path: &Path) -> Result<()> {
    let refused = |why: String| Error::message(Code::Flags, format!("`{}` {why}", path.display()));
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if !folder.is_dir() {
        return Err(refused(format!("cannot be written: there is no folder `{}`", folder.display())));
    }
    match std::fs::symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(refused(format!("cannot be written: {error}"))),
        Ok(found) if !found.is_file() => {
            Err(refused("is no file".to_owned()).hint("`--print-kubeconfig` writes the kubeconfig to stdout"))
        }
        Ok(found) if found.len() == 0 || is_ephemeral(path) => Ok(()),
        Ok(_) => Err(refused("is there already, and is no kubeconfig of an ephemeral cluster".to_owned())
            .hint("name a file of its own: it is removed when the cluster ends")),
    }
}

/// Whether a file is what another ephemeral cluster left when it was killed.
fn is_ephemeral(path: &Path) -> bool {
    let mut text = String::new();
    let read = std::fs::File::open(path).and_then(|file| file.take(MAX_BYTES).read_to_string(&mut text));
    let value = read.ok().and_then(|_| serde_saphyr::from_str::<Value>(&text).ok());
    let names = |list: &str| value.as_ref().and_then(|value| value[list].as_array().map(Vec::len));
    value.as_ref().is_some_and(|value| value["current-context"] == CONTEXT) && names("contexts") == Some(1)
}

impl KubeconfigFile {
    /// Writes it, for this user only.
    ///
    /// # Errors
    /// When the file system refuses.
    pub(super) fn write(path: &Path, text: String) -> Result<Self> {
        check(path)?;
        // From here on it is removed whatever this process's folder is then.
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        write_private_later(&path, text.as_bytes()).map_err(|error| {
            Error::message(Code::FileUnwritten, format!("`{}` cannot be written: {error}", path.display()))
        })?;
        Ok(Self { path, text })
    }

    /// Removes it, unless somebody has written something else there.
    pub(super) fn remove(self) {
        if std::fs::read(&self.path).is_ok_and(|text| text == self.text.as_bytes()) {
            // The process is about to end, and there is no one left to report to.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn kubeconfig(context: &str) -> String {
        format!("current-context: {context}\ncontexts: [{{ name: {context} }}]\n")
    }

    #[test]
    fn nothing_of_anybody_is_written_over() {
        let folder = tempfile::tempdir().unwrap();
        let place = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            path
        };
        for free in [folder.path().join("new"), place("empty", ""), place("old", &kubeconfig(CONTEXT))] {
            let written = KubeconfigFile::write(&free, kubeconfig(CONTEXT)).unwrap();
            assert_eq!(std::fs::metadata(&free).unwrap().permissions().mode() & 0o777, 0o600);
            written.remove();
            assert!(!free.exists());
        }
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(place("target", ""), &link).unwrap();
        let with_others = format!("current-context: {CONTEXT}\ncontexts: [{{ name: {CONTEXT} }}, {{ name: home }}]\n");
        for (taken, why) in [
            (place("mine", &kubeconfig("home")), "is there already"),
            (place("mixed", &with_others), "is there already"),
            (place("text", "\u{0}not: [yaml"), "is there already"),
            (link, "is no file"),
            (folder.path().to_owned(), "is no file"),
            (folder.path().join("no/folder"), "there is no folder"),
            (folder.path().join("mine/below"), "there is no folder"),
        ] {
            let before = std::fs::read(&taken).ok();
            let refused = KubeconfigFile::write(&taken, kubeconfig(CONTEXT)).map(|_| ()).unwrap_err().to_string();
            assert!(refused.contains(why), "{refused}");
            assert_eq!(std::fs::read(&taken).ok(), before);
        }
    }

    #[test]
    fn what_somebody_else_wrote_meanwhile_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("kubeconfig");
        let written = KubeconfigFile::write(&path, kubeconfig(CONTEXT)).unwrap();
        std::fs::write(&path, "other").unwrap();
        written.remove();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "other");
    }
}
