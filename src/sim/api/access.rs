//! Who may do what: the lab's administrator may do everything, users he impersonates what RBAC objects allow.

use http::{HeaderMap, Method};
use serde_json::{Value, json};

use super::super::cluster::Cluster;
use super::super::resource::{CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, ROLE_BINDINGS, ROLES, Resource};
use super::super::status::Status;
use super::query::quoted;
use super::{Call, Target};

/// Group whose members may do everything.
const MASTERS: &str = "system:masters";

/// Whom a request is from. The server that authenticates puts it into the request's extensions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    /// User name.
    pub name: String,
    /// Groups.
    pub groups: Vec<String>,
    /// What the credential is known by, shown by `kubectl auth whoami`.
    pub credential: Option<String>,
}

impl User {
    /// The lab's administrator.
    pub fn admin() -> Self {
        Self {
            name: "admin".to_owned(),
            groups: [MASTERS, "system:authenticated"].map(str::to_owned).into(),
            credential: None,
        }
    }

    /// The user that `Impersonate-…` headers name, where there are any.
    pub(super) fn impersonating(self, headers: &HeaderMap) -> Result<Self, Status> {
        let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        let Some(name) = text("impersonate-user").filter(|name| !name.is_empty()) else {
            if headers.contains_key("impersonate-group") || headers.contains_key("impersonate-uid") {
                return Err(Status::bad_request("requested impersonation without impersonating a user"));
            }
            return Ok(self);
        };
        if !self.is_master() {
            return Err(Status {
                details: json!({"name": name, "kind": "users"}),
                ..Status::new(
                    403,
                    "Forbidden",
                    format!(
                        "users {} is forbidden: User {} cannot impersonate resource \"users\" in API group \"\" at the cluster scope",
                        quoted(name),
                        quoted(&self.name)
                    ),
                )
            });
        }
        let mut groups: Vec<String> = headers
            .get_all("impersonate-group")
            .iter()
            .filter_map(|value| value.to_str().ok())
            .map(str::to_owned)
            .collect();
        if let Some(account) = name.strip_prefix("system:serviceaccount:")
            && let Some((namespace, _)) = account.split_once(':')
            && groups.is_empty()
        {
            groups.push("system:serviceaccounts".to_owned());
            groups.push(format!("system:serviceaccounts:{namespace}"));
        }
        let implied = if name == "system:anonymous" { "system:unauthenticated" } else { "system:authenticated" };
        if !groups.iter().any(|group| group == implied) {
            groups.push(implied.to_owned());
        }
        Ok(Self { name: name.to_owned(), groups, credential: None })
    }

    fn is_master(&self) -> bool {
        self.groups.iter().any(|group| group == MASTERS)
    }

    fn is(&self, subject: &Value, binding_namespace: &str) -> bool {
        let name = subject["name"].as_str().unwrap_or_default();
        match subject["kind"].as_str().unwrap_or_default() {
            "User" => self.name == name,
            "Group" => self.groups.iter().any(|group| group == name),
            "ServiceAccount" => {
                let namespace = subject["namespace"].as_str().unwrap_or(binding_namespace);
                self.name.strip_prefix("system:serviceaccount:") == Some(&format!("{namespace}:{name}"))
            }
            _ => false,
        }
    }
}

/// What somebody wants to do to resources.
#[derive(Debug, Clone, Default)]
pub(super) struct Wish<'a> {
    pub(super) verb: &'a str,
    pub(super) group: &'a str,
    pub(super) resource: &'a str,
    pub(super) subresource: &'a str,
    pub(super) namespace: &'a str,
    pub(super) name: &'a str,
}

/// Resources and verbs everybody who is authenticated may use (role `system:basic-user`).
const BASIC: &[(&str, &str)] = &[
    ("authorization.k8s.io", "selfsubjectaccessreviews"),
    ("authorization.k8s.io", "selfsubjectrulesreviews"),
    ("authentication.k8s.io", "selfsubjectreviews"),
];

/// Paths everybody may read (roles `system:discovery` and `system:public-info-viewer`).
const PUBLIC_PATHS: &[&str] = &["/api", "/apis", "/openapi", "/healthz", "/livez", "/readyz", "/version"];

/// Why the wish is granted: `Some("")` for masters, `None` when it is not.
pub(super) fn granted(cluster: &Cluster, user: &User, wish: &Wish<'_>) -> Option<String> {
    if user.is_master() {
        return Some(String::new());
    }
    if wish.verb == "create" && BASIC.contains(&(wish.group, wish.resource)) {
        return Some(
            "RBAC: allowed by ClusterRoleBinding \"system:basic-user\" of ClusterRole \"system:basic-user\" to Group \"system:authenticated\""
                .to_owned(),
        );
    }
    rules(cluster, user, wish.namespace).into_iter().find(|(rule, _)| allows(rule, wish)).map(|(_, reason)| reason)
}

