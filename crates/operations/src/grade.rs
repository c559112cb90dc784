//! Grading: waits for the checks of a stage, writes the report, and fails where it does.

use std::path::Path;
use std::time::Duration;

use kube::Client;
use serde_json::json;

use crate::client::NoAnswer;
use crate::context::Context;
use crate::error::{Code, Error, Result};
use crate::event::{About, Verb};
use crate::observe;
use crate::ui::Format;
use crate::until_decided::{ApiPoller, LOOK, Until, look_until};
use klab_lab::report::{self, Suite};
use klab_lab::spec::Lab;
use klab_lab::verify::{CheckResult, Difference, Prediction, Report};
use klab_lab::words::{duration, first_of, plural};

/// What is graded, and how the report words it.
pub struct Grading<'a> {
    /// What holds or not: `the lab`, ``step 3 of 9 `taint` ``.
    pub what: &'a str,
    /// The lab and the step (from 0) whose checks they are, where they are a step's.
    pub step: Option<(&'a Lab, usize)>,
    /// Say little where everything holds.
    pub quietly: bool,
    /// In JSON, write the report as one event among others.
    pub document: bool,
}

/// Writes the report of a lab that was just made, where something does not hold.
///
/// # Errors
/// When a check does not hold (1) or the deadline passes before that is certain (5).
pub fn report_set_up(context: &Context, report: Report, timeout: Duration) -> Result<()> {
    grade_report(context, report, timeout, &Grading { what: "the lab", step: None, quietly: true, document: false })
}

/// Waits for the checks of a stage and writes the report.
///
/// # Errors
/// When a check does not hold (1) or the deadline passes before that is certain (5).
pub fn grade(
    context: &Context,
    stage: &Lab,
    kubeconfig: &Path,
    timeout: Duration,
    grading: &Grading<'_>,
) -> Result<()> {
    let report = wait(context, stage, kubeconfig, timeout)?;
    grade_report(context, report, timeout, grading)
}

fn grade_report(context: &Context, mut report: Report, timeout: Duration, grading: &Grading<'_>) -> Result<()> {
    hinted(&mut report, grading.step.and_then(|(lab, step)| lab.steps.get(step)?.hint.as_deref()));
    write_report(context, &report, grading)?;
    judge(context, &report, timeout, grading)
}

/// A learner who fails a step whose check has no hint gets the word about the step.
pub fn hinted(report: &mut Report, hint: Option<&str>) {
    let failed = || |check: &&mut CheckResult| !check.verdict.is_held();
    if report.checks.iter_mut().filter(failed()).any(|check| check.hint.is_some()) {
        return;
    }
    if let Some(first) = report.checks.iter_mut().find(failed()) {
        first.hint = hint.map(str::to_owned);
    }
}

/// Prints a report in the format that the user chose.
///
/// # Errors
/// When a JUnit document cannot be written.
pub fn write_report(context: &Context, report: &Report, grading: &Grading<'_>) -> Result<()> {
    let quietly = grading.quietly && report.ok();
    match context.ui.format() {
        Format::Human | Format::Csv | Format::Svg | Format::Mermaid | Format::Markdown => {
            let text = context.ui.fitted(&report::human(report, report::Styles::coloured()));
            if quietly { context.ui.say(text.trim_end()) } else { context.ui.result(&text) }
        }
        Format::Json if quietly => {}
        Format::Json => {
            let mut document = report::json(report);
            if let Some((lab, step)) = grading.step {
                document["step"] = json!({
                    "name": lab.steps.get(step).map(|step| &step.name.value), "number": step + 1,
                    "of": lab.steps.len(),
                });
            }
            if grading.document {
                document["event"] = json!("report");
            }
            context.ui.result(&document.to_string());
        }
        Format::Junit => {
            let name = grading.step.map_or(report.lab.as_str(), |(lab, step)| {
                lab.steps.get(step).map_or(report.lab.as_str(), |step| step.name.value.as_str())
            });
            context.ui.result(&report::junit(&[Suite { name, report }]).map_err(anyhow::Error::from)?);
        }
    }
    Ok(())
}

/// Says what a report comes to.
///
/// # Errors
/// When a check does not hold.
pub fn judge(context: &Context, report: &Report, timeout: Duration, grading: &Grading<'_>) -> Result<()> {
    let words = verdict(report, timeout, grading.what)?;
    context.ui.events().counting(report.checks.len()).note(Verb::VerifyLab, words);
    Ok(())
}

/// What a report comes to, in words.
///
/// # Errors
/// When a check does not hold (1) or the deadline passed before that was certain (5).
pub fn verdict(report: &Report, timeout: Duration, what: &str) -> Result<String> {
    let total = report.checks.len();
    if report.ok() {
        return Ok(format!("{} of {} in {}", report.held(), plural(total, "check"), duration(report.elapsed)));
    }
    let failed = format!("{} of {}", total.saturating_sub(report.held()), plural(total, "check"));
    if report.decided() {
        return Err(Error::message(Code::DoesNotHold, format!("{what} does not hold: {failed} failed")));
    }
    let open = match total.saturating_sub(report.held()) {
        1 => "1 check has".to_owned(),
        open => format!("{open} checks have"),
    };
    let message = format!("{what} is still waiting after {}: {open} not passed yet", duration(timeout));
    Err(Error::message(Code::StillWaiting, message).hint("`--timeout 10m` waits longer"))
}

