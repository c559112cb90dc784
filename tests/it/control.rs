//! The acting part of the embedded cluster, in process, on a clock that is stepped.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use klab::sim::clock::SteppedClock;
use klab::sim::cluster::{Cluster, DeleteOptions, Part, Propagation, WriteOptions};
use klab::sim::control::{ControlPlane, HollowDelays, Settings};
use klab::sim::object::Object;
use klab::sim::resource::{
    CONFIG_MAPS, CONTROLLER_REVISIONS, CRON_JOBS, DAEMON_SETS, DEPLOYMENTS, ENDPOINT_SLICES, ENDPOINTS, EVENTS,
    HORIZONTAL_POD_AUTOSCALERS, JOBS, LEASES, NAMESPACES, NODES, PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES,
    POD_DISRUPTION_BUDGETS, PODS, REPLICA_SETS, RESOURCE_QUOTAS, ResourceId, SERVICES, STATEFUL_SETS,
};
use klab::sim::system::{Flavour, bootstrap};
use serde_json::{Value, json};

/// A cluster with nodes, a control plane and a clock.
struct Lab {
    clock: Arc<SteppedClock>,
    cluster: Arc<Cluster>,
    plane: ControlPlane,
}

impl Lab {
    fn new(nodes: usize) -> Self {
        Self::with(nodes, Settings::default())
    }

    fn with(nodes: usize, settings: Settings) -> Self {
        let start: Timestamp = "2026-06-01T08:00:00Z".parse().expect("a time");
        let clock = Arc::new(SteppedClock::new(start));
        let cluster = Arc::new(Cluster::new(Arc::<SteppedClock>::clone(&clock), 7));
        for number in 0..nodes {
            let name = format!("node-{number}");
            cluster.create(NODES, "", node(&name, number), &WriteOptions::by("test")).expect("node");
        }
        let plane = ControlPlane::new(Arc::clone(&cluster), settings);
        let mut lab = Self { clock, cluster, plane };
        lab.plane.run();
        lab
    }

    fn apply(&mut self, value: Value) -> Arc<Object> {
        let api_version = value["apiVersion"].as_str().unwrap_or("v1").to_owned();
        let kind = value["kind"].as_str().expect("a kind").to_owned();
        let resource = ResourceId::by_kind(&api_version, &kind).expect("a kind of the table");
        let namespace = value["metadata"]["namespace"].as_str().unwrap_or("default").to_owned();
        let namespace = if resource.row().namespaced { namespace } else { String::new() };
        let made = self.cluster.create(resource, &namespace, value, &WriteOptions::client("test")).expect("created");
        self.plane.run();
        made
    }

    fn change(&mut self, resource: ResourceId, name: &str, change: impl FnOnce(&mut Value)) {
        let namespace = if resource.row().namespaced { "default" } else { "" };
        self.cluster
            .modify(resource, Part::Main, namespace, name, &WriteOptions::client("test"), change)
            .expect("changed");
        self.plane.run();
    }

    fn delete(&mut self, resource: ResourceId, name: &str, propagation: Propagation) {
        let namespace = if resource.row().namespaced { "default" } else { "" };
        let options = DeleteOptions { propagation: Some(propagation), ..DeleteOptions::default() };
        self.cluster.delete(resource, namespace, name, &options).expect("deleted");
        self.plane.run();
    }

    /// Steps the clock from timer to timer until `duration` has passed.
    fn pass(&mut self, duration: SignedDuration) {
        let end = self.cluster.now() + duration;
        loop {
            match self.plane.run() {
                Some(next) if next <= end => self.clock.step_to(next),
                _ => break,
            }
        }
        self.clock.step_to(end);
        self.plane.run();
    }

    fn seconds(&mut self, seconds: i64) {
        self.pass(SignedDuration::from_secs(seconds));
    }

    fn get(&self, resource: ResourceId, name: &str) -> Value {
        let namespace = if resource.row().namespaced { "default" } else { "" };
        self.cluster.get(resource, namespace, name).map(|object| object.value()).unwrap_or_default()
    }

    fn list(&self, resource: ResourceId) -> Vec<Value> {
        self.cluster.list(resource, Some("default")).0.iter().map(|object| object.value()).collect()
    }

    fn pods(&self) -> Vec<Value> {
        self.list(PODS)
    }

    fn running(&self) -> usize {
        self.pods().iter().filter(|pod| is_ready(pod)).count()
    }

    fn messages(&self, reason: &str) -> Vec<String> {
        self.list(EVENTS)
            .iter()
            .filter(|event| event["reason"] == reason)
            .map(|event| event["message"].as_str().unwrap_or_default().to_owned())
            .collect()
    }
}

fn is_ready(pod: &Value) -> bool {
    condition(pod, "Ready")["status"] == "True"
}

fn condition<'a>(object: &'a Value, kind: &str) -> &'a Value {
    object["status"]["conditions"]
        .as_array()
        .and_then(|conditions| conditions.iter().find(|condition| condition["type"] == kind))
        .unwrap_or(&Value::Null)
}

fn node(name: &str, number: usize) -> Value {
    let resources = json!({ "cpu": "4", "memory": "16Gi", "pods": "110", "ephemeral-storage": "100Gi" });
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": { "name": name, "labels": {
            "kubernetes.io/hostname": name, "topology.kubernetes.io/region": "westeurope",
            "topology.kubernetes.io/zone": format!("westeurope-{}", number % 3 + 1),
        }},
        "spec": { "podCIDR": format!("10.244.{number}.0/24") },
        "status": {
            "capacity": resources, "allocatable": resources,
            "addresses": [{ "type": "InternalIP", "address": format!("10.224.0.{}", number + 4) }],
            "conditions": [
                { "type": "MemoryPressure", "status": "False", "reason": "KubeletHasSufficientMemory", "message": "kubelet has sufficient memory available" },
                { "type": "Ready", "status": "True", "reason": "KubeletReady", "message": "kubelet is posting ready status" },
            ],
        },
    })
}

fn template(app: &str, image: &str) -> Value {
    json!({
        "metadata": { "labels": { "app": app } },
        "spec": { "containers": [{ "name": "main", "image": image }], "terminationGracePeriodSeconds": 30 },
    })
}

