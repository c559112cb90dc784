//! Asking the webhooks that a request concerns: those that change the object one after the other, those that judge it all
//! at once.

// upstream: staging/src/k8s.io/apiserver/pkg/admission/plugin/webhook/mutating/dispatcher.go,
// plugin/webhook/validating/dispatcher.go, plugin/webhook/generic/webhook.go ShouldCallHook (v1.36)

use std::collections::HashSet;

use bytes::Bytes;
use klab_api_machinery::resource::ResourceId;
use klab_api_machinery::status::Status;
use serde_json::{Value, json};

use super::change::take_changed;
use super::forbidden::internal;
use super::form::{back, form};
use crate::client_config::Destination;
use crate::dynamic_admission::condition::{Verdict, judge};
use crate::dynamic_admission::request::Request;
use crate::dynamic_admission::scene::Scene;
use crate::dynamic_admission::waiting;
use crate::dynamic_admission::webhooks::answer::{self, Answer};
use crate::dynamic_admission::webhooks::configuration::Hook;
use crate::transaction::Transaction;
use crate::webhook::CallError;
use klab_fields::Operations;

/// Largest object that a patch may make.
const MAX_SIZE: usize = 3 * 1024 * 1024;

/// What those that change an object have done so far, and who has to look again.
#[derive(Debug, Default)]
pub(crate) struct Chain {
    /// Whether a later webhook or policy changed the object after one that asks to see changes.
    pub(crate) is_to_repeat: bool,
    /// Who wants to know of changes, and has been asked.
    invoked: Vec<String>,
    /// Who is asked again.
    again: HashSet<String>,
}

impl Chain {
    /// Notes a change of the object.
    pub(crate) fn changed(&mut self) {
        self.again.extend(self.invoked.drain(..));
        self.is_to_repeat = true;
    }

    /// Notes a webhook or policy that asks to see later changes.
    pub(crate) fn invoked(&mut self, id: &str) {
        self.invoked.push(id.to_owned());
    }

    /// Whether this one is asked in the second round.
    pub(crate) fn is_asked_again(&self, id: &str) -> bool {
        self.again.contains(id)
    }
}

/// Why there is no answer.
enum Failure {
    /// It has to be asked for first.
    Waiting,
    /// The webhook could not be asked; what matters is its failure policy.
    Calling(String),
    Refused(Status),
}

/// Asks the webhooks that may change the object.
pub(crate) fn ask_mutating(
    transaction: &mut Transaction<'_>,
    request: &Request<'_>,
    mut object: Option<&mut Value>,
    chain: &mut Chain,
    repeated: bool,
) -> Result<(), Status> {
    let hooks = transaction.state.admission.webhooks.mutating(&transaction.state.store);
    for hook in hooks.iter() {
        let Some(served) = is_concerned(transaction, hook, request, object.as_deref())? else { continue };
        if repeated && !chain.is_asked_again(&hook.id) {
            continue;
        }
        let outcome = ask(transaction, hook, request, served, object.as_deref(), true);
        let Some(answer) = settled(hook, outcome)? else { continue };
        if let Some(patch) = answer.patch
            && change(transaction, hook, request, served, object.as_deref_mut(), &patch)?
        {
            chain.changed();
        }
        if hook.is_reinvoked {
            chain.invoked(&hook.id);
        }
    }
    Ok(())
}

/// Asks the webhooks that judge the object.
pub(crate) fn ask_validating(
    transaction: &mut Transaction<'_>,
    request: &Request<'_>,
    object: Option<&Value>,
) -> Result<(), Status> {
    let hooks = transaction.state.admission.webhooks.validating(&transaction.state.store);
    let mut asked = Vec::new();
    for hook in hooks.iter() {
        if let Some(served) = is_concerned(transaction, hook, request, object)? {
            asked.push((hook, served));
        }
    }
    let mut outcomes = Vec::new();
    for (hook, served) in asked {
        outcomes.push((hook, ask(transaction, hook, request, served, object, false)));
    }
    if outcomes.iter().any(|(_, outcome)| matches!(outcome, Err(Failure::Waiting))) {
        return Err(waiting());
    }
    for (hook, outcome) in outcomes {
        settled(hook, outcome)?;
    }
    Ok(())
}

/// The form in which a webhook is shown the object, if it is to be asked.
fn is_concerned(
    transaction: &mut Transaction<'_>,
    hook: &Hook,
    request: &Request<'_>,
    object: Option<&Value>,
) -> Result<Option<ResourceId>, Status> {
    let Some(served) = hook.matching.selects(&transaction.state.store, request, object)? else { return Ok(None) };
    if hook.conditions.is_empty() {
        return Ok(Some(served));
    }
    let (object, old) = (form(transaction, served, request, object)?, form(transaction, served, request, request.old)?);
    let described = request.describe(served, None, None);
    let scene = Scene::new(request, &described, &transaction.state.store, (object.as_ref(), old.as_ref()));
    match judge(&hook.conditions, &scene, hook.ignores_failure) {
        Verdict::Holds => Ok(Some(served)),
        Verdict::Fails => Ok(None),
        Verdict::Error(because) => Err(Status::forbidden(request.resource.row(), request.name, &because)),
    }
}

