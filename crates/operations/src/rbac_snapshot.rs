//! What a user may read of a cluster that klab did not make: a snapshot, and what is missing in it.

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::api::resource::v1::{DeviceClass, ResourceClaim, ResourceClaimTemplate, ResourceSlice};
use klab_lab::verify::{DeviceObjects, Snapshot};
use klab_scheduler::typed::Typed;
use kube::api::ListParams;
use kube::{Client, Resource};
use serde_json::Value;

use crate::client::cause;
use crate::client::objects;
use crate::drain::refused_evictions;
use crate::error::{Code, Error, Result};
use crate::observe;

/// How somebody is let at the nodes.
pub const NODE_RIGHTS: &str = "who administers the cluster can let you: `kubectl create clusterrole node-reader --verb=get,list,watch \
                               --resource=nodes`, then `kubectl create clusterrolebinding NAME --clusterrole=node-reader --user=USER`";

/// A snapshot as far as the user may read the cluster.
#[derive(Debug, Default)]
pub struct Permitted {
    /// What could be read.
    pub snapshot: Snapshot,
    /// Kinds that could not be read at all, by their plural.
    pub unread: Vec<String>,
    /// Kinds of which only the objects of the user's namespace could be read.
    pub of_namespace: Vec<String>,
    /// Why the nodes could not be read, in the server's words.
    pub no_nodes: Option<String>,
}

/// How much of a kind was read.
struct Listed<K> {
    objects: Vec<Arc<K>>,
    extent: Extent,
}

impl<K> Listed<K> {
    fn is_refused(&self) -> bool {
        matches!(self.extent, Extent::Refused(_))
    }
}

enum Extent {
    All,
    /// Those of one namespace.
    Namespace,
    /// None; why, in the server's words.
    Refused(String),
}

/// Reads what explanations need, for a user who is about to ask about `namespace`. What the server refuses is left out and
/// named; the lists are asked for at once, as the way to the cluster may be long.
///
/// # Errors
/// When the cluster does not answer, or answers with anything but a refusal.
pub async fn look(client: &Client, namespace: &str) -> Result<Permitted> {
    let (nodes, pods, deployments, replica_sets, replication_controllers, daemon_sets, stateful_sets, jobs) = futures::try_join!(
        of_cluster(client),
        namespaced(client, namespace),
        namespaced(client, namespace),
        namespaced(client, namespace),
        namespaced(client, namespace),
        namespaced(client, namespace),
        namespaced(client, namespace),
        namespaced(client, namespace),
    )?;
    let (namespaces, services, budgets, classes, claims, volumes, storage_classes, csi_nodes) = futures::try_join!(
        of_cluster(client),
        namespaced(client, namespace),
        namespaced(client, namespace),
        of_cluster(client),
        namespaced(client, namespace),
        of_cluster(client),
        of_cluster(client),
        of_cluster(client),
    )?;
    let mut seen = Permitted::default();
    let devices = seen.devices(client, namespace, &pods.objects).await?;
    seen.no_nodes = match &nodes.extent {
        Extent::Refused(words) => Some(words.clone()),
        _ => None,
    };
    seen.snapshot = Snapshot {
        taken_at: Some(now(client, &nodes.objects).await),
        nodes: seen.note::<Node>(nodes),
        pods: seen.note::<Pod>(pods),
        deployments: seen.note(deployments),
        replica_sets: seen.note(replica_sets),
        replication_controllers: seen.note(replication_controllers),
        daemon_sets: seen.note(daemon_sets),
        stateful_sets: seen.note(stateful_sets),
        jobs: seen.note(jobs),
        namespaces: seen.note(namespaces),
        services: seen.note(services),
        pod_disruption_budgets: seen.note(budgets),
        priority_classes: seen.note(classes),
        persistent_volume_claims: seen.note(claims),
        persistent_volumes: seen.note(volumes),
        storage_classes: seen.note(storage_classes),
        csi_nodes: seen.note(csi_nodes),
        devices,
        ..Snapshot::default()
    };
    // They only add detail: whatever you may not read is left out.
    for reason in seen.snapshot.reasons_of_events() {
        let events = observe::of_reason(client, Some(namespace), reason).await;
        seen.snapshot.events.extend(events.unwrap_or_default());
    }
    seen.snapshot.refused_evictions = refused_evictions(client, &seen.snapshot).await;
    Ok(seen)
}

