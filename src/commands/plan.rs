//! `klab plan`: what `up` would do to cluster and objects, and where the pods would go. Nothing is made.

use std::fmt::Write as _;
use std::path::PathBuf;

use serde_json::{Value, json};

use super::lesson::{lines, shown, step_document, title, tools};
use super::{Context, LabOptions, invalid};
use klab_host::on_kubernetes::sizing::{Wanted, size};
use klab_lab::cost::LabCost;
use klab_lab::plan::{Action, Observed, plan};
use klab_lab::spec::{self, Lab, ManifestContent};
use klab_lab::verify::{PredictedWorkload, Prediction};
use klab_lab::words::{listed, plural, table};
use klab_operations::apply::{Applier, ObjectKey, Outcome};
use klab_operations::bundled_lessons;
use klab_operations::error::{Error, Kind, Result};
use klab_operations::forecast::forecast;
use klab_operations::lesson_test::objects;
use klab_operations::observe;
use klab_operations::provider::{self, Foreign};
use klab_operations::render::{self, Manifest};
use klab_operations::ui::Format;

/// What can be typed after `klab plan`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The lab file, or the name of a lesson that comes with klab.
    #[arg(value_name = "LAB")]
    lab: PathBuf,
    #[command(flatten)]
    options: LabOptions,
    /// Show the size of a class on Kubernetes: shards, processor, memory, disk.
    #[arg(long, requires = "seats")]
    hosted: bool,
    /// Seats of the class.
    #[arg(long, value_name = "COUNT", requires = "hosted", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    seats: Option<u32>,
    /// Seats that are in use at the same time; all by default.
    #[arg(long, value_name = "COUNT", requires = "hosted")]
    in_use: Option<u32>,
    /// Commands that each shard's console runs at a time; without it learners have no console.
    #[arg(long, value_name = "COUNT", requires = "hosted", num_args = 0..=1, require_equals = true, default_missing_value = "16")]
    console: Option<u32>,
}

/// What would be done.
struct Plan {
    actions: Vec<Action>,
    commands: Vec<String>,
    /// Which cluster it is, where klab does not make it.
    found: Option<String>,
    caveats: Vec<String>,
    recreation: Vec<String>,
    /// Why `up` would not do it.
    refusals: Vec<Error>,
    outcome: Outcome,
    prediction: Prediction,
    cost: Option<LabCost>,
}

/// Prints the plan.
///
/// # Errors
/// When the lab is invalid, or the provider does not answer.
pub fn run(context: &Context, mut arguments: Arguments) -> Result<()> {
    arguments.lab = bundled_lessons::lab_file(&context.home, &arguments.lab)?;
    let arguments = &arguments;
    let mut lab = context.load_where_it_is(&arguments.lab, arguments.options.load_options())?;
    let made_here = |lab: &Lab| Ok::<_, klab_operations::error::Error>(context.record(&lab.name.value)?.is_some());
    if lab.bundles.iter().any(|bundle| !bundle.env.is_empty()) && made_here(&lab)? {
        // What `up` has sent already is compared with what it would send now.
        lab = context.load_where_it_is(&arguments.lab, arguments.options.load_options_to_make())?;
    }
    if let Some(seats) = arguments.seats {
        hosted(context, &lab, arguments, seats);
        return Ok(());
    }
    let manifests = render::render(&lab).map_err(|diagnostics| invalid(&arguments.lab, &diagnostics))?;
    let provider = context.provider(lab.provider)?;
    let made = make(context, &lab, &manifests, provider.as_ref())?;
    if context.ui.format() == Format::Json {
        let mut document = document(&lab, &made);
        let tools = tools(context, &lab);
        document["steps"] = (0..lab.steps.len()).map(|step| step_document(&lab, step, &tools)).collect();
        context.ui.result(&document.to_string());
    } else {
        let mut text = text(&lab, &made);
        section(&mut text, "steps", steps(context, &lab).into_iter(), "");
        let left_out = lab.skipped_steps.iter();
        let left_out = left_out.map(|skipped| format!("{}: {}", skipped.step.name, skipped.reason));
        section(&mut text, &format!("steps left out on {}", lab.provider), left_out, "");
        context.ui.result(&text);
    }
    // As `up` would say it, with its exit code.
    super::one::refuse(context, made.refusals)
}

/// Prints how large a class on Kubernetes is to be.
fn hosted(context: &Context, lab: &Lab, arguments: &Arguments, seats: u32) {
    let in_use = arguments.in_use.unwrap_or(seats);
    let sizing = size(lab, Wanted { seats, in_use, commands: arguments.console });
    if context.ui.format() == Format::Json {
        let mut document = sizing.document();
        document["schema"] = json!("klab.hosted/1");
        document["lab"] = json!(lab.name.value);
        context.ui.result(&document.to_string());
        return;
    }
    let mut text = format!(
        "class of lab {}: {} of {} in use\n",
        lab.name.value,
        in_use.min(seats),
        plural(seats as usize, "seat")
    );
    section(&mut text, "on Kubernetes", sizing.lines().into_iter(), "");
    context.ui.result(&text);
}

