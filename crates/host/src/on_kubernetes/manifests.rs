//! Pure: the manifests of a class, as `kubectl apply -k` takes them: those of `deploy/base`, and a layer above them for one class.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::sizing::Sizing;
use klab_operations::error::{Code, Context as _, Result};

/// The base: the same for every class.
pub const BASE: [(&str, &str); 7] = [
    ("kustomization.yaml", include_str!("../../deploy/base/kustomization.yaml")),
    ("namespace.yaml", include_str!("../../deploy/base/namespace.yaml")),
    ("serviceaccount.yaml", include_str!("../../deploy/base/serviceaccount.yaml")),
    ("statefulset.yaml", include_str!("../../deploy/base/statefulset.yaml")),
    ("services.yaml", include_str!("../../deploy/base/services.yaml")),
    ("networkpolicy.yaml", include_str!("../../deploy/base/networkpolicy.yaml")),
    ("poddisruptionbudget.yaml", include_str!("../../deploy/base/poddisruptionbudget.yaml")),
];

/// What leads from outside to the shards.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Route {
    /// An Ingress of this class.
    Ingress(String),
    /// An HTTPRoute at a Gateway of this class, which is made.
    Gateway(String),
}

/// An identity provider that people sign in at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignIn {
    /// klab's arguments.
    pub arguments: Vec<String>,
    /// Its port.
    pub port: u16,
    /// Where the files of the secret `klab-oidc` are to be, where there are any.
    pub folder: Option<String>,
}

/// A class as it runs on Kubernetes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Class {
    /// The lesson, or where its file is in the image.
    pub lab: String,
    /// The host name that people type.
    pub host: String,
    /// The image, with its tag.
    pub image: String,
    /// How it is reached.
    pub route: Route,
    /// How large it is.
    pub sizing: Sizing,
    /// Whether learners have a console.
    pub console: bool,
    /// Where people sign in, if they do.
    pub sign_in: Option<SignIn>,
}

/// The files of the layer above the base, by name; `base` is where that is, seen from them.
///
/// # Errors
/// When a document cannot be written as YAML.
pub fn layer(class: &Class, base: &str) -> Result<BTreeMap<&'static str, String>> {
    let route = match &class.route {
        Route::Ingress(name) => vec![ingress(class, name)],
        Route::Gateway(name) => [gateway(class, name)].into_iter().chain(http_routes(class)).collect(),
    };
    let shards: Vec<Value> = (0..class.sizing.shards).map(shard).collect();
    Ok(BTreeMap::from([
        ("kustomization.yaml", yaml(&[kustomization(class, base)])?),
        ("class.yaml", yaml(&[size(class)])?),
        ("shards.yaml", yaml(&shards)?),
        ("route.yaml", yaml(&route)?),
    ]))
}

fn yaml(documents: &[Value]) -> Result<String> {
    let written = documents.iter().map(|document| {
        serde_saphyr::to_string(document).code(Code::KlabFault, || "could not write a manifest as YAML".to_owned())
    });
    let written: Vec<String> = written.collect::<Result<_>>()?;
    Ok(written.iter().map(|text| text.trim_end()).collect::<Vec<_>>().join("\n---\n") + "\n")
}

fn kustomization(class: &Class, base: &str) -> Value {
    // A port may stand before the tag's colon.
    let (name, tag) = match class.image.rsplit_once(':') {
        Some((name, tag)) if !tag.contains('/') => (name, tag),
        _ => (class.image.as_str(), "latest"),
    };
    let mut patches = vec![json!({ "path": "class.yaml" })];
    let added = added(class);
    if !added.is_empty() {
        let patch = Value::from(added).to_string();
        patches.push(json!({ "target": { "kind": "StatefulSet", "name": "klab" }, "patch": patch }));
    }
    if let Some(sign_in) = &class.sign_in {
        // Who is at a provider's name is not known here; other places of a provider are at the usual port.
        let ports: Vec<Value> = [Some(443), Some(sign_in.port).filter(|port| *port != 443)]
            .into_iter()
            .flatten()
            .map(|port| json!({ "port": port, "protocol": "TCP" }))
            .collect();
        let patch = json!([{ "op": "add", "path": "/spec/egress/-", "value": { "ports": ports } }]).to_string();
        patches.push(json!({ "target": { "kind": "NetworkPolicy", "name": "klab" }, "patch": patch }));
    }
    json!({
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "namespace": "klab",
        "resources": [base, "shards.yaml", "route.yaml"],
        "images": [{ "name": "klab", "newName": name, "newTag": tag }],
        "patches": patches,
    })
}

