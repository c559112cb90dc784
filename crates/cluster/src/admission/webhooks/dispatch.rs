//! Asking the webhooks that a request concerns: those that change the object one after the other, those that judge it all
//! at once.

// upstream: staging/src/k8s.io/apiserver/pkg/admission/plugin/webhook/mutating/dispatcher.go,
// plugin/webhook/validating/dispatcher.go, plugin/webhook/generic/webhook.go ShouldCallHook (v1.36)

use std::collections::HashSet;

use bytes::Bytes;
use serde_json::{Value, json};

use super::answer::{self, Answer};
use super::configuration::{Client, Hook};
use super::service;
use crate::admission::change::take_changed;
use crate::admission::condition::{Verdict, judge};
use crate::admission::forbidden::internal;
use crate::admission::request::Request;
use crate::admission::scene::Scene;
use crate::cluster::Transaction;
use crate::registry;
use crate::resource::ResourceId;
use crate::status::Status;
use crate::webhook::{Call, CallError};

/// Largest object that a patch may make.
const LARGEST: usize = 3 * 1024 * 1024;

/// What those that change an object have done so far, and who has to look again.
#[derive(Debug, Default)]
pub(crate) struct Chain {
    /// Whether somebody changed the object after one who wants to know.
    pub(crate) is_to_repeat: bool,
    /// Who wants to know of changes, and has been asked.
    invoked: Vec<String>,
    /// Who is asked again.
    again: HashSet<String>,
}

impl Chain {
    /// Somebody changed the object.
    pub(crate) fn changed(&mut self) {
        self.again.extend(self.invoked.drain(..));
        self.is_to_repeat = true;
    }

