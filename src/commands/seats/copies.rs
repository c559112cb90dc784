//! Seats that are copies of one that was just made and found to hold: what is equal by construction is neither applied nor
//! looked at again.

use std::collections::BTreeSet;
use std::path::Path;

use jiff::Timestamp;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::super::one::{Arguments, save_lab_file};
use super::super::{Context, invalid};
use super::{Workshop, at_once, jobs, lab_of};
use klab_lab::names::LAB_LABEL;
use klab_lab::spec::Lab;
use klab_operations::error::Result;
use klab_operations::parallel::parallel;
use klab_operations::provider::Copies;
use klab_operations::render::{Manifest, render};
use klab_operations::state::class::{self, seat_name};
use klab_operations::state::home::state_error;
use klab_operations::state::{Home, Journal, Lock, Progress, Record};
use klab_server::files::sync_all_of;
use klab_server::{NewCopy, Renaming};

const COMMAND: &str = "up --seats";

/// A seat that was made and found to hold.
pub(super) struct Original {
    lab: Lab,
    manifests: Vec<Manifest>,
    record: Record,
    progress: Progress,
}

/// A seat whose copy is about to be made.
struct Begun {
    number: u32,
    copy: NewCopy,
    _lock: Lock,
}

impl Original {
    /// The seat of this name; none where the state of it is gone again.
    ///
    /// # Errors
    /// When its state cannot be read, or its objects cannot be rendered.
    pub(super) fn of(context: &Context, arguments: &Arguments, lab: &Lab, seat: &str) -> Result<Option<Self>> {
        let Some(record) = context.record(seat)? else { return Ok(None) };
        let lab = lab_of(lab, seat);
        let manifests = render(&lab).map_err(|diagnostics| invalid(arguments.file(), &diagnostics))?;
        let progress = Progress::read(&context.home.lab(seat))?;
        Ok(Some(Self { lab, manifests, record, progress }))
    }
}

/// Makes those of the seats as copies for which a copy is what making them would come to, and gives their numbers. The
/// others, and those with which anything goes wrong, are left to be made as any lab is, which says what is wrong.
///
/// Many seats are made at once, and their files go to the disk together: journal entries before the actions, the rest before
/// klab reports that they are made.
///
/// # Errors
/// When the system refuses a thread, or what is written does not come to the disk.
pub(super) fn copy(
    workshop: &Workshop,
    arguments: &Arguments,
    original: &Original,
    class: &str,
    numbers: &[u32],
    progress: impl Fn(usize),
) -> Result<BTreeSet<u32>> {
    let context = workshop.context();
    let provider = context.provider(original.lab.provider)?;
    let (Some(maker), Some(first)) = (provider.copies(), numbers.first()) else { return Ok(BTreeSet::new()) };
    // What is not called after its seat is the same in all of them: one is compared with the original.
    let Some(known) = proven(maker, original, &seat_name(class, *first)) else { return Ok(BTreeSet::new()) };
    let workers = arguments.jobs(jobs(original.lab.provider));
    let mut copied = BTreeSet::new();
    for part in numbers.chunks(at_once()) {
        let begun = parallel(part, workers, |number| {
            begin(&workshop.context(), original, &known, class, *number).ok().flatten()
        });
        let begun: Vec<Begun> = begun?.into_iter().flatten().collect();
        let copies: Vec<NewCopy> = begun.iter().map(|seat| seat.copy.clone()).collect();
        if copies.is_empty() {
            continue;
        }
        synced(&context.home)?;
        let Ok(made) = maker.copy_all(&original.lab.name.value, &copies) else { continue };
        let begun: Vec<Begun> = begun.into_iter().filter(|seat| made.contains(&seat.copy.name)).collect();
        let ended =
            parallel(&begun, workers, |seat| end(&workshop.context(), original, seat).ok().map(|()| seat.number));
        copied.extend(ended?.into_iter().flatten());
        progress(copied.len());
    }
    synced(&context.home)?;
    Ok(copied)
}

/// Makes all that was written into klab's home survive the machine.
pub(super) fn synced(home: &Home) -> Result<()> {
    sync_all_of(home.root()).map_err(|error| state_error(error, "sync", home.root()))
}

/// What becomes of the names of the original in a seat whose objects differ from its in names alone; none where they differ
/// in more.
fn proven(maker: &dyn Copies, original: &Original, seat: &str) -> Option<Renaming> {
    let lab = lab_of(&original.lab, seat);
    let renaming = maker.renaming(&original.lab, &lab)?;
    let manifests = render(&lab).ok()?;
    differ_in_names_alone(original, &manifests, &renaming).then_some(renaming)
}

