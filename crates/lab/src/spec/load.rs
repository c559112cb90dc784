//! From a path or a text to a [`Lab`], with everything that is wrong reported at once.

use std::io;
use std::path::Path;

use serde::Deserialize;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::diagnostic::{Diagnostic, Diagnostics};
use super::gather::gather;
use super::lab::{Lab, LoadOptions};
use super::read::{Unread, read_regular};
use super::source::Source;
use super::tree::Tree;
use super::{raw, rules, structure, syntax_error, template, validate};
use crate::code::Code;

/// A lab file is a page or two. Far beyond that it is the wrong file.
pub const MAX_BYTES: u64 = 1 << 20;

/// Reads a lab file and everything it refers to. Warnings of a good lab are in [`Lab::warnings`].
pub fn load(path: &Path, options: &LoadOptions) -> Result<Lab, Diagnostics> {
    let name = path.display().to_string();
    let bytes = read(path).map_err(|diagnostic| Diagnostics::from(*diagnostic))?;
    let text = decode(&name, bytes)?;
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let (lab, mut diagnostics) = read_lab(&name, &text, options);
    let lab = lab.map(|lab| {
        let (files, problems) = gather(&lab, directory, options.reach);
        diagnostics.extend(problems);
        Lab { files, ..lab }
    });
    finish(lab, diagnostics)
}

/// Reads a lab from text alone. Files that it refers to are not read, so it can be judged but not rendered if it has any.
pub fn parse(name: &str, text: &str, options: &LoadOptions) -> Result<Lab, Diagnostics> {
    let (lab, diagnostics) = read_lab(name, text, options);
    finish(lab, diagnostics)
}

/// As [`parse`], for callers that have a use for a lab although it breaks rules: the lab, where it could be read at all, and
/// everything that is wrong with it.
pub fn parse_whatever_it_breaks(name: &str, text: &str, options: &LoadOptions) -> (Option<Lab>, Diagnostics) {
    let (lab, mut diagnostics) = read_lab(name, text, options);
    diagnostics.sort();
    (lab, diagnostics)
}

/// Reads a lab from a copy of its text. What it refers to is looked up in the folder of the original; files that are not
/// there any more are left out.
pub fn parse_beside(name: &str, text: &str, directory: &Path, options: &LoadOptions) -> Result<Lab, Diagnostics> {
    let (lab, diagnostics) = read_lab(name, text, options);
    let lab = lab.map(|lab| Lab { files: gather(&lab, directory, options.reach).0, ..lab });
    finish(lab, diagnostics)
}

/// Reads a lab from bytes that may be anything.
pub fn parse_bytes(name: &str, bytes: Vec<u8>, options: &LoadOptions) -> Result<Lab, Diagnostics> {
    parse(name, &decode(name, bytes)?, options)
}

fn finish(lab: Option<Lab>, mut diagnostics: Diagnostics) -> Result<Lab, Diagnostics> {
    diagnostics.sort();
    match lab {
        Some(lab) if diagnostics.errors() == 0 => Ok(Lab { warnings: diagnostics, ..lab }),
        _ => Err(diagnostics),
    }
}

fn read(path: &Path) -> Result<Vec<u8>, Box<Diagnostic>> {
    let name = path.display();
    read_regular(path, MAX_BYTES).map_err(|unread| {
        let diagnostic = Diagnostic::error(Code::Unreadable, format!("cannot read {name}: {unread}"));
        Box::new(match unread {
            Unread::Failed(error) if error.kind() == io::ErrorKind::NotFound => diagnostic.help(
                "give the path of a lab file, the name of a lesson (`klab lessons`), or begin one with `klab init`",
            ),
            Unread::NotRegular(_) => diagnostic.help("give the path of one lab file, such as `labs/scheduling.toml`"),
            Unread::TooLarge(_) => too_big(&name.to_string()),
            Unread::Failed(_) => diagnostic,
        })
    })
}

fn too_big(name: &str) -> Diagnostic {
    Diagnostic::error(Code::TooBigFile, format!("{name} is larger than 1 MiB"))
        .help("a lab file is a page or two; large objects belong in files of their own (`[[manifest]] path = …`)")
}

fn decode(name: &str, bytes: Vec<u8>) -> Result<String, Diagnostics> {
    if bytes.len() as u64 > MAX_BYTES {
        return Err(too_big(name).into());
    }
    let text = String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        let line = error.as_bytes()[..at].split(|byte| *byte == b'\n').count();
        Diagnostic::error(Code::NotUtf8, format!("{name} is not UTF-8 text"))
            .note(format!("the first byte that is not UTF-8 is number {} of the file, on line {line}", at + 1))
            .help("save the file as UTF-8")
    })?;
    // Editors on Windows begin files with a byte order mark.
    Ok(text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text))
}

fn read_lab(name: &str, text: &str, options: &LoadOptions) -> (Option<Lab>, Diagnostics) {
    let source = Source::new(name, text);
    let mut diagnostics = Diagnostics::default();
    let text = source.text();
    if text.trim().is_empty() {
        diagnostics.push(
            Diagnostic::error(Code::Empty, format!("{name} is empty"))
                .help("`klab init` writes a lab file to begin with"),
        );
        return (None, diagnostics);
    }
    let (tree, errors) = DeTable::parse_recoverable(text);
    if !errors.is_empty() {
        return (None, syntax_error::report(&errors, &source));
    }
    let rendered = template::render(&tree, options, &source, &mut diagnostics);
    let (raw, mut broken) = {
        let mut tree: Spanned<DeTable<'_>> = tree;
        rendered.substitute(&mut tree);
        let whole = rendered.whole.iter().filter_map(|start| Some((*start, rendered.strings.get(start)?.as_str())));
        let broken = structure::check(&mut tree, whole.collect(), &rendered.failed, &source, &mut diagnostics);
        let tree = Spanned::new(tree.span(), DeValue::Table(tree.into_inner()));
        (raw::Lab::deserialize(Tree::new(&tree)), broken)
    };
    let raw = match raw {
        Ok(raw) => raw,
        Err(error) => {
            // The structure has been judged already; this is what the judgement missed.
            if diagnostics.errors() == 0 {
                diagnostics.push(syntax_error::diagnostic(&error.message, error.span, &source));
            }
            return (None, diagnostics);
        }
    };
    let mut lab = validate::lab(&raw, rendered, &source, &mut broken, &mut diagnostics);
    lab.sim.seed = options.seed.or(lab.sim.seed);
    rules::check(&lab, &broken, &mut diagnostics);
    (Some(lab), diagnostics)
}
