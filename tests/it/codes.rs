//! Codes of messages: each is used, and each has a page in the documentation.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::LazyLock;

use klab_lab::code::{Code, Example, Page, pages};
use regex::Regex;

use crate::written::is_written;

/// Where the pages are.
const FOLDER: &str = "docs/look-up/codes";

/// A page in Markdown.
fn markdown(page: &Page) -> String {
    let mut text = format!("# {}: {}\n\n{}\n\n", page.code, page.title, page.cause.trim());
    if !page.cases.is_empty() {
        text.push_str("| `case` | meaning |\n|---|---|\n");
        for name in page.names() {
            text.push_str(&format!("| `{name}` | {} |\n", page.cases[name]));
        }
        text.push('\n');
    }
    let language = match page.example {
        Example::Lab(_) => "toml",
        Example::Terminal(_) => "console",
    };
    text.push_str(&format!("## Example\n\n```{language}\n{}\n```\n\n", page.example.text().trim_start()));
    text.push_str(&format!("## Fix\n\n{}\n\n", page.fix.trim()));
    let exits: Vec<String> = page.exits().iter().map(|exit| format!("**{exit}**")).collect();
    if page.code.starts_with("K05") || page.code.starts_with("K061") || page.code.starts_with("K060") {
        // A diagnosis: the command that shows it ends with a code of its own.
        text.push_str("`klab verify` exits with **1** when a check fails for this reason. ");
    } else if !exits.is_empty() {
        text.push_str(&format!("A command that ends with this code exits with {}. ", exits.join(" or ")));
    }
    text.push_str("[All codes](README.md)\n");
    text
}

/// The page that leads to all others.
fn index() -> String {
    let mut text = "# Codes\n\nMessages of klab have a code, such as `K0103`. A code never changes its meaning. \
                    This command prints its page:\n\n    klab explain-code K0103\n\n\
                    In JSON, `code` has the code and `case` the exact case.\n"
        .to_owned();
    let mut group = "";
    for page in pages() {
        if page.group != group {
            group = page.group;
            text.push_str(&format!("\n## {group}\n\n| code | problem |\n|---|---|\n"));
        }
        text.push_str(&format!("| [{0}]({0}.md) | {1} |\n", page.code, page.title));
    }
    text
}

#[test]
fn the_documentation_has_a_page_for_each_code() {
    let mut names = BTreeSet::from(["README.md".to_owned()]);
    is_written(&Path::new(FOLDER).join("README.md"), &index());
    for page in pages() {
        let name = format!("{}.md", page.code);
        is_written(&Path::new(FOLDER).join(&name), &markdown(page));
        names.insert(name);
    }
    let found = std::fs::read_dir(FOLDER).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    assert_eq!(found.collect::<BTreeSet<String>>(), names, "{FOLDER} has pages of no code");
}

/// All sources of a folder, those of tests apart.
fn sources(folder: &Path, found: &mut Vec<String>, tests: &mut String) {
    for path in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        let name = path.to_string_lossy();
        if path.is_dir() {
            sources(&path, found, tests);
        } else if name.ends_with(".snap") || name.starts_with("tests/") || name.contains("tests") {
            tests.push_str(&std::fs::read_to_string(&path).unwrap_or_default());
        } else if name.ends_with(".rs") && !path.ends_with("lab/src/code.rs") {
            let text = std::fs::read_to_string(&path).unwrap();
            let (own, test) = text.split_once("#[cfg(test)]\nmod tests").unwrap_or((&text, ""));
            found.push(own.to_owned());
            tests.push_str(test);
        }
    }
}

fn all_sources() -> (Vec<String>, String) {
    let (mut found, mut tests) = (Vec::new(), String::new());
    for folder in ["src", "crates/lab/src", "crates/operations/src", "crates/host/src"] {
        sources(Path::new(folder), &mut found, &mut tests);
    }
    sources(Path::new("tests"), &mut Vec::new(), &mut tests);
    (found, tests)
}

