//! Tables: where pods are, by node, by pool, beside and apart from others.

use super::*;

#[test]
fn on() {
    let on = || Condition::On(pool("extra"));
    expect([
        (on(), cluster(2).running("web", "extra-0", 2), "held", "2 of 2 on pool:extra"),
        (on(), mixed(), "impossible: 1 pod is not on pool:extra", "1 of 2 on pool:extra, 1 on main"),
        (
            on(),
            cluster(2).running("web", "extra-0", 1).pod("web", &starting("extra-0")),
            "not yet: 1 pod is starting",
            "1 of 2 on pool:extra, 1 starting",
        ),
        (
            on(),
            cluster(1).pod("web", &starting("main-0")),
            "impossible: 1 pod is not on pool:extra",
            "0 of 1 on pool:extra, 1 starting",
        ),
        (
            on(),
            cluster(1).pod("web", &json!({})),
            "not yet: 1 pod is starting",
            "0 of 1 on pool:extra, 1 not scheduled yet",
        ),
        (
            on(),
            cluster(1).unschedulable("web", 1, SELECTOR),
            "impossible: 1 pod is unschedulable",
            "0 of 1 on pool:extra, 1 Pending",
        ),
        (
            Condition::On(pool("gone")),
            cluster(1).running("web", "main-0", 1),
            "impossible: no node is in pool:gone",
            "0 of 1 on pool:gone (no node is in pool:gone), 1 on main",
        ),
        (
            Condition::On(NodeSet::Node("main-1".into())),
            cluster(1).running("web", "main-1", 1),
            "held",
            "1 of 1 on node:main-1",
        ),
    ]);
}

#[test]
fn not_on() {
    let not_on = || Condition::NotOn(pool("extra"));
    expect([
        (not_on(), cluster(2).running("web", "main-0", 2), "held", "none of 2 on pool:extra: 2 on main"),
        (not_on(), mixed(), "impossible: 1 of 2 on pool:extra", "1 of 2 on pool:extra"),
        (
            not_on(),
            cluster(1).pod("web", &starting("extra-0")),
            "impossible: 1 of 1 on pool:extra",
            "1 of 1 on pool:extra",
        ),
        (
            not_on(),
            cluster(1).pod("web", &json!({})),
            "not yet: 1 pod is starting",
            "none of 1 on pool:extra: 1 not scheduled yet",
        ),
        (not_on(), cluster(1).unschedulable("web", 1, SELECTOR), "held", "none of 1 on pool:extra: 1 Pending"),
        (
            Condition::NotOn(NodeSet::Node("mian-0".into())),
            cluster(1).running("web", "main-1", 1),
            "impossible: no node is in node:mian-0, so this could not fail",
            "no node is in node:mian-0, so this could not fail",
        ),
    ]);
}

#[test]
fn placement_by_pool() {
    expect([
        (placement([("extra", 1), ("main", 1)]), mixed(), "held", "extra 1, main 1"),
        (
            placement([("extra", 2), ("main", 0)]),
            mixed(),
            "impossible: 1 on extra, wanted 2",
            "extra 1 (wanted 2), main 1 (wanted 0)",
        ),
        (
            placement([("extra", 2)]),
            cluster(2).running("web", "extra-0", 1).pod("web", &starting("extra-0")),
            "not yet: 1 of 2 on extra, more are coming",
            "extra 1 (wanted 2), 1 starting",
        ),
        (
            placement([("extra", 2)]),
            cluster(2).running("web", "extra-0", 1).unschedulable("web", 1, SELECTOR),
            "impossible: 1 on extra, wanted 2",
            "extra 1 (wanted 2), 1 Pending",
        ),
        // Two pods too many, and the Deployment is about to take them away.
        (
            placement([("extra", 1)]),
            cluster(1).running("web", "extra-0", 3),
            "not yet: 3 on extra, some are going",
            "extra 3 (wanted 1)",
        ),
    ]);
}

#[test]
fn one_per_node() {
    let every = || Condition::OnePerNode(pool("main"));
    expect([
        (
            every(),
            cluster(2).running("web", "main-0", 1).running("web", "main-1", 1),
            "held",
            "2 of 2 nodes have exactly one",
        ),
        (
            every(),
            cluster(2).running("web", "main-0", 2),
            "impossible: main-0 has 2 pods",
            "0 of 2 nodes have exactly one, none on main-1, 2 on main-0",
        ),
        (
            every(),
            cluster(3).running("web", "main-0", 1).running("web", "main-1", 1).running("web", "extra-0", 1),
            "impossible: 1 pod is on another node",
            "2 of 2 nodes have exactly one, 1 elsewhere",
        ),
        (
            every(),
            cluster(2).running("web", "main-0", 1).pod("web", &starting("main-1")),
            "not yet: 1 node is still without a pod",
            "1 of 2 nodes have exactly one, none on main-1, 1 starting",
        ),
        (
            every(),
            cluster(1).running("web", "main-0", 1),
            "impossible: no pod is coming to main-1",
            "1 of 2 nodes have exactly one, none on main-1",
        ),
        (
            Condition::OnePerNode(pool("gone")),
            mixed(),
            "impossible: no node is in pool:gone",
            "no node is in pool:gone",
        ),
    ]);
}

