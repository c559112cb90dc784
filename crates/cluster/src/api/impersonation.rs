//! Impersonation: the user that a request's headers name, and whether the client may be that user.
//!
//! A header that klab does not understand is an error: a client that asks to be another user must not act as itself.

use std::borrow::Cow;

use http::{HeaderMap, HeaderValue};
use klab_api_machinery::status::Status;
use klab_api_machinery::validation::{is_namespace_name, is_object_name};

use super::super::rbac::{Attributes, ResourceSubject, Subject, User, authorize, forbidden, quoted};
use super::super::store::Store;

const USER: &str = "impersonate-user";
const GROUP: &str = "impersonate-group";
const UID: &str = "impersonate-uid";
const EXTRA: &str = "impersonate-extra-";

const AUTHENTICATION: &str = "authentication.k8s.io";
const ANONYMOUS: &str = "system:anonymous";
const AUTHENTICATED: &str = "system:authenticated";
const UNAUTHENTICATED: &str = "system:unauthenticated";
/// From how many groups or extra values on one question may stand for all.
const MANY: usize = 4;

/// The user that the headers name, as they name it; none when no header does.
///
/// # Errors
/// 400 for headers that cannot be understood. API servers take an empty user name for none and bytes as they come;
/// here both are refused.
// upstream: staging/src/k8s.io/apiserver/pkg/endpoints/filters/impersonation/constrained_impersonation.go
// processImpersonationHeaders (v1.36)
pub(super) fn wanted_user(headers: &HeaderMap) -> Result<Option<User>, Status> {
    if !headers.keys().any(|name| name.as_str().starts_with("impersonate-")) {
        return Ok(None);
    }
    let mut wanted = User::default();
    if let Some(name) = headers.get(USER) {
        text(USER, name)?.clone_into(&mut wanted.name);
        if wanted.name.trim().is_empty() {
            return Err(Status::bad_request(format!("the header {USER} is empty: it names no user to impersonate")));
        }
    }
    if let Some(uid) = headers.get(UID) {
        text(UID, uid)?.clone_into(&mut wanted.uid);
    }
    for group in headers.get_all(GROUP) {
        wanted.groups.push(text(GROUP, group)?.to_owned());
    }
    for name in headers.keys() {
        let Some(key) = name.as_str().strip_prefix(EXTRA) else { continue };
        let values = wanted.extra.entry(unescaped(key)).or_default();
        for value in headers.get_all(name) {
            values.push(text(name.as_str(), value)?.to_owned());
        }
    }
    if !wanted.name.is_empty() {
        return Ok(Some(wanted));
    }
    if wanted == User::default() {
        return Ok(None);
    }
    Err(Status::bad_request(format!("requested {} without impersonating a user name", go_syntax(&wanted))))
}

fn text<'a>(name: &str, value: &'a HeaderValue) -> Result<&'a str, Status> {
    std::str::from_utf8(value.as_bytes())
        .map_err(|_| Status::bad_request(format!("the value of the header {name} is not UTF-8 text")))
}

/// A key of extra information without its percent signs; as it is, when it is not rightly escaped.
fn unescaped(key: &str) -> String {
    let bytes = key.as_bytes();
    let is_hex = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_hexdigit);
    let escapes = |at: &usize| bytes[*at] == b'%';
    if (0..bytes.len()).filter(escapes).any(|at| !is_hex(at + 1) || !is_hex(at + 2)) {
        return key.to_owned();
    }
    percent_encoding::percent_decode_str(key).decode_utf8().map_or_else(|_| key.to_owned(), Cow::into_owned)
}

/// The user as Go's `%#v` writes it, which is what the error of API servers shows.
fn go_syntax(user: &User) -> String {
    let list = |list: &[String]| {
        let texts: Vec<String> = list.iter().map(|text| quoted(text)).collect();
        format!("[]string{{{}}}", texts.join(", "))
    };
    let groups = if user.groups.is_empty() { "[]string(nil)".to_owned() } else { list(&user.groups) };
    let extra: Vec<String> =
        user.extra.iter().map(|(key, values)| format!("{}:{}", quoted(key), list(values))).collect();
    let extra = if extra.is_empty() {
        "map[string][]string(nil)".to_owned()
    } else {
        format!("map[string][]string{{{}}}", extra.join(", "))
    };
    format!(
        "&user.DefaultInfo{{Name:{}, UID:{}, Groups:{groups}, Extra:{extra}}}",
        quoted(&user.name),
        quoted(&user.uid)
    )
}

