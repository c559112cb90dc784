//! `[[step]]` as written.

use k8s_openapi::api::core::v1::{Affinity, TopologySpreadConstraint};
use schemars::{JsonSchema, Schema};
use serde::Deserialize;
use serde_json::json;

use super::{At, Autoscale, Check, KubernetesObject, NodesText, QuantityText, Skip, Table, TolerationText};

/// A step of the lesson.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::spec) struct Step {
    /// Name, for `klab step --to NAME`. Lower-case letters, digits and `-`.
    pub name: At<String>,
    /// One line for the learner.
    pub title: Option<String>,
    /// What the learner is told, in Markdown.
    pub text: Option<String>,
    /// What to tell a learner who is stuck.
    pub hint: Option<String>,
    /// Providers on which the step is left out, each with the reason: { aks = "klab stops no machines of Azure" }.
    pub skip: Option<Skip>,
    /// What must hold before the actions: the failure that the learner is to see first.
    #[serde(default)]
    pub before: Vec<At<Check>>,
    /// What is done, in order.
    #[serde(default, rename = "do")]
    pub actions: Vec<At<Action>>,
    /// What must hold after the actions.
    #[serde(default)]
    pub check: Vec<At<Check>>,
}

/// One action of a step: one verb with what belongs to it.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = forms)]
pub(in crate::spec) struct Action {
    /// Put a taint on `nodes`: "key=value:Effect" or "key:Effect".
    pub taint: Option<At<String>>,
    /// Take taints off `nodes`: "key", "key:Effect" or "key=value:Effect".
    pub untaint: Option<At<String>>,
    /// Set labels of `nodes`: "key=value", several separated by commas.
    pub label: Option<At<String>>,
    /// Remove labels of `nodes`: "key", several separated by commas.
    pub unlabel: Option<At<String>>,
    /// Keep new pods off these nodes: "pool:NAME", "node:NAME" or a label selector.
    pub cordon: Option<At<String>>,
    /// Let pods onto these nodes again.
    pub uncordon: Option<At<String>>,
    /// Cordon these nodes and evict their pods, except those of DaemonSets.
    pub drain: Option<At<String>>,
    /// Change the `replicas` of this workload.
    pub scale: Option<At<String>>,
    /// Change fields of this workload.
    pub set: Option<At<String>>,
    /// Apply manifests: a path relative to the lab file (globs allowed).
    pub apply: Option<At<String>>,
    /// Apply these objects, written as YAML.
    pub yaml: Option<At<String>>,
    /// Create this workload, which is `deferred`.
    pub deploy: Option<At<String>>,
    /// Delete an object, such as "deployment/web" or "workload/web"; or "pods" with a `selector`.
    pub delete: Option<At<String>>,
    /// Create this pool, which is `deferred` or was removed.
    pub add_pool: Option<At<String>>,
    /// Remove this pool with its nodes.
    pub remove_pool: Option<At<String>>,
    /// Change the `nodes` or the `autoscale` bounds of this pool.
    pub scale_pool: Option<At<String>>,
    /// Bring this pool to another `kubernetes` version.
    pub upgrade_pool: Option<At<String>>,
    /// Bring the control plane alone to this Kubernetes version; the nodes stay as they are (sim and AKS).
    pub upgrade_control_plane: Option<At<String>>,
    /// Stop these nodes as if they had lost power (sim and kind).
    pub fail_node: Option<At<String>>,
    /// Start these nodes again.
    pub restore_node: Option<At<String>>,
    /// Have the API server answer nobody for so long, such as "20s" (sim and kind).
    pub fail_api: Option<At<String>>,
    /// Let time pass, such as "10s".
    pub wait: Option<At<String>>,
    /// Run a command, program and arguments; only with `--allow-run`.
    pub run: Option<At<Vec<String>>>,

