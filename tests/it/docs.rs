//! The documentation: every TOML block is what it says it is, and every key of the lab file has an example.
//!
//! A block ```` ```toml ```` that names a lab is complete; another one is a piece that goes with the complete lab before
//! it. Blocks ```` ```toml part ```` of a folder's pages are one lab together. ```` ```toml wrong CODE ```` shows a mistake.

mod commands;
mod generated;
mod lessons;
mod pages;
mod reference;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use klab_lab::spec::{self, Diagnostics, LoadOptions, load};
use klab_operations::render::render;
use serde_json::Value;

/// The frame of pieces on pages without a complete lab.
const FRAME: &str = "lab = \"frame\"\n\n[pool.system]\n";

/// Files that examples refer to.
const FILES: [(&str, &str); 5] = [
    ("quota.yaml", "apiVersion: v1\nkind: ResourceQuota\nmetadata: { name: quota }\n"),
    ("web.yaml.tera", "apiVersion: v1\nkind: Pod\nmetadata: { name: {{ workload.name | json }} }\n"),
    ("pages/index.html", "<p>Hello.</p>\n"),
    ("token.key", "secret\n"),
    ("k8s/config.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: { name: own }\n"),
];

/// The pages of `docs/`, in the order of their paths.
fn pages() -> Vec<PathBuf> {
    let (mut folders, mut pages) = (vec![PathBuf::from("docs")], Vec::new());
    while let Some(folder) = folders.pop() {
        for path in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                pages.push(path);
            }
        }
    }
    pages.sort();
    pages
}

/// Those and the pages beside them that users read.
fn all_pages() -> Vec<PathBuf> {
    let beside = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md"].map(PathBuf::from);
    pages().into_iter().chain(beside).collect()
}

/// What a block shows.
enum Shows {
    Right,
    Mistake(String),
}

/// A lab made of blocks, and where the last of them begins.
struct Example {
    place: String,
    text: String,
    shows: Shows,
}

fn examples() -> Vec<Example> {
    let mut examples = Vec::new();
    let mut parts: BTreeMap<PathBuf, String> = BTreeMap::new();
    // The examples of codes are tested where they stand.
    for page in all_pages().into_iter().filter(|page| !page.starts_with("docs/look-up/codes")) {
        let document = std::fs::read_to_string(&page).unwrap();
        let mut frame = FRAME.to_owned();
        let mut lines = document.lines().enumerate();
        while let Some((number, line)) = lines.next() {
            let Some(info) = line.strip_prefix("```toml") else { continue };
            let block: Vec<&str> =
                lines.by_ref().map(|(_, line)| line).take_while(|line| !line.starts_with("```")).collect();
            let block = block.join("\n") + "\n";
            let place = format!("{}:{}", page.display(), number + 1);
            let complete = block.lines().any(|line| line.starts_with("lab "));
            match info.trim() {
                "part" => parts.entry(page.parent().unwrap().to_owned()).or_default().push_str(&block),
                "" if complete => {
                    frame.clone_from(&block);
                    examples.push(Example { place, text: block, shows: Shows::Right });
                }
                "" => examples.push(Example { place, text: format!("{frame}\n{block}"), shows: Shows::Right }),
                info => {
                    let code = info.strip_prefix("wrong ").unwrap_or_else(|| panic!("{place}: what is `{info}`?"));
                    let shows = Shows::Mistake(code.to_owned());
                    examples.push(Example { place, text: format!("{frame}\n{block}"), shows });
                }
            }
        }
    }
    let parts = parts.into_iter();
    examples.extend(parts.map(|(folder, text)| Example {
        place: folder.display().to_string(),
        text,
        shows: Shows::Right,
    }));
    examples
}

/// Everything klab has to say about a lab file before anything is made.
fn problems(text: &str) -> Diagnostics {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("lab.toml");
    std::fs::write(&path, text).unwrap();
    for (file, text) in FILES {
        let file = folder.path().join(file);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, text).unwrap();
    }
    match load(&path, &LoadOptions::default()) {
        Err(problems) => problems,
        Ok(lab) => {
            let mut problems = lab.warnings.clone();
            problems.extend(render(&lab).err().unwrap_or_default());
            problems
        }
    }
}

#[test]
fn every_block_is_what_it_says() {
    let examples = examples();
    assert!(examples.len() > 25, "there are only {} examples", examples.len());
    for Example { place, text, shows } in examples {
        let found = problems(&text);
        match shows {
            Shows::Right => assert!(found.is_empty(), "{place}\n{found}"),
            Shows::Mistake(code) => {
                let codes: Vec<_> = found.iter().map(|problem| problem.code.name()).collect();
                assert_eq!(codes, [code.as_str()], "{place}\n{found}");
            }
        }
    }
}

#[test]
fn every_key_has_an_example() {
    let schema: Value = serde_json::from_str(&spec::schema()).unwrap();
    let mut wanted = BTreeSet::new();
    let definitions = schema["definitions"].as_object().unwrap();
    for (name, definition) in
        definitions.iter().map(|(name, definition)| (name.as_str(), definition)).chain([("Lab", &schema)])
    {
        // Structures of Kubernetes have its documentation.
        if !name.starts_with("Kubernetes") {
            let keys = definition["properties"].as_object().into_iter().flat_map(|properties| properties.keys());
            wanted.extend(keys.map(|key| (name.to_owned(), key.clone())));
        }
    }
    assert!(wanted.len() > 150, "{}", wanted.len());
    let mut used = BTreeSet::new();
    for example in examples().iter().filter(|example| matches!(example.shows, Shows::Right)) {
        let lab: Value = toml::from_str(&example.text).unwrap();
        keys(&lab, &schema, "Lab", &schema, &mut used);
    }
    let missing: Vec<String> = wanted.difference(&used).map(|(table, key)| format!("{key} of {table}")).collect();
    assert!(missing.is_empty(), "no example in docs/ uses {}", missing.join(", "));
}

/// The keys of a value, each with the definition of the schema that it belongs to.
fn keys(value: &Value, schema: &Value, name: &str, root: &Value, used: &mut BTreeSet<(String, String)>) {
    if let Some(reference) = schema["$ref"].as_str() {
        let name = reference.trim_start_matches("#/definitions/");
        return keys(value, &root["definitions"][name], name, root, used);
    }
    for alternatives in ["allOf", "anyOf"] {
        for alternative in schema[alternatives].as_array().into_iter().flatten() {
            keys(value, alternative, name, root, used);
        }
    }
    for item in value.as_array().into_iter().flatten() {
        keys(item, &schema["items"], name, root, used);
    }
    for (key, value) in value.as_object().into_iter().flatten() {
        match schema["properties"].get(key) {
            Some(schema) => {
                used.insert((name.to_owned(), key.clone()));
                keys(value, schema, name, root, used);
            }
            None => keys(value, &schema["additionalProperties"], name, root, used),
        }
    }
}

/// What of the source does something that only one file may do.
#[test]
fn only_one_file_reads_the_environment() {
    let (mut folders, mut others) =
        (["src", "crates/operations/src", "crates/host/src"].map(std::path::PathBuf::from).to_vec(), Vec::new());
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path != Path::new("crates/operations/src/environment.rs")
                && std::fs::read_to_string(&path).unwrap().contains("env::var")
            {
                others.push(path);
            }
        }
    }
    assert!(others.is_empty(), "{others:?}");
}
