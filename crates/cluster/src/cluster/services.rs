//! The range of addresses that a cluster began with.

use klab_api_machinery::ip_range::IpRange;
use klab_api_machinery::resource::SERVICES;
use klab_api_machinery::views::Service;

use super::Cluster;
use crate::pipeline::{KIND_RANGE, RANGE};

/// The range that a cluster began with, by the address of its API server.
pub(crate) fn service_range(cluster: &Cluster) -> &'static str {
    let service = cluster.get(SERVICES, "default", "kubernetes").map(|service| service.value());
    let address = service.as_ref().and_then(|service| Service(service).spec().cluster_ip().parse().ok());
    let of_kind: Option<IpRange> = KIND_RANGE.parse().ok();
    let is_of_kind = address.zip(of_kind).is_some_and(|(address, range)| range.has(address));
    if is_of_kind { KIND_RANGE } else { RANGE }
}
