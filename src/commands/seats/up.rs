//! `klab up LAB --seats N`: seats that are missing or failed are made, those beyond N removed, the others left alone.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::symlink;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::json;

use super::super::one::{Arguments, make, refuse, refuse_stranger, wait};
use super::super::{Context, absolute, invalid};
use super::copies::Original;
use super::{Failed, Workshop, copies, down, jobs, lab_of, show};
use klab_lab::spec::{Lab, Provider};
use klab_lab::words::{duration, plural};
use klab_operations::error::{Code, Error, Kind, Result};
use klab_operations::event::{About, Verb};
use klab_operations::locked_lab::LockedLab;
use klab_operations::parallel::parallel;
use klab_operations::provider;
use klab_operations::render;
use klab_operations::state::class::{self, Class, seat_name};
use klab_operations::state::home::state_error;
use klab_operations::state::{Home, Lock, Record};
use klab_operations::ui::Format;
use klab_server::files::create_private_folder;

/// Largest class of clusters that are more than objects; a kind cluster's name has room for no more digits.
const MAX_CLUSTERS: u32 = 999;

/// What was done for a seat that is up now.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Done {
    Made,
    ChangedPools,
}

/// Makes the class, or brings it to this many seats.
///
/// # Errors
/// When a seat could not be made; the others are not affected, and the same command goes on with the failed ones.
pub(in super::super) fn up(context: &Context, arguments: &Arguments, lab: &Lab, seats: u32) -> Result<()> {
    let started = Instant::now();
    let name = &lab.name.value;
    let home = &context.home;
    if seats > MAX_CLUSTERS && !lab.provider.profile().is_embedded {
        let message = format!("a class on `{}` has at most {MAX_CLUSTERS} seats", lab.provider);
        return Err(Error::message(Code::ClassSettings, message).hint("`--provider sim` makes up to 10000"));
    }
    let _lock = Lock::take(&home.lab(name), name, "up --seats")?;
    let mut class = class_of(context, arguments, lab)?;
    let wanted: BTreeSet<u32> = (1..=seats).collect();
    let surplus: Vec<u32> = class.seats.difference(&wanted).copied().collect();
    refuse_collisions(home, &class, &wanted)?;
    // What this machine lacks is the same for every seat, and said once.
    let provider = context.provider(lab.provider)?;
    refuse(context, missing(home, provider.as_ref(), lab, &wanted))?;
    let again = format!("klab up {} --seats {seats}", arguments.file().display());
    context.interruption_leaves(Some(format!(
        "class `{name}` is partly made; `{again}` continues, `klab down {name}` removes it"
    )));
    class.seats.extend(&wanted);
    class.write(home)?;
    if !surplus.is_empty() {
        down::remove(context, &mut class, &surplus)?;
    }
    // Once, so that the seats do not race for it.
    provider.prepare()?;

    let what = format!("{} of lab {name}", plural(seats as usize, "seat"));
    let activity =
        context.ui.events().about(About::Lab, name).counting(seats as usize).start(Verb::CreateSeats, what.clone());
    let (workshop, done) = (Workshop::new(context), AtomicUsize::new(0));
    let numbers: Vec<u32> = wanted.into_iter().collect();
    let mut outcomes = ahead(&workshop, provider.as_ref(), arguments, lab, &numbers, |count| {
        done.store(count, Ordering::Relaxed);
        activity.progress(format!("{what}: {count} of {seats} done"));
    })?;
    let numbers: Vec<u32> = numbers.into_iter().filter(|number| !outcomes.contains_key(number)).collect();
    outcomes.extend(parallel(&numbers, arguments.jobs(jobs(lab.provider)), |number| {
        let outcome = seat(&workshop.context(), arguments, lab, &seat_name(name, *number));
        let done = done.fetch_add(1, Ordering::Relaxed) + 1;
        activity.progress(format!("{what}: {done} of {seats} done"));
        (*number, outcome)
    })?);
    context.interruption_leaves(None);
    let made = outcomes.values().filter(|outcome| matches!(outcome, Ok(Done::Made))).count();
    let kept = outcomes.values().filter(|outcome| matches!(outcome, Ok(Done::ChangedPools))).count();
    link_kubeconfigs(home, &class)?;
    if made == 0 {
        activity.end();
    } else {
        activity.counting(made).finish(format!("{} of lab {name}", plural(made, "seat")));
    }
    let summary = Summary { class: &class, made, kept, removed: surplus.len(), elapsed: started.elapsed() };
    let failed = outcomes.into_iter().filter_map(|(number, outcome)| Some(Failed { number, error: outcome.err()? }));
    conclude(context, &summary, failed.collect(), &again)
}

