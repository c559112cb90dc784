//! `klab shell`: the user's shell, in which kubectl is the lab's.

use std::path::PathBuf;

use super::{Context, kubeconfig};
use crate::context::not_up;
use crate::environment;
use crate::error::{Error, Kind, Result};
use crate::provider::AzureNames;
use crate::shell::LabShell;
use crate::state::home::state_error;

/// What can be typed after `klab shell`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    lab: kubeconfig::WhichLab,
}

/// Becomes the shell; `exit` leaves it.
///
/// # Errors
/// When the lab is not up, or the shell does not start.
pub fn run(context: &Context, arguments: &Arguments) -> Result<()> {
    let shell = of(context, &arguments.lab)?;
    let program = environment::SHELL.path().unwrap_or_else(|| PathBuf::from("/bin/sh"));
    let home = environment::ZDOTDIR.path().or_else(|| environment::HOME.path()).unwrap_or_default();
    let folder = context.home.lab(&shell.lab).join("shell");
    let command = shell.start(&program, &home, &folder).map_err(|error| state_error(error, "write", &folder))?;
    context.ui.events().note("Opened", format!("a shell of lab `{}`; `exit` leaves it", shell.lab));
    let error = command.replace_klab();
    Err(Error::new(Kind::Outside, anyhow::Error::new(error)).hint("SHELL names the shell that is started"))
}

/// The shell of the lab that is meant.
///
/// # Errors
/// When the lab is not up or its cluster cannot be reached.
pub(super) fn of(context: &Context, which: &kubeconfig::WhichLab) -> Result<LabShell> {
    let lab = which.lab(context)?;
    let record = context.record(&lab)?.ok_or_else(|| not_up(&lab))?;
    let provider = context.provider(record.provider)?;
    let kubeconfig = provider.kubeconfig(&lab)?;
    let would_be = || AzureNames { group: format!("klab-{lab}"), cluster: format!("klab-{lab}") };
    let AzureNames { group, cluster } = provider.azure_names(&lab).unwrap_or_else(would_be);
    Ok(LabShell { lab, kubeconfig, resource_group: group, cluster })
}