/// Ways to be somebody else, in the order in which they are tried. Upstream has one more, for ServiceAccounts whose
/// credential tells their node; here no ServiceAccount has a credential.
// upstream: staging/src/k8s.io/apiserver/pkg/endpoints/filters/impersonation/mode.go allImpersonationModes (v1.36)
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    Node,
    ServiceAccount,
    UserInfo,
    /// By the verb `impersonate` alone, whatever the request.
    Legacy,
}

impl Mode {
    const ALL: [Self; 4] = [Self::Node, Self::ServiceAccount, Self::UserInfo, Self::Legacy];

    fn name(self) -> &'static str {
        match self {
            Self::Node => "arbitrary-node",
            Self::ServiceAccount => "serviceaccount",
            Self::UserInfo => "user-info",
            Self::Legacy => "",
        }
    }

    /// Whether that user can be impersonated in this way at all.
    fn is_for(self, wanted: &User) -> bool {
        let bare = wanted.uid.is_empty() && wanted.groups.is_empty() && wanted.extra.is_empty();
        let (is_node, is_account) = (node(&wanted.name).is_some(), account(&wanted.name).is_some());
        match self {
            Self::Node => bare && is_node,
            Self::ServiceAccount => bare && is_account,
            Self::UserInfo => !is_node && !is_account,
            Self::Legacy => true,
        }
    }
}

/// The user that `requestor` becomes, if it may be `wanted` for what it asks for.
///
/// # Errors
/// 403 with the first refusal.
// upstream: constrained_impersonation.go impersonationModesTracker.getImpersonatedUser, without its cache (v1.36)
pub(super) fn impersonated(
    store: &Store,
    requestor: &User,
    wanted: User,
    asked: &Attributes<'_>,
) -> Result<User, Status> {
    let mut first = None;
    for mode in Mode::ALL.into_iter().filter(|mode| mode.is_for(&wanted)) {
        match (Check { store, requestor, mode }).run(&wanted, asked) {
            Ok(user) => return Ok(user),
            Err(status) => drop(first.get_or_insert(status)),
        }
    }
    // The last way is for everybody, so that there is a refusal.
    Err(first.unwrap_or_else(|| forbidden(requestor, asked, "all impersonation modes failed")))
}

struct Check<'a> {
    store: &'a Store,
    requestor: &'a User,
    mode: Mode,
}

