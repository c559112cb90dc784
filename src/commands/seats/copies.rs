//! Seats that are copies of one that was just made and found to hold: what is equal by construction is neither applied nor
//! looked at again.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::super::one::{Arguments, save_lab_file};
use super::super::{Context, invalid};
use super::{Workshop, jobs, lab_of};
use crate::error::Result;
use crate::parallel::parallel;
use crate::provider::Work;
use crate::render::{Manifest, render};
use crate::state::class::{self, seat_name};
use crate::state::home::state_error;
use crate::state::{Journal, Lock, Progress, Record};
use klab_cluster::server::{NewCopy, Renaming};
use klab_lab::names::LAB_LABEL;
use klab_lab::spec::Lab;

/// So many seats are under their locks at a time: each lock is an open file, of which a process has a thousand.
const AT_ONCE: usize = 64;
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
    record: Record,
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
/// # Errors
/// When the system refuses a thread.
pub(super) fn copy(
    workshop: &Workshop,
    arguments: &Arguments,
    original: &Original,
    class: &str,
    numbers: &[u32],
    progress: impl Fn(usize),
) -> Result<BTreeSet<u32>> {
    let workers = arguments.jobs(jobs(original.lab.provider));
    let mut copied = BTreeSet::new();
    for part in numbers.chunks(AT_ONCE) {
        let begun =
            parallel(part, workers, |number| begin(&workshop.context(), original, class, *number).ok().flatten());
        let begun: Vec<Begun> = begun?.into_iter().flatten().collect();
        let copies: Vec<NewCopy> = begun.iter().map(|seat| seat.copy.clone()).collect();
        let context = workshop.context();
        let made = context.provider(original.lab.provider).and_then(|provider| match provider.copies() {
            Some(maker) if !copies.is_empty() => maker.copy_all(&original.lab.name.value, &copies),
            _ => Ok(BTreeSet::new()),
        });
        let Ok(made) = made else { continue };
        let begun: Vec<Begun> = begun.into_iter().filter(|seat| made.contains(&seat.copy.name)).collect();
        let ended =
            parallel(&begun, workers, |seat| end(&workshop.context(), original, seat).ok().map(|()| seat.number));
        copied.extend(ended?.into_iter().flatten());
        progress(copied.len());
    }
    Ok(copied)
}

/// Writes down what is about to be done; none where the seat is there in part, or a copy would not be what it is to be.
fn begin(context: &Context, original: &Original, class: &str, number: u32) -> Result<Option<Begun>> {
    let name = seat_name(class, number);
    let lab = lab_of(&original.lab, &name);
    let provider = context.provider(lab.provider)?;
    let Some(renaming) = provider.copies().and_then(|maker| maker.renaming(&original.lab, &lab)) else {
        return Ok(None);
    };
    let Ok(manifests) = render(&lab) else { return Ok(None) };
    if !differ_in_names_alone(original, &manifests, &renaming) {
        return Ok(None);
    }
    let folder = context.home.lab(&name);
    let lock = Lock::take(&folder, &name, COMMAND)?;
    if context.record(&name)?.is_some() || provider.observe(&name, None)?.exists {
        return Ok(None);
    }
    let record = Record {
        lab: name.clone(),
        predicted: None,
        applied: None,
        created: Timestamp::now(),
        ..original.record.clone()
    };
    record.write(&folder)?;
    save_lab_file(&folder, &lab)?;
    let mut journal =
        Journal::open(&folder, COMMAND).map_err(|error| state_error(error, "open the journal in", &folder))?;
    journal.set_provider(lab.provider);
    Work { journal: &mut journal, events: &context.ui.events() }.intend("add-cluster", &name)?;
    Ok(Some(Begun { number, record, copy: NewCopy { name, renaming }, _lock: lock }))
}

/// Writes down what the seat is, now that its cluster is there.
fn end(context: &Context, original: &Original, seat: &Begun) -> Result<()> {
    let (name, renaming) = (&seat.copy.name, &seat.copy.renaming);
    let folder = context.home.lab(name);
    context.provider(original.lab.provider)?.kubeconfig(name)?;
    if original.progress != Progress::default() {
        renamed(&original.progress, renaming).unwrap_or_default().write(&folder)?;
    }
    let predicted = original.record.predicted.as_ref().and_then(|predicted| renamed(predicted, renaming));
    Record { predicted, applied: Some(Timestamp::now()), ..seat.record.clone() }.write(&folder)?;
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
