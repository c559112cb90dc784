//! A drain that admission stops: a policy or a webhook refuses to let pods of a cordoned node be evicted.

use super::kubectl::{in_namespace, named};
use super::refused::Refused;
use crate::verify::cause::{Cause, Hindrance, Suggestion};
use crate::verify::view::{Owner, PodView, View};

/// What the API server answers where pods of a cordoned node are to be evicted. `has_room` says whether one more pod like them
/// would find a node.
pub(super) fn refused(
    view: &View<'_>,
    pods: &[&PodView<'_>],
    node: &str,
    has_room: &dyn Fn(&PodView<'_>) -> bool,
) -> Option<Hindrance> {
    let refused = &view.snapshot.refused_evictions;
    let answer = |pod: &&PodView<'_>| refused.get(&(pod.namespace.to_owned(), pod.name.to_owned()));
    let (first, message) = (*pods.first()?, pods.iter().find_map(answer)?);
    let found = Refused::of(message);
    let (about, look) = match &found {
        Refused::Policy(name) => (
            format!("see what the policy {name} asks"),
            format!("kubectl get validatingadmissionpolicy {name} -o yaml"),
        ),
        Refused::Webhook(name) | Refused::SilentWebhook(name) | Refused::NoDryRun(name) => {
            let kinds = "validatingwebhookconfigurations,mutatingwebhookconfigurations";
            (format!("see what answers for the webhook {name}"), format!("kubectl get {kinds} -o yaml"))
        }
        // What else is refused is a matter of who asks.
        _ => return None,
    };
    let what = match &found {
        Refused::NoDryRun(name) => format!(
            "stays on {node}, which is cordoned: the webhook {name} judges evictions and takes no dry run, so klab cannot tell \
             whether it lets a drain evict the pod"
        ),
        _ => format!("stays on {node}, which is cordoned: a drain cannot evict it: {message}"),
    };
    let restarts = matches!(first.owner, Owner::Deployment(_) | Owner::StatefulSet(_)) && has_room(first);
    let restart = restarts.then(|| {
        let object = named(first.owner);
        let text = format!("restart `{object}`: its new pods come to other nodes, and its controller evicts none");
        let command = format!("kubectl{} rollout restart {object}", in_namespace(first.namespace));
        Suggestion::of("restart", text, Some(command))
    });
    let suggestions = restart.into_iter().chain([Suggestion::of("look-at-admission", about, Some(look))]).collect();
    let subjects = pods.iter().map(|pod| pod.id()).collect();
    Some(Hindrance { cause: Cause { code: found.code(), subjects, what, nodes: Vec::new() }, suggestions })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::report::{Styles, explanation_text};
    use crate::verify::tests::fixture::Cluster;
    use crate::verify::{Context, explain};

    #[test]
    fn a_webhook_that_takes_no_dry_run_leaves_it_open_and_a_missing_right_says_nothing() {
        let said = |answer: &str| {
            let cluster = Cluster::default().node("a", 0, json!({"spec": {"unschedulable": true}})).pool("b", 1);
            let mut snapshot = cluster.deployment("web", 1).running("web", "a-0", 1).snapshot;
            snapshot.refused_evictions.insert(("default".to_owned(), "web-1".to_owned()), answer.to_owned());
            explanation_text(&explain(&snapshot, &Context::default(), "web", None).unwrap(), Styles::plain())
        };
        let open = said("admission webhook \"guard.example.com\" does not support dry run");
        assert!(open.contains("takes no dry run, so klab cannot tell"), "{open}");
        let silent = said(
            "Internal error occurred: failed calling webhook \"guard.example.com\": failed to call webhook: Post \"https://x\": EOF",
        );
        assert!(
            silent.contains("a drain cannot evict it: Internal error occurred: failed calling webhook"),
            "{silent}"
        );
        assert!(silent.contains("kubectl rollout restart deployment/web"), "{silent}");
        let right =
            "pods \"web-1\" is forbidden: User \"ann\" cannot create resource \"pods/eviction\" in API group \"\"";
        let none = said(right);
        assert!(none.contains("to empty a-0, drain it") && !none.contains("cannot evict"), "{none}");
    }
}
