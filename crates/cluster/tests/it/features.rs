//! Feature gates and versions of the API: what a cluster does with them on, and with them off.

use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full};
use klab_api_machinery::resource::{
    DEPLOYMENTS, DEVICE_CLASSES, EVENTS, HORIZONTAL_POD_AUTOSCALERS, MUTATING_ADMISSION_POLICIES,
    MUTATING_ADMISSION_POLICY_BINDINGS, PERSISTENT_VOLUMES, PODS, REPLICA_SETS, RESOURCE_CLAIMS, RESOURCE_SLICES,
    ResourceId, STATEFUL_SETS,
};
use klab_cluster::Cluster;
use klab_cluster::api::Api;
use klab_cluster::cluster::{Part, WriteOptions};
use klab_scheduler::features::{Features, Gate, Settings};
use serde_json::{Value, json};

/// What two clusters make of the same: one with these gates on, one with them off.
fn both<T>(gates: &[Gate], nodes: &[Value], act: impl Fn(&Cluster) -> T) -> (T, T) {
    let with = |is_on: bool| {
        let feature_gates = gates.iter().map(|gate| (gate.name().to_owned(), is_on)).collect();
        let features = Features::try_from(Settings { feature_gates, ..Settings::default() }).unwrap();
        act(&Cluster::builder().features(features).objects(nodes).build().unwrap())
    };
    (with(true), with(false))
}

fn node(name: &str, more: &Value) -> Value {
    let amounts = json!({ "cpu": "8", "memory": "32Gi", "pods": "110" });
    let mut node = json!({
        "apiVersion": "v1", "kind": "Node", "metadata": { "name": name, "labels": { "topology.kubernetes.io/zone": "z" } },
        "spec": {}, "status": { "capacity": amounts, "allocatable": amounts },
    });
    node["metadata"]["labels"]["kubernetes.io/hostname"] = json!(name);
    merge(&mut node["spec"], more);
    node
}

fn merge(into: &mut Value, from: &Value) {
    for (key, value) in from.as_object().into_iter().flatten() {
        into[key] = value.clone();
    }
}

fn pod(name: &str, more: &Value) -> Value {
    let mut pod = json!({ "metadata": { "name": name, "labels": { "app": "web" } }, "spec": { "containers": [{ "name": "c", "image": "nginx" }] } });
    merge(&mut pod["spec"], more);
    pod
}

fn template() -> Value {
    json!({ "metadata": { "labels": { "app": "web" } }, "spec": { "containers": [{ "name": "c", "image": "nginx" }] } })
}

/// Makes an object, and gives it as it is stored, or the message of why not.
fn made(cluster: &Cluster, kind: ResourceId, object: Value) -> Result<Value, String> {
    let namespace = if kind.row().namespaced { "default" } else { "" };
    let made = cluster.inner().create(kind, namespace, object, &WriteOptions::by("test"));
    cluster.settle();
    made.map(|made| made.value().as_ref().clone()).map_err(|status| status.message)
}

fn read(cluster: &Cluster, kind: ResourceId, name: &str) -> Value {
    let namespace = if kind.row().namespaced { "default" } else { "" };
    cluster.inner().get(kind, namespace, name).unwrap().value().as_ref().clone()
}

fn change(
    cluster: &Cluster,
    kind: ResourceId,
    part: Part,
    name: &str,
    change: impl FnOnce(&mut Value),
) -> Result<(), String> {
    let namespace = if kind.row().namespaced { "default" } else { "" };
    let changed = cluster.inner().modify(kind, part, namespace, name, &WriteOptions::by("test"), change);
    cluster.settle();
    changed.map(drop).map_err(|status| status.message)
}

