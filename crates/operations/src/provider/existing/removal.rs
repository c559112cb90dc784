//! Removal of what a lab made on somebody else's cluster: found by its labels among all kinds, and looked for again.

use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use futures::stream::{self, StreamExt};
use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, ListParams, Patch, Preconditions};
use kube::core::PartialObjectMeta;
use kube::discovery::{Discovery, Scope, verbs};
use kube::{Client, ResourceExt};
use serde_json::json;
use tokio::time::Instant;

use crate::apply::patch_parameters;
use crate::client::cause;
use crate::error::{Code, Context as _, Error, Result};
use klab_lab::names::{LAB_LABEL, MANAGED_BY_LABEL, MANAGER, selector_of};
use klab_lab::words::{first_of, plural};

/// How many kinds are asked for at once.
const CONCURRENCY: usize = 16;
/// How long objects may take to be gone.
const GONE: Duration = Duration::from_mins(2);
/// Pause between two looks.
const PAUSE: Duration = Duration::from_millis(200);
/// Most names in a sentence.
const NAMES: usize = 5;

/// Groups that show objects of other groups once more: who deletes an OpenShift project deletes its namespace, with all in it.
const MIRRORS: [&str; 2] = ["project.openshift.io", "authorization.openshift.io"];

/// Kinds whose objects pass by themselves, and are no reason to keep a namespace.
const PASSING: [&str; 5] = ["Event", "Endpoints", "EndpointSlice", "Lease", "PodMetrics"];

/// An object of the cluster.
#[derive(Debug, Clone)]
pub(super) struct Object {
    pub(super) resource: ApiResource,
    namespace: Option<String>,
    name: String,
    uid: Option<String>,
    /// Whether another object owns it.
    owned: bool,
    /// The lab that made it.
    lab: Option<String>,
}

impl fmt::Display for Object {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}/{}", self.resource.kind, self.name)?;
        match &self.namespace {
            Some(namespace) => write!(formatter, " in namespace {namespace}"),
            None => Ok(()),
        }
    }
}

impl Object {
    fn of(resource: &ApiResource, found: &PartialObjectMeta<DynamicObject>) -> Self {
        Self {
            resource: resource.clone(),
            namespace: found.namespace(),
            name: found.name_any(),
            uid: found.uid(),
            owned: !found.owner_references().is_empty(),
            lab: found.labels().get(LAB_LABEL).filter(|_| is_klabs(found)).cloned(),
        }
    }

    fn api(&self, client: &Client) -> Api<DynamicObject> {
        match &self.namespace {
            Some(namespace) => Api::namespaced_with(client.clone(), namespace, &self.resource),
            None => Api::all_with(client.clone(), &self.resource),
        }
    }

    /// As it is named within its namespace.
    fn short(&self) -> String {
        format!("{}/{}", self.resource.kind, self.name)
    }

    fn is(&self, kind: &str) -> bool {
        self.resource.kind == kind
    }
}

/// What a removal did.
pub(super) struct Removed {
    /// How many objects are gone.
    pub(super) objects: usize,
    /// What stays because others have put something into it, or may have, in words.
    pub(super) kept: Vec<String>,
}

/// Objects for people.
pub(super) fn named(objects: &[Object]) -> String {
    first_of(&objects.iter().map(ToString::to_string).collect::<Vec<_>>(), NAMES)
}

/// A kind that the cluster serves.
type Served = (ApiResource, Scope);

/// Objects of many kinds.
#[derive(Default)]
struct Listed {
    objects: Vec<Object>,
    /// The kinds that the user may not list.
    refused: Vec<ApiResource>,
}

/// Everything in the cluster that the lab made itself; what controllers made of it goes with it. `made` are the kinds that klab
/// noted down before it made them.
///
/// # Errors
/// When the cluster does not answer.
pub(super) async fn own_objects(client: &Client, lab: &str, made: &BTreeSet<String>) -> Result<Vec<Object>> {
    own_among(client, &kinds(client).await?, lab, made).await
}

async fn own_among(client: &Client, kinds: &[Served], lab: &str, made: &BTreeSet<String>) -> Result<Vec<Object>> {
    let parameters = ListParams::default().labels(&selector_of(lab));
    let found = list_all(client, kinds, made, None, &parameters).await?;
    Ok(found.objects.into_iter().filter(|object| !object.owned).collect())
}

