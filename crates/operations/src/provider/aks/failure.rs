//! Why az gave no result: its words, what they mean, and the error that tells a person.

use std::time::Duration;

use super::catalogue::{Class, class_of};
use super::printed;
use crate::error::Error;
use crate::exec;

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
                    failure.words = format!("az {status} and printed nothing");
                    if code.is_some() {
                        failure.class = Class::Broken;
                    }
                }
                failure.command.clone_from(command);
                failure
            }
        }
    }

    /// An answer that is none, for a reason.
    pub(super) fn of_answer(reason: &str, command: &str) -> Self {
        let words = format!("could not understand az's answer: {reason}");
        Self { class: Class::Broken, code: None, words, command: command.to_owned() }
    }

    /// What az's exit code and stderr mean.
    pub(super) fn from_stderr(exit: Option<i32>, stderr: &str) -> Self {
        let words = printed::error(stderr);
        let words = words_of_rest(&words).unwrap_or(words);
        let code = words
            .lines()
            .find_map(|line| line.strip_prefix("ERROR: (")?.split_once(')'))
            .map(|(code, _)| code.to_owned());
        let mut failure = Self::from_words(code, words);
        failure.words = said_once(failure.code.as_deref(), &without_traceback(&failure.words));
        if failure.class == Class::Other {
            failure.class = match exit {
                Some(3) => Class::NotFound,
                Some(2) => Class::Usage,
                // What a shell says of a program that it cannot find or start.
                Some(126 | 127) => Class::Broken,
                _ => Class::Other,
            };
        }
        failure
    }

    /// What a code and a message mean that Azure keeps with a failed pool or cluster.
    pub(super) fn from_words(code: Option<String>, words: String) -> Self {
        let class = class_of(code.as_deref(), &words);
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

    /// When Azure wants the request again, where its words say so.
    pub(super) fn retry_after(&self) -> Option<Duration> {
        let lower = self.words.to_ascii_lowercase();
        let (_, after) =
            ["again in ", "retry after ", "try again after "].iter().find_map(|words| lower.split_once(words))?;
        let number: String = after.trim_start_matches(['\'', '"']).chars().take_while(char::is_ascii_digit).collect();
        number.parse().ok().map(Duration::from_secs)
    }

    /// As an error for the person at the terminal: what klab could not do, az's own words, what mends it.
    pub(super) fn into_error(self, what: &str, place: Option<&super::azure_site::AzureSite>) -> Error {
        let hint = self.class.hint(place);
        let mut error = Error::new(self.class.code(), anyhow::Error::msg(self.words).context(what.to_owned()));
        error.hints.extend(hint);
        error
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

/// az prints a refusal of Azure as a line, and then its code and message again; what it adds beyond them stays.
fn said_once(code: Option<&str>, words: &str) -> String {
    let whole = || words.to_owned();
    let Some(code) = code else { return whole() };
    let Some((said, again)) = words.split_once(&format!("\nCode: {code}")) else { return whole() };
    let message = said.strip_prefix(&format!("ERROR: ({code}) ")).unwrap_or(said);
    let again = again.trim_start_matches(['\r', '\n']);
    match again.strip_prefix(&format!("Message: {message}")) {
        Some(rest) if rest.trim().is_empty() => said.to_owned(),
        Some(rest) => format!("{said}\n{}", rest.trim()),
        None if again.is_empty() => said.to_owned(),
        None => whole(),
    }
}

/// The last sentence of a Python traceback, which says what happened; the lines before it say where in az.
fn without_traceback(words: &str) -> String {
    let Some((_, trace)) = words.split_once("Traceback (most recent call last):") else { return words.to_owned() };
    let is_sentence = |line: &&str| !line.starts_with(char::is_whitespace) && line.contains(": ");
    let is_of_an_error =
        |line: &&str| line.split(':').next().is_some_and(|name| name.ends_with("Error") || name.ends_with("Exception"));
    match trace.lines().filter(is_sentence).rfind(is_of_an_error) {
        Some(sentence) => format!("ERROR: az failed unexpectedly: {sentence}"),
        None => words.to_owned(),
    }
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
            "ERROR: (BadRequest) The VM size of Standard_X is not allowed in your subscription in location 'eastus'. The available VM sizes are 'a,b'. For more details, please visit https://aka.ms/cpu-quota",
            Class::Size,
        ),
        (
            1,
            "ERROR: (BadRequest) System node pool must use VM sku with more than 2 cores and 4GB memory.",
            Class::SystemSize,
        ),
        (
            1,
            "ERROR: (PublicIPCountLimitReached) Cannot create more than 10 public IP addresses for this subscription in this region.",
            Class::Addresses,
        ),
        (
            1,
            "ERROR: (ReadOnlyDisabledSubscription) The subscription 'x' is disabled and therefore marked as read only.",
            Class::Disabled,
        ),
        (
            1,
            "ERROR: (LocationNotAvailableForResourceGroup) The provided location 'moon' is not available for resource group.",
            Class::Location,
        ),
        (1, "ERROR: ACR shop not found. Have you provided the right ACR name?", Class::Registry),
        (
            1,
            "ERROR: Could not create a role assignment for ACR. Are you an Owner on this subscription?",
            Class::RegistryRights,
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

    #[test]
    fn refusal_that_az_prints_twice_is_said_once() {
        let words = |stderr: &str| Failure::from_stderr(Some(1), stderr).words;
        let line = "ERROR: (OperationNotAllowed) Not now.";
        assert_eq!(words(&format!("{line}\nCode: OperationNotAllowed\nMessage: Not now.")), line);
        assert_eq!(words(&format!("{line}\nCode: OperationNotAllowed")), line);
        let inner = "Exception Details:\t(Inner) Because.\n\tCode: Inner\n\tMessage: Because.";
        assert_eq!(
            words(&format!("{line}\nCode: OperationNotAllowed\nMessage: Not now.\n{inner}")),
            format!("{line}\n{inner}")
        );
        assert_eq!(words("ERROR: (A) One.\nCode: A\nMessage: Two."), "ERROR: (A) One.\nCode: A\nMessage: Two.");
    }

    #[test]
    fn trouble_of_the_login_service_passes() {
        let stderr = "ERROR: The command failed with an unexpected error. Here is the traceback:\nERROR: HTTP Error: 500\n\
                      Traceback (most recent call last):\n  File \"/az/msal/application.py\", line 1, in f\n\
                      msal.exceptions.MsalServiceError: HTTP Error: 500\n";
        assert_eq!(Failure::from_stderr(Some(1), stderr).class, Class::Server);
    }

    #[test]
    fn traceback_of_az_is_one_sentence_and_understood() {
        let stderr = "ERROR: The command failed with an unexpected error. Here is the traceback:\n\
                      ERROR: 500 Server Error: Internal Server Error for url: https://login/t/oauth2/v2.0/token\n\
                      Traceback (most recent call last):\n  File \"/az/knack/cli.py\", line 233, in invoke\n    cmd_result = self.invocation.execute(args)\n\
                      \x20                ^^^^^^^^\nrequests.exceptions.HTTPError: 500 Server Error: Internal Server Error for url: https://login/t/oauth2/v2.0/token\n\
                      To check existing issues, please visit: https://github.com/Azure/azure-cli/issues";
        let failure = Failure::from_stderr(Some(1), stderr);
        assert_eq!(failure.class, Class::Server);
        assert_eq!(
            failure.words,
            "ERROR: az failed unexpectedly: requests.exceptions.HTTPError: 500 Server Error: Internal Server Error for url: https://login/t/oauth2/v2.0/token"
        );
    }
}
