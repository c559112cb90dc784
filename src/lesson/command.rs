//! Pure: what a learner types for an action, with kubectl, az, docker or klab.

use std::time::Duration;

use super::control_plane::seconds;
pub use super::line::{Edit, Line};
use super::line::{command, namespace, object};
use super::nodes::{pattern_text, selector};
use super::rewrite::set;
use super::tools::Tools;
use super::undo::{Undo, undo};
use crate::exec;
use crate::pool::flags;
use crate::provider::aks;
use crate::render::render_workload;
use crate::stage::stage_within;
use jiff::SignedDuration;
use klab_cluster::control::HEARTBEAT_ANNOTATION;
use klab_cluster::{SILENCE_ANNOTATION, VERSION_ANNOTATION};
use klab_lab::nodes::full_version;
use klab_lab::plan::taint_text;
use klab_lab::spec::{Action, Lab, Located, ManifestContent, NodeForm, NodeSet, ObjectRef};

/// The lines that a learner types for a step (from 0) on the lab's provider.
pub fn of_step(lab: &Lab, step: usize, tools: &Tools) -> Vec<Line> {
    let actions = lab.steps.get(step).map_or(0, |step| step.actions.len());
    (0..actions).flat_map(|action| lines(lab, step, action, tools)).collect()
}

/// The lines that take back a step (from 0), the last action first.
pub fn of_undoing(lab: &Lab, step: usize, tools: &Tools) -> Vec<Line> {
    let actions = lab.steps.get(step).map_or(0, |step| step.actions.len());
    let undone = (0..actions).rev().flat_map(|action| {
        let (done, before) = (stage_within(lab, step, action + 1), stage_within(lab, step, action));
        match undo(lab, step, action) {
            Undo::Actions(all) => all.iter().flat_map(|one| for_action(&done, &before, one, tools)).collect(),
            Undo::Impossible(words) => vec![Line::Note(words)],
            // klab takes its own objects back on any cluster.
            Undo::Objects(_) | Undo::Nothing => Vec::new(),
        }
    });
    undone.collect()
}

/// The lines for one action (from 0) of a step (from 0) on the lab's provider.
pub fn lines(lab: &Lab, step: usize, action: usize, tools: &Tools) -> Vec<Line> {
    let Some(located) = lab.steps.get(step).and_then(|step| step.actions.get(action)) else { return Vec::new() };
    let before = stage_within(lab, step, action);
    let after = stage_within(lab, step, action + 1);
    for_action(&before, &after, &located.value, tools)
}