fn ask(
    transaction: &mut Transaction<'_>,
    hook: &Hook,
    request: &Request<'_>,
    served: ResourceId,
    object: Option<&Value>,
    mutating: bool,
) -> Result<Answer, Failure> {
    let name = &hook.name;
    if request.dry_run && !hook.has_no_side_effects {
        let message = format!("admission webhook \"{name}\" does not support dry run");
        return Err(Failure::Refused(Status::bad_request(message)));
    }
    let uid = transaction.state.random_uid();
    let body = review(transaction, request, served, object, &uid).map_err(Failure::Refused)?;
    let destination = hook.client.destination(&transaction.state.store);
    let address = destination.as_ref().ok().and_then(Destination::address);
    let call = hook.client.call(address, hook.timeout, body);
    let post = |because: &str| Failure::Calling(format!("failed to call webhook: Post \"{}\": {because}", call.url));
    let answered = match (destination, transaction.options.pending_webhooks) {
        (Err(because), _) => return Err(post(&because)),
        (Ok(_), None) => return Err(post("webhooks cannot be asked here")),
        (Ok(_), Some(pending_webhooks)) => pending_webhooks.answer(&call),
    };
    let body = match answered {
        None => return Err(Failure::Waiting),
        Some(Err(CallError::Unreachable(because))) => return Err(post(&because)),
        Some(Err(CallError::Unreadable(because))) => {
            return Err(Failure::Calling(format!("failed to call webhook: {because}")));
        }
        Some(Ok(body)) => body,
    };
    let answer = answer::read(&body, &uid, mutating)
        .map_err(|because| Failure::Calling(format!("received invalid webhook response: {because}")))?;
    for warning in &answer.warnings {
        if !transaction.warnings.contains(warning) {
            transaction.warnings.push(warning.clone());
        }
    }
    if answer.allowed { Ok(answer) } else { Err(Failure::Refused(answer::refusal(name, &answer.status))) }
}

/// What a webhook is sent.
fn review(
    transaction: &Transaction<'_>,
    request: &Request<'_>,
    served: ResourceId,
    object: Option<&Value>,
    uid: &str,
) -> Result<Bytes, Status> {
    let (object, old) = (form(transaction, served, request, object)?, form(transaction, served, request, request.old)?);
    let mut described = request.describe(served, object.as_ref(), old.as_ref());
    described["uid"] = json!(uid);
    let review = json!({ "kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": described });
    Ok(Bytes::from(review.to_string()))
}

/// Carries out a patch; says whether it changed anything.
fn change(
    transaction: &Transaction<'_>,
    hook: &Hook,
    request: &Request<'_>,
    served: ResourceId,
    object: Option<&mut Value>,
    patch: &[u8],
) -> Result<bool, Status> {
    let operations: json_patch::Patch = match serde_json::from_slice(patch) {
        Ok(operations) => operations,
        Err(error) => {
            let because = format!("received undecodable patch in webhook response: {error}");
            return settled(hook, Err(Failure::Calling(because))).map(|_| false);
        }
    };
    if operations.0.is_empty() {
        return Ok(false);
    }
    let Some(object) = object else {
        return Err(internal(&format!(
            "admission webhook \"{}\" attempted to modify the object, which is not supported for this operation",
            hook.name
        )));
    };
    let mut changed = form(transaction, served, request, Some(object))?.unwrap_or_default();
    Operations::all(&mut changed, operations).map_err(|error| internal(&error.to_string()))?;
    if changed.to_string().len() > MAX_SIZE {
        return Err(internal(&format!("admission webhook \"{}\" made the object larger than {MAX_SIZE}", hook.name)));
    }
    let changed = back(transaction, served, request, changed)?;
    let differs = changed != *object;
    if differs {
        take_changed(request, object, changed)?;
    }
    Ok(differs)
}

/// The answer, none where its absence does not matter.
fn settled(hook: &Hook, outcome: Result<Answer, Failure>) -> Result<Option<Answer>, Status> {
    match outcome {
        Ok(answer) => Ok(Some(answer)),
        Err(Failure::Waiting) => Err(waiting()),
        Err(Failure::Refused(status)) => Err(status),
        Err(Failure::Calling(_)) if hook.ignores_failure => Ok(None),
        Err(Failure::Calling(because)) => {
            Err(internal(&format!("failed calling webhook \"{}\": {because}", hook.name)))
        }
    }
}
