//! The actions of steps: an arm each that performs it, one that undoes it, and one that writes it as commands.

use std::collections::BTreeMap;
use std::time::Duration;

use super::history::History;
use super::kubectl::{self, apply, apply_text, command_of, delete, kubectl, pool, power, reclaim, silence};
use super::line::{Line, command, namespace, object};
use super::nodes::pattern_text;
use super::performer::Performer;
use super::rewrite;
use super::tools::Tools;
use super::undo::{Undo, applied, deleted, downgrade, labelled, previous, returned, workload_reference};
use super::{control_plane, drain, nodes, pools, set, workloads};
use crate::error::{Code, Error, Result};
use crate::event::Verb;
use crate::exec;
use crate::provider::Work;
use crate::stage::stage_within;
use klab_lab::plan::{taint_text, wanted_version};
use klab_lab::spec::{Action, Lab, ManifestContent, Workload, WorkloadKind};

impl Performer<'_> {
    /// Performs one action; `stage` is the lab after it.
    pub(super) fn act(&self, stage: &Lab, action: &Action, work: &mut Work<'_>) -> Result<()> {
        match action {
            Action::Taint { .. }
            | Action::Untaint { .. }
            | Action::Label { .. }
            | Action::Unlabel { .. }
            | Action::Cordon { .. }
            | Action::Uncordon { .. } => nodes::change(self, action, work),
            Action::Drain { nodes, within, force } => drain::drain(self, nodes, *within, *force, work),
            Action::FailNode { .. } | Action::RestoreNode { .. } => nodes::power(self, stage, action, work),
            Action::Scale { workload, replicas } => workloads::scale(self, stage, workload, *replicas, work),
            Action::Set { workload, .. } => set::set(self, stage, workload, work),
            Action::Deploy { workload } => workloads::deploy(self, stage, workload, work),
            Action::Apply { content } => workloads::apply_content(self, stage, content, work),
            Action::Refused { action, text } => self.refused(stage, action, text, work),
            Action::Delete { object } => workloads::delete(self, stage, object, work),
            Action::DeletePods { selector, namespace } => workloads::delete_pods(self, selector, namespace, work),
            Action::AddPool { .. }
            | Action::RemovePool { .. }
            | Action::ScalePool { .. }
            | Action::UpgradePool { .. } => pools::change(self, stage, action, work),
            Action::ReclaimPool { pool, count } => nodes::reclaim(self, stage, pool, *count, work),
            Action::UpgradeControlPlane { kubernetes } => control_plane::upgrade(self, stage, *kubernetes, work),
            Action::FailApi { duration } => control_plane::fail(self, stage, *duration, work),
            Action::Wait { duration } => {
                let duration = Duration::try_from(*duration).unwrap_or_default();
                let words = klab_lab::words::duration(duration);
                let events = work.events.counting(usize::try_from(duration.as_secs()).unwrap_or(usize::MAX));
                let activity = events.start(Verb::Wait, words.clone());
                self.time.pass(duration);
                activity.end();
                events.note(Verb::Wait, words);
                Ok(())
            }
            Action::Run { argv } => self.run_program(argv, work),
        }
    }

    /// Tries what the cluster is to refuse, with this text in its words.
    fn refused(&self, stage: &Lab, action: &Action, text: &str, work: &mut Work<'_>) -> Result<()> {
        match self.act(stage, action, work) {
            Ok(()) => {
                Err(Error::message(Code::StepFailed, format!("the cluster did what it was to refuse with `{text}`")))
            }
            Err(error) if error.to_string().contains(text) => {
                work.events.note(Verb::ExpectRefusal, format!("as the lesson says: {text}"));
                Ok(())
            }
            Err(error) => Err(error),
        }
    }
}

