//! `klab explain-code`: what the code of a message means, with cause, example and fix.

use serde_json::{Value, json};

use super::Context;
use klab_lab::code::{self, Page, pages};
use klab_lab::spec::did_you_mean;
use klab_operations::error::{Code, Error, Result};
use klab_operations::ui::Format;

/// What can be typed after `klab explain-code`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The code of a message, such as K0103, or the name of a case; without it, all codes are listed.
    #[arg(value_name = "CODE")]
    code: Option<String>,
}

/// Prints the page of a code, or a line for each.
///
/// # Errors
/// When there is no such code.
pub fn run(context: &Context, arguments: &Arguments) -> Result<()> {
    let pages: Vec<&Page> = match &arguments.code {
        None => pages().iter().collect(),
        Some(asked) => vec![code::page(asked).ok_or_else(|| unknown(asked))?],
    };
    let text = match pages.as_slice() {
        _ if context.ui.format() == Format::Json => {
            let codes: Vec<Value> = pages.into_iter().map(document).collect();
            json!({ "schema": "klab.codes/1", "codes": codes }).to_string()
        }
        [only] => context.ui.fitted(&page(only)),
        all => list(all),
    };
    context.ui.result(&text);
    Ok(())
}

fn unknown(asked: &str) -> Error {
    let error = Error::message(Code::NoSuchCode, format!("there is no code `{asked}`"));
    // Of codes that are equally like it, the later one is meant.
    let known = pages().iter().rev().flat_map(|page| page.names().into_iter().chain([page.code.as_str()]));
    let error = match did_you_mean(asked, known).and_then(code::page) {
        Some(page) => error.hint(format!("did you mean {}, “{}”?", page.code, page.title)),
        None => error,
    };
    error.hint("`klab explain-code` lists all codes")
}

/// A line for each code, by group.
fn list(pages: &[&Page]) -> String {
    let mut text = String::new();
    for (place, page) in pages.iter().enumerate() {
        if place == 0 || pages[place - 1].group != page.group {
            let gap = if place == 0 { "" } else { "\n" };
            text.push_str(&format!("{gap}{}\n", page.group));
        }
        text.push_str(&format!("  {}  {}\n", page.code, page.title));
    }
    text
}

/// A page as text.
fn page(page: &Page) -> String {
    let mut text = format!("{}: {}\n\n{}\n", page.code, page.title, page.cause.trim());
    if !page.cases.is_empty() {
        text.push_str("\nCases:\n");
        for name in page.names() {
            let meaning = page.cases.get(name).map_or("", String::as_str);
            text.push_str(&format!("  {name}: {meaning}\n"));
        }
    }
    text.push_str("\nExample:\n");
    for line in page.example.text().lines() {
        text.push_str(&format!("    {line}\n"));
    }
    text.push_str(&format!("\nFix:\n{}\n", page.fix.trim()));
    text
}

fn document(page: &Page) -> Value {
    json!({
        "code": page.code, "title": page.title, "group": page.group, "cause": page.cause.trim(),
        "example": page.example.text(), "fix": page.fix.trim(), "exit_codes": page.exits(),
        "cases": page.names().into_iter().map(|name| json!({ "case": name, "meaning": page.cases.get(name).unwrap_or(&page.title) })).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_that_is_mistyped_finds_its_like_and_another_word_finds_none() {
        for (asked, like) in [("K0199", Some("K0119")), ("unknwon-key", Some("K0103")), ("nope", None)] {
            let hints = unknown(asked).hints;
            let found = hints.iter().find_map(|hint| hint.strip_prefix("did you mean ")?.split(',').next());
            assert_eq!(found, like, "{asked}: {hints:?}");
        }
    }
}