fn deployment(name: &str, replicas: i64) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": name },
        "spec": {
            "replicas": replicas, "selector": { "matchLabels": { "app": name } },
            "template": template(name, "nginx:1.27"), "revisionHistoryLimit": 10, "progressDeadlineSeconds": 600,
            "strategy": { "type": "RollingUpdate", "rollingUpdate": { "maxSurge": "25%", "maxUnavailable": "25%" } },
        },
    })
}

fn recorded() -> Settings {
    Settings { hollow: HollowDelays::recorded(), ..Settings::default() }
}

mod deployments {
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
        let pod = &lab.pods()[0];
        assert_eq!(pod["status"]["containerStatuses"][0]["state"]["waiting"]["reason"], "ImagePullBackOff");
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
}

mod garbage {
    use super::*;

    #[test]
    fn background_deletion_takes_sets_and_pods_along() {
        let mut lab = Lab::new(2);
        lab.apply(deployment("web", 3));
        lab.delete(DEPLOYMENTS, "web", Propagation::Background);
        assert!(lab.list(REPLICA_SETS).is_empty());
        assert!(lab.pods().is_empty());
    }

    #[test]
    fn foreground_deletion_keeps_the_owner_to_the_last() {
        let mut lab = Lab::with(2, recorded());
        lab.apply(deployment("web", 3));
        lab.seconds(3);
        lab.delete(DEPLOYMENTS, "web", Propagation::Foreground);
        assert!(!lab.get(DEPLOYMENTS, "web")["metadata"]["deletionTimestamp"].is_null());
        assert_eq!(lab.pods().len(), 3);
        lab.seconds(2);
        assert!(lab.pods().is_empty() && lab.list(REPLICA_SETS).is_empty() && lab.list(DEPLOYMENTS).is_empty());
    }

    #[test]
    fn orphans_stay_and_are_adopted_again() {
        let mut lab = Lab::new(2);
        lab.apply(deployment("web", 2));
        let names: Vec<_> = lab.pods().iter().map(|pod| pod["metadata"]["name"].clone()).collect();
        lab.delete(DEPLOYMENTS, "web", Propagation::Orphan);
        assert!(lab.list(DEPLOYMENTS).is_empty());
        assert!(lab.list(REPLICA_SETS)[0]["metadata"]["ownerReferences"].is_null());
        lab.apply(deployment("web", 2));
        assert_eq!(lab.list(REPLICA_SETS)[0]["metadata"]["ownerReferences"][0]["name"], "web");
        let after: Vec<_> = lab.pods().iter().map(|pod| pod["metadata"]["name"].clone()).collect();
        assert_eq!(names, after);
    }

    #[test]
    fn an_object_whose_owner_never_was_is_collected() {
        let mut lab = Lab::new(1);
        lab.apply(json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": { "name": "child", "ownerReferences": [
                { "apiVersion": "v1", "kind": "ConfigMap", "name": "gone", "uid": "00000000-0000-0000-0000-000000000001" },
            ]},
        }));
        assert!(lab.cluster.get(CONFIG_MAPS, "default", "child").is_none());
    }

    #[test]
    fn a_namespace_ends_when_its_content_has() {
        let mut lab = Lab::with(1, recorded());
        lab.apply(json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "team" } }));
        lab.apply(json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "x", "namespace": "team" },
            "spec": { "containers": [{ "name": "x", "image": "nginx" }], "terminationGracePeriodSeconds": 30 },
        }));
        lab.seconds(2);
        lab.apply(json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": { "name": "held", "namespace": "team", "finalizers": ["lab.example/hold"] },
        }));
        lab.delete(NAMESPACES, "team", Propagation::Background);
        lab.seconds(4);
        assert_eq!(lab.cluster.list(PODS, Some("team")).0.len(), 1);
        lab.seconds(4);
        let namespace = lab.get(NAMESPACES, "team");
        assert_eq!(namespace["status"]["phase"], "Terminating");
        assert_eq!(condition(&namespace, "NamespaceFinalizersRemaining")["status"], "True");
        assert!(lab.cluster.list(PODS, Some("team")).0.is_empty());
        lab.cluster
            .modify(CONFIG_MAPS, Part::Main, "team", "held", &WriteOptions::by("test"), |value| {
                value["metadata"]["finalizers"] = json!([]);
            })
            .expect("released");
        lab.plane.run();
        assert!(lab.cluster.get(NAMESPACES, "", "team").is_none());
    }
}

mod jobs {
    use super::*;

    fn job(name: &str, spec: Value, command: &[&str]) -> Value {
        let mut job = json!({
            "apiVersion": "batch/v1", "kind": "Job", "metadata": { "name": name }, "spec": spec,
        });
        let labels = json!({ "job-name": name, "batch.kubernetes.io/job-name": name });
        job["spec"]["selector"] = json!({ "matchLabels": { "batch.kubernetes.io/job-name": name } });
        job["spec"]["template"] = json!({
            "metadata": { "labels": labels },
            "spec": { "restartPolicy": "Never", "containers": [{ "name": "work", "image": "busybox:1.36", "command": command }] },
        });
        job["spec"]["manualSelector"] = json!(true);
        job
    }

    #[test]
    fn complete_with_the_recorded_status() {
        let mut lab = Lab::with(2, recorded());
        lab.apply(job(
            "pi",
            json!({ "completions": 3, "parallelism": 2, "backoffLimit": 2 }),
            &["sh", "-c", "echo done"],
        ));
        assert_eq!(lab.pods().len(), 2);
        lab.seconds(10);
        let pi = lab.get(JOBS, "pi");
        let at = pi["status"]["completionTime"].clone();
        let message = "Reached expected number of succeeded pods";
        assert_eq!(
            pi["status"],
            json!({
                "conditions": [
                    { "type": "SuccessCriteriaMet", "status": "True", "lastProbeTime": at, "lastTransitionTime": at,
                      "reason": "CompletionsReached", "message": message },
                    { "type": "Complete", "status": "True", "lastProbeTime": at, "lastTransitionTime": at,
                      "reason": "CompletionsReached", "message": message },
                ],
                "startTime": "2026-06-01T08:00:00Z", "completionTime": at, "succeeded": 3, "terminating": 0,
                "uncountedTerminatedPods": {}, "ready": 0,
            })
        );
        assert_eq!(lab.messages("Completed"), ["Job completed"]);
        assert!(lab.pods().iter().all(|pod| pod["metadata"]["finalizers"].is_null()));
    }

