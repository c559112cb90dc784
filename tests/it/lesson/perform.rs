//! Steps performed and undone on a cluster in process, whose time is stepped.

use k8s_openapi::api::apps::v1::Deployment;
use klab_operations::error::Kind;
use kube::api::{Api, Patch, PatchParams};
use serde_json::{Value, json};

use super::{Bench, LESSONS, load};

const HEAD: &str = r#"
lab = "acts"
kubernetes = "1.36"
[pool.main]
mode = "system"
nodes = 2
size = "Standard_B2ms"
[pool.extra]
nodes = 2
size = "Standard_B2ms"
labels = { workload = "extra" }
[pool.later]
deferred = true
nodes = 2
size = "Standard_B2ms"
[workload.web]
replicas = 4
requests = { cpu = "50m", memory = "64Mi" }
[workload.late]
deferred = true
service = 80
"#;

fn bench(actions: &str, more: &str) -> Bench {
    Bench::new(&format!("{HEAD}{more}\n[[step]]\nname = \"act\"\ndo = [{actions}]\n"))
}

fn taints(node: &Value) -> Vec<String> {
    let all = node["spec"]["taints"].as_array().cloned().unwrap_or_default();
    all.iter()
        .map(|taint| format!("{}={}:{}", taint["key"], taint["value"], taint["effect"]).replace('"', ""))
        .collect()
}

/// Every lesson that comes with klab: all steps forward, each with its checks, then all of them back to the set-up.
#[test]
fn lessons_go_forward_and_come_back_to_their_set_up() {
    for path in LESSONS {
        let bench = Bench::of(load(path, None));
        let total = bench.lab.steps.len();
        for step in 0..total {
            bench.perform(step);
            bench.holds(step + 1);
        }
        for step in (0..total).rev() {
            let kept = bench.undo(step);
            assert_eq!(kept, Vec::<String>::new(), "{path} step {}", bench.lab.steps[step].name);
        }
        bench.restart();
        bench.holds(0);
    }
}

#[test]
fn nodes_are_changed_once_and_changed_back() {
    let actions = r#"{ taint = "k=v:NoSchedule", nodes = "pool:extra" }, { label = "a=b,workload=other", nodes = "pool:extra" },
        { unlabel = "kubernetes.azure.com/mode", nodes = "pool:extra" }, { cordon = "agentpool=extra" }"#;
    let bench = bench(actions, "");
    let before = bench.nodes("extra");
    bench.perform(0);
    let versions = |bench: &Bench| -> Vec<Value> {
        bench.nodes("extra").iter().map(|node| node["metadata"]["resourceVersion"].clone()).collect()
    };
    let once = versions(&bench);
    bench.perform(0);
    assert_eq!(versions(&bench), once, "what is so already is not written again");
    for node in bench.nodes("extra") {
        assert_eq!(taints(&node), ["k=v:NoSchedule", "node.kubernetes.io/unschedulable=null:NoSchedule"]);
        let labels = &node["metadata"]["labels"];
        assert_eq!((&labels["a"], &labels["workload"]), (&json!("b"), &json!("other")));
        assert_eq!(labels["kubernetes.azure.com/mode"], Value::Null);
        assert_eq!(node["spec"]["unschedulable"], true);
    }
    assert!(bench.undo(0).is_empty());
    for (before, after) in before.iter().zip(bench.nodes("extra")) {
        assert_eq!((&after["metadata"]["labels"], taints(&after)), (&before["metadata"]["labels"], Vec::new()));
        assert_eq!(after["spec"]["unschedulable"], Value::Null);
    }
}

