//! The documentation: every TOML block is what it says it is, every key of the lab file has an example, every link leads
//! somewhere, and the shipped lessons are described.
//!
//! A block ```` ```toml ```` that names a lab is complete; another one is a piece that goes with the complete lab before
//! it. Blocks ```` ```toml part ```` of a page are one lab together. ```` ```toml wrong CODE ```` shows a mistake.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use klab::environment::{self, Audience};
use klab::event;
use klab::render::render;
use klab_lab::spec::{self, Diagnostics, LoadOptions, load};
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

fn pages() -> Vec<PathBuf> {
    let docs = std::fs::read_dir("docs").unwrap().map(|entry| entry.unwrap().path());
    let mut pages: Vec<_> = docs.filter(|path| path.extension().is_some_and(|extension| extension == "md")).collect();
    pages.extend([PathBuf::from("README.md"), PathBuf::from("CONTRIBUTING.md")]);
    pages.sort();
    pages
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
    for page in pages() {
        let document = std::fs::read_to_string(&page).unwrap();
        let (mut frame, mut parts) = (FRAME.to_owned(), String::new());
        let mut lines = document.lines().enumerate();
        while let Some((number, line)) = lines.next() {
            let Some(info) = line.strip_prefix("```toml") else { continue };
            let block: Vec<&str> =
                lines.by_ref().map(|(_, line)| line).take_while(|line| !line.starts_with("```")).collect();
            let block = block.join("\n") + "\n";
            let place = format!("{}:{}", page.display(), number + 1);
            let complete = block.lines().any(|line| line.starts_with("lab "));
            match info.trim() {
                "part" => parts.push_str(&block),
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
        if !parts.is_empty() {
            examples.push(Example { place: page.display().to_string(), text: parts, shows: Shows::Right });
        }
    }
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
                let codes: Vec<_> = found.iter().map(|problem| problem.code).collect();
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

#[test]
fn links_lead_somewhere() {
    for page in pages() {
        let document = std::fs::read_to_string(&page).unwrap();
        for link in document.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let file = link.split('#').next().unwrap();
            let target = page.parent().unwrap().join(file);
            assert!(link.contains("://") || file.is_empty() || target.exists(), "{}: {link}", page.display());
        }
    }
    let index = std::fs::read_to_string("docs/README.md").unwrap();
    for page in pages().iter().filter(|page| page.starts_with("docs") && !page.ends_with("README.md")) {
        let name = page.file_name().unwrap().to_string_lossy();
        assert!(index.contains(&format!("({name})")), "docs/README.md does not lead to {name}");
    }
}

/// The tables of `docs/lessons.md` are made from the labs: `KLAB_BLESS=1 cargo test --test it docs::` writes them again.
#[test]
fn the_lessons_are_described() {
    let path = Path::new("docs/lessons.md");
    let document = std::fs::read_to_string(path).unwrap();
    let (mut wanted, mut lab, mut in_rows) = (String::new(), "", false);
    for line in document.lines() {
        if let Some(name) = line.strip_prefix("`labs/").and_then(|rest| rest.split('`').next()) {
            lab = name;
        }
        if in_rows && line.starts_with("| `") {
            continue;
        }
        in_rows = line == "|---|---|---|";
        wanted.push_str(line);
        wanted.push('\n');
        if in_rows {
            wanted.push_str(&rows(&Path::new("labs").join(lab)));
        }
    }
    if std::env::var_os("KLAB_BLESS").is_some() {
        std::fs::write(path, &wanted).unwrap();
    }
    assert!(
        document == wanted,
        "`KLAB_BLESS=1 cargo test --test it docs::` writes the tables of docs/lessons.md again"
    );
    for entry in std::fs::read_dir("labs").unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "toml") {
            assert!(
                document.contains(&format!("`{}`", path.display())),
                "docs/lessons.md leaves out {}",
                path.display()
            );
        }
    }
}

