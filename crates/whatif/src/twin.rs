//! A copy of a captured cluster in this process: the same nodes, with the same pods on them, and Kubernetes' own controllers.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use klab_api_machinery::defaults::pod::template;
use klab_api_machinery::object::Object;
use klab_api_machinery::views::{Node, Pod};
use klab_cluster::{BuildError, Cluster, HEARTBEAT_ANNOTATION, KeptObjects, SteppedClock};
use serde_json::{Value, json};

use crate::capture::Capture;
use crate::kinds::Kind;
use crate::sanitise::{is_remade, pod_spec};

/// Controllers that a copy does without: those that depend on what a capture leaves out, and those that change no placement.
const WITHOUT: [&str; 7] = [
    "horizontal-pod-autoscaler",
    "cronjob",
    "endpointslice",
    "endpointslice-mirroring",
    "ttl-after-finished",
    "cluster-autoscaler",
    "hollow-devices",
];

/// Seeds of copies are none of those that labs have: a copy gives no uid that a captured lab of klab has given.
const SEED: u64 = 0x6b6c_6162_7768_6174;

/// Most pods that a copy is to have: what Kubernetes itself is made for.
pub(crate) const MAX_PODS: u64 = 150_000;

/// Why a capture has no copy.
#[derive(Debug, thiserror::Error)]
pub enum TwinError {
    /// There is no node in it.
    #[error("the capture has no nodes, and without nodes no pod can run; klab needs the right to list them")]
    NoNodes,
    /// There would be too many pods.
    #[error("{0} pods are wanted, and klab copies clusters of at most {MAX_PODS}")]
    TooManyPods(u64),
    /// An object is not of its type.
    #[error("{0}")]
    Object(String),
    /// An object makes no number of pods that could be counted.
    #[error("{0} has no number of pods of its own")]
    NoPods(String),
    /// The embedded cluster does not take it.
    #[error("klab could not copy the cluster: {0}")]
    Build(#[from] BuildError),
}

/// What copies of a captured cluster begin with.
pub(crate) struct Original {
    objects: KeptObjects,
    now: Timestamp,
}

/// A copy of a captured cluster.
pub struct Twin {
    pub(crate) cluster: Cluster,
}

impl Twin {
    /// A copy, with all done that is due. The seed decides among equal nodes.
    ///
    /// # Errors
    /// [`TwinError`] where there is nothing to copy.
    pub fn of(capture: &Capture, seed: u64) -> Result<Self, TwinError> {
        Original::of(capture)?.copy(seed)
    }
}

impl Original {
    /// The objects of a capture as an API server keeps them.
    pub(crate) fn of(capture: &Capture) -> Result<Self, TwinError> {
        if capture.of("Node").next().is_none() {
            return Err(TwinError::NoNodes);
        }
        let pods = capture.of("Pod").count() as u64;
        let others = capture.objects.iter().filter(|object| object.kind.kind != "Pod");
        let wanted = others.map(|object| wanted_pods(&object.value())).fold(pods, u64::saturating_add);
        if wanted > MAX_PODS {
            return Err(TwinError::TooManyPods(wanted));
        }
        let mut uids = BTreeSet::new();
        let mut known = capture.objects.iter().filter_map(|object| object.uid.as_deref());
        if let Some(uid) = known.find(|uid| !uids.insert(*uid)) {
            return Err(TwinError::Object(format!("two objects of the capture have the uid {uid}")));
        }
        let moment = capture.moment().unwrap_or_default();
        let now = moment.checked_add(SignedDuration::from_mins(1)).unwrap_or(moment);
        let mut addresses = Addresses::default();
        let kept = capture.untorn().map(|object| {
            let mut kept = completed(object.value());
            addresses.give(&mut kept);
            disown(&mut kept, &uids);
            kept
        });
        Ok(Self { objects: KeptObjects::of(kept).map_err(BuildError::from)?, now })
    }

