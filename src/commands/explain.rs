//! `klab explain`: why a pod is where it is, or why it is nowhere.

use super::{Context, LabOptions};
use crate::error::{Error, Kind, Result};
use crate::lesson::stage;
use crate::observe;
use crate::pool::at_work::look;
use crate::state::Progress;
use crate::ui::Format;
use klab_lab::report;
use klab_lab::spec::{Lab, Located};
use klab_lab::verify;

/// What can be typed after `klab explain`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// A pod, or a workload of the lab.
    #[arg(value_name = "POD|WORKLOAD")]
    target: String,
    /// The lab, by its name or its file; the one that is up by default.
    #[arg(long, value_name = "LAB")]
    lab: Option<String>,
    /// Namespace of the pod or workload; all are looked through by default.
    #[arg(short, long, value_name = "NAMESPACE")]
    namespace: Option<String>,
    #[command(flatten)]
    options: LabOptions,
}

/// Looks once at the cluster and explains.
///
/// # Errors
/// When the lab is not up, or there is no such pod or workload.
pub fn run(context: &Context, arguments: &Arguments) -> Result<()> {
    let lab = super::applied::lab(context, arguments.lab.as_deref(), &arguments.options)?;
    let lab = as_it_is(context, &lab)?;
    let path = context.kubeconfig(&lab.name.value)?;
    let snapshot = context.block_on(observe::look_at_all(&context.client(&lab.name.value, &path)?))?;
    let around = verify::Context::of(&lab);
    let explanations =
        verify::explain(&snapshot, &around, &arguments.target, arguments.namespace.as_deref()).map_err(|nothing| {
            let error = Error::message(Kind::Usage, nothing.to_string());
            match nothing.similar {
                Some(similar) => error.hint(format!("did you mean `klab explain {similar}`?")),
                None => error.hint("`klab status` shows the workloads, `kubectl get pods -A` the pods"),
            }
        })?;
    match context.ui.format() {
        Format::Json => context.ui.result(&report::explanation_json(&arguments.target, &explanations).to_string()),
        _ => context.ui.result(&report::explanation_text(&explanations, report::Styles::coloured())),
    }
    Ok(())
}

/// The lab after the steps that were done. Where that costs nothing to ask, its pools are there, and in the autoscaler's
/// hands, as they are now: `klab pool` may have changed them.
fn as_it_is(context: &Context, lab: &Lab) -> Result<Lab> {
    let name = &lab.name.value;
    let done = Progress::read(&context.home.lab(name))?.done.min(lab.steps.len());
    let mut lab = stage(lab, done);
    let live = if lab.provider.profile().is_embedded { look(context, name).ok() } else { None };
    for pool in &mut lab.pools {
        if let Some(live) = live.as_ref().and_then(|live| live.lab.pool(&pool.name)) {
            let at = pool.autoscale.as_ref().map_or(&pool.name.at, |bounds| &bounds.at).clone();
            pool.deferred = live.deferred;
            pool.autoscale = live.autoscale.as_ref().map(|bounds| Located::new(bounds.value, at));
        }
    }
    Ok(lab)
}