/// All rules that hold for the user in a namespace (cluster-wide ones only, when that is empty), each with the words
/// that say where it comes from.
pub(super) fn rules(cluster: &Cluster, user: &User, namespace: &str) -> Vec<(Value, String)> {
    let mut found = Vec::new();
    let mut bindings = vec![(CLUSTER_ROLE_BINDINGS, None)];
    if !namespace.is_empty() {
        bindings.push((ROLE_BINDINGS, Some(namespace)));
    }
    for (resource, within) in bindings {
        for binding in cluster.list(resource, within).0 {
            let value = binding.value();
            let subjects = value["subjects"].as_array().into_iter().flatten();
            let Some(subject) = subjects.into_iter().find(|subject| user.is(subject, &binding.namespace)) else {
                continue;
            };
            let (role_kind, role_name) = (
                value["roleRef"]["kind"].as_str().unwrap_or_default(),
                value["roleRef"]["name"].as_str().unwrap_or_default(),
            );
            let role = match role_kind {
                "Role" => cluster.get(ROLES, &binding.namespace, role_name),
                _ => cluster.get(CLUSTER_ROLES, "", role_name),
            };
            let Some(role) = role else { continue };
            let place = |name: &str| match within {
                Some(namespace) => format!("\"{name}/{namespace}\""),
                None => format!("\"{name}\""),
            };
            let subject_text = match subject["namespace"].as_str() {
                Some(namespace) if subject["kind"] == "ServiceAccount" => {
                    format!("\"{}/{namespace}\"", subject["name"].as_str().unwrap_or_default())
                }
                _ => format!("\"{}\"", subject["name"].as_str().unwrap_or_default()),
            };
            let reason = format!(
                "RBAC: allowed by {} {} of {role_kind} \"{role_name}\" to {} {subject_text}",
                resource.row().kind,
                place(&binding.name),
                subject["kind"].as_str().unwrap_or_default(),
            );
            let role = role.value();
            found.extend(role["rules"].as_array().into_iter().flatten().map(|rule| (rule.clone(), reason.clone())));
        }
    }
    found
}

fn has(rule: &Value, field: &str, wanted: &str) -> bool {
    rule[field].as_array().into_iter().flatten().any(|value| value == "*" || value == wanted)
}

fn allows(rule: &Value, wish: &Wish<'_>) -> bool {
    let resource = if wish.subresource.is_empty() {
        wish.resource.to_owned()
    } else {
        format!("{}/{}", wish.resource, wish.subresource)
    };
    let any_with_part = format!("*/{}", wish.subresource);
    let names = rule["resourceNames"].as_array().map_or(&[][..], Vec::as_slice);
    has(rule, "verbs", wish.verb)
        && has(rule, "apiGroups", wish.group)
        && (has(rule, "resources", &resource)
            || (!wish.subresource.is_empty() && has(rule, "resources", &any_with_part)))
        && (names.is_empty() || (!wish.name.is_empty() && names.iter().any(|name| name == wish.name)))
}

/// Whether a path that names no resource may be read.
pub(super) fn path_granted(cluster: &Cluster, user: &User, verb: &str, path: &str) -> bool {
    let public = verb == "get"
        && PUBLIC_PATHS
            .iter()
            .any(|public| path.strip_prefix(public).is_some_and(|rest| rest.is_empty() || rest.starts_with('/')));
    public
        || user.is_master()
        || rules(cluster, user, "").iter().any(|(rule, _)| {
            let paths = rule["nonResourceURLs"].as_array().into_iter().flatten().filter_map(Value::as_str);
            has(rule, "verbs", verb)
                && paths.into_iter().any(|allowed| match allowed.strip_suffix('*') {
                    Some(prefix) => path.starts_with(prefix),
                    None => path == allowed,
                })
        })
}

impl Call<'_> {
    /// Refuses a path that names no resource, unless the user may read it.
    pub(super) fn allow_path(&self) -> Result<(), Status> {
        let path = self.parts.uri.path();
        let verb = self.parts.method.as_str().to_ascii_lowercase();
        if path_granted(self.cluster(), &self.user, &verb, path) {
            return Ok(());
        }
        Err(Status {
            details: json!({}),
            ..Status::new(
                403,
                "Forbidden",
                format!("forbidden: User {} cannot {verb} path {}", quoted(&self.user.name), quoted(path)),
            )
        })
    }

    /// Refuses what the user may not do.
    pub(super) fn allow(&self, target: &Target, subresource: Option<&str>, watch: bool) -> Result<(), Status> {
        let row = target.resource.row();
        let one = target.name.is_some();
        let verb = match self.parts.method {
            Method::GET | Method::HEAD if watch || (!one && self.query.flag("watch")) => "watch",
            Method::GET | Method::HEAD if one => "get",
            Method::GET | Method::HEAD => "list",
            Method::POST => "create",
            Method::PUT => "update",
            Method::PATCH => "patch",
            Method::DELETE if one => "delete",
            Method::DELETE => "deletecollection",
            _ => "get",
        };
        self.allow_wish(row, verb, target, subresource.unwrap_or_default())
    }

    fn allow_wish(&self, row: &Resource, verb: &str, target: &Target, subresource: &str) -> Result<(), Status> {
        let wish = Wish {
            verb,
            group: row.group,
            resource: row.plural,
            subresource,
            namespace: target.namespace(),
            name: target.name(),
        };
        if granted(self.cluster(), &self.user, &wish).is_some() {
            return Ok(());
        }
        let resource =
            if subresource.is_empty() { row.plural.to_owned() } else { format!("{}/{subresource}", row.plural) };
        let subject =
            if wish.name.is_empty() { row.qualified() } else { format!("{} {}", row.qualified(), quoted(wish.name)) };
        let place = if wish.namespace.is_empty() {
            "at the cluster scope".to_owned()
        } else {
            format!("in the namespace {}", quoted(wish.namespace))
        };
        let mut details = json!({"kind": row.plural});
        if !wish.name.is_empty() {
            details["name"] = json!(wish.name);
        }
        if !row.group.is_empty() {
            details["group"] = json!(row.group);
        }
        Err(Status {
            details,
            ..Status::new(
                403,
                "Forbidden",
                format!(
                    "{subject} is forbidden: User {} cannot {verb} resource {} in API group {} {place}",
                    quoted(&self.user.name),
                    quoted(&resource),
                    quoted(row.group)
                ),
            )
        })
    }
}
