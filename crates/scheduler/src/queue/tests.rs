//! The queue's order, backoff and requeue rules.

use serde_json::{Value, json};

use super::*;
use crate::selector::Labels;
use crate::{Cluster, Outcome, TieBreak};

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_700_000_000 + seconds).unwrap()
}

fn pod(name: &str, priority: i32, extra: Value) -> Pod {
    let mut spec = json!({
        "priority": priority,
        "containers": [{"name": "c", "image": "x", "resources": {"requests": {"cpu": "1"}}}],
    });
    spec.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
    serde_json::from_value(json!({"metadata": {"name": name, "labels": {"app": name}}, "spec": spec})).unwrap()
}

fn node(name: &str, extra: Value) -> k8s_openapi::api::core::v1::Node {
    let mut object = json!({
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "status": {"allocatable": {"cpu": "1", "memory": "4Gi", "pods": "10"}},
    });
    object.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
    serde_json::from_value(object).unwrap()
}

/// Tries the next pod; binds it if a node takes it.
fn step(cluster: &mut Cluster, queue: &mut Queue, pods: &[Pod], now: Timestamp) -> Option<(String, Option<String>)> {
    let key = queue.pop(now)?;
    let pod = pods.iter().find(|pod| pod.metadata.name.as_deref() == Some(key.name.as_ref())).unwrap();
    let decision = cluster.schedule(pod).unwrap();
    let node = decision.outcome.node().map(ToString::to_string);
    if let Some(node) = &node {
        if let Some(event) = cluster.bind(pod, node).unwrap() {
            queue.event(&event, &|_| false, now);
        }
        queue.remove(&key);
    } else {
        queue.failed(&decision, now);
    }
    Some((key.name.to_string(), node))
}

#[test]
fn priority_comes_first_then_order_of_entry() {
    let mut queue = Queue::new();
    for (name, priority) in [("a", 0), ("b", 10), ("c", 0), ("d", 10)] {
        queue.set(&pod(name, priority, json!({})), at(0)).unwrap();
    }
    let order: Vec<_> = std::iter::from_fn(|| queue.pop(at(0))).map(|key| key.name.to_string()).collect();
    assert_eq!(order, ["b", "d", "a", "c"]);
}

#[test]
fn pods_that_waited_before_come_by_age_or_as_a_seed_says() {
    let made = |name: &str, second: i64| {
        let mut pod = pod(name, 0, json!({}));
        pod.metadata.creation_timestamp = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(at(second)));
        pod
    };
    let order = |mut queue: Queue| {
        for (name, second) in [("a", 9), ("b", 5), ("c", 9), ("d", 9)] {
            queue.set(&made(name, second), at(9)).unwrap();
        }
        let order = std::iter::from_fn(|| queue.pop(at(9))).map(|key| key.name.to_string());
        order.collect::<Vec<_>>().concat()
    };
    assert_eq!(order(Queue::new()), "bacd");
    let shuffled = |seed| {
        let mut queue = Queue::new();
        queue.shuffle(seed);
        order(queue)
    };
    let orders: BTreeSet<String> = (0..20).map(shuffled).collect();
    assert!(orders.len() > 8, "{orders:?}");
}