/// Writes down what is about to be done; none where the seat is there in part, or a copy would not be what it is to be.
fn begin(context: &Context, original: &Original, known: &Renaming, class: &str, number: u32) -> Result<Option<Begun>> {
    let name = seat_name(class, number);
    let lab = lab_of(&original.lab, &name);
    let provider = context.provider(lab.provider)?;
    let renaming = provider.copies().and_then(|maker| maker.renaming(&original.lab, &lab));
    let Some(renaming) = renaming.filter(|renaming| renaming.is_of_the_same_names(known)) else { return Ok(None) };
    let folder = context.home.lab(&name);
    let lock = Lock::take(&folder, &name, COMMAND)?;
    if context.record(&name)?.is_some() || provider.observe(&name, None)?.exists {
        return Ok(None);
    }
    share_lab_file(context, original, &folder, &lab)?;
    let mut journal =
        Journal::open(&folder, COMMAND).map_err(|error| state_error(error, "open the journal in", &folder))?;
    journal.set_provider(lab.provider);
    journal.intend_later("add-cluster", &name).map_err(|error| state_error(error, "write the journal in", &folder))?;
    Ok(Some(Begun { number, copy: NewCopy::renamed(name, renaming), _lock: lock }))
}

/// The lab file is the same for all seats, and never written to but whole: one file with many names.
fn share_lab_file(context: &Context, original: &Original, folder: &Path, lab: &Lab) -> Result<()> {
    let file = |folder: &Path| folder.join("lab.toml");
    match std::fs::hard_link(file(&context.home.lab(&original.lab.name.value)), file(folder)) {
        Ok(()) => Ok(()),
        // A file system without, or one that has as many as it can.
        Err(_) => save_lab_file(folder, lab),
    }
}

/// Writes down what the seat is, now that its cluster is there.
fn end(context: &Context, original: &Original, seat: &Begun) -> Result<()> {
    let (name, renaming) = (&seat.copy.name, &seat.copy.renaming);
    let folder = context.home.lab(name);
    if let Some(maker) = context.provider(original.lab.provider)?.copies() {
        maker.link_kubeconfig(name)?;
    }
    if original.progress != Progress::default() {
        renamed(&original.progress, renaming).unwrap_or_default().write(&folder)?;
    }
    let predicted = original.record.predicted.as_ref().and_then(|predicted| renamed(predicted, renaming));
    let now = Timestamp::now();
    let record = Record { lab: name.clone(), predicted, created: now, applied: Some(now), ..original.record.clone() };
    record.write_later(&folder)?;
    class::set_ready(&context.home, name, true)
}

/// The same under other names.
fn renamed<T: Serialize + DeserializeOwned>(what: &T, renaming: &Renaming) -> Option<T> {
    let mut value = serde_json::to_value(what).ok()?;
    renaming.value(&mut value);
    serde_json::from_value(value).ok()
}

/// Whether the objects of two seats differ in the label with the lab's name, and the names of the first seat stand nowhere
/// else in them: a pod template that said the name would give pods another hash.
fn differ_in_names_alone(original: &Original, manifests: &[Manifest], renaming: &Renaming) -> bool {
    let without_label = |manifest: &Manifest| {
        let mut object = manifest.object.clone();
        if let Some(labels) = object.pointer_mut("/metadata/labels").and_then(Value::as_object_mut) {
            labels.remove(LAB_LABEL);
        }
        object
    };
    let same = |(one, other): (&Manifest, &Manifest)| {
        let mut renamed = one.object.clone();
        renaming.value(&mut renamed);
        renamed == other.object && without_label(one) == without_label(other) && !counts_up_to(one.name(), original)
    };
    original.manifests.len() == manifests.len() && original.manifests.iter().zip(manifests).all(same)
}

/// Whether an object's name and a number, as pods of StatefulSets and of Jobs are called, may be the name of the seat.
fn counts_up_to(name: &str, original: &Original) -> bool {
    let number = original.lab.name.value.strip_prefix(name).and_then(|rest| rest.strip_prefix('-'));
    number.is_some_and(|number| !number.starts_with('0') && number.bytes().all(|byte| byte.is_ascii_digit()))
}

#[cfg(test)]
mod tests;
