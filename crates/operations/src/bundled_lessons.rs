//! The lessons that come with klab: in the binary, listed, and written out with the files they need.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::error::{Code, Error, Result};
use crate::state::Home;
use crate::state::home::state_error;
use klab_lab::spec::{Catalogue, Topic, Track, did_you_mean};
use klab_lab::words::listed;

/// The folder of the tasks, below `labs/`.
const PRACTICE: &str = "practice/";

// `FILES`: paths below `labs/`, sorted, and what is in the files.
include!(concat!(env!("OUT_DIR"), "/lab_files.rs"));

/// A lesson or task that comes with klab.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShippedLesson {
    /// What `klab up` takes for it; that of a task begins with `practice/`.
    pub name: &'static str,
    /// What it is about, in a line; empty where its file does not say.
    pub title: String,
    /// How many steps it has.
    pub steps: usize,
    /// Where it stands in the list.
    pub catalogue: Catalogue,
}

/// The keys of a lab file that a list shows.
#[derive(Deserialize)]
struct Head {
    #[serde(default)]
    title: String,
    #[serde(default)]
    tracks: Vec<Track>,
    #[serde(default)]
    topics: Vec<Topic>,
    minutes: Option<u16>,
    #[serde(default)]
    step: Vec<IgnoredAny>,
}

/// The lessons, by name.
pub fn all() -> Vec<ShippedLesson> {
    shipped(|name| !name.starts_with(PRACTICE))
}

/// What `klab up` takes for the task whose lab has this name.
pub fn task(lab: &str) -> Option<&'static str> {
    names().find(|name| name.strip_prefix(PRACTICE) == Some(lab))
}

/// The tasks of `klab practice`, by name.
pub fn tasks() -> Vec<ShippedLesson> {
    shipped(|name| name.starts_with(PRACTICE))
}

fn shipped(is_meant: impl Fn(&str) -> bool) -> Vec<ShippedLesson> {
    let meant = |(path, text): &(&'static str, &str)| {
        let name = path.strip_suffix(".toml").filter(|name| is_meant(name))?;
        let Head { title, tracks, topics, minutes, step } = toml::from_str(text).ok()?;
        Some(ShippedLesson { name, title, steps: step.len(), catalogue: Catalogue { tracks, topics, minutes } })
    };
    FILES.iter().filter_map(meant).collect()
}

/// The lab file that somebody names: a path as it is, and where there is no such file but a lesson of this name, the lesson's
/// file in klab's home, written out with what it refers to.
///
/// # Errors
/// When the lesson cannot be written, or there is no such file and a lesson's name is like it.
pub fn lab_file(home: &Home, named: &Path) -> Result<PathBuf> {
    // A lesson's own folder of manifests bears its name.
    if named.exists() && !(named.is_dir() && is_lesson(named)) {
        return Ok(named.to_owned());
    }
    if !is_lesson(named) {
        let Some(lesson) = similar(named) else { return Ok(named.to_owned()) };
        let message = format!("there is no file `{}`", named.display());
        return Err(Error::message(Code::NoLabFile, message)
            .hint(format!("did you mean `{lesson}`, a lesson that comes with klab?"))
            .hint("`klab lessons` lists them"));
    }
    let folder = home.lessons();
    // A lesson's files bear its name, or are in the folder of that name.
    let of_lesson = |path: &str| {
        let rest = named.to_str().and_then(|name| path.strip_prefix(name));
        rest.is_some_and(|rest| rest == ".toml" || rest.starts_with('/'))
    };
    for (path, text) in FILES.iter().filter(|(path, _)| of_lesson(path)) {
        let file = folder.join(path);
        if fs::read(&file).is_ok_and(|there| there == text.as_bytes()) {
            continue;
        }
        write(&file, text).map_err(|error| state_error(error, "write the lesson", &file))?;
    }
    Ok(folder.join(named).with_extension("toml"))
}

/// The names of the lessons.
fn names() -> impl Iterator<Item = &'static str> {
    FILES.iter().filter_map(|(path, _)| path.strip_suffix(".toml"))
}

