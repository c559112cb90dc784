//! The table of controllers: of each its name, what concerns it and how it is made. Their order is that of [`Controller`].

use std::str::FromStr;

use klab_api_machinery::resource::{self, EVENTS, ResourceId};

use super::component::Component;
use super::controller::Controller;
use super::reconcile::Reconciler;
use super::{
    account_tokens, api_services, api_silence, autoscaler, certificate_approval, certificates, cluster_autoscaler,
    cluster_roles, cron_job, daemon_set, deployment, device_taint_eviction, disruption, endpoints, event_ttl, garbage,
    hollow_devices, job, kubelet, kubernetes_service, namespace, nodes, pod_gc, pool_upgrade, replica_set,
    resource_claim, root_certificate, scheduler, schedulers, service_account, service_cidrs, spot_eviction,
    stateful_set, taint_eviction, ttl_after_finished, volumes,
};

/// What there is to say of a controller.
pub(super) struct Row {
    controller: Controller,
    /// Its name, as `--controllers` of kube-controller-manager has it, without the ending `-controller`.
    name: &'static str,
    /// Whether it can be switched off. What makes a namespace what it is cannot.
    optional: bool,
    /// The kinds whose changes it sees; without any those of all kinds but events, the most frequent of all objects, which neither
    /// own nor are owned.
    watches: &'static [ResourceId],
    /// The kind for whose objects it makes others: when one of these changes, their controller by owner reference is
    /// looked at again.
    owner: Option<ResourceId>,
    /// Makes it.
    make: Make,
}

type Make = fn() -> Box<dyn Reconciler>;

macro_rules! table {
    ($($controller:ident = row($name:literal, $type:ty, [$($kind:ident),* $(,)?])$(.$with:ident($($argument:expr)?))*;)*) => {
        static TABLE: [Row; Controller::COUNT] = [$(Row {
            controller: Controller::$controller,
            name: $name,
            optional: true,
            watches: &[$(resource::$kind),*],
            owner: None,
            make: || Box::<$type>::default(),
        }$(.$with($($argument)?))*),*];
    };
}

impl Row {
    const fn of(self, owner: ResourceId) -> Self {
        Self { owner: Some(owner), ..self }
    }

    const fn made(self, make: Make) -> Self {
        Self { make, ..self }
    }

    const fn always(self) -> Self {
        Self { optional: false, ..self }
    }
}

