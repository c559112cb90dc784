//! `sort`.

use std::cmp::Ordering;

use super::options::{Known, Options, number};
use super::refusal::Refusal;

/// What lines are ordered by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sort {
    /// Fields from, to (from 1, both of them), and how they are compared; the whole line where there are none.
    keys: Vec<(usize, usize, How)>,
    how: How,
    once: bool,
    /// What stands between fields; blanks, where nothing is said.
    between: Option<char>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct How {
    numbers: bool,
    reverse: bool,
}

const KNOWN: [Known; 5] = [
    ('n', "numeric-sort", false),
    ('r', "reverse", false),
    ('u', "unique", false),
    ('k', "key", true),
    ('t', "field-separator", true),
];

pub(super) fn read(words: &[String]) -> Result<(Sort, Options), Refusal> {
    let options = Options::read("sort", words, &KNOWN)?;
    let how = How { numbers: options.has('n'), reverse: options.has('r') };
    let keys = options.values('k').map(|text| key(text, how)).collect::<Result<_, _>>()?;
    let between = options.value('t').map(|text| {
        let mut letters = text.chars();
        match (letters.next(), letters.next()) {
            (Some(letter), None) => Ok(letter),
            _ => Err(Refusal::new(format!("`sort -t` takes one letter, and `{text}` is none"))),
        }
    });
    let sort = Sort { keys, how, once: options.has('u'), between: between.transpose()? };
    Ok((sort, options))
}

/// `2`, `2,3`, `2nr`, `2,2n`.
fn key(text: &str, common: How) -> Result<(usize, usize, How), Refusal> {
    let wrong = || {
        Refusal::new(format!("`sort -k` takes fields here, such as `-k 2`, `-k 2,2` or `-k 2nr`, and `{text}` is none"))
    };
    let mut own = How::default();
    let mut field = |part: &str| {
        let digits = part.trim_end_matches(['n', 'r']);
        own.numbers |= part[digits.len()..].contains('n');
        own.reverse |= part[digits.len()..].contains('r');
        number(digits).filter(|field| *field > 0).ok_or_else(wrong)
    };
    let (from, to) = match text.split_once(',') {
        Some((from, to)) => (field(from)?, field(to)?),
        None => (field(text)?, usize::MAX),
    };
    Ok((from, to, if own == How::default() { common } else { own }))
}

impl Sort {
    /// The lines in order.
    pub(super) fn ordered(&self, mut lines: Vec<String>) -> Vec<String> {
        lines.sort_by(|one, other| {
            self.by_keys(one, other).then_with(|| {
                // Of lines that are equal so far the whole line decides, unless one of them is left out.
                let whole = bare(one).cmp(bare(other));
                match (self.once, self.how.reverse) {
                    (true, _) => Ordering::Equal,
                    (false, true) => whole.reverse(),
                    (false, false) => whole,
                }
            })
        });
        if self.once {
            lines.dedup_by(|one, other| self.by_keys(one, other).is_eq());
        }
        lines
    }

    fn by_keys(&self, one: &str, other: &str) -> Ordering {
        let (one, other) = (bare(one), bare(other));
        if self.keys.is_empty() {
            return compare(one, other, self.how);
        }
        let compared = self
            .keys
            .iter()
            .map(|(from, to, how)| compare(self.fields(one, *from, *to), self.fields(other, *from, *to), *how));
        compared.fold(Ordering::Equal, Ordering::then)
    }

    /// The fields of a line from one to another. Blanks before a field belong to it, unless something else stands between fields.
    fn fields<'l>(&self, line: &'l str, from: usize, to: usize) -> &'l str {
        let mut ends: Vec<(usize, usize)> = Vec::new();
        if let Some(letter) = self.between {
            let mut at = 0;
            for field in line.split(letter) {
                ends.push((at, at + field.len()));
                at += field.len() + letter.len_utf8();
            }
        } else {
            let mut begin = 0;
            let mut was_blank = true;
            for (at, letter) in line.char_indices() {
                let is_blank = letter == ' ' || letter == '\t';
                if is_blank && !was_blank {
                    ends.push((begin, at));
                    begin = at;
                }
                was_blank = is_blank;
            }
            ends.push((begin, line.len()));
        }
        let Some((begin, _)) = from.checked_sub(1).and_then(|from| ends.get(from)) else { return "" };
        let end = to.checked_sub(1).and_then(|to| ends.get(to)).map_or(line.len(), |(_, end)| *end);
        line.get(*begin..end.max(*begin)).unwrap_or_default()
    }
}

fn bare(line: &str) -> &str {
    line.strip_suffix('\n').unwrap_or(line)
}

fn compare(one: &str, other: &str, how: How) -> Ordering {
    let ordering = if how.numbers { by_number(one, other) } else { one.cmp(other) };
    if how.reverse { ordering.reverse() } else { ordering }
}

/// By the numbers that texts begin with; a text without one counts as zero.
fn by_number(one: &str, other: &str) -> Ordering {
    let value = |text: &str| {
        let text = text.trim_start_matches([' ', '\t']);
        let digits = text.strip_prefix('-').unwrap_or(text);
        let mut has_point = false;
        let length = digits
            .find(|letter: char| {
                !(letter.is_ascii_digit() || (letter == '.' && !std::mem::replace(&mut has_point, true)))
            })
            .unwrap_or(digits.len());
        text[..text.len() - digits.len() + length].parse::<f64>().unwrap_or(0.0)
    };
    value(one).partial_cmp(&value(other)).unwrap_or(Ordering::Equal)
}