/// A row for each step of a lab, with the providers that leave it out.
fn rows(lab: &Path) -> String {
    let lab: Value = toml::from_str(&std::fs::read_to_string(lab).unwrap()).unwrap();
    let row = |step: &Value| {
        let skipped = step["skip"].as_object().into_iter().flatten();
        let skipped: Vec<_> = skipped.map(|(provider, why)| format!("{provider}: {}", why.as_str().unwrap())).collect();
        format!(
            "| `{}` | {} | {} |\n",
            step["name"].as_str().unwrap(),
            step["title"].as_str().unwrap(),
            skipped.join("; ")
        )
    };
    lab["step"].as_array().unwrap().iter().map(row).collect()
}

/// The tables of `docs/environment.md` are made from the variables: `KLAB_BLESS=1 cargo test -p klab --test it docs::` writes
/// them again.
#[test]
fn environment_variables_are_described() {
    let path = Path::new("docs/environment.md");
    let document = std::fs::read_to_string(path).unwrap();
    let mut audiences = [Audience::Users, Audience::Others, Audience::Tests].into_iter();
    let mut wanted = String::new();
    for line in document.lines().filter(|line| !line.starts_with("| `")) {
        wanted.push_str(line);
        wanted.push('\n');
        if line == "|---|---|" {
            let audience = audiences.next().unwrap();
            for variable in environment::ALL.iter().filter(|variable| variable.audience == audience) {
                wanted.push_str(&format!("| `{}` | {} |\n", variable.name, variable.meaning));
            }
        }
    }
    assert_eq!(audiences.next(), None, "docs/environment.md has a table for everybody");
    if std::env::var_os("KLAB_BLESS").is_some() {
        std::fs::write(path, &wanted).unwrap();
    }
    assert!(document == wanted, "`KLAB_BLESS=1 cargo test -p klab --test it docs::` writes docs/environment.md again");
}

/// The tables of `docs/events.md` are made from the events, as those of the environment are from its variables.
#[test]
fn events_are_described() {
    let path = Path::new("docs/events.md");
    let document = std::fs::read_to_string(path).unwrap();
    let frame = "| field | meaning |\n|---|---|\n";
    let (intro, _) = document.split_once(frame).unwrap();
    let table = |fields: &[(&str, &str)]| -> String {
        let rows: String = fields.iter().map(|(field, meaning)| format!("| `{field}` | {meaning} |\n")).collect();
        format!("{frame}{rows}")
    };
    let mut wanted = format!("{intro}{}", table(event::COMMON));
    for row in event::DESCRIBED {
        wanted.push_str(&format!("\n## `{}`\n\n{}\n\n{}", row.name, row.meaning, table(row.fields)));
    }
    wanted.push_str(&actions());
    wanted.push_str(&warnings());
    if std::env::var_os("KLAB_BLESS").is_some() {
        std::fs::write(path, &wanted).unwrap();
    }
    assert!(document == wanted, "`KLAB_BLESS=1 cargo test -p klab --test it docs::` writes docs/events.md again");
}

/// The codes of activities, each with its words and what its number is.
fn actions() -> String {
    let mut text =
        "\n## Actions\n\nThe codes of `action`. One word stands where something begins that another event ends, or \
                    where something was found or changed at once. The `count` is absent where there is none.\n\n\
                    | `action` | `verb` | `count` |\n|---|---|---|\n"
            .to_owned();
    for verb in event::Verb::ALL {
        let words = if verb.doing() == verb.done() {
            verb.done().to_owned()
        } else {
            format!("{}, {}", verb.doing(), verb.done())
        };
        text.push_str(&format!("| `{}` | {words} | {} |\n", verb.action(), verb.counts()).replace("|  |", "| |"));
    }
    text
}

/// The codes of warnings, each with its meaning.
fn warnings() -> String {
    let row = |warning: &event::Warning| format!("| `{}` | {} |\n", warning.code(), warning.meaning());
    let rows: String = event::Warning::ALL.iter().map(row).collect();
    format!("\n## Warnings\n\nThe codes of `code`.\n\n| `code` | meaning |\n|---|---|\n{rows}")
}

/// What of the source does something that only one file may do.
#[test]
fn only_one_file_reads_the_environment() {
    let (mut folders, mut others) = (vec![std::path::PathBuf::from("src")], Vec::new());
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path != Path::new("src/environment.rs")
                && std::fs::read_to_string(&path).unwrap().contains("env::var")
            {
                others.push(path);
            }
        }
    }
    assert!(others.is_empty(), "{others:?}");
}