/// Watches until every check holds, or one can no longer hold, or the time is up.
///
/// # Errors
/// When the cluster does not answer.
pub fn wait(context: &Context, lab: &Lab, kubeconfig: impl AsRef<Path>, timeout: Duration) -> Result<Report> {
    let client = client(context, lab, kubeconfig.as_ref(), timeout)?;
    watch_until_final(context, lab, ReachedCluster { client: &client, changed: false }, Until::Decided(timeout), None)
}

/// As [`wait`], until each check is decided by itself: for a score.
///
/// # Errors
/// When the cluster does not answer.
pub fn wait_for_each(context: &Context, lab: &Lab, kubeconfig: &Path, timeout: Duration) -> Result<Report> {
    let client = client(context, lab, kubeconfig, timeout)?;
    watch_until_final(context, lab, ReachedCluster { client: &client, changed: false }, Until::Settled(timeout), None)
}

/// As [`wait`], for a lab that was just made: where its pods were to go is compared with where they are.
///
/// # Errors
/// When the cluster does not answer.
pub fn wait_for_made(context: &Context, lab: &Lab, cluster: ReachedCluster<'_>, timeout: Duration) -> Result<Report> {
    let predicted = predicted(context, lab)?;
    watch_until_final(context, lab, cluster, Until::Decided(timeout), predicted.as_ref())
}

/// As [`wait`], for the set-up: where its pods were to go is compared with where they are.
pub fn wait_for_set_up(context: &Context, lab: &Lab, kubeconfig: &Path, timeout: Duration) -> Result<Report> {
    let (predicted, client) = (predicted(context, lab)?, client(context, lab, kubeconfig, timeout)?);
    let cluster = ReachedCluster { client: &client, changed: false };
    watch_until_final(context, lab, cluster, Until::Decided(timeout), predicted.as_ref())
}

/// A client of the lab's cluster that waits for no answer longer than the person does.
fn client(context: &Context, lab: &Lab, kubeconfig: &Path, timeout: Duration) -> Result<Client> {
    let client = context.client_within(&lab.name.value, kubeconfig, timeout.max(LOOK));
    client.map_err(|error| in_time(error, timeout))
}

/// A cluster that is silent as long as the person would wait is a deadline that passed.
fn in_time(mut error: Error, timeout: Duration) -> Error {
    if NoAnswer::in_error(&error).is_some_and(|silent| silent.after >= timeout) {
        error.code = Code::NoAnswerInTime;
    }
    error
}

/// Where the lab's pods were to go, as `up` has noted it.
fn predicted(context: &Context, lab: &Lab) -> Result<Option<Prediction>> {
    Ok(context.record(&lab.name.value)?.and_then(|record| record.predicted))
}

/// The cluster that is looked at.
#[derive(Clone, Copy)]
pub struct ReachedCluster<'a> {
    /// The connection to it.
    pub client: &'a Client,
    /// Whether it was just changed: then it cannot hold yet and is watched at once. One that may hold already is seen with
    /// one look, without a watch.
    pub changed: bool,
}

fn watch_until_final(
    context: &Context,
    lab: &Lab,
    cluster: ReachedCluster<'_>,
    until: Until,
    predicted: Option<&Prediction>,
) -> Result<Report> {
    let timeout = until.timeout();
    let activity = context
        .ui
        .events()
        .about(About::Lab, &lab.name.value)
        .counting(lab.checks.len())
        .start(Verb::VerifyLab, plural(lab.checks.len(), "check"));
    let result = context.block_on(async {
        let mut live = ApiPoller::new(cluster.client, &lab.checks, timeout, cluster.changed);
        let progress = |report: &mut Report| {
            activity.progress(waiting_for(report, timeout));
        };
        let (mut report, snapshot) = look_until(&mut live, lab, until, progress).await?;
        if !report.ok() {
            warn_of_faults(context, cluster.client).await;
        }
        if let Some(prediction) = predicted {
            let differences = klab_lab::verify::compare(prediction, &snapshot, &klab_lab::verify::Context::of(lab));
            // A workload that was scaled since says nothing about the prediction.
            report.differences = differences.into_iter().filter(Difference::is_of_place).collect();
        }
        Ok(report)
    });
    activity.end();
    result.map_err(|error| in_time(error, timeout))
}

/// Says what is wrong with the cluster itself: a learner would look for it in his own work.
pub async fn warn_of_faults(context: &Context, client: &Client) {
    for fault in observe::faults(client).await {
        context.ui.events().warn(Code::ClusterFault, format!("the cluster has a problem: {fault}"));
    }
}

fn waiting_for(report: &Report, timeout: Duration) -> String {
    let open: Vec<&str> =
        report.checks.iter().filter(|check| !check.verdict.is_held()).map(|check| check.name.as_str()).collect();
    let open = if open.is_empty() { "checks".to_owned() } else { first_of(&open, 1) };
    format!("{open} (limit {})", duration(timeout))
}
