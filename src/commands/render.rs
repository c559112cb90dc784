//! `klab render`: the lab's manifests as YAML, as they would be applied.

use std::fmt::Write as _;
use std::path::PathBuf;

use super::{Context, LabOptions, invalid};
use crate::error::{Context as _, Error, Kind, Result};
use crate::spec::Lab;
use crate::ui::Format;

/// What can be typed after `klab render`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The lab file.
    #[arg(value_name = "LAB")]
    lab: PathBuf,
    #[command(flatten)]
    options: LabOptions,
    /// Only the objects of this workload, also of one that a step makes.
    #[arg(long, value_name = "NAME")]
    workload: Option<String>,
}

/// Prints the manifests. Values of Secrets are replaced: they never reach output.
///
/// # Errors
/// When the lab is invalid or a template fails.
pub fn run(context: &Context, arguments: &Arguments) -> Result<()> {
    let lab = context.load(&arguments.lab, &arguments.options.load_options())?;
    let manifests = match &arguments.workload {
        None => crate::render::render(&lab),
        Some(name) => {
            let workload = lab.workload(name).ok_or_else(|| no_workload(&lab, name))?;
            crate::render::render_workload(&lab, workload)
        }
    };
    let manifests = manifests.map_err(|diagnostics| invalid(&arguments.lab, &diagnostics))?;
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
