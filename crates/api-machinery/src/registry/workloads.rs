//! Kinds that make pods, or scale those that do: the groups apps, batch and autoscaling.

use klab_cel::names;

use super::aspects::{Conversion, Field, InitialStatus, Validation};
use super::conversion;
use super::strategy;
use crate::defaults;
use crate::table;
use crate::validation;

kinds! {
    CONTROLLER_REVISIONS {
        validation: Validation::New(validation::records::revision),
        update_validation: Some(validation::records::revision_update),
        columns: "Name:name|Controller|Revision|Age",
        cells: table::workloads::controller_revision,
    }
    DAEMON_SETS {
        initial_status: InitialStatus::Empty,
        defaults: Some(defaults::workload::daemon_set),
        prepare: Some(strategy::count_template),
        validation: Validation::Each(validation::workload::daemon_set),
        update_validation: Some(validation::workload::same_selector),
        generation: Some(strategy::spec),
        warnings: Some(validation::warnings::daemon_set),
        columns: "Name:name|Desired:integer|Current:integer|Ready:integer|Up-to-date:integer|Available:integer|Node Selector|Age|Containers*|Images*|Selector*",
        cells: table::workloads::daemon_set,
    }
    DEPLOYMENTS {
        initial_status: InitialStatus::Empty,
        defaults: Some(defaults::workload::deployment),
        validation: Validation::Each(validation::workload::deployment),
        update_validation: Some(validation::workload::same_selector),
        generation: Some(strategy::spec_or_annotations),
        warnings: Some(validation::warnings::replica_set),
        columns: "Name:name|Ready|Up-to-date|Available|Age|Containers*|Images*|Selector*",
        cells: table::workloads::deployment,
    }
    REPLICA_SETS {
        initial_status: InitialStatus::Empty,
        defaults: Some(defaults::workload::replica_set),
        validation: Validation::Each(validation::workload::replica_set),
        update_validation: Some(validation::workload::same_selector),
        generation: Some(strategy::spec),
        warnings: Some(validation::warnings::replica_set),
        columns: "Name:name|Desired:integer|Current:integer|Ready:integer|Age|Containers*|Images*|Selector*",
        cells: table::workloads::replica_set,
    }
    STATEFUL_SETS {
        initial_status: InitialStatus::Empty,
        defaults: Some(defaults::workload::stateful_set),
        validation: Validation::New(validation::stateful_set::create),
        update_validation: Some(validation::stateful_set::update),
        generation: Some(strategy::spec),
        warnings: Some(validation::warnings::stateful_set),
        columns: "Name:name|Ready|Age|Containers*|Images*",
        cells: table::workloads::stateful_set,
    }
    HORIZONTAL_POD_AUTOSCALERS {
        initial_status: InitialStatus::Empty,
        defaults: Some(defaults::config::autoscaler),
        validation: Validation::New(validation::autoscaler::create),
        update_validation: Some(validation::autoscaler::update),
        columns: "Name:name|Reference|Targets|MinPods|MaxPods|Replicas|Age",
        cells: table::workloads::horizontal_pod_autoscaler,
    }
    HORIZONTAL_POD_AUTOSCALERS_V1 {
        initial_status: InitialStatus::Empty,
        conversion: Some(Conversion { serve: conversion::autoscaler_to_v1, store: conversion::autoscaler_from_v1 }),
        columns: "Name:name|Reference|Targets|MinPods|MaxPods|Replicas|Age",
        cells: table::workloads::horizontal_pod_autoscaler,
    }
    CRON_JOBS {
        name: names::cron_job,
        initial_status: InitialStatus::Empty,
        defaults: Some(defaults::job::cron_job),
        validation: Validation::Each(validation::job::cron_job),
        generation: Some(strategy::spec),
        warnings: Some(validation::warnings::cron_job),
        columns: "Name:name|Schedule|Timezone|Suspend:boolean|Active:integer|Last Schedule|Age|Containers*|Images*|Selector*",
        cells: table::workloads::cron_job,
    }
    JOBS {
        initial_status: InitialStatus::Empty,
        defaults: Some(defaults::job::job),
        validation: Validation::Each(validation::job::job),
        update_validation: Some(validation::job::update),
        generation: Some(strategy::spec),
        orphans_dependents: true,
        warnings: Some(validation::warnings::job),
        fields: &[Field::at("status.succeeded").called("status.successful").or("0")],
        columns: "Name:name|Status|Completions|Duration|Age|Containers*|Images*|Selector*",
        cells: table::workloads::job,
    }
}
