//! The one table of the kinds an embedded cluster serves.

use std::collections::HashMap;
use std::sync::{LazyLock, PoisonError, RwLock};

/// A row of [`RESOURCES`], by index: cheap to copy, compare and use as a key.
///
/// Indices beyond the table are kinds defined at run time by CustomResourceDefinitions ([`ResourceId::define`]). They
/// are good for this process only, so whatever is written to disk names group, version and kind instead; and they say
/// only what a kind is called, because the clusters of a process may define it differently. What else a definition
/// says is asked of the cluster that has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ResourceId(pub u32);

/// One served resource.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
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
    /// What kubectl users type, `po`.
    pub short_names: &'static [&'static str],
    /// Groups of resources that kubectl knows by one name, `all`.
    pub categories: &'static [&'static str],
    /// Verbs as discovery lists them.
    pub verbs: &'static [&'static str],
    /// Subresources as discovery lists them.
    pub subresources: &'static [Subresource],
    /// For a second version of a kind (autoscaling/v1) or a second group (events.k8s.io): where its objects really are.
    pub stored_as: Option<ResourceId>,
    /// Whether a CustomResourceDefinition defined it.
    pub custom: bool,
    /// Of a kind defined at run time: which of its versions stands for all of them.
    pub family: Option<ResourceId>,
}

/// `status`, `scale`, `binding`, …
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Subresource {
    /// Last part of the path.
    pub name: &'static str,
    /// Group and version of the kind where it is not the resource's own.
    pub group_version: Option<(&'static str, &'static str)>,
    /// Kind that is sent and answered; empty for the resource's own.
    pub kind: &'static str,
    /// Verbs as discovery lists them.
    pub verbs: &'static [&'static str],
}

/// All verbs: what nearly every stored kind has.
pub const ALL_VERBS: &[&str] = &["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];
const NO_COLLECTION: &[&str] = &["create", "delete", "get", "list", "patch", "update", "watch"];
const READ: &[&str] = &["get", "list"];
const CREATE: &[&str] = &["create"];
const CHANGE: &[&str] = &["get", "patch", "update"];

const fn own(name: &'static str, verbs: &'static [&'static str]) -> Subresource {
    Subresource { name, group_version: None, kind: "", verbs }
}

const fn other(name: &'static str, kind: &'static str, verbs: &'static [&'static str]) -> Subresource {
    Subresource { name, group_version: None, kind, verbs }
}

const STATUS: Subresource = own("status", CHANGE);
const SCALE: Subresource =
    Subresource { name: "scale", group_version: Some(("autoscaling", "v1")), kind: "Scale", verbs: CHANGE };
const PROXY: &[&str] = &["create", "delete", "get", "patch", "update"];
const STREAM: &[&str] = &["create", "get"];

/// Subresource list of a kind with only `status`.
pub const ONLY_STATUS: &[Subresource] = &[STATUS];
const SCALE_AND_STATUS: &[Subresource] = &[SCALE, STATUS];
const ONLY_SCALE: &[Subresource] = &[SCALE];

/// Subresource list of a custom resource.
pub fn custom_parts(scale: bool, status: bool) -> &'static [Subresource] {
    match (scale, status) {
        (true, true) => SCALE_AND_STATUS,
        (true, false) => ONLY_SCALE,
        (false, true) => ONLY_STATUS,
        (false, false) => &[],
    }
}

const NAMESPACE_PARTS: &[Subresource] = &[own("finalize", &["update"]), STATUS];
const NODE_PARTS: &[Subresource] = &[other("proxy", "NodeProxyOptions", PROXY), STATUS];
const SERVICE_PARTS: &[Subresource] = &[other("proxy", "ServiceProxyOptions", PROXY), STATUS];
const ACCOUNT_PARTS: &[Subresource] = &[Subresource {
    name: "token",
    group_version: Some(("authentication.k8s.io", "v1")),
    kind: "TokenRequest",
    verbs: CREATE,
}];
const POD_PARTS: &[Subresource] = &[
    other("attach", "PodAttachOptions", STREAM),
    other("binding", "Binding", CREATE),
    own("ephemeralcontainers", CHANGE),
    Subresource { name: "eviction", group_version: Some(("policy", "v1")), kind: "Eviction", verbs: CREATE },
    other("exec", "PodExecOptions", STREAM),
    own("log", &["get"]),
    other("portforward", "PodPortForwardOptions", STREAM),
    other("proxy", "PodProxyOptions", PROXY),
    own("resize", CHANGE),
    STATUS,
];
const SIGNING_PARTS: &[Subresource] = &[own("approval", CHANGE), STATUS];