table! {
    GarbageCollector = row("garbage-collector", garbage::GarbageCollector, []);
    ClusterRoleAggregation = row("clusterrole-aggregation", cluster_roles::ClusterRoles, [CLUSTER_ROLES]);
    CertificateApproving = row("certificatesigningrequest-approving", certificate_approval::CertificateApproving, [
        CERTIFICATE_SIGNING_REQUESTS,
    ]);
    CertificateSigning = row("certificatesigningrequest-signing", certificates::CertificateSigning, [
        CERTIFICATE_SIGNING_REQUESTS,
    ]);
    ServiceAccount = row("serviceaccount", service_account::ServiceAccounts, [NAMESPACES, SERVICE_ACCOUNTS]).always();
    AccountToken = row("serviceaccount-token", account_tokens::AccountTokens, [SECRETS, SERVICE_ACCOUNTS]);
    RootCertificatePublisher = row("root-ca-certificate-publisher", root_certificate::RootCertificates, [CONFIG_MAPS]);
    KubernetesService = row("kubernetes-service", kubernetes_service::KubernetesService, [SERVICES]).always();
    ServiceCidr = row("service-cidr", service_cidrs::ServiceCidrs, [SERVICE_CIDRS, SERVICES]);
    ApiServiceAvailability = row("apiservice-availability", api_services::ApiServices, [
        API_SERVICES, SERVICES, ENDPOINT_SLICES,
    ]);
    NodeLifecycle = row("node-lifecycle", nodes::NodeLifecycle, [NODES, PODS]);
    EphemeralVolume = row("ephemeral-volume", volumes::EphemeralVolumes, [PODS, PERSISTENT_VOLUME_CLAIMS]);
    PersistentVolumeBinder = row("persistentvolume-binder", volumes::Claims, [
        PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, PODS, STORAGE_CLASSES,
    ]);
    ClaimProtection = row("persistentvolumeclaim-protection", volumes::ClaimProtection, [
        PERSISTENT_VOLUME_CLAIMS, PODS,
    ]);
    VolumeProtection = row("persistentvolume-protection", volumes::VolumeProtection, [PERSISTENT_VOLUMES]);
    AttributesClassProtection = row("volumeattributesclass-protection", volumes::ClassProtection, [
        VOLUME_ATTRIBUTES_CLASSES, PERSISTENT_VOLUMES, PERSISTENT_VOLUME_CLAIMS,
    ]);
    TaintEviction = row("taint-eviction", taint_eviction::TaintEviction, [NODES, PODS]);
    DeviceTaintEviction = row("device-taint-eviction", device_taint_eviction::DeviceTaintEviction, [
        PODS, RESOURCE_CLAIMS, RESOURCE_SLICES,
    ]);
    PodGarbageCollector = row("pod-garbage-collector", pod_gc::PodGarbageCollector, [NODES, PODS]);
    HollowDevices = row("hollow-devices", hollow_devices::HollowDevices, [NODES, RESOURCE_SLICES]);
    ResourceClaim = row("resourceclaim", resource_claim::ResourceClaims, [
        PODS, RESOURCE_CLAIMS, RESOURCE_CLAIM_TEMPLATES,
    ]);
    Schedulers = row("schedulers", schedulers::Schedulers, []).always();
    Scheduler = row("kube-scheduler", scheduler::Scheduler, [
        NAMESPACES, NODES, PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, PODS, SERVICES, REPLICA_SETS, STATEFUL_SETS,
        REPLICATION_CONTROLLERS, POD_DISRUPTION_BUDGETS, STORAGE_CLASSES, CSI_NODES, CSI_STORAGE_CAPACITIES,
        DEVICE_CLASSES, RESOURCE_SLICES, RESOURCE_CLAIMS,
    ]);
    Kubelet = row("kubelet", kubelet::Kubelet, [
        NODES, PODS, RESOURCE_CLAIMS, CONTAINER_FILES, CONFIG_MAPS, SECRETS, SERVICES, ENDPOINT_SLICES,
    ]);
    DaemonSet = row("daemonset", daemon_set::DaemonSets, [DAEMON_SETS, PODS]).of(resource::DAEMON_SETS);
    StatefulSet = row("statefulset", stateful_set::StatefulSets, [
        STATEFUL_SETS, PODS, PERSISTENT_VOLUME_CLAIMS,
    ]).of(resource::STATEFUL_SETS);
    Job = row("job", job::Jobs, [JOBS, PODS]).of(resource::JOBS);
    TtlAfterFinished = row("ttl-after-finished", ttl_after_finished::TtlAfterFinished, [JOBS]);
    CronJob = row("cronjob", cron_job::CronJobs, [CRON_JOBS]).of(resource::CRON_JOBS);
    ReplicaSet = row("replicaset", replica_set::ReplicaSets, [REPLICA_SETS, PODS]).of(resource::REPLICA_SETS);
    ReplicationController = row("replicationcontroller", replica_set::ReplicaSets, [REPLICATION_CONTROLLERS, PODS])
        .of(resource::REPLICATION_CONTROLLERS).made(|| Box::new(replica_set::ReplicaSets::CONTROLLERS));
    Deployment = row("deployment", deployment::Deployments, [DEPLOYMENTS, REPLICA_SETS]).of(resource::DEPLOYMENTS);
    EndpointSlice = row("endpointslice", endpoints::Endpoints, [SERVICES, ENDPOINTS, ENDPOINT_SLICES, PODS]);
    EndpointSliceMirroring = row("endpointslice-mirroring", endpoints::Mirroring, [
        SERVICES, ENDPOINTS, ENDPOINT_SLICES,
    ]);
    Disruption = row("disruption", disruption::DisruptionBudgets, [
        POD_DISRUPTION_BUDGETS, DEPLOYMENTS, REPLICA_SETS, REPLICATION_CONTROLLERS, STATEFUL_SETS, PODS,
    ]);
    HorizontalPodAutoscaler = row("horizontal-pod-autoscaler", autoscaler::Autoscalers, [HORIZONTAL_POD_AUTOSCALERS]);
    ClusterAutoscaler = row("cluster-autoscaler", cluster_autoscaler::ClusterAutoscaler, [
        CONFIG_MAPS, NODES, PODS, POD_DISRUPTION_BUDGETS,
    ]);
    PoolUpgrade = row("pool-upgrade", pool_upgrade::PoolUpgrades, [CONFIG_MAPS, PODS]).always();
    SpotEviction = row("spot-eviction", spot_eviction::SpotEviction, [NODES]).always();
    Namespace = row("namespace", namespace::Namespaces, []);
    EventTtl = row("event-ttl", event_ttl::EventTtl, [EVENTS]).always();
    ApiSilence = row("api-silence", api_silence::ApiSilence, [NAMESPACES]).always();
}

