//! Slips of the pen in tolerations.

use k8s_openapi::api::core::v1::{PodSpec, Toleration};

use klab_scheduler::taint::Taint;

/// The toleration of a pod that looks as if it was to be one of the only taint that is not tolerated.
pub(super) fn of_tolerations<'p>(spec: Option<&'p PodSpec>, taints: &[Taint]) -> Option<&'p Toleration> {
    let [taint] = taints else { return None };
    spec?.tolerations.iter().flatten().find(|toleration| is_slip_of(toleration, taint))
}

/// A toleration as taints are written.
pub(super) fn written(toleration: &Toleration) -> String {
    let text = |value: &Option<String>| value.clone().unwrap_or_default();
    let value = toleration.value.as_ref().map(|value| format!("={value}")).unwrap_or_default();
    let effect = toleration.effect.as_ref().map(|effect| format!(":{effect}")).unwrap_or_default();
    format!("{}{value}{effect}", text(&toleration.key))
}

/// Whether a toleration looks as if it was to be one of this taint, and is none.
fn is_slip_of(toleration: &Toleration, taint: &Taint) -> bool {
    let key = toleration.key.as_deref().unwrap_or_default();
    let value = toleration.value.as_deref().unwrap_or_default();
    let near = |one: &str, two: &str| one == two || strsim::osa_distance(one, two) <= 2.min(two.len() / 3);
    !key.is_empty() && near(key, &taint.key) && (near(value, &taint.value) || key == taint.key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_of_the_pen_in_tolerations() {
        let taint = |text: &str| -> Taint {
            let (key, rest) = text.split_once('=').unwrap();
            let (value, effect) = rest.split_once(':').unwrap();
            Taint { key: key.to_owned(), value: value.to_owned(), effect: effect.to_owned() }
        };
        let own = taint("dedicated=special:NoSchedule");
        for (key, value, slip) in [
            ("dedicate", "special", true),
            ("dedicated", "specal", true),
            ("dedicated", "other", true),
            ("sku", "special", false),
            ("", "", false),
        ] {
            let toleration = Toleration {
                key: Some(key.to_owned()),
                value: Some(value.to_owned()),
                effect: Some("NoSchedule".to_owned()),
                ..Toleration::default()
            };
            assert_eq!(is_slip_of(&toleration, &own), slip, "{}", written(&toleration));
        }
    }
}
