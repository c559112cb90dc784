//! Users, what they ask for, and what the rules of roles say of it.

mod aggregate;
mod cover;

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::json;

use crate::go_text::quoted;
use crate::status::Status;

pub use aggregate::aggregated;
pub use cover::{compacted, quoted_list, text, uncovered};

/// Group whose members may do everything.
const MASTERS: &str = "system:masters";

/// Whom a request is from. The server that authenticates puts it into the request's extensions.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct User {
    /// User name.
    pub name: String,
    /// Unique identifier; most users have none.
    pub uid: String,
    /// Groups.
    pub groups: Vec<String>,
    /// What else is known of the user, such as what the credential is known by.
    pub extra: BTreeMap<String, Vec<String>>,
}

impl User {
    /// The lab's administrator.
    pub fn admin() -> Self {
        Self {
            name: "admin".to_owned(),
            groups: [MASTERS, "system:authenticated"].map(str::to_owned).into(),
            ..Self::default()
        }
    }

    /// A service account.
    pub fn service_account(namespace: &str, account: &str) -> Self {
        let group = format!("system:serviceaccounts:{namespace}");
        Self {
            name: format!("system:serviceaccount:{namespace}:{account}"),
            groups: vec!["system:serviceaccounts".to_owned(), group, "system:authenticated".to_owned()],
            ..Self::default()
        }
    }

    /// The user whom an object names in these fields; `name` is what it calls the first of them.
    pub fn written(fields: &serde_json::Value, name: &str) -> Self {
        let texts = |value: &serde_json::Value| -> Vec<String> {
            value.as_array().into_iter().flatten().filter_map(|text| text.as_str()).map(str::to_owned).collect()
        };
        let extra = fields["extra"].as_object().into_iter().flatten();
        Self {
            name: fields[name].as_str().unwrap_or_default().to_owned(),
            uid: fields["uid"].as_str().unwrap_or_default().to_owned(),
            groups: texts(&fields["groups"]),
            extra: extra.map(|(key, values)| (key.clone(), texts(values))).collect(),
        }
    }

    /// The user, known by this credential, which `kubectl auth whoami` shows.
    #[must_use]
    pub fn with_credential(mut self, credential: String) -> Self {
        self.extra.insert("authentication.kubernetes.io/credential-id".to_owned(), vec![credential]);
        self
    }

    /// Whether the user may do everything.
    pub fn is_master(&self) -> bool {
        self.groups.iter().any(|group| group == MASTERS)
    }
}

/// Rule of a Role or ClusterRole.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PolicyRule {
    #[serde(deserialize_with = "list")]
    pub verbs: Vec<String>,
    #[serde(deserialize_with = "list")]
    pub api_groups: Vec<String>,
    #[serde(deserialize_with = "list")]
    pub resources: Vec<String>,
    #[serde(deserialize_with = "list")]
    pub resource_names: Vec<String>,
    #[serde(rename = "nonResourceURLs", deserialize_with = "list")]
    pub paths: Vec<String>,
}

/// A list that may be null.
fn list<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// What a user asks to do.
#[derive(Debug, Clone, Copy)]
pub struct Attributes<'a> {
    pub verb: &'a str,
    pub to: Subject<'a>,
}

/// What a user asks to do it to.
#[derive(Debug, Clone, Copy)]
pub enum Subject<'a> {
    Resource(ResourceSubject<'a>),
    /// A path that names no resource.
    Path(&'a str),
}

/// Objects, or one of them; an empty field names nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct ResourceSubject<'a> {
    pub group: &'a str,
    pub resource: &'a str,
    pub subresource: &'a str,
    pub namespace: &'a str,
    pub name: &'a str,
    /// The field selector of a list.
    pub fields: &'a str,
}

impl ResourceSubject<'_> {
    /// Whether the list is limited to objects with this field.
    pub fn selects(&self, field: &str, value: &str) -> bool {
        self.fields.split(',').any(|term| {
            let term = term.strip_prefix(field).unwrap_or_default();
            term.strip_prefix("==").or_else(|| term.strip_prefix('=')) == Some(value)
        })
    }

    /// `pods`, `pods/log`.
    pub fn with_subresource(&self) -> String {
        if self.subresource.is_empty() {
            self.resource.to_owned()
        } else {
            format!("{}/{}", self.resource, self.subresource)
        }
    }
}

/// Whether something is allowed, and why (or what hindered the decision).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Decision {
    pub allowed: bool,
    pub reason: String,
}

