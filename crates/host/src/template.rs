//! What all seats of a lab begin as: one cluster, made and found to hold before the class begins.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use klab_lab::plan::plan;
use klab_lab::spec::Lab;
use klab_lab::verify::{CheckResult, Report, Verdict};
use klab_lab::words::{duration, plural};
use klab_operations::apply::Applier;
use klab_operations::error::{Code, Error, Result};
use klab_operations::event::{Events, Verb};
use klab_operations::lesson::{self, stage};
use klab_operations::observe;
use klab_operations::provider::sim::seat::Seat;
use klab_operations::provider::{Options, Provider, Work};
use klab_operations::render;
use klab_operations::state::{Journal, Progress};
use klab_operations::until_decided::{ApiPoller, Until, look_until};
use klab_server::Server;
use klab_server::files::create_private_folder;

/// How long its checks are waited for.
const PATIENCE: Duration = Duration::from_mins(2);

/// Makes the template of a lab, where it was not made already, and gives how far its lesson has come then. `folder` is the
/// template's own; what says that it is complete is written last. Its cluster is called as the lab, and so are the nodes of one
/// like kind; no seat is called as a lab.
///
/// # Errors
/// When it cannot be made, or its set-up does not hold.
pub fn make(server: &Arc<Server>, lab: &Lab, folder: &Path, events: &Events) -> Result<Progress> {
    let (cluster, complete) = (lab.name.value.as_str(), folder.join("progress.json"));
    if complete.is_file() && server.api(cluster).is_some() {
        return Progress::of(folder, lab.steps.len());
    }
    let failed = |error| klab_operations::state::home::state_error(error, "use", folder);
    create_private_folder(folder).map_err(failed)?;
    server.remove(cluster).map_err(|status| Error::message(Code::ClassFault, status.message))?;
    let activity = events.start(Verb::CreateCluster, format!("the template of lab {}", lab.name));
    let seat = Seat::begin(server, cluster, lab)?;
    let quiet = Events::nowhere();
    let mut journal = Journal::nowhere();
    let mut work = Work { journal: &mut journal, events: &quiet };
    let beginning = stage(lab, 0);
    let observed = seat.observe(cluster, Some(&beginning))?;
    seat.perform_all(&beginning, &plan(&beginning, &observed), &Options::default(), &mut work)?;
    let client = seat.client();
    let mut progress = Progress::default();
    let report = seat.runtime().block_on(async {
        let named = observe::nodes_named(client, &beginning).await?;
        let manifests = render::render(&named).map_err(|diagnostics| Error {
            diagnostics: diagnostics.render(true),
            ..Error::message(Code::InvalidLab, format!("the objects of lab `{}` could not be rendered", lab.name))
        })?;
        Applier::new(client.clone(), &lab.name.value).apply(&manifests, &[].into(), false).await?;
        let mut live = ApiPoller::new(client, &beginning.checks, PATIENCE, true);
        let (report, snapshot) = look_until(&mut live, &beginning, Until::Decided(PATIENCE), |_| {}).await?;
        lesson::note_before(lab, &mut progress, &snapshot);
        Ok::<_, Error>(report)
    })?;
    if let Some(check) = first_open(&report) {
        let why = match &check.verdict {
            Verdict::Held => String::new(),
            Verdict::NotYet { waiting_for } => {
                format!("; after {} it still waits: {waiting_for}", duration(report.elapsed))
            }
            Verdict::Impossible { because } => format!("; {because}"),
        };
        let message = format!("the set-up of lab `{}` does not hold: {} → {}{why}", lab.name, check.name, check.now());
        let mut error =
            Error::message(Code::DoesNotHold, message).hint("`klab up` with the lab file shows what is wrong");
        for fault in seat.runtime().block_on(observe::faults(client)) {
            error = error.hint(format!("the embedded cluster goes on without an object: {fault}"));
        }
        return Err(error);
    }
    progress.write(folder)?;
    activity.finish(format!("the template of lab {}, {}", lab.name, plural(report.checks.len(), "check")));
    Ok(progress)
}

/// The line about a report: a check that can no longer hold before those that wait for something.
fn first_open(report: &Report) -> Option<&CheckResult> {
    let impossible = report.checks.iter().find(|check| matches!(check.verdict, Verdict::Impossible { .. }));
    impossible.or_else(|| report.checks.iter().find(|check| !check.verdict.is_held()))
}