    #[test]
    fn fail_at_the_backoff_limit() {
        let mut lab = Lab::new(1);
        lab.apply(job(
            "bad",
            json!({ "backoffLimit": 1, "completions": 1, "parallelism": 1 }),
            &["sh", "-c", "exit 1"],
        ));
        lab.seconds(5);
        assert_eq!(lab.get(JOBS, "bad")["status"]["failed"], 1);
        assert_eq!(lab.pods().len(), 1, "the next try waits ten seconds");
        lab.seconds(20);
        let bad = lab.get(JOBS, "bad");
        assert_eq!(condition(&bad, "Failed")["reason"], "BackoffLimitExceeded");
        assert_eq!(bad["status"]["failed"], 2);
        assert_eq!(lab.messages("BackoffLimitExceeded"), ["Job has reached the specified backoff limit"]);
    }

    #[test]
    fn pods_that_sleep_run_as_long() {
        let mut lab = Lab::new(1);
        lab.apply(job("nap", json!({ "completions": 1, "parallelism": 1 }), &["sleep", "90"]));
        lab.seconds(60);
        assert_eq!(lab.get(JOBS, "nap")["status"]["active"], 1);
        lab.seconds(40);
        assert_eq!(lab.get(JOBS, "nap")["status"]["succeeded"], 1);
    }

    #[test]
    fn a_finished_job_is_deleted_after_its_time_to_live() {
        let mut lab = Lab::new(1);
        lab.apply(job(
            "brief",
            json!({ "completions": 1, "parallelism": 1, "ttlSecondsAfterFinished": 30 }),
            &["true"],
        ));
        lab.seconds(20);
        assert_eq!(lab.list(JOBS).len(), 1);
        lab.seconds(20);
        assert!(lab.list(JOBS).is_empty() && lab.pods().is_empty());
    }

    #[test]
    fn deleting_a_running_job_leaves_no_pods() {
        let mut lab = Lab::new(1);
        lab.apply(job("nap", json!({ "completions": 2, "parallelism": 2 }), &["sleep", "infinity"]));
        assert_eq!(lab.running(), 2);
        lab.delete(JOBS, "nap", Propagation::Background);
        assert!(lab.pods().is_empty());
    }

    #[test]
    fn an_indexed_job_runs_each_index_once() {
        let mut lab = Lab::new(2);
        lab.apply(job("parts", json!({ "completions": 4, "parallelism": 2, "completionMode": "Indexed" }), &["true"]));
        lab.seconds(10);
        assert_eq!(lab.get(JOBS, "parts")["status"]["completedIndexes"], "0-3");
        assert_eq!(lab.pods().len(), 4);
    }
}

mod stateful_sets {
    use super::*;

    fn stateful_set(name: &str, replicas: i64) -> Value {
        json!({
            "apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": { "name": name },
            "spec": {
                "replicas": replicas, "serviceName": name, "selector": { "matchLabels": { "app": name } },
                "template": template(name, "postgres:16"), "podManagementPolicy": "OrderedReady",
                "updateStrategy": { "type": "RollingUpdate", "rollingUpdate": { "partition": 0 } },
            },
        })
    }

    #[test]
    fn start_one_after_the_other() {
        let mut lab = Lab::with(2, recorded());
        lab.apply(stateful_set("db", 3));
        assert_eq!(lab.pods().len(), 1);
        lab.seconds(10);
        let db = lab.get(STATEFUL_SETS, "db");
        let revision = db["status"]["updateRevision"].as_str().expect("a revision").to_owned();
        assert_eq!(
            db["status"],
            json!({
                "observedGeneration": 1, "replicas": 3, "readyReplicas": 3, "currentReplicas": 3, "updatedReplicas": 3,
                "currentRevision": revision, "updateRevision": revision, "collisionCount": 0, "availableReplicas": 3,
            })
        );
        assert_eq!(
            lab.messages("SuccessfulCreate"),
            [0, 1, 2].map(|at| format!("Create Pod db-{at} in StatefulSet db successful"))
        );
        let pod = lab.get(PODS, "db-1");
        assert_eq!(pod["spec"]["hostname"], "db-1");
        assert_eq!(pod["spec"]["subdomain"], "db");
        assert_eq!(pod["metadata"]["labels"]["controller-revision-hash"], revision.as_str());
        assert_eq!(pod["metadata"]["labels"]["apps.kubernetes.io/pod-index"], "1");
    }

    #[test]
    fn update_from_the_last_to_the_partition() {
        let mut lab = Lab::new(2);
        lab.apply(stateful_set("db", 3));
        lab.change(STATEFUL_SETS, "db", |db| {
            db["spec"]["updateStrategy"]["rollingUpdate"]["partition"] = json!(1);
            db["spec"]["template"]["spec"]["containers"][0]["image"] = json!("postgres:17");
        });
        let image = |lab: &Lab, pod: &str| lab.get(PODS, pod)["spec"]["containers"][0]["image"].clone();
        assert_eq!(image(&lab, "db-0"), "postgres:16");
        assert_eq!(image(&lab, "db-1"), "postgres:17");
        assert_eq!(image(&lab, "db-2"), "postgres:17");
        assert_eq!(lab.list(CONTROLLER_REVISIONS).len(), 2);
        lab.change(STATEFUL_SETS, "db", |db| db["spec"]["replicas"] = json!(1));
        assert_eq!(lab.pods().len(), 1);
    }
}

mod nodes {
    use super::*;

    fn taints(lab: &Lab, node: &str) -> Vec<String> {
        let mut taints: Vec<_> = lab.get(NODES, node)["spec"]["taints"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|taint| {
                format!("{}:{}", taint["key"].as_str().unwrap_or("?"), taint["effect"].as_str().unwrap_or("?"))
            })
            .collect();
        taints.sort();
        taints
    }

