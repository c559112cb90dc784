//! A command line of az, answered: the row of its command, its help, and its result in the format asked for.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::account::{VERSION, is_subscription};
use crate::flag::{Command, Flag, GLOBAL, Takes};
use crate::format::write;
use crate::grammar::{self, Arguments, offer};
use crate::query::Query;
use crate::refusal::Refusal;
use crate::rows::{ROWS, Row};

/// The result of a command: a document, or null where it prints nothing.
pub type Answer = Result<Value, Refusal>;

/// Performs commands.
pub trait Executor {
    /// Whether it has a command of these words: `aks nodepool add`. It has all, unless it says otherwise.
    fn has(&self, _command: &str) -> bool {
        true
    }

    /// What `az config set` configured, by section and key.
    ///
    /// # Errors
    /// When it cannot be read.
    fn settings(&self) -> Result<&BTreeMap<String, String>, Refusal>;

    /// Warns the user.
    fn warn(&self, message: &str);

    /// Performs the command of these words.
    ///
    /// # Errors
    /// When it is refused, or fails.
    fn perform(&self, command: &str, arguments: &Arguments) -> Answer;
}

/// Answers a command line with the text for stdout.
///
/// # Errors
/// When az cannot read it, or the executor does not perform it.
pub fn answer(executor: &impl Executor, words: &[String]) -> Result<String, Refusal> {
    let rows: Vec<&Row> = ROWS.iter().filter(|row| executor.has(row.command.words)).collect();
    let settings = executor.settings()?;
    let (row, rest) = match find(&rows, words)? {
        Found::Row(row, rest) => (row, rest),
        Found::Help(text) => return Ok(text),
    };
    let command = &row.command;
    let arguments = grammar::read(command, rest, |key| default_of(settings, key))?;
    arguments.warnings.iter().for_each(|warning| executor.warn(warning));
    if arguments.has("--help") {
        return Ok(help_of(command));
    }
    if let Some(other) = arguments.word("--subscription").filter(|word| !is_subscription(word))
        && !command.words.starts_with("account ")
    {
        executor.warn(&format!("Subscription '{other}' not recognized."));
        return Err(Refusal::new(format!(
            "Subscription '{other}' not found. Check the spelling and casing and try again."
        )));
    }
    // A wrong expression is refused before anything is done.
    let query = arguments.word("--query").map(Query::read).transpose()?;
    let result = executor.perform(command.words, &arguments)?;
    if result.is_null() {
        return Ok(String::new());
    }
    let found = query.map(|query| query.search(&result)).transpose()?;
    write(arguments.word("--output").unwrap_or("json"), &result, found.as_ref(), row.table)
}

/// A configured default, by the key that flags have for it.
fn default_of(settings: &BTreeMap<String, String>, key: &str) -> Option<String> {
    let section = if key == "output" { "core" } else { "defaults" };
    settings.get(&format!("{section}.{key}")).cloned()
}

enum Found<'w> {
    /// A command, and what was typed after its words.
    Row(&'static Row, &'w [String]),
    /// Words to be printed.
    Help(String),
}

/// The command that the first words are.
fn find<'w>(rows: &[&'static Row], words: &'w [String]) -> Result<Found<'w>, Refusal> {
    let count = words.iter().take_while(|word| !word.starts_with('-')).count();
    let named: Vec<&str> = words.iter().take(count).map(String::as_str).collect();
    let is_start = |row: &Row, length: usize| {
        let own: Vec<&str> = row.command.words.split(' ').collect();
        own.len() >= length && named.len() >= length && own[..length] == named[..length]
    };
    for length in (1..=named.len()).rev() {
        let exact =
            rows.iter().find(|row| row.command.words.split(' ').count() == length && is_start(row, length)).copied();
        if let Some(row) = exact {
            return Ok(Found::Row(row, &words[length..]));
        }
    }
    let known =
        (0..=named.len()).rev().find(|length| rows.iter().any(|row| is_start(row, *length))).unwrap_or_default();
    let group = named[..known].join(" ");
    let first = words.get(count).map(String::as_str);
    if known == named.len() {
        return match first {
            Some("--version" | "-v") if group.is_empty() => {
                Ok(Found::Help(format!("azure-cli {} (klab {})", VERSION, env!("CARGO_PKG_VERSION"))))
            }
            Some("--help" | "-h") => Ok(Found::Help(help_of_group(rows, &group))),
            None if group.is_empty() => Ok(Found::Help(help_of_group(rows, &group))),
            _ => Err(Refusal::usage("the following arguments are required: _subcommand").advise(listed(rows, &group))),
        };
    }
    let wrong = named[known];
    let refusal = Refusal::usage(format!("'{wrong}' is misspelled or not recognized by the system."));
    let nexts: Vec<&str> = rows
        .iter()
        .filter(|row| is_start(row, known))
        .filter_map(|row| row.command.words.split(' ').nth(known))
        .collect();
    Err(offer(refusal, wrong, nexts.into_iter()).advise(listed(rows, &group)))
}

