//! Server-side apply of a lab's objects in dependency order, and pruning of what the lab no longer has.

mod kinds;
mod last_applied;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use anyhow::anyhow;
use futures::stream::{self, StreamExt};
use kube::api::{Api, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, Preconditions};
use kube::core::GroupVersionKind;
use kube::discovery::{Discovery, Scope};
use kube::{Client, ResourceExt};
use serde::Serialize;
use serde_json::Value;

use crate::client::cause;
use crate::error::{Code, Context, Error, Result};
use crate::guard::{self, Ownership};
use crate::render::Manifest;
use klab_lab::names::{LAB_LABEL, MANAGER, selector_of};

/// How many requests are under way at once where order does not matter.
const CONCURRENCY: usize = 32;

/// What identifies an object in a cluster.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct ObjectKey {
    /// `v1`, `apps/v1`.
    pub api_version: String,
    /// `Deployment`.
    pub kind: String,
    /// Empty for objects without one.
    pub namespace: String,
    /// The name.
    pub name: String,
}

impl ObjectKey {
    /// The key of a manifest, as written.
    pub fn of(object: &Value) -> Self {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        Self {
            api_version: text(&object["apiVersion"]),
            kind: text(&object["kind"]),
            namespace: text(&object["metadata"]["namespace"]),
            name: text(&object["metadata"]["name"]),
        }
    }

    /// `apps`; empty for the core group.
    pub fn group(&self) -> &str {
        self.api_version.split_once('/').map_or("", |(group, _)| group)
    }

    /// `apps/v1/Deployment`.
    pub fn type_name(&self) -> String {
        format!("{}/{}", self.api_version, self.kind)
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.namespace.as_str() {
            "" | "default" => write!(formatter, "{}/{}", self.kind, self.name),
            namespace => write!(formatter, "{}/{} in namespace {namespace}", self.kind, self.name),
        }
    }
}

/// What applying did.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Outcome {
    /// Objects that are new.
    pub created: Vec<ObjectKey>,
    /// Objects that changed.
    pub updated: Vec<ObjectKey>,
    /// Objects that were as wanted already.
    pub unchanged: Vec<ObjectKey>,
    /// Objects of the lab that its file no longer has.
    pub pruned: Vec<ObjectKey>,
}

impl Outcome {
    /// Whether the cluster was as wanted already.
    pub fn is_unchanged(&self) -> bool {
        self.created.is_empty() && self.updated.is_empty() && self.pruned.is_empty()
    }

    /// `12 created, 1 updated, 3 unchanged, 1 pruned`, without the zeroes.
    pub fn summary(&self) -> String {
        let parts = [
            (&self.created, "created"),
            (&self.updated, "updated"),
            (&self.unchanged, "unchanged"),
            (&self.pruned, "pruned"),
        ];
        let parts: Vec<String> = parts
            .iter()
            .filter(|(keys, _)| !keys.is_empty())
            .map(|(keys, what)| format!("{} {what}", keys.len()))
            .collect();
        if parts.is_empty() { "none".to_owned() } else { parts.join(", ") }
    }
}

/// A version of an object that is in the cluster.
#[derive(Debug, Clone)]
struct LiveObject {
    uid: String,
    resource_version: String,
}

/// An object that was applied.
struct Applied {
    key: ObjectKey,
    version: String,
    /// Whether it is the lab's own.
    is_own: bool,
}

/// Applies manifests to one cluster.
pub struct Applier {
    client: Client,
    lab: String,
    kinds: BTreeMap<String, Option<kinds::Served>>,
}

impl Applier {
    /// For the objects of a lab in the cluster of `client`.
    pub fn new(client: Client, lab: &str) -> Self {
        Self { kinds: BTreeMap::new(), client, lab: lab.to_owned() }
    }

