//! The Kubernetes behind the stand-in's clusters: an embedded cluster each, whose nodes follow Azure's pools.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use klab_server::{Flavour, Seed, Server, ServerOptions};
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Client, ResourceExt};
use serde_json::{Value, json};
use tokio::sync::oneshot;

use super::api::{Model, PoolView};
use super::offer;

/// After how long nodes that are not ready are no longer new: the control plane has met something.
const LATE: Duration = Duration::from_secs(30);
/// How often is asked whether there are other pools.
const STEP: Duration = Duration::from_millis(10);

/// The Kubernetes of all clusters of a model; it ends with this value.
pub struct Behind {
    model: Arc<Mutex<Model>>,
    _end: oneshot::Sender<()>,
}

impl Drop for Behind {
    fn drop(&mut self) {
        // The model, which may outlive the test, holds the server no longer.
        self.model.lock().unwrap_or_else(PoisonError::into_inner).kubeconfig = Box::new(|_| String::new());
    }
}

/// Gives every cluster of the model a Kubernetes.
#[must_use = "it ends when it is dropped"]
pub fn attach(model: &Arc<Mutex<Model>>, folder: &std::path::Path) -> Behind {
    let (sender, receiver) = mpsc::channel();
    let (shared, state) = (Arc::clone(model), folder.join("kubernetes"));
    let (end, mut ended) = oneshot::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime starts");
        runtime.block_on(async {
            // What waits for minutes of a cluster, such as pods of nodes that are gone, is not to keep tests.
            let options = ServerOptions { clock_times: 6, ..ServerOptions::at(state) };
            let server = Server::start(options).await.expect("the server starts");
            let server = Arc::new(server);
            sender.send((Arc::clone(&server), tokio::runtime::Handle::current())).expect("the test waits");
            // Pools that the nodes follow already need no other look: only pools make and remove nodes.
            let mut followed = BTreeMap::new();
            let mut defined = BTreeSet::new();
            let mut young = BTreeMap::new();
            while tokio::time::timeout(STEP, &mut ended).await.is_err() {
                let clusters = shared.lock().unwrap_or_else(PoisonError::into_inner).pools_by_cluster();
                for (cluster, pools) in clusters {
                    let is_configured =
                        shared.lock().unwrap_or_else(PoisonError::into_inner).configures_scheduler(&cluster);
                    if is_configured && defined.insert(cluster.clone()) {
                        server.add(&cluster, seed()).expect("the name is one of klab's");
                        let api = server.api(&cluster).expect("it was just added");
                        define_scheduler_configurations(api.client()).await.expect("the definition is good");
                    }
                    if followed.get(&cluster) == Some(&pools) {
                        continue;
                    }
                    server.add(&cluster, seed()).expect("the name is one of klab's");
                    let api = server.api(&cluster).expect("it was just added");
                    match follow(api.client(), &pools).await {
                        Ok(()) => {
                            young.insert(cluster.clone(), Instant::now());
                            followed.insert(cluster, pools);
                        }
                        // What a test takes away at this very moment is looked at again in the next step.
                        Err(error) => {
                            let line = format!("the nodes of {cluster} do not follow its pools yet: {error}\n");
                            let _ = std::io::Write::write_all(&mut std::io::stderr(), line.as_bytes());
                        }
                    }
                }
                for (cluster, _) in young.extract_if(.., |_, since| since.elapsed() > LATE) {
                    say_what_is_late(&server, &cluster).await;
                }
            }
            server.stop();
        });
    });
    let (server, runtime) = receiver.recv().expect("the server starts");
    model.lock().unwrap_or_else(PoisonError::into_inner).kubeconfig = Box::new(move |cluster| {
        let _runtime = runtime.enter();
        server.add(cluster, seed()).expect("the name is one of klab's");
        server.kubeconfig(cluster).expect("it was just added")
    });
    Behind { model: Arc::clone(model), _end: end }
}

/// Shows what the control plane of a cluster does whose nodes are not ready though they are no longer new.
async fn say_what_is_late(server: &Server, cluster: &str) {
    let Some(api) = server.api(cluster) else { return };
    let nodes = Api::<Node>::all(api.client()).list(&ListParams::default()).await;
    let is_ready = |node: &Node| {
        let mut conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
        conditions.any(|condition| condition.type_ == "Ready" && condition.status == "True")
    };
    let late = nodes.map(|nodes| nodes.items.into_iter().filter(|node| !is_ready(node)).collect::<Vec<_>>());
    if let Ok(late) = late
        && !late.is_empty()
    {
        let (faults, state) = (api.cluster().control_faults(), server.state(cluster));
        let nodes = serde_json::to_string(&late).unwrap_or_default();
        let line = format!("nodes of {cluster} are late: {nodes}; faults {faults:?}; {state:?}\n");
        let _ = std::io::Write::write_all(&mut std::io::stderr(), line.as_bytes());
    }
}

/// Defines the resource by which users configure the scheduler, as AKS does once it lets them.
async fn define_scheduler_configurations(client: Client) -> Result<(), kube::Error> {
    let definition = klab_cluster::system::scheduler_configurations();
    let definition: CustomResourceDefinition = serde_json::from_value(definition).expect("a definition");
    Api::all(client).create(&PostParams::default(), &definition).await.map(drop)
}

fn seed() -> Seed {
    Seed { flavour: Flavour::Aks, ..Seed::default() }
}

