//! `skip` as written, of checks and of steps.

use schemars::JsonSchema;
use serde::Deserialize;

use super::At;
use crate::spec::provider::Provider;

/// Providers on which something is left out, each with the reason.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::spec) struct Skip {
    /// Why it cannot be on the embedded cluster.
    pub sim: Option<At<String>>,
    /// Why it cannot be on kind.
    pub kind: Option<At<String>>,
    /// Why it cannot be on AKS.
    pub aks: Option<At<String>>,
    /// Why it cannot be on a cluster that klab did not make.
    pub existing: Option<At<String>>,
}

impl Skip {
    /// The reasons that are given, by provider.
    pub(in crate::spec) fn reasons(&self) -> impl Iterator<Item = (Provider, &At<String>)> {
        let all = [
            (Provider::Sim, &self.sim),
            (Provider::Kind, &self.kind),
            (Provider::Aks, &self.aks),
            (Provider::Existing, &self.existing),
        ];
        all.into_iter().filter_map(|(provider, reason)| Some((provider, reason.as_ref()?)))
    }
}
