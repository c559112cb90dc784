//! Copies of a cluster: a template of what it holds, and clusters that begin with that. They are born parked, so that a
//! thousand of them are one write to the register, and a kubeconfig each.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use klab_api_machinery::renaming::Renaming;
use klab_api_machinery::status::Status;
use serde::{Deserialize, Serialize};

use super::{PATIENCE, Shared, not_a_name};
use crate::credentials::Token;
use crate::hosted::{self, Hosted, io_status, remove_folder};
use crate::register::{CopyOf, Entry, Note, Parked};
use crate::templates::{About, Hold};
use klab_cluster::cluster::Base;

/// How many threads write kubeconfigs.
const WRITERS: usize = 2;

/// A copy of a cluster, to be made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NewCopy {
    /// Its name.
    pub name: String,
    /// What is called otherwise in it.
    #[serde(default, skip_serializing_if = "Renaming::is_empty")]
    pub renaming: Renaming,
    /// Feeds what is generated in it from its beginning on, names, uids and the scheduler's choices; none goes on as the
    /// cluster itself would, so that equal requests give equal copies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
}

impl NewCopy {
    /// One in which everything is called as in the cluster that it is a copy of.
    pub fn named(name: impl Into<String>) -> Self {
        Self { name: name.into(), renaming: Renaming::default(), seed: None }
    }

    /// One in which this is called otherwise.
    pub fn renamed(name: impl Into<String>, renaming: Renaming) -> Self {
        Self { renaming, ..Self::named(name) }
    }
}

impl Shared {
    /// A template of what a cluster holds, once its control plane rests.
    pub(crate) fn template(&self, of: &Arc<Hosted>) -> Result<Hold<'_>, Status> {
        let failed = |error: std::io::Error| io_status("write the template", &error);
        // As long as nothing changes in it, it need not even be woken.
        if let Some(known) = of.version().and_then(|version| self.host.templates.of(of.name(), version)) {
            return Ok(known);
        }
        let (api, due) = of.at_rest(PATIENCE)?;
        let seed = of.seed()?;
        let about = About { klab: env!("CARGO_PKG_VERSION").to_owned(), seed, due };
        let checkpoint = api.cluster().checkpoint();
        let version = checkpoint.version();
        let made = self.host.templates.add(checkpoint, about).map_err(failed)?;
        self.host.templates.is_of(made.id(), of.name(), version);
        Ok(made)
    }

    /// Makes copies of a template; says of each whether it is new.
    pub(crate) fn copy(&self, template: &str, copies: &[NewCopy]) -> Result<Vec<Result<bool, Status>>, Status> {
        let hold = self.host.templates.hold(template);
        let loaded = self.host.templates.load(hold.id());
        let loaded = loaded.map_err(|error| io_status(&format!("use the template `{template}`"), &error))?;
        let names: Vec<&str> = copies.iter().map(|copy| copy.name.as_str()).collect();
        let _turn = self.turn(&names);
        let (objects, bytes) = loaded.template.size();
        let parked =
            Parked { due: loaded.about.due, objects, bytes, version: loaded.template.version(), ..Parked::default() };
        let mut outcomes: Vec<Result<bool, Status>> = Vec::with_capacity(copies.len());
        let mut made = Vec::new();
        for copy in copies {
            outcomes.push(self.begin_copy(template, copy, parked).map(|begun| {
                let is_new = begun.is_some();
                made.extend(begun);
                is_new
            }));
        }
        let failed = |what: &str| {
            let what = what.to_owned();
            move |error: std::io::Error| io_status(&what, &error)
        };
        self.host.templates.refer(template, made.len());
        let noted = self.insert(&made);
        if let Err(error) = noted {
            for _ in &made {
                let _ = self.release(template);
            }
            return Err(io_status("write the register", &error));
        }
        self.files_written.store(true, Ordering::Relaxed);
        let broken = write_kubeconfigs(&made);
        for (hosted, error) in broken {
            let status = failed("write its kubeconfig")(error);
            self.take_back(&hosted, template);
            if let Some(at) = copies.iter().position(|copy| copy.name == hosted.name()) {
                outcomes[at] = Err(status);
            }
        }
        Ok(outcomes)
    }

    /// A copy that has no clients yet; none where there is a cluster of that name.
    fn begin_copy(
        &self,
        template: &str,
        copy: &NewCopy,
        parked: Parked,
    ) -> Result<Option<(Arc<Hosted>, Entry)>, Status> {
        if !hosted::is_name(&copy.name) {
            return Err(not_a_name(&copy.name));
        }
        if self.is_taken(&copy.name)? {
            return Ok(None);
        }
        let token = Token::random().map_err(|error| io_status("make a token", &error))?;
        let base = Base { template: template.to_owned(), renaming: copy.renaming.clone() };
        let of = CopyOf { base, seed: copy.seed, token: token.text().to_owned() };
        let entry = Entry { copy: Some(of.clone()), parked: Some(parked), ..Entry::default() };
        Ok(Some((Hosted::of_copy(&copy.name, of, &entry, &self.host), entry)))
    }

    /// Takes back a copy that no client knows of.
    fn take_back(&self, hosted: &Arc<Hosted>, template: &str) {
        hosted.close();
        self.forget(hosted.name());
        let _ = self.host.register.note([Note::Gone(hosted.name().to_owned())]);
        let _ = remove_folder(&hosted.folder());
        let _ = self.release(template);
    }
}

/// Writes the kubeconfigs of copies; gives those that could not be written.
fn write_kubeconfigs(made: &[(Arc<Hosted>, Entry)]) -> Vec<(Arc<Hosted>, std::io::Error)> {
    let write = |part: &[(Arc<Hosted>, Entry)]| {
        let failed = part.iter().filter_map(|(hosted, _)| Some((Arc::clone(hosted), hosted.write_kubeconfig().err()?)));
        failed.collect::<Vec<_>>()
    };
    let each = made.len().div_ceil(WRITERS).max(1);
    std::thread::scope(|scope| {
        let parts: Vec<_> = made.chunks(each).map(|part| scope.spawn(move || write(part))).collect();
        // A thread that panicked has left kubeconfigs that the next start writes.
        parts.into_iter().filter_map(|part| part.join().ok()).flatten().collect()
    })
}
