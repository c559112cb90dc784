//! The parameters of requests, by the names under which API servers share them in the older form of the specification.

use serde_json::{Value, json};

use super::catalogue::Catalogue;

/// One parameter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Parameter {
    /// One that many operations have.
    Shared(&'static str),
    /// The name of an object of a kind, in the path.
    NameOf(String),
}

pub(super) const PRETTY: &str = "pretty-tJGM1-ng";
pub(super) const NAMESPACE: &str = "namespace-vgWSWtn3";
/// What follows a proxy's path.
pub(super) const PATH: &str = "path-z6Ciiujn";
/// What must be sent: of those that delete, and those that patch.
pub(super) const BODY_OF_DELETE: &str = "body-2Y1dVQaQ";
pub(super) const BODY_OF_PATCH: &str = "body-78PwaGsr";

pub(super) const GET: &[&str] = &["resourceVersion-5WAnf1kx"];
pub(super) const LIST: &[&str] = &[
    "continue-QfD61s0i",
    "fieldSelector-xIcQKXFG",
    "labelSelector-5Zw57w4C",
    "limit-1NfNmdNH",
    "resourceVersion-5WAnf1kx",
    "resourceVersionMatch-t8XhRHeC",
    "sendInitialEvents-rLXlEK_k",
    "shardSelector-Kgyki_3_",
    "timeoutSeconds-yvYezaOC",
];
pub(super) const WATCH: &[&str] = &["allowWatchBookmarks-HC2hJt-J", "watch-XNNPZGbK"];
pub(super) const WRITE: &[&str] = &["dryRun", "fieldManager-Qy4HdaTW", "fieldValidation"];
pub(super) const PATCH: &[&str] = &["dryRun", "fieldManager-7c6nTn1T", "fieldValidation", "force-tOGGb0Yi"];
pub(super) const DELETE: &[&str] = &[
    "dryRun",
    "gracePeriodSeconds--K5HaBOS",
    "ignoreStoreReadErrorWithClusterBreakingPotential-QbNkfIqj",
    "orphanDependents-uRB25kX5",
    "propagationPolicy-6jk3prlO",
];
pub(super) const LOG: &[&str] = &[
    "container-1GeXxFDC",
    "follow-9OIXh_2R",
    "insecureSkipTLSVerifyBackend-gM00jVbe",
    "limitBytes-zwd1RXuc",
    "previous-1jxDPu3y",
    "sinceSeconds-vE2NLdnP",
    "stream-l-48cgXv",
    "tailLines-9xQLWHMV",
    "timestamps-c17fW1w_",
];
const ATTACH: &[&str] = &["container-_Q-EJ3nR", "stderr-26jJhFUR", "stdin-sEFnN3IS", "stdout-005YMKE6", "tty-g7MlET_l"];
const EXEC: &[&str] =
    &["command-Py3eQybp", "container-i5dOmRiM", "stderr-W_1TNlWc", "stdin-PSzNhyUC", "stdout--EZLRwV1", "tty-s0flW37O"];

/// Those of a stream, by the kind of its options.
pub(super) fn of_connection(kind: &str) -> &'static [&'static str] {
    match kind {
        "PodAttachOptions" => ATTACH,
        "PodExecOptions" => EXEC,
        "PodPortForwardOptions" => &["ports-91KROJmm"],
        "PodProxyOptions" => &["path-oPbzgLUj"],
        "NodeProxyOptions" => &["path-rFDtV0x9"],
        "ServiceProxyOptions" => &["path-QCf0eosM"],
        _ => &[],
    }
}

impl Parameter {
    /// What it is called in requests, and whether it is after the path: their order in documents.
    pub(super) fn place(&self) -> (&str, bool) {
        match self {
            Self::NameOf(_) => ("name", false),
            // What follows the first hyphen tells parameters of one name apart.
            Self::Shared(shared) => {
                (shared.split('-').next().unwrap_or(shared), *shared != NAMESPACE && *shared != PATH)
            }
        }
    }

    /// Written out, in the older form.
    pub(super) fn written_out(&self, catalogue: &Catalogue<'_>) -> Value {
        match self {
            Self::NameOf(kind) => json!({
                "description": format!("name of the {kind}"), "in": "path", "name": "name", "required": true,
                "type": "string", "uniqueItems": true,
            }),
            Self::Shared(shared) => catalogue.parameter(shared),
        }
    }

    /// Written out, in the newer form.
    pub(super) fn newer(&self, catalogue: &Catalogue<'_>) -> Value {
        let mut written = self.written_out(catalogue);
        if let Some(map) = written.as_object_mut() {
            let schema = ["type", "uniqueItems"].into_iter().filter_map(|key| Some((key.to_owned(), map.remove(key)?)));
            let schema = Value::Object(schema.collect());
            map.insert("schema".to_owned(), schema);
        }
        written
    }
}
