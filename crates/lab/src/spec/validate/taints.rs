//! Taints and tolerations as texts.

use k8s_openapi::api::core::v1::{Taint, Toleration};

use super::syntax::{Mistake, Parsed, label_key, label_value};
use crate::spec::diagnostic::did_you_mean;
use crate::spec::raw;

const EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];

fn effect(text: &str, whole: &str, before: &str) -> Parsed<String> {
    if EFFECTS.contains(&text) {
        return Ok(text.to_owned());
    }
    Err(Mistake::new(format!("`{whole}` has no valid effect"), format!("there is no effect `{text}`"))
        .help("the effects are NoSchedule, PreferNoSchedule and NoExecute")
        .instead(did_you_mean(text, EFFECTS).map(|effect| format!("{before}:{effect}"))))
}

/// `key=value` or `key`.
fn key_and_value(text: &str) -> Parsed<(&str, Option<&str>)> {
    let (key, value) = text.split_once('=').map_or((text, None), |(key, value)| (key, Some(value)));
    label_key(key)?;
    value.map(label_value).transpose()?;
    Ok((key, value))
}

/// `key=value:Effect` or `key:Effect`.
pub(super) fn taint(text: &str) -> Parsed<Taint> {
    let form = || {
        Mistake::new(format!("`{text}` is not a taint"), "expected `key=value:Effect` or `key:Effect`")
            .help("the effects are NoSchedule, PreferNoSchedule and NoExecute")
    };
    if let Some(meant) = other_separators(text) {
        return Err(form().instead(Some(meant)));
    }
    let (before, after) = text.rsplit_once(':').ok_or_else(form)?;
    let (key, value) = key_and_value(before)?;
    Ok(Taint {
        key: key.to_owned(),
        value: value.filter(|value| !value.is_empty()).map(str::to_owned),
        effect: effect(after, text, before)?,
        time_added: None,
    })
}

/// The taint or toleration that is meant where its parts are separated by other characters than `=` and `:`.
fn other_separators(text: &str) -> Option<String> {
    let parts: Vec<&str> = text.split([':', '=']).collect();
    let [key, value, last] = parts.as_slice() else { return None };
    let meant = format!("{key}={value}:{last}");
    (EFFECTS.contains(last) && meant != text && taint(&meant).is_ok()).then_some(meant)
}

/// Key, value and effect of a taint to take away; value and effect may be missing.
pub(super) fn taint_pattern(text: &str) -> Parsed<(String, Option<String>, Option<String>)> {
    // kubectl's own form ends with `-`.
    let text = text.strip_suffix('-').unwrap_or(text);
    let (before, after) = text.rsplit_once(':').map_or((text, None), |(before, after)| (before, Some(after)));
    let (key, value) = key_and_value(before)?;
    let effect = after.map(|after| effect(after, text, before)).transpose()?;
    Ok((key.to_owned(), value.map(str::to_owned), effect))
}

/// A toleration as text or as the Kubernetes structure.
pub(super) fn toleration(raw: &raw::TolerationText) -> Parsed<Toleration> {
    match raw {
        raw::TolerationText::Text(text) => toleration_text(text),
        raw::TolerationText::Table(table) => toleration_table(table),
    }
}

fn toleration_text(text: &str) -> Parsed<Toleration> {
    if let Some(meant) = other_separators(text) {
        let label = "expected `key=value:Effect`, `key:Effect` or `key`";
        return Err(Mistake::new(format!("`{text}` is not a toleration"), label)
            .help("the effects are NoSchedule, PreferNoSchedule and NoExecute")
            .instead(Some(meant)));
    }
    let (before, after) = text.rsplit_once(':').map_or((text, None), |(before, after)| (before, Some(after)));
    if text.is_empty() || before.starts_with('=') {
        return Err(Mistake::new(format!("`{text}` is not a toleration"), "the key is missing")
            .help("write `key=value:Effect`, `key:Effect`, `key`, or `{ operator = \"Exists\" }` for every taint"));
    }
    let (key, value) = if before.is_empty() { ("", None) } else { key_and_value(before)? };
    Ok(Toleration {
        key: (!key.is_empty()).then(|| key.to_owned()),
        operator: Some(if value.is_some() { "Equal" } else { "Exists" }.to_owned()),
        value: value.map(str::to_owned),
        effect: after.map(|after| effect(after, text, before)).transpose()?,
        toleration_seconds: None,
    })
}

