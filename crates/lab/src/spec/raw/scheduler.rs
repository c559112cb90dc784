//! `[scheduler]` as written: a `KubeSchedulerConfiguration`.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;

/// The configuration of the cluster's scheduler, with the field names of Kubernetes.
#[derive(Debug, Deserialize)]
#[serde(transparent)]
pub(in crate::spec) struct Scheduler(pub serde_json::Value);

impl JsonSchema for Scheduler {
    fn schema_name() -> Cow<'static, str> {
        "Scheduler".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "The Kubernetes structure `KubeSchedulerConfiguration` (kubescheduler.config.k8s.io/v1) as TOML, with its field names.",
            "type": "object"
        })
    }
}
