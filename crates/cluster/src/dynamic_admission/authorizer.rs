//! `authorizer` of expressions: may the client do this or that?

// upstream: staging/src/k8s.io/apiserver/pkg/cel/library/authz.go (v1.36)

use std::fmt;
use std::sync::Arc;

use klab_api_machinery::resource::{CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, ROLE_BINDINGS, ROLES};
use klab_cel::{Opaque, Value};

use crate::rbac::{Attributes, Decision, ResourceSubject, Subject, User, authorize};
use crate::store::Store;

const ROLES_AND_BINDINGS: [klab_api_machinery::resource::ResourceId; 4] =
    [ROLES, ROLE_BINDINGS, CLUSTER_ROLES, CLUSTER_ROLE_BINDINGS];

/// A question under way.
#[derive(Clone, Default)]
struct Question {
    /// The roles and bindings of the cluster.
    store: Arc<Store>,
    user: User,
    path: Option<String>,
    group: String,
    resource: String,
    subresource: String,
    namespace: String,
    name: String,
    fields: String,
}

impl fmt::Debug for Question {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Question").field("user", &self.user.name).finish_non_exhaustive()
    }
}

/// `authorizer`
#[derive(Debug, Clone)]
pub(crate) struct Authorizer(Question);

#[derive(Debug)]
struct PathCheck(Question);

#[derive(Debug)]
struct GroupCheck(Question);

#[derive(Debug)]
struct ResourceCheck(Question);

#[derive(Debug)]
struct Answer(Decision);

impl Authorizer {
    /// For what this user may do in a cluster.
    pub(crate) fn new(store: &Store, user: &User) -> Self {
        let mut roles = Store::default();
        for kind in ROLES_AND_BINDINGS {
            store.list(kind, None).for_each(|object| roles.restore(Arc::clone(object)));
        }
        Self(Question { store: Arc::new(roles), user: user.clone(), ..Question::default() })
    }

    pub(crate) fn value(self) -> Value {
        Value::Opaque(Arc::new(self))
    }

    /// `authorizer.requestResource`: for this object.
    pub(crate) fn request_resource(&self, about: &ResourceSubject<'_>) -> Value {
        Value::Opaque(Arc::new(ResourceCheck(Question {
            group: about.group.to_owned(),
            resource: about.resource.to_owned(),
            subresource: about.subresource.to_owned(),
            namespace: about.namespace.to_owned(),
            name: about.name.to_owned(),
            ..self.0.clone()
        })))
    }
}

fn text(arguments: &[Value], at: usize) -> String {
    match arguments.get(at) {
        Some(Value::String(text)) => text.to_string(),
        _ => String::new(),
    }
}

fn opaque(value: impl Opaque + 'static) -> Value {
    Value::Opaque(Arc::new(value))
}

impl Opaque for Authorizer {
    fn type_name(&self) -> &'static str {
        "kubernetes.authorization.Authorizer"
    }

    fn call(&self, function: &str, arguments: &[Value]) -> Option<Result<Value, String>> {
        let question = self.0.clone();
        match function {
            "path" if text(arguments, 0).is_empty() => Some(Err("path must not be empty".to_owned())),
            "path" => Some(Ok(opaque(PathCheck(Question { path: Some(text(arguments, 0)), ..question })))),
            "group" => Some(Ok(opaque(GroupCheck(Question { group: text(arguments, 0), ..question })))),
            "serviceAccount" => {
                let user = User::service_account(&text(arguments, 0), &text(arguments, 1));
                Some(Ok(opaque(Self(Question { user, ..question }))))
            }
            _ => None,
        }
    }

    fn text(&self) -> String {
        self.0.user.name.clone()
    }
}

impl Opaque for PathCheck {
    fn type_name(&self) -> &'static str {
        "kubernetes.authorization.PathCheck"
    }

    fn call(&self, function: &str, arguments: &[Value]) -> Option<Result<Value, String>> {
        (function == "check").then(|| Ok(self.0.answered(&text(arguments, 0))))
    }

    fn text(&self) -> String {
        self.0.path.clone().unwrap_or_default()
    }
}

impl Opaque for GroupCheck {
    fn type_name(&self) -> &'static str {
        "kubernetes.authorization.GroupCheck"
    }

    fn call(&self, function: &str, arguments: &[Value]) -> Option<Result<Value, String>> {
        (function == "resource").then(|| {
            let question = Question { resource: text(arguments, 0), ..self.0.clone() };
            Ok(Value::Opaque(Arc::new(ResourceCheck(question))))
        })
    }

    fn text(&self) -> String {
        self.0.group.clone()
    }
}

impl Opaque for ResourceCheck {
    fn type_name(&self) -> &'static str {
        "kubernetes.authorization.ResourceCheck"
    }

    fn call(&self, function: &str, arguments: &[Value]) -> Option<Result<Value, String>> {
        let mut question = self.0.clone();
        let given = text(arguments, 0);
        match function {
            "check" => return Some(Ok(question.answered(&given))),
            "subresource" => question.subresource = given,
            "namespace" => question.namespace = given,
            "name" => question.name = given,
            "fieldSelector" => question.fields = given,
            // Roles do not look at labels.
            "labelSelector" => {}
            _ => return None,
        }
        Some(Ok(opaque(Self(question))))
    }

    fn text(&self) -> String {
        self.0.resource.clone()
    }
}

impl Opaque for Answer {
    fn type_name(&self) -> &'static str {
        "kubernetes.authorization.Decision"
    }

    fn call(&self, function: &str, _: &[Value]) -> Option<Result<Value, String>> {
        Some(Ok(match function {
            "allowed" => Value::Bool(self.0.allowed),
            "reason" => Value::from(self.0.reason.as_str()),
            "errored" => Value::Bool(false),
            "error" => Value::from(""),
            _ => return None,
        }))
    }

    fn text(&self) -> String {
        self.0.allowed.to_string()
    }
}

impl Question {
    fn answered(&self, verb: &str) -> Value {
        let to = match &self.path {
            Some(path) => Subject::Path(path),
            None => Subject::Resource(ResourceSubject {
                group: &self.group,
                resource: &self.resource,
                subresource: &self.subresource,
                namespace: &self.namespace,
                name: &self.name,
                fields: &self.fields,
            }),
        };
        Value::Opaque(Arc::new(Answer(authorize(&self.store, &self.user, &Attributes { verb, to }))))
    }
}
