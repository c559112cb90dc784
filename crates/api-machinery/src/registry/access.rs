//! Kinds about who may do what: the groups rbac, authentication, authorization and certificates.

use klab_cel::names;

use super::aspects::{Field, InitialStatus, Validation};
use crate::defaults;
use crate::table;
use crate::validation;

kinds! {
    SELF_SUBJECT_REVIEWS {}
    TOKEN_REVIEWS {}
    LOCAL_SUBJECT_ACCESS_REVIEWS {}
    SELF_SUBJECT_ACCESS_REVIEWS {}
    SELF_SUBJECT_RULES_REVIEWS {}
    SUBJECT_ACCESS_REVIEWS {}
    CERTIFICATE_SIGNING_REQUESTS {
        initial_status: InitialStatus::Empty,
        validation: Validation::New(validation::signing_request::check),
        fields: &[Field::at("spec.signerName")],
        columns: "Name:name|Age|SignerName|Requestor|RequestedDuration|Condition",
        cells: table::other::signing_request,
    }
    CLUSTER_ROLE_BINDINGS {
        name: names::path_segment,
        defaults: Some(defaults::config::binding),
        validation: Validation::Each(|value, errors| validation::rbac::role_binding(value, false, errors)),
        update_validation: Some(validation::rbac::role_binding_update),
        columns: "Name:name|Role|Age|Users*|Groups*|ServiceAccounts*",
        cells: table::other::binding,
    }
    CLUSTER_ROLES {
        name: names::path_segment,
        validation: Validation::Each(|value, errors| validation::rbac::role(value, false, errors)),
        columns: "Name:name|Created At:date",
        cells: table::other::name_and_creation,
    }
    ROLE_BINDINGS {
        name: names::path_segment,
        defaults: Some(defaults::config::binding),
        validation: Validation::Each(|value, errors| validation::rbac::role_binding(value, true, errors)),
        update_validation: Some(validation::rbac::role_binding_update),
        columns: "Name:name|Role|Age|Users*|Groups*|ServiceAccounts*",
        cells: table::other::binding,
    }
    ROLES {
        name: names::path_segment,
        validation: Validation::Each(|value, errors| validation::rbac::role(value, true, errors)),
        columns: "Name:name|Created At:date",
        cells: table::other::name_and_creation,
    }
}
