//! Pure: commands about nodes, objects, pools and the control plane, with kubectl, az, docker or klab.

use std::time::Duration;

use super::control_plane::seconds;
use super::line::{Line, command, namespace};
use super::nodes::selector;
use super::tools::Tools;
use crate::pool::flags;
use crate::provider::aks;
use crate::render::render_workload;
use jiff::SignedDuration;
use klab_cluster::control::{HEARTBEAT_ANNOTATION, PREEMPT, SPOT_ANNOTATION};
use klab_cluster::{SILENCE_ANNOTATION, VERSION_ANNOTATION};
use klab_lab::nodes::full_version;
use klab_lab::spec::{Action, Lab, Located, NodeForm, NodeSet, ObjectRef};

pub(super) fn command_of(argv: &[String]) -> Line {
    match argv.split_first() {
        Some((program, arguments)) => command(program, arguments.to_vec()),
        None => Line::Note("nothing".to_owned()),
    }
}

/// A command about nodes: by label, or by name.
pub(super) fn kubectl(lab: &Lab, verb: &[&str], nodes: &NodeSet, rest: impl IntoIterator<Item = String>) -> Line {
    let mut arguments: Vec<String> = verb.iter().map(|word| (*word).to_owned()).collect();
    let selector = match nodes {
        NodeSet::Pool(pool) => Some(lab.pool_selector(pool)),
        nodes => selector(nodes),
    };
    match (nodes, selector) {
        (NodeSet::Node(name), _) => arguments.push(name.clone()),
        (_, selector) => arguments.extend(["-l".to_owned(), selector.unwrap_or_default()]),
    }
    arguments.extend(rest);
    command("kubectl", arguments)
}

/// The shells take the text as it stands: the word of a here-document is quoted, so that nothing in it is replaced.
pub(super) fn apply_text(text: &str) -> Line {
    let mut word = "YAML".to_owned();
    while text.lines().any(|line| line == word) {
        word.push('_');
    }
    Line::Command(format!("kubectl apply -f - <<'{word}'\n{}\n{word}", text.trim_end()))
}

pub(super) fn apply(lab: &Lab, path: &Located<String>, tools: &Tools) -> Vec<Line> {
    let (templates, plain): (Vec<_>, Vec<_>) = lab.files.matching(path).iter().partition(|file| file.is_template());
    let mut lines = Vec::new();
    match tools {
        _ if plain.is_empty() => {}
        Tools::Here(_) => {
            let files = plain.into_iter().flat_map(|file| ["-f".to_owned(), file.path.clone()]);
            lines.push(command("kubectl", ["apply".to_owned()].into_iter().chain(files)));
        }
        Tools::Seat => {
            let texts = plain.into_iter().map(|file| String::from_utf8_lossy(&file.bytes).trim_end().to_owned());
            lines.push(apply_text(&texts.collect::<Vec<_>>().join("\n---\n")));
        }
    }
    let templates: Vec<&str> = templates.into_iter().map(|file| file.path.as_str()).collect();
    if !templates.is_empty() {
        lines.push(Line::Note(format!("{} must be rendered first: `klab step` does that", templates.join(", "))));
    }
    lines
}

pub(super) fn delete(lab: &Lab, object: &ObjectRef) -> Vec<Line> {
    let mut arguments = vec!["delete".to_owned()];
    let mut of = object.namespace.clone();
    match lab.workload_of(object) {
        Some(workload) if object.kind.eq_ignore_ascii_case("workload") => {
            let manifests = render_workload(lab, workload).unwrap_or_default();
            arguments.extend(manifests.iter().map(|one| format!("{}/{}", one.kind().to_ascii_lowercase(), one.name())));
            of.clone_from(&workload.namespace);
        }
        _ => arguments.push(object.to_string()),
    }
    arguments.extend(namespace(&of));
    vec![command("kubectl", arguments)]
}

pub(super) fn pool(before: &Lab, after: &Lab, action: &Action, tools: &Tools) -> Vec<Line> {
    let lines = match tools {
        Tools::Here(azure) if before.provider.profile().has_managed_pools => {
            aks::pool_commands(before, after, action, azure)
        }
        _ => flags::command(after, action).into_iter().collect(),
    };
    lines.into_iter().map(Line::Command).collect()
}

