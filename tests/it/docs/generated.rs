//! Pages of the documentation that are made from what klab has: `KLAB_BLESS=1 cargo test -p klab --test it docs::` writes them again.

use std::path::Path;

use klab_lab::code::{Code, pages};
use klab_operations::environment::{self, Audience};
use klab_operations::event;
use klab_scheduler::features::{self, Gate};

use crate::written::is_written;

/// The tables of `docs/look-up/environment.md` are made from the variables: `KLAB_BLESS=1 cargo test -p klab --test it docs::` writes
/// them again.
#[test]
fn environment_variables_are_described() {
    let path = Path::new("docs/look-up/environment.md");
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
    assert_eq!(audiences.next(), None, "docs/look-up/environment.md has a table for everybody");
    is_written(path, &wanted);
}

/// The tables of `docs/look-up/events.md` are made from the events, as those of the environment are from its variables.
#[test]
fn events_are_described() {
    let path = Path::new("docs/look-up/events.md");
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
    is_written(path, &wanted);
}

/// The table of feature gates is made from those that klab models.
#[test]
fn feature_gates_are_described() {
    let path = Path::new("docs/look-up/lab-file/features.md");
    let document = std::fs::read_to_string(path).unwrap();
    let frame = "| gate | stage | default | with the gate on |\n|---|---|---|---|\n";
    let (before, rest) = document.split_once(frame).unwrap();
    let (_, after) = rest.split_once("\n\n").map_or(("", rest.trim_start()), |(rows, after)| (rows, after));
    let row = |gate: &Gate| {
        let default = if gate.is_on() { "on" } else { "off" };
        format!("| `{}` | {} | {default} | {} |\n", gate.name(), features::stage(*gate), gate.effect())
    };
    is_written(path, &format!("{before}{frame}{}\n{after}", Gate::ALL.iter().map(row).collect::<String>()));
    // The apis that can be left out have rows, too.
    assert!(features::OPTIONAL_APIS.iter().all(|api| after.contains(&format!("\n| `{api}` |"))));
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
    let row = |code: &Code| {
        let page = pages().iter().find(|page| page.code == code.to_string()).unwrap();
        let meaning = page.cases.get(code.name()).unwrap_or(&page.title);
        format!("| `{}` | [{code}](codes/{code}.md) | {meaning} |\n", code.name())
    };
    let rows: String = Code::ALL.iter().filter(|code| code.exit() == 0).map(row).collect();
    format!("\n## Warnings\n\nThe values of `case`.\n\n| `case` | `code` | meaning |\n|---|---|---|\n{rows}")
}

/// The limits of lab files, as the rules have them.
#[test]
fn limits_of_lab_files_are_described() {
    let page = std::fs::read_to_string("docs/look-up/limits.md").unwrap();
    let rules = std::fs::read_to_string("crates/lab/src/spec/rules/limits.rs").unwrap();
    let limits = regex::Regex::new(r"(?m)^const (?:MAX_)?([A-Z]+): \w+ = ([\d_]+);").unwrap();
    let mut found = 0;
    for limit in limits.captures_iter(&rules) {
        let (what, number) = (limit[1].to_lowercase(), limit[2].replace('_', ","));
        let row = page.lines().find(|line| line.starts_with(&format!("| {what}")));
        let row = row.unwrap_or_else(|| panic!("docs/look-up/limits.md has no row of {what}"));
        assert!(row.ends_with(&format!("| {number} |")), "{what}: {number}, and the page: {row}");
        found += 1;
    }
    assert!(found >= 7, "{found}");
}

/// The README is short, and what it promises of versions is so.
#[test]
fn the_readme_keeps_its_promises() {
    let readme = std::fs::read_to_string("README.md").unwrap();
    let words = readme.split_whitespace().count();
    assert!(words <= 700, "README.md has {words} words");
    let manifest: toml::Value = toml::from_str(&std::fs::read_to_string("Cargo.toml").unwrap()).unwrap();
    let rust = manifest["workspace"]["package"]["rust-version"].as_str().unwrap();
    assert!(readme.contains(&format!("a Rust toolchain ({rust} or newer)")), "README.md does not say Rust {rust}");
    let (kubernetes, _) = klab_lab::nodes::VERSION.rsplit_once('.').unwrap();
    let kubernetes = kubernetes.trim_start_matches('v');
    assert!(
        readme.contains(&format!("Kubernetes v{kubernetes} API")),
        "README.md does not say Kubernetes {kubernetes}"
    );
}
