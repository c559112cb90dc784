//! What a name means: a pod, or the pods of a workload.

use std::collections::BTreeSet;

use crate::verify::node::nearest;
use crate::verify::view::{Owner, PodView, View};

/// There is nothing of that name to explain.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no pod or workload `{target}`{}", .namespace.as_ref().map(|it| format!(" in namespace {it}")).unwrap_or_default())]
pub struct NothingToExplain {
    /// The name asked for.
    pub target: String,
    /// The namespace asked for.
    pub namespace: Option<String>,
    /// A namespace that has it, where it was asked for in another one.
    pub elsewhere: Option<String>,
    /// The name of a pod or workload most like it.
    pub similar: Option<String>,
}

impl NothingToExplain {
    /// What to type instead.
    pub fn hint(&self) -> Option<String> {
        let target = &self.target;
        if let Some(namespace) = &self.elsewhere {
            return Some(format!("`klab explain {target} -n {namespace}` explains the one in namespace {namespace}"));
        }
        let similar = self.similar.as_ref()?;
        let option = self.namespace.as_ref().map(|namespace| format!(" -n {namespace}")).unwrap_or_default();
        Some(format!("`klab explain {similar}{option}` explains the one that has almost this name"))
    }
}

/// A name as it was typed: `web`, `deployment/web`, `pod/web-1`, `namespace/web-1`.
pub(super) struct Target<'t> {
    whole: &'t str,
    kind: Option<&'t str>,
    name: &'t str,
    namespace: Option<&'t str>,
}

impl<'t> Target<'t> {
    pub(super) fn of(whole: &'t str, namespace: Option<&'t str>) -> Self {
        let (kind, name) = whole.split_once('/').map_or((None, whole), |(kind, name)| (Some(kind), name));
        Self { whole, kind, name, namespace }
    }

    fn is_here(&self, namespace: &str) -> bool {
        self.namespace.is_none_or(|wanted| wanted == namespace)
    }

    /// Positions in the view of the pods of this name.
    pub(super) fn pods(&self, view: &View<'_>) -> Vec<usize> {
        let is_it = |pod: &PodView<'_>| {
            // `namespace/name`, as reports print pods.
            let by_id = self.kind == Some(pod.namespace);
            pod.name == self.name && (by_id || self.kind.is_none_or(|kind| matches!(kind, "pod" | "pods" | "po")))
        };
        let pods = view.pods.iter().enumerate();
        pods.filter(|(_, pod)| self.is_here(pod.namespace) && is_it(pod)).map(|(at, _)| at).collect()
    }

    /// Positions in the view of the pods of a workload of this name.
    pub(super) fn pods_of_workload(&self, view: &View<'_>) -> Vec<usize> {
        let labelled: BTreeSet<usize> =
            view.pods_of_workload(self.name).filter(|_| self.kind.is_none()).map(|pod| pod.index).collect();
        let pods = view.pods.iter().enumerate();
        pods.filter(|(_, pod)| self.is_here(pod.namespace) && (self.is_of(pod.owner) || labelled.contains(&pod.index)))
            .map(|(at, _)| at)
            .collect()
    }

    /// Whether an owner is of this name and kind.
    fn is_of(&self, owner: Owner<'_>) -> bool {
        let kind_fits = self.kind.is_none_or(|kind| {
            let kind = kind.split('.').next().unwrap_or(kind).to_ascii_lowercase();
            let short = match owner.kind() {
                "Deployment" => "deploy",
                "DaemonSet" => "ds",
                "StatefulSet" => "sts",
                "ReplicaSet" => "rs",
                other => other,
            };
            kind.trim_end_matches('s') == owner.kind().to_lowercase() || kind == short
        });
        kind_fits && owner.name() == self.name
    }

    /// Whether an owner is meant.
    pub(super) fn means(&self, owner: &Owner<'_>) -> bool {
        let namespace = owner.meta().and_then(|meta| meta.namespace.as_deref()).unwrap_or("default");
        self.is_here(namespace) && self.is_of(*owner)
    }

    /// There is nothing of this name.
    pub(super) fn nothing(&self, view: &View<'_>) -> NothingToExplain {
        let here = |pod: &&PodView<'_>| self.is_here(pod.namespace);
        let pods = view.pods.iter().filter(here).flat_map(|pod| [pod.name, pod.owner.name()]);
        let owners = view
            .owners()
            .filter(|owner| self.is_here(owner.meta().and_then(|meta| meta.namespace.as_deref()).unwrap_or("default")));
        let names = pods.chain(owners.map(|owner| owner.name())).filter(|name| !name.is_empty());
        let anywhere = Target { namespace: None, ..*self };
        let pod = || anywhere.pods(view).into_iter().chain(anywhere.pods_of_workload(view)).next();
        let owner = || view.owners().find(|owner| anywhere.means(owner));
        let of_owner =
            || owner().map(|owner| owner.meta().and_then(|meta| meta.namespace.as_deref()).unwrap_or("default"));
        let elsewhere = pod().and_then(|at| Some(view.pods.get(at)?.namespace)).or_else(of_owner);
        NothingToExplain {
            elsewhere: elsewhere.filter(|_| self.namespace.is_some()).map(str::to_owned),
            target: self.whole.to_owned(),
            namespace: self.namespace.map(str::to_owned),
            similar: nearest(self.whole, names).map(str::to_owned),
        }
    }
}