    /// Applies `manifests` and prunes objects of the lab that are of `known_kinds` (`apiVersion/Kind`) or of the
    /// manifests' kinds and are not among them. With `dry_run` the cluster only says what would happen.
    ///
    /// # Errors
    /// Every object the cluster refused, in its own words, with the template it comes from.
    pub async fn apply(
        &mut self,
        manifests: &[Manifest],
        known_kinds: &BTreeSet<String>,
        dry_run: bool,
    ) -> Result<Outcome> {
        let (mut outcome, live) = self.apply_tiers(manifests, known_kinds, dry_run).await?;
        let mut refused = Vec::new();
        let wanted: BTreeSet<&ObjectKey> =
            outcome.created.iter().chain(&outcome.updated).chain(&outcome.unchanged).collect();
        let surplus: Vec<(&ObjectKey, &LiveObject)> = live.iter().filter(|(key, _)| !wanted.contains(key)).collect();
        let pruned: Vec<_> = stream::iter(surplus)
            .map(|(key, live)| self.delete(key, live, dry_run))
            .buffered(CONCURRENCY)
            .collect()
            .await;
        for result in pruned {
            match result {
                Ok(key) => outcome.pruned.push(key),
                Err(words) => refused.push(words),
            }
        }
        if refused.is_empty() { Ok(outcome) } else { Err(refusal(refused, &outcome)) }
    }

    /// Applies `manifests` and leaves everything else alone.
    ///
    /// # Errors
    /// As [`Applier::apply`].
    pub async fn apply_only(&mut self, manifests: &[Manifest]) -> Result<Outcome> {
        Ok(self.apply_tiers(manifests, &BTreeSet::new(), false).await?.0)
    }

    /// Applies tier by tier; gives what that did and what there was before.
    async fn apply_tiers(
        &mut self,
        manifests: &[Manifest],
        known_kinds: &BTreeSet<String>,
        dry_run: bool,
    ) -> Result<(Outcome, BTreeMap<ObjectKey, LiveObject>)> {
        let mut kinds = known_kinds.clone();
        kinds.extend(manifests.iter().map(|manifest| ObjectKey::of(&manifest.object).type_name()));
        self.resolve(&kinds).await?;
        let live = self.live(&kinds).await?;
        let mut outcome = Outcome::default();
        let mut refused = Vec::new();
        for tier in Tier::ALL {
            let mut of_tier: Vec<&Manifest> =
                manifests.iter().filter(|manifest| Tier::of(&manifest.object) == tier).collect();
            if dry_run {
                // A cluster that only says what would happen refuses what is in a namespace that would be made first.
                let (to_be, there) = of_tier.into_iter().partition(|manifest| is_in_new(manifest, &outcome.created));
                of_tier = there;
                outcome.created.extend(Vec::into_iter(to_be).map(|manifest| ObjectKey::of(&manifest.object)));
            }
            if tier != Tier::First {
                // Kinds that the first tier defined are served only now.
                self.resolve(&kinds).await?;
            }
            let results: Vec<_> = stream::iter(of_tier)
                .map(|manifest| self.apply_one(manifest, dry_run))
                .buffered(CONCURRENCY)
                .collect()
                .await;
            for result in results {
                match result {
                    // A namespace of somebody else's, which was left as it is.
                    Ok(Applied { key, is_own: false, .. }) => outcome.unchanged.push(key),
                    Ok(Applied { key, version, .. }) => match live.get(&key) {
                        None => outcome.created.push(key),
                        Some(before) if before.resource_version == version => outcome.unchanged.push(key),
                        Some(_) => outcome.updated.push(key),
                    },
                    Err(words) => refused.push(words),
                }
            }
            if !refused.is_empty() {
                return Err(refusal(refused, &outcome));
            }
        }
        Ok((outcome, live))
    }