    fn bare_pod(name: &str, node: &str, tolerations: Value) -> Value {
        json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name },
            "spec": {
                "nodeName": node, "containers": [{ "name": "main", "image": "nginx:1.27" }],
                "terminationGracePeriodSeconds": 30, "tolerations": tolerations,
            },
        })
    }

    fn patient() -> Value {
        json!(["not-ready", "unreachable"].map(|key| json!({
            "key": format!("node.kubernetes.io/{key}"), "operator": "Exists", "effect": "NoExecute",
            "tolerationSeconds": 300,
        })))
    }

    #[test]
    fn are_registered_with_a_lease_and_an_event() {
        let lab = Lab::new(1);
        let node = lab.get(NODES, "node-0");
        assert_eq!(node["metadata"]["annotations"]["node.alpha.kubernetes.io/ttl"], "0");
        assert_eq!(condition(&node, "Ready")["lastHeartbeatTime"], "2026-06-01T08:00:00Z");
        let lease = lab.cluster.get(LEASES, "kube-node-lease", "node-0").expect("a lease").value();
        assert_eq!(lease["spec"]["holderIdentity"], "node-0");
        assert_eq!(lab.messages("RegisteredNode"), ["Node node-0 event: Registered Node node-0 in Controller"]);
    }

    #[test]
    fn cordoned_ones_are_tainted_until_uncordoned() {
        let mut lab = Lab::new(1);
        lab.change(NODES, "node-0", |node| {
            node["spec"]["unschedulable"] = json!(true);
            node["spec"]["taints"] = json!([{ "key": "own", "effect": "NoSchedule" }]);
        });
        assert_eq!(taints(&lab, "node-0"), ["node.kubernetes.io/unschedulable:NoSchedule", "own:NoSchedule"]);
        lab.change(NODES, "node-0", |node| node["spec"]["unschedulable"] = Value::Null);
        assert_eq!(taints(&lab, "node-0"), ["own:NoSchedule"]);
    }

    #[test]
    fn conditions_become_taints() {
        let mut lab = Lab::new(1);
        let set = |lab: &mut Lab, kind: &str, status: &str| {
            lab.cluster
                .modify(NODES, Part::Status, "", "node-0", &WriteOptions::client("test"), |node| {
                    let conditions = node["status"]["conditions"].as_array_mut().expect("conditions");
                    match conditions.iter_mut().find(|condition| condition["type"] == kind) {
                        Some(have) => have["status"] = json!(status),
                        None => conditions.push(json!({ "type": kind, "status": status })),
                    }
                })
                .expect("patched");
            lab.plane.run();
        };
        for (kind, key) in [
            ("MemoryPressure", "memory-pressure"),
            ("DiskPressure", "disk-pressure"),
            ("PIDPressure", "pid-pressure"),
            ("NetworkUnavailable", "network-unavailable"),
        ] {
            set(&mut lab, kind, "True");
            assert_eq!(taints(&lab, "node-0"), [format!("node.kubernetes.io/{key}:NoSchedule")]);
            set(&mut lab, kind, "False");
            assert!(taints(&lab, "node-0").is_empty());
        }
        set(&mut lab, "Ready", "False");
        assert_eq!(
            taints(&lab, "node-0"),
            ["node.kubernetes.io/not-ready:NoExecute", "node.kubernetes.io/not-ready:NoSchedule"]
        );
    }

    #[test]
    fn a_stopped_one_is_unknown_after_50_seconds_and_its_pods_leave_300_later() {
        let mut lab = Lab::new(1);
        lab.apply(bare_pod("pinned", "node-0", patient()));
        lab.apply(bare_pod("stays", "node-0", json!([{ "operator": "Exists" }])));
        assert_eq!(lab.running(), 2);
        lab.plane.stop_node("node-0").expect("stopped");
        lab.seconds(49);
        assert_eq!(condition(&lab.get(NODES, "node-0"), "Ready")["status"], "True");
        lab.seconds(2);
        let node = lab.get(NODES, "node-0");
        for kind in ["Ready", "MemoryPressure", "DiskPressure", "PIDPressure"] {
            let have = condition(&node, kind);
            assert_eq!(
                (have["status"].as_str(), have["reason"].as_str()),
                (Some("Unknown"), Some("NodeStatusUnknown"))
            );
        }
        assert_eq!(
            taints(&lab, "node-0"),
            ["node.kubernetes.io/unreachable:NoExecute", "node.kubernetes.io/unreachable:NoSchedule"]
        );
        assert_eq!(lab.running(), 0);
        assert_eq!(lab.messages("NodeNotReady").len(), 3, "one for the node, one for each pod");
        lab.seconds(298);
        assert!(lab.get(PODS, "pinned")["metadata"]["deletionTimestamp"].is_null());
        lab.seconds(2);
        let pinned = lab.get(PODS, "pinned");
        assert!(!pinned["metadata"]["deletionTimestamp"].is_null(), "no kubelet is there to end it");
        assert_eq!(condition(&pinned, "DisruptionTarget")["reason"], "DeletionByTaintManager");
        assert!(lab.get(PODS, "stays")["metadata"]["deletionTimestamp"].is_null());
        lab.plane.restore_node("node-0").expect("restored");
        lab.seconds(1);
        assert!(taints(&lab, "node-0").is_empty());
        assert!(lab.get(PODS, "pinned").is_null());
        assert_eq!(lab.running(), 1);
    }

    #[test]
    fn a_restart_remembers_what_is_stopped_and_how_long_pods_have() {
        let mut lab = Lab::new(1);
        lab.apply(bare_pod("pinned", "node-0", patient()));
        lab.plane.stop_node("node-0").expect("stopped");
        lab.seconds(100);
        lab.plane = ControlPlane::new(Arc::clone(&lab.cluster), Settings::default());
        lab.seconds(249);
        assert!(lab.get(PODS, "pinned")["metadata"]["deletionTimestamp"].is_null());
        lab.seconds(3);
        assert!(!lab.get(PODS, "pinned")["metadata"]["deletionTimestamp"].is_null());
    }

    #[test]
    fn no_execute_taints_evict_by_toleration() {
        let mut lab = Lab::new(1);
        let own = |seconds: Value| {
            let mut toleration = json!({ "key": "maintenance", "operator": "Exists", "effect": "NoExecute" });
            if !seconds.is_null() {
                toleration["tolerationSeconds"] = seconds;
            }
            json!([toleration])
        };
        lab.apply(bare_pod("intolerant", "node-0", json!([])));
        lab.apply(bare_pod("fiveseconds", "node-0", own(json!(5))));
        lab.apply(bare_pod("forever", "node-0", own(Value::Null)));
        lab.change(NODES, "node-0", |node| {
            node["spec"]["taints"] = json!([{ "key": "maintenance", "value": "now", "effect": "NoExecute" }]);
        });
        let names = |lab: &Lab| -> Vec<String> {
            lab.pods().iter().map(|pod| pod["metadata"]["name"].as_str().unwrap().to_owned()).collect()
        };
        assert_eq!(names(&lab), ["fiveseconds", "forever"]);
        lab.seconds(4);
        assert_eq!(names(&lab), ["fiveseconds", "forever"]);
        lab.seconds(1);
        assert_eq!(names(&lab), ["forever"]);
        assert_eq!(
            lab.messages("TaintManagerEviction"),
            ["Marking for deletion Pod default/fiveseconds", "Marking for deletion Pod default/intolerant"]
        );
    }

    #[test]
    fn taking_the_taint_away_in_time_cancels_the_eviction() {
        let mut lab = Lab::new(1);
        lab.apply(bare_pod(
            "p",
            "node-0",
            json!([
                { "key": "maintenance", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 60 },
            ]),
        ));
        lab.change(NODES, "node-0", |node| {
            node["spec"]["taints"] = json!([{ "key": "maintenance", "effect": "NoExecute" }]);
        });
        lab.seconds(30);
        lab.change(NODES, "node-0", |node| node["spec"]["taints"] = json!([]));
        lab.seconds(60);
        assert_eq!(lab.running(), 1);
        assert_eq!(lab.messages("TaintManagerEviction"), ["Cancelling deletion of Pod default/p"]);
    }

    #[test]
    fn pods_of_a_deleted_one_are_collected() {
        let mut lab = Lab::new(2);
        lab.apply(bare_pod("pinned", "node-0", json!([])));
        lab.delete(NODES, "node-0", Propagation::Background);
        assert!(lab.cluster.get(LEASES, "kube-node-lease", "node-0").is_none());
        lab.seconds(39);
        assert_eq!(lab.pods().len(), 1);
        lab.seconds(2);
        assert!(lab.pods().is_empty());
    }
}

