//! A request as admission sees it: what is done to which object, and by whom.

use klab_api_machinery::resource::{NAMESPACES, ResourceId};
use serde_json::{Value, json};

use crate::rbac::User;

/// What is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operation {
    Create,
    Update,
    Delete,
    /// A connection to a part of an object: `exec`, `attach`, `portforward`, `proxy`.
    Connect,
}

impl Operation {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Create => "CREATE",
            Self::Update => "UPDATE",
            Self::Delete => "DELETE",
            Self::Connect => "CONNECT",
        }
    }

    /// The kind of the options of such a request; none where there are no such options.
    fn options(self) -> Option<&'static str> {
        match self {
            Self::Create => Some("CreateOptions"),
            Self::Update => Some("UpdateOptions"),
            Self::Delete => Some("DeleteOptions"),
            Self::Connect => None,
        }
    }
}

/// Group, version, kind.
pub(crate) type Kind<'a> = (&'a str, &'a str, &'a str);

/// A request to change an object. The new object is passed separately, because mutation changes it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Request<'a> {
    pub(crate) operation: Operation,
    pub(crate) resource: ResourceId,
    pub(crate) subresource: &'a str,
    pub(crate) namespace: &'a str,
    /// Empty where the name is a generated one.
    pub(crate) name: &'a str,
    /// The kind of the object that was sent, where it is not the resource's: Scale, Binding, Eviction.
    pub(crate) kind: Option<Kind<'a>>,
    /// The object as it is.
    pub(crate) old: Option<&'a Value>,
    pub(crate) dry_run: bool,
    pub(crate) manager: &'a str,
    pub(crate) user: &'a User,
}

impl Request<'_> {
    /// The kind of the object.
    pub(crate) fn kind(&self) -> Kind<'_> {
        let row = self.resource.row();
        self.kind.unwrap_or((row.group, row.version, row.kind))
    }

    /// The namespace the request is in; a namespace is in itself.
    pub(crate) fn place(&self) -> &str {
        if self.resource == NAMESPACES && self.operation != Operation::Create { self.name } else { self.namespace }
    }

    /// `request` of an AdmissionReview, but for its `uid`: for an object of this `served` kind, which a rule named.
    // upstream: staging/src/k8s.io/apiserver/pkg/admission/plugin/webhook/request/admissionreview.go
    // CreateV1AdmissionReview (v1.36)
    pub(crate) fn describe(&self, served: ResourceId, object: Option<&Value>, old: Option<&Value>) -> Value {
        let kind = |(group, version, kind): Kind<'_>| json!({ "group": group, "version": version, "kind": kind });
        let resource = |id: ResourceId| {
            let row = id.row();
            json!({ "group": row.group, "version": row.version, "resource": row.plural })
        };
        let served_kind = match self.kind {
            Some(own) => own,
            None => (served.row().group, served.row().version, served.row().kind),
        };
        let mut user = json!({});
        if !self.user.name.is_empty() {
            user["username"] = json!(self.user.name);
        }
        if !self.user.uid.is_empty() {
            user["uid"] = json!(self.user.uid);
        }
        if !self.user.groups.is_empty() {
            user["groups"] = json!(self.user.groups);
        }
        if !self.user.extra.is_empty() {
            user["extra"] = json!(self.user.extra);
        }
        let mut options = match self.operation.options() {
            Some(kind) => json!({ "kind": kind, "apiVersion": "meta.k8s.io/v1" }),
            None => Value::Null,
        };
        if self.dry_run && options.is_object() {
            options["dryRun"] = json!(["All"]);
        }
        if !self.manager.is_empty() && matches!(self.operation, Operation::Create | Operation::Update) {
            options["fieldManager"] = json!(self.manager);
        }
        let mut request = json!({
            "kind": kind(served_kind), "resource": resource(served),
            "requestKind": kind(self.kind()), "requestResource": resource(self.resource),
            "operation": self.operation.name(), "userInfo": user, "dryRun": self.dry_run, "options": options,
            "object": object.unwrap_or(&Value::Null), "oldObject": old.unwrap_or(&Value::Null),
        });
        for (field, text) in [
            ("subResource", self.subresource),
            ("requestSubResource", self.subresource),
            ("name", self.name),
            ("namespace", self.place()),
        ] {
            if !text.is_empty() {
                request[field] = json!(text);
            }
        }
        request
    }
}
