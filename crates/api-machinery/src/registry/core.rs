//! Kinds of the core group, and Events under their own group.

use klab_cel::names;

use super::aspects::{Conversion, Field, InitialStatus, Quota, Validation};
use super::conversion;
use super::strategy;
use super::usage;
use crate::defaults;
use crate::table;
use crate::validation::{self, Place};
use crate::views::PodTemplate;

kinds! {
    BINDINGS {}
    CONTAINER_FILES {}
    COMPONENT_STATUSES {
        columns: "Name:name|Status|Message|Error",
        cells: table::other::component_status,
    }
    CONFIG_MAPS {
        validation: Validation::Each(validation::config::config_map),
        update_validation: Some(validation::config::frozen),
        metadata_reports: 3,
        quota: Some(Quota::Plural),
        columns: "Name:name|Data|Age",
        cells: table::core::config_map,
    }
    ENDPOINTS {
        defaults: Some(defaults::config::endpoints),
        validation: Validation::New(validation::endpoints::endpoints),
        update_validation: Some(validation::endpoints::endpoints_update),
        warning: Some("v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice"),
        warnings: Some(validation::warnings::endpoints),
        columns: "Name:name|Endpoints|Age",
        cells: table::core::endpoints,
    }
    EVENTS {
        validation: Validation::Each(validation::records::event),
        fields: &[
            Field::at("involvedObject.kind"),
            Field::at("involvedObject.namespace"),
            Field::at("involvedObject.name"),
            Field::at("involvedObject.uid"),
            Field::at("involvedObject.apiVersion"),
            Field::at("involvedObject.resourceVersion"),
            Field::at("involvedObject.fieldPath"),
            Field::at("reason"),
            Field::at("reportingComponent"),
            Field::at("source.component").called("source").else_at("reportingComponent"),
            Field::at("type"),
        ],
        columns: "Last Seen|Type|Reason|Object|Subobject*|Source*|Message|First Seen*|Count*|Name:name*",
        cells: table::core::event,
    }
    LIMIT_RANGES {
        defaults: Some(defaults::config::limit_range),
        validation: Validation::Each(validation::limit_range::check),
        columns: "Name:name|Created At:date",
        cells: table::other::name_and_creation,
    }
    NAMESPACES {
        name: names::label,
        initial_status: InitialStatus::Phase("Active"),
        prepare: Some(strategy::label_namespace),
        validation: Validation::New(validation::metadata::namespace),
        fields: &[Field::at("status.phase")],
        columns: "Name:name|Status|Age",
        cells: table::core::namespace,
    }
    NODES {
        defaults: Some(defaults::config::node),
        validation: Validation::Each(validation::node::check),
        update_validation: Some(validation::node::update),
        metadata_reports: 4,
        warnings: Some(validation::warnings::node),
        fields: &[Field::at("spec.unschedulable").or("false")],
        columns: "Name:name|Status|Roles|Age|Version|Internal-IP*|External-IP*|OS-Image*|Kernel-Version*|Container-Runtime*",
        cells: table::core::node,
    }
    PERSISTENT_VOLUME_CLAIMS {
        initial_status: InitialStatus::Phase("Pending"),
        defaults: Some(defaults::storage::claim),
        validation: Validation::Each(validation::claim::check),
        update_validation: Some(validation::claim::update),
        quota: Some(Quota::Own { counts: usage::claims_count, usage: usage::claim }),
        answers_with_deleted: true,
        warnings: Some(validation::warnings::claim),
        columns: "Name:name|Status|Volume|Capacity|Access Modes|StorageClass|VolumeAttributesClass|Age|VolumeMode*",
        cells: table::core::volume_claim,
    }
    PERSISTENT_VOLUMES {
        initial_status: InitialStatus::Phase("Pending"),
        defaults: Some(defaults::storage::volume),
        validation: Validation::Each(validation::persistent_volume::check),
        update_validation: Some(validation::persistent_volume::update),
        answers_with_deleted: true,
        warnings: Some(validation::warnings::volume),
        columns: "Name:name|Capacity|Access Modes|Reclaim Policy|Status|Claim|StorageClass|VolumeAttributesClass|Reason|Age|VolumeMode*",
        cells: table::core::volume,
    }
    PODS {
        initial_status: InitialStatus::Phase("Pending"),
        defaults: Some(defaults::pod::pod),
        validation: Validation::New(validation::pod::create),
        update_validation: Some(validation::pod_update::check),
        quota: Some(Quota::Own { counts: usage::pods_count, usage: usage::pod }),
        generation: Some(strategy::spec),
        answers_with_deleted: true,
        warnings: Some(validation::warnings::pod),
        fields: &[
            Field::at("spec.nodeName"),
            Field::at("spec.restartPolicy"),
            Field::at("spec.schedulerName"),
            Field::at("spec.serviceAccountName"),
            Field::at("spec.hostNetwork").or("false"),
            Field::at("status.phase"),
            Field::at("status.podIP"),
            Field::at("status.podIPs"),
            Field::at("status.nominatedNodeName"),
        ],
        columns: "Name:name|Ready|Status|Restarts|Age|IP*|Node*|Nominated Node*|Readiness Gates*",
        cells: table::pods::pod,
    }
    POD_TEMPLATES {
        defaults: Some(|value| defaults::pod::template(&mut value["template"])),
        validation: Validation::Each(|value, errors| {
            validation::pod::template(&Place::<PodTemplate<'_>>::root(value).template(), errors);
        }),
        answers_with_deleted: true,
        warnings: Some(validation::warnings::pod_template),
        columns: "Name:name|Containers|Images|Pod Labels",
        cells: table::core::pod_template,
    }
    REPLICATION_CONTROLLERS {
        initial_status: InitialStatus::Empty,
        defaults: Some(defaults::workload::replication_controller),
        validation: Validation::Each(validation::workload::replication_controller),
        quota: Some(Quota::Plural),
        generation: Some(strategy::spec),
        orphans_dependents: true,
        warnings: Some(validation::warnings::replication_controller),
        fields: &[Field::at("status.replicas").or("0")],
        columns: "Name:name|Desired:integer|Current:integer|Ready:integer|Age|Containers*|Images*|Selector*",
        cells: table::workloads::replica_set,
    }
    RESOURCE_QUOTAS {
        initial_status: InitialStatus::Empty,
        validation: Validation::Each(validation::quota::check),
        update_validation: Some(validation::quota::update),
        quota: Some(Quota::Plural),
        answers_with_deleted: true,
        warnings: Some(validation::warnings::quota),
        columns: "Name:name|Request|Limit|Age",
        cells: table::core::resource_quota,
    }
    SECRETS {
        defaults: Some(defaults::config::secret),
        validation: Validation::Each(validation::secret::check),
        update_validation: Some(validation::secret::update),
        metadata_reports: 3,
        quota: Some(Quota::Plural),
        warnings: Some(validation::warnings::secret),
        fields: &[Field::at("type")],
        columns: "Name:name|Type|Data|Age",
        cells: table::core::secret,
    }
    SERVICE_ACCOUNTS {
        answers_with_deleted: true,
        warnings: Some(validation::warnings::service_account),
    }
    SERVICES {
        name: names::label,
        initial_status: InitialStatus::Empty,
        defaults: Some(defaults::service::service),
        prepare: Some(strategy::drop_by_type),
        validation: Validation::New(validation::service::create),
        update_validation: Some(validation::service::update),
        metadata_reports: 3,
        quota: Some(Quota::Own { counts: usage::services_count, usage: usage::service }),
        answers_with_deleted: true,
        warnings: Some(validation::warnings::service),
        fields: &[Field::at("spec.clusterIP"), Field::at("spec.type")],
        columns: "Name:name|Type|Cluster-IP|External-IP|Port(s)|Age|Selector*",
        cells: table::core::service,
    }
    GROUPED_EVENTS {
        conversion: Some(Conversion { serve: conversion::event_to_grouped, store: conversion::event_from_grouped }),
        fields: &[
            Field::at("involvedObject.kind").called("regarding.kind"),
            Field::at("involvedObject.namespace").called("regarding.namespace"),
            Field::at("involvedObject.name").called("regarding.name"),
            Field::at("involvedObject.uid").called("regarding.uid"),
            Field::at("involvedObject.apiVersion").called("regarding.apiVersion"),
            Field::at("involvedObject.resourceVersion").called("regarding.resourceVersion"),
            Field::at("involvedObject.fieldPath").called("regarding.fieldPath"),
            Field::at("reason"),
            Field::at("reportingComponent").called("reportingController"),
            Field::at("type"),
        ],
        columns: "Last Seen|Type|Reason|Object|Subobject*|Source*|Message|First Seen*|Count*|Name:name*",
        cells: table::core::event,
    }
}