#[test]
fn every_case_is_used() {
    let text = all_sources().0.concat();
    let used: BTreeSet<&str> = text
        .split("Code::")
        .skip(1)
        .map(|rest| rest.split(|c: char| !c.is_ascii_alphanumeric()).next().unwrap_or_default())
        .collect();
    let unused: Vec<&str> =
        Code::ALL.iter().filter(|code| !used.contains(&*format!("{code:?}"))).map(|code| code.name()).collect();
    assert!(unused.is_empty(), "no message has {}", unused.join(", "));
}

/// A text of the sources as a pattern: what it fills in may be anything. None where it is little more.
fn pattern(text: &str) -> Option<Regex> {
    static FILLED: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\{[^{}]*\}").unwrap());
    static ESCAPED: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\\\n\s*").unwrap());
    let text = ESCAPED.replace_all(text, "").replace("\\\"", "\"");
    let text = text.split("\\n").next().unwrap_or_default();
    let fixed: Vec<String> = FILLED.split(text).map(regex::escape).collect();
    let letters = FILLED.replace_all(text, "").chars().filter(char::is_ascii_alphabetic).count();
    (letters > 4).then(|| Regex::new(&format!("^{}$", fixed.join(".+"))).unwrap())
}

/// The texts of a source, each with the numbers of the codes that stand near it.
fn texts(source: &str) -> Vec<(Regex, BTreeSet<u16>)> {
    static TEXT: LazyLock<Regex> = LazyLock::new(|| Regex::new(r#""((?:[^"\\]|\\[\s\S])*)""#).unwrap());
    static CODE: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"Code::([A-Z][A-Za-z0-9]+)").unwrap());
    let source = source.replace("'\"'", "' '");
    let number = |name: &str| Code::ALL.iter().find(|code| format!("{code:?}") == name).map(|code| code.number());
    let codes = CODE.captures_iter(&source).filter_map(|found| Some((found.get(0)?.start(), number(&found[1])?)));
    let codes: Vec<(usize, u16)> = codes.collect();
    let near = |at: usize| codes.iter().filter(move |code| code.0.abs_diff(at) < 900).map(|code| code.1).collect();
    TEXT.captures_iter(&source).filter_map(|found| Some((pattern(&found[1])?, near(found.get(1)?.start())))).collect()
}

/// What terminals show on pages is what klab prints: the message stands in the sources beside its code, what surrounds it there or in
/// a test. (The pages of `klab explain` have a test of their own beside it.)
#[test]
fn examples_are_what_klab_prints() {
    static MESSAGE: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"^(?:\^C)?(?:error|warning)\[K(\d{4})\]: (.*)$").unwrap());
    let flat = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let (sources, tests) = all_sources();
    let tests = flat(&(tests + &std::fs::read_to_string("docs/look-up/checks.md").unwrap()));
    let texts: Vec<(Regex, BTreeSet<u16>)> = sources.iter().flat_map(|source| texts(source)).collect();
    let (mut count, mut wrong) = (0, Vec::new());
    for page in pages().iter().filter(|page| !page.code.starts_with("K05")) {
        let Example::Terminal(example) = &page.example else { continue };
        let mut lines = example.lines().filter(|line| !line.trim().is_empty() && !line.starts_with("$ ")).peekable();
        while let Some(line) = lines.next() {
            count += 1;
            let by_another = lines.peek().is_some_and(|next| next.starts_with("caused by: "));
            let printed =
                match MESSAGE.captures(line) {
                    Some(found) => texts.iter().any(|(text, codes)| {
                        (by_another || codes.contains(&found[1].parse().unwrap())) && text.is_match(&found[2])
                    }),
                    // What the line is about may stand before it.
                    None => ["", ": ", " → ", "  "].iter().filter_map(|end| line.trim().split_once(end)).any(
                        |(_, words)| texts.iter().any(|(text, _)| text.is_match(words.trim())) || tests.contains(words),
                    ),
                };
            if !printed && !tests.contains(&flat(line)) {
                wrong.push(format!("{}: {line}", page.code));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(count > 100, "{count}");
}
