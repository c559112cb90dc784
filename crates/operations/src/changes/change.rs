//! One thing that differs, in words, as a command that takes it back, and for programs.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::exec::quoted;
use klab_lab::spec::{Action, Lab, NodeSet, ObjectRef, Pool, Provider, Step};
use klab_scheduler::taint::Taint;

/// How much of a cluster is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scope {
    /// Everything: the cluster is klab's own, down to kube-system.
    All,
    /// What labs and learners make: on other providers the system's objects are not klab's to know.
    OwnOnly,
}

impl Scope {
    /// The scope of a provider.
    pub(super) fn of(provider: Provider) -> Self {
        if provider.profile().is_embedded { Self::All } else { Self::OwnOnly }
    }
}

/// An object, as people name it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Named {
    /// `Deployment`.
    pub kind: String,
    /// Empty for objects without one.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// `apps`; empty for the core group.
    pub group: String,
}

impl Named {
    /// Of an object's JSON.
    pub fn of(object: &Value) -> Self {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (metadata, version) = (&object["metadata"], text(&object["apiVersion"]));
        Self {
            kind: text(&object["kind"]),
            namespace: text(&metadata["namespace"]),
            name: text(&metadata["name"]),
            group: version.split_once('/').map_or("", |(group, _)| group).to_owned(),
        }
    }

    /// An object of the core group that is in no namespace.
    pub(super) fn of_cluster(kind: &str, name: &str) -> Self {
        Self { kind: kind.to_owned(), namespace: String::new(), name: name.to_owned(), group: String::new() }
    }

    /// As steps name objects.
    pub fn reference(&self) -> ObjectRef {
        ObjectRef {
            kind: self.kind.clone(),
            group: Some(self.group.clone()),
            name: self.name.clone(),
            namespace: self.namespace.clone(),
        }
    }

    /// Words of kubectl for it: `deployment/web`, and the namespace where it is not the default one.
    fn arguments(&self) -> Vec<String> {
        let mut words = vec![format!("{}/{}", self.kind.to_ascii_lowercase(), self.name)];
        if !self.namespace.is_empty() && self.namespace != "default" {
            words.extend(["-n".to_owned(), self.namespace.clone()]);
        }
        words
    }

    /// `deployment/web`, `deployment/coredns in kube-system`.
    pub fn label(&self) -> String {
        let short = format!("{}/{}", self.kind.to_ascii_lowercase(), self.name);
        match self.namespace.as_str() {
            "" | "default" => short,
            namespace => format!("{short} in {namespace}"),
        }
    }
}

/// One thing that differs.
#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    /// An object that the lab does not have.
    New(Named),
    /// An object of the lab that is not there.
    Gone(Named),
    /// A node that the lab does not have, or that is gone.
    Node {
        /// Its name.
        node: String,
        /// Its pool, if it says one.
        pool: Option<String>,
        /// Whether it is there.
        found: bool,
        /// How many nodes its pool has in the lab.
        wanted: usize,
        /// How many there are.
        present: usize,
    },
    /// A field with another value, by its path; `None` where there is none.
    Field {
        /// Of which object.
        object: Named,
        /// `spec.replicas`.
        path: String,
        /// In the cluster.
        found: Option<Value>,
        /// In the lab.
        wanted: Option<Value>,
    },
    /// A label of a node.
    Label {
        /// The node.
        node: String,
        /// Its key.
        key: String,
        /// In the cluster.
        found: Option<String>,
        /// In the lab.
        wanted: Option<String>,
    },
    /// A taint of a node: there and not in the lab, or missing.
    Taint {
        /// The node.
        node: String,
        /// The taint.
        taint: Taint,
        /// Whether it is there.
        found: bool,
    },
    /// Whether a node takes new pods.
    Cordon {
        /// The node.
        node: String,
        /// Whether it is cordoned.
        found: bool,
    },
}

impl Change {
    /// The object it is about.
    pub fn object(&self) -> Named {
        match self {
            Self::New(object) | Self::Gone(object) | Self::Field { object, .. } => object.clone(),
            Self::Node { node, .. }
            | Self::Label { node, .. }
            | Self::Taint { node, .. }
            | Self::Cordon { node, .. } => Named::of_cluster("Node", node),
        }
    }

    /// Whether it is about a whole object that the lab does not have.
    pub fn is_new(&self) -> bool {
        matches!(self, Self::New(_) | Self::Node { found: true, .. })
    }

