//! klab: a Kubernetes scheduling lab from one TOML file.
//!
//! Data flows one way: the lab file ([`klab_lab::spec`]) becomes a plan ([`klab_lab::plan`]), a provider ([`klab_operations::provider`]) makes the cluster,
//! templates are rendered ([`klab_operations::render`]) and applied ([`klab_operations::apply`]), a snapshot of nodes and pods ([`klab_operations::observe`]) is verified
//! and explained ([`klab_lab::verify`]). [`klab_scheduler`] is the one place that knows where a pod may go; the embedded cluster
//! ([`klab_cluster`]), the plan, the checks and the explanations all ask it.

#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, reason = "what clients send may be any number"))]

pub mod cli;
pub mod commands;
mod completion;
pub mod handout;
pub mod seat;
pub mod shell;
pub mod version;
pub mod watch;

use std::ffi::OsString;

use clap::error::ErrorKind;

use crate::cli::Cli;
use klab_operations::context::Context;
use klab_operations::error::{Code, Result};
use klab_operations::interruption::{Interruption, on_interrupt};
use klab_operations::invocation::Invocation;
use klab_operations::state::Home;
use klab_operations::ui::{self, Format, Ui};

/// Runs klab on a command line and gives the exit code.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> u8 {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    if completion::answered(&arguments) {
        return 0;
    }
    if let Some(words) = commands::az::typed(&arguments) {
        return with_context(&Ui::new(Format::Human, false, false), |context| Ok(commands::az::run(context, words)));
    }
    if let Some(words) = commands::kind::typed(&arguments) {
        let ui = Ui::new(Format::Human, commands::kind::is_quiet(words), false);
        return with_context(&ui, |context| Ok(commands::kind::run(context, words)));
    }
    if let Some(words) = commands::kind::docker::typed(&arguments) {
        return with_context(&Ui::new(Format::Human, false, false), |context| {
            Ok(commands::kind::docker::run(context, words))
        });
    }
    let invocation = Invocation::of(arguments.first().map(OsString::as_os_str), Cli::commands());
    let is_verbose = version::is_asked(&arguments);
    let cli = match Cli::read(arguments, &invocation) {
        Ok(cli) => cli,
        Err(help) if is_verbose && help.kind() == ErrorKind::DisplayVersion => {
            Ui::new(Format::Human, false, false).result(&version::verbose());
            return 0;
        }
        Err(mistake) if mistake.exit_code() != 0 => return ui::mistyped(&mistake),
        Err(help) => {
            return match help.print() {
                Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => ui::unwritten(&error),
                _ => 0,
            };
        }
    };
    let ui = match cli.az().or(cli.kind()) {
        // az and kind have flags of their own for what is written and how much of it.
        Some(_) => Ui::new(Format::Human, false, cli.verbose > 0),
        None => Ui::new(cli.format, cli.quiet, cli.verbose > 0),
    };
    let ui = ui.called(invocation);
    match cli.verbose {
        0 => {}
        1 => ui::trace("klab=debug,kube_client=debug"),
        _ => ui::trace("klab=trace,kube_client=trace,hyper=debug"),
    }
    if let Some(arguments) = cli.sandbox() {
        // The walls are around the thread that puts them up: no other may run beside it.
        let confined = commands::sandbox::run(&ui, arguments).map(|()| 0);
        return confined.unwrap_or_else(|error| {
            ui.error(&error);
            error.kind().exit_code()
        });
    }
    if let Some(arguments) = cli.ephemeral() {
        // It has no home, and ends in its own way.
        let served = commands::serve::run(arguments).map(|()| 0);
        return served.unwrap_or_else(|error| {
            ui.error(&error);
            error.kind().exit_code()
        });
    }
    with_context(&ui, |context| match (cli.az(), cli.kind()) {
        (Some(words), _) => Ok(commands::az::run(context, words)),
        (_, Some(words)) => Ok(commands::kind::run(context, words)),
        _ => cli.run(context).map(|()| 0),
    })
}

/// Runs a command with what every command works with, and shows its error.
fn with_context(ui: &Ui, run: impl FnOnce(&mut Context) -> Result<u8>) -> u8 {
    let events = ui.events();
    klab_operations::client::tell_of_silence(move |words| events.warn(Code::NoAnswerYet, words));
    let interruption = Interruption::default();
    let outcome = Home::from_environment().and_then(|home| {
        on_interrupt(ui, &interruption)?;
        let mut context = Context::new(ui.clone(), home, interruption.clone());
        run(&mut context).map_err(|error| context.advised(error))
    });
    outcome.unwrap_or_else(|error| {
        interruption.wait_for_end();
        ui.error(&error);
        error.kind().exit_code()
    })
}
