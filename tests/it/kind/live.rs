//! What `up` makes, and what it changes on the live cluster.

use std::path::Path;

use k8s_openapi::api::apps::v1::Deployment;

use super::*;

#[test]
fn nodes_have_the_labels_taints_and_size_of_aks() {
    let stage = Stage::new(LAB);
    let talk = stage.up();
    assert!(talk.contains("Created cluster klab-pools"), "{talk}");
    let nodes = stage.nodes();
    assert_eq!(nodes.len(), 4);
    assert_eq!(
        stage.pools(),
        ["klab-pools-worker=nodepool1", "klab-pools-worker2=nodepool1", "klab-pools-worker3=extra"]
    );
    let extra = &nodes["klab-pools-worker3"];
    for (key, value) in [
        ("workload", "extra"),
        ("kubernetes.azure.com/mode", "user"),
        ("node.kubernetes.io/instance-type", "Standard_B2ms"),
        ("topology.kubernetes.io/region", "westeurope"),
        ("topology.kubernetes.io/zone", "0"),
        ("kubernetes.io/hostname", "klab-pools-worker3"),
    ] {
        assert_eq!(extra.labels().get(key).map(String::as_str), Some(value), "{key}");
    }
    assert_eq!(taints(extra), ["dedicated=special:NoSchedule"]);
    // 8 GiB less a quarter less 100 MiB, as AKS reserves with 250 pods.
    assert_eq!(resource(extra, "allocatable", "cpu"), "1900m");
    assert_eq!(resource(extra, "allocatable", "memory"), "6044Mi");
    assert_eq!(resource(extra, "allocatable", "pods"), "250");
    if Path::new("/sys/devices/system/node").is_dir() {
        assert_eq!(resource(extra, "capacity", "cpu"), "2");
        assert_eq!(resource(extra, "capacity", "memory"), "8Gi");
    }
    stage.succeeds(&["verify"]);
    stage.down();
}

#[test]
fn unchanged_up_changes_nothing_and_asks_little() {
    let stage = Stage::new(LAB);
    stage.up();
    stage.pair.forget_calls();
    let talk = stage.up();
    assert!(talk.contains("was as its file says"), "{talk}");
    let calls: Vec<String> = stage.pair.calls().into_iter().map(|(call, _)| call).collect();
    let changing = |call: &&String| {
        ["create", "delete", "run", "rm", "exec", "cp", "load"].iter().any(|verb| call.split(' ').nth(1) == Some(verb))
    };
    assert_eq!(calls.iter().filter(changing).collect::<Vec<_>>(), Vec::<&String>::new());
    // Each call takes as long on a real machine as everything klab does itself.
    assert!(calls.len() <= 6, "{calls:#?}");
    stage.down();
}

#[test]
fn pools_change_on_the_live_cluster() {
    let stage = Stage::new(LAB);
    stage.up();
    stage.pair.forget_calls();

    // Labels, taints, size and pods of one pool; nodes stay the same.
    let changed = LAB
        .replace(
            "labels = { workload = \"extra\" }",
            "labels = { workload = \"extra\", tier = \"gold\", \"node-role.kubernetes.io/extra\" = \"\" }",
        )
        .replace(
            "[\"dedicated=special:NoSchedule\"]\n\n[workload",
            "[\"dedicated=special:NoSchedule\", \"a=b:PreferNoSchedule\"]\n\n[workload",
        )
        .replace("size   = \"Standard_B2ms\"", "size   = \"Standard_D16s_v5\"\nmax_pods = 30");
    stage.write(&changed);
    let talk = stage.up();
    assert!(talk.contains("Changed pool extra"), "{talk}");
    let node = &stage.nodes()["klab-pools-worker3"];
    assert_eq!(node.labels()["tier"], "gold");
    assert_eq!(node.labels()["node-role.kubernetes.io/extra"], "");
    assert_eq!(node.labels()["node.kubernetes.io/instance-type"], "Standard_D16s_v5");
    assert_eq!(taints(node), ["dedicated=special:NoSchedule", "a=b:PreferNoSchedule"]);
    assert_eq!(resource(node, "allocatable", "pods"), "30");
    if Path::new("/sys/devices/system/node").is_dir() {
        assert_eq!(resource(node, "capacity", "cpu"), "16", "more than the machine has");
        assert_eq!(resource(node, "allocatable", "cpu"), "15740m");
    }
    let made = |calls: &[(String, f64)]| {
        calls.iter().filter(|(call, _)| call.starts_with("docker run") || call.starts_with("kind create")).count()
    };
    assert_eq!(made(&stage.pair.calls()), 0);

    // A pool in the middle and one node less: no node that stays changes its pool.
    let inserted = LAB
        .replace("nodes = 2", "nodes = 1")
        .replace("[pool.extra]", "[pool.middle]\nnodes = 2\ncpu = 1\nmemory = \"2Gi\"\n\n[pool.extra]");
    stage.write(&inserted);
    stage.up();
    assert_eq!(
        stage.pools(),
        [
            "klab-pools-worker=nodepool1",
            "klab-pools-worker2=middle",
            "klab-pools-worker3=extra",
            "klab-pools-worker4=middle"
        ]
    );
    assert_eq!(stage.pair.containers().len(), 5);
    let nodes = stage.nodes();
    assert_eq!(resource(&nodes["klab-pools-worker2"], "allocatable", "cpu"), "940m");
    assert_eq!(nodes["klab-pools-worker3"].labels().get("tier"), None, "a label that is declared no more goes");
    assert_eq!(taints(&nodes["klab-pools-worker3"]), ["dedicated=special:NoSchedule"]);
    assert_eq!(resource(&nodes["klab-pools-worker3"], "allocatable", "pods"), "250");
    stage.succeeds(&["verify"]);

    // The pool goes again, with its containers.
    stage.write(&LAB.replace("nodes = 2", "nodes = 1"));
    stage.up();
    assert_eq!(stage.pools(), ["klab-pools-worker=nodepool1", "klab-pools-worker3=extra"]);
    stage.down();
}

