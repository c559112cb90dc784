//! Makes one lab, or brings it to what its file says now, and waits for its checks.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use jiff::Timestamp;
use kube::Client;

use super::super::lesson::note_before;
use super::super::{Context, LabOptions, absolute, duration, invalid};
use super::taken::taken;
use klab_lab::cost::{LabCost, dollars};
use klab_lab::plan::{Observed, plan};
use klab_lab::spec::Lab;
use klab_lab::verify::{Prediction, Report};
use klab_lab::words::plural;
use klab_operations::apply::{Applier, ObjectKey, Outcome};
use klab_operations::changes::{Baseline, live_objects};
use klab_operations::context::lab_name_in;
use klab_operations::error::{Code, Error, Kind, Result};
use klab_operations::event::{About, Events, Verb};
use klab_operations::forecast::forecast;
use klab_operations::grade::{ReachedCluster, wait_for_made};
use klab_operations::lesson::{self, Performer, WallClock};
use klab_operations::locked_lab::LockedLab;
use klab_operations::observe;
use klab_operations::pool::ChangedPools;
use klab_operations::provider::{Options, foreign_pools, refuse_foreign_pools};
use klab_operations::render::{self, Manifest};
use klab_operations::state::home::state_error;
use klab_operations::state::{Progress, Record};
use klab_server::files::write_private;

/// Largest class.
const MAX_SEATS: i64 = 10_000;

/// What can be typed after `klab up`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The lab file, or the name of a lesson that comes with klab.
    #[arg(value_name = "LAB")]
    pub(in super::super) lab: PathBuf,
    #[command(flatten)]
    pub(in super::super) options: LabOptions,
    /// How long to wait until every check holds.
    #[arg(long, value_name = "DURATION", default_value = "2m", value_parser = duration)]
    pub(in super::super) timeout: Duration,
    /// Recreate pools where a change cannot be made to existing nodes.
    #[arg(long)]
    replace_pools: bool,
    /// Recreate the whole cluster where a change cannot be made to an existing one.
    #[arg(long)]
    recreate: bool,
    /// Let klab replace or remove this pool although it did not make it; may be given several times.
    #[arg(long, value_name = "POOL")]
    take_pool: Vec<String>,
    /// Let this file take over a lab of the same name that is up from another file: what only the other file has is removed.
    #[arg(long)]
    take_over: bool,
    /// Make a class of this many labs of this file, each with a cluster and a kubeconfig of its own. Seats that are up stay as
    /// they are.
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=MAX_SEATS))]
    pub(in super::super) seats: Option<u32>,
    /// Maximum number of seats made at a time; 8 by default, on kind 2.
    #[arg(long, short = 'j', value_name = "COUNT", requires = "seats", value_parser = clap::value_parser!(u16).range(1..))]
    jobs: Option<u16>,
    /// Do not wait for the checks.
    #[arg(long)]
    pub(in super::super) no_wait: bool,
    /// Refuse a lab on AKS whose machines may cost more than this many US dollars an hour.
    #[arg(long, value_name = "DOLLARS")]
    max_hourly: Option<f64>,
}

impl Arguments {
    /// As `klab up FILE` with these variables.
    pub(in super::super) fn of(file: &Path, vars: &[(String, String)]) -> Self {
        Self {
            lab: file.to_owned(),
            options: LabOptions { vars: vars.to_vec(), ..LabOptions::default() },
            timeout: Duration::from_mins(2),
            replace_pools: false,
            recreate: false,
            take_pool: Vec::new(),
            take_over: false,
            no_wait: false,
            max_hourly: None,
            seats: None,
            jobs: None,
        }
    }

    /// Variables given on the command line.
    pub(in super::super) fn vars(&self) -> &[(String, String)] {
        &self.options.vars
    }

    /// The lab file.
    pub(in super::super) fn file(&self) -> &Path {
        &self.lab
    }

    /// How many seats are made at a time.
    pub(in super::super) fn jobs(&self, default: usize) -> usize {
        self.jobs.map_or(default, usize::from)
    }