    /// Whether two changes say the same of what is in the cluster, whatever the lab has in its place.
    pub(super) fn finds_the_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Field { object, path, found, .. }, Self::Field { object: its, path: at, found: value, .. }) => {
                (object, path, found) == (its, at, value)
            }
            (Self::Label { node, key, found, .. }, Self::Label { node: its, key: of, found: value, .. }) => {
                (node, key, found) == (its, of, value)
            }
            (Self::Node { node, found, .. }, Self::Node { node: its, found: there, .. }) => {
                (node, found) == (its, there)
            }
            _ => self == other,
        }
    }

    /// What differs, without the object's name.
    pub fn words(&self) -> String {
        match self {
            Self::New(_) | Self::Node { found: true, .. } => "is not in the lab".to_owned(),
            Self::Gone(_) | Self::Node { found: false, .. } => "is gone".to_owned(),
            Self::Field { object, path, found, wanted } => {
                // A Secret's values never appear on a screen.
                let text = |value: &Option<Value>| match value {
                    Some(_) if object.kind == "Secret" => "another value".to_owned(),
                    Some(value) => shortened(value),
                    None => "nothing".to_owned(),
                };
                format!("{path} is {}, the lab has {}", text(found), text(wanted))
            }
            Self::Label { key, found, wanted, .. } => match (found, wanted) {
                (Some(found), Some(wanted)) => format!("label {key} is {found}, the lab has {wanted}"),
                (Some(found), None) => format!("label {key}={found} is not in the lab"),
                (None, wanted) => format!("label {key}={} is missing", wanted.clone().unwrap_or_default()),
            },
            Self::Taint { taint, found: true, .. } => format!("taint {taint} is not in the lab"),
            Self::Taint { taint, found: false, .. } => format!("taint {taint} is missing"),
            Self::Cordon { found: true, .. } => "is cordoned, and is not in the lab".to_owned(),
            Self::Cordon { found: false, .. } => "is not cordoned, and is in the lab".to_owned(),
        }
    }

    /// What takes it back, as it is typed; none where one command cannot. An object of the lab comes back as it is after the lab's
    /// first `steps` steps.
    pub fn undo(&self, lab: &Lab, steps: usize) -> Option<String> {
        let kubectl = |words: &[String]| {
            words.iter().fold("kubectl".to_owned(), |mut line, word| {
                let _ = write!(line, " {}", quoted(word));
                line
            })
        };
        let words = |fixed: &[&str], more: Vec<String>| {
            let mut words: Vec<String> = fixed.iter().map(|&word| word.to_owned()).collect();
            words.extend(more);
            kubectl(&words)
        };
        Some(match self {
            Self::New(object) => words(&["delete"], object.arguments()),
            Self::Node { node, pool: None, found: true, .. } => words(&["delete", "node", node], Vec::new()),
            Self::Node { pool, wanted, present, .. } => {
                let pool = pool.as_ref().filter(|pool| lab.pool(pool).is_some() || *wanted == 0)?;
                match (wanted, present) {
                    (0, _) => format!("klab pool delete {} --lab {}", quoted(pool), lab.name),
                    (_, 0) => format!("klab pool add {} --lab {}", quoted(pool), lab.name),
                    _ if lab.pool(pool).is_some_and(Pool::is_virtual_machines) => {
                        let sizes = lab.pool(pool)?.sizes().into_iter().map(|(size, nodes)| format!("{size}={nodes}"));
                        let sizes: Vec<String> = sizes.collect();
                        format!("klab pool update {} --sizes {} --lab {}", quoted(pool), sizes.join(","), lab.name)
                    }
                    _ => format!("klab pool scale {} --nodes {wanted} --lab {}", quoted(pool), lab.name),
                }
            }
            Self::Field { object, path, wanted: Some(Value::Number(replicas)), .. } if path == "spec.replicas" => {
                let mut arguments = object.arguments();
                arguments.push(format!("--replicas={replicas}"));
                words(&["scale"], arguments)
            }
            Self::Field { object, .. } => self.again()?.command(object, lab, steps)?,
            Self::Gone(object) => {
                if let Some(command) = Again::Applied.command(object, lab, steps) {
                    return Some(command);
                }
                // Of the cluster itself, or of the lab's own manifests.
                let step = steps.checked_sub(1).and_then(|last| lab.steps.get(last));
                let to = step.map(|step| format!(" --to {}", step.name)).unwrap_or_default();
                format!("klab reset {}{to}", lab.name)
            }
            Self::Label { node, key, wanted, .. } => {
                let label = wanted.as_ref().map_or_else(|| format!("{key}-"), |value| format!("{key}={value}"));
                let overwrite = wanted.as_ref().map(|_| "--overwrite".to_owned());
                words(&["label", "node", node], std::iter::once(label).chain(overwrite).collect())
            }
            Self::Taint { node, taint, found } => {
                words(&["taint", "node", node], vec![if *found { format!("{taint}-") } else { taint.to_string() }])
            }
            Self::Cordon { node, found } => words(&[if *found { "uncordon" } else { "cordon" }, node], Vec::new()),
        })
    }

    /// How its object is made as in the lab again; none where it is not about a field.
    pub(super) fn again(&self) -> Option<Again> {
        let Self::Field { object, path, wanted, .. } = self else { return None };
        Some(match wanted {
            _ if !can_change(&object.kind, path) => Again::Recreated,
            None => Again::Replaced,
            // Rules of another key are other rules: applying adds one to what is there.
            Some(_) if path.ends_with(".topologyKey") || path.ends_with("topologySpreadConstraints") => Again::Replaced,
            Some(_) => Again::Applied,
        })
    }

    /// What gives a node back what the lab has, as a step would do it; none for other objects.
    pub fn correction(&self) -> Option<Action> {
        let node = |name: &String| NodeSet::Node(name.clone());
        Some(match self {
            Self::Label { node: name, key, wanted: Some(value), .. } => {
                Action::Label { labels: [(key.clone(), value.clone())].into(), nodes: node(name) }
            }
            Self::Label { node: name, key, wanted: None, .. } => {
                Action::Unlabel { keys: vec![key.clone()], nodes: node(name) }
            }
            Self::Taint { node: name, taint, found: false } => {
                Action::Taint { taint: taint.to_api(), nodes: node(name) }
            }
            Self::Taint { node: name, taint, found: true } => Action::Untaint {
                key: taint.key.clone(),
                value: Some(taint.value.clone()),
                effect: Some(taint.effect.clone()),
                nodes: node(name),
            },
            Self::Cordon { node: name, found: true } => Action::Uncordon { nodes: node(name) },
            Self::Cordon { node: name, found: false } => Action::Cordon { nodes: node(name) },
            Self::New(_) | Self::Gone(_) | Self::Node { .. } | Self::Field { .. } => return None,
        })
    }

    /// For programs.
    pub fn document(&self, lab: &Lab, steps: usize) -> Value {
        let object = self.object();
        let (what, path, found, wanted) = match self {
            Self::New(_) | Self::Node { found: true, .. } => ("new", None, None, None),
            Self::Gone(_) | Self::Node { found: false, .. } => ("gone", None, None, None),
            Self::Field { object, path, found, wanted } if object.kind != "Secret" => {
                ("field", Some(path.clone()), found.clone(), wanted.clone())
            }
            Self::Field { path, .. } => ("field", Some(path.clone()), None, None),
            Self::Label { key, found, wanted, .. } => (
                "label",
                Some(key.clone()),
                found.as_ref().map(|value| json!(value)),
                wanted.as_ref().map(|value| json!(value)),
            ),
            Self::Taint { taint, found, .. } => {
                ("taint", Some(taint.to_string()), Some(json!(found)), Some(json!(!found)))
            }
            Self::Cordon { found, .. } => ("cordon", None, Some(json!(found)), Some(json!(!found))),
        };
        json!({
            "kind": object.kind, "namespace": object.namespace, "name": object.name, "what": what, "path": path,
            "found": found, "wanted": wanted, "undo": self.undo(lab, steps),
        })
    }
}

