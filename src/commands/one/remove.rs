//! Removes one lab: everything that was made for it, then its state.

use super::super::Context;
use klab_lab::spec::Provider;
use klab_lab::words::{duration, plural};
use klab_operations::error::{Code, Error, Result};
use klab_operations::event::{About, Verb};
use klab_operations::locked_lab::LockedLab;
use klab_operations::state::home::{remove_empty, state_error};
use klab_operations::state::journal::remove_with_folder;

/// Removes one lab.
///
/// # Errors
/// When something could not be removed or is left.
pub(in super::super) fn remove(context: &Context, lab: &str) -> Result<()> {
    remove_and_wait(context, lab, true)
}

/// As [`remove`]; without `wait`, only begins where the provider can.
///
/// # Errors
/// As [`remove`].
pub(in super::super) fn remove_and_wait(context: &Context, lab: &str, wait: bool) -> Result<()> {
    let folder = context.home.lab(lab);
    let events = context.ui.events();
    let Some(mut locked) = LockedLab::existing(context, lab, "down")? else {
        retire(context)?;
        events.about(About::Lab, lab).note(Verb::RemoveLab, format!("lab `{lab}` is not up, nothing to remove"));
        return Ok(());
    };
    let again = format!("klab down {lab}");
    locked.interruption_leaves(format!("lab `{lab}` may be partly removed; `{again}` continues"));
    let known = locked.record.as_ref().map(|record| (record.provider, record.created));
    if let Some((provider, _)) = known {
        let provider = context.provider(provider)?;
        let mut work = locked.work()?;
        if !wait {
            provider.begin_removal(lab, &mut work).map_err(|error| error.hint(format!("`{again}` tries again")))?;
            if provider.is_being_removed(lab) {
                events
                    .about(About::Lab, lab)
                    .note(Verb::BeginRemoval, format!("lab `{lab}`; `{again}` waits until nothing is left of it"));
                return Ok(());
            }
        }
        provider.remove(lab, &mut work).map_err(|error| error.hint(format!("`{again}` tries again")))?;
        let left = provider.remains(lab)?;
        if !left.is_empty() {
            let is = if left.len() == 1 { "is" } else { "are" };
            let words = format!("{} of lab `{lab}` {is} left", plural(left.len(), "thing"));
            let mut error = Error::message(Code::LeftBehind, words);
            error.left_behind = left;
            return Err(error.hint(format!("`{again}` tries again")));
        }
        work.intend("remove-state", lab)?;
    } else {
        // A klab that was killed before it noted what it was about to do.
        retire(context)?;
    }
    remove_with_folder(&folder).map_err(|error| state_error(error, "remove", &folder))?;
    drop(locked);
    remove_empty(&folder);
    let ran = known.map(|(_, since)| jiff::Timestamp::now().duration_since(since).unsigned_abs());
    let ran = ran.map_or(String::new(), |ran| format!("; it was up for {}", duration(ran)));
    events.about(About::Lab, lab).note(Verb::RemoveLab, format!("nothing of lab `{lab}` is left{ran}"));
    Ok(())
}

/// Ends the server of embedded clusters where a klab that was killed left it without any.
///
/// # Errors
/// When it could not be ended.
pub(in super::super) fn retire(context: &Context) -> Result<()> {
    Provider::ALL.into_iter().try_for_each(|name| context.provider(name)?.retire())
}
