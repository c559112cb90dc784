//! The control plane's turns: how long it works in one go, and how it survives a fault of its own.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use jiff::Timestamp;

use super::control_plane::ControlPlane;
use super::fault::Subject;
use super::queue::Key;

/// How many pieces of work one run does at most.
const MAX_AT_ONCE: usize = 1_000_000;

/// How far a run came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// Nothing is left to do at this instant; something is due at that one, if any.
    Settled(Option<Timestamp>),
    /// There is more to do.
    Unfinished,
}

impl ControlPlane {
    /// Does all that is due at the cluster's present, until nothing is left to do; returns when something is next due.
    ///
    /// After very much work in one go it returns early, with the present, so that its caller can look around.
    pub fn run(&mut self) -> Option<Timestamp> {
        let mut left = MAX_AT_ONCE;
        let progress = self.run_while(&mut || {
            left = left.saturating_sub(1);
            left > 0
        });
        match progress {
            Progress::Settled(due) => due,
            Progress::Unfinished => Some(self.now()),
        }
    }

    /// Does what is due for about so long: the time is looked at between two pieces of work.
    pub fn run_for(&mut self, budget: Duration) -> Progress {
        let begun = Instant::now();
        self.run_while(&mut || begun.elapsed() < budget)
    }

    /// The resourceVersion up to which it has read the changes.
    pub fn seen(&self) -> u64 {
        self.seen
    }

    /// When something is to be done that somebody could see, if nothing changes until then.
    pub fn due_if_nothing_changes(&self) -> Option<Timestamp> {
        let may_wait = |key: &Key| self.controllers[key.controller as usize].may_wait(&self.plane, key);
        let switched_off = |key: &Key| self.plane.settings.switched_off.contains(&key.controller);
        self.plane.queue.next_due_of(|key| !may_wait(key) && !switched_off(key))
    }

    /// Does all that is due at the cluster's present, as long as `go_on` says so.
    pub fn run_while(&mut self, go_on: &mut dyn FnMut() -> bool) -> Progress {
        loop {
            // What a panic leaves behind half done is forgotten: the next turn reads all objects again.
            match catch_unwind(AssertUnwindSafe(|| self.turns(go_on))) {
                Ok(progress) => return progress,
                Err(panic) => self.go_on_without(panic.as_ref()),
            }
            if !go_on() {
                return Progress::Unfinished;
            }
        }
    }

    fn turns(&mut self, go_on: &mut dyn FnMut() -> bool) -> Progress {
        if !self.listed {
            self.relist();
            self.listed = true;
        }
        loop {
            self.observe();
            if std::mem::take(&mut self.plane.has_restarted) {
                self.relist();
            }
            let plane = &mut self.plane;
            let Some(key) = plane.queue.pop(plane.cluster.now()) else {
                let due = plane.queue.next_due();
                plane.cluster.set_settled(self.seen, due);
                return Progress::Settled(due);
            };
            if !plane.faults.is_empty() && plane.faults.bar(&key) {
                continue;
            }
            let is_stopped = key.controller.component().is_some_and(|component| plane.is_stopped(component));
            if is_stopped || plane.settings.switched_off.contains(&key.controller) {
                continue;
            }
            plane.begin(Subject::Work(key.clone()));
            self.controllers[key.controller as usize].sync(plane, &key);
            if !go_on() {
                return Progress::Unfinished;
            }
        }
    }