/// The commands of a group; all, where it has no name.
fn within(rows: &[&'static Row], group: &str) -> impl Iterator<Item = &'static Command> {
    let start = if group.is_empty() { String::new() } else { format!("{group} ") };
    rows.iter().map(|row| &row.command).filter(move |command| command.words.starts_with(&start))
}

/// What klab's az does of a group of commands, in a line.
fn listed(rows: &[&'static Row], group: &str) -> String {
    let words: Vec<&str> = within(rows, group).map(|command| command.words).collect();
    format!("klab's az, for labs that are not in Azure, knows: {}.", words.join(", "))
}

fn help_of_group(rows: &[&'static Row], group: &str) -> String {
    let mut text = if group.is_empty() {
        "\nGroup\n    az : klab's az, for labs that are not in Azure.\n\nCommands:\n".to_owned()
    } else {
        format!("\nGroup\n    az {group}\n\nCommands:\n")
    };
    for command in within(rows, group) {
        text.push_str(&format!("    {:<26} : {}\n", command.words, command.about));
    }
    text
}

fn help_of(command: &Command) -> String {
    let mut text = format!("\nCommand\n    az {} : {}\n\nArguments\n", command.words, command.about);
    if !command.operands.is_empty() {
        text.push_str(&format!("    {}\n", command.operands));
    }
    let line = |flag: &Flag| {
        let value = match flag.takes {
            Takes::Nothing => "",
            Takes::Word => " TEXT",
            Takes::Number => " NUMBER",
            Takes::Words | Takes::AnyWords => " TEXT …",
        };
        let mut line = format!("    {}{value}", flag.names);
        if flag.is_required {
            line.push_str(" [Required]");
        }
        if !flag.choices.is_empty() {
            line.push_str(&format!(" : Allowed values: {}.", flag.choices.join(", ")));
        }
        if let Some(default) = flag.default {
            line.push_str(&format!(" : Default: {default}."));
        }
        line + "\n"
    };
    let mut own: Vec<&Flag> = command.flags.iter().flat_map(|group| group.iter()).collect();
    own.sort_by_key(|flag| (!flag.is_required, flag.names));
    text.extend(own.into_iter().map(line));
    text.push_str("\nGlobal Arguments\n");
    text.extend(GLOBAL.iter().map(line));
    text.push_str("\nFlags of az that say nothing about a lab outside of Azure are taken, with a warning.\n");
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// Performs a command by answering its words and its arguments.
    struct Echo;

    impl Executor for Echo {
        fn has(&self, command: &str) -> bool {
            ["aks list", "aks nodepool add", "aks nodepool list", "config set"].contains(&command)
        }

        fn settings(&self) -> Result<&BTreeMap<String, String>, Refusal> {
            static NONE: BTreeMap<String, String> = BTreeMap::new();
            Ok(&NONE)
        }

        fn warn(&self, _: &str) {}

        fn perform(&self, command: &str, arguments: &Arguments) -> Answer {
            Ok(json!({ "command": command, "operands": arguments.operands }))
        }
    }

    fn answered(line: &str) -> String {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        match answer(&Echo, &words) {
            Ok(text) => text.lines().find(|line| !line.is_empty()).unwrap_or_default().to_owned(),
            Err(refusal) => format!("{} {}", refusal.message, refusal.advice.first().cloned().unwrap_or_default()),
        }
    }

    #[test]
    fn commands_are_found_by_their_words() {
        for (line, expected) in [
            ("aks nodepool list -g g --cluster-name c -o tsv", "aks nodepool list\t0"),
            ("aks list -o tsv", "aks list\t0"),
            ("config set defaults.group=x -o tsv", "config set\t1"),
            ("aks list -o tsv --query command", "aks list"),
            ("aks list --help", "Command"),
            ("", "Group"),
            ("aks -h", "Group"),
            ("--version", concat!("azure-cli 2.91.0 (klab ", env!("CARGO_PKG_VERSION"), ")")),
            ("aks nodepool ad -g x", "'ad' is misspelled or not recognized by the system. Did you mean 'add' ?"),
        ] {
            assert_eq!(answered(line), expected, "{line}");
        }
        let unknown = "'enable-addons' is misspelled or not recognized by the system. klab's az";
        assert!(answered("aks enable-addons").starts_with(unknown));
        assert!(answered("aks nodepool").contains("_subcommand"));
    }
}