macro_rules! resources {
    ($($(#[$doc:meta])* $id:ident = $scope:ident($group:literal, $version:literal, $kind:literal, $plural:literal) $(. $with:ident ( $($argument:expr),* ))*;)*) => {
        /// Every kind the embedded cluster serves, in the order discovery lists them; and what it keeps beside them, whose kinds
        /// have no verbs.
        pub const RESOURCES: &[Resource] = &[$($scope($group, $version, $kind, $plural)$(.$with($($argument),*))*),*];
        resources!(@ids 0u32; $($id)*);
    };
    (@ids $n:expr; $id:ident $($rest:ident)*) => {
        #[doc = concat!("Row of [`RESOURCES`]: ", stringify!($id), ".")]
        pub const $id: ResourceId = ResourceId($n);
        resources!(@ids $n + 1; $($rest)*);
    };
    (@ids $n:expr;) => {};
}

resources! {
    BINDINGS = namespaced("", "v1", "Binding", "bindings").verbs(CREATE);
    COMPONENT_STATUSES = global("", "v1", "ComponentStatus", "componentstatuses").short(&["cs"]).verbs(READ);
    CONFIG_MAPS = namespaced("", "v1", "ConfigMap", "configmaps").short(&["cm"]);
    ENDPOINTS = namespaced("", "v1", "Endpoints", "endpoints").short(&["ep"]);
    EVENTS = namespaced("", "v1", "Event", "events").short(&["ev"]);
    LIMIT_RANGES = namespaced("", "v1", "LimitRange", "limitranges").short(&["limits"]);
    NAMESPACES = global("", "v1", "Namespace", "namespaces").short(&["ns"]).verbs(NO_COLLECTION).parts(NAMESPACE_PARTS);
    NODES = global("", "v1", "Node", "nodes").short(&["no"]).parts(NODE_PARTS);
    PERSISTENT_VOLUME_CLAIMS = namespaced("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims").short(&["pvc"]).parts(ONLY_STATUS);
    PERSISTENT_VOLUMES = global("", "v1", "PersistentVolume", "persistentvolumes").short(&["pv"]).parts(ONLY_STATUS);
    PODS = namespaced("", "v1", "Pod", "pods").short(&["po"]).all().parts(POD_PARTS);
    POD_TEMPLATES = namespaced("", "v1", "PodTemplate", "podtemplates");
    REPLICATION_CONTROLLERS = namespaced("", "v1", "ReplicationController", "replicationcontrollers").short(&["rc"]).all().parts(SCALE_AND_STATUS);
    RESOURCE_QUOTAS = namespaced("", "v1", "ResourceQuota", "resourcequotas").short(&["quota"]).parts(ONLY_STATUS);
    SECRETS = namespaced("", "v1", "Secret", "secrets");
    SERVICE_ACCOUNTS = namespaced("", "v1", "ServiceAccount", "serviceaccounts").short(&["sa"]).parts(ACCOUNT_PARTS);
    SERVICES = namespaced("", "v1", "Service", "services").short(&["svc"]).all().parts(SERVICE_PARTS);
    API_SERVICES = global("apiregistration.k8s.io", "v1", "APIService", "apiservices").extension().parts(ONLY_STATUS);
    CONTROLLER_REVISIONS = namespaced("apps", "v1", "ControllerRevision", "controllerrevisions");
    DAEMON_SETS = namespaced("apps", "v1", "DaemonSet", "daemonsets").short(&["ds"]).all().parts(ONLY_STATUS);
    DEPLOYMENTS = namespaced("apps", "v1", "Deployment", "deployments").short(&["deploy"]).all().parts(SCALE_AND_STATUS);
    REPLICA_SETS = namespaced("apps", "v1", "ReplicaSet", "replicasets").short(&["rs"]).all().parts(SCALE_AND_STATUS);
    STATEFUL_SETS = namespaced("apps", "v1", "StatefulSet", "statefulsets").short(&["sts"]).all().parts(SCALE_AND_STATUS);
    GROUPED_EVENTS = namespaced("events.k8s.io", "v1", "Event", "events").short(&["ev"]).stored_as(EVENTS);
    SELF_SUBJECT_REVIEWS = global("authentication.k8s.io", "v1", "SelfSubjectReview", "selfsubjectreviews").verbs(CREATE);
    TOKEN_REVIEWS = global("authentication.k8s.io", "v1", "TokenReview", "tokenreviews").verbs(CREATE);
    LOCAL_SUBJECT_ACCESS_REVIEWS = namespaced("authorization.k8s.io", "v1", "LocalSubjectAccessReview", "localsubjectaccessreviews").verbs(CREATE);
    SELF_SUBJECT_ACCESS_REVIEWS = global("authorization.k8s.io", "v1", "SelfSubjectAccessReview", "selfsubjectaccessreviews").verbs(CREATE);
    SELF_SUBJECT_RULES_REVIEWS = global("authorization.k8s.io", "v1", "SelfSubjectRulesReview", "selfsubjectrulesreviews").verbs(CREATE);
    SUBJECT_ACCESS_REVIEWS = global("authorization.k8s.io", "v1", "SubjectAccessReview", "subjectaccessreviews").verbs(CREATE);
    HORIZONTAL_POD_AUTOSCALERS = namespaced("autoscaling", "v2", "HorizontalPodAutoscaler", "horizontalpodautoscalers").short(&["hpa"]).all().parts(ONLY_STATUS);
    HORIZONTAL_POD_AUTOSCALERS_V1 = namespaced("autoscaling", "v1", "HorizontalPodAutoscaler", "horizontalpodautoscalers").short(&["hpa"]).all().parts(ONLY_STATUS).stored_as(HORIZONTAL_POD_AUTOSCALERS);
    CRON_JOBS = namespaced("batch", "v1", "CronJob", "cronjobs").short(&["cj"]).all().parts(ONLY_STATUS);
    JOBS = namespaced("batch", "v1", "Job", "jobs").all().parts(ONLY_STATUS);
    CERTIFICATE_SIGNING_REQUESTS = global("certificates.k8s.io", "v1", "CertificateSigningRequest", "certificatesigningrequests").short(&["csr"]).parts(SIGNING_PARTS);
    INGRESS_CLASSES = global("networking.k8s.io", "v1", "IngressClass", "ingressclasses");
    INGRESSES = namespaced("networking.k8s.io", "v1", "Ingress", "ingresses").short(&["ing"]).parts(ONLY_STATUS);
    IP_ADDRESSES = global("networking.k8s.io", "v1", "IPAddress", "ipaddresses").short(&["ip"]);
    NETWORK_POLICIES = namespaced("networking.k8s.io", "v1", "NetworkPolicy", "networkpolicies").short(&["netpol"]);
    SERVICE_CIDRS = global("networking.k8s.io", "v1", "ServiceCIDR", "servicecidrs").parts(ONLY_STATUS);
    POD_DISRUPTION_BUDGETS = namespaced("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets").short(&["pdb"]).parts(ONLY_STATUS);
    CLUSTER_ROLE_BINDINGS = global("rbac.authorization.k8s.io", "v1", "ClusterRoleBinding", "clusterrolebindings");
    CLUSTER_ROLES = global("rbac.authorization.k8s.io", "v1", "ClusterRole", "clusterroles");
    ROLE_BINDINGS = namespaced("rbac.authorization.k8s.io", "v1", "RoleBinding", "rolebindings");
    ROLES = namespaced("rbac.authorization.k8s.io", "v1", "Role", "roles");
    CSI_DRIVERS = global("storage.k8s.io", "v1", "CSIDriver", "csidrivers");
    CSI_NODES = global("storage.k8s.io", "v1", "CSINode", "csinodes");
    CSI_STORAGE_CAPACITIES = namespaced("storage.k8s.io", "v1", "CSIStorageCapacity", "csistoragecapacities");
    STORAGE_CLASSES = global("storage.k8s.io", "v1", "StorageClass", "storageclasses").short(&["sc"]);
    VOLUME_ATTACHMENTS = global("storage.k8s.io", "v1", "VolumeAttachment", "volumeattachments").parts(ONLY_STATUS);
    VOLUME_ATTRIBUTES_CLASSES = global("storage.k8s.io", "v1", "VolumeAttributesClass", "volumeattributesclasses").short(&["vac"]);
    MUTATING_ADMISSION_POLICIES = global("admissionregistration.k8s.io", "v1", "MutatingAdmissionPolicy", "mutatingadmissionpolicies").extension();
    MUTATING_ADMISSION_POLICY_BINDINGS = global("admissionregistration.k8s.io", "v1", "MutatingAdmissionPolicyBinding", "mutatingadmissionpolicybindings").extension();
    MUTATING_WEBHOOK_CONFIGURATIONS = global("admissionregistration.k8s.io", "v1", "MutatingWebhookConfiguration", "mutatingwebhookconfigurations").extension();
    VALIDATING_ADMISSION_POLICIES = global("admissionregistration.k8s.io", "v1", "ValidatingAdmissionPolicy", "validatingadmissionpolicies").extension().parts(ONLY_STATUS);
    VALIDATING_ADMISSION_POLICY_BINDINGS = global("admissionregistration.k8s.io", "v1", "ValidatingAdmissionPolicyBinding", "validatingadmissionpolicybindings").extension();
    VALIDATING_WEBHOOK_CONFIGURATIONS = global("admissionregistration.k8s.io", "v1", "ValidatingWebhookConfiguration", "validatingwebhookconfigurations").extension();
    CUSTOM_RESOURCE_DEFINITIONS = global("apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions").short(&["crd", "crds"]).extension().parts(ONLY_STATUS);
    PRIORITY_CLASSES = global("scheduling.k8s.io", "v1", "PriorityClass", "priorityclasses").short(&["pc"]);
    LEASES = namespaced("coordination.k8s.io", "v1", "Lease", "leases");
    RUNTIME_CLASSES = global("node.k8s.io", "v1", "RuntimeClass", "runtimeclasses");
    ENDPOINT_SLICES = namespaced("discovery.k8s.io", "v1", "EndpointSlice", "endpointslices");
    DEVICE_CLASSES = global("resource.k8s.io", "v1", "DeviceClass", "deviceclasses");
    RESOURCE_CLAIMS = namespaced("resource.k8s.io", "v1", "ResourceClaim", "resourceclaims").parts(ONLY_STATUS);
    RESOURCE_CLAIM_TEMPLATES = namespaced("resource.k8s.io", "v1", "ResourceClaimTemplate", "resourceclaimtemplates");
    RESOURCE_SLICES = global("resource.k8s.io", "v1", "ResourceSlice", "resourceslices");
    FLOW_SCHEMAS = global("flowcontrol.apiserver.k8s.io", "v1", "FlowSchema", "flowschemas").parts(ONLY_STATUS);
    PRIORITY_LEVEL_CONFIGURATIONS = global("flowcontrol.apiserver.k8s.io", "v1", "PriorityLevelConfiguration", "prioritylevelconfigurations").parts(ONLY_STATUS);
    // What executed commands have done to the files of a pod's containers. No client sees them; no definition can have this version.
    CONTAINER_FILES = namespaced("internal.klab.dev", "1", "ContainerFiles", "containerfiles").verbs(&[]);
}

/// Kinds that CustomResourceDefinitions brought in, in any cluster of this process. Rows are never taken out: an id
/// stays good, and defining the same kind again, there or elsewhere, finds its row. How many a cluster may bring in is
/// its own matter (the limits of `cluster`), so that none of them uses up what others need.
static DEFINED: LazyLock<RwLock<Defined>> = LazyLock::new(RwLock::default);

#[derive(Default)]
struct Defined {
    rows: Vec<&'static Resource>,
    ids: HashMap<CustomName<'static>, ResourceId>,
    /// The first version that was defined of each kind, by its name without the version.
    families: HashMap<CustomName<'static>, ResourceId>,
}

const fn namespaced(group: &'static str, version: &'static str, kind: &'static str, plural: &'static str) -> Resource {
    Resource { namespaced: true, ..global(group, version, kind, plural) }
}

const fn global(group: &'static str, version: &'static str, kind: &'static str, plural: &'static str) -> Resource {
    Resource {
        group,
        version,
        kind,
        plural,
        namespaced: false,
        short_names: &[],
        categories: &[],
        verbs: ALL_VERBS,
        subresources: &[],
        stored_as: None,
        custom: false,
        family: None,
    }
}

impl Resource {
    /// What API servers say of a body of this kind's path that names another kind.
    pub fn not_of(&self, version: &str, kind: &str) -> String {
        if ResourceId::by_kind(version, kind).is_some() {
            let group = self.group.split('.').next().filter(|group| !group.is_empty()).unwrap_or("core");
            format!("converting (v1.{kind}) to ({group}.{}): unknown conversion", self.kind)
        } else {
            format!(
                "no kind \"{kind}\" is registered for version \"{version}\" in scheme \"pkg/api/legacyscheme/scheme.go:30\""
            )
        }
    }

    const fn short(mut self, names: &'static [&'static str]) -> Self {
        self.short_names = names;
        self
    }

    const fn all(mut self) -> Self {
        self.categories = &["all"];
        self
    }

    const fn extension(mut self) -> Self {
        self.categories = &["api-extensions"];
        self
    }

    const fn verbs(mut self, verbs: &'static [&'static str]) -> Self {
        self.verbs = verbs;
        self
    }

    const fn parts(mut self, subresources: &'static [Subresource]) -> Self {
        self.subresources = subresources;
        self
    }

    const fn stored_as(mut self, stored: ResourceId) -> Self {
        self.stored_as = Some(stored);
        self
    }

    /// `v1`, `apps/v1`.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.to_owned() } else { format!("{}/{}", self.group, self.version) }
    }

    /// `pods`, `deployments.apps`: how error messages name the resource.
    pub fn qualified(&self) -> String {
        if self.group.is_empty() { self.plural.to_owned() } else { format!("{}.{}", self.plural, self.group) }
    }

    /// `pod`, `endpoints`: the singular name kubectl accepts.
    pub fn singular(&self) -> String {
        self.kind.to_ascii_lowercase()
    }

    /// The subresource of that name.
    pub fn subresource(&self, name: &str) -> Option<&'static Subresource> {
        self.subresources.iter().find(|subresource| subresource.name == name)
    }

    /// Whether `status` is written through its own path only.
    pub fn has_status(&self) -> bool {
        self.subresource("status").is_some()
    }

    /// Whether clients know of the kind.
    pub fn is_served(&self) -> bool {
        !self.verbs.is_empty()
    }

    /// Whether clients write objects of this kind; reviews and bindings are only ever posted.
    pub fn is_stored(&self) -> bool {
        self.verbs.contains(&"update")
    }
}

