//! Command lines that klab shows: every shell takes them as they stand. A shell replaces a pattern that is not quoted by file
//! names, and zsh refuses one that matches none.

use std::path::PathBuf;

use klab_lab::spec::{LoadOptions, Provider, load};
use klab_operations::lesson::Tools;
use klab_operations::lesson::command::of_step;

/// Programs whose lines are looked at.
const PROGRAMS: [&str; 10] = ["klab", "kubectl", "az", "docker", "podman", "kind", "helm", "curl", "watch", "eval"];

/// The first sign of a pattern that a shell would replace: outside of quotes and of `[`, the command.
fn pattern(line: &str) -> Option<char> {
    let (mut quote, mut before) = (None, ' ');
    let mut letters = line.chars().peekable();
    while let Some(letter) = letters.next() {
        match (quote, letter) {
            (Some(open), _) if open == letter => quote = None,
            (Some('\''), _) => {}
            (_, '\\') => drop(letters.next()),
            (None, '\'' | '"') => quote = Some(letter),
            // The rest is a comment.
            (None, '#') if before == ' ' => return None,
            (None, '*' | '?') => return Some(letter),
            (None, '[') if before != ' ' || letters.peek() != Some(&' ') => return Some(letter),
            _ => {}
        }
        before = letter;
    }
    None
}

fn is_typed(line: &str) -> bool {
    line.split_whitespace().next().is_some_and(|word| PROGRAMS.contains(&word))
}

/// A line that shows the form of a command, with names in capitals, options in brackets and what may be repeated.
fn is_form(line: &str) -> bool {
    let capital = |word: &str| word.len() > 1 && word.chars().all(|letter| letter.is_ascii_uppercase());
    line.contains('…') || line.contains("[-") || line.contains(" [") || line.split([' ', '=', '/']).any(capital)
}

/// The lines of a text that are typed: of blocks, and what stands in back quotes.
fn typed(text: &str) -> Vec<String> {
    let mut lines = Vec::new();
    let mut fence: Option<&str> = None;
    for line in text.lines() {
        if let Some(language) = line.trim_start().strip_prefix("```") {
            fence = if fence.is_some() { None } else { Some(language) };
            continue;
        }
        let is_shell = fence.is_some_and(|language| ["", "console", "sh", "bash", "shell"].contains(&language));
        if is_shell || (fence.is_none() && line.starts_with("    ")) {
            lines.push(line.trim().trim_start_matches("$ ").to_owned());
        } else if fence.is_none() {
            lines.extend(line.split('`').skip(1).step_by(2).filter(|span| !is_form(span)).map(str::to_owned));
        }
    }
    lines.retain(|line| is_typed(line));
    lines
}

fn strings(value: &toml::Value, found: &mut Vec<String>) {
    match value {
        toml::Value::String(text) => found.push(text.clone()),
        toml::Value::Array(items) => items.iter().for_each(|item| strings(item, found)),
        toml::Value::Table(table) => table.values().for_each(|item| strings(item, found)),
        _ => {}
    }
}

fn files(folder: &str, ending: &str) -> Vec<PathBuf> {
    let all = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    all.filter(|path| path.extension().is_some_and(|extension| extension == ending)).collect()
}

#[test]
fn patterns_are_found_as_a_shell_finds_them() {
    for (line, found) in [
        ("kubectl get nodes -o custom-columns=T:.spec.taints[*].key", Some('[')),
        ("kubectl get nodes -o custom-columns='T:.spec.taints[*].key'", None),
        ("kubectl get pods -o jsonpath=\"{.items[*]}\" # all?", None),
        ("curl https://host/?a=b", Some('?')),
        ("kubectl label node a\\* x=y", None),
        ("if [ -f x ]; then", None),
    ] {
        assert_eq!(pattern(line), found, "{line}");
    }
}

#[test]
fn no_line_of_a_lesson_or_a_page_has_a_pattern_that_is_not_quoted() {
    let mut shown: Vec<(String, String)> = Vec::new();
    let mut look =
        |place: String, lines: Vec<String>| shown.extend(lines.into_iter().map(|line| (place.clone(), line)));
    for path in files("docs", "md").iter().chain([&PathBuf::from("README.md")]) {
        look(path.display().to_string(), typed(&std::fs::read_to_string(path).unwrap()));
    }
    for path in files("labs", "toml") {
        let mut texts = Vec::new();
        strings(&toml::Value::Table(std::fs::read_to_string(&path).unwrap().parse().unwrap()), &mut texts);
        for text in &texts {
            look(path.display().to_string(), typed(text));
        }
        for provider in [Provider::Sim, Provider::Kind, Provider::Aks] {
            let options = LoadOptions { provider: Some(provider), ..LoadOptions::default() };
            let lab = load(&path, &options).unwrap_or_else(|problems| panic!("{}", problems.render(false)));
            let steps = || 0..lab.steps.len();
            let here = steps().flat_map(|step| of_step(&lab, step, &Tools::default()));
            let lines = here.chain(steps().flat_map(|step| of_step(&lab, step, &Tools::Seat)));
            // What follows the first line of a here-document is no line of a shell.
            let commands = lines.flat_map(|line| line.commands().to_vec());
            let first = commands.filter_map(|command| command.lines().next().map(str::to_owned)).collect();
            look(format!("{} on {provider}", path.display()), first);
        }
    }
    let wrong: Vec<_> = shown.iter().filter(|(_, line)| pattern(line).is_some()).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(shown.len() > 400, "only {} lines were found", shown.len());
}
