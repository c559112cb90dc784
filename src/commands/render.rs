//! `klab render`: the lab's manifests as YAML, as they would be applied.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use super::lesson::find;
use super::{Context, LabOptions, invalid};
use crate::client::connect;
use crate::context::is_path;
use crate::error::{Context as _, Error, Kind, Result};
use crate::event::{About, Warning};
use crate::lesson::stage;
use crate::observe;
use crate::shipped;
use crate::ui::Format;
use klab_lab::spec::{Lab, SimLike, Workload};

/// What can be typed after `klab render`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The lab file, or the name of a lab that is up.
    #[arg(value_name = "LAB")]
    lab: String,
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
    let (mut lab, file) = lab(context, arguments)?;
    if let Some(step) = &arguments.step {
        lab = stage(&lab, find(&lab, step)? + 1);
    }
    let asked = arguments.workload.as_deref();
    let lab = with_nodes(context, &lab, asked)?;
    let manifests = match asked {
        None => crate::render::render(&lab),
        Some(name) => {
            let workload = lab.workload(name).ok_or_else(|| no_workload(&lab, name))?;
            crate::render::render_workload(&lab, workload)
        }
    };
    let manifests = manifests.map_err(|diagnostics| invalid(&file, &diagnostics))?;
    let mut objects: Vec<_> = manifests.iter().map(|manifest| manifest.object.clone()).collect();
    objects.iter_mut().for_each(hide_secrets);
    if context.ui.format() == Format::Json {
        let list = serde_json::json!({ "apiVersion": "v1", "kind": "List", "items": objects });
        context.ui.result(&list.to_string());
        return Ok(());
    }
    let mut text = String::new();
    for (manifest, object) in manifests.iter().zip(&objects) {
        let yaml = serde_saphyr::to_string(object)
            .kind(Kind::Failed, || format!("could not write the object from {} as YAML", manifest.origin))?;
        let _ = writeln!(text, "---\n# {}\n{}", manifest.origin, yaml.trim_end());
    }
    context.ui.result(&text);
    Ok(())
}

/// The lab of a file, the one of this name that is up, or the lesson of this name that comes with klab; and the file for
/// messages.
fn lab(context: &Context, arguments: &Arguments) -> Result<(Lab, PathBuf)> {
    let argument = arguments.lab.as_str();
    if is_path(argument) || Path::new(argument).exists() {
        let file = PathBuf::from(argument);
        return Ok((context.load_where_it_is(&file, arguments.options.load_options())?, file));
    }
    let file = shipped::lab_file(&context.home, Path::new(argument))?;
    if file != Path::new(argument) && context.record(argument)?.is_none() {
        return Ok((context.load_where_it_is(&file, arguments.options.load_options())?, file));
    }
    let lab = super::applied::lab(context, Some(argument), &arguments.options)?;
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
        context.ui.events().about(About::Workload, name.value.as_str()).warn(Warning::NameUnknown, format!(
            "workload `{name}` runs on the first node of pool `{pool}`, whose name is known once the lab is up; shown is \
             the one that the embedded cluster would give it"
        ));
    }
    Ok(Cow::Borrowed(lab))
}

fn no_workload(lab: &Lab, name: &str) -> Error {
    let names: Vec<&str> = lab.workloads.iter().map(|workload| workload.name.value.as_str()).collect();
    Error::message(Kind::Usage, format!("lab `{}` has no workload `{name}`", lab.name))
        .hint(format!("its workloads are {}", names.join(", ")))
}

fn hide_secrets(object: &mut serde_json::Value) {
    if object["kind"] != "Secret" {
        return;
    }
    for field in ["data", "stringData"] {
        if let Some(values) = object.get_mut(field).and_then(serde_json::Value::as_object_mut) {
            values.values_mut().for_each(|value| *value = serde_json::json!("(hidden)"));
        }
    }
}
