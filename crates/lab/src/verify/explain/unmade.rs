//! Why a workload has fewer pods than it wants, and what would let it have them.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, Namespace};
use serde_json::{Map, Value, json};

use super::kubectl::{in_namespace, named, patched, template};
use super::of_lab::workload_named;
use super::pod_security::{secured, within_baseline};
use super::refused::{Bound, Over, Refused};
use super::restore::{Drift, Field};
use crate::code::Code;
use crate::verify::cause::{Cause, Hindrance, Suggestion};
use crate::verify::creation::{is_over, is_suspended, refusal, words};
use crate::verify::node::nearest;
use crate::verify::rollout::{Desired, wish};
use crate::verify::view::{Owner, PodView, View};
use crate::words::plural;
use klab_scheduler::quantity::Quantity;

/// The label by which Kueue finds the queue of a Job, which it suspends until there is room.
const QUEUE_LABEL: &str = "kueue.x-k8s.io/queue-name";

/// An owner that lacks pods.
struct MissingPodsOf<'v, 'a> {
    view: &'v View<'a>,
    owner: Owner<'a>,
    namespace: &'a str,
    /// `deployment/web`.
    object: String,
    wanted: u32,
    have: u32,
    /// Pods of an earlier template that are still there.
    old: usize,
}

/// What keeps an owner from having its pods, as far as it is not a matter of nodes; none where it has them or gets them.
pub(crate) fn unmade<'a>(view: &View<'a>, owner: Owner<'a>) -> Option<Hindrance> {
    let namespace = owner.meta()?.namespace.as_deref().unwrap_or("default");
    let all = || view.pods.iter().filter(|pod| pod.owner.is(&owner));
    let pods: Vec<&PodView<'_>> = all().filter(|pod| pod.counts()).collect();
    let Desired { stale, pods: wanted, .. } = wish(&owner, &pods, view.snapshot);
    if stale {
        return None;
    }
    let have = u32::try_from(pods.len()).unwrap_or(u32::MAX);
    let lack = MissingPodsOf {
        view,
        owner,
        namespace,
        object: named(owner),
        wanted: wanted.unwrap_or(0),
        have,
        old: all().filter(|pod| pod.is_old()).count(),
    };
    if let Owner::Job(job) = owner {
        if is_over(job) {
            return (have == 0)
                .then(|| lack.of(Code::Over, "it is over, and its pods are gone".to_owned(), Vec::new()));
        }
        if is_suspended(job) && lack.wanted > have {
            return Some(lack.suspended());
        }
    }
    if matches!(owner, Owner::DaemonSet(_)) && lack.wanted == 0 {
        return None;
    }
    if lack.wanted == 0 {
        let up = Suggestion::of("scale-up", format!("scale {} to 1", lack.object), Some(lack.scaled(1)));
        return (have == 0)
            .then(|| lack.of(Code::ScaledToZero, "it is scaled to 0, so it wants no pods".to_owned(), vec![up]));
    }
    if lack.wanted <= have {
        return None;
    }
    if let Some(message) = refusal(view.snapshot, &owner, &pods) {
        return Some(lack.refused(message));
    }
    if let Owner::Deployment(deployment) = owner
        && deployment.spec.as_ref().and_then(|spec| spec.paused) == Some(true)
    {
        let what = "its rollout is paused, so no pods of the latest template are made".to_owned();
        let resume = format!("kubectl{} rollout resume {}", in_namespace(namespace), lack.object);
        let resume = Suggestion::of("resume", format!("resume the rollout of {}", lack.object), Some(resume));
        return Some(lack.of(Code::Paused, what, vec![resume]));
    }
    lack.in_order(&pods)
}

/// An owner without pods, where nothing says why.
pub(super) fn silent(owner: Owner<'_>) -> Hindrance {
    let namespace = owner.meta().and_then(|meta| meta.namespace.as_deref()).unwrap_or("default");
    let object = named(owner);
    let what = "has no pods, and neither its status nor its events say why".to_owned();
    let command = format!("kubectl{} describe {object}", in_namespace(namespace));
    let look = Suggestion::of("describe", "look at what its controller says", Some(command));
    let subjects = vec![format!("{namespace}/{object}")];
    Hindrance { cause: Cause { code: Code::PodsNotMade, subjects, what, nodes: Vec::new() }, suggestions: vec![look] }
}

impl MissingPodsOf<'_, '_> {
    fn of(&self, code: Code, what: String, suggestions: Vec<Suggestion>) -> Hindrance {
        let subject = format!("{}/{}", self.namespace, self.object);
        Hindrance { cause: Cause { code, subjects: vec![subject], what, nodes: Vec::new() }, suggestions }
    }

