//! Pure: what a flag's value may be, and which files are meant.

use std::collections::BTreeMap;

use super::flag::{Flag, Rule, Takes};
use super::refusal::{Refusal, quoted};

pub(super) const NO_STDIN: &str = "nothing comes to `-` here: put the manifest into the editor and name it, `kubectl apply -f NAME`, or type it below \
     the line with `<<'YAML'`";

/// The files there are, and what a line has taken of them.
pub(super) struct Context<'f> {
    pub(super) files: &'f BTreeMap<String, String>,
    pub(super) has_input: bool,
    /// Those that are named, and the name each has where kubectl runs.
    pub(super) named: Vec<(String, String)>,
    pub(super) reads_input: bool,
}

/// Formats that kubectl writes without reading a file.
const FORMATS: [&str; 10] = [
    "json",
    "yaml",
    "kyaml",
    "wide",
    "name",
    "jsonpath",
    "jsonpath-as-json",
    "go-template",
    "template",
    "custom-columns",
];
/// Paths that say how the cluster is, besides those of its objects.
const PATHS: [&str; 6] = ["/healthz", "/livez", "/readyz", "/version", "/metrics", "/openapi/v3"];
/// Most that `-v` may be: from 7 on kubectl prints the headers of its requests, the token among them.
const VERBOSITY: u8 = 6;

impl Context<'_> {
    /// The values that a flag gets: several of a list of files.
    pub(super) fn values(&mut self, flag: &Flag, value: Option<&str>) -> Result<Vec<String>, Refusal> {
        let name = flag.name;
        let wrong = |wanted: String| Refusal::new(format!("`--{name}` takes {wanted}"));
        let rule = match flag.takes {
            Takes::Nothing => match value {
                None | Some("true") => return Ok(vec!["true".to_owned()]),
                Some("false") => return Ok(vec!["false".to_owned()]),
                Some(_) => return Err(wrong("`true` or `false`, or nothing".to_owned())),
            },
            Takes::Perhaps { unsaid, values } => match value {
                None => return Ok(vec![unsaid.to_owned()]),
                Some(_) => Rule::OneOf(values),
            },
            Takes::Value(rule) => rule,
        };
        let value = value.unwrap_or_default();
        match rule {
            Rule::Text => {}
            Rule::OneOf(values) if values.contains(&value) => {}
            Rule::OneOf(values) => return Err(wrong(format!("one of {}", quoted(values)))),
            Rule::Output => {
                let format = value.split('=').next().unwrap_or_default();
                if format.ends_with("file") {
                    return Err(Refusal::new(format!(
                        "`-o {format}` reads a file of the machine: write the template into the line, `-o jsonpath='…'`"
                    )));
                }
                if !FORMATS.contains(&format) {
                    return Err(wrong(format!("one of {}", quoted(&FORMATS))));
                }
            }
            Rule::Verbosity => {
                if !value.parse::<u8>().is_ok_and(|level| level <= VERBOSITY) {
                    let reason =
                        format!("a number up to {VERBOSITY}: above that kubectl prints what it proves itself with");
                    return Err(wrong(reason));
                }
            }
            Rule::Path => path(value)?,
            Rule::File => return Ok(vec![self.file(value)?]),
            Rule::Files => return value.split(',').map(|file| self.file(file)).collect(),
        }
        Ok(vec![value.to_owned()])
    }

    fn file(&mut self, named: &str) -> Result<String, Refusal> {
        if named == "-" {
            if !self.has_input {
                return Err(Refusal::new(NO_STDIN));
            }
            self.reads_input = true;
            return Ok(named.to_owned());
        }
        // A shell's word for any text may stand for one of these only.
        if named.contains("://") {
            return Err(Refusal::new(
                "the console opens no address of the network: paste the manifest into the editor",
            ));
        }
        let known =
            [named, named.strip_prefix("./").unwrap_or(named)].into_iter().find(|name| self.files.contains_key(*name));
        let placed = known.and_then(|name| placed(name, self.named.len()));
        let (Some(name), Some(placed)) = (known, placed) else {
            let there: Vec<&str> = self.files.keys().map(String::as_str).collect();
            let there = if there.is_empty() { "it is empty".to_owned() } else { format!("it has {}", quoted(&there)) };
            return Err(Refusal::new(format!("files are those of the editor, and `{named}` is none of them; {there}")));
        };
        self.named.push((name.to_owned(), placed.clone()));
        Ok(placed)
    }
}

/// Where a file is laid for kubectl: under its own name, or, for one of the lab that is called by a longer way, under the end of it.
fn placed(name: &str, number: usize) -> Option<String> {
    if is_name(name) {
        return Some(name.to_owned());
    }
    let end = name.rsplit('/').next().filter(|end| is_name(end))?;
    Some(format!("of-the-lab/{number}/{end}"))
}

/// Whether a text can be the name of a file of the editor: a path below its folder, without tricks.
pub(super) fn is_name(name: &str) -> bool {
    let plain = |part: &str| {
        let good = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_' | '.');
        !part.is_empty() && !part.starts_with(['.', '-']) && part.chars().all(good)
    };
    name.len() <= 100 && name.split('/').count() <= 4 && name.split('/').all(plain)
}

fn path(value: &str) -> Result<(), Refusal> {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "/-._".contains(letter);
    let of_objects = ["/api", "/apis"].iter().any(|root| value == *root || value.starts_with(&format!("{root}/")));
    let known = of_objects || PATHS.contains(&value.trim_end_matches('/'));
    if known
        && value.chars().all(plain)
        && !value.split('/').any(|part| part == ".." || part == ".")
        && !value.contains("//")
    {
        return Ok(());
    }
    Err(Refusal::new(format!("`--raw` takes a path below `/api` or `/apis`, or one of {}", quoted(&PATHS))))
}

/// Why a word that names an object is none.
pub(super) fn object(word: &str) -> Option<Refusal> {
    // kubectl gets these behind its flags: none of them can be one.
    (word.is_empty()).then(|| Refusal::new("an empty word names nothing"))
}