impl Permitted {
    /// Devices and claims, where pods ask for some. None where a kind may not be read at all: what is left would tell wrongly
    /// what is there and what is free.
    async fn devices(&mut self, client: &Client, namespace: &str, pods: &[Arc<Pod>]) -> Result<Option<DeviceObjects>> {
        let language = Some(klab_cluster::device_selectors());
        if !DeviceObjects::are_asked_for(pods) {
            return Ok(Some(DeviceObjects { language, ..DeviceObjects::default() }));
        }
        let (classes, slices, claims, templates) = futures::try_join!(
            of_cluster::<DeviceClass>(client),
            of_cluster::<ResourceSlice>(client),
            namespaced::<ResourceClaim>(client, namespace),
            namespaced::<ResourceClaimTemplate>(client, namespace),
        )?;
        let is_whole = !classes.is_refused() && !slices.is_refused() && !claims.is_refused() && !templates.is_refused();
        let objects = DeviceObjects {
            classes: self.note(classes),
            slices: self.note(slices),
            claims: self.note(claims),
            templates: self.note(templates),
            language,
        };
        Ok(is_whole.then_some(objects))
    }

    /// Takes objects in; what is missing of their kind is noted.
    fn note<K: Resource<DynamicType = ()>>(&mut self, listed: Listed<K>) -> Vec<Arc<K>> {
        match listed.extent {
            Extent::All => {}
            Extent::Namespace => self.of_namespace.push(K::plural(&()).into_owned()),
            Extent::Refused(_) => self.unread.push(K::plural(&()).into_owned()),
        }
        listed.objects
    }
}

/// The time of the cluster. One whose nodes have never booted is simulated, and may have a clock that is stepped.
async fn now(client: &Client, nodes: &[Arc<Node>]) -> Timestamp {
    let boot = |node: &Arc<Node>| Some(node.status.as_ref()?.node_info.as_ref()?.boot_id.clone());
    let has_booted = nodes.iter().any(|node| boot(node).is_some_and(|boot| !boot.is_empty()));
    let asked = http::Request::get("/klab/v1/clock").body(Vec::new()).ok().filter(|_| !has_booted);
    let Some(request) = asked else { return Timestamp::now() };
    let answer = client.request::<Value>(request).await.ok();
    let time = answer.and_then(|answer| answer["now"].as_str()?.parse().ok());
    time.unwrap_or_else(Timestamp::now)
}

async fn of_cluster<K>(client: &Client) -> Result<Listed<K>>
where
    K: Typed + Resource<DynamicType = ()>,
{
    list(client, None, Extent::All).await
}

async fn namespaced<K>(client: &Client, namespace: &str) -> Result<Listed<K>>
where
    K: Typed + Resource<DynamicType = (), Scope = NamespaceResourceScope>,
{
    let all = of_cluster(client).await?;
    match all.extent {
        Extent::Refused(_) => list(client, Some(namespace), Extent::Namespace).await,
        _ => Ok(all),
    }
}

async fn list<K>(client: &Client, namespace: Option<&str>, extent: Extent) -> Result<Listed<K>>
where
    K: Typed + Resource<DynamicType = ()>,
{
    match objects::list::<K>(client, namespace, &ListParams::default()).await {
        Ok(list) => Ok(Listed { objects: list.into_iter().map(Arc::new).collect(), extent }),
        // A kind that the cluster does not serve has no objects.
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(Listed { objects: Vec::new(), extent: Extent::All }),
        Err(kube::Error::Api(status)) if status.code == 403 => {
            Ok(Listed { objects: Vec::new(), extent: Extent::Refused(status.message.clone()) })
        }
        Err(error) => Err(Error::new(
            Code::NoAnswer,
            cause(&error).context(format!("could not list the cluster's {}", K::plural(&()))),
        )),
    }
}
