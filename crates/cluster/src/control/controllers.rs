//! The table of controllers: of each its name, what concerns it and how it is made. Their order is that of [`Controller`].

use std::str::FromStr;

use klab_api_machinery::resource::{
    API_SERVICES, CERTIFICATE_SIGNING_REQUESTS, CLUSTER_ROLES, CONFIG_MAPS, CONTAINER_FILES, CRON_JOBS, CSI_NODES,
    CSI_STORAGE_CAPACITIES, DAEMON_SETS, DEPLOYMENTS, DEVICE_CLASSES, ENDPOINT_SLICES, ENDPOINTS, EVENTS,
    HORIZONTAL_POD_AUTOSCALERS, JOBS, NAMESPACES, NODES, PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES,
    POD_DISRUPTION_BUDGETS, PODS, REPLICA_SETS, REPLICATION_CONTROLLERS, RESOURCE_CLAIM_TEMPLATES, RESOURCE_CLAIMS,
    RESOURCE_SLICES, ResourceId, SECRETS, SERVICE_ACCOUNTS, SERVICE_CIDRS, SERVICES, STATEFUL_SETS, STORAGE_CLASSES,
    VOLUME_ATTRIBUTES_CLASSES,
};

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
    /// The kinds whose changes it sees.
    watches: Watches,
    /// The kind for whose objects it makes others: when one of these changes, their controller by owner reference is
    /// looked at again.
    owner: Option<ResourceId>,
    /// Makes it.
    make: fn() -> Box<dyn Reconciler>,
}

