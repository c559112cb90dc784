//! A seat of a class that somebody else hosts, as the learner's machine knows it: where it is, and what opens it.
//!
//! It stands in the folder that a lab of this name would have. There is no record of a lab there: what klab does with a lab, the
//! host does with the seat.

use std::io;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::Home;
use super::home::{read_document, remove_empty, state_error};
use crate::error::{Code, Error, Result};
use klab_server::files::{create_private_folder, gone, write_private};

/// What is known of a seat.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Joined {
    /// Version of this form: `klab.joined/1`.
    pub schema: String,
    /// What the lab is called here.
    pub lab: String,
    /// What the lab is called in the class, where it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of: Option<String>,
    /// The class.
    pub class: String,
    /// Where its host is.
    pub url: String,
    /// The certificate authority that was compared with its fingerprint, PEM; none: the machine's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub authority: Option<String>,
    /// The seat.
    pub seat: String,
    /// What opens it.
    pub token: String,
    /// The page of it.
    pub page: String,
    /// When it was joined.
    pub joined: Timestamp,
}

const FILE: &str = "seat.json";

impl Joined {
    /// This form's version.
    pub const SCHEMA: &str = "klab.joined/1";

    /// The seat that a lab of this name is, if it is one.
    ///
    /// # Errors
    /// When its file cannot be read.
    pub fn read(home: &Home, lab: &str) -> Result<Option<Self>> {
        read_document(&home.lab(lab).join(FILE))
    }

    /// Where the kubeconfig of a joined lab is.
    pub fn kubeconfig(home: &Home, lab: &str) -> PathBuf {
        home.lab(lab).join("kubeconfig")
    }

    /// Writes the seat down, and its kubeconfig.
    ///
    /// # Errors
    /// When the file system refuses.
    pub fn write(&self, home: &Home, kubeconfig: &str) -> Result<()> {
        let folder = home.lab(&self.lab);
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |error| state_error(error, "write", &path)
        };
        create_private_folder(&folder).map_err(failed(&folder))?;
        let path = Self::kubeconfig(home, &self.lab);
        write_private(&path, kubeconfig.as_bytes()).map_err(failed(&path))?;
        let path = folder.join(FILE);
        let text = serde_json::to_vec_pretty(self).map_err(io::Error::other);
        text.and_then(|text| write_private(&path, &text)).map_err(failed(&path))
    }

    /// Forgets the seat; it stays where it is.
    ///
    /// # Errors
    /// When the file system refuses.
    pub fn forget(home: &Home, lab: &str) -> Result<()> {
        let folder = home.lab(lab);
        for path in [folder.join(FILE), Self::kubeconfig(home, lab)] {
            gone(std::fs::remove_file(&path)).map_err(|error| state_error(error, "remove", &path))?;
        }
        let shell = folder.join("shell");
        gone(std::fs::remove_dir_all(&shell)).map_err(|error| state_error(error, "remove", &shell))?;
        remove_empty(&folder);
        Ok(())
    }

    /// The refusal of what only the host could do.
    pub fn refusal(&self) -> Error {
        let message = format!("lab `{}` is your seat of class `{}` at {}", self.lab, self.class, self.url);
        Error::message(Code::SeatCommand, message)
            .hint("`klab guide`, `verify`, `step`, `render`, `pool`, `diff`, `explain`, `reset`, `board`, `status`, `shell`, `env` and `kubeconfig` work there")
            .hint(format!("`klab down {}` leaves the class", self.lab))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seat_is_known_until_it_is_left() {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::new(folder.path());
        assert_eq!(Joined::read(&home, "a").unwrap(), None);
        let text = |text: &str| text.to_owned();
        let joined = Joined {
            schema: text(Joined::SCHEMA),
            lab: text("a"),
            of: Some(text("b")),
            class: text("c"),
            url: text("https://h"),
            authority: None,
            seat: text("0-1"),
            token: text("t"),
            page: text("p"),
            joined: Timestamp::UNIX_EPOCH,
        };
        joined.write(&home, "kubeconfig").unwrap();
        assert_eq!(Joined::read(&home, "a").unwrap(), Some(joined));
        Joined::forget(&home, "a").unwrap();
        Joined::forget(&home, "a").unwrap();
        assert_eq!(Joined::read(&home, "a").unwrap(), None);
        assert!(!home.lab("a").exists());
    }
}
