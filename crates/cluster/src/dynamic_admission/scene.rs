//! The values of what expressions of admission name, worked out when they are asked for.

use std::cell::RefCell;
use std::collections::HashMap;

use klab_api_machinery::policy_expression::{NAMESPACE, REQUEST};
use klab_api_machinery::resource::NAMESPACES;
use klab_cel::{Budget, Failure, PER_CALL_LIMIT, Program, REQUEST_LIMIT, Value, Variables};
use serde_json::Value as Json;

use super::authorizer::Authorizer;
use super::request::Request;
use crate::rbac::ResourceSubject;
use crate::store::Store;

/// What there is to be named.
pub(crate) struct Scene<'a> {
    pub(crate) object: Option<&'a Json>,
    pub(crate) old: Option<&'a Json>,
    /// `request`, without the objects.
    pub(crate) described: &'a Json,
    pub(crate) params: Option<&'a Json>,
    pub(crate) request: &'a Request<'a>,
    pub(crate) store: &'a Store,
    /// `variables.*` in their order.
    pub(crate) variables: &'a [(String, Program)],
    pub(crate) known: RefCell<HashMap<String, Result<Value, Failure>>>,
    /// What all expressions have cost.
    pub(crate) spent: RefCell<u64>,
}

impl<'a> Scene<'a> {
    pub(crate) fn new(
        request: &'a Request<'a>,
        described: &'a Json,
        store: &'a Store,
        (object, old): (Option<&'a Json>, Option<&'a Json>),
    ) -> Self {
        Self {
            object,
            old,
            described,
            params: None,
            request,
            store,
            variables: &[],
            known: RefCell::default(),
            spent: RefCell::default(),
        }
    }

    /// The value of an expression.
    ///
    /// # Errors
    /// What upstream says after `resulted in error: `.
    pub(crate) fn evaluate(&self, program: &Program) -> Result<Value, Failure> {
        if *self.spent.borrow() > REQUEST_LIMIT {
            return Err(Failure::OutOfBudget);
        }
        let mut budget = Budget::of(PER_CALL_LIMIT);
        let value = program.evaluate(self, &mut budget);
        *self.spent.borrow_mut() += budget.spent;
        value
    }

    fn found(&self, name: &str) -> Option<Result<Value, Failure>> {
        let json = |value: Option<&Json>| value.map_or(Value::Null, Value::from);
        if let Some(variable) = name.strip_prefix("variables.") {
            let (_, program) = self.variables.iter().find(|(known, _)| known == variable)?;
            return Some(self.evaluate(program));
        }
        Some(Ok(match name {
            "object" => json(self.object),
            "oldObject" => json(self.old),
            "params" => json(self.params),
            "request" => REQUEST.value(self.described),
            "namespaceObject" => self.namespace(),
            "authorizer" => self.authorizer().value(),
            "authorizer.requestResource" => {
                let row = self.request.resource.row();
                self.authorizer().request_resource(&ResourceSubject {
                    group: row.group,
                    resource: row.plural,
                    subresource: self.request.subresource,
                    namespace: self.request.place(),
                    name: self.request.name,
                    fields: "",
                })
            }
            _ => return None,
        }))
    }

    fn authorizer(&self) -> Authorizer {
        Authorizer::new(self.store, self.request.user)
    }

    fn namespace(&self) -> Value {
        if self.request.resource == NAMESPACES || self.request.namespace.is_empty() {
            return Value::Null;
        }
        let namespace = self.store.get(NAMESPACES, "", self.request.namespace);
        namespace.map_or(Value::Null, |namespace| {
            let mut value = namespace.to_value();
            value["metadata"]["UID"] = value["metadata"]["uid"].take();
            NAMESPACE.value(&value)
        })
    }
}

impl Variables for Scene<'_> {
    fn value(&self, name: &str) -> Option<Result<Value, Failure>> {
        if let Some(known) = self.known.borrow().get(name) {
            return Some(known.clone());
        }
        let found = self.found(name)?;
        self.known.borrow_mut().insert(name.to_owned(), found.clone());
        Some(found)
    }
}