/// Removes what the lab made and waits until it is gone: what runs first, then the rest, namespaces and kinds at the end.
///
/// # Errors
/// When the cluster does not answer, refuses, or does not remove something in time.
pub(super) async fn remove(
    client: &Client,
    lab: &str,
    made: &BTreeSet<String>,
    progress: impl Fn(String),
) -> Result<Removed> {
    let kinds = kinds(client).await?;
    let all = own_among(client, &kinds, lab, made).await?;
    let is_last = |object: &&Object| object.is("Namespace") || object.is("CustomResourceDefinition");
    let (last, first): (Vec<&Object>, Vec<&Object>) = all.iter().partition(is_last);
    delete(client, &first, &progress).await?;
    let (mut going, mut kept) = (Vec::new(), Vec::new());
    for object in last {
        let Listed { objects: others, refused } = others_in(client, &kinds, object).await?;
        if others.is_empty() && refused.is_empty() {
            going.push(object);
            continue;
        }
        let what = if object.is("Namespace") { "namespace" } else { "the kind" };
        let what = format!("{what} {}", object.name);
        let heir = others.iter().find_map(|other| other.lab.as_deref());
        release(client, object, heir).await?;
        kept.push(if let Some(heir) = heir {
            format!("{what} stays: lab `{heir}` uses it, and removes it at its end")
        } else if others.is_empty() {
            let unseen = first_of(&refused.iter().map(|kind| kind.plural.as_str()).collect::<Vec<_>>(), NAMES);
            let delete = format!("kubectl delete {}/{}", object.resource.kind.to_ascii_lowercase(), object.name);
            format!("{what} stays, without klab's labels: you may not list its {unseen}, which may be others'; `{delete}` removes it")
        } else {
            let count = plural(others.len(), "object");
            let names = first_of(&others.iter().map(Object::short).collect::<Vec<_>>(), NAMES);
            format!("{what} stays, without klab's labels: it has {count} that no lab made: {names}")
        });
    }
    delete(client, &going, &progress).await?;
    Ok(Removed { objects: first.len().saturating_add(going.len()), kept })
}

/// The kinds whose objects can be listed and deleted.
async fn kinds(client: &Client) -> Result<Vec<Served>> {
    let discovery = Discovery::new(client.clone()).run_aggregated().await;
    let discovery = discovery.map_err(|error| {
        Error::new(Code::NoAnswer, cause(&error).context("could not ask the cluster which kinds it serves"))
    })?;
    let kinds = discovery.groups().flat_map(kube::discovery::ApiGroup::recommended_resources);
    let usable = kinds.filter(|(resource, can)| {
        can.supports_operation(verbs::LIST)
            && can.supports_operation(verbs::DELETE)
            && !MIRRORS.contains(&resource.group.as_str())
    });
    Ok(usable.map(|(resource, can)| (resource, can.scope)).collect())
}

/// Objects of many kinds. Kinds that the user may not list are named and passed over, unless they are among those
/// (`apiVersion/Kind`) that the lab `made`.
async fn list_all(
    client: &Client,
    kinds: &[Served],
    made: &BTreeSet<String>,
    namespace: Option<&str>,
    parameters: &ListParams,
) -> Result<Listed> {
    let lists =
        kinds.iter().filter(|(_, scope)| namespace.is_none() || *scope == Scope::Namespaced).map(|(resource, _)| {
            let api: Api<DynamicObject> = match namespace {
                Some(namespace) => Api::namespaced_with(client.clone(), namespace, resource),
                None => Api::all_with(client.clone(), resource),
            };
            async move { (resource, api.list_metadata(parameters).await) }
        });
    let lists: Vec<_> = stream::iter(lists.collect::<Vec<_>>()).buffered(CONCURRENCY).collect().await;
    let mut found = Listed::default();
    for (resource, list) in lists {
        match list {
            Ok(list) => found.objects.extend(list.items.iter().map(|item| Object::of(resource, item))),
            // Forbidden, gone in this moment, or a kind that lists nothing (405).
            Err(kube::Error::Api(status))
                if (403..=405).contains(&status.code)
                    && !made.contains(&format!("{}/{}", resource.api_version, resource.kind)) =>
            {
                if status.code == 403 {
                    found.refused.push(resource.clone());
                }
            }
            Err(error) => {
                let words = format!("could not list the cluster's {}", resource.plural);
                return Err(Error::new(Code::NoAnswer, cause(&error).context(words)));
            }
        }
    }
    Ok(found)
}