// upstream: pkg/api/pod/util.go dropDisabledFields, dropContainerRestartRules (v1.36)
#[test]
fn fields_of_pods_are_dropped_with_their_gate() {
    let rules = json!([{ "action": "Restart", "exitCodes": { "operator": "In", "values": [42] } }]);
    let container = json!([{ "name": "c", "image": "nginx", "restartPolicy": "Never", "restartPolicyRules": rules }]);
    let gates = [Gate::ContainerRestartRules, Gate::RestartAllContainersOnContainerExits];
    let of = |cluster: &Cluster| {
        let made = made(cluster, PODS, pod("web", &json!({ "containers": container }))).unwrap();
        let own = &made["spec"]["containers"][0];
        (own["restartPolicy"].clone(), own["restartPolicyRules"].clone())
    };
    assert_eq!(both(&gates, &[], of), ((json!("Never"), rules), (Value::Null, Value::Null)));

    let named = |cluster: &Cluster| {
        made(cluster, PODS, pod("web", &json!({ "hostnameOverride": "other" }))).unwrap()["spec"]["hostnameOverride"]
            .clone()
    };
    assert_eq!(both(&[Gate::HostnameOverride], &[], named), (json!("other"), Value::Null));

    let key = json!({ "volumeName": "v", "path": "f", "key": "K" });
    let variables = json!({ "volumes": [{ "name": "v", "emptyDir": {} }], "containers": [{ "name": "c", "image": "nginx",
        "env": [{ "name": "K", "valueFrom": { "fileKeyRef": key } }] }] });
    let (on, off) = both(&[Gate::EnvFiles], &[], |cluster| made(cluster, PODS, pod("web", &variables)));
    assert_eq!(on.unwrap()["spec"]["containers"][0]["env"][0]["valueFrom"]["fileKeyRef"]["key"], "K");
    assert!(off.unwrap_err().contains("must specify one of: `fieldRef`"));

    let all = json!([{ "action": "RestartAllContainers", "exitCodes": { "operator": "In", "values": [42] } }]);
    let container = json!([{ "name": "c", "image": "nginx", "restartPolicy": "Never", "restartPolicyRules": all }]);
    let (on, off) =
        both(&gates[1..], &[], |cluster| made(cluster, PODS, pod("web", &json!({ "containers": container }))));
    assert!(on.is_ok());
    let words =
        "restartPolicyRules[0].action: Unsupported value: \"RestartAllContainers\": supported values: \"Restart\"";
    assert!(off.unwrap_err().contains(words));
}

// upstream: pkg/registry/core/pod/strategy.go mutateTopologySpreadConstraints;
// pkg/scheduler/framework/plugins/podtopologyspread/common.go filterTopologySpreadConstraints (v1.36)
#[test]
fn label_keys_of_spread_constraints_are_merged_by_the_api_server_or_by_the_scheduler_or_not_at_all() {
    let (keys, merges) =
        (Gate::MatchLabelKeysInPodTopologySpread, Gate::MatchLabelKeysInPodTopologySpreadSelectorMerge);
    let nodes = [node("a", &json!({})), node("b", &json!({}))];
    let of = |cluster: &Cluster| {
        for old in ["old-1", "old-2"] {
            let mut old = pod(old, &json!({ "nodeName": "b" }));
            old["metadata"]["labels"]["version"] = json!("1");
            made(cluster, PODS, old).unwrap();
        }
        let constraint = json!({ "maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": { "matchLabels": { "app": "web" } }, "matchLabelKeys": ["version"], "nodeAffinityPolicy": "Ignore" });
        let there =
            json!({ "nodeSelector": { "kubernetes.io/hostname": "b" }, "topologySpreadConstraints": [constraint] });
        let mut new = pod("new", &there);
        new["metadata"]["labels"]["version"] = json!("2");
        made(cluster, PODS, new).unwrap();
        let new = read(cluster, PODS, "new");
        let constraint = &new["spec"]["topologySpreadConstraints"][0];
        let merged = constraint["labelSelector"]["matchExpressions"][0]["values"][0].clone();
        (constraint["matchLabelKeys"].clone(), merged, new["spec"]["nodeName"].clone())
    };
    let (by_server, by_scheduler) = both(&[merges], &nodes, of);
    assert_eq!(by_server, (json!(["version"]), json!("2"), json!("b")));
    assert_eq!(by_scheduler, (json!(["version"]), Value::Null, json!("b")));
    assert_eq!(both(&[keys, merges], &nodes, of).1, (Value::Null, Value::Null, Value::Null));
}

