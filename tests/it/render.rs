//! Rendering: values arrive as they are, every object is labelled, and mistakes in templates are shown where they are.

use klab_lab::spec::{Action, Diagnostics, Lab, LoadOptions, load, parse};
use klab_operations::render::{Manifest, render, render_content, render_workload};
use proptest::prelude::*;
use serde_json::{Value, json};

fn lab(text: &str) -> Lab {
    parse("lab.toml", text, &LoadOptions::default()).unwrap_or_else(|problems| panic!("{problems}"))
}

fn rendered(lab: &Lab) -> Vec<Manifest> {
    render(lab).unwrap_or_else(|problems| panic!("{problems}"))
}

fn find<'a>(manifests: &'a [Manifest], kind: &str, name: &str) -> &'a Value {
    let wanted = |manifest: &&Manifest| manifest.kind() == kind && manifest.name() == name;
    &manifests.iter().find(wanted).unwrap_or_else(|| panic!("no {kind} {name}")).object
}

/// A lab that holds a string in every place where a string is free.
fn lab_with(text: &str) -> Lab {
    let mut lab = lab("lab = \"a\"\n[pool.system]\n[config.c]\n[workload.web]\nimage = \"nginx\"");
    let workload = &mut lab.workloads[0];
    workload.env = vec![("VALUE".to_owned(), text.to_owned())];
    workload.args = vec![text.to_owned()];
    workload.annotations.insert("note".to_owned(), text.to_owned());
    lab.bundles[0].data.insert("key".to_owned(), text.to_owned());
    lab
}

fn arrives(text: &str) -> Result<(), TestCaseError> {
    let lab = lab_with(text);
    let manifests = render(&lab).map_err(|problems| TestCaseError::fail(problems.to_string()))?;
    let pod = &find(&manifests, "Deployment", "web")["spec"]["template"];
    let container = &pod["spec"]["containers"][0];
    prop_assert_eq!(&container["env"][0]["value"], text);
    prop_assert_eq!(&container["args"][0], text);
    prop_assert_eq!(&pod["metadata"]["annotations"]["note"], text);
    prop_assert_eq!(&find(&manifests, "ConfigMap", "c")["data"]["key"], text);
    Ok(())
}

#[test]
fn values_that_yaml_would_change_arrive_unchanged() {
    for text in [
        "off",
        "no",
        "y",
        "~",
        "null",
        "1.20",
        "010",
        "0x1F",
        "1e3",
        "1_000",
        ".inf",
        "12:30:45",
        "2026-01-01",
        "",
        " ",
        "a: b",
        "# c",
        "- d",
        "{e}",
        "[f]",
        "*g",
        "&h",
        "!i",
        "|",
        ">",
        "%",
        "@",
        "`",
        "'",
        "\"",
        "\\",
        "\n",
        "a\nb\n",
        "\ttab",
        "---",
        "--- x",
        "...",
        "žluťoučký",
        "日本語",
        "🦀",
        "\u{feff}",
        "\u{2028}",
        "\u{85}",
        "\u{7f}",
        "{{ lab }}",
        "{% raw %}",
        "<<",
        "=",
    ] {
        arrives(text).unwrap_or_else(|error| panic!("{text:?}: {error}"));
    }
}

proptest! {
    #[test]
    fn any_string_arrives_unchanged(text in any::<String>()) {
        arrives(&text)?;
    }

    #[test]
    fn labels_written_as_toml_arrive_as_strings(value in "[a-z0-9]([a-z0-9._-]{0,20}[a-z0-9])?") {
        let text = format!("lab = \"a\"\n[pool.system]\nlabels = {{ x = \"{value}\" }}\n[workload.web]\nnode_selector = {{ x = \"{value}\" }}\n");
        let manifests = rendered(&lab(&text));
        let pod = &find(&manifests, "Deployment", "web")["spec"]["template"]["spec"];
        prop_assert_eq!(&pod["nodeSelector"]["x"], &value);
    }
}

#[test]
fn everything_renders_to_what_kubernetes_expects() {
    let lab = load("tests/labs/valid/everything.toml".as_ref(), &LoadOptions::default()).unwrap();
    let manifests = rendered(&lab);
    let kinds: Vec<_> = manifests
        .iter()
        .map(|manifest| {
            let namespace = manifest.namespace().map(|namespace| format!("{namespace}/")).unwrap_or_default();
            format!("{} {namespace}{}", manifest.kind(), manifest.name())
        })
        .collect();
    insta::assert_snapshot!(kinds.join("\n"));
    insta::assert_snapshot!(serde_json::to_string_pretty(find(&manifests, "Deployment", "web")).unwrap());
    for manifest in &manifests {
        let labels = &manifest.object["metadata"]["labels"];
        assert_eq!(labels["app.kubernetes.io/managed-by"], "klab", "{manifest:?}");
        assert_eq!(labels["klab.dev/lab"], "everything", "{manifest:?}");
    }
    assert_eq!(find(&manifests, "Job", "task")["spec"]["template"]["spec"]["restartPolicy"], "Never");
    assert_eq!(find(&manifests, "PersistentVolume", "disk")["metadata"].get("namespace"), None);
    assert_eq!(find(&manifests, "ConfigMap", "plain")["data"], json!({ "on": "off" }));
    let own = find(&manifests, "ReplicaSet", "own");
    assert_eq!(own["spec"]["template"]["metadata"]["labels"]["klab.dev/workload"], "own");
}