#[test]
fn what_only_a_new_cluster_can_change_is_asked_for() {
    let stage = Stage::new(LAB);
    stage.up();
    stage.write(&format!("{LAB}\n[kind]\nfeature_gates = {{ A = true }}\n"));
    let talk = stage.fails(2, &["up", "pools.toml"]);
    assert!(talk.contains("feature gates none becomes A=true") && talk.contains("--recreate"), "{talk}");
    stage.pair.forget_calls();
    let talk = stage.succeeds(&["up", "--recreate", "pools.toml"]);
    assert!(talk.contains("Recreating the cluster of lab pools"), "{talk}");
    assert_eq!(stage.nodes().len(), 4);
    stage.down();
}

#[test]
fn plan_tells_the_commands_of_live_changes() {
    let stage = Stage::new(LAB);
    stage.up();
    stage.write(&LAB.replace("nodes = 2", "nodes = 1").replace(
        "[pool.extra]\nnodes  = 1\nsize   = \"Standard_B2ms\"",
        "[pool.extra]\nnodes  = 2\nsize   = \"Standard_D4s_v5\"",
    ));
    let calls = stage.pair.calls().len();
    let plan = stage.run(&["plan", "pools.toml", "--format", "json"]);
    let plan: serde_json::Value = serde_json::from_slice(&plan.stdout).unwrap();
    let commands: Vec<&str> = plan["commands"].as_array().unwrap().iter().map(|line| line.as_str().unwrap()).collect();
    let made: Vec<String> = stage.pair.calls().drain(calls..).map(|(call, _)| call).collect();
    assert!(
        !made.iter().any(|call| call.contains(" exec ") || call.contains(" run ") || call.contains(" rm ")),
        "{made:?}"
    );
    for expected in [
        "docker exec --privileged klab-pools-worker3 systemctl restart kubelet",
        "docker exec --privileged klab-pools-control-plane kubeadm token create --ttl 30m",
        "docker run --name klab-pools-worker2 --hostname klab-pools-worker2 --label io.x-k8s.kind.role=worker",
        "docker exec --privileged klab-pools-worker2 kubeadm join --config /kind/kubeadm.conf",
        "# node klab-pools-worker2 is drained and deleted through the API",
        "docker rm --force --volumes klab-pools-worker2",
    ] {
        assert!(commands.iter().any(|line| line.starts_with(expected)), "{expected}\n{commands:#?}");
    }
    // And that is what is done.
    stage.pair.forget_calls();
    stage.up();
    let done: Vec<String> = stage.pair.calls().into_iter().map(|(call, _)| call).collect();
    for line in commands.iter().filter(|line| !line.starts_with('#') && !line.starts_with("docker cp")) {
        let plain = line.replace('\'', "");
        assert!(done.contains(&plain), "{plain}\n{done:#?}");
    }
    stage.down();
}