#[test]
fn nodes_that_are_not_there_are_an_error_that_names_the_place() {
    let error = bench(r#"{ cordon = "node:nobody" }"#, "").try_perform(0).unwrap_err();
    assert_eq!(error.kind(), Kind::Failed);
    let words = error.to_string();
    assert!(words.contains("step `act` (lab.toml:") && words.ends_with("no node matches node:nobody"), "{words}");
}

const BUDGET: &str = r#"
[[manifest]]
yaml = """
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: { name: web }
spec: { minAvailable: MIN, selector: { matchLabels: { app: web } } }
"""
[[check]]
workload = "web"
running = 4
"#;

#[test]
fn drain_respects_budgets_and_gives_up_at_its_deadline() {
    let drain = r#"{ drain = "pool:extra", within = "30s" }"#;
    // One pod at a time may be away: the drain waits for each, and ends.
    let patient = bench(drain, &BUDGET.replace("MIN", "3"));
    patient.perform(0);
    let pods = patient.provider.block_on(klab_operations::observe::look(&patient.client)).unwrap().pods;
    let there: Vec<_> = patient.nodes("extra").iter().map(|node| node["metadata"]["name"].clone()).collect();
    let is_web = |pod: &k8s_openapi::api::core::v1::Pod| {
        pod.metadata.labels.as_ref().is_some_and(|labels| labels["app"] == "web")
    };
    let left = pods.iter().filter(|pod| pod.metadata.labels.as_ref().is_some_and(|labels| labels.contains_key("app")));
    let left: Vec<_> = left
        .filter(|pod| is_web(pod) && pod.spec.as_ref().is_some_and(|spec| there.contains(&json!(spec.node_name))))
        .collect();
    assert!(left.is_empty(), "{left:?}");
    patient.holds(0);
    assert!(patient.undo(0).is_empty());
    assert!(patient.nodes("extra").iter().all(|node| node["spec"]["unschedulable"].is_null()));
    // None may be away: nothing helps.
    let stuck = bench(drain, &BUDGET.replace("MIN", "4"));
    let error = stuck.try_perform(0).unwrap_err();
    let words = error.to_string();
    assert_eq!(error.kind(), Kind::Deadline, "{words}");
    assert!(words.contains("still has") && words.contains("disruption budget"), "{words}");
    assert_eq!(error.left_behind, ["the nodes are cordoned"]);
}

#[test]
fn drain_loses_no_pod_that_nobody_makes_again_unless_told_to() {
    let bare = "[workload.bare]\nkind = \"pod\"\nnode_selector = { workload = \"extra\" }\n[[check]]\nworkload = \"bare\"\nrunning = 1\n";
    let careful = bench(r#"{ drain = "pool:extra" }"#, bare);
    let words = careful.try_perform(0).unwrap_err().to_string();
    assert!(words.contains("1 pod would be lost, as no controller recreates them: default/bare"), "{words}");
    assert!(careful.get("pod", "bare").is_object());
    let forced = bench(r#"{ drain = "pool:extra", force = true }"#, bare);
    forced.perform(0);
    assert!(forced.get("pod", "bare").is_null());
}

#[test]
fn workloads_are_scaled_changed_made_and_deleted_and_back() {
    let actions = r#"{ scale = "web", replicas = 1 },
        { set = "web", image = "nginx:1.28", node_selector = { workload = "extra" }, tolerations = ["k:NoSchedule"], requests = { cpu = "100m" } },
        { deploy = "late" }, { delete = "pods", selector = "app=web" }"#;
    let bench = bench(actions, "[config.colours]\ndata = { a = \"b\" }\n");
    let spec = |bench: &Bench| bench.get("deployment", "web")["spec"].clone();
    let before = spec(&bench);
    bench.perform(0);
    bench.perform(0);
    let after = spec(&bench);
    let pod = &after["template"]["spec"];
    assert_eq!((&after["replicas"], &pod["nodeSelector"]["workload"]), (&json!(1), &json!("extra")));
    assert_eq!(pod["containers"][0]["resources"]["requests"], json!({ "cpu": "100m" }));
    assert_eq!((&pod["tolerations"][0]["key"], &pod["containers"][0]["image"]), (&json!("k"), &json!("nginx:1.28")));
    assert!(bench.get("deployment", "late").is_object() && bench.get("service", "late").is_object());
    assert!(bench.get("configmap", "colours").is_object(), "nothing is pruned");
    assert!(bench.undo(0).is_empty());
    assert_eq!(spec(&bench), before);
    assert!(bench.get("deployment", "late").is_null() && bench.get("service", "late").is_null());
}

#[test]
fn set_takes_over_what_was_typed_with_kubectl() {
    let bench =
        bench(r#"{ set = "web", tolerations = ["k=v:NoSchedule"], node_selector = { workload = "extra" } }"#, "");
    let before = bench.get("deployment", "web")["spec"]["template"]["spec"].clone();
    let by_hand = json!({ "spec": { "template": { "spec": {
        "tolerations": [{ "key": "k", "operator": "Equal", "value": "v", "effect": "NoSchedule" }],
        "nodeSelector": { "workload": "extra", "more": "yes" },
    }}}});
    let patch = || {
        let api: Api<Deployment> = Api::default_namespaced(bench.client.clone());
        let parameters = PatchParams { field_manager: Some("kubectl-patch".into()), ..PatchParams::default() };
        let patched = bench.provider.runtime().block_on(api.patch("web", &parameters, &Patch::Merge(&by_hand)));
        patched.unwrap();
    };
    patch();
    bench.perform(0);
    let selector = &bench.get("deployment", "web")["spec"]["template"]["spec"]["nodeSelector"];
    assert_eq!(*selector, json!({ "workload": "extra" }), "a node selector is given as a whole");
    patch();
    assert!(bench.undo(0).is_empty());
    assert_eq!(bench.get("deployment", "web")["spec"]["template"]["spec"], before);
}

#[test]
fn objects_of_files_and_of_the_lab_are_applied_deleted_and_put_back() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("k8s")).unwrap();
    let map = |name: &str, value: &str| {
        format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{ name: {name} }}\ndata: {{ a: \"{value}\" }}\n")
    };
    std::fs::write(folder.path().join("k8s/one.yaml"), map("colours", "new") + "---\n" + &map("fresh", "1")).unwrap();
    std::fs::write(folder.path().join("k8s/two.yaml.tera"), map("{{ vars.name }}", "2")).unwrap();
    let steps = "[[step]]\nname = \"apply\"\ndo = [{ apply = \"k8s/*\" }]\n\
                 [[step]]\nname = \"delete\"\ndo = [{ delete = \"configmap/colours\" }, { delete = \"cm/fresh\" }, { delete = \"deployment/web\" }]\n";
    let text = format!("{HEAD}[vars]\nname = \"rendered\"\n[config.colours]\ndata = {{ a = \"old\" }}\n{steps}");
    std::fs::write(folder.path().join("lab.toml"), text).unwrap();
    let bench = Bench::of(load(folder.path().join("lab.toml").to_str().unwrap(), None));
    let colour = |bench: &Bench, name: &str| bench.get("configmap", name)["data"]["a"].clone();
    bench.perform(0);
    assert_eq!((colour(&bench, "colours"), colour(&bench, "fresh")), (json!("new"), json!("1")));
    assert_eq!(colour(&bench, "rendered"), json!("2"));
    bench.perform(1);
    bench.perform(1);
    assert_eq!((colour(&bench, "colours"), colour(&bench, "fresh")), (Value::Null, Value::Null));
    assert!(bench.get("deployment", "web").is_null());
    assert!(bench.undo(1).is_empty());
    assert_eq!((colour(&bench, "colours"), colour(&bench, "fresh")), (json!("new"), json!("1")));
    assert_eq!(bench.get("deployment", "web")["spec"]["replicas"], 4);
    assert!(bench.undo(0).is_empty());
    assert_eq!((colour(&bench, "colours"), colour(&bench, "fresh")), (json!("old"), Value::Null));
    assert_eq!(colour(&bench, "rendered"), Value::Null);
}

#[test]
fn the_control_plane_is_upgraded_alone_and_falls_silent_for_a_while() {
    let steps = r#"
[[step]]
name = "upgrade"
do = [{ upgrade_control_plane = "1.36" }]
[[step]]
name = "silent"
do = [{ fail_api = "20s" }]
"#;
    let bench = Bench::new(&format!("{HEAD}{steps}").replace("kubernetes = \"1.36\"", "kubernetes = \"1.35\""));
    let version = || bench.get("version", "")["gitVersion"].clone();
    let nodes = || bench.nodes("main")[0]["status"]["nodeInfo"]["kubeletVersion"].clone();
    assert_eq!((version(), nodes()), (json!("v1.35.0"), json!("v1.35.0")));
    bench.perform(0);
    assert_eq!((version(), nodes()), (json!("v1.36.2"), json!("v1.35.0")));
    assert!(bench.undo(0).is_empty());
    assert_eq!(version(), "v1.35.0");
    let before = bench.provider.age();
    bench.perform(1);
    assert!(bench.provider.age().checked_sub(before) >= Some(std::time::Duration::from_secs(20)));
    let annotations = bench.get("namespace", "kube-system")["metadata"]["annotations"].clone();
    assert!(annotations["klab.dev/api-silent"].is_null(), "{annotations}");
}

#[test]
fn pools_come_grow_are_upgraded_and_go_and_other_changes_of_nodes_stay() {
    let steps = r#"
[[step]]
name = "taint"
do = [{ taint = "k=v:NoSchedule", nodes = "pool:extra" }]
[[step]]
name = "pools"
do = [
  { add_pool = "later" }, { scale_pool = "later", nodes = 3 }, { scale_pool = "extra", nodes = 3 },
  { scale_pool = "main", autoscale = { min = 3, max = 5 } }, { upgrade_pool = "later", kubernetes = "1.35" },
]
[[step]]
name = "gone"
do = [{ remove_pool = "later" }]
"#;
    let bench = Bench::new(&format!("{HEAD}{steps}"));
    bench.perform(0);
    bench.perform(1);
    bench.perform(1);
    let count = |pool: &str| bench.nodes(pool).len();
    assert_eq!((count("main"), count("extra"), count("later")), (3, 3, 3));
    let tainted = bench.nodes("extra").iter().filter(|node| taints(node) == ["k=v:NoSchedule"]).count();
    assert_eq!(tainted, 2, "the taint of a step stays on the nodes it was put on, new ones do not have it");
    let version = |bench: &Bench| bench.nodes("later")[0]["status"]["nodeInfo"]["kubeletVersion"].clone();
    assert_eq!(version(&bench), "v1.35.0");
    bench.perform(2);
    assert_eq!(count("later"), 0);
    assert!(bench.undo(2).is_empty());
    assert_eq!((count("later"), version(&bench)), (3, json!("v1.35.0")), "as it was, not as its table says");
    assert!(bench.undo(1).is_empty());
    assert_eq!((count("main"), count("extra"), count("later")), (2, 2, 0));
}

#[test]
fn nodes_fail_and_return() {
    let bench = bench(r#"{ fail_node = "pool:extra", count = 1 }, { wait = "2m" }"#, "");
    let ready = || {
        let is_ready = |node: &&Value| {
            let conditions = node["status"]["conditions"].as_array().cloned().unwrap_or_default();
            conditions.iter().any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
        };
        bench.nodes("extra").iter().filter(is_ready).count()
    };
    bench.perform(0);
    assert_eq!(ready(), 1);
    assert!(bench.undo(0).is_empty());
    bench.provider.pass(std::time::Duration::from_secs(30));
    assert_eq!(ready(), 2);
}

#[test]
fn spot_nodes_are_taken_back_and_made_again() {
    let pool = "[pool.burst]\nspot = true\nnodes = 2\nsize = \"Standard_B2ms\"\n";
    let bench = bench(r#"{ reclaim_pool = "burst", count = 1 }"#, pool);
    let names = || -> Vec<String> {
        bench
            .nodes("burst")
            .iter()
            .map(|node| node["metadata"]["name"].as_str().unwrap_or_default().to_owned())
            .collect()
    };
    let both = names();
    bench.perform(0);
    bench.provider.pass(std::time::Duration::from_secs(20));
    let closed = bench.nodes("burst").iter().map(|node| node["spec"]["unschedulable"] == true).collect::<Vec<_>>();
    assert_eq!(closed, [true, false], "the notice has been given, and the node is drained");
    assert!(bench.undo(0).is_empty());
    bench.provider.pass(std::time::Duration::from_mins(3));
    assert_eq!(names(), both, "a notice can be withdrawn");
    assert!(bench.nodes("burst").iter().all(|node| node["spec"]["unschedulable"].is_null()));
    bench.perform(0);
    bench.provider.pass(std::time::Duration::from_mins(3));
    assert_eq!(names(), both[1..], "no other machine takes its place");
    assert!(bench.undo(0).is_empty());
    assert_eq!(names(), both);
}

#[test]
fn programs_run_only_where_they_are_allowed_to() {
    let mut bench = bench(r#"{ run = ["sh", "-c", "echo $KUBECONFIG > ran"] }"#, "");
    let error = bench.try_perform(0).unwrap_err();
    assert_eq!(error.kind(), Kind::Usage);
    assert!(error.to_string().contains("which was not allowed"), "{error}");
    let folder = tempfile::tempdir().unwrap();
    bench.allow_run = Some(("/some/kubeconfig".into(), folder.path().to_owned()));
    bench.perform(0);
    assert_eq!(std::fs::read_to_string(folder.path().join("ran")).unwrap(), "/some/kubeconfig\n");
    assert_eq!(bench.undo(0), ["what `sh` did is not known"]);
    let failing = super::parse(&format!(
        "{HEAD}[[step]]\nname = \"act\"\ndo = [{{ run = [\"sh\", \"-c\", \"echo no luck >&2; exit 3\"] }}]\n"
    ));
    bench.lab = failing;
    let words = bench.try_perform(0).unwrap_err().to_string();
    assert!(words.contains("exited with code 3") && words.contains("no luck"), "{words}");
}
