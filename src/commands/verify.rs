//! `klab verify`: wait until every check holds or can no longer hold, and say which.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::kubeconfig::{client, not_up, path};
use super::{Context, LabOptions};
use crate::error::{Error, Kind, Result};
use crate::observe::{self, Observer};
use crate::report::{self, Suite};
use crate::spec::{self, Lab, Subject};
use crate::ui::{Format, duration, plural};
use crate::verify::{Difference, FetchedObject, Observation, Report, Snapshot, Stability, Windows};

/// What can be typed after `klab verify`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The lab, by its name or its file; the one that is up by default.
    #[arg(value_name = "LAB")]
    lab: Option<String>,
    #[command(flatten)]
    options: LabOptions,
    /// How long to wait until every check holds.
    #[arg(long, value_name = "DURATION", default_value = "2m", value_parser = super::duration)]
    timeout: Duration,
}

/// Verifies the lab.
///
/// # Errors
/// When a check does not hold, with what keeps it from holding.
pub fn run(context: &Context, arguments: &Arguments) -> Result<()> {
    let lab = lab(context, arguments.lab.as_deref(), &arguments.options)?;
    wait_and_report(context, &lab, arguments.timeout, false)
}

/// The lab that is up, from the file that is named or else from the one it was made of.
///
/// # Errors
/// When the lab is not up, or its file is invalid.
pub fn lab(context: &Context, argument: Option<&str>, options: &LabOptions) -> Result<Lab> {
    let name = context.lab_name(argument)?;
    let record = context.record(&name)?.ok_or_else(|| not_up(&name))?;
    let mut load_options = options.load_options();
    load_options.provider = record.provider.parse().ok();
    if load_options.vars.is_empty() {
        load_options.vars.clone_from(&record.vars);
    }
    if let Some(file) = argument.map(Path::new).filter(|file| file.is_file()) {
        return context.load(file, &load_options);
    }
    let saved = context.home.lab(&name).join("lab.toml");
    let text =
        std::fs::read_to_string(&saved).map_err(|error| crate::state::home::state_error(error, "read", &saved))?;
    let parsed = spec::parse(&shown(&record.source), &text, &load_options);
    parsed.map_err(|diagnostics| super::invalid(&record.source, &diagnostics))
}

/// The path as the user would write it here.
fn shown(path: &Path) -> String {
    let here = std::env::current_dir().unwrap_or_default();
    path.strip_prefix(here).unwrap_or(path).display().to_string()
}

/// Waits for the lab's checks and writes the report; with `quietly`, only where something does not hold.
///
/// # Errors
/// When a check does not hold (1) or the deadline passes before that is certain (5).
pub fn wait_and_report(context: &Context, lab: &Lab, timeout: Duration, quietly: bool) -> Result<()> {
    let kubeconfig = path(context, &lab.name.value)?;
    let report = wait(context, lab, kubeconfig, timeout)?;
    match context.ui.format() {
        Format::Human => {
            let text = report::human(&report, report::Styles::coloured());
            if quietly && report.ok() { context.ui.say(text.trim_end()) } else { context.ui.result(&text) }
        }
        Format::Json if quietly && report.ok() => {}
        Format::Json => context.ui.result(&report::json(&report).to_string()),
        Format::Junit => context.ui.result(&report::junit(&[Suite { name: &lab.name.value, report: &report }])?),
    }
    let total = report.checks.len();
    if report.ok() {
        context.ui.events().note(
            "Verified",
            format!("{} of {} in {}", report.held(), plural(total, "check"), duration(report.elapsed)),
        );
        return Ok(());
    }
    let failed = format!("{} of {}", total - report.held(), plural(total, "check"));
    if report.decided() {
        return Err(Error::message(Kind::NotHeld, format!("the lab does not hold: {failed} failed")));
    }
    let message = format!("the lab does not hold after {}: {failed} may still come to hold", duration(timeout));
    Err(Error::message(Kind::Deadline, message).hint("`--timeout 10m` waits longer"))
}

/// Watches until every check holds, or one can no longer hold, or the time is up.
///
/// # Errors
/// When the cluster does not answer.
pub(super) fn wait(context: &Context, lab: &Lab, kubeconfig: PathBuf, timeout: Duration) -> Result<Report> {
    let activity = context.ui.events().start("Verifying", plural(lab.checks.len(), "check"));
    let predicted = context.record(&lab.name.value)?.and_then(|record| record.predicted);
    let result = context.block_on(async {
        let client = client(&kubeconfig).await?;
        let started = Instant::now();
        let judge = crate::verify::Context::of(lab);
        let mut stability = Stability::new(Windows::of(Some(lab.provider)));
        // A lab that holds already is seen with one look, without a watch.
        let mut snapshot = observe::look(&client).await?;
        fetch(&client, lab, &mut snapshot).await?;
        let mut seen = stability.observe(&lab.checks, &snapshot, &judge, started.elapsed());
        let mut observer = None;
        while !is_final(&seen) && started.elapsed() < timeout {
            activity.progress(waiting_for(&seen.report, timeout));
            let observer = observer.get_or_insert_with(|| Observer::new(&client));
            let until = seen.look_again_at.map_or(timeout, |at| at.min(timeout));
            let pause = until.saturating_sub(started.elapsed());
            if let Ok(news) = tokio::time::timeout(pause, observer.next()).await {
                snapshot = news?;
                fetch(&client, lab, &mut snapshot).await?;
            }
            seen = stability.observe(&lab.checks, &snapshot, &judge, started.elapsed());
        }
        if !seen.report.ok() {
            observe::complete(&client, &mut snapshot).await?;
            crate::verify::diagnose(&mut seen.report, &lab.checks, &snapshot, &judge);
        }
        if let Some(prediction) = &predicted {
            let differences = crate::verify::compare(prediction, &snapshot, &judge);
            // A workload that was scaled since says nothing about the prediction.
            seen.report.differences = differences.into_iter().filter(Difference::is_of_place).collect();
        }
        Ok(seen.report)
    })?;
    activity.end();
    Ok(result)
}

/// Whether time and the cluster's own doing will change nothing.
fn is_final(seen: &Observation) -> bool {
    seen.report.decided()
}

fn waiting_for(report: &Report, timeout: Duration) -> String {
    let open: Vec<&str> =
        report.checks.iter().filter(|check| !check.verdict.is_held()).map(|check| check.name.as_str()).collect();
    let more = if open.len() > 1 { format!(" and {} more", open.len() - 1) } else { String::new() };
    format!("{}{more}, up to {}", open.first().unwrap_or(&"checks"), duration(timeout))
}

/// Reads the objects that checks name and that no snapshot holds by itself.
pub(super) async fn fetch(client: &kube::Client, lab: &Lab, snapshot: &mut Snapshot) -> Result<()> {
    let wanted = lab.checks.iter().filter_map(|check| match &check.subject.value {
        Subject::Object(reference) if !Snapshot::answers(reference) => Some(reference),
        _ => None,
    });
    for reference in wanted {
        let object: Option<Value> = observe::object(client, reference).await?;
        let object = object.map(std::sync::Arc::new);
        snapshot.objects.push(FetchedObject { reference: reference.clone(), object });
    }
    Ok(())
}
