//! Deployments: rollouts, undo, pause, deadlines.

use super::*;

#[test]
fn settle_with_the_recorded_status() {
    let mut lab = Lab::new(3);
    lab.apply(deployment("web", 3));
    let web = lab.get(DEPLOYMENTS, "web");
    assert_eq!(web["metadata"]["annotations"]["deployment.kubernetes.io/revision"], "1");
    let set = &lab.list(REPLICA_SETS)[0];
    let set_name = set["metadata"]["name"].as_str().expect("a name");
    let now = "2026-06-01T08:00:00Z";
    assert_eq!(
        web["status"],
        json!({
            "observedGeneration": 1, "replicas": 3, "updatedReplicas": 3, "readyReplicas": 3,
            "availableReplicas": 3, "terminatingReplicas": 0,
            "conditions": [
                { "type": "Available", "status": "True", "lastUpdateTime": now, "lastTransitionTime": now,
                  "reason": "MinimumReplicasAvailable", "message": "Deployment has minimum availability." },
                { "type": "Progressing", "status": "True", "lastUpdateTime": now, "lastTransitionTime": now,
                  "reason": "NewReplicaSetAvailable",
                  "message": format!("ReplicaSet \"{set_name}\" has successfully progressed.") },
            ],
        })
    );
    let hash = set_name.strip_prefix("web-").expect("prefix");
    assert_eq!(set["metadata"]["labels"], json!({ "app": "web", "pod-template-hash": hash }));
    assert_eq!(
        set["status"],
        json!({
            "replicas": 3, "fullyLabeledReplicas": 3, "readyReplicas": 3, "availableReplicas": 3,
            "terminatingReplicas": 0, "observedGeneration": 1,
        })
    );
    for pod in lab.pods() {
        assert!(is_ready(&pod));
        assert_eq!(pod["metadata"]["ownerReferences"][0]["name"], set_name);
        assert_eq!(pod["metadata"]["labels"]["topology.kubernetes.io/region"], "westeurope");
        assert_eq!(pod["status"]["containerStatuses"][0]["started"], true);
    }
    assert_eq!(lab.messages("ScalingReplicaSet"), [format!("Scaled up replica set {set_name} from 0 to 3")]);
    assert_eq!(lab.messages("SuccessfulCreate").len(), 3);
}

/// Who manages which fields of what the cluster's own parts write, as a real control plane has it.
#[test]
fn pods_tell_which_parts_wrote_them() {
    let mut lab = Lab::new(1);
    lab.apply(deployment("web", 2));
    let (pods, _) = lab.cluster.list(PODS, Some("default"));
    for pod in &pods {
        let managed = pod.managed_fields();
        let writers: Vec<_> = (0..managed.as_array().map_or(0, Vec::len))
            .map(|at| [&managed[at]["manager"], &managed[at]["operation"], &managed[at]["subresource"]])
            .collect();
        assert_eq!(
            json!(writers),
            json!([["kube-controller-manager", "Update", null], ["kubelet", "Update", "status"]])
        );
        let made = &managed[0]["fieldsV1"];
        let owner = format!("k:{{\"uid\":\"{}\"}}", pod.owners[0].uid);
        assert_eq!(made["f:metadata"]["f:ownerReferences"], json!({ ".": {}, owner: {} }));
        assert_eq!(made["f:metadata"]["f:generateName"], json!({}));
        // What the API server adds, and where the scheduler puts a pod, is nobody's.
        for field in ["f:nodeName", "f:serviceAccountName", "f:tolerations", "f:volumes"] {
            assert_eq!(made["f:spec"][field], Value::Null, "{field}");
        }
        let status = &managed[1]["fieldsV1"]["f:status"];
        assert_eq!(status["f:phase"], json!({}));
        let address = pod.value()["status"]["podIP"].clone();
        assert!(status["f:podIPs"][format!("k:{{\"ip\":{address}}}")].is_object(), "{status}");
        // The text that is served is the tree that was shown.
        let served: Value = serde_json::from_slice(&pod.served()).expect("JSON");
        assert_eq!((served["metadata"]["managedFields"].clone(), served), (managed, pod.whole()));
    }
    assert_eq!(pods.len(), 2);
    let (events, _) = lab.cluster.list(EVENTS, Some("default"));
    let mut writers: Vec<String> = events
        .iter()
        .map(|event| event.managed_fields()[0]["manager"].as_str().unwrap_or_default().to_owned())
        .collect();
    writers.sort();
    writers.dedup();
    assert_eq!(writers, ["kube-controller-manager", "kube-scheduler", "kubelet"]);
}

