//! Changes in words: as an edit of the lab file where the lab made the thing, and as a command.

use std::collections::{BTreeMap, BTreeSet};

use super::claim_change::{ClaimChange, Release, Wish};
use super::edit::{Edit, Topology};
use super::growth::backed_off;
use super::kubectl::{edit_by_hand, edited, in_namespace, object};
use super::question::{Proof, Question};
use super::reasons::amount;
use super::slip;
use crate::names::WORKLOAD_LABEL;
use crate::spec::{Location, Workload};
use crate::verify::cause::Suggestion;
use crate::verify::view::{Owner, PodView, View};
use crate::words::listed;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use klab_scheduler::quantity::Quantity;
use klab_scheduler::taint::{Taint, tolerated};

/// One change in words, its place in the lab file and its command.
struct Words {
    text: String,
    at: Option<Location>,
    command: Option<String>,
}

impl Words {
    fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), at: None, command: None }
    }

    fn at(mut self, at: Option<Location>) -> Self {
        self.at = at;
        self
    }

    fn perhaps(self, command: Option<String>) -> Self {
        Self { command, ..self }
    }

    fn command(mut self, command: impl Into<String>) -> Self {
        self.command = Some(command.into());
        self
    }
}

/// A proved combination of changes.
pub(crate) fn suggestion(edits: &[Edit], proof: &Proof, question: &Question<'_, '_>) -> Suggestion {
    let words: Vec<Words> = edits.iter().map(|edit| words(edit, proof, question)).collect();
    let nodes: BTreeSet<&String> = proof.nodes.iter().collect();
    Suggestion {
        code: edits.first().map_or("none", Edit::code),
        text: words.iter().map(|words| words.text.as_str()).collect::<Vec<_>>().join(" and "),
        at: words.iter().find_map(|words| words.at.clone()),
        command: words
            .iter()
            .map(|words| words.command.clone())
            .collect::<Option<Vec<_>>>()
            .filter(|commands| !commands.is_empty())
            .map(|commands| commands.join(" && ")),
        changes: edits.len(),
        nodes: nodes.into_iter().cloned().collect(),
    }
}

/// The workload of the lab that a pod belongs to.
pub(crate) fn workload_of<'a>(view: &View<'a>, pod: &PodView<'a>) -> Option<&'a Workload> {
    let labels = pod.pod.metadata.labels.as_ref();
    let named = labels.and_then(|labels| labels.get(WORKLOAD_LABEL)).map(String::as_str);
    let name = named.or_else(|| Some(pod.owner.name()).filter(|name| !name.is_empty()))?;
    view.context.workload(name).filter(|workload| workload.namespace == pod.namespace)
}

/// The values of a label that pods of a workload ask for, as the lab says: in node selector and required node affinity.
pub(crate) fn said_of_label<'w>(workload: &'w Workload, key: &str) -> Vec<&'w str> {
    let selector = workload.node_selector.get(key).map(|value| value.value.as_str());
    let affinity = workload.affinity.iter().filter_map(|affinity| affinity.value.node_affinity.as_ref());
    let required = affinity.filter_map(|it| it.required_during_scheduling_ignored_during_execution.as_ref());
    let terms = required.flat_map(|required| &required.node_selector_terms);
    let expressions = terms.flat_map(|term| term.match_expressions.iter().flatten());
    let of_key = expressions.filter(|expression| expression.key == key && expression.operator == "In");
    selector.into_iter().chain(of_key.flat_map(|it| it.values.iter().flatten().map(String::as_str))).collect()
}

/// Whether the lab itself says so, in words that follow a change.
fn as_the_lab_says(workload: Option<&Workload>, key: &str, value: &str) -> &'static str {
    let said = workload.is_some_and(|workload| said_of_label(workload, key).contains(&value));
    if said { ", as the lab says" } else { "" }
}