/// In `klab shell` az is klab's own, and these are set, where the lab is not on AKS.
pub(super) fn control_plane(before: &Lab, after: &Lab, action: &Action, tools: &Tools) -> Vec<Line> {
    let Action::UpgradeControlPlane { kubernetes } = action else { return Vec::new() };
    let azure = match tools {
        Tools::Here(azure) => azure,
        // The embedded cluster is asked with kubectl, as no az is at a seat.
        Tools::Seat => {
            let version = format!("{VERSION_ANNOTATION}={}", full_version(*kubernetes));
            let words = ["annotate", "namespace", "kube-system", &version, "--overwrite"].map(str::to_owned);
            return vec![command("kubectl", words)];
        }
    };
    if before.provider.profile().has_managed_pools {
        return aks::pool_commands(before, after, action, azure).into_iter().map(Line::Command).collect();
    }
    let line = "az aks upgrade -g \"$RES_GROUP\" -n \"$AKS_NAME\" --control-plane-only --yes -k";
    vec![Line::Command(format!("{line} {kubernetes}"))]
}

/// What makes the API server silent.
pub(super) fn silence(before: &Lab, duration: SignedDuration) -> Vec<Line> {
    let profile = before.provider.profile();
    let length = klab_lab::words::duration(Duration::try_from(duration).unwrap_or_default());
    match profile.nodes {
        NodeForm::Object => {
            let annotation = format!("{SILENCE_ANNOTATION}={}", seconds(duration));
            let words = ["annotate", "namespace", "kube-system", &annotation].map(str::to_owned);
            vec![command("kubectl", words)]
        }
        NodeForm::Container => {
            let of = "`kubectl get nodes -l node-role.kubernetes.io/control-plane`";
            let pause = |verb: &str| command("docker", [verb.to_owned(), "NODE".to_owned()]);
            vec![
                Line::Note(format!("for each NODE of {of}:")),
                pause("pause"),
                Line::Note(format!("after {length}:")),
                pause("unpause"),
            ]
        }
        NodeForm::Machine => {
            vec![Line::Note(format!("{} keeps its API server: do this step on sim or kind", profile.title))]
        }
    }
}

fn first(nodes: &NodeSet, count: u32) -> Line {
    let which = selector(nodes).map_or_else(String::new, |selector| format!(" -l {selector}"));
    let many = klab_lab::words::plural(count as usize, "node");
    Line::Note(format!("the first {many} of `kubectl get nodes{which}`, in place of NODE:"))
}

/// What has Azure take nodes of a spot pool back.
pub(super) fn reclaim(before: &Lab, pool: &str, count: Option<u32>) -> Vec<Line> {
    let nodes = NodeSet::Pool(pool.to_owned());
    let mut lines: Vec<Line> = count.map(|count| first(&nodes, count)).into_iter().collect();
    if before.provider.profile().has_managed_pools {
        if lines.is_empty() {
            lines.push(Line::Note(format!("for each NODE of `kubectl get nodes -l {}`:", before.pool_selector(pool))));
        }
        lines.push(command("kubectl", ["get", "node", "NODE", "-o", "jsonpath={.spec.providerID}"].map(str::to_owned)));
        lines.push(Line::Note(
            "which ends in the resource group, the scale set and the number of the machine:".to_owned(),
        ));
        let words = ["vmss", "simulate-eviction", "-g", "GROUP", "-n", "SCALE_SET", "--instance-id", "NUMBER"];
        lines.push(command("az", words.map(str::to_owned)));
        return lines;
    }
    let set = if lines.is_empty() { nodes } else { NodeSet::Node("NODE".to_owned()) };
    lines.push(kubectl(before, &["annotate", "nodes"], &set, [format!("{SPOT_ANNOTATION}={PREEMPT}")]));
    lines
}

pub(super) fn power(before: &Lab, nodes: &NodeSet, count: Option<u32>, start: bool) -> Vec<Line> {
    let first = count.filter(|_| !start).map(|count| first(nodes, count));
    let named = NodeSet::Node("NODE".to_owned());
    let mut lines: Vec<Line> = first.into_iter().collect();
    match before.provider.profile().nodes {
        NodeForm::Object => {
            let set = if lines.is_empty() { nodes } else { &named };
            let value =
                if start { format!("{HEARTBEAT_ANNOTATION}-") } else { format!("{HEARTBEAT_ANNOTATION}=stopped") };
            lines.push(kubectl(before, &["annotate", "nodes"], set, [value]));
        }
        NodeForm::Container => {
            if lines.is_empty() && !matches!(nodes, NodeSet::Node(_)) {
                let which = selector(nodes).unwrap_or_default();
                lines.push(Line::Note(format!("for each NODE of `kubectl get nodes -l {which}`:")));
            }
            let node = if let NodeSet::Node(name) = nodes { name.clone() } else { "NODE".to_owned() };
            let verb = if start { "start" } else { "stop" };
            lines.push(command("docker", [verb.to_owned(), node]));
        }
        NodeForm::Machine => {
            let title = before.provider.profile().title;
            lines = vec![Line::Note(format!("{title} cannot stop single nodes: do this step on sim or kind"))];
        }
    }
    lines
}
