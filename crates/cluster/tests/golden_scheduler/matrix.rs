//! Which waiting pods are tried again by which event: nineteen pods, each refused by one plugin, and 44 events.

use std::collections::{BTreeMap, BTreeSet};

use klab_api_machinery::resource::PODS;
use serde_json::Value;

use crate::world::World;
use crate::{folder, lines, list};

/// A pod with the message of its condition, and its node.
type Shown = BTreeMap<String, (Value, Value)>;

fn shown(world: &World, namespace: &str) -> Shown {
    let pods = world.cluster.list(PODS, Some(namespace)).0;
    let of = |pod: &Value| {
        let mut conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
        let scheduled = conditions.find(|condition| condition["type"] == "PodScheduled");
        (scheduled.map(|condition| condition["message"].clone()).unwrap_or_default(), pod["spec"]["nodeName"].clone())
    };
    pods.iter().map(|pod| (pod.name.to_string(), of(&pod.value()))).collect()
}

/// The pods of the last step but two wait. Then two nodes go, which sends none of them back but makes the number of nodes in
/// their messages stale, and the event happens.
#[test]
fn each_event_sends_back_the_recorded_pods() {
    let (mut rows, mut wrong) = (0, Vec::new());
    for row in lines(&folder().join("matrix.jsonl.gz")) {
        let event = row["event"].as_str().unwrap();
        let mut world = World::new(0);
        let steps: Vec<&Value> = list(&row, "steps").collect();
        let (last, before) = steps.split_last().unwrap();
        let play = |world: &mut World, step: &Value| {
            for request in list(step, "requests") {
                world.send(request).unwrap_or_else(|refused| panic!("{event}: {refused:?} for {request}"));
            }
            world.kubelet();
        };
        for step in before {
            play(&mut world, step);
        }
        let namespace = row["namespace"].as_str().unwrap();
        let was = shown(&world, namespace);
        for request in list(last, "requests") {
            world.send(request).unwrap_or_else(|refused| panic!("{event}: {refused:?} for {request}"));
        }
        let is = shown(&world, namespace);
        let of = |field: &str| -> BTreeSet<String> {
            list(&row, field).map(|name| name.as_str().unwrap().to_owned()).collect()
        };
        let waited = |name: &String| was.get(name).is_some_and(|(_, node)| node.is_null());
        let placed: BTreeSet<String> =
            is.iter().filter(|(name, now)| waited(name) && !now.1.is_null()).map(|(name, _)| name.clone()).collect();
        let tried: BTreeSet<String> = is
            .iter()
            .filter(|(name, now)| waited(name) && now.1.is_null() && was[*name].0 != now.0)
            .map(|(name, _)| name.clone())
            .collect();
        rows += 1;
        if (&tried, &placed) != (&of("triedAgain"), &of("placed")) {
            wrong.push(format!(
                "{event}:\n  recorded {:?}, placed {:?}\n  now      {tried:?}, placed {placed:?}",
                of("triedAgain"),
                of("placed"),
            ));
        }
    }
    assert!(wrong.is_empty(), "{} of {rows} events send back others:\n{}", wrong.len(), wrong.join("\n"));
    assert_eq!(rows, 44);
}
