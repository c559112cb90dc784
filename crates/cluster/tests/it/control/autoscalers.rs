//! HorizontalPodAutoscalers.

use super::*;

fn autoscaler(target: i64) -> Value {
    json!({
        "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": { "name": "web" },
        "spec": {
            "scaleTargetRef": { "apiVersion": "apps/v1", "kind": "Deployment", "name": "web" },
            "minReplicas": 2, "maxReplicas": 6,
            "metrics": [{ "type": "Resource", "resource": {
                "name": "cpu", "target": { "type": "Utilization", "averageUtilization": target },
            }}],
        },
    })
}

fn lab(share: Option<f64>) -> Lab {
    let mut lab = Lab::with(2, Settings { metrics_share: share, ..Settings::default() });
    let mut web = deployment("web", 3);
    web["spec"]["template"]["spec"]["containers"][0]["resources"] = json!({ "requests": { "cpu": "100m" } });
    lab.apply(web);
    lab
}

#[test]
fn scale_up_at_once_to_the_limit() {
    let mut lab = lab(Some(0.9));
    lab.apply(autoscaler(30));
    lab.seconds(20);
    let web = lab.get(HORIZONTAL_POD_AUTOSCALERS, "web");
    assert_eq!(web["status"]["desiredReplicas"], 6);
    assert_eq!(web["status"]["currentMetrics"][0]["resource"]["current"]["averageUtilization"], 90);
    assert_eq!(condition(&web, "ScalingLimited")["reason"], "TooManyReplicas");
    assert_eq!(lab.running(), 6);
    assert_eq!(
        lab.messages("SuccessfulRescale"),
        ["New size: 6; reason: cpu resource utilization (percentage of request) above target"]
    );
}

/// As a real controller it writes the Scale.
#[test]
fn the_controller_manages_the_number_by_way_of_the_subresource() {
    let mut lab = lab(Some(0.9));
    lab.apply(autoscaler(30));
    lab.seconds(20);
    let web = lab.cluster.get(DEPLOYMENTS, "default", "web").expect("a deployment");
    let managers = web.managed_fields();
    let owns = |entry: &&Value| entry["fieldsV1"]["f:spec"]["f:replicas"].is_object();
    let owner = managers.as_array().into_iter().flatten().find(owns).expect("an owner");
    assert_eq!((&owner["manager"], &owner["subresource"]), (&json!("kube-controller-manager"), &json!("scale")));
}

/// Six pods would have 53 % each, five have 64 %, which is near enough to 60.
#[test]
fn pods_share_the_load_of_their_workload() {
    let mut lab = lab(Some(0.5));
    lab.change(DEPLOYMENTS, "web", |web| web["metadata"]["annotations"] = json!({ "klab.dev/load": "320%" }));
    lab.apply(autoscaler(60));
    lab.seconds(60);
    let web = lab.get(HORIZONTAL_POD_AUTOSCALERS, "web");
    let current = &web["status"]["currentMetrics"][0]["resource"]["current"];
    assert_eq!((lab.running(), current["averageUtilization"].as_i64()), (6, Some(53)));
    lab.change(DEPLOYMENTS, "web", |web| web["metadata"]["annotations"] = json!({ "klab.dev/load": "60%" }));
    lab.seconds(400);
    assert_eq!(lab.running(), 2, "30 % each, and two are the least");
}

/// A container uses no more than its limit, however much there is to do.
#[test]
fn a_limit_bounds_the_load() {
    let mut lab = lab(Some(0.5));
    lab.change(DEPLOYMENTS, "web", |web| {
        web["metadata"]["annotations"] = json!({ "klab.dev/load": "100000%" });
        web["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"] = json!({ "cpu": "105m" });
    });
    lab.apply(autoscaler(100));
    lab.seconds(60);
    let web = lab.get(HORIZONTAL_POD_AUTOSCALERS, "web");
    let current = &web["status"]["currentMetrics"][0]["resource"]["current"];
    assert_eq!((lab.running(), current["averageUtilization"].as_i64()), (3, Some(105)));
}

#[test]
fn scale_down_after_five_minutes() {
    let mut lab = lab(Some(0.1));
    lab.apply(autoscaler(50));
    lab.seconds(200);
    assert_eq!(lab.running(), 3);
    lab.seconds(200);
    assert_eq!(lab.running(), 2);
}

#[test]
fn a_container_without_a_request_is_named() {
    let mut lab = lab(Some(0.5));
    lab.change(DEPLOYMENTS, "web", |web| {
        web["spec"]["template"]["spec"]["containers"][0]["resources"] = json!({});
    });
    lab.apply(autoscaler(50));
    lab.seconds(60);
    let web = lab.get(HORIZONTAL_POD_AUTOSCALERS, "web");
    let message = condition(&web, "ScalingActive")["message"].as_str().unwrap().to_owned();
    let said = "the HPA was unable to compute the replica count: failed to get cpu utilization: missing request for cpu in container ";
    assert!(message.starts_with(said) && message.contains(" of Pod web-"), "{message}");
}

#[test]
fn without_metrics_say_so() {
    let mut lab = lab(None);
    lab.apply(autoscaler(50));
    lab.seconds(20);
    let web = lab.get(HORIZONTAL_POD_AUTOSCALERS, "web");
    assert_eq!(condition(&web, "ScalingActive")["reason"], "FailedGetResourceMetric");
    assert_eq!(lab.running(), 3);
}
