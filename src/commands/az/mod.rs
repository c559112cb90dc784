//! `klab az`, and klab under the name `az`: answers the commands of az for labs that are not in Azure.

mod account;
mod cluster;
mod config;
mod create;
mod credentials;
mod demands;
mod desk;
mod group;
mod made;
mod nodepool;
mod session;
mod table;
mod task;
mod wait;

use std::ffi::OsString;
use std::path::Path;

use super::Context;
use crate::az::flag::{Flag, Takes};
use crate::az::format::write;
use crate::az::grammar::{self, offer};
use crate::az::query::Query;
use crate::az::refusal::Refusal;
use crate::ui::Ui;
use anstyle::{AnsiColor, Style};
use session::Session;
use table::{ROWS, Row};

pub(super) use task::perform;

/// The colour of az's errors.
const BAD: Style = AnsiColor::Red.on_default();

/// What can be typed after `klab az`.
#[derive(Debug, clap::Args)]
#[command(disable_help_flag = true)]
pub struct Arguments {
    /// What would be typed after `az`, such as `aks nodepool list`; `klab az --help` lists what is answered.
    #[arg(value_name = "COMMAND", trailing_var_arg = true, allow_hyphen_values = true)]
    pub words: Vec<OsString>,
}

/// What was typed after `az`, where klab was started as `az` or with it as its first word: to be read as az reads it.
pub fn typed(arguments: &[OsString]) -> Option<&[OsString]> {
    let (program, rest) = arguments.split_first()?;
    if Path::new(program).file_stem().is_some_and(|name| name == "az") {
        return Some(rest);
    }
    rest.split_first().filter(|(first, _)| *first == "az").map(|(_, rest)| rest)
}

/// Does what was typed; gives az's exit code.
pub fn run(context: &Context, words: &[OsString]) -> u8 {
    let words: Vec<String> = words.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let is_terse = words.iter().any(|word| word == "--only-show-errors");
    let session = Session::new(context, is_terse);
    match answer(&session, &words) {
        Ok(text) => {
            if !text.is_empty() {
                context.ui.result(&text);
            }
            0
        }
        Err(refusal) => {
            complain(&context.ui, &refusal);
            refusal.exit_code
        }
    }
}

/// Shows a refusal as az does.
fn complain(ui: &Ui, refusal: &Refusal) {
    let mut text = format!("{BAD}ERROR: {}{BAD:#}", refusal.message);
    for line in &refusal.advice {
        text.push('\n');
        text.push_str(line);
    }
    ui.say(&text);
}

fn answer(session: &Session<'_>, words: &[String]) -> Result<String, Refusal> {
    let settings = &session.account()?.settings;
    let (row, rest) = match find(words)? {
        Found::Row(row, rest) => (row, rest),
        Found::Help(text) => return Ok(text),
    };
    let given = grammar::read(&row.command, rest, |key| default_of(settings, key))?;
    given.warnings.iter().for_each(|warning| session.warn(warning));
    if given.has("--help") {
        return Ok(help_of(row));
    }
    let format = given.word("--output").unwrap_or("json");
    if let Some(other) = given.word("--subscription").filter(|word| !account::is_subscription(word))
        && !row.command.words.starts_with("account ")
    {
        session.warn(&format!("Subscription '{other}' not recognized."));
        return Err(Refusal::new(format!(
            "Subscription '{other}' not found. Check the spelling and casing and try again."
        )));
    }
    // Whether it is one at all is known before anything is done.
    let query = given.word("--query").map(Query::read).transpose()?;
    let result = (row.act)(session, &given)?;
    if result.is_null() {
        return Ok(String::new());
    }
    let found = query.map(|query| query.search(&result)).transpose()?;
    write(format, &result, found.as_ref(), row.table)
}