#[expect(clippy::too_many_lines, reason = "a row for each edit")]
fn words(edit: &Edit, proof: &Proof, question: &Question<'_, '_>) -> Words {
    let view = question.view;
    let Some(pod) = question.pods.first() else { return Words::new("") };
    let workload = workload_of(view, pod).filter(|workload| workload.template.is_none());
    let table =
        workload.map_or_else(|| format!("`{}`", object(pod)), |workload| format!("`[workload.{}]`", *workload.name));
    let begin = || workload.map(|workload| workload.at.clone());
    let by_hand = |words: Words| words.perhaps(edited(edit, pod));
    match edit {
        Edit::Tolerate(taints) => tolerate(taints, pod, workload).perhaps(edited(edit, pod)),
        Edit::Require { key, value } => {
            let said = workload.and_then(|workload| workload.node_selector.get(key));
            // Where the file says so already, somebody took it away since.
            let words = match workload.filter(|_| said.is_none_or(|said| said.value != *value)) {
                Some(_) => Words::new(format!("add `{key} = \"{value}\"` to the node selector of {table}"))
                    .at(said.map(|value| value.at.clone()).or_else(begin)),
                None => Words::new(format!(
                    "add `{key}={value}` to the node selector of `{}`{}",
                    object(pod),
                    as_the_lab_says(workload, key, value)
                )),
            };
            words.perhaps(edited(edit, pod))
        }
        Edit::KeepApart(selector) => {
            let at = workload.and_then(|workload| workload.affinity.as_ref()).map(|affinity| affinity.at.clone());
            Words::new(format!(
                "add to {table} a required pod anti-affinity to `{}` on the same node",
                labels(selector)
            ))
            .at(at.or_else(begin))
            .perhaps(edit_by_hand(pod))
        }
        Edit::Join(selector) => {
            let at = workload.and_then(|workload| workload.affinity.as_ref()).map(|affinity| affinity.at.clone());
            Words::new(format!("add to {table} a required pod affinity to `{}` on the same node", labels(selector)))
                .at(at.or_else(begin))
                .perhaps(edit_by_hand(pod))
        }
        Edit::SpreadOver { key, max_skew, .. } => {
            Words::new(format!("add to {table} a topology spread constraint over `{key}` with `maxSkew` {max_skew}"))
                .at(begin())
                .perhaps(edit_by_hand(pod))
        }
        Edit::ChangeSelector { key, from, to } => {
            // The lab file is where to write it only if the slip is there.
            match workload.and_then(|workload| workload.node_selector.get(key)).filter(|value| value.value == *from) {
                Some(value) => Words::new(format!("write `{to}` for `{from}` in the node selector `{key}` of {table}"))
                    .at(Some(value.at.clone())),
                None => Words::new(format!(
                    "write `{to}` for `{from}` in the node selector `{key}` of `{}`{}",
                    object(pod),
                    as_the_lab_says(workload, key, to)
                ))
                .perhaps(edited(edit, pod)),
            }
        }
        Edit::ChangeAffinity { key, from, to } => {
            let said = workload.filter(|workload| said_of_label(workload, key).contains(&from.as_str()));
            match said.and_then(|workload| workload.affinity.as_ref()) {
                Some(affinity) => Words::new(format!("write `{to}` for `{from}` in the node affinity of {table}"))
                    .at(Some(affinity.at.clone())),
                None => Words::new(format!(
                    "write `{to}` for `{from}` in the node affinity of `{}`{}",
                    object(pod),
                    as_the_lab_says(workload, key, to)
                ))
                .perhaps(edit_by_hand(pod)),
            }
        }
        Edit::ChangeTopologyKey { rule, from, to } => change_topology_key(*rule, from, to, pod, workload),
        Edit::Restart => Words::new(format!("restart `{}`, as pods do not move by themselves", object(pod)))
            .command(format!("kubectl{} rollout restart {}", in_namespace(pod.namespace), object(pod))),
        Edit::DropSelector(key) => {
            match workload.and_then(|workload| workload.node_selector.get(key)).map(|value| value.at.clone()) {
                Some(at) => Words::new(format!("remove `{key}` from the node selector of {table}")).at(Some(at)),
                None => Words::new(format!("remove `{key}` from the node selector of `{}`", object(pod))),
            }
            .perhaps(edited(edit, pod))
        }
        Edit::DropNodeAffinity => {
            let at = workload.and_then(|workload| workload.affinity.as_ref()).map(|affinity| affinity.at.clone());
            by_hand(Words::new(format!("remove the required node affinity of {table}")).at(at.or_else(begin)))
        }
        Edit::LowerRequest { resource, from, to } => {
            let written = Quantity::of_resource(resource, *to).to_string();
            let text =
                format!("lower `requests.{resource}` of {table} from {} to `{written}`", amount(resource, *from));
            let at = workload.and_then(|workload| workload.requests.get(resource)).map(|value| value.at.clone());
            let words = Words::new(text).at(at.or_else(begin));
            // One container, so that the command is about the right one.
            let single = pod.pod.spec.as_ref().is_some_and(|spec| spec.containers.len() == 1);
            let template = !matches!(pod.owner, Owner::None | Owner::Other(_) | Owner::Job(_));
            if single && template && matches!(resource.as_str(), "cpu" | "memory") {
                let namespace = in_namespace(pod.namespace);
                words.command(format!(
                    "kubectl{namespace} set resources {} --requests={resource}={written}",
                    object(pod)
                ))
            } else {
                words
            }
        }
        Edit::DropHostPort(port) => by_hand(Words::new(format!("remove the host port {port} of {table}")).at(begin())),
        Edit::RelaxSpread { constraint, from, to } => {
            let at = workload.and_then(|workload| workload.topology_spread.get(*constraint)).map(|it| it.at.clone());
            by_hand(Words::new(format!("raise `maxSkew` of {table} from {from} to {to}")).at(at.or_else(begin)))
        }
        Edit::DropPodAffinity(_) => {
            let at = workload.and_then(|workload| workload.affinity.as_ref()).map(|affinity| affinity.at.clone());
            by_hand(Words::new(format!("remove the required pod affinity of {table}")).at(at.or_else(begin)))
        }
        Edit::DropPodAntiAffinity(_) => {
            let at = workload.and_then(|workload| workload.affinity.as_ref()).map(|affinity| affinity.at.clone());
            by_hand(Words::new(format!("remove the required pod anti-affinity of {table}")).at(at.or_else(begin)))
        }
        Edit::FewerDevices(change) | Edit::TolerateDevices(change) => ask_otherwise(change),
        Edit::Release(release) => give_back(release),
        Edit::DropGates(gates) => {
            by_hand(Words::new(format!("remove the scheduling gates {} of {table}", gates.join(", "))).at(begin()))
        }
        Edit::Label { pool, nodes, key, value } => label(view, pool.as_deref(), nodes, key, value),
        Edit::Unlabel { nodes, key } => {
            let names: Vec<&str> = nodes.iter().map(String::as_str).collect();
            Words::new(format!("take the label `{key}` off {}", listed(&names)))
                .command(format!("kubectl label nodes {} {key}-", names.join(" ")))
        }
        Edit::Untaint { pool, nodes, taints } => {
            let texts: Vec<String> = taints.iter().map(ToString::to_string).collect();
            let minus: Vec<String> = texts.iter().map(|taint| format!("{taint}-")).collect();
            let declared = pool.as_deref().and_then(|pool| view.context.pool(pool)).and_then(|pool| {
                let is_one = |own: &crate::spec::Located<k8s_openapi::api::core::v1::Taint>| {
                    taints.contains(&klab_scheduler::taint::Taint::from(&own.value))
                };
                pool.taints.iter().find(|own| is_one(own)).map(|own| own.at.clone())
            });
            let plural = if texts.len() == 1 { "taint" } else { "taints" };
            Words::new(format!("remove the {plural} {} from {}", texts.join(", "), whose(pool.as_deref(), nodes)))
                .at(declared)
                .command(format!("kubectl taint nodes {} {}", targets(view, pool.as_deref(), nodes), minus.join(" ")))
        }
        Edit::Uncordon(nodes) => {
            let names: Vec<&str> = nodes.iter().map(String::as_str).collect();
            Words::new(format!("uncordon {}", listed(&names))).command(format!("kubectl uncordon {}", names.join(" ")))
        }
        Edit::AddNodes { pool, .. } => add_nodes(view, pool, proof.steps),
        Edit::ScaleDown { kind, namespace, name, from, .. } => {
            let to = from - proof.steps;
            let declared = view.context.workload(name).filter(|workload| workload.namespace == *namespace);
            let declared =
                declared.filter(|workload| workload.replicas.as_ref().is_some_and(|it| it.value as usize == *from));
            let text = match declared {
                Some(_) => format!("set `workload.{name}.replicas = {to}` (from {from})"),
                None => format!("scale {}/{name} from {from} to {to}", kind.to_lowercase()),
            };
            let at = declared.and_then(|workload| workload.replicas.as_ref()).map(|replicas| replicas.at.clone());
            let (kind, namespace) = (kind.to_lowercase(), in_namespace(namespace));
            Words::new(text).at(at).command(format!("kubectl{namespace} scale {kind}/{name} --replicas={to}"))
        }
    }
}