/// What became of the seats that go ahead of the others: the first that is missing, and those that are copies of it. Only
/// what was found to hold is copied.
fn ahead(
    workshop: &Workshop,
    provider: &dyn provider::Provider,
    arguments: &Arguments,
    lab: &Lab,
    numbers: &[u32],
    progress: impl Fn(usize),
) -> Result<BTreeMap<u32, Result<Done>>> {
    let context = workshop.context();
    let name = &lab.name.value;
    let new: Vec<u32> =
        numbers.iter().filter(|number| is_new(&context.home, &seat_name(name, **number))).copied().collect();
    let [first, others @ ..] = new.as_slice() else { return Ok(BTreeMap::new()) };
    if others.is_empty() || arguments.patience().is_none() || provider.copies().is_none() {
        return Ok(BTreeMap::new());
    }
    let original = seat_name(name, *first);
    let mut outcomes = BTreeMap::from([(*first, seat(&context, arguments, lab, &original))]);
    progress(outcomes.len());
    if outcomes.values().all(Result::is_ok)
        && let Ok(Some(original)) = Original::of(&context, arguments, lab, &original)
    {
        let copied = copies::copy(workshop, arguments, &original, name, others, |count| {
            progress(count.saturating_add(1));
        })?;
        outcomes.extend(copied.into_iter().map(|number| (number, Ok(Done::Made))));
    }
    Ok(outcomes)
}

/// Whether a seat is to be made from nothing.
fn is_new(home: &Home, seat: &str) -> bool {
    Record::read(&home.lab(seat), seat).is_ok_and(|found| found.record.is_none())
}

/// What is missing for the seats that have to be made. A seat that was begun looks after itself.
fn missing(home: &Home, provider: &dyn provider::Provider, lab: &Lab, wanted: &BTreeSet<u32>) -> Vec<Error> {
    let name = |number: &u32| seat_name(&lab.name.value, *number);
    let new: Vec<&u32> = wanted.iter().filter(|number| is_new(home, &name(number))).collect();
    match new.first() {
        Some(first) => {
            provider.preflight_class(&lab_of(lab, &name(first)), u32::try_from(new.len()).unwrap_or(u32::MAX))
        }
        None => provider.preflight(&lab_of(lab, &name(&1))),
    }
}

/// The class as it is, or a new one; a lab is a class or is not, and keeps its provider.
fn class_of(context: &Context, arguments: &Arguments, lab: &Lab) -> Result<Class> {
    let name = &lab.name.value;
    let provider = lab.provider;
    if let Some(record) = context.record(name)? {
        let message = format!("lab `{name}` is up on `{}`, without seats", record.provider);
        return Err(Error::message(Code::ClassInTheWay, message).hint(format!("`klab down {name}` removes it first")));
    }
    let mut class = match Class::read(&context.home, name)? {
        Some(class) if class.provider != provider => {
            let message = format!("class `{name}` is up on `{}`, not on `{provider}`", class.provider);
            return Err(Error::message(Code::UpElsewhere, message).hint(format!("`klab down {name}` removes it first")));
        }
        Some(class) => {
            refuse_stranger(arguments, lab, &class.source)?;
            class
        }
        None => Class::new(name, provider, &absolute(arguments.file())),
    };
    class.source = absolute(arguments.file());
    class.vars = arguments.vars().to_vec();
    match context.provider(lab.provider)?.refuses_class(lab) {
        Some(refusal) => Err(refusal),
        None => Ok(class),
    }
}

/// Labs that have the names of seats and are none.
fn refuse_collisions(home: &Home, class: &Class, wanted: &BTreeSet<u32>) -> Result<()> {
    let mut taken = Vec::new();
    for number in wanted.difference(&class.seats) {
        let name = seat_name(&class.lab, *number);
        if Record::read(&home.lab(&name), &name).is_ok_and(|found| found.record.is_some()) {
            taken.push(format!("`{name}`"));
        }
    }
    if taken.is_empty() {
        return Ok(());
    }
    let message =
        format!("seats of class `{}` would have the names of labs that are up: {}", class.lab, taken.join(", "));
    Err(Error::message(Code::ClassInTheWay, message)
        .hint("`klab down` removes a lab; another name in the lab file helps, too"))
}

