//! What az itself looks at before it asks Azure, in its words.

use std::collections::BTreeMap;

use crate::grammar::Arguments;
use crate::refusal::{Code, Refusal};

type Checked<T> = Result<T, Refusal>;

/// Text that begins and ends with a letter or digit, with what is allowed in between.
fn is_enclosed(text: &str, between: impl Fn(char) -> bool) -> bool {
    let is_end = |letter: Option<char>| letter.is_some_and(|letter| letter.is_ascii_alphanumeric());
    is_end(text.chars().next())
        && is_end(text.chars().last())
        && text.chars().all(|letter| letter.is_ascii_alphanumeric() || between(letter))
}

/// The name of a pool, as az takes it; Azure looks at it again.
///
/// # Errors
/// When az refuses it.
pub fn pool_name(name: &str) -> Checked<()> {
    if name.chars().count() > 12 {
        return Err(Refusal::new("--nodepool-name can contain at most 12 characters"));
    }
    if !name.chars().all(char::is_alphanumeric) {
        return Err(Refusal::new("--nodepool-name should contain only alphanumeric characters"));
    }
    let is_plain = name.chars().all(|letter| letter.is_ascii_lowercase() || letter.is_ascii_digit());
    if is_plain && name.starts_with(|letter: char| letter.is_ascii_lowercase()) {
        return Ok(());
    }
    let message = "The value of parameter agentPoolProfile.name is invalid. Please see https://aka.ms/aks-naming-rules for more details.";
    Err(Refusal::azure(Code::InvalidParameter, message)
        .advise("A pool's name has lower-case letters and digits, and begins with a letter."))
}

/// The name of a cluster.
///
/// # Errors
/// When az refuses it.
pub fn cluster_name(name: &str) -> Checked<()> {
    let between = |letter| matches!(letter, '-' | '_');
    if name.len() <= 63 && is_enclosed(name, between) {
        return Ok(());
    }
    Err(Refusal::new(
        "--name cannot exceed 63 characters and can only contain letters, numbers, underscores (_) or dashes (-).",
    ))
}

/// A Kubernetes version without a `v` before it.
///
/// # Errors
/// When it is none.
pub fn version(text: &str) -> Checked<&str> {
    let plain = text.strip_prefix(['v', 'V']).unwrap_or(text);
    let parts: Vec<&str> = plain.split('.').collect();
    let is_number = |part: &&str| !part.is_empty() && part.bytes().all(|digit| digit.is_ascii_digit());
    if matches!(parts.len(), 2 | 3) && parts.iter().all(is_number) {
        return Ok(plain);
    }
    Err(Refusal::new(
        "--kubernetes-version should be the full version number or major.minor version number, such as \"1.7.12\" or \"1.7\"",
    ))
}

/// Taints as they are typed, joined by commas; the empty text is none.
///
/// # Errors
/// When az refuses one: a taint of az has a value.
pub fn taints(text: &str) -> Checked<Vec<String>> {
    let given = text.split(',').filter(|taint| !taint.is_empty());
    let check = |taint: &str| {
        if is_taint(taint) {
            return Ok(taint.to_owned());
        }
        let refusal = Refusal::new(format!("Invalid node taint: {taint}"));
        Err(refusal
            .advise("A taint of az is KEY=VALUE:EFFECT; the effects are NoSchedule, PreferNoSchedule and NoExecute."))
    };
    given.map(check).collect()
}

/// Whether a taint has the form that az asks for.
fn is_taint(text: &str) -> bool {
    let Some((key, rest)) = text.split_once('=') else { return false };
    let Some((value, effect)) = rest.rsplit_once(':') else { return false };
    let is_part = |part: &str, most: usize, between: &str| {
        let is_inside = |letter: char| letter.is_ascii_alphanumeric() || between.contains(letter);
        part.starts_with(|letter: char| letter.is_ascii_alphanumeric())
            && part.len() <= most
            && part.chars().all(is_inside)
    };
    is_part(key, 253, "_-./")
        && is_part(value, 63, "_-.")
        && ["NoSchedule", "PreferNoSchedule", "NoExecute"].contains(&effect)
}

const PREFIX: &str = "Prefix part a DNS-1123 label must consist of lower case alphanumeric characters or '-', and must start and end \
                      with an alphanumeric character";
const QUALIFIED: &str = "A qualified name must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an \
                         alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc') with an optional DNS subdomain prefix \
                         and '/' (e.g. 'example.com/MyName')";
const VALUE: &str = "A valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start \
                     and end with an alphanumeric character";

