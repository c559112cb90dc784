//! The controller of Jobs as others see it: its name in events, its keys in the queue.

use klab_api_machinery::resource::JOBS;

use super::super::controller::Controller;
use super::super::queue::{Key, ObjectName};

pub(super) const COMPONENT: &str = "job-controller";

pub(super) fn key(name: ObjectName) -> Key {
    Key::new(Controller::Job, JOBS, name)
}