/// Makes one seat, unless it is up already: what its learner did since then is not undone.
fn seat(context: &Context, arguments: &Arguments, lab: &Lab, name: &str) -> Result<Done> {
    let home = &context.home;
    let kept = class::is_ready(home, name)
        && context.record(name)?.is_some_and(|record| record.applied.is_some())
        && is_there(context.provider(lab.provider)?.as_ref(), lab.provider, name);
    if kept {
        return Ok(Done::ChangedPools);
    }
    let lab = lab_of(lab, name);
    let manifests = render::render(&lab).map_err(|diagnostics| invalid(arguments.file(), &diagnostics))?;
    let mut locked = LockedLab::new(context, name, "up --seats")?;
    class::set_ready(home, name, false)?;
    let made = make(&mut locked, arguments, &lab, &manifests)?;
    drop(locked);
    if let Some(patience) = arguments.patience() {
        let report = wait(context, arguments, &lab, &made, patience)?;
        if let Some(check) = report.checks.iter().find(|check| !check.verdict.is_held()) {
            let message = format!("its set-up does not hold: {} → {}", check.name, check.now());
            return Err(Error::message(Code::DoesNotHold, message));
        }
    }
    class::set_ready(home, name, true)?;
    Ok(Done::Made)
}

/// Whether a seat's cluster is in the world, and can be reached.
fn is_there(provider: &dyn provider::Provider, which: Provider, name: &str) -> bool {
    let runs = || provider.observe(name, None).is_ok_and(|observed| observed.exists && !observed.stopped);
    // The server of embedded clusters is asked for their kubeconfigs.
    provider.kubeconfig(name).is_ok() && (which.profile().is_embedded || runs())
}

/// A kubeconfig for each seat in one folder of the class, to be handed out.
fn link_kubeconfigs(home: &Home, class: &Class) -> Result<()> {
    let folder = Class::kubeconfigs(home, &class.lab);
    create_private_folder(&folder).map_err(|error| state_error(error, "create", &folder))?;
    let wanted: BTreeSet<String> = class.names().map(|(_, seat)| seat).collect();
    for entry in std::fs::read_dir(&folder).map_err(|error| state_error(error, "read", &folder))?.flatten() {
        if !wanted.contains(&*entry.file_name().to_string_lossy()) {
            std::fs::remove_file(entry.path()).map_err(|error| state_error(error, "remove", &entry.path()))?;
        }
    }
    for seat in wanted {
        let link = folder.join(&seat);
        match symlink(home.lab(&seat).join("kubeconfig"), &link) {
            Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
                return Err(state_error(error, "write", &link));
            }
            _ => {}
        }
    }
    Ok(())
}

/// What is there now.
struct Summary<'a> {
    class: &'a Class,
    made: usize,
    kept: usize,
    removed: usize,
    elapsed: Duration,
}

fn conclude(context: &Context, summary: &Summary<'_>, failed: Vec<Failed>, again: &str) -> Result<()> {
    let Summary { class, made, kept, removed, elapsed } = *summary;
    let (name, home) = (&class.lab, &context.home);
    let parts = [(made, "made"), (kept, "unchanged"), (removed, "removed"), (failed.len(), "failed")];
    let parts: Vec<String> =
        parts.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}")).collect();
    let ready = format!("{} of {}", made + kept, plural(class.seats.len(), "seat"));
    context
        .ui
        .events()
        .about(About::Lab, name)
        .counting(made + kept)
        .note(Verb::MakeClass, format!("{ready} of lab `{name}`: {} in {}", parts.join(", "), duration(elapsed)));
    if context.ui.format() == Format::Json {
        let bad: BTreeSet<u32> = failed.iter().map(|failed| failed.number).collect();
        let seats: Vec<_> = class
            .names()
            .map(|(number, seat)| {
                let kubeconfig = home.lab(&seat).join("kubeconfig");
                json!({ "seat": number, "lab": seat, "ready": !bad.contains(&number), "kubeconfig": kubeconfig })
            })
            .collect();
        context.ui.last_event(&json!({
            "event": "class-ready", "provider": class.provider, "seats": seats, "made": made, "kept": kept,
            "removed": removed, "failed": bad, "elapsed_ms": u64::try_from(elapsed.as_millis()).ok(),
        }));
    }
    if !failed.is_empty() {
        let count = plural(failed.len(), "seat");
        let code = if failed.iter().all(|failed| failed.error.kind() == Kind::NotHeld) {
            Code::SeatsNotHolding
        } else {
            Code::SeatsFailed
        };
        let numbers = show(context, failed);
        return Err(Error::message(code, format!("{count} of lab `{name}` could not be made: {numbers}")).hint(
            format!(
                "`{again}` continues with them and leaves the others as they are; `klab down {name}` removes the class"
            ),
        ));
    }
    context.ui.say(&format!(
        "\n  kubeconfigs: {}\n  klab kubeconfig {name} --seat 1    klab handout {name} --output handouts\n  \
         klab verify {name} --seats        klab down {name}",
        Class::kubeconfigs(home, name).display()
    ));
    Ok(())
}
