//! Pods whose containers do not start, do not stay or have failed: which one, and what to do about it.

use k8s_openapi::api::core::v1::{ContainerState, ContainerStatus};
use serde_json::json;

use super::kubectl::{edit_by_hand, in_namespace, object, patched};
use super::node_condition::unpinned;
use crate::code::Code;
use crate::verify::cause::{Cause, Hindrance, Suggestion};
use crate::verify::pod::{PodState, is_scheduled};
use crate::verify::view::{Owner, PodView, View};
use klab_scheduler::quantity::Quantity;

/// What is the matter with the containers of pods in the same position; none where they run.
pub(crate) fn stuck(view: &View<'_>, pods: &[&PodView<'_>]) -> Option<Hindrance> {
    let first = *pods.first()?;
    let (what, suggestions) = match &first.state {
        PodState::Failed { reason } => failed(first, reason),
        PodState::Starting { trouble: Some(trouble) } | PodState::Running { trouble: Some(trouble), .. } => {
            troubled(view, first, trouble)?
        }
        PodState::Starting { trouble: None } => initializing(first)?,
        _ => return None,
    };
    let subjects = pods.iter().map(|pod| pod.id()).collect();
    Some(Hindrance { cause: Cause { code: Code::Containers, subjects, what, nodes: Vec::new() }, suggestions })
}

fn statuses<'p>(pod: &PodView<'p>) -> impl Iterator<Item = &'p ContainerStatus> {
    let status = pod.pod.status.as_ref();
    status
        .into_iter()
        .flat_map(|status| status.init_container_statuses.iter().chain(&status.container_statuses).flatten())
}

fn logs(pod: &PodView<'_>, container: &str, option: &str, text: String) -> Suggestion {
    let command = format!("kubectl{} logs {} -c {container}{option}", in_namespace(pod.namespace), pod.name);
    Suggestion::of("read-logs", text, Some(command))
}

/// How a container ended: `with exit code 1 (Error)`.
fn end(state: Option<&ContainerState>) -> Option<(i32, String)> {
    let ended = state?.terminated.as_ref()?;
    let reason = ended.reason.as_deref().map(|reason| format!(" ({reason})")).unwrap_or_default();
    Some((ended.exit_code, format!("with exit code {}{reason}", ended.exit_code)))
}

fn failed(pod: &PodView<'_>, reason: &str) -> (String, Vec<Suggestion>) {
    let ended = statuses(pod).find_map(|status| Some((status, end(status.state.as_ref()).filter(|end| end.0 != 0)?)));
    if let Some((status, (_, how))) = ended {
        let text = format!("see what container {} said before it ended", status.name);
        return (format!("container {} ended {how}", status.name), vec![logs(pod, &status.name, "", text)]);
    }
    let message = pod.pod.status.as_ref().and_then(|status| status.message.as_deref());
    let message = message.map(|message| format!(": {}", message.trim())).unwrap_or_default();
    let what = match pod.node {
        Some(node) if !is_scheduled(pod.pod) => format!("{node} refused it ({reason}){message}"),
        _ => format!("{reason}{message}"),
    };
    (what, unpinned(pod).into_iter().collect())
}

