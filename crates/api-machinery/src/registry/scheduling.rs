//! Kinds about where and how pods run: the groups policy, scheduling, node and coordination.

use super::aspects::{InitialStatus, Validation};
use super::strategy;
use crate::defaults;
use crate::table;
use crate::validation;

kinds! {
    POD_DISRUPTION_BUDGETS {
        initial_status: InitialStatus::Empty,
        validation: Validation::Each(validation::config::disruption_budget),
        generation: Some(strategy::spec),
        columns: "Name:name|Min Available|Max Unavailable|Allowed Disruptions:integer|Age",
        cells: table::workloads::pod_disruption_budget,
    }
    PRIORITY_CLASSES {
        defaults: Some(defaults::config::priority_class),
        validation: Validation::Each(validation::config::priority_class),
        update_validation: Some(validation::config::priority_class_update),
        generation: Some(strategy::nothing),
        columns: "Name:name|Value:integer|Global-Default:boolean|Age|PreemptionPolicy",
        cells: table::workloads::priority_class,
    }
    LEASES {
        validation: Validation::Each(validation::records::lease),
        columns: "Name:name|Holder|Age",
        cells: table::other::lease,
    }
    RUNTIME_CLASSES {
        validation: Validation::Each(validation::runtime_class::check),
        update_validation: Some(validation::runtime_class::update),
        warnings: Some(validation::warnings::runtime_class),
        columns: "Name:name|Handler|Age",
        cells: table::other::runtime_class,
    }
}
