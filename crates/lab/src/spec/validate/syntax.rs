//! The small languages inside strings: names, labels, quantities, counts, node sets, durations.

use std::collections::BTreeMap;

use jiff::SignedDuration;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use crate::spec::check::{Count, NodeSet, ObjectRef};
use crate::spec::raw;
use crate::spec::version::KubernetesVersion;
use klab_scheduler::quantity::Quantity as Amount;
use klab_scheduler::selector::{Selector, check_key, check_value};

/// What is wrong with a text, and what would be right.
#[derive(Debug)]
pub(super) struct Mistake {
    pub message: String,
    pub label: String,
    pub help: Option<String>,
    pub instead: Option<String>,
}

impl Mistake {
    pub(super) fn new(message: impl Into<String>, label: impl Into<String>) -> Self {
        Self { message: message.into(), label: label.into(), help: None, instead: None }
    }

    pub(super) fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    pub(super) fn instead(mut self, instead: Option<String>) -> Self {
        self.instead = instead;
        self
    }
}

pub(super) type Parsed<T> = Result<T, Mistake>;

fn is_lower(c: char) -> bool {
    c.is_ascii_lowercase() || c.is_ascii_digit()
}

/// Turns a text into a name that would do: lower case, other characters to `-`.
fn near_name(text: &str, max: usize, dash: bool) -> Option<String> {
    let mapped: String =
        text.to_lowercase().chars().filter_map(|c| if is_lower(c) { Some(c) } else { dash.then_some('-') }).collect();
    let trimmed = mapped.trim_matches(|c: char| c == '-').trim_start_matches(|c: char| c.is_ascii_digit());
    let near: String = trimmed.trim_start_matches('-').chars().take(max).collect();
    (!near.is_empty() && near != text).then(|| near.trim_end_matches('-').to_owned())
}

/// `[a-z][a-z0-9-]{0,29}`.
pub(super) fn lab_name(text: &str) -> Parsed<String> {
    let fine = text.starts_with(|c: char| c.is_ascii_lowercase())
        && text.len() <= 30
        && text.chars().all(|c| is_lower(c) || c == '-')
        && !text.ends_with('-');
    if fine {
        return Ok(text.to_owned());
    }
    Err(Mistake::new(format!("`{text}` cannot be the name of a lab"), "not a valid name")
        .help("a lab's name has 1 to 30 lower-case letters, digits and `-`, begins with a letter and does not end with `-`")
        .instead(near_name(text, 30, true)))
}

/// The name of a lab that a text gives: itself, or the nearest that would do.
pub fn lab_name_like(text: &str) -> Option<String> {
    lab_name(text).map_or_else(|mistake| mistake.instead, Some)
}

/// A pool's name as AKS takes it.
pub(super) fn pool_name(text: &str, windows: bool) -> Parsed<String> {
    let max = if windows { 6 } else { 12 };
    let fine = text.starts_with(|c: char| c.is_ascii_lowercase()) && text.len() <= max && text.chars().all(is_lower);
    if fine {
        return Ok(text.to_owned());
    }
    let kind = if windows { "Windows pool" } else { "pool" };
    Err(Mistake::new(format!("AKS refuses the pool name `{text}`"), "not a valid pool name").help(format!(
        "a {kind}'s name has 1 to {max} lower-case letters and digits and begins with a letter{}",
        near_name(text, max, false).map(|near| format!(", such as `{near}`")).unwrap_or_default()
    )))
}

/// A DNS label (RFC 1123): names of namespaces, Services, steps.
pub(super) fn dns_label(text: &str) -> Parsed<String> {
    let inner = |c| is_lower(c) || c == '-';
    if text.len() <= 63 && text.starts_with(is_lower) && text.ends_with(is_lower) && text.chars().all(inner) {
        return Ok(text.to_owned());
    }
    Err(Mistake::new(format!("`{text}` is not a valid name"), "Kubernetes refuses this name")
        .help("at most 63 lower-case letters, digits and `-`, beginning and ending with a letter or digit")
        .instead(near_name(text, 63, true)))
}

