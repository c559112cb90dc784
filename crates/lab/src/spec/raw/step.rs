//! `[[step]]` as written.

use std::ops::Range;

use k8s_openapi::api::core::v1::{Affinity, TopologySpreadConstraint};
use schemars::{JsonSchema, Schema};
use serde::Deserialize;
use serde_json::json;

use super::{At, Check, KubernetesObject, NodesText, QuantityText, Skip, Table, TolerationText, Upgrade};
use crate::spec::pool::Autoscale;

/// A step of the lesson.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::spec) struct Step {
    /// Name, for `klab step --to NAME`. Lower-case letters, digits and `-`.
    pub name: At<String>,
    /// One line for the learner.
    pub title: Option<String>,
    /// The text for the learner, in Markdown.
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

/// A table all of whose keys may be left out, and know whether they were written.
macro_rules! table {
    ($(#[$about:meta])* $name:ident { $($(#[$doc:meta])* $key:ident: $type:ty,)* }) => {
        $(#[$about])*
        pub(in crate::spec) struct $name { $($(#[$doc])* pub $key: Option<At<$type>>,)* }

        impl $name {
            /// The keys that were written, with the spans of their values.
            pub(in crate::spec) fn keys(&self) -> Vec<(&'static str, Range<usize>)> {
                let all = [$((stringify!($key), self.$key.as_ref().map(At::span))),*];
                all.into_iter().filter_map(|(key, span)| Some((key, span?))).collect()
            }
        }
    };
}

table! {
    /// One action of a step: one verb with what belongs to it.
    #[derive(Debug, Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields)]
    #[schemars(transform = forms)]
    Action {
        /// Put a taint on `nodes`: "key=value:Effect" or "key:Effect".
        taint: String,
        /// Take taints off `nodes`: "key", "key:Effect" or "key=value:Effect".
        untaint: String,
        /// Set labels of `nodes`: "key=value", several separated by commas.
        label: String,
        /// Remove labels of `nodes`: "key", several separated by commas.
        unlabel: String,
        /// Keep new pods off these nodes: "pool:NAME", "node:NAME" or a label selector.
        cordon: String,
        /// Let pods onto these nodes again.
        uncordon: String,
        /// Cordon these nodes and evict their pods, except those of DaemonSets.
        drain: String,
        /// Change the `replicas` of this workload.
        scale: String,
        /// Change fields of this workload.
        set: String,
        /// Apply manifests: a path relative to the lab file (globs allowed).
        apply: String,
        /// Apply these objects, written as YAML.
        yaml: String,
        /// Create this workload, which is `deferred`.
        deploy: String,
        /// Delete an object, such as "deployment/web" or "workload/web"; or "pods" with a `selector`.
        delete: String,
        /// Create this pool, which is `deferred` or was removed.
        add_pool: String,
        /// Remove this pool with its nodes.
        remove_pool: String,
        /// Change the `nodes` or the `autoscale` bounds of this pool.
        scale_pool: String,
        /// Bring this pool to another `kubernetes` version.
        upgrade_pool: String,
        /// Bring this pool to machines of another `size`, one after the other (sim and AKS).
        resize_pool: String,
        /// Have Azure take nodes of this spot pool back (sim and AKS).
        reclaim_pool: String,
        /// Bring the control plane alone to this Kubernetes version; the nodes stay as they are (sim and AKS).
        upgrade_control_plane: String,
        /// Stop these nodes as if they had lost power (sim and kind).
        fail_node: String,
        /// Start these nodes again.
        restore_node: String,
        /// Silence the API server for this long, such as "20s" (sim and kind).
        fail_api: String,
        /// Let time pass, such as "10s".
        wait: String,
        /// Run a command, program and arguments; only with `--allow-run`.
        run: Vec<String>,

        /// Which nodes ("pool:NAME", "node:NAME" or a label selector); with `scale_pool`, how many.
        nodes: NodesText,
        /// With `scale`: pods wanted.
        replicas: u32,
        /// With `delete`: labels of the pods.
        selector: String,
        /// With `delete`: namespace. Default: default.
        namespace: String,
        /// With `drain`: how long it may take, such as "2m".
        within: String,
        /// With `drain`: delete pods without a controller, too. Default: false.
        force: bool,
        /// With `apply`, `yaml`, `deploy`, `delete`, `drain`, `upgrade_pool` and `resize_pool`: the cluster is to refuse it, with this text in its words.
        refused: String,
        /// With `fail_node` and `reclaim_pool`: how many of the nodes, the first by name. Default: all.
        count: u32,
        /// With `scale_pool`: new bounds of the autoscaler.
        autoscale: Autoscale,
        /// With `upgrade_pool`: the version.
        kubernetes: String,
        /// With `upgrade_pool`: in place of `kubernetes`, the newest node image at the version that there is (sim and AKS).
        node_image_only: bool,
        /// With `resize_pool`: the Azure VM size.
        size: String,
        /// With `upgrade_pool` and `resize_pool`: how, where it is not as the pool's own `upgrade` says: { max_surge = 2 } (sim and AKS).
        upgrade: Upgrade,
        /// With `upgrade_pool` and `resize_pool`: go on while the upgrade is under way. Default: false (sim and AKS).
        no_wait: bool,
        /// With `set`: new image.
        image: String,
        /// With `set`: new node selector; {} clears it.
        node_selector: Table<At<String>>,
        /// With `set`: new tolerations; [] clears them.
        tolerations: Vec<At<TolerationText>>,
        /// With `set`: new affinity; {} clears it.
        affinity: KubernetesObject<Affinity>,
        /// With `set`: new topology spread constraints; [] clears them.
        topology_spread: Vec<At<KubernetesObject<TopologySpreadConstraint>>>,
        /// With `set`: new resource requests; {} clears them.
        requests: Table<At<QuantityText>>,
        /// With `set`: new resource limits; {} clears them.
        limits: Table<At<QuantityText>>,
        /// With `set`: new priority class; "" clears it.
        priority_class: String,
        /// With `set`: CPU that all pods of the workload together want to use, in percent of what one requests (sim); "" clears it.
        load: String,
    }
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
            "load",
        ],
    ),
    form("apply", &[], &["refused"]),
    form("yaml", &[], &["refused"]),
    form("deploy", &[], &["refused"]),
    form("delete", &[], &["selector", "namespace", "refused"]),
    form("add_pool", &[], &[]),
    form("remove_pool", &[], &[]),
    form("scale_pool", &[], &["nodes", "autoscale"]),
    form("upgrade_pool", &[], &["kubernetes", "node_image_only", "upgrade", "no_wait", "refused"]),
    form("resize_pool", &["size"], &["upgrade", "no_wait", "refused"]),
    form("reclaim_pool", &[], &["count"]),
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
