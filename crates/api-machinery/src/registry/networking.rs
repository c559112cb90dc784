//! Kinds of the groups networking and discovery.

use klab_cel::names;

use super::aspects::{InitialStatus, Validation};
use super::strategy;
use crate::defaults;
use crate::table;
use crate::validation;

kinds! {
    INGRESS_CLASSES {
        validation: Validation::Each(validation::ingress::class),
        update_validation: Some(validation::ingress::class_update),
        generation: Some(strategy::spec),
        columns: "Name:name|Controller|Parameters|Age",
        cells: table::other::ingress_class,
    }
    INGRESSES {
        initial_status: InitialStatus::Empty,
        validation: Validation::New(validation::ingress::create),
        update_validation: Some(validation::ingress::update),
        generation: Some(strategy::spec),
        warnings: Some(validation::warnings::ingress),
        columns: "Name:name|Class|Hosts|Address|Ports|Age",
        cells: table::other::ingress,
    }
    IP_ADDRESSES {
        name: names::ip_address,
        validation: Validation::New(validation::service_range::address),
        update_validation: Some(validation::service_range::address_update),
        columns: "Name:name|ParentRef",
        cells: table::other::ip_address,
    }
    NETWORK_POLICIES {
        defaults: Some(defaults::config::network_policy),
        validation: Validation::New(validation::network_policy::create),
        update_validation: Some(validation::network_policy::update),
        generation: Some(strategy::spec),
        warnings: Some(validation::warnings::network_policy),
        columns: "Name:name|Pod-Selector|Age",
        cells: table::core::network_policy,
    }
    SERVICE_CIDRS {
        initial_status: InitialStatus::Empty,
        validation: Validation::New(validation::service_range::service_cidr),
        update_validation: Some(validation::service_range::service_cidr_update),
        columns: "Name:name|CIDRs|Age",
        cells: table::other::service_cidr,
    }
    ENDPOINT_SLICES {
        defaults: Some(defaults::config::endpoint_slice),
        validation: Validation::New(validation::endpoints::slice),
        update_validation: Some(validation::endpoints::slice_update),
        generation: Some(strategy::endpoints),
        warnings: Some(validation::warnings::endpoint_slice),
        columns: "Name:name|AddressType|Ports|Endpoints|Age",
        cells: table::core::endpoint_slice,
    }
}
