//! Kinds of the groups networking and discovery.

use klab_cel::names;

use super::aspects::{Aspects, InitialStatus, PLAIN, Validation};
use super::strategy;
use crate::defaults;
use crate::resource::{
    ENDPOINT_SLICES, INGRESS_CLASSES, INGRESSES, IP_ADDRESSES, NETWORK_POLICIES, ResourceId, SERVICE_CIDRS,
};
use crate::table;
use crate::validation;

pub(super) static KINDS: &[(ResourceId, Aspects)] = &[
    (
        INGRESS_CLASSES,
        Aspects {
            schema: Some("io.k8s.api.networking.v1.IngressClass"),
            validation: Validation::Each(validation::ingress::class),
            update_validation: Some(validation::ingress::class_update),
            generation: Some(strategy::spec),
            columns: "Name:name|Controller|Parameters|Age",
            cells: table::other::ingress_class,
            ..PLAIN
        },
    ),
    (
        INGRESSES,
        Aspects {
            schema: Some("io.k8s.api.networking.v1.Ingress"),
            initial_status: InitialStatus::Empty,
            validation: Validation::New(validation::ingress::create),
            update_validation: Some(validation::ingress::update),
            generation: Some(strategy::spec),
            warnings: Some(validation::warnings::ingress),
            columns: "Name:name|Class|Hosts|Address|Ports|Age",
            cells: table::other::ingress,
            ..PLAIN
        },
    ),
    (
        IP_ADDRESSES,
        Aspects {
            schema: Some("io.k8s.api.networking.v1.IPAddress"),
            name: names::ip_address,
            validation: Validation::New(validation::service_range::address),
            update_validation: Some(validation::service_range::address_update),
            columns: "Name:name|ParentRef",
            cells: table::other::ip_address,
            ..PLAIN
        },
    ),
    (
        NETWORK_POLICIES,
        Aspects {
            schema: Some("io.k8s.api.networking.v1.NetworkPolicy"),
            defaults: Some(defaults::config::network_policy),
            validation: Validation::New(validation::network_policy::create),
            update_validation: Some(validation::network_policy::update),
            generation: Some(strategy::spec),
            warnings: Some(validation::warnings::network_policy),
            columns: "Name:name|Pod-Selector|Age",
            cells: table::core::network_policy,
            ..PLAIN
        },
    ),
    (
        SERVICE_CIDRS,
        Aspects {
            schema: Some("io.k8s.api.networking.v1.ServiceCIDR"),
            initial_status: InitialStatus::Empty,
            validation: Validation::New(validation::service_range::service_cidr),
            update_validation: Some(validation::service_range::service_cidr_update),
            columns: "Name:name|CIDRs|Age",
            cells: table::other::service_cidr,
            ..PLAIN
        },
    ),
    (
        ENDPOINT_SLICES,
        Aspects {
            schema: Some("io.k8s.api.discovery.v1.EndpointSlice"),
            defaults: Some(defaults::config::endpoint_slice),
            validation: Validation::New(validation::endpoints::slice),
            update_validation: Some(validation::endpoints::slice_update),
            generation: Some(strategy::endpoints),
            warnings: Some(validation::warnings::endpoint_slice),
            columns: "Name:name|AddressType|Ports|Endpoints|Age",
            cells: table::core::endpoint_slice,
            ..PLAIN
        },
    ),
];
