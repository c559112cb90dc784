//! Warnings: what is wrong with an object that is taken all the same.

// upstream: pkg/registry/<group>/<kind>/strategy.go WarningsOnCreate, WarningsOnUpdate (v1.36)

mod addresses;
mod collected;
mod kinds;
mod labels;
mod paths;
mod pod;
mod ports;
mod storage;
mod workloads;

pub use collected::Warnings;
pub use kinds::{endpoint_slice, resource_slice};
pub use kinds::{endpoints, ingress, network_policy, node, quota, runtime_class, secret, service, service_account};
pub use pod::pod;
pub use storage::{capacity, claim, class, driver, volume};
pub use workloads::{cron_job, daemon_set, job, pod_template, replica_set, replication_controller, stateful_set};