#[test]
fn secrets_are_rendered_and_never_shown() {
    let lab = load("tests/labs/valid/everything.toml".as_ref(), &LoadOptions::default()).unwrap();
    let manifests = rendered(&lab);
    let secret = manifests.iter().find(|manifest| manifest.is_secret()).unwrap();
    // klab, and the bytes 74 6f 6b ff 65 6e of the file.
    assert_eq!(secret.object["data"], json!({ "user": "a2xhYg==", "token": "dG9r/2Vu" }));
    for shown in [format!("{secret:?}"), format!("{lab:?}"), secret.shown().to_string()] {
        assert!(!shown.contains("a2xhYg") && !shown.contains("dG9r"), "{shown}");
    }
    assert!(!format!("{:?}", lab.files).contains("255"));
}

#[test]
fn a_spread_without_selector_counts_the_workloads_own_pods() {
    let lab = lab(r#"
        lab = "a"
        [pool.system]
        [workload.web]
        topology_spread = [{ maxSkew = 1, topologyKey = "kubernetes.io/hostname", whenUnsatisfiable = "DoNotSchedule" }]
    "#);
    let manifests = rendered(&lab);
    let deployment = find(&manifests, "Deployment", "web");
    let constraint = &deployment["spec"]["template"]["spec"]["topologySpreadConstraints"][0];
    assert_eq!(constraint["labelSelector"]["matchLabels"], deployment["spec"]["selector"]["matchLabels"]);
    assert_eq!(constraint["maxSkew"], 1);
}

#[test]
fn namespaces_that_nobody_declares_come_first() {
    let lab = lab(r#"
        lab = "a"
        [pool.system]
        [namespace.known]
        labels = { team = "x" }
        [workload.web]
        namespace = "unknown"
        [workload.api]
        namespace = "known"
        [workload.agent]
        namespace = "kube-system"
    "#);
    let manifests = rendered(&lab);
    let names: Vec<_> = manifests.iter().map(|manifest| (manifest.kind(), manifest.name())).collect();
    assert_eq!(names[..2], [("Namespace", "unknown"), ("Namespace", "known")]);
    assert_eq!(names.len(), 5);
    assert_eq!(find(&manifests, "Namespace", "known")["metadata"]["labels"]["team"], "x");
}

#[test]
fn steps_render_workloads_and_files_on_their_own() {
    let lab = load("tests/labs/valid/everything.toml".as_ref(), &LoadOptions::default()).unwrap();
    assert!(rendered(&lab).iter().all(|manifest| manifest.name() != "later"));
    let later = render_workload(&lab, lab.workload("later").unwrap()).unwrap();
    assert_eq!((later.len(), later[0].name(), later[0].namespace()), (1, "later", Some("team-b")));
    let content = lab.steps.iter().flat_map(|step| &step.actions).find_map(|action| match &action.value {
        Action::Apply { content } => Some(content),
        _ => None,
    });
    assert_eq!(render_content(&lab, content.unwrap()).unwrap().len(), 2);
}

#[test]
fn a_step_changes_what_it_names_and_clears_what_is_empty() {
    let lab = load("tests/labs/valid/everything.toml".as_ref(), &LoadOptions::default()).unwrap();
    let (change, at) = lab
        .steps
        .iter()
        .flat_map(|step| &step.actions)
        .find_map(|action| match &action.value {
            Action::Set { fields, .. } => Some((fields, &action.at)),
            _ => None,
        })
        .unwrap();
    let changed = change.applied_to(lab.workload("web").unwrap(), at);
    let manifests = render_workload(&lab, &changed).unwrap();
    let pod = &find(&manifests, "Deployment", "web")["spec"]["template"]["spec"];
    assert_eq!(pod["containers"][0]["image"], "nginx:1.28");
    assert_eq!(pod["containers"][0]["resources"], json!({ "requests": { "cpu": "100m" } }));
    for cleared in ["nodeSelector", "tolerations", "affinity", "topologySpreadConstraints", "priorityClassName"] {
        assert_eq!(pod.get(cleared), None, "{cleared}");
    }
    assert_eq!(pod["schedulerName"], "default-scheduler");
}

/// A lab in a directory with further files.
fn in_directory(lab: &str, files: &[(&str, &str)]) -> Result<Vec<Manifest>, Diagnostics> {
    let directory = tempfile::tempdir().unwrap();
    for (name, content) in files.iter().chain([&("lab.toml", lab)]) {
        let path = directory.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }
    render(&load(&directory.path().join("lab.toml"), &LoadOptions::default())?)
}

/// Problems as text, without the directory of the test.
fn problems(result: Result<Vec<Manifest>, Diagnostics>) -> String {
    let text = result.unwrap_err().to_string();
    let words = text.split_inclusive(' ').map(|word| match word.rsplit_once('/') {
        Some((path, name)) if path.starts_with('/') => name,
        _ => word,
    });
    words.collect()
}

const OWN: &str = "lab = \"a\"\n[vars]\nsize = 3\n[pool.system]\n[workload.web]\ntemplate = \"web.yaml.tera\"\n";

#[test]
fn templates_know_the_names_of_nodes() {
    let lab =
        "lab = \"a\"\n[pool.system]\nnodes = 2\nnames = [\"control\"]\n[[manifest]]\npath = \"names.yaml.tera\"\n";
    let template = "apiVersion: v1\nkind: ConfigMap\nmetadata: { name: names }\ndata:\n  \
                    nodes: \"{{ pool.system.node_names | join(sep=' ') }}\"\n";
    let manifests = in_directory(lab, &[("names.yaml.tera", template)]).unwrap();
    let names = find(&manifests, "ConfigMap", "names")["data"]["nodes"].as_str().unwrap();
    let (first, second) = names.split_once(' ').unwrap();
    assert!(first == "control" && second.starts_with("aks-system-"), "{names}");
}

#[test]
fn a_mistake_in_a_template_is_shown_in_the_template() {
    let template = "apiVersion: v1\nkind: Pod\nmetadata:\n  name: {{ workload.nam | json }}\n";
    insta::assert_snapshot!(problems(in_directory(OWN, &[("web.yaml.tera", template)])), @"
    error[K0109]: web.yaml.tera: the template cannot be rendered
     --> web.yaml.tera:4:12
      |
    4 |   name: {{ workload.nam | json }}
      |            ^^^^^^^^^^^^ `workload.nam` is not defined
      |
      = note: asked for at lab.toml:6
    ");
    let template = "kind: Pod\n{% if vars.size > 2 %}\nmetadata: {}\n";
    insta::assert_snapshot!(problems(in_directory(OWN, &[("web.yaml.tera", template)])), @r"
    error[K0109]: web.yaml.tera: the template cannot be parsed
     --> web.yaml.tera:2:23
      |
    2 |   {% if vars.size > 2 %}
      |  _______________________^
    3 | | metadata: {}
      | |_____________^ Unexpected end of input
      |
      = note: asked for at lab.toml:6
    ");
}

#[test]
fn yaml_that_a_template_spoilt_is_shown_as_rendered() {
    let template =
        "apiVersion: v1\nkind: Pod\nmetadata:\n  name: {{ workload.name }}\n  labels: { size: {{ vars.size }}: }\n";
    insta::assert_snapshot!(problems(in_directory(OWN, &[("web.yaml.tera", template)])), @"
    error[K0119]: web.yaml.tera is not YAML
     --> web.yaml.tera (rendered for workload `web`):5:20
      |
    5 |   labels: { size: 3: }
      |                    ^^^ while parsing a flow mapping, did not find expected ',' or '}'
      |
      = note: asked for at lab.toml:6
    ");
}

#[test]
fn files_of_several_documents_know_their_lines() {
    let lab = "lab = \"a\"\n[pool.system]\n[[manifest]]\npath = \"k8s/*.yaml\"\n";
    let first = "# comment\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: { name: a }\n---\n\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: { name: b }\n...\n";
    let second = "apiVersion: v1\nkind: ConfigMap\nmetadata: { name: c, namespace: x }\n";
    let manifests = in_directory(lab, &[("k8s/1.yaml", first), ("k8s/2.yaml", second), ("k8s/3.yaml", "# nothing\n")]);
    let manifests = manifests.unwrap_or_else(|problems| panic!("{problems}"));
    let places: Vec<_> = manifests
        .iter()
        .filter(|manifest| manifest.kind() == "ConfigMap")
        .map(|manifest| (manifest.name(), manifest.origin.file.rsplit('/').next().unwrap(), manifest.origin.line))
        .collect();
    assert_eq!(places, [("a", "1.yaml", 3), ("b", "1.yaml", 9), ("c", "2.yaml", 1)]);
}

#[test]
fn duplicate_keys_of_yaml_are_refused() {
    let lab = "lab = \"a\"\n[pool.system]\n[[manifest]]\npath = \"a.yaml\"\n";
    let yaml = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n  name: b\n";
    insta::assert_snapshot!(problems(in_directory(lab, &[("a.yaml", yaml)])), @"
    error[K0119]: a.yaml is not YAML
     --> a.yaml:5:3
      |
    5 |   name: b
      |   ^^^^^^^ duplicate mapping key: name
      |
      = note: asked for at lab.toml:4
    ");
}