/// What undoes an action (from 0) of a step (from 0).
#[expect(clippy::too_many_lines, reason = "a row for each action")]
pub fn undo(lab: &Lab, step: usize, action: usize) -> Undo {
    let Some(located) = lab.steps.get(step).and_then(|step| step.actions.get(action)) else { return Undo::Nothing };
    let before = stage_within(lab, step, action);
    let history = History::before(lab, &before, step, action);
    let one = |action: Action| Undo::Actions(vec![action]);
    // Of what was refused a part may be done, such as the cordon of a drain.
    match located.value.tried() {
        Action::Taint { taint, nodes } => match history.taint(nodes, &taint.key, &taint.effect) {
            Some(previous) => one(Action::Taint { taint: previous, nodes: nodes.clone() }),
            None => one(Action::Untaint {
                key: taint.key.clone(),
                value: taint.value.clone(),
                effect: Some(taint.effect.clone()),
                nodes: nodes.clone(),
            }),
        },
        Action::Untaint { key, value, effect, nodes } => {
            let taken = history.taints(nodes, key, value.as_deref(), effect.as_deref());
            if taken.is_empty() {
                let pattern = pattern_text(key, value.as_deref(), effect.as_deref());
                return Undo::Impossible(format!("which taints `{pattern}` took off {nodes} is not in the lab file"));
            }
            Undo::Actions(taken.into_iter().map(|(nodes, taint)| Action::Taint { taint, nodes }).collect())
        }
        Action::Label { labels, nodes } => {
            let (known, new): (Vec<_>, Vec<_>) = labels
                .keys()
                .map(|key| (key.clone(), history.label(nodes, key)))
                .partition(|(_, value)| value.is_some());
            let known: BTreeMap<_, _> = known.into_iter().filter_map(|(key, value)| Some((key, value?))).collect();
            labelled(nodes, known, new.into_iter().map(|(key, _)| key).collect())
        }
        Action::Unlabel { keys, nodes } => {
            let known: BTreeMap<_, _> =
                keys.iter().filter_map(|key| Some((key.clone(), history.label(nodes, key)?))).collect();
            if known.len() < keys.len() {
                let unknown: Vec<_> =
                    keys.iter().filter(|key| !known.contains_key(*key)).map(|key| format!("`{key}`")).collect();
                return Undo::Impossible(format!(
                    "the values of the labels {} of {nodes} are not in the lab file",
                    unknown.join(", ")
                ));
            }
            labelled(nodes, known, Vec::new())
        }
        Action::Cordon { nodes } | Action::Drain { nodes, .. } if !history.is_cordoned(nodes) => {
            one(Action::Uncordon { nodes: nodes.clone() })
        }
        Action::Uncordon { nodes } if history.is_cordoned(nodes) => one(Action::Cordon { nodes: nodes.clone() }),
        Action::FailNode { nodes, .. } => one(Action::RestoreNode { nodes: nodes.clone() }),
        Action::RestoreNode { nodes } => history.failure(nodes).map_or(Undo::Nothing, one),
        Action::Scale { workload, .. } => {
            match before.workload(workload).and_then(|workload| workload.replicas.as_ref()) {
                Some(replicas) => one(Action::Scale { workload: workload.clone(), replicas: replicas.value }),
                None => Undo::Impossible(format!("the lab file does not say how many pods `{workload}` had")),
            }
        }
        Action::Set { workload, fields } => match before.workload(workload) {
            Some(spec) => one(Action::Set { workload: workload.clone(), fields: Box::new(previous(fields, spec)) }),
            None => Undo::Nothing,
        },
        Action::Deploy { workload } => one(Action::Delete { object: workload_reference(workload) }),
        Action::Apply { content } => applied(lab, &before, step, action, content),
        Action::Delete { object } => deleted(lab, &before, step, action, object),
        Action::DeletePods { selector, namespace } => {
            // Pods of a controller are there again already; only bare ones have to be made.
            let bare = before.workloads.iter().filter(|workload| {
                workload.kind == WorkloadKind::Pod
                    && !workload.deferred
                    && workload.namespace == *namespace
                    && selector.matches(&before.pod_labels(workload))
            });
            let actions: Vec<Action> =
                bare.map(|workload| Action::Deploy { workload: workload.name.value.clone() }).collect();
            if actions.is_empty() { Undo::Nothing } else { Undo::Actions(actions) }
        }
        Action::AddPool { pool } => one(Action::RemovePool { pool: pool.clone() }),
        Action::RemovePool { pool } => one(Action::AddPool { pool: pool.clone() }),
        Action::ScalePool { pool, .. } => match before.pool(pool) {
            Some(spec) => one(Action::ScalePool {
                pool: pool.clone(),
                nodes: Some(spec.nodes.value),
                autoscale: spec.autoscale.as_ref().map(|bounds| bounds.value),
            }),
            None => Undo::Nothing,
        },
        Action::UpgradePool { pool, to, .. } => downgrade(&before, pool, to),
        Action::ReclaimPool { pool, .. } => returned(&before, pool),
        Action::UpgradeControlPlane { .. } => {
            let profile = before.provider.profile();
            match wanted_version(&before, None).and_then(|text| text.parse().ok()) {
                Some(kubernetes) if !profile.has_managed_pools => one(Action::UpgradeControlPlane { kubernetes }),
                _ => Undo::Impossible(format!(
                    "{} does not bring a control plane back to an older version",
                    profile.title
                )),
            }
        }
        Action::Run { argv } => {
            Undo::Impossible(format!("what `{}` did is not known", argv.first().map_or("it", String::as_str)))
        }
        Action::Cordon { .. }
        | Action::Drain { .. }
        | Action::Uncordon { .. }
        | Action::Wait { .. }
        | Action::FailApi { .. }
        | Action::Refused { .. } => Undo::Nothing,
    }
}

