//! Steps and their actions.

use std::ops::{Range, RangeInclusive};

use jiff::SignedDuration;

use super::{Reader, syntax, taints};
use crate::code::Code;
use crate::spec::check::NodeSet;
use crate::spec::diagnostic::Diagnostic;
use crate::spec::machine::VmSize;
use crate::spec::raw::{self, ACTIONS, ActionForm, At, NodesText};
use crate::spec::source::Located;
use crate::spec::step::{Action, SkippedStep, Step, UpgradeTarget, WorkloadChange};
use crate::spec::workload::ManifestContent;
use crate::words::quoted;

/// How long an API server may be silent: long enough to be seen, and no longer than anybody waits.
const API_FAILURE: RangeInclusive<SignedDuration> = SignedDuration::from_secs(1)..=SignedDuration::from_mins(5);

impl Reader<'_> {
    /// The steps of this provider, and those that it leaves out.
    pub(super) fn steps(&mut self, raw: &[At<raw::Step>]) -> (Vec<Step>, Vec<SkippedStep>) {
        let (mut steps, mut skipped) = (Vec::new(), Vec::new());
        for written in raw {
            let step = self.step(written);
            match self.skipped(written.skip.as_ref()) {
                Some(reason) => skipped.push(SkippedStep { step, reason, position: steps.len() }),
                None => steps.push(step),
            }
        }
        (steps, skipped)
    }

    fn step(&mut self, step: &At<raw::Step>) -> Step {
        Step {
            name: self
                .text(&step.name, Code::Name, syntax::dns_label)
                .unwrap_or_else(|| self.located(&step.name, step.name.get().clone())),
            title: super::shown(step.title.as_ref()),
            text: super::shown(step.text.as_ref()),
            hint: super::shown(step.hint.as_ref()),
            before: self.checks(&step.before),
            actions: step.actions.iter().filter_map(|action| self.action(action)).collect(),
            checks: self.checks(&step.check),
            at: self.at(step.span()),
        }
    }

    fn action(&mut self, raw: &At<raw::Action>) -> Option<Located<Action>> {
        let form = self.form(raw)?;
        let mut action = self.verb(raw, form.verb)?;
        if let Some(text) = &raw.refused {
            let text = self.text(text, Code::Path, syntax::not_empty)?.value;
            action = Action::Refused { action: Box::new(action), text };
        }
        Some(self.located(raw, action))
    }

    /// The one verb of an action, if it has exactly one and only the keys that belong to it.
    fn form(&mut self, raw: &At<raw::Action>) -> Option<&'static ActionForm> {
        let keys = raw.keys();
        let forms: Vec<_> = ACTIONS.iter().filter(|form| keys.iter().any(|(key, _)| *key == form.verb)).collect();
        let at = self.at(raw.span());
        let form = match forms.as_slice() {
            [form] => *form,
            [] => {
                let verbs: Vec<_> = ACTIONS.iter().map(|form| form.verb).collect();
                self.report(
                    Diagnostic::error(Code::Action, "this action does nothing")
                        .at(&at, "there is no verb here")
                        .help(format!("the verbs are {}", quoted(&verbs))),
                );
                return None;
            }
            several => {
                let verbs: Vec<_> = several.iter().map(|form| form.verb).collect();
                self.report(
                    Diagnostic::error(Code::Action, format!("this action has several verbs, {}", quoted(&verbs)))
                        .at(&at, "an action does one thing")
                        .help("write one table for each: `do = [{ … }, { … }]`"),
                );
                return None;
            }
        };
        let mut fine = true;
        for (key, span) in &keys {
            if *key != form.verb && !form.required.contains(key) && !form.optional.contains(key) {
                let belongs: Vec<_> = ACTIONS
                    .iter()
                    .filter(|other| other.required.contains(key) || other.optional.contains(key))
                    .map(|other| other.verb)
                    .collect();
                self.report(
                    Diagnostic::error(Code::Action, format!("`{key}` does not go with `{}`", form.verb))
                        .at(&self.at(span.clone()), format!("`{key}` belongs to {}", quoted(&belongs))),
                );
                fine = false;
            }
        }
        for key in form.required {
            if !keys.iter().any(|(given, _)| given == key) {
                self.report(
                    Diagnostic::error(Code::Action, format!("`{}` needs `{key}`", form.verb))
                        .at(&at, format!("`{key}` is missing")),
                );
                fine = false;
            }
        }
        fine.then_some(form)
    }

    fn verb(&mut self, raw: &raw::Action, verb: &str) -> Option<Action> {
        let written = |text: &Option<At<String>>| text.as_ref().map(|text| text.get().clone());
        Some(match verb {
            "taint" => Action::Taint {
                taint: self.text(raw.taint.as_ref()?, Code::Taint, taints::taint)?.value,
                nodes: self.action_nodes(raw)?,
            },
            "untaint" => {
                let (key, value, effect) = self.text(raw.untaint.as_ref()?, Code::Taint, taints::taint_pattern)?.value;
                Action::Untaint { key, value, effect, nodes: self.action_nodes(raw)? }
            }
            "label" => {
                let labels = self.text(raw.label.as_ref()?, Code::Label, syntax::label_pairs)?.value;
                Action::Label { labels, nodes: self.action_nodes(raw)? }
            }
            "unlabel" => {
                let keys = self.text(raw.unlabel.as_ref()?, Code::Label, syntax::label_keys)?.value;
                Action::Unlabel { keys, nodes: self.action_nodes(raw)? }
            }
            "cordon" => Action::Cordon { nodes: self.node_set(raw.cordon.as_ref()?)? },
            "uncordon" => Action::Uncordon { nodes: self.node_set(raw.uncordon.as_ref()?)? },
            "drain" => Action::Drain {
                nodes: self.node_set(raw.drain.as_ref()?)?,
                within: match &raw.within {
                    Some(text) => Some(self.text(text, Code::Duration, syntax::duration)?.value),
                    None => None,
                },
                force: raw.force.as_ref().is_some_and(|force| *force.get()),
            },
            "scale" => Action::Scale { workload: written(&raw.scale)?, replicas: *raw.replicas.as_ref()?.get() },
            "set" => Action::Set { workload: written(&raw.set)?, fields: Box::new(self.change(raw)?) },
            "apply" => {
                let path = self.text(raw.apply.as_ref()?, Code::Path, syntax::not_empty)?;
                Action::Apply { content: ManifestContent::Path(path) }
            }
            "yaml" => {
                let yaml = self.text(raw.yaml.as_ref()?, Code::Manifest, syntax::not_empty)?;
                Action::Apply { content: ManifestContent::Yaml(yaml) }
            }
            "deploy" => Action::Deploy { workload: written(&raw.deploy)? },
            "delete" => self.delete(raw)?,
            "add_pool" => Action::AddPool { pool: written(&raw.add_pool)? },
            "remove_pool" => Action::RemovePool { pool: written(&raw.remove_pool)? },
            "scale_pool" => self.scale_pool(raw)?,
            "upgrade_pool" | "resize_pool" => {
                let to = self.upgrade_target(raw)?;
                Action::UpgradePool {
                    pool: raw.upgrade_pool.as_ref().or(raw.resize_pool.as_ref()).map(|pool| pool.get().clone())?,
                    to,
                    settings: raw.upgrade.as_ref().map(|upgrade| self.upgrade(upgrade)).unwrap_or_default(),
                    no_wait: raw.no_wait.as_ref().is_some_and(|no_wait| *no_wait.get()),
                }
            }
            "reclaim_pool" => Action::ReclaimPool {
                pool: written(&raw.reclaim_pool)?,
                count: raw.count.as_ref().map(|count| *count.get()),
            },
            "upgrade_control_plane" => Action::UpgradeControlPlane {
                kubernetes: self.text(raw.upgrade_control_plane.as_ref()?, Code::Version, syntax::version)?.value,
            },
            "fail_node" => Action::FailNode {
                nodes: self.node_set(raw.fail_node.as_ref()?)?,
                count: raw.count.as_ref().map(|count| *count.get()),
            },
            "restore_node" => Action::RestoreNode { nodes: self.node_set(raw.restore_node.as_ref()?)? },
            "fail_api" => self.fail_api(raw)?,
            "wait" => Action::Wait { duration: self.text(raw.wait.as_ref()?, Code::Duration, syntax::duration)?.value },
            "run" => self.run(raw)?,
            verb => {
                debug_assert!(false, "no arm reads `{verb}`");
                return None;
            }
        })
    }

    fn run(&mut self, raw: &raw::Action) -> Option<Action> {
        let argv = raw.run.as_ref()?;
        if argv.first().is_none_or(String::is_empty) {
            let example = "program and arguments, such as [\"kubectl\", \"get\", \"nodes\"]";
            self.wrong(argv.span(), "`run` needs a program", example);
            return None;
        }
        Some(Action::Run { argv: argv.get().clone() })
    }

    fn wrong(&mut self, span: Range<usize>, message: &str, label: &str) {
        let at = self.at(span);
        self.report(Diagnostic::error(Code::Action, message).at(&at, label));
    }

    fn action_nodes(&mut self, raw: &raw::Action) -> Option<NodeSet> {
        let nodes = raw.nodes.as_ref()?;
        let NodesText::Text(text) = nodes.get() else {
            self.wrong(
                nodes.span(),
                "here `nodes` says which nodes",
                "expected `pool:NAME`, `node:NAME` or a label selector",
            );
            return None;
        };
        match syntax::node_set(text) {
            Ok(nodes) => Some(nodes),
            Err(mistake) => {
                self.mistake(Code::Selector, nodes.span(), mistake);
                None
            }
        }
    }

    fn delete(&mut self, raw: &raw::Action) -> Option<Action> {
        let text = raw.delete.as_ref()?;
        let namespace = self.namespace(raw.namespace.as_ref());
        match (&raw.selector, text.as_str()) {
            (Some(selector), "pods" | "pod") => {
                let selector = self.text(selector, Code::Selector, syntax::selector)?.value;
                Some(Action::DeletePods { selector, namespace })
            }
            (Some(selector), _) => {
                self.wrong(
                    selector.span(),
                    "`selector` goes with `delete = \"pods\"`",
                    "only pods are deleted by label",
                );
                None
            }
            (None, _) => {
                let object = self.text(text, Code::Object, |text| syntax::object(text, &namespace))?.value;
                Some(Action::Delete { object })
            }
        }
    }

    fn fail_api(&mut self, raw: &raw::Action) -> Option<Action> {
        let text = raw.fail_api.as_ref()?;
        let duration = self.text(text, Code::Duration, syntax::duration)?.value;
        if !API_FAILURE.contains(&duration) {
            self.wrong(text.span(), "the API server is to fail for 1s to 5m", "too short, or too long");
            return None;
        }
        Some(Action::FailApi { duration })
    }

    /// What a pool is to be upgraded to.
    fn upgrade_target(&mut self, raw: &raw::Action) -> Option<UpgradeTarget> {
        if let Some(size) = &raw.size {
            let known = VmSize::find(size.get());
            if known.is_none() {
                self.unknown_size(size);
            }
            return known.map(UpgradeTarget::Size);
        }
        let pool = raw.upgrade_pool.as_ref()?;
        let is_image_only = raw.node_image_only.as_ref().is_some_and(|only| *only.get());
        match (&raw.kubernetes, is_image_only) {
            (Some(version), false) => {
                Some(UpgradeTarget::Kubernetes(self.text(version, Code::Version, syntax::version)?.value))
            }
            (None, true) => Some(UpgradeTarget::NodeImage),
            (None, false) => {
                self.wrong(pool.span(), "`upgrade_pool` needs `kubernetes` or `node_image_only`", "to what?");
                None
            }
            (Some(version), true) => {
                let label = "a version comes with its node image: leave out one of the two";
                self.wrong(version.span(), "`upgrade_pool` has both `kubernetes` and `node_image_only`", label);
                None
            }
        }
    }

    fn scale_pool(&mut self, raw: &raw::Action) -> Option<Action> {
        let pool = raw.scale_pool.as_ref()?;
        let nodes = match &raw.nodes {
            None => None,
            Some(nodes) => match nodes.get() {
                NodesText::Number(number) => u32::try_from(*number).ok(),
                NodesText::Text(_) => {
                    self.wrong(nodes.span(), "with `scale_pool`, `nodes` says how many", "expected a number");
                    return None;
                }
            },
        };
        let autoscale = raw.autoscale.as_ref().map(|bounds| *bounds.get());
        if nodes.is_none() && autoscale.is_none() {
            self.wrong(pool.span(), "`scale_pool` needs `nodes` or `autoscale`", "to how many nodes?");
            return None;
        }
        Some(Action::ScalePool { pool: pool.get().clone(), nodes, autoscale })
    }

    fn change(&mut self, raw: &raw::Action) -> Option<WorkloadChange> {
        let before = self.diagnostics.errors();
        let values = |map: std::collections::BTreeMap<String, Located<_>>| {
            map.into_iter().map(|(key, value)| (key, value.value)).collect()
        };
        let change = WorkloadChange {
            image: self.optional(raw.image.as_ref(), Code::Image, syntax::image).map(|image| image.value),
            node_selector: raw.node_selector.as_ref().map(|labels| self.plain_labels(labels)),
            tolerations: raw
                .tolerations
                .as_ref()
                .map(|list| self.tolerations(list).into_iter().map(|toleration| toleration.value).collect()),
            affinity: raw.affinity.as_ref().map(|affinity| self.affinity(affinity).value),
            topology_spread: raw
                .topology_spread
                .as_ref()
                .map(|list| self.topology_spread(list).into_iter().map(|constraint| constraint.value).collect()),
            requests: raw.requests.as_ref().map(|table| values(self.quantities(table))),
            limits: raw.limits.as_ref().map(|table| values(self.quantities(table))),
            priority_class: raw.priority_class.as_ref().map(|name| name.get().clone()),
            load: raw.load.as_ref().and_then(|text| match text.get().as_str() {
                "" => Some(String::new()),
                written => self.text(text, Code::Count, syntax::percent).map(|_| written.to_owned()),
            }),
        };
        if self.diagnostics.errors() > before {
            return None;
        }
        if change == WorkloadChange::default() {
            let span = raw.set.as_ref()?.span();
            self.wrong(
                span,
                "`set` changes nothing",
                "add `image`, `node_selector`, `tolerations`, `affinity`, `requests` …",
            );
            return None;
        }
        Some(change)
    }
}
