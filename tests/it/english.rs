//! The English that users read: few idioms of a translation, and short sentences. Prints the figures.

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use klab::cli::Cli;
use klab_lab::code::pages;
use regex::Regex;

/// Words and phrases that hide the actor, as a translation has them.
static IDIOMS: LazyLock<Regex> = LazyLock::new(|| {
    let words = "nobody|somebody|everybody|whoever|anew|told|so many|as it is to be|by now|for good|goes on to";
    let passives = "(is|are|was|were) to be|(is|are|was|were|be) said|(is|are|be) had";
    Regex::new(&format!(r"(?i)\b({words}|{passives})\b")).unwrap()
});

/// Most sentences with an idiom, in percent of all.
const MAX_IDIOMS: usize = 1;

/// Most words of the median sentence.
const MAX_MEDIAN: usize = 16;

/// A kind of text, and its sentences, each with its place.
struct Kind {
    name: &'static str,
    sentences: Vec<(String, String)>,
}

fn files(folder: &Path, extension: &str, found: &mut Vec<PathBuf>) {
    for path in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        if path.is_dir() {
            files(&path, extension, found);
        } else if path.extension().is_some_and(|its| its == extension) {
            found.push(path);
        }
    }
    found.sort();
}

impl Kind {
    fn new(name: &'static str) -> Self {
        Self { name, sentences: Vec::new() }
    }

    /// The sentences of a prose; a blank line ends one.
    fn prose(&mut self, place: &str, text: &str) {
        static END: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"([.!?])\s").unwrap());
        for paragraph in text.split("\n\n") {
            let flat = paragraph.split_whitespace().collect::<Vec<_>>().join(" ");
            for sentence in END.replace_all(&flat, "$1\n").lines() {
                if sentence.split(' ').filter(|word| word.chars().any(char::is_alphabetic)).count() > 2 {
                    self.sentences.push((place.to_owned(), sentence.to_owned()));
                }
            }
        }
    }

    /// The sentences of Markdown: without code, each item, heading and cell of a table by itself.
    fn markdown(&mut self, place: &str, text: &str) {
        static APART: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"^(\s*([-*]|\d+\.) |#+ )").unwrap());
        let (mut prose, mut is_code) = (String::new(), false);
        for line in text.lines() {
            if line.trim_start().starts_with("```") {
                is_code = !is_code;
            } else if is_code || line.starts_with("    ") {
                prose.push('\n');
            } else if line.starts_with('|') {
                prose.push_str(&line.replace(" | ", "\n\n").replace('|', "\n"));
                prose.push('\n');
            } else {
                prose.push_str(&APART.replace(line, "\n\n"));
            }
            prose.push('\n');
        }
        self.prose(place, &prose);
    }
}

/// The documentation, the codes' pages among them.
fn documentation() -> Kind {
    let mut kind = Kind::new("documentation");
    let mut paths = vec![PathBuf::from("README.md")];
    files(Path::new("docs"), "md", &mut paths);
    for path in paths {
        kind.markdown(&path.display().to_string(), &std::fs::read_to_string(&path).unwrap());
    }
    for page in pages() {
        for text in [&page.title, &page.cause, &page.fix] {
            kind.markdown(&page.code, text);
        }
    }
    kind
}

/// What lessons say: titles, texts and hints.
fn lessons() -> Kind {
    fn texts(value: &toml::Value, place: &str, kind: &mut Kind) {
        for (key, value) in value.as_table().into_iter().flatten() {
            match value {
                toml::Value::String(text) if ["title", "description", "text", "hint"].contains(&key.as_str()) => {
                    kind.markdown(place, text);
                }
                toml::Value::Array(list) => list.iter().for_each(|item| texts(item, place, kind)),
                toml::Value::Table(_) => texts(value, place, kind),
                _ => {}
            }
        }
    }
    let (mut kind, mut paths) = (Kind::new("lessons"), Vec::new());
    files(Path::new("labs"), "toml", &mut paths);
    for path in paths {
        let text = std::fs::read_to_string(&path).unwrap();
        texts(&toml::Value::Table(text.parse().unwrap()), &path.display().to_string(), &mut kind);
    }
    kind
}

/// What `--help` says of commands and their arguments.
fn help() -> Kind {
    fn of_command(command: &clap::Command, kind: &mut Kind) {
        let place = format!("klab {} --help", command.get_name());
        let own = [command.get_about(), command.get_long_about()].into_iter().flatten().map(ToString::to_string);
        let arguments = command.get_arguments().filter_map(|argument| argument.get_help()).map(ToString::to_string);
        own.chain(arguments).for_each(|text| kind.prose(&place, &text));
        command.get_subcommands().for_each(|command| of_command(command, kind));
    }
    let mut kind = Kind::new("help");
    of_command(&Cli::whole(), &mut kind);
    kind
}

/// What commands print: the texts in the sources, which messages are made of.
fn messages() -> Kind {
    static TEXT: LazyLock<Regex> = LazyLock::new(|| Regex::new(r#""((?:[^"\\\n]|\\[^\n]|\\\n\s*)*)""#).unwrap());
    static BREAK: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\\\n\s*").unwrap());
    let (mut kind, mut paths) = (Kind::new("messages"), Vec::new());
    for folder in ["src", "crates/lab/src", "crates/operations/src", "crates/host/src"] {
        files(Path::new(folder), "rs", &mut paths);
    }
    for path in paths.iter().filter(|path| !path.to_string_lossy().contains("tests")) {
        let text = std::fs::read_to_string(path).unwrap();
        let own = text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
        let code: Vec<&str> = own.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
        for found in TEXT.captures_iter(&code.join("\n").replace("'\"'", "' '")) {
            kind.prose(&path.display().to_string(), &BREAK.replace_all(&found[1], ""));
        }
    }
    kind
}

#[test]
fn users_read_plain_english() {
    let (mut all, mut wrong) = (0, Vec::new());
    for kind in [documentation(), lessons(), help(), messages()] {
        let mut lengths: Vec<usize> = kind.sentences.iter().map(|(_, text)| text.split(' ').count()).collect();
        lengths.sort_unstable();
        let (count, median) = (lengths.len(), lengths[lengths.len() / 2]);
        let long = lengths.iter().filter(|length| **length > 25).count();
        let idioms = kind.sentences.iter().filter(|(_, text)| IDIOMS.is_match(text));
        let idioms: Vec<String> = idioms.map(|(place, text)| format!("{place}: {text}")).collect();
        println!(
            "{}: {count} sentences, median {median} words, {long} over 25 words, {} with an idiom",
            kind.name,
            idioms.len()
        );
        assert!(count > 100 && median <= MAX_MEDIAN, "{}: the median of {count} sentences is {median}", kind.name);
        all += count;
        wrong.extend(idioms);
    }
    assert!(wrong.len() * 100 <= all * MAX_IDIOMS, "{} of {all} sentences:\n{}", wrong.len(), wrong.join("\n"));
}
