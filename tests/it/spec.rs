//! Lab files: every rule has an invalid lab that shows it, valid labs are silent, and nothing panics.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use klab_lab::code::Code;
use klab_lab::spec::{self, Diagnostics, Lab, LoadOptions, load, parse, parse_bytes};
use klab_operations::render::render;
use proptest::prelude::*;

use crate::written::is_written;

/// Everything klab has to say about a lab file before anything is made.
fn problems(path: &Path, options: &LoadOptions) -> Diagnostics {
    match load(path, options) {
        Err(problems) => problems,
        Ok(lab) => {
            let mut problems = lab.warnings.clone();
            problems.extend(render(&lab).err().unwrap_or_default());
            problems
        }
    }
}

fn labs(directory: &str) -> Vec<PathBuf> {
    let mut paths: Vec<_> = std::fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "toml"))
        .collect();
    paths.sort();
    assert!(!paths.is_empty(), "there are no labs in {directory}");
    paths
}

/// The names of all cases that a lab file shows by itself.
fn names() -> BTreeSet<&'static str> {
    let of_files = Code::ALL.iter().filter(|code| (101..300).contains(&code.number()));
    of_files.map(|code| code.name()).collect()
}

/// Cases whose invalid lab is not a file that could be committed, or that only `klab check` finds.
const WITHOUT_FILE: [&str; 7] =
    ["unreadable", "too-big-file", "not-on-kind", "refused-object", "unknown-claim", "storage-class", "priority-class"];

#[test]
fn each_case_has_an_invalid_lab() {
    let files: BTreeSet<_> = labs("tests/labs/invalid")
        .iter()
        .map(|path| path.file_stem().unwrap().to_string_lossy().into_owned())
        .collect();
    let names = names();
    let wanted: BTreeSet<_> =
        names.iter().filter(|name| !WITHOUT_FILE.contains(name)).map(|name| (*name).to_owned()).collect();
    assert_eq!(files, wanted);
}

#[test]
fn every_invalid_lab_shows_its_code_and_no_other() {
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path("snapshots/invalid");
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.bind(|| {
        for path in labs("tests/labs/invalid") {
            let code = path.file_stem().unwrap().to_string_lossy().into_owned();
            let vars = if code == "wrong-variable" { vec![("replicas".to_owned(), "many".to_owned())] } else { vec![] };
            let found = problems(&path, &LoadOptions { vars, ..LoadOptions::default() });
            let codes: BTreeSet<_> = found.iter().map(|problem| problem.code.name()).collect();
            assert_eq!(codes, BTreeSet::from([code.as_str()]), "{found}");
            for problem in &found {
                assert_eq!(problem.location().is_none(), matches!(code.as_str(), "empty" | "not-utf8"), "{found}");
            }
            insta::assert_snapshot!(code, found.to_string());
        }
    });
}

#[test]
fn valid_labs_are_silent_and_render() {
    for path in labs("tests/labs/valid").into_iter().chain(labs("labs")) {
        let lab = load(&path, &LoadOptions::default()).unwrap_or_else(|problems| panic!("{problems}"));
        assert!(lab.warnings.is_empty(), "{}", lab.warnings);
        let manifests = render(&lab).unwrap_or_else(|problems| panic!("{problems}"));
        assert!(lab.workloads.iter().all(|workload| workload.deferred) || !manifests.is_empty());
    }
}

fn read(text: &str) -> Result<Lab, Diagnostics> {
    parse("lab.toml", text, &LoadOptions::default())
}

fn codes(result: Result<Lab, Diagnostics>) -> Vec<&'static str> {
    let problems = result.map_or_else(|problems| problems, |lab| lab.warnings);
    problems.iter().map(|problem| problem.code.name()).collect()
}

#[test]
fn size_that_the_table_lacks_is_taken_with_what_it_has() {
    for provider in ["sim", "kind", "aks"] {
        let lab = |size: &str| {
            format!(
                "lab = 'x'\nprovider = '{provider}'\n[pool.a]\nmode = 'system'\nsize = '{size}'\ncpu = 6\nmemory = '24Gi'\n"
            )
        };
        let taken = read(&lab("Standard_D6new_v9")).unwrap();
        let pool = &taken.pools[0];
        assert_eq!((pool.machine.cpu_millis, pool.machine.memory), (6000, 24 << 30));
        assert_eq!(klab_lab::plan::size_name(pool), "Standard_D6new_v9");
        // Of a size that the table has, the table says it.
        assert_eq!(codes(read(&lab("Standard_D2pls_v5"))), ["machine"]);
    }
}