    /// Applies each of `manifests` whatever happens to the others; gives those that the cluster refuses, each with its words.
    ///
    /// # Errors
    /// When the cluster does not answer.
    pub async fn refused<'m>(&mut self, manifests: &'m [Manifest]) -> Result<Vec<(&'m Manifest, String)>> {
        let kinds = manifests.iter().map(|manifest| ObjectKey::of(&manifest.object).type_name()).collect();
        let mut refused = Vec::new();
        for tier in Tier::ALL {
            self.resolve(&kinds).await?;
            for manifest in manifests.iter().filter(|manifest| Tier::of(&manifest.object) == tier) {
                if let Err(words) = self.apply_one(manifest, false).await {
                    refused.push((manifest, words));
                }
            }
        }
        Ok(refused)
    }

    /// Looks, and changes nothing: those of `manifests` that are in the cluster already and were not made for the lab.
    ///
    /// # Errors
    /// When the cluster does not answer, or refuses to say.
    pub async fn taken<'m>(&mut self, manifests: &'m [Manifest]) -> Result<Vec<&'m Manifest>> {
        let kinds = manifests.iter().map(|manifest| ObjectKey::of(&manifest.object).type_name());
        self.resolve(&kinds.collect()).await?;
        let this = &*self;
        let looks = stream::iter(manifests).map(|manifest| async move {
            let key = ObjectKey::of(&manifest.object);
            // A kind that is not served has no objects.
            let Some(api) = this.api(&key) else { return Ok(None) };
            let path = format!("{}/{}", api.resource_url(), key.name);
            let place = guard::place(&this.client, &this.lab, &path, &manifest.object).await;
            let place = place.map_err(|error| {
                Error::new(Code::NoAnswer, anyhow!("{error}").context(format!("could not look for {key}")))
            })?;
            Ok((place == Ownership::Taken).then_some(manifest))
        });
        let looks: Vec<Result<Option<&Manifest>>> = looks.buffered(CONCURRENCY).collect().await;
        looks.into_iter().filter_map(Result::transpose).collect()
    }

    async fn resolve(&mut self, wanted: &BTreeSet<String>) -> Result<()> {
        let mut asked = Vec::new();
        for kind in wanted {
            if matches!(self.kinds.get(kind), Some(Some(_))) {
                continue;
            }
            let (api_version, name) = kind.rsplit_once('/').unwrap_or(("", kind));
            match kinds::known(api_version, name) {
                Some(served) => drop(self.kinds.insert(kind.clone(), Some(served))),
                None => asked.push((kind, api_version, name)),
            }
        }
        if asked.is_empty() {
            return Ok(());
        }
        let discovery = Discovery::new(self.client.clone())
            .run_aggregated()
            .await
            .code(Code::NoAnswer, || "could not ask the cluster which kinds it serves".to_owned())?;
        for (kind, api_version, name) in asked {
            let (group, version) = api_version.rsplit_once('/').unwrap_or(("", api_version));
            let served = discovery.resolve_gvk(&GroupVersionKind::gvk(group, version, name));
            self.kinds.insert(kind.clone(), served.map(|(resource, capabilities)| (resource, capabilities.scope)));
        }
        Ok(())
    }

    fn api(&self, key: &ObjectKey) -> Option<Api<DynamicObject>> {
        let (resource, scope) = self.kinds.get(&key.type_name())?.as_ref()?;
        Some(match scope {
            Scope::Namespaced => Api::namespaced_with(self.client.clone(), &key.namespace, resource),
            Scope::Cluster => Api::all_with(self.client.clone(), resource),
        })
    }

    /// The objects of the lab that klab itself applied: not those that controllers made of them.
    async fn live(&self, kinds: &BTreeSet<String>) -> Result<BTreeMap<ObjectKey, LiveObject>> {
        let parameters = ListParams::default().labels(&selector_of(&self.lab));
        let lists = kinds.iter().filter_map(|kind| {
            let (resource, _) = self.kinds.get(kind)?.as_ref()?;
            let api: Api<DynamicObject> = Api::all_with(self.client.clone(), resource);
            let parameters = parameters.clone();
            Some(async move { (resource, api.list_metadata(&parameters).await) })
        });
        let mut live = BTreeMap::new();
        for (resource, list) in futures::future::join_all(lists).await {
            let list = list.code(Code::ClusterRefused, || format!("could not list the lab's {}", resource.plural))?;
            for object in list.items.into_iter().filter(|object| object.owner_references().is_empty()) {
                let key = ObjectKey {
                    api_version: resource.api_version.clone(),
                    kind: resource.kind.clone(),
                    namespace: object.namespace().unwrap_or_default(),
                    name: object.name_any(),
                };
                let version = object.resource_version().unwrap_or_default();
                if object.metadata.deletion_timestamp.is_none() {
                    live.insert(key, LiveObject { uid: object.uid().unwrap_or_default(), resource_version: version });
                }
            }
        }
        Ok(live)
    }

    async fn apply_one(&self, manifest: &Manifest, dry_run: bool) -> Result<Applied, String> {
        let mut key = ObjectKey::of(&manifest.object);
        let words = |reason: String| format!("{key} (from {}): {reason}", manifest.origin);
        let Some(api) = self.api(&key) else {
            return Err(words(format!("the cluster serves no kind `{}` of `{}`", key.kind, key.api_version)));
        };
        let mut parameters = PatchParams::apply(MANAGER).force();
        parameters.dry_run = dry_run;
        let object = last_applied::annotated(&manifest.object);
        let applied = api.patch_metadata(&key.name, &parameters, &Patch::Apply(object.as_ref())).await;
        let applied = applied.map_err(|error| words(cause(&error).to_string()))?;
        key.namespace = applied.namespace().unwrap_or_default();
        let is_own = applied.labels().get(LAB_LABEL).is_some_and(|lab| *lab == self.lab);
        Ok(Applied { key, version: applied.resource_version().unwrap_or_default(), is_own })
    }

    async fn delete(&self, key: &ObjectKey, live: &LiveObject, dry_run: bool) -> Result<ObjectKey, String> {
        let Some(api) = self.api(key) else {
            return Err(format!("{key}: the cluster no longer serves this kind"));
        };
        let preconditions = Preconditions { uid: Some(live.uid.clone()), ..Preconditions::default() };
        let parameters = DeleteParams { dry_run, ..DeleteParams::background().preconditions(preconditions) };
        match api.delete(&key.name, &parameters).await {
            Ok(_) => Ok(key.clone()),
            // Somebody else was faster.
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(key.clone()),
            Err(error) => Err(format!("{key}: {}", cause(&error))),
        }
    }
}

