//! `klab init`: a commented lab file to begin with.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Write};
use std::path::PathBuf;

use super::Context;
use crate::error::{Context as _, Error, Kind, Result};
use crate::event::Verb;

/// What can be typed after `klab init`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The file to write.
    #[arg(value_name = "FILE", default_value = "lab.toml")]
    file: PathBuf,
}

/// The lab it writes.
pub const TEMPLATE: &str = include_str!("../../templates/lab.toml");

/// Writes the file; one that is there is left alone.
///
/// # Errors
/// When the file exists or cannot be written.
pub fn run(context: &Context, arguments: &Arguments) -> Result<()> {
    let path = arguments.file.display();
    let mut file = OpenOptions::new().write(true).create_new(true).open(&arguments.file).map_err(|error| {
        if error.kind() == ErrorKind::AlreadyExists {
            return Error::message(Kind::Usage, format!("`{path}` exists and was left as it is"))
                .hint("give another name: `klab init my-lab.toml`");
        }
        Error::new(Kind::Outside, anyhow::Error::new(error).context(format!("could not write `{path}`")))
    })?;
    file.write_all(TEMPLATE.as_bytes()).kind(Kind::Outside, || format!("could not write `{path}`"))?;
    context.ui.events().counting(1).note(Verb::WriteFiles, format!("{path}; `klab up {path}` makes the lab"));
    Ok(())
}