// upstream: pkg/api/resourceclaimspec/util.go DropDisabledFields; pkg/registry/resource/{resourceslice,deviceclass}/strategy.go
// dropDisabledFields (v1.36)
#[test]
fn fields_of_devices_are_dropped_with_their_gate() {
    let exactly = json!({ "name": "a", "deviceClassName": "gpu" });
    let claim = json!({ "metadata": { "name": "one" }, "spec": { "devices": { "requests": [{ "name": "r", "firstAvailable": [exactly] }] } } });
    let (on, off) = both(&[Gate::DRAPrioritizedList], &[], |cluster| made(cluster, RESOURCE_CLAIMS, claim.clone()));
    assert_eq!(on.unwrap()["spec"]["devices"]["requests"][0]["firstAvailable"][0]["name"], "a");
    assert!(off.unwrap_err().contains("exactly one of `exactly` or `firstAvailable` is required"));

    let toleration = json!([{ "key": "k", "operator": "Exists" }]);
    let exactly = json!({ "deviceClassName": "gpu", "tolerations": toleration });
    let claim = json!({ "metadata": { "name": "one" }, "spec": { "devices": { "requests": [{ "name": "r", "exactly": exactly }] } } });
    let of = |cluster: &Cluster| {
        let made = made(cluster, RESOURCE_CLAIMS, claim.clone()).unwrap();
        made["spec"]["devices"]["requests"][0]["exactly"]["tolerations"][0]["key"].clone()
    };
    assert_eq!(both(&[Gate::DRADeviceTaints], &[], of), (json!("k"), Value::Null));

    let slice = |device: Value| {
        json!({ "metadata": { "name": "s" }, "spec": { "driver": "gpu.example.com", "nodeName": "a",
            "pool": { "name": "a", "generation": 1, "resourceSliceCount": 1 }, "devices": [device] } })
    };
    for (gate, field, value) in [
        (Gate::DRADeviceTaints, "taints", json!([{ "key": "k", "effect": "NoSchedule" }])),
        (Gate::DRADeviceBindingConditions, "bindsToNode", json!(true)),
    ] {
        let mut device = json!({ "name": "d", "bindingConditions": ["a"], "bindingFailureConditions": ["b"] });
        device[field] = value;
        let of = |cluster: &Cluster| {
            let made = made(cluster, RESOURCE_SLICES, slice(device.clone())).unwrap();
            !made["spec"]["devices"][0][field].is_null()
        };
        assert_eq!(both(&[gate], &[], of), (true, false), "{field}");
    }
    let mut shared = slice(json!({ "name": "d", "nodeName": "a" }));
    shared["spec"]["nodeName"].take();
    shared["spec"]["perDeviceNodeSelection"] = json!(true);
    let (on, off) =
        both(&[Gate::DRAPartitionableDevices], &[], |cluster| made(cluster, RESOURCE_SLICES, shared.clone()));
    assert!(on.is_ok());
    assert!(off.unwrap_err().contains("perDeviceNodeSelection"));
}

// upstream: pkg/scheduler/framework/plugins/dynamicresources/dra_manager.go; pkg/registry/resource/deviceclass/strategy.go (v1.36)
#[test]
fn an_extended_resource_is_devices_only_with_its_gate() {
    let of = |cluster: &Cluster| {
        let class = json!({ "metadata": { "name": "gpu" }, "spec": { "extendedResourceName": "example.com/gpu",
            "selectors": [{ "cel": { "expression": "device.driver == 'gpu.example.com'" } }] } });
        let class = made(cluster, DEVICE_CLASSES, class).unwrap();
        let slice = json!({ "metadata": { "name": "s" }, "spec": { "driver": "gpu.example.com", "nodeName": "a",
            "pool": { "name": "a", "generation": 1, "resourceSliceCount": 1 }, "devices": [{ "name": "d" }] } });
        made(cluster, RESOURCE_SLICES, slice).unwrap();
        let amount = json!({ "deviceclass.resource.kubernetes.io/gpu": "1" });
        let asks = json!({ "containers": [{ "name": "c", "image": "nginx", "resources": { "limits": amount } }] });
        made(cluster, PODS, pod("web", &asks)).unwrap();
        let web = read(cluster, PODS, "web");
        let why = web["status"]["conditions"][0]["message"].as_str().unwrap_or_default().to_owned();
        (class["spec"]["extendedResourceName"].clone(), web["spec"]["nodeName"].clone(), why)
    };
    let (on, off) = both(&[Gate::DRAExtendedResource], &[node("a", &json!({}))], of);
    assert_eq!((on.0, on.1), (json!("example.com/gpu"), json!("a")));
    assert_eq!((off.0, off.1), (Value::Null, Value::Null));
    assert!(off.2.contains("Insufficient deviceclass.resource.kubernetes.io/gpu"), "{}", off.2);
}