    /// How long to wait for the checks; none: not at all.
    pub(in super::super) fn patience(&self) -> Option<Duration> {
        (!self.no_wait).then_some(self.timeout)
    }
}

/// What was there after the work on cluster and objects.
pub(in super::super) struct Made {
    pub(in super::super) outcome: Outcome,
    cluster_changed: bool,
    /// Whether the cluster was there before.
    existed: bool,
    /// Whether it has just been made for the first time: so far only the provider has put anything into it.
    is_new: bool,
    pub(in super::super) kubeconfig: PathBuf,
    client: Client,
}

impl Made {
    /// Whether the cluster and its objects were as the lab says already.
    pub(in super::super) fn is_unchanged(&self) -> bool {
        !self.cluster_changed && self.outcome.is_unchanged()
    }

    /// The cluster, for those who look at it.
    pub(in super::super) fn cluster(&self) -> ReachedCluster<'_> {
        ReachedCluster { client: &self.client, changed: !self.is_unchanged() }
    }
}

/// Makes cluster and objects, or brings them to what the lab says. The lab's lock must be held.
///
/// # Errors
/// Whatever keeps it from being made; what is left behind is named.
pub(in super::super) fn make(
    locked: &mut LockedLab<'_>,
    arguments: &Arguments,
    lab: &Lab,
    manifests: &[Manifest],
) -> Result<Made> {
    let context = locked.context();
    let name = &lab.name.value;
    let folder = context.home.lab(name);
    let events = context.ui.events();
    let provider = context.provider(lab.provider)?;
    let mut record = record(context, locked.record.clone(), lab, arguments)?;
    record.vars.clone_from(&arguments.options.vars);
    record.allow_outside = lab.files.allow_outside();
    if lab.provider.profile().is_billed
        && let Some(refusal) = arguments.max_hourly.and_then(|most| too_dear(&LabCost::of(lab), most))
    {
        return Err(refusal);
    }
    refuse(context, provider.preflight(lab))?;
    refuse(context, taken(context, provider.as_ref(), lab, manifests)?)?;
    for caveat in provider.caveats(lab) {
        events.warn(Code::Caveat, caveat);
    }
    locked.write_record(&record)?;
    save_lab_file(&folder, lab)?;
    let of_lesson = pools_of_lesson(&folder, lab)?;
    rewind(&folder, &events)?;
    let mut work = locked.work()?;

    let provider = context.recreated(provider, lab, arguments.recreate, &mut work)?;
    let mut observed = provider.observe(&lab.name.value, Some(lab))?;
    take_pools(&mut observed, lab, &of_lesson, &arguments.take_pool, &events)?;
    let foreseen = (!observed.exists).then(|| foresee(lab, manifests));
    let actions = plan(lab, &observed);
    refuse_foreign_pools(&observed, &actions)?;
    ChangedPools::clear(&folder)?;
    provider.perform_all(lab, &actions, &Options { replace_pools: arguments.replace_pools }, &mut work)?;
    let kubeconfig = provider.kubeconfig(name)?;
    if observed.exists {
        let restored = provider.restore_system(lab)?;
        if !restored.is_empty() {
            events
                .counting(restored.len())
                .note(Verb::RestoreSystem, format!("{} of the cluster itself", restored.join(", ")));
        }
    }
    provider.check_nodes(lab, !actions.is_empty(), &mut work)?;
    // Tags and what was put on nodes are no actions of the plan; but for them, too, is written down what is done.
    let cluster_changed = !actions.is_empty() || work.journal.written() > 0;

    let client = context.client(name, &kubeconfig)?;
    let named = context.block_on(observe::nodes_named(&client, lab))?;
    named.workloads.iter().filter(|workload| !workload.deferred).try_for_each(observe::refuse_without_node)?;
    let with_names = match &named {
        Cow::Borrowed(_) => None,
        Cow::Owned(lab) => Some(render::render(lab).map_err(|diagnostics| invalid(&arguments.lab, &diagnostics))?),
    };
    let manifests = with_names.as_deref().unwrap_or(manifests);
    let known = record.kinds.clone();
    record.kinds.extend(manifests.iter().map(|manifest| ObjectKey::of(&manifest.object).type_name()));
    record.write(&folder)?;
    work.intend("apply", &record.kinds.iter().cloned().collect::<Vec<_>>().join(" "))?;
    let activity = events.counting(manifests.len()).start(Verb::ApplyObjects, plural(manifests.len(), "object"));
    let (before, outcome) = context.block_on(async {
        let mut before = None;
        if observed.exists {
            lesson::reset(&client, lab, &mut work).await?;
            before = Some(observe::look_at_all(&client).await?);
        }
        let outcome = Applier::new(client.clone(), name).apply(manifests, &known, false).await?;
        Ok((before, outcome))
    })?;
    activity.finish(format!("{}: {}", plural(manifests.len(), "object"), outcome.summary()));
    record.kinds = manifests.iter().map(|manifest| ObjectKey::of(&manifest.object).type_name()).collect();
    if !actions.is_empty() || !outcome.is_unchanged() {
        let foreseen = foreseen.filter(|_| with_names.is_none()).map(JoinHandle::join);
        record.predicted = Some(match foreseen {
            Some(Ok(prediction)) => prediction,
            Some(Err(panic)) => std::panic::resume_unwind(panic),
            None => forecast(lab, manifests, before.as_ref()),
        });
    }
    let is_new = !observed.exists || record.applied.is_none();
    let made = Made { outcome, cluster_changed, existed: observed.exists, is_new, kubeconfig, client };
    note_baseline(context, lab, &made)?;
    record.applied = Some(Timestamp::now());
    record.write(&folder)?;
    Ok(made)
}

