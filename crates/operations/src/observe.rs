//! The cluster as checks see it, kept current by watches: lists once, then only changes cross the wire.

mod backed_off;
mod history;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures::future::FutureExt;
use futures::stream::{BoxStream, SelectAll, StreamExt};
use http_body_util::BodyExt;
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1 as core_v1;
use k8s_openapi::api::core::v1::{
    Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod, ReplicationController, Service,
};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::resource::v1::{DeviceClass, ResourceClaim, ResourceClaimTemplate, ResourceSlice};
use k8s_openapi::api::scheduling::v1::PriorityClass;
use k8s_openapi::api::storage::v1::{CSINode, StorageClass};
use kube::api::{Api, DynamicObject, ListParams};
use kube::discovery::{Discovery, Scope};
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Client, Resource, ResourceExt};
use serde_json::Value;
use tokio::time::Instant;

use self::backed_off::backed_off;
pub use self::history::history;
use crate::client::NoAnswer;
use crate::client::objects::{self, Watched};
use crate::drain::refused_evictions;
use crate::error::{Code, Context, Error, Result};
use klab_lab::spec::{Check, Lab, NodeSet, ObjectRef, Subject, Workload, singular};
use klab_lab::verify::{DeviceObjects, FetchedObject, Snapshot};
use klab_scheduler::typed::Typed;

/// Objects of one kind, by namespace and name.
struct Cache<K> {
    objects: BTreeMap<(String, String), Arc<K>>,
    listing: BTreeMap<(String, String), Arc<K>>,
    complete: bool,
}

impl<K> Default for Cache<K> {
    fn default() -> Self {
        Self { objects: BTreeMap::new(), listing: BTreeMap::new(), complete: false }
    }
}

impl<K: ResourceExt> Cache<K> {
    fn take(&mut self, event: Event<K>) {
        let key = |object: &K| (object.namespace().unwrap_or_default(), object.name_any());
        match event {
            Event::Apply(object) => {
                self.objects.insert(key(&object), Arc::new(object));
            }
            Event::Delete(object) => {
                self.objects.remove(&key(&object));
            }
            Event::Init => self.listing.clear(),
            Event::InitApply(object) => {
                self.listing.insert(key(&object), Arc::new(object));
            }
            Event::InitDone => {
                self.objects = std::mem::take(&mut self.listing);
                self.complete = true;
            }
        }
    }

    fn all(&self) -> Vec<Arc<K>> {
        self.objects.values().cloned().collect()
    }
}

/// What checks wait for.
#[derive(Default)]
struct WatchedObjects {
    nodes: Cache<Node>,
    pods: Cache<Pod>,
    deployments: Cache<Deployment>,
    replica_sets: Cache<ReplicaSet>,
    daemon_sets: Cache<DaemonSet>,
    stateful_sets: Cache<StatefulSet>,
    jobs: Cache<Job>,
}

type Update = Box<dyn FnOnce(&mut WatchedObjects) + Send>;

/// A cluster under observation.
pub struct Observer {
    updates: SelectAll<BoxStream<'static, Result<Update, watcher::Error>>>,
    world: WatchedObjects,
    /// When watches began to break, and when one broke last.
    broken: Option<(Instant, Instant)>,
}

/// How long watches may break, one after the other, before the cluster is taken to be gone; and the pause after each.
const GONE: Duration = Duration::from_secs(10);
/// How long until viewers get a notice.
const SILENT: Duration = Duration::from_secs(2);
const PAUSE: Duration = Duration::from_millis(50);

impl Observer {
    /// Begins to watch; the first [`Observer::next`] returns when everything has been listed.
    pub fn new(client: &Client) -> Self {
        let updates = futures::stream::select_all([
            updates::<Node>(client, |world| &mut world.nodes),
            updates::<Pod>(client, |world| &mut world.pods),
            updates::<Deployment>(client, |world| &mut world.deployments),
            updates::<ReplicaSet>(client, |world| &mut world.replica_sets),
            updates::<DaemonSet>(client, |world| &mut world.daemon_sets),
            updates::<StatefulSet>(client, |world| &mut world.stateful_sets),
            jobs(client),
        ]);
        Self { updates, world: WatchedObjects::default(), broken: None }
    }