/// How klab patches what others write to as well.
pub fn patch_parameters() -> PatchParams {
    PatchParams { field_manager: Some(MANAGER.to_owned()), ..PatchParams::default() }
}

fn refusal(refused: Vec<String>, outcome: &Outcome) -> Error {
    let count = klab_lab::words::plural(refused.len(), "object");
    let message =
        refused.iter().fold(format!("the cluster refused {count}:"), |text, words| format!("{text}\n{words}"));
    let error = Error::new(Code::ClusterRefused, anyhow!(message).context("could not apply the lab's objects"));
    let done = outcome.created.len() + outcome.updated.len();
    if done == 0 {
        return error;
    }
    error.left_behind(format!(
        "{} applied before; the cluster is still running",
        klab_lab::words::plural(done, "object")
    ))
}

/// Whether an object is in a namespace that is among those that would be made.
fn is_in_new(manifest: &Manifest, created: &[ObjectKey]) -> bool {
    let namespace = manifest.object["metadata"]["namespace"].as_str();
    created.iter().any(|key| key.kind == "Namespace" && Some(key.name.as_str()) == namespace)
}

/// What must be there before what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Tier {
    /// Namespaces and definitions of kinds.
    First,
    /// What workloads refer to: configuration, accounts, quotas, services.
    Config,
    /// Tokens of accounts: a cluster deletes one whose account is not there.
    Token,
    /// What runs pods.
    Workload,
}

impl Tier {
    const ALL: [Self; 4] = [Self::First, Self::Config, Self::Token, Self::Workload];

    fn of(object: &Value) -> Self {
        match object["kind"].as_str().unwrap_or_default() {
            "Namespace" | "CustomResourceDefinition" => Self::First,
            "Pod"
            | "Deployment"
            | "ReplicaSet"
            | "ReplicationController"
            | "DaemonSet"
            | "StatefulSet"
            | "Job"
            | "CronJob" => Self::Workload,
            "Secret" if object["type"] == "kubernetes.io/service-account-token" => Self::Token,
            _ => Self::Config,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn namespaces_come_first_and_workloads_last() {
        let tier = |kind: &str| Tier::of(&json!({ "kind": kind }));
        assert_eq!(tier("Namespace"), Tier::First);
        assert_eq!(tier("ConfigMap"), Tier::Config);
        assert_eq!(tier("PriorityClass"), Tier::Config);
        let token = json!({ "kind": "Secret", "type": "kubernetes.io/service-account-token" });
        assert_eq!((tier("Secret"), Tier::of(&token)), (Tier::Config, Tier::Token));
        assert_eq!(tier("DaemonSet"), Tier::Workload);
    }

    #[test]
    fn summary_leaves_out_zeroes() {
        let key = ObjectKey::of(&json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "a" } }));
        let outcome = Outcome { created: vec![key.clone()], pruned: vec![key.clone()], ..Outcome::default() };
        assert_eq!(outcome.summary(), "1 created, 1 pruned");
        assert_eq!((key.to_string(), key.type_name()), ("ConfigMap/a".to_owned(), "v1/ConfigMap".to_owned()));
    }
}