// upstream: pkg/controller/podautoscaler/horizontal.go tolerancesForHpa;
// pkg/registry/autoscaling/horizontalpodautoscaler/strategy.go dropDisabledFields (v1.36)
#[test]
fn an_autoscaler_has_a_tolerance_of_its_own_only_with_its_gate() {
    let of = |cluster: &Cluster| {
        let mut template = template();
        template["spec"]["containers"][0]["resources"] = json!({ "requests": { "cpu": "1" } });
        let selector = json!({ "matchLabels": { "app": "web" } });
        let web = json!({ "metadata": { "name": "web" }, "spec": { "replicas": 1, "selector": selector, "template": template } });
        made(cluster, DEPLOYMENTS, web).unwrap();
        // Pods use half of what they request: four hundredths more than the target.
        let target = json!({ "type": "Utilization", "averageUtilization": 48 });
        let scaler = json!({ "metadata": { "name": "web" }, "spec": { "maxReplicas": 2,
            "scaleTargetRef": { "apiVersion": "apps/v1", "kind": "Deployment", "name": "web" },
            "metrics": [{ "type": "Resource", "resource": { "name": "cpu", "target": target } }],
            "behavior": { "scaleUp": { "tolerance": "0.01" } } } });
        let made = made(cluster, HORIZONTAL_POD_AUTOSCALERS, scaler).unwrap();
        cluster.advance(Duration::from_mins(2));
        let replicas = read(cluster, DEPLOYMENTS, "web")["spec"]["replicas"].clone();
        (made["spec"]["behavior"]["scaleUp"]["tolerance"].clone(), replicas)
    };
    let (on, off) = both(&[Gate::HPAConfigurableTolerance], &[node("a", &json!({}))], of);
    assert_eq!(on, (json!("10m"), json!(2)));
    assert_eq!(off, (Value::Null, json!(1)));
    // Without the version that the controller reads, it does nothing.
    let runtime_config = [("autoscaling/v2".to_owned(), false)].into();
    let features = Features::try_from(Settings { runtime_config, ..Settings::default() }).unwrap();
    let cluster = Cluster::builder().features(features).objects([node("a", &json!({}))]).build().unwrap();
    assert_eq!(of(&cluster), (json!("10m"), json!(1)));
}

// upstream: pkg/controller/statefulset/stateful_set_control.go updateStatefulSetAfterInvariantEstablished;
// pkg/apis/apps/v1/defaults.go SetDefaults_StatefulSet; pkg/registry/apps/statefulset/strategy.go (v1.36)
#[test]
fn pods_of_a_stateful_set_are_replaced_together_only_with_the_gate() {
    let of = |cluster: &Cluster| {
        let set = |name: &str, rolling: Value| {
            let selector = json!({ "matchLabels": { "app": "web" } });
            json!({ "metadata": { "name": name }, "spec": { "replicas": 4, "selector": selector, "template": template(),
                "updateStrategy": { "type": "RollingUpdate", "rollingUpdate": rolling } } })
        };
        let plain = made(cluster, STATEFUL_SETS, set("plain", json!({}))).unwrap();
        let web = made(cluster, STATEFUL_SETS, set("web", json!({ "maxUnavailable": "75%" }))).unwrap();
        let rolling = |set: &Value| set["spec"]["updateStrategy"]["rollingUpdate"]["maxUnavailable"].clone();
        let before = cluster.inner().version();
        change(cluster, STATEFUL_SETS, Part::Main, "web", |set| {
            set["spec"]["template"]["spec"]["containers"][0]["image"] = json!("nginx:2");
        })
        .unwrap();
        cluster.advance(Duration::from_mins(5));
        let mut events = cluster.inner().list(EVENTS, Some("default")).0;
        events.retain(|event| event.resource_version > before && event.value()["involvedObject"]["name"] == "web");
        events.sort_by_key(|event| event.resource_version);
        let acts = |event: &std::sync::Arc<_>| -> String {
            let event: &klab_api_machinery::object::Object = event;
            let message = event.value()["message"].as_str().unwrap_or_default().to_owned();
            message.split(" in ").next().unwrap_or_default().to_owned()
        };
        (rolling(&plain), rolling(&web), events.iter().take(4).map(acts).collect::<Vec<_>>())
    };
    let (on, off) = both(&[Gate::MaxUnavailableStatefulSet], &[node("a", &json!({}))], of);
    assert_eq!((on.0, on.1), (json!(1), json!("75%")));
    assert_eq!(on.2, ["Delete Pod web-3", "Delete Pod web-2", "Delete Pod web-1", "Create Pod web-1"]);
    assert_eq!((off.0, off.1), (Value::Null, Value::Null));
    assert_eq!(off.2, ["Delete Pod web-3", "Create Pod web-3", "Delete Pod web-2", "Create Pod web-2"]);
}

