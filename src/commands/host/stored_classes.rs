//! Classes that are hosted on this machine or were, and are kept: their row of `klab list`, and their end by `klab down`.

use std::fs;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::super::Context;
use super::record::Hosted;
use klab_host::journal;
use klab_host::register::{Entry, Phase, Register};
use klab_lab::words::plural;
use klab_operations::error::{Code, Error, Result};
use klab_operations::event::{About, Verb};
use klab_operations::provider::sim::server_lock::{Attempt, ServerLock};
use klab_operations::state::home::state_error;
use klab_server::files::gone;

/// What is known of a class without its host.
struct ClassState {
    hosted: Hosted,
    register: Register,
    runs: bool,
}

impl ClassState {
    fn look(context: &Context, name: &str) -> Result<Self> {
        let folder = super::folder(context, name);
        let hosted = Hosted::read(&folder, name)?;
        let labs: Vec<String> = hosted.labs.iter().map(|lab| lab.name.clone()).collect();
        let mut register = Register::new(hosted.shard, &labs, hosted.most);
        for entry in journal::look::<Vec<Entry>>(&folder.join(journal::FILE))?.into_iter().flatten() {
            register.take(entry);
        }
        let runs = matches!(ServerLock::take_existing(&folder.join("server"))?, Attempt::Held);
        Ok(Self { hosted, register, runs })
    }

    fn state(&self) -> &'static str {
        match self.register.phase(Timestamp::now()) {
            Phase::Over => "over",
            _ if !self.runs => "not running",
            Phase::Ahead => "not yet open",
            Phase::Open => "open",
            Phase::Closed => "closed",
        }
    }
}

/// A row of `klab list`, and the same for programs.
pub(in super::super) fn row(context: &Context, name: &str) -> (Vec<String>, Value) {
    let none = || "-".to_owned();
    let Ok(seen) = ClassState::look(context, name) else {
        let row = vec![name.to_owned(), "host".to_owned(), "damaged".to_owned(), none(), none(), none()];
        return (row, json!({ "class": name, "state": "damaged" }));
    };
    let seats = seen.register.seats().count();
    let file = seen.hosted.labs.first().map(|lab| lab.source.display().to_string()).unwrap_or_default();
    let row = vec![
        name.to_owned(),
        "host".to_owned(),
        seen.state().to_owned(),
        plural(seats, "seat"),
        seen.hosted.created.strftime("%Y-%m-%d %H:%M").to_string(),
        file.clone(),
    ];
    let document = json!({
        "class": name, "provider": "host", "state": seen.state(), "seats": seats, "times": seen.register.times(),
        "created": seen.hosted.created, "file": file,
    });
    (row, document)
}

/// Removes a class that no host serves at the moment, with all that its learners did; asks first unless `yes`.
///
/// # Errors
/// When it is hosted, the person does not agree, or the file system refuses.
pub(in super::super) fn remove(context: &Context, name: &str, yes: bool) -> Result<()> {
    let folder = super::folder(context, name);
    let lock = match ServerLock::take_existing(&folder.join("server"))? {
        Attempt::Held => {
            let message =
                format!("class `{name}` is hosted by another klab on this machine, and people may be at work in it");
            return Err(
                Error::message(Code::ClassInTheWay, message).hint("end it first: Ctrl-C where `klab host` runs")
            );
        }
        Attempt::Taken(lock) => Some(lock),
        Attempt::Absent => None,
    };
    // A class whose files are damaged is removed as well: nothing else can be done with it.
    let seats = ClassState::look(context, name).map(|seen| seen.register.seats().count()).ok();
    let had = seats.map_or_else(|| "its seats".to_owned(), |seats| plural(seats, "seat"));
    if seats != Some(0) && !yes {
        match context
            .ui
            .agrees(&format!("Class `{name}` will be removed permanently, with {had} and all work in it. Continue?"))
        {
            Some(true) => {}
            Some(false) => return Err(Error::message(Code::NotConfirmed, "nothing was removed")),
            None => {
                let message = format!("class `{name}` would be removed permanently, with {had} and all work in it");
                return Err(
                    Error::message(Code::NotConfirmed, message).hint(format!("`klab down {name} --yes` removes it"))
                );
            }
        }
    }
    // The file by which the class is known goes last: a klab that was killed in between can go on.
    for entry in fs::read_dir(&folder).map_err(|error| state_error(error, "read", &folder))? {
        let path = entry.map_err(|error| state_error(error, "read", &folder))?.path();
        if path.file_name().is_some_and(|file| file != klab_operations::state::home::HOSTED) {
            let removed = if path.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
            gone(removed).map_err(|error| state_error(error, "remove", &path))?;
        }
    }
    drop(lock);
    gone(fs::remove_dir_all(&folder)).map_err(|error| state_error(error, "remove", &folder))?;
    // Others may have classes or labs here.
    let _ = fs::remove_dir(context.home.hosts());
    let words = format!("nothing of class `{name}` is left; it had {had}");
    context.ui.events().about(About::Lab, name).note(Verb::RemoveClass, words);
    Ok(())
}
