//! Writes about which webhooks are asked: tried until all answers are there, without the lock while one is waited for.

use std::sync::{Arc, PoisonError};

use klab_api_machinery::status::Status;
use klab_containers::Containers;

use super::{Cluster, Transaction, WriteOptions};
use crate::admission::{has_webhooks, is_configured};
use crate::dynamic_admission::{Beginning, PendingWebhooks};
use crate::webhook::{NoWay, Transport, wait_for};

impl Cluster {
    /// Sets who carries calls to webhooks. Before, none is asked about anything.
    pub fn set_webhooks(&self, transport: Arc<dyn Transport>) {
        *self.webhooks.write().unwrap_or_else(PoisonError::into_inner) = Some(transport);
    }

    /// What the containers of pods do.
    pub(crate) fn containers(&self) -> Arc<dyn Containers> {
        Arc::clone(&self.containers)
    }

    fn transport(&self) -> Option<Arc<dyn Transport>> {
        self.webhooks.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether somebody is asked about writes.
    pub(super) fn consults(&self) -> bool {
        self.transport().is_some() && self.read(is_configured)
    }

    /// Whether writes may have to wait for webhooks: of the control plane's, each in its thread.
    pub fn waits(&self) -> bool {
        self.read(has_webhooks)
    }

    /// A write about which no webhook is asked.
    pub(super) fn once<T>(
        &self,
        options: &WriteOptions<'_>,
        work: impl FnOnce(&mut Transaction<'_>) -> Result<T, Status>,
    ) -> Result<T, Status> {
        let pending_webhooks = PendingWebhooks::default();
        let options = WriteOptions { pending_webhooks: Some(&pending_webhooks), ..options.clone() };
        self.transact(&options, work)
    }

    /// Asks what a write has to know. Says whether there was anything: then it is to be made again.
    pub(crate) async fn resolve_webhooks(&self, pending_webhooks: &PendingWebhooks) -> bool {
        if !pending_webhooks.is_pending() {
            return false;
        }
        match self.transport() {
            Some(transport) => pending_webhooks.ask(&*transport).await,
            None => pending_webhooks.ask(&NoWay).await,
        }
    }

    /// [`Cluster::transact`] for a write that users are asked about, or that is for a version of a custom resource, which a
    /// webhook may have to convert. A caller with a consultation asks by itself, and makes the
    /// write again; for all others this waits.
    pub(crate) fn write<I: Clone, T>(
        &self,
        options: &WriteOptions<'_>,
        input: I,
        work: impl Fn(&mut Transaction<'_>, I) -> Result<T, Status>,
    ) -> Result<T, Status> {
        if let Some(pending_webhooks) = options.pending_webhooks {
            return self.attempt(options, pending_webhooks, |transaction| work(transaction, input));
        }
        if !self.consults() && options.served.is_none() {
            return self.transact(options, |transaction| work(transaction, input));
        }
        let pending_webhooks = PendingWebhooks::default();
        let options = WriteOptions { pending_webhooks: Some(&pending_webhooks), ..options.clone() };
        loop {
            let result = self.attempt(&options, &pending_webhooks, |transaction| work(transaction, input.clone()));
            if !wait_for(self.resolve_webhooks(&pending_webhooks)) {
                return result;
            }
        }
    }

    /// One attempt, with the time and the random numbers of the first one.
    fn attempt<T>(
        &self,
        options: &WriteOptions<'_>,
        pending_webhooks: &PendingWebhooks,
        work: impl FnOnce(&mut Transaction<'_>) -> Result<T, Status>,
    ) -> Result<T, Status> {
        let beginning = pending_webhooks.beginning();
        self.transact(options, |transaction| {
            let first = Beginning { now: transaction.now, random: transaction.state.random_state() };
            if let Some(beginning) = beginning {
                transaction.now = beginning.now;
                transaction.state.repeat_random(beginning.random);
            }
            let result = work(transaction);
            transaction.state.end_repetition();
            if pending_webhooks.is_pending() {
                pending_webhooks.begin(first);
            } else if result.is_ok() {
                pending_webhooks.written();
            }
            result
        })
    }
}
