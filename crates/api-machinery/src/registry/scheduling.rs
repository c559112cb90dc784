//! Kinds about where and how pods run: the groups policy, scheduling, node and coordination.

use klab_cel::names;

use super::aspects::{Aspects, InitialStatus, Validation};
use super::strategy;
use crate::defaults;
use crate::resource::{LEASES, POD_DISRUPTION_BUDGETS, PRIORITY_CLASSES, RUNTIME_CLASSES, ResourceId};
use crate::table;
use crate::validation;

pub(super) static KINDS: &[(ResourceId, Aspects)] = &[
    (
        POD_DISRUPTION_BUDGETS,
        Aspects {
            schema: Some("io.k8s.api.policy.v1.PodDisruptionBudget"),
            name: names::subdomain,
            initial_status: InitialStatus::Empty,
            defaults: None,
            prepare: None,
            validation: Validation::Each(validation::config::disruption_budget),
            update_validation: None,
            metadata_reports: 2,
            quota: None,
            generation: Some(strategy::spec),
            orphans_dependents: false,
            answers_with_deleted: false,
            conversion: None,
            warning: None,
            warnings: None,
            fields: &[],
            columns: "Name:name|Min Available|Max Unavailable|Allowed Disruptions:integer|Age",
            cells: table::workloads::pod_disruption_budget,
        },
    ),
    (
        PRIORITY_CLASSES,
        Aspects {
            schema: Some("io.k8s.api.scheduling.v1.PriorityClass"),
            name: names::subdomain,
            initial_status: InitialStatus::AsGiven,
            defaults: Some(defaults::config::priority_class),
            prepare: None,
            validation: Validation::Each(validation::config::priority_class),
            update_validation: Some(validation::config::priority_class_update),
            metadata_reports: 2,
            quota: None,
            generation: Some(strategy::nothing),
            orphans_dependents: false,
            answers_with_deleted: false,
            conversion: None,
            warning: None,
            warnings: None,
            fields: &[],
            columns: "Name:name|Value:integer|Global-Default:boolean|Age|PreemptionPolicy",
            cells: table::workloads::priority_class,
        },
    ),
    (
        LEASES,
        Aspects {
            schema: Some("io.k8s.api.coordination.v1.Lease"),
            name: names::subdomain,
            initial_status: InitialStatus::AsGiven,
            defaults: None,
            prepare: None,
            validation: Validation::Each(validation::records::lease),
            update_validation: None,
            metadata_reports: 2,
            quota: None,
            generation: None,
            orphans_dependents: false,
            answers_with_deleted: false,
            conversion: None,
            warning: None,
            warnings: None,
            fields: &[],
            columns: "Name:name|Holder|Age",
            cells: table::other::lease,
        },
    ),
    (
        RUNTIME_CLASSES,
        Aspects {
            schema: Some("io.k8s.api.node.v1.RuntimeClass"),
            name: names::subdomain,
            initial_status: InitialStatus::AsGiven,
            defaults: None,
            prepare: None,
            validation: Validation::Each(validation::runtime_class::check),
            update_validation: Some(validation::runtime_class::update),
            metadata_reports: 2,
            quota: None,
            generation: None,
            orphans_dependents: false,
            answers_with_deleted: false,
            conversion: None,
            warning: None,
            warnings: Some(validation::warnings::runtime_class),
            fields: &[],
            columns: "Name:name|Handler|Age",
            cells: table::other::runtime_class,
        },
    ),
];
