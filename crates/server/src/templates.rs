//! The templates of a server: what copies begin with, each kept once, for as long as a copy refers to it.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::files::{create_private_folder, gone, write_private};
use klab_cluster::cluster::{Checkpoint, Template};
use klab_cluster::seed::Seed;

/// Folder of the templates in the server's folder.
pub(super) const FOLDER: &str = "templates";

/// What is kept with the objects of a template.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct About {
    /// The version of klab that made it.
    pub(super) klab: String,
    /// How clusters of it behave.
    pub(super) seed: Seed,
    /// When something is due in them.
    pub(super) due: Option<Timestamp>,
}

/// A template that was read.
pub(super) struct Loaded {
    pub(super) template: Arc<Template>,
    pub(super) about: About,
}

#[derive(Default)]
struct Known {
    /// How many copies refer to it.
    copies: usize,
    /// How many are at work with it and must find it, whether copies refer to it or not.
    holds: usize,
    loaded: Option<Arc<Loaded>>,
    /// The cluster that it is a template of, and at which version.
    of: Option<(String, u64)>,
}

/// The templates of a server, by id.
pub(super) struct Templates {
    folder: PathBuf,
    known: Mutex<BTreeMap<String, Known>>,
}

/// Keeps a template until this is dropped.
pub(super) struct Hold<'a> {
    templates: &'a Templates,
    id: String,
}

impl Templates {
    pub(super) fn new(state: &std::path::Path) -> Self {
        Self { folder: state.join(FOLDER), known: Mutex::default() }
    }

    fn known(&self) -> MutexGuard<'_, BTreeMap<String, Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn path(&self, id: &str) -> PathBuf {
        self.folder.join(format!("{id}.log"))
    }

    /// Makes a template, or finds the one that is the same; it is on the disk when this returns.
    pub(super) fn add(&self, checkpoint: Checkpoint, about: About) -> io::Result<Hold<'_>> {
        let (template, text) = Template::new(checkpoint, serde_json::to_value(&about)?)?;
        let id = template.id().to_owned();
        // Held before it is there, so that no other thread removes it as one without copies.
        let hold = self.hold(&id);
        if !self.path(&id).is_file() {
            create_private_folder(&self.folder)?;
            write_private(&self.path(&id), &text)?;
        }
        let loaded = Arc::new(Loaded { template: Arc::new(template), about });
        self.known().entry(id).or_default().loaded.get_or_insert(loaded);
        Ok(hold)
    }

    /// The template of a cluster at a version, if it was made before and is there.
    pub(super) fn of(&self, cluster: &str, version: u64) -> Option<Hold<'_>> {
        let known = self.known();
        let is_it = |known: &Known| known.of.as_ref().is_some_and(|(name, at)| name == cluster && *at == version);
        let id = known.iter().find(|(_, known)| is_it(known)).map(|(id, _)| id.clone())?;
        drop(known);
        let hold = self.hold(&id);
        self.has(&id).then_some(hold)
    }

    /// Notes of what a template is one.
    pub(super) fn is_of(&self, id: &str, cluster: &str, version: u64) {
        let mut known = self.known();
        for known in known.values_mut().filter(|known| known.of.as_ref().is_some_and(|(name, _)| name == cluster)) {
            known.of = None;
        }
        if let Some(known) = known.get_mut(id) {
            known.of = Some((cluster.to_owned(), version));
        }
    }

    /// Forgets that there is a template of a cluster: another one of its name is another cluster.
    pub(super) fn is_of_none(&self, cluster: &str) {
        for known in self.known().values_mut() {
            known.of.take_if(|(name, _)| name == cluster);
        }
    }

    /// Keeps a template from going.
    pub(super) fn hold(&self, id: &str) -> Hold<'_> {
        self.known().entry(id.to_owned()).or_default().holds += 1;
        Hold { templates: self, id: id.to_owned() }
    }

    /// Whether it is there.
    pub(super) fn has(&self, id: &str) -> bool {
        self.path(id).is_file()
    }

    /// A template, read unless it was before.
    pub(super) fn load(&self, id: &str) -> io::Result<Arc<Loaded>> {
        // Other threads that need the same one wait until it is read.
        let mut known = self.known();
        let place = known.entry(id.to_owned()).or_default();
        if let Some(loaded) = &place.loaded {
            return Ok(Arc::clone(loaded));
        }
        let template = Template::read(id, &Bytes::from(std::fs::read(self.path(id))?))?;
        let about = serde_json::from_value(template.about().clone())?;
        let loaded = Arc::new(Loaded { template: Arc::new(template), about });
        place.loaded = Some(Arc::clone(&loaded));
        Ok(loaded)
    }

    /// Notes that `copies` more copies refer to it.
    pub(super) fn refer(&self, id: &str, copies: usize) {
        self.known().entry(id.to_owned()).or_default().copies += copies;
    }

    /// A copy of it is gone. A template without copies goes as well, once `before` has made sure that the disk
    /// knows of no copy.
    pub(super) fn release(&self, id: &str, before: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        let is_last = match self.known().get_mut(id) {
            Some(known) => {
                known.copies = known.copies.saturating_sub(1);
                known.copies == 0
            }
            None => return Ok(()),
        };
        if is_last { before().and_then(|()| self.drop_unneeded(id)) } else { Ok(()) }
    }

    /// Does not keep it any longer; it goes when no copy refers to it.
    pub(super) fn let_go(&self, id: &str) -> io::Result<()> {
        if let Some(known) = self.known().get_mut(id) {
            known.holds = known.holds.saturating_sub(1);
        }
        self.drop_unneeded(id)
    }

    fn drop_unneeded(&self, id: &str) -> io::Result<()> {
        let mut known = self.known();
        if known.get(id).is_none_or(|known| known.copies > 0 || known.holds > 0) {
            return Ok(());
        }
        known.remove(id);
        gone(std::fs::remove_file(self.path(id)))
    }

    /// Removes the files of templates that no copy refers to, as a server leaves them that was killed.
    pub(super) fn sweep(&self) -> io::Result<()> {
        let entries = match std::fs::read_dir(&self.folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            entries => entries?,
        };
        let known = self.known();
        for entry in entries {
            let path = entry?.path();
            let id = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
            if known.get(id).is_none_or(|known| known.copies == 0 && known.holds == 0) {
                gone(std::fs::remove_file(&path))?;
            }
        }
        Ok(())
    }
}

impl Hold<'_> {
    pub(super) fn id(&self) -> &str {
        &self.id
    }
}

impl Drop for Hold<'_> {
    fn drop(&mut self) {
        // One that cannot be removed now goes when the server starts again.
        let _ = self.templates.let_go(&self.id);
    }
}