#[test]
fn a_pod_waits_until_something_can_help() {
    let mut cluster = Cluster::new(TieBreak::FirstName);
    let mut queue = Queue::new();
    cluster.set_node(&node("n1", json!({"spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}}))).unwrap();
    let pods = [pod("a", 0, json!({}))];
    queue.set(&pods[0], at(0)).unwrap();
    assert_eq!(step(&mut cluster, &mut queue, &pods, at(0)), Some(("a".to_owned(), None)));
    assert_eq!(queue.pop(at(1)), None);

    // A cordon does not help, a tainted node does not either, an untainted one does.
    let other = node("n2", json!({"spec": {"taints": [{"key": "x", "effect": "NoExecute"}]}}));
    let event = cluster.set_node(&other).unwrap().unwrap();
    assert_eq!(queue.event(&event, &|_| false, at(1)), 0);
    let event = cluster.set_node(&node("n1", json!({}))).unwrap().unwrap();
    assert_eq!(queue.event(&event, &|_| false, at(1)), 1);
    assert_eq!(step(&mut cluster, &mut queue, &pods, at(1)), Some(("a".to_owned(), Some("n1".to_owned()))));
    assert!(queue.is_empty());
}

#[test]
fn backoff_doubles_and_is_cut_short_when_nothing_else_is_active() {
    let mut cluster = Cluster::new(TieBreak::FirstName);
    let mut queue = Queue::new();
    cluster.set_node(&node("n1", json!({"status": {"allocatable": {"cpu": "100m", "pods": "10"}}}))).unwrap();
    let pods = [pod("a", 0, json!({})), pod("b", 0, json!({}))];
    let key = PodKey::new("default", "a");
    queue.set(&pods[0], at(0)).unwrap();
    let small = PodFacts {
        info: Arc::new(PodInfo::from_api(&pods[1]).unwrap()),
        labels: Labels::new(),
        resource_claims: Vec::new(),
    };
    for (failures, backoff) in [1, 2, 4, 8, 10, 10].into_iter().enumerate() {
        let now = at(failures as i64);
        assert_eq!(step(&mut cluster, &mut queue, &pods, now), Some(("a".to_owned(), None)));
        assert_eq!(queue.event(&Event::PodRemoved(small.clone()), &|_| false, now), 1);
        let until = now + SignedDuration::from_secs(backoff);
        assert_eq!(queue.place(&key), Some(Place::BackingOff { until }));
    }
    // Another active pod goes first, however late it came.
    queue.set(&pods[1], at(6)).unwrap();
    assert_eq!(step(&mut cluster, &mut queue, &pods, at(6)), Some(("b".to_owned(), None)));
    assert_eq!(step(&mut cluster, &mut queue, &pods, at(6)), Some(("a".to_owned(), None)));
}

#[test]
fn what_nothing_helps_is_swept_after_five_minutes() {
    let mut cluster = Cluster::new(TieBreak::FirstName);
    let mut queue = Queue::new();
    cluster.set_node(&node("n1", json!({}))).unwrap();
    let pods = [pod("a", 0, json!({"nodeSelector": {"disk": "ssd"}}))];
    queue.set(&pods[0], at(0)).unwrap();
    assert_eq!(step(&mut cluster, &mut queue, &pods, at(0)), Some(("a".to_owned(), None)));
    assert_eq!(queue.next_wake(), Some(at(300)));
    assert_eq!(queue.pop(at(299)), None);
    assert_eq!(queue.pop(at(300)), Some(PodKey::new("default", "a")));
}

#[test]
fn gates_and_changes_of_the_pod_itself() {
    let mut queue = Queue::new();
    queue.set(&pod("a", 0, json!({"schedulingGates": [{"name": "wait"}]})), at(0)).unwrap();
    assert_eq!(queue.place(&PodKey::new("default", "a")), Some(Place::Gated));
    assert_eq!(queue.pop(at(0)), None);
    queue.set(&pod("a", 0, json!({})), at(1)).unwrap();
    assert_eq!(queue.pop(at(1)), Some(PodKey::new("default", "a")));

    let mut cluster = Cluster::new(TieBreak::FirstName);
    let decision = cluster.schedule(&pod("a", 0, json!({}))).unwrap();
    queue.failed(&decision, at(1));
    assert_eq!(queue.pop(at(5)), None);
    let tolerant = pod("a", 0, json!({"tolerations": [{"operator": "Exists"}]}));
    queue.set(&tolerant, at(5)).unwrap();
    assert_eq!(queue.pop(at(5)), Some(PodKey::new("default", "a")));
    queue.set(&pod("a", 0, json!({"nodeName": "n1"})), at(6)).unwrap();
    assert!(queue.is_empty());
}

#[test]
fn victims_gone_bring_the_preemptor_back() {
    let mut cluster = Cluster::new(TieBreak::FirstName);
    let mut queue = Queue::new();
    cluster.set_node(&node("n1", json!({}))).unwrap();
    cluster.bind(&pod("low", 0, json!({})), "n1").unwrap();
    let mut high = pod("high", 100, json!({}));
    queue.set(&high, at(0)).unwrap();
    let key = queue.pop(at(0)).unwrap();
    let decision = cluster.schedule(&high).unwrap();
    let Outcome::Preempting(preemption) = &decision.outcome else { panic!("{decision:?}") };
    assert_eq!(preemption.victims, [PodKey::new("default", "low")]);
    high.status.get_or_insert_default().nominated_node_name = Some(preemption.nominated.to_string());
    cluster.set_pod(&high).unwrap();
    queue.failed(&decision, at(0));
    let event = cluster.remove_pod("default", "low").unwrap();
    assert_eq!(queue.event(&event, &|_| false, at(0)), 1);
    assert_eq!(queue.pop(at(0)), Some(key));
    assert_eq!(cluster.schedule(&high).unwrap().outcome.node().map(AsRef::as_ref), Some("n1"));
}

#[test]
fn every_plugin_that_refuses_says_what_can_help() {
    for plugin in crate::plugins::PLUGINS {
        if plugin.filter.is_some() || plugin.pre_filter.is_some() {
            assert!(
                hints::registers(plugin.name, Kind::NodeAdd),
                "{}: a new node may take what others refuse",
                plugin.name
            );
        }
    }
}

#[test]
fn what_an_error_sent_back_waits_for_its_backoff() {
    let mut queue = Queue::new();
    queue.set(&pod("a", 0, json!({})), at(0)).unwrap();
    let key = queue.pop(at(0)).unwrap();
    let failed = crate::verdict::decision(key.clone(), Outcome::Failed, "broken".to_owned());
    queue.failed(&failed, at(0));
    assert_eq!(queue.event(&Event::ResourceSlice, &|_| false, at(0)), 1);
    assert_eq!((queue.pop(at(0)), queue.next_wake()), (None, Some(at(1))), "it would fail for ever at one instant");
    assert_eq!(queue.pop(at(1)), Some(key));
}