    /// A copy of its own.
    pub(crate) fn copy(&self, seed: u64) -> Result<Twin, TwinError> {
        let clock = Arc::new(SteppedClock::new(self.now));
        // What containers do when they are asked to end, no capture says.
        let stop = SignedDuration::from_secs([1, 0, 10][(seed % 3) as usize]);
        let mut builder = Cluster::builder().only_warnings().seed(SEED ^ seed).clock(clock).stopping_for(stop);
        if seed > 0 {
            builder = builder.shuffled();
        }
        for controller in WITHOUT {
            builder = builder.without_controller(controller);
        }
        Ok(Twin { cluster: builder.kept(&self.objects).build()? })
    }
}

/// The annotation that names the controller of an object that a capture does not hold, as `Kind/name`.
const OWNER_ANNOTATION: &str = "klab.dev/captured-owner";

/// Takes owners away that the copy does not have: what they own would be deleted for good.
fn disown(object: &mut Value, uids: &BTreeSet<&str>) {
    let Some(owners) = object.pointer_mut("/metadata/ownerReferences").and_then(Value::as_array_mut) else { return };
    let is_there = |owner: &Value| owner["uid"].as_str().is_some_and(|uid| uids.contains(uid));
    let lost = owners.iter().find(|owner| owner["controller"] == true && !is_there(owner)).map(|owner| {
        let text = |field: &str| owner[field].as_str().unwrap_or_default();
        match text("apiVersion").split_once('/') {
            // Others have kinds of the same names.
            Some((group, _)) if is_remade(text("kind")) && Kind::of(owner).is_none() => {
                format!("{}.{group}/{}", text("kind"), text("name"))
            }
            _ => format!("{}/{}", text("kind"), text("name")),
        }
    });
    owners.retain(is_there);
    if let Some(owner) = lost {
        object["metadata"]["annotations"][OWNER_ANNOTATION] = json!(owner);
    }
}

/// Kind and name of a pod's controller, also of one that the copy does not have.
pub(crate) fn owner<'a>(pod: &'a Object, value: &'a Value) -> Option<(&'a str, &'a str)> {
    let lost = || value["metadata"]["annotations"][OWNER_ANNOTATION].as_str()?.split_once('/');
    pod.controller().map(|owner| (&*owner.kind, &*owner.name)).or_else(lost)
}

/// How many pods an object wants; what another object owns counts there.
pub(crate) fn wanted_pods(object: &Value) -> u64 {
    let field = match object["kind"].as_str() {
        _ if !object["metadata"]["ownerReferences"].is_null() => return 0,
        Some("Deployment" | "ReplicaSet" | "StatefulSet" | "ReplicationController") => "replicas",
        Some("Job") => "parallelism",
        _ => return 0,
    };
    object["spec"][field].as_u64().unwrap_or(1)
}

/// The addresses that a cluster has given: those of a copy are others, and written beforehand.
#[derive(Default)]
struct Addresses {
    /// The number of each node, and of the last pod on it.
    nodes: BTreeMap<String, (u32, u32)>,
}

/// The first address of pods, and of nodes.
const POD_NETWORK: Ipv4Addr = Ipv4Addr::new(10, 244, 0, 0);
const NODE_NETWORK: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 0);
/// How many addresses a node has for its pods.
const PODS_OF_NODE: u32 = 256;

impl Addresses {
    fn node(&mut self, name: &str) -> &mut (u32, u32) {
        let next = u32::try_from(self.nodes.len()).unwrap_or_default();
        self.nodes.entry(name.to_owned()).or_insert((next, 1))
    }

    fn give(&mut self, object: &mut Value) {
        let address =
            |network: Ipv4Addr, number: u32| Ipv4Addr::from(u32::from(network).wrapping_add(number)).to_string();
        let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        if object["kind"] == "Node" {
            let number = self.node(&name).0;
            let range = format!("{}/24", address(POD_NETWORK, number.wrapping_mul(PODS_OF_NODE)));
            object["spec"]["podCIDR"] = json!(range);
            object["spec"]["podCIDRs"] = json!([range]);
            let own = json!({ "type": "InternalIP", "address": address(NODE_NETWORK, number.wrapping_add(1)) });
            object["status"]["addresses"] = json!([own, { "type": "Hostname", "address": name }]);
        } else if object["kind"] == "Pod"
            && let Some(node) = object["spec"]["nodeName"].as_str().map(str::to_owned)
        {
            let (number, pod) = self.node(&node);
            *pod = pod.wrapping_add(1);
            let host = address(NODE_NETWORK, number.wrapping_add(1));
            let own = match object["spec"]["hostNetwork"].as_bool() {
                Some(true) => host.clone(),
                _ => address(POD_NETWORK, number.wrapping_mul(PODS_OF_NODE).wrapping_add(*pod)),
            };
            object["status"]["hostIP"] = json!(host);
            object["status"]["hostIPs"] = json!([{ "ip": host }]);
            object["status"]["podIP"] = json!(own);
            object["status"]["podIPs"] = json!([{ "ip": own }]);
        }
    }
}