// upstream: pkg/apis/core/validation/validation.go ValidatePersistentVolumeUpdate (v1.36)
#[test]
fn the_nodes_of_a_volume_change_only_with_the_gate() {
    let of = |cluster: &Cluster| {
        let term = json!({ "matchExpressions": [{ "key": "disk", "operator": "Exists" }] });
        let volume = json!({ "metadata": { "name": "v" }, "spec": { "capacity": { "storage": "1Gi" }, "accessModes": ["ReadWriteOnce"],
            "hostPath": { "path": "/v" }, "nodeAffinity": { "required": { "nodeSelectorTerms": [term] } } } });
        made(cluster, PERSISTENT_VOLUMES, volume).unwrap();
        change(cluster, PERSISTENT_VOLUMES, Part::Main, "v", |volume| {
            volume["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"][0]["matchExpressions"][0]["key"] =
                json!("ssd");
        })
    };
    let (on, off) = both(&[Gate::MutablePVNodeAffinity], &[], of);
    assert!(on.is_ok() && off.unwrap_err().contains("field is immutable"), "{on:?}");
}

// upstream: staging/src/k8s.io/apiserver/pkg/admission/plugin/policy/mutating/plugin.go InspectFeatureGates (v1.36)
#[test]
fn policies_change_objects_only_with_the_gate() {
    let of = |cluster: &Cluster| {
        let rule = json!({ "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"] });
        let expression = "Object{metadata: Object.metadata{labels: {\"seen\": \"yes\"}}}";
        let policy = json!({ "metadata": { "name": "p" }, "spec": { "matchConstraints": { "resourceRules": [rule] },
            "reinvocationPolicy": "Never", "failurePolicy": "Fail",
            "mutations": [{ "patchType": "ApplyConfiguration", "applyConfiguration": { "expression": expression } }] } });
        made(cluster, MUTATING_ADMISSION_POLICIES, policy).unwrap();
        let binding = json!({ "metadata": { "name": "b" }, "spec": { "policyName": "p" } });
        made(cluster, MUTATING_ADMISSION_POLICY_BINDINGS, binding).unwrap();
        made(cluster, PODS, pod("web", &json!({}))).unwrap()["metadata"]["labels"]["seen"].clone()
    };
    assert_eq!(both(&[Gate::MutatingAdmissionPolicy], &[], of), (json!("yes"), Value::Null));
}

// upstream: pkg/controller/controller_utils.go ActivePodsWithRanks; pkg/apis/core/validation/validation.go ValidatePodSpecificAnnotations
// (v1.36)
#[test]
fn the_cost_of_a_pods_deletion_counts_only_with_the_gate() {
    const COST: &str = "controller.kubernetes.io/pod-deletion-cost";
    let survivor = |cluster: &Cluster, costly: usize| {
        let selector = json!({ "matchLabels": { "app": "web" } });
        let set = json!({ "metadata": { "name": "web" }, "spec": { "replicas": 2, "selector": selector, "template": template() } });
        made(cluster, REPLICA_SETS, set).unwrap();
        let names: Vec<String> = cluster.inner().list(PODS, None).0.iter().map(|pod| pod.name.to_string()).collect();
        change(cluster, PODS, Part::Main, &names[costly], |pod| pod["metadata"]["annotations"] = json!({ COST: "9" }))
            .unwrap();
        change(cluster, REPLICA_SETS, Part::Main, "web", |set| set["spec"]["replicas"] = json!(1)).unwrap();
        cluster.advance(Duration::from_mins(1));
        let left = cluster.inner().list(PODS, None).0;
        assert_eq!(left.len(), 1);
        names.iter().position(|name| **name == *left[0].name).unwrap()
    };
    let nodes = [node("a", &json!({}))];
    let (first, other) = (
        both(&[Gate::PodDeletionCost], &nodes, |it| survivor(it, 0)),
        both(&[Gate::PodDeletionCost], &nodes, |it| survivor(it, 1)),
    );
    assert_eq!((first.0, other.0), (0, 1));
    assert_eq!(first.1, other.1);
    let mut wrong = pod("web", &json!({}));
    wrong["metadata"]["annotations"] = json!({ COST: "much" });
    let (on, off) = both(&[Gate::PodDeletionCost], &[], |cluster| made(cluster, PODS, wrong.clone()));
    assert!(on.unwrap_err().contains("must be a 32bit integer") && off.is_ok());
}