    /// Waits for the next change and takes in everything that has arrived with it.
    ///
    /// # Errors
    /// When the cluster refuses a list; a watch that breaks is taken up again.
    pub async fn next(&mut self) -> Result<Snapshot> {
        loop {
            let first = self.updates.next().await;
            let mut news = self.take(first)?;
            while let Some(further) = self.updates.next().now_or_never() {
                news |= self.take(further)?;
            }
            if news && self.world.is_complete() {
                return Ok(self.world.snapshot());
            }
            if !news {
                tokio::time::sleep(PAUSE).await;
            }
        }
    }

    /// Takes an update in; says whether it is one, and not a watch that broke and is taken up again.
    fn take(&mut self, update: Option<Result<Update, watcher::Error>>) -> Result<bool> {
        match update {
            Some(Ok(update)) => {
                update(&mut self.world);
                self.broken = None;
                Ok(true)
            }
            Some(Err(error)) => {
                let broken = matches!(
                    error,
                    watcher::Error::WatchError(_)
                        | watcher::Error::WatchStartFailed(_)
                        | watcher::Error::WatchFailed(_)
                );
                let error = Error::new(Code::NoAnswer, error);
                // The watcher lists again by itself; where no server answers, it would do so for ever.
                if broken && self.world.is_complete() && NoAnswer::in_error(&error).is_none() && !self.is_gone() {
                    return Ok(false);
                }
                Err(Error { source: error.source.context("could not watch the cluster"), ..error })
            }
            None => Err(Error::message(Code::NoAnswer, "the cluster ended all watches")),
        }
    }

    /// Whether watches have been breaking for a while, and still are.
    pub fn is_cut_off(&self) -> bool {
        self.broken
            .is_some_and(|(since, last)| last.saturating_duration_since(since) > SILENT && last.elapsed() < SILENT)
    }

    /// Notes that a watch broke; says whether that has gone on for so long that the server will not come back.
    fn is_gone(&mut self) -> bool {
        let now = Instant::now();
        let since = match self.broken {
            // Watches that break now and then are taken up again in between.
            Some((since, last)) if now.saturating_duration_since(last) < GONE / 2 => since,
            _ => now,
        };
        self.broken = Some((since, now));
        now.saturating_duration_since(since) > GONE
    }
}

impl WatchedObjects {
    fn is_complete(&self) -> bool {
        self.nodes.complete
            && self.pods.complete
            && self.deployments.complete
            && self.replica_sets.complete
            && self.daemon_sets.complete
            && self.stateful_sets.complete
            && self.jobs.complete
    }

    fn snapshot(&self) -> Snapshot {
        Snapshot {
            taken_at: Some(Timestamp::now()),
            nodes: self.nodes.all(),
            pods: self.pods.all(),
            deployments: self.deployments.all(),
            replica_sets: self.replica_sets.all(),
            daemon_sets: self.daemon_sets.all(),
            stateful_sets: self.stateful_sets.all(),
            jobs: self.jobs.all(),
            ..Snapshot::default()
        }
    }
}

fn updates<K>(
    client: &Client,
    cache: fn(&mut WatchedObjects) -> &mut Cache<K>,
) -> BoxStream<'static, Result<Update, watcher::Error>>
where
    K: Typed + Resource<DynamicType = ()> + Send + Sync + 'static,
{
    let events = watcher(objects::watched::<K>(client), watcher::Config::default()).boxed();
    events
        .map(move |event| {
            let event = Watched::event(event?)?;
            Ok(Box::new(move |world: &mut WatchedObjects| cache(world).take(event)) as Update)
        })
        .boxed()
}

/// Those of Jobs. There are none where the cluster does not serve them.
fn jobs(client: &Client) -> BoxStream<'static, Result<Update, watcher::Error>> {
    let whole = updates::<Job>(client, |world| &mut world.jobs).scan(true, |is_served, update| {
        std::future::ready(match update {
            _ if !*is_served => None,
            Err(watcher::Error::InitialListFailed(kube::Error::Api(status))) if status.code == 404 => {
                *is_served = false;
                Some(Ok(Box::new(|world: &mut WatchedObjects| world.jobs.complete = true) as Update))
            }
            update => Some(update),
        })
    });
    whole.boxed()
}

