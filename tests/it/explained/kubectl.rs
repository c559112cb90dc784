//! The commands that explanations print, done in process: what kubectl would send.

use klab_cluster::Cluster;
use serde_json::{Value, json};

/// Does commands on a cluster.
pub(super) struct Kubectl<'c>(pub(super) &'c Cluster);

/// Splits a line into words as a shell does, single quotes and backslashes outside them included.
fn words(line: &str) -> Vec<String> {
    let (mut words, mut word, mut quoted, mut begun) = (Vec::new(), String::new(), false, false);
    let mut letters = line.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '\'' => (quoted, begun) = (!quoted, true),
            '\\' if !quoted => word.extend(letters.next()),
            ' ' if !quoted => {
                if begun || !word.is_empty() {
                    words.push(std::mem::take(&mut word));
                    begun = false;
                }
            }
            letter => word.push(letter),
        }
    }
    if begun || !word.is_empty() {
        words.push(word);
    }
    words
}

/// Where a kind lives: the API's path and the plural; and whether it has namespaces.
fn place(kind: &str) -> (&'static str, &'static str, bool) {
    match kind {
        "pod" | "Pod" => ("/api/v1", "pods", true),
        "node" | "nodes" | "Node" => ("/api/v1", "nodes", false),
        "namespace" | "Namespace" => ("/api/v1", "namespaces", false),
        "pvc" | "PersistentVolumeClaim" => ("/api/v1", "persistentvolumeclaims", true),
        "pv" | "PersistentVolume" => ("/api/v1", "persistentvolumes", false),
        "resourcequota" | "ResourceQuota" => ("/api/v1", "resourcequotas", true),
        "LimitRange" => ("/api/v1", "limitranges", true),
        "configmap" => ("/api/v1", "configmaps", true),
        "secret" => ("/api/v1", "secrets", true),
        "serviceaccount" | "ServiceAccount" => ("/api/v1", "serviceaccounts", true),
        "deployment" | "Deployment" => ("/apis/apps/v1", "deployments", true),
        "daemonset" | "DaemonSet" => ("/apis/apps/v1", "daemonsets", true),
        "statefulset" | "StatefulSet" => ("/apis/apps/v1", "statefulsets", true),
        "replicaset" => ("/apis/apps/v1", "replicasets", true),
        "job" | "Job" => ("/apis/batch/v1", "jobs", true),
        "pdb" | "PodDisruptionBudget" => ("/apis/policy/v1", "poddisruptionbudgets", true),
        "priorityclass" | "PriorityClass" => ("/apis/scheduling.k8s.io/v1", "priorityclasses", false),
        "storageclass" | "StorageClass" => ("/apis/storage.k8s.io/v1", "storageclasses", false),
        kind => panic!("the kind {kind} is new here"),
    }
}

fn path(kind: &str, namespace: &str, name: &str) -> String {
    let (root, plural, is_namespaced) = place(kind);
    let place =
        if is_namespaced { format!("{root}/namespaces/{namespace}/{plural}") } else { format!("{root}/{plural}") };
    if name.is_empty() { place } else { format!("{place}/{name}") }
}

/// What is typed: the verb, its arguments, and its options.
struct Typed {
    namespace: String,
    arguments: Vec<String>,
    options: Vec<(String, String)>,
}

impl Typed {
    fn of(words: &[String]) -> Self {
        let (mut namespace, mut arguments, mut options) = ("default".to_owned(), Vec::new(), Vec::new());
        let mut words = words.iter().skip(1);
        while let Some(word) = words.next() {
            match word.as_str() {
                "-n" => namespace.clone_from(words.next().unwrap()),
                "-p" | "--type" | "-l" | "-c" | "-f" | "--field-selector" => {
                    options.push((word.clone(), words.next().unwrap().clone()));
                }
                word if word.starts_with("--") => {
                    let (key, value) = word.split_once('=').unwrap_or((word, ""));
                    options.push((key.to_owned(), value.to_owned()));
                }
                word => arguments.push(word.to_owned()),
            }
        }
        Self { namespace, arguments, options }
    }

    fn option(&self, key: &str) -> Option<&str> {
        self.options.iter().find(|(name, _)| name == key).map(|(_, value)| value.as_str())
    }

    /// The object named by the arguments from a position on: `kind/name` or `kind name`.
    fn object(&self, at: usize) -> (&str, &str) {
        let first = self.arguments[at].as_str();
        first.split_once('/').unwrap_or_else(|| (first, self.arguments.get(at + 1).map_or("", String::as_str)))
    }
}