// upstream: pkg/kubelet/kubelet_pods.go generateAPIPodStatus; plugin/pkg/admission/podtopologylabels/admission.go;
// pkg/registry/core/pod/storage/storage.go setPodNodeAndMetadata; pkg/controller/deployment/sync.go calculateStatus (v1.36)
#[test]
fn labels_and_status_of_pods_and_deployments_depend_on_gates() {
    let nodes = [node("a", &json!({}))];
    let web = |cluster: &Cluster| {
        made(cluster, PODS, pod("web", &json!({}))).unwrap();
        read(cluster, PODS, "web")
    };
    let knows = |web: &Value| {
        let conditions = web["status"]["conditions"].as_array().unwrap();
        conditions.iter().any(|condition| condition["type"] == "PodReadyToStartContainers")
    };
    assert_eq!(both(&[Gate::PodReadyToStartContainersCondition], &nodes, |it| knows(&web(it))), (true, false));
    let zone = |cluster: &Cluster| web(cluster)["metadata"]["labels"]["topology.kubernetes.io/zone"].clone();
    assert_eq!(both(&[Gate::PodTopologyLabelsAdmission], &nodes, zone), (json!("z"), Value::Null));
    let nominated = |cluster: &Cluster| {
        made(cluster, PODS, pod("web", &json!({ "schedulerName": "mine" }))).unwrap();
        let nominate = |to: &'static str| move |pod: &mut Value| pod["status"]["nominatedNodeName"] = json!(to);
        change(cluster, PODS, Part::Status, "web", nominate("a")).unwrap();
        cluster.inner().bind("default", "web", "a").unwrap();
        let left = read(cluster, PODS, "web")["status"]["nominatedNodeName"].clone();
        (left, change(cluster, PODS, Part::Status, "web", nominate("b")).is_ok())
    };
    let gate = Gate::ClearingNominatedNodeNameAfterBinding;
    assert_eq!(both(&[gate], &nodes, nominated), ((Value::Null, false), (json!("a"), true)));
    let counts = |cluster: &Cluster| {
        let selector = json!({ "matchLabels": { "app": "web" } });
        let web = json!({ "metadata": { "name": "web" }, "spec": { "replicas": 1, "selector": selector, "template": template() } });
        made(cluster, DEPLOYMENTS, web).unwrap();
        let sets = cluster.inner().list(REPLICA_SETS, None).0;
        let count = |object: &Value| object["status"]["terminatingReplicas"].clone();
        (count(&read(cluster, DEPLOYMENTS, "web")), count(&sets[0].value()))
    };
    let gate = Gate::DeploymentReplicaSetTerminatingReplicas;
    assert_eq!(both(&[gate], &nodes, counts), ((json!(0), json!(0)), (Value::Null, Value::Null)));
}

// upstream: pkg/kubelet/kubelet.go newCrashLoopBackOff (v1.36)
#[test]
fn a_container_that_fails_waits_for_less_time_with_the_gate() {
    let of = |cluster: &Cluster| {
        let fails = json!({ "containers": [{ "name": "c", "image": "busybox", "command": ["sh", "-c", "exit 1"] }] });
        made(cluster, PODS, pod("web", &fails)).unwrap();
        let mut waits = Vec::new();
        for _ in 0..900 {
            cluster.advance(Duration::from_secs(1));
            let waiting = &read(cluster, PODS, "web")["status"]["containerStatuses"][0]["state"]["waiting"]["message"];
            if let Some(wait) = waiting.as_str().and_then(|text| text.split(' ').nth(1)).map(str::to_owned)
                && waits.last() != Some(&wait)
            {
                waits.push(wait);
            }
        }
        waits
    };
    let (on, off) = both(&[Gate::ReduceDefaultCrashLoopBackOffDecay], &[node("a", &json!({}))], of);
    assert_eq!(on, ["1s", "2s", "4s", "8s", "16s", "32s", "1m0s"]);
    assert_eq!(off, ["10s", "20s", "40s", "1m20s", "2m40s", "5m0s"]);
}