/// The lab with the names of nodes where it says `node_name = "pool:NAME"`: the first node of the pool by name, as
/// `kubectl get nodes` lists them. Where a pool has no node, what the lab says stays.
///
/// # Errors
/// When the cluster refuses the list.
pub async fn nodes_named<'a>(client: &Client, lab: &'a Lab) -> Result<Cow<'a, Lab>> {
    if !lab.workloads.iter().any(|workload| workload.node_pool().is_some()) && !lab.has_templates() {
        return Ok(Cow::Borrowed(lab));
    }
    let nodes = list::<Node>(client).await?;
    let mut present: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for node in &nodes {
        if let Some(pool) = lab.pool_of(node) {
            present.entry(pool).or_default().push(node.name_any());
        }
    }
    for names in present.values_mut() {
        names.sort_unstable();
    }
    let mut named = lab.clone();
    for workload in &mut named.workloads {
        let first = workload.node_pool().and_then(|pool| present.get(pool)?.first());
        if let (Some(name), Some(node)) = (first.cloned(), &mut workload.node_name) {
            node.value = NodeSet::Node(name);
        }
    }
    for pool in &mut named.pools {
        pool.present = Some(present.remove(pool.name.value.as_str()).unwrap_or_default());
    }
    Ok(Cow::Owned(named))
}

/// Refuses a workload whose pool has no node to name.
///
/// # Errors
/// When [`nodes_named`] found none.
pub fn refuse_without_node(workload: &Workload) -> Result<()> {
    let Some(pool) = workload.node_pool() else { return Ok(()) };
    let name = &workload.name;
    let message = format!("workload `{name}` is to run on the first node of pool `{pool}`, which has no node");
    Err(Error::message(Code::NoNodeHere, message))
}

/// Whether the controllers of an embedded cluster have done all that is due; one that does not say so has.
pub async fn is_settled(client: &Client) -> bool {
    let Ok(asked) = http::Request::get("/readyz/settled").body(kube::client::Body::empty()) else { return true };
    !client.send(asked).await.is_ok_and(|answer| answer.status() == http::StatusCode::INTERNAL_SERVER_ERROR)
}

/// Adds what explanations need beyond what checks do: priorities, budgets, volumes, services.
///
/// # Errors
/// When the cluster refuses a list. Kinds it does not serve count as empty.
pub async fn complete(client: &Client, snapshot: &mut Snapshot) -> Result<()> {
    snapshot.namespaces = list::<Namespace>(client).await?;
    snapshot.services = list::<Service>(client).await?;
    snapshot.replication_controllers = list::<ReplicationController>(client).await?;
    snapshot.pod_disruption_budgets = list::<PodDisruptionBudget>(client).await?;
    snapshot.priority_classes = list::<PriorityClass>(client).await?;
    snapshot.autoscalers = list::<HorizontalPodAutoscaler>(client).await.unwrap_or_default();
    snapshot.persistent_volume_claims = list::<PersistentVolumeClaim>(client).await?;
    snapshot.persistent_volumes = list::<PersistentVolume>(client).await?;
    snapshot.storage_classes = list::<StorageClass>(client).await?;
    snapshot.csi_nodes = list::<CSINode>(client).await?;
    snapshot.devices = Some(devices(client, &snapshot.pods).await?);
    snapshot.backed_off = backed_off(client).await;
    snapshot.refused_evictions = refused_evictions(client, snapshot).await;
    Ok(())
}

/// Claims and what they are made from, where a pod may wait for one. A user who may not list them gets none.
async fn awaited_claims(client: &Client, snapshot: &Snapshot) -> Option<DeviceObjects> {
    if !DeviceObjects::are_awaited(&snapshot.pods) {
        return None;
    }
    let claims = list::<ResourceClaim>(client).await.ok()?;
    let templates = list::<ResourceClaimTemplate>(client).await.ok()?;
    Some(DeviceObjects { claims, templates, ..DeviceObjects::default() })
}

