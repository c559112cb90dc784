//! `klab list`: the labs and hosted classes that have state on this machine.

use serde_json::json;

use super::Context;
use super::host::stored_classes;
use super::kind;
use klab_lab::plan::Observed;
use klab_lab::words::table;
use klab_operations::error::{Code, Result};
use klab_operations::event::About;
use klab_operations::provider::sim::daemon;
use klab_operations::state::Joined;
use klab_operations::state::class::Class;
use klab_operations::state::home::state_error;
use klab_operations::ui::Format;

/// What can be typed after `klab list`.
#[derive(Debug, clap::Args)]
pub struct Arguments {}

/// Whether the server of embedded clusters, if it is needed, does not answer; the user sees a warning. It is asked once, and
/// not for each lab.
fn silent_server(context: &Context, labs: &[String]) -> Result<bool> {
    let mut needed = false;
    for lab in labs {
        let class = Class::read(&context.home, lab)?.map(|class| class.provider);
        let provider = match class {
            None if Joined::read(&context.home, lab)?.is_some() => None,
            None => context.record(lab)?.map(|record| record.provider),
            class => class,
        };
        needed |= provider.is_some_and(|provider| provider.profile().is_embedded);
    }
    if !needed {
        return Ok(false);
    }
    let Err(error) = context.block_on(daemon::look(&context.home)) else { return Ok(false) };
    let error = context.advised(error);
    let advice = error.hints.iter().map(|hint| format!("; {hint}")).collect::<String>();
    context.ui.events().warn(Code::ServerSilent, format!("{error:#}{advice}"));
    Ok(true)
}

/// Prints a line for each lab, and for each class that is hosted here or was.
///
/// # Errors
/// When klab's state cannot be read.
pub fn run(context: &Context, _: &Arguments) -> Result<()> {
    let labs = context.labs()?;
    let silent = silent_server(context, &labs)?;
    let mut rows = vec![["LAB", "PROVIDER", "STATE", "NODES", "SINCE", "FILE"].map(str::to_owned).to_vec()];
    let mut documents = Vec::new();
    for lab in labs {
        if let Some(class) = Class::read(&context.home, &lab)? {
            let (row, document) = super::seats::row(context, &class, silent && class.provider.profile().is_embedded);
            rows.push(row);
            documents.push(document);
            continue;
        }
        if let Some(joined) = Joined::read(&context.home, &lab)? {
            let (row, document) = super::joined::row(&joined);
            rows.push(row);
            documents.push(document);
            continue;
        }
        let Some(record) = context.record(&lab)? else {
            rows.push(vec![lab.clone(), "-".into(), "empty".into(), "-".into(), "-".into(), "-".into()]);
            documents.push(json!({ "lab": lab, "state": "empty" }));
            continue;
        };
        let provider = context.provider(record.provider).map_err(anyhow::Error::new);
        let going = provider.as_ref().is_ok_and(|provider| provider.is_being_removed(&lab));
        if going && provider.as_ref().is_ok_and(|provider| provider.remains(&lab).is_ok_and(|left| left.is_empty())) {
            // `down --no-wait` left this to be seen.
            super::one::remove(context, &lab)?;
            continue;
        }
        let observed = match provider {
            Ok(_) if silent && record.provider.profile().is_embedded => Ok(Observed::default()),
            provider => provider.and_then(|provider| Ok(provider.observe(&lab, None)?)),
        };
        let (state, nodes) = match (&observed, record.applied) {
            // Azure took the removal, and has not done it in the end.
            (Ok(observed), _) if going && observed.exists => ("not removed", None),
            _ if going => ("being removed", None),
            _ if silent && record.provider.profile().is_embedded => ("no answer", None),
            (Err(error), _) => {
                let events = context.ui.events().about(About::Lab, &lab);
                events.warn(Code::LabUnreachable, format!("lab `{lab}`: {error:#}"));
                ("unreachable", None)
            }
            (Ok(observed), _) if !observed.exists => ("no cluster", None),
            (Ok(observed), _) if observed.stopped => ("paused", None),
            (Ok(observed), applied) => {
                let nodes = observed.pools.values().map(|pool| pool.nodes.len()).sum::<usize>();
                (if applied.is_some() { "up" } else { "partly up" }, Some(nodes))
            }
        };
        rows.push(vec![
            lab.clone(),
            record.provider.spoken().to_owned(),
            state.to_owned(),
            nodes.map_or("-".to_owned(), |nodes| nodes.to_string()),
            record.created.strftime("%Y-%m-%d %H:%M").to_string(),
            record.source.display().to_string(),
        ]);
        documents.push(json!({
            "lab": lab, "provider": record.provider, "state": state, "nodes": nodes,
            "created": record.created, "file": record.source,
        }));
    }
    for class in context.home.hosted().map_err(|error| state_error(error, "read", &context.home.hosts()))? {
        let (row, document) = stored_classes::row(context, &class);
        rows.push(row);
        documents.push(document);
    }
    for (row, document) in kind::rows(context)? {
        rows.push(row);
        documents.push(document);
    }
    match context.ui.format() {
        Format::Json => context.ui.result(&json!({ "schema": "klab.list/1", "labs": documents }).to_string()),
        _ if documents.is_empty() => context.ui.say("no lab is up"),
        _ => context.ui.result(&table(&rows)),
    }
    Ok(())
}