/// What a newer kind would take for a new cluster does not come into one that is there.
#[test]
fn other_kind_leaves_workers_as_they_are_and_adds_alike() {
    let stage = Stage::new(LAB);
    stage.up();
    stage.pair.fault("kind-version", "0.32.0");
    stage.pair.fault("slow-boot", "klab-pools-worker4");
    stage.pair.forget_calls();
    stage.write(&LAB.replace("nodes = 2", "nodes = 3"));
    stage.up();
    let removed = stage.pair.calls().iter().any(|(call, _)| call.starts_with("docker rm"));
    assert!(!removed, "{:?}", stage.pair.calls());
    let image = |name: &str| stage.pair.container(name).image;
    assert_eq!(image("klab-pools-worker4"), image("klab-pools-control-plane"));
    stage.down();
}

#[test]
fn node_image_on_this_machine_takes_the_place_of_one_that_cannot_be_had() {
    let stage = Stage::new(&LAB.replace("\"1.36\"", "\"1.35\""));
    stage.pair.add_image("kindest/node:v1.35.2", "1");
    stage.pair.fault("no-registry", "");
    let talk = stage.up();
    assert!(talk.contains("kindest/node:v1.35.8 could not be pulled; kindest/node:v1.35.2"), "{talk}");
    stage.write(&LAB.replace("\"1.36\"", "\"1.35\"").replace("nodes = 2", "nodes = 3"));
    stage.up();
    for name in stage.pair.containers() {
        assert_eq!(stage.pair.container(&name).image, "kindest/node:v1.35.2", "{name}");
    }
    stage.down();
}

#[test]
fn images_are_loaded_into_every_node_once() {
    let lab = format!("{LAB}\n[kind]\nload = [\"web:1\"]\n");
    let stage = Stage::new(&lab);
    stage.up();
    stage.up();
    stage.pair.fault("loads-first", "");
    let loaded = |name: &str| stage.pair.container(name).loaded.get("web:1").copied();
    for name in stage.pair.containers() {
        assert_eq!(loaded(&name), Some(1), "{name}");
    }
    // An added node gets it too; a new version goes to all.
    stage.write(&lab.replace("nodes  = 1", "nodes  = 2"));
    stage.up();
    assert_eq!(loaded("klab-pools-worker4"), Some(1));
    assert_eq!(loaded("klab-pools-worker3"), Some(1));
    stage.pair.add_image("web:1", "2");
    stage.up();
    assert_eq!(loaded("klab-pools-worker3"), Some(2));
    stage.write(&lab.replace("web:1", "absent:1"));
    let talk = stage.fails(3, &["up", "pools.toml"]);
    assert!(talk.contains("`absent:1` is not on this machine"), "{talk}");
    stage.down();
}

#[test]
fn addons_come_and_go_with_the_lab_file() {
    let lab = LAB.replace("kubernetes =", "addons = [\"metrics-server\"]\nkubernetes =");
    let stage = Stage::new(&lab);
    stage.up();
    let kubeconfig = stage.environment.home().join("labs/pools/kubeconfig");
    let deployments = || {
        let text = std::fs::read_to_string(&kubeconfig).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let kubeconfig = kube::config::Kubeconfig::from_yaml(&text).unwrap();
            let options = kube::config::KubeConfigOptions::default();
            let config = kube::Config::from_custom_kubeconfig(kubeconfig, &options).await.unwrap();
            let client = kube::Client::try_from(config).unwrap();
            let api: kube::Api<Deployment> = kube::Api::namespaced(client, "kube-system");
            let all = api.list(&kube::api::ListParams::default()).await.unwrap();
            all.items.iter().map(ResourceExt::name_any).collect::<Vec<_>>()
        })
    };
    assert!(deployments().contains(&"metrics-server".to_owned()), "{:?}", deployments());
    stage.write(LAB);
    let talk = stage.up();
    assert!(talk.contains("Removed metrics-server"), "{talk}");
    assert!(!deployments().contains(&"metrics-server".to_owned()));
    stage.down();
}

#[test]
fn several_control_planes_need_an_image_that_is_asked_for_first() {
    let stage = Stage::new(&format!("{LAB}\n[kind]\ncontrol_planes = 3\n"));
    stage.pair.fault("no-registry", "");
    let talk = stage.fails(3, &["up", "pools.toml"]);
    assert!(talk.contains("could not pull the image `docker.io/envoyproxy/envoy:"), "{talk}");
    stage.pair.end_fault("no-registry");
    stage.up();
    assert_eq!(stage.nodes().len(), 6);
    stage.down();
}
