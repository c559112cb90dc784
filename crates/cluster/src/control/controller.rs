//! The controllers by identity, in the order in which due work is done: what pods need first, so that their owners then
//! count settled pods once instead of watching them settle one by one. The rows in `controllers` say what each is.

macro_rules! controllers {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// A part of the control plane that does work of its own.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Controller {
            $($(#[$doc])* $name,)*
        }

        impl Controller {
            /// All of them, in the order in which due work is done.
            pub const ALL: &[Self] = &[$(Self::$name),*];
            /// How many there are.
            pub(super) const COUNT: usize = Self::ALL.len();
        }
    };
}

controllers! {
    /// Deletes objects whose owners are gone.
    GarbageCollector,
    /// Makes the rules of aggregated ClusterRoles.
    ClusterRoleAggregation,
    /// Approves requests for the client certificates of kubelets.
    CertificateApproving,
    /// Signs certificate requests that are approved.
    CertificateSigning,
    /// Gives each namespace its service account `default`.
    ServiceAccount,
    /// Fills in Secrets that are to hold a token of a service account.
    AccountToken,
    /// Puts back the certificate by which the pods of a namespace know the API server.
    RootCertificatePublisher,
    /// Puts back the Service in front of the API server.
    KubernetesService,
    /// Keeps ranges of Services' addresses that are in use.
    ServiceCidr,
    /// Says of APIServices whether they are available.
    ApiServiceAvailability,
    /// Registers nodes, watches their heartbeats and taints them by condition.
    NodeLifecycle,
    /// Makes the claims of ephemeral volumes.
    EphemeralVolume,
    /// Binds PersistentVolumeClaims.
    PersistentVolumeBinder,
    /// Lets claims go that no pod uses.
    ClaimProtection,
    /// Lets volumes go that no claim is bound to.
    VolumeProtection,
    /// Lets classes of volumes' attributes go that no claim and no volume names.
    AttributesClassProtection,
    /// Evicts pods that do not tolerate a taint of their node.
    TaintEviction,
    /// Evicts pods that do not tolerate a taint of their devices.
    DeviceTaintEviction,
    /// Fails pods that are deleted and on no node that could end them.
    PodGarbageCollector,
    /// Publishes the devices of hollow nodes.
    HollowDevices,
    /// Makes ResourceClaims from templates, and takes back the devices of those that no pod uses.
    ResourceClaim,
    /// Keeps the profiles of the scheduler.
    Schedulers,
    /// Binds pods to nodes.
    Scheduler,
    /// Runs the pods that are bound to a node, and ends those that are deleted.
    Kubelet,
    /// Makes pods of DaemonSets.
    DaemonSet,
    /// Makes pods of StatefulSets.
    StatefulSet,
    /// Makes pods of Jobs.
    Job,
    /// Deletes finished Jobs whose time to live is over.
    TtlAfterFinished,
    /// Makes Jobs.
    CronJob,
    /// Makes pods of ReplicaSets.
    ReplicaSet,
    /// Makes pods of ReplicationControllers.
    ReplicationController,
    /// Makes ReplicaSets of Deployments.
    Deployment,
    /// Fills EndpointSlices and Endpoints of Services.
    EndpointSlice,
    /// Mirrors Endpoints that are kept by hand to EndpointSlices.
    EndpointSliceMirroring,
    /// Counts for PodDisruptionBudgets.
    Disruption,
    /// Scales for HorizontalPodAutoscalers.
    HorizontalPodAutoscaler,
    /// Lets pools of nodes grow and shrink.
    ClusterAutoscaler,
    /// Upgrades the nodes of pools, where a ConfigMap asks for that.
    PoolUpgrade,
    /// Takes spot machines back, where an annotation asks for that.
    SpotEviction,
    /// Empties namespaces that are deleted. Late, so that one is looked at once and not for each object that has gone.
    Namespace,
    /// Deletes events whose lifetime is over.
    EventTtl,
    /// Silences the API server for a while, where an annotation asks for that.
    ApiSilence,
}
