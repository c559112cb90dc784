//! Clusters that begin with what a template holds: they share its objects until they write them, and their logs say what
//! has changed since.

use std::io;
use std::path::Path;
use std::sync::Arc;

use super::Cluster;
use super::durable::Recovery;
use super::template::Template;
use crate::clock::Clock;
use crate::log::{Base, Log};
use crate::transaction::{EverDefined, Limits, Random};

impl Cluster {
    /// Opens a copy of a template. It is kept in the file at `path`, which is made with the first write. With a `seed` of
    /// its own, what it generates from then on is called otherwise than in other copies.
    ///
    /// # Errors
    /// When the file cannot be read, or is one of another template.
    pub fn open_copy(
        path: &Path,
        template: &Arc<Template>,
        base: &Base,
        seed: Option<u64>,
        clock: Arc<dyn Clock>,
    ) -> io::Result<(Self, Recovery)> {
        let random = seed.map_or_else(|| template.random(), Random::new);
        let (log, contents) = Log::open_copy(path, base, template.version(), random.state())?;
        if contents.base.as_ref().is_some_and(|found| found != base) {
            let words = format!("it is of another template than `{}`", base.template);
            return Err(io::Error::new(io::ErrorKind::InvalidData, words));
        }
        let cluster = Self { template: Some(Arc::clone(template)), ..Self::empty(clock, 0) };
        let recovery = {
            let mut state = cluster.lock();
            state.random = random;
            state.hold_objects(&template.objects_for(Some(&base.renaming)), template.version());
            Recovery::of(&mut state, |state| state.take_up(log, contents))
        };
        Ok((cluster, recovery))
    }

    /// Puts the objects of its template in the place of those it has: resourceVersions go on from the present one, and all
    /// watches end, as their place is gone (410), as when etcd is restored from a backup.
    ///
    /// # Errors
    /// When it is no copy, or its log cannot be written; it then stays as it is.
    pub fn return_to_template(&self) -> io::Result<()> {
        let Some(template) = &self.template else { return Err(io::Error::other("the cluster is no copy")) };
        let version = {
            let mut state = self.lock();
            let version = state.store.version() + 1;
            let random = state.random.state();
            let Some(log) = &mut state.log else { return Err(io::Error::other("the cluster is not kept")) };
            log.begin_again(version, random)?;
            let renaming = log.base().map(|base| base.renaming.clone());
            state.hold_objects(&template.objects_for(renaming.as_ref()), version);
            version
        };
        self.set_control_faults(Vec::new());
        self.changed.send_replace(version);
        Ok(())
    }

    /// Makes the log short where it says much that is no longer true, for a cluster that is put away for long; what it says
    /// is on the disk when this returns.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn settle_down(&self) -> io::Result<()> {
        let long = self.lock().log.as_ref().is_some_and(Log::may_be_shorter);
        if long { self.compact() } else { self.sync() }
    }

    /// Whether it has a file of its own.
    pub fn is_written(&self) -> bool {
        self.lock().log.as_ref().is_some_and(Log::is_written)
    }

    /// How many objects it holds, and bytes of their JSON.
    pub fn size(&self) -> (usize, usize) {
        let state = self.lock();
        (state.store.len(), state.store.bytes())
    }

    /// Sets the certificate authority (PEM) that namespaces made from now on publish; those that exist have it.
    pub fn assume_root_certificate(&self, pem: &str) {
        pem.clone_into(&mut self.lock().root_certificate);
    }

    /// Counts on from what the cluster defined before it was parked.
    pub fn count_kinds(&self, ever: &EverDefined) {
        self.lock().kinds = Arc::clone(ever);
    }

    /// Sets the limits of what it may hold.
    pub fn set_limits(&self, limits: Arc<Limits>) {
        self.lock().limits = limits;
    }
}