/// Claims that ask for something else; what they ask for cannot be changed, so they are made again.
fn ask_otherwise(change: &ClaimChange) -> Words {
    let each: Vec<String> = change
        .requests
        .iter()
        .map(|one| {
            let (object, request) = (&one.object, &one.request);
            match &one.wish {
                Wish::Fewer { from, to } => {
                    format!("ask for {to} instead of {from} devices in request `{request}` of {object}")
                }
                Wish::Tolerate(taints) => {
                    let noun = if taints.len() == 1 { "taint" } else { "taints" };
                    let taints = taints.join(", ");
                    format!("tolerate the device {noun} {taints} in request `{request}` of {object}")
                }
            }
        })
        .collect();
    let again = "make it and the pods again, as what a claim asks for cannot be changed";
    Words::new(format!("{} ({again})", each.join(" and ")))
}

/// Devices that others give back.
fn give_back(release: &Release) -> Words {
    let mut commands = Vec::new();
    let mut texts = Vec::new();
    let mut by_namespace: BTreeMap<&str, (Vec<&str>, Vec<&str>)> = BTreeMap::new();
    for pod in &release.pods {
        let of = by_namespace.entry(pod.metadata.namespace.as_deref().unwrap_or("default")).or_default();
        of.0.extend(pod.metadata.name.as_deref());
    }
    for claim in &release.claims {
        let of = by_namespace.entry(claim.metadata.namespace.as_deref().unwrap_or("default")).or_default();
        of.1.extend(claim.metadata.name.as_deref());
    }
    for (namespace, (pods, claims)) in by_namespace {
        let option = in_namespace(namespace);
        if !pods.is_empty() {
            let (noun, verb) = if pods.len() == 1 { ("pod", "has") } else { ("pods", "have") };
            texts.push(format!("delete {noun} {}, which {verb} such devices", listed(&pods)));
            commands.push(format!("kubectl{option} delete pod {}", pods.join(" ")));
        }
        if !claims.is_empty() {
            let (noun, verb) = if claims.len() == 1 { ("ResourceClaim", "has") } else { ("ResourceClaims", "have") };
            texts.push(format!("delete {noun} {}, which {verb} such devices and no pod", listed(&claims)));
            commands.push(format!("kubectl{option} delete resourceclaim {}", claims.join(" ")));
        }
    }
    Words::new(texts.join(" and ")).command(commands.join(" && "))
}

