//! Pure: the state that undoing an action brings back, from the lab file and the steps before.

use std::collections::BTreeMap;

use crate::apply::ObjectKey;
use crate::render::{Manifest, render, render_content};
use klab_lab::plan::wanted_version;
use klab_lab::spec::{
    Action, Diagnostics, Lab, ManifestContent, NodeForm, NodeSet, ObjectRef, UpgradeSettings, UpgradeTarget, Workload,
    WorkloadChange, singular,
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

/// A workload by its name in the lab file, with all its objects.
pub(super) fn workload_reference(name: &str) -> ObjectRef {
    ObjectRef { kind: "workload".to_owned(), group: None, name: name.to_owned(), namespace: "default".to_owned() }
}

pub(super) fn labelled(nodes: &NodeSet, set: BTreeMap<String, String>, remove: Vec<String>) -> Undo {
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
pub(super) fn previous(fields: &WorkloadChange, workload: &Workload) -> WorkloadChange {
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
        load: fields
            .load
            .as_ref()
            .map(|_| workload.load.as_ref().map(|load| format!("{}%", load.value)).unwrap_or_default()),
    }
}

pub(super) fn downgrade(before: &Lab, name: &str, to: &UpgradeTarget) -> Undo {
    let Some(pool) = before.pool(name) else { return Undo::Nothing };
    let profile = before.provider.profile();
    let back = |to: UpgradeTarget| {
        let settings = UpgradeSettings::default();
        Undo::Actions(vec![Action::UpgradePool { pool: name.to_owned(), to, settings, no_wait: false }])
    };
    match to {
        UpgradeTarget::NodeImage => {
            return Undo::Impossible(format!("pool `{name}` does not go back to an older node image"));
        }
        UpgradeTarget::Size(_) if profile.has_managed_pools => {
            return pool.machine.size.map_or(Undo::Nothing, |size| back(UpgradeTarget::Size(size)));
        }
        _ => {}
    }
    if profile.has_managed_pools {
        return Undo::Impossible(format!("{} does not bring pool `{name}` back to an older version", profile.title));
    }
    let version = wanted_version(before, Some(pool)).and_then(|text| text.parse().ok());
    match version {
        Some(kubernetes) => back(UpgradeTarget::Kubernetes(kubernetes)),
        None => Undo::Impossible(format!("the lab file does not say which version pool `{name}` had")),
    }
}

/// What brings back the nodes of a pool that Azure takes, and those that it has only announced. An autoscaler decides itself.
pub(super) fn returned(before: &Lab, name: &str) -> Undo {
    let Some(pool) = before.pool(name).filter(|pool| pool.autoscale.is_none()) else { return Undo::Nothing };
    let mut actions = vec![Action::ScalePool { pool: name.to_owned(), nodes: Some(pool.nodes.value), autoscale: None }];
    if before.provider.profile().nodes == NodeForm::Object && pool.nodes.value > 0 {
        actions.push(Action::RestoreNode { nodes: NodeSet::Pool(name.to_owned()) });
    }
    Undo::Actions(actions)
}

pub(super) fn applied(lab: &Lab, before: &Lab, step: usize, action: usize, content: &ManifestContent) -> Undo {
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

pub(super) fn deleted(lab: &Lab, before: &Lab, step: usize, action: usize, object: &ObjectRef) -> Undo {
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
