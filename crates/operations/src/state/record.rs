//! The record of a lab: what klab made, so that `down` can remove it with the lab file edited or gone.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::home::state_error;
use super::journal;
use crate::error::{Code, Error, Result};
use klab_lab::spec::Provider;
use klab_lab::verify::Prediction;
use klab_server::files::{write_private, write_private_later};

/// What klab knows of a lab it made or began to make.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    /// Version of this form: `klab.record/1`.
    pub schema: String,
    /// The lab's name.
    pub lab: String,
    /// The provider that holds its cluster.
    pub provider: Provider,
    /// The lab file it was made from.
    pub source: PathBuf,
    /// Variables given on the command line; templates are rendered with them again.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub vars: Vec<(String, String)>,
    /// Whether the user let the lab read files outside the folder of its file; steps read them again.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub allow_outside: bool,
    /// What breaks the ties of an embedded cluster's scheduler; the cluster keeps it as long as it lives.
    #[serde(default)]
    pub seed: u64,
    /// Where the pods were to go when `up` last changed something.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub predicted: Option<Prediction>,
    /// When it was first brought up.
    pub created: Timestamp,
    /// When `up` last ended well; `None` while the first one is under way.
    pub applied: Option<Timestamp>,
    /// Kinds of objects klab applied, as `apiVersion/Kind`: where to look for what is to be pruned.
    pub kinds: BTreeSet<String>,
}

const SCHEMA: &str = "klab.record/1";
const FILE: &str = "record.json";

/// What reading a record found.
#[derive(Debug)]
pub struct ReadRecord {
    /// The record; `None` when the lab has none.
    pub record: Option<Record>,
    /// What was done about a record that could not be read, for the user to know.
    pub repaired: Option<String>,
}

impl Record {
    /// The record of a lab that is about to be made.
    pub fn new(lab: &str, provider: Provider, source: &Path) -> Self {
        Self {
            schema: SCHEMA.to_owned(),
            lab: lab.to_owned(),
            provider,
            source: source.to_owned(),
            vars: Vec::new(),
            allow_outside: false,
            seed: 0,
            predicted: None,
            created: Timestamp::now(),
            applied: None,
            kinds: BTreeSet::new(),
        }
    }

    /// Reads the record in a lab's folder. One that is damaged is kept aside, and what it said is taken from the journal.
    ///
    /// # Errors
    /// When the folder cannot be read.
    pub fn read(folder: &Path, lab: &str) -> Result<ReadRecord> {
        let path = folder.join(FILE);
        let text = match std::fs::read(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(ReadRecord { record: from_journal(folder, lab)?, repaired: None });
            }
            text => text.map_err(|error| state_error(error, "read", &path))?,
        };
        if let Some(words) =
            serde_json::from_slice::<Named>(&text).ok().and_then(|named| named.provider.parse::<Provider>().err())
        {
            // Written by another klab: to rebuild it would lose the only trace of a cluster.
            return Err(unknown_provider(lab, words));
        }
        let problem = match serde_json::from_slice::<Self>(&text) {
            Ok(record) if record.schema == SCHEMA => return Ok(ReadRecord { record: Some(record), repaired: None }),
            Ok(record) => format!("it is of form `{}`, this klab writes `{SCHEMA}`", record.schema),
            Err(error) => error.to_string(),
        };
        let aside = folder.join(format!("record.damaged-{}.json", Timestamp::now().as_second()));
        std::fs::rename(&path, &aside).map_err(|error| state_error(error, "move aside", &path))?;
        let record = from_journal(folder, lab)?;
        let source = if record.is_some() { "its journal" } else { "nothing, as its journal is empty" };
        let repaired = format!(
            "the record of lab `{lab}` could not be read ({problem}); it is kept as `{}` and was rebuilt from {source}",
            aside.display()
        );
        if let Some(record) = &record {
            record.write(folder)?;
        }
        Ok(ReadRecord { record, repaired: Some(repaired) })
    }

    /// Writes the record into a lab's folder.
    ///
    /// # Errors
    /// When the file system refuses; the old record is then still there.
    pub fn write(&self, folder: &Path) -> Result<()> {
        self.write_by(folder, write_private)
    }

    /// As [`Record::write`], but that it is on the disk only with what is synced next: for many records at once.
    ///
    /// # Errors
    /// As [`Record::write`].
    pub fn write_later(&self, folder: &Path) -> Result<()> {
        self.write_by(folder, write_private_later)
    }

    fn write_by(&self, folder: &Path, write: impl Fn(&Path, &[u8]) -> io::Result<()>) -> Result<()> {
        let path = folder.join(FILE);
        let failed = |error| state_error(error, "write", &path);
        let mut text = serde_json::to_vec_pretty(self).map_err(io::Error::other).map_err(failed)?;
        text.push(b'\n');
        write(&path, &text).map_err(failed)
    }
}