/// The kinds that clients know of, in the order discovery lists them.
pub fn served() -> impl Iterator<Item = &'static Resource> {
    RESOURCES.iter().filter(|row| row.is_served())
}

impl ResourceId {
    /// The row itself.
    pub fn row(self) -> &'static Resource {
        let at = self.0 as usize;
        RESOURCES.get(at).unwrap_or_else(|| {
            let defined = DEFINED.read().unwrap_or_else(PoisonError::into_inner);
            defined.rows.get(at - RESOURCES.len()).copied().unwrap_or(&RESOURCES[0])
        })
    }

    /// What stands for all versions of a kind defined at run time, whose objects are the same; of others the kind itself.
    pub fn family(self) -> Self {
        self.row().family.unwrap_or(self)
    }

    /// The row of the fixed table whose path is `/apis/<group>/<version>/<plural>`.
    pub fn by_path(group: &str, version: &str, plural: &str) -> Option<Self> {
        Self::find(|row| row.is_served() && row.group == group && row.version == version && row.plural == plural)
    }

    /// The row of the fixed table with an object's `apiVersion` and `kind`.
    pub fn by_kind(api_version: &str, kind: &str) -> Option<Self> {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        Self::find(|row| row.kind == kind && row.group == group && row.version == version)
    }

    /// The row of a kind defined at run time: found, or added.
    pub fn define(name: &CustomName<'_>) -> Self {
        if let Some(found) = Self::defined(name) {
            return found;
        }
        let mut defined = DEFINED.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = defined.ids.get(name) {
            return *found;
        }
        let keep = |text: &str| -> &'static str { Box::leak(text.into()) };
        // Four thousand million rows do not fit into any memory.
        let id = Self((RESOURCES.len() + defined.rows.len()) as u32);
        let family = defined.families.get(&name.without_version()).copied().unwrap_or(id);
        let row: &'static Resource = Box::leak(Box::new(Resource {
            namespaced: name.namespaced,
            custom: true,
            family: Some(family),
            ..global(keep(name.group), keep(name.version), keep(name.kind), keep(name.plural))
        }));
        defined.rows.push(row);
        defined.ids.insert(CustomName::of(row), id);
        defined.families.entry(CustomName::of(row).without_version()).or_insert(id);
        id
    }

    /// The row of a kind defined at run time, if it has been.
    pub fn defined(name: &CustomName<'_>) -> Option<Self> {
        DEFINED.read().unwrap_or_else(PoisonError::into_inner).ids.get(name).copied()
    }

    /// All rows of the fixed table.
    pub fn fixed() -> impl Iterator<Item = Self> {
        (0..RESOURCES.len()).filter_map(|at| u32::try_from(at).ok()).map(Self)
    }

    fn find(wanted: impl Fn(&Resource) -> bool) -> Option<Self> {
        RESOURCES.iter().position(wanted).and_then(|at| u32::try_from(at).ok()).map(Self)
    }
}