/// Labels as they are typed, each a word of its own.
///
/// # Errors
/// When az refuses one.
pub fn labels(words: &[String]) -> Checked<BTreeMap<String, String>> {
    let mut labels = BTreeMap::new();
    for label in words.iter().filter(|label| !label.is_empty()) {
        let refused = |why: &str| Err(Refusal::new(format!("Invalid label: {label}. {why}")));
        let parts: Vec<&str> = label.split('=').collect();
        let [key, value] = parts.as_slice() else {
            return refused("Label definition must be of format name=value.");
        };
        let (prefix, name) = match key.split('/').collect::<Vec<_>>().as_slice() {
            [name] => (None, *name),
            [prefix, name] => (Some(*prefix), *name),
            _ => return refused(QUALIFIED),
        };
        if let Some(prefix) = prefix {
            if prefix.is_empty() || prefix.len() > 253 {
                return refused("Label prefix can't be empty or more than 253 chars.");
            }
            let is_part = |part: &str| is_enclosed(part, |letter| letter == '-') && !part.contains(char::is_uppercase);
            if !prefix.split('.').all(is_part) {
                return refused(PREFIX);
            }
        }
        let between = |letter| matches!(letter, '-' | '_' | '.');
        if name.is_empty() || name.len() > 63 {
            return refused("Label name can't be empty or more than 63 chars.");
        }
        if !is_enclosed(name, between) {
            return refused(QUALIFIED);
        }
        if value.len() > 63 {
            return refused("Label must not be more than 63 chars.");
        }
        if !value.is_empty() && !is_enclosed(value, between) {
            return refused(VALUE);
        }
        labels.insert((*key).to_owned(), (*value).to_owned());
    }
    Ok(labels)
}

/// Tags as they are typed: `key=value`, or a key alone. The empty word takes all away.
pub fn tags(words: &[String]) -> BTreeMap<String, String> {
    let pair = |word: &String| {
        let (key, value) = word.split_once('=').unwrap_or((word, ""));
        (key.to_owned(), value.to_owned())
    };
    words.iter().filter(|word| !word.is_empty()).map(pair).collect()
}

/// Zones as they are typed. Commas between them, as a shell that knows lists has them, are not taken amiss.
///
/// # Errors
/// When one is no zone of Azure.
pub fn zones(words: &[String], location: &str) -> Checked<Vec<i64>> {
    let each = words.iter().flat_map(|word| word.split(',')).map(str::trim).filter(|word| !word.is_empty());
    let mut zones: Vec<i64> = Vec::new();
    for word in each {
        match word.parse() {
            Ok(zone @ 1..=3) if !zones.contains(&zone) => zones.push(zone),
            Ok(1..=3) => {}
            _ => {
                let message = format!(
                    "The zone(s) '{word}' for resource 'agentPoolProfile' is not supported. The supported zones for location '{location}' are '1,2,3'"
                );
                return Err(Refusal::azure(Code::AvailabilityZoneNotSupported, &message));
            }
        }
    }
    zones.sort_unstable();
    Ok(zones)
}

/// Fewest and most nodes, where the autoscaler is to decide; `count` is that of a new pool.
///
/// # Errors
/// When az refuses them.
pub fn bounds(given: &Arguments, is_enabled: bool, is_system: bool, count: Option<i64>) -> Checked<Option<(i64, i64)>> {
    for flag in ["--min-count", "--max-count"] {
        if given.number(flag).is_some_and(|number| !(0..=1000).contains(&number)) {
            return Err(Refusal::new(format!("{flag} must be in the range [0,1000]")));
        }
    }
    let (min, max) = (given.number("--min-count"), given.number("--max-count"));
    if !is_enabled {
        let flags = if count.is_some() {
            "--enable-cluster-autoscaler"
        } else {
            "--enable-cluster-autoscaler or --update-cluster-autoscaler"
        };
        return match (min, max) {
            (None, None) => Ok(None),
            _ => Err(Refusal::new(format!("min-count and max-count are required for {flags}, please use the flag"))),
        };
    }
    let (Some(min), Some(max)) = (min, max) else {
        return Err(Refusal::new(
            "Please specify both min-count and max-count when --enable-cluster-autoscaler enabled",
        ));
    };
    if min > max {
        return Err(Refusal::new("Value of min-count should be less than or equal to value of max-count"));
    }
    if count.is_some_and(|count| count < min || count > max) {
        return Err(Refusal::new("node-count is not in the range of min-count and max-count"));
    }
    if is_system && min < 1 {
        return Err(Refusal::new("Value of min-count should be greater than or equal to 1 for System node pools"));
    }
    Ok(Some((min, max)))
}