#[test]
fn an_idle_cluster_writes_nothing() {
    let mut lab = Lab::new(3);
    lab.apply(deployment("web", 3));
    let (_, before) = lab.cluster.list(PODS, None);
    lab.seconds(1800);
    let (_, after) = lab.cluster.list(PODS, None);
    assert_eq!(before, after);
}

#[test]
fn roll_within_surge_and_unavailability() {
    let mut lab = Lab::with(3, recorded());
    lab.apply(deployment("web", 4));
    lab.seconds(5);
    assert_eq!(lab.running(), 4);
    lab.change(DEPLOYMENTS, "web", |web| {
        web["spec"]["template"]["spec"]["containers"][0]["image"] = json!("nginx:1.28");
    });
    let (mut most, mut fewest_ready) = (0, usize::MAX);
    for _ in 0..100 {
        lab.pass(SignedDuration::from_millis(100));
        let pods = lab.pods();
        most = most.max(pods.iter().filter(|pod| pod["metadata"]["deletionTimestamp"].is_null()).count());
        fewest_ready = fewest_ready.min(pods.iter().filter(|pod| is_ready(pod)).count());
    }
    assert_eq!(most, 5, "25 % of 4 may be there in excess");
    assert!(fewest_ready >= 3, "25 % of 4 may be missing, not {}", 4 - fewest_ready);
    let images: Vec<_> =
        lab.pods().iter().map(|pod| pod["spec"]["containers"][0]["image"].as_str().unwrap().to_owned()).collect();
    assert_eq!(images, ["nginx:1.28"; 4]);
    assert_eq!(lab.get(DEPLOYMENTS, "web")["metadata"]["annotations"]["deployment.kubernetes.io/revision"], "2");
}

#[test]
fn undo_reuses_the_old_replica_set() {
    let mut lab = Lab::new(2);
    lab.apply(deployment("web", 2));
    let set_image = |image: &'static str| {
        move |web: &mut Value| web["spec"]["template"]["spec"]["containers"][0]["image"] = json!(image)
    };
    lab.change(DEPLOYMENTS, "web", set_image("nginx:1.28"));
    lab.change(DEPLOYMENTS, "web", set_image("nginx:1.27"));
    let sets = lab.list(REPLICA_SETS);
    assert_eq!(sets.len(), 2);
    let current = sets.iter().find(|set| set["spec"]["replicas"] == 2).expect("an active set");
    assert_eq!(current["spec"]["template"]["spec"]["containers"][0]["image"], "nginx:1.27");
    let annotations = &current["metadata"]["annotations"];
    assert_eq!(annotations["deployment.kubernetes.io/revision"], "3");
    assert_eq!(annotations["deployment.kubernetes.io/revision-history"], "1");
    assert_eq!(lab.running(), 2);
}

#[test]
fn recreate_waits_for_the_old_pods() {
    let mut lab = Lab::with(2, recorded());
    let mut web = deployment("web", 2);
    web["spec"]["strategy"] = json!({ "type": "Recreate" });
    lab.apply(web);
    lab.seconds(3);
    lab.change(DEPLOYMENTS, "web", |web| web["spec"]["template"]["spec"]["containers"][0]["image"] = json!("b:1"));
    let mut together = false;
    for _ in 0..40 {
        lab.pass(SignedDuration::from_millis(100));
        let pods = lab.pods();
        let of = |image: &str| pods.iter().any(|pod| pod["spec"]["containers"][0]["image"] == image);
        together |= of("nginx:1.27") && of("b:1");
    }
    assert!(!together);
    assert_eq!(lab.running(), 2);
}

