//! What the API server has against a pod, read from its words.

use crate::code::Code;
use crate::verify::creation::words;

/// Why the API server refuses a pod.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Refused<'m> {
    /// A quota counts what containers leave open: each resource with the containers that do not state it.
    // upstream: pkg/quota/v1/evaluator/core/pods.go Constraints (v1.36)
    Unstated { quota: &'m str, missing: Vec<(&'m str, Vec<&'m str>)> },
    /// A quota is used up.
    // upstream: staging/src/k8s.io/apiserver/pkg/admission/plugin/resourcequota/controller.go CheckRequest (v1.36)
    Exceeded { quota: &'m str, over: Vec<Over<'m>> },
    /// A LimitRange's bounds.
    // upstream: plugin/pkg/admission/limitranger/admission.go minConstraint, maxConstraint (v1.36)
    Bounds(Vec<Bound<'m>>),
    /// The namespace's Pod Security Standard, with what the pod violates.
    // upstream: staging/src/k8s.io/pod-security-admission/admission/admission.go EvaluatePod (v1.36)
    PodSecurity { level: &'m str, violations: &'m str },
    /// A missing ServiceAccount.
    // upstream: plugin/pkg/admission/serviceaccount/admission.go Admit (v1.36)
    ServiceAccount(&'m str),
    /// A missing PriorityClass.
    // upstream: plugin/pkg/admission/priority/admission.go admitPod (v1.36)
    PriorityClass(&'m str),
    /// A missing RuntimeClass.
    // upstream: plugin/pkg/admission/runtimeclass/admission.go Admit (v1.36)
    RuntimeClass(&'m str),
    /// The node selector of the namespace, which has another value for a label.
    // upstream: plugin/pkg/admission/podnodeselector/admission.go Admit (v1.36)
    NamespaceSelector,
    /// The tolerations that the namespace allows.
    // upstream: plugin/pkg/admission/podtolerationrestriction/admission.go Validate (v1.36)
    NamespaceTolerations,
    /// Constraints of Gatekeeper, by name: AKS makes them from assignments of Azure Policy, deployment safeguards among them.
    Constraints(Vec<&'m str>),
    /// A policy of the cluster objects.
    Policy(&'m str),
    /// An admission webhook objects.
    Webhook(&'m str),
    /// An admission webhook does not answer.
    SilentWebhook(&'m str),
    /// An admission webhook that is asked about requests alone that are meant.
    // upstream: staging/src/k8s.io/apiserver/pkg/admission/plugin/webhook/errors/statuserror.go NewDryRunUnsupportedErr (v1.36)
    NoDryRun(&'m str),
    /// Something else.
    Other,
}

/// One amount of a quota that is used up.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Over<'m> {
    pub(super) name: &'m str,
    pub(super) requested: &'m str,
    pub(super) used: &'m str,
    pub(super) limited: &'m str,
}

/// One bound of a LimitRange.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Bound<'m> {
    pub(super) is_most: bool,
    pub(super) resource: &'m str,
    /// `Container` or `Pod`.
    pub(super) kind: &'m str,
    pub(super) bound: &'m str,
    /// `request` or `limit`, and its value; none where it is not stated.
    pub(super) found: Option<(&'m str, &'m str)>,
}

impl<'m> Refused<'m> {
    /// Reads a message of a condition or an event.
    pub(super) fn of(message: &'m str) -> Self {
        let text = words(message);
        None.or_else(|| unstated(text))
            .or_else(|| exceeded(text))
            .or_else(|| bounds(text))
            .or_else(|| pod_security(text))
            .or_else(|| missing(text))
            .or_else(|| objected(text))
            .unwrap_or(Self::Other)
    }

    /// Which of them it is.
    pub(super) fn code(&self) -> Code {
        match self {
            Self::Unstated { .. } => Code::QuotaUnstated,
            Self::Exceeded { .. } => Code::QuotaExceeded,
            Self::Bounds(_) => Code::LimitRange,
            Self::PodSecurity { .. } => Code::PodSecurity,
            Self::ServiceAccount(_) => Code::NoServiceAccount,
            Self::PriorityClass(_) => Code::NoPriorityClass,
            Self::RuntimeClass(_) => Code::NoRuntimeClass,
            Self::NamespaceSelector => Code::NamespaceSelector,
            Self::NamespaceTolerations => Code::NamespaceTolerations,
            Self::Constraints(_) => Code::Constraint,
            Self::Policy(_) => Code::Policy,
            Self::Webhook(_) => Code::Webhook,
            Self::SilentWebhook(_) => Code::WebhookSilent,
            Self::NoDryRun(_) => Code::WebhookUnasked,
            Self::Other => Code::Refused,
        }
    }
}

fn unstated(text: &str) -> Option<Refused<'_>> {
    let (quota, rest) = text.strip_prefix("failed quota: ")?.split_once(": must specify ")?;
    let each = rest.split(';').map(str::trim);
    let missing = each.map(|part| match part.split_once(" for: ") {
        Some((resource, containers)) => (resource, containers.split(',').map(str::trim).collect()),
        None => (part, Vec::new()),
    });
    Some(Refused::Unstated { quota, missing: missing.collect() })
}

fn exceeded(text: &str) -> Option<Refused<'_>> {
    let (quota, rest) = text.strip_prefix("exceeded quota: ")?.split_once(", requested: ")?;
    let (requested, rest) = rest.split_once(", used: ")?;
    let (used, limited) = rest.split_once(", limited: ")?;
    let amount = |list: &'_ str, name: &str| -> Option<std::ops::Range<usize>> {
        let mut at = 0;
        for part in list.split(',') {
            if let Some((key, value)) = part.split_once('=')
                && key == name
            {
                let start = at + key.len() + 1;
                return Some(start..start + value.len());
            }
            at += part.len() + 1;
        }
        None
    };
    let over = requested.split(',').filter_map(|part| {
        let (name, requested) = part.split_once('=')?;
        let used = amount(used, name).and_then(|at| used.get(at))?;
        let limited = amount(limited, name).and_then(|at| limited.get(at))?;
        Some(Over { name, requested, used, limited: limited.trim() })
    });
    Some(Refused::Exceeded { quota, over: over.collect() })
}

fn bounds(text: &str) -> Option<Refused<'_>> {
    const STARTS: [&str; 2] = ["maximum ", "minimum "];
    if !text.contains(" usage per ") {
        return None;
    }
    let mut starts: Vec<usize> = STARTS.iter().flat_map(|start| text.match_indices(start).map(|(at, _)| at)).collect();
    starts.sort_unstable();
    let ends = starts.iter().skip(1).copied().chain([text.len()]);
    let found = starts.iter().zip(ends).filter_map(|(start, end)| bound(text.get(*start..end)?));
    Some(Refused::Bounds(found.collect()))
}

fn bound(text: &str) -> Option<Bound<'_>> {
    let text = text.trim_end_matches([' ', ',', ']', '.']);
    let (is_most, rest) = match text.strip_prefix("maximum ") {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix("minimum ")?),
    };
    let (resource, rest) = rest.split_once(" usage per ")?;
    let (kind, rest) = rest.split_once(" is ")?;
    if let Some((bound, found)) = rest.split_once(", but ") {
        let (field, value) = found.split_once(" is ")?;
        return Some(Bound { is_most, resource, kind, bound, found: Some((field, value)) });
    }
    let bound = rest.split_once(". ").map_or(rest, |(bound, _)| bound);
    Some(Bound { is_most, resource, kind, bound, found: None })
}

fn pod_security(text: &str) -> Option<Refused<'_>> {
    let rest = text.strip_prefix("violates PodSecurity \"")?;
    let (level, violations) = rest.split_once("\": ")?;
    let level = level.split(':').next().unwrap_or(level);
    Some(Refused::PodSecurity { level, violations })
}

