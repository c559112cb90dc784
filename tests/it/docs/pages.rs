//! The pages of the documentation as a whole: links and anchors lead somewhere, the list of pages is complete, no page is too long.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

use super::{all_pages, pages};

/// The most words of a page that is written by hand.
const MAX_WORDS: usize = 2_500;

/// Pages that tests write, and folders of them.
const GENERATED: [&str; 3] = ["docs/look-up/conformance.md", "docs/look-up/commands/", "docs/look-up/codes/"];

/// The places of a page that a link can name, and its links.
struct Page {
    anchors: BTreeSet<String>,
    links: Vec<String>,
}

/// Reads a page as GitHub and the site do: a heading's anchor is its text in lower case with `-` for blanks, numbered where it comes again.
fn read(path: &Path) -> Page {
    let text = std::fs::read_to_string(path).unwrap();
    let (mut anchors, mut links, mut heading) = (BTreeSet::new(), Vec::new(), None::<String>);
    let mut taken: BTreeMap<String, usize> = BTreeMap::new();
    for event in Parser::new_ext(&text, Options::ENABLE_TABLES) {
        match event {
            Event::Start(Tag::Heading { .. }) => heading = Some(String::new()),
            Event::End(TagEnd::Heading(_)) => {
                let kept = heading.take().unwrap_or_default().to_lowercase();
                let kept = kept.chars().filter(|letter| letter.is_alphanumeric() || " -_".contains(*letter));
                let anchor: String = kept.map(|letter| if letter == ' ' { '-' } else { letter }).collect();
                let before = taken.entry(anchor.clone()).or_default();
                anchors.insert(if *before == 0 { anchor } else { format!("{anchor}-{before}") });
                *before += 1;
            }
            Event::Text(text) | Event::Code(text) => heading.iter_mut().for_each(|heading| heading.push_str(&text)),
            Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                links.push(dest_url.into_string());
            }
            _ => {}
        }
    }
    Page { anchors, links }
}

/// A path without `.` and `..`.
fn straight(path: &Path) -> PathBuf {
    path.components().fold(PathBuf::new(), |mut straight, part| {
        match part {
            Component::ParentDir => drop(straight.pop()),
            Component::CurDir => {}
            part => straight.push(part),
        }
        straight
    })
}

#[test]
fn links_and_anchors_lead_somewhere() {
    let read: BTreeMap<PathBuf, Page> = all_pages().into_iter().map(|path| (path.clone(), read(&path))).collect();
    let mut wrong = Vec::new();
    for (path, page) in &read {
        for link in page.links.iter().filter(|link| !link.contains("://") && !link.starts_with("mailto:")) {
            let (file, anchor) =
                link.split_once('#').map_or((link.as_str(), None), |(file, anchor)| (file, Some(anchor)));
            let target = if file.is_empty() { path.clone() } else { straight(&path.parent().unwrap().join(file)) };
            let known = |anchor| read.get(&target).is_none_or(|page| page.anchors.contains(anchor));
            if !target.exists() || !anchor.is_none_or(known) {
                wrong.push(format!("{}: {link}", path.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "links lead nowhere:\n{}", wrong.join("\n"));
}

/// The site lists the pages of a folder whose README.md is listed by itself.
#[test]
fn the_list_of_pages_is_complete() {
    let listed: BTreeSet<PathBuf> =
        read(Path::new("docs/SUMMARY.md")).links.iter().map(|link| Path::new("docs").join(link)).collect();
    for page in pages().iter().filter(|page| !page.ends_with("SUMMARY.md")) {
        let index = page.with_file_name("README.md");
        let is_below = index != Path::new("docs/README.md") && listed.contains(&index);
        assert!(listed.contains(page) || is_below, "docs/SUMMARY.md leaves out {}", page.display());
    }
}

#[test]
fn no_page_is_too_long() {
    let by_hand = |page: &PathBuf| !GENERATED.iter().any(|generated| page.to_string_lossy().starts_with(generated));
    for page in pages().into_iter().filter(by_hand) {
        let words = std::fs::read_to_string(&page).unwrap().split_whitespace().count();
        assert!(words <= MAX_WORDS, "{} has {words} words, more than {MAX_WORDS}: split it", page.display());
    }
}
