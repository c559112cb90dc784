//! What is the matter with pods that have a node: it is dead or closed, a probe fails, a volume is used elsewhere.

use k8s_openapi::api::core::v1::{Container, Node, Probe};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube_core::ResourceExt;
use serde_json::{Value, json};

use super::kubectl::{in_namespace, named, object, old_first, patched, quoted, template};
use super::node_condition::{silent, start};
use crate::code::Code;
use crate::verify::cause::{Cause, Hindrance, Suggestion};
use crate::verify::creation::last;
use crate::verify::mounting::{FAILED_ATTACH, UNHEALTHY};
use crate::verify::node::{has_taint_of, is_cordoned, is_ready, is_silent};
use crate::verify::pod::{self, PodState};
use crate::verify::view::{Owner, PodView, View};
use crate::words::{counted, first_of, listed, plural};
use klab_scheduler::selector::Selector;

/// The taint that says of a node that nothing runs there any more.
const OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";
/// Most pods named in one command.
const NAMES: usize = 4;

/// What keeps pods of one owner, on one node, from what they are to do. `has_room` says whether one more pod like them would
/// find a node.
pub(crate) fn troubles(
    view: &View<'_>,
    pods: &[&PodView<'_>],
    has_room: &dyn Fn(&PodView<'_>) -> bool,
) -> Vec<Hindrance> {
    let Some((first, node)) = pods.first().and_then(|pod| Some((*pod, pod.node?))) else { return Vec::new() };
    let Some(present) = view.nodes.get(node).copied() else { return vec![lost(pods, node, first)] };
    let found = match first.state {
        PodState::Terminating if !is_ready(present) => dead_node(pods, first, present),
        PodState::Terminating | PodState::Succeeded => finalizers(view, pods, first),
        PodState::Running { ready: false, .. } | PodState::Starting { .. } if is_silent(present) => {
            Some(silent(view, pods, first, present))
        }
        PodState::Running { ready: false, trouble: None } => unready(view, pods, first),
        PodState::Starting { trouble: None } => attached_elsewhere(view, pods, first),
        _ => None,
    };
    let kept = first.state.is_present() && is_cordoned(present);
    let refused = if kept { super::eviction::refused(view, pods, node, has_room) } else { None };
    let budget = if kept { budget(view, pods, first, node, has_room) } else { None };
    found.into_iter().chain(refused).chain(budget).collect()
}

fn hindrance(code: Code, pods: &[&PodView<'_>], what: String, suggestions: Vec<Suggestion>) -> Hindrance {
    let subjects = pods.iter().map(|pod| pod.id()).collect();
    Hindrance { cause: Cause { code, subjects, what, nodes: Vec::new() }, suggestions }
}

fn names(pods: &[&PodView<'_>]) -> String {
    pods.iter().take(NAMES).map(|pod| pod.name).collect::<Vec<_>>().join(" ")
}

/// What is on a node that is gone: nothing there can confirm the end of a pod.
fn lost(pods: &[&PodView<'_>], node: &str, first: &PodView<'_>) -> Hindrance {
    let what = format!("is on {node}, which is gone: the cluster clears it away within a minute");
    let option = in_namespace(first.namespace);
    let command = format!("kubectl{option} delete pods --field-selector spec.nodeName={node} --force");
    let text = format!("wait for what {node} left behind to be cleared away, or do it now");
    hindrance(Code::LostNode, pods, what, vec![Suggestion::of("clear-pods", text, Some(command))])
}

/// A pod that is being deleted on a node whose kubelet is silent.
// upstream: pkg/controller/nodelifecycle, pkg/controller/podgc/gc_controller.go gcTerminating (v1.36)
fn dead_node(pods: &[&PodView<'_>], first: &PodView<'_>, node: &Node) -> Option<Hindrance> {
    if has_taint_of(node, OUT_OF_SERVICE) {
        return None;
    }
    let name = node.name_any();
    let then = match first.owner {
        Owner::StatefulSet(_) => format!(", and {} makes no other before that", named(first.owner)),
        _ => String::new(),
    };
    let what = format!("is terminating: its node {name} is NotReady, so nothing there confirms its end{then}");
    let mut suggestions = vec![start(node)];
    let taint = format!("kubectl taint nodes {name} {OUT_OF_SERVICE}=nodeshutdown:NoExecute");
    let delete = format!("kubectl delete node {name}");
    let force = format!("kubectl{} delete pod {} --force", in_namespace(first.namespace), names(pods));
    suggestions.extend([
        Suggestion::of("out-of-service", format!("if {name} is switched off for certain, say so"), Some(taint)),
        Suggestion::of("delete-node", format!("if {name} does not come back, delete it"), Some(delete)),
        Suggestion::of("force-delete", "delete the pod without waiting for its node".to_owned(), Some(force)),
    ]);
    Some(hindrance(Code::DeadNode, pods, what, suggestions))
}

/// A pod whose time to end is over, and that finalizers keep.
fn finalizers(view: &View<'_>, pods: &[&PodView<'_>], first: &PodView<'_>) -> Option<Hindrance> {
    let (end, now) = (first.pod.metadata.deletion_timestamp.as_ref()?.0, view.snapshot.taken_at?);
    let finalizers = first.pod.metadata.finalizers.as_deref().filter(|list| !list.is_empty() && now > end)?;
    let list = first_of(finalizers, NAMES);
    let what =
        format!("is terminating, and waits for what set the {}", counted(finalizers.len(), "finalizer", &list, &list));
    let command = format!(
        "kubectl{} patch pod {} -p {}",
        in_namespace(first.namespace),
        first.name,
        quoted(&json!({ "metadata": { "finalizers": null } }))
    );
    let text = format!("take the finalizers off {}, if what set them is gone", first.name);
    Some(hindrance(Code::Finalizers, pods, what, vec![Suggestion::of("remove-finalizers", text, Some(command))]))
}

/// The probe that keeps a container from being ready, in words: `readiness probe (GET :80/healthz)`.
fn probe_words(kind: &str, probe: &Probe) -> String {
    let port = |port: &IntOrString| match port {
        IntOrString::Int(number) => number.to_string(),
        IntOrString::String(name) => name.clone(),
    };
    let how = if let Some(get) = &probe.http_get {
        format!("GET :{}{}", port(&get.port), get.path.as_deref().unwrap_or("/"))
    } else if let Some(socket) = &probe.tcp_socket {
        format!("TCP {}", port(&socket.port))
    } else if let Some(exec) = &probe.exec {
        exec.command.as_deref().unwrap_or_default().join(" ")
    } else if let Some(grpc) = &probe.grpc {
        format!("gRPC {}", grpc.port)
    } else {
        return format!("{kind} probe");
    };
    format!("{kind} probe ({how})")
}

fn unready(view: &View<'_>, pods: &[&PodView<'_>], first: &PodView<'_>) -> Option<Hindrance> {
    let spec = first.pod.spec.as_ref()?;
    let statuses = first.pod.status.as_ref()?.container_statuses.as_deref().unwrap_or_default();
    let failing = spec.containers.iter().find_map(|container| {
        let status = statuses.iter().find(|status| status.name == container.name)?;
        match (&container.startup_probe, &container.readiness_probe) {
            (Some(probe), _) if status.started == Some(false) => Some((container, "startup", probe)),
            (_, Some(probe)) if !status.ready => Some((container, "readiness", probe)),
            _ => None,
        }
    });
    let Some((container, kind, probe)) = failing else {
        let gates = spec.readiness_gates.iter().flatten().map(|gate| gate.condition_type.as_str());
        let open = gates.filter(|gate| pod::condition(first.pod, gate).is_none_or(|it| it.status != "True"));
        let open: Vec<&str> = open.collect();
        let noun = if open.len() == 1 { "gate" } else { "gates" };
        let what = format!("runs, and waits for the readiness {noun} {}", listed(&open));
        return (!open.is_empty()).then(|| hindrance(Code::ReadinessGate, pods, what, Vec::new()));
    };
    let said = view.snapshot.events.iter().filter(|event| {
        event.reason.as_deref() == Some(UNHEALTHY) && event.involved_object.uid == first.pod.metadata.uid
    });
    let said = said.max_by_key(|event| last(event)).and_then(|event| event.message.as_deref());
    let said = said.map(|said| format!(": {}", said.trim())).unwrap_or_default();
    let probe = (kind, probe);
    let what = format!(
        "runs, but is not ready: the {} of container {} fails{said}",
        probe_words(kind, probe.1),
        container.name
    );
    Some(hindrance(Code::Probe, pods, what, vec![mended_probe(first, container, probe)?]))
}

/// A probe at the port that the container declares, where it is at another; else the editor.
fn mended_probe(pod: &PodView<'_>, container: &Container, (kind, probe): (&str, &Probe)) -> Option<Suggestion> {
    template(pod.owner)?;
    let asked = probe.http_get.as_ref().map(|get| &get.port).or(probe.tcp_socket.as_ref().map(|socket| &socket.port));
    let handler = if probe.http_get.is_some() { "httpGet" } else { "tcpSocket" };
    let declared = match container.ports.as_deref() {
        Some([only]) => Some(only.container_port),
        _ => None,
    };
    let other = asked.zip(declared).filter(|(asked, declared)| **asked != IntOrString::Int(*declared));
    let other = other.filter(|(asked, _)| matches!(asked, IntOrString::Int(_)));
    let change = other.map(|(_, port)| {
        let field = format!("{kind}Probe");
        json!({ "containers": [{ "name": container.name, field: { handler: { "port": port } } }] })
    });
    let object = object(pod);
    let (text, command) = if let (Some(change), Some((_, port))) = (&change, other) {
        let name = &container.name;
        let text =
            format!("let the {kind} probe of container `{name}` of {object} ask at port {port}, which it declares");
        (text, patched(pod.owner, pod.namespace, change)?)
    } else {
        patched(pod.owner, pod.namespace, &Value::Null)?;
        let edit = format!("kubectl{} edit {object}", in_namespace(pod.namespace));
        (format!("correct the {kind} probe of container `{}` of {object}", container.name), edit)
    };
    // A StatefulSet waits for its old pod to be ready before it makes the next one, also of a new template.
    let command = match pod.owner {
        Owner::StatefulSet(_) => {
            format!("{command} && kubectl{} delete pod {}", in_namespace(pod.namespace), pod.name)
        }
        _ => command,
    };
    Some(Suggestion::of("change-probe", text, Some(command)))
}

/// A volume that only one node can have, and another one has it.
fn attached_elsewhere(view: &View<'_>, pods: &[&PodView<'_>], first: &PodView<'_>) -> Option<Hindrance> {
    let event = view.snapshot.events.iter().find(|event| {
        event.reason.as_deref() == Some(FAILED_ATTACH)
            && event.involved_object.uid == first.pod.metadata.uid
            && event.message.as_deref().is_some_and(|message| message.contains("Multi-Attach"))
    })?;
    let claims: Vec<&str> = claims_of(first).collect();
    let shares = |pod: &&PodView<'_>| {
        pod.namespace == first.namespace
            && pod.node != first.node
            && claims_of(pod).any(|claim| claims.contains(&claim))
    };
    let holder = view.pods.iter().filter(|pod| pod.state.is_present()).find(shares);
    let Some(holder) = holder else {
        return Some(hindrance(Code::VolumeInUse, pods, event.message.clone()?, Vec::new()));
    };
    let what =
        format!("waits for its volume, which only one node can have, and {} on {} has it", holder.name, holder.node?);
    if !holder.owner.is(&first.owner) {
        let option = in_namespace(holder.namespace);
        let command = format!("kubectl{option} delete pod {}", holder.name);
        let owned = holder.owner.meta().is_some();
        let stop = format!("stop {}, which has the volume", object(holder));
        let stop = Suggestion::of("stop-holder", stop, (!owned).then_some(command));
        return Some(hindrance(Code::VolumeInUse, pods, what, vec![stop]));
    }
    let rollout = old_first(first.owner, first.namespace, 1).filter(|_| holder.is_old()).map(|command| {
        let text = format!(
            "let the rollout of `{}` remove the old pod before the new one runs (`maxSurge: 0`, `maxUnavailable: 1`)",
            object(first)
        );
        Suggestion::of("old-pods-first", text, Some(command))
    });
    let one = (!holder.is_old()).then(|| {
        let command = format!("kubectl{} scale {} --replicas=1", in_namespace(first.namespace), object(first));
        Suggestion::of("scale-down", format!("scale {} down to one pod", object(first)), Some(command))
    });
    Some(hindrance(Code::VolumeInUse, pods, what, rollout.into_iter().chain(one).collect()))
}

fn claims_of<'p>(pod: &PodView<'p>) -> impl Iterator<Item = &'p str> {
    let volumes = pod.pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
    volumes.filter_map(|volume| Some(volume.persistent_volume_claim.as_ref()?.claim_name.as_str()))
}

