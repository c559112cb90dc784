//! `klab verify --watch`: the verdicts as they change, until all checks hold.

use std::path::Path;
use std::time::Duration;

use super::Context;
use klab_lab::report::{self, Styles, check_lines};
use klab_lab::spec::Lab;
use klab_lab::verify::Report;
use klab_operations::error::Result;
use klab_operations::grade::hinted;
use klab_operations::ui::Format;
use klab_operations::until_decided::{ApiPoller, Until, look_until};

/// Shows the verdicts on the checks of a stage until all of them hold: the whole report redrawn in a terminal, a line for
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
    // A watcher sees it without delay.
    let mut checks = stage.checks.clone();
    for check in &mut checks {
        check.within = None;
    }
    let stage = Lab { checks, ..stage.clone() };
    let client = context.client(&stage.name.value, kubeconfig)?;
    let mut shown = Shown::default();
    let mut live = ApiPoller::new(&client, &stage.checks, Duration::MAX, true);
    let seen = |report: &mut Report| {
        hinted(report, hint);
        shown.show(context, title, report);
    };
    context.block_on(look_until(&mut live, &stage, Until::Held, seen)).map(|(report, _)| report)
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
        } else if !context.ui.redraw(&context.ui.fitted(&format!(
            "{title}: {}\n\n{}",
            report::summary(report),
            lines.concat()
        ))) {
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
