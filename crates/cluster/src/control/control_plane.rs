//! The control plane: all controllers of one embedded cluster, what they share, and how far it has read the changes.

use std::sync::Arc;

use jiff::Timestamp;
use klab_api_machinery::resource::NODES;
use klab_api_machinery::status::Status;
use klab_api_machinery::value::map_mut;
use serde_json::json;

use super::controller::Controller;
use super::controllers::{self, Concerned};
use super::plane::Plane;
use super::reconcile::Reconciler;
use super::settings::{STOPPED, Settings};
use crate::cluster::{Cluster, Part, WriteOptions};

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

    /// Silences a hollow node, as if its machine had stopped. Kept as an annotation, so that a restart remembers.
    ///
    /// # Errors
    /// When there is no such node.
    pub fn stop_node(&self, name: &str) -> Result<(), Status> {
        let key = self.plane.settings.heartbeat_annotation.clone();
        self.plane
            .cluster
            .modify(NODES, Part::Main, "", name, &WriteOptions::by("klab"), |node| {
                map_mut(&mut node["metadata"]["annotations"]).insert(key, json!(STOPPED));
            })
            .map(drop)
    }

    /// Brings a hollow node back.
    ///
    /// # Errors
    /// When there is no such node.
    pub fn restore_node(&self, name: &str) -> Result<(), Status> {
        let key = self.plane.settings.heartbeat_annotation.clone();
        self.plane
            .cluster
            .modify(NODES, Part::Main, "", name, &WriteOptions::by("klab"), |node| {
                map_mut(&mut node["metadata"]["annotations"]).remove(&key);
            })
            .map(drop)
    }
}
