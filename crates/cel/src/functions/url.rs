//! Addresses of the web, as Go takes them apart.
//!
//! // upstream: apiserver pkg/cel/library/urls.go

use std::collections::BTreeMap;
use std::sync::Arc;

use super::outcome::Outcome;
use crate::value::{Key, Opaque, Value, list};

#[derive(Debug)]
struct Url {
    text: String,
    scheme: String,
    host: String,
    path: String,
    query: String,
}

/// Functions that make addresses; `None` where it is none of them.
pub(super) fn call(function: &str, values: &[Value]) -> Option<Outcome> {
    let [Value::String(text)] = values else { return None };
    Some(match function {
        "url" => parse(text).map(|url| Value::Opaque(Arc::new(url) as Arc<dyn Opaque>)).ok_or_else(|| {
            format!("URL parse error during conversion from string: parse {text:?}: invalid URI for request")
        }),
        "isURL" => Ok(Value::Bool(parse(text).is_some())),
        _ => return None,
    })
}

/// An absolute address or an absolute path.
fn parse(text: &str) -> Option<Url> {
    if text.is_empty() || text.chars().any(|character| character.is_ascii_control() || character == ' ') {
        return None;
    }
    let (scheme, rest) = match text.split_once(':') {
        Some((scheme, rest))
            if scheme.starts_with(|first: char| first.is_ascii_alphabetic())
                && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte)) =>
        {
            (scheme.to_ascii_lowercase(), rest)
        }
        _ if text.starts_with('/') => (String::new(), text),
        _ => return None,
    };
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (host, path) = match rest.strip_prefix("//") {
        Some(rest) => rest.split_at_checked(rest.find('/').unwrap_or(rest.len()))?,
        None if rest.starts_with('/') => ("", rest),
        // What follows a scheme and does not begin with a slash is opaque to Go.
        None => ("", ""),
    };
    let host = host.rsplit_once('@').map_or(host, |(_, host)| host);
    if host.contains(['<', '>', '"', '{', '}', '|', '\\', '^', '`']) {
        return None;
    }
    let port = host.rsplit_once(']').map_or(host, |(_, port)| port).split_once(':').map(|(_, port)| port);
    if port.is_some_and(|port| !port.bytes().all(|byte| byte.is_ascii_digit())) {
        return None;
    }
    Some(Url { text: text.to_owned(), scheme, host: host.to_owned(), path: path.to_owned(), query: query.to_owned() })
}

impl Url {
    /// Host and port apart.
    fn parts(&self) -> (&str, &str) {
        if let Some((host, rest)) = self.host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            return (host, rest.strip_prefix(':').unwrap_or_default());
        }
        self.host.split_once(':').unwrap_or((&self.host, ""))
    }
}

impl Opaque for Url {
    fn type_name(&self) -> &'static str {
        "kubernetes.URL"
    }

    fn text(&self) -> String {
        self.text.clone()
    }

    fn call(&self, function: &str, _arguments: &[Value]) -> Option<Outcome> {
        Some(Ok(match function {
            "getScheme" => Value::from(self.scheme.as_str()),
            "getHost" => Value::from(self.host.as_str()),
            "getHostname" => Value::from(self.parts().0),
            "getPort" => Value::from(self.parts().1),
            "getEscapedPath" => Value::from(self.path.as_str()),
            "getQuery" => {
                let mut entries: BTreeMap<String, Vec<Value>> = BTreeMap::new();
                for (key, value) in form_urlencoded::parse(self.query.as_bytes()) {
                    entries.entry(key.into_owned()).or_default().push(Value::from(value.as_ref()));
                }
                let entries = entries.into_iter().map(|(key, values)| (Key::String(key.into()), list(values)));
                Value::Map(Arc::new(entries.collect()))
            }
            _ => return None,
        }))
    }
}
