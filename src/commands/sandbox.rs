//! `klab sandbox`: confines itself and becomes another program; the console of `klab host` starts it, people need not.

use std::ffi::OsString;
use std::path::PathBuf;

use klab_host::console::sandbox::{Confinement, Limits, confine};
use klab_operations::error::{Code, Context as _, Error, Result};
use klab_operations::exec;
use klab_operations::ui::Ui;

/// What can be typed after `klab sandbox`.
#[derive(Debug, Clone, clap::Args)]
pub struct Arguments {
    /// The folder that may be read and written.
    #[arg(long, value_name = "FOLDER")]
    folder: PathBuf,
    /// A program that may be executed; repeatable.
    #[arg(long = "program", value_name = "FILE")]
    programs: Vec<PathBuf>,
    /// A folder of libraries that may be read; repeatable.
    #[arg(long = "library", value_name = "FOLDER")]
    libraries: Vec<PathBuf>,
    /// The TCP port that may be connected to.
    #[arg(long, value_name = "PORT")]
    port: u16,
    /// The user and group to become, where klab is root.
    #[arg(long, value_name = "NUMBER")]
    user: Option<u32>,
    /// Go on although something cannot be confined.
    #[arg(long)]
    unconfined: bool,
    /// Say in JSON what cannot be confined, and execute nothing.
    #[arg(long)]
    report: bool,
    /// The program, and its arguments.
    #[arg(last = true, value_name = "PROGRAM")]
    command: Vec<OsString>,
}

/// Confines klab and executes the program in its place.
///
/// # Errors
/// When klab cannot be confined, or the program not be executed.
pub fn run(ui: &Ui, arguments: &Arguments) -> Result<()> {
    let Arguments { folder, programs, libraries, port, user, unconfined, report, command } = arguments.clone();
    // Of klab's own user others may run, too.
    let limits = Limits { threads: user.map(|_| THREADS), ..Limits::default() };
    let confinement = Confinement { folder, programs, libraries, port, limits };
    let lacks = confine(&confinement).code(Code::ClassSandbox, || "could not put up the sandbox".to_owned())?;
    if report {
        let text = serde_json::to_string(&lacks).code(Code::KlabFault, || "could not write the report".to_owned())?;
        ui.result(&text);
        return Ok(());
    }
    if let Some(lack) = lacks.first().filter(|_| !unconfined) {
        return Err(Error::message(Code::ClassSandbox, format!("the sandbox has a hole: {lack}")));
    }
    let Some((program, rest)) = command.split_first() else { return Ok(()) };
    let reason = exec::Command::new(program).args(rest).become_program(user);
    Err(Error::new(Code::ClassSandbox, reason))
}

/// Most threads of a user that no other process has.
const THREADS: u64 = 128;
