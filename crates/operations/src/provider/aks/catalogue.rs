//! The catalogue of Azure's refusals: by which codes and texts each is known, what it means for klab, and what mends it.

use super::azure_site::AzureSite;
use crate::error::Code;

/// What a failure means for what klab does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Class {
    /// az is not on this machine.
    Missing,
    /// There is no login, or it has expired.
    Login,
    /// The secret of a service principal is wrong or has expired.
    Secret,
    /// There is no such subscription for this login.
    Subscription,
    /// The subscription is disabled: it can be read, and nothing can be made in it.
    Disabled,
    /// The login may not do this.
    Rights,
    /// A policy of the organisation forbids it.
    Policy,
    /// A lock of the resource forbids its deletion.
    Lock,
    /// A resource provider is not registered.
    Provider,
    /// Not enough vCPU quota.
    Quota,
    /// The limit on public IP addresses; every cluster has one.
    Addresses,
    /// The VM size is not available in this region or subscription.
    Size,
    /// The VM size is too small for a system pool.
    SystemSize,
    /// The region is not available.
    Location,
    /// There is no such container registry.
    Registry,
    /// The login may not give the cluster the right to pull from a registry.
    RegistryRights,
    /// The zone is not available for this size and subscription.
    Zone,
    /// Azure has no machines of this size to give now.
    Capacity,
    /// The Kubernetes version is not offered.
    Version,
    /// A parameter that Azure refuses.
    Parameter,
    /// Another operation is in progress; it will end.
    Busy,
    /// The pool is being deleted.
    BeingDeleted,
    /// Another operation took precedence; the outcome must be looked at.
    Preempted,
    /// The resource group is being deleted.
    GroupGoing,
    /// The cluster is there already.
    ClusterExists,
    /// The pool is there already.
    PoolExists,
    /// The pool has that many nodes already.
    AlreadySo,
    /// It is not there.
    NotFound,
    /// Too many requests, after az's own retries.
    Throttled,
    /// Azure's servers failed, after az's own retries.
    Server,
    /// Azure cannot be reached, or its answer was lost.
    Network,
    /// az was still running at its deadline.
    Deadline,
    /// az does not know the command or an option: too old, or a mistake of ours.
    Usage,
    /// az itself does not work: it does not start, or prints no answer.
    Broken,
    /// The cluster has no local accounts, and klab reaches it by one.
    LocalAccounts,
    /// Anything else.
    Other,
}

impl Class {
    /// Whether the same call may succeed a while later without anybody doing anything.
    pub(super) fn passes(self) -> bool {
        self.conflicts() || matches!(self, Self::Throttled | Self::Server | Self::Network | Self::Deadline)
    }

    /// Whether something else goes on that keeps Azure from taking the request; it ends, however long it takes.
    pub(super) fn conflicts(self) -> bool {
        matches!(self, Self::Busy | Self::BeingDeleted | Self::Preempted | Self::GroupGoing)
    }

    /// Whether Azure may have taken the request although the call failed.
    pub(super) fn may_have_been_taken(self) -> bool {
        self.passes() || matches!(self, Self::PoolExists | Self::ClusterExists | Self::Broken | Self::Other)
    }

    /// By which code the user looks it up.
    pub(super) fn code(self) -> Code {
        match self {
            Self::Missing => Code::ToolMissing,
            Self::Usage => Code::ToolFailed,
            Self::Broken => Code::ToolAnswer,
            Self::Login | Self::Secret | Self::Subscription => Code::AzureLogin,
            Self::Disabled | Self::Provider => Code::AzureRegistration,
            Self::Rights | Self::RegistryRights => Code::AzureRights,
            Self::Policy | Self::Lock => Code::AzurePolicy,
            Self::Quota | Self::Addresses => Code::AzureQuota,
            Self::Size | Self::SystemSize | Self::Zone | Self::Capacity | Self::Version => Code::AzureSize,
            Self::Location | Self::Registry | Self::Parameter | Self::LocalAccounts | Self::NotFound => {
                Code::AzureResource
            }
            Self::ClusterExists | Self::PoolExists | Self::AlreadySo => Code::AzureExists,
            Self::Busy | Self::BeingDeleted | Self::Preempted | Self::GroupGoing => Code::AzureBusy,
            Self::Throttled | Self::Server | Self::Network => Code::AzureTrouble,
            Self::Deadline => Code::StillAtWork,
            Self::Other => Code::AzureRefused,
        }
    }