/// Records what a new cluster contains. Its provider put that there, not a learner.
fn note_baseline(context: &Context, lab: &Lab, made: &Made) -> Result<()> {
    let profile = lab.provider.profile();
    if !made.is_new || profile.is_embedded || !profile.makes_nodes {
        return Ok(());
    }
    let found = context.block_on(live_objects(&made.client))?;
    Baseline::of(&found).write(&context.home.lab(&lab.name.value))
}

/// Takes the pools of the lesson, and those that are named, for the lab's own; warns of the others that klab did not make.
fn take_pools(
    observed: &mut Observed,
    lab: &Lab,
    of_lesson: &BTreeSet<String>,
    named: &[String],
    events: &Events,
) -> Result<()> {
    for pool in of_lesson {
        observed.take(pool);
    }
    if let Some(absent) = named.iter().find(|pool| !observed.take(pool)) {
        return Err(Error::message(
            Code::NoSuchPool,
            format!("the cluster of lab `{}` has no pool `{absent}`", lab.name),
        ));
    }
    for words in foreign_pools(lab, observed) {
        events.warn(Code::ForeignPoolKept, words);
    }
    Ok(())
}

/// The pools that steps have had the learner make or change by hand, who types no tags.
fn pools_of_lesson(folder: &Path, lab: &Lab) -> Result<BTreeSet<String>> {
    let progress = Progress::of(folder, lab.steps.len())?;
    let reached = progress.done + usize::from(progress.is_opened());
    let actions = lab.steps.iter().take(reached).flat_map(|step| &step.actions);
    Ok(actions.filter_map(|action| action.value.pool()).map(str::to_owned).collect())
}

/// The lesson begins again with its set-up.
fn rewind(folder: &Path, events: &Events) -> Result<()> {
    let progress = Progress::read(folder)?;
    if progress == Progress::default() {
        return Ok(());
    }
    if progress.done > 0 || progress.doing.is_some() {
        let done = plural(progress.done, "step");
        events.counting(progress.done).note(Verb::RewindLesson, format!("back to the set-up; {done} had been done"));
    }
    Progress::default().write(folder)
}

/// The forecast of a new lab, worked out while its nodes are being made: thousands of them take a second.
fn foresee(lab: &Lab, manifests: &[Manifest]) -> JoinHandle<Prediction> {
    let (lab, manifests) = (lab.clone(), manifests.to_vec());
    thread::spawn(move || forecast(&lab, &manifests, None))
}

