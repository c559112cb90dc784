//! Admission that users configure: who may change an object on its way into the cluster, and who may refuse it.

use klab_api_machinery::resource::{
    MUTATING_ADMISSION_POLICY_BINDINGS, MUTATING_WEBHOOK_CONFIGURATIONS, ResourceId,
    VALIDATING_ADMISSION_POLICY_BINDINGS, VALIDATING_WEBHOOK_CONFIGURATIONS,
};
use klab_api_machinery::status::Status;
use klab_scheduler::features::Gate;
use serde_json::Value;

use super::mutating_policies::ask_mutating_policies;
use super::validating_policies::ask_validating_policies;
use super::webhooks::Chain;
use super::webhooks::{ask_mutating, ask_validating};
use crate::dynamic_admission::matching::is_exempt;
use crate::dynamic_admission::request::{Operation, Request};
use crate::rbac::User;
use crate::store::Store;
use crate::transaction::{Transaction, WriteOptions};

/// Kinds whose objects have webhooks or policies look at writes of other kinds.
const ASKING: [ResourceId; 4] = [
    MUTATING_WEBHOOK_CONFIGURATIONS,
    VALIDATING_WEBHOOK_CONFIGURATIONS,
    MUTATING_ADMISSION_POLICY_BINDINGS,
    VALIDATING_ADMISSION_POLICY_BINDINGS,
];

/// Whether webhooks or policies are configured.
pub(crate) fn is_configured(store: &Store) -> bool {
    ASKING.iter().any(|kind| store.count(*kind) > 0)
}

/// Whether writes may have to wait for webhooks.
pub(crate) fn has_webhooks(store: &Store) -> bool {
    ASKING[..2].iter().any(|kind| store.count(*kind) > 0)
}

/// A change of an object, without the user who makes it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AdmissionRequest<'a> {
    pub(crate) operation: Operation,
    pub(crate) resource: ResourceId,
    pub(crate) subresource: &'a str,
    pub(crate) namespace: &'a str,
    pub(crate) name: &'a str,
    /// The kind of the object that was sent, where it is not the resource's.
    pub(crate) kind: Option<crate::dynamic_admission::request::Kind<'a>>,
    pub(crate) old: Option<&'a Value>,
}

/// Whether webhooks or policies look at this write.
pub(crate) fn is_asked(transaction: &Transaction<'_>, resource: ResourceId) -> bool {
    !transaction.is_considered
        && transaction.options.pending_webhooks.is_some()
        && !is_exempt(resource)
        && is_configured(&transaction.state.store)
}

/// Has those change a new version of an object who may.
///
/// # Errors
/// The Status of who refuses it.
pub(crate) fn mutate(
    transaction: &mut Transaction<'_>,
    admission_request: &AdmissionRequest<'_>,
    mut object: Option<&mut Value>,
) -> Result<(), Status> {
    if !is_asked(transaction, admission_request.resource) {
        return Ok(());
    }
    let user = user(transaction);
    let request = request(admission_request, &user, transaction.options);
    let mut chain = Chain::default();
    for repeated in [false, true] {
        if repeated && !chain.is_to_repeat {
            break;
        }
        if let Some(object) = object.as_deref_mut()
            && transaction.state.features.has(Gate::MutatingAdmissionPolicy)
        {
            ask_mutating_policies(transaction, &request, object, &mut chain, repeated)?;
        }
        ask_mutating(transaction, &request, object.as_deref_mut(), &mut chain, repeated)?;
    }
    Ok(())
}

/// Has those judge a new version of an object who may.
///
/// # Errors
/// The Status of who refuses it.
pub(crate) fn judge(
    transaction: &mut Transaction<'_>,
    admission_request: &AdmissionRequest<'_>,
    object: Option<&Value>,
) -> Result<(), Status> {
    if !is_asked(transaction, admission_request.resource) {
        return Ok(());
    }
    let user = user(transaction);
    let request = request(admission_request, &user, transaction.options);
    ask_validating_policies(transaction, &request, object)?;
    ask_validating(transaction, &request, object)
}

/// Has all of them look at something that is not changed by them: a deletion, what is sent to a subresource.
///
/// # Errors
/// The Status of who refuses it.
pub(crate) fn consider(
    transaction: &mut Transaction<'_>,
    admission_request: &AdmissionRequest<'_>,
    object: Option<&Value>,
) -> Result<(), Status> {
    if !is_asked(transaction, admission_request.resource) {
        return Ok(());
    }
    let mut changed = object.cloned();
    mutate(transaction, admission_request, changed.as_mut())?;
    judge(transaction, admission_request, changed.as_ref())
}

/// Whom this write is from: who asked for it, or the part of the control plane that it is of.
fn user(transaction: &Transaction<'_>) -> User {
    if let Some(user) = transaction.options.user {
        return user.clone();
    }
    let group = |name: &str| vec![name.to_owned(), "system:authenticated".to_owned()];
    let (name, groups) = match transaction.options.manager {
        "kube-scheduler" => ("system:kube-scheduler".to_owned(), group("system:authenticated")[1..].to_vec()),
        "kubelet" => ("system:node:hollow".to_owned(), group("system:nodes")),
        "kube-apiserver" | "" => ("system:apiserver".to_owned(), group("system:masters")),
        manager if manager.ends_with("-controller") => {
            (format!("system:serviceaccount:kube-system:{manager}"), group("system:serviceaccounts"))
        }
        _ => ("system:kube-controller-manager".to_owned(), group("system:authenticated")[1..].to_vec()),
    };
    User { name, groups, ..User::default() }
}

fn request<'a>(admission_request: &AdmissionRequest<'a>, user: &'a User, options: &'a WriteOptions<'a>) -> Request<'a> {
    Request {
        operation: admission_request.operation,
        resource: admission_request.resource,
        subresource: admission_request.subresource,
        namespace: admission_request.namespace,
        name: admission_request.name,
        kind: admission_request.kind,
        old: admission_request.old,
        dry_run: options.dry_run,
        manager: options.manager,
        user,
    }
}
