//! Every controller has a row of its own, sees what it lists, and can be switched off.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::*;
use crate::clock::SteppedClock;
use crate::cluster::{Cluster, WriteOptions};
use crate::control::{ControlPlane, Settings};
use klab_api_machinery::resource::{DEPLOYMENTS, PODS, REPLICA_SETS};

#[test]
fn each_has_a_name_of_its_own() {
    for &controller in Controller::ALL {
        let name = controller.name();
        assert_eq!(TABLE.iter().filter(|row| row.name == name).count(), 1, "{name}");
        assert_eq!(name.parse().ok(), controller.is_optional().then_some(controller));
        assert_eq!(format!("{name}-controller").parse().ok(), controller.is_optional().then_some(controller));
    }
    let unknown = "deploymnet".parse::<Controller>().unwrap_err();
    assert!(unknown.to_string().starts_with("there is no controller `deploymnet`; there are: "), "{unknown}");
}

#[test]
fn each_is_told_of_the_kinds_it_lists_and_owners_are_among_them() {
    let concerned = Concerned::new();
    for kind in ResourceId::fixed().filter(|kind| kind.row().stored_as.is_none()) {
        let told = concerned.by_kind(kind);
        assert!(told.is_sorted() && told.contains(&Controller::GarbageCollector) == (kind != EVENTS), "{kind:?}");
    }
    for row in &TABLE {
        let kinds = row.watches;
        assert!(kinds.iter().all(|kind| concerned.by_kind(*kind).contains(&row.controller)), "{}", row.name);
        assert!(kinds.iter().all(|kind| kind.row().is_stored() != (*kind == resource::CONTAINER_FILES)));
        assert!(kinds.iter().all(|kind| kind.row().stored_as.is_none()));
        assert!(row.owner.is_none_or(|owner| kinds.contains(&owner)), "{}", row.name);
        if let Some(owner) = row.owner {
            assert_eq!(concerned.by_owner(owner.row().kind), Some((row.controller, owner)));
        }
    }
    let custom = ResourceId(u32::MAX);
    assert_eq!(
        concerned.by_kind(custom),
        [Controller::GarbageCollector, Controller::Schedulers, Controller::Namespace]
    );
}

/// How many ReplicaSets and pods a Deployment comes to.
fn made_without(controller: Option<Controller>) -> (usize, usize) {
    let cluster = Arc::new(Cluster::new(Arc::new(SteppedClock::new(Timestamp::UNIX_EPOCH)), 7));
    let settings = Settings { switched_off: controller.into_iter().collect(), ..Settings::default() };
    let mut plane = ControlPlane::new(Arc::clone(&cluster), settings);
    let labels = json!({ "app": "web" });
    let deployment: Value = json!({
        "metadata": { "name": "web" },
        "spec": {
            "replicas": 2, "selector": { "matchLabels": labels },
            "template": {
                "metadata": { "labels": labels }, "spec": { "containers": [{ "name": "web", "image": "nginx" }] },
            },
        },
    });
    cluster.create(DEPLOYMENTS, "default", deployment, &WriteOptions::client("test")).unwrap();
    plane.run();
    (cluster.count(REPLICA_SETS), cluster.count(PODS))
}

#[test]
fn what_is_switched_off_does_nothing() {
    assert_eq!(made_without(None), (1, 2));
    assert_eq!(made_without(Some(Controller::Deployment)), (0, 0));
    assert_eq!(made_without(Some(Controller::ReplicaSet)), (1, 0));
}
