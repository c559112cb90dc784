//! `klab explain`: why a pod is where it is, or why it is nowhere; in a lab, or on any cluster.

mod absent;
mod elsewhere;
mod shown;

use self::absent::absent;
use self::shown::{not_there, show};
use super::elsewhere::Elsewhere;
use super::{Context, LabOptions, joined};
use klab_lab::report;
use klab_lab::spec::{Lab, Located};
use klab_lab::verify;
use klab_operations::error::Result;
use klab_operations::lesson::stage;
use klab_operations::observe;
use klab_operations::pool::ChangedPools;
use klab_operations::pool::locked_pools::look;
use klab_operations::pool::staged::with_kept;
use klab_operations::state::Progress;

/// What can be typed after `klab explain`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// A pod or what makes it: `web-7c9f`, `deployment/web`, or a workload of the lab.
    #[arg(value_name = "POD|WORKLOAD")]
    target: String,
    /// The lab, by its name or its file; the one that is up by default.
    #[arg(long, value_name = "LAB", conflicts_with_all = ["context", "kubeconfig"])]
    lab: Option<String>,
    /// Namespace of the pod or workload; in a lab all are looked through by default, elsewhere it is that of the context.
    #[arg(short, long, value_name = "NAMESPACE")]
    namespace: Option<String>,
    #[command(flatten)]
    elsewhere: Elsewhere,
    #[command(flatten)]
    options: LabOptions,
}

/// Looks once at the cluster and explains.
///
/// # Errors
/// When the lab is not up, the cluster cannot be read, or there is no such pod or workload.
pub fn run(context: &Context, arguments: &Arguments) -> Result<()> {
    // Who types `kubectl klab` means the cluster that kubectl is at, which may be a lab's.
    let as_kubectl =
        context.ui.invocation().is_plugin() && arguments.lab.is_none() && context.lab_of_kubeconfig().is_none();
    if arguments.elsewhere.is_meant() || as_kubectl {
        let (target, namespace) = (arguments.target.as_str(), arguments.namespace.as_deref());
        return elsewhere::run(context, &arguments.elsewhere, target, namespace);
    }
    if let Some(joined) = joined::meant(context, arguments.lab.as_deref())? {
        return joined::explain(context, &joined, &arguments.target, arguments.namespace.as_deref());
    }
    let lab = super::running_lab::lab(context, arguments.lab.as_deref(), &arguments.options).map_err(|error| {
        let hint = "`klab explain POD --context NAME` explains on a cluster that klab did not make";
        if arguments.lab.is_none() { error.hint(hint) } else { error }
    })?;
    let written = lab;
    let done = Progress::of(&context.home.lab(&written.name.value), written.steps.len())?.done;
    let lab = as_it_is(context, &written, done);
    let path = context.kubeconfig(&lab.name.value)?;
    let snapshot = context.block_on(observe::look_at_all(&context.client(&lab.name.value, &path)?))?;
    let around = verify::Context::of(&lab);
    let (target, namespace) = (&arguments.target, arguments.namespace.as_deref());
    let explained = verify::explain(&snapshot, &around, target, namespace).map_err(|nothing| {
        absent(&written, done, target, namespace).unwrap_or_else(|| {
            not_there(&nothing, "`klab status` shows the workloads, `kubectl get pods -A` shows the pods")
        })
    })?;
    show(context, &report::explanation_json(&arguments.target, &explained), &explained);
    Ok(())
}

/// The lab after the steps that were done, with the pools as `klab pool` changed them; where that costs nothing to ask, as
/// they are now.
fn as_it_is(context: &Context, lab: &Lab, done: usize) -> Lab {
    let name = &lab.name.value;
    let kept = ChangedPools::read(&context.home.lab(name)).unwrap_or_default();
    let mut lab = with_kept(stage(lab, done), &kept);
    let live = if lab.provider.profile().is_embedded { look(context, name).ok() } else { None };
    for pool in &mut lab.pools {
        if let Some(live) = live.as_ref().and_then(|live| live.lab.pool(&pool.name)) {
            let at = pool.autoscale.as_ref().map_or(&pool.name.at, |bounds| &bounds.at).clone();
            pool.deferred = live.deferred;
            pool.autoscale = live.autoscale.as_ref().map(|bounds| Located::new(bounds.value, at));
        }
    }
    lab
}
