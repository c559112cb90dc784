//! Schedulers beside the cluster's own: in pods, as Kubernetes' documentation runs a second one, and by the object of AKS.

use klab_api_machinery::resource::CustomName;
use klab_cluster::seed::Seed;

use super::*;

/// A second scheduler as Kubernetes' documentation sets it up: account, permissions, configuration and Deployment.
fn second(configuration: &str, allowed: bool) -> Vec<Value> {
    let account = json!({ "name": "second", "namespace": "kube-system" });
    let subjects = json!([{ "kind": "ServiceAccount", "name": "second", "namespace": "kube-system" }]);
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": { "name": "second" },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "system:kube-scheduler" },
        "subjects": subjects,
    });
    let labels = json!({ "component": "second" });
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": account,
        "spec": { "selector": { "matchLabels": labels }, "template": { "metadata": { "labels": labels }, "spec": {
            "serviceAccountName": "second",
            "containers": [{
                "name": "second", "image": "registry.k8s.io/kube-scheduler:v1.36.2",
                "command": ["/usr/local/bin/kube-scheduler", "--config=/etc/second/config.yaml"],
                "livenessProbe": { "httpGet": { "path": "/healthz", "port": 10259, "scheme": "HTTPS" } },
                "volumeMounts": [{ "name": "config", "mountPath": "/etc/second" }],
            }],
            "volumes": [{ "name": "config", "configMap": { "name": "second" } }],
        } } },
    });
    let config = json!({ "kind": "ConfigMap", "metadata": account, "data": { "config.yaml": configuration } });
    let mut objects = vec![json!({ "kind": "ServiceAccount", "metadata": account }), config, deployment];
    if allowed {
        objects.insert(1, binding);
    }
    objects
}

const PACKING: &str = "
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: packing
  pluginConfig:
  - name: NodeResourcesFit
    args: { scoringStrategy: { type: MostAllocated, resources: [{ name: cpu, weight: 1 }] } }
  - name: NodeResourcesBalancedAllocation
    args: { resources: [{ name: cpu }] }
leaderElection:
  leaderElect: false
";

fn lab() -> Lab {
    let lab = Lab::with(3, Settings { ties_by_name: true, ..Settings::default() });
    bootstrap(&lab.cluster, Flavour::Kind);
    lab
}

fn apply(lab: &mut Lab, objects: Vec<Value>) {
    for object in objects {
        lab.apply(object);
    }
}

fn asking(name: &str, scheduler: &str) -> Value {
    json!({
        "kind": "Pod", "metadata": { "name": name },
        "spec": {
            "schedulerName": scheduler,
            "containers": [{ "name": "main", "image": "nginx", "resources": { "requests": { "cpu": "500m" } } }],
        },
    })
}

fn told(lab: &Lab) -> Value {
    let namespace = lab.get(NAMESPACES, "kube-system");
    namespace["metadata"]["annotations"]["klab.dev/schedulers"].clone()
}

fn seconds_state(lab: &Lab) -> Value {
    let (pods, _) = lab.cluster.list(PODS, Some("kube-system"));
    let pod = pods.iter().find(|pod| pod.name.starts_with("second-")).expect("the scheduler's pod").value();
    pod["status"]["containerStatuses"][0]["state"].clone()
}

#[test]
fn a_deployment_of_kube_scheduler_starts_its_profile_and_ends_it() {
    let mut lab = lab();
    lab.apply(asking("a", "packing"));
    lab.seconds(30);
    assert_eq!(lab.get(PODS, "a")["status"]["conditions"], Value::Null, "there is no such scheduler yet");
    apply(&mut lab, second(PACKING, true));
    lab.apply(asking("b", "packing"));
    lab.seconds(10);
    let place = |lab: &Lab, name: &str| lab.get(PODS, name)["spec"]["nodeName"].clone();
    let first = place(&lab, "a");
    assert!(first.is_string());
    assert_eq!(place(&lab, "b"), first, "it packs");
    assert!(lab.messages("Scheduled").len() == 2 && told(&lab).as_str().unwrap().starts_with("[null,{"));
    // A file that changes is read when the scheduler starts again.
    let namespaced = |lab: &mut Lab, resource, change: &dyn Fn(&mut Value)| {
        let options = WriteOptions::client("test");
        lab.cluster.modify(resource, Part::Main, "kube-system", "second", &options, change).expect("changed");
        lab.seconds(5);
    };
    namespaced(&mut lab, CONFIG_MAPS, &|map| map["data"]["config.yaml"] = json!(PACKING.replace("packing", "other")));
    lab.apply(asking("c", "packing"));
    lab.seconds(5);
    assert!(place(&lab, "c").is_string());
    namespaced(&mut lab, DEPLOYMENTS, &|deployment| deployment["spec"]["replicas"] = json!(0));
    lab.apply(asking("d", "packing"));
    lab.seconds(60);
    assert_eq!((place(&lab, "d"), told(&lab)), (Value::Null, Value::Null));
    lab.apply(asking("e", "default-scheduler"));
    lab.seconds(5);
    assert!(place(&lab, "e").is_string());
}

