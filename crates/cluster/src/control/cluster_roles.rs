//! ClusterRoles that gather the rules of others (`aggregationRule`).

// upstream: pkg/controller/clusterroleaggregation/clusterroleaggregation_controller.go syncClusterRole (v1.36)

use klab_api_machinery::resource::CLUSTER_ROLES;
use klab_api_machinery::value::items;
use klab_api_machinery::views::{ClusterRole, metadata};
use serde_json::Value;

use super::controller::Controller;
use super::plane::Plane;
use super::queue::Key;
use super::reconcile::{Change, Reconciler};
use crate::cluster::{Part, WriteOptions};
use crate::rbac::aggregated;

/// Manager of the rules it gathers.
const CONTROLLER: &str = "clusterrole-aggregation-controller";

/// Gathers the rules of aggregated ClusterRoles.
#[derive(Default)]
pub(super) struct ClusterRoles;

impl Reconciler for ClusterRoles {
    fn changed(&mut self, plane: &mut Plane, _: &Change<'_>) {
        plane.queue.add(Key::at_large(Controller::ClusterRoleAggregation));
    }

    fn sync(&mut self, plane: &mut Plane, _: &Key) {
        plane.aggregate_cluster_roles();
    }
}

impl Plane {
    /// Brings all gathered rules up to date. What one role gathers may itself be gathered: that is another change, and
    /// brings the plane back here.
    fn aggregate_cluster_roles(&mut self) {
        let roles: Vec<_> = self.cluster.list(CLUSTER_ROLES, None).0.iter().map(|role| role.value()).collect();
        for role in roles.iter().filter(|role| ClusterRole(role).aggregation_rule().is_set()) {
            let rules = Value::Array(aggregated(role, roles.iter().map(|role| &**role).collect()));
            let name = metadata(role).name();
            if !ClusterRole(role).rules().map(|rule| rule.0).eq(items(&rules)) {
                let options = WriteOptions::by(CONTROLLER);
                // Gone meanwhile, or its log cannot be written: the next change comes back here.
                let _written =
                    self.cluster.modify(CLUSTER_ROLES, Part::Main, "", name, &options, |role| role["rules"] = rules);
            }
        }
    }
}
