//! What copies begin with: all that a cluster held at one moment, kept once for all of them.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use klab_api_machinery::object::Object;
use klab_api_machinery::renaming::{Names, Renaming, Stencil};
use ring::digest::{SHA256, digest};
use serde_json::Value;

use super::checkpoint::Checkpoint;
use crate::log::{Contents, Entry, Snapshot};
use crate::record;
use crate::store::Store;
use crate::transaction::Random;

/// Bytes of its hash that are a template's id.
const ID: usize = 16;

/// What copies begin with.
pub struct Template {
    id: String,
    checkpoint: Checkpoint,
    /// What its keeper noted about it.
    about: Value,
    bytes: usize,
    /// Where names stand in its objects, for all copies in which the same names become others.
    stencils: Mutex<BTreeMap<Names, Arc<Vec<Stencil>>>>,
}

impl Template {
    /// A template of what a cluster holds, and the text that it is kept as.
    pub fn new(checkpoint: Checkpoint, about: Value) -> io::Result<(Self, Vec<u8>)> {
        let mut text = Vec::new();
        let header = serde_json::to_vec(&about)?;
        record::append(&mut text, |payload| payload.extend_from_slice(&header));
        let (version, random) = (checkpoint.version, checkpoint.random.state());
        Snapshot { objects: &checkpoint.objects, version, random, ..Snapshot::default() }.write_to(&mut text)?;
        Ok((Self::of(id(&text), checkpoint, about), text))
    }

    /// The template of this id, of the text that it is kept as.
    ///
    /// # Errors
    /// When it is another text.
    pub fn read(wanted: &str, text: &Bytes) -> io::Result<Self> {
        let damaged = |words: String| io::Error::new(io::ErrorKind::InvalidData, words);
        if id(text) != wanted {
            return Err(damaged("it is damaged: it is not the text that its name tells".to_owned()));
        }
        let (mut about, mut contents) = (None, Contents::default());
        let found = record::read(text, |payload| match &about {
            None => {
                about = Some(serde_json::from_slice::<Value>(&payload).map_err(|error| error.to_string())?);
                Ok(())
            }
            Some(_) => contents.take(payload),
        });
        if let Some(note) = found.notes.into_iter().chain(contents.notes).next() {
            return Err(damaged(note));
        }
        let mut store = Store::default();
        for entry in contents.entries {
            match entry {
                Entry::Put(object) => store.restore(object),
                Entry::Remove { resource, namespace, name } => store.forget(resource, &namespace, &name),
            }
        }
        let checkpoint = Checkpoint {
            objects: store.all().cloned().collect(),
            version: contents.version,
            random: Random::new(contents.random.unwrap_or_default()),
            root_certificate: String::new(),
        };
        Ok(Self::of(wanted.to_owned(), checkpoint, about.unwrap_or_default()))
    }

    fn of(id: String, checkpoint: Checkpoint, about: Value) -> Self {
        let bytes = checkpoint.objects.iter().map(|object| object.size()).sum();
        Self { id, checkpoint, about, bytes, stencils: Mutex::default() }
    }

    /// What it is called by: a hash of all that it holds.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// What its keeper noted about it.
    pub fn about(&self) -> &Value {
        &self.about
    }

    /// The resourceVersion that it reaches to.
    pub fn version(&self) -> u64 {
        self.checkpoint.version
    }

    pub(super) fn random(&self) -> Random {
        self.checkpoint.random
    }

    /// How many objects it holds, and bytes of their JSON.
    pub fn size(&self) -> (usize, usize) {
        (self.checkpoint.objects.len(), self.bytes)
    }

    /// The objects that a copy begins with. Those without any of the names are the same for all copies.
    pub(crate) fn objects_for(&self, renaming: Option<&Renaming>) -> Vec<Arc<Object>> {
        let objects = &self.checkpoint.objects;
        let Some(renaming) = renaming.filter(|renaming| !renaming.is_empty()) else { return objects.clone() };
        let stencils = self.stencils(renaming);
        objects.iter().zip(&*stencils).map(|(object, stencil)| renaming.object_by(object, stencil)).collect()
    }

    fn stencils(&self, renaming: &Renaming) -> Arc<Vec<Stencil>> {
        let mut known = self.stencils.lock().unwrap_or_else(PoisonError::into_inner);
        let made = known.entry(renaming.names()).or_insert_with(|| {
            Arc::new(self.checkpoint.objects.iter().map(|object| renaming.stencil(object)).collect())
        });
        Arc::clone(made)
    }
}

fn id(text: &[u8]) -> String {
    let hash = digest(&SHA256, text);
    hash.as_ref().iter().take(ID).map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use serde_json::json;

    use super::*;
    use crate::clock::SteppedClock;
    use crate::cluster::{Cluster, WriteOptions};
    use klab_api_machinery::resource::CONFIG_MAPS;

    #[test]
    fn a_template_is_what_was_kept_or_nothing() {
        let cluster = Cluster::new(Arc::new(SteppedClock::new(Timestamp::UNIX_EPOCH)), 7);
        let map = json!({ "metadata": { "name": "a", "labels": { "of": "a-01" } } });
        cluster.create(CONFIG_MAPS, "default", map, &WriteOptions::client("test")).unwrap();
        let (template, text) = Template::new(cluster.checkpoint(), json!({ "seed": 7 })).unwrap();
        let read = Template::read(template.id(), &Bytes::from(text.clone())).unwrap();
        let texts =
            |template: &Template| template.objects_for(None).iter().map(|object| object.served()).collect::<Vec<_>>();
        assert_eq!(texts(&read), texts(&template));
        assert_eq!(
            (read.version(), read.size(), read.about()),
            (template.version(), template.size(), &json!({ "seed": 7 }))
        );
        let mut other = text;
        let middle = other.len() / 2;
        other[middle] ^= 1;
        assert!(Template::read(template.id(), &Bytes::from(other)).is_err());
    }
}