/// The keys over which a workload's rules of a kind go, as the lab says, each with its place.
pub(crate) fn said_of_topology(workload: &Workload, rule: Topology) -> Vec<(&str, &Location)> {
    match rule {
        Topology::Spread(_) => {
            workload.topology_spread.iter().map(|said| (said.value.topology_key.as_str(), &said.at)).collect()
        }
        Topology::Affinity(_) => {
            let affinity = workload.affinity.iter();
            let terms = affinity.filter_map(|said| Some((said.value.pod_affinity.as_ref()?, &said.at)));
            let required = terms.flat_map(|(affinity, at)| {
                let terms = affinity.required_during_scheduling_ignored_during_execution.iter().flatten();
                terms.map(move |term| (term.topology_key.as_str(), at))
            });
            required.collect()
        }
    }
}

/// A label of nodes to write in place of one that looks like a slip of the pen.
fn change_topology_key(rule: Topology, from: &str, to: &str, pod: &PodView<'_>, workload: Option<&Workload>) -> Words {
    let edit = Edit::ChangeTopologyKey { rule, from: from.to_owned(), to: to.to_owned() };
    let of = match rule {
        Topology::Spread(_) => "topology spread",
        Topology::Affinity(_) => "pod affinity",
    };
    let said = |key: &str| {
        let said = workload.map(|workload| said_of_topology(workload, rule)).unwrap_or_default();
        said.into_iter().find(|(written, _)| *written == key).map(|(_, at)| at.clone())
    };
    // The lab file is where to write it only if the slip is there.
    if let (Some(workload), Some(at)) = (workload, said(from)) {
        let table = format!("`[workload.{}]`", *workload.name);
        return Words::new(format!("write `{to}` for `{from}` as the topology key of the {of} of {table}"))
            .at(Some(at));
    }
    let as_said = if said(to).is_some() { ", as the lab says" } else { "" };
    Words::new(format!("write `{to}` for `{from}` as the topology key of the {of} of `{}`{as_said}", object(pod)))
        .perhaps(edited(&edit, pod))
}

