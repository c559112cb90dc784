//! Converts lists and answers to the requested version, where a webhook converts custom resources.

use std::sync::Arc;

use klab_api_machinery::object::Object;
use klab_api_machinery::resource::ResourceId;
use klab_api_machinery::status::Status;

use super::Cluster;
use crate::client_config::Destination;
use crate::custom_versions::{Webhook, convert_all};
use crate::dynamic_admission::PendingWebhooks;

impl Cluster {
    /// Whether a webhook converts objects of a kind.
    pub(crate) fn converts(&self, resource: ResourceId) -> bool {
        resource.row().custom && self.definition(resource).is_some_and(|definition| definition.conversion.is_some())
    }

    /// Objects in a version. Where a webhook is to be asked first, the consultation has the question, and no client
    /// sees the error.
    ///
    /// # Errors
    /// 500 with what the webhook or its answer lacks.
    pub(crate) fn in_version(
        &self,
        pending_webhooks: &PendingWebhooks,
        resource: ResourceId,
        objects: Vec<Arc<Object>>,
    ) -> Result<Vec<Arc<Object>>, Status> {
        if !resource.row().custom {
            return Ok(objects);
        }
        let Some(definition) = self.definition(resource) else { return Ok(objects) };
        let Some(webhook) = Webhook::of(&definition) else { return Ok(objects) };
        let mut values = Vec::with_capacity(objects.len());
        let mut is_asked = false;
        for object in &objects {
            is_asked |= object.resource != resource;
            let mut value = object.to_value();
            definition.read_from_storage(object.resource, &mut value);
            values.push(value);
        }
        let destination = if is_asked { webhook.client.destination(&self.lock().store) } else { Ok(Destination::Host) };
        let converted = convert_all(&definition, &webhook, &destination, pending_webhooks, resource, values)?;
        let served = converted.into_iter().zip(&objects).map(|(value, stored)| {
            let object = Object::new(resource, stored.resource_version, &value);
            Arc::new(object.managed_by(stored.managed().cloned()))
        });
        Ok(served.collect())
    }

    /// [`Cluster::in_version`], waiting for the webhook.
    ///
    /// # Errors
    /// As there.
    pub(crate) async fn in_version_asking(
        &self,
        resource: ResourceId,
        objects: Vec<Arc<Object>>,
    ) -> Result<Vec<Arc<Object>>, Status> {
        let pending_webhooks = PendingWebhooks::default();
        loop {
            let result = self.in_version(&pending_webhooks, resource, objects.clone());
            if !self.resolve_webhooks(&pending_webhooks).await {
                return result;
            }
        }
    }
}
