//! `klab verify --watch`: the verdicts as they change, until all checks hold.

use std::path::Path;
use std::time::{Duration, Instant};

use super::Context;
use super::verify::hinted;
use crate::error::Result;
use crate::observe::{self, Observer};
use crate::ui::Format;
use klab_lab::report::{self, Styles, check_lines};
use klab_lab::spec::Lab;
use klab_lab::verify::{Report, Snapshot, Stability, Windows};

/// How often objects are read again that no watch tells about.
const AGAIN: Duration = Duration::from_secs(2);

/// Shows the verdicts on the checks of a stage until all of them hold: the whole report drawn anew in a terminal, a line for
/// every change elsewhere.
///
/// # Errors
/// When the cluster cannot be watched.
pub(super) fn watch(
    context: &Context,
    stage: &Lab,
    kubeconfig: &Path,
    title: &str,
    hint: Option<&str>,
) -> Result<Report> {
    // Nobody is late who watches.
    let mut checks = stage.checks.clone();
    for check in &mut checks {
        check.within = None;
    }
    let judge = klab_lab::verify::Context::of(stage);
    let client = context.client(&stage.name.value, kubeconfig)?;
    context.block_on(async {
        let started = Instant::now();
        let mut stability = Stability::new(Windows::of(stage.provider));
        let mut observer = Observer::new(&client);
        let mut snapshot: Option<Snapshot> = None;
        let mut look_again: Option<Duration> = None;
        let mut shown = Shown::default();
        loop {
            let news = match (&snapshot, look_again) {
                (Some(_), Some(at)) => {
                    tokio::time::timeout(at.saturating_sub(started.elapsed()), observer.next()).await.ok()
                }
                _ => Some(observer.next().await),
            };
            let mut seen = match (news, snapshot.take()) {
                (Some(news), _) => news?,
                (None, Some(same)) => same,
                (None, None) => continue,
            };
            observe::fetch(&client, &checks, &mut seen).await?;
            let observation = stability.observe(&checks, &seen, &judge, started.elapsed());
            let mut report = observation.report;
            if !report.ok() {
                let mut complete = seen.clone();
                observe::complete(&client, &mut complete).await?;
                klab_lab::verify::diagnose(&mut report, &checks, &complete, &judge);
                hinted(&mut report, hint);
            }
            shown.show(context, title, &report);
            if report.ok() {
                return Ok(report);
            }
            let fetched = checks.iter().any(observe::is_fetched).then(|| started.elapsed().saturating_add(AGAIN));
            look_again = [observation.look_again_at, fetched].into_iter().flatten().min();
            snapshot = Some(seen);
        }
    })
}

/// What was shown last.
#[derive(Default)]
struct Shown {
    lines: Vec<String>,
}

impl Shown {
    fn show(&mut self, context: &Context, title: &str, report: &Report) {
        let lines: Vec<String> = report.checks.iter().map(|check| check_lines(check, Styles::coloured())).collect();
        if lines == self.lines {
            return;
        }
        if context.ui.format() == Format::Junit {
            // One document, when all is over.
        } else if context.ui.format() == Format::Json {
            context.ui.result(&report::json(report).to_string());
        } else if !context.ui.redraw(&format!("{title}: {}\n\n{}", report::summary(report), lines.concat())) {
            let first = |text: &String| text.lines().next().unwrap_or_default().to_owned();
            let before: Vec<String> = self.lines.iter().map(first).collect();
            let now: Vec<String> = lines.iter().map(first).collect();
            for line in now.iter().filter(|line| !before.contains(line)) {
                context.ui.result(line);
            }
        }
        self.lines = lines;
    }
}
