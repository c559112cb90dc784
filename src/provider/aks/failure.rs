//! Why az gave no result: the catalogue of Azure's refusals, what each means for klab, and what mends it.

use crate::error::{Error, Kind};
use crate::exec;

/// What a failure means for what klab does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Class {
    /// az is not on this machine.
    Missing,
    /// Nobody is logged in, or the login has expired.
    Login,
    /// The secret of a service principal is wrong or has expired.
    Secret,
    /// There is no such subscription for this login.
    Subscription,
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
    /// The VM size is not to be had in this region or subscription.
    Size,
    /// The zone is not to be had for this size and subscription.
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
    /// Anything else.
    Other,
}

impl Class {
    /// Whether the same call may succeed a while later without anybody doing anything.
    pub(super) fn passes(self) -> bool {
        matches!(
            self,
            Self::Busy
                | Self::BeingDeleted
                | Self::Preempted
                | Self::GroupGoing
                | Self::Throttled
                | Self::Server
                | Self::Network
                | Self::Deadline
        )
    }

    /// Whether Azure may have taken the request although the call failed.
    pub(super) fn may_have_been_taken(self) -> bool {
        self.passes() || matches!(self, Self::PoolExists | Self::ClusterExists | Self::Other)
    }
}

/// A call of az that gave no result.
#[derive(Debug, Clone)]
pub(super) struct Failure {
    /// What it means.
    pub(super) class: Class,
    /// Azure's own code, such as `OperationNotAllowed`.
    pub(super) code: Option<String>,
    /// The tool's own words, without secrets.
    pub(super) words: String,
    /// The command line; empty where the words came in another way.
    pub(super) command: String,
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
    texts(Class::Size, &["is not allowed in your subscription in location"]),
    codes(Class::Zone, &["AvailabilityZoneNotSupported"]),
    codes(Class::Version, &["K8sVersionNotSupported", "AgentPoolK8sVersionNotSupported"]),
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
    // Servers on the way to Azure have no codes.
    texts(Class::Throttled, &["error: too many requests"]),
    texts(
        Class::Server,
        &["error: internal server error", "error: bad gateway", "error: service unavailable", "error: gateway timeout"],
    ),
];

impl Failure {
    /// What a failed run of az means.
    pub(super) fn of(error: &exec::Error) -> Self {
        match error {
            exec::Error::Missing { program } => Self {
                class: Class::Missing,
                code: None,
                words: format!("`{program}` was not found on PATH"),
                command: String::new(),
            },
            exec::Error::Broken { command, .. } => Self {
                class: Class::Other,
                code: None,
                words: format!("{:#}", anyhow::Error::msg(error.to_string())),
                command: command.clone(),
            },
            exec::Error::Deadline { command, .. } => {
                Self { class: Class::Deadline, code: None, words: error.to_string(), command: command.clone() }
            }
            exec::Error::Failed { command, status, code, stderr } => {
                let mut failure = Self::from_stderr(*code, stderr);
                if failure.words.is_empty() {
                    failure.words = format!("az {status} without a word");
                }
                failure.command.clone_from(command);
                failure
            }
        }
    }

    /// An answer that is none.
    pub(super) fn of_answer(error: &serde_json::Error, command: &str) -> Self {
        let words = format!("could not understand az's answer: {error}");
        Self { class: Class::Other, code: None, words, command: command.to_owned() }
    }

    /// What az's exit code and stderr mean.
    pub(super) fn from_stderr(exit: Option<i32>, stderr: &str) -> Self {
        let words: Vec<&str> = stderr.lines().filter(|line| !line.starts_with("WARNING: ")).collect();
        let words = words.join("\n").trim().to_owned();
        let words = words_of_rest(&words).unwrap_or(words);
        let code = words
            .lines()
            .find_map(|line| line.strip_prefix("ERROR: (")?.split_once(')'))
            .map(|(code, _)| code.to_owned());
        let mut failure = Self::from_words(code, words);
        if failure.class == Class::Other {
            failure.class = match exit {
                Some(3) => Class::NotFound,
                Some(2) => Class::Usage,
                _ => Class::Other,
            };
        }
        failure
    }

    /// What a code and a message mean that Azure keeps with a failed pool or cluster.
    pub(super) fn from_words(code: Option<String>, words: String) -> Self {
        let lower = words.to_ascii_lowercase();
        // Azure wraps codes: the outer one says little, the `Subcode` or an inner `Code:` says why.
        let has_code = |wanted: &&str| {
            code.as_deref() == Some(*wanted)
                || words.contains(&format!("Code: {wanted}"))
                || words.contains(&format!("Code=\"{wanted}\""))
        };
        let fits = |row: &&Row| {
            (row.codes.is_empty() || row.codes.iter().any(has_code))
                && (row.texts.is_empty() || row.texts.iter().any(|text| lower.contains(text)))
        };
        let class = CATALOGUE.iter().find(fits).map_or(Class::Other, |row| row.class);
        Self { class, code, words, command: String::new() }
    }