/// Whether a word is a lesson's name.
fn is_lesson(named: &Path) -> bool {
    named.to_str().is_some_and(|name| names().any(|lesson| lesson == name))
}

/// The lesson that a path may mean which leads nowhere: a slip in its name, or the lesson's file in klab's sources.
pub fn similar(named: &Path) -> Option<&'static str> {
    let stem = named.file_stem()?.to_str()?;
    names().find(|lesson| *lesson == stem).or_else(|| did_you_mean(stem, names()))
}

/// Writes all lessons with their files into a folder; gives the paths. Nothing is written where a file of another content
/// is in the way.
///
/// # Errors
/// When files are in the way, all of which are named, or cannot be written.
pub fn copy(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut in_the_way = Vec::new();
    for (path, text) in FILES {
        let file = folder.join(path);
        match fs::read(&file) {
            Ok(there) if there == text.as_bytes() => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            _ => in_the_way.push(format!("`{}`", file.display())),
        }
    }
    if !in_the_way.is_empty() {
        let message = format!(
            "{} would be overwritten; nothing was written",
            listed(&in_the_way.iter().map(String::as_str).collect::<Vec<_>>())
        );
        return Err(Error::message(Code::FileInTheWay, message).hint("name another folder: `klab lessons --copy DIR`"));
    }
    let mut written = Vec::new();
    for (path, text) in FILES {
        let file = folder.join(path);
        write(&file, text).map_err(|error| {
            let words = format!("could not write `{}`", file.display());
            Error::new(Code::FileUnwritten, anyhow::Error::new(error).context(words))
        })?;
        written.push(file);
    }
    Ok(written)
}

fn write(file: &Path, text: &str) -> io::Result<()> {
    if let Some(folder) = file.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::write(file, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_lab_is_listed_with_what_it_is() {
        let files = FILES.iter().filter(|(path, _)| path.strip_suffix(".toml").is_some()).count();
        let listed = [all(), tasks()].concat();
        assert_eq!(listed.len(), files);
        assert!(listed.iter().all(|lesson| !lesson.title.is_empty()), "{listed:?}");
        let scheduling = listed.iter().find(|lesson| lesson.name == "scheduling").unwrap();
        assert!(scheduling.steps > 10);
    }

    #[test]
    fn a_lesson_is_written_out_where_no_file_has_its_name() {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::new(folder.path().join("home"));
        let file = lab_file(&home, Path::new("affinity")).unwrap();
        assert_eq!(file, home.lessons().join("affinity.toml"));
        assert!(home.lessons().join("affinity/quota.yaml").is_file());
        assert!(!home.lessons().join("anatomy.toml").exists());
        fs::write(&file, "of another klab").unwrap();
        assert_eq!(
            fs::read_to_string(lab_file(&home, Path::new("affinity")).unwrap()).unwrap(),
            include_str!("../labs/affinity.toml")
        );
        for path in ["affinity/quota", "other", "other.toml", ""] {
            assert_eq!(lab_file(&home, Path::new(path)).unwrap(), Path::new(path));
        }
        for path in ["afinity", "affinity.toml", "./affinity", "lessons/affinity.toml", "Affinity"] {
            let hints = lab_file(&home, Path::new(path)).unwrap_err().hints;
            assert_eq!(hints[0], "did you mean `affinity`, a lesson that comes with klab?", "{path}");
        }
        let own = folder.path().join("own");
        fs::write(&own, "").unwrap();
        assert_eq!(lab_file(&home, &own).unwrap(), own);
    }

    #[test]
    fn a_copy_overwrites_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let copied = copy(folder.path()).unwrap();
        assert_eq!(copied.len(), FILES.len());
        assert_eq!(copy(folder.path()).unwrap(), copied, "what is the same already is in nobody's way");
        fs::write(folder.path().join("taints.toml"), "changed").unwrap();
        fs::remove_file(folder.path().join("affinity.toml")).unwrap();
        let error = copy(folder.path()).unwrap_err();
        assert!(error.to_string().contains("taints.toml` would be overwritten; nothing was written"), "{error}");
        assert!(!folder.path().join("affinity.toml").exists());
    }
}
