//! What a folder for kind has (a configuration, manifests, scripts), as the text of a lab file to start from.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::Value;

use crate::configuration::Cluster;
use crate::{nodes, validation};

/// A file of the folder.
#[derive(Debug, Clone)]
pub struct File {
    /// Its path below the folder, with `/`.
    pub path: String,
    /// What is in it.
    pub text: String,
}

impl File {
    fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or(&self.path)
    }

    /// Whether it is a script whose name has one of these words.
    fn is_script(&self, words: &[&str]) -> bool {
        self.name().strip_suffix(".sh").is_some_and(|stem| words.iter().any(|word| stem.contains(word)))
    }
}

/// A lab file, and what a person has to look at.
#[derive(Debug, Clone)]
pub struct Imported {
    /// The lab file.
    pub text: String,
    /// What was left out or could not be read, a sentence each.
    pub notes: Vec<String>,
}

/// A file of objects.
struct Manifest<'f> {
    file: &'f File,
    objects: Vec<Value>,
    /// Whether the set-up applies it.
    is_applied: bool,
}

/// Writes the lab of this name; its title is the heading of the folder's README.
///
/// # Errors
/// In kind's words, where the configuration is not valid.
pub fn lab(name: &str, files: &[File]) -> Result<Imported, String> {
    let mut notes = Vec::new();
    let heading = readme(files).and_then(|file| file.text.lines().find_map(|line| line.strip_prefix("# ")));
    let title = heading.filter(|title| !title.contains('{')).unwrap_or(name);
    let mut text = format!("lab   = {}\ntitle = {}\n\n[sim]\nlike = \"kind\"\n", quoted(name), quoted(title));
    let is_yaml = |file: &&File| [".yaml", ".yml", ".json"].iter().any(|ending| file.path.ends_with(ending));
    let (configurations, others): (Vec<&File>, Vec<&File>) =
        files.iter().filter(is_yaml).partition(|file| file.text.contains("kind.x-k8s.io/"));
    let cluster = match configurations.split_first() {
        None => {
            notes.push("there is no configuration for kind: the lab has one node".to_owned());
            Cluster::ordinary()
        }
        Some((first, more)) => {
            notes.extend(
                more.iter().map(|file| format!("{} is another configuration; {} was read", file.path, first.path)),
            );
            let read = Cluster::parse(&first.text).and_then(|cluster| match validation::mistakes(&cluster, name) {
                None => Ok(cluster),
                Some(why) => Err(why),
            });
            read.map_err(|why| format!("{}: {why}", first.path))?
        }
    };
    pools(&mut text, &cluster, name, &mut notes)?;
    let manifests = manifests(files, &others, &mut notes);
    for manifest in &manifests {
        let mark = if manifest.is_applied { "" } else { "# " };
        let _ = write!(text, "\n{mark}[[manifest]]\n{mark}path = {}\n", quoted(&manifest.file.path));
    }
    let applied: Vec<&Value> =
        manifests.iter().filter(|manifest| manifest.is_applied).flat_map(|manifest| &manifest.objects).collect();
    let set_up: Vec<String> = applied.iter().filter_map(|object| check_of(object)).collect();
    if !set_up.is_empty() {
        text.push_str("\n# What must hold after the set-up. Take out what the lab leaves broken on purpose.\n");
        for check in set_up {
            let _ = write!(text, "\n[[check]]\n{check}");
        }
    }
    step(&mut text, files, &mut notes);
    Ok(Imported { text, notes })
}

