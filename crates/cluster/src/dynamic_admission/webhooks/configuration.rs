//! Webhooks as their configurations describe them, in the order in which they are asked.

use std::sync::Arc;
use std::time::Duration;

use klab_api_machinery::object::Object;
use klab_api_machinery::resource::{MUTATING_WEBHOOK_CONFIGURATIONS, ResourceId, VALIDATING_WEBHOOK_CONFIGURATIONS};
use klab_api_machinery::views::{
    MatchResources, MutatingWebhook, MutatingWebhookConfiguration, NamedRuleWithOperations,
};

use crate::client_config::ClientConfig;
use crate::dynamic_admission::condition::Condition;
use crate::dynamic_admission::matching::Matching;
use crate::store::Store;

/// One webhook.
#[derive(Debug)]
pub(crate) struct Hook {
    /// Configuration, name and place of the webhook, which tell it from others.
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) matching: Matching,
    pub(crate) conditions: Vec<Condition>,
    pub(crate) client: ClientConfig,
    pub(crate) timeout: Duration,
    /// Whether a write goes on when the webhook cannot be asked.
    pub(crate) ignores_failure: bool,
    /// Whether it may be asked in a dry run.
    pub(crate) has_no_side_effects: bool,
    /// Whether it is asked again about what others changed after it.
    pub(crate) is_reinvoked: bool,
}

/// The webhooks of a cluster, read again when their configurations change.
#[derive(Debug, Default)]
pub(crate) struct Configurations {
    mutating: Kind,
    validating: Kind,
}

#[derive(Debug, Default)]
struct Kind {
    /// The versions of the configurations that were read.
    versions: Vec<u64>,
    hooks: Arc<[Hook]>,
}

impl Configurations {
    pub(crate) fn mutating(&mut self, store: &Store) -> Arc<[Hook]> {
        self.mutating.hooks(store, MUTATING_WEBHOOK_CONFIGURATIONS)
    }

    pub(crate) fn validating(&mut self, store: &Store) -> Arc<[Hook]> {
        self.validating.hooks(store, VALIDATING_WEBHOOK_CONFIGURATIONS)
    }
}

impl Kind {
    fn hooks(&mut self, store: &Store, kind: ResourceId) -> Arc<[Hook]> {
        let same = {
            let mut versions = self.versions.iter();
            store.list(kind, None).all(|object| versions.next() == Some(&object.resource_version))
                && versions.next().is_none()
        };
        if !same {
            self.versions = store.list(kind, None).map(|object| object.resource_version).collect();
            // By name, which is the order of the store.
            self.hooks = store.list(kind, None).flat_map(hooks).collect();
        }
        Arc::clone(&self.hooks)
    }
}

fn hooks(configuration: &Arc<Object>) -> Vec<Hook> {
    let value = configuration.value();
    // Those that validate have the same fields but one.
    let list = MutatingWebhookConfiguration(&value).webhooks().enumerate();
    list.map(|(at, hook)| read(hook, &format!("{}/{at}", configuration.name))).collect()
}

fn read(hook: MutatingWebhook<'_>, place: &str) -> Hook {
    let rules = hook.rules().map(|rule| NamedRuleWithOperations(rule.0));
    let timeout = hook.timeout_seconds().and_then(|seconds| u64::try_from(seconds).ok());
    Hook {
        id: format!("{place}/{}", hook.name()),
        name: hook.name().to_owned(),
        matching: Matching::new(MatchResources(hook.0), rules),
        conditions: Condition::all_of(hook.match_conditions(), false),
        client: ClientConfig::read(hook.client_config()),
        timeout: Duration::from_secs(timeout.unwrap_or(10).clamp(1, 30)),
        ignores_failure: hook.failure_policy() == Some("Ignore"),
        has_no_side_effects: matches!(hook.side_effects(), Some("None" | "NoneOnDryRun")),
        is_reinvoked: hook.reinvocation_policy() == Some("IfNeeded"),
    }
}