#[test]
fn files_that_cannot_be_read_are_explained() {
    let directory = tempfile::tempdir().unwrap();
    let missing = directory.path().join("missing.toml");
    let large = directory.path().join("large.toml");
    std::fs::write(&large, vec![b'#'; (1 << 20) + 1]).unwrap();
    for (path, code, text) in [
        (missing.as_path(), "unreadable", "there is no such file"),
        (directory.path(), "unreadable", "it is a directory"),
        (large.as_path(), "too-big-file", "is larger than 1 MiB"),
    ] {
        let problems = load(path, &LoadOptions::default()).unwrap_err();
        assert_eq!(problems.iter().map(|problem| problem.code.name()).collect::<Vec<_>>(), [code]);
        assert!(problems.to_string().contains(text), "{problems}");
        assert!(problems.to_string().contains("help"), "{problems}");
    }
}

#[test]
fn all_problems_are_reported_at_once() {
    let found = codes(read(
        r#"
        lab = "My Lab"
        colour = "red"
        [pool.system]
        mode = "system"
        nodes = "two"
        [workload.web]
        image = "{{ vars.image }}"
        requests = { cpu = "much" }
        [[check]]
        workload = "wbe"
        running = "0.."
        "#,
    ));
    assert_eq!(
        found,
        ["lab-name", "unknown-key", "wrong-type", "template", "quantity", "unknown-workload", "cannot-fail"]
    );
}

#[test]
fn what_could_not_be_read_is_not_missed_a_second_time() {
    // The label that the selector wants is in a table that is wrong: no word about the selector.
    let found = codes(read(
        r#"
        lab = "a"
        [pool.system]
        labels = { disktype = 1 }
        [workload.web]
        node_selector = { disktype = "1" }
        "#,
    ));
    assert_eq!(found, ["wrong-type"]);
}

#[test]
fn problems_are_data_for_programs() {
    let problems = read("lab = \"a\"\n[pool.system]\nnods = 2\n").unwrap_err();
    let json = problems.to_json();
    assert_eq!((&json[0]["code"], &json[0]["case"]), (&"K0103".into(), &"unknown-key".into()));
    assert_eq!(json[0]["severity"], "error");
    assert_eq!(
        json[0]["at"],
        serde_json::json!({ "file": "lab.toml", "line": 3, "column": 1, "end_line": 3, "end_column": 5 })
    );
    assert_eq!(json[0]["help"][0]["with"], "nodes");
}

#[test]
fn variables_come_from_the_file_the_provider_and_the_command_line_in_this_order() {
    let text = r#"
        lab = "a"
        [vars]
        registry = "docker.io"
        image = "{{ vars.registry }}/nginx"
        replicas = 2
        [vars.kind]
        registry = "localhost:5000"
        [pool.system]
        [workload.web]
        image = "{{ vars.image }}:{{ provider }}-{{ lab }}-{{ pool.system.nodes | default(value=1) }}"
        replicas = "{{ vars.replicas }}"
    "#;
    let image = |provider, vars: &[(&str, &str)]| {
        let vars = vars.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let lab = parse("lab.toml", text, &LoadOptions { vars, provider, ..LoadOptions::default() })
            .unwrap_or_else(|problems| panic!("{problems}"));
        let web = lab.workload("web").unwrap();
        (web.image.value.clone(), web.replicas.as_ref().unwrap().value)
    };
    assert_eq!(image(None, &[]), ("docker.io/nginx:sim-a-1".to_owned(), 2));
    assert_eq!(
        image(Some(spec::Provider::Kind), &[("replicas", "5")]),
        ("localhost:5000/nginx:kind-a-1".to_owned(), 5)
    );
    assert_eq!(image(None, &[("image", "busybox")]).0, "busybox:sim-a-1");
    let unknown =
        parse("lab.toml", text, &LoadOptions { vars: vec![("imgae".into(), "x".into())], ..LoadOptions::default() });
    assert!(unknown.unwrap_err().to_string().contains("did you mean `--var image=x`?"));
}

#[test]
fn the_schema_is_committed() {
    is_written(Path::new("schema/lab.schema.json"), &spec::schema());
}