fn toleration_table(table: &Toleration) -> Parsed<Toleration> {
    let text = |value: &Option<String>| value.clone().unwrap_or_default();
    let (key, operator, value, given) =
        (text(&table.key), text(&table.operator), text(&table.value), text(&table.effect));
    let mistake = |label: &str| Err(Mistake::new("Kubernetes refuses this toleration", label));
    if !key.is_empty() {
        label_key(&key)?;
    }
    if !given.is_empty() && !EFFECTS.contains(&given.as_str()) {
        return mistake(&format!("there is no effect `{given}`; there are {}", EFFECTS.join(", ")));
    }
    match operator.as_str() {
        "" | "Equal" if key.is_empty() => return mistake("without a key, `operator` must be \"Exists\""),
        "" | "Equal" => label_value(&value).map(|_| ())?,
        "Exists" if !value.is_empty() => return mistake("with `operator = \"Exists\"` there is no value"),
        "Lt" | "Gt" if key.is_empty() || !value.parse().is_ok_and(|number: i64| number.to_string() == value) => {
            return mistake("with this operator, there is a key, and `value` is a whole number, as a string");
        }
        "Exists" | "Lt" | "Gt" => {}
        other => return mistake(&format!("there is no operator `{other}`; there are Equal, Exists, Lt and Gt")),
    }
    if table.toleration_seconds.is_some() && given != "NoExecute" {
        return mistake("`tolerationSeconds` needs `effect = \"NoExecute\"`");
    }
    Ok(table.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn taints_have_key_and_effect() {
        let good = ["a=b:NoSchedule", "a:NoExecute", "example.com/a=b:PreferNoSchedule", "a=:NoSchedule"];
        assert!(good.iter().all(|text| taint(text).is_ok()));
        for bad in
            ["", "a", "a=b", "a=b:noschedule", ":NoSchedule", "=b:NoSchedule", "a b:NoSchedule", "a=b c:NoSchedule"]
        {
            assert!(taint(bad).is_err(), "{bad:?} should be refused");
        }
        let parsed = taint("a:NoSchedule").unwrap();
        assert_eq!((parsed.key.as_str(), parsed.value, parsed.effect.as_str()), ("a", None, "NoSchedule"));
        let colons = taint("dedicated:special:NoSchedule").unwrap_err();
        assert_eq!(colons.instead.as_deref(), Some("dedicated=special:NoSchedule"));
        assert_eq!(taint("a:b:c:NoSchedule").unwrap_err().instead, None);
        assert_eq!(taint("a=b:NoSchedul").unwrap_err().instead.as_deref(), Some("a=b:NoSchedule"));
    }

    #[test]
    fn tolerations_mean_what_kubernetes_means() {
        let read = |text: &str| toleration(&raw::TolerationText::Text(text.to_owned()));
        let equal = read("a=b:NoSchedule").unwrap();
        assert_eq!(
            (equal.key.as_deref(), equal.operator.as_deref(), equal.value.as_deref(), equal.effect.as_deref()),
            (Some("a"), Some("Equal"), Some("b"), Some("NoSchedule"))
        );
        let exists = read("a:NoExecute").unwrap();
        assert_eq!((exists.operator.as_deref(), exists.value.as_deref()), (Some("Exists"), None));
        assert_eq!(read("a").unwrap().effect, None);
        assert_eq!(read(":NoSchedule").unwrap().key, None);
        assert!(read("a=:NoSchedule").is_ok());
        assert!(["", "=b", "a:Never", "a b"].iter().all(|text| read(text).is_err()));

        let table = |key: &str, operator: &str, value: &str, effect: &str, seconds| Toleration {
            key: Some(key.to_owned()),
            operator: Some(operator.to_owned()),
            value: Some(value.to_owned()),
            effect: Some(effect.to_owned()),
            toleration_seconds: seconds,
        };
        for (given, is_fine) in [
            (table("a", "Exists", "", "NoExecute", Some(30)), true),
            (table("", "Exists", "", "", None), true),
            (table("", "Equal", "", "", None), false),
            (table("a", "Exists", "b", "", None), false),
            (table("a", "In", "b", "", None), false),
            (table("a", "Gt", "-5", "NoSchedule", None), true),
            (table("a", "Lt", "05", "", None), false),
            (table("", "Lt", "5", "", None), false),
            (table("a", "Equal", "b", "Never", None), false),
            (table("a", "Equal", "b", "NoSchedule", Some(30)), false),
        ] {
            assert_eq!(toleration(&raw::TolerationText::Table(Box::new(given.clone()))).is_ok(), is_fine, "{given:?}");
        }
    }
}
