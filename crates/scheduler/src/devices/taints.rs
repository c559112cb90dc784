//! Which taints keep a device from a request.

use k8s_openapi::api::resource::v1::{DeviceTaint, DeviceToleration};

/// The taints that keep a device from a request.
pub(crate) fn untolerated<'a>(
    taints: &'a [DeviceTaint],
    tolerations: Option<&'a [DeviceToleration]>,
) -> impl Iterator<Item = &'a DeviceTaint> {
    let bars = |taint: &&DeviceTaint| matches!(taint.effect.as_str(), "NoSchedule" | "NoExecute");
    taints
        .iter()
        .filter(bars)
        .filter(move |taint| !tolerations.into_iter().flatten().any(|toleration| tolerates(toleration, taint)))
}

fn tolerates(toleration: &DeviceToleration, taint: &DeviceTaint) -> bool {
    let any_or = |wanted: &Option<String>, value: &str| {
        wanted.as_deref().filter(|wanted| !wanted.is_empty()).is_none_or(|wanted| wanted == value)
    };
    any_or(&toleration.effect, &taint.effect)
        && any_or(&toleration.key, &taint.key)
        && match toleration.operator.as_deref() {
            None | Some("" | "Equal") => {
                toleration.value.as_deref().unwrap_or_default() == taint.value.as_deref().unwrap_or_default()
            }
            Some("Exists") => true,
            Some(_) => false,
        }
}
