//! From the raw layer to [`Lab`]: texts are parsed, defaults filled in. What cannot be parsed is reported and left out, so
//! that the rest is still read.

mod check;
mod features;
mod placement;
mod pool;
mod references;
mod scheduler;
mod step;
mod syntax;
mod taints;
mod upgrade;
mod virtual_machines;
mod workload;

#[cfg(test)]
pub(crate) use check::condition_keys;
pub use syntax::lab_name_like;

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use super::catalogue::Catalogue;
use super::diagnostic::{Diagnostic, Diagnostics};
use super::files::Files;
use super::lab::Lab;
use super::provider::{
    AksSettings, DEFAULT_LOCATION, ExistingSettings, KindSettings, PortMapping, Provider, SimSettings,
};
use super::raw::{self, At, Table};
use super::source::{Located, Location, Source};
use super::structure::Broken;
use super::template::Rendered;
use crate::code::Code;
use crate::printable::printable;
use klab_scheduler::autoscaler::{self, SettingError};
use klab_scheduler::features::Gate;

/// Turns the raw lab into a valid one; `broken` gains the tables in which something was left out.
pub(super) fn lab(
    raw: &raw::Lab,
    rendered: Rendered,
    source: &Arc<Source>,
    broken: &mut Broken,
    diagnostics: &mut Diagnostics,
) -> Lab {
    let mut reader = Reader { source, diagnostics, provider: rendered.provider, compares: false };
    reader.compares = reader.has_gate(raw, COMPARES);
    let name = reader.text(&raw.lab, Code::LabName, syntax::lab_name);
    let aks = reader.aks(raw.aks.as_ref());
    let before = reader.diagnostics.errors();
    let existing = reader.existing(raw.existing.as_ref());
    let pools = reader.pools(&raw.pool, aks.network, &existing);
    if reader.diagnostics.errors() > before {
        broken.insert("pool".to_owned());
    }
    let (steps, skipped_steps) = reader.steps(&raw.step);
    let sim = reader.sim(raw.sim.as_ref());
    Lab {
        source: Arc::clone(source),
        name: name.unwrap_or_else(|| reader.located(&raw.lab, raw.lab.get().clone())),
        title: shown(raw.title.as_ref()),
        description: shown(raw.description.as_ref()),
        catalogue: Catalogue { tracks: raw.tracks.clone(), topics: raw.topics.clone(), minutes: raw.minutes },
        kubernetes: reader.optional(raw.kubernetes.as_ref(), Code::Version, syntax::version),
        provider: rendered.provider,
        vars: rendered.vars,
        ttl: reader.optional(raw.ttl.as_ref(), Code::Duration, syntax::duration).map(|ttl| ttl.value),
        addons: raw.addons.iter().map(|addon| *addon.get()).collect(),
        pools,
        autoscaler: reader.autoscaler(raw.autoscaler.as_ref()),
        scheduler: reader.scheduler(raw.scheduler.as_ref(), sim.like),
        workloads: reader.workloads(&raw.workload),
        namespaces: reader.namespaces(&raw.namespace),
        bundles: reader.bundles(raw),
        manifests: reader.manifests(&raw.manifest),
        checks: reader.checks(&raw.check),
        steps,
        skipped_steps,
        sim,
        kind: reader.kind(raw.kind.as_ref()),
        aks,
        existing,
        files: Files::default(),
        warnings: Diagnostics::default(),
    }
}

/// The gate of tolerations that compare numbers.
const COMPARES: Gate = Gate::TaintTolerationComparisonOperators;

/// A text that is there to be shown, as it may be shown.
fn shown(text: Option<&String>) -> Option<String> {
    text.map(|text| printable(text).into_owned())
}

/// What is written, or else the default.
fn given<T: Copy + Default>(raw: Option<&At<T>>) -> T {
    raw.map(|value| *value.get()).unwrap_or_default()
}

/// Reads raw values and gathers what is wrong with them.
struct Reader<'a> {
    source: &'a Arc<Source>,
    diagnostics: &'a mut Diagnostics,
    provider: Provider,
    /// Whether tolerations may compare numbers.
    compares: bool,
}

/// What a parser of `syntax` says about a text.
type Parsed<T> = Result<T, syntax::Mistake>;