/// Whether the API server lets a field of an object change. Applying a manifest that differs in another one changes nothing or is
/// refused.
fn can_change(kind: &str, path: &str) -> bool {
    let is_within = |fields: &[&str]| fields.iter().any(|field| path.starts_with(field));
    if !path.starts_with("spec") {
        return true;
    }
    match kind {
        // upstream: pkg/apis/core/validation/validation.go, ValidatePodUpdate and ValidatePersistentVolumeClaimUpdate
        "Pod" => path.rsplit('.').next() == Some("image") || is_within(&["spec.activeDeadlineSeconds"]),
        "PersistentVolumeClaim" => is_within(&["spec.resources", "spec.volumeAttributesClassName"]),
        // upstream: pkg/apis/batch/validation/validation.go, ValidateJobSpecUpdate
        "Job" => is_within(&[
            "spec.parallelism",
            "spec.suspend",
            "spec.activeDeadlineSeconds",
            "spec.backoffLimit",
            "spec.ttl",
        ]),
        // upstream: pkg/apis/apps/validation/validation.go, ValidateStatefulSetUpdate
        "StatefulSet" => {
            !is_within(&["spec.selector", "spec.serviceName", "spec.volumeClaimTemplates", "spec.podManagementPolicy"])
        }
        "Service" | "PodDisruptionBudget" => true,
        _ => !is_within(&["spec.selector"]),
    }
}

/// How an object of the lab is made as its manifest says, from what does least to what does most.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Again {
    /// Its manifest is applied again.
    Applied,
    /// Its manifest replaces it: what that never had, applying it does not take away.
    Replaced,
    /// It is deleted and made again: what cannot be changed has changed.
    Recreated,
}

impl Again {
    /// The command, for an object as it is after the lab's first `steps` steps; none for objects that no workload makes.
    pub(super) fn command(self, object: &Named, lab: &Lab, steps: usize) -> Option<String> {
        let name = &lab.workload(&object.name)?.name.value;
        let changes = |action: &Action| match action {
            Action::Set { workload, .. } | Action::Scale { workload, .. } => workload == name,
            _ => false,
        };
        let changed = |step: &&Step| step.actions.iter().any(|action| changes(&action.value));
        let last = lab.steps.iter().take(steps).rfind(changed);
        let step = last.map(|step| format!(" --step {}", step.name)).unwrap_or_default();
        let verb = match self {
            Self::Applied => "apply",
            Self::Replaced => "replace",
            Self::Recreated => "replace --force",
        };
        Some(format!("klab render {} --workload {name}{step} | kubectl {verb} -f -", lab.name))
    }
}

/// A value on one line, cut where it is long.
fn shortened(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(80) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

/// Objects by what they are.
pub type Objects = BTreeMap<Named, Value>;