fn troubled(view: &View<'_>, pod: &PodView<'_>, trouble: &str) -> Option<(String, Vec<Suggestion>)> {
    let waits = |status: &&ContainerStatus| {
        let waiting = status.state.as_ref().and_then(|state| state.waiting.as_ref());
        waiting.is_some_and(|waiting| waiting.reason.as_deref() == Some(trouble))
    };
    let namespace = in_namespace(pod.namespace);
    let status = statuses(pod).find(waits);
    // A StatefulSet replaces a pod of an earlier template only once that is ready.
    if let (Owner::StatefulSet(_), true) = (pod.owner, pod.is_old()) {
        let what =
            format!("is of an earlier template, and {} waits until it is ready before it makes it again", object(pod));
        let delete = format!("kubectl{namespace} delete pod {}", pod.name);
        let text = "delete the pod, so that it is made from the present template".to_owned();
        return Some((what, vec![Suggestion::of("delete-pod", text, Some(delete))]));
    }
    let Some(status) = status else { return missing(pod, &pod.trouble_message()?) };
    let name = &status.name;
    Some(match trouble {
        "CrashLoopBackOff" | "RunContainerError" => {
            let (_, how) = end(status.last_state.as_ref()).unwrap_or_default();
            let what = format!("container {name} ends again and again {how}");
            let look = logs(pod, name, " --previous", format!("see what container {name} said before it ended"));
            let more = how.contains("OOMKilled").then(|| more_memory(pod, name)).flatten();
            (what.trim_end().to_owned(), more.into_iter().chain([look]).collect())
        }
        "CreateContainerConfigError" => return missing(pod, &pod.trouble_message()?),
        "CreateContainerError" => return None,
        _ => {
            let what = format!("the image {} of container {name} cannot be pulled", status.image);
            let kept = view.pods.iter().any(|other| other.owner.is(&pod.owner) && other.is_old());
            let back = matches!(pod.owner, Owner::Deployment(_) | Owner::StatefulSet(_) | Owner::DaemonSet(_))
                .then(|| format!("kubectl{namespace} rollout undo {}", object(pod)))
                .filter(|_| kept && !pod.is_old());
            let back = back.map(|command| {
                Suggestion::of(
                    "undo-rollout",
                    format!("go back to the template before of {}", object(pod)),
                    Some(command),
                )
            });
            let own = || format!("kubectl{namespace} edit pod/{}", pod.name);
            let edit = if matches!(pod.owner, Owner::None) { Some(own()) } else { edit_by_hand(pod) };
            let text = format!("correct the image of container {name} of {}", object(pod));
            (what, back.into_iter().chain([Suggestion::of("change-image", text, edit)]).collect())
        }
    })
}

/// A container that needs more memory than its limit: twice as much.
fn more_memory(pod: &PodView<'_>, name: &str) -> Option<Suggestion> {
    let container = pod.pod.spec.as_ref()?.containers.iter().find(|container| container.name == name)?;
    let limit = container.resources.as_ref()?.limits.as_ref()?.get("memory")?;
    let twice = Quantity::parse(&limit.0).ok()?.base_units("memory").checked_mul(2)?;
    let twice = Quantity::of_resource("memory", twice).to_string();
    let change = json!({ "containers": [{ "name": name, "resources": { "limits": { "memory": twice } } }] });
    let text = format!("raise `limits.memory` of container {name} of {} from {} to {twice}", object(pod), limit.0);
    Some(Suggestion::of("raise-limit", text, Some(patched(pod.owner, pod.namespace, &change)?)))
}

/// A ConfigMap or a Secret that is not there.
fn missing(pod: &PodView<'_>, message: &str) -> Option<(String, Vec<Suggestion>)> {
    let namespace = in_namespace(pod.namespace);
    let (kind, make, name) = [("configmap", "configmap", "ConfigMap"), ("secret", "secret generic", "Secret")]
        .into_iter()
        .find_map(|(word, make, kind)| {
            let name = message.split_once(&format!("{word} \""))?.1.split_once("\" not found")?.0;
            Some((kind, make, name.to_owned()))
        })?;
    let what = format!("there is no {kind} {name} in namespace {}", pod.namespace);
    let text = format!("make the {kind} {name}, with the keys that the pod reads");
    Some((what, vec![Suggestion::of("make-object", text, Some(format!("kubectl{namespace} create {make} {name}")))]))
}

/// An init container that has not ended.
fn initializing(pod: &PodView<'_>) -> Option<(String, Vec<Suggestion>)> {
    let status = pod.pod.status.as_ref()?;
    let declared = pod.pod.spec.as_ref()?.init_containers.as_deref().unwrap_or_default();
    let is_sidecar = |name: &str| {
        declared.iter().any(|container| container.name == name && container.restart_policy.as_deref() == Some("Always"))
    };
    let running = status.init_container_statuses.iter().flatten().find(|status| {
        status.state.as_ref().is_some_and(|state| state.running.is_some()) && !is_sidecar(&status.name)
    })?;
    let name = &running.name;
    let what = format!("its init container {name} runs, and the other containers start when that has ended");
    Some((what, vec![logs(pod, name, "", format!("see what {name} waits for"))]))
}
