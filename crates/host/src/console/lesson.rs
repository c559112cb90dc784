//! Pure: what a lesson gives its learners to type with.

use super::policy::Files;
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