/// A DNS subdomain (RFC 1123): names of most objects.
pub(super) fn dns_subdomain(text: &str) -> Parsed<String> {
    if !text.is_empty() && text.len() <= 253 && text.split('.').all(|label| dns_label(label).is_ok()) {
        return Ok(text.to_owned());
    }
    Err(Mistake::new(format!("`{text}` is not a valid name"), "Kubernetes refuses this name")
        .help("lower-case letters, digits, `-` and `.`, beginning and ending with a letter or digit")
        .instead(near_name(text, 63, true)))
}

/// A workload's name; it also becomes a label value and the beginning of pod names.
pub(super) fn workload_name(text: &str) -> Parsed<String> {
    dns_label(text)
}

/// A key of a ConfigMap or Secret, or the name of an environment variable.
pub(super) fn data_key(text: &str) -> Parsed<String> {
    if !text.is_empty()
        && text.len() <= 253
        && text != "."
        && text != ".."
        && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))
    {
        return Ok(text.to_owned());
    }
    Err(Mistake::new(format!("`{text}` cannot be a key"), "Kubernetes refuses this key")
        .help("letters, digits, `-`, `_` and `.`"))
}

/// Names of environment variables, as Kubernetes takes them: printable ASCII but `=`.
pub(super) fn variable_name(text: &str) -> Parsed<String> {
    if !text.is_empty() && text.chars().all(|c| c.is_ascii_graphic() && c != '=') {
        return Ok(text.to_owned());
    }
    Err(Mistake::new(format!("`{text}` cannot be an environment variable"), "not a valid name"))
}

/// Resource group names of Azure.
pub(super) fn resource_group(text: &str) -> Parsed<String> {
    let fine = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '(' | ')');
    if (1..=90).contains(&text.chars().count()) && text.chars().all(fine) && !text.ends_with('.') {
        return Ok(text.to_owned());
    }
    Err(Mistake::new(format!("Azure refuses the resource group name `{text}`"), "not a valid name")
        .help("1 to 90 letters, digits, `_`, `-`, `.`, `(` and `)`, not ending with `.`"))
}

/// An Azure region: `westeurope`.
pub(super) fn location(text: &str) -> Parsed<String> {
    // It becomes part of labels of nodes.
    if !text.is_empty() && text.len() <= 40 && text.chars().all(is_lower) {
        return Ok(text.to_owned());
    }
    let plain: String = text.to_lowercase().chars().filter(|c| is_lower(*c)).take(40).collect();
    Err(Mistake::new(format!("`{text}` is not the name of an Azure region"), "not a region")
        .help("`az account list-locations -o table` lists them")
        .instead((!plain.is_empty()).then_some(plain)))
}

pub(super) fn label_key(text: &str) -> Parsed<String> {
    check_key(text).map(|()| text.to_owned()).map_err(|error| {
        Mistake::new(format!("`{text}` is not a valid label key"), "Kubernetes refuses this key").help(reason(&error.0))
    })
}

pub(super) fn label_value(text: &str) -> Parsed<String> {
    check_value("", text).map(|()| text.to_owned()).map_err(|error| {
        Mistake::new(format!("`{text}` is not a valid label value"), "Kubernetes refuses this value")
            .help(reason(&error.0))
    })
}

/// `key=value`, several separated by commas.
pub(super) fn label_pairs(text: &str) -> Parsed<BTreeMap<String, String>> {
    text.split(',')
        .map(|pair| {
            let (key, value) = pair.trim().split_once('=').ok_or_else(|| {
                Mistake::new(format!("`{text}` sets no label"), "expected `key=value`, several separated by commas")
            })?;
            Ok((label_key(key)?, label_value(value)?))
        })
        .collect()
}

/// Keys of labels, separated by commas.
pub(super) fn label_keys(text: &str) -> Parsed<Vec<String>> {
    text.split(',').map(|key| label_key(key.trim().trim_end_matches('-'))).collect()
}

/// The last part of Kubernetes' own words, without the path and the value that are shown anyway.
fn reason(error: &str) -> String {
    let text = error.rsplit_once("\": ").map_or(error, |(_, reason)| reason);
    text.split(" (e.g.").next().unwrap_or(text).to_owned()
}