/// A budget that keeps a pod from being evicted from a closed node.
fn budget(
    view: &View<'_>,
    pods: &[&PodView<'_>],
    first: &PodView<'_>,
    node: &str,
    has_room: &dyn Fn(&PodView<'_>) -> bool,
) -> Option<Hindrance> {
    let covers = |budget: &&std::sync::Arc<PodDisruptionBudget>| {
        let selector = budget.spec.as_ref().and_then(|spec| spec.selector.as_ref());
        budget.namespace().as_deref() == Some(first.namespace)
            && Selector::from_api(selector).is_ok_and(|selector| selector.matches(first.pod.labels()))
    };
    let budgets: Vec<_> = view.snapshot.pod_disruption_budgets.iter().filter(covers).collect();
    let option = in_namespace(first.namespace);
    if let [one, two, ..] = budgets.as_slice() {
        let (one, two) = (one.name_any(), two.name_any());
        let what = format!(
            "stays on {node}, which is cordoned: the budgets {one} and {two} both cover it, and eviction refuses that"
        );
        let command = format!("kubectl{option} delete pdb {two}");
        let one = Suggestion::of("one-budget", format!("keep one of the two budgets: delete {two}"), Some(command));
        return Some(hindrance(Code::Budgets, pods, what, vec![one]));
    }
    let [budget] = budgets.as_slice() else { return None };
    let (spec, status) = (budget.spec.as_ref()?, budget.status.as_ref()?);
    if status.disruptions_allowed != Some(0) {
        return None;
    }
    let (expected, desired) = (status.expected_pods.unwrap_or(0), status.desired_healthy.unwrap_or(0));
    let healthy = status.current_healthy.unwrap_or(0);
    let name = budget.name_any();
    let needs = format!("needs {desired} of {}", plural(usize::try_from(expected).ok()?, "pod"));
    let what = format!(
        "stays on {node}, which is cordoned: the budget {name} allows no disruption ({needs}, {healthy} healthy)"
    );
    let patch = |change: Value| format!("kubectl{option} patch pdb {name} -p {}", quoted(&json!({ "spec": change })));
    let mut suggestions = Vec::new();
    if !first.state.is_ready() {
        let text = format!("let the budget {name} give way for pods that are not ready");
        let command = patch(json!({ "unhealthyPodEvictionPolicy": "AlwaysAllow" }));
        suggestions.push(Suggestion::of("evict-unhealthy", text, Some(command)));
    }
    let scales = matches!(first.owner, Owner::Deployment(_) | Owner::ReplicaSet(_) | Owner::StatefulSet(_));
    let by_number = matches!(spec.min_available, Some(IntOrString::Int(_)));
    if scales && by_number && healthy == desired && has_room(first) {
        let to = expected + 1;
        let command = format!("kubectl{option} scale {} --replicas={to}", named(first.owner));
        let text = format!("scale {} to {to}, so that one of them may go", named(first.owner));
        suggestions.push(Suggestion::of("scale-up", text, Some(command)));
    }
    // No number lets a pod go while none is healthy.
    if healthy > 0 {
        let most = (expected - healthy).max(0) + 1;
        let (words, change) = match (&spec.min_available, &spec.max_unavailable) {
            (Some(IntOrString::Int(least)), _) if *least > 0 => {
                let to = (least - 1).min(healthy - 1).max(0);
                (format!("`minAvailable` to {to}"), json!({ "minAvailable": to }))
            }
            (Some(_), _) => {
                (format!("`maxUnavailable` to {most}"), json!({ "minAvailable": null, "maxUnavailable": most }))
            }
            _ => (format!("`maxUnavailable` to {most}"), json!({ "maxUnavailable": most })),
        };
        let text = format!("set {words} in the budget {name}");
        suggestions.push(Suggestion::of("relax-budget", text, Some(patch(change))));
    }
    Some(hindrance(Code::Budget, pods, what, suggestions))
}
