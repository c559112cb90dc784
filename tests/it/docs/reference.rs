//! What programs read of the documentation: `docs/reference.json` has the commands and the keys of the lab file, `docs/llms.txt` the pages.

use std::path::Path;

use clap::{Arg, Command};
use klab_lab::code::{Page, pages};
use klab_lab::spec;
use pulldown_cmark::{Event, Parser, Tag, TagEnd};
use serde_json::{Map, Value, json};

use super::commands::{arguments, klab, listed, typed};
use crate::written::is_written;

fn text(styled: Option<&clap::builder::StyledStr>) -> Option<String> {
    styled.map(|text| text.to_string().split_whitespace().collect::<Vec<_>>().join(" "))
}

fn argument(argument: &Arg) -> Value {
    let takes = argument.get_action().takes_values();
    let values: Vec<String> =
        argument.get_possible_values().iter().filter(|_| takes).map(|value| value.get_name().to_owned()).collect();
    let defaults: Vec<String> = argument
        .get_default_values()
        .iter()
        .filter(|_| takes)
        .map(|value| value.to_string_lossy().into_owned())
        .collect();
    let mut described = Map::new();
    described.insert("typed".to_owned(), typed(argument).into());
    described.insert("about".to_owned(), text(argument.get_help()).into());
    if argument.is_required_set() {
        described.insert("required".to_owned(), true.into());
    }
    if !values.is_empty() {
        described.insert("values".to_owned(), values.into());
    }
    if !defaults.is_empty() {
        described.insert("default".to_owned(), defaults.join(" ").into());
    }
    Value::Object(described)
}

/// A command and those below it, by what is typed.
fn commands(command: &Command, name: &str, found: &mut Map<String, Value>) {
    let (places, options): (Vec<&Arg>, Vec<&Arg>) = arguments(command).partition(|argument| argument.is_positional());
    let described = json!({
        "about": text(command.get_about()),
        "arguments": places.into_iter().map(argument).collect::<Vec<_>>(),
        "options": options.into_iter().map(argument).collect::<Vec<_>>(),
    });
    found.insert(name.to_owned(), described);
    for command in listed(command) {
        commands(command, &format!("{name} {}", command.get_name()), found);
    }
}

/// The keys of the lab file by where they stand, such as `pool.NAME.nodes` and `step[].do[].taint`, with what the schema says of each.
fn keys(value: &Value, schema: &Value, path: &str, found: &mut Map<String, Value>) {
    if let Some(name) = value["$ref"].as_str().and_then(|reference| reference.strip_prefix("#/definitions/")) {
        // Structures of Kubernetes have its documentation.
        if !name.starts_with("Kubernetes") {
            keys(&schema["definitions"][name], schema, path, found);
        }
    }
    for alternative in ["allOf", "anyOf"].iter().filter_map(|several| value[several].as_array()).flatten() {
        keys(alternative, schema, path, found);
    }
    for (key, value) in value["properties"].as_object().into_iter().flatten() {
        let place = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
        found.insert(place.clone(), value["description"].clone());
        keys(value, schema, &place, found);
    }
    if value["additionalProperties"].is_object() {
        keys(&value["additionalProperties"], schema, &format!("{path}.NAME"), found);
    }
    if value["items"].is_object() {
        keys(&value["items"], schema, &format!("{path}[]"), found);
    }
}

/// The codes of messages, each with its title and its cases.
fn codes() -> Value {
    let of = |page: &Page| json!({ "title": page.title, "cases": page.names(), "exit_codes": page.exits() });
    pages().iter().map(|page| (page.code.clone(), of(page))).collect()
}

#[test]
fn the_reference_for_programs_is_fresh() {
    let mut found = Map::new();
    for command in listed(&klab()) {
        commands(command, &format!("klab {}", command.get_name()), &mut found);
    }
    assert!(found.len() > 30, "{}", found.len());
    let (schema, mut lab_file) = (serde_json::from_str::<Value>(&spec::schema()).unwrap(), Map::new());
    keys(&schema, &schema, "", &mut lab_file);
    assert!(lab_file.contains_key("step[].do[].taint"), "{lab_file:?}");
    let reference = json!({ "schema": "klab.reference/1", "version": env!("CARGO_PKG_VERSION"), "commands": found, "lab_file": lab_file, "codes": codes() });
    is_written(Path::new("docs/reference.json"), &(serde_json::to_string_pretty(&reference).unwrap() + "\n"));
}

/// The list of pages, for models that read the documentation: each with the first sentence it begins with.
#[test]
fn the_list_for_models_is_fresh() {
    let summary = std::fs::read_to_string("docs/SUMMARY.md").unwrap();
    let mut list = "# klab\n\n> Kubernetes scheduling labs from one TOML file: build the cluster, verify every pod's place, explain it, tear it \
                    down.\n\nThe lab file, all commands and their options as one document: [reference.json](reference.json)\n"
        .to_owned();
    for line in summary.lines() {
        if let Some(group) = line.strip_prefix("# ").filter(|group| *group != "Summary") {
            list.push_str(&format!("\n## {group}\n\n"));
        } else if let Some((title, path)) = line.trim_start().strip_prefix("- [").and_then(|rest| rest.split_once("]("))
        {
            let path = path.trim_end_matches(')');
            list.push_str(&format!("- [{title}]({path}): {}\n", opening(&Path::new("docs").join(path))));
        }
    }
    is_written(Path::new("docs/llms.txt"), &list);
}

/// The first sentence of a page's first paragraph.
fn opening(page: &Path) -> String {
    let document = std::fs::read_to_string(page).unwrap();
    let (mut text, mut inside) = (String::new(), false);
    for event in Parser::new(&document) {
        match event {
            Event::Start(Tag::Paragraph) => inside = true,
            Event::End(TagEnd::Paragraph) => break,
            Event::Text(piece) | Event::Code(piece) if inside => text.push_str(&piece),
            Event::SoftBreak if inside => text.push(' '),
            _ => {}
        }
    }
    text.split_once(". ").map_or(text.trim_end_matches([':', '.']).to_owned(), |(first, _)| first.to_owned())
}