/// What is added to lists of the StatefulSet.
fn added(class: &Class) -> Vec<Value> {
    let add = |path: &str, value: Value| json!({ "op": "add", "path": path, "value": value });
    let mut arguments: Vec<String> = Vec::new();
    if class.console {
        // NetworkPolicy is the wall around the network where the node's kernel has none.
        arguments.extend(["--console", "--console-unconfined=network"].map(str::to_owned));
    }
    // Kubernetes puts variables in place of `$(NAME)`.
    arguments.extend(class.sign_in.iter().flat_map(|sign_in| &sign_in.arguments).map(|one| one.replace("$(", "$$(")));
    let container = "/spec/template/spec/containers/0";
    let mut added: Vec<Value> =
        arguments.into_iter().map(|argument| add(&format!("{container}/args/-"), json!(argument))).collect();
    if let Some(folder) = class.sign_in.as_ref().and_then(|sign_in| sign_in.folder.as_ref()) {
        let mount = json!({ "name": "oidc", "mountPath": folder, "readOnly": true });
        added.push(add(&format!("{container}/volumeMounts/-"), mount));
        let volume = json!({ "name": "oidc", "secret": { "secretName": "klab-oidc" } });
        added.push(add("/spec/template/spec/volumes/-", volume));
    }
    added
}

/// What of the StatefulSet is this class's own.
fn size(class: &Class) -> Value {
    let Sizing { shards, seats, processor, memory, disk } = class.sizing;
    let environment = [
        ("KLAB_SHARDS", shards.to_string()),
        ("KLAB_SEATS", seats.to_string()),
        ("KLAB_LAB", class.lab.clone()),
        ("KLAB_URL", format!("https://{}", class.host)),
    ];
    let environment: Vec<Value> =
        environment.iter().map(|(name, value)| json!({ "name": name, "value": value })).collect();
    json!({
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": { "name": "klab" },
        "spec": {
            "replicas": shards,
            "template": { "spec": { "containers": [{
                "name": "klab",
                "env": environment,
                "resources": {
                    "requests": { "cpu": format!("{processor}m"), "memory": format!("{memory}Mi") },
                    "limits": { "memory": format!("{memory}Mi") },
                },
            }] } },
            "volumeClaimTemplates": [{
                "metadata": { "name": "state" },
                "spec": { "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": format!("{disk}Gi") } } },
            }],
        },
    })
}

/// A Service that leads to one shard.
fn shard(number: u32) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": { "name": format!("klab-{number}") },
        "spec": {
            "selector": { "statefulset.kubernetes.io/pod-name": format!("klab-{number}") },
            "ports": [{ "name": "http", "port": 80, "targetPort": "http" }],
        },
    })
}

/// The path below which everything of a shard lies.
fn path_of(shard: u32) -> String {
    format!("/shards/{shard}")
}

fn ingress(class: &Class, of: &str) -> Value {
    let backend = |name: String| json!({ "service": { "name": name, "port": { "name": "http" } } });
    let rule = |path: String, to: String| json!({ "path": path, "pathType": "Prefix", "backend": backend(to) });
    let mut paths: Vec<Value> =
        (0..class.sizing.shards).map(|number| rule(path_of(number), format!("klab-{number}"))).collect();
    paths.push(rule("/".to_owned(), "klab".to_owned()));
    json!({
        "apiVersion": "networking.k8s.io/v1",
        "kind": "Ingress",
        "metadata": {
            "name": "klab",
            // Watches and pages stay open and say something every 15 seconds; other controllers do not read these.
            "annotations": {
                "nginx.ingress.kubernetes.io/proxy-body-size": "4m",
                "nginx.ingress.kubernetes.io/proxy-buffering": "off",
                "nginx.ingress.kubernetes.io/proxy-read-timeout": "3600",
            },
        },
        "spec": {
            "ingressClassName": of,
            "tls": [{ "hosts": [class.host], "secretName": "klab-tls" }],
            "rules": [{ "host": class.host, "http": { "paths": paths } }],
        },
    })
}

fn gateway(class: &Class, of: &str) -> Value {
    json!({
        "apiVersion": "gateway.networking.k8s.io/v1",
        "kind": "Gateway",
        "metadata": { "name": "klab" },
        "spec": {
            "gatewayClassName": of,
            "listeners": [{
                "name": "https", "port": 443, "protocol": "HTTPS", "hostname": class.host,
                "tls": { "mode": "Terminate", "certificateRefs": [{ "kind": "Secret", "name": "klab-tls" }] },
                "allowedRoutes": { "namespaces": { "from": "Same" } },
            }],
        },
    })
}

/// Most rules of an HTTPRoute, as the Gateway API has it.
const RULES: usize = 16;

