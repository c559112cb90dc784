//! Kinds about who may do what: the groups rbac, authentication, authorization and certificates.

use klab_cel::names;

use super::aspects::{Aspects, Field, InitialStatus, PLAIN, Validation};
use crate::defaults;
use crate::resource::{
    CERTIFICATE_SIGNING_REQUESTS, CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, LOCAL_SUBJECT_ACCESS_REVIEWS, ROLE_BINDINGS,
    ROLES, ResourceId, SELF_SUBJECT_ACCESS_REVIEWS, SELF_SUBJECT_REVIEWS, SELF_SUBJECT_RULES_REVIEWS,
    SUBJECT_ACCESS_REVIEWS, TOKEN_REVIEWS,
};
use crate::table;
use crate::validation;

pub(super) static KINDS: &[(ResourceId, Aspects)] = &[
    (SELF_SUBJECT_REVIEWS, Aspects { schema: Some("io.k8s.api.authentication.v1.SelfSubjectReview"), ..PLAIN }),
    (TOKEN_REVIEWS, Aspects { schema: Some("io.k8s.api.authentication.v1.TokenReview"), ..PLAIN }),
    (
        LOCAL_SUBJECT_ACCESS_REVIEWS,
        Aspects { schema: Some("io.k8s.api.authorization.v1.LocalSubjectAccessReview"), ..PLAIN },
    ),
    (
        SELF_SUBJECT_ACCESS_REVIEWS,
        Aspects { schema: Some("io.k8s.api.authorization.v1.SelfSubjectAccessReview"), ..PLAIN },
    ),
    (
        SELF_SUBJECT_RULES_REVIEWS,
        Aspects { schema: Some("io.k8s.api.authorization.v1.SelfSubjectRulesReview"), ..PLAIN },
    ),
    (SUBJECT_ACCESS_REVIEWS, Aspects { schema: Some("io.k8s.api.authorization.v1.SubjectAccessReview"), ..PLAIN }),
    (
        CERTIFICATE_SIGNING_REQUESTS,
        Aspects {
            schema: Some("io.k8s.api.certificates.v1.CertificateSigningRequest"),
            initial_status: InitialStatus::Empty,
            validation: Validation::New(validation::signing_request::check),
            fields: &[Field::at("spec.signerName")],
            columns: "Name:name|Age|SignerName|Requestor|RequestedDuration|Condition",
            cells: table::other::signing_request,
            ..PLAIN
        },
    ),
    (
        CLUSTER_ROLE_BINDINGS,
        Aspects {
            schema: Some("io.k8s.api.rbac.v1.ClusterRoleBinding"),
            name: names::path_segment,
            defaults: Some(defaults::config::binding),
            validation: Validation::Each(|value, errors| validation::rbac::role_binding(value, false, errors)),
            update_validation: Some(validation::rbac::role_binding_update),
            columns: "Name:name|Role|Age|Users*|Groups*|ServiceAccounts*",
            cells: table::other::binding,
            ..PLAIN
        },
    ),
    (
        CLUSTER_ROLES,
        Aspects {
            schema: Some("io.k8s.api.rbac.v1.ClusterRole"),
            name: names::path_segment,
            validation: Validation::Each(|value, errors| validation::rbac::role(value, false, errors)),
            columns: "Name:name|Created At:date",
            cells: table::other::name_and_creation,
            ..PLAIN
        },
    ),
    (
        ROLE_BINDINGS,
        Aspects {
            schema: Some("io.k8s.api.rbac.v1.RoleBinding"),
            name: names::path_segment,
            defaults: Some(defaults::config::binding),
            validation: Validation::Each(|value, errors| validation::rbac::role_binding(value, true, errors)),
            update_validation: Some(validation::rbac::role_binding_update),
            columns: "Name:name|Role|Age|Users*|Groups*|ServiceAccounts*",
            cells: table::other::binding,
            ..PLAIN
        },
    ),
    (
        ROLES,
        Aspects {
            schema: Some("io.k8s.api.rbac.v1.Role"),
            name: names::path_segment,
            validation: Validation::Each(|value, errors| validation::rbac::role(value, true, errors)),
            columns: "Name:name|Created At:date",
            cells: table::other::name_and_creation,
            ..PLAIN
        },
    ),
];