/// A CEL expression on `object`.
pub(super) fn expression(text: &str) -> Parsed<String> {
    crate::expression::parse(text).map(|()| text.to_owned()).map_err(|error| {
        let mistake = Mistake::new("this is not a CEL expression on `object`", error)
            .help("write a condition such as `object.status.readyReplicas == 2`");
        match compared(text).filter(|meant| crate::expression::parse(meant).is_ok()) {
            Some(meant) => {
                Mistake { label: "two values are compared with `==`".to_owned(), ..mistake }.instead(Some(meant))
            }
            None => mistake,
        }
    })
}

/// An expression whose single `=`, outside of quotes, are `==`.
fn compared(text: &str) -> Option<String> {
    let (mut meant, mut quote, mut before) = (String::new(), None, ' ');
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        match (quote, letter) {
            (Some(open), _) if open == letter => quote = None,
            (None, '"' | '\'') => quote = Some(letter),
            (None, '=') if !"=!<>".contains(before) && letters.peek() != Some(&'=') => meant.push('='),
            _ => {}
        }
        meant.push(letter);
        before = letter;
    }
    (meant != text).then_some(meant)
}

/// A quantity that is not negative.
pub(super) fn quantity(text: &str) -> Parsed<Quantity> {
    let mistake = |label: &str| {
        Mistake::new(format!("`{text}` is not a quantity"), label.to_owned())
            .help("write a number with a suffix: `500m` or `2` of CPU, `64Mi` or `2Gi` of memory")
    };
    let amount = Amount::parse(text).map_err(|error| {
        let compact: String = text.chars().filter(|c| !c.is_whitespace()).collect();
        let number: String = compact.chars().take_while(|c| c.is_ascii_digit() || *c == '.').collect();
        let suffix = match compact[number.len()..].to_lowercase().as_str() {
            "k" | "kb" | "kib" | "ki" => "Ki",
            "m" | "mb" | "mib" | "mi" => "Mi",
            "g" | "gb" | "gib" | "gi" => "Gi",
            "t" | "tb" | "tib" | "ti" => "Ti",
            _ => "",
        };
        let near = format!("{number}{suffix}");
        let near =
            (!number.is_empty() && !suffix.is_empty() && near != text && Amount::parse(&near).is_ok()).then_some(near);
        let mut mistake = mistake("Kubernetes cannot read this");
        mistake.label = format!("{}: {error}", mistake.label);
        mistake.instead(near)
    })?;
    if amount < Amount::ZERO {
        return Err(mistake("a quantity cannot be negative"));
    }
    Ok(Quantity(text.to_owned()))
}

/// `registry/name:tag@digest`, loosely: what a container runtime could resolve.
pub(super) fn image(text: &str) -> Parsed<String> {
    let mistake = |label: &str| {
        Err(Mistake::new(format!("`{text}` is not an image"), label)
            .help("write `name`, `name:tag`, `registry/path/name:tag` or `name@sha256:…`"))
    };
    if text.is_empty() {
        return mistake("the image is missing");
    }
    if text.chars().any(|c| c.is_whitespace() || c.is_control()) {
        return mistake("an image has no spaces");
    }
    let (name, digest) = text.split_once('@').map_or((text, None), |(name, digest)| (name, Some(digest)));
    if let Some(digest) = digest
        && !digest
            .strip_prefix("sha256:")
            .is_some_and(|hex| hex.len() == 64 && hex.chars().all(|c| c.is_ascii_hexdigit()))
    {
        return mistake("the digest must be `sha256:` and 64 hexadecimal digits");
    }
    let last_slash = name.rfind('/').map_or(0, |at| at + 1);
    let (path, tag) = match name[last_slash..].find(':') {
        Some(colon) => (&name[..last_slash + colon], Some(&name[last_slash + colon + 1..])),
        None => (name, None),
    };
    if let Some(tag) = tag {
        let first = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let rest = |c: char| first(c) || matches!(c, '.' | '-');
        if tag.is_empty() || tag.len() > 128 || !tag.starts_with(first) || !tag.chars().all(rest) {
            return mistake("the tag is not valid");
        }
    }
    let mut parts = path.split('/');
    let registry_first = path.contains('/')
        && path.split('/').next().is_some_and(|first| first.contains(['.', ':']) || first == "localhost");
    if registry_first {
        let registry = parts.next().unwrap_or_default();
        if registry.is_empty()
            || registry.chars().any(|c| !(c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | ':' | '[' | ']')))
        {
            return mistake("the registry is not valid");
        }
    }
    for part in parts {
        let inner = |c: char| is_lower(c) || matches!(c, '.' | '_' | '-');
        if part.is_empty() || !part.starts_with(is_lower) || !part.ends_with(is_lower) || !part.chars().all(inner) {
            return mistake("the name has lower-case letters, digits, `.`, `_` and `-` between slashes");
        }
    }
    Ok(text.to_owned())
}

