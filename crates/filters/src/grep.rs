//! `grep`.

use std::collections::VecDeque;

use regex::Regex;

use super::options::{Known, Options};
use super::pattern::{Form, How, finder};
use super::refusal::Refusal;

/// What is looked for, and what is shown of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grep {
    patterns: Vec<String>,
    how: How,
    inverted: bool,
    counted: bool,
    numbered: bool,
    only_found: bool,
    before: usize,
    after: usize,
    most: usize,
}

const KNOWN: [Known; 15] = [
    ('e', "regexp", true),
    ('E', "extended-regexp", false),
    ('F', "fixed-strings", false),
    ('G', "basic-regexp", false),
    ('i', "ignore-case", false),
    ('v', "invert-match", false),
    ('w', "word-regexp", false),
    ('x', "line-regexp", false),
    ('c', "count", false),
    ('n', "line-number", false),
    ('o', "only-matching", false),
    ('m', "max-count", true),
    ('A', "after-context", true),
    ('B', "before-context", true),
    ('C', "context", true),
];

pub(super) fn read(program: &str, words: &[String]) -> Result<(Grep, Options), Refusal> {
    let mut options = Options::read("grep", words, &KNOWN)?;
    let mut patterns: Vec<String> = options.values('e').map(str::to_owned).collect();
    if patterns.is_empty() {
        if options.words.is_empty() {
            return Err(Refusal::new("what should `grep` look for? `kubectl get pods -A | grep coredns`"));
        }
        patterns.push(options.words.remove(0));
    }
    let form = match program {
        _ if options.has('F') => Form::Fixed,
        _ if options.has('E') => Form::Extended,
        "fgrep" => Form::Fixed,
        "egrep" => Form::Extended,
        _ => Form::Basic,
    };
    let how = How { form, any_case: options.has('i'), whole_words: options.has('w'), whole_lines: options.has('x') };
    let around = options.number('C')?.or(options.number('#')?).unwrap_or(0);
    let grep = Grep {
        patterns,
        how,
        inverted: options.has('v'),
        counted: options.has('c'),
        numbered: options.has('n'),
        only_found: options.has('o'),
        before: options.number('B')?.unwrap_or(around),
        after: options.number('A')?.unwrap_or(around),
        most: options.number('m')?.unwrap_or(usize::MAX),
    };
    if grep.only_found && (how.whole_words || grep.inverted) {
        return Err(Refusal::new("klab does `grep -o` itself, without `-w` and `-v` beside it"));
    }
    // What is not understood is said before anything runs.
    finder(&grep.patterns, how)?;
    Ok((grep, options))
}

/// `grep` at work.
#[derive(Debug)]
pub(super) struct At {
    grep: Grep,
    /// None where the pattern is not understood, which [`read`] has refused.
    finder: Option<Regex>,
    /// Lines that have come, and those that match.
    seen: usize,
    found: usize,
    /// Lines before one that may match, with their numbers.
    kept: VecDeque<(usize, String)>,
    /// How many lines after the last match are still to be shown, and the number of the last line that was.
    still: usize,
    shown: usize,
}

impl At {
    pub(super) fn new(grep: &Grep) -> Self {
        let finder = finder(&grep.patterns, grep.how).ok();
        Self { grep: grep.clone(), finder, seen: 0, found: 0, kept: VecDeque::new(), still: 0, shown: 0 }
    }

    pub(super) fn has_found(&self) -> bool {
        self.found > 0
    }

    pub(super) fn take(&mut self, line: &str, out: &mut Vec<String>) {
        self.seen = self.seen.saturating_add(1);
        let line = line.strip_suffix('\n').unwrap_or(line);
        let is_match = self.finder.as_ref().is_some_and(|finder| finder.is_match(line)) != self.grep.inverted;
        if is_match && self.found < self.grep.most {
            self.found = self.found.saturating_add(1);
            if self.grep.counted {
                return;
            }
            if self.grep.only_found {
                let all = self.finder.iter().flat_map(|finder| finder.find_iter(line));
                let texts: Vec<String> =
                    all.filter(|found| !found.is_empty()).map(|found| found.as_str().to_owned()).collect();
                for text in texts {
                    out.push(self.written(self.seen, ':', &text));
                }
                return;
            }
            for (number, line) in std::mem::take(&mut self.kept) {
                self.show(number, '-', &line, out);
            }
            self.show(self.seen, ':', line, out);
            self.still = self.grep.after;
        } else if self.still > 0 && !self.grep.counted {
            self.still = self.still.saturating_sub(1);
            self.show(self.seen, '-', line, out);
        } else {
            self.kept.push_back((self.seen, line.to_owned()));
            if self.kept.len() > self.grep.before {
                self.kept.pop_front();
            }
        }
    }

    pub(super) fn end(&self, out: &mut Vec<String>) {
        if self.grep.counted {
            out.push(format!("{}\n", self.found));
        }
    }

    fn show(&mut self, number: usize, mark: char, line: &str, out: &mut Vec<String>) {
        let has_context = self.grep.before > 0 || self.grep.after > 0;
        if has_context && self.shown > 0 && number > self.shown.saturating_add(1) {
            out.push("--\n".to_owned());
        }
        self.shown = number;
        out.push(self.written(number, mark, line));
    }

    fn written(&self, number: usize, mark: char, line: &str) -> String {
        if self.grep.numbered { format!("{number}{mark}{line}\n") } else { format!("{line}\n") }
    }
}