/// The pools: workers with the same labels, taints and number of pods, in their order.
fn pools(text: &mut String, cluster: &Cluster, name: &str, notes: &mut Vec<String>) -> Result<(), String> {
    let (nodes, of_nodes) = nodes::manifests(cluster, name)?;
    notes.extend(of_nodes);
    let named = nodes::named(cluster, name);
    let control_planes = named.iter().filter(|node| node.is_control_plane).count();
    if control_planes > 1 {
        let _ = write!(text, "\n[kind]\ncontrol_planes = {control_planes}\n");
    }
    let is_alone = named.len() == control_planes;
    let mut groups: Vec<(String, usize)> = Vec::new();
    let mut names: Vec<String> = Vec::new();
    for (node, _) in nodes.iter().zip(&named).filter(|(_, named)| is_alone || !named.is_control_plane) {
        let mut keys = String::new();
        let is_own = |key: &str| key.contains("kubernetes.io/") && !key.starts_with("topology.");
        let labels: BTreeMap<&String, &Value> =
            node["metadata"]["labels"].as_object().into_iter().flatten().filter(|(key, _)| !is_own(key)).collect();
        if !labels.is_empty() {
            let pairs: Vec<String> = labels.iter().map(|(key, value)| format!("{} = {value}", quoted(key))).collect();
            let _ = writeln!(keys, "labels = {{ {} }}", pairs.join(", "));
        }
        let taints: Vec<String> = node["spec"]["taints"].as_array().into_iter().flatten().map(taint).collect();
        if !taints.is_empty() && !is_alone {
            let _ = writeln!(keys, "taints = [{}]", taints.join(", "));
        }
        if let Some(pods) = node["status"]["allocatable"]["pods"].as_str().filter(|pods| *pods != "110") {
            let _ = writeln!(keys, "max_pods = {pods}");
        }
        if let Some((_, count)) = groups.iter_mut().find(|(known, _)| *known == keys) {
            *count = count.saturating_add(1);
            continue;
        }
        let called = labels.values().filter_map(|value| value.as_str()).find(|word| is_pool(word));
        let called = called.filter(|word| !names.iter().any(|name| name == word));
        let number = names.len().saturating_add(1);
        let other = || if number == 1 { "workers".to_owned() } else { format!("workers{number}") };
        names.push(called.map_or_else(other, str::to_owned));
        groups.push((keys, 1));
    }
    for (index, (name, (keys, count))) in names.iter().zip(&groups).enumerate() {
        let mode = if index == 0 { "mode = \"system\"\n" } else { "" };
        let _ = write!(text, "\n[pool.{name}]\n{mode}nodes = {count}\n{keys}");
    }
    Ok(())
}

/// Whether a word can be the name of a pool.
fn is_pool(word: &str) -> bool {
    word.len() <= 12
        && word.starts_with(|letter: char| letter.is_ascii_lowercase())
        && word.chars().all(|letter| letter.is_ascii_lowercase() || letter.is_ascii_digit())
}

fn taint(taint: &Value) -> String {
    let [key, value, effect] = ["key", "value", "effect"].map(|field| taint[field].as_str().unwrap_or_default());
    let value = if value.is_empty() { String::new() } else { format!("={value}") };
    quoted(&format!("{key}{value}:{effect}"))
}

/// The files of objects; where a script sets the lab up, those that it names are applied, else all.
fn manifests<'f>(files: &[File], yaml: &[&'f File], notes: &mut Vec<String>) -> Vec<Manifest<'f>> {
    let scripts: Vec<&File> =
        files.iter().filter(|file| file.is_script(&["setup", "set-up", "install", "deploy"])).collect();
    let mut manifests = Vec::new();
    for file in yaml {
        let mut objects = Vec::new();
        let documents = file.text.split("\n---").map(serde_saphyr::from_str::<Value>);
        for document in documents {
            match document {
                Ok(object) if is_object(&object) => objects.push(object),
                Ok(_) => {}
                Err(_) => notes.push(format!("a document of {} is not plain YAML and was left out", file.path)),
            }
        }
        let is_kustomization = |object: &Value| object["apiVersion"].to_string().contains("kustomize.config.k8s.io");
        if objects.iter().any(is_kustomization) {
            notes.push(format!(
                "{} is for kustomize: `kubectl kustomize` writes the objects for a `[[manifest]]`",
                file.path
            ));
        } else if !objects.is_empty() {
            let is_applied = scripts.is_empty() || scripts.iter().any(|script| script.text.contains(file.name()));
            manifests.push(Manifest { file, objects, is_applied });
        }
    }
    let left: Vec<&str> =
        manifests.iter().filter(|manifest| !manifest.is_applied).map(|manifest| manifest.file.path.as_str()).collect();
    if !left.is_empty() {
        notes.push(format!("no script for the set-up names {}: a comment in the lab", left.join(", ")));
    }
    manifests
}

/// Whether a document is an object of Kubernetes, or a list or a kustomization, but no kubeconfig.
fn is_object(document: &Value) -> bool {
    let is_text = |key: &str| document[key].is_string();
    is_text("apiVersion") && is_text("kind") && (document["kind"] != "Config" || document["apiVersion"] != "v1")
}

/// What must hold of an object once it runs, as the lines of a check.
fn check_of(object: &Value) -> Option<String> {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str);
    let (kind, name) = (text("/kind")?, text("/metadata/name")?);
    let namespace = text("/metadata/namespace").map_or(String::new(), |name| format!("namespace = {}\n", quoted(name)));
    let reference = quoted(&format!("{}/{name}", kind.to_lowercase()));
    match kind {
        "Deployment" | "StatefulSet" => {
            let labels = object.pointer("/spec/selector/matchLabels")?.as_object()?;
            let labels: Vec<String> =
                labels.iter().filter_map(|(key, value)| Some(format!("{key}={}", value.as_str()?))).collect();
            let replicas = object.pointer("/spec/replicas").and_then(Value::as_u64).unwrap_or(1);
            Some(format!("pods = {}\n{namespace}running = {replicas}\n", quoted(&labels.join(","))))
        }
        "DaemonSet" => Some(format!(
            "object = {reference}\n{namespace}cel = \"object.status.numberReady == object.status.desiredNumberScheduled\"\n"
        )),
        "Pod" => Some(format!("object = {reference}\n{namespace}cel = \"object.status.phase == 'Running'\"\n")),
        _ => None,
    }
}