/// No lab lives longer.
const MAX_DURATION: SignedDuration = SignedDuration::from_hours(31 * 24);

/// `30s`, `2m`, `1h 30m`.
pub(super) fn duration(text: &str) -> Parsed<SignedDuration> {
    let mistake = |label: String| {
        Mistake::new(format!("`{text}` is not a duration"), label).help("write for example `30s`, `2m` or `1h 30m`")
    };
    let duration: SignedDuration = text.parse().map_err(|error: jiff::Error| mistake(error.to_string()))?;
    if duration.is_negative() || duration.is_zero() {
        return Err(mistake("must be longer than nothing".to_owned()));
    }
    if duration > MAX_DURATION {
        return Err(mistake("must be 31 days (744h) or less".to_owned()));
    }
    Ok(duration)
}

/// A load such as `80%` or `320%`.
pub(super) fn percent(text: &str) -> Parsed<u32> {
    let number = text.strip_suffix('%').and_then(|number| number.parse().ok()).filter(|number| *number <= 1_000_000);
    number.ok_or_else(|| {
        Mistake::new(format!("`{text}` is not a load"), "must be a whole number and `%`")
            .help("write for example `80%` or `320%`")
    })
}

/// A number, or `1..3`, `2..`, `..4`.
pub(super) fn count(raw: &raw::CountText) -> Parsed<Count> {
    let text = match raw {
        raw::CountText::Number(number) => {
            return u32::try_from(*number)
                .map(Count::exactly)
                .map_err(|_| Mistake::new(format!("`{number}` is not a count"), "must be 0 or more"));
        }
        raw::CountText::Text(text) => text.trim(),
    };
    let mistake = |label: &str| {
        Mistake::new(format!("`{text}` is not a count"), label.to_owned())
            .help("write a number, or a range with both ends included: `\"1..3\"`, `\"2..\"`, `\"..4\"`")
    };
    let number = |text: &str| text.trim().parse::<u32>().map_err(|_| mistake("not a number"));
    let Some((low, high)) = text.split_once("..") else { return number(text).map(Count::exactly) };
    let min = if low.trim().is_empty() { 0 } else { number(low)? };
    let high = high.trim().trim_start_matches('=');
    let max = if high.is_empty() { None } else { Some(number(high)?) };
    if max.is_some_and(|max| max < min) {
        return Err(mistake("the range is empty: its end lies before its beginning"));
    }
    Ok(Count { min, max })
}

/// A label selector as kubectl takes it; an empty one is refused, for it would mean everything.
pub(super) fn selector(text: &str) -> Parsed<Selector> {
    let mistake = |label: String| {
        Mistake::new(format!("`{text}` is not a label selector"), label)
            .help("write for example `app=web`, `tier!=db`, `zone in (1, 2)`, `gpu` or `!gpu`, separated by commas")
    };
    if text.trim().is_empty() {
        return Err(mistake("an empty selector would mean everything".to_owned()));
    }
    text.parse::<Selector>().map_err(|error| mistake(error.0))
}

/// `pool:NAME`, `node:NAME` or a label selector.
pub(super) fn node_set(text: &str) -> Parsed<NodeSet> {
    match text.split_once(':') {
        Some(("pool", name)) => Ok(NodeSet::Pool(name.trim().to_owned())),
        Some(("node", name)) => dns_subdomain(name.trim()).map(NodeSet::Node),
        Some((word, _)) => Err(Mistake::new(format!("`{text}` names no nodes"), format!("there is no `{word}:`"))
            .help("write `pool:NAME`, `node:NAME` or a label selector such as `agentpool=extra`")),
        None => selector(text).map(NodeSet::Selector),
    }
}