// upstream: staging/src/k8s.io/api/core/v1/toleration.go ToleratesTaint; pkg/apis/core/validation/validation.go ValidateTolerations
// (v1.36)
#[test]
fn tolerations_compare_numbers_only_with_the_gate() {
    let nodes = [node("a", &json!({ "taints": [{ "key": "sla", "value": "950", "effect": "NoSchedule" }] }))];
    let of = |operator: &'static str, value: &'static str| {
        both(&[Gate::TaintTolerationComparisonOperators], &nodes, move |cluster| {
            let toleration = json!([{ "key": "sla", "operator": operator, "value": value, "effect": "NoSchedule" }]);
            made(cluster, PODS, pod("web", &json!({ "tolerations": toleration })))?;
            Ok(read(cluster, PODS, "web")["spec"]["nodeName"].clone())
        })
    };
    for (operator, value, wanted) in [
        ("Gt", "900", Ok(json!("a"))),
        ("Gt", "950", Ok(Value::Null)),
        ("Lt", "1000", Ok(json!("a"))),
        ("Lt", "-5", Ok(Value::Null)),
        ("Lt", "010", Err("must be a valid decimal integer in canonical form")),
        ("Lt", "9223372036854775808", Err("value out of range")),
        ("Gt", "", Err("must be non-empty")),
    ] {
        let (on, off): (Result<Value, String>, _) = of(operator, value);
        match wanted {
            Ok(node) => assert_eq!(on, Ok(node), "{operator} {value}"),
            Err(words) => assert!(on.unwrap_err().contains(words), "{operator} {value}"),
        }
        let refused =
            format!("Unsupported value: \"{operator}\": supported values: \"Equal\", \"Exists\", \"Lt\", \"Gt\"");
        assert!(off.unwrap_err().contains(&refused));
    }
}

fn get(cluster: &Cluster, path: &str) -> (u16, Value) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let api = Api::new(std::sync::Arc::clone(cluster.inner()));
    let request = Request::builder().uri(path).body(Full::new(Bytes::new())).unwrap();
    runtime.block_on(async {
        let response = api.answer(request).await;
        let status = response.status().as_u16();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        (status, serde_json::from_slice(&body).unwrap_or_default())
    })
}

// upstream: staging/src/k8s.io/apiserver/pkg/endpoints/installer.go registerResourceHandlers (v1.36)
#[test]
fn discovery_has_hashes_of_versions_only_with_the_gate() {
    let of = |cluster: &Cluster| !get(cluster, "/api/v1").1["resources"][3]["storageVersionHash"].is_null();
    assert_eq!(both(&[Gate::StorageVersionHash], &[], of), (true, false));
}

// upstream: staging/src/k8s.io/apiserver/pkg/server/resourceconfig/helpers.go MergeAPIResourceConfigs (v1.36)
#[test]
fn a_version_of_the_api_that_is_off_is_not_there() {
    let runtime_config = [("batch/v1", false), ("autoscaling/v1", false)].map(|(api, on)| (api.to_owned(), on)).into();
    let features = Features::try_from(Settings { runtime_config, ..Settings::default() }).unwrap();
    let cluster = Cluster::builder().features(features).build().unwrap();
    for (path, wanted) in [
        ("/apis/batch/v1", 404),
        ("/apis/batch", 404),
        ("/apis/batch/v1/namespaces/default/jobs", 404),
        ("/openapi/v3/apis/batch/v1", 404),
        ("/apis/autoscaling/v1/namespaces/default/horizontalpodautoscalers", 404),
        ("/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers", 200),
        ("/apis/apps/v1", 200),
    ] {
        assert_eq!(get(&cluster, path).0, wanted, "{path}");
    }
    let groups = get(&cluster, "/apis").1["groups"].clone();
    let group = |name: &str| groups.as_array().unwrap().iter().find(|group| group["name"] == name).cloned();
    assert_eq!(group("batch"), None);
    assert_eq!(group("autoscaling").unwrap()["versions"].as_array().unwrap().len(), 1);
    let paths = get(&cluster, "/openapi/v3").1["paths"].clone();
    assert!(paths["apis/batch/v1"].is_null() && paths["apis/apps/v1"].is_object());
}