// A controller is found by its number.
const _: () = {
    let mut at = 0;
    while at < Controller::COUNT {
        assert!(TABLE[at].controller as usize == at, "the rows are in the order of `Controller`");
        at += 1;
    }
};

impl Controller {
    fn row(self) -> &'static Row {
        &TABLE[self as usize]
    }

    /// Its name, as `--controllers` of kube-controller-manager has it, without the ending `-controller`.
    pub fn name(self) -> &'static str {
        self.row().name
    }

    /// Whether it can be switched off.
    pub fn is_optional(self) -> bool {
        self.row().optional
    }

    /// The component that it is a part of, where that can be stopped. Here kubelets register their nodes by way of the node
    /// lifecycle controller, which looks itself whether it runs.
    pub(super) fn component(self) -> Option<Component> {
        match self {
            Self::Scheduler => Some(Component::Scheduler),
            Self::Kubelet
            | Self::HollowDevices
            | Self::Schedulers
            | Self::NodeLifecycle
            | Self::ClusterAutoscaler
            | Self::PoolUpgrade
            | Self::SpotEviction
            | Self::KubernetesService
            | Self::ApiServiceAvailability
            | Self::EventTtl
            | Self::ApiSilence => None,
            _ => Some(Component::ControllerManager),
        }
    }

    fn watches(self, kind: ResourceId) -> bool {
        let watches = self.row().watches;
        if watches.is_empty() { kind != EVENTS } else { watches.contains(&kind) }
    }
}

/// All controllers, without any state; each at its number.
pub(super) fn make() -> [Box<dyn Reconciler>; Controller::COUNT] {
    TABLE.each_ref().map(|row| (row.make)())
}

/// The table read the other way round: whom a change concerns.
#[derive(Debug)]
pub(super) struct Concerned {
    /// By kind of the fixed table.
    watching: Vec<Vec<Controller>>,
    /// Those concerned by kinds that are defined at run time.
    watching_all: Vec<Controller>,
    /// By kind of an owner: who works for it.
    owners: Vec<(&'static str, Controller, ResourceId)>,
}

impl Concerned {
    pub(super) fn new() -> Self {
        let watching = |kind| Controller::ALL.iter().copied().filter(|it: &Controller| it.watches(kind)).collect();
        Self {
            watching: ResourceId::fixed().map(watching).collect(),
            watching_all: TABLE.iter().filter(|row| row.watches.is_empty()).map(|row| row.controller).collect(),
            owners: TABLE.iter().filter_map(|row| Some((row.owner?.row().kind, row.controller, row.owner?))).collect(),
        }
    }

    /// Those that see the changes of a kind.
    pub(super) fn by_kind(&self, kind: ResourceId) -> &[Controller] {
        self.watching.get(kind.0 as usize).unwrap_or(&self.watching_all)
    }

    /// Who works for owners of a kind, and the kind.
    pub(super) fn by_owner(&self, kind: &str) -> Option<(Controller, ResourceId)> {
        let found = self.owners.iter().find(|(owner, ..)| *owner == kind);
        found.map(|(_, controller, resource)| (*controller, *resource))
    }
}

/// The names of those that can be switched off, in alphabetical order.
fn names() -> Vec<&'static str> {
    let mut names: Vec<_> = TABLE.iter().filter(|row| row.optional).map(|row| row.name).collect();
    names.sort_unstable();
    names
}

/// A name that is no controller's, at least of none that can be switched off.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no controller `{name}`; there are: {}", names().join(", "))]
pub struct UnknownController {
    /// The name that was given.
    pub name: String,
}

impl FromStr for Controller {
    type Err = UnknownController;

    /// Takes the name with or without the ending `-controller`.
    fn from_str(name: &str) -> Result<Self, UnknownController> {
        let short = name.strip_suffix("-controller").unwrap_or(name);
        let found = TABLE.iter().find(|row| row.optional && row.name == short);
        found.map(|row| row.controller).ok_or_else(|| UnknownController { name: name.to_owned() })
    }
}

#[cfg(test)]
mod tests;