impl Kubectl<'_> {
    /// Does a line: commands joined by `&&`, one of them with what `echo` prints before it.
    pub(super) async fn run(&self, line: &str) -> Result<(), String> {
        for part in line.split(" && ") {
            let mut stdin = None;
            for command in part.split(" | ") {
                let words = words(command);
                match words[0].as_str() {
                    "echo" => stdin = Some(words[1].clone()),
                    "sed" => stdin = stdin.map(|text: String| replaced(&text, &words[1])),
                    "advance" => self.0.advance(std::time::Duration::from_secs(words[1].parse().unwrap())),
                    _ => stdin = self.one(&Typed::of(&words), stdin).await?,
                }
            }
        }
        Ok(())
    }

    async fn send(&self, method: &str, path: &str, kind: &str, body: Option<&Value>) -> Result<Value, String> {
        let request = http::Request::builder().method(method).uri(path).header("content-type", kind);
        let body = body.map(|body| serde_json::to_vec(body).unwrap()).unwrap_or_default();
        let answer = self.0.client().request::<Value>(request.body(body).unwrap()).await;
        answer.map_err(|error| format!("{method} {path}: {error}"))
    }

    async fn merge(&self, path: &str, change: &Value) -> Result<(), String> {
        self.send("PATCH", path, "application/merge-patch+json", Some(change)).await.map(drop)
    }

    /// The nodes that a command is about.
    async fn nodes(&self, typed: &Typed, names: &[String]) -> Result<Vec<Value>, String> {
        let all = self.send("GET", &path("nodes", "", ""), "", None).await?;
        let all = all["items"].as_array().unwrap().clone();
        let selector = typed.option("-l").and_then(|selector| selector.split_once('='));
        let is_meant = |node: &Value| {
            let name = node["metadata"]["name"].as_str().unwrap().to_owned();
            names.contains(&name) || selector.is_some_and(|(key, value)| node["metadata"]["labels"][key] == value)
        };
        Ok(all.into_iter().filter(is_meant).collect())
    }

    #[expect(clippy::too_many_lines, reason = "an arm for each verb")]
    async fn one(&self, typed: &Typed, stdin: Option<String>) -> Result<Option<String>, String> {
        let namespace = typed.namespace.as_str();
        match typed.arguments[0].as_str() {
            "apply" | "create" if stdin.is_some() => {
                let object: Value = serde_json::from_str(&stdin.unwrap()).unwrap();
                let kind = object["kind"].as_str().unwrap();
                self.send("POST", &path(kind, namespace, ""), "application/json", Some(&object)).await?;
            }
            "create" => {
                let (kind, name) = typed.object(1);
                let name = if name == "generic" { &typed.arguments[3] } else { name };
                let mut object = json!({ "metadata": { "name": name } });
                if let Some(value) = typed.option("--value") {
                    object["value"] = json!(value.parse::<i64>().unwrap());
                }
                self.send("POST", &path(kind, namespace, ""), "application/json", Some(&object)).await?;
            }
            "get" => {
                let (kind, name) = typed.object(1);
                let found = self.send("GET", &path(kind, namespace, name), "", None).await?;
                return Ok(Some(serde_json::to_string_pretty(&found).unwrap()));
            }
            "replace" => {
                let mut object: Value = serde_json::from_str(&stdin.unwrap()).unwrap();
                let (kind, name) = (object["kind"].as_str().unwrap().to_owned(), object["metadata"]["name"].clone());
                let place = path(&kind, namespace, name.as_str().unwrap());
                self.send("DELETE", &place, "", None).await?;
                self.0.settle();
                object["metadata"] = json!({ "name": name });
                self.send("POST", &path(&kind, namespace, ""), "application/json", Some(&object)).await?;
            }
            "patch" => {
                let (kind, name) = typed.object(1);
                let change: Value = serde_json::from_str(typed.option("-p").unwrap()).unwrap();
                let form = match typed.option("--type") {
                    Some("json") => "application/json-patch+json",
                    Some(other) => panic!("{other}"),
                    None => "application/strategic-merge-patch+json",
                };
                self.send("PATCH", &path(kind, namespace, name), form, Some(&change)).await?;
            }
            "scale" => {
                let (kind, name) = typed.object(1);
                let replicas: u32 = typed.option("--replicas").unwrap().parse().unwrap();
                self.merge(&path(kind, namespace, name), &json!({ "spec": { "replicas": replicas } })).await?;
            }
            "set" => {
                let (kind, name) = typed.object(2);
                let mut resources = json!({});
                for field in ["requests", "limits"] {
                    let amounts = typed.option(&format!("--{field}")).into_iter().flat_map(|list| list.split(','));
                    for (resource, amount) in amounts.map(|amount| amount.split_once('=').unwrap()) {
                        resources[field][resource] = json!(amount);
                    }
                }
                let place = path(kind, namespace, name);
                let object = self.send("GET", &place, "", None).await?;
                let spec = &object["spec"]["template"]["spec"];
                let is_meant = |container: &&Value| typed.option("-c").is_none_or(|name| container["name"] == name);
                let changed = |list: &str| -> Vec<Value> {
                    let containers = spec[list].as_array().into_iter().flatten().filter(is_meant);
                    containers.map(|one| json!({ "name": one["name"], "resources": resources })).collect()
                };
                let changed =
                    json!({ "containers": changed("containers"), "initContainers": changed("initContainers") });
                let change = json!({ "spec": { "template": { "spec": changed } } });
                self.send("PATCH", &place, "application/strategic-merge-patch+json", Some(&change)).await?;
            }
            "label" | "annotate" => {
                let field = if typed.arguments[0] == "label" { "labels" } else { "annotations" };
                let kind = typed.arguments[1].as_str();
                let (changes, names): (Vec<&String>, Vec<&String>) =
                    typed.arguments[2..].iter().partition(|word| word.contains('=') || word.ends_with('-'));
                let names: Vec<String> = names.into_iter().cloned().collect();
                let targets: Vec<String> = match kind {
                    "node" | "nodes" => {
                        let nodes = self.nodes(typed, &names).await?;
                        nodes.iter().map(|node| node["metadata"]["name"].as_str().unwrap().to_owned()).collect()
                    }
                    _ => names,
                };
                for change in changes {
                    let (key, value) = match change.split_once('=') {
                        Some((key, value)) => (key, json!(value)),
                        None => (change.trim_end_matches('-'), Value::Null),
                    };
                    for name in &targets {
                        self.merge(&path(kind, namespace, name), &json!({ "metadata": { field: { key: value } } }))
                            .await?;
                    }
                }
            }
            "taint" => {
                let (changes, names): (Vec<&String>, Vec<&String>) =
                    typed.arguments[2..].iter().partition(|word| word.contains(':'));
                let names: Vec<String> = names.into_iter().cloned().collect();
                for node in self.nodes(typed, &names).await? {
                    let mut taints = node["spec"]["taints"].as_array().cloned().unwrap_or_default();
                    for change in &changes {
                        let (taint, effect) = change.rsplit_once(':').unwrap();
                        let (key, value) = taint.split_once('=').unwrap_or((taint, ""));
                        let gone = effect.ends_with('-');
                        taints.retain(|have| have["key"] != key);
                        if !gone {
                            taints.push(json!({ "key": key, "value": value, "effect": effect }));
                        }
                    }
                    let name = node["metadata"]["name"].as_str().unwrap();
                    self.merge(&path("node", "", name), &json!({ "spec": { "taints": taints } })).await?;
                }
            }
            "uncordon" | "cordon" => {
                let closed = typed.arguments[0] == "cordon";
                for name in &typed.arguments[1..] {
                    self.merge(&path("node", "", name), &json!({ "spec": { "unschedulable": closed } })).await?;
                }
            }
            "delete" => {
                let (kind, first) = typed.object(1);
                let more = if typed.arguments[1].contains('/') { &[][..] } else { &typed.arguments[3..] };
                let grace = typed.option("--force").map_or("", |_| "?gracePeriodSeconds=0");
                for name in std::iter::once(first).chain(more.iter().map(String::as_str)) {
                    self.send("DELETE", &format!("{}{grace}", path(kind, namespace, name)), "", None).await?;
                }
            }
            "rollout" => {
                let (kind, name) = typed.object(2);
                let change = match typed.arguments[1].as_str() {
                    "restart" => {
                        let restarted = json!({ "kubectl.kubernetes.io/restartedAt": self.0.now().to_string() });
                        json!({ "template": { "metadata": { "annotations": restarted } } })
                    }
                    _ => json!({ "paused": null }),
                };
                self.merge(&path(kind, namespace, name), &json!({ "spec": change })).await?;
            }
            // An editor is a person's.
            "edit" | "describe" => {}
            verb => panic!("the verb {verb} is new here"),
        }
        Ok(None)
    }
}

/// `s|a|b|`
fn replaced(text: &str, expression: &str) -> String {
    let parts: Vec<&str> = expression.split('|').collect();
    text.replace(parts[1], parts[2])
}