fn missing(text: &str) -> Option<Refused<'_>> {
    if let Some(rest) = text.strip_prefix("error looking up service account ") {
        let (account, _) = rest.split_once(':')?;
        return Some(Refused::ServiceAccount(account.split_once('/').map_or(account, |(_, name)| name)));
    }
    if let Some(rest) = text.strip_prefix("no PriorityClass with name ") {
        return Some(Refused::PriorityClass(rest.strip_suffix(" was found")?));
    }
    let rest = text.strip_prefix("pod rejected: RuntimeClass \"")?;
    Some(Refused::RuntimeClass(rest.split_once('"')?.0))
}

fn objected(text: &str) -> Option<Refused<'_>> {
    let quoted = |start: &str, quote: char| text.split_once(start).and_then(|(_, rest)| rest.split(quote).next());
    if text.contains("conflicts with its namespace node label selector") {
        return Some(Refused::NamespaceSelector);
    }
    if text.contains("pod tolerations (possibly merged with namespace default tolerations) conflict") {
        return Some(Refused::NamespaceTolerations);
    }
    if let Some((_, rest)) = text.split_once("admission webhook \"validation.gatekeeper.sh\" denied the request: ") {
        // upstream: open-policy-agent/gatekeeper pkg/webhook/policy.go getValidationMessages: a line `[name] words` for each
        let mut names: Vec<&str> =
            rest.lines().filter_map(|line| Some(line.strip_prefix('[')?.split_once(']')?.0)).collect();
        names.dedup();
        if !names.is_empty() {
            return Some(Refused::Constraints(names));
        }
    }
    if text.contains("admission webhook \"") && text.contains(" denied the request") {
        return quoted("admission webhook \"", '"').map(Refused::Webhook);
    }
    if text.contains(" does not support dry run") {
        return quoted("admission webhook \"", '"').map(Refused::NoDryRun);
    }
    if let Some(name) = quoted("failed calling webhook \"", '"') {
        return Some(Refused::SilentWebhook(name));
    }
    if text.contains(" denied request: ") {
        return quoted("AdmissionPolicy '", '\'').or_else(|| quoted("policy '", '\'')).map(Refused::Policy);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_are_read_from_the_words_of_the_api_server() {
        let of =
            |text: &str| format!("{:?}", Refused::of(&format!("Error creating: pods \"web-\" is forbidden: {text}")));
        for (text, wanted) in [
            (
                "failed quota: cap: must specify limits.cpu for: a,b; requests.memory for: a",
                "Unstated { quota: \"cap\", missing: [(\"limits.cpu\", [\"a\", \"b\"]), (\"requests.memory\", [\"a\"])] }",
            ),
            (
                "exceeded quota: cap, requested: pods=1,requests.cpu=200m, used: pods=2,requests.cpu=1, limited: pods=2,requests.cpu=1",
                "Exceeded { quota: \"cap\", over: [Over { name: \"pods\", requested: \"1\", used: \"2\", limited: \"2\" }, \
                 Over { name: \"requests.cpu\", requested: \"200m\", used: \"1\", limited: \"1\" }] }",
            ),
            (
                "[maximum cpu usage per Container is 500m, but limit is 1, minimum memory usage per Pod is 1Gi, but request is 64Mi]",
                "Bounds([Bound { is_most: true, resource: \"cpu\", kind: \"Container\", bound: \"500m\", found: Some((\"limit\", \"1\")) }, \
                 Bound { is_most: false, resource: \"memory\", kind: \"Pod\", bound: \"1Gi\", found: Some((\"request\", \"64Mi\")) }])",
            ),
            (
                "maximum cpu usage per Container is 1.  No limit is specified",
                "Bounds([Bound { is_most: true, resource: \"cpu\", kind: \"Container\", bound: \"1\", found: None }])",
            ),
            (
                "violates PodSecurity \"restricted:latest\": runAsNonRoot != true (pod must set it)",
                "PodSecurity { level: \"restricted\", violations: \"runAsNonRoot != true (pod must set it)\" }",
            ),
            (
                "error looking up service account team/robot: serviceaccount \"robot\" not found",
                "ServiceAccount(\"robot\")",
            ),
            ("no PriorityClass with name hihg was found", "PriorityClass(\"hihg\")"),
            ("pod rejected: RuntimeClass \"kata\" not found", "RuntimeClass(\"kata\")"),
            (
                "ValidatingAdmissionPolicy 'no-latest' with binding 'b' denied request: images need a tag",
                "Policy(\"no-latest\")",
            ),
            ("pod node label selector conflicts with its namespace node label selector", "NamespaceSelector"),
            (
                "pod tolerations (possibly merged with namespace default tolerations) conflict with its namespace whitelist",
                "NamespaceTolerations",
            ),
            ("something new", "Other"),
        ] {
            assert_eq!(of(text), wanted, "{text}");
        }
        let create =
            "create Pod db-0 in StatefulSet db failed error: admission webhook \"a.b.c\" denied the request: no";
        assert_eq!(Refused::of(create), Refused::Webhook("a.b.c"));
        let gatekeeper = "admission webhook \"validation.gatekeeper.sh\" denied the request: [azurepolicy-limits-1a] container c has no \
                          limits\n[azurepolicy-probes-2b] container c has no probe";
        assert_eq!(
            Refused::of(gatekeeper),
            Refused::Constraints(vec!["azurepolicy-limits-1a", "azurepolicy-probes-2b"])
        );
        let silent = "Internal error occurred: failed calling webhook \"a.b.c\": failed to call webhook: Post \"https://x\": EOF";
        assert_eq!(Refused::of(silent), Refused::SilentWebhook("a.b.c"));
        let unasked = "admission webhook \"a.b.c\" does not support dry run";
        assert_eq!(Refused::of(unasked), Refused::NoDryRun("a.b.c"));
    }
}