    /// What mends it, as far as klab knows.
    pub(super) fn hint(self, place: Option<&AzureSite>) -> Option<String> {
        let subscription = place.map_or("SUBSCRIPTION", |place| place.subscription.as_str());
        let location = place.map_or("LOCATION", |place| place.location.as_str());
        let group = place.map_or("GROUP", |place| place.group.as_str());
        Some(match self {
            Self::Missing => "install the Azure CLI: https://learn.microsoft.com/cli/azure/install-azure-cli".to_owned(),
            Self::Login => "`az logout`, then `az login`".to_owned(),
            Self::Secret => "`az ad app credential reset --id APP` makes a new secret; then `az login --service-principal …`".to_owned(),
            Self::Subscription => "`az account list -o table` shows the subscriptions; `az account set --subscription NAME` selects one".to_owned(),
            Self::Rights => format!("ask for the role Contributor on subscription {subscription}: `az role assignment create --role Contributor --assignee YOU --scope /subscriptions/{subscription}`"),
            Self::Policy => format!("`az policy assignment list --subscription {subscription} -o table` shows the policies; `[aks] tags` in the lab file adds tags that one may ask for"),
            Self::Lock => format!("`az lock list --subscription {subscription} -g {group} -o table` shows the locks, `az lock delete` removes one"),
            Self::Provider => format!("az provider register -n Microsoft.ContainerService --subscription {subscription} --wait"),
            Self::Quota => format!("use fewer or smaller nodes, another family or location, or ask for more: `az vm list-usage -l {location} --subscription {subscription} -o table` shows the quota"),
            Self::Size => format!("`az vm list-skus -l {location} -r virtualMachines --subscription {subscription} -o table` shows the available sizes"),
            Self::Zone => format!("leave out `zones`, or choose others: `az vm list-skus -l {location} -r virtualMachines -z true --subscription {subscription} -o table`"),
            Self::Capacity => "choose another size, zone or location in the lab file, or try again later".to_owned(),
            Self::Version => format!("`az aks get-versions -l {location} --subscription {subscription} -o table` shows the available versions"),
            Self::Disabled => format!("`az account list -o table` shows the subscriptions and their state; {subscription} has to be enabled again, or another one named: `[aks] subscription`"),
            Self::Addresses => format!("fewer clusters, another location, or a higher limit: `az network list-usages -l {location} --subscription {subscription} -o table` shows the public addresses in use"),
            Self::SystemSize => "a larger size for the system pool, such as `size = \"Standard_D4s_v5\"`".to_owned(),
            Self::Location => "`az account list-locations -o table` shows the locations; `[aks] location` in the lab file chooses one".to_owned(),
            Self::Registry => format!("`az acr list --subscription {subscription} -o table` shows the registries; `[aks] registry` takes a name or, of another subscription, an id"),
            Self::RegistryRights => "the role Owner or User Access Administrator on the registry is needed to give others a right to it; an owner can do it in your place: `az aks update --attach-acr`".to_owned(),
            Self::Server => "Azure's own trouble: https://azure.status.microsoft; run the command again in some minutes".to_owned(),
            Self::Throttled => "wait some minutes, then run the command again".to_owned(),
            Self::Network => "look at the network, proxy (HTTPS_PROXY) and certificates (REQUESTS_CA_BUNDLE), then run the command again".to_owned(),
            Self::Broken => "az does not work as klab calls it; see what it prints by itself:\naz version".to_owned(),
            Self::LocalAccounts => format!("klab reaches the cluster by its local account; where your organisation allows one, this switches it on:\naz aks update -g {group} -n {} --subscription {subscription} --enable-local-accounts", place.map_or("CLUSTER", |place| place.cluster.as_str())),
            Self::Usage => "`az upgrade` brings az up to date, `az extension add --name aks-preview` gives it previews; arguments of the lab's own stand in `extra_args`".to_owned(),
            _ => return None,
        })
    }
}

/// One kind of refusal: it has one of the codes (if any are named) and contains one of the texts (if any are named).
struct Row {
    class: Class,
    codes: &'static [&'static str],
    texts: &'static [&'static str],
}

const fn codes(class: Class, codes: &'static [&'static str]) -> Row {
    Row { class, codes, texts: &[] }
}

const fn texts(class: Class, texts: &'static [&'static str]) -> Row {
    Row { class, codes: &[], texts }
}

