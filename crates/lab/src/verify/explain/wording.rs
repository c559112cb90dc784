//! Changes in words: as an edit of the lab file where the lab made the thing, and as a command.

use std::collections::{BTreeMap, BTreeSet};

use super::amounts::amount;
use super::claim_change::{Alternative, ClaimChange, Release};
use super::edit::{Edit, Topology};
use super::growth::backed_off;
use super::kubectl::{edit_by_hand, edited, in_namespace, object, old_first, remade};
use super::of_lab::{drift, workload_of};
use super::question::{Proof, Question};
use super::requests::{self, Holder, Lowered};
use super::slip;
use crate::names::SIZE_LABEL;
use crate::spec::{Location, Workload};
use crate::verify::cause::Suggestion;
use crate::verify::view::{Owner, PodView, View};
use crate::words::{listed, plural};
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use klab_scheduler::quantity::Quantity;
use klab_scheduler::taint::Taint;
use serde_json::json;

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

#[expect(clippy::too_many_lines, reason = "a row for each edit")]
fn words(edit: &Edit, proof: &Proof, question: &Question<'_, '_>) -> Words {
    let view = question.view;
    let Some(pod) = question.pods.first() else { return Words::new("") };
    // Where the cluster has something else than the lab, the lab file is not the place to change.
    let differs = |field| drift(view, pod).is_some_and(|drift| drift.only(field).is_some());
    let workload =
        workload_of(view, pod).filter(|workload| workload.template.is_none() && !edit.field().is_some_and(differs));
    let table =
        workload.map_or_else(|| format!("`{}`", object(pod)), |workload| format!("`[workload.{}]`", *workload.name));
    let begin = || workload.map(|workload| workload.at.clone());
    let of_affinity = || workload.and_then(|workload| Some(workload.affinity.as_ref()?.at.clone())).or_else(begin);
    let by_hand = |words: Words| words.perhaps(edited(edit, pod));
    match edit {
        Edit::Restore(drift) => {
            let live = super::kubectl::spec_of(pod).map(|(spec, _)| drift.words(&object(pod), spec));
            let words = Words::new(live.unwrap_or_default());
            match pod.owner {
                Owner::None => {
                    let (lab, name) = (view.context.name(), workload_of(view, pod).map_or("", |it| it.name.as_str()));
                    words.command(format!("klab render {lab} --workload {name} | kubectl replace --force -f -"))
                }
                _ => words.perhaps(edited(edit, pod)),
            }
        }
        Edit::OldFirst { spare, .. } => {
            let unavailable = match pod.owner {
                Owner::Deployment(_) => (spare + i64::try_from(proof.steps).unwrap_or(1)).max(1),
                _ => 1,
            };
            Words::new(format!(
                "let the rollout of `{}` remove old pods before new ones run (`maxSurge: 0`, `maxUnavailable: {unavailable}`)",
                object(pod)
            ))
            .perhaps(old_first(pod.owner, pod.namespace, unavailable))
        }
        Edit::HonorTaints { constraint, .. } => by_hand(
            Words::new(format!(
                "set `nodeTaintsPolicy: Honor` in the topology spread of {table}, so that nodes whose taints the pods do not \
                 tolerate do not count"
            ))
            .at(spread_at(workload, *constraint).or_else(begin)),
        ),
        Edit::FewerDomains { constraint, from, to } => by_hand(
            Words::new(format!("lower `minDomains` of {table} from {from} to {to}"))
                .at(spread_at(workload, *constraint).or_else(begin)),
        ),
        Edit::ScheduleAnyway(at) => by_hand(
            Words::new(format!("set `whenUnsatisfiable: ScheduleAnyway` in the topology spread of {table}"))
                .at(spread_at(workload, *at).or_else(begin)),
        ),
        Edit::Prioritize { class, .. } => by_hand(
            Words::new(format!("give {table} the priority class {class}, so that less important pods make room"))
                .at(begin()),
        ),
        Edit::Storage(change) => Words::new(change.text.clone()).perhaps(change.command.clone()),
        Edit::Tolerate(taints) => tolerate(taints, pod, workload).perhaps(edited(edit, pod)),
        Edit::Require { key, value } => {
            let said = workload.and_then(|workload| workload.node_selector.get(key));
            let words = match workload {
                Some(_) => Words::new(format!("add `{key} = \"{value}\"` to the node selector of {table}"))
                    .at(said.map(|value| value.at.clone()).or_else(begin)),
                None => Words::new(format!("add `{key}={value}` to the node selector of `{}`", object(pod))),
            };
            words.perhaps(edited(edit, pod))
        }
        Edit::KeepApart(selector) => {
            let text = format!("add to {table} a required pod anti-affinity to `{}` on the same node", labels(selector));
            Words::new(text).at(of_affinity()).perhaps(edit_by_hand(pod))
        }
        Edit::Join(selector) => {
            let text = format!("add to {table} a required pod affinity to `{}` on the same node", labels(selector));
            Words::new(text).at(of_affinity()).perhaps(edit_by_hand(pod))
        }
        Edit::SpreadOver { key, max_skew, .. } => {
            let spec = pod.pod.spec.as_ref();
            let mut constraints = spec.into_iter().flat_map(|spec| spec.topology_spread_constraints.iter().flatten());
            let text = if constraints.any(|constraint| constraint.topology_key == *key) {
                format!("require the spread of {table} over `{key}`: `DoNotSchedule`, `maxSkew` {max_skew}, its own pods counted")
            } else {
                format!("add to {table} a topology spread constraint over `{key}` with `maxSkew` {max_skew}")
            };
            Words::new(text).at(begin()).perhaps(edited(edit, pod))
        }
        Edit::ChangeSelector { key, from, to } => {
            let words = Words::new(format!("write `{to}` for `{from}` in the node selector `{key}` of {table}"));
            match workload.and_then(|workload| workload.node_selector.get(key)) {
                Some(value) => words.at(Some(value.at.clone())),
                None => words.perhaps(edited(edit, pod)),
            }
        }
        Edit::ChangeAffinity { from, to, .. } => {
            let words = Words::new(format!("write `{to}` for `{from}` in the node affinity of {table}"));
            match workload.and_then(|workload| workload.affinity.as_ref()) {
                Some(affinity) => words.at(Some(affinity.at.clone())),
                None => words.perhaps(edit_by_hand(pod)),
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
            by_hand(Words::new(format!("remove the required node affinity of {table}")).at(of_affinity()))
        }
        Edit::LowerRequest { resource, to, .. } => {
            let at = workload.and_then(|workload| workload.requests.get(resource)).map(|value| value.at.clone());
            lower(pod, resource, *to, &table).at(at.or_else(begin))
        }
        Edit::DropHostPort(port) => by_hand(Words::new(format!("remove the host port {port} of {table}")).at(begin())),
        Edit::RelaxSpread { constraint, from, to } => {
            let at = spread_at(workload, *constraint);
            by_hand(Words::new(format!("raise `maxSkew` of {table} from {from} to {to}")).at(at.or_else(begin)))
        }
        Edit::LookInto { namespace, .. } => {
            let text = format!("let the pod affinity of {table} look into namespace {namespace}");
            by_hand(Words::new(text).at(of_affinity()))
        }
        Edit::DropPodAffinity(_) => {
            by_hand(Words::new(format!("remove the required pod affinity of {table}")).at(of_affinity()))
        }
        Edit::DropPodAntiAffinity(_) => {
            by_hand(Words::new(format!("remove the required pod anti-affinity of {table}")).at(of_affinity()))
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
            let noun = if texts.len() == 1 { "taint" } else { "taints" };
            Words::new(format!("remove the {noun} {} from {}", texts.join(", "), whose(pool.as_deref(), nodes)))
                .at(declared)
                .command(format!("kubectl taint nodes {} {}", targets(view, pool.as_deref(), nodes), minus.join(" ")))
        }
        Edit::Uncordon(nodes) => {
            let names: Vec<&str> = nodes.iter().map(String::as_str).collect();
            Words::new(format!("uncordon {}", listed(&names))).command(format!("kubectl uncordon {}", names.join(" ")))
        }
        Edit::AddNodes { pool, template, .. } if pool.is_empty() => {
            let like = template.metadata.name.as_deref().unwrap_or_default();
            Words::new(format!("add {} like {like}", plural(proof.steps, "node")))
        }
        Edit::AddNodes { pool, template, .. } => add_nodes(view, pool, template, proof.steps),
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

/// A workload that wants only the pods that run; none where none does, or it cannot be scaled.
pub(super) fn fewer(view: &View<'_>, pod: &PodView<'_>) -> Option<Suggestion> {
    let scales = matches!(pod.owner, Owner::Deployment(_) | Owner::ReplicaSet(_) | Owner::StatefulSet(_));
    let own = view.pods.iter().filter(|other| scales && other.owner.is(&pod.owner) && other.counts());
    let run = own.filter(|other| other.state.is_running()).count();
    let command = format!("kubectl{} scale {} --replicas={run}", in_namespace(pod.namespace), object(pod));
    let text = format!("scale `{}` down to {run}, as many as run", object(pod));
    (run > 0).then(|| Suggestion::of("scale-down", text, Some(command)))
}

/// Where the lab file says a topology spread constraint.
fn spread_at(workload: Option<&Workload>, at: usize) -> Option<Location> {
    workload.and_then(|workload| workload.topology_spread.get(at)).map(|said| said.at.clone())
}

/// Smaller requests: the fields to write, not their sum.
fn lower(pod: &PodView<'_>, resource: &str, to: i64, table: &str) -> Words {
    let changes = requests::lowered(pod.pod, resource, to).unwrap_or_default();
    let spec = pod.pod.spec.as_ref();
    let init = spec.map_or(0, |spec| spec.init_containers.as_ref().map_or(0, Vec::len));
    let is_single = spec.is_some_and(|spec| spec.containers.len() == 1) && init == 0;
    let written = |change: &Lowered| Quantity::of_resource(resource, change.to).to_string();
    let text = |change: &Lowered| {
        let holder = match &change.holder {
            Holder::Init(_, name) => format!("the init container `{name}` of "),
            Holder::Container(_, name) if !is_single => format!("the container `{name}` of "),
            Holder::Pod | Holder::Container(..) => String::new(),
        };
        let (from, to) = (amount(resource, change.from), written(change));
        format!("lower `requests.{resource}` of {holder}{table} from {from} to `{to}`")
    };
    let texts: Vec<String> = changes.iter().map(text).collect();
    let overhead = requests::overhead(pod.pod, resource);
    let also = match overhead {
        0 => String::new(),
        more => format!(" (the RuntimeClass adds {})", amount(resource, more)),
    };
    Words::new(format!("{}{also}", texts.join(" and "))).perhaps(lowering(pod, resource, &changes))
}

/// The command that lowers requests; none where no pods are made by it.
fn lowering(pod: &PodView<'_>, resource: &str, changes: &[Lowered]) -> Option<String> {
    let mut change = json!({});
    for one in changes {
        let amount = json!({ resource: Quantity::of_resource(resource, one.to).to_string() });
        // Of what cannot be overcommitted, the limit is the request.
        let resources = match resource {
            "cpu" | "memory" | "ephemeral-storage" => json!({ "requests": amount }),
            _ => json!({ "requests": amount, "limits": amount }),
        };
        match &one.holder {
            Holder::Pod => change["resources"] = resources,
            Holder::Container(_, name) | Holder::Init(_, name) => {
                let list = if matches!(one.holder, Holder::Init(..)) { "initContainers" } else { "containers" };
                if !change[list].is_array() {
                    change[list] = json!([]);
                }
                change[list].as_array_mut()?.push(json!({ "name": name, "resources": resources }));
            }
        }
    }
    remade(pod, change)
}

/// Claims that ask for something else; what they ask for cannot be changed, so they are made again.
fn ask_otherwise(change: &ClaimChange) -> Words {
    let each: Vec<String> = change
        .requests
        .iter()
        .map(|one| {
            let (object, request) = (&one.object, &one.request);
            match &one.wish {
                Alternative::Fewer { from, to } => {
                    format!("ask for {to} instead of {from} devices in request `{request}` of {object}")
                }
                Alternative::Tolerate(taints) => {
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
fn said_of_topology(workload: &Workload, rule: Topology) -> Vec<(&str, &Location)> {
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
    if let (Some(workload), Some(at)) = (workload, said(from)) {
        let table = format!("`[workload.{}]`", *workload.name);
        return Words::new(format!("write `{to}` for `{from}` as the topology key of the {of} of {table}"))
            .at(Some(at));
    }
    Words::new(format!("write `{to}` for `{from}` as the topology key of the {of} of `{}`", object(pod)))
        .perhaps(edited(&edit, pod))
}

/// Tolerations to add, or to write in place of one that looks like a slip of the pen.
fn tolerate(taints: &[Taint], pod: &PodView<'_>, workload: Option<&Workload>) -> Words {
    let texts: Vec<String> = taints.iter().map(ToString::to_string).collect();
    if let Some(slip) = slip::of_tolerations(pod.pod.spec.as_ref(), taints) {
        let (wanted, written) = (texts.join(", "), slip::written(slip));
        return Words::new(format!("write the toleration `{wanted}` for `{written}` in `{}`", object(pod)));
    }
    if let Some(workload) = workload {
        let list: Vec<String> = texts.iter().map(|taint| format!("\"{taint}\"")).collect();
        let at = workload.tolerations.last().map_or(&workload.at, |toleration| &toleration.at);
        return Words::new(format!("add `tolerations = [{}]` to `[workload.{}]`", list.join(", "), *workload.name))
            .at(Some(at.clone()));
    }
    let (noun, it) = if texts.len() == 1 { ("a toleration", "the taint") } else { ("tolerations", "the taints") };
    Words::new(format!("add {noun} of {it} {} to `{}`", texts.join(", "), object(pod)))
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

fn add_nodes(view: &View<'_>, pool: &str, template: &Node, steps: usize) -> Words {
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
        Some(declared) if declared.is_virtual_machines() => {
            let size_of = |node: &Node| node.metadata.labels.as_ref()?.get(SIZE_LABEL).cloned();
            let mut sizes: BTreeMap<String, usize> = BTreeMap::new();
            for size in view.members(pool).filter_map(|(_, node)| size_of(node)) {
                *sizes.entry(size).or_default() += 1;
            }
            let size = size_of(template).unwrap_or_default();
            let of_size = sizes.entry(size.clone()).or_default();
            let (from, to) = (*of_size, *of_size + steps);
            *of_size = to;
            let all: Vec<String> = sizes.iter().map(|(size, count)| format!("{size}={count}")).collect();
            Words::new(format!("set `pool.{pool}.sizes.{size} = {to}` (from {from})"))
                .at(Some(declared.at.clone()))
                .command(format!("klab pool update {pool} --sizes {}", all.join(",")))
        }
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