/// The name of a node, or `pool:NAME` for the first one of a pool.
pub(super) fn node_name(text: &str) -> Parsed<NodeSet> {
    match text.trim().strip_prefix("pool:") {
        Some(pool) => Ok(NodeSet::Pool(pool.trim().to_owned())),
        None => dns_subdomain(text).map(NodeSet::Node),
    }
}

/// `kind/name` or `kind.group/name`.
pub(super) fn object_or_version(text: &str, namespace: &str) -> Parsed<ObjectRef> {
    if text != ObjectRef::VERSION {
        return object(text, namespace);
    }
    let (kind, name, namespace) = (text.to_owned(), String::new(), namespace.to_owned());
    Ok(ObjectRef { kind, group: None, name, namespace })
}

/// `kind/name` or `kind.group/name`.
pub(super) fn object(text: &str, namespace: &str) -> Parsed<ObjectRef> {
    let mistake = |label: &str| {
        Mistake::new(format!("`{text}` names no object"), label.to_owned())
            .help("write kind and name, such as `deployment/web` or `deployment.apps/web`")
    };
    let (kind, name) = text.split_once('/').ok_or_else(|| mistake("expected `kind/name`"))?;
    let (kind, group) = kind.split_once('.').map_or((kind, None), |(kind, group)| (kind, Some(group)));
    if kind.is_empty() || !kind.chars().all(|c| c.is_ascii_alphanumeric()) {
        return Err(mistake("the kind is missing or not a word"));
    }
    // Names of RBAC objects may hold colons; the API server has the last word.
    if name.is_empty() || name.contains(['/', ' ']) {
        return Err(mistake("the name is missing or not valid"));
    }
    Ok(ObjectRef {
        kind: kind.to_owned(),
        group: group.map(str::to_owned),
        name: name.to_owned(),
        namespace: namespace.to_owned(),
    })
}

/// `1.36` or `1.36.2`.
pub(super) fn version(text: &str) -> Parsed<KubernetesVersion> {
    let plain = text.strip_prefix('v').unwrap_or(text);
    let mut parts = plain.split('.').map(str::parse::<u32>);
    let version = match (parts.next(), parts.next(), parts.next(), parts.next()) {
        (Some(Ok(1)), Some(Ok(minor)), None, None) => Some(KubernetesVersion { minor, patch: None }),
        (Some(Ok(1)), Some(Ok(minor)), Some(Ok(patch)), None) => Some(KubernetesVersion { minor, patch: Some(patch) }),
        _ => None,
    };
    version.ok_or_else(|| Mistake::new(format!("`{text}` is not a Kubernetes version"), "expected `1.36` or `1.36.2`"))
}

pub(super) fn protocol(text: &str) -> Parsed<String> {
    let upper = text.to_uppercase();
    if matches!(upper.as_str(), "TCP" | "UDP" | "SCTP") {
        return Ok(upper);
    }
    Err(Mistake::new(format!("`{text}` is not a protocol"), "expected TCP, UDP or SCTP"))
}

/// A network in CIDR notation.
pub(super) fn subnet(text: &str) -> Parsed<String> {
    let fine = text.split_once('/').is_some_and(|(address, bits)| {
        match (address.parse::<std::net::IpAddr>(), bits.parse::<u8>()) {
            (Ok(std::net::IpAddr::V4(_)), Ok(bits)) => bits <= 32,
            (Ok(std::net::IpAddr::V6(_)), Ok(bits)) => bits <= 128,
            _ => false,
        }
    });
    if fine {
        return Ok(text.to_owned());
    }
    Err(Mistake::new(format!("`{text}` is not a network"), "expected an address and a length, such as `10.244.0.0/16`"))
}

pub(super) fn address(text: &str) -> Parsed<String> {
    text.parse::<std::net::IpAddr>()
        .map(|_| text.to_owned())
        .map_err(|_| Mistake::new(format!("`{text}` is not an IP address"), "expected an address such as `127.0.0.1`"))
}

/// Any text but an empty one.
pub(super) fn not_empty(text: &str) -> Parsed<String> {
    if text.trim().is_empty() {
        return Err(Mistake::new("this text cannot be empty", "nothing is here"));
    }
    Ok(text.to_owned())
}

#[cfg(test)]
mod tests;
