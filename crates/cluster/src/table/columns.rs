//! Columns of each kind, as kubectl prints them.

// upstream: pkg/printers/internalversion/printers.go AddHandlers (v1.36)

use super::super::resource::{self, ResourceId};

/// One column of a Table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Column<'a> {
    pub(super) name: &'a str,
    /// `string`, `integer`, `boolean`, `date`.
    pub(super) kind: &'a str,
    /// `name` for the column that names the object.
    pub(super) format: &'a str,
    /// 1 for columns that only `-o wide` shows.
    pub(super) priority: u8,
}

/// The columns of a built-in kind.
pub(super) fn columns(resource: ResourceId) -> impl Iterator<Item = Column<'static>> {
    specification(resource).split('|').map(column)
}

/// Reads one column of a specification.
pub(super) fn column(text: &str) -> Column<'_> {
    let (text, priority) = match text.strip_suffix('*') {
        Some(text) => (text, 1),
        None => (text, 0),
    };
    let (name, kind) = text.split_once(':').unwrap_or((text, "string"));
    match kind {
        "name" => Column { name, kind: "string", format: "name", priority },
        kind => Column { name, kind, format: "", priority },
    }
}

/// Names separated by `|`; `:integer` and the like give the type, `*` marks columns of `-o wide`.
fn specification(resource: ResourceId) -> &'static str {
    match resource {
        resource::COMPONENT_STATUSES => "Name:name|Status|Message|Error",
        resource::CONFIG_MAPS => "Name:name|Data|Age",
        resource::ENDPOINTS => "Name:name|Endpoints|Age",
        resource::EVENTS | resource::GROUPED_EVENTS => {
            "Last Seen|Type|Reason|Object|Subobject*|Source*|Message|First Seen*|Count*|Name:name*"
        }
        resource::LIMIT_RANGES
        | resource::CLUSTER_ROLES
        | resource::ROLES
        | resource::CSI_STORAGE_CAPACITIES
        | resource::CUSTOM_RESOURCE_DEFINITIONS => "Name:name|Created At:date",
        resource::NAMESPACES => "Name:name|Status|Age",
        resource::NODES => {
            "Name:name|Status|Roles|Age|Version|Internal-IP*|External-IP*|OS-Image*|Kernel-Version*|Container-Runtime*"
        }
        resource::PERSISTENT_VOLUME_CLAIMS => {
            "Name:name|Status|Volume|Capacity|Access Modes|StorageClass|VolumeAttributesClass|Age|VolumeMode*"
        }
        resource::PERSISTENT_VOLUMES => {
            "Name:name|Capacity|Access Modes|Reclaim Policy|Status|Claim|StorageClass|VolumeAttributesClass|Reason|Age|VolumeMode*"
        }
        resource::PODS => "Name:name|Ready|Status|Restarts|Age|IP*|Node*|Nominated Node*|Readiness Gates*",
        resource::POD_TEMPLATES => "Name:name|Containers|Images|Pod Labels",
        resource::REPLICATION_CONTROLLERS | resource::REPLICA_SETS => {
            "Name:name|Desired:integer|Current:integer|Ready:integer|Age|Containers*|Images*|Selector*"
        }
        resource::RESOURCE_QUOTAS => "Name:name|Request|Limit|Age",
        resource::SECRETS => "Name:name|Type|Data|Age",
        resource::SERVICES => "Name:name|Type|Cluster-IP|External-IP|Port(s)|Age|Selector*",
        resource::API_SERVICES => "Name:name|Service|Available|Age",
        resource::CONTROLLER_REVISIONS => "Name:name|Controller|Revision|Age",
        resource::DAEMON_SETS => {
            "Name:name|Desired:integer|Current:integer|Ready:integer|Up-to-date:integer|Available:integer|Node Selector|Age|Containers*|Images*|Selector*"
        }
        resource::DEPLOYMENTS => "Name:name|Ready|Up-to-date|Available|Age|Containers*|Images*|Selector*",
        resource::STATEFUL_SETS => "Name:name|Ready|Age|Containers*|Images*",
        resource::HORIZONTAL_POD_AUTOSCALERS | resource::HORIZONTAL_POD_AUTOSCALERS_V1 => {
            "Name:name|Reference|Targets|MinPods|MaxPods|Replicas|Age"
        }
        resource::CRON_JOBS => {
            "Name:name|Schedule|Timezone|Suspend:boolean|Active:integer|Last Schedule|Age|Containers*|Images*|Selector*"
        }
        resource::JOBS => "Name:name|Status|Completions|Duration|Age|Containers*|Images*|Selector*",
        resource::CERTIFICATE_SIGNING_REQUESTS => "Name:name|Age|SignerName|Requestor|RequestedDuration|Condition",
        resource::INGRESS_CLASSES => "Name:name|Controller|Parameters|Age",
        resource::INGRESSES => "Name:name|Class|Hosts|Address|Ports|Age",
        resource::IP_ADDRESSES => "Name:name|ParentRef",
        resource::NETWORK_POLICIES => "Name:name|Pod-Selector|Age",
        resource::SERVICE_CIDRS => "Name:name|CIDRs|Age",
        resource::POD_DISRUPTION_BUDGETS => "Name:name|Min Available|Max Unavailable|Allowed Disruptions:integer|Age",
        resource::CLUSTER_ROLE_BINDINGS | resource::ROLE_BINDINGS => {
            "Name:name|Role|Age|Users*|Groups*|ServiceAccounts*"
        }
        resource::CSI_DRIVERS => {
            "Name:name|AttachRequired:boolean|PodInfoOnMount:boolean|StorageCapacity:boolean|TokenRequests|RequiresRepublish:boolean|Modes|Age"
        }
        resource::CSI_NODES => "Name:name|Drivers:integer|Age",
        resource::STORAGE_CLASSES => "Name:name|Provisioner|ReclaimPolicy|VolumeBindingMode|AllowVolumeExpansion|Age",
        resource::VOLUME_ATTACHMENTS => "Name:name|Attacher:name|PV|Node|Attached:boolean|Age",
        resource::VOLUME_ATTRIBUTES_CLASSES => "Name:name|DriverName|Age",
        resource::MUTATING_ADMISSION_POLICIES => "Name:name|Mutations:integer|ParamKind|Age",
        resource::MUTATING_ADMISSION_POLICY_BINDINGS | resource::VALIDATING_ADMISSION_POLICY_BINDINGS => {
            "Name:name|PolicyName|ParamRef|Age"
        }
        resource::MUTATING_WEBHOOK_CONFIGURATIONS | resource::VALIDATING_WEBHOOK_CONFIGURATIONS => {
            "Name:name|Webhooks:integer|Age"
        }
        resource::VALIDATING_ADMISSION_POLICIES => "Name:name|Validations:integer|ParamKind|Age",
        resource::PRIORITY_CLASSES => "Name:name|Value:integer|Global-Default:boolean|Age|PreemptionPolicy",
        resource::LEASES => "Name:name|Holder|Age",
        resource::RUNTIME_CLASSES => "Name:name|Handler|Age",
        resource::ENDPOINT_SLICES => "Name:name|AddressType|Ports|Endpoints|Age",
        resource::RESOURCE_CLAIMS => "Name:name|State|Age",
        resource::RESOURCE_SLICES => "Name:name|Node|Driver|Pool|Age",
        resource::FLOW_SCHEMAS => "Name:name|PriorityLevel|MatchingPrecedence|DistinguisherMethod|Age|MissingPL",
        resource::PRIORITY_LEVEL_CONFIGURATIONS => {
            "Name:name|Type|NominalConcurrencyShares|Queues|HandSize|QueueLengthLimit|Age"
        }
        // ServiceAccounts, DeviceClasses, ResourceClaimTemplates.
        _ => "Name:name|Age",
    }
}