/// Waits for the checks of a lab that was just made. Where a lesson was brought back to its set-up, workloads whose pods
/// stand where the set-up does not want them are restarted.
///
/// # Errors
/// When the cluster does not answer, or refuses.
pub(in super::super) fn wait(
    context: &Context,
    arguments: &Arguments,
    lab: &Lab,
    made: &Made,
    timeout: Duration,
) -> Result<Report> {
    let mut report = wait_for_made(context, lab, made.cluster(), timeout)?;
    if !report.ok() && made.existed && restart_misplaced(context, arguments, lab, made, &report)? {
        let cluster = ReachedCluster { changed: true, ..made.cluster() };
        report = wait_for_made(context, lab, cluster, timeout)?;
    }
    // Add-ons may also arrive during the wait for the checks.
    note_baseline(context, lab, made)?;
    let folder = context.home.lab(&lab.name.value);
    let mut progress = Progress::read(&folder)?;
    if report.ok() && progress.done == 0 && note_before(context, lab, &mut progress, &made.client)? {
        progress.write(&folder)?;
    }
    Ok(report)
}

fn restart_misplaced(
    context: &Context,
    arguments: &Arguments,
    lab: &Lab,
    made: &Made,
    report: &Report,
) -> Result<bool> {
    let name = &lab.name.value;
    let mut locked = LockedLab::new(context, name, "up")?;
    let provider = context.provider(lab.provider)?;
    let performer = Performer {
        runtime: context.runtime()?,
        client: &made.client,
        provider: provider.as_ref(),
        time: &WallClock::default(),
        run: None,
    };
    let restarted = lesson::restart_misplaced(&performer, lab, report, &mut locked.work()?)
        .map_err(|error| with_way_on(context, error, arguments, name))?;
    // Where they were to go was foreseen from where they stood.
    if restarted && let Some(mut record) = locked.record.clone() {
        record.predicted = None;
        locked.write_record(&record)?;
    }
    Ok(restarted)
}

/// The refusal of a lab that costs more than it may, or whose cost is unknown.
fn too_dear(cost: &LabCost, most: f64) -> Option<Error> {
    let unknown = cost.unknown();
    if !unknown.is_empty() {
        let message = format!(
            "the price of {} is unknown, so klab cannot say whether the lab stays below {} an hour",
            unknown.join(", "),
            dollars(most)
        );
        return Some(
            Error::message(Code::Cost, message).hint("leave out `--max-hourly`, or choose sizes whose price is known"),
        );
    }
    let most_hourly = cost.most_hourly()?;
    (most_hourly > most).then(|| {
        let message = format!("the lab may cost {} an hour, more than {}", dollars(most_hourly), dollars(most));
        Error::message(Code::Cost, message)
            .hint("fewer or smaller nodes, lower `autoscale` bounds, or a higher `--max-hourly`")
    })
}

/// Refuses what this machine or account cannot make; every problem is said.
///
/// # Errors
/// When there is a problem.
pub(in super::super) fn refuse(context: &Context, mut problems: Vec<Error>) -> Result<()> {
    let Some(last) = problems.pop() else { return Ok(()) };
    for problem in &problems {
        context.ui.error(problem);
    }
    Err(last)
}

/// The lab's record, or a new one; a lab never changes its provider while it is up.
fn record(context: &Context, known: Option<Record>, lab: &Lab, arguments: &Arguments) -> Result<Record> {
    let path = &arguments.lab;
    let name = &lab.name.value;
    let provider = lab.provider;
    match known {
        Some(record) if record.provider != provider => Err(Error::message(
            Code::UpElsewhere,
            format!("lab `{name}` is up on `{}`, not on `{provider}`", record.provider),
        )
        .hint(format!("`klab down {name}` removes it first"))),
        Some(mut record) => {
            // Of a seat, its class was asked.
            if arguments.seats.is_none() {
                refuse_stranger(arguments, lab, &record.source)?;
            }
            record.source = absolute(path);
            let seed = seed(lab);
            if lab.provider.profile().is_embedded && record.seed != seed {
                let kept = record.seed;
                context.ui.events().about(About::Lab, name).warn(Code::SeedKept, format!(
                    "lab `{name}` was made with seed {kept} and keeps it; `klab down {name}`, then `up`, takes seed {seed}"
                ));
            }
            Ok(record)
        }
        None => Ok(Record { seed: seed(lab), ..Record::new(name, provider, &absolute(path)) }),
    }
}

