//! A page for each command, made from the command line that `--help` and the manual pages are made from.

use std::collections::BTreeSet;
use std::path::Path;

use clap::{Arg, Command};
use klab::cli::Cli;

use crate::environment::Environment;
use crate::written::is_written;

/// Options of every command; the index has them.
const EVERYWHERE: [&str; 3] = ["quiet", "verbose", "help"];

/// The page below `docs/` that says what a command is good for.
#[rustfmt::skip]
const MORE: &[(&str, &[&str])] = &[
    ("learn/first-lesson.md", &["up", "verify", "guide", "step", "down"]),
    ("learn/lessons/README.md", &["lessons"]),
    ("do/lesson.md", &["guide", "step", "verify", "diff", "reset", "shell", "env", "kubeconfig", "status"]),
    ("do/practice.md", &["practice", "next", "submit", "lessons"]),
    ("do/authoring.md", &["init", "check", "plan", "render", "schema"]),
    ("do/testing.md", &["test"]),
    ("do/ci.md", &["test"]),
    ("do/classes.md", &["up", "handout", "kubeconfig", "list", "pause", "resume"]),
    ("do/hosting.md", &["host", "join"]),
    ("do/running-a-host.md", &["host"]),
    ("do/board.md", &["board"]),
    ("do/watch.md", &["watch"]),
    ("do/pools.md", &["pool"]),
    ("do/az.md", &["az"]),
    ("do/kind-without-docker.md", &["kind", "import"]),
    ("do/existing.md", &["explain"]),
    ("do/aks.md", &["pause", "resume", "gc"]),
    ("do/testing-operators.md", &["serve"]),
    ("do/troubleshooting.md", &["doctor"]),
    ("do/recovery.md", &["down"]),
    ("do/install.md", &["completions"]),
    ("look-up/checks.md", &["verify"]),
    ("look-up/lab-file/README.md", &["check", "schema"]),
    ("look-up/steps.md", &["step"]),
    ("look-up/codes/README.md", &["explain-code"]),
    ("do/what-if.md", &["capture", "fit", "shrink", "survive", "whatif"]),
];

/// The commands of `az` that klab answers, as its help lists them.
fn of_az() -> String {
    let help = Environment::new().succeeds(&["az", "--help"]);
    let rows = help.lines().filter_map(|text| text.strip_prefix("    ")?.split_once(" : "));
    let rows = rows
        .filter(|(words, _)| words.trim() != "az")
        .map(|(words, about)| format!("| `az {}` | {} |\n", words.trim(), line(about)));
    format!("\n## Commands\n\n| command | what it does |\n|---|---|\n{}", rows.collect::<String>())
}

/// Links to the pages about a command.
fn more(name: &str) -> String {
    let pages = MORE.iter().filter(|(_, commands)| commands.contains(&name)).map(|(page, _)| {
        let text = std::fs::read_to_string(Path::new("docs").join(page)).unwrap();
        format!("- [{}](../../{page})\n", text.lines().next().unwrap().trim_start_matches("# "))
    });
    let pages = pages.collect::<String>();
    assert!(!pages.is_empty(), "MORE has no page about `klab {name}`");
    format!("\n## More\n\n{pages}")
}

/// The command line as the pages have it.
pub(super) fn klab() -> Command {
    let mut klab = Cli::manual();
    klab.build();
    klab
}

/// The commands that help lists.
pub(super) fn listed(command: &Command) -> impl Iterator<Item = &Command> {
    command.get_subcommands().filter(|command| !command.is_hide_set() && command.get_name() != "help")
}

/// The arguments of a command that help lists, but for those of every command.
pub(super) fn arguments(command: &Command) -> impl Iterator<Item = &Arg> {
    command
        .get_arguments()
        .filter(|argument| !argument.is_hide_set() && !EVERYWHERE.contains(&argument.get_id().as_str()))
}

/// A text of help as Markdown in one line.
fn line(text: &str) -> String {
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut even = String::new();
    for (number, piece) in words.split('`').enumerate() {
        let is_code = number % 2 == 1;
        even.push_str(&if is_code { format!("`{piece}`") } else { piece.replace('<', "\\<").replace('*', "\\*") });
    }
    even.replace('|', "\\|")
}

/// How an option or a place is typed.
pub(super) fn typed(argument: &Arg) -> String {
    let values = argument.get_value_names().unwrap_or_default();
    let values: String = values
        .iter()
        .map(|value| if argument.is_positional() { format!("{value} ") } else { format!(" {value}") })
        .collect();
    let takes = argument.get_action().takes_values();
    match (argument.get_short(), argument.get_long()) {
        (Some(short), Some(long)) => format!("-{short}, --{long}{}", if takes { &values } else { "" }),
        (Some(short), None) => format!("-{short}{}", if takes { &values } else { "" }),
        (None, Some(long)) => format!("--{long}{}", if takes { &values } else { "" }),
        (None, None) => values.trim().to_owned(),
    }
}