/// What a kind defined at run time is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct CustomName<'a> {
    /// API group.
    pub group: &'a str,
    /// API version inside the group.
    pub version: &'a str,
    /// Kind.
    pub kind: &'a str,
    /// Plural name as in paths.
    pub plural: &'a str,
    /// Whether objects live in a namespace.
    pub namespaced: bool,
}

impl CustomName<'_> {
    fn without_version(self) -> Self {
        Self { version: "", ..self }
    }
}

impl CustomName<'static> {
    /// Of a row.
    pub fn of(row: &'static Resource) -> Self {
        let Resource { group, version, kind, plural, namespaced, .. } = *row;
        Self { group, version, kind, plural, namespaced }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_the_rows_they_name() {
        assert_eq!(PODS.row().kind, "Pod");
        assert_eq!(PRIORITY_LEVEL_CONFIGURATIONS.row().plural, "prioritylevelconfigurations");
        assert_eq!(ResourceId::by_path("apps", "v1", "deployments"), Some(DEPLOYMENTS));
        assert_eq!(ResourceId::by_kind("events.k8s.io/v1", "Event"), Some(GROUPED_EVENTS));
        assert_eq!(HORIZONTAL_POD_AUTOSCALERS_V1.row().stored_as, Some(HORIZONTAL_POD_AUTOSCALERS));
    }

    #[test]
    fn no_path_is_listed_twice() {
        let mut paths: Vec<_> = RESOURCES.iter().map(|row| (row.group, row.version, row.plural)).collect();
        paths.sort_unstable();
        let listed = paths.len();
        paths.dedup();
        assert_eq!(paths.len(), listed);
    }

    #[test]
    fn a_kind_defined_twice_is_one_row_and_with_another_scope_another() {
        let widget =
            CustomName { group: "table.example", version: "v1", kind: "Widget", plural: "widgets", namespaced: true };
        let id = ResourceId::define(&widget);
        assert_eq!((ResourceId::define(&widget), ResourceId::defined(&widget)), (id, Some(id)));
        assert_eq!(id.row().qualified(), "widgets.table.example");
        let global = ResourceId::define(&CustomName { namespaced: false, ..widget });
        assert_ne!(global, id);
        assert_eq!((id.row().namespaced, global.row().namespaced), (true, false));
    }

    #[test]
    fn kinds_are_not_used_up() {
        for number in 0..70_000 {
            let plural = format!("spares{number}");
            let name =
                CustomName { group: "spare.example", version: "v1", kind: "Spare", plural: &plural, namespaced: true };
            let id = ResourceId::define(&name);
            assert_eq!(id.row().plural, plural);
        }
    }
}