/// The first row that fits decides. Texts are compared without case.
const CATALOGUE: &[Row] = &[
    // Its text ends in the address of a page about quota.
    texts(Class::Size, &["is not allowed in your subscription in location"]),
    texts(Class::SystemSize, &["systempoolskutoolow", "system node pool must use vm sku"]),
    Row {
        class: Class::Addresses,
        codes: &[],
        texts: &["publicipcountlimitreached", "publicipaddresscountlimit", "public ip addresses for this subscription"],
    },
    // `OperationNotAllowed` that speaks of quota is no conflict: waiting does not help.
    codes(Class::Quota, &["ErrCode_InsufficientVCPUQuota", "InsufficientVCPUQuota", "QuotaExceeded"]),
    Row { class: Class::Quota, codes: &["OperationNotAllowed", "BadRequest"], texts: &["quota"] },
    Row { class: Class::BeingDeleted, codes: &["OperationNotAllowed"], texts: &["since deletion was issued"] },
    Row {
        class: Class::Busy,
        codes: &["OperationNotAllowed", "Conflict"],
        texts: &["in progress", "pending-operation"],
    },
    codes(
        Class::Busy,
        &[
            "AnotherOperationInProgress",
            "OperationPreempted",
            "EtagMismatch",
            "SetVNetOwnershipFailed",
            "VirtualNetworkNotInSucceededState",
            "ReferencedResourceNotProvisioned",
        ],
    ),
    codes(Class::Preempted, &["AKSOperationPreempted", "AKSOperationPreemptedByDelete"]),
    codes(Class::GroupGoing, &["ResourceGroupBeingDeleted"]),
    texts(Class::ClusterExists, &["please use command 'az aks update'"]),
    Row { class: Class::PoolExists, codes: &[], texts: &["already exists, please try a different name"] },
    codes(Class::PoolExists, &["PreconditionFailed", "412"]),
    texts(Class::AlreadySo, &["the new node count is the same as the current node count"]),
    codes(Class::Subscription, &["SubscriptionNotFound", "InvalidSubscriptionId"]),
    Row { class: Class::Subscription, codes: &[], texts: &["not found. check the spelling and casing"] },
    codes(Class::NotFound, &["ResourceGroupNotFound", "ResourceNotFound", "ParentResourceNotFound", "NotFound"]),
    texts(Class::NotFound, &["doesnt exist, use 'aks nodepool list'"]),
    texts(Class::Login, &["az login' to setup account", "aadsts70043", "aadsts700082", "aadsts50078", "aadsts50173"]),
    texts(Class::Secret, &["aadsts7000222", "aadsts7000215"]),
    codes(Class::Login, &["ExpiredAuthenticationToken", "InvalidAuthenticationToken", "AuthenticationFailed"]),
    texts(Class::Login, &["aadsts", "run the command below to authenticate"]),
    codes(Class::Policy, &["RequestDisallowedByPolicy", "RequestDisallowedByAzure"]),
    codes(Class::Rights, &["AuthorizationFailed", "LinkedAuthorizationFailed"]),
    codes(Class::Lock, &["ScopeLocked"]),
    codes(Class::Provider, &["MissingSubscriptionRegistration", "SubscriptionNotRegistered"]),
    codes(
        Class::Capacity,
        &[
            "AllocationFailed",
            "ZonalAllocationFailed",
            "OverconstrainedAllocationRequest",
            "OverconstrainedZonalAllocationRequest",
            "SkuNotAvailable",
        ],
    ),
    codes(Class::Size, &["VMSizeNotSupported"]),
    codes(Class::Disabled, &["ReadOnlyDisabledSubscription", "DisabledSubscription"]),
    codes(
        Class::Location,
        &["LocationNotAvailableForResourceGroup", "LocationNotAvailableForResourceType", "InvalidResourceLocation"],
    ),
    texts(
        Class::Registry,
        &["have you provided the right acr name", "microsoft.containerregistry/registries' could not be found"],
    ),
    texts(Class::RegistryRights, &["could not create a role assignment for acr"]),
    codes(Class::Zone, &["AvailabilityZoneNotSupported"]),
    codes(Class::Version, &["K8sVersionNotSupported", "AgentPoolK8sVersionNotSupported"]),
    texts(Class::LocalAccounts, &["disable local accounts", "local accounts are disabled", "disablelocalaccounts"]),
    codes(Class::Parameter, &["InvalidParameter", "InvalidTemplate", "BadRequest"]),
    codes(Class::Throttled, &["Throttled", "TooManyRequests", "SubscriptionRequestsThrottled"]),
    codes(Class::Server, &["InternalServerError", "ServiceUnavailable", "GatewayTimeout", "InternalOperationError"]),
    texts(
        Class::Network,
        &[
            "connection aborted",
            "connection reset",
            "failed to establish a new connection",
            "certificate_verify_failed",
            "max retries exceeded",
            "name resolution",
            "read timed out",
        ],
    ),
    // Python, or what wraps az, without a part of it.
    texts(Class::Broken, &["modulenotfounderror", "no module named", "bad interpreter"]),
    // Servers on the way to Azure have no codes, nor has the one that gives tokens.
    texts(Class::Throttled, &["error: too many requests", "429 client error"]),
    texts(
        Class::Server,
        &[
            "error: internal server error",
            "error: bad gateway",
            "error: service unavailable",
            "error: gateway timeout",
            "500 server error",
            "502 server error",
            "503 server error",
            "504 server error",
            "msalserviceerror: http error: 5",
        ],
    ),
];

/// What a code and words mean.
pub(super) fn class_of(code: Option<&str>, words: &str) -> Class {
    let lower = words.to_ascii_lowercase();
    // Azure wraps codes: the outer one says little, the `Subcode` or an inner `Code:` says why.
    let has_code = |wanted: &&str| {
        code == Some(*wanted)
            || words.contains(&format!("Code: {wanted}"))
            || words.contains(&format!("({wanted}) "))
            || words.contains(&format!("Code=\"{wanted}\""))
    };
    let fits = |row: &&Row| {
        (row.codes.is_empty() || row.codes.iter().any(has_code))
            && (row.texts.is_empty() || row.texts.iter().any(|text| lower.contains(text)))
    };
    CATALOGUE.iter().find(fits).map_or(Class::Other, |row| row.class)
}