/// What an option or a place means, with its values, default and variable.
fn meaning(argument: &Arg) -> String {
    let help = argument.get_long_help().or(argument.get_help()).map(ToString::to_string).unwrap_or_default();
    let mut text = line(&help);
    if !text.is_empty() && !text.ends_with('.') {
        text.push('.');
    }
    let takes = argument.get_action().takes_values();
    let values = argument.get_possible_values().into_iter().filter(|value| takes && !value.is_hide_set());
    let values: Vec<String> = values.map(|value| format!("`{}`", value.get_name())).collect();
    if !values.is_empty() {
        text.push_str(&format!(" Values: {}.", values.join(", ")));
    }
    let defaults: Vec<String> =
        argument.get_default_values().iter().map(|value| format!("`{}`", value.to_string_lossy())).collect();
    if takes && !defaults.is_empty() {
        text.push_str(&format!(" Default: {}.", defaults.join(", ")));
    }
    if let Some(variable) = argument.get_env() {
        text.push_str(&format!(" Environment: `{}`.", variable.to_string_lossy()));
    }
    text
}

fn table(heading: &str, arguments: &[&Arg]) -> String {
    if arguments.is_empty() {
        return String::new();
    }
    let rows = arguments
        .iter()
        .map(|argument| format!("| `{}` | {} |\n", typed(argument).replace('|', "\\|"), meaning(argument)));
    format!("\n| {heading} | meaning |\n|---|---|\n{}", rows.collect::<String>())
}

/// A command, and those below it, as a page or a section.
fn section(command: &Command, name: &str, level: &str) -> String {
    let mut shown = command.clone();
    let usage = shown.render_usage().to_string();
    let usage: String =
        usage.trim_start_matches("Usage: ").lines().map(|line| format!("    {}\n", line.trim())).collect();
    let about = command.get_long_about().or(command.get_about()).map(ToString::to_string).unwrap_or_default();
    let about: Vec<String> = about.split("\n\n").map(line).collect();
    let mut text = format!("{level} `{name}`\n\n{}.\n\n{usage}", about.join(".\n\n").replace("..", "."));
    let (places, options): (Vec<&Arg>, Vec<&Arg>) = arguments(command).partition(|argument| argument.is_positional());
    text.push_str(&table("argument", &places));
    text.push_str(&table("option", &options));
    if let Some(examples) = command.get_after_help().map(ToString::to_string) {
        let lines = examples.trim_start_matches("Examples:").lines().filter(|line| !line.trim().is_empty());
        text.push_str(&format!(
            "\n{level}# Examples\n\n{}",
            lines.map(|line| format!("    {}\n", line.trim())).collect::<String>()
        ));
    }
    for command in listed(command) {
        text.push_str(&format!(
            "\n{}",
            section(command, &format!("{name} {}", command.get_name()), &format!("{level}#"))
        ));
    }
    text
}

#[test]
fn every_command_has_its_page() {
    let klab = klab();
    let folder = Path::new("docs/look-up/commands");
    let mut index =
        "# Commands\n\nEach page is made from what `klab COMMAND --help` prints. `man klab` has the same.\n".to_owned();
    let mut wanted = BTreeSet::from(["README.md".to_owned()]);
    for (heading, names) in Cli::groups() {
        index.push_str(&format!("\n## {}\n\n| command | what it does |\n|---|---|\n", line(heading)));
        for name in names {
            let Some(command) = listed(&klab).find(|command| command.get_name() == name) else { continue };
            let about = command.get_about().map(ToString::to_string).unwrap_or_default();
            index.push_str(&format!("| [`klab {name}`]({name}.md) | {}. |\n", line(&about)));
            let below = if name == "az" { of_az() } else { String::new() };
            let page = section(command, &format!("klab {name}"), "#") + &below + &more(name);
            is_written(&folder.join(format!("{name}.md")), &page);
            wanted.insert(format!("{name}.md"));
        }
    }
    let everywhere: Vec<&Arg> =
        klab.get_arguments().filter(|argument| EVERYWHERE.contains(&argument.get_id().as_str())).collect();
    index.push_str(&format!("\n## Options of every command\n{}", table("option", &everywhere)));
    index.push_str("\n`--format` is on the page of each command that has a choice. [Exit codes](../exit-codes.md) are the same for all.\n");
    is_written(&folder.join("README.md"), &index);
    let there: BTreeSet<String> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    assert_eq!(there, wanted, "a page is of no command");
}

/// The codes that help names, each with a row on the page of exit codes.
#[test]
fn every_exit_code_is_described() {
    let help = Cli::manual().get_after_help().unwrap().to_string();
    let codes = help.split("Exit codes: ").nth(1).unwrap();
    let page = std::fs::read_to_string("docs/look-up/exit-codes.md").unwrap();
    let numbers: Vec<&str> =
        codes.split(|letter: char| !letter.is_ascii_digit()).filter(|word| !word.is_empty()).collect();
    assert!(numbers.len() >= 8, "{codes}");
    for number in numbers {
        assert!(page.contains(&format!("\n| {number} |")), "docs/look-up/exit-codes.md has no row of {number}");
    }
}