/// Refuses a file that would silently turn a lab into another one: the lab is up from another file, which is still there,
/// still calls itself so, and says something else. A file that was edited, moved or copied goes on with its lab.
///
/// # Errors
/// When the file is another one, and the user did not allow it to take the lab over.
pub(in super::super) fn refuse_stranger(arguments: &Arguments, lab: &Lab, origin: &Path) -> Result<()> {
    let (file, name) = (&arguments.lab, &lab.name.value);
    let real = |path: &Path| std::fs::canonicalize(path).ok();
    let Some(known) = real(origin).filter(|_| !arguments.take_over) else { return Ok(()) };
    let same_text = || std::fs::read_to_string(&known).is_ok_and(|text| text == lab.source.text());
    let of_lab = || lab_name_in(&known).is_ok_and(|named| named == *name);
    if real(file).is_none_or(|file| file == known) || !of_lab() || same_text() {
        return Ok(());
    }
    let message = format!("lab `{name}` is up from another file, `{}`; nothing was changed", origin.display());
    Err(Error::message(Code::UpElsewhere, message)
        .hint(format!("another name in `{}` (`lab = …`) makes a lab of its own", file.display()))
        .hint(format!("`klab up {} --take-over` turns the lab into what this file says", file.display())))
}

/// What breaks the ties of an embedded cluster's scheduler.
fn seed(lab: &Lab) -> u64 {
    lab.sim.seed.unwrap_or_default()
}

/// Keeps the lab file as applied, so that `verify` and `status` work when the file is edited or gone.
///
/// # Errors
/// When the file system refuses.
pub(in super::super) fn save_lab_file(folder: &Path, lab: &Lab) -> Result<()> {
    let path = folder.join("lab.toml");
    write_private(&path, lab.source.text().as_bytes()).map_err(|error| state_error(error, "write", &path))
}

/// An error with how to go on from it.
pub(in super::super) fn with_way_on(context: &Context, error: Error, arguments: &Arguments, name: &str) -> Error {
    match error.kind() {
        Kind::Failed => error.hint(format!(
            "`klab up {}` continues from here, `klab down {name}` removes what there is",
            arguments.lab.display()
        )),
        // Something outside was missing: on the way, so that there is a part of the lab, or before anything was made.
        Kind::Outside | Kind::Deadline
            if Record::read(&context.home.lab(name), name).is_ok_and(|found| found.record.is_some()) =>
        {
            error.hint(format!("`klab down {name}` removes what there is of the lab"))
        }
        _ => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use klab_lab::spec::{LoadOptions, parse};

    #[test]
    fn a_lab_may_cost_no_more_than_it_is_allowed_and_no_unknown_sum() {
        let refused = |pools: &str, most: f64| {
            let text = format!("lab = \"demo\"\nprovider = \"aks\"\n{pools}");
            let lab = parse("lab.toml", &text, &LoadOptions::default()).unwrap_or_else(|problems| panic!("{problems}"));
            too_dear(&LabCost::of(&lab), most).map(|error| error.to_string())
        };
        let pools = "[pool.a]\nnodes = 2\nmode = \"system\"\n[pool.b]\nautoscale = { min = 1, max = 3 }\n";
        assert_eq!(refused(pools, 0.5), None);
        let words = refused(pools, 0.4).unwrap();
        assert!(words.contains("$0.4800 an hour, more than $0.4000"), "{words}");
        let words = refused("[aks]\ntier = \"standard\"\n[pool.a]\nmode = \"system\"\n", 100.0).unwrap();
        assert!(words.contains("is unknown"), "{words}");
    }
}
