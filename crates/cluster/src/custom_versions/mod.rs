//! Custom resources in the version they are asked for. Objects are kept in the version that their definition stored them
//! in when they were written; a webhook is asked for all others, without the lock.

// upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/apiserver/customresource_handler.go
// crdConversionRESTOptionsGetter: from storage, pruned and with the defaults of the version they are stored in, converted,
// and pruned again; to storage, converted and pruned (v1.36)

mod conversion;

use std::collections::HashSet;
use std::sync::Arc;

use klab_api_machinery::custom::{Definition, Version, prune};
use klab_api_machinery::object::Object;
use klab_api_machinery::resource::ResourceId;
use klab_api_machinery::status::Status;
use serde_json::{Value, json};

pub(crate) use self::conversion::Webhook;
use crate::client_config::Destination;
use crate::dynamic_admission::{Batch, PendingWebhooks, waiting};
use crate::transaction::Transaction;

/// Objects of one request to a webhook at most, and about how many bytes of them.
const BATCH: usize = 500;
const BATCH_BYTES: usize = 1024 * 1024;

/// The object in the version of this write, or 404. Writes that are for no version see it as it is stored.
pub(crate) fn live(
    transaction: &Transaction<'_>,
    resource: ResourceId,
    namespace: &str,
    name: &str,
) -> Result<Arc<Object>, Status> {
    let current = transaction.existing(resource, namespace, name)?;
    in_own_version(transaction, resource, current)
}

/// An object in the version of this write.
pub(crate) fn in_own_version(
    transaction: &Transaction<'_>,
    resource: ResourceId,
    object: Arc<Object>,
) -> Result<Arc<Object>, Status> {
    if transaction.options.served.is_none() || !resource.row().custom || object.resource == resource {
        return Ok(object);
    }
    let Some(definition) = transaction.state.definitions.of(&transaction.state.store, resource) else {
        return Ok(object);
    };
    let mut value = object.to_value();
    definition.read_from_storage(object.resource, &mut value);
    let value = convert(transaction, resource, value)?;
    Ok(Arc::new(Object::with_tree(resource, object.resource_version, value, object.managed().cloned())))
}

/// A custom resource in another version.
///
/// # Errors
/// What the webhook or its answer lacks, or that it has to be asked first.
pub(crate) fn convert(transaction: &Transaction<'_>, to: ResourceId, mut value: Value) -> Result<Value, Status> {
    let Some(definition) = transaction.state.definitions.of(&transaction.state.store, to) else { return Ok(value) };
    let Some(webhook) = Webhook::of(&definition) else {
        definition.rename(to, &mut value);
        return Ok(value);
    };
    let Some(pending_webhooks) = transaction.options.pending_webhooks else {
        return Err(refused(conversion::failed(&value, "webhooks cannot be asked here")));
    };
    let destination = webhook.client.destination(&transaction.state.store);
    let converted = convert_all(&definition, &webhook, &destination, pending_webhooks, to, vec![value])?;
    converted.into_iter().next().ok_or_else(waiting)
}

/// What is stored of a new version of an object, and as which kind. What the client is answered is made ready as well:
/// after the write it is too late to ask for it.
///
/// # Errors
/// As [`convert`], and that a webhook must answer about the write first.
pub(crate) fn for_storage(
    transaction: &Transaction<'_>,
    resource: ResourceId,
    value: Value,
) -> Result<(ResourceId, Value), Status> {
    if transaction.options.pending_webhooks.is_some_and(PendingWebhooks::is_pending) {
        return Err(waiting());
    }
    if !resource.row().custom {
        return Ok((resource, value));
    }
    let definition = transaction.state.definitions.of(&transaction.state.store, resource);
    let mut value = value;
    if let Some(definition) = &definition {
        // Webhooks and policies may have added what the schema does not know.
        definition.prune(resource, &mut value);
    }
    let Some(storing) = definition.as_ref().and_then(|definition| definition.storing()) else {
        return Ok((resource, value));
    };
    // A controller's write stays in its version: controllers do not wait for a webhook.
    if storing == resource || transaction.options.served.is_none() {
        return Ok((resource, value));
    }
    let stored = convert(transaction, storing, value)?;
    if let Some(definition) = definition.filter(|definition| definition.conversion.is_some()) {
        let mut again = stored.clone();
        definition.read_from_storage(storing, &mut again);
        convert(transaction, resource, again)?;
    }
    Ok((storing, stored))
}

/// Whether the next version of an object is what is stored already. One that is stored in another version than objects
/// are written in now is not: so objects get into the new one.
pub(crate) fn is_stored(
    transaction: &Transaction<'_>,
    current: &Object,
    old: &Value,
    resource: ResourceId,
    new: &Value,
) -> bool {
    if !resource.row().custom {
        return new == old;
    }
    let stored = transaction.state.store.get(resource, &current.namespace, &current.name);
    stored.is_some_and(|stored| stored.resource == resource && *stored.value() == *new)
}

/// 500 without a reason, as errors are that API servers know no status for.
fn refused(because: String) -> Status {
    Status::new(500, "", because)
}

/// Objects, read from storage, in a version.
pub(crate) fn convert_all(
    definition: &Definition,
    webhook: &Webhook,
    destination: &Result<Destination, String>,
    pending_webhooks: &PendingWebhooks,
    to: ResourceId,
    objects: Vec<Value>,
) -> Result<Vec<Value>, Status> {
    let wanted = to.row().api_version();
    let mut done = Vec::with_capacity(objects.len());
    let (mut missing, mut known) = (Vec::new(), HashSet::new());
    for object in objects {
        if object["apiVersion"] == wanted.as_str() {
            done.push(object);
            continue;
        }
        let from = object["apiVersion"].as_str().unwrap_or_default();
        for (version, word) in [(from, "from"), (&*wanted, "to")] {
            if !definition.has(version) {
                return Err(refused(format!("request to convert CR {word} an invalid group/version: {version}")));
            }
        }
        let key = conversion::key(definition.version, &wanted, &object);
        match pending_webhooks.converted(&key) {
            Some(Ok(converted)) => {
                let mut restored = conversion::restore(&object, converted).map_err(refused)?;
                if let Some(schema) = definition.version(to).map(Version::schema) {
                    prune(schema, &mut restored);
                }
                done.push(restored);
            }
            Some(Err(because)) => return Err(refused(because)),
            None if known.contains(&key) => {}
            None => {
                known.insert(key.clone());
                missing.push((key, object));
            }
        }
    }
    if missing.is_empty() {
        return Ok(done);
    }
    let mut batches = Vec::new();
    while !missing.is_empty() {
        let mut bytes = 0;
        let fits = |(key, _): &&(String, Value)| {
            bytes += key.len();
            bytes <= BATCH_BYTES
        };
        let count = missing.iter().take(BATCH).take_while(fits).count().max(1);
        let rest = missing.split_off(count.min(missing.len()));
        let (keys, objects): (Vec<_>, Vec<_>) = std::mem::replace(&mut missing, rest).into_iter().unzip();
        let first = objects.first().cloned().unwrap_or(json!(null));
        let address = destination.as_ref().ok().and_then(Destination::address);
        let question = webhook.ask(address, &wanted, objects).map_err(refused)?;
        let call = question.call.clone();
        if let Err(because) = destination {
            return Err(refused(conversion::unreached(&first, &call, because)));
        }
        batches.push(Batch { call, keys, read: Box::new(move |answer| question.read(answer)) });
    }
    pending_webhooks.convert(batches).map_err(|because| refused(because.to_owned()))?;
    Err(waiting())
}
