//! `klab render`: the lab's manifests as YAML, as they would be applied.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use super::lesson::find;
use super::{Context, LabOptions, invalid, joined};
use klab_lab::spec::{Lab, SimLike, Workload};
use klab_operations::bundled_lessons;
use klab_operations::client::connect;
use klab_operations::context::is_path;
use klab_operations::error::{Code, Result};
use klab_operations::event::About;
use klab_operations::lesson::stage;
use klab_operations::observe;
use klab_operations::render;
use klab_operations::ui::Format;

/// What can be typed after `klab render`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The lab file, or the name of a lab that is up; without it, the one that is meant.
    #[arg(value_name = "LAB")]
    lab: Option<String>,
    #[command(flatten)]
    options: LabOptions,
    /// Only the objects of this workload, also of one that a step makes.
    #[arg(long, value_name = "NAME")]
    workload: Option<String>,
    /// As it is after this step of the lesson, by name or number; at the set-up by default.
    #[arg(long, value_name = "STEP")]
    step: Option<String>,
}

/// Prints the manifests. Values of Secrets are replaced: they never reach output.
///
/// # Errors
/// When the lab is invalid or a template fails.
pub fn run(context: &Context, arguments: &Arguments) -> Result<()> {
    let named = arguments.lab.as_deref();
    if !named.is_some_and(|named| is_path(named) || Path::new(named).is_file())
        && let Some(joined) = joined::meant(context, named)?
    {
        return joined::render(context, &joined, arguments.workload.as_deref(), arguments.step.as_deref());
    }
    let (mut lab, file) = lab(context, arguments)?;
    if let Some(step) = &arguments.step {
        lab = stage(&lab, find(&lab, step)? + 1);
    }
    let asked = arguments.workload.as_deref();
    let lab = with_nodes(context, &lab, asked)?;
    let manifests = match asked {
        None => render::render(&lab),
        Some(name) => render::render_workload(&lab, render::workload(&lab, name)?),
    };
    let manifests = manifests.map_err(|diagnostics| invalid(&file, &diagnostics))?;
    match context.ui.format() {
        Format::Json => context.ui.result(&render::shown_list(&manifests).to_string()),
        _ => context.ui.result(&render::shown(&manifests, true)?),
    }
    Ok(())
}

/// The lab of a file, the one of this name that is up, or the lesson of this name that comes with klab; and the file for
/// messages.
fn lab(context: &Context, arguments: &Arguments) -> Result<(Lab, PathBuf)> {
    if let Some(argument) = arguments.lab.as_deref() {
        let is_file = is_path(argument) || Path::new(argument).is_file();
        let file =
            if is_file { argument.into() } else { bundled_lessons::lab_file(&context.home, Path::new(argument))? };
        if is_file || (file != Path::new(argument) && context.record(argument)?.is_none()) {
            return Ok((context.load_where_it_is(&file, arguments.options.load_options())?, file));
        }
    }
    let lab = super::running_lab::lab(context, arguments.lab.as_deref(), &arguments.options)?;
    let file = PathBuf::from(lab.source.name());
    Ok((lab, file))
}

/// The lab with the names of nodes that the workloads shown ask for by pool: those of its cluster where it is up.
fn with_nodes<'l>(context: &Context, lab: &'l Lab, asked: Option<&str>) -> Result<Cow<'l, Lab>> {
    let is_shown = |workload: &&Workload| asked.map_or(!workload.deferred, |name| workload.name.value == name);
    let mut shown = lab.workloads.iter().filter(is_shown);
    let Some((name, pool)) = shown.find_map(|workload| Some((&workload.name, workload.node_pool()?))) else {
        return Ok(Cow::Borrowed(lab));
    };
    if context.record(&lab.name.value)?.is_some_and(|record| record.provider == lab.provider) {
        let kubeconfig = context.kubeconfig(&lab.name.value)?;
        return context.block_on(async {
            let named = observe::nodes_named(&connect(&kubeconfig).await?, lab).await?;
            named.workloads.iter().filter(is_shown).try_for_each(observe::refuse_without_node)?;
            Ok(named)
        });
    }
    if !lab.provider.profile().is_embedded || lab.sim.like != SimLike::Aks {
        context.ui.events().about(About::Workload, name.value.as_str()).warn(Code::NameUnknown, format!(
            "workload `{name}` runs on the first node of pool `{pool}`, whose name is known once the lab is up; shown is \
             the one that the embedded cluster would give it"
        ));
    }
    Ok(Cow::Borrowed(lab))
}
