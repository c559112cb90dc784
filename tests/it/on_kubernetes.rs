//! The manifests of a hosted class, applied by the real kubectl to an embedded cluster.

use std::path::{Path, PathBuf};

use klab_host::on_kubernetes::manifests::{Class, Route, layer};
use klab_host::on_kubernetes::sizing::Sizing;
use serde_json::Value;

use crate::environment::{Environment, has_kubectl};
use crate::written::is_written;

/// `deploy/ingress` and `deploy/gateway` describe one class, as klab writes it.
#[test]
fn the_layers_of_the_repository_are_those_that_klab_writes() {
    let sizing = Sizing { shards: 3, seats: 500, processor: 1100, memory: 1024, disk: 2 };
    for (folder, route) in [("ingress", Route::Ingress("nginx".into())), ("gateway", Route::Gateway("eg".into()))] {
        let class = Class {
            lab: "scheduling".into(),
            host: "labs.example.org".into(),
            image: "registry.example.org/klab:0.1.0".into(),
            route,
            sizing,
            console: false,
            sign_in: None,
        };
        for (name, text) in layer(&class, "../base").unwrap() {
            is_written(&Path::new("deploy").join(folder).join(name), &text);
        }
    }
}

/// A cluster with three nodes, and kubectl for it.
struct Cluster {
    environment: Environment,
    kubeconfig: PathBuf,
}

impl Cluster {
    fn new() -> Option<Self> {
        if !has_kubectl() {
            return None;
        }
        let environment = Environment::new();
        environment.write("a.toml", "lab = \"a\"\n[pool.system]\nnodes = 3\nsize = \"Standard_D4s_v5\"\n");
        environment.succeeds(&["up", "a.toml"]);
        let kubeconfig = environment.succeeds(&["kubeconfig", "--path"]).trim().into();
        Some(Self { environment, kubeconfig })
    }

