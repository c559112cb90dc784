//! Properties of verdicts over random clusters and checks.

use proptest::prelude::*;

use super::explain::properties::clusters;
use super::tests::fixture::*;
use super::{Context, Report, diagnose, evaluate};
use crate::report::{Styles, human, json};
use crate::spec::{Check, Condition, Count, NodeSet, Subject};

fn count() -> impl Strategy<Value = Count> {
    (0_u32..5, prop::option::of(0_u32..3)).prop_map(|(min, more)| Count { min, max: more.map(|more| min + more) })
}

fn node_set() -> impl Strategy<Value = NodeSet> {
    prop_oneof![Just(pool("extra")), Just(pool("main")), Just(pool("gone")), Just(NodeSet::Node("main-0".to_owned())),]
}

fn condition() -> impl Strategy<Value = Condition> {
    prop_oneof![
        node_set().prop_map(Condition::On),
        node_set().prop_map(Condition::NotOn),
        count().prop_map(|count| Condition::Placement([("extra".to_owned(), count)].into())),
        count().prop_map(Condition::Running),
        (count(), prop::option::of(Just("taint".to_owned())))
            .prop_map(|(count, reason)| Condition::Pending { count, reason }),
        count().prop_map(Condition::Succeeded),
        (0_u32..3).prop_map(|max_skew| Condition::Spread { over: "kubernetes.io/hostname".to_owned(), max_skew }),
        node_set().prop_map(Condition::OnePerNode),
        any::<bool>().prop_map(|wanted| Condition::SamePods { wanted, before: Some(Vec::new()) }),
        node_set().prop_map(Condition::Nominated),
        count().prop_map(|times| { Condition::Event { reason: "Preempted".to_owned(), by: None, times } }),
        count().prop_map(Condition::Evicted),
        count().prop_map(Condition::Exist),
        any::<bool>().prop_map(Condition::Ready),
        any::<bool>().prop_map(Condition::Schedulable),
        Just(Condition::Cel("object.spec.replicas == 3".to_owned())),
    ]
}

fn checks() -> impl Strategy<Value = Vec<Check>> {
    let subject = prop_oneof![
        4 => Just(workload("web")),
        1 => Just(workload("other")),
        1 => Just(workload("gone")),
        2 => node_set().prop_map(Subject::Nodes),
    ];
    let one = (subject, prop::collection::vec(condition(), 0..4))
        .prop_map(|(subject, conditions)| check(subject, conditions));
    prop::collection::vec(one, 1..4)
}

fn look(checks: &[Check], snapshot: &super::Snapshot) -> Report {
    let mut report = evaluate(checks, snapshot, &Context::default());
    diagnose(&mut report, checks, snapshot, &Context::default());
    report
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn verdicts_never_panic_and_do_not_depend_on_order(cluster in clusters(), checks in checks(), seed in any::<u64>()) {
        let report = look(&checks, &cluster.snapshot);
        let mut shuffled = cluster.snapshot.clone();
        let hash = |name: Option<&String>| {
            use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
            BuildHasherDefault::<DefaultHasher>::default().hash_one((seed, name))
        };
        shuffled.nodes.sort_by_key(|node| hash(node.metadata.name.as_ref()));
        shuffled.pods.sort_by_key(|pod| hash(pod.metadata.name.as_ref()));
        shuffled.deployments.reverse();
        shuffled.replica_sets.reverse();
        let again = look(&checks, &shuffled);
        prop_assert_eq!(json(&report), json(&again));
        prop_assert_eq!(human(&report, Styles::plain()), human(&again, Styles::plain()));
    }

    #[test]
    fn what_does_not_hold_says_so_and_why(cluster in clusters(), checks in checks()) {
        let report = look(&checks, &cluster.snapshot);
        for check in &report.checks {
            prop_assert!(!check.now().is_empty());
            let all_hold = check.findings.iter().all(|finding| finding.holds);
            prop_assert_eq!(check.verdict.is_held(), all_hold && !check.findings.is_empty());
            prop_assert!(!check.verdict.is_held() || check.causes.is_empty());
        }
    }
}
