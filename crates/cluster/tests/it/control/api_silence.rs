//! A control plane of which parts are stopped: an API server that is silent, components, static pods.

use klab_cluster::{REMOVED_STATIC_POD_ANNOTATION, SILENCE_ANNOTATION, STOPPED_COMPONENTS_ANNOTATION};

use super::*;

fn ask(lab: &mut Lab, text: Option<&str>) {
    let change = |namespace: &mut Value| namespace["metadata"]["annotations"][SILENCE_ANNOTATION] = json!(text);
    lab.change(NAMESPACES, "kube-system", change);
}

fn is_asked(lab: &Lab) -> bool {
    let namespace = lab.cluster.get(NAMESPACES, "", "kube-system").expect("the namespace").value();
    !namespace["metadata"]["annotations"][SILENCE_ANNOTATION].is_null()
}

#[test]
fn silence_begins_after_the_answer_and_ends_by_itself() {
    let mut lab = Lab::new(1);
    ask(&mut lab, Some("20s"));
    assert!(!lab.cluster.is_silent(), "whoever asked for it has an answer first");
    lab.pass(SignedDuration::from_secs(1));
    assert!(lab.cluster.is_silent());
    lab.apply(deployment("web", 1));
    lab.pass(SignedDuration::from_secs(18));
    assert!(lab.cluster.is_silent() && is_asked(&lab));
    assert!(lab.pods().iter().all(|pod| pod["status"]["phase"] == "Running"), "what is in the cluster goes on");
    lab.pass(SignedDuration::from_secs(2));
    assert!(!lab.cluster.is_silent() && !is_asked(&lab));
}

#[test]
fn nobody_is_locked_out_for_good() {
    let mut lab = Lab::new(1);
    ask(&mut lab, Some("1000h"));
    lab.pass(SignedDuration::from_mins(4));
    assert!(lab.cluster.is_silent());
    lab.pass(SignedDuration::from_mins(2));
    assert!(!lab.cluster.is_silent() && !is_asked(&lab));
    for nonsense in ["", "soon", "-5s", "0s"] {
        ask(&mut lab, Some(nonsense));
        lab.pass(SignedDuration::from_secs(2));
        assert!(!lab.cluster.is_silent(), "{nonsense}");
    }
    ask(&mut lab, Some("1m"));
    lab.pass(SignedDuration::from_secs(2));
    ask(&mut lab, None);
    assert!(!lab.cluster.is_silent(), "who is inside can end it");
}

fn stop(lab: &mut Lab, components: &str) {
    let change =
        |namespace: &mut Value| namespace["metadata"]["annotations"][STOPPED_COMPONENTS_ANNOTATION] = json!(components);
    lab.change(NAMESPACES, "kube-system", change);
}

#[test]
fn without_a_scheduler_pods_wait_and_are_placed_when_it_is_back() {
    let mut lab = Lab::new(1);
    stop(&mut lab, "kube-scheduler");
    lab.apply(deployment("web", 2));
    lab.pass(SignedDuration::from_mins(1));
    let pods = lab.pods();
    assert_eq!(pods.len(), 2, "the controller manager runs");
    assert!(pods.iter().all(|pod| pod["spec"]["nodeName"].is_null()), "{pods:?}");
    stop(&mut lab, "");
    lab.pass(SignedDuration::from_secs(5));
    assert!(lab.pods().iter().all(|pod| pod["status"]["phase"] == "Running"));
}

#[test]
fn without_a_controller_manager_nothing_follows_from_a_deployment() {
    let mut lab = Lab::new(1);
    stop(&mut lab, "kube-controller-manager, kube-scheduler");
    lab.apply(deployment("web", 2));
    lab.pass(SignedDuration::from_mins(1));
    assert_eq!(lab.pods().len(), 0);
    stop(&mut lab, "kube-scheduler");
    lab.pass(SignedDuration::from_secs(5));
    assert_eq!(lab.pods().len(), 2);
}

#[test]
fn a_mirror_pod_comes_back_unless_its_file_is_gone() {
    let mut lab = Lab::new(1);
    let node = lab.cluster.list(NODES, None).0[0].name.to_string();
    let annotations = json!({ "kubernetes.io/config.mirror": "0123", "kubernetes.io/config.source": "file" });
    lab.apply(json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "own", "annotations": annotations },
        "spec": { "nodeName": node, "containers": [{ "name": "main", "image": "nginx" }] },
    }));
    lab.pass(SignedDuration::from_secs(5));
    let uid = |lab: &Lab| lab.cluster.get(PODS, "default", "own").map(|pod| pod.uid.to_string());
    let first = uid(&lab);
    let delete = |lab: &mut Lab| {
        let options = DeleteOptions { grace_seconds: Some(0), ..DeleteOptions::default() };
        lab.cluster.delete(PODS, "default", "own", &options).unwrap();
        lab.pass(SignedDuration::from_secs(5));
    };
    delete(&mut lab);
    let second = uid(&lab);
    assert!(second.is_some() && second != first, "{first:?} {second:?}");
    let mark = |pod: &mut Value| pod["metadata"]["annotations"][REMOVED_STATIC_POD_ANNOTATION] = json!("true");
    lab.change(PODS, "own", mark);
    delete(&mut lab);
    assert_eq!(uid(&lab), None);
}
