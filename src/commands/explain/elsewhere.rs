//! Explanations on a cluster that klab did not make: by the user's own kubeconfig and rights, without a lab file.

use std::collections::BTreeSet;

use serde_json::json;

use super::super::Context;
use super::super::elsewhere::Elsewhere;
use super::shown::{not_there, show};
use crate::error::{Error, Kind, Result};
use crate::event::Warning;
use crate::permitted::{self, NODE_RIGHTS, Permitted};
use klab_lab::report;
use klab_lab::verify::{self, Explanation, PodState, Why};
use klab_lab::words::listed;

/// Looks once and explains.
///
/// # Errors
/// When the kubeconfig cannot be used, the cluster does not answer, the user may not read its nodes, or there is no such pod.
pub(super) fn run(context: &Context, which: &Elsewhere, target: &str, asked: Option<&str>) -> Result<()> {
    let (seen, namespace, default) = context.block_on(async {
        let (client, default) = which.connect()?.client().await?;
        let namespace = asked.map_or_else(|| default.clone(), str::to_owned);
        let seen = Box::pin(permitted::look(&client, &namespace)).await;
        let seen = seen.map_err(|error| error.hint(format!("`kubectl{} get nodes` should answer", which.options())))?;
        Ok((seen, namespace, default))
    })?;
    if let Some(refusal) = &seen.no_nodes {
        return Err(without_nodes(which, &seen, (target, &namespace), refusal));
    }
    let mut explanations = explain(which, &seen, (target, &namespace), asked.is_none())?;
    for command in commands(&mut explanations) {
        *command = reached(command, &which.options(), &default);
    }
    for words in missing(&seen, &namespace) {
        context.ui.events().warn(Warning::PartUnread, words);
    }
    let mut document = report::explanation_json(target, &explanations);
    document["unread"] = json!({ "kinds": seen.unread, "other_namespaces": seen.of_namespace });
    show(context, &document, &explanations);
    Ok(())
}

/// Explains what is in the namespace, or what is named with its own: `kube-system/coredns-…`.
fn explain(
    which: &Elsewhere,
    seen: &Permitted,
    (target, namespace): (&str, &str),
    by_default: bool,
) -> Result<Vec<Explanation>> {
    let around = verify::Context::default();
    let nothing = match verify::explain(&seen.snapshot, &around, target, Some(namespace)) {
        Ok(explanations) => return Ok(explanations),
        Err(nothing) => nothing,
    };
    let Ok(others) = verify::explain(&seen.snapshot, &around, target, None) else {
        let hint = format!("`kubectl{} get pods -n {namespace}` shows the pods", which.options());
        return Err(not_there(&nothing, &hint));
    };
    let pods = || others.iter().flat_map(|explanation| &explanation.pods);
    if by_default && pods().all(|pod| pod == target) {
        return Ok(others);
    }
    let namespaces: BTreeSet<&str> = pods().filter_map(|pod| Some(pod.split_once('/')?.0)).collect();
    let namespaces: Vec<&str> = namespaces.into_iter().collect();
    let error = Error::message(Kind::Usage, nothing.to_string());
    let noun = if namespaces.len() == 1 { "namespace" } else { "namespaces" };
    Err(error.hint(format!(
        "there is one in {noun} {}: `-n {}`",
        listed(&namespaces),
        namespaces.first().unwrap_or(&"")
    )))
}

/// The commands that explanations name.
fn commands(explanations: &mut [Explanation]) -> impl Iterator<Item = &mut String> {
    explanations
        .iter_mut()
        .flat_map(|explanation| match &mut explanation.why {
            Why::Pending(pending) => pending.suggestions.as_mut_slice(),
            Why::Placed(_) | Why::Over => &mut [],
        })
        .filter_map(|suggestion| suggestion.command.as_mut())
}

/// A command as it reaches the same cluster, also where the context's namespace is another than `default`.
fn reached(command: &str, options: &str, default: &str) -> String {
    let one = |command: &str| match command.strip_prefix("kubectl") {
        Some(rest) => {
            let namespace = if default != "default" && !rest.contains(" -n ") { " -n default" } else { "" };
            format!("kubectl{options}{namespace}{rest}")
        }
        None => command.to_owned(),
    };
    command.split(" && ").map(one).collect::<Vec<_>>().join(" && ")
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

/// Without nodes nothing can be explained; what the scheduler itself says is told.
fn without_nodes(which: &Elsewhere, seen: &Permitted, (target, namespace): (&str, &str), refusal: &str) -> Error {
    let source = anyhow::anyhow!("{refusal}")
        .context(format!("could not explain `{target}`: you may not list the nodes of the cluster"));
    let mut error = Error::new(Kind::Outside, source);
    let explanations = verify::explain(&seen.snapshot, &verify::Context::default(), target, Some(namespace));
    for explanation in explanations.into_iter().flatten() {
        let (Some(pod), PodState::Unschedulable { message, .. }) = (explanation.pods.first(), &explanation.state)
        else {
            continue;
        };
        error = error.hint(format!("the scheduler says of {pod}: {message}"));
    }
    error.hint(format!("`kubectl{} auth can-i list nodes` says whether you may", which.options())).hint(NODE_RIGHTS)
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
        ] {
            assert_eq!(reached(command, options, default), wanted);
        }
    }
}
