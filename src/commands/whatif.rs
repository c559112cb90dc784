//! `klab whatif`: changes tried on a copy of a cluster, and what becomes of its pods.

use std::path::{Path, PathBuf};

use klab_whatif::{Answer, Change, human, json, junit, lost_words, markdown, what_if};

use super::Context;
use super::copied::{Copied, at_work, show as show_answer};
use klab_lab::spec::UpgradeSettings;
use klab_operations::capture;
use klab_operations::error::{Code, Context as _, Error, Result};
use klab_operations::event::Verb;
use klab_operations::ui::Format;

/// What can be typed after `klab whatif`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    cluster: Copied,
    #[command(flatten)]
    changes: Changes,
}

/// The changes, in the order in which they are made: nodes come first, and go last.
#[derive(Debug, clap::Args)]
struct Changes {
    /// A pool has this number of nodes, or nodes of another size: `general=3`, `general.size=Standard_D8s_v5`.
    #[arg(long, value_name = "POOL=NODES", value_parser = Change::pool)]
    pool: Vec<Change>,
    /// Nodes get a taint: `general:dedicated=web:NoSchedule`; `general:dedicated-` takes it away.
    #[arg(long, value_name = "NODE|POOL:TAINT", value_parser = Change::taint)]
    taint: Vec<Change>,
    /// Nodes get a label: `general:disk=ssd`; `general:disk-` takes it away.
    #[arg(long, value_name = "NODE|POOL:LABEL", value_parser = Change::label)]
    label: Vec<Change>,
    /// The scheduler has the configuration of this file, a KubeSchedulerConfiguration.
    #[arg(long, value_name = "FILE")]
    profile: Option<PathBuf>,
    /// A workload has this number of pods: `deployment/web=30`, `team/statefulset/db=3`.
    #[arg(long, value_name = "WORKLOAD=REPLICAS", value_parser = Change::scale)]
    scale: Vec<Change>,
    /// The objects of a file are made, too, once or several times: `web.yaml`, `web.yaml*20`.
    #[arg(long, value_name = "FILE[*TIMES]")]
    add: Vec<String>,
    /// The manifests of a file or a folder are applied.
    #[arg(long, value_name = "FILE|FOLDER")]
    apply: Vec<PathBuf>,
    /// A node or a pool is cordoned and drained.
    #[arg(long, value_name = "NODE|POOL")]
    drain: Vec<String>,
    /// A pool is upgraded: its nodes are drained and replaced, as many at a time as its lab says, or a tenth.
    #[arg(long, value_name = "POOL")]
    upgrade: Vec<String>,
    /// All nodes of a zone fail: `1`, or `westeurope-1`.
    #[arg(long, value_name = "ZONE")]
    zone_down: Vec<String>,
}

/// Reads the cluster, tries the changes, and prints what becomes of it.
///
/// # Errors
/// When the cluster or a file cannot be read, a change names what is not there, or something that runs today would not run.
pub fn run(context: &Context, arguments: &Arguments) -> Result<()> {
    let mut changes = arguments.changes.in_order()?;
    if changes.is_empty() {
        let error = Error::message(Code::Flags, "no change is given, so there is nothing to try");
        return Err(
            error.hint("`klab whatif --help` lists the changes: --pool general=3, --drain general, --zone-down 1, …")
        );
    }
    let capture = arguments.cluster.read(context)?;
    if changes.iter().any(|change| matches!(change, Change::Upgrade { .. })) {
        let lab = arguments.cluster.lab(context)?;
        for change in &mut changes {
            if let Change::Upgrade { pool, settings } = change {
                *settings = lab.as_ref().and_then(|lab| lab.pool(pool)).map(|pool| pool.upgrade).unwrap_or_default();
            }
        }
    }
    let answer =
        at_work(context, Verb::TryChanges, "the changes on copies of the cluster", || what_if(&capture, &changes));
    let answer = answer.map_err(|error| Error::new(Code::Flags, error))?;
    show(context, &answer)?;
    if answer.fails() { Err(would_not_run(&answer)) } else { Ok(()) }
}

impl Changes {
    fn in_order(&self) -> Result<Vec<Change>> {
        let mut changes: Vec<Change> = [&self.pool, &self.taint, &self.label].into_iter().flatten().cloned().collect();
        if let Some(file) = &self.profile {
            let configuration = capture::configuration(file)?;
            changes.push(Change::Profile { configuration });
        }
        changes.extend(self.scale.iter().cloned());
        for text in &self.add {
            let (file, times) = Change::times(text).map_err(|why| Error::message(Code::Usage, why))?;
            changes.push(Change::Add { objects: capture::objects(Path::new(file))?, times });
        }
        for file in &self.apply {
            changes.push(Change::Apply { objects: capture::objects(file)? });
        }
        changes.extend(self.drain.iter().map(|target| Change::Drain { target: target.clone() }));
        changes.extend(
            self.upgrade
                .iter()
                .map(|pool| Change::Upgrade { pool: pool.clone(), settings: UpgradeSettings::default() }),
        );
        changes.extend(self.zone_down.iter().map(|zone| Change::ZoneDown { zone: zone.clone() }));
        Ok(changes)
    }
}

fn show(context: &Context, answer: &Answer) -> Result<()> {
    match context.ui.format() {
        Format::Junit => {
            let text = junit(answer).code(Code::KlabFault, || "could not write the answer as JUnit".to_owned())?;
            context.ui.result(&text);
        }
        Format::Markdown => context.ui.result(&markdown(answer)),
        _ => show_answer(context, &json(answer), &human(answer)),
    }
    Ok(())
}

fn would_not_run(answer: &Answer) -> Error {
    let lost = answer.lost();
    let words = if lost == 0 { "a drain does not come to its end".to_owned() } else { lost_words(lost) };
    Error::message(Code::WouldNotRun, words)
}
