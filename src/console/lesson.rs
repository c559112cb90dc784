//! Pure: what a lesson gives its learners to type with.

use super::policy::Files;
use crate::render::render_workload;
use klab_lab::spec::{Action, Lab, ManifestContent};

/// The manifests that the steps of a lab apply as they are, by the names under which its guide has them.
pub fn files_of(lab: &Lab) -> Files {
    let applied = lab.steps.iter().flat_map(|step| &step.actions).filter_map(|action| match &action.value {
        Action::Apply { content: ManifestContent::Path(path) } => Some(lab.files.matching(path)),
        _ => None,
    });
    let plain = applied.flatten().filter(|file| !file.is_template() && !file.outside);
    plain.map(|file| (file.path.clone(), String::from_utf8_lossy(&file.bytes).into_owned())).collect()
}

/// The manifest of a workload, as `klab render LAB --workload NAME` prints it; none where the lab has no such workload.
pub fn manifest_of(lab: &Lab, name: &str) -> Option<String> {
    let workload = lab.workloads.iter().find(|workload| workload.name.value == name)?;
    let manifests = render_workload(lab, workload).ok()?;
    let objects = manifests.iter().map(|manifest| serde_saphyr::to_string(&manifest.object).ok());
    objects.map(|object| Some(format!("---\n{}\n", object?.trim_end()))).collect()
}
