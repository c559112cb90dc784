//! Files of the repository that are made from what klab has; with `KLAB_BLESS=1` a test writes its file again.

use std::path::Path;

/// Whether a file is what it is made to be.
pub(crate) fn is_written(path: &Path, wanted: &str) {
    if std::env::var_os("KLAB_BLESS").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, wanted).unwrap();
    }
    let written = std::fs::read_to_string(path).unwrap_or_default();
    assert!(
        written == wanted,
        "{} is old: `KLAB_BLESS=1 cargo test -p klab --test it` writes it again",
        path.display()
    );
}
