//! The pages of the codes: title, cause, example and fix, read from the text files of their groups.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::Deserialize;

use super::Code;

/// The groups: the first two digits, the subject, and the pages.
const GROUPS: &[(&str, &str)] = &[
    ("The text of a lab file", include_str!("text.toml")),
    ("The meaning of a lab file", include_str!("meaning.toml")),
    ("Tools, logins and this machine", include_str!("machine.toml")),
    ("Clusters and providers", include_str!("providers.toml")),
    ("Where pods go", include_str!("placement.toml")),
    ("Checks, steps and lessons", include_str!("checks.toml")),
    ("Classes and seats", include_str!("classes.toml")),
    ("State and removal", include_str!("state.toml")),
    ("The command line", include_str!("commands.toml")),
];

/// What a page shows as an example.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Example {
    /// A lab file with the problem. A piece without a `lab` key follows [`Example::FRAME`].
    Lab(String),
    /// Lines of a terminal.
    Terminal(String),
}

impl Example {
    /// What stands before a piece of a lab file.
    pub const FRAME: &str = "lab = \"example\"\n\n[pool.main]\nmode = \"system\"\n";

    /// What is shown.
    pub fn text(&self) -> &str {
        match self {
            Self::Lab(text) | Self::Terminal(text) => text.trim_end(),
        }
    }
}

/// The page of a number.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Page {
    /// The problem, in one line.
    pub title: String,
    /// Where it comes from, in Markdown.
    pub cause: String,
    /// How it looks.
    pub example: Example,
    /// What to do, in Markdown.
    pub fix: String,
    /// What each case is, by its name, where there are several.
    #[serde(default)]
    pub cases: BTreeMap<String, String>,
    /// The code: `K0103`.
    #[serde(skip)]
    pub code: String,
    /// The subject of its group.
    #[serde(skip)]
    pub group: &'static str,
}

impl Page {
    /// The names of its cases, in the order of the table.
    pub fn names(&self) -> Vec<&'static str> {
        Code::ALL.iter().filter(|code| code.to_string() == self.code).map(|code| code.name()).collect()
    }

    /// The exit codes of commands that end with it.
    pub fn exits(&self) -> Vec<u8> {
        let own = Code::ALL.iter().filter(|code| code.to_string() == self.code).map(|code| code.exit());
        let mut exits: Vec<u8> = own.filter(|exit| *exit != 0).collect();
        exits.sort_unstable();
        exits.dedup();
        exits
    }
}

static PAGES: LazyLock<Vec<Page>> = LazyLock::new(|| {
    let read = |(group, text): &(&'static str, &str)| {
        // A test reads them all: nothing is left out here.
        let pages: BTreeMap<String, Page> = toml::from_str(text).unwrap_or_default();
        let named = |(code, page): (String, Page)| Page { code, group, ..page };
        pages.into_iter().map(named).collect::<Vec<_>>()
    };
    GROUPS.iter().flat_map(read).collect()
});

/// All pages, by code.
pub fn pages() -> &'static [Page] {
    &PAGES
}

/// The page of a code (`K0103`, `k103`, `103`) or of the name of a case.
pub fn page(asked: &str) -> Option<&'static Page> {
    let number = asked.trim_start_matches(['K', 'k']).parse::<u16>().map(|number| format!("K{number:04}"));
    let code = number.ok().or_else(|| Code::of_name(asked).map(|code| code.to_string()))?;
    pages().iter().find(|page| page.code == code)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::spec::{LoadOptions, parse};

    #[test]
    fn every_code_has_a_page_and_every_page_a_code() {
        let mut found = BTreeSet::new();
        for (group, text) in GROUPS {
            let pages: BTreeMap<String, Page> = toml::from_str(text).unwrap_or_else(|error| panic!("{group}: {error}"));
            found.extend(pages.into_keys());
        }
        let wanted: BTreeSet<String> = Code::ALL.iter().map(ToString::to_string).collect();
        assert_eq!(found, wanted);
    }

    #[test]
    fn pages_are_whole_and_say_what_each_case_is() {
        for page in pages() {
            let (code, names) = (&page.code, page.names());
            assert!(!page.title.ends_with('.') && page.title.len() < 80, "{code}: {}", page.title);
            for text in [&page.cause, &page.fix] {
                assert!(text.trim_end().ends_with(['.', '`', '|']) && text.len() > 20, "{code}: {text}");
            }
            assert!(!page.example.text().is_empty(), "{code}");
            let described: BTreeSet<&str> = page.cases.keys().map(String::as_str).collect();
            let wanted = if names.len() == 1 { BTreeSet::new() } else { names.iter().copied().collect() };
            assert_eq!(described, wanted, "{code}");
        }
    }

    #[test]
    fn a_code_is_found_by_number_and_by_name() {
        for asked in ["K0103", "k0103", "103", "unknown-key"] {
            assert_eq!(page(asked).map(|page| &*page.code), Some("K0103"), "{asked}");
        }
        assert_eq!(page("K0199"), None);
    }

    #[test]
    fn lab_files_show_their_code() {
        let (mut count, mut wrong) = (0, String::new());
        for page in pages() {
            let Example::Lab(text) = &page.example else { continue };
            let text = if text.starts_with("lab ") { text.clone() } else { format!("{}\n{text}", Example::FRAME) };
            let found = parse("lab.toml", &text, &LoadOptions::default());
            let found = found.map_or_else(|problems| problems, |lab| lab.warnings);
            let codes: BTreeSet<String> = found.iter().map(|problem| problem.code.to_string()).collect();
            if codes != BTreeSet::from([page.code.clone()]) {
                wrong.push_str(&format!("{} has {codes:?}\n{text}\n{found}\n", page.code));
            }
            count += 1;
        }
        assert!(wrong.is_empty(), "{wrong}");
        assert!(count > 40, "{count}");
    }
}