fn make(context: &Context, lab: &Lab, manifests: &[Manifest], provider: &dyn provider::Provider) -> Result<Plan> {
    let mut caveats = provider.caveats(lab);
    let record = context.record(&lab.name.value)?;
    let made_here = record.as_ref().is_some_and(|record| record.provider == lab.provider);
    let mut unseen = false;
    let observed = match provider.observe(&lab.name.value, Some(lab)) {
        Ok(observed) => observed,
        // Of a lab that was never made there is nothing to see; its plan helps on a machine without the tools, too.
        Err(error) if error.kind() == Kind::Outside && !made_here && !error.source.is::<Foreign>() => {
            caveats.push(format!("{error:#}; planned as if the lab did not exist"));
            unseen = true;
            Observed::default()
        }
        Err(error) => return Err(error),
    };
    if let Some(record) = record.as_ref().filter(|_| !made_here) {
        caveats.push(format!("the lab is up on {}; `klab down {}` removes it there first", record.provider, lab.name));
    }
    let actions = plan(lab, &observed);
    caveats.extend(provider::foreign_pools(lab, &observed));
    if lab.provider.profile().has_managed_pools
        && actions.iter().any(|action| matches!(action, Action::ReplacePool { .. }))
    {
        caveats.push("nodes are replaced only by `klab up --replace-pools`".to_owned());
    }
    if !observed.exists {
        // Of a cluster that is there, it says so itself.
        let problems = objects::problems(lab, manifests)?;
        if !problems.is_empty() {
            context.ui.say(problems.render(true).trim_end());
        }
    }
    let keys = || manifests.iter().map(|manifest| ObjectKey::of(&manifest.object)).collect();
    let known = record.map(|record| record.kinds).unwrap_or_default();
    if observed.stopped {
        caveats
            .push("the nodes are stopped, `klab up` starts them; planned as if the cluster had no objects".to_owned());
    }
    let (outcome, snapshot) = if observed.exists && !observed.stopped {
        super::one::refuse(context, super::one::taken(context, provider, lab, manifests)?)?;
        let kubeconfig = provider.kubeconfig(&lab.name.value)?;
        let client = context.client_on(lab.provider, &lab.name.value, &kubeconfig)?;
        context.block_on(async {
            let snapshot = observe::look_at_all(&client).await?;
            Ok((Applier::new(client, &lab.name.value).apply(manifests, &known, true).await?, Some(snapshot)))
        })?
    } else {
        (Outcome { created: keys(), ..Outcome::default() }, None)
    };
    let prediction = forecast(lab, manifests, snapshot.as_ref());
    let foreign = provider::refuse_foreign_pools(&observed, &actions).err();
    caveats.extend(growth_caveat(lab, &prediction));
    Ok(Plan {
        commands: provider.commands(lab, &actions).or_else(|error| if unseen { Ok(Vec::new()) } else { Err(error) })?,
        found: provider.found(lab),
        caveats,
        refusals: if unseen {
            Vec::new()
        } else {
            foreign.into_iter().chain(provider.refusals(lab, &actions)).collect()
        },
        recreation: if unseen { Vec::new() } else { provider.recreation(lab)? },
        prediction,
        cost: lab.provider.profile().is_billed.then(|| LabCost::of(lab)),
        actions,
        outcome,
    })
}

/// That pods which are shown as Pending may get nodes of the autoscaler: the prediction counts those that there are.
fn growth_caveat(lab: &Lab, prediction: &Prediction) -> Option<String> {
    let pending: u32 = prediction.workloads.iter().map(|workload| workload.pending).sum();
    let bounds = |pool: &spec::Pool| Some(format!("{} (up to {})", pool.name, pool.autoscale.as_ref()?.max));
    let pools: Vec<String> = lab.pools.iter().filter(|pool| !pool.deferred).filter_map(bounds).collect();
    if pending == 0 || pools.is_empty() || !lab.provider.profile().has_autoscaler {
        return None;
    }
    let pools: Vec<&str> = pools.iter().map(String::as_str).collect();
    Some(format!(
        "for pods shown as Pending the cluster autoscaler adds nodes that would take them: {}",
        listed(&pools)
    ))
}

/// The steps with what is typed for each.
fn steps(context: &Context, lab: &Lab) -> Vec<String> {
    let (mut text, tools) = (Vec::new(), tools(context, lab));
    for (number, step) in lab.steps.iter().enumerate() {
        text.push(format!("{} {}: {}", number + 1, step.name, title(step)));
        text.extend(shown(&lines(lab, number, &tools)).iter().map(|line| format!("    {line}")));
    }
    text
}