/// The part of a record that says which provider to ask.
#[derive(Deserialize)]
struct Named {
    provider: String,
}

fn unknown_provider(lab: &str, words: String) -> Error {
    let cause = anyhow::Error::msg(words);
    Error::new(Code::Record, cause.context(format!("could not read the record of lab `{lab}`")))
        .hint("the klab that made the lab has it")
}

/// What the journal alone tells: enough to find the cluster and to take it down.
fn from_journal(folder: &Path, lab: &str) -> Result<Option<Record>> {
    let entries = journal::read(folder).map_err(|error| state_error(error, "read the journal in", folder))?;
    let Some(provider) = entries.iter().rev().find(|entry| !entry.provider.is_empty()) else {
        return Ok(None);
    };
    let provider = provider.provider.parse().map_err(|words| unknown_provider(lab, words))?;
    let mut record = Record::new(lab, provider, Path::new(""));
    record.created = entries.first().map_or(record.created, |entry| entry.at);
    record.kinds = entries
        .iter()
        .filter(|entry| entry.action == "apply")
        .flat_map(|entry| entry.subject.split(' '))
        .filter(|kind| kind.contains('/'))
        .map(str::to_owned)
        .collect();
    Ok(Some(record))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::Journal;

    #[test]
    fn record_comes_back() {
        let folder = tempfile::tempdir().unwrap();
        let record = Record::new("taints", Provider::Sim, Path::new("/labs/taints.toml"));
        record.write(folder.path()).unwrap();
        let found = Record::read(folder.path(), "taints").unwrap();
        assert_eq!((found.record, found.repaired), (Some(record), None));
    }

    #[test]
    fn record_of_a_provider_that_this_klab_does_not_have_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        Record::new("taints", Provider::Sim, Path::new("/labs/taints.toml")).write(folder.path()).unwrap();
        let path = folder.path().join(FILE);
        let text = std::fs::read_to_string(&path).unwrap().replace("\"sim\"", "\"gke\"");
        std::fs::write(&path, &text).unwrap();
        let error = Record::read(folder.path(), "taints").unwrap_err();
        assert!(format!("{error:#}").contains("there is no provider `gke`"), "{error:#}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
    }

    #[test]
    fn damaged_record_is_kept_aside_and_rebuilt_from_the_journal() {
        let folder = tempfile::tempdir().unwrap();
        let mut journal = Journal::open(folder.path(), "up").unwrap();
        journal.set_provider(Provider::Sim);
        journal.intend("add-cluster", "taints").unwrap();
        journal.intend("apply", "v1/ConfigMap apps/v1/Deployment").unwrap();
        std::fs::write(folder.path().join(FILE), "{ torn").unwrap();
        let found = Record::read(folder.path(), "taints").unwrap();
        let record = found.record.unwrap();
        assert_eq!(record.provider, Provider::Sim);
        assert_eq!(record.kinds.iter().collect::<Vec<_>>(), ["apps/v1/Deployment", "v1/ConfigMap"]);
        let words = found.repaired.unwrap();
        assert!(words.contains("was rebuilt from its journal"), "{words}");
        let kept = std::fs::read_dir(folder.path())
            .unwrap()
            .filter_map(|entry| entry.unwrap().file_name().into_string().ok())
            .find(|name| name.starts_with("record.damaged-"))
            .unwrap();
        assert_eq!(std::fs::read_to_string(folder.path().join(kept)).unwrap(), "{ torn");
    }
}