/// An object of a capture as an API server would keep it. Containers run until they are stopped: the capture does not say what
/// they do.
pub(crate) fn completed(mut object: Value) -> Value {
    if let Some(spec) = pod_spec(&mut object) {
        // They heed the signal to end.
        spec["shareProcessNamespace"] = json!(true);
        for (containers, command) in [("containers", json!(["sleep", "infinity"])), ("initContainers", json!(["true"]))]
        {
            for container in spec.get_mut(containers).and_then(Value::as_array_mut).into_iter().flatten() {
                let is_sidecar = container["restartPolicy"] == "Always";
                container["command"] = if is_sidecar { json!(["sleep", "infinity"]) } else { command.clone() };
            }
        }
    }
    match object["kind"].as_str() {
        // What a revision keeps is compared with the template, which has its defaults.
        Some("ControllerRevision") => {
            if let Some(kept) = object.pointer_mut("/data/spec/template") {
                template(kept);
            }
        }
        Some("Node") => complete_node(&mut object),
        Some("Pod") => complete_pod(&mut object),
        Some("PersistentVolume") => complete_volume(&mut object),
        _ => {}
    }
    object
}

/// A node that is not ready keeps silent, so that it stays so.
fn complete_node(node: &mut Value) {
    if Node(node).status().conditions().of_type("Ready").is_some_and(|ready| ready.status() != "True") {
        node["metadata"]["annotations"][HEARTBEAT_ANNOTATION] = json!("stopped");
    }
}

fn complete_pod(pod: &mut Value) {
    let since = pod["status"]["startTime"].clone();
    let is_ready = Pod(pod).status().conditions().is_true("Ready");
    if Pod(pod).spec().node_name().is_empty() {
        pod["status"] = json!({ "phase": "Pending" });
        if !Pod(pod).spec().scheduling_gates().is_empty() {
            // As the API server says it when such a pod is made.
            pod["status"]["conditions"] = json!([{
                "type": "PodScheduled", "status": "False", "reason": "SchedulingGated",
                "message": "Scheduling is blocked due to non-empty scheduling gates",
            }]);
        }
        return;
    }
    if !is_ready {
        for container in pod.pointer_mut("/spec/containers").and_then(Value::as_array_mut).into_iter().flatten() {
            container["readinessProbe"] = json!({ "exec": { "command": ["false"] } });
        }
    }
    let containers: Vec<Value> = pod["spec"]["containers"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|container| running(container, &since, is_ready))
        .collect();
    pod["status"]["phase"] = json!("Running");
    for condition in pod.pointer_mut("/status/conditions").and_then(Value::as_array_mut).into_iter().flatten() {
        condition["lastTransitionTime"] = since.clone();
    }
    pod["status"]["containerStatuses"] = json!(containers);
}

/// The status of a container that runs.
fn running(container: &Value, since: &Value, is_ready: bool) -> Value {
    let requests = &container["resources"]["requests"];
    let mut status = json!({
        "name": container["name"], "image": container["image"], "imageID": container["image"],
        "containerID": "containerd://captured", "ready": is_ready, "started": true, "restartCount": 0,
        "lastState": {}, "state": { "running": { "startedAt": since } },
        "resources": { "requests": requests, "limits": container["resources"]["limits"] },
    });
    if requests.as_object().is_some_and(|requests| !requests.is_empty()) {
        status["allocatedResources"] = requests.clone();
    }
    status
}

/// A volume needs a source; which disk it is does not matter.
fn complete_volume(volume: &mut Value) {
    let name = volume["metadata"]["name"].clone();
    if volume["spec"]["csi"]["driver"].is_string() {
        volume["spec"]["csi"]["volumeHandle"] = name;
    } else {
        volume["spec"]["csi"] = json!({ "driver": "unknown", "volumeHandle": name });
    }
}