    /// Whether what was asked for is not there.
    pub(super) fn is_absence(&self) -> bool {
        self.class == Class::NotFound
    }

    /// Whether the very resource group of what was asked for is not there.
    pub(super) fn is_absence_of_group(&self) -> bool {
        self.code.as_deref() == Some("ResourceGroupNotFound")
    }

    /// As an error for the person at the terminal: what klab could not do, az's own words, what mends it.
    pub(super) fn into_error(self, what: &str, place: Option<&super::place::Place>) -> Error {
        let kind = match self.class {
            Class::Deadline => Kind::Deadline,
            Class::Busy | Class::BeingDeleted | Class::Preempted | Class::GroupGoing | Class::Usage | Class::Other => {
                Kind::Failed
            }
            _ => Kind::Outside,
        };
        let hints = self.hints(place);
        let mut error = Error::new(kind, anyhow::Error::msg(self.words).context(what.to_owned()));
        error.hints = hints;
        error
    }

    fn hints(&self, place: Option<&super::place::Place>) -> Vec<String> {
        let subscription = place.map_or("SUBSCRIPTION", |place| place.subscription.as_str());
        let location = place.map_or("LOCATION", |place| place.location.as_str());
        let group = place.map_or("GROUP", |place| place.group.as_str());
        let hint = match self.class {
            Class::Missing => "install the Azure CLI: https://learn.microsoft.com/cli/azure/install-azure-cli".to_owned(),
            Class::Login => "`az logout`, then `az login`".to_owned(),
            Class::Secret => "`az ad app credential reset --id APP` makes a new secret; then `az login --service-principal …`".to_owned(),
            Class::Subscription => "`az account list -o table` shows the subscriptions; `az account set --subscription NAME` selects one".to_owned(),
            Class::Rights => format!("ask for the role Contributor on subscription {subscription}: `az role assignment create --role Contributor --assignee YOU --scope /subscriptions/{subscription}`"),
            Class::Policy => format!("`az policy assignment list --subscription {subscription} -o table` shows the policies; `[aks] tags` in the lab file adds tags that one may ask for"),
            Class::Lock => format!("`az lock list --subscription {subscription} -g {group} -o table` shows the locks, `az lock delete` removes one"),
            Class::Provider => format!("az provider register -n Microsoft.ContainerService --subscription {subscription} --wait"),
            Class::Quota => format!("use fewer or smaller nodes, another family or location, or ask for more: `az vm list-usage -l {location} --subscription {subscription} -o table` shows the quota"),
            Class::Size => format!("`az vm list-skus -l {location} -r virtualMachines --subscription {subscription} -o table` shows the sizes to be had"),
            Class::Zone => format!("leave out `zones`, or choose others: `az vm list-skus -l {location} -r virtualMachines -z true --subscription {subscription} -o table`"),
            Class::Capacity => "choose another size, zone or location in the lab file, or try again later".to_owned(),
            Class::Version => format!("`az aks get-versions -l {location} --subscription {subscription} -o table` shows the versions to be had"),
            Class::Throttled => "wait some minutes, then run the command again".to_owned(),
            Class::Network => "look at the network, proxy (HTTPS_PROXY) and certificates (REQUESTS_CA_BUNDLE), then run the command again".to_owned(),
            Class::Usage => "`az upgrade` brings az up to date; arguments of the lab's own stand in `extra_args`".to_owned(),
            _ => return Vec::new(),
        };
        vec![hint]
    }
}