// upstream: staging/src/k8s.io/apiserver/pkg/endpoints/filters/impersonation/mode.go
// constrainedImpersonationModeState.check, impersonationModeState.check (v1.36)
impl Check<'_> {
    fn run(&self, wanted: &User, asked: &Attributes<'_>) -> Result<User, Status> {
        let constrained = self.mode != Mode::Legacy;
        if constrained {
            let verb = format!("impersonate-on:{}:{}", self.mode.name(), asked.verb);
            self.allowed(&Attributes { verb: &verb, ..*asked })?;
        }
        let mut user = wanted.clone();
        let group = if constrained { AUTHENTICATION } else { "" };
        let mut subject = ResourceSubject { group, resource: "users", name: &wanted.name, ..Default::default() };
        if let Some(name) = node(&wanted.name).filter(|_| constrained) {
            subject = ResourceSubject { resource: "nodes", name, ..subject };
            user.groups = vec!["system:nodes".to_owned()];
        }
        if let Some((namespace, name)) = account(&wanted.name) {
            subject = ResourceSubject { resource: "serviceaccounts", namespace, name, ..subject };
            if wanted.groups.is_empty() {
                let own = format!("system:serviceaccounts:{namespace}");
                user.groups = vec!["system:serviceaccounts".to_owned(), own];
            }
        }
        self.may_be(subject)?;
        if !wanted.uid.is_empty() {
            self.may_be(ResourceSubject {
                group: AUTHENTICATION,
                resource: "uids",
                name: &wanted.uid,
                ..Default::default()
            })?;
        }
        self.groups(group, wanted)?;
        self.extra(wanted)?;
        let has = |user: &User, group: &str| user.groups.iter().any(|have| have == group);
        let implied = match () {
            () if user.name == ANONYMOUS => UNAUTHENTICATED,
            () if has(&user, UNAUTHENTICATED) => return Ok(user),
            () => AUTHENTICATED,
        };
        if !has(&user, implied) {
            user.groups.push(implied.to_owned());
        }
        Ok(user)
    }

    fn groups(&self, group: &str, wanted: &User) -> Result<(), Status> {
        let all = ResourceSubject { group, resource: "groups", ..Default::default() };
        if self.mode != Mode::Legacy {
            if wanted.groups.iter().any(String::is_empty) {
                return Err(self.refused(all, "impersonating the empty string group is not allowed"));
            }
            if let Some(name) = wanted.groups.iter().find(|group| *group == "system:masters") {
                let masters = ResourceSubject { name, ..all };
                return Err(self.refused(masters, "impersonating the system:masters group is not allowed"));
            }
            if wanted.groups.len() >= MANY && self.may_be(ResourceSubject { name: "*", ..all }).is_ok() {
                return Ok(());
            }
        }
        wanted.groups.iter().try_for_each(|name| self.may_be(ResourceSubject { name, ..all }))
    }

    fn extra(&self, wanted: &User) -> Result<(), Status> {
        let all = ResourceSubject { group: AUTHENTICATION, resource: "userextras", ..Default::default() };
        let values = || wanted.extra.iter().flat_map(|(key, values)| values.iter().map(move |value| (key, value)));
        if self.mode != Mode::Legacy {
            let because = match () {
                () if wanted.extra.contains_key("") => "impersonating the empty string key in extra is not allowed",
                () if values().any(|(_, value)| value.is_empty()) => {
                    "impersonating the empty string value in extra is not allowed"
                }
                () if wanted.extra.keys().any(|key| !is_prefixed_path(key)) => {
                    "impersonating an invalid key in extra is not allowed"
                }
                () if wanted.extra.keys().any(|key| *key != key.to_lowercase()) => {
                    "impersonating a non-lowercase key in extra is not allowed"
                }
                () => "",
            };
            if !because.is_empty() {
                return Err(self.refused(all, because));
            }
            let any = ResourceSubject { subresource: "*", name: "*", ..all };
            if values().count() >= MANY && self.may_be(any).is_ok() {
                return Ok(());
            }
        }
        values().try_for_each(|(key, value)| self.may_be(ResourceSubject { subresource: key, name: value, ..all }))
    }

    fn verb(&self) -> String {
        if self.mode == Mode::Legacy { "impersonate".to_owned() } else { format!("impersonate:{}", self.mode.name()) }
    }

    fn may_be(&self, subject: ResourceSubject<'_>) -> Result<(), Status> {
        self.allowed(&Attributes { verb: &self.verb(), to: Subject::Resource(subject) })
    }

    fn allowed(&self, attributes: &Attributes<'_>) -> Result<(), Status> {
        let decision = authorize(self.store, self.requestor, attributes);
        if decision.allowed { Ok(()) } else { Err(forbidden(self.requestor, attributes, &decision.reason)) }
    }

    fn refused(&self, subject: ResourceSubject<'_>, because: &str) -> Status {
        forbidden(self.requestor, &Attributes { verb: &self.verb(), to: Subject::Resource(subject) }, because)
    }
}

/// The node whose user this is.
fn node(user: &str) -> Option<&str> {
    user.strip_prefix("system:node:").filter(|name| is_object_name(name))
}

/// Namespace and name of the ServiceAccount whose user this is.
// upstream: staging/src/k8s.io/apiserver/pkg/authentication/serviceaccount/util.go SplitUsername (v1.36)
fn account(user: &str) -> Option<(&str, &str)> {
    let (namespace, name) = user.strip_prefix("system:serviceaccount:")?.split_once(':')?;
    (is_namespace_name(namespace) && is_object_name(name)).then_some((namespace, name))
}

/// `example.com/path`
fn is_prefixed_path(key: &str) -> bool {
    key.split_once('/').is_some_and(|(domain, path)| {
        let good = |character: char| character.is_ascii_alphanumeric() || "/%~-._!$&'()*+,;=:".contains(character);
        is_object_name(domain) && !path.is_empty() && path.chars().all(good)
    })
}