/// The task: what scripts check, and the script that solves it.
fn step(text: &mut String, files: &[File], notes: &mut Vec<String>) {
    let checks: Vec<&File> =
        files.iter().filter(|file| file.is_script(&["check", "verify", "grade", "test"])).collect();
    let solution = files.iter().find(|file| file.is_script(&["fix", "solution", "solve", "answer"]));
    if checks.is_empty() && solution.is_none() {
        return;
    }
    text.push_str("\n[[step]]\nname = \"task\"\n");
    // In a lab file, `{{` begins an expression.
    let is_text = |file: &&File| !["{{", "{%", "\"\"\"", "\\"].iter().any(|mark| file.text.contains(mark));
    match readme(files).filter(is_text) {
        Some(readme) => {
            let _ = write!(text, "text = \"\"\"\n{}\n\"\"\"\n", readme.text.trim());
        }
        None => text.push_str("text = \"What is to be done.\"\n"),
    }
    if let Some(solution) = solution {
        let _ = writeln!(text, "do = [{{ run = [\"bash\", {}] }}]", quoted(&solution.path));
        notes.push(format!("the step runs {}: `klab step --allow-run` does it", solution.path));
    }
    let mut known = Vec::new();
    for script in &checks {
        let lines = script.text.replace("\\\n", " ");
        let commands: Vec<&str> = lines.lines().filter(|line| line.contains("kubectl ")).collect();
        let read: Vec<String> = commands.iter().filter_map(|line| asked(line)).collect();
        let left = commands.len().saturating_sub(read.len());
        if left > 0 || commands.is_empty() {
            notes.push(format!("{} asks more than klab reads: write `[[step.check]]` for it", script.path));
        }
        known.extend(read.into_iter().filter(|check| !check.is_empty()));
    }
    known.dedup();
    for check in known {
        let _ = write!(text, "\n[[step.check]]\n{check}");
    }
}

/// What a line of a script asks of one object, as the lines of a check.
fn asked(line: &str) -> Option<String> {
    let mut words: Vec<&str> = line.split_once("kubectl ")?.1.split_whitespace().collect();
    let end = words.iter().position(|word| word.starts_with(['>', '|', '&', ';', '2']) || word.ends_with(';'));
    let is_piped = end.and_then(|end| words.get(end)) == Some(&"|");
    words.truncate(end.unwrap_or(words.len()));
    let mut namespace = String::new();
    if let Some(place) = words.iter().position(|word| ["-n", "--namespace"].contains(word)) {
        let value = words.get(place.saturating_add(1)).filter(|value| is_plain(value))?;
        namespace = format!("namespace = {}\n", quoted(value));
        words.drain(place..place.saturating_add(2));
    }
    let of = |reference: &str| {
        let (kind, name) = reference.split_once('/')?;
        (is_plain(kind) && is_plain(name)).then(|| format!("object = {}\n{namespace}", quoted(reference)))
    };
    match words.as_slice() {
        ["rollout", "status", reference, ..] => {
            Some(format!("{}cel = \"object.status.readyReplicas == object.spec.replicas\"\n", of(reference)?))
        }
        ["wait", rest @ ..] => {
            let condition = rest.iter().find_map(|word| word.strip_prefix("--for=condition="))?;
            let reference = rest.iter().find(|word| word.contains('/') && !word.starts_with('-'))?;
            let cel = format!("object.status.conditions.exists(c, c.type == '{condition}' && c.status == 'True')");
            is_plain(condition).then(|| of(reference))?.map(|check| format!("{check}cel = {}\n", quoted(&cel)))
        }
        ["get", kind, name] if !is_piped => Some(format!("{}exist = 1\n", of(&format!("{kind}/{name}"))?)),
        _ => None,
    }
}

/// Whether a word of a script stands for itself.
fn is_plain(word: &str) -> bool {
    !word.is_empty()
        && !word.starts_with('-')
        && word.chars().all(|letter| letter.is_ascii_alphanumeric() || "-.".contains(letter))
}

/// The text for people.
fn readme(files: &[File]) -> Option<&File> {
    files.iter().find(|file| file.name().eq_ignore_ascii_case("README.md"))
}