/// What `az rest` makes of a refusal, `ERROR: Not Found({"error":{"code":"…","message":"…"}})`, in the form of az's other
/// commands, `ERROR: (code) message`.
fn words_of_rest(words: &str) -> Option<String> {
    let (_, json) = words.strip_prefix("ERROR: ")?.split_once('(').filter(|(_, json)| json.starts_with('{'))?;
    // az's own advice may follow.
    let answer = serde_json::Deserializer::from_str(json).into_iter::<serde_json::Value>().next()?.ok()?;
    let error = if answer["error"].is_object() { &answer["error"] } else { &answer };
    Some(format!("ERROR: ({}) {}", error["code"].as_str()?, error["message"].as_str().unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Exit code, stderr as az prints it, what it means.
    const SEEN: &[(i32, &str, Class)] = &[
        (1, "ERROR: Please run 'az login' to setup account.", Class::Login),
        (
            1,
            "ERROR: AADSTS700082: The refresh token has expired due to inactivity. The token was issued on …",
            Class::Login,
        ),
        (
            1,
            "ERROR: AADSTS70043: The refresh token has expired or is invalid due to sign-in frequency checks",
            Class::Login,
        ),
        (1, "ERROR: AADSTS7000222: The provided client secret keys for app 'x' are expired.", Class::Secret),
        (1, "ERROR: AADSTS7000215: Invalid client secret provided.", Class::Secret),
        (
            1,
            "ERROR: (ExpiredAuthenticationToken) The access token expiry UTC time …\nCode: ExpiredAuthenticationToken",
            Class::Login,
        ),
        (
            1,
            "WARNING: Subscription 'X' not recognized.\nERROR: Subscription 'X' not found. Check the spelling and casing and try again.",
            Class::Subscription,
        ),
        (3, "ERROR: (SubscriptionNotFound) The subscription 'x' could not be found.", Class::Subscription),
        (
            1,
            "ERROR: (AuthorizationFailed) The client 'c' with object id 'o' does not have authorization to perform action 'a' over scope 's'",
            Class::Rights,
        ),
        (
            1,
            "ERROR: (RequestDisallowedByPolicy) Resource 'X' was disallowed by policy. Policy identifiers: …",
            Class::Policy,
        ),
        (
            1,
            "ERROR: (ScopeLocked) The scope 's' cannot perform delete operation because following scope(s) are locked",
            Class::Lock,
        ),
        (
            1,
            "ERROR: (MissingSubscriptionRegistration) The subscription is not registered to use namespace 'Microsoft.ContainerService'.",
            Class::Provider,
        ),
        (
            1,
            "ERROR: (ErrCode_InsufficientVCPUQuota) Insufficient regional vcpu quota left for location eastus. left regional vcpu quota 4, requested quota 6.",
            Class::Quota,
        ),
        (
            1,
            "ERROR: (OperationNotAllowed) Operation could not be completed as it results in exceeding approved Total Regional Cores quota. Additional details - Current Limit: 10",
            Class::Quota,
        ),
        (
            1,
            "ERROR: (BadRequest) The VM size of Standard_X is not allowed in your subscription in location 'eastus'. The available VM sizes are 'a,b'",
            Class::Size,
        ),
        (
            1,
            "ERROR: (AvailabilityZoneNotSupported) The zone(s) '3' for resource 'system' is not supported.",
            Class::Zone,
        ),
        (
            1,
            "ERROR: (AllocationFailed) Allocation failed. We do not have sufficient capacity for the requested VM size in this region.",
            Class::Capacity,
        ),
        (
            1,
            "ERROR: (K8sVersionNotSupported) Managed cluster C is on version 1.20 which is not supported in this region.",
            Class::Version,
        ),
        (1, "ERROR: (InvalidParameter) The value of parameter agentPoolProfile.name is invalid.", Class::Parameter),
        (
            1,
            "ERROR: (OperationNotAllowed) Operation is not allowed: Another operation (Updating) is in progress, please wait for it to finish",
            Class::Busy,
        ),
        (
            1,
            "ERROR: (OperationNotAllowed) Operation is not allowed: Another agentpool operation (pool1 - Creating) is in progress, please wait. See https://aka.ms/aks-pending-operation",
            Class::Busy,
        ),
        (
            1,
            "ERROR: (OperationNotAllowed) Unable to perform 'Scaling' operation on 'p' since deletion was issued on 'p'.",
            Class::BeingDeleted,
        ),
        (
            1,
            "ERROR: (AKSOperationPreempted) This operation has been preempted by another operation with ID …",
            Class::Preempted,
        ),
        (
            1,
            "ERROR: (ResourceGroupBeingDeleted) The resource group 'X' is in deprovisioning state and cannot perform this operation.",
            Class::GroupGoing,
        ),
        (
            1,
            "ERROR: The cluster 'C' under resource group 'RG' already exists. Please use command 'az aks update' to update the existing cluster",
            Class::ClusterExists,
        ),
        (
            1,
            "ERROR: Node pool P already exists, please try a different name, use 'aks nodepool list' to get current list of node pool",
            Class::PoolExists,
        ),
        (1, "ERROR: Node pool P doesnt exist, use 'aks nodepool list' to get current node pool list", Class::NotFound),
        (1, "ERROR: The new node count is the same as the current node count.", Class::AlreadySo),
        (3, "ERROR: (ResourceGroupNotFound) Resource group 'x' could not be found.", Class::NotFound),
        (
            3,
            "ERROR: (ResourceNotFound) The Resource 'Microsoft.ContainerService/managedClusters/x' under resource group 'y' was not found.",
            Class::NotFound,
        ),
        (
            1,
            "ERROR: (TooManyRequests) The PutAgentPoolHandler.PUT request limit has been exceeded for SubID='s', please retry again in 60 seconds.",
            Class::Throttled,
        ),
        (1, "ERROR: (InternalServerError) Encountered internal server error.", Class::Server),
        (
            1,
            "ERROR: ('Connection aborted.', RemoteDisconnected('Remote end closed connection without response'))",
            Class::Network,
        ),
        (1, "ERROR: [SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed", Class::Network),
        (
            1,
            "ERROR: HTTPSConnectionPool(host='x', port=443): Max retries exceeded with url: / (Caused by NewConnectionError('Failed to establish a new connection'))",
            Class::Network,
        ),
        (2, "ERROR: unrecognized arguments: --frobnicate", Class::Usage),
        (1, "ERROR: (SetVNetOwnershipFailed) Set virtual network ownership failed.", Class::Busy),
        (1, "ERROR: (SomethingNew) We cannot tell.", Class::Other),
    ];

    #[test]
    fn every_refusal_of_azure_is_understood() {
        for (exit, stderr, class) in SEEN {
            let failure = Failure::from_stderr(Some(*exit), stderr);
            assert_eq!(failure.class, *class, "{stderr}");
        }
    }

    #[test]
    fn refusals_through_az_rest_are_those_of_other_commands() {
        for (stderr, words, class) in [
            (
                "ERROR: Not Found({\"error\":{\"code\":\"ResourceGroupNotFound\",\"message\":\"Resource group 'x' could not be found.\"}})",
                "ERROR: (ResourceGroupNotFound) Resource group 'x' could not be found.",
                Class::NotFound,
            ),
            (
                "ERROR: Unauthorized({\n  \"error\": {\"code\": \"ExpiredAuthenticationToken\", \"message\": \"It has expired (today).\"}\n})\n\
                 Interactive authentication is needed. Please run:\naz logout\naz login",
                "ERROR: (ExpiredAuthenticationToken) It has expired (today).",
                Class::Login,
            ),
            (
                "ERROR: Too Many Requests({\"code\":\"Throttled\",\"message\":\"Wait.\"})",
                "ERROR: (Throttled) Wait.",
                Class::Throttled,
            ),
            ("ERROR: Service Unavailable", "ERROR: Service Unavailable", Class::Server),
            ("ERROR: Bad Gateway(<html></html>)", "ERROR: Bad Gateway(<html></html>)", Class::Server),
        ] {
            let failure = Failure::from_stderr(Some(1), stderr);
            assert_eq!((failure.words.as_str(), failure.class), (words, class), "{stderr}");
        }
    }

    #[test]
    fn quota_is_not_taken_for_a_conflict_that_passes() {
        let (_, quota, _) = SEEN.iter().find(|(_, words, _)| words.contains("Total Regional Cores")).unwrap();
        assert!(!Failure::from_stderr(Some(1), quota).class.passes());
    }

    #[test]
    fn error_shows_the_tools_words_and_what_mends_it() {
        for (exit, stderr, class) in SEEN {
            let failure = Failure::from_stderr(Some(*exit), stderr);
            let error = failure.into_error("could not create pool `p`", None);
            let words = stderr.lines().find(|line| line.starts_with("ERROR: ")).unwrap();
            assert!(
                error.to_string().starts_with("could not create pool `p`: ") && error.to_string().contains(words),
                "{error}"
            );
            let silent = [
                Class::Busy,
                Class::BeingDeleted,
                Class::Preempted,
                Class::GroupGoing,
                Class::ClusterExists,
                Class::PoolExists,
                Class::NotFound,
                Class::AlreadySo,
                Class::Server,
                Class::Parameter,
                Class::Other,
            ];
            assert_eq!(error.hints.is_empty(), silent.contains(class), "{stderr}: {:?}", error.hints);
        }
    }

    #[test]
    fn code_that_azure_wraps_is_found() {
        let words =
            "ERROR: (ReconcileVMSSAgentPoolFailed) Code=\"ZonalAllocationFailed\" Message=\"Allocation failed.\"";
        assert_eq!(Failure::from_stderr(Some(1), words).class, Class::Capacity);
    }
}