    /// Somebody was asked who wants to know of later changes.
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

impl Transaction<'_> {
    /// Asks the webhooks that may change the object.
    pub(crate) fn ask_mutating(
        &mut self,
        request: &Request<'_>,
        mut object: Option<&mut Value>,
        chain: &mut Chain,
        repeated: bool,
    ) -> Result<(), Status> {
        let hooks = self.state.admission.webhooks.mutating(&self.state.store);
        for hook in hooks.iter() {
            let Some(served) = self.is_concerned(hook, request, object.as_deref())? else { continue };
            if repeated && !chain.is_asked_again(&hook.id) {
                continue;
            }
            let outcome = self.ask(hook, request, served, object.as_deref(), true);
            let Some(answer) = settled(hook, outcome)? else { continue };
            if let Some(patch) = answer.patch
                && Self::change(hook, request, served, object.as_deref_mut(), &patch)?
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
    pub(crate) fn ask_validating(&mut self, request: &Request<'_>, object: Option<&Value>) -> Result<(), Status> {
        let hooks = self.state.admission.webhooks.validating(&self.state.store);
        let mut asked = Vec::new();
        for hook in hooks.iter() {
            if let Some(served) = self.is_concerned(hook, request, object)? {
                asked.push((hook, served));
            }
        }
        let mut outcomes = Vec::new();
        for (hook, served) in asked {
            outcomes.push((hook, self.ask(hook, request, served, object, false)));
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
        &mut self,
        hook: &Hook,
        request: &Request<'_>,
        object: Option<&Value>,
    ) -> Result<Option<ResourceId>, Status> {
        let Some(served) = hook.matching.selects(&self.state.store, request, object)? else { return Ok(None) };
        if hook.conditions.is_empty() {
            return Ok(Some(served));
        }
        let (object, old) = (shown(served, request, object), shown(served, request, request.old));
        let described = request.describe(served, None, None);
        let scene = Scene::new(request, &described, &self.state.store, (object.as_ref(), old.as_ref()));
        match judge(&hook.conditions, &scene, hook.ignores_failure) {
            Verdict::Holds => Ok(Some(served)),
            Verdict::Fails => Ok(None),
            Verdict::Error(because) => Err(Status::forbidden(request.resource.row(), request.name, &because)),
        }
    }

    fn ask(
        &mut self,
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
        let (call, uid) = self.call(hook, request, served, object);
        let post =
            |because: &str| Failure::Calling(format!("failed to call webhook: Post \"{}\": {because}", call.url));
        if let Client::Service { namespace, name, port, .. } = &hook.client
            && let Err(because) = service::address(&self.state.store, namespace, name, *port)
        {
            return Err(post(&because));
        }
        let Some(consultation) = self.options.consultation else {
            return Err(post("webhooks cannot be asked here"));
        };
        let body = match consultation.answer(&call) {
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
            if !self.warnings.contains(warning) {
                self.warnings.push(warning.clone());
            }
        }
        if answer.allowed { Ok(answer) } else { Err(Failure::Refused(answer::refusal(name, &answer.status))) }
    }

    /// The call of a webhook, and the uid that its answer must have.
    fn call(
        &mut self,
        hook: &Hook,
        request: &Request<'_>,
        served: ResourceId,
        object: Option<&Value>,
    ) -> (Call, String) {
        let (object, old) = (shown(served, request, object), shown(served, request, request.old));
        let mut described = request.describe(served, object.as_ref(), old.as_ref());
        let uid = self.state.random_uid();
        described["uid"] = json!(uid);
        let review = json!({ "kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": described });
        let seconds = hook.timeout.as_secs();
        let (url, address, server_name) = match &hook.client {
            Client::Url(url) => {
                let host = url.split_once("://").map_or(url.as_str(), |(_, rest)| rest);
                let host = host.split('/').next().unwrap_or_default().to_owned();
                (format!("{url}?timeout={seconds}s"), None, host)
            }
            Client::Service { namespace, name, path, port } => {
                let host = format!("{name}.{namespace}.svc");
                let slash = if path.is_empty() || path.starts_with('/') { "" } else { "/" };
                let address = service::address(&self.state.store, namespace, name, *port).ok();
                (format!("https://{host}:{port}{slash}{path}?timeout={seconds}s"), address, host)
            }
        };
        let call = Call {
            url,
            address,
            server_name,
            authorities: hook.authorities.clone(),
            timeout: hook.timeout,
            body: Bytes::from(review.to_string()),
        };
        (call, uid)
    }

    /// Carries out a patch; says whether it changed anything.
    fn change(
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
        let mut changed = shown(served, request, Some(object)).unwrap_or_default();
        json_patch::patch(&mut changed, &operations).map_err(|error| internal(&error.to_string()))?;
        if changed.to_string().len() > LARGEST {
            return Err(internal(&format!(
                "admission webhook \"{}\" made the object larger than {LARGEST}",
                hook.name
            )));
        }
        let changed = stored(served, request, changed);
        let differs = changed != *object;
        if differs {
            take_changed(request, object, changed)?;
        }
        Ok(differs)
    }
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

/// The answer to a write that has to wait; nobody sees it.
fn waiting() -> Status {
    Status::new(500, "InternalError", "the write waits for a webhook")
}

/// An object in the form of the kind that a rule names.
pub(crate) fn shown(served: ResourceId, request: &Request<'_>, object: Option<&Value>) -> Option<Value> {
    let mut value = object?.clone();
    if request.kind.is_none() && served != request.resource {
        if let Some(conversion) = registry::of(served).conversion {
            (conversion.serve)(&mut value);
        }
        set_type(served, &mut value);
    }
    Some(value)
}

/// The way back from [`shown`].
pub(crate) fn stored(served: ResourceId, request: &Request<'_>, mut value: Value) -> Value {
    if request.kind.is_none() && served != request.resource {
        if let Some(conversion) = registry::of(served).conversion {
            (conversion.store)(&mut value);
        }
        set_type(request.resource, &mut value);
    }
    value
}

fn set_type(resource: ResourceId, value: &mut Value) {
    value["kind"] = json!(resource.row().kind);
    value["apiVersion"] = json!(resource.row().api_version());
}
