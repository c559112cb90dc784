//! A class: one lab for many people, each with a seat, which is a lab of its own named `<lab>-<number>`.
//!
//! The class's folder is the one the lab itself would have; its record lists the seats, before any of them is made and
//! until the last of them is gone.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::Home;
use super::home::{read_document, state_error};
use crate::error::{Code, Error, Result};
use klab_lab::spec::Provider;
use klab_lab::words::plural;
use klab_server::files::{create_private_folder, write_private};

/// What klab knows of a class.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Class {
    /// Version of this form: `klab.class/1`.
    pub schema: String,
    /// The lab's name.
    pub lab: String,
    /// The provider that holds the seats' clusters.
    pub provider: Provider,
    /// The lab file.
    pub source: PathBuf,
    /// Variables given on the command line.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub vars: Vec<(String, String)>,
    /// Numbers of the seats, from 1: those that are up, half made, or half removed.
    pub seats: BTreeSet<u32>,
    /// When the class was first brought up.
    pub created: Timestamp,
}

const SCHEMA: &str = "klab.class/1";
const FILE: &str = "class.json";
/// In a seat's folder: its set-up held. Never reset by a later look, because what a learner breaks is the lesson.
const READY: &str = "ready";

impl Class {
    /// A class that is about to be made.
    pub fn new(lab: &str, provider: Provider, source: &Path) -> Self {
        Self {
            schema: SCHEMA.to_owned(),
            lab: lab.to_owned(),
            provider,
            source: source.to_owned(),
            vars: Vec::new(),
            seats: BTreeSet::new(),
            created: Timestamp::now(),
        }
    }

    /// The class of a lab, if it has one.
    ///
    /// # Errors
    /// When its record cannot be read, or was written by another klab.
    pub fn read(home: &Home, lab: &str) -> Result<Option<Self>> {
        read_document(&home.lab(lab).join(FILE))
    }

    /// The refusal of a class where one seat is needed.
    pub fn name_a_seat(&self) -> Error {
        let seat = self.names().next().map_or_else(|| self.lab.clone(), |(_, name)| name);
        let message = format!("lab `{}` is a class with {}", self.lab, plural(self.seats.len(), "seat"));
        Error::message(Code::NoSuchSeat, message)
            .hint(format!("name a seat, such as `{seat}`; `verify --seats` looks at all"))
    }

    /// The lab of a seat of the class, by its number.
    ///
    /// # Errors
    /// When the class has no such seat.
    pub fn seat(&self, number: u32) -> Result<String> {
        let name = self.names().find(|(known, _)| *known == number).map(|(_, name)| name);
        name.ok_or_else(|| {
            let message = format!("lab `{}` has no seat {number}", self.lab);
            let last = self.seats.last().copied().unwrap_or_default();
            Error::message(Code::NoSuchSeat, message)
                .hint(format!("its seats are {} to {last}", self.seats.first().copied().unwrap_or(1)))
        })
    }

    /// The class of a lab that must have one.
    ///
    /// # Errors
    /// When it has none, or its record cannot be read.
    pub fn of(home: &Home, lab: &str) -> Result<Self> {
        Self::read(home, lab)?.ok_or_else(|| {
            Error::message(Code::NoSuchClass, format!("lab `{lab}` has no seats"))
                .hint("`klab up LAB --seats 30` makes a class; `klab list` shows what is up")
        })
    }

    /// Writes the record. On disk when this returns.
    ///
    /// # Errors
    /// When the file system refuses; the old record is then still there.
    pub fn write(&self, home: &Home) -> Result<()> {
        let folder = home.lab(&self.lab);
        let path = folder.join(FILE);
        create_private_folder(&folder).map_err(|error| state_error(error, "create", &folder))?;
        let text = serde_json::to_vec_pretty(self).map_err(io::Error::other);
        text.and_then(|text| write_private(&path, &text)).map_err(|error| state_error(error, "write", &path))
    }

    /// The seats' names as labs, in order of their numbers.
    pub fn names(&self) -> impl Iterator<Item = (u32, String)> {
        self.seats.iter().map(|number| (*number, seat_name(&self.lab, *number)))
    }

    /// Folder with a kubeconfig for each seat.
    pub fn kubeconfigs(home: &Home, lab: &str) -> PathBuf {
        home.lab(lab).join("kubeconfigs")
    }
}

/// The name of a seat's lab: `scheduling-07`.
pub fn seat_name(lab: &str, number: u32) -> String {
    format!("{lab}-{number:02}")
}

/// Whether a seat's set-up once held.
pub fn is_ready(home: &Home, seat: &str) -> bool {
    home.lab(seat).join(READY).is_file()
}

/// Notes that a seat's set-up holds, or that it is being made again. A note that is lost costs a second look.
///
/// # Errors
/// When the file system refuses.
pub fn set_ready(home: &Home, seat: &str, ready: bool) -> Result<()> {
    let path = home.lab(seat).join(READY);
    let done = if ready { std::fs::write(&path, b"") } else { std::fs::remove_file(&path) };
    match done {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(state_error(error, "write", &path)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seats_are_named_after_their_lab() {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::new(folder.path());
        let mut class = Class::new("node-pools", Provider::Sim, Path::new("/labs/node-pools.toml"));
        class.seats.extend([1, 7, 120]);
        class.write(&home).unwrap();
        assert_eq!(Class::read(&home, "node-pools").unwrap(), Some(class.clone()));
        assert_eq!(
            class.names().map(|(_, name)| name).collect::<Vec<_>>(),
            ["node-pools-01", "node-pools-07", "node-pools-120"]
        );
    }

    #[test]
    fn readiness_is_noted_and_taken_back() {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::new(folder.path());
        create_private_folder(&home.lab("a-01")).unwrap();
        assert!(!is_ready(&home, "a-01"));
        set_ready(&home, "a-01", true).unwrap();
        assert!(is_ready(&home, "a-01"));
        set_ready(&home, "a-01", false).unwrap();
        set_ready(&home, "a-01", false).unwrap();
        assert!(!is_ready(&home, "a-01"));
    }
}
