//! `klab init`: a commented lab file to begin with.

use std::ffi::OsStr;
use std::fs::OpenOptions;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use super::Context;
use klab_lab::spec;
use klab_operations::error::{Code, Context as _, Error, Result};
use klab_operations::event::Verb;

/// What can be typed after `klab init`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The file to write; the lab gets its name, and the file `.toml` where no ending is given.
    #[arg(value_name = "FILE", default_value = "lab.toml")]
    file: PathBuf,
}

/// The name of the lab in the template.
const NAME: &str = "my-lab";
/// The lab it writes.
pub const TEMPLATE: &str = include_str!("../../templates/lab.toml");

/// Writes the file; one that is there is left alone.
///
/// # Errors
/// When the file exists or cannot be written.
pub fn run(context: &Context, arguments: &Arguments) -> Result<()> {
    let file = match arguments.file.extension() {
        Some(_) => arguments.file.clone(),
        None => arguments.file.with_extension("toml"),
    };
    write_new(&file, &text(&file), "klab init my-lab.toml")?;
    let path = file.display();
    context.ui.events().counting(1).note(Verb::WriteFiles, format!("{path}; `klab up {path}` makes the lab"));
    Ok(())
}

/// Writes a file that is not there yet.
///
/// # Errors
/// When it exists (`instead` names another) or cannot be written.
pub(super) fn write_new(file: &Path, text: &str, instead: &str) -> Result<()> {
    let path = file.display();
    let mut new = OpenOptions::new().write(true).create_new(true).open(file).map_err(|error| {
        if error.kind() == ErrorKind::AlreadyExists {
            return Error::message(Code::FileInTheWay, format!("`{path}` exists and was left as it is"))
                .hint(format!("give another name: `{instead}`"));
        }
        Error::new(Code::FileUnwritten, anyhow::Error::new(error).context(format!("could not write `{path}`")))
    })?;
    new.write_all(text.as_bytes()).code(Code::FileUnwritten, || format!("could not write `{path}`"))
}

/// The template, with a name for the lab that the file's name gives; that of the default file names no lab.
fn text(file: &Path) -> String {
    let stem = file.file_stem().and_then(OsStr::to_str).filter(|stem| *stem != "lab");
    let name = stem.and_then(spec::lab_name_like).unwrap_or_else(|| NAME.to_owned());
    let quoted = format!("\"{name}\"");
    TEMPLATE.replacen(&format!("{:<18}", format!("\"{NAME}\"")), &format!("{quoted:<18}"), 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use klab_lab::spec::{LoadOptions, parse};

    #[test]
    fn the_lab_is_named_after_its_file() {
        for (file, name) in [
            ("lab.toml", "my-lab"),
            ("zones-lab.toml", "zones-lab"),
            ("labs/GPU_lab.toml", "gpu-lab"),
            ("2.toml", "my-lab"),
            ("a-very-long-name-of-a-lab-that-is-cut.toml", "a-very-long-name-of-a-lab-that"),
        ] {
            let lab = parse(file, &text(Path::new(file)), &LoadOptions::default()).unwrap();
            assert_eq!(lab.name.value, name, "{file}");
        }
    }
}
