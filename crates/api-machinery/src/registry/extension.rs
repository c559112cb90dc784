//! Kinds that extend and configure the API server: the groups admissionregistration, apiextensions, apiregistration and
//! flowcontrol.

use super::aspects::{Aspects, InitialStatus, PLAIN, Validation};
use super::strategy;
use crate::custom;
use crate::defaults;
use crate::resource::{
    API_SERVICES, CUSTOM_RESOURCE_DEFINITIONS, FLOW_SCHEMAS, MUTATING_ADMISSION_POLICIES,
    MUTATING_ADMISSION_POLICY_BINDINGS, MUTATING_WEBHOOK_CONFIGURATIONS, PRIORITY_LEVEL_CONFIGURATIONS, ResourceId,
    VALIDATING_ADMISSION_POLICIES, VALIDATING_ADMISSION_POLICY_BINDINGS, VALIDATING_WEBHOOK_CONFIGURATIONS,
};
use crate::table;
use crate::validation;

pub(super) static KINDS: &[(ResourceId, Aspects)] = &[
    (
        API_SERVICES,
        Aspects {
            schema: Some("io.k8s.kube-aggregator.pkg.apis.apiregistration.v1.APIService"),
            initial_status: InitialStatus::Empty,
            columns: "Name:name|Service|Available|Age",
            cells: table::other::api_service,
            ..PLAIN
        },
    ),
    (
        MUTATING_ADMISSION_POLICIES,
        Aspects {
            schema: Some("io.k8s.api.admissionregistration.v1.MutatingAdmissionPolicy"),
            defaults: Some(defaults::admission::policy),
            validation: Validation::Each(validation::admission_policy::mutating),
            generation: Some(strategy::spec),
            columns: "Name:name|Mutations:integer|ParamKind|Age",
            cells: table::other::mutating_policy,
            ..PLAIN
        },
    ),
    (
        MUTATING_ADMISSION_POLICY_BINDINGS,
        Aspects {
            schema: Some("io.k8s.api.admissionregistration.v1.MutatingAdmissionPolicyBinding"),
            defaults: Some(defaults::admission::policy_binding),
            validation: Validation::Each(validation::admission_policy::mutating_binding),
            generation: Some(strategy::spec),
            columns: "Name:name|PolicyName|ParamRef|Age",
            cells: table::other::policy_binding,
            ..PLAIN
        },
    ),
    (
        MUTATING_WEBHOOK_CONFIGURATIONS,
        Aspects {
            schema: Some("io.k8s.api.admissionregistration.v1.MutatingWebhookConfiguration"),
            defaults: Some(defaults::admission::webhooks),
            validation: Validation::Each(validation::webhook::configuration),
            generation: Some(strategy::webhooks),
            columns: "Name:name|Webhooks:integer|Age",
            cells: table::other::webhook_configuration,
            ..PLAIN
        },
    ),
    (
        VALIDATING_ADMISSION_POLICIES,
        Aspects {
            schema: Some("io.k8s.api.admissionregistration.v1.ValidatingAdmissionPolicy"),
            initial_status: InitialStatus::Empty,
            defaults: Some(defaults::admission::policy),
            validation: Validation::Each(validation::admission_policy::validating),
            generation: Some(strategy::spec),
            columns: "Name:name|Validations:integer|ParamKind|Age",
            cells: table::other::validating_policy,
            ..PLAIN
        },
    ),
    (
        VALIDATING_ADMISSION_POLICY_BINDINGS,
        Aspects {
            schema: Some("io.k8s.api.admissionregistration.v1.ValidatingAdmissionPolicyBinding"),
            defaults: Some(defaults::admission::policy_binding),
            validation: Validation::Each(validation::admission_policy::validating_binding),
            generation: Some(strategy::spec),
            columns: "Name:name|PolicyName|ParamRef|Age",
            cells: table::other::policy_binding,
            ..PLAIN
        },
    ),
    (
        VALIDATING_WEBHOOK_CONFIGURATIONS,
        Aspects {
            schema: Some("io.k8s.api.admissionregistration.v1.ValidatingWebhookConfiguration"),
            defaults: Some(defaults::admission::webhooks),
            validation: Validation::Each(validation::webhook::configuration),
            generation: Some(strategy::webhooks),
            columns: "Name:name|Webhooks:integer|Age",
            cells: table::other::webhook_configuration,
            ..PLAIN
        },
    ),
    (
        CUSTOM_RESOURCE_DEFINITIONS,
        Aspects {
            schema: Some("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinition"),
            initial_status: InitialStatus::Removed,
            defaults: Some(defaults::config::definition),
            validation: Validation::Each(custom::check_definition),
            generation: Some(strategy::spec),
            columns: "Name:name|Created At:date",
            cells: table::other::name_and_creation,
            ..PLAIN
        },
    ),
    (
        FLOW_SCHEMAS,
        Aspects {
            schema: Some("io.k8s.api.flowcontrol.v1.FlowSchema"),
            initial_status: InitialStatus::Empty,
            defaults: Some(defaults::flow_control::flow),
            validation: Validation::Each(validation::flow_control::flow),
            columns: "Name:name|PriorityLevel|MatchingPrecedence|DistinguisherMethod|Age|MissingPL",
            cells: table::other::flow_schema,
            ..PLAIN
        },
    ),
    (
        PRIORITY_LEVEL_CONFIGURATIONS,
        Aspects {
            schema: Some("io.k8s.api.flowcontrol.v1.PriorityLevelConfiguration"),
            initial_status: InitialStatus::Empty,
            defaults: Some(defaults::flow_control::level),
            validation: Validation::Each(validation::flow_control::level),
            columns: "Name:name|Type|NominalConcurrencyShares|Queues|HandSize|QueueLengthLimit|Age",
            cells: table::other::priority_level,
            ..PLAIN
        },
    ),
];