impl PolicyRule {
    // upstream: plugin/pkg/auth/authorizer/rbac/rbac.go RuleAllows, pkg/apis/rbac/v1/evaluation_helpers.go (v1.36)
    pub fn allows(&self, asked: &Attributes<'_>) -> bool {
        has(&self.verbs, "*", asked.verb)
            && match &asked.to {
                Subject::Path(path) => self.paths.iter().any(|allowed| path_covers(allowed, path)),
                Subject::Resource(subject) => {
                    has(&self.api_groups, "*", subject.group)
                        && self.resources.iter().any(|allowed| resource_allowed(allowed, subject))
                        && (self.resource_names.is_empty()
                            || self.resource_names.iter().any(|name| name == subject.name))
                }
            }
    }
}

fn has(list: &[String], all: &str, wanted: &str) -> bool {
    list.iter().any(|one| one == all || one == wanted)
}

fn resource_allowed(allowed: &str, subject: &ResourceSubject<'_>) -> bool {
    allowed == "*"
        || allowed == subject.with_subresource()
        || (!subject.subresource.is_empty() && allowed.strip_prefix("*/") == Some(subject.subresource))
}

/// Whether a path, or all that begins with it when it ends in `*`, holds another.
fn path_covers(holder: &str, path: &str) -> bool {
    holder == path || (holder.ends_with('*') && path.starts_with(holder.trim_end_matches('*')))
}

/// 403, in the words of API servers.
// upstream: staging/src/k8s.io/apiserver/pkg/endpoints/handlers/responsewriters/errors.go ForbiddenStatusError (v1.36)
pub fn forbidden(user: &User, asked: &Attributes<'_>, reason: &str) -> Status {
    let (user, verb) = (quoted(&user.name), asked.verb);
    let (what, details, because) = match &asked.to {
        Subject::Path(path) => (String::new(), json!({}), format!("User {user} cannot {verb} path {}", quoted(path))),
        Subject::Resource(subject) => {
            let place = if subject.namespace.is_empty() {
                "at the cluster scope".to_owned()
            } else {
                format!("in the namespace {}", quoted(subject.namespace))
            };
            let mut details = json!({ "kind": subject.resource });
            let mut what = subject.resource.to_owned();
            if !subject.group.is_empty() {
                details["group"] = json!(subject.group);
                what = format!("{what}.{}", subject.group);
            }
            if !subject.name.is_empty() {
                details["name"] = json!(subject.name);
                what = format!("{what} {}", quoted(subject.name));
            }
            let resource = quoted(&subject.with_subresource());
            let group = quoted(subject.group);
            let because = format!("User {user} cannot {verb} resource {resource} in API group {group} {place}");
            (what + " is ", details, because)
        }
    };
    let because = because.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    let reason = if reason.is_empty() { String::new() } else { format!(": {reason}") };
    Status { details, ..Status::new(403, "Forbidden", format!("{what}forbidden: {because}{reason}")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_allow_what_upstreams_allow() {
        let rule = |text: &str| -> PolicyRule { serde_json::from_str(text).expect("a rule") };
        let pods = ResourceSubject { resource: "pods", name: "x", ..ResourceSubject::default() };
        let logs = ResourceSubject { subresource: "log", ..pods };
        let all = r#"{"apiGroups":["*"],"resources":["*"],"verbs":["*"]}"#;
        let part = r#"{"apiGroups":[""],"resources":["*/log"],"verbs":["get"]}"#;
        let one = r#"{"apiGroups":[""],"resources":["pods"],"verbs":["get"],"resourceNames":["x"]}"#;
        let paths = r#"{"nonResourceURLs":["/healthz","/livez/*","/a*"],"verbs":["get"]}"#;
        let resource = Subject::Resource;
        for (text, verb, to, wanted) in [
            (all, "get", resource(pods), true),
            (all, "get", Subject::Path("/"), false),
            (part, "get", resource(logs), true),
            (part, "get", resource(pods), false),
            (part, "list", resource(logs), false),
            (one, "get", resource(pods), true),
            (one, "get", resource(logs), false),
            (one, "get", resource(ResourceSubject { name: "", ..pods }), false),
            (one, "get", resource(ResourceSubject { group: "apps", ..pods }), false),
            (paths, "get", Subject::Path("/healthz"), true),
            (paths, "get", Subject::Path("/healthz/etcd"), false),
            (paths, "get", Subject::Path("/livez/etcd"), true),
            (paths, "get", Subject::Path("/livez"), false),
            (paths, "get", Subject::Path("/api"), true),
            (paths, "post", Subject::Path("/api"), false),
        ] {
            assert_eq!(rule(text).allows(&Attributes { verb, to }), wanted, "{text} {verb} {to:?}");
        }
    }
}