/// Greatest price of a spot node; `None` is up to the regular price.
///
/// # Errors
/// When az refuses it.
pub fn spot_price(given: &Arguments) -> Checked<Option<f64>> {
    let Some(text) = given.word("--spot-max-price") else { return Ok(None) };
    let Ok(price) = text.parse::<f64>() else {
        return Err(Refusal::usage(format!("argument --spot-max-price: invalid float value: '{text}'")));
    };
    if given.word("--priority") != Some("Spot") {
        return Err(Refusal::new("--spot_max_price can only be set when --priority is Spot"));
    }
    if text.split_once('.').is_some_and(|(_, decimals)| decimals.len() > 5) {
        return Err(Refusal::new("--spot_max_price can only include up to 5 decimal places"));
    }
    if price > 0.0 {
        return Ok(Some(price));
    }
    if (price + 1.0).abs() < 1e-6 {
        return Ok(None);
    }
    Err(Refusal::new(
        "--spot_max_price can only be any decimal value greater than zero, or -1 which indicates default price to be up-to on-demand",
    ))
}

/// The number of pods that a node may hold.
///
/// # Errors
/// When Azure refuses it.
pub fn max_pods(given: &Arguments, is_system: bool) -> Checked<Option<i64>> {
    let Some(count) = given.number("--max-pods") else { return Ok(None) };
    let least = if is_system { 30 } else { 10 };
    if (least..=250).contains(&count) {
        return Ok(Some(count));
    }
    let message = format!(
        "The value of parameter agentPoolProfile.maxPods is invalid. It must be between {least} and 250, and is {count}."
    );
    Err(Refusal::azure(Code::InvalidParameter, &message))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused<T: std::fmt::Debug>(checked: Checked<T>) -> String {
        checked.map_or_else(
            |refusal| refusal.message.lines().next().unwrap_or_default().to_owned(),
            |value| format!("{value:?}"),
        )
    }

    #[test]
    fn names_are_judged_by_az_and_then_by_azure() {
        for (name, expected) in [
            ("extra", "()"),
            ("appsnodepool", "()"),
            ("toolongpoolname", "--nodepool-name can contain at most 12 characters"),
            ("a-b", "--nodepool-name should contain only alphanumeric characters"),
            (
                "Bad",
                "(InvalidParameter) The value of parameter agentPoolProfile.name is invalid. Please see https://aka.ms/aks-naming-rules for more details.",
            ),
        ] {
            assert_eq!(refused(pool_name(name)), expected);
        }
        assert_eq!((cluster_name("my_Cluster-1").is_ok(), cluster_name("-a").is_ok()), (true, false));
        assert_eq!((version("v1.36").unwrap(), version("1").is_ok(), version("1.x").is_ok()), ("1.36", false, false));
    }

    #[test]
    fn taints_have_values_and_labels_one_sign_of_equality() {
        assert_eq!(taints("a=b:NoSchedule,c/d=e:NoExecute").unwrap().len(), 2);
        assert_eq!(taints("").unwrap().len(), 0);
        for taint in ["a:NoSchedule", "a=:NoSchedule", "a=b:Sometimes", "a=b"] {
            assert_eq!(refused(taints(taint)), format!("Invalid node taint: {taint}"));
        }
        let of = |label: &str| refused(labels(&[label.to_owned()]));
        assert_eq!(of("workload=extra"), r#"{"workload": "extra"}"#);
        assert_eq!(of("example.com/a="), r#"{"example.com/a": ""}"#);
        assert_eq!(of("a"), "Invalid label: a. Label definition must be of format name=value.");
        assert!(of("a=b=c").contains("format name=value"));
        assert!(of("Ex.com/a=b").contains("DNS-1123"));
        assert!(of("a=-").contains("A valid label must be"));
        assert!(of("-a=b").contains("A qualified name must consist"));
    }

    #[test]
    fn zones_are_one_to_three_with_commas_or_without() {
        let of = |words: &str| {
            let words: Vec<String> = words.split_whitespace().map(str::to_owned).collect();
            refused(zones(&words, "westeurope"))
        };
        for (words, expected) in [("3 1", "[1, 3]"), ("1, 2, 3", "[1, 2, 3]"), ("1,2", "[1, 2]"), ("2 2", "[2]")] {
            assert_eq!(of(words), expected);
        }
        assert!(of("4").starts_with("(AvailabilityZoneNotSupported) The zone(s) '4'"));
    }
}