    fn kubectl(&self, line: &str) -> String {
        let mut command = std::process::Command::new("kubectl");
        command.args(line.split(' ')).env("KUBECONFIG", &self.kubeconfig).env("HOME", self.environment.folder());
        let output = command.current_dir(env!("CARGO_MANIFEST_DIR")).output().unwrap();
        assert!(output.status.success(), "kubectl {line}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    fn json(&self, line: &str) -> Value {
        serde_json::from_str(&self.kubectl(&format!("{line} -o json"))).unwrap()
    }
}

#[test]
fn the_layer_with_an_ingress_runs_and_its_shards_are_reached_by_their_paths() {
    let Some(cluster) = Cluster::new() else { return };
    cluster.kubectl("create namespace klab");
    let tried = cluster.kubectl("apply -k deploy/ingress --dry-run=server");
    assert!(tried.contains("statefulset.apps/klab created (server dry run)"), "{tried}");
    cluster.kubectl("apply -k deploy/ingress");
    cluster.kubectl(
        "create secret generic klab-class -n klab --from-literal=code=abcd-1234 --from-literal=secret=of-all-shards",
    );
    cluster.kubectl("rollout status statefulset klab -n klab --timeout=120s");
    let names = cluster.kubectl("get nodes,pods -n klab -o name");
    assert_eq!(names.matches("pod/klab-").count(), 3, "{names}");
    // Each rule of the ingress leads to the one pod whose number it has, and what has none to all of them.
    let ingress = cluster.json("get ingress klab -n klab");
    let rules = ingress["spec"]["rules"][0]["http"]["paths"].as_array().unwrap();
    let to: Vec<(String, usize, String)> = rules
        .iter()
        .map(|rule| {
            let service = rule["backend"]["service"]["name"].as_str().unwrap();
            assert_eq!(
                rule["backend"]["service"]["port"]["name"],
                cluster.json(&format!("get service {service} -n klab"))["spec"]["ports"][0]["name"]
            );
            let slices = cluster.json(&format!("get endpointslices -n klab -l kubernetes.io/service-name={service}"));
            let endpoints =
                slices["items"].as_array().unwrap().iter().flat_map(|slice| slice["endpoints"].as_array().unwrap());
            let pods: Vec<&str> = endpoints.map(|one| one["targetRef"]["name"].as_str().unwrap()).collect();
            (rule["path"].as_str().unwrap().to_owned(), pods.len(), (*pods.first().unwrap()).to_owned())
        })
        .collect();
    for (number, (path, many, pod)) in to.iter().take(3).enumerate() {
        assert_eq!(
            (path.as_str(), *many, pod.as_str()),
            (&*format!("/shards/{number}"), 1, &*format!("klab-{number}"))
        );
    }
    assert_eq!((to[3].0.as_str(), to[3].1), ("/", 3));
    cluster.environment.succeeds(&["down"]);
}

#[test]
fn a_drained_shard_comes_back_elsewhere_with_its_volume() {
    let Some(cluster) = Cluster::new() else { return };
    cluster.kubectl("apply -k deploy/ingress");
    cluster.kubectl(
        "create secret generic klab-class -n klab --from-literal=code=abcd-1234 --from-literal=secret=of-all-shards",
    );
    cluster.kubectl("rollout status statefulset klab -n klab --timeout=120s");
    let of = |field: &str| cluster.kubectl(&format!("get pod klab-1 -n klab -o jsonpath={{{field}}}"));
    let (node, volume, born) = (
        of(".spec.nodeName"),
        of(".spec.volumes[?(@.persistentVolumeClaim)].persistentVolumeClaim.claimName"),
        of(".metadata.uid"),
    );
    cluster.kubectl(&format!("drain {node} --ignore-daemonsets --delete-emptydir-data --force --timeout=120s"));
    cluster.kubectl("wait pod klab-1 -n klab --for=condition=Ready --timeout=120s");
    assert_ne!((of(".spec.nodeName"), of(".metadata.uid")), (node.clone(), born));
    assert_ne!(of(".spec.nodeName"), node);
    assert_eq!(of(".spec.volumes[?(@.persistentVolumeClaim)].persistentVolumeClaim.claimName"), volume);
    cluster.environment.succeeds(&["down"]);
}

#[test]
fn the_layer_with_a_gateway_is_taken_where_its_kinds_are() {
    let Some(cluster) = Cluster::new() else { return };
    for (kind, plural) in [("Gateway", "gateways"), ("HTTPRoute", "httproutes")] {
        let open = "x-kubernetes-preserve-unknown-fields: true";
        let definition = format!(
            "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {{name: {plural}.gateway.networking.k8s.io, \
             annotations: {{api-approved.kubernetes.io: 'https://github.com/kubernetes-sigs/gateway-api'}}}}\n\
             spec: {{group: gateway.networking.k8s.io, scope: Namespaced, names: {{kind: {kind}, plural: {plural}, singular: {}}}, \
             versions: [{{name: v1, served: true, storage: true, schema: {{openAPIV3Schema: {{type: object, {open}}}}}}}]}}\n",
            kind.to_lowercase()
        );
        let path = cluster.environment.write(&format!("{plural}.yaml"), definition);
        cluster.kubectl(&format!("apply -f {}", path.display()));
        cluster.kubectl(&format!(
            "wait crd {plural}.gateway.networking.k8s.io --for=condition=Established --timeout=120s"
        ));
    }
    cluster.kubectl("apply -k deploy/gateway");
    let route = cluster.json("get httproute klab -n klab");
    assert_eq!(route["spec"]["rules"].as_array().unwrap().len(), 4);
    assert_eq!(route["spec"]["parentRefs"][0]["name"], cluster.json("get gateway klab -n klab")["metadata"]["name"]);
    cluster.environment.succeeds(&["down"]);
}

/// The rules of the Pod Security Standard "restricted" that are about fields which klab sets or leaves out.
// upstream: k8s.io/pod-security-admission/policy check_* (v1.36)
#[test]
fn pods_meet_the_restricted_standard() {
    if !has_kubectl() {
        return;
    }
    for folder in ["deploy/base", "deploy/ingress", "deploy/gateway"] {
        let output = std::process::Command::new("kubectl")
            .args(["kustomize", folder])
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let text = String::from_utf8(output.stdout).unwrap();
        let documents: Vec<Value> =
            text.split("\n---\n").map(|document| serde_saphyr::from_str(document).unwrap()).collect();
        let of = |kind: &str| {
            documents
                .iter()
                .find(|document| document["kind"] == kind)
                .unwrap_or_else(|| panic!("{folder} has no {kind}"))
        };
        assert_eq!(of("Namespace")["metadata"]["labels"]["pod-security.kubernetes.io/enforce"], "restricted");
        let pod = &of("StatefulSet")["spec"]["template"]["spec"];
        let context = &pod["securityContext"];
        assert_eq!(
            (&context["runAsNonRoot"], &context["seccompProfile"]["type"]),
            (&true.into(), &"RuntimeDefault".into())
        );
        assert!(context["runAsUser"].as_u64().is_some_and(|user| user > 0));
        for field in ["hostNetwork", "hostPID", "hostIPC", "initContainers", "ephemeralContainers"] {
            assert!(pod[field].is_null(), "{field}");
        }
        for container in pod["containers"].as_array().unwrap() {
            let context = &container["securityContext"];
            assert_eq!(context["allowPrivilegeEscalation"], false);
            assert_eq!(context["capabilities"], serde_json::json!({ "drop": ["ALL"] }));
            assert_eq!(context["readOnlyRootFilesystem"], true);
            for field in ["privileged", "procMount", "runAsUser", "runAsNonRoot", "seccompProfile"] {
                assert!(context[field].is_null(), "{field}");
            }
            assert!(container["ports"].as_array().unwrap().iter().all(|port| port["hostPort"].is_null()));
            for probe in ["startupProbe", "readinessProbe", "livenessProbe"] {
                assert!(container[probe]["httpGet"]["path"].is_string(), "{probe}");
            }
        }
        let allowed = [
            "configMap",
            "csi",
            "downwardAPI",
            "emptyDir",
            "ephemeral",
            "persistentVolumeClaim",
            "projected",
            "secret",
        ];
        for volume in pod["volumes"].as_array().unwrap() {
            let kinds: Vec<&String> = volume.as_object().unwrap().keys().filter(|key| *key != "name").collect();
            assert!(kinds.iter().all(|kind| allowed.contains(&kind.as_str())), "{volume}");
        }
    }
}