/// A configured default, by the key that flags have for it.
fn default_of(settings: &std::collections::BTreeMap<String, String>, key: &str) -> Option<String> {
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
fn find(words: &[String]) -> Result<Found<'_>, Refusal> {
    let count = words.iter().take_while(|word| !word.starts_with('-')).count();
    let named: Vec<&str> = words.iter().take(count).map(String::as_str).collect();
    let is_start = |row: &&Row, length: usize| {
        let own: Vec<&str> = row.command.words.split(' ').collect();
        own.len() >= length && named.len() >= length && own[..length] == named[..length]
    };
    for length in (1..=named.len().min(3)).rev() {
        let exact = ROWS.iter().find(|row| row.command.words.split(' ').count() == length && is_start(row, length));
        if let Some(row) = exact {
            return Ok(Found::Row(row, &words[length..]));
        }
    }
    let known =
        (0..=named.len()).rev().find(|length| ROWS.iter().any(|row| is_start(&row, *length))).unwrap_or_default();
    let group = named[..known].join(" ");
    let first = words.get(count).map(String::as_str);
    if known == named.len() {
        return match first {
            Some("--version" | "-v") if group.is_empty() => {
                Ok(Found::Help(format!("azure-cli {} (klab {})", account::VERSION, env!("CARGO_PKG_VERSION"))))
            }
            Some("--help" | "-h") => Ok(Found::Help(help_of_group(&group))),
            None if group.is_empty() => Ok(Found::Help(help_of_group(&group))),
            _ => Err(Refusal::usage("the following arguments are required: _subcommand").advise(listed(&group))),
        };
    }
    let wrong = named[known];
    let refusal = Refusal::usage(format!("'{wrong}' is misspelled or not recognized by the system."));
    let nexts: Vec<&str> = ROWS
        .iter()
        .filter(|row| is_start(row, known))
        .filter_map(|row| row.command.words.split(' ').nth(known))
        .collect();
    Err(offer(refusal, wrong, nexts.into_iter()).advise(listed(&group)))
}

/// The commands of a group; all, where it has no name.
fn within(group: &str) -> impl Iterator<Item = &'static Row> {
    let start = if group.is_empty() { String::new() } else { format!("{group} ") };
    ROWS.iter().filter(move |row| row.command.words.starts_with(&start))
}

/// What klab's az does of a group of commands, in a line.
fn listed(group: &str) -> String {
    let words: Vec<&str> = within(group).map(|row| row.command.words).collect();
    format!("klab's az, for labs that are not in Azure, knows: {}.", words.join(", "))
}

fn help_of_group(group: &str) -> String {
    let mut text = if group.is_empty() {
        "\nGroup\n    az : klab's az, for labs that are not in Azure.\n\nCommands:\n".to_owned()
    } else {
        format!("\nGroup\n    az {group}\n\nCommands:\n")
    };
    for row in within(group) {
        text.push_str(&format!("    {:<26} : {}\n", row.command.words, row.command.about));
    }
    text
}

fn help_of(row: &Row) -> String {
    let command = &row.command;
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
    text.extend(crate::az::flag::GLOBAL.iter().map(line));
    text.push_str("\nFlags of az that say nothing about a lab outside of Azure are taken, with a warning.\n");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(line: &str) -> String {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        match find(&words) {
            Ok(Found::Row(row, rest)) => format!("{} | {}", row.command.words, rest.join(" ")),
            Ok(Found::Help(text)) => text.lines().find(|line| !line.is_empty()).unwrap_or_default().to_owned(),
            Err(refusal) => format!("{} {}", refusal.message, refusal.advice.first().cloned().unwrap_or_default()),
        }
    }

    #[test]
    fn commands_are_found_by_their_words() {
        for (line, expected) in [
            ("aks nodepool list -o table", "aks nodepool list | -o table"),
            ("aks list", "aks list | "),
            ("config set defaults.group=x", "config set | defaults.group=x"),
            ("", "Group"),
            ("aks -h", "Group"),
            ("--version", "azure-cli 2.91.0 (klab 0.1.0)"),
            ("aks nodepool ad -g x", "'ad' is misspelled or not recognized by the system. Did you mean 'add' ?"),
        ] {
            assert_eq!(found(line), expected, "{line}");
        }
        assert!(
            found("aks enable-addons")
                .starts_with("'enable-addons' is misspelled or not recognized by the system. klab's az")
        );
        assert!(found("aks nodepool").contains("_subcommand"));
    }

    #[test]
    fn klab_is_az_under_that_name_and_with_that_word() {
        let of = |line: &str| {
            let words: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
            typed(&words).map(<[OsString]>::len)
        };
        assert_eq!((of("/x/az aks list"), of("klab az aks list"), of("klab pool list")), (Some(2), Some(2), None));
    }
}
