//! `klab import`: a lab file to start from, out of a folder that was made for kind.

use std::fs;
use std::path::{Path, PathBuf};

use klab_kind::import::{File, lab};

use super::Context;
use super::init::write_new;
use klab_lab::spec::{self, LoadOptions};
use klab_operations::error::{Code, Context as _, Error, Result};
use klab_operations::event::Verb;
use klab_operations::exec::quoted;

/// How far below the folder files are read.
const DEPTH: usize = 4;
/// How many files are read, and of what size each.
const FILES: usize = 1_000;
const BYTES: u64 = 1 << 20;

/// What can be typed after `klab import`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The folder with kind's configuration, manifests and scripts.
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// The lab file to write; `lab.toml` in the folder by default.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Writes the lab file; one that is there is left alone.
///
/// # Errors
/// When the folder cannot be read, its configuration is not kind's, or the file exists.
pub fn run(context: &Context, arguments: &Arguments) -> Result<()> {
    let folder = &arguments.folder;
    let unread = |folder: &Path| format!("could not read `{}`", folder.display());
    let whole = fs::canonicalize(folder).code(Code::NoLabFile, || unread(folder))?;
    let mut files = Vec::new();
    find(&whole, &whole, 0, &mut files).code(Code::NoLabFile, || unread(folder))?;
    files.sort_by(|one, other| one.path.cmp(&other.path));
    let title = whole.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    let name = spec::lab_name_like(&title).unwrap_or_else(|| "imported".to_owned());
    let file = arguments.output.clone().unwrap_or_else(|| folder.join("lab.toml"));
    // Paths in a lab file are those beside it.
    let beside = file.parent().map_or_else(PathBuf::new, Path::to_owned);
    if fs::canonicalize(if beside.as_os_str().is_empty() { Path::new(".") } else { &beside }).ok() != Some(whole) {
        let message = format!("`{}` is not in `{}`, whose files the lab refers to", file.display(), folder.display());
        return Err(Error::message(Code::FileUnwritten, message).hint("leave out `--output`, and copy the folder"));
    }
    let imported = lab(&name, &files).map_err(|why| {
        Error::message(Code::ManifestYaml, why).hint("`klab kind create cluster --config FILE` reads it alike")
    })?;
    let [named, other] = [folder, &folder.join("other.toml")].map(|path| path.display().to_string());
    write_new(&file, &imported.text, &format!("klab import {} --output {}", quoted(&named), quoted(&other)))?;
    for note in &imported.notes {
        context.ui.events().warn(Code::Caveat, note);
    }
    let path = file.display();
    context.ui.events().counting(1).note(Verb::WriteFiles, format!("{path}; `klab check {path}` says what is missing"));
    if let Err(problems) = spec::load(&file, &LoadOptions::default()) {
        context.ui.say(&problems.render(context.ui.colours()));
    }
    Ok(())
}

/// Adds the files that a lab may be made from.
fn find(root: &Path, folder: &Path, depth: usize, files: &mut Vec<File>) -> std::io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let (path, kind) = (entry.path(), entry.file_type()?);
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.starts_with('.') || name == "node_modules" || files.len() >= FILES {
            continue;
        }
        if kind.is_dir() && depth < DEPTH {
            find(root, &path, depth.saturating_add(1), files)?;
        }
        let is_read = [".yaml", ".yml", ".json", ".sh", ".md"].iter().any(|ending| name.ends_with(ending));
        if kind.is_file()
            && is_read
            && entry.metadata()?.len() <= BYTES
            && let Ok(text) = fs::read_to_string(&path)
            && let Ok(below) = path.strip_prefix(root)
        {
            files.push(File { path: below.to_string_lossy().replace('\\', "/"), text });
        }
    }
    Ok(())
}
