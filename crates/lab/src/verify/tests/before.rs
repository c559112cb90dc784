//! Pods compared with those of before a step.

use super::*;

/// What a check that compares comes to on a cluster, after it was noted on another.
fn compared(wanted: bool, before: &Cluster, after: &Cluster) -> (String, String) {
    let mut check = check(workload("web"), [Condition::SamePods { wanted, before: None }]);
    let noted = Before::of(std::slice::from_ref(&check), &before.snapshot, &Context::default());
    // As it is kept from one command to the next.
    let kept: Before = serde_json::from_str(&serde_json::to_string(&noted).unwrap()).unwrap();
    kept.tell(std::slice::from_mut(&mut check));
    look(&check, after)
}

#[test]
fn pods_are_those_of_before_or_none_of_them() {
    let moved = cluster(2).running("web", "main-0", 1).running("web", "main-1", 1);
    let other = cluster(2).running("other", "main-0", 2).running("web", "main-0", 2);
    let more = cluster(3).running("web", "extra-0", 1).running("web", "main-0", 2);
    let fewer = cluster(1).running("web", "extra-0", 1);
    let none = cluster(2).unschedulable("web", 1, SELECTOR);
    for (wanted, after, verdict, now) in [
        (true, mixed(), "held", "2 of 2 pods of before on their nodes"),
        (
            true,
            moved,
            "impossible: 2 pods have another node",
            "0 of 2 pods of before on their nodes, 2 pods have another node",
        ),
        (
            true,
            other.clone(),
            "impossible: 2 pods are gone",
            "0 of 2 pods of before on their nodes, 2 pods are gone, 2 pods are new",
        ),
        (true, more, "impossible: 1 pod is new", "2 of 2 pods of before on their nodes, 1 pod is new"),
        (true, fewer.clone(), "impossible: 1 pod is gone", "1 of 2 pods of before on their nodes, 1 pod is gone"),
        (false, other, "held", "0 of 2 pods of before still there"),
        (false, mixed(), "impossible: 2 pods of before are still there", "2 of 2 pods of before still there"),
        (false, fewer, "impossible: 1 pod of before is still there", "1 of 2 pods of before still there"),
        (
            true,
            none,
            "impossible: 1 pod is gone",
            "0 of 2 pods of before on their nodes, 1 pod is gone, 1 pod has another node",
        ),
    ] {
        assert_eq!(compared(wanted, &mixed(), &after), (verdict.to_owned(), now.to_owned()));
    }
}

#[test]
fn what_nobody_noted_does_not_hold() {
    for wanted in [true, false] {
        let (verdict, _) = look(&check(workload("web"), [Condition::SamePods { wanted, before: None }]), &mixed());
        assert!(verdict.starts_with("impossible: which pods there were before the step was not noted"), "{verdict}");
    }
}