/// Tolerations to add, or to write in place of one that looks like a slip of the pen.
fn tolerate(taints: &[Taint], pod: &PodView<'_>, workload: Option<&Workload>) -> Words {
    // Where the file says so already, somebody wrote something else since.
    let of_lab: Vec<klab_scheduler::taint::Toleration> = workload
        .iter()
        .flat_map(|workload| &workload.tolerations)
        .map(|toleration| klab_scheduler::taint::Toleration::from(&toleration.value))
        .collect();
    let said = workload.is_some() && taints.iter().all(|taint| tolerated(&of_lab, taint));
    let as_said = if said { ", as the lab says" } else { "" };
    let texts: Vec<String> = taints.iter().map(ToString::to_string).collect();
    if let Some(slip) = slip::of_tolerations(pod.pod.spec.as_ref(), taints) {
        let (wanted, written) = (texts.join(", "), slip::written(slip));
        return Words::new(format!("write the toleration `{wanted}` for `{written}` in `{}`{as_said}", object(pod)));
    }
    if let Some(workload) = workload.filter(|_| !said) {
        let list: Vec<String> = texts.iter().map(|taint| format!("\"{taint}\"")).collect();
        let at = workload.tolerations.last().map_or(&workload.at, |toleration| &toleration.at);
        return Words::new(format!("add `tolerations = [{}]` to `[workload.{}]`", list.join(", "), *workload.name))
            .at(Some(at.clone()));
    }
    let (noun, it) = if texts.len() == 1 { ("a toleration", "the taint") } else { ("tolerations", "the taints") };
    Words::new(format!("add {noun} of {it} {} to `{}`{as_said}", texts.join(", "), object(pod)))
}

/// A selector as kubectl takes it.
fn labels(selector: &LabelSelector) -> String {
    klab_scheduler::selector::Selector::from_api(Some(selector)).map(|it| it.to_string()).unwrap_or_default()
}

fn label(view: &View<'_>, pool: Option<&str>, nodes: &[String], key: &str, value: &str) -> Words {
    let command = format!("kubectl label nodes {} {key}={value}", targets(view, pool, nodes));
    // Where the file says so already, somebody took the label off since.
    let by_step = || view.context.labels_by_step(key, value);
    let missing =
        |pool: &&crate::spec::Pool| pool.labels.get(key).is_none_or(|present| **present != value) && !by_step();
    let declared = pool.and_then(|pool| view.context.pool(pool)).filter(missing);
    let text = match declared {
        Some(pool) => format!("add the label `{key} = \"{value}\"` to `[pool.{}]`", *pool.name),
        None => format!("label {} `{key}={value}`", whose(pool, nodes)),
    };
    Words::new(text).at(declared.map(|pool| pool.at.clone())).command(command)
}

fn add_nodes(view: &View<'_>, pool: &str, steps: usize) -> Words {
    let now = view.members(pool).count();
    let to = now + steps;
    let declared = view.context.pool(pool);
    let acts = view.context.provider().is_some_and(|provider| provider.profile().has_autoscaler);
    if let Some(bounds) = declared.and_then(|declared| declared.autoscale.as_ref()).filter(|_| acts) {
        // Its number of nodes is the autoscaler's; the author's are the bounds.
        if to <= bounds.max as usize {
            return Words::new(match backed_off(view, pool) {
                Some(it) => {
                    format!("wait: pool {pool} failed to grow ({}), and {}", it.why, it.end(view.snapshot.taken_at))
                }
                None => format!("wait for the autoscaler: pool {pool} may have {} nodes", bounds.max),
            });
        }
        let words = Words::new(format!("set `max` of `pool.{pool}.autoscale` to {to} (from {})", bounds.max));
        let command = format!("klab pool update {pool} --autoscale {}..{to}", bounds.min);
        return words.at(Some(bounds.at.clone())).command(command);
    }
    match declared {
        Some(declared) => {
            let words = Words::new(format!("set `pool.{pool}.nodes = {to}` (from {now})"));
            words.at(Some(declared.nodes.at.clone())).command(format!("klab pool scale {pool} --nodes {to}"))
        }
        None => Words::new(format!("add {steps} {} to pool {pool}", if steps == 1 { "node" } else { "nodes" })),
    }
}

fn whose(pool: Option<&str>, nodes: &[String]) -> String {
    let names: Vec<&str> = nodes.iter().map(String::as_str).collect();
    pool.map_or_else(|| listed(&names), |pool| format!("pool {pool}"))
}

fn targets(view: &View<'_>, pool: Option<&str>, nodes: &[String]) -> String {
    pool.map_or_else(|| nodes.join(" "), |pool| format!("-l {}", view.pool_selector(pool)))
}
