//! The lessons that come with klab: in the binary, listed, and written out with the files they need.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::error::{Code, Error, Result};
use crate::state::Home;
use crate::state::home::state_error;
use klab_lab::spec::did_you_mean;
use klab_lab::words::listed;

macro_rules! files {
    ($($path:literal),* $(,)?) => { &[$(($path, include_str!(concat!("../labs/", $path)))),*] };
}

/// Paths below `labs/`, and what is in the files.
const FILES: &[(&str, &str)] = files![
    "affinity.toml",
    "affinity/limits.yaml",
    "affinity/quota-raised.yaml",
    "affinity/quota.yaml",
    "anatomy.toml",
    "devices.toml",
    "devices/claim.yaml",
    "devices/first.yaml",
    "devices/heavy-wrong.yaml",
    "devices/heavy.yaml",
    "devices/next.yaml",
    "devices/nic-broken.yaml",
    "devices/nic.yaml",
    "devices/repair-wrong.yaml",
    "devices/repair.yaml",
    "devices/second.yaml",
    "devices/template.yaml",
    "devices/thrifty.yaml",
    "devices/workers.yaml.tera",
    "drain.toml",
    "drain/one.yaml",
    "drain/strict.yaml",
    "experiments.toml",
    "experiments/affinity-pod.yaml",
    "experiments/app-deploy.yaml",
    "experiments/limitrange.yaml",
    "experiments/node-name-pod.yaml",
    "experiments/pod-no-toleration.yaml",
    "experiments/pod-with-toleration.yaml",
    "experiments/redis-with-pod-affinity.yaml",
    "experiments/selector-pod.yaml",
    "experiments/taint-toleration.yaml",
    "experiments/taint-toleration2.yaml",
    "experiments/web-with-pod-affinity.yaml",
    "hpa.toml",
    "hpa/quiet.yaml",
    "hpa/web-busy.yaml",
    "hpa/web-calm.yaml",
    "hpa/web-down.yaml",
    "hpa/web-more.yaml",
    "hpa/web.yaml",
    "nodepools.toml",
    "noexecute.toml",
    "placeholders.toml",
    "placeholders/class.yaml",
    "placeholders/scrap.yaml",
    "priority.toml",
    "priority/classes.yaml",
    "priority/standard.yaml",
    "priority/top.yaml",
    "scheduler.toml",
    "scheduling.toml",
    "share.toml",
    "share/limits.yaml",
    "share/logger-fair.yaml",
    "share/logger.yaml",
    "share/quota-raised.yaml",
    "share/quota.yaml",
    "share/report-fair.yaml",
    "share/report.yaml",
    "spread.toml",
    "spread/web.yaml.tera",
    "taints.toml",
    "volumes.toml",
    "volumes/allowed.yaml",
    "volumes/audit.yaml",
    "volumes/early.yaml",
    "volumes/late-kind.yaml",
    "volumes/late.yaml",
    "volumes/report-early.yaml",
    "volumes/report-late.yaml",
    "volumes/volume-again.yaml",
];

/// A lesson that comes with klab.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShippedLesson {
    /// What `klab up` takes for it.
    pub name: &'static str,
    /// What it is about, in a line; empty where its file does not say.
    pub title: String,
    /// How many steps it has.
    pub steps: usize,
}

/// The lessons, by name.
pub fn all() -> Vec<ShippedLesson> {
    FILES
        .iter()
        .filter_map(|(path, text)| {
            let name = path.strip_suffix(".toml")?;
            let table: toml::Table = text.parse().ok()?;
            let title = table.get("title").and_then(toml::Value::as_str).unwrap_or_default().to_owned();
            let steps = table.get("step").and_then(toml::Value::as_array).map_or(0, Vec::len);
            Some(ShippedLesson { name, title, steps })
        })
        .collect()
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
    for (path, text) in FILES {
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

    /// Every file below a folder, as a path relative to it.
    fn below(folder: &Path) -> Vec<String> {
        let mut found = Vec::new();
        let mut folders = vec![folder.to_owned()];
        while let Some(next) = folders.pop() {
            for entry in fs::read_dir(&next).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                } else {
                    found.push(path.strip_prefix(folder).unwrap().to_str().unwrap().to_owned());
                }
            }
        }
        found.sort();
        found
    }

    #[test]
    fn every_file_of_the_labs_is_in_the_binary() {
        let mut shipped: Vec<String> = FILES.iter().map(|(path, _)| (*path).to_owned()).collect();
        shipped.sort();
        assert_eq!(shipped, below(&Path::new(env!("CARGO_MANIFEST_DIR")).join("labs")));
        let lessons = all();
        assert_eq!(lessons.len(), shipped.iter().filter(|path| path.strip_suffix(".toml").is_some()).count());
        assert!(lessons.iter().all(|lesson| !lesson.title.is_empty()), "{lessons:?}");
        let scheduling = lessons.iter().find(|lesson| lesson.name == "scheduling").unwrap();
        assert!(scheduling.steps > 10);
    }

    #[test]
    fn a_lesson_is_written_out_where_no_file_has_its_name() {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::new(folder.path().join("home"));
        let file = lab_file(&home, Path::new("affinity")).unwrap();
        assert_eq!(file, home.lessons().join("affinity.toml"));
        assert!(home.lessons().join("affinity/quota.yaml").is_file());
        fs::write(&file, "of another klab").unwrap();
        assert_eq!(fs::read_to_string(lab_file(&home, Path::new("affinity")).unwrap()).unwrap(), FILES[0].1);
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
