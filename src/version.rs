//! Which klab this is: version, commit, date, target, and the Kubernetes that its embedded cluster is.

use std::fmt::Write as _;

/// Version of klab.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
/// The commit it was built from; empty where that is not known.
const COMMIT: &str = env!("KLAB_BUILD_COMMIT");
/// The day of that commit.
const DATE: &str = env!("KLAB_BUILD_DATE");
/// What it was built for.
const TARGET: &str = env!("KLAB_BUILD_TARGET");

/// What `klab --version --verbose` prints.
pub fn verbose() -> String {
    let mut text = format!("klab {VERSION}\n");
    for (name, value) in [("commit", COMMIT), ("date", DATE), ("target", TARGET)] {
        let value = if value.is_empty() { "not known: a build for development" } else { value };
        // Writing to a text cannot fail.
        let _ = writeln!(text, "{name}: {value}");
    }
    let _ = writeln!(text, "kubernetes: {}", klab_cluster::KUBERNETES_VERSION);
    text
}

/// Whether what was typed asks for that: `--version` is there, and `--verbose`, too.
pub fn is_asked(words: &[std::ffi::OsString]) -> bool {
    let short = |word: &str, letter: char| {
        word.strip_prefix('-').is_some_and(|letters| !letters.starts_with('-') && letters.contains(letter))
    };
    let mut words = words.iter().skip(1).filter_map(|word| word.to_str());
    words.any(|word| word == "--verbose" || short(word, 'v'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_says_what_it_was_built_from() {
        let text = verbose();
        let names: Vec<&str> = text.lines().filter_map(|line| line.split([' ', ':']).next()).collect();
        assert_eq!(names, ["klab", "commit", "date", "target", "kubernetes"]);
        assert!(text.contains("kubernetes: v1."), "{text}");
    }

    #[test]
    fn verbose_is_found_in_any_form() {
        let asked = |words: &[&str]| is_asked(&words.iter().map(Into::into).collect::<Vec<_>>());
        assert!(asked(&["klab", "--version", "--verbose"]));
        assert!(asked(&["klab", "-vV"]));
        assert!(asked(&["klab", "-V", "-v"]));
        assert!(!asked(&["klab", "--version"]));
        assert!(!asked(&["klab", "-V"]));
    }
}
