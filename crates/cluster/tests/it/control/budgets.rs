//! PodDisruptionBudgets.

use super::*;

fn budget(spec: Value) -> Value {
    let mut budget = json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": { "name": "web" }, "spec": spec,
    });
    budget["spec"]["selector"] = json!({ "matchLabels": { "app": "web" } });
    budget
}

fn status(lab: &Lab) -> (i64, i64, i64, i64) {
    let budget = lab.get(POD_DISRUPTION_BUDGETS, "web");
    let number = |field: &str| budget["status"][field].as_i64().expect("a number");
    (number("expectedPods"), number("desiredHealthy"), number("currentHealthy"), number("disruptionsAllowed"))
}

#[test]
fn count_what_may_be_disrupted() {
    for (spec, wanted) in [
        (json!({ "minAvailable": 3 }), (4, 3, 4, 1)),
        (json!({ "minAvailable": "50%" }), (4, 2, 4, 2)),
        (json!({ "maxUnavailable": 1 }), (4, 3, 4, 1)),
        (json!({ "maxUnavailable": "30%" }), (4, 2, 4, 2)),
        (json!({ "minAvailable": 4 }), (4, 4, 4, 0)),
    ] {
        let mut lab = Lab::new(2);
        lab.apply(deployment("web", 4));
        lab.apply(budget(spec.clone()));
        assert_eq!(status(&lab), wanted, "{spec}");
    }
}

#[test]
fn say_whether_disruption_is_allowed() {
    let mut lab = Lab::new(2);
    lab.apply(deployment("web", 2));
    lab.apply(budget(json!({ "minAvailable": 2 })));
    assert_eq!(
        lab.get(POD_DISRUPTION_BUDGETS, "web")["status"]["conditions"],
        json!([{
            "type": "DisruptionAllowed", "status": "False", "observedGeneration": 1,
            "lastTransitionTime": "2026-06-01T08:00:00Z", "reason": "InsufficientPods", "message": "",
        }])
    );
    lab.change(DEPLOYMENTS, "web", |web| web["spec"]["replicas"] = json!(3));
    assert_eq!(status(&lab), (3, 2, 3, 1));
}

#[test]
fn stop_evictions_until_replacements_are_ready() {
    let mut lab = Lab::with(2, recorded());
    lab.apply(deployment("web", 2));
    lab.seconds(2);
    lab.apply(budget(json!({ "minAvailable": 1 })));
    let names: Vec<_> = lab.pods().iter().map(|pod| pod["metadata"]["name"].as_str().unwrap().to_owned()).collect();
    lab.cluster.evict("default", &names[0], &DeleteOptions::default()).expect("the first may go");
    lab.plane.run();
    let refused = lab.cluster.evict("default", &names[1], &DeleteOptions::default()).expect_err("the second may not");
    assert_eq!(refused.code, 429);
    lab.seconds(3);
    lab.cluster.evict("default", &names[1], &DeleteOptions::default()).expect("now it may");
}