impl Reader<'_> {
    fn at(&self, span: Range<usize>) -> Location {
        self.source.at(span)
    }

    fn located<T, U>(&self, raw: &At<T>, value: U) -> Located<U> {
        Located::new(value, self.at(raw.span()))
    }

    fn report(&mut self, diagnostic: Diagnostic) {
        self.diagnostics.push(diagnostic);
    }

    fn mistake(&mut self, code: Code, span: Range<usize>, mistake: syntax::Mistake) {
        let at = self.at(span);
        let mut diagnostic = Diagnostic::error(code, mistake.message).at(&at, mistake.label);
        if let Some(help) = mistake.help {
            diagnostic = diagnostic.help(help);
        }
        if let Some(instead) = mistake.instead {
            // A key may stand without quotes.
            let quoted = self.source.text()[at.span()].starts_with(['"', '\'']);
            let instead = if quoted { format!("\"{instead}\"") } else { instead };
            diagnostic = diagnostic.patch("did you mean", &at, instead);
        }
        self.report(diagnostic);
    }

    /// Parses a text; a mistake is reported at its place.
    fn text<T>(&mut self, raw: &At<String>, code: Code, parse: impl Fn(&str) -> Parsed<T>) -> Option<Located<T>> {
        match parse(raw.get()) {
            Ok(value) => Some(self.located(raw, value)),
            Err(mistake) => {
                self.mistake(code, raw.span(), mistake);
                None
            }
        }
    }

    fn optional<T>(
        &mut self,
        raw: Option<&At<String>>,
        code: Code,
        parse: impl Fn(&str) -> Parsed<T>,
    ) -> Option<Located<T>> {
        raw.and_then(|text| self.text(text, code, parse))
    }

    fn texts<T>(&mut self, raw: &[At<String>], code: Code, parse: impl Fn(&str) -> Parsed<T>) -> Vec<Located<T>> {
        raw.iter().filter_map(|text| self.text(text, code, &parse)).collect()
    }

    /// A table of labels, with keys and values as Kubernetes takes them.
    fn labels(&mut self, raw: &Table<At<String>>) -> BTreeMap<String, Located<String>> {
        let mut labels = BTreeMap::new();
        for (key, value) in raw.iter() {
            let key_is_fine = self.text(key, Code::Label, syntax::label_key).is_some();
            if let Some(value) = self.text(value, Code::Label, syntax::label_value)
                && key_is_fine
            {
                labels.insert(key.get().clone(), value);
            }
        }
        labels
    }

    fn plain_labels(&mut self, raw: &Table<At<String>>) -> BTreeMap<String, String> {
        self.labels(raw).into_iter().map(|(key, value)| (key, value.value)).collect()
    }

    /// Why something is left out on this provider, if it is.
    fn skipped(&mut self, raw: Option<&raw::Skip>) -> Option<Located<String>> {
        let raw = raw?;
        // Reasons for other providers are read, too, so that a mistake in them is seen everywhere.
        let reasons: Vec<_> = raw
            .reasons()
            .filter_map(|(provider, reason)| Some((provider, self.text(reason, Code::Skip, syntax::not_empty)?)))
            .collect();
        reasons.into_iter().find(|(provider, _)| *provider == self.provider).map(|(_, reason)| reason)
    }

    fn namespace(&mut self, raw: Option<&At<String>>) -> String {
        raw.and_then(|text| self.text(text, Code::Name, syntax::dns_label))
            .map_or_else(|| "default".to_owned(), |name| name.value)
    }

    fn kind(&mut self, raw: Option<&raw::Kind>) -> KindSettings {
        let Some(raw) = raw else { return KindSettings::default() };
        let mut text = |raw: &Option<At<String>>, code: Code, parse: fn(&str) -> Parsed<String>| {
            self.optional(raw.as_ref(), code, parse).map(|text| text.value)
        };
        let pod_subnet = text(&raw.pod_subnet, Code::Network, syntax::subnet);
        let service_subnet = text(&raw.service_subnet, Code::Network, syntax::subnet);
        let api_server_address = text(&raw.api_server_address, Code::Network, syntax::address);
        let image = text(&raw.image, Code::Image, syntax::image);
        let load = self.texts(&raw.load, Code::Image, syntax::image);
        let ports = raw.ports.iter().filter_map(|port| self.port_mapping(port)).collect();
        KindSettings {
            control_planes: raw.control_planes.as_ref().map_or(1, |count| *count.get()),
            ports,
            mounts: raw.mounts.clone(),
            registry_mirrors: raw.registry_mirrors.clone(),
            feature_gates: raw.feature_gates.clone(),
            runtime_config: raw.runtime_config.clone(),
            kubeadm_patches: raw.kubeadm_patches.clone(),
            pod_subnet,
            service_subnet,
            api_server_address,
            api_server_port: raw.api_server_port,
            image,
            load,
        }
    }

    fn port_mapping(&mut self, port: &raw::PortMapping) -> Option<PortMapping> {
        let protocol = match &port.protocol {
            Some(text) => self.text(text, Code::Port, syntax::protocol)?.value,
            None => "TCP".to_owned(),
        };
        let address = match &port.address {
            Some(text) => Some(self.text(text, Code::Network, syntax::address)?.value),
            None => None,
        };
        Some(PortMapping { host: port.host, container: port.container, protocol, address })
    }

    fn existing(&mut self, raw: Option<&raw::Existing>) -> ExistingSettings {
        let default = ExistingSettings::default();
        let Some(raw) = raw else { return default };
        let context = self.optional(raw.context.as_ref(), Code::Path, syntax::not_empty);
        let kubeconfig = self.optional(raw.kubeconfig.as_ref(), Code::Path, syntax::not_empty);
        let pool_label = self.optional(raw.pool_label.as_ref(), Code::Label, syntax::label_key);
        ExistingSettings { context, kubeconfig, pool_label: pool_label.map_or(default.pool_label, |label| label.value) }
    }

    fn autoscaler(&mut self, raw: Option<&raw::Autoscaler>) -> BTreeMap<String, Located<String>> {
        let mut settings = BTreeMap::new();
        for (name, value) in raw.into_iter().flat_map(raw::Autoscaler::settings) {
            let text = &value.get().0;
            match autoscaler::Profile::default().set(name, text) {
                Ok(()) => drop(settings.insert(name.to_owned(), self.located(value, text.clone()))),
                Err(error) => {
                    let at = self.at(value.span());
                    let expected = match &error {
                        SettingError::Value { expected, .. } => format!("must be {expected}"),
                        SettingError::Unknown { .. } => "is no setting of AKS's cluster autoscaler profile".to_owned(),
                    };
                    let message = format!("the autoscaler's `{name}` cannot be `{}`", printable(text));
                    self.report(Diagnostic::error(Code::AutoscalerSetting, message).at(&at, expected));
                }
            }
        }
        settings
    }

    fn sim(&mut self, raw: Option<&raw::Sim>) -> SimSettings {
        let defaults = SimSettings::default();
        let Some(raw) = raw else { return defaults };
        let node_start = self.optional(raw.node_start.as_ref(), Code::Duration, syntax::duration);
        let node_start = node_start.map_or(defaults.node_start, |time| time.value);
        let features = self.features(raw);
        SimSettings {
            like: given(raw.like.as_ref()),
            seed: raw.seed,
            node_start,
            missing_images: raw.missing_images.clone(),
            features,
        }
    }

    fn aks(&mut self, raw: Option<&raw::Aks>) -> AksSettings {
        // A place in the file for values that are not in it: its beginning.
        let default_location = Located::new(DEFAULT_LOCATION.to_owned(), self.at(0..0));
        let nothing = raw::Aks::default();
        let raw = raw.unwrap_or(&nothing);
        AksSettings {
            location: self
                .optional(raw.location.as_ref(), Code::Location, syntax::location)
                .unwrap_or(default_location),
            subscription: raw.subscription.clone(),
            resource_group: self.optional(raw.resource_group.as_ref(), Code::Name, syntax::resource_group),
            node_resource_group: raw.node_resource_group.clone(),
            tier: given(raw.tier.as_ref()),
            network: given(raw.network.as_ref()),
            subnet: raw.subnet.clone(),
            kubernetes: self.optional(raw.kubernetes.as_ref(), Code::Version, syntax::version),
            tags: raw.tags.clone(),
            registry: raw.registry.clone(),
            extra_args: raw.extra_args.clone(),
        }
    }
}