/// Deletes objects and waits until they and what controllers made of them are gone.
async fn delete(client: &Client, objects: &[&Object], progress: &impl Fn(String)) -> Result<()> {
    for object in objects {
        let preconditions = Preconditions { uid: object.uid.clone(), ..Preconditions::default() };
        let parameters = DeleteParams::foreground().preconditions(preconditions);
        match object.api(client).delete(&object.name, &parameters).await {
            Ok(_) => {}
            // Gone, or another one of its name is there.
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => {}
            Err(error) => {
                return Err(Error::new(
                    Code::ClusterRefused,
                    cause(&error).context(format!("could not remove {object}")),
                ));
            }
        }
    }
    let until = Instant::now().checked_add(GONE);
    let mut left: Vec<&Object> = objects.to_vec();
    loop {
        let mut still = Vec::new();
        for object in left {
            let found = object.api(client).get_metadata_opt(&object.name).await;
            let found = found.code(Code::NoAnswer, || format!("could not read {object}"))?;
            if found.is_some_and(|found| found.uid() == object.uid) {
                still.push(object);
            }
        }
        left = still;
        if left.is_empty() {
            return Ok(());
        }
        if until.is_some_and(|until| Instant::now() >= until) {
            let names = named(&left.iter().map(|object| (*object).clone()).collect::<Vec<_>>());
            let after = klab_lab::words::duration(GONE);
            let message = format!("{names} still there {after} after klab asked to remove it");
            return Err(Error::message(Code::DrainTimeout, message).hint("a finalizer may keep it"));
        }
        progress(format!("{} going", plural(left.len(), "object")));
        tokio::time::sleep(PAUSE).await;
    }
}

/// What others have in a namespace, or of a kind, that the lab made, and what of it the user may not see.
async fn others_in(client: &Client, kinds: &[Served], object: &Object) -> Result<Listed> {
    let (everything, unknown) = (ListParams::default(), BTreeSet::new());
    if object.is("Namespace") {
        let mut found = list_all(client, kinds, &unknown, Some(&object.name), &everything).await?;
        found.objects.retain(|object| !object.owned && !comes_with_a_namespace(object));
        found.refused.retain(|resource| !PASSING.contains(&resource.kind.as_str()));
        return Ok(found);
    }
    // A definition is named `plural.group`.
    let of_kind = |(resource, _): &&Served| format!("{}.{}", resource.plural, resource.group) == object.name;
    let kinds: Vec<Served> = kinds.iter().filter(of_kind).cloned().collect();
    list_all(client, &kinds, &unknown, None, &everything).await
}

/// What Kubernetes, OpenShift and Istio put into every namespace, and what passes by itself.
fn comes_with_a_namespace(object: &Object) -> bool {
    let name = object.name.as_str();
    let accounts = ["default", "builder", "deployer"];
    match object.resource.kind.as_str() {
        "ServiceAccount" => accounts.contains(&name),
        "Secret" => accounts.iter().any(|account| {
            let rest = name.strip_prefix(account);
            rest.is_some_and(|rest| rest.starts_with("-dockercfg-") || rest.starts_with("-token-"))
        }),
        "RoleBinding" => name.starts_with("system:"),
        "ConfigMap" => matches!(name, "kube-root-ca.crt" | "openshift-service-ca.crt" | "istio-ca-root-cert"),
        kind => PASSING.contains(&kind),
    }
}

fn is_klabs(found: &PartialObjectMeta<DynamicObject>) -> bool {
    found.labels().get(MANAGED_BY_LABEL).is_some_and(|manager| manager == MANAGER)
}

/// Takes klab's labels off what stays, or gives it to the lab that uses it.
async fn release(client: &Client, object: &Object, heir: Option<&str>) -> Result<()> {
    let labels = match heir {
        Some(heir) => json!({ LAB_LABEL: heir }),
        None => json!({ LAB_LABEL: null, MANAGED_BY_LABEL: null }),
    };
    let patch = json!({ "metadata": { "labels": labels } });
    let patched = object.api(client).patch_metadata(&object.name, &patch_parameters(), &Patch::Merge(&patch)).await;
    patched.map(drop).map_err(|error| {
        Error::new(Code::ClusterRefused, cause(&error).context(format!("could not change klab's labels of {object}")))
    })
}

#[cfg(test)]
mod tests {
    use kube::core::GroupVersionKind;

    use super::*;

    #[test]
    fn what_comes_with_a_namespace_is_nobodys() {
        for (kind, name, comes) in [
            ("ServiceAccount", "default", true),
            ("ServiceAccount", "builder", true),
            ("ServiceAccount", "mine", false),
            ("ConfigMap", "kube-root-ca.crt", true),
            ("ConfigMap", "settings", false),
            ("Secret", "default-dockercfg-x7k2p", true),
            ("Secret", "default-password", false),
            ("RoleBinding", "system:deployers", true),
            ("RoleBinding", "team", false),
            ("Event", "web.17a", true),
            ("Pod", "web", false),
        ] {
            let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("", "v1", kind));
            let object =
                Object { resource, namespace: None, name: name.to_owned(), uid: None, owned: false, lab: None };
            assert_eq!(comes_with_a_namespace(&object), comes, "{object}");
        }
    }
}