/// Devices and claims, where pods ask for some.
async fn devices(client: &Client, pods: &[Arc<Pod>]) -> Result<DeviceObjects> {
    let mut objects = DeviceObjects { language: Some(klab_cluster::device_selectors()), ..DeviceObjects::default() };
    if !DeviceObjects::are_asked_for(pods) {
        return Ok(objects);
    }
    objects.classes = list::<DeviceClass>(client).await?;
    objects.slices = list::<ResourceSlice>(client).await?;
    objects.claims = list::<ResourceClaim>(client).await?;
    objects.templates = list::<ResourceClaimTemplate>(client).await?;
    Ok(objects)
}

/// Events about pods that could not be made or that wait for volumes, if there may be any. Empty if you may not read events.
async fn events(client: &Client, snapshot: &Snapshot) -> Vec<Arc<core_v1::Event>> {
    let mut all = Vec::new();
    for reason in snapshot.reasons_of_events() {
        all.extend(of_reason(client, None, reason).await.unwrap_or_default());
    }
    all
}

/// The reasons of events that checks ask for.
fn reasons(checks: &[Check]) -> BTreeSet<&str> {
    let conditions = checks.iter().flat_map(|check| &check.conditions);
    conditions.flat_map(|condition| condition.value.event_reasons()).collect()
}

/// Events of a reason, of one namespace or of all.
pub async fn of_reason(
    client: &Client,
    namespace: Option<&str>,
    reason: &str,
) -> Result<Vec<Arc<core_v1::Event>>, kube::Error> {
    let selected = ListParams::default().fields(&format!("reason={reason}"));
    let list = objects::list::<core_v1::Event>(client, namespace, &selected).await?;
    Ok(list.into_iter().map(Arc::new).collect())
}

/// The checks of an API server's own readiness that fail, in its words; none where it does not answer. The embedded
/// cluster tells so of controllers that go on without an object.
pub async fn faults(client: &Client) -> Vec<String> {
    let Ok(request) = http::Request::get("/readyz").body(kube::client::Body::empty()) else { return Vec::new() };
    let Some(answer) = client.send(request).await.ok().filter(|answer| !answer.status().is_success()) else {
        return Vec::new();
    };
    let text = match answer.into_body().collect().await {
        Ok(body) => String::from_utf8_lossy(&body.to_bytes()).into_owned(),
        Err(_) => return Vec::new(),
    };
    text.lines().filter_map(|line| line.strip_prefix("[-]")).map(str::to_owned).collect()
}

/// One look at what checks see. The lists follow each other on one connection: several at once would each pay for a
/// TLS handshake, which takes longer than a list.
///
/// # Errors
/// When the cluster refuses a list.
pub async fn look(client: &Client) -> Result<Snapshot> {
    Ok(Snapshot {
        taken_at: Some(Timestamp::now()),
        nodes: list::<Node>(client).await?,
        deployments: list::<Deployment>(client).await?,
        replica_sets: list::<ReplicaSet>(client).await?,
        daemon_sets: list::<DaemonSet>(client).await?,
        stateful_sets: list::<StatefulSet>(client).await?,
        jobs: list::<Job>(client).await?,
        pods: list::<Pod>(client).await?,
        ..Snapshot::default()
    })
}

/// One look at all that a snapshot can hold: what checks see, and what explanations need.
///
/// # Errors
/// When the cluster refuses a list.
pub async fn look_at_all(client: &Client) -> Result<Snapshot> {
    let mut snapshot = look(client).await?;
    snapshot.events = events(client, &snapshot).await;
    complete(client, &mut snapshot).await?;
    Ok(snapshot)
}

async fn list<K>(client: &Client) -> Result<Vec<Arc<K>>>
where
    K: Typed + Resource<DynamicType = ()>,
{
    match objects::list::<K>(client, None, &ListParams::default()).await {
        Ok(list) => Ok(list.into_iter().map(Arc::new).collect()),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(Vec::new()),
        Err(error) => Err(crate::client::cause(&error))
            .code(Code::NoAnswer, || format!("could not list the cluster's {}", K::plural(&()))),
    }
}

