//! `klab gc`: labs in Azure whose time is over, found by their tags, also those of other machines; removed on `--yes`.

use jiff::Timestamp;
use serde_json::json;

use super::Context;
use klab_lab::words::{plural, table};
use klab_operations::error::{Code, Error, Result};
use klab_operations::event::Verb;
use klab_operations::locked_lab::LockedLab;
use klab_operations::provider::Work;
use klab_operations::provider::aks::{Aks, Expired};
use klab_operations::state::Journal;
use klab_operations::state::home::state_error;
use klab_operations::ui::Format;

/// What can be typed after `klab gc`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Remove them; without it they are only listed.
    #[arg(long)]
    yes: bool,
    /// List labs whose time is not over, too; these are never removed.
    #[arg(long)]
    all: bool,
}

/// Lists or removes what has expired.
///
/// # Errors
/// When Azure does not answer, or something is left (exit code 4).
pub fn run(context: &Context, arguments: &Arguments) -> Result<()> {
    let aks = Aks::new(&context.home);
    let now = Timestamp::now();
    let (expired, others): (Vec<Expired>, Vec<Expired>) =
        aks.labs()?.into_iter().partition(|lab| lab.expires.is_some_and(|expires| expires <= now));
    if !arguments.yes {
        let shown: Vec<&Expired> = expired.iter().chain(others.iter().filter(|_| arguments.all)).collect();
        show(context, &shown, now);
        if !expired.is_empty() {
            context.ui.advise("hint: `klab gc --yes` removes what has expired");
        }
        return Ok(());
    }
    let mut left = Vec::new();
    for lab in &expired {
        left.extend(remove(context, &aks, lab)?);
    }
    if !left.is_empty() {
        let mut error = Error::message(Code::LeftBehind, format!("{} left", plural(left.len(), "thing")));
        error.left_behind = left;
        return Err(error.hint("`klab gc --yes` tries again"));
    }
    context.ui.events().counting(expired.len()).note(Verb::RemoveExpiredLabs, plural(expired.len(), "expired lab"));
    Ok(())
}

fn remove(context: &Context, aks: &Aks, lab: &Expired) -> Result<Vec<String>> {
    let events = context.ui.events();
    // A lab that is up on this machine is removed as `down` does, with its state.
    let here = LockedLab::existing(context, &lab.lab, "gc")?;
    let is_up =
        here.as_ref().and_then(|here| here.record.as_ref()).is_some_and(|record| record.provider.profile().is_billed);
    drop(here);
    if is_up {
        super::one::remove(context, &lab.lab)?;
        return Ok(Vec::new());
    }
    let folder = tempfile::tempdir().map_err(|error| state_error(error, "make", &std::env::temp_dir()))?;
    let mut journal =
        Journal::open(folder.path(), "gc").map_err(|error| state_error(error, "open the journal in", folder.path()))?;
    context.interruption_leaves(Some(format!("lab `{}` is partly removed; `klab gc --yes` continues", lab.lab)));
    let left = aks.remove_expired(lab, &mut Work { journal: &mut journal, events: &events })?;
    context.interruption_leaves(None);
    Ok(left)
}

fn show(context: &Context, labs: &[&Expired], now: Timestamp) {
    if context.ui.format() == Format::Json {
        let documents: Vec<_> = labs
            .iter()
            .map(|lab| {
                json!({ "lab": lab.lab, "owner": lab.owner, "group": lab.group, "cluster": lab.cluster,
                    "expires": lab.expires, "expired": lab.expires.is_some_and(|expires| expires <= now) })
            })
            .collect();
        context.ui.result(&json!({ "schema": "klab.gc/1", "labs": documents }).to_string());
        return;
    }
    if labs.is_empty() {
        context.ui.say("no lab of yours in Azure has expired");
        return;
    }
    let mut rows = vec![["LAB", "EXPIRED", "GROUP", "CLUSTER"].map(str::to_owned).to_vec()];
    for lab in labs {
        let expires =
            lab.expires.map_or("never".to_owned(), |expires| expires.strftime("%Y-%m-%d %H:%M UTC").to_string());
        rows.push(vec![
            lab.lab.clone(),
            expires,
            lab.group.clone(),
            lab.cluster.clone().unwrap_or_else(|| "-".to_owned()),
        ]);
    }
    context.ui.result(&table(&rows));
}
