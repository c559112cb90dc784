//! The syntaxes of names, label keys and values, and what is said about texts that do not have them.

// upstream: staging/src/k8s.io/apimachinery/pkg/util/validation/validation.go IsDNS1123Label, IsQualifiedName (v1.36)

/// Longest name of a CronJob: its Jobs' names get 11 more characters.
const CRON_JOB_LIMIT: usize = 52;
const SUBDOMAIN_LIMIT: usize = 253;
const LABEL_LIMIT: usize = 63;

const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const LABEL_1035: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";
const NAME_PART: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const LABEL_VALUE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";
const ENVIRONMENT: &str =
    "a valid environment variable name must consist only of printable ASCII characters other than '='";
const SEARCH_DOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?(\\._?[a-z0-9]([-_a-z0-9]*[a-z0-9])?)*')";
const WILDCARD: &str = "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must consist of lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character (e.g. '*.example.com', regex used for validation is '\\*\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const HEADER: &str = "a valid HTTP header must consist of alphanumeric characters or '-' (e.g. 'X-Header-Name', regex used for validation is '[-A-Za-z0-9]+')";
const CONFIG_KEY: &str = "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')";

fn too_long(limit: usize) -> String {
    format!("must be no more than {limit} bytes")
}

fn is_label(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = text.as_bytes();
    matches!((bytes.first(), bytes.last()), (Some(first), Some(last)) if inner(*first) && inner(*last))
        && bytes.iter().all(|byte| inner(*byte) || *byte == b'-')
}

fn is_subdomain(text: &str) -> bool {
    text.split('.').all(is_label)
}

fn is_name_part(text: &str) -> bool {
    let bytes = text.as_bytes();
    matches!((bytes.first(), bytes.last()), (Some(first), Some(last)) if first.is_ascii_alphanumeric() && last.is_ascii_alphanumeric())
        && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(byte))
}

/// Names of most objects: `example.com`.
pub fn subdomain(text: &str) -> Vec<String> {
    let mut faults = Vec::new();
    if text.len() > SUBDOMAIN_LIMIT {
        faults.push(too_long(SUBDOMAIN_LIMIT));
    }
    if !is_subdomain(text) {
        faults.push(SUBDOMAIN.to_owned());
    }
    faults
}

/// Names of IPAddresses: an address in its one canonical form.
// upstream: pkg/apis/networking/validation/validation.go ValidateIPAddressName (v1.36)
pub fn ip_address(text: &str) -> Vec<String> {
    match text.parse::<std::net::IpAddr>() {
        Ok(address) if address.to_string() == text => Vec::new(),
        Ok(address) => vec![format!("must be in canonical form (\"{address}\")")],
        Err(_) => vec!["must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)".to_owned()],
    }
}

/// Names of CronJobs.
pub fn cron_job(text: &str) -> Vec<String> {
    let mut faults = subdomain(text);
    if text.len() > CRON_JOB_LIMIT {
        faults.push(format!("must be no more than {CRON_JOB_LIMIT} characters"));
    }
    faults
}

/// Names of namespaces, containers, volumes: `my-name`.
pub fn label(text: &str) -> Vec<String> {
    let mut faults = Vec::new();
    if text.len() > LABEL_LIMIT {
        faults.push(too_long(LABEL_LIMIT));
    }
    if !is_label(text) {
        faults.push(if is_subdomain(text) { "must not contain dots".to_owned() } else { LABEL.to_owned() });
    }
    faults
}

/// Names of Services: like [`label`], starting with a letter.
pub fn label_1035(text: &str) -> Vec<String> {
    let mut faults = Vec::new();
    if text.len() > LABEL_LIMIT {
        faults.push(too_long(LABEL_LIMIT));
    }
    if !is_label(text) || text.as_bytes().first().is_some_and(u8::is_ascii_digit) {
        faults.push(LABEL_1035.to_owned());
    }
    faults
}

/// Names that become a part of a path: roles and bindings.
pub fn path_segment(text: &str) -> Vec<String> {
    if text == "." || text == ".." {
        return vec![format!("may not be '{text}'")];
    }
    ['/', '%'].into_iter().filter(|one| text.contains(*one)).map(|one| format!("may not contain '{one}'")).collect()
}

/// Label keys, taint keys, resource names: `example.com/MyName`.
pub fn qualified(text: &str) -> Vec<String> {
    let mut faults = Vec::new();
    let parts: Vec<&str> = text.split('/').collect();
    let name = match parts.as_slice() {
        [name] => name,
        [prefix, name] => {
            if prefix.is_empty() {
                faults.push("prefix part must be non-empty".to_owned());
            } else {
                faults.extend(subdomain(prefix).into_iter().map(|fault| format!("prefix part {fault}")));
            }
            name
        }
        _ => {
            return vec![format!(
                "a valid label key {NAME_PART} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
            )];
        }
    };
    if name.is_empty() {
        faults.push("name part must be non-empty".to_owned());
    } else if name.len() > LABEL_LIMIT {
        faults.push(format!("name part {}", too_long(LABEL_LIMIT)));
    }
    if !is_name_part(name) {
        faults.push(format!("name part {NAME_PART}"));
    }
    faults
}

