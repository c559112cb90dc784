//! `klab shell`: the user's shell, in which kubectl is the lab's.

use std::path::PathBuf;

use super::{Context, kubeconfig};
use crate::shell::LabShell;
use klab_operations::environment;
use klab_operations::error::{Code, Error, Result};
use klab_operations::event::{About, Verb};
use klab_operations::state::Joined;
use klab_operations::state::home::state_error;
use klab_server::files::{create_private_folder, write_link};

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
    context
        .ui
        .events()
        .about(About::Lab, &shell.lab)
        .note(Verb::OpenShell, format!("a shell of lab `{}`; `exit` leaves it", shell.lab));
    let error = command.replace_klab();
    Err(Error::new(Code::ToolMissing, anyhow::Error::new(error)).hint("SHELL names the shell that is started"))
}

/// The shell of the lab that is meant.
///
/// # Errors
/// When the lab is not up or its cluster cannot be reached.
pub(super) fn of(context: &Context, which: &kubeconfig::WhichLab) -> Result<LabShell> {
    let lab = which.lab(context)?;
    if Joined::read(&context.home, &lab)?.is_some() {
        return Ok(LabShell { kubeconfig: context.kubeconfig(&lab)?, lab, azure: None, programs: None });
    }
    let record = context.record(&lab)?.ok_or_else(|| context.not_up(&lab))?;
    let provider = context.provider(record.provider)?;
    let kubeconfig = provider.kubeconfig(&lab)?;
    let profile = record.provider.profile();
    let azure = profile.makes_nodes.then(|| context.azure_names(&lab, record.provider)).transpose()?;
    // Where klab stands in for a tool, the tool's name leads to klab.
    let names: Vec<&str> =
        [("az", profile.stands_in_for_azure()), ("kind", profile.is_embedded), ("docker", profile.is_embedded)]
            .into_iter()
            .filter_map(|(name, stands_in)| stands_in.then_some(name))
            .collect();
    let programs = if names.is_empty() { None } else { Some(programs(context, &lab, &names)?) };
    Ok(LabShell { lab, kubeconfig, azure, programs })
}

/// A folder with programs of these names that are klab: `az` for a lab that is not in Azure, `kind` and `docker` for an embedded
/// one. A lab that is there, or may be, has the real ones.
fn programs(context: &Context, lab: &str, names: &[&str]) -> Result<PathBuf> {
    let folder = context.home.lab(lab).join("shell").join("bin");
    let failed = |error| state_error(error, "write", &folder);
    create_private_folder(&folder).map_err(failed)?;
    let klab = std::env::current_exe().map_err(failed)?;
    for name in names {
        write_link(&klab, &folder.join(name)).map_err(failed)?;
    }
    Ok(folder)
}