    fn missing(&self) -> u32 {
        self.wanted.saturating_sub(self.have)
    }

    fn scaled(&self, replicas: u32) -> String {
        format!("kubectl{} scale {} --replicas={replicas}", in_namespace(self.namespace), self.object)
    }

    fn suspended(&self) -> Hindrance {
        let queue = self.owner.meta().and_then(|meta| meta.labels.as_ref()?.get(QUEUE_LABEL));
        let what = match queue {
            Some(queue) => format!("it is suspended: the queue {queue} has not admitted it"),
            None => "it is suspended: it makes no pods until `spec.suspend` is false".to_owned(),
        };
        let command = format!(
            "kubectl{} patch {} -p '{{\"spec\":{{\"suspend\":false}}}}'",
            in_namespace(self.namespace),
            self.object
        );
        let mut suggestions = Vec::new();
        if let Some(queue) = queue {
            let text = format!("wait until the queue {queue} admits it, or make room in that queue");
            suggestions.push(Suggestion::of("wait-for-queue", text, None));
        }
        suggestions.push(Suggestion::of("resume", format!("let {} run", self.object), Some(command)));
        self.of(Code::Suspended, what, suggestions)
    }

    /// A StatefulSet that starts its pods in order waits for each to be ready.
    fn in_order(&self, pods: &[&PodView<'_>]) -> Option<Hindrance> {
        let Owner::StatefulSet(set) = self.owner else { return None };
        let policy = set.spec.as_ref().and_then(|spec| spec.pod_management_policy.as_deref());
        let stuck = pods.iter().find(|pod| !pod.state.is_ready()).filter(|_| policy != Some("Parallel"))?;
        let first = set.spec.as_ref().and_then(|spec| spec.ordinals.as_ref()?.start).unwrap_or(0);
        let name = |at: u32| format!("{}-{}", self.owner.name(), i64::from(first) + i64::from(at));
        let waiting = match self.missing() {
            1 => format!("{} waits", name(self.wanted - 1)),
            _ => format!("{} to {} wait", name(self.have), name(self.wanted - 1)),
        };
        let what = format!("{waiting} until {} is ready, as the pods are made in order", stuck.name);
        Some(self.of(Code::InOrder, what, Vec::new()))
    }

    fn refused(&self, message: &str) -> Hindrance {
        let refused = Refused::of(message);
        let pods = match self.owner {
            Owner::Job(_) => "no pod can be made".to_owned(),
            _ if self.old > 0 => "no new pod can be made".to_owned(),
            _ => format!("{} of {} not made", self.missing(), plural(self.wanted as usize, "pod")),
        };
        let what = format!("{pods}: {}", words(message));
        let mut suggestions: Vec<Suggestion> = self.as_the_lab_says(&refused).into_iter().collect();
        suggestions.extend(match &refused {
            Refused::Unstated { quota, missing } => self.stated(quota, missing),
            Refused::Exceeded { quota, over } => self.more_quota(quota, over),
            Refused::Bounds(bounds) => self.within(bounds).into_iter().collect(),
            Refused::PodSecurity { level, violations } => self.secure(level, violations),
            Refused::ServiceAccount(name) => {
                let command = format!("kubectl{} create serviceaccount {name}", in_namespace(self.namespace));
                let text = format!("make the ServiceAccount {name} in namespace {}", self.namespace);
                vec![Suggestion::of("make-service-account", text, Some(command))]
            }
            Refused::PriorityClass(name) => self.class(name),
            Refused::RuntimeClass(name) => self
                .patch(json!({ "runtimeClassName": null }))
                .map(|command| {
                    let text = format!("take the RuntimeClass {name} out of {}", self.object);
                    Suggestion::of("remove-runtime-class", text, Some(command))
                })
                .into_iter()
                .collect(),
            Refused::NamespaceSelector => self.selector_of_namespace(),
            Refused::NamespaceTolerations => self.tolerations_of_namespace(),
            Refused::Constraints(names) => self.constraints(names),
            Refused::Policy(name) => self.by_hand(&format!("change {} as the policy {name} asks", self.object)),
            Refused::Webhook(name) => self.by_hand(&format!("change {} as the webhook {name} asks", self.object)),
            Refused::SilentWebhook(name) => {
                let command = "kubectl get validatingwebhookconfigurations,mutatingwebhookconfigurations".to_owned();
                let text = format!("start what answers for the webhook {name}, or delete its configuration");
                vec![Suggestion::of("mend-webhook", text, Some(command))]
            }
            Refused::NoDryRun(_) | Refused::Other => Vec::new(),
        });
        self.of(refused.code(), what, suggestions)
    }

    /// The lab's own value, where the cluster has another.
    fn as_the_lab_says(&self, refused: &Refused<'_>) -> Option<Suggestion> {
        let workload = workload_named(self.view, self.namespace, self.owner.name())?;
        let live = template(self.owner)?;
        let drift = Drift::of(workload, live, true)?;
        let field = match refused {
            Refused::Unstated { .. } | Refused::Exceeded { .. } | Refused::Bounds(_) => Field::Requests,
            Refused::PriorityClass(_) => Field::PriorityClass,
            _ => return None,
        };
        let drift = drift.only(field)?;
        let text = drift.words(&self.object, live);
        Some(Suggestion::of("restore", text, super::kubectl::restored(self.owner, self.namespace, &drift)))
    }

    /// A command that changes the template; none where no pods would be made by it.
    fn patch(&self, spec: Value) -> Option<String> {
        patched(self.owner, self.namespace, &spec)
    }

    /// Pods that leave to the node selector of their namespace what it selects by.
    fn selector_of_namespace(&self) -> Vec<Suggestion> {
        const ANNOTATION: &str = "scheduler.alpha.kubernetes.io/node-selector";
        let is_it = |namespace: &&std::sync::Arc<Namespace>| namespace.metadata.name.as_deref() == Some(self.namespace);
        let namespace = self.view.snapshot.namespaces.iter().find(is_it);
        let selector = namespace.and_then(|namespace| namespace.metadata.annotations.as_ref()?.get(ANNOTATION));
        let own = template(self.owner).and_then(|spec| spec.node_selector.as_ref());
        let theirs =
            selector.into_iter().flat_map(|text| text.split(',')).filter_map(|part| part.trim().split_once('='));
        let differs = |(key, value): &(&str, &str)| own.and_then(|own| own.get(*key)).is_some_and(|own| own != value);
        let keys: Vec<(&str, &str)> = theirs.filter(differs).collect();
        if keys.is_empty() {
            let namespace = self.namespace;
            return self.by_hand(&format!("give {} the node selector of namespace {namespace}", self.object));
        }
        let taken_out: Map<String, Value> = keys.iter().map(|(key, _)| ((*key).to_owned(), Value::Null)).collect();
        let listed: Vec<String> = keys.iter().map(|(key, value)| format!("`{key}={value}`")).collect();
        let noun = if keys.len() == 1 { "label" } else { "labels" };
        let listed = listed.join(" and ");
        let text = format!("leave the {noun} of {} to its namespace, which selects {listed}", self.object);
        vec![Suggestion::of("remove-node-selector", text, self.patch(json!({ "nodeSelector": taken_out })))]
    }

    /// Pods without the tolerations that their namespace does not allow, or a namespace that allows all.
    fn tolerations_of_namespace(&self) -> Vec<Suggestion> {
        const ANNOTATION: &str = "scheduler.alpha.kubernetes.io/tolerationsWhitelist";
        let command = format!("kubectl annotate namespace {} {ANNOTATION}-", self.namespace);
        let text = format!("take the list of allowed tolerations off namespace {}", self.namespace);
        let mut suggestions = self
            .by_hand(&format!("give {} no toleration that namespace {} does not allow", self.object, self.namespace));
        suggestions.push(Suggestion::of("remove-annotation", text, Some(command)));
        suggestions
    }

    /// Pods as the constraints of Gatekeeper want them.
    fn constraints(&self, names: &[&str]) -> Vec<Suggestion> {
        let listed = crate::words::listed(names);
        let (noun, verb) = if names.len() == 1 { ("constraint", "asks") } else { ("constraints", "ask") };
        let mut suggestions = self.by_hand(&format!("change {} as the {noun} {listed} {verb}", self.object));
        let azure = names.iter().all(|name| name.starts_with("azurepolicy-"));
        let text = if azure {
            format!(
                "see them; Azure Policy or AKS's deployment safeguards made them, so an exception for namespace {} is made in Azure",
                self.namespace
            )
        } else {
            "see what the constraints ask and where they apply".to_owned()
        };
        suggestions.push(Suggestion::of("look-at-constraints", text, Some("kubectl get constraints".to_owned())));
        suggestions
    }

    fn by_hand(&self, text: &str) -> Vec<Suggestion> {
        let edit = patched(self.owner, self.namespace, &json!({}))
            .map(|_| format!("kubectl{} edit {}", in_namespace(self.namespace), self.object));
        vec![Suggestion::of("comply", text, edit)]
    }

    /// Requests and limits that a quota counts and containers leave open.
    fn stated(&self, quota: &str, missing: &[(&str, Vec<&str>)]) -> Vec<Suggestion> {
        let default = |name: &str| match name.rsplit('.').next().unwrap_or(name) {
            "cpu" => "100m",
            "memory" => "64Mi",
            "ephemeral-storage" => "100Mi",
            _ => "1",
        };
        let split = |name: &'_ str| match name.split_once('.') {
            Some(("limits", resource)) => ("limits", resource.to_owned()),
            Some(("requests", resource)) => ("requests", resource.to_owned()),
            _ => ("requests", name.to_owned()),
        };
        let names: Vec<String> = missing.iter().map(|(name, _)| format!("`{name}`")).collect();
        let names = names.join(" and ");
        let mut suggestions = Vec::new();
        if let Some(spec) = template(self.owner) {
            let of = |container: &Container| {
                let mut resources = Map::new();
                for (name, _) in missing.iter().filter(|(_, of)| of.is_empty() || of.contains(&&*container.name)) {
                    let (field, resource) = split(name);
                    resources.entry(field).or_insert_with(|| json!({}))[resource] = json!(default(name));
                }
                (!resources.is_empty()).then(|| json!({ "name": container.name, "resources": resources }))
            };
            let list = |containers: &[Container]| containers.iter().filter_map(of).collect::<Vec<Value>>();
            let mut change = json!({ "containers": list(&spec.containers) });
            let init = list(spec.init_containers.as_deref().unwrap_or_default());
            if !init.is_empty() {
                change["initContainers"] = json!(init);
            }
            if let Some(command) = self.patch(change) {
                let text = format!("state {names} in {}, as the quota {quota} counts them", self.object);
                suggestions.push(Suggestion::of("state-resources", text, Some(command)));
            }
        }
        let mut limits = json!({ "type": "Container" });
        for (name, _) in missing {
            let (field, resource) = split(name);
            limits[if field == "limits" { "default" } else { "defaultRequest" }][resource] = json!(default(name));
        }
        let range = json!({
            "apiVersion": "v1", "kind": "LimitRange", "metadata": { "name": "defaults" }, "spec": { "limits": [limits] },
        });
        let command = format!("echo '{range}' | kubectl{} create -f -", in_namespace(self.namespace));
        let text = format!("make a LimitRange that gives {names} to containers of namespace {}", self.namespace);
        suggestions.push(Suggestion::of("make-limit-range", text, Some(command)));
        suggestions
    }