/// Whose changes concern a controller.
enum Watches {
    /// Those of these kinds.
    Kinds(&'static [ResourceId]),
    /// Those of all kinds. Events, the most frequent of all objects, neither own nor are owned.
    AllButEvents,
}

static TABLE: [Row; Controller::COUNT] = [
    Row {
        controller: Controller::GarbageCollector,
        name: "garbage-collector",
        optional: true,
        watches: Watches::AllButEvents,
        owner: None,
        make: || Box::new(garbage::GarbageCollector),
    },
    Row {
        controller: Controller::ClusterRoleAggregation,
        name: "clusterrole-aggregation",
        optional: true,
        watches: Watches::Kinds(&[CLUSTER_ROLES]),
        owner: None,
        make: || Box::new(cluster_roles::ClusterRoles),
    },
    Row {
        controller: Controller::CertificateApproving,
        name: "certificatesigningrequest-approving",
        optional: true,
        watches: Watches::Kinds(&[CERTIFICATE_SIGNING_REQUESTS]),
        owner: None,
        make: || Box::new(certificate_approval::CertificateApproving),
    },
    Row {
        controller: Controller::CertificateSigning,
        name: "certificatesigningrequest-signing",
        optional: true,
        watches: Watches::Kinds(&[CERTIFICATE_SIGNING_REQUESTS]),
        owner: None,
        make: || Box::new(certificates::CertificateSigning),
    },
    Row {
        controller: Controller::ServiceAccount,
        name: "serviceaccount",
        optional: false,
        watches: Watches::Kinds(&[NAMESPACES, SERVICE_ACCOUNTS]),
        owner: None,
        make: || Box::new(service_account::ServiceAccounts),
    },
    Row {
        controller: Controller::AccountToken,
        name: "serviceaccount-token",
        optional: true,
        watches: Watches::Kinds(&[SECRETS, SERVICE_ACCOUNTS]),
        owner: None,
        make: || Box::<account_tokens::AccountTokens>::default(),
    },
    Row {
        controller: Controller::RootCertificatePublisher,
        name: "root-ca-certificate-publisher",
        optional: true,
        watches: Watches::Kinds(&[CONFIG_MAPS]),
        owner: None,
        make: || Box::new(root_certificate::RootCertificates),
    },
    Row {
        controller: Controller::KubernetesService,
        name: "kubernetes-service",
        optional: false,
        watches: Watches::Kinds(&[SERVICES]),
        owner: None,
        make: || Box::<kubernetes_service::KubernetesService>::default(),
    },
    Row {
        controller: Controller::ServiceCidr,
        name: "service-cidr",
        optional: true,
        watches: Watches::Kinds(&[SERVICE_CIDRS, SERVICES]),
        owner: None,
        make: || Box::<service_cidrs::ServiceCidrs>::default(),
    },
    Row {
        controller: Controller::ApiServiceAvailability,
        name: "apiservice-availability",
        optional: true,
        watches: Watches::Kinds(&[API_SERVICES, SERVICES, ENDPOINT_SLICES]),
        owner: None,
        make: || Box::<api_services::ApiServices>::default(),
    },
    Row {
        controller: Controller::NodeLifecycle,
        name: "node-lifecycle",
        optional: true,
        watches: Watches::Kinds(&[NODES, PODS]),
        owner: None,
        make: || Box::<nodes::NodeLifecycle>::default(),
    },
    Row {
        controller: Controller::EphemeralVolume,
        name: "ephemeral-volume",
        optional: true,
        watches: Watches::Kinds(&[PODS, PERSISTENT_VOLUME_CLAIMS]),
        owner: None,
        make: || Box::new(volumes::EphemeralVolumes),
    },
    Row {
        controller: Controller::PersistentVolumeBinder,
        name: "persistentvolume-binder",
        optional: true,
        watches: Watches::Kinds(&[PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, PODS, STORAGE_CLASSES]),
        owner: None,
        make: || Box::<volumes::Claims>::default(),
    },
    Row {
        controller: Controller::ClaimProtection,
        name: "persistentvolumeclaim-protection",
        optional: true,
        watches: Watches::Kinds(&[PERSISTENT_VOLUME_CLAIMS, PODS]),
        owner: None,
        make: || Box::<volumes::ClaimProtection>::default(),
    },
    Row {
        controller: Controller::VolumeProtection,
        name: "persistentvolume-protection",
        optional: true,
        watches: Watches::Kinds(&[PERSISTENT_VOLUMES]),
        owner: None,
        make: || Box::new(volumes::VolumeProtection),
    },
    Row {
        controller: Controller::AttributesClassProtection,
        name: "volumeattributesclass-protection",
        optional: true,
        watches: Watches::Kinds(&[VOLUME_ATTRIBUTES_CLASSES, PERSISTENT_VOLUMES, PERSISTENT_VOLUME_CLAIMS]),
        owner: None,
        make: || Box::<volumes::ClassProtection>::default(),
    },
    Row {
        controller: Controller::TaintEviction,
        name: "taint-eviction",
        optional: true,
        watches: Watches::Kinds(&[NODES, PODS]),
        owner: None,
        make: || Box::<taint_eviction::TaintEviction>::default(),
    },
    Row {
        controller: Controller::DeviceTaintEviction,
        name: "device-taint-eviction",
        optional: true,
        watches: Watches::Kinds(&[PODS, RESOURCE_CLAIMS, RESOURCE_SLICES]),
        owner: None,
        make: || Box::<device_taint_eviction::DeviceTaintEviction>::default(),
    },
    Row {
        controller: Controller::PodGarbageCollector,
        name: "pod-garbage-collector",
        optional: true,
        watches: Watches::Kinds(&[NODES, PODS]),
        owner: None,
        make: || Box::new(pod_gc::PodGarbageCollector),
    },
    Row {
        controller: Controller::HollowDevices,
        name: "hollow-devices",
        optional: true,
        watches: Watches::Kinds(&[NODES, RESOURCE_SLICES]),
        owner: None,
        make: || Box::new(hollow_devices::HollowDevices),
    },
    Row {
        controller: Controller::ResourceClaim,
        name: "resourceclaim",
        optional: true,
        watches: Watches::Kinds(&[PODS, RESOURCE_CLAIMS, RESOURCE_CLAIM_TEMPLATES]),
        owner: None,
        make: || Box::new(resource_claim::ResourceClaims),
    },
    Row {
        controller: Controller::Schedulers,
        name: "schedulers",
        optional: false,
        watches: Watches::AllButEvents,
        owner: None,
        make: || Box::<schedulers::Schedulers>::default(),
    },
    Row {
        controller: Controller::Scheduler,
        name: "kube-scheduler",
        optional: true,
        watches: Watches::Kinds(&[
            NAMESPACES,
            NODES,
            PERSISTENT_VOLUME_CLAIMS,
            PERSISTENT_VOLUMES,
            PODS,
            SERVICES,
            REPLICA_SETS,
            STATEFUL_SETS,
            REPLICATION_CONTROLLERS,
            POD_DISRUPTION_BUDGETS,
            STORAGE_CLASSES,
            CSI_NODES,
            CSI_STORAGE_CAPACITIES,
            DEVICE_CLASSES,
            RESOURCE_SLICES,
            RESOURCE_CLAIMS,
        ]),
        owner: None,
        make: || Box::<scheduler::Scheduler>::default(),
    },
    Row {
        controller: Controller::Kubelet,
        name: "kubelet",
        optional: true,
        watches: Watches::Kinds(&[
            NODES,
            PODS,
            RESOURCE_CLAIMS,
            CONTAINER_FILES,
            CONFIG_MAPS,
            SECRETS,
            SERVICES,
            ENDPOINT_SLICES,
        ]),
        owner: None,
        make: || Box::<kubelet::Kubelet>::default(),
    },
    Row {
        controller: Controller::DaemonSet,
        name: "daemonset",
        optional: true,
        watches: Watches::Kinds(&[DAEMON_SETS, PODS]),
        owner: Some(DAEMON_SETS),
        make: || Box::new(daemon_set::DaemonSets),
    },
    Row {
        controller: Controller::StatefulSet,
        name: "statefulset",
        optional: true,
        watches: Watches::Kinds(&[STATEFUL_SETS, PODS, PERSISTENT_VOLUME_CLAIMS]),
        owner: Some(STATEFUL_SETS),
        make: || Box::new(stateful_set::StatefulSets),
    },
    Row {
        controller: Controller::Job,
        name: "job",
        optional: true,
        watches: Watches::Kinds(&[JOBS, PODS]),
        owner: Some(JOBS),
        make: || Box::<job::Jobs>::default(),
    },
    Row {
        controller: Controller::TtlAfterFinished,
        name: "ttl-after-finished",
        optional: true,
        watches: Watches::Kinds(&[JOBS]),
        owner: None,
        make: || Box::new(ttl_after_finished::TtlAfterFinished),
    },
    Row {
        controller: Controller::CronJob,
        name: "cronjob",
        optional: true,
        watches: Watches::Kinds(&[CRON_JOBS]),
        owner: Some(CRON_JOBS),
        make: || Box::new(cron_job::CronJobs),
    },
    Row {
        controller: Controller::ReplicaSet,
        name: "replicaset",
        optional: true,
        watches: Watches::Kinds(&[REPLICA_SETS, PODS]),
        owner: Some(REPLICA_SETS),
        make: || Box::new(replica_set::ReplicaSets::SETS),
    },
    Row {
        controller: Controller::ReplicationController,
        name: "replicationcontroller",
        optional: true,
        watches: Watches::Kinds(&[REPLICATION_CONTROLLERS, PODS]),
        owner: Some(REPLICATION_CONTROLLERS),
        make: || Box::new(replica_set::ReplicaSets::CONTROLLERS),
    },
    Row {
        controller: Controller::Deployment,
        name: "deployment",
        optional: true,
        watches: Watches::Kinds(&[DEPLOYMENTS, REPLICA_SETS]),
        owner: Some(DEPLOYMENTS),
        make: || Box::new(deployment::Deployments),
    },
    Row {
        controller: Controller::EndpointSlice,
        name: "endpointslice",
        optional: true,
        watches: Watches::Kinds(&[SERVICES, ENDPOINTS, ENDPOINT_SLICES, PODS]),
        owner: None,
        make: || Box::<endpoints::Endpoints>::default(),
    },
    Row {
        controller: Controller::EndpointSliceMirroring,
        name: "endpointslice-mirroring",
        optional: true,
        watches: Watches::Kinds(&[SERVICES, ENDPOINTS, ENDPOINT_SLICES]),
        owner: None,
        make: || Box::new(endpoints::Mirroring),
    },
    Row {
        controller: Controller::Disruption,
        name: "disruption",
        optional: true,
        watches: Watches::Kinds(&[
            POD_DISRUPTION_BUDGETS,
            DEPLOYMENTS,
            REPLICA_SETS,
            REPLICATION_CONTROLLERS,
            STATEFUL_SETS,
            PODS,
        ]),
        owner: None,
        make: || Box::new(disruption::DisruptionBudgets),
    },
    Row {
        controller: Controller::HorizontalPodAutoscaler,
        name: "horizontal-pod-autoscaler",
        optional: true,
        watches: Watches::Kinds(&[HORIZONTAL_POD_AUTOSCALERS]),
        owner: None,
        make: || Box::<autoscaler::Autoscalers>::default(),
    },
    Row {
        controller: Controller::ClusterAutoscaler,
        name: "cluster-autoscaler",
        optional: true,
        watches: Watches::Kinds(&[CONFIG_MAPS, NODES, PODS, POD_DISRUPTION_BUDGETS]),
        owner: None,
        make: || Box::<cluster_autoscaler::ClusterAutoscaler>::default(),
    },
    Row {
        controller: Controller::PoolUpgrade,
        name: "pool-upgrade",
        optional: false,
        watches: Watches::Kinds(&[CONFIG_MAPS, PODS]),
        owner: None,
        make: || Box::<pool_upgrade::PoolUpgrades>::default(),
    },
    Row {
        controller: Controller::SpotEviction,
        name: "spot-eviction",
        optional: false,
        watches: Watches::Kinds(&[NODES]),
        owner: None,
        make: || Box::new(spot_eviction::SpotEviction),
    },
    Row {
        controller: Controller::Namespace,
        name: "namespace",
        optional: true,
        watches: Watches::AllButEvents,
        owner: None,
        make: || Box::new(namespace::Namespaces),
    },
    Row {
        controller: Controller::EventTtl,
        name: "event-ttl",
        optional: false,
        watches: Watches::Kinds(&[EVENTS]),
        owner: None,
        make: || Box::new(event_ttl::EventTtl),
    },
    Row {
        controller: Controller::ApiSilence,
        name: "api-silence",
        optional: false,
        watches: Watches::Kinds(&[NAMESPACES]),
        owner: None,
        make: || Box::<api_silence::ApiSilence>::default(),
    },
];

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
        match self.row().watches {
            Watches::Kinds(kinds) => kinds.contains(&kind),
            Watches::AllButEvents => kind != EVENTS,
        }
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
        let all = |row: &&Row| matches!(row.watches, Watches::AllButEvents);
        Self {
            watching: ResourceId::fixed().map(watching).collect(),
            watching_all: TABLE.iter().filter(all).map(|row| row.controller).collect(),
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
