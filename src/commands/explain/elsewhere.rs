//! Explanations on a cluster that klab did not make: by the user's own kubeconfig and rights, without a lab file.

use std::collections::BTreeSet;

use serde_json::json;

use super::super::Context;
use super::super::elsewhere::Elsewhere;
use super::shown::{not_there, show};
use klab_lab::report;
use klab_lab::verify::{self, Explained, PodState, Why};
use klab_lab::words::listed;
use klab_operations::error::{Code, Error, Result};
use klab_operations::rbac_snapshot::{self, NODE_RIGHTS, Permitted};

/// Looks once and explains.
///
/// # Errors
/// When the kubeconfig cannot be used, the cluster does not answer, the user may not read its nodes, or there is no such pod.
pub(super) fn run(context: &Context, which: &Elsewhere, target: &str, asked: Option<&str>) -> Result<()> {
    let (seen, namespace, default) = context.block_on(async {
        let (client, default) = which.connect()?.client().await?;
        let namespace = asked.map_or_else(|| default.clone(), str::to_owned);
        let seen = Box::pin(rbac_snapshot::look(&client, &namespace)).await;
        let seen = seen.map_err(|error| error.hint(format!("`kubectl{} get nodes` should answer", which.options())))?;
        Ok((seen, namespace, default))
    })?;
    let mut explained = match &seen.no_nodes {
        None => explain(which, &seen, (target, &namespace), asked.is_none())?,
        Some(refusal) => without_nodes(which, &seen, (target, &namespace), refusal)?,
    };
    for command in commands(&mut explained) {
        *command = reached(command, &which.options(), &default);
    }
    for words in missing(&seen, &namespace) {
        context.ui.events().warn(Code::PartUnread, words);
    }
    let mut document = report::explanation_json(target, &explained);
    document["unread"] = json!({ "kinds": seen.unread, "other_namespaces": seen.of_namespace });
    show(context, &document, &explained);
    Ok(())
}

/// Explains what is in the namespace, or what is named with its own: `kube-system/coredns-…`.
fn explain(
    which: &Elsewhere,
    seen: &Permitted,
    (target, namespace): (&str, &str),
    by_default: bool,
) -> Result<Explained> {
    let around = verify::Context::default();
    let nothing = match verify::explain(&seen.snapshot, &around, target, Some(namespace)) {
        Ok(explained) => return Ok(explained),
        Err(nothing) => nothing,
    };
    let Ok(others) = verify::explain(&seen.snapshot, &around, target, None) else {
        let hint = format!("`kubectl{} get pods -n {namespace}` shows the pods", which.options());
        return Err(not_there(&nothing, &hint));
    };
    let pods = || others.pods.iter().flat_map(|explanation| &explanation.pods);
    let subjects = || others.hindrances.iter().flat_map(|hindrance| &hindrance.cause.subjects);
    if by_default && others.hindrances.is_empty() && pods().all(|pod| pod == target) {
        return Ok(others);
    }
    let namespaces: BTreeSet<&str> = pods().chain(subjects()).filter_map(|pod| Some(pod.split_once('/')?.0)).collect();
    let namespaces: Vec<&str> = namespaces.into_iter().collect();
    let error = Error::message(Code::NothingToExplain, nothing.to_string());
    let noun = if namespaces.len() == 1 { "namespace" } else { "namespaces" };
    Err(error.hint(format!(
        "there is one in {noun} {}: `-n {}`",
        listed(&namespaces),
        namespaces.first().unwrap_or(&"")
    )))
}

/// The commands that explanations name.
fn commands(explained: &mut Explained) -> impl Iterator<Item = &mut String> {
    let of_pods = explained.pods.iter_mut().flat_map(|explanation| {
        let pending = match &mut explanation.why {
            Why::Pending(pending) => pending.suggestions.as_mut_slice(),
            Why::Placed(_) | Why::Over => &mut [],
        };
        let others = explanation.hindrances.iter_mut().flat_map(|hindrance| &mut hindrance.suggestions);
        pending.iter_mut().chain(others)
    });
    let of_workload = explained.hindrances.iter_mut().flat_map(|hindrance| &mut hindrance.suggestions);
    of_workload.chain(of_pods).filter_map(|suggestion| suggestion.command.as_mut())
}

/// A command as it reaches the same cluster, also where the context's namespace is another than `default`.
fn reached(command: &str, options: &str, default: &str) -> String {
    let one = |command: &str| match command.strip_prefix("kubectl ") {
        Some(rest) => {
            let namespace = if default != "default" && !rest.starts_with("-n ") { " -n default" } else { "" };
            format!("kubectl{options}{namespace} {rest}")
        }
        None => command.to_owned(),
    };
    let each = |command: &str| command.split(" | ").map(one).collect::<Vec<_>>().join(" | ");
    command.split(" && ").map(each).collect::<Vec<_>>().join(" && ")
}

/// What could not be read, and what that means.
fn missing(seen: &Permitted, namespace: &str) -> Vec<String> {
    let mut words = Vec::new();
    if !seen.of_namespace.is_empty() {
        let kinds = seen.of_namespace.join(", ");
        words.push(format!(
            "you may read these in namespace {namespace} only, so what pods of others take of the nodes is not counted: {kinds}"
        ));
    }
    if !seen.unread.is_empty() {
        words.push(format!("you may not read these, and they are left out: {}", seen.unread.join(", ")));
    }
    words
}

/// Without nodes no placement can be explained: only why pods are not made, and what the scheduler itself says.
fn without_nodes(
    which: &Elsewhere,
    seen: &Permitted,
    (target, namespace): (&str, &str),
    refusal: &str,
) -> Result<Explained> {
    let explained = verify::explain(&seen.snapshot, &verify::Context::default(), target, Some(namespace));
    let explained = explained.unwrap_or_default();
    if !explained.hindrances.is_empty() {
        return Ok(Explained { pods: Vec::new(), ..explained });
    }
    let source = anyhow::anyhow!("{refusal}")
        .context(format!("could not explain `{target}`: you may not list the nodes of the cluster"));
    let mut error = Error::new(Code::NoAnswer, source);
    for explanation in &explained.pods {
        let (Some(pod), PodState::Unschedulable { message, .. }) = (explanation.pods.first(), &explanation.state)
        else {
            continue;
        };
        error = error.hint(format!("the scheduler says of {pod}: {message}"));
    }
    let asks = format!("`kubectl{} auth can-i list nodes` says whether you may", which.options());
    Err(error.hint(asks).hint(NODE_RIGHTS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_reach_the_cluster_that_was_asked() {
        for (command, options, default, wanted) in [
            ("kubectl scale deployment/web --replicas=1", "", "default", "kubectl scale deployment/web --replicas=1"),
            (
                "kubectl uncordon a && kubectl -n x patch pod/b",
                " --context c",
                "team",
                "kubectl --context c -n default uncordon a && kubectl --context c -n x patch pod/b",
            ),
            (
                "echo '{}' | kubectl -n x create -f -",
                " --context c",
                "team",
                "echo '{}' | kubectl --context c -n x create -f -",
            ),
        ] {
            assert_eq!(reached(command, options, default), wanted);
        }
    }
}