    /// A quota that has room for the pods, or fewer pods.
    fn more_quota(&self, quota: &str, over: &[Over<'_>]) -> Vec<Suggestion> {
        let mut suggestions = Vec::new();
        if self.old > 0
            && let Some(command) = super::kubectl::old_first(self.owner, self.namespace, 1)
        {
            let text = format!(
                "let the rollout of `{}` remove an old pod before it makes a new one (`maxSurge: 0`, `maxUnavailable: 1`)",
                self.object
            );
            suggestions.push(Suggestion::of("old-pods-first", text, Some(command)));
        }
        let mut hard = Map::new();
        let mut words = Vec::new();
        for one in over {
            let parse = |text: &str| Quantity::parse(text).ok();
            let Some((requested, used)) = parse(one.requested).zip(parse(one.used)) else { continue };
            let resource = one.name.rsplit('.').next().unwrap_or(one.name);
            let base = |quantity: Quantity| quantity.base_units(resource);
            // A rollout makes pods one by one.
            let pods = if self.old > 0 { 1 } else { i64::from(self.missing()) };
            let sum = base(requested).saturating_mul(pods).saturating_add(base(used));
            let to = Quantity::of_resource(resource, sum).to_string();
            words.push(format!("`{}` from {} to {to}", one.name, one.limited));
            hard.insert(one.name.to_owned(), json!(to));
        }
        if !hard.is_empty() {
            let patch = json!({ "spec": { "hard": hard } });
            let command = format!("kubectl{} patch resourcequota {quota} -p '{patch}'", in_namespace(self.namespace));
            let text = format!("raise {} of the quota {quota}", words.join(" and "));
            suggestions.push(Suggestion::of("raise-quota", text, Some(command)));
        }
        let scales = matches!(self.owner, Owner::Deployment(_) | Owner::ReplicaSet(_) | Owner::StatefulSet(_));
        if scales && self.have > 0 && self.old == 0 {
            let text = format!("scale {} down to {}, as many as there are", self.object, self.have);
            suggestions.push(Suggestion::of("scale-down", text, Some(self.scaled(self.have))));
        }
        suggestions
    }

    /// Requests and limits within the bounds of a LimitRange.
    fn within(&self, bounds: &[Bound<'_>]) -> Option<Suggestion> {
        let spec = template(self.owner)?;
        let mut words: Vec<String> = Vec::new();
        let of = |container: &Container, words: &mut Vec<String>| {
            let mut resources: BTreeMap<&str, Map<String, Value>> = BTreeMap::new();
            for bound in bounds.iter().filter(|bound| bound.kind == "Container") {
                let (Ok(limit), field) =
                    (Quantity::parse(bound.bound), bound.found.map_or("limit", |(field, _)| field))
                else {
                    continue;
                };
                let stated = container.resources.as_ref().and_then(|of| match field {
                    "limit" => of.limits.as_ref(),
                    _ => of.requests.as_ref(),
                });
                let amount = |from: Option<&BTreeMap<String, _>>| -> Option<Quantity> {
                    let amount: &k8s_openapi::apimachinery::pkg::api::resource::Quantity = from?.get(bound.resource)?;
                    Quantity::parse(&amount.0).ok()
                };
                let now = amount(stated);
                let breaks =
                    now.map_or(bound.found.is_none(), |now| if bound.is_most { now > limit } else { now < limit });
                if !breaks {
                    continue;
                }
                let mut set = |field: &'static str| {
                    resources.entry(field).or_default().insert(bound.resource.to_owned(), json!(bound.bound));
                    let word = format!("`{field}.{}` {}", bound.resource, bound.bound);
                    if !words.contains(&word) {
                        words.push(word);
                    }
                };
                let of = container.resources.as_ref();
                let request = amount(of.and_then(|of| of.requests.as_ref()));
                let most = amount(of.and_then(|of| of.limits.as_ref()));
                if field == "limit" {
                    set("limits");
                    if bound.is_most && request.is_some_and(|request| request > limit) {
                        set("requests");
                    }
                } else {
                    set("requests");
                    if !bound.is_most && most.is_some_and(|most| most < limit) {
                        set("limits");
                    }
                }
            }
            (!resources.is_empty()).then(|| json!({ "name": container.name, "resources": resources }))
        };
        let containers: Vec<Value> = spec.containers.iter().filter_map(|it| of(it, &mut words)).collect();
        let init: Vec<Value> = spec.init_containers.iter().flatten().filter_map(|it| of(it, &mut words)).collect();
        let mut change = json!({});
        for (list, changed) in [("containers", containers), ("initContainers", init)] {
            if !changed.is_empty() {
                change[list] = json!(changed);
            }
        }
        if words.is_empty() {
            return None;
        }
        let text = format!("give {} {}, which the LimitRange admits", self.object, words.join(" and "));
        Some(Suggestion::of("within-limit-range", text, Some(self.patch(change)?)))
    }

    /// Pods as the namespace's standard wants them, or a standard that admits them.
    fn secure(&self, level: &str, violations: &str) -> Vec<Suggestion> {
        let mut suggestions = Vec::new();
        let change = template(self.owner).and_then(|spec| secured(spec, violations));
        if let Some(command) = change.and_then(|change| self.patch(change)) {
            let text = format!("make {} keep to the standard `{level}` of namespace {}", self.object, self.namespace);
            suggestions.push(Suggestion::of("comply", text, Some(command)));
        }
        let laxer = if level == "restricted" && within_baseline(violations) { "baseline" } else { "privileged" };
        let command = format!(
            "kubectl label namespace {} pod-security.kubernetes.io/enforce={laxer} --overwrite",
            self.namespace
        );
        let text = format!("let namespace {} admit pods of the standard `{laxer}`", self.namespace);
        suggestions.push(Suggestion::of("relax-standard", text, Some(command)));
        suggestions
    }

    fn class(&self, name: &str) -> Vec<Suggestion> {
        let classes = self.view.snapshot.priority_classes.iter().filter_map(|class| class.metadata.name.as_deref());
        let near = nearest(name, classes.filter(|class| !class.starts_with("system-")));
        let slip = near.and_then(|near| {
            let command = self.patch(json!({ "priorityClassName": near }))?;
            let text = format!("write `{near}` for `{name}` as the priority class of {}", self.object);
            Some(Suggestion::of("change-priority-class", text, Some(command)))
        });
        let command = format!("kubectl create priorityclass {name} --value=1000");
        let make = Suggestion::of("make-priority-class", format!("make the PriorityClass {name}"), Some(command));
        slip.into_iter().chain([make]).collect()
    }
}
