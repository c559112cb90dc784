//! Workloads, namespaces, ConfigMaps and Secrets, manifests.

use std::collections::BTreeMap;
use std::ops::Range;

use k8s_openapi::api::core::v1::{Affinity, Toleration, TopologySpreadConstraint};

use super::placement::{self, Problem};
use super::syntax::Mistake;
use super::{COMPARES, Reader, given, references, syntax, taints};
use crate::code::Code;
use crate::spec::diagnostic::{Diagnostic, did_you_mean};
use crate::spec::raw::{self, At, KubernetesObject, Table};
use crate::spec::source::Located;
use crate::spec::workload::{
    Bundle, BundleKind, ManifestContent, ManifestSource, Namespace, Port, ResourceClaimSource, VolumeSource, Workload,
    WorkloadKind,
};

/// The image of workloads that do not say: it does nothing, needs next to nothing, and is on every node already.
const DEFAULT_IMAGE: &str = "registry.k8s.io/pause:3.10";

impl Reader<'_> {
    pub(super) fn workloads(&mut self, raw: &Table<raw::Workload>) -> Vec<Workload> {
        raw.iter().map(|(name, workload)| self.workload(name, workload)).collect()
    }

    fn workload(&mut self, name: &At<String>, raw: &raw::Workload) -> Workload {
        let checked = self.text(name, Code::Name, syntax::workload_name);
        let kind = given(raw.kind.as_ref());
        let image = self.optional(raw.image.as_ref(), Code::Image, syntax::image);
        Workload {
            name: checked.unwrap_or_else(|| self.located(name, name.get().clone())),
            kind,
            template: self.optional(raw.template.as_ref(), Code::Path, syntax::not_empty),
            namespace: self.namespace(raw.namespace.as_ref()),
            replicas: self.replicas(name, raw, kind),
            parallelism: self.parallelism(raw, kind),
            image: image.unwrap_or_else(|| self.located(name, DEFAULT_IMAGE.to_owned())),
            command: raw.command.clone(),
            args: raw.args.clone(),
            env: self.env(&raw.env),
            env_from: self.texts(&raw.env_from, Code::Object, references::bundle),
            mounts: raw.mounts.iter().filter_map(|(path, source)| self.mount(path, source, kind)).collect(),
            resource_claims: self.resource_claims(&raw.resource_claims),
            ports: raw.ports.iter().filter_map(|port| self.port(port)).collect(),
            service: raw.service.as_ref().and_then(|port| self.service(port)),
            requests: self.quantities(&raw.requests),
            limits: self.quantities(&raw.limits),
            node_selector: self.labels(&raw.node_selector),
            node_name: self.optional(raw.node_name.as_ref(), Code::Name, syntax::node_name),
            tolerations: self.tolerations(&raw.tolerations),
            affinity: raw.affinity.as_ref().map(|affinity| self.affinity(affinity)),
            topology_spread: self.topology_spread(&raw.topology_spread),
            priority_class: self.optional(raw.priority_class.as_ref(), Code::Name, syntax::dns_subdomain),
            scheduler_name: raw.scheduler_name.clone(),
            scheduling_gates: self
                .texts(&raw.scheduling_gates, Code::Label, syntax::label_key)
                .into_iter()
                .map(|gate| gate.value)
                .collect(),
            load: self.load(raw, kind),
            termination_grace_period: raw.termination_grace_period,
            restart_policy: self.restart_policy(raw, kind),
            labels: self.labels(&raw.labels),
            annotations: raw.annotations.clone(),
            deferred: raw.deferred,
            at: self.at(name.span()),
        }
    }

    fn replicas(&mut self, name: &At<String>, raw: &raw::Workload, kind: WorkloadKind) -> Option<Located<u32>> {
        match (kind, &raw.replicas) {
            (WorkloadKind::DaemonSet | WorkloadKind::Pod, Some(replicas)) => {
                let label = if kind == WorkloadKind::Pod {
                    "a pod is one"
                } else {
                    "a DaemonSet has one on every fitting node"
                };
                self.not_for(replicas.span(), "replicas", kind, label);
                None
            }
            (WorkloadKind::DaemonSet, None) => None,
            (_, Some(replicas)) => Some(self.located(replicas, *replicas.get())),
            (_, None) => Some(self.located(name, 1)),
        }
    }

    fn parallelism(&mut self, raw: &raw::Workload, kind: WorkloadKind) -> Option<u32> {
        let parallelism = raw.parallelism.as_ref()?;
        if kind != WorkloadKind::Job {
            self.not_for(parallelism.span(), "parallelism", kind, "only a job has it");
            return None;
        }
        Some(*parallelism.get())
    }

    fn load(&mut self, raw: &raw::Workload, kind: WorkloadKind) -> Option<Located<u32>> {
        let load = raw.load.as_ref()?;
        if !matches!(kind, WorkloadKind::Deployment | WorkloadKind::StatefulSet) {
            self.not_for(load.span(), "load", kind, "only pods of a Deployment or StatefulSet share a load");
            return None;
        }
        self.text(load, Code::Count, syntax::percent)
    }

    fn restart_policy(&mut self, raw: &raw::Workload, kind: WorkloadKind) -> Option<String> {
        let policy = raw.restart_policy.as_ref()?;
        let (text, allowed) = match (policy.get(), kind) {
            (raw::RestartPolicy::Always, _) => ("Always", kind != WorkloadKind::Job),
            (raw::RestartPolicy::OnFailure, _) => ("OnFailure", matches!(kind, WorkloadKind::Job | WorkloadKind::Pod)),
            (raw::RestartPolicy::Never, _) => ("Never", matches!(kind, WorkloadKind::Job | WorkloadKind::Pod)),
        };
        if !allowed {
            let label = if kind == WorkloadKind::Job {
                "a job's pods end: OnFailure or Never"
            } else {
                "pods of this kind run for ever: Always"
            };
            self.not_for(policy.span(), &format!("restart_policy = \"{text}\""), kind, label);
            return None;
        }
        Some(text.to_owned())
    }

    /// What a container sees at a path; a claim for each pod only in what makes claims.
    fn mount(
        &mut self,
        path: &At<String>,
        raw: &At<String>,
        kind: WorkloadKind,
    ) -> Option<(String, Located<VolumeSource>)> {
        let source = self.text(raw, Code::Object, references::volume_source)?;
        if matches!(source.value, VolumeSource::ClaimTemplate(_)) && kind != WorkloadKind::StatefulSet {
            self.not_for(raw.span(), raw.get(), kind, "only a statefulset makes a claim for each of its pods");
            return None;
        }
        Some((path.get().clone(), source))
    }

    fn resource_claims(&mut self, raw: &Table<At<String>>) -> Vec<(String, Located<ResourceClaimSource>)> {
        raw.iter()
            .filter_map(|(name, source)| {
                let name = self.text(name, Code::Name, syntax::dns_label)?;
                Some((name.value, self.text(source, Code::Object, references::resource_claim)?))
            })
            .collect()
    }

    fn not_for(&mut self, span: std::ops::Range<usize>, what: &str, kind: WorkloadKind, label: &str) {
        let at = self.at(span);
        self.report(
            Diagnostic::error(Code::NotForKind, format!("`{what}` is not for a {}", kind.as_str())).at(&at, label),
        );
    }

    fn env(&mut self, raw: &Table<String>) -> Vec<(String, String)> {
        raw.iter()
            .filter_map(|(name, value)| {
                self.text(name, Code::Name, syntax::variable_name).map(|name| (name.value, value.clone()))
            })
            .collect()
    }

    fn port(&mut self, raw: &At<raw::PortText>) -> Option<Port> {
        let in_range = |port: u16| port > 0;
        let port = match raw.get() {
            raw::PortText::Number(number) => Port {
                container: u16::try_from(*number).unwrap_or(0),
                host: None,
                protocol: "TCP".to_owned(),
                name: None,
            },
            raw::PortText::Table(table) => Port {
                container: table.container,
                host: table.host,
                protocol: match syntax::protocol(table.protocol.as_deref().unwrap_or("TCP")) {
                    Ok(protocol) => protocol,
                    Err(mistake) => {
                        self.mistake(Code::Port, raw.span(), mistake);
                        return None;
                    }
                },
                name: table.name.clone(),
            },
        };
        if !in_range(port.container) || !port.host.is_none_or(in_range) {
            let at = self.at(raw.span());
            self.report(Diagnostic::error(Code::Port, "this is not a port").at(&at, "ports are 1 to 65535"));
            return None;
        }
        Some(port)
    }

    fn service(&mut self, raw: &At<u16>) -> Option<Located<u16>> {
        if *raw.get() == 0 {
            let at = self.at(raw.span());
            self.report(Diagnostic::error(Code::Port, "this is not a port").at(&at, "ports are 1 to 65535"));
            return None;
        }
        Some(self.located(raw, *raw.get()))
    }

    pub(super) fn tolerations(&mut self, raw: &[At<raw::TolerationText>]) -> Vec<Located<Toleration>> {
        raw.iter()
            .filter_map(|toleration| match taints::toleration(toleration.get()) {
                Ok(value) if !self.compares && matches!(value.operator.as_deref(), Some("Lt" | "Gt")) => {
                    let needs = format!("it needs the feature gate `{}`", COMPARES.name());
                    let help =
                        format!("`[sim]` and `[kind]` switch it: `feature_gates = {{ {} = true }}`", COMPARES.name());
                    let mistake = Mistake::new("Kubernetes refuses this toleration", needs).help(help);
                    self.mistake(Code::Toleration, toleration.span(), mistake);
                    None
                }
                Ok(value) => Some(self.located(toleration, value)),
                Err(mistake) => {
                    self.mistake(Code::Toleration, toleration.span(), mistake);
                    None
                }
            })
            .collect()
    }

    /// Reports a problem at the value that is wrong, where it stands but once in the structure; else at the structure.
    fn misplaced(&mut self, refused: Diagnostic, span: Range<usize>, problem: Problem) {
        let Problem { text, value, choices } = problem;
        // A table under a header of its own has its header for a place: then the whole file is looked through.
        let places = [span.clone(), 0..self.source.text().len()];
        let found = value.as_deref().and_then(|value| {
            let at = places.into_iter().find_map(|within| self.only(value, &within))?;
            Some((self.at(at), did_you_mean(value, choices.iter().copied())))
        });
        let refused = match found {
            Some((at, Some(near))) => refused.at(&at, text).patch("did you mean", &at, format!("\"{near}\"")),
            Some((at, None)) => refused.at(&at, text),
            None => refused.at(&self.at(span), text),
        };
        self.report(refused);
    }

    /// Where a value stands in quotes within a part of the file, if it does so but once.
    fn only(&self, value: &str, within: &Range<usize>) -> Option<Range<usize>> {
        let text = self.source.text().get(within.clone())?;
        let quoted = [format!("\"{value}\""), format!("'{value}'")];
        let mut places = quoted.iter().flat_map(|quoted| text.match_indices(quoted.as_str()));
        let (at, quoted) = places.next().filter(|_| places.next().is_none())?;
        let start = within.start + at;
        Some(start..start + quoted.len())
    }

    pub(super) fn affinity(&mut self, raw: &At<KubernetesObject<Affinity>>) -> Located<Affinity> {
        let affinity = raw.get().0.clone();
        for problem in placement::affinity_problems(&affinity) {
            let refused = Diagnostic::error(Code::Affinity, "Kubernetes refuses this affinity");
            self.misplaced(refused, raw.span(), problem);
        }
        self.located(raw, affinity)
    }

    pub(super) fn topology_spread(
        &mut self,
        raw: &[At<KubernetesObject<TopologySpreadConstraint>>],
    ) -> Vec<Located<TopologySpreadConstraint>> {
        raw.iter()
            .map(|constraint| {
                let value = constraint.get().0.clone();
                for problem in placement::spread_problems(&value) {
                    let message = "Kubernetes refuses this topology spread constraint";
                    self.misplaced(Diagnostic::error(Code::TopologySpread, message), constraint.span(), problem);
                }
                self.located(constraint, value)
            })
            .collect()
    }

    pub(super) fn namespaces(&mut self, raw: &Table<raw::Namespace>) -> Vec<Namespace> {
        raw.iter()
            .filter_map(|(name, namespace)| {
                let labels = self.plain_labels(&namespace.labels);
                let at = self.at(name.span());
                self.text(name, Code::Name, syntax::dns_label).map(|name| Namespace { name, labels, at })
            })
            .collect()
    }

    pub(super) fn bundles(&mut self, raw: &raw::Lab) -> Vec<Bundle> {
        let configs = raw.config.iter().filter_map(|(name, config)| {
            self.bundle(name, BundleKind::Config, config.namespace.as_ref(), &config.data, &config.files, &config.env)
        });
        let mut bundles: Vec<_> = configs.collect();
        for (name, secret) in raw.secret.iter() {
            let (data, files, env) = (&secret.data, &secret.files, &secret.env);
            if let Some(bundle) = self.bundle(name, BundleKind::Secret, secret.namespace.as_ref(), data, files, env) {
                bundles.push(Bundle { secret_type: secret.of_type.clone(), ..bundle });
            }
        }
        bundles
    }

    fn bundle(
        &mut self,
        name: &At<String>,
        kind: BundleKind,
        namespace: Option<&At<String>>,
        data: &Table<String>,
        files: &[At<String>],
        env: &[At<String>],
    ) -> Option<Bundle> {
        let entries: BTreeMap<_, _> = data
            .iter()
            .filter_map(|(key, value)| {
                self.text(key, Code::Name, syntax::data_key).map(|key| (key.value, value.clone()))
            })
            .collect();
        let bundle_name = self.text(name, Code::Name, syntax::dns_subdomain);
        Some(Bundle {
            kind,
            namespace: self.namespace(namespace),
            data: entries,
            files: self.texts(files, Code::Path, syntax::not_empty),
            env: self.texts(env, Code::Name, syntax::data_key),
            secret_type: None,
            at: self.at(name.span()),
            name: bundle_name?,
        })
    }

    pub(super) fn manifests(&mut self, raw: &[At<raw::Manifest>]) -> Vec<ManifestSource> {
        raw.iter()
            .filter_map(|manifest| {
                let at = self.at(manifest.span());
                let content = match (&manifest.path, &manifest.yaml) {
                    (Some(path), None) => ManifestContent::Path(self.text(path, Code::Path, syntax::not_empty)?),
                    (None, Some(yaml)) => ManifestContent::Yaml(self.text(yaml, Code::Path, syntax::not_empty)?),
                    (path, _) => {
                        let label = if path.is_some() { "here are both" } else { "here is neither" };
                        self.report(
                            Diagnostic::error(Code::Manifest, "a manifest has either `path` or `yaml`")
                                .at(&at, label)
                                .help("`path = \"k8s/*.yaml\"` for files, `yaml = '''…'''` for text"),
                        );
                        return None;
                    }
                };
                Some(ManifestSource { content, at })
            })
            .collect()
    }
}