fn http_routes(class: &Class) -> Vec<Value> {
    let rule = |path: String, to: String| {
        json!({
            "matches": [{ "path": { "type": "PathPrefix", "value": path } }],
            "backendRefs": [{ "name": to, "port": 80 }],
            // A watch ends when its client ends it.
            "timeouts": { "request": "0s" },
        })
    };
    let shards = (0..class.sizing.shards).map(|number| rule(path_of(number), format!("klab-{number}")));
    let rules: Vec<Value> = [rule("/".to_owned(), "klab".to_owned())].into_iter().chain(shards).collect();
    let route = |(number, rules): (usize, &[Value])| {
        json!({
            "apiVersion": "gateway.networking.k8s.io/v1",
            "kind": "HTTPRoute",
            "metadata": { "name": if number == 0 { "klab".to_owned() } else { format!("klab-{number}") } },
            "spec": { "parentRefs": [{ "name": "klab" }], "hostnames": [class.host], "rules": rules },
        })
    };
    rules.chunks(RULES).enumerate().map(route).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class(route: Route) -> Class {
        let sizing = Sizing { shards: 3, seats: 500, processor: 1100, memory: 1024, disk: 2 };
        Class {
            lab: "scheduling".into(),
            host: "labs.example.org".into(),
            image: "registry.example.org/klab:0.1.0".into(),
            route,
            sizing,
            console: false,
            sign_in: None,
        }
    }

    #[test]
    fn what_klab_is_told_of_a_provider_has_no_secret_and_opens_the_way_there() {
        let told = |folder: Option<&str>| {
            let sign_in = SignIn {
                arguments: vec!["--oidc-allow=x=$(KLAB_URL)".into()],
                port: 8443,
                folder: folder.map(str::to_owned),
            };
            kustomization(&Class { sign_in: Some(sign_in), ..class(Route::Ingress("nginx".into())) }, "../base")["patches"].clone()
        };
        let patches = told(Some("/run/secrets/klab-oidc"));
        let operations: Value = serde_json::from_str(patches[1]["patch"].as_str().unwrap()).unwrap();
        assert_eq!(operations[0]["value"], "--oidc-allow=x=$$(KLAB_URL)");
        assert_eq!(operations[1]["value"]["mountPath"], "/run/secrets/klab-oidc");
        assert_eq!(operations[2]["value"]["secret"]["secretName"], "klab-oidc");
        assert_eq!(patches[2]["target"]["kind"], "NetworkPolicy");
        assert!(patches[2]["patch"].as_str().unwrap().contains("8443"), "{patches}");
        assert!(!told(None)[1]["patch"].as_str().unwrap().contains("klab-oidc"));
    }

    #[test]
    fn every_file_of_the_base_is_in_klab() {
        let mut there: Vec<String> = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/deploy/base"))
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        there.sort();
        let mut known: Vec<&str> = BASE.iter().map(|(name, _)| *name).collect();
        known.sort_unstable();
        assert_eq!(there, known);
    }

    #[test]
    fn a_route_has_no_more_rules_than_the_gateway_api_takes() {
        let mut large = class(Route::Gateway("eg".into()));
        large.sizing.shards = 40;
        let routes = http_routes(&large);
        let rules = |route: &Value| route["spec"]["rules"].as_array().unwrap().len();
        assert_eq!(routes.iter().map(rules).collect::<Vec<_>>(), [16, 16, 9]);
        assert_eq!(routes[2]["spec"]["rules"][8]["matches"][0]["path"]["value"], "/shards/39");
    }

    #[test]
    fn an_image_is_a_name_and_a_tag() {
        for (image, name, tag) in [
            ("klab:1", "klab", "1"),
            ("registry:5000/klab", "registry:5000/klab", "latest"),
            ("registry:5000/a/klab:2-console", "registry:5000/a/klab", "2-console"),
        ] {
            let class = Class { image: image.into(), ..class(Route::Ingress("nginx".into())) };
            assert_eq!(
                kustomization(&class, "../base")["images"][0],
                json!({ "name": "klab", "newName": name, "newTag": tag })
            );
        }
    }

    #[test]
    fn a_console_is_asked_for_where_it_is_wanted() {
        let with = Class { console: true, ..class(Route::Ingress("nginx".into())) };
        let patches = kustomization(&with, "../base")["patches"].clone();
        assert!(patches[1]["patch"].as_str().unwrap().contains("--console"), "{patches}");
        assert_eq!(
            kustomization(&class(Route::Ingress("nginx".into())), "../base")["patches"].as_array().unwrap().len(),
            1
        );
    }
}