mod scheduling {
    use super::*;

    fn pod(name: &str, cpu: &str, more: Value) -> Value {
        let mut pod = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name },
            "spec": { "containers": [
                { "name": "main", "image": "nginx:1.27", "resources": { "requests": { "cpu": cpu } } },
            ]},
        });
        for (field, value) in more.as_object().into_iter().flatten() {
            pod["spec"][field] = value.clone();
        }
        pod
    }

    #[test]
    fn a_pod_that_fits_nowhere_says_why_and_is_placed_when_it_can_be() {
        let mut lab = Lab::new(2);
        lab.apply(pod("picky", "1", json!({ "nodeSelector": { "disk": "ssd" } })));
        let picky = lab.get(PODS, "picky");
        let message = "0/2 nodes are available: 2 node(s) didn't match Pod's node affinity/selector. no new claims to \
                       deallocate, preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling.";
        assert_eq!(
            *condition(&picky, "PodScheduled"),
            json!({
                "type": "PodScheduled", "observedGeneration": 1, "status": "False", "lastProbeTime": null,
                "lastTransitionTime": "2026-06-01T08:00:00Z", "reason": "Unschedulable", "message": message,
            })
        );
        assert_eq!(lab.messages("FailedScheduling"), [message]);
        lab.seconds(5);
        lab.change(NODES, "node-1", |node| node["metadata"]["labels"]["disk"] = json!("ssd"));
        let picky = lab.get(PODS, "picky");
        assert_eq!(picky["spec"]["nodeName"], "node-1");
        assert_eq!(condition(&picky, "PodScheduled")["status"], "True");
        assert_eq!(lab.messages("Scheduled"), ["Successfully assigned default/picky to node-1"]);
    }

    #[test]
    fn a_gated_pod_waits_for_its_gates() {
        let mut lab = Lab::new(1);
        lab.apply(pod("gated", "1", json!({ "schedulingGates": [{ "name": "lab.example/hold" }] })));
        let gated = lab.get(PODS, "gated");
        assert_eq!(condition(&gated, "PodScheduled")["reason"], "SchedulingGated");
        assert!(lab.messages("FailedScheduling").is_empty());
        lab.change(PODS, "gated", |pod| pod["spec"]["schedulingGates"] = json!([]));
        assert_eq!(lab.running(), 1);
    }

    #[test]
    fn room_that_is_made_is_used() {
        let mut lab = Lab::new(1);
        lab.apply(pod("first", "3", json!({})));
        lab.apply(pod("second", "3", json!({})));
        assert_eq!(lab.running(), 1);
        lab.delete(PODS, "first", Propagation::Background);
        lab.seconds(2);
        assert_eq!(lab.get(PODS, "second")["spec"]["nodeName"], "node-0");
    }

    #[test]
    fn a_more_important_pod_takes_the_place_of_lesser_ones() {
        for hollow in [HollowDelays::default(), HollowDelays::recorded()] {
            let mut lab = Lab::with(1, Settings { hollow, ..Settings::default() });
            lab.apply(json!({
                "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": { "name": "gold" },
                "value": 100_000,
            }));
            lab.apply(pod("low", "3", json!({})));
            lab.seconds(2);
            lab.apply(pod("high", "3", json!({ "priorityClassName": "gold" })));
            if !hollow.stop.is_zero() {
                assert_eq!(lab.get(PODS, "high")["status"]["nominatedNodeName"], "node-0");
                assert_eq!(condition(&lab.get(PODS, "low"), "DisruptionTarget")["reason"], "PreemptionByScheduler");
            }
            lab.seconds(5);
            let high = lab.get(PODS, "high");
            assert_eq!(high["spec"]["nodeName"], "node-0");
            assert!(is_ready(&high));
            assert!(lab.get(PODS, "low").is_null());
            let uid = high["metadata"]["uid"].as_str().expect("a uid");
            assert_eq!(lab.messages("Preempted"), [format!("Preempted by pod {uid} on node node-0")]);
            assert_eq!(lab.messages("FailedScheduling"), ["0/1 nodes are available: 1 Insufficient cpu."]);
        }
    }

    #[test]
    fn the_order_of_names_is_the_same_in_every_run() {
        let placements = || {
            let mut lab = Lab::new(5);
            lab.apply(deployment("web", 8));
            lab.pods()
                .iter()
                .map(|pod| (pod["metadata"]["name"].to_string(), pod["spec"]["nodeName"].to_string()))
                .collect::<Vec<_>>()
        };
        let first = placements();
        assert_eq!(first.len(), 8);
        assert_eq!(first, placements());
    }
}

