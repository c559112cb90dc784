//! Writes through subresources: binding, eviction, scale.

use std::sync::Arc;

use klab_api_machinery::object::Object;
use klab_api_machinery::resource::ResourceId;
use klab_api_machinery::status::Status;
use serde_json::Value;

use super::{Cluster, DeleteOptions, Deleted, WriteOptions};
use crate::admission::{AdmissionRequest, consider, is_configured};
use crate::dynamic_admission::Operation;
use crate::pipeline::{self, ScaleChange, ScalePaths, no_scale, scale_of};

impl Cluster {
    /// Binds a pod to a node: sets `spec.nodeName` and the condition `PodScheduled`, copies the node's region and zone.
    ///
    /// # Errors
    /// 404 without the pod, 409 when it is bound already, being deleted or gated.
    pub fn bind(&self, namespace: &str, pod: &str, node: &str) -> Result<Arc<Object>, Status> {
        self.bind_with(namespace, pod, node, &WriteOptions::by("kube-scheduler"))
    }

    /// [`Cluster::bind`] with options.
    ///
    /// # Errors
    /// As [`Cluster::bind`].
    pub fn bind_with(
        &self,
        namespace: &str,
        pod: &str,
        node: &str,
        options: &WriteOptions<'_>,
    ) -> Result<Arc<Object>, Status> {
        self.write(options, (), |transaction, ()| pipeline::bind(transaction, namespace, pod, node))
    }

    /// Evicts a pod: deletes it if the disruption budgets that cover it allow that.
    ///
    /// # Errors
    /// 404 without the pod, 429 when a budget forbids it, 500 when more than one budget covers the pod.
    pub fn evict(&self, namespace: &str, pod: &str, options: &DeleteOptions) -> Result<Deleted, Status> {
        self.evict_by(namespace, pod, options, &WriteOptions::by("kube-apiserver"))
    }

    /// [`Cluster::evict`] for somebody.
    ///
    /// # Errors
    /// As [`Cluster::evict`].
    pub(crate) fn evict_by(
        &self,
        namespace: &str,
        pod: &str,
        options: &DeleteOptions,
        write: &WriteOptions<'_>,
    ) -> Result<Deleted, Status> {
        let write = WriteOptions { dry_run: options.dry_run, ..write.clone() };
        self.write(&write, (), |transaction, ()| pipeline::evict(transaction, namespace, pod, options))
    }

    /// Asks webhooks and policies about a connection to a part of an object, with the options that it was asked for with.
    ///
    /// # Errors
    /// The Status of who refuses it.
    // upstream: staging/src/k8s.io/apiserver/pkg/endpoints/handlers/rest.go ConnectResource (v1.36)
    pub(crate) fn connect(
        &self,
        resource: ResourceId,
        (namespace, name): (&str, &str),
        subresource: &str,
        asked: &Value,
        options: &WriteOptions<'_>,
    ) -> Result<(), Status> {
        if !self.read(is_configured) {
            return Ok(());
        }
        self.write(options, (), |transaction, ()| {
            let kind = Some(("", "v1", asked["kind"].as_str().unwrap_or_default()));
            let operation = Operation::Connect;
            let admission_request =
                AdmissionRequest { operation, resource, subresource, namespace, name, kind, old: None };
            consider(transaction, &admission_request, Some(asked))
        })
    }

    /// The Scale of an object in the version that is asked for.
    ///
    /// # Errors
    /// 404 for a kind that has no scale.
    pub(crate) fn scale_shown(&self, resource: ResourceId, object: &Object) -> Result<Value, Status> {
        let paths = self.read_scale(resource).ok_or_else(no_scale)?;
        Ok(scale_of(resource, &paths, &object.value()))
    }

    fn read_scale(&self, resource: ResourceId) -> Option<ScalePaths> {
        let state = self.lock();
        ScalePaths::of(resource, state.definitions.of(&state.store, resource).as_deref())
    }

    /// Writes a Scale, and returns the new one, with the warnings that a client is to see.
    ///
    /// # Errors
    /// 404 without the object, 409 for a stale resourceVersion, 422 for a negative number.
    pub(crate) fn scale_set(
        &self,
        resource: ResourceId,
        namespace: &str,
        name: &str,
        scale: &Value,
        options: &WriteOptions<'_>,
    ) -> Result<(Value, Vec<String>), Status> {
        self.scale_as(resource, namespace, name, options, &|transaction, _, _| {
            let mut scale = scale.clone();
            pipeline::decode_scale(transaction, &mut scale).map_err(|fault| fault.of("Scale", "v1"))?;
            Ok(scale)
        })
    }

    /// Changes a Scale by a patch, and returns the new one.
    ///
    /// # Errors
    /// 404 without the object, 409 for a stale resourceVersion, 422 for a negative number; or what `change` answers.
    pub fn scale_modify(
        &self,
        resource: ResourceId,
        namespace: &str,
        name: &str,
        options: &WriteOptions<'_>,
        change: impl Fn(Value) -> Result<Value, Status>,
    ) -> Result<Value, Status> {
        self.scale_as(resource, namespace, name, options, &|_, scale, _| change(scale)).map(|(scale, _)| scale)
    }

    /// [`Cluster::scale_modify`] by somebody who looks at the managers of the object, too. Also gives warnings.
    pub(crate) fn scale_as(
        &self,
        resource: ResourceId,
        namespace: &str,
        name: &str,
        options: &WriteOptions<'_>,
        change: &ScaleChange<'_>,
    ) -> Result<(Value, Vec<String>), Status> {
        self.write(options, (), |transaction, ()| {
            let scale = pipeline::scale(transaction, resource, namespace, name, change)?;
            Ok((scale, std::mem::take(&mut transaction.warnings)))
        })
    }
}
