//! Property: a copy of a seat is the seat that would have been made, object by object.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use super::*;
use klab_api_machinery::object::Object;
use klab_api_machinery::resource::{CONFIG_MAPS, DEPLOYMENTS, PODS};
use klab_cluster::cluster::WriteOptions;
use klab_cluster::{Cluster, Snapshot};
use klab_lab::plan::plan;
use klab_lab::spec::{self, LoadOptions};
use klab_operations::apply::Applier;
use klab_operations::event::Events;
use klab_operations::provider::sim::copies::renaming as renaming_of;
use klab_operations::provider::sim::in_process::InProcess;
use klab_operations::provider::{Options, Provider, Work};

/// A lab with what names are in: zones, an autoscaled pool, a StatefulSet, Services, a Job.
const LAB: &str = r#"
lab = "class"

[pool.main]
mode = "system"
nodes = 2
zones = [1, 2]
size = "Standard_B4ms"

[pool.more]
autoscale = { min = 1, max = 3 }
size = "Standard_B2ms"
taints = ["dedicated=more:NoSchedule"]

[workload.web]
replicas = 3
image = "nginx:1.27"
requests = { cpu = "50m", memory = "64Mi" }

[workload.each]
kind = "daemonset"
image = "busybox"

[workload.wide]
replicas = 3
image = "nginx:1.27"
requests = { cpu = "900m" }
tolerations = ["dedicated=more:NoSchedule"]
node_selector = { agentpool = "more" }

[[check]]
workload = "web"
running = 3
"#;

/// The set-up of a lab under a seat's name, after some minutes.
fn made(lab: &Lab, seat: &str) -> (Lab, Cluster) {
    let lab = lab_of(lab, seat);
    let provider = InProcess::new(7).unwrap().with_ties_by_name();
    let (mut journal, events) = (Journal::nowhere(), Events::nowhere());
    let mut work = Work { journal: &mut journal, events: &events };
    let actions = plan(&lab, &provider.observe(seat, Some(&lab)).unwrap());
    provider.perform_all(&lab, &actions, &Options::default(), &mut work).unwrap();
    let manifests = render(&lab).unwrap_or_else(|problems| panic!("{}", problems.render(false)));
    let mut applier = Applier::new(provider.client().unwrap(), seat);
    provider.block_on(applier.apply(&manifests, &BTreeSet::new(), false)).unwrap();
    provider.pass(Duration::from_mins(3));
    let cluster = provider.cluster().unwrap();
    (lab, cluster)
}

/// Objects by kind, namespace and name.
type Objects = BTreeMap<String, Value>;

fn objects(snapshot: &Snapshot) -> Objects {
    let name = |object: &Object| format!("{} {}/{}", object.resource.row().kind, object.namespace, object.name);
    snapshot.objects().iter().map(|object| (name(object), object.to_value())).collect()
}

fn assert_equal(copy: &Objects, made: &Objects, what: &str) {
    let different: Vec<&String> =
        copy.keys().chain(made.keys()).filter(|name| copy.get(*name) != made.get(*name)).collect();
    let shown = different.first().map(|name| (copy.get(*name), made.get(*name)));
    assert!(different.is_empty(), "{what}: {different:?}\n{shown:#?}");
    assert!(made.len() > 80, "{what}: {}", made.len());
}

/// A copy is the seat, uids and times included; once its control plane has begun, except for what a restarted one says again.
fn assert_is_copy(lab: &Lab, what: &str) -> (Cluster, Cluster, Cluster) {
    let (first, original) = made(lab, "class-01");
    let (twelfth, long_way) = made(lab, "class-12");
    let renaming = renaming_of(&first, &twelfth).unwrap_or_else(|| panic!("{what}: they differ in more than names"));
    // As the server does it: what was learnt from one copy is good for the next.
    let other = renaming_of(&first, &lab_of(lab, "class-02")).unwrap_or_else(|| panic!("{what}: another one"));
    let copied = original.snapshot().copies(&[other, renaming.clone()]).unwrap().remove(1);
    assert_equal(&objects(&copied), &objects(&original.snapshot().renamed(&renaming)), what);
    assert_equal(&objects(&copied), &objects(&long_way.snapshot()), what);
    let copy = copied.to_cluster();
    let lasting = |cluster: &Cluster| {
        let mut objects = objects(&cluster.snapshot());
        objects.retain(|name, _| !name.starts_with("Event ") && !name.ends_with("/cluster-autoscaler-status"));
        // A kubelet that starts again has forgotten how often it tried to pull an image.
        for (_, pod) in objects.iter_mut().filter(|(name, _)| name.starts_with("Pod ")) {
            let statuses = pod["status"]["containerStatuses"].as_array_mut().into_iter().flatten();
            let waiting = statuses.filter_map(|status| status.pointer_mut("/state/waiting"));
            let pulls = |waiting: &&mut Value| waiting["reason"].to_string().contains("ImagePull");
            if waiting.filter(pulls).map(|waiting| *waiting = Value::Null).count() > 0 {
                pod["metadata"]["resourceVersion"] = Value::Null;
            }
        }
        objects
    };
    assert_equal(&lasting(&copy), &lasting(&long_way), what);
    (copy, long_way, original)
}

