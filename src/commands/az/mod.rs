//! `klab az`, and klab under the name `az`: answers the commands of az for labs that are not in Azure.

mod account;
mod cluster;
mod clusters;
mod config;
mod create;
mod credentials;
mod dispatch;
mod group;
mod lab_file;
mod perform;
mod session;
mod task;
mod wait;

use std::ffi::OsString;
use std::path::Path;

use super::Context;
use anstyle::{AnsiColor, Style};
use klab_az::commands::answer;
use klab_az::refusal::Refusal;
use klab_operations::ui::Ui;
use session::Session;

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn klab_is_az_under_that_name_and_with_that_word() {
        let of = |line: &str| {
            let words: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
            typed(&words).map(<[OsString]>::len)
        };
        assert_eq!((of("/x/az aks list"), of("klab az aks list"), of("klab pool list")), (Some(2), Some(2), None));
    }
}