mod daemon_sets {
    use super::*;

    fn daemon_set(name: &str) -> Value {
        json!({
            "apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": { "name": name },
            "spec": { "selector": { "matchLabels": { "app": name } }, "template": template(name, "busybox:1.36") },
        })
    }

    #[test]
    fn run_on_every_node_that_their_pods_tolerate() {
        let mut lab = Lab::new(3);
        lab.change(NODES, "node-2", |node| {
            node["spec"]["taints"] = json!([{ "key": "dedicated", "value": "special", "effect": "NoSchedule" }]);
        });
        lab.change(NODES, "node-1", |node| node["spec"]["unschedulable"] = json!(true));
        lab.apply(daemon_set("agent"));
        let status = lab.get(DAEMON_SETS, "agent")["status"].clone();
        assert_eq!(
            status,
            json!({
                "currentNumberScheduled": 2, "numberMisscheduled": 0, "desiredNumberScheduled": 2, "numberReady": 2,
                "observedGeneration": 1, "updatedNumberScheduled": 2, "numberAvailable": 2,
            })
        );
        let pod = &lab.pods()[0];
        let keys: Vec<_> =
            pod["spec"]["tolerations"].as_array().expect("tolerations").iter().map(|it| &it["key"]).collect();
        assert_eq!(
            keys,
            ["not-ready", "unreachable", "disk-pressure", "memory-pressure", "pid-pressure", "unschedulable"]
                .map(|key| format!("node.kubernetes.io/{key}"))
                .iter()
                .collect::<Vec<_>>()
        );
        assert_eq!(pod["metadata"]["labels"]["pod-template-generation"], "1");
        lab.change(DAEMON_SETS, "agent", |agent| {
            agent["spec"]["template"]["spec"]["tolerations"] = json!([{ "key": "dedicated", "operator": "Exists" }]);
        });
        lab.seconds(5);
        assert_eq!(lab.get(DAEMON_SETS, "agent")["status"]["numberReady"], 3);
        assert_eq!(lab.list(CONTROLLER_REVISIONS).len(), 2);
    }

    #[test]
    fn a_taint_leaves_running_pods_and_bars_new_ones() {
        let mut lab = Lab::new(2);
        lab.apply(daemon_set("agent"));
        lab.change(NODES, "node-1", |node| {
            node["spec"]["taints"] = json!([{ "key": "dedicated", "effect": "NoSchedule" }]);
        });
        assert_eq!(lab.pods().len(), 2);
        let pod = lab.pods().into_iter().find(|pod| pod["spec"]["nodeName"] == "node-1").expect("a pod");
        lab.delete(PODS, pod["metadata"]["name"].as_str().expect("a name"), Propagation::Background);
        assert_eq!(lab.pods().len(), 1);
        assert_eq!(lab.get(DAEMON_SETS, "agent")["status"]["desiredNumberScheduled"], 1);
    }

    #[test]
    fn a_new_node_gets_its_pod_and_an_update_goes_node_by_node() {
        let mut lab = Lab::with(2, recorded());
        lab.apply(daemon_set("agent"));
        lab.seconds(2);
        lab.cluster.create(NODES, "", node("node-9", 9), &WriteOptions::by("test")).expect("node");
        lab.seconds(2);
        assert_eq!(lab.running(), 3);
        lab.change(DAEMON_SETS, "agent", |agent| {
            agent["spec"]["template"]["spec"]["containers"][0]["image"] = json!("busybox:1.37");
        });
        let mut fewest = 3;
        for _ in 0..60 {
            lab.pass(SignedDuration::from_millis(100));
            fewest = fewest.min(lab.running());
        }
        assert_eq!(fewest, 2);
        assert!(lab.pods().iter().all(|pod| pod["spec"]["containers"][0]["image"] == "busybox:1.37"));
    }
}

mod system {
    use super::*;

    fn lab(flavour: Flavour, nodes: Vec<Value>) -> Lab {
        let mut lab = Lab::new(0);
        bootstrap(&lab.cluster, flavour);
        for node in nodes {
            lab.cluster.create(NODES, "", node, &WriteOptions::by("test")).expect("node");
        }
        lab.plane.run();
        lab
    }

    fn aks_node(name: &str, number: usize, mode: &str) -> Value {
        let mut node = node(name, number);
        for (key, value) in [
            ("kubernetes.azure.com/cluster", "MC_lab"),
            ("kubernetes.azure.com/mode", mode),
            ("kubernetes.io/os", "linux"),
        ] {
            node["metadata"]["labels"][key] = json!(value);
        }
        node
    }

    fn pods(lab: &Lab) -> Vec<(String, String)> {
        let (pods, _) = lab.cluster.list(PODS, None);
        pods.iter()
            .map(|pod| {
                let value = pod.value();
                assert!(is_ready(&value), "{} is not ready: {}", pod.name, value["status"]);
                let node = value["spec"]["nodeName"].as_str().expect("a node").to_owned();
                (pod.name.to_string(), node)
            })
            .collect()
    }

    #[test]
    fn aks_runs_its_add_ons_on_system_pools_and_its_daemons_everywhere() {
        let nodes =
            vec![aks_node("system-0", 0, "system"), aks_node("system-1", 1, "system"), aks_node("user-0", 2, "user")];
        let lab = lab(Flavour::Aks, nodes);
        let pods = pods(&lab);
        let count = |prefix: &str| pods.iter().filter(|(name, _)| name.starts_with(prefix)).count();
        for (prefix, wanted) in [
            ("coredns-autoscaler-", 1),
            ("konnectivity-agent-", 2),
            ("metrics-server-", 2),
            ("kube-proxy-", 3),
            ("csi-azuredisk-node-", 3),
            ("csi-azurefile-node-", 3),
            ("cloud-node-manager-", 3),
            ("azure-ip-masq-agent-", 3),
        ] {
            assert_eq!(count(prefix), wanted, "{prefix}");
        }
        assert_eq!(count("coredns-"), 3, "two of coredns and the autoscaler");
        for (name, node) in &pods {
            let add_on = ["coredns-", "konnectivity-", "metrics-"].iter().any(|prefix| name.starts_with(prefix));
            assert!(!add_on || node.starts_with("system-"), "{name} is on {node}");
        }
        let dns = lab.cluster.list(PODS, Some("kube-system")).0;
        let dns = dns.iter().find(|pod| pod.name.starts_with("coredns-")).expect("coredns").value();
        assert_eq!(dns["spec"]["priority"], 2_000_001_000);
    }

