//! Who may do what: what a request asks for, and the refusal when roles and bindings do not allow it.

use http::Method;
use klab_api_machinery::status::Status;

use super::super::cluster::{Guard, Intent};
use super::super::rbac::{Attributes, ResourceSubject, Subject, User, authorize, forbidden, refuse_escalation};
use super::super::store::Store;
use super::call::Call;
use super::fairness;
use super::path::{Path, ResourcePath};
use super::request_info::{namespace, verb_and_name};

/// What a request asks for, as far as its path and query tell.
#[derive(Debug)]
pub(super) struct Wish<'a> {
    verb: String,
    path: &'a str,
    resource: Option<Wanted<'a>>,
}

#[derive(Debug)]
struct Wanted<'a> {
    path: &'a ResourcePath,
    namespace: &'a str,
    name: String,
    fields: &'a str,
}

impl Wish<'_> {
    fn attributes(&self) -> Attributes<'_> {
        let to = match &self.resource {
            None => Subject::Path(self.path),
            Some(wanted) => Subject::Resource(ResourceSubject {
                group: &wanted.path.group,
                resource: &wanted.path.plural,
                subresource: wanted.path.subresource.as_deref().unwrap_or_default(),
                namespace: wanted.namespace,
                name: &wanted.name,
                fields: wanted.fields,
            }),
        };
        Attributes { verb: &self.verb, to }
    }
}

impl Call<'_> {
    /// What this request asks for.
    fn wish<'a>(&'a self, path: &'a Path) -> Wish<'a> {
        let method = &self.parts.method;
        let text = self.parts.uri.path();
        let Path::Resource(resource) = path else {
            return Wish { verb: method.as_str().to_ascii_lowercase(), path: text, resource: None };
        };
        let (verb, name) = verb_and_name(method, resource, &self.query);
        let fields = self.query.get("fieldSelector").unwrap_or_default();
        let wanted = Wanted { path: resource, namespace: namespace(resource), name, fields };
        Wish { verb: verb.to_owned(), path: text, resource: Some(wanted) }
    }

    /// Finds out which flow this request belongs to.
    pub(super) fn classify(&mut self, path: &Path) {
        let cluster = std::sync::Arc::clone(self.cluster());
        let class = if self.user.is_master() {
            fairness::exempt()
        } else {
            let wish = self.wish(path);
            cluster.read(|store| fairness::classify(store, &self.user, &wish.attributes()))
        };
        self.class = Some(class);
    }

    /// Takes on the user that the request's headers name, and refuses what that user may not do. For the
    /// administrator nothing is looked up.
    pub(super) fn admit(&mut self, path: &Path) -> Result<(), Status> {
        let wanted = super::impersonation::wanted_user(&self.parts.headers)?;
        if wanted.is_none() && self.user.is_master() {
            return Ok(());
        }
        let cluster = std::sync::Arc::clone(self.cluster());
        let wish = self.wish(path);
        let user = cluster.read(|store| -> Result<Option<User>, Status> {
            let own = &self.user;
            let attributes = wish.attributes();
            let taken_on =
                wanted.map(|wanted| super::impersonation::impersonated(store, own, wanted, &attributes)).transpose()?;
            let user = taken_on.as_ref().unwrap_or(own);
            let decision = authorize(store, user, &attributes);
            if decision.allowed { Ok(taken_on) } else { Err(forbidden(user, &attributes, &decision.reason)) }
        })?;
        if let Some(user) = user {
            self.user = user;
        }
        Ok(())
    }

    /// The guard of the objects that this request writes; none for the administrator's.
    pub(super) fn guard(&self) -> Option<&dyn Guard> {
        (!self.user.is_master()).then_some(self as &dyn Guard)
    }
}

impl Guard for Call<'_> {
    fn check(&self, store: &Store, intent: &Intent<'_>) -> Result<(), Status> {
        let row = intent.resource.row();
        let patched = self.parts.method == Method::PATCH;
        let name_in_path = if self.parts.method == Method::POST { "" } else { intent.name };
        let place = (intent.namespace, name_in_path);
        refuse_escalation(store, &self.user, intent.resource, place, intent.old, intent.new)?;
        if patched && intent.old.is_none() {
            // upstream: staging/src/k8s.io/apiserver/pkg/endpoints/handlers/patch.go createAuthorizerAttributes (v1.36)
            let (group, resource, namespace, name) = (row.group, row.plural, intent.namespace, intent.name);
            let subject = ResourceSubject { group, resource, namespace, name, ..ResourceSubject::default() };
            let attributes = Attributes { verb: "create", to: Subject::Resource(subject) };
            let decision = authorize(store, &self.user, &attributes);
            if !decision.allowed {
                return Err(forbidden(&self.user, &attributes, &decision.reason));
            }
        }
        Ok(())
    }
}