fn document(lab: &Lab, plan: &Plan) -> serde_json::Value {
    json!({
        "schema": "klab.plan/1", "lab": lab.name.value, "provider": lab.provider.as_str(), "actions": plan.actions,
        "found": plan.found, "commands": plan.commands, "taken": taken(lab), "caveats": plan.caveats, "recreation": plan.recreation,
        "refusals": plan.refusals.iter().map(|refusal| json!({ "message": refusal.to_string(), "hints": refusal.hints })).collect::<Vec<_>>(),
        "objects": plan.outcome, "cost": plan.cost.as_ref().map(LabCost::document), "placement": plan.prediction.workloads.iter().map(placement).collect::<Vec<_>>(),
    })
}

fn text(lab: &Lab, plan: &Plan) -> String {
    let mut text = format!("lab {} ({})\n", lab.name.value, lab.provider.spoken());
    let unchanged = plan.found.as_deref().unwrap_or("as the lab file says");
    section(&mut text, "cluster", plan.actions.iter().map(ToString::to_string), unchanged);
    section(&mut text, "only with --recreate", plan.recreation.iter().cloned(), "");
    section(&mut text, "commands", plan.commands.iter().cloned(), "");
    let marked = |mark: &'static str, keys: &'static str, objects: &[ObjectKey]| {
        objects.iter().map(|key| format!("{mark} {keys} {key}")).collect::<Vec<_>>()
    };
    let outcome = &plan.outcome;
    let changes = [
        marked("+", "create", &outcome.created),
        marked("~", "update", &outcome.updated),
        marked("-", "delete", &outcome.pruned),
    ];
    section(&mut text, "taken from this machine", taken(lab).into_iter(), "");
    section(&mut text, "objects", changes.concat().into_iter(), "as the lab file says");
    let rows: Vec<Vec<String>> = plan.prediction.workloads.iter().map(placement_row).collect();
    let placed = table(&rows);
    section(&mut text, "placement, as kube-scheduler would decide", placed.lines().map(str::to_owned), "");
    if let Some(cost) = &plan.cost {
        let rows = table(&cost.rows());
        section(&mut text, "cost, in US dollars", rows.lines().map(str::to_owned).chain([cost.note()]), "");
    }
    section(&mut text, "mind", plan.caveats.iter().cloned(), "");
    text
}

/// What of this machine, besides the lab file, goes into the cluster.
fn taken(lab: &Lab) -> Vec<String> {
    let mut lines = Vec::new();
    let mut files = |pattern: &str, into: String| {
        let files = lab.files.matching(pattern);
        lines.extend(files.iter().map(|file| format!("file {} → {into}", file.path)));
    };
    for bundle in &lab.bundles {
        bundle.files.iter().for_each(|file| files(file, format!("{} {}", bundle.kind.kind(), bundle.name)));
    }
    for manifest in &lab.manifests {
        if let ManifestContent::Path(path) = &manifest.content {
            files(path, "objects".to_owned());
        }
    }
    for action in lab.steps.iter().flat_map(|step| &step.actions) {
        if let spec::Action::Apply { content: ManifestContent::Path(path) } = action.value.tried() {
            files(path, "objects of a step".to_owned());
        }
    }
    for bundle in &lab.bundles {
        let into = format!("{} {}", bundle.kind.kind(), bundle.name);
        lines.extend(bundle.env.iter().map(|name| format!("variable ${name} → {into}")));
    }
    if lab.provider.profile().mounts_folders {
        let way = |mount: &spec::Mount| if mount.read_only { "readable" } else { "writable" };
        let mounts = lab.kind.mounts.iter();
        lines.extend(mounts.map(|mount| format!("folder {} → every node, {}", mount.host, way(mount))));
    }
    lines
}

fn placement(workload: &PredictedWorkload) -> Value {
    json!({
        "kind": workload.kind, "namespace": workload.namespace, "name": workload.name, "pools": workload.pools,
        "nodes": workload.nodes, "pending": workload.pending, "message": workload.message,
    })
}

fn placement_row(workload: &PredictedWorkload) -> Vec<String> {
    let mut places: Vec<String> = workload.pools.iter().map(|(pool, pods)| format!("{pool} {pods}")).collect();
    if workload.pending > 0 {
        let because = workload.message.as_ref().map_or(String::new(), |message| format!(": {message}"));
        places.push(format!("{} Pending{because}", workload.pending));
    }
    vec![workload.name.clone(), places.join(", ")]
}

/// A heading and its lines; `none` where there are no lines, or nothing at all where that is empty too.
fn section(text: &mut String, heading: &str, lines: impl Iterator<Item = String>, none: &str) {
    let lines: Vec<String> = lines.collect();
    if lines.is_empty() && none.is_empty() {
        return;
    }
    let _ = writeln!(text, "\n{heading}");
    if lines.is_empty() {
        let _ = writeln!(text, "  {none}");
    }
    for line in lines {
        let _ = writeln!(text, "  {line}");
    }
}
