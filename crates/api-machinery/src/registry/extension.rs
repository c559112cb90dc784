//! Kinds that extend and configure the API server: the groups admissionregistration, apiextensions, apiregistration and
//! flowcontrol.

use super::aspects::{InitialStatus, Validation};
use super::strategy;
use crate::custom;
use crate::defaults;
use crate::table;
use crate::validation;

kinds! {
    API_SERVICES {
        schema: Some("io.k8s.kube-aggregator.pkg.apis.apiregistration.v1.APIService"),
        initial_status: InitialStatus::Empty,
        columns: "Name:name|Service|Available|Age",
        cells: table::other::api_service,
    }
    MUTATING_ADMISSION_POLICIES {
        defaults: Some(defaults::admission::policy),
        validation: Validation::Each(validation::admission_policy::mutating),
        generation: Some(strategy::spec),
        columns: "Name:name|Mutations:integer|ParamKind|Age",
        cells: table::other::mutating_policy,
    }
    MUTATING_ADMISSION_POLICY_BINDINGS {
        defaults: Some(defaults::admission::policy_binding),
        validation: Validation::Each(validation::admission_policy::mutating_binding),
        generation: Some(strategy::spec),
        columns: "Name:name|PolicyName|ParamRef|Age",
        cells: table::other::policy_binding,
    }
    MUTATING_WEBHOOK_CONFIGURATIONS {
        defaults: Some(defaults::admission::webhooks),
        validation: Validation::Each(validation::webhook::configuration),
        generation: Some(strategy::webhooks),
        columns: "Name:name|Webhooks:integer|Age",
        cells: table::other::webhook_configuration,
    }
    VALIDATING_ADMISSION_POLICIES {
        initial_status: InitialStatus::Empty,
        defaults: Some(defaults::admission::policy),
        validation: Validation::Each(validation::admission_policy::validating),
        generation: Some(strategy::spec),
        columns: "Name:name|Validations:integer|ParamKind|Age",
        cells: table::other::validating_policy,
    }
    VALIDATING_ADMISSION_POLICY_BINDINGS {
        defaults: Some(defaults::admission::policy_binding),
        validation: Validation::Each(validation::admission_policy::validating_binding),
        generation: Some(strategy::spec),
        columns: "Name:name|PolicyName|ParamRef|Age",
        cells: table::other::policy_binding,
    }
    VALIDATING_WEBHOOK_CONFIGURATIONS {
        defaults: Some(defaults::admission::webhooks),
        validation: Validation::Each(validation::webhook::configuration),
        generation: Some(strategy::webhooks),
        columns: "Name:name|Webhooks:integer|Age",
        cells: table::other::webhook_configuration,
    }
    CUSTOM_RESOURCE_DEFINITIONS {
        schema: Some("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinition"),
        initial_status: InitialStatus::Removed,
        defaults: Some(defaults::config::definition),
        validation: Validation::Each(custom::check_definition),
        generation: Some(strategy::spec),
        columns: "Name:name|Created At:date",
        cells: table::other::name_and_creation,
    }
    FLOW_SCHEMAS {
        initial_status: InitialStatus::Empty,
        defaults: Some(defaults::flow_control::flow),
        validation: Validation::Each(validation::flow_control::flow),
        columns: "Name:name|PriorityLevel|MatchingPrecedence|DistinguisherMethod|Age|MissingPL",
        cells: table::other::flow_schema,
    }
    PRIORITY_LEVEL_CONFIGURATIONS {
        initial_status: InitialStatus::Empty,
        defaults: Some(defaults::flow_control::level),
        validation: Validation::Each(validation::flow_control::level),
        columns: "Name:name|Type|NominalConcurrencyShares|Queues|HandSize|QueueLengthLimit|Age",
        cells: table::other::priority_level,
    }
}
