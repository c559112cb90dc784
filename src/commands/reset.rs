//! `klab reset`: bring a lab back to its set-up or to a step, whatever was done to it, and remove what was added.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use super::lesson::{Lesson, WhichLesson, find};
use super::one::{self, make, wait};
use super::{Context, invalid, joined, step};
use klab_lab::words::{duration, first_of, plural};
use klab_operations::changes::{Baseline, Change, Named, Twin, live_objects};
use klab_operations::drain;
use klab_operations::error::{Code, Context as _, Error, Result};
use klab_operations::event::{About, Verb};
use klab_operations::grade::report_set_up;
use klab_operations::lesson::{Performer, WallClock, change_nodes, delete_all};
use klab_operations::locked_lab::LockedLab;
use klab_operations::provider::refuse_foreign;
use klab_operations::render;

/// How long the checks of the set-up may take.
const PATIENCE: Duration = Duration::from_mins(2);

/// What can be typed after `klab reset`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    which: WhichLesson,
    /// Bring the lab to where this step, by name or number, is done; to its set-up by default.
    #[arg(long, value_name = "STEP")]
    to: Option<String>,
    /// Remove what was added without asking.
    #[arg(long, short)]
    yes: bool,
}

/// Brings the lab back: what was added goes, what is gone comes back, what was changed is as the lab file says.
///
/// # Errors
/// When the lab is not up, what was added may not be removed, or the lab could not be made as it was.
pub fn run(context: &Context, arguments: &Arguments) -> Result<()> {
    context.ui.stream_events();
    let started = Instant::now();
    if let Some(joined) = joined::meant(context, arguments.which.lab.as_deref())? {
        return joined::reset(context, &joined, arguments.to.as_deref(), arguments.yes);
    }
    let lesson = Lesson::open(context, &arguments.which)?;
    let lab = &lesson.lab;
    let name = &lab.name.value;
    refuse_foreign(
        lab,
        "`klab reset` takes back whatever was done to a cluster",
        &format!("`klab up {}` brings the lab's own objects to the set-up", lab.source.name()),
    )?;
    if let Some(step) = &arguments.to {
        find(lab, step)?;
    }
    let kubeconfig = context.kubeconfig(name)?;
    let client = context.client(name, &kubeconfig)?;
    let wanted = Twin::of(lab).after(0)?;
    let baseline = Baseline::read(&context.home.lab(name))?;
    let differences = || Ok::<_, Error>(baseline.differences(&wanted, &context.block_on(live_objects(&client))?, lab));
    let added: Vec<Named> = objects(&differences()?, Change::is_new);
    consent(context, arguments, name, &added)?;
    let record = context.record(name)?.ok_or_else(|| context.not_up(name))?;
    let up = one::Arguments::of(&record.source, &record.vars);
    let manifests = render::render(lab).map_err(|diagnostics| invalid(&record.source, &diagnostics))?;
    let provider = context.provider(lab.provider)?;
    let performer = Performer {
        runtime: context.runtime()?,
        client: &client,
        provider: provider.as_ref(),
        time: &WallClock::default(),
        run: None,
    };
    let made = {
        let mut locked = LockedLab::existing(context, name, "reset")?.ok_or_else(|| context.not_up(name))?;
        locked.interruption_leaves(format!("lab `{name}` is partly reset; `klab reset {name}` continues"));
        remove(&performer, &mut locked, &added)?;
        let mut made = make(&mut locked, &up, lab, &manifests)?;
        // What others wrote into the lab's own objects stays when klab applies its part again.
        let rest = differences()?;
        for action in rest.iter().filter_map(Change::correction) {
            change_nodes(&performer, &action, &mut locked.work()?)?;
        }
        let changed = objects(&rest, |change| change.is_new() || matches!(change, Change::Field { .. }));
        if !changed.is_empty() {
            remove(&performer, &mut locked, &changed)?;
            made = make(&mut locked, &up, lab, &manifests)?;
        }
        made
    };
    let report = wait(context, &up, lab, &made, PATIENCE)?;
    report_set_up(context, report, PATIENCE)?;
    context
        .ui
        .events()
        .about(About::Lab, name)
        .note(Verb::ResetLab, format!("lab `{name}` to its set-up in {}", duration(started.elapsed())));
    match &arguments.to {
        Some(to) => step::run(context, &step::Arguments::to(name, to)),
        None => Ok(()),
    }
}

/// The objects that some of the changes are about, each once.
fn objects(changes: &[Change], which: impl Fn(&Change) -> bool) -> Vec<Named> {
    let objects: BTreeSet<Named> = changes.iter().filter(|change| which(change)).map(Change::object).collect();
    objects
        .into_iter()
        .filter(|object| object.kind != "Node" || changes.iter().any(|it| it.is_new() && it.object() == *object))
        .collect()
}

/// What a learner made is removed only when that is agreed to.
fn consent(context: &Context, arguments: &Arguments, lab: &str, added: &[Named]) -> Result<()> {
    if added.is_empty() || arguments.yes {
        return Ok(());
    }
    let names: Vec<String> = added.iter().map(Named::label).collect();
    let question = format!("Not in lab `{lab}`, and to be removed: {}. Remove it?", first_of(&names, 20));
    match context.ui.agrees(&question) {
        Some(true) => Ok(()),
        Some(false) => Err(Error::message(Code::NotConfirmed, "nothing was changed")),
        None => {
            let what = plural(added.len(), "object");
            let message = format!("{what} would be removed that the lab does not have: {}", first_of(&names, 20));
            Err(Error::message(Code::NotConfirmed, message)
                .hint(format!("`klab reset {lab} --yes` removes what was added")))
        }
    }
}

fn remove(performer: &Performer<'_>, locked: &mut LockedLab<'_>, objects: &[Named]) -> Result<()> {
    let mut each = objects.iter();
    each.try_for_each(|object| delete_all(performer, &[object.reference()], &object.label(), &mut locked.work()?))?;
    let nodes: BTreeSet<String> =
        objects.iter().filter(|object| object.kind == "Node").map(|object| object.name.clone()).collect();
    if nodes.is_empty() {
        return Ok(());
    }
    let forgotten = performer.runtime.block_on(drain::forget_pods(performer.client, &nodes));
    forgotten.code(Code::ClusterRefused, || "could not remove the pods of nodes that are gone".to_owned())
}