/// A text as TOML writes it.
fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn imported(files: &[(&str, &str)]) -> Imported {
        let file = |(path, text): &(&str, &str)| File { path: (*path).to_owned(), text: (*text).to_owned() };
        lab("demo", &files.iter().map(file).collect::<Vec<_>>()).unwrap()
    }

    const CONFIGURATION: &str = "kind: Cluster\napiVersion: kind.x-k8s.io/v1alpha4\nnodes:\n- role: control-plane\n\
        - role: worker\n- role: worker\n- role: worker\n  labels: { tier: batch }\n  kubeadmConfigPatches:\n  - |\n    \
        kind: JoinConfiguration\n    nodeRegistration:\n      taints: [{ key: dedicated, value: batch, effect: NoSchedule }]\n";
    const WEB: &str = "apiVersion: apps/v1\nkind: Deployment\nmetadata: { name: web, namespace: shop }\nspec:\n  replicas: 3\n  \
        selector: { matchLabels: { app: web } }\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: { name: settings }\n";

    #[test]
    fn workers_become_pools_and_what_runs_is_checked() {
        let Imported { text, notes } = imported(&[
            ("kind.yaml", CONFIGURATION),
            ("web.yaml", WEB),
            ("README.md", "# Batch nodes\n\nMake it so.\n"),
        ]);
        let wanted = "lab   = \"demo\"\ntitle = \"Batch nodes\"\n\n[sim]\nlike = \"kind\"\n\n\
            [pool.workers]\nmode = \"system\"\nnodes = 2\n\n\
            [pool.batch]\nnodes = 1\nlabels = { \"tier\" = \"batch\" }\ntaints = [\"dedicated=batch:NoSchedule\"]\n\n\
            [[manifest]]\npath = \"web.yaml\"\n\n\
            # What must hold after the set-up. Take out what the lab leaves broken on purpose.\n\n\
            [[check]]\npods = \"app=web\"\nnamespace = \"shop\"\nrunning = 3\n";
        assert_eq!(text, wanted);
        assert_eq!(notes, [""; 0]);
    }

    #[test]
    fn scripts_say_what_is_applied_done_and_checked() {
        let Imported { text, notes } = imported(&[
            ("assets/setup.sh", "kubectl apply -f \"$DIR/web.yaml\"\n"),
            ("assets/web.yaml", WEB),
            ("assets/later.yaml", "apiVersion: v1\nkind: Secret\nmetadata: { name: later }\n"),
            ("assets/me.yaml", "apiVersion: v1\nkind: Config\nusers: []\n"),
            ("fix.sh", "kubectl scale deployment web -n shop --replicas 4\n"),
            (
                "check.sh",
                "kubectl get secret later -n shop > /dev/null || exit 1\nkubectl rollout status deployment/web \\\n  -n shop\nkubectl -n shop wait --for=condition=Available deploy/web\nkubectl get pods -n shop | grep -c Running\n",
            ),
        ]);
        for part in [
            "\n[[manifest]]\npath = \"assets/web.yaml\"\n",
            "\n# [[manifest]]\n# path = \"assets/later.yaml\"\n",
            "\ndo = [{ run = [\"bash\", \"fix.sh\"] }]\n",
            "\n[[step.check]]\nobject = \"secret/later\"\nnamespace = \"shop\"\nexist = 1\n",
            "object = \"deployment/web\"\nnamespace = \"shop\"\ncel = \"object.status.readyReplicas == object.spec.replicas\"\n",
            "object = \"deploy/web\"\nnamespace = \"shop\"\ncel = \"object.status.conditions.exists(c, c.type == 'Available' && c.status == 'True')\"\n",
        ] {
            assert!(text.contains(part), "{part}\n{text}");
        }
        assert!(!text.contains("me.yaml"), "{text}");
        for part in ["no configuration for kind", "names assets/later.yaml", "runs fix.sh", "check.sh asks more"] {
            assert!(notes.iter().any(|note| note.contains(part)), "{part}: {notes:?}");
        }
    }

    #[test]
    fn nothing_of_a_script_that_is_not_plain_becomes_a_check() {
        for line in [
            "kubectl get pod \"$NAME\"",
            "kubectl get pod $(cat name)",
            "kubectl get pods -l app=web",
            "kubectl get pod a b",
            "kubectl wait --for=delete pod/a",
            "kubectl rollout status deployment/a'b",
            "kubectl -n \"$NS\" get pod a",
            "kubectl get pod a -o jsonpath='{.status}'",
            "kubectl",
            "kubectl get pod a | grep Running",
        ] {
            assert_eq!(asked(line), None, "{line}");
        }
    }
}
