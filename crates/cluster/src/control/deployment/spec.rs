//! What a Deployment asks for, and the labels and annotations in which its controller keeps account.

use std::sync::Arc;

use klab_api_machinery::object::Object;
use klab_api_machinery::resource::DEPLOYMENTS;
use klab_api_machinery::value::int_or_percent;
use klab_api_machinery::views;
use serde_json::Value;

use super::super::controller::Controller;
use super::super::queue::{Key, ObjectName};

pub(super) const HASH_LABEL: &str = "pod-template-hash";
pub(super) const REVISION: &str = "deployment.kubernetes.io/revision";
pub(super) const REVISION_HISTORY: &str = "deployment.kubernetes.io/revision-history";
pub(super) const DESIRED_REPLICAS: &str = "deployment.kubernetes.io/desired-replicas";
pub(super) const MAX_REPLICAS: &str = "deployment.kubernetes.io/max-replicas";

/// The work on a Deployment.
pub(super) fn key(name: ObjectName) -> Key {
    Key::new(Controller::Deployment, DEPLOYMENTS, name)
}

/// A Deployment during one sync: the object, and its JSON as it changes.
pub(super) struct Deployment {
    pub(super) name: ObjectName,
    pub(super) object: Arc<Object>,
    pub(super) value: Arc<Value>,
}

impl Deployment {
    pub(super) fn read(&self) -> views::Deployment<'_> {
        views::Deployment(&self.value)
    }

    pub(super) fn replicas(&self) -> i64 {
        self.read().spec().replicas().unwrap_or(1)
    }

    pub(super) fn paused(&self) -> bool {
        self.read().spec().paused()
    }

    pub(super) fn rolling(&self) -> bool {
        self.read().spec().strategy().type_() != "Recreate"
    }

    /// Pods beyond `replicas` that may exist, and pods short of it that may be missing.
    fn fence_posts(&self) -> (i64, i64) {
        if !self.rolling() {
            return (0, 0);
        }
        let rolling = self.read().spec().strategy().rolling_update();
        let surge = int_or_percent(rolling.max_surge(), self.replicas(), true).unwrap_or_default();
        let unavailable = int_or_percent(rolling.max_unavailable(), self.replicas(), false).unwrap_or_default();
        if surge == 0 && unavailable == 0 { (0, 1) } else { (surge, unavailable) }
    }

    pub(super) fn max_surge(&self) -> i64 {
        self.fence_posts().0
    }

    pub(super) fn max_unavailable(&self) -> i64 {
        if self.replicas() == 0 { 0 } else { self.fence_posts().1.min(self.replicas()) }
    }

    /// `progressDeadlineSeconds`; the greatest number stands for none.
    pub(super) fn progress_deadline(&self) -> Option<i64> {
        self.read().spec().progress_deadline_seconds().filter(|seconds| *seconds < i64::from(i32::MAX))
    }
}
