//! Feature gates and versions of the API of the embedded cluster.

use std::collections::BTreeMap;

use klab_scheduler::features::{FeatureError, Features, Gate, OPTIONAL_APIS, Settings, Why, api_names, gate_names};

use super::Reader;
use crate::code::Code;
use crate::spec::Diagnostic;
use crate::spec::diagnostic::did_you_mean;
use crate::spec::raw::{self, At};
use crate::words::quoted;

impl Reader<'_> {
    /// Whether the lab's cluster has a gate on.
    pub(super) fn has_gate(&self, raw: &raw::Lab, gate: Gate) -> bool {
        let profile = self.provider.profile();
        let own = match (&raw.sim, &raw.kind) {
            (Some(sim), _) if profile.is_embedded => sim.feature_gates.get(gate.name()).map(|on| *on.get()),
            (_, Some(kind)) if !profile.is_embedded => kind.feature_gates.get(gate.name()).copied(),
            _ => None,
        };
        own.filter(|_| profile.switches_features).unwrap_or(gate.is_on())
    }

    pub(super) fn features(&mut self, raw: &raw::Sim) -> Features {
        let values =
            |map: &BTreeMap<String, At<bool>>| map.iter().map(|(name, on)| (name.clone(), *on.get())).collect();
        let settings =
            Settings { feature_gates: values(&raw.feature_gates), runtime_config: values(&raw.runtime_config) };
        let (features, errors) = Features::of(&settings);
        for error in errors {
            // A gate that needs others may not stand in the file; one of those others does.
            let needed = if let Why::Needs(off) = &error.why { off.split(' ').collect() } else { Vec::new() };
            let mut names = std::iter::once(&*error.name).chain(needed);
            let gate = names.find_map(|name| raw.feature_gates.get(name));
            let Some(at) = gate.or_else(|| raw.runtime_config.get(&error.name)) else { continue };
            let at = self.at(at.span());
            let code = if gate.is_some() { Code::FeatureGate } else { Code::RuntimeConfig };
            let report = Diagnostic::error(code, "the embedded cluster cannot be configured like this".to_owned());
            self.report(report.at(&at, error.to_string()).help(help(&error)));
        }
        features
    }
}

/// What to write instead.
fn help(error: &FeatureError) -> String {
    let gates = || quoted(&Gate::ALL.iter().map(|gate| gate.name()).collect::<Vec<_>>());
    let near = |name| format!("did you mean `{name}`?");
    match &error.why {
        Why::UnknownGate => {
            did_you_mean(&error.name, gate_names()).map_or_else(|| format!("klab models the gates {}", gates()), near)
        }
        Why::UnmodelledGate => format!("leave it out; klab models the gates {}", gates()),
        Why::Locked(_) => "leave it out".to_owned(),
        Why::Needs(_) => format!("set `{} = false`, too", error.name),
        Why::UnknownGroup | Why::UnknownVersion if did_you_mean(&error.name, api_names()).is_some() => {
            near(did_you_mean(&error.name, api_names()).unwrap_or_default())
        }
        _ => format!("leave it out; klab can do without {}", quoted(&OPTIONAL_APIS)),
    }
}