#[test]
fn a_second_scheduler_that_may_not_or_never_leads_places_nothing() {
    let leading = PACKING.replace("leaderElect: false", "leaderElect: true");
    let with_a_lock = leading.replace("leaderElect: true", "resourceName: packing");
    for (configuration, allowed, places) in
        [(PACKING, true, true), (PACKING, false, false), (&*leading, true, false), (&*with_a_lock, true, true)]
    {
        let mut lab = lab();
        apply(&mut lab, second(configuration, allowed));
        lab.apply(asking("a", "packing"));
        lab.seconds(30);
        assert!(seconds_state(&lab)["running"].is_object());
        assert_eq!(lab.get(PODS, "a")["spec"]["nodeName"].is_string(), places, "{configuration} {allowed}");
    }
}

#[test]
fn a_second_scheduler_whose_configuration_is_wrong_crashes() {
    for wrong in [PACKING.replace("MostAllocated", "MostPacked"), "kind: Other".to_owned(), ": :".to_owned()] {
        let mut lab = lab();
        apply(&mut lab, second(&wrong, true));
        lab.apply(asking("a", "packing"));
        lab.seconds(30);
        assert_eq!(seconds_state(&lab)["waiting"]["reason"], "CrashLoopBackOff", "{wrong}");
        assert_eq!(lab.get(PODS, "a")["spec"]["nodeName"], Value::Null);
    }
}

#[test]
fn an_annotation_gives_the_own_scheduler_another_configuration() {
    let mut lab = lab();
    let own = json!({
        "apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration",
        "profiles": [{ "schedulerName": "packing" }],
    });
    lab.change(NAMESPACES, "kube-system", |namespace| {
        namespace["metadata"]["annotations"]["klab.dev/scheduler-configuration"] = json!(own.to_string());
    });
    lab.apply(asking("a", "packing"));
    lab.apply(asking("b", "default-scheduler"));
    lab.seconds(5);
    let place = |name: &str| lab.get(PODS, name)["spec"]["nodeName"].clone();
    assert!(place("a").is_string() && place("b").is_null());
}

#[test]
fn the_object_of_aks_adds_profiles_and_keeps_the_last_good_ones() {
    let raw = |text: &str| {
        json!({
            "apiVersion": "aks.azure.com/v1alpha1", "kind": "SchedulerConfiguration", "metadata": { "name": "upstream" },
            "spec": { "rawConfig": text },
        })
    };
    let objects = vec![klab_cluster::system::scheduler_configurations(), raw(PACKING)];
    let mut lab = Lab::with(3, Settings::default());
    Seed { flavour: Flavour::Aks, objects, ..Seed::default() }.fill(&lab.cluster, "lab").expect("filled");
    let resource = ResourceId::define(&CustomName {
        group: "aks.azure.com",
        version: "v1alpha1",
        kind: "SchedulerConfiguration",
        plural: "schedulerconfigurations",
        namespaced: false,
    });
    lab.apply(asking("a", "packing"));
    lab.apply(asking("b", "default-scheduler"));
    lab.seconds(5);
    let place = |lab: &Lab, name: &str| lab.get(PODS, name)["spec"]["nodeName"].clone();
    assert!(place(&lab, "a").is_string() && place(&lab, "b").is_string());
    let status = |lab: &Lab| lab.get(resource, "upstream")["status"].clone();
    assert_eq!(status(&lab), json!({ "configuration": "Succeeded", "acceptedConfig": PACKING }));
    for (wrong, why) in [
        (PACKING.replace("packing", "aks-system"), "profiles[0].schedulerName: AKS keeps aks-system for its add-ons"),
        (PACKING.replace("NodeResourcesFit", "DynamicResources"), "unknown field"),
        ("kind: Other".to_owned(), "Object 'apiVersion' is missing"),
    ] {
        lab.change(resource, "upstream", |object| object["spec"]["rawConfig"] = json!(wrong));
        let status = status(&lab);
        assert_eq!(
            (&status["configuration"], &status["acceptedConfig"]),
            (&json!("Failed"), &json!(PACKING)),
            "{wrong}"
        );
        assert!(status["message"].as_str().unwrap().contains(why), "{status}");
    }
    lab.apply(asking("c", "packing"));
    lab.delete(resource, "upstream", Propagation::Background);
    lab.apply(asking("d", "packing"));
    lab.seconds(5);
    assert!(place(&lab, "c").is_string() && place(&lab, "d").is_null());
}
