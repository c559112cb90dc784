//! What a workload's pods ask for in the cluster otherwise than the lab says.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{PodSpec, Toleration};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as ApiQuantity;
use serde_json::{Value, json};

use crate::spec::Workload;
use klab_scheduler::quantity::Quantity;
use klab_scheduler::taint;

/// A field of pods that the scheduler reads and a lab file can say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Field {
    Requests,
    NodeSelector,
    Affinity,
    Tolerations,
    Spread,
    PriorityClass,
}

/// Fields of a workload's pods that the cluster has otherwise than the lab, and what the lab says.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Drift {
    pub(crate) fields: Vec<Field>,
    lab: PodSpec,
}

impl Drift {
    /// Compares; `is_template` where nothing but defaults was added to what the workload's author wrote.
    pub(crate) fn of(workload: &Workload, live: &PodSpec, is_template: bool) -> Option<Self> {
        if workload.template.is_some() {
            return None;
        }
        let lab = said(workload, live);
        let mut fields = Vec::new();
        let mut note = |field, differs: bool| {
            if differs {
                fields.push(field);
            }
        };
        note(Field::Requests, requests_differ(workload, live, is_template));
        note(Field::NodeSelector, !same(lab.node_selector.as_ref(), live.node_selector.as_ref()));
        note(Field::Affinity, !same(lab.affinity.as_ref(), live.affinity.as_ref()));
        note(Field::Tolerations, tolerations(&lab, is_template) != tolerations(live, is_template));
        note(Field::Spread, !same(lab.topology_spread_constraints.as_ref(), live.topology_spread_constraints.as_ref()));
        // A pod gets the class that is the default of the cluster.
        let named = workload.priority_class.is_some() || is_template;
        note(Field::PriorityClass, named && !same(lab.priority_class_name.as_ref(), live.priority_class_name.as_ref()));
        (!fields.is_empty()).then_some(Self { fields, lab })
    }

    /// The same of one field alone; none where that is as the lab says.
    pub(crate) fn only(&self, field: Field) -> Option<Self> {
        self.fields.contains(&field).then(|| Self { fields: vec![field], lab: self.lab.clone() })
    }

    /// Gives a pod what the lab says.
    pub(crate) fn undo(&self, spec: &mut PodSpec) {
        for field in &self.fields {
            match field {
                Field::Requests => {
                    let lab = self.lab.containers.first().and_then(|container| container.resources.clone());
                    if let Some(container) = spec.containers.first_mut() {
                        container.resources = lab;
                    }
                }
                Field::NodeSelector => spec.node_selector.clone_from(&self.lab.node_selector),
                Field::Affinity => spec.affinity.clone_from(&self.lab.affinity),
                Field::Tolerations => spec.tolerations.clone_from(&self.lab.tolerations),
                Field::Spread => {
                    spec.topology_spread_constraints.clone_from(&self.lab.topology_spread_constraints);
                }
                Field::PriorityClass => spec.priority_class_name.clone_from(&self.lab.priority_class_name),
            }
        }
    }

    /// The operations of a JSON patch that do so, by their paths in the pod's spec.
    pub(crate) fn operations(&self) -> Vec<(&'static str, String, Option<Value>)> {
        let one = |field: &Field| {
            let (path, value) = match field {
                Field::Requests => {
                    let container = self.lab.containers.first();
                    ("/containers/0/resources", container.map(|container| json!(container.resources)))
                }
                Field::NodeSelector => ("/nodeSelector", self.lab.node_selector.as_ref().map(|it| json!(it))),
                Field::Affinity => ("/affinity", self.lab.affinity.as_ref().map(|it| json!(it))),
                Field::Tolerations => ("/tolerations", self.lab.tolerations.as_ref().map(|it| json!(it))),
                Field::Spread => {
                    let said = self.lab.topology_spread_constraints.as_ref();
                    ("/topologySpreadConstraints", said.map(|it| json!(it)))
                }
                Field::PriorityClass => {
                    ("/priorityClassName", self.lab.priority_class_name.as_ref().map(|it| json!(it)))
                }
            };
            let verb = if value.is_some() { "add" } else { "remove" };
            (verb, path.to_owned(), value)
        };
        self.fields.iter().map(one).collect()
    }

    /// The same as a change of containers, if only amounts differ and none has to be removed.
    pub(crate) fn amounts(&self, live: &PodSpec) -> Option<Value> {
        let ([Field::Requests], [container]) = (self.fields.as_slice(), live.containers.as_slice()) else {
            return None;
        };
        let lab = self.lab.containers.first()?.resources.as_ref()?;
        let now = container.resources.as_ref();
        let mut resources = serde_json::Map::new();
        for (field, said, now) in [
            ("limits", &lab.limits, now.and_then(|now| now.limits.as_ref())),
            ("requests", &lab.requests, now.and_then(|now| now.requests.as_ref())),
        ] {
            let said = said.clone().unwrap_or_default();
            if now.into_iter().flatten().any(|(name, _)| !said.contains_key(name)) {
                return None;
            }
            let other: BTreeMap<_, _> = said
                .iter()
                .filter(|(name, amount)| parsed(Some(amount)) != parsed(now.and_then(|now| now.get(*name))))
                .collect();
            if !other.is_empty() {
                resources.insert(field.to_owned(), json!(other));
            }
        }
        (!resources.is_empty()).then(|| json!({ "containers": [{ "name": container.name, "resources": resources }] }))
    }