#[test]
fn beside_and_apart() {
    let with = |selector: &str| Condition::With(selector.parse().unwrap());
    let apart = |selector: &str| Condition::ApartFrom(selector.parse().unwrap());
    let beside = || cluster(2).running("web", "main-0", 1).running("db", "main-0", 1);
    let elsewhere = json!({"metadata": {"namespace": "other"}});
    let mut foreign = running("main-0");
    json_patch::merge(&mut foreign, &elsewhere);
    expect([
        (with("app=db"), beside(), "held", "1 of 1 beside a pod app=db"),
        (
            with("app=db"),
            cluster(1).running("web", "main-0", 1).pod("db", &foreign),
            "held",
            "1 of 1 beside a pod app=db",
        ),
        (
            with("app=db"),
            beside().running("web", "main-1", 1),
            "impossible: 1 pod runs without one beside it",
            "1 of 2 beside a pod app=db, 1 on main",
        ),
        (
            with("app=db"),
            cluster(1).running("web", "main-0", 1).pod("db", &starting("main-0")),
            "not yet: a pod app=db is starting",
            "0 of 1 beside a pod app=db, 1 on main",
        ),
        (with("app=none"), beside(), "impossible: no pod app=none runs", "no pod app=none runs"),
        // A pod is not its own companion.
        (
            with("app=web"),
            cluster(1).running("web", "main-0", 1),
            "impossible: 1 pod runs without one beside it",
            "0 of 1 beside a pod app=web, 1 on main",
        ),
        (
            apart("app=db"),
            beside(),
            "impossible: 1 of 1 share a node with another pod app=db",
            "1 of 1 share a node with another pod app=db",
        ),
        (
            apart("app=db"),
            cluster(1).running("web", "main-1", 1).running("db", "main-0", 1),
            "held",
            "none of 1 shares a node with another pod app=db",
        ),
        (
            apart("app=web"),
            cluster(2).running("web", "main-0", 1).running("web", "main-1", 1),
            "held",
            "none of 2 shares a node with another pod app=web",
        ),
        (
            apart("app=web"),
            cluster(2).running("web", "main-0", 1).unschedulable("web", 1, SELECTOR),
            "impossible: 1 pod is unschedulable",
            "none of 2 shares a node with another pod app=web, 1 Pending",
        ),
        (
            apart("app=web"),
            cluster(1).running("web", "main-0", 1),
            "impossible: no other pod app=web runs, so this could not fail",
            "no other pod app=web runs, so this could not fail",
        ),
    ]);
}

#[test]
fn spread_over_a_label() {
    let spread = || Condition::Spread { over: "topology.kubernetes.io/zone".to_owned(), max_skew: 1 };
    let zones = || Cluster::default().pool("main", 3).deployment("web", 3);
    let cordoned = json!({"spec": {"unschedulable": true}});
    expect([
        (
            spread(),
            zones().running("web", "main-0", 1).running("web", "main-1", 1).running("web", "main-2", 1),
            "held",
            "z0 1, z1 1, z2 1: skew 0",
        ),
        (
            spread(),
            zones().running("web", "main-0", 2).running("web", "main-1", 1),
            "impossible: skew 2 over topology.kubernetes.io/zone",
            "z0 2, z1 1, z2 0: skew 2, at most 1 wanted",
        ),
        // A zone whose nodes are cordoned is none that the pods could be in.
        (
            spread(),
            Cluster::default()
                .pool("main", 2)
                .node("main", 2, cordoned)
                .deployment("web", 3)
                .running("web", "main-0", 2)
                .running("web", "main-1", 1),
            "held",
            "z0 2, z1 1: skew 1",
        ),
        (
            spread(),
            zones().running("web", "main-0", 2).pod("web", &starting("main-1")),
            "not yet: pods are still coming and going",
            "z0 2, z1 0, z2 0: skew 2, at most 1 wanted; 1 without a place",
        ),
        (
            spread(),
            Cluster::default().pool("main", 1).deployment("web", 1).running("web", "main-0", 1),
            "impossible: `z0` is the only value of topology.kubernetes.io/zone among the nodes the pods may use, so this could not fail",
            "`z0` is the only value of topology.kubernetes.io/zone among the nodes the pods may use, so this could not fail",
        ),
    ]);
}