    /// Which nodes ("pool:NAME", "node:NAME" or a label selector); with `scale_pool`, how many.
    pub nodes: Option<At<NodesText>>,
    /// With `scale`: pods wanted.
    pub replicas: Option<At<u32>>,
    /// With `delete`: labels of the pods.
    pub selector: Option<At<String>>,
    /// With `delete`: namespace. Default: default.
    pub namespace: Option<At<String>>,
    /// With `drain`: how long it may take, such as "2m".
    pub within: Option<At<String>>,
    /// With `drain`: delete pods that nobody owns, too. Default: false.
    pub force: Option<At<bool>>,
    /// With `apply`, `yaml`, `deploy`, `delete` and `drain`: the cluster is to refuse it, with this text in its words.
    pub refused: Option<At<String>>,
    /// With `fail_node`: how many of the nodes, the first by name. Default: all.
    pub count: Option<At<u32>>,
    /// With `scale_pool`: new bounds of the autoscaler.
    pub autoscale: Option<At<Autoscale>>,
    /// With `upgrade_pool`: the version.
    pub kubernetes: Option<At<String>>,
    /// With `set`: new image.
    pub image: Option<At<String>>,
    /// With `set`: new node selector; {} clears it.
    pub node_selector: Option<At<Table<At<String>>>>,
    /// With `set`: new tolerations; [] clears them.
    pub tolerations: Option<At<Vec<At<TolerationText>>>>,
    /// With `set`: new affinity; {} clears it.
    pub affinity: Option<At<KubernetesObject<Affinity>>>,
    /// With `set`: new topology spread constraints; [] clears them.
    pub topology_spread: Option<At<Vec<At<KubernetesObject<TopologySpreadConstraint>>>>>,
    /// With `set`: new resource requests; {} clears them.
    pub requests: Option<At<Table<At<QuantityText>>>>,
    /// With `set`: new resource limits; {} clears them.
    pub limits: Option<At<Table<At<QuantityText>>>>,
    /// With `set`: new priority class; "" clears it.
    pub priority_class: Option<At<String>>,
}

/// Which keys belong to a verb.
pub(in crate::spec) struct ActionForm {
    pub verb: &'static str,
    pub required: &'static [&'static str],
    pub optional: &'static [&'static str],
}

const fn form(verb: &'static str, required: &'static [&'static str], optional: &'static [&'static str]) -> ActionForm {
    ActionForm { verb, required, optional }
}

/// Every verb of `do`, with its keys. The schema and the validation both read this table.
pub(in crate::spec) const ACTIONS: &[ActionForm] = &[
    form("taint", &["nodes"], &[]),
    form("untaint", &["nodes"], &[]),
    form("label", &["nodes"], &[]),
    form("unlabel", &["nodes"], &[]),
    form("cordon", &[], &[]),
    form("uncordon", &[], &[]),
    form("drain", &[], &["within", "force", "refused"]),
    form("scale", &["replicas"], &[]),
    form(
        "set",
        &[],
        &[
            "image",
            "node_selector",
            "tolerations",
            "affinity",
            "topology_spread",
            "requests",
            "limits",
            "priority_class",
        ],
    ),
    form("apply", &[], &["refused"]),
    form("yaml", &[], &["refused"]),
    form("deploy", &[], &["refused"]),
    form("delete", &[], &["selector", "namespace", "refused"]),
    form("add_pool", &[], &[]),
    form("remove_pool", &[], &[]),
    form("scale_pool", &[], &["nodes", "autoscale"]),
    form("upgrade_pool", &["kubernetes"], &[]),
    form("upgrade_control_plane", &[], &[]),
    form("fail_node", &[], &["count"]),
    form("restore_node", &[], &[]),
    form("fail_api", &[], &[]),
    form("wait", &[], &[]),
    form("run", &[], &[]),
];

/// Adds to the schema that an action has one verb and only what belongs to it.
fn forms(schema: &mut Schema) {
    let variants: Vec<_> = ACTIONS
        .iter()
        .map(|form| {
            let required: Vec<_> = std::iter::once(&form.verb).chain(form.required).collect();
            let allowed: serde_json::Map<_, _> =
                required.iter().copied().chain(form.optional).map(|key| ((*key).to_owned(), json!(true))).collect();
            json!({ "required": required, "properties": allowed, "additionalProperties": false })
        })
        .collect();
    schema.insert("oneOf".to_owned(), variants.into());
}

impl Action {
    /// The keys that were written, with the spans of their values.
    pub(in crate::spec) fn keys(&self) -> Vec<(&'static str, std::ops::Range<usize>)> {
        macro_rules! present {
            ($($field:ident),*) => {
                [$((stringify!($field), self.$field.as_ref().map(At::span))),*]
            };
        }
        present!(
            taint,
            untaint,
            label,
            unlabel,
            cordon,
            uncordon,
            drain,
            scale,
            set,
            apply,
            yaml,
            deploy,
            delete,
            add_pool,
            remove_pool,
            scale_pool,
            upgrade_pool,
            upgrade_control_plane,
            fail_node,
            restore_node,
            fail_api,
            wait,
            run,
            nodes,
            replicas,
            selector,
            namespace,
            within,
            force,
            refused,
            count,
            autoscale,
            kubernetes,
            image,
            node_selector,
            tolerations,
            affinity,
            topology_spread,
            requests,
            limits,
            priority_class
        )
        .into_iter()
        .filter_map(|(key, span)| span.map(|span| (key, span)))
        .collect()
    }
}