    #[test]
    fn core_dns_moves_to_the_new_system_pool_when_the_old_one_goes() {
        let mut lab = lab(Flavour::Aks, vec![aks_node("old-0", 0, "system"), aks_node("user-0", 1, "user")]);
        lab.cluster.create(NODES, "", aks_node("new-0", 2, "system"), &WriteOptions::by("test")).expect("node");
        lab.plane.run();
        lab.delete(NODES, "old-0", Propagation::Background);
        lab.seconds(60);
        for (name, node) in pods(&lab) {
            assert_ne!(node, "old-0");
            assert!(!name.starts_with("coredns-") || node == "new-0", "{name} is on {node}");
        }
    }

    #[test]
    fn kind_has_a_control_plane_node_with_its_static_pods() {
        let mut control_plane = node("lab-control-plane", 0);
        control_plane["metadata"]["labels"]["node-role.kubernetes.io/control-plane"] = json!("");
        control_plane["metadata"]["labels"]["kubernetes.io/os"] = json!("linux");
        control_plane["spec"]["taints"] =
            json!([{ "key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule" }]);
        let mut worker = node("lab-worker", 1);
        worker["metadata"]["labels"]["kubernetes.io/os"] = json!("linux");
        let lab = lab(Flavour::Kind, vec![control_plane, worker]);
        let pods = pods(&lab);
        for name in ["etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"] {
            let pod = (format!("{name}-lab-control-plane"), "lab-control-plane".to_owned());
            assert!(pods.contains(&pod), "{name} is missing");
        }
        assert_eq!(pods.iter().filter(|(name, _)| name.starts_with("kindnet-")).count(), 2);
        assert_eq!(pods.iter().filter(|(name, _)| name.starts_with("local-path-provisioner-")).count(), 1);
    }

    #[test]
    fn filling_a_cluster_twice_changes_nothing() {
        let lab = lab(Flavour::Aks, vec![aks_node("system-0", 0, "system")]);
        let (_, before) = lab.cluster.list(PODS, None);
        bootstrap(&lab.cluster, Flavour::Aks);
        assert_eq!(lab.cluster.list(PODS, None).1, before);
    }

    #[test]
    fn a_bare_cluster_has_the_service_of_the_api_server_alone() {
        let lab = lab(Flavour::Bare, Vec::new());
        let (services, _) = lab.cluster.list(klab::sim::resource::SERVICES, None);
        assert_eq!(services.iter().map(|service| service.name.as_ref()).collect::<Vec<_>>(), ["kubernetes"]);
        assert!(lab.cluster.list(PODS, None).0.is_empty());
    }
}

mod budgets {
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
        let refused =
            lab.cluster.evict("default", &names[1], &DeleteOptions::default()).expect_err("the second may not");
        assert_eq!(refused.code, 429);
        lab.seconds(3);
        lab.cluster.evict("default", &names[1], &DeleteOptions::default()).expect("now it may");
    }
}

mod services {
    use super::*;

    fn service(spec: Value) -> Value {
        json!({
            "apiVersion": "v1", "kind": "Service", "metadata": { "name": "web", "labels": { "app": "web" } },
            "spec": spec,
        })
    }

    #[test]
    fn have_endpoints_of_their_ready_pods() {
        let mut lab = Lab::new(2);
        lab.apply(deployment("web", 2));
        lab.apply(service(json!({
            "selector": { "app": "web" }, "ports": [{ "port": 80, "protocol": "TCP", "targetPort": 8080 }],
        })));
        let endpoints = lab.get(ENDPOINTS, "web");
        assert_eq!(endpoints["subsets"][0]["ports"], json!([{ "port": 8080, "protocol": "TCP" }]));
        let addresses = endpoints["subsets"][0]["addresses"].as_array().expect("addresses");
        let ips: Vec<_> = addresses.iter().map(|address| address["ip"].as_str().unwrap().to_owned()).collect();
        let mut wanted: Vec<_> =
            lab.pods().iter().map(|pod| pod["status"]["podIP"].as_str().unwrap().to_owned()).collect();
        wanted.sort();
        assert_eq!(ips, wanted);
        let slice = &lab.list(ENDPOINT_SLICES)[0];
        assert_eq!(
            slice["endpoints"][0]["conditions"],
            json!({ "ready": true, "serving": true, "terminating": false })
        );
        assert!(slice["endpoints"][0]["zone"].as_str().unwrap().starts_with("westeurope-"));
        assert_eq!(slice["metadata"]["labels"]["kubernetes.io/service-name"], "web");
        lab.change(DEPLOYMENTS, "web", |web| web["spec"]["replicas"] = json!(0));
        assert!(lab.get(ENDPOINTS, "web")["subsets"].is_null());
        assert!(lab.list(ENDPOINT_SLICES)[0]["endpoints"].is_null());
        lab.delete(SERVICES, "web", Propagation::Background);
        assert!(lab.list(ENDPOINTS).is_empty() && lab.list(ENDPOINT_SLICES).is_empty());
    }

    #[test]
    fn list_pods_that_are_not_ready_apart() {
        let mut lab = Lab::with(1, recorded());
        let mut web = deployment("web", 1);
        web["spec"]["template"]["spec"]["containers"][0]["image"] = json!("x:does-not-exist");
        lab.apply(web);
        lab.apply(service(json!({ "selector": { "app": "web" }, "ports": [{ "port": 80, "protocol": "TCP" }] })));
        lab.seconds(2);
        let subset = &lab.get(ENDPOINTS, "web")["subsets"][0];
        assert!(subset["addresses"].is_null());
        assert_eq!(subset["notReadyAddresses"].as_array().map(Vec::len), Some(1));
    }
}

mod claims {
    use super::*;