/// The lines that a learner types for an action, which leads from one stage to the next.
pub(super) fn lines_of(before: &Lab, after: &Lab, action: &Action, tools: &Tools) -> Vec<Line> {
    match action {
        Action::Taint { taint, nodes } => vec![kubectl(before, &["taint", "nodes"], nodes, [taint_text(taint)])],
        Action::Untaint { key, value, effect, nodes } => {
            let pattern = pattern_text(key, value.as_deref(), effect.as_deref());
            vec![kubectl(before, &["taint", "nodes"], nodes, [format!("{pattern}-")])]
        }
        Action::Label { labels, nodes } => {
            let pairs = labels.iter().map(|(key, value)| format!("{key}={value}"));
            vec![kubectl(before, &["label", "nodes"], nodes, pairs.chain(["--overwrite".to_owned()]))]
        }
        Action::Unlabel { keys, nodes } => {
            vec![kubectl(before, &["label", "nodes"], nodes, keys.iter().map(|key| format!("{key}-")))]
        }
        Action::Cordon { nodes } => vec![kubectl(before, &["cordon"], nodes, [])],
        Action::Uncordon { nodes } => vec![kubectl(before, &["uncordon"], nodes, [])],
        Action::Drain { nodes, within, force } => {
            let mut options = vec!["--ignore-daemonsets".to_owned(), "--delete-emptydir-data".to_owned()];
            options.extend(force.then(|| "--force".to_owned()));
            options.extend(within.map(|within| format!("--timeout={}s", within.as_secs())));
            vec![kubectl(before, &["drain"], nodes, options)]
        }
        Action::Scale { workload, replicas } => match before.workload(workload) {
            Some(spec) => {
                let object = object(spec);
                let mut arguments = vec!["scale".to_owned(), object, "--replicas".to_owned(), replicas.to_string()];
                arguments.extend(namespace(&spec.namespace));
                vec![command("kubectl", arguments)]
            }
            None => Vec::new(),
        },
        Action::Set { workload, .. } => rewrite::set(before, after, workload),
        Action::Deploy { workload } => {
            let render = exec::Command::new("klab").args(["render", &before.name, "--workload", workload]);
            vec![Line::Command(format!("{render} | kubectl apply -f -"))]
        }
        Action::Apply { content: ManifestContent::Path(path) } => apply(before, path, tools),
        Action::Apply { content: ManifestContent::Yaml(yaml) } => vec![apply_text(yaml)],
        Action::Refused { action, text } => {
            let mut lines = lines_of(before, after, action, tools);
            lines.push(Line::Note(format!("this is refused: {text}")));
            lines
        }
        Action::Delete { object } => delete(before, object),
        Action::DeletePods { selector, namespace: of } => {
            let mut arguments = vec!["delete".to_owned(), "pods".to_owned(), "-l".to_owned(), selector.to_string()];
            arguments.extend(namespace(of));
            // The next pod of a StatefulSet has the name of the old one. A kubectl that looks only after it is there waits for its end.
            let has_names = |workload: &&Workload| workload.kind == WorkloadKind::StatefulSet;
            let mut named = before.workloads.iter().filter(has_names);
            if named.any(|workload| selector.matches(&before.pod_labels(workload))) {
                arguments.push("--wait=false".to_owned());
            }
            vec![command("kubectl", arguments)]
        }
        Action::AddPool { .. } | Action::RemovePool { .. } | Action::ScalePool { .. } | Action::UpgradePool { .. } => {
            pool(before, after, action, tools)
        }
        Action::FailNode { nodes, count } => power(before, nodes, *count, false),
        Action::RestoreNode { nodes } => power(before, nodes, None, true),
        Action::ReclaimPool { pool, count } => reclaim(before, pool, *count),
        Action::UpgradeControlPlane { .. } => kubectl::control_plane(before, after, action, tools),
        Action::FailApi { duration } => silence(before, *duration),
        Action::Wait { duration } => {
            let duration = Duration::try_from(*duration).unwrap_or_default();
            vec![Line::Note(format!("wait for {}", klab_lab::words::duration(duration)))]
        }
        Action::Run { argv } => vec![command_of(argv)],
    }
}
