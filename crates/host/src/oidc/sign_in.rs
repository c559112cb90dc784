//! What a class that people sign in to has in memory: the provider, sign-ins that are used up, codes for terminals, who failed how often.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use super::auth_request::LONG;
use super::one_time_codes::OneTimeCodes;
use super::provider::Provider;
use super::settings::Settings;
use crate::limit::{Guesser, Limits};
use crate::refusal::Refusal;

/// Most sign-ins that are remembered as used up.
const REMEMBERED: usize = 100_000;

/// Signing in, for one class.
pub struct SignIn {
    /// Which provider it is, and who may come.
    pub settings: Settings,
    pub(crate) provider: Provider,
    passes: Mutex<OneTimeCodes>,
    used: Mutex<HashMap<String, i64>>,
    /// Of its own: a provider that fails does not delay learners who type a code.
    limits: Mutex<Limits>,
}

impl std::fmt::Debug for SignIn {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("SignIn").field("settings", &self.settings).finish_non_exhaustive()
    }
}

impl SignIn {
    /// At a provider that has not been asked yet.
    pub fn new(settings: Settings) -> Self {
        Self {
            provider: Provider::new(settings.authority.clone()),
            settings,
            passes: Mutex::default(),
            used: Mutex::default(),
            limits: Mutex::default(),
        }
    }

    /// What people know the provider by.
    pub fn place(&self) -> &str {
        self.settings.issuer.place()
    }

    /// Why sign-in is unavailable at the moment, as far as can be seen; nothing, where the provider is there and is the one
    /// that was meant.
    pub async fn trouble(&self) -> Option<String> {
        self.provider.described(&self.settings).await.err().map(|fault| fault.why)
    }

    pub(crate) fn passes(&self) -> MutexGuard<'_, OneTimeCodes> {
        self.passes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Uses a sign-in up; false, where it was already.
    pub(crate) fn uses_up(&self, state: &str, now: i64) -> bool {
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        if used.len() >= REMEMBERED {
            used.retain(|_, at| now.saturating_sub(*at) <= LONG);
        }
        // More than that in ten minutes is no class: sign-ins pause until some are forgotten.
        used.len() < REMEMBERED && used.insert(state.to_owned(), now).is_none()
    }

    /// Whether a person may try now. It counts nothing: a provider takes its time, and a whole class may sign in at once.
    pub(crate) fn may_try(&self, from: IpAddr) -> Result<(), Refusal> {
        let (mut limits, now) = (self.limits(), Instant::now());
        let claim = limits.claim(Guesser::Address(from), None, now).map_err(Refusal::too_many)?;
        limits.refund(&claim, now);
        Ok(())
    }

    /// Counts one who came back with a state that this host did not issue.
    pub(crate) fn failed(&self, from: IpAddr) {
        // A full limit has counted enough.
        let _ = self.limits().claim(Guesser::Address(from), None, Instant::now());
    }

    fn limits(&self) -> MutexGuard<'_, Limits> {
        self.limits.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
