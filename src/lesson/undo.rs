//! Pure: what undoes an action, from the stage before it and the steps before it.

use std::collections::BTreeMap;

use super::history::History;
use super::nodes::pattern_text;
use crate::apply::ObjectKey;
use crate::render::{Manifest, render, render_content};
use crate::stage::stage_within;
use klab_lab::plan::wanted_version;
use klab_lab::spec::{
    Action, Diagnostics, Lab, ManifestContent, NodeSet, ObjectRef, Workload, WorkloadChange, singular,
};

/// What undoes an action.
#[derive(Clone, Debug)]
pub enum Undo {
    /// Nothing has to be done.
    Nothing,
    /// These actions do, performed towards the stage before.
    Actions(Vec<Action>),
    /// These objects are put back or taken away.
    Objects(Objects),
    /// Nothing does, because of this.
    Impossible(String),
}

/// Objects as they were before.
#[derive(Clone, Debug, Default)]
pub struct Objects {
    /// Those that were there, as they were.
    pub apply: Vec<Manifest>,
    /// Those that were not.
    pub delete: Vec<ObjectKey>,
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
                workload.kind == klab_lab::spec::WorkloadKind::Pod
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
        Action::UpgradePool { pool, .. } => downgrade(&before, pool),
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

/// A workload by its name in the lab file, with all its objects.
fn workload_reference(name: &str) -> ObjectRef {
    ObjectRef { kind: "workload".to_owned(), group: None, name: name.to_owned(), namespace: "default".to_owned() }
}

fn labelled(nodes: &NodeSet, set: BTreeMap<String, String>, remove: Vec<String>) -> Undo {
    let mut actions = Vec::new();
    if !set.is_empty() {
        actions.push(Action::Label { labels: set, nodes: nodes.clone() });
    }
    if !remove.is_empty() {
        actions.push(Action::Unlabel { keys: remove, nodes: nodes.clone() });
    }
    Undo::Actions(actions)
}

/// The fields of a change as the workload has them.
fn previous(fields: &WorkloadChange, workload: &Workload) -> WorkloadChange {
    fn map<T: Clone>(values: &BTreeMap<String, klab_lab::spec::Located<T>>) -> BTreeMap<String, T> {
        values.iter().map(|(key, value)| (key.clone(), value.value.clone())).collect()
    }
    fn list<T: Clone>(values: &[klab_lab::spec::Located<T>]) -> Vec<T> {
        values.iter().map(|value| value.value.clone()).collect()
    }
    WorkloadChange {
        image: fields.image.as_ref().map(|_| workload.image.value.clone()),
        node_selector: fields.node_selector.as_ref().map(|_| map(&workload.node_selector)),
        tolerations: fields.tolerations.as_ref().map(|_| list(&workload.tolerations)),
        affinity: fields
            .affinity
            .as_ref()
            .map(|_| workload.affinity.as_ref().map(|affinity| affinity.value.clone()).unwrap_or_default()),
        topology_spread: fields.topology_spread.as_ref().map(|_| list(&workload.topology_spread)),
        requests: fields.requests.as_ref().map(|_| map(&workload.requests)),
        limits: fields.limits.as_ref().map(|_| map(&workload.limits)),
        priority_class: fields
            .priority_class
            .as_ref()
            .map(|_| workload.priority_class.as_ref().map(|name| name.value.clone()).unwrap_or_default()),
    }
}

fn downgrade(before: &Lab, name: &str) -> Undo {
    let Some(pool) = before.pool(name) else { return Undo::Nothing };
    let profile = before.provider.profile();
    if profile.has_managed_pools {
        return Undo::Impossible(format!("{} does not bring pool `{name}` back to an older version", profile.title));
    }
    let version = wanted_version(before, Some(pool)).and_then(|text| text.parse().ok());
    match version {
        Some(kubernetes) => Undo::Actions(vec![Action::UpgradePool { pool: name.to_owned(), kubernetes }]),
        None => Undo::Impossible(format!("the lab file does not say which version pool `{name}` had")),
    }
}

fn applied(lab: &Lab, before: &Lab, step: usize, action: usize, content: &ManifestContent) -> Undo {
    let outcome = render_content(before, content).and_then(|made| Ok((made, objects(lab, before, step, action)?)));
    match outcome {
        Err(diagnostics) => unrendered(&diagnostics),
        Ok((made, there)) => {
            let mut undone = Objects::default();
            for manifest in made.iter().rev() {
                let key = ObjectKey::of(&manifest.object);
                match there.get(&key) {
                    Some(previous) => undone.apply.push(previous.clone()),
                    None => undone.delete.push(key),
                }
            }
            undone.apply.reverse();
            Undo::Objects(undone)
        }
    }
}

fn deleted(lab: &Lab, before: &Lab, step: usize, action: usize, object: &ObjectRef) -> Undo {
    if let Some(workload) = before.workload_of(object) {
        return Undo::Actions(vec![Action::Deploy { workload: workload.name.value.clone() }]);
    }
    match objects(lab, before, step, action) {
        Err(diagnostics) => unrendered(&diagnostics),
        Ok(there) => match there.iter().find(|(key, _)| is(key, object)) {
            Some((_, manifest)) => Undo::Objects(Objects { apply: vec![manifest.clone()], delete: Vec::new() }),
            None => Undo::Impossible(format!("`{object}` is not the lab's own, so what it was is not known")),
        },
    }
}

fn unrendered(diagnostics: &Diagnostics) -> Undo {
    let words = diagnostics.iter().next().map(|problem| problem.message.clone()).unwrap_or_default();
    Undo::Impossible(format!("the objects could not be rendered: {words}"))
}

/// Whether a reference means this object.
fn is(key: &ObjectKey, object: &ObjectRef) -> bool {
    key.kind.to_ascii_lowercase() == singular(&object.kind)
        && key.name == object.name
        && (key.namespace.is_empty() || key.namespace == object.namespace)
        && object.group.as_deref().is_none_or(|named| named == key.group())
}

/// The lab's objects at a point: of the set-up, and of the files that steps applied before.
fn objects(lab: &Lab, before: &Lab, step: usize, action: usize) -> Result<BTreeMap<ObjectKey, Manifest>, Diagnostics> {
    let keyed = |manifests: Vec<Manifest>| manifests.into_iter().map(|one| (ObjectKey::of(&one.object), one));
    let mut there: BTreeMap<ObjectKey, Manifest> = keyed(render(before)?).collect();
    for done in crate::stage::actions_before(lab, step, action) {
        match &done.value {
            Action::Apply { content } => there.extend(keyed(render_content(before, content)?)),
            Action::Delete { object } if before.workload_of(object).is_none() => {
                there.retain(|key, _| !is(key, object));
            }
            _ => {}
        }
    }
    Ok(there)
}
