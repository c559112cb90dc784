//! Files and folders for one user only, written whole.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, symlink};
use std::path::Path;

/// Creates a folder and those above it, for this user only.
///
/// # Errors
/// When the file system refuses.
pub fn create_private_folder(folder: &Path) -> io::Result<()> {
    loop {
        match DirBuilder::new().recursive(true).mode(0o700).create(folder) {
            // Another klab made it and removed it in this moment.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && folder.symlink_metadata().is_err() => {}
            created => return created,
        }
    }
}

/// Replaces a file whole, for this user only: after a crash there is the old text or the new, never half of one.
///
/// # Errors
/// When the file system refuses; the old file is then untouched.
pub fn write_private(path: &Path, text: &[u8]) -> io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    let mut file = tempfile::Builder::new().prefix(".new-").tempfile_in(folder)?;
    file.write_all(text)?;
    file.as_file().sync_all()?;
    file.persist(path)?;
    sync_folder(folder)
}

/// [`write_private`] of a file that every start writes: one that is as it should be stays. On a full disk the text goes into
/// the place of the old one, so that a server with such a disk starts and can be read.
///
/// # Errors
/// When the file system refuses.
pub(super) fn rewrite_private(path: &Path, text: &[u8]) -> io::Result<()> {
    if std::fs::read(path).is_ok_and(|old| old == text) {
        return Ok(());
    }
    match write_private(path, text) {
        Err(error) if matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded) => {
            overwrite(path, text)
        }
        written => written,
    }
}

/// Writes over a file that is there, where its text was.
fn overwrite(path: &Path, text: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).open(path)?;
    file.write_all(text)?;
    file.set_len(text.len() as u64)
}

/// As [`write_private`], but that a crash of the machine within about a second may leave no such file, or an empty one: for
/// what can be made again, and is then synced with many others. Its folder is made where it is missing.
///
/// # Errors
/// When the file system refuses; the old file is then untouched.
pub fn write_private_later(path: &Path, text: &[u8]) -> io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    let make = || tempfile::Builder::new().prefix(".new-").tempfile_in(folder);
    let mut file = match make() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            create_private_folder(folder)?;
            make()?
        }
        file => file?,
    };
    file.write_all(text)?;
    file.persist(path)?;
    Ok(())
}

/// Makes all that was written to the file system of a folder survive the machine: many files at once.
///
/// # Errors
/// When the disk refuses.
pub fn sync_all_of(folder: &Path) -> io::Result<()> {
    let folder = File::open(folder)?;
    #[cfg(target_os = "linux")]
    rustix::fs::syncfs(&folder)?;
    #[cfg(not(target_os = "linux"))]
    {
        rustix::fs::sync();
        drop(folder);
    }
    Ok(())
}

/// Makes a symbolic link; what has its name already is replaced, and a reader of that name finds the one or the other.
///
/// # Errors
/// When the file system refuses; what was there is then untouched.
pub fn write_link(target: &Path, path: &Path) -> io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    let link = tempfile::Builder::new().prefix(".new-").make_in(folder, |fresh| symlink(target, fresh))?;
    link.into_temp_path().persist(path)?;
    sync_folder(folder)
}

/// Opens a file for appending, made for this user only.
pub fn open_private_append(path: &Path) -> io::Result<File> {
    OpenOptions::new().append(true).create(true).read(true).mode(0o600).open(path)
}

/// Makes renames and new names in a folder durable.
pub fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

/// What came of removing something that may be gone already.
///
/// # Errors
/// When it is still there.
pub fn gone(removed: io::Result<()>) -> io::Result<()> {
    match removed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt as _;

    use super::*;

    #[test]
    fn a_file_is_written_over_in_its_place() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("port");
        write_private(&path, b"a long text").unwrap();
        let before = std::fs::metadata(&path).unwrap().ino();
        overwrite(&path, b"short").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"short");
        rewrite_private(&path, b"short").unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().ino(), before, "the same stays");
        rewrite_private(&path, b"other").unwrap();
        assert_ne!(std::fs::metadata(&path).unwrap().ino(), before, "others are written whole");
    }

    #[test]
    fn link_is_there_at_every_moment_in_which_it_is_made_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("az");
        let targets = ["one", "two"].map(|name| folder.path().join(name));
        write_link(&targets[0], &path).unwrap();
        std::thread::scope(|scope| {
            for target in &targets {
                scope.spawn(|| (0..100).for_each(|_| write_link(target, &path).unwrap()));
            }
            for _ in 0..1000 {
                assert!(targets.contains(&std::fs::read_link(&path).unwrap()));
            }
        });
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
