//! What `klab render` shows: the workload that is meant, and manifests as YAML and as a list. Values of Secrets are replaced.

use serde_json::{Value, json};

use super::Manifest;
use crate::error::{Code, Context, Error, Result};
use klab_lab::spec::{Lab, Workload};

/// A workload of a lab by its name.
///
/// # Errors
/// When there is none of that name, with those there are.
pub fn workload<'l>(lab: &'l Lab, name: &str) -> Result<&'l Workload> {
    lab.workload(name).ok_or_else(|| {
        let names: Vec<&str> = lab.workloads.iter().map(|workload| workload.name.value.as_str()).collect();
        Error::message(Code::NoSuchWorkload, format!("lab `{}` has no workload `{name}`", lab.name))
            .hint(format!("its workloads are {}", names.join(", ")))
    })
}

/// Manifests as YAML documents; with `origins` each says where it comes from.
///
/// # Errors
/// When an object cannot be written as YAML.
pub fn shown(manifests: &[Manifest], origins: bool) -> Result<String> {
    let document = |manifest: &Manifest| {
        let yaml = serde_saphyr::to_string(&manifest.shown())
            .code(Code::KlabFault, || format!("could not write the object from {} as YAML", manifest.origin))?;
        let origin = if origins { format!("# {}\n", manifest.origin) } else { String::new() };
        Ok(format!("---\n{origin}{}\n", yaml.trim_end()))
    };
    manifests.iter().map(document).collect()
}

/// The same for programs.
pub fn shown_list(manifests: &[Manifest]) -> Value {
    let objects: Vec<Value> = manifests.iter().map(Manifest::shown).collect();
    json!({ "apiVersion": "v1", "kind": "List", "items": objects })
}