    #[test]
    fn of_a_stateful_set_are_bound_where_its_pods_run() {
        let mut lab = Lab::new(0);
        bootstrap(&lab.cluster, Flavour::Aks);
        let mut first = node("node-0", 0);
        first["metadata"]["labels"]["topology.disk.csi.azure.com/zone"] = json!("westeurope-1");
        lab.cluster.create(NODES, "", first, &WriteOptions::by("test")).expect("node");
        lab.apply(json!({
            "apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": { "name": "db" },
            "spec": {
                "replicas": 2, "serviceName": "db", "selector": { "matchLabels": { "app": "db" } },
                "template": template("db", "postgres:16"),
                "volumeClaimTemplates": [{
                    "metadata": { "name": "data" },
                    "spec": {
                        "accessModes": ["ReadWriteOnce"], "storageClassName": "managed-csi",
                        "resources": { "requests": { "storage": "1Gi" } },
                    },
                }],
            },
        }));
        lab.seconds(5);
        assert_eq!(lab.running(), 2);
        let claim = lab.get(PERSISTENT_VOLUME_CLAIMS, "data-db-1");
        assert_eq!(
            claim["status"],
            json!({ "phase": "Bound", "accessModes": ["ReadWriteOnce"], "capacity": { "storage": "1Gi" } })
        );
        let volume = lab.get(PERSISTENT_VOLUMES, claim["spec"]["volumeName"].as_str().expect("a volume"));
        assert_eq!(volume["status"]["phase"], "Bound");
        assert_eq!(
            volume["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"][0]["matchExpressions"][0]["values"],
            json!(["westeurope-1"])
        );
        lab.delete(STATEFUL_SETS, "db", Propagation::Background);
        assert_eq!(lab.list(PERSISTENT_VOLUME_CLAIMS).len(), 2, "claims are kept");
        lab.delete(PERSISTENT_VOLUME_CLAIMS, "data-db-1", Propagation::Background);
        assert_eq!(lab.cluster.list(PERSISTENT_VOLUMES, None).0.len(), 1);
    }

    #[test]
    fn without_a_class_wait_for_a_volume() {
        let mut lab = Lab::new(1);
        lab.apply(json!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": { "name": "data" },
            "spec": { "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } } },
        }));
        assert_eq!(
            lab.messages("FailedBinding"),
            ["no persistent volumes available for this claim and no storage class is set"]
        );
    }
}

mod cron_jobs {
    use super::*;

    fn cron_job(policy: &str, command: &[&str]) -> Value {
        json!({
            "apiVersion": "batch/v1", "kind": "CronJob", "metadata": { "name": "tick" },
            "spec": {
                "schedule": "*/5 * * * *", "concurrencyPolicy": policy, "successfulJobsHistoryLimit": 3,
                "failedJobsHistoryLimit": 1,
                "jobTemplate": { "spec": { "template": { "spec": {
                    "restartPolicy": "Never",
                    "containers": [{ "name": "tick", "image": "busybox:1.36", "command": command }],
                }}}},
            },
        })
    }

    #[test]
    fn start_a_job_at_each_time_and_keep_the_last_three() {
        let mut lab = Lab::new(1);
        lab.apply(cron_job("Allow", &["date"]));
        assert!(lab.list(JOBS).is_empty());
        lab.seconds(31 * 60);
        let jobs = lab.list(JOBS);
        assert_eq!(jobs.len(), 3);
        let minutes = lab.cluster.now().as_second() / 60;
        let last = format!("tick-{}", minutes - minutes % 5);
        assert!(jobs.iter().any(|job| job["metadata"]["name"] == last.as_str()));
        let tick = lab.get(CRON_JOBS, "tick");
        assert_eq!(tick["status"]["lastScheduleTime"], "2026-06-01T08:30:00Z");
        assert!(tick["status"]["active"].is_null());
        assert!(tick["status"]["lastSuccessfulTime"].is_string());
    }

    #[test]
    fn forbidden_to_overlap_wait_for_the_running_job() {
        let mut lab = Lab::new(1);
        lab.apply(cron_job("Forbid", &["sleep", "700"]));
        lab.seconds(14 * 60);
        assert_eq!(lab.list(JOBS).len(), 1);
        assert!(!lab.messages("JobAlreadyActive").is_empty());
    }

    #[test]
    fn suspended_start_nothing() {
        let mut lab = Lab::new(1);
        let mut tick = cron_job("Allow", &["date"]);
        tick["spec"]["suspend"] = json!(true);
        lab.apply(tick);
        lab.seconds(600);
        assert!(lab.list(JOBS).is_empty());
    }
}

mod quotas {
    use super::*;

    #[test]
    fn stop_a_replica_set_which_goes_on_when_there_is_room() {
        let mut lab = Lab::new(2);
        lab.apply(json!({
            "apiVersion": "v1", "kind": "ResourceQuota", "metadata": { "name": "compute" },
            "spec": { "hard": { "pods": "4" } },
        }));
        lab.apply(deployment("web", 6));
        assert_eq!(lab.running(), 4);
        let web = lab.get(DEPLOYMENTS, "web");
        assert_eq!(condition(&web, "Available")["status"], "False");
        let failure = condition(&web, "ReplicaFailure");
        assert_eq!(failure["reason"], "FailedCreate");
        let said = failure["message"].as_str().expect("a message");
        assert!(
            said.ends_with("is forbidden: exceeded quota: compute, requested: pods=1, used: pods=4, limited: pods=4"),
            "{said}"
        );
        assert_eq!(web["status"]["unavailableReplicas"], 2);
        assert!(!lab.messages("FailedCreate").is_empty());
        lab.change(RESOURCE_QUOTAS, "compute", |quota| quota["spec"]["hard"]["pods"] = json!("10"));
        assert_eq!(lab.running(), 6);
        assert!(condition(&lab.get(DEPLOYMENTS, "web"), "ReplicaFailure").is_null());
    }
}

mod autoscalers {
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
    fn without_metrics_say_so() {
        let mut lab = lab(None);
        lab.apply(autoscaler(50));
        lab.seconds(20);
        let web = lab.get(HORIZONTAL_POD_AUTOSCALERS, "web");
        assert_eq!(condition(&web, "ScalingActive")["reason"], "FailedGetResourceMetric");
        assert_eq!(lab.running(), 3);
    }
}
