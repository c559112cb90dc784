//! The one table of the kinds an embedded cluster serves.

/// A row of [`RESOURCES`], by index: cheap to copy, compare and use as a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ResourceId(pub u16);

/// One served resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resource {
    /// API group, empty for core.
    pub group: &'static str,
    /// API version inside the group, `v1`.
    pub version: &'static str,
    /// Kind, `Pod`.
    pub kind: &'static str,
    /// Plural name as in paths, `pods`.
    pub plural: &'static str,
    /// Whether objects live in a namespace.
    pub namespaced: bool,
}

macro_rules! resources {
    ($($(#[$doc:meta])* $id:ident = ($group:literal, $version:literal, $kind:literal, $plural:literal, $namespaced:literal);)*) => {
        /// Every kind the embedded cluster serves.
        pub const RESOURCES: &[Resource] = &[$(Resource {
            group: $group, version: $version, kind: $kind, plural: $plural, namespaced: $namespaced,
        }),*];
        resources!(@ids 0u16; $($id)*);
    };
    (@ids $n:expr; $id:ident $($rest:ident)*) => {
        #[doc = concat!("Row of [`RESOURCES`]: ", stringify!($id), ".")]
        pub const $id: ResourceId = ResourceId($n);
        resources!(@ids $n + 1; $($rest)*);
    };
    (@ids $n:expr;) => {};
}

resources! {
    NAMESPACES = ("", "v1", "Namespace", "namespaces", false);
    NODES = ("", "v1", "Node", "nodes", false);
    PODS = ("", "v1", "Pod", "pods", true);
    SERVICES = ("", "v1", "Service", "services", true);
    ENDPOINTS = ("", "v1", "Endpoints", "endpoints", true);
    CONFIG_MAPS = ("", "v1", "ConfigMap", "configmaps", true);
    SECRETS = ("", "v1", "Secret", "secrets", true);
    SERVICE_ACCOUNTS = ("", "v1", "ServiceAccount", "serviceaccounts", true);
    EVENTS = ("", "v1", "Event", "events", true);
    LIMIT_RANGES = ("", "v1", "LimitRange", "limitranges", true);
    RESOURCE_QUOTAS = ("", "v1", "ResourceQuota", "resourcequotas", true);
    PERSISTENT_VOLUMES = ("", "v1", "PersistentVolume", "persistentvolumes", false);
    PERSISTENT_VOLUME_CLAIMS = ("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims", true);
    REPLICATION_CONTROLLERS = ("", "v1", "ReplicationController", "replicationcontrollers", true);
    DEPLOYMENTS = ("apps", "v1", "Deployment", "deployments", true);
    REPLICA_SETS = ("apps", "v1", "ReplicaSet", "replicasets", true);
    DAEMON_SETS = ("apps", "v1", "DaemonSet", "daemonsets", true);
    STATEFUL_SETS = ("apps", "v1", "StatefulSet", "statefulsets", true);
    CONTROLLER_REVISIONS = ("apps", "v1", "ControllerRevision", "controllerrevisions", true);
    JOBS = ("batch", "v1", "Job", "jobs", true);
    CRON_JOBS = ("batch", "v1", "CronJob", "cronjobs", true);
    HORIZONTAL_POD_AUTOSCALERS = ("autoscaling", "v2", "HorizontalPodAutoscaler", "horizontalpodautoscalers", true);
    POD_DISRUPTION_BUDGETS = ("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets", true);
    PRIORITY_CLASSES = ("scheduling.k8s.io", "v1", "PriorityClass", "priorityclasses", false);
    STORAGE_CLASSES = ("storage.k8s.io", "v1", "StorageClass", "storageclasses", false);
    ROLES = ("rbac.authorization.k8s.io", "v1", "Role", "roles", true);
    ROLE_BINDINGS = ("rbac.authorization.k8s.io", "v1", "RoleBinding", "rolebindings", true);
    CLUSTER_ROLES = ("rbac.authorization.k8s.io", "v1", "ClusterRole", "clusterroles", false);
    CLUSTER_ROLE_BINDINGS = ("rbac.authorization.k8s.io", "v1", "ClusterRoleBinding", "clusterrolebindings", false);
    LEASES = ("coordination.k8s.io", "v1", "Lease", "leases", true);
    ENDPOINT_SLICES = ("discovery.k8s.io", "v1", "EndpointSlice", "endpointslices", true);
}

impl ResourceId {
    /// The row itself.
    pub fn row(self) -> &'static Resource {
        &RESOURCES[usize::from(self.0)]
    }

    /// The row whose path is `/apis/<group>/<version>/<plural>`.
    pub fn by_path(group: &str, version: &str, plural: &str) -> Option<Self> {
        Self::find(|row| row.group == group && row.version == version && row.plural == plural)
    }

    /// The row of an object's `apiVersion` and `kind`.
    pub fn by_kind(api_version: &str, kind: &str) -> Option<Self> {
        Self::find(|row| row.api_version() == api_version && row.kind == kind)
    }

    fn find(wanted: impl Fn(&Resource) -> bool) -> Option<Self> {
        RESOURCES.iter().position(wanted).and_then(|at| u16::try_from(at).ok()).map(Self)
    }
}

impl Resource {
    /// `v1`, `apps/v1`.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.to_owned() } else { format!("{}/{}", self.group, self.version) }
    }

    /// `pods`, `deployments.apps`: how error messages name the resource.
    pub fn qualified(&self) -> String {
        if self.group.is_empty() { self.plural.to_owned() } else { format!("{}.{}", self.plural, self.group) }
    }
}