/// Whether a check is about an object that no snapshot holds by itself.
fn is_fetched(check: &Check) -> bool {
    matches!(&check.subject.value, Subject::Object(reference) if !Snapshot::answers(reference))
}

/// Whether there is something to [`fetch`] that no watch tells about.
pub fn is_to_be_fetched(checks: &[Check], snapshot: &Snapshot) -> bool {
    checks.iter().any(is_fetched) || !reasons(checks).is_empty() || snapshot.has_pods_made_for_all_that_is_known()
}

/// Reads the objects that checks name and that no snapshot holds by itself, and what keeps pods from being made; what was read before is
/// forgotten.
///
/// # Errors
/// When the cluster does not answer.
pub async fn fetch(client: &Client, checks: &[Check], snapshot: &mut Snapshot) -> Result<()> {
    snapshot.objects.clear();
    snapshot.events = events(client, snapshot).await;
    let known: BTreeSet<&str> = snapshot.reasons_of_events().into_iter().collect();
    for reason in reasons(checks).difference(&known) {
        let asked = of_reason(client, None, reason).await;
        snapshot.events.extend(asked.code(Code::NoAnswer, || format!("could not list the events {reason}"))?);
    }
    // What [`complete`] read is more, and has a language.
    if snapshot.devices.as_ref().is_none_or(|devices| devices.language.is_none()) {
        snapshot.devices = awaited_claims(client, snapshot).await;
    }
    for check in checks.iter().filter(|check| is_fetched(check)) {
        let Subject::Object(reference) = &check.subject.value else { continue };
        let object = object(client, reference).await?.map(Arc::new);
        snapshot.objects.push(FetchedObject { reference: reference.clone(), object });
    }
    Ok(())
}

/// An object by kind (name, plural, short name) and name, as JSON; `None` where there is no such object or kind.
///
/// # Errors
/// When the cluster does not answer.
pub async fn object(client: &Client, reference: &ObjectRef) -> Result<Option<Value>> {
    if reference.is_version() {
        return version(client).await.map(Some);
    }
    let Some(api) = api_of(client, reference).await? else { return Ok(None) };
    let object = api.get_opt(&reference.name).await.code(Code::NoAnswer, || format!("could not read {reference}"))?;
    Ok(object.and_then(|object| serde_json::to_value(object).ok()))
}

/// What the API server says of its version, as `kubectl get --raw /version` shows it.
///
/// # Errors
/// When the cluster does not answer.
pub async fn version(client: &Client) -> Result<Value> {
    let info =
        client.apiserver_version().await.code(Code::NoAnswer, || "could not read the cluster's version".to_owned())?;
    serde_json::to_value(info).code(Code::NoAnswer, || "could not read the cluster's version".to_owned())
}

/// Where objects of a kind (name, plural, short name) are read and written; `None` where the cluster has no such kind.
///
/// # Errors
/// When the cluster does not answer.
pub async fn api_of(client: &Client, reference: &ObjectRef) -> Result<Option<Api<DynamicObject>>> {
    let problem = || format!("could not ask the cluster for the kind of {reference}");
    let discovery = Discovery::new(client.clone()).run_aggregated().await.code(Code::NoAnswer, problem)?;
    let wanted = reference.kind.to_ascii_lowercase();
    let kind = singular(&reference.kind);
    let found = discovery.groups_alphabetical().into_iter().find_map(|group| {
        let of_group = reference.group.as_deref().is_none_or(|wanted| wanted == group.name());
        group
            .recommended_resources()
            .into_iter()
            .find(|(resource, _)| of_group && (resource.plural == wanted || resource.kind.to_ascii_lowercase() == kind))
    });
    Ok(found.map(|(resource, capabilities)| match capabilities.scope {
        Scope::Namespaced => Api::namespaced_with(client.clone(), &reference.namespace, &resource),
        Scope::Cluster => Api::all_with(client.clone(), &resource),
    }))
}
