//! Patches of objects and of their Scales.

use std::sync::Arc;

use klab_api_machinery::object::Object;
use klab_api_machinery::resource::ResourceId;
use klab_api_machinery::status::Status;
use serde_json::Value;

use super::{Cluster, Part, WriteOptions, Written};
use crate::pipeline::{self, Configuration};
use klab_fields::Patch;

impl Cluster {
    /// Patches an object; server-side apply creates it if there is none. Also says whether it was created.
    ///
    /// # Errors
    /// The Status an API server would answer with.
    pub fn patch(
        &self,
        resource: ResourceId,
        part: Part,
        namespace: &str,
        name: &str,
        patch: Patch,
        options: &WriteOptions<'_>,
    ) -> Result<(Arc<Object>, bool), Status> {
        let written = self.patch_reporting(resource, part, namespace, name, patch, options)?;
        Ok((written.object, written.created))
    }

    /// [`Cluster::patch`], with the warnings a client is to see.
    ///
    /// # Errors
    /// The Status an API server would answer with.
    pub fn patch_reporting(
        &self,
        resource: ResourceId,
        part: Part,
        namespace: &str,
        name: &str,
        patch: Patch,
        options: &WriteOptions<'_>,
    ) -> Result<Written, Status> {
        self.write(options, patch, |transaction, patch| {
            let (object, created) = match patch {
                Patch::Apply { value: config, force } => {
                    pipeline::apply(transaction, Configuration { resource, part, namespace, name, config, force })?
                }
                other => (pipeline::patch(transaction, resource, part, namespace, name, other)?, false),
            };
            Ok(transaction.written(object, created))
        })
    }

    /// Patches the Scale of a workload, and returns the new one with the warnings a client is to see.
    ///
    /// # Errors
    /// The Status an API server would answer with.
    pub fn scale_patch(
        &self,
        resource: ResourceId,
        namespace: &str,
        name: &str,
        patch: &Patch,
        options: &WriteOptions<'_>,
    ) -> Result<(Value, Vec<String>), Status> {
        self.scale_as(resource, namespace, name, options, &|transaction, mut scale, managers| {
            if let Patch::Apply { value, force } = patch {
                return managers.apply(scale, value, *force);
            }
            patch.carry_out("autoscaling/v1", "Scale", &mut scale)?;
            let before = scale.clone();
            pipeline::decode_scale(transaction, &mut scale)
                .map_err(|fault| pipeline::refused(patch, &before, &fault))?;
            Ok(scale)
        })
    }
}