/// Values of labels.
pub fn label_value(text: &str) -> Vec<String> {
    let mut faults = Vec::new();
    if text.len() > LABEL_LIMIT {
        faults.push(too_long(LABEL_LIMIT));
    }
    if !text.is_empty() && !is_name_part(text) {
        faults.push(LABEL_VALUE.to_owned());
    }
    faults
}

/// Names of environment variables.
pub fn environment(text: &str) -> Vec<String> {
    if text.bytes().all(|byte| (b' '..=b'~').contains(&byte) && byte != b'=') {
        Vec::new()
    } else {
        vec![ENVIRONMENT.to_owned()]
    }
}

/// A text as the beginning of a generated name, which may end in a hyphen.
// upstream: staging/src/k8s.io/apimachinery/pkg/api/validation/generic.go maskTrailingDash (v1.36)
pub fn as_beginning(text: &str) -> String {
    // Upstream takes a character more away than it puts there.
    let start = text.strip_suffix('-').filter(|start| !start.is_empty());
    start.and_then(|start| start.get(..start.len() - 1)).map_or_else(|| text.to_owned(), |start| format!("{start}a"))
}

/// Names of hosts of which the first part may be any.
pub fn wildcard_subdomain(text: &str) -> Vec<String> {
    let mut faults = Vec::new();
    if text.len() > SUBDOMAIN_LIMIT {
        faults.push(too_long(SUBDOMAIN_LIMIT));
    }
    if !text.strip_prefix("*.").is_some_and(is_subdomain) {
        faults.push(WILDCARD.to_owned());
    }
    faults
}

/// Domains in which names are looked up, whose parts may have underscores in them.
// upstream: staging/src/k8s.io/apimachinery/pkg/util/validation/validation.go IsDNS1123SubdomainWithUnderscore (v1.36)
pub fn search_domain(text: &str) -> Vec<String> {
    let mut faults = Vec::new();
    if text.len() > SUBDOMAIN_LIMIT {
        faults.push(too_long(SUBDOMAIN_LIMIT));
    }
    let is_part = |part: &str| {
        let part = part.strip_prefix('_').unwrap_or(part);
        !part.starts_with('_') && !part.ends_with('_') && is_label(&part.replace('_', "-"))
    };
    if !text.split('.').all(is_part) {
        faults.push(SEARCH_DOMAIN.to_owned());
    }
    faults
}

/// Names of HTTP headers.
pub fn header(text: &str) -> Vec<String> {
    let good = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    if !text.is_empty() && text.bytes().all(good) { Vec::new() } else { vec![HEADER.to_owned()] }
}

/// Keys of ConfigMaps and Secrets.
pub fn config_key(text: &str) -> Vec<String> {
    let mut faults = Vec::new();
    if text.len() > SUBDOMAIN_LIMIT {
        faults.push(too_long(SUBDOMAIN_LIMIT));
    }
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte)) {
        faults.push(CONFIG_KEY.to_owned());
    }
    if text == "." || text == ".." || text.starts_with("..") {
        faults.push(if text.len() > 2 {
            "must not start with '..'".to_owned()
        } else {
            format!("must not be '{text}'")
        });
    }
    faults
}

/// Names of ports.
pub fn port(text: &str) -> Vec<String> {
    let mut faults: Vec<String> = Vec::new();
    if text.len() > 15 {
        faults.push("must be no more than 15 characters".to_owned());
    }
    if !text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-') {
        faults.push("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)".to_owned());
    }
    if !text.bytes().any(|byte| byte.is_ascii_lowercase()) {
        faults.push("must contain at least one letter (a-z)".to_owned());
    }
    if text.contains("--") {
        faults.push("must not contain consecutive hyphens".to_owned());
    }
    if text.starts_with('-') || text.ends_with('-') {
        faults.push("must not begin or end with a hyphen".to_owned());
    }
    faults
}

/// Whether a text names a resource that is not Kubernetes' own.
pub fn is_extended_resource(name: &str) -> bool {
    let native = !name.contains('/') || name.contains("kubernetes.io/");
    !native && !name.starts_with("requests.") && qualified(&format!("requests.{name}")).is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        for (name, wanted) in [
            ("192.168.1.1", None),
            ("fe80::42:1dff:fe84:f9e2", None),
            ("FE80::1", Some("must be in canonical form (\"fe80::1\")")),
            ("one", Some("must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)")),
        ] {
            assert_eq!(ip_address(name).first().map(String::as_str), wanted, "{name}");
        }
    }

    #[test]
    fn syntaxes() {
        for (name, good) in
            [("a", true), ("a.b-c", true), ("", false), ("-a", false), ("A", false), ("a..b", false), ("ä", false)]
        {
            assert_eq!(subdomain(name).is_empty(), good, "{name}");
        }
        for (key, good) in
            [("app", true), ("x.io/App_1", true), ("/a", false), ("x/", false), ("a/b/c", false), ("a b", false)]
        {
            assert_eq!(qualified(key).is_empty(), good, "{key}");
        }
        for (value, good) in [("", true), ("1.2_3-4", true), ("-", false), ("a b", false)] {
            assert_eq!(label_value(value).is_empty(), good, "{value}");
        }
        assert_eq!(label("a.b"), ["must not contain dots"]);
        assert!(!label_1035("1a").is_empty());
        assert!(!config_key("..x").is_empty());
        assert!(!port("80").is_empty());
    }
}