fn for_action(before: &Lab, after: &Lab, action: &Action, tools: &Tools) -> Vec<Line> {
    match action {
        Action::Taint { taint, nodes } => vec![kubectl(before, &["taint", "nodes"], nodes, [taint_text(taint)])],
        Action::Untaint { key, value, effect, nodes } => {
            let pattern = pattern_text(key, value.as_deref(), effect.as_deref());
            vec![kubectl(before, &["taint", "nodes"], nodes, [format!("{pattern}-")])]
        }
        Action::Label { labels, nodes } => {
            let pairs = labels.iter().map(|(key, value)| format!("{key}={value}"));
            vec![kubectl(before, &["label", "nodes"], nodes, pairs.chain(["--overwrite".to_owned()]))]
        }
        Action::Unlabel { keys, nodes } => {
            vec![kubectl(before, &["label", "nodes"], nodes, keys.iter().map(|key| format!("{key}-")))]
        }
        Action::Cordon { nodes } => vec![kubectl(before, &["cordon"], nodes, [])],
        Action::Uncordon { nodes } => vec![kubectl(before, &["uncordon"], nodes, [])],
        Action::Drain { nodes, within, force } => {
            let mut options = vec!["--ignore-daemonsets".to_owned(), "--delete-emptydir-data".to_owned()];
            options.extend(force.then(|| "--force".to_owned()));
            options.extend(within.map(|within| format!("--timeout={}s", within.as_secs())));
            vec![kubectl(before, &["drain"], nodes, options)]
        }
        Action::Scale { workload, replicas } => match before.workload(workload) {
            Some(spec) => {
                let object = object(spec);
                let mut arguments = vec!["scale".to_owned(), object, "--replicas".to_owned(), replicas.to_string()];
                arguments.extend(namespace(&spec.namespace));
                vec![command("kubectl", arguments)]
            }
            None => Vec::new(),
        },
        Action::Set { workload, .. } => set(before, after, workload),
        Action::Deploy { workload } => {
            let render = exec::Command::new("klab").args(["render", &before.name, "--workload", workload]);
            vec![Line::Command(format!("{render} | kubectl apply -f -"))]
        }
        Action::Apply { content: ManifestContent::Path(path) } => apply(before, path, tools),
        Action::Apply { content: ManifestContent::Yaml(yaml) } => vec![apply_text(yaml)],
        Action::Refused { action, text } => {
            let mut lines = for_action(before, after, action, tools);
            lines.push(Line::Note(format!("this is refused: {text}")));
            lines
        }
        Action::Delete { object } => delete(before, object),
        Action::DeletePods { selector, namespace: of } => {
            let mut arguments = vec!["delete".to_owned(), "pods".to_owned(), "-l".to_owned(), selector.to_string()];
            arguments.extend(namespace(of));
            vec![command("kubectl", arguments)]
        }
        Action::AddPool { .. } | Action::RemovePool { .. } | Action::ScalePool { .. } | Action::UpgradePool { .. } => {
            pool(before, after, action, tools)
        }
        Action::FailNode { nodes, count } => power(before, nodes, *count, false),
        Action::RestoreNode { nodes } => power(before, nodes, None, true),
        Action::UpgradeControlPlane { .. } => control_plane(before, after, action, tools),
        Action::FailApi { duration } => silence(before, *duration),
        Action::Wait { duration } => {
            let duration = Duration::try_from(*duration).unwrap_or_default();
            vec![Line::Note(format!("wait for {}", klab_lab::words::duration(duration)))]
        }
        Action::Run { argv } => vec![command_of(argv)],
    }
}

fn command_of(argv: &[String]) -> Line {
    match argv.split_first() {
        Some((program, arguments)) => command(program, arguments.to_vec()),
        None => Line::Note("nothing".to_owned()),
    }
}

/// A command about nodes: by label, or by name.
fn kubectl(lab: &Lab, verb: &[&str], nodes: &NodeSet, rest: impl IntoIterator<Item = String>) -> Line {
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
fn apply_text(text: &str) -> Line {
    let mut word = "YAML".to_owned();
    while text.lines().any(|line| line == word) {
        word.push('_');
    }
    Line::Command(format!("kubectl apply -f - <<'{word}'\n{}\n{word}", text.trim_end()))
}

fn apply(lab: &Lab, path: &Located<String>, tools: &Tools) -> Vec<Line> {
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

fn delete(lab: &Lab, object: &ObjectRef) -> Vec<Line> {
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

fn pool(before: &Lab, after: &Lab, action: &Action, tools: &Tools) -> Vec<Line> {
    let lines = match tools {
        Tools::Here(azure) if before.provider.profile().has_managed_pools => {
            aks::pool_commands(before, after, action, azure)
        }
        _ => flags::command(after, action).into_iter().collect(),
    };
    lines.into_iter().map(Line::Command).collect()
}

/// In `klab shell` az is klab's own, and these are set, where the lab is not on AKS.
fn control_plane(before: &Lab, after: &Lab, action: &Action, tools: &Tools) -> Vec<Line> {
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
fn silence(before: &Lab, duration: SignedDuration) -> Vec<Line> {
    let profile = before.provider.profile();
    let told = klab_lab::words::duration(Duration::try_from(duration).unwrap_or_default());
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
                Line::Note(format!("after {told}:")),
                pause("unpause"),
            ]
        }
        NodeForm::Machine => {
            vec![Line::Note(format!("{} keeps its API server: do this step on sim or kind", profile.title))]
        }
    }
}

fn power(before: &Lab, nodes: &NodeSet, count: Option<u32>, start: bool) -> Vec<Line> {
    let first = count.filter(|_| !start).map(|count| {
        let which = selector(nodes).map_or_else(String::new, |selector| format!(" -l {selector}"));
        let many = klab_lab::words::plural(count as usize, "node");
        Line::Note(format!("the first {many} of `kubectl get nodes{which}`, in place of NODE:"))
    });
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