    /// Leaves alone what was being worked on when the panic came, and says so.
    fn go_on_without(&mut self, panic: &(dyn Any + Send)) {
        self.listed = false;
        let plane = &mut self.plane;
        let Some(subject) = plane.subject.take() else {
            // Between two pieces of work nothing is done that could fail; if it does, one more list mends it.
            return;
        };
        let object = subject.object().map(|(resource, name)| {
            let version = match &subject {
                Subject::Change(object) => object.resource_version,
                _ => {
                    plane.cluster.get(resource, &name.namespace, &name.name).map_or(0, |object| object.resource_version)
                }
            };
            (resource, name, version)
        });
        plane.faults.note(subject, object, panic, plane.now());
        plane.cluster.set_control_faults(plane.faults.reported());
        if let Some(fault) = plane.cluster.control_faults().last() {
            tracing::error!(
                about = fault.about,
                fault.message,
                "a controller panicked; it continues without this object"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::{Value, json};

    use super::*;
    use crate::clock::{Clock, SteppedClock};
    use crate::cluster::{Cluster, DeleteOptions, Part, WriteOptions};
    use crate::control::{Controller, Settings};
    use klab_api_machinery::resource::{JOBS, NODES, PODS, ResourceId};

    fn node() -> Value {
        let resources = json!({ "cpu": "4", "memory": "8Gi", "pods": "110" });
        json!({
            "metadata": { "name": "a" },
            "status": { "capacity": resources, "allocatable": resources, "conditions": [{ "type": "Ready", "status": "True" }] },
        })
    }

    fn pod(name: &str) -> Value {
        json!({ "metadata": { "name": name }, "spec": { "containers": [{ "name": "main", "image": "nginx" }] } })
    }

    /// A cluster in which objects named `bad` make the control plane panic where `trap` says.
    fn cluster(trap: fn(&Subject) -> bool) -> (Arc<Cluster>, ControlPlane) {
        let cluster = Arc::new(Cluster::new(Arc::new(SteppedClock::new(Timestamp::UNIX_EPOCH)), 7));
        let write = WriteOptions::client("test");
        cluster.create(NODES, "", node(), &write).unwrap();
        let mut plane = ControlPlane::new(Arc::clone(&cluster), Settings::default());
        plane.plane.trap = Some(trap);
        plane.run();
        cluster.create(PODS, "default", pod("bad"), &write).unwrap();
        let template =
            json!({ "spec": { "restartPolicy": "Never", "containers": [{ "name": "main", "image": "x" }] } });
        cluster
            .create(JOBS, "default", json!({ "metadata": { "name": "bad" }, "spec": { "template": template } }), &write)
            .unwrap();
        cluster.create(PODS, "default", pod("good"), &write).unwrap();
        plane.run();
        (cluster, plane)
    }

    fn is_running(cluster: &Cluster, name: &str) -> bool {
        let pod = cluster.get(PODS, "default", name).unwrap();
        pod.value()["spec"]["nodeName"] == "a" && pod.value()["status"]["phase"] == "Running"
    }

    fn faults(cluster: &Cluster) -> Vec<String> {
        cluster.control_faults().iter().map(|fault| format!("{}: {}", fault.about, fault.message)).collect()
    }

    fn touch(cluster: &Cluster, resource: ResourceId) {
        let write = WriteOptions::client("test");
        let annotate = |value: &mut Value| value["metadata"]["annotations"]["touched"] = json!("yes");
        cluster.modify(resource, Part::Main, "default", "bad", &write, annotate).unwrap();
    }

    #[test]
    fn a_panic_while_an_object_is_worked_on_costs_that_object_alone() {
        let (cluster, mut plane) = cluster(
            |subject| matches!(subject, Subject::Work(key) if key.controller == Controller::Job && &*key.name.name == "bad"),
        );
        assert_eq!(faults(&cluster), ["Job default/bad: a trap of the test"]);
        assert!(is_running(&cluster, "good") && is_running(&cluster, "bad"));
        touch(&cluster, JOBS);
        plane.run();
        assert_eq!(cluster.control_faults().len(), 1, "a changed object is tried again");
        plane.plane.trap = None;
        touch(&cluster, PODS);
        plane.run();
        assert_eq!(cluster.control_faults().len(), 1, "others do not lift it");
        cluster.delete(JOBS, "default", "bad", &DeleteOptions::default()).unwrap();
        plane.run();
        assert_eq!(cluster.control_faults(), []);
    }

    #[test]
    fn a_panic_while_a_change_is_read_costs_that_object_alone() {
        let (cluster, mut plane) = cluster(
            |subject| matches!(subject, Subject::Change(object) if object.resource == PODS && &*object.name == "bad"),
        );
        assert_eq!(faults(&cluster), ["Pod default/bad: a trap of the test"]);
        assert!(is_running(&cluster, "good") && !is_running(&cluster, "bad"));
        plane.plane.trap = None;
        touch(&cluster, PODS);
        plane.run();
        assert_eq!(cluster.control_faults(), []);
        assert!(is_running(&cluster, "bad"));
    }

    #[test]
    fn a_panic_while_a_pod_is_scheduled_costs_that_pod_alone() {
        let (cluster, mut plane) = cluster(|subject| matches!(subject, Subject::Pod(name) if &*name.name == "bad"));
        assert_eq!(faults(&cluster), ["Pod default/bad: a trap of the test"]);
        assert!(is_running(&cluster, "good") && !is_running(&cluster, "bad"));
        plane.plane.trap = None;
        touch(&cluster, PODS);
        plane.run();
        assert!(is_running(&cluster, "bad"));
    }

    #[test]
    fn a_cluster_is_settled_when_all_was_seen_and_nothing_is_due() {
        let clock = Arc::new(SteppedClock::new(Timestamp::UNIX_EPOCH));
        let cluster = Arc::new(Cluster::new(Arc::clone(&clock) as Arc<dyn Clock>, 7));
        cluster.create(NODES, "", node(), &WriteOptions::client("test")).unwrap();
        let mut plane = ControlPlane::new(Arc::clone(&cluster), Settings::default());
        plane.run();
        assert!(cluster.is_settled());
        cluster.create(PODS, "default", pod("more"), &WriteOptions::client("test")).unwrap();
        assert!(!cluster.is_settled(), "nobody has seen the pod");
        while plane.run_for(Duration::ZERO) == Progress::Unfinished {
            assert!(!cluster.is_settled());
        }
        assert!(cluster.is_settled() && is_running(&cluster, "more"));
        let due = plane.run().unwrap();
        clock.step_to(due);
        assert!(!cluster.is_settled(), "something is due");
        plane.run();
        assert!(cluster.is_settled());
    }

    #[test]
    fn a_run_ends_when_its_time_is_over_and_goes_on_with_the_next() {
        let (cluster, mut plane) = cluster(|_| false);
        for number in 0..5 {
            cluster.create(PODS, "default", pod(&format!("more-{number}")), &WriteOptions::client("test")).unwrap();
        }
        let mut runs = 0;
        while plane.run_for(Duration::ZERO) == Progress::Unfinished {
            runs += 1;
        }
        assert!(runs > 5, "one piece of work a run: {runs}");
        assert!((0..5).all(|number| is_running(&cluster, &format!("more-{number}"))));
    }
}