#[test]
fn a_stuck_rollout_passes_its_deadline() {
    let mut lab = Lab::new(2);
    let mut web = deployment("web", 1);
    web["spec"]["template"]["spec"]["containers"][0]["image"] = json!("nginx:does-not-exist");
    web["spec"]["progressDeadlineSeconds"] = json!(60);
    lab.apply(web);
    let reason = |lab: &Lab| lab.pods()[0]["status"]["containerStatuses"][0]["state"]["waiting"]["reason"].clone();
    assert_eq!(reason(&lab), "ErrImagePull");
    lab.seconds(2);
    assert_eq!(reason(&lab), "ImagePullBackOff");
    lab.seconds(120);
    let web = lab.get(DEPLOYMENTS, "web");
    let progressing = condition(&web, "Progressing");
    assert_eq!(
        (progressing["status"].as_str(), progressing["reason"].as_str()),
        (Some("False"), Some("ProgressDeadlineExceeded"))
    );
}

#[test]
fn a_paused_deployment_scales_but_does_not_roll() {
    let mut lab = Lab::new(2);
    lab.apply(deployment("web", 2));
    lab.change(DEPLOYMENTS, "web", |web| web["spec"]["paused"] = json!(true));
    lab.change(DEPLOYMENTS, "web", |web| web["spec"]["template"]["spec"]["containers"][0]["image"] = json!("b:1"));
    lab.change(DEPLOYMENTS, "web", |web| web["spec"]["replicas"] = json!(3));
    assert_eq!(lab.list(REPLICA_SETS).len(), 1);
    assert_eq!(lab.running(), 3);
    assert_eq!(condition(&lab.get(DEPLOYMENTS, "web"), "Progressing")["reason"], "DeploymentPaused");
    lab.change(DEPLOYMENTS, "web", |web| web["spec"]["paused"] = json!(false));
    assert_eq!(lab.list(REPLICA_SETS).len(), 2);
    assert!(lab.pods().iter().all(|pod| pod["spec"]["containers"][0]["image"] == "b:1"));
}

#[test]
fn old_sets_beyond_the_limit_are_deleted() {
    let mut lab = Lab::new(1);
    let mut web = deployment("web", 1);
    web["spec"]["revisionHistoryLimit"] = json!(1);
    lab.apply(web);
    for version in 0..4 {
        lab.change(DEPLOYMENTS, "web", |web| {
            web["spec"]["template"]["spec"]["containers"][0]["image"] = json!(format!("nginx:{version}"));
        });
    }
    assert_eq!(lab.list(REPLICA_SETS).len(), 2);
}

/// The annotations go to the ReplicaSets, so that the controller must see that they changed.
#[test]
fn annotations_raise_the_generation_and_the_revision_does_not() {
    let mut lab = Lab::new(1);
    lab.apply(deployment("web", 1));
    let generation = |lab: &Lab| {
        let web = lab.get(DEPLOYMENTS, "web");
        assert_eq!(web["metadata"]["generation"], web["status"]["observedGeneration"]);
        web["metadata"]["generation"].as_i64().expect("a number")
    };
    assert_eq!(generation(&lab), 1, "with its revision");
    lab.change(DEPLOYMENTS, "web", |web| web["metadata"]["annotations"]["kubernetes.io/change-cause"] = json!("x"));
    assert_eq!(generation(&lab), 2);
    assert_eq!(lab.list(REPLICA_SETS)[0]["metadata"]["annotations"]["kubernetes.io/change-cause"], "x");
    lab.change(DEPLOYMENTS, "web", |web| web["metadata"]["labels"]["a"] = json!("b"));
    assert_eq!(generation(&lab), 2, "labels do not");
    lab.change(DEPLOYMENTS, "web", |web| web["spec"]["template"]["metadata"]["labels"]["a"] = json!("b"));
    assert_eq!(generation(&lab), 3);
}

#[test]
fn many_scalings_are_told_by_one_combined_event() {
    let mut lab = Lab::new(1);
    lab.apply(deployment("web", 1));
    for replicas in 2..=14 {
        lab.change(DEPLOYMENTS, "web", |web| web["spec"]["replicas"] = json!(replicas));
    }
    let messages = lab.messages("ScalingReplicaSet");
    let combined: Vec<_> =
        messages.iter().filter(|message| message.starts_with("(combined from similar events): Scaled up")).collect();
    assert_eq!((messages.len(), combined.len()), (10, 1), "{messages:#?}");
    assert!(combined[0].ends_with("from 13 to 14"), "{combined:?}");
}
