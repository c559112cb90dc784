//! Kinds about where and how pods run: the groups policy, scheduling, node and coordination.

use super::aspects::{Aspects, InitialStatus, PLAIN, Validation};
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
            initial_status: InitialStatus::Empty,
            validation: Validation::Each(validation::config::disruption_budget),
            generation: Some(strategy::spec),
            columns: "Name:name|Min Available|Max Unavailable|Allowed Disruptions:integer|Age",
            cells: table::workloads::pod_disruption_budget,
            ..PLAIN
        },
    ),
    (
        PRIORITY_CLASSES,
        Aspects {
            schema: Some("io.k8s.api.scheduling.v1.PriorityClass"),
            defaults: Some(defaults::config::priority_class),
            validation: Validation::Each(validation::config::priority_class),
            update_validation: Some(validation::config::priority_class_update),
            generation: Some(strategy::nothing),
            columns: "Name:name|Value:integer|Global-Default:boolean|Age|PreemptionPolicy",
            cells: table::workloads::priority_class,
            ..PLAIN
        },
    ),
    (
        LEASES,
        Aspects {
            schema: Some("io.k8s.api.coordination.v1.Lease"),
            validation: Validation::Each(validation::records::lease),
            columns: "Name:name|Holder|Age",
            cells: table::other::lease,
            ..PLAIN
        },
    ),
    (
        RUNTIME_CLASSES,
        Aspects {
            schema: Some("io.k8s.api.node.v1.RuntimeClass"),
            validation: Validation::Each(validation::runtime_class::check),
            update_validation: Some(validation::runtime_class::update),
            warnings: Some(validation::warnings::runtime_class),
            columns: "Name:name|Handler|Age",
            cells: table::other::runtime_class,
            ..PLAIN
        },
    ),
];