#[test]
fn every_key_of_the_schema_is_described() {
    fn visit(path: &str, value: &serde_json::Value, missing: &mut Vec<String>) {
        if let Some(properties) = value["properties"].as_object() {
            for (name, property) in properties {
                // Forms of actions only name keys that are described elsewhere.
                if property != &serde_json::Value::Bool(true) && property["description"].as_str().is_none() {
                    missing.push(format!("{path}.{name}"));
                }
            }
        }
        if let Some(definitions) = value["definitions"].as_object() {
            definitions.iter().for_each(|(name, definition)| visit(name, definition, missing));
        }
    }
    let schema: serde_json::Value = serde_json::from_str(&spec::schema()).unwrap();
    let mut missing = Vec::new();
    visit("", &schema, &mut missing);
    assert!(missing.is_empty(), "without description: {missing:?}");
}

/// Words and shapes of lab files, put together at random.
fn toml_like() -> impl Strategy<Value = String> {
    let word = prop::sample::select(vec![
        "lab",
        "pool",
        "workload",
        "check",
        "step",
        "vars",
        "do",
        "nodes",
        "size",
        "labels",
        "taints",
        "a",
        "running",
        "pending",
        "placement",
        "on",
        "affinity",
        "tolerations",
        "nodeAffinity",
        "topology_spread",
        "manifest",
        "yaml",
        "kind",
        "aks",
        "sim",
        "requests",
        "cpu",
        "spread",
        "scale",
        "taint",
        "name",
        "image",
        "autoscale",
        "min",
    ]);
    let value = prop::sample::select(vec![
        "1",
        "-1",
        "1.5",
        "true",
        "\"\"",
        "\"a\"",
        "\"{{ vars.a }}\"",
        "\"{{\"",
        "[]",
        "[1]",
        "{}",
        "[{}]",
        "\"pool:a\"",
        "\"0..\"",
        "\"a=b:NoSchedule\"",
        "{ a = 1 }",
        "\"é\"",
        "1979-05-27",
        "99999999999999999999",
        "inf",
        "\"1Gi\"",
        "\"deployment\"",
        "[\"a\", 1]",
        "\"\\u0000\"",
        "'''{{ 1 / 0 }}'''",
    ]);
    let key = prop::collection::vec(word.clone(), 1..4).prop_map(|words| words.join("."));
    let line = prop_oneof![
        (key.clone(), value).prop_map(|(key, value)| format!("{key} = {value}")),
        key.clone().prop_map(|key| format!("[{key}]")),
        key.prop_map(|key| format!("[[{key}]]")),
    ];
    prop::collection::vec(line, 0..12).prop_map(|lines| format!("lab = \"x\"\n{}", lines.join("\n")))
}

proptest! {
    #[test]
    fn bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let result = parse_bytes("x.toml", bytes, &LoadOptions::default());
        if let Err(problems) = result {
            prop_assert!(problems.errors() > 0);
            prop_assert!(!problems.to_string().is_empty());
        }
    }

    #[test]
    fn text_never_panics(text in "\\PC{0,200}") {
        if let Err(problems) = parse("x.toml", &text, &LoadOptions::default()) {
            prop_assert!(!problems.to_string().is_empty());
        }
    }

    #[test]
    fn labs_of_random_parts_never_panic(text in toml_like()) {
        match parse("x.toml", &text, &LoadOptions::default()) {
            Err(problems) => {
                prop_assert!(problems.errors() > 0, "{problems}");
                prop_assert!(!problems.render(true).is_empty());
            }
            Ok(lab) => {
                if let Err(problems) = render(&lab) {
                    prop_assert!(!problems.to_string().is_empty());
                }
            }
        }
    }
}

#[test]
fn deep_nesting_is_refused_and_not_followed() {
    let deep = |open: &str, close: &str| open.repeat(100_000) + &close.repeat(100_000);
    for text in [
        format!("lab = \"a\"\n[pool.system]\nlabels = {}", deep("[", "]")),
        format!("lab = \"a\"\nx = {}1{}", "{ a = ".repeat(50_000), " }".repeat(50_000)),
        format!("lab = \"a\"\n[{}]", vec!["a"; 100_000].join(".")),
        format!("lab = \"a\"\ntitle = \"{{{{ {} }}}}\"\n[pool.system]", deep("(", ")")),
        format!("lab = \"a\"\ntitle = \"{}\"\n[pool.system]", "{% if true %}".repeat(50_000)),
        format!("lab = \"a\"\ntitle = \"{{{{ {} 1 }}}}\"\n[pool.system]", "not ".repeat(100_000)),
    ] {
        assert!(read(&text).is_err());
    }
    let yaml = format!("lab = \"a\"\n[pool.system]\n[[manifest]]\nyaml = \"{}\"", deep("[", "]"));
    assert!(render(&read(&yaml).unwrap()).is_err());
}
