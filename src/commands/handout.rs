//! `klab handout`: a page for each learner, to print or to send: where the cluster is, and what to do.

use std::path::{Path, PathBuf};

use super::lesson::{lines, tools, tools_of};
use super::{Context, LabOptions};
use crate::handout::handout;
use klab_lab::spec::{Lab, MAX_BYTES, read_regular};
use klab_lab::words::plural;
use klab_operations::error::{Code, Context as _, Error, Result};
use klab_operations::event::Verb;
use klab_operations::lesson::Tools;
use klab_operations::lesson::command::Line;
use klab_operations::state::class::{Class, seat_name};
use klab_operations::state::home::state_error;
use klab_operations::ui::Format;

/// What can be typed after `klab handout`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The lab or class, by its name or its file; the one that is up by default.
    #[arg(value_name = "LAB")]
    lab: Option<String>,
    /// Only the page of this seat.
    #[arg(long, value_name = "NUMBER")]
    seat: Option<u32>,
    /// Write a file for each page into this folder, in place of standard output.
    #[arg(long, short, value_name = "DIR")]
    output: Option<PathBuf>,
    /// A template of your own; by default `handout.md.tera` beside the lab file, else the built-in one.
    #[arg(long, value_name = "FILE")]
    template: Option<PathBuf>,
}

/// One page.
struct Page {
    name: String,
    text: String,
}

/// Between pages on standard output: printers of Markdown begin a new sheet.
const NEW_SHEET: &str = "\n<div style=\"page-break-after: always\"></div>\n\n";

/// Writes the pages.
///
/// # Errors
/// When the lab is not up, or the template cannot be rendered.
pub fn run(context: &Context, arguments: &Arguments) -> Result<()> {
    let name = context.lab_or_class_name(arguments.lab.as_deref())?;
    let pages = match (Class::read(&context.home, &name)?, arguments.seat) {
        (Some(class), None) => of_seats(context, arguments, &class, class.seats.iter().copied().collect())?,
        (Some(class), Some(number)) => {
            Class::of(&context.home, &name)?.seat(number)?;
            of_seats(context, arguments, &class, vec![number])?
        }
        (None, Some(number)) => return Class::of(&context.home, &name)?.seat(number).map(|_| ()),
        (None, None) => {
            let lab = super::running_lab::lab(context, Some(&name), &LabOptions::default())?;
            let source = context.record(&name)?.ok_or_else(|| context.not_up(&name))?.source;
            let template = template(arguments, &source)?;
            vec![page(context, &lab, None, template.as_ref(), &tools(context, &lab))?]
        }
    };
    let Some(folder) = &arguments.output else {
        if context.ui.format() == Format::Json {
            let pages: Vec<_> =
                pages.iter().map(|page| serde_json::json!({ "lab": page.name, "text": page.text })).collect();
            context.ui.result(&serde_json::json!({ "schema": "klab.handout/1", "pages": pages }).to_string());
        } else {
            let texts: Vec<&str> = pages.iter().map(|page| page.text.as_str()).collect();
            context.ui.result(&texts.join(NEW_SHEET));
        }
        return Ok(());
    };
    std::fs::create_dir_all(folder).map_err(|error| state_error(error, "create", folder))?;
    for page in &pages {
        let path = folder.join(format!("{}.md", page.name));
        std::fs::write(&path, &page.text).map_err(|error| state_error(error, "write", &path))?;
    }
    context
        .ui
        .events()
        .counting(pages.len())
        .note(Verb::WriteFiles, format!("{} to {}", plural(pages.len(), "page"), folder.display()));
    Ok(())
}

fn of_seats(context: &Context, arguments: &Arguments, class: &Class, numbers: Vec<u32>) -> Result<Vec<Page>> {
    let template = template(arguments, &class.source)?;
    // The seats were made of one file; any that was begun has kept it.
    let kept = class.names().find(|(_, seat)| context.home.lab(seat).join("lab.toml").is_file());
    let Some((_, kept)) = kept else {
        let message = format!("no seat of lab `{}` was made", class.lab);
        return Err(Error::message(Code::NoSuchClass, message).hint("`klab up LAB --seats …` makes them"));
    };
    let lab = super::running_lab::lab(context, Some(&kept), &LabOptions::default())?;
    let provider = context.provider(lab.provider).ok();
    numbers
        .into_iter()
        .map(|number| {
            let lab = super::seats::lab_of(&lab, &seat_name(&class.lab, number));
            page(context, &lab, Some(number), template.as_ref(), &tools_of(provider.as_deref(), &lab))
        })
        .collect()
}

fn page(
    context: &Context,
    lab: &Lab,
    seat: Option<u32>,
    template: Option<&(PathBuf, String)>,
    tools: &Tools,
) -> Result<Page> {
    let name = lab.name.value.clone();
    let kubeconfig = context.home.lab(&name).join("kubeconfig");
    let typed = |step| lines(lab, step, tools).iter().flat_map(printed).collect();
    let commands: Vec<Vec<String>> = (0..lab.steps.len()).map(typed).collect();
    let text = handout(lab, seat, &kubeconfig, template.map(|(_, text)| text.as_str()), &commands);
    let text = text.code(Code::FileUnread, || {
        let file =
            template.map_or_else(|| "the built-in template".to_owned(), |(path, _)| format!("`{}`", path.display()));
        format!("could not render the hand-out of lab `{name}` from {file}")
    })?;
    Ok(Page { name, text })
}

/// A line on a page of shell commands, where all that is no command is a comment.
fn printed(line: &Line) -> Vec<String> {
    let Line::Edit(edit) = line else { return line.pasted() };
    let mut printed = vec![edit.open.clone()];
    for (words, below) in edit.instructions() {
        printed.push(format!("# {words}"));
        printed.extend(below.iter().map(|line| format!("#     {line}")));
    }
    printed
}

/// The author's template: as named, or beside the lab file.
fn template(arguments: &Arguments, source: &Path) -> Result<Option<(PathBuf, String)>> {
    let beside = || {
        let folder = source.parent()?.canonicalize().ok()?;
        let path = folder.join("handout.md.tera").canonicalize().ok()?;
        // A link that leads out of the lab's folder is none of its files.
        path.starts_with(folder).then_some(path)
    };
    let Some(path) = arguments.template.clone().or_else(beside) else { return Ok(None) };
    let unread = |why: &dyn std::fmt::Display| {
        Error::message(Code::FileUnread, format!("could not read `{}`: {why}", path.display()))
    };
    let bytes = read_regular(&path, MAX_BYTES).map_err(|error| unread(&error))?;
    let text = String::from_utf8(bytes).map_err(|_| unread(&"it is not UTF-8 text"))?;
    Ok(Some((path, text)))
}