fn parsed(text: &str) -> Lab {
    spec::parse("lab.toml", text, &LoadOptions::default())
        .unwrap_or_else(|problems| panic!("{}", problems.render(false)))
}

#[test]
fn a_copy_is_the_seat_that_would_have_been_made() {
    for like in ["aks", "kind"] {
        let lab = parsed(&format!("{LAB}\n[sim]\nlike = \"{like}\"\n"));
        let (copy, long_way, _) = assert_is_copy(&lab, like);
        // It goes on as the other does.
        for cluster in [&copy, &long_way] {
            let options = WriteOptions::client("test");
            let part = klab_cluster::cluster::Part::Main;
            let scaled = cluster.inner().modify(DEPLOYMENTS, part, "default", "web", &options, |web| {
                web["spec"]["replicas"] = 5.into();
            });
            scaled.unwrap();
            cluster.advance(Duration::from_mins(1));
        }
        let places = |cluster: &Cluster| {
            let pods = cluster.inner().list(PODS, Some("default")).0;
            pods.iter().map(|pod| (pod.name.to_string(), pod.value()["spec"]["nodeName"].clone())).collect::<Vec<_>>()
        };
        assert_eq!(places(&copy), places(&long_way), "{like}");
    }
}

#[test]
fn a_copy_of_each_lesson_is_the_seat_that_would_have_been_made() {
    let mut seen = 0;
    for entry in std::fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("labs")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "toml") {
            continue;
        }
        let lab =
            spec::load(&path, &LoadOptions::default()).unwrap_or_else(|problems| panic!("{}", problems.render(false)));
        // What an author's own template makes of a name is not known: each of these seats is made by itself.
        if lab.has_templates() {
            assert_eq!(renaming_of(&lab_of(&lab, "class-01"), &lab_of(&lab, "class-02")), None, "{}", path.display());
            continue;
        }
        assert_is_copy(&lab, &path.display().to_string());
        seen += 1;
    }
    assert!(seen >= 12, "{seen}");
}

#[test]
fn single_virtual_machines_of_a_seat_are_copied_like_others() {
    let pools = "[pool.main]\n[pool.mixed]\ntype = \"VirtualMachines\"\nsizes = { Standard_D4s_v5 = 11, Standard_D8s_v5 = 1 }\n";
    assert_is_copy(&parsed(&format!("lab = \"class\"\n{pools}")), "several sizes");
}

#[test]
fn what_is_written_to_one_seat_is_in_no_other() {
    let (copy, _, original) = assert_is_copy(&parsed(LAB), "a lab");
    let held = original.snapshot();
    let (other, before) = (held.to_cluster(), objects(&held));
    let map = serde_json::json!({ "metadata": { "name": "mine" } });
    copy.inner().create(CONFIG_MAPS, "default", map, &WriteOptions::client("test")).unwrap();
    let options = klab_cluster::cluster::DeleteOptions::default();
    copy.inner().delete(DEPLOYMENTS, "default", "web", &options).unwrap();
    copy.advance(Duration::from_mins(1));
    assert_equal(&objects(&original.snapshot()), &before, "the original");
    assert!([original, other].iter().all(|seat| seat.inner().get(DEPLOYMENTS, "default", "web").is_some()));
    assert!(copy.inner().get(CONFIG_MAPS, "default", "mine").is_some());
    assert!(copy.inner().get(DEPLOYMENTS, "default", "web").is_none());
}

#[test]
fn what_differs_in_more_than_names_is_no_copy() {
    let of = |text: &str, [one, other]: [&str; 2]| {
        let lab = parsed(text);
        let (one, other) = (lab_of(&lab, one), lab_of(&lab, other));
        let Some(renaming) = renaming_of(&one, &other) else { return false };
        let [manifests, others] = [&one, &other].map(|lab| render(lab).unwrap_or_else(|_| panic!()));
        let record = Record::new("class", lab.provider, Path::new("lab.toml"));
        let original = Original { lab: one, manifests, record, progress: Progress::default() };
        differ_in_names_alone(&original, &others, &renaming)
    };
    let seats = ["class-01", "class-12"];
    assert!(of(LAB, seats));
    // The seat's name stands in what is not named after it.
    assert!(!of(&LAB.replace("image = \"busybox\"", "image = \"class-01\""), seats));
    assert!(of(&LAB.replace("image = \"busybox\"", "image = \"class-012\""), seats));
    // A pod of this workload might have the name of the first seat.
    let counted = LAB.replace("workload.each", "workload.class");
    assert!(of(&counted, seats));
    assert!(!of(&counted, ["class-10", "class-12"]));
    // The nodes would be in another order.
    let names = "nodes = 2\nnames = [\"class-05-z\"]";
    let kind = |text: &str| format!("{text}\n[sim]\nlike = \"kind\"\n");
    assert!(!of(&kind(&LAB.replace("nodes = 2", names)), seats));
    assert!(of(&kind(LAB), seats));
    // Pods are put on nodes by name.
    let pinned = "[workload.pinned]\nkind = \"pod\"\nnode_name = \"pool:main\"\n[[check]]";
    assert!(!of(&LAB.replacen("[[check]]", pinned, 1), seats));
}