    /// As an instruction about an object.
    pub(crate) fn words(&self, object: &str, live: &PodSpec) -> String {
        let one = |field: &Field| match field {
            Field::Requests => self.requests(live),
            Field::NodeSelector => "the node selector".to_owned(),
            Field::Affinity => "the affinity".to_owned(),
            Field::Tolerations => "the tolerations".to_owned(),
            Field::Spread => "the topology spread".to_owned(),
            Field::PriorityClass => "the priority class".to_owned(),
        };
        let words: Vec<String> = self.fields.iter().map(one).collect();
        format!("restore {} of `{object}` as the lab says", words.join(" and "))
    }

    /// `requests.cpu` (50m, now 5).
    fn requests(&self, live: &PodSpec) -> String {
        let of = |spec: &PodSpec| -> BTreeMap<String, ApiQuantity> {
            let resources = spec.containers.first().and_then(|container| container.resources.as_ref());
            resources.and_then(|resources| resources.requests.clone()).unwrap_or_default()
        };
        let (said, now) = (of(&self.lab), of(live));
        let other = |name: &&String| parsed(said.get(*name)) != parsed(now.get(*name));
        let text = |amount: Option<&ApiQuantity>| amount.map_or("none", |amount| amount.0.as_str()).to_owned();
        let names: std::collections::BTreeSet<&String> = said.keys().chain(now.keys()).filter(other).collect();
        let each = names.iter().map(|name| {
            let name = name.as_str();
            format!("`requests.{name}` ({}, now {})", text(said.get(name)), text(now.get(name)))
        });
        each.collect::<Vec<_>>().join(" and ")
    }
}

fn parsed(amount: Option<&ApiQuantity>) -> Option<Quantity> {
    amount.and_then(|amount| Quantity::parse(&amount.0).ok())
}

/// The pods as the lab describes them. Fields that the lab leaves to the cluster keep the cluster's value.
fn said(workload: &Workload, live: &PodSpec) -> PodSpec {
    let mut container = live.containers.first().cloned().unwrap_or_default();
    let amounts = |from: &BTreeMap<String, crate::spec::Located<ApiQuantity>>| {
        let all: BTreeMap<String, ApiQuantity> =
            from.iter().map(|(name, amount)| (name.clone(), amount.value.clone())).collect();
        (!all.is_empty()).then_some(all)
    };
    let resources = container.resources.get_or_insert_default();
    resources.requests = amounts(&workload.requests);
    resources.limits = amounts(&workload.limits);
    let node_selector: BTreeMap<String, String> =
        workload.node_selector.iter().map(|(key, value)| (key.clone(), value.value.clone())).collect();
    let spread = workload.topology_spread.iter().enumerate().map(|(at, said)| {
        let mut said = said.value.clone();
        // Without a selector it counts the workload's own pods, as the rendered one does.
        let rendered = live.topology_spread_constraints.as_ref().and_then(|list| list.get(at));
        if said.label_selector.is_none() {
            said.label_selector = rendered.and_then(|rendered| rendered.label_selector.clone());
        }
        said
    });
    let spread: Vec<_> = spread.collect();
    let tolerations: Vec<Toleration> = workload.tolerations.iter().map(|said| said.value.clone()).collect();
    PodSpec {
        containers: vec![container],
        node_selector: Some(node_selector).filter(|it| !it.is_empty()),
        affinity: workload.affinity.as_ref().map(|affinity| affinity.value.clone()),
        tolerations: Some(tolerations).filter(|it| !it.is_empty()),
        topology_spread_constraints: Some(spread).filter(|it| !it.is_empty()),
        priority_class_name: workload.priority_class.as_ref().map(|class| class.value.clone()),
        ..PodSpec::default()
    }
}

/// Whether two fields are the same; a missing field equals an empty one.
fn same<T: serde::Serialize>(one: Option<&T>, two: Option<&T>) -> bool {
    let value = |it: Option<&T>| json!(it);
    let (one, two) = (value(one), value(two));
    let is_empty = |value: &Value| match value {
        Value::Null => true,
        Value::Object(fields) => fields.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::String(text) => text.is_empty(),
        _ => false,
    };
    one == two || (is_empty(&one) && is_empty(&two))
}

fn requests_differ(workload: &Workload, live: &PodSpec, is_template: bool) -> bool {
    let [container] = live.containers.as_slice() else { return false };
    let resources = container.resources.as_ref();
    let now = resources.and_then(|resources| resources.requests.as_ref());
    let said = |name: &str| workload.requests.get(name).map(|amount| &amount.value);
    let lab = workload.requests.keys().any(|name| parsed(said(name)) != parsed(now.and_then(|now| now.get(name))));
    // A pod gets requests from its limits and from LimitRanges, a template does not.
    let more = now.into_iter().flatten().any(|(name, _)| said(name).is_none());
    lab || (is_template && more)
}

/// The tolerations of pods, without those that every pod gets.
fn tolerations(spec: &PodSpec, is_template: bool) -> Vec<String> {
    let given = |toleration: &&Toleration| {
        let key = toleration.key.as_deref().unwrap_or_default();
        is_template || !key.starts_with("node.kubernetes.io/")
    };
    let all = spec.tolerations.iter().flatten().filter(given);
    let mut all: Vec<String> = all.map(|toleration| format!("{:?}", taint::Toleration::from(toleration))).collect();
    all.sort();
    all
}
