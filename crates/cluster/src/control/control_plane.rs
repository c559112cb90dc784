//! The control plane: all controllers of one embedded cluster, what they share, and how far it has read the changes.

use std::sync::Arc;

use jiff::Timestamp;

use super::controller::Controller;
use super::controllers::{self, Concerned};
use super::plane::Plane;
use super::reconcile::Reconciler;
use super::settings::Settings;
use crate::cluster::Cluster;

/// The acting part of one embedded cluster.
pub struct ControlPlane {
    pub(super) plane: Plane,
    /// Each at the number of its [`Controller`].
    pub(super) controllers: [Box<dyn Reconciler>; Controller::COUNT],
    pub(super) concerned: Concerned,
    /// The version of the cluster up to which changes have been read.
    pub(super) seen: u64,
    /// Whether all objects have been read, so that changes suffice.
    pub(super) listed: bool,
}

impl std::fmt::Debug for ControlPlane {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ControlPlane").field("seen", &self.seen).finish_non_exhaustive()
    }
}

impl ControlPlane {
    /// A control plane for a cluster, which may be new or restored.
    pub fn new(cluster: Arc<Cluster>, mut settings: Settings) -> Self {
        settings.switched_off.retain(|controller| controller.is_optional());
        Self {
            plane: Plane::new(cluster, settings),
            controllers: controllers::make(),
            concerned: Concerned::new(),
            seen: 0,
            listed: false,
        }
    }

    pub(super) fn now(&self) -> Timestamp {
        self.plane.now()
    }
}