async fn follow(client: Client, pools: &[PoolView]) -> Result<(), kube::Error> {
    let api: Api<Node> = Api::all(client);
    let live = api.list(&ListParams::default()).await?;
    let live: BTreeMap<String, Node> = live.items.into_iter().map(|node| (node.name_any(), node)).collect();
    let wanted: BTreeMap<String, Value> = pools.iter().flat_map(nodes).collect();
    let size = "node.kubernetes.io/instance-type";
    let stays = |name: &String, node: &Node| {
        let is_same = |wanted: &Value| {
            node.labels().get(size).is_some_and(|size_of| wanted["metadata"]["labels"][size] == **size_of)
        };
        wanted.get(name).is_some_and(is_same)
    };
    let (live, gone): (BTreeMap<_, _>, BTreeMap<_, _>) = live.into_iter().partition(|(name, node)| stays(name, node));
    for name in gone.keys() {
        api.delete(name, &DeleteParams::default()).await?;
    }
    for (name, node) in &wanted {
        match live.get(name) {
            None => {
                let node = serde_json::from_value(node.clone()).expect("the stand-in writes valid nodes");
                api.create(&PostParams::default(), &node).await?;
            }
            Some(live) if live.annotations().get("stand-in/declared") != Some(&declared(node)) => {
                let patch = json!({ "metadata": { "labels": relabelled(live, node), "annotations": { "stand-in/declared": declared(node) } },
                    "spec": { "taints": node["spec"]["taints"] } });
                api.patch(name, &PatchParams::default(), &Patch::Merge(&patch)).await?;
            }
            Some(_) => {}
        }
    }
    Ok(())
}

/// Labels as they are to be, with null for those that go.
fn relabelled(live: &Node, wanted: &Value) -> Value {
    let mut labels = wanted["metadata"]["labels"].clone();
    let before = live.annotations().get("stand-in/declared").and_then(|text| serde_json::from_str::<Value>(text).ok());
    for key in before.iter().flat_map(|before| before["labels"].as_object().into_iter().flatten()).map(|(key, _)| key) {
        if labels[key].is_null() {
            labels[key] = Value::Null;
        }
    }
    labels
}

fn declared(node: &Value) -> String {
    node["metadata"]["annotations"]["stand-in/declared"].as_str().unwrap_or_default().to_owned()
}

/// The nodes of a pool as AKS makes them.
fn nodes(pool: &PoolView) -> Vec<(String, Value)> {
    let properties = &pool.properties;
    let text = |key: &str| properties[key].as_str().unwrap_or_default().to_owned();
    let zones: Vec<&str> =
        properties["availabilityZones"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    // Single virtual machines have a number for each size.
    let profiles = properties["virtualMachinesProfile"]["scale"]["manual"].as_array();
    let of = |profile: &Value, size: &str| {
        let count = profile["count"].as_u64().unwrap_or(0) as usize;
        std::iter::repeat_n(profile[size].as_str().unwrap_or_default().to_owned(), count)
    };
    let sizes: Vec<String> = match profiles {
        Some(profiles) => profiles.iter().flat_map(|profile| of(profile, "size")).collect(),
        None => of(properties, "vmSize").collect(),
    };
    let make = |(number, size): (usize, &String)| {
        let (cpus, gib) = offer::machine(size);
        let set = format!("aks-{}-{:08}-vmss", pool.name, pool.generation);
        let single = profiles.is_some().then(|| format!("aks-{}-{:08}-vms{number}", pool.name, pool.generation));
        let machine = match &single {
            Some(name) => format!("virtualMachines/{name}"),
            None => format!("virtualMachineScaleSets/{set}/virtualMachines/{number}"),
        };
        let machine = format!("azure:///subscriptions/s/resourceGroups/mc_small/providers/Microsoft.Compute/{machine}");
        let name = single.unwrap_or_else(|| format!("{set}{number:06}"));
        let zone =
            if zones.is_empty() { "0".to_owned() } else { format!("westeurope-{}", zones[number % zones.len()]) };
        let mut labels = json!({
            "storageprofile": "managed", "storagetier": "Premium_LRS",
            "agentpool": pool.name, "kubernetes.azure.com/agentpool": pool.name, "kubernetes.azure.com/role": "agent",
            "kubernetes.azure.com/mode": text("mode").to_lowercase(), "kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux",
            "kubernetes.io/hostname": name, "node.kubernetes.io/instance-type": size,
            "topology.kubernetes.io/region": "westeurope", "topology.kubernetes.io/zone": zone,
        });
        for (key, value) in properties["nodeLabels"].as_object().into_iter().flatten() {
            labels[key] = value.clone();
        }
        let taints: Vec<Value> = properties["nodeTaints"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .filter_map(taint)
            .collect();
        let declared = json!({ "labels": properties["nodeLabels"], "taints": taints }).to_string();
        let resources = |cpu: String, memory: u64| json!({ "cpu": cpu, "memory": format!("{memory}Ki"), "pods": properties["maxPods"].to_string(), "ephemeral-storage": "129886128Ki" });
        let node = json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": { "name": name, "labels": labels, "annotations": { "stand-in/declared": declared } },
            "spec": { "taints": taints, "providerID": machine },
            "status": {
                "capacity": resources(cpus.to_string(), gib << 20), "allocatable": resources(format!("{}m", cpus * 1000 - 100), (gib << 20) * 3 / 4),
                "nodeInfo": { "architecture": "amd64", "bootID": "b", "containerRuntimeVersion": "containerd://2", "kernelVersion": "6", "kubeProxyVersion": "",
                    "kubeletVersion": format!("v{}", text("currentOrchestratorVersion")), "machineID": "m", "operatingSystem": "linux", "osImage": "Ubuntu", "systemUUID": "s" },
            },
        });
        (name, node)
    };
    sizes.iter().enumerate().map(make).collect()
}

fn taint(text: &str) -> Option<Value> {
    let (pair, effect) = text.rsplit_once(':')?;
    let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
    Some(json!({ "key": key, "value": value, "effect": effect }))
}
