//! The programs behind a pipe, which klab does itself: `grep`, `head`, `tail`, `sort`, `uniq` and `wc`.
//!
//! They do what GNU's do with the flags that are here, and refuse all others. A program takes one line at a time.

mod grep;
mod options;
mod pattern;
mod refusal;
mod sort;

use std::collections::VecDeque;

use self::grep::Grep;
use self::options::{Options, number};
pub use self::refusal::Refusal;
use self::sort::Sort;

/// A program with its options.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Filter {
    /// Lines that match.
    Grep(Grep),
    /// The first lines, or bytes.
    Head(Count),
    /// The last lines, or bytes.
    Tail(Count),
    /// Lines in order.
    Sort(Sort),
    /// Lines that follow an equal one left out.
    Uniq {
        /// Each line says how many there were.
        counts: bool,
        /// Whether only lines that stand alone, or only those that do not, are left.
        only: Option<bool>,
    },
    /// How much there is: lines, words, bytes, characters.
    Wc([bool; 4]),
}

/// How much `head` and `tail` let through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Count {
    /// Most lines.
    Lines(usize),
    /// Most bytes.
    Bytes(usize),
    /// All lines except this many at the other end; for `tail`, `+N` is all but the first N-1.
    AllBut(usize),
}

/// The names of all of them.
pub const NAMES: [&str; 6] = ["grep", "head", "tail", "sort", "uniq", "wc"];

/// Understands the words of a program behind a pipe.
///
/// # Errors
/// When it is none of these, has an option that is not done here, or names a file.
pub fn read(words: &[String]) -> Result<Filter, Refusal> {
    let (filter, options) = understood(words)?;
    options.no_files()?;
    Ok(filter)
}

/// As [`read`], of a program that may read one file in place of what comes to it: also the file's name.
///
/// # Errors
/// When it is none of these, has an option that is not done here, or names several files.
pub fn read_of_file(words: &[String]) -> Result<(Filter, Option<String>), Refusal> {
    let (filter, mut options) = understood(words)?;
    let file = if options.words.is_empty() { None } else { Some(options.words.remove(0)) };
    options.no_files()?;
    Ok((filter, file.filter(|file| file != "-")))
}

/// A program, and its options with the files that it names.
fn understood(words: &[String]) -> Result<(Filter, Options), Refusal> {
    let Some((program, rest)) = words.split_first() else {
        return Err(Refusal::new("nothing follows the pipe: `kubectl get pods -A | grep coredns`"));
    };
    match program.as_str() {
        "grep" | "egrep" | "fgrep" => grep::read(program, rest).map(|(grep, options)| (Filter::Grep(grep), options)),
        "head" => count("head", rest, |text| {
            Some(match text.strip_prefix('-') {
                Some(but) => Count::AllBut(number(but)?),
                None => Count::Lines(number(text)?),
            })
        })
        .map(|(count, options)| (Filter::Head(count), options)),
        "tail" => count("tail", rest, |text| {
            Some(match text.strip_prefix('+') {
                Some(from) => Count::AllBut(number(from)?.saturating_sub(1)),
                None => Count::Lines(number(text.strip_prefix('-').unwrap_or(text))?),
            })
        })
        .map(|(count, options)| (Filter::Tail(count), options)),
        "sort" => sort::read(rest).map(|(sort, options)| (Filter::Sort(sort), options)),
        "uniq" => {
            let options = Options::read(
                "uniq",
                rest,
                &[('c', "count", false), ('d', "repeated", false), ('u', "unique", false)],
            )?;
            let only = if options.has('u') { Some(true) } else { options.has('d').then_some(false) };
            Ok((Filter::Uniq { counts: options.has('c'), only }, options))
        }
        "wc" => {
            let known = [('l', "lines", false), ('w', "words", false), ('c', "bytes", false), ('m', "chars", false)];
            let options = Options::read("wc", rest, &known)?;
            let asked = ['l', 'w', 'c', 'm'].map(|letter| options.has(letter));
            Ok((Filter::Wc(if asked.contains(&true) { asked } else { [true, true, true, false] }), options))
        }
        other => Err(Refusal::new(unknown(other))),
    }
}

/// A basic or an extended expression of POSIX as one of Rust.
///
/// # Errors
/// When it is none, or has an operator that is not done here.
pub fn expression(pattern: &str, extended: bool) -> Result<regex::Regex, Refusal> {
    let form = if extended { pattern::Form::Extended } else { pattern::Form::Basic };
    let how = pattern::How { form, any_case: false, whole_words: false, whole_lines: false };
    pattern::finder(&[pattern.to_owned()], how)
}

/// What is said of a program that klab does not do.
fn unknown(program: &str) -> String {
    let instead = match program {
        "awk" | "cut" => "`-o custom-columns=NAME:.metadata.name`, `-o name` or `-o jsonpath='…'` choose columns",
        "jq" | "yq" => "`-o jsonpath='…'` chooses fields",
        "less" | "more" => "what a command prints stays here, and can be scrolled",
        "xargs" => "name objects by a label, `kubectl delete pods -l app=web`, or copy the names",
        "tee" => "the button below what a command printed puts it into the editor",
        "kubectl" | "k" => "only `klab render` and a text that you type go into kubectl",
        _ => "kubectl chooses itself, with `-l`, `--field-selector`, `--sort-by` and `-o jsonpath='…'`",
    };
    let names = NAMES.map(|name| format!("`{name}`")).join(", ");
    format!("`{program}` cannot stand behind a pipe here; {names} can. {instead}")
}

/// The options of `head` and `tail`; `lines` reads the number of lines.
fn count(
    program: &'static str,
    words: &[String],
    lines: impl Fn(&str) -> Option<Count>,
) -> Result<(Count, Options), Refusal> {
    let options = Options::read(program, words, &[('n', "lines", true), ('c', "bytes", true)])?;
    let wrong = |text: &str| Refusal::new(format!("`{program}` counts with whole numbers, and `{text}` is none"));
    let count = match (options.value('c'), options.value('n').or(options.value('#'))) {
        (Some(bytes), _) => number(bytes).map(Count::Bytes).ok_or_else(|| wrong(bytes))?,
        (None, Some(text)) => lines(text).ok_or_else(|| wrong(text))?,
        (None, None) => Count::Lines(10),
    };
    Ok((count, options))
}

/// Programs behind one another, at work.
#[derive(Debug)]
pub struct Chain {
    programs: Vec<At>,
    /// The beginning of a line whose end has not come.
    rest: String,
}

/// A program at work.
#[derive(Debug)]
enum At {
    Grep(grep::At),
    Head(Count, VecDeque<String>),
    Tail(Count, VecDeque<String>),
    Sort(Sort, Vec<String>),
    Uniq { counts: bool, only: Option<bool>, line: Option<(String, usize)> },
    Wc([bool; 4], [usize; 4]),
}

impl Chain {
    /// Programs, of which there is at least one.
    pub fn new(filters: &[Filter]) -> Self {
        Self { programs: filters.iter().map(At::new).collect(), rest: String::new() }
    }

    /// What comes out when this comes in.
    pub fn take(&mut self, text: &str) -> String {
        let Some(end) = text.rfind('\n') else {
            self.rest.push_str(text);
            return String::new();
        };
        let (lines, rest) = text.split_at(end.saturating_add(1));
        let lines = std::mem::replace(&mut self.rest, rest.to_owned()) + lines;
        let mut out = String::new();
        for line in lines.split_inclusive('\n') {
            through(&mut self.programs, line.to_owned(), &mut out);
        }
        out
    }

    /// Whether nothing that comes in will change what comes out.
    pub fn is_done(&self) -> bool {
        self.programs.iter().any(|program| match program {
            At::Head(Count::Lines(left) | Count::Bytes(left), _) => *left == 0,
            _ => false,
        })
    }

    /// What is left when no more comes, and the exit code of the last program.
    pub fn finish(mut self) -> (String, i32) {
        let mut out = String::new();
        let rest = std::mem::take(&mut self.rest);
        if !rest.is_empty() {
            through(&mut self.programs, rest, &mut out);
        }
        for program in 0..self.programs.len() {
            let Some((at, after)) = self.programs.get_mut(program..).and_then(<[At]>::split_first_mut) else { break };
            let mut lines = Vec::new();
            at.end(&mut lines);
            for line in lines {
                through(after, line, &mut out);
            }
        }
        let code = match self.programs.last() {
            Some(At::Grep(grep)) => i32::from(!grep.has_found()),
            _ => 0,
        };
        (out, code)
    }
}

/// Sends a line through programs.
fn through(programs: &mut [At], line: String, out: &mut String) {
    let Some((first, after)) = programs.split_first_mut() else { return out.push_str(&line) };
    let mut lines = Vec::new();
    first.take(line, &mut lines);
    for line in lines {
        through(after, line, out);
    }
}

impl At {
    fn new(filter: &Filter) -> Self {
        match filter {
            Filter::Grep(grep) => Self::Grep(grep::At::new(grep)),
            Filter::Head(count) => Self::Head(*count, VecDeque::new()),
            Filter::Tail(count) => Self::Tail(*count, VecDeque::new()),
            Filter::Sort(sort) => Self::Sort(sort.clone(), Vec::new()),
            Filter::Uniq { counts, only } => Self::Uniq { counts: *counts, only: *only, line: None },
            Filter::Wc(asked) => Self::Wc(*asked, [0; 4]),
        }
    }

    fn take(&mut self, mut line: String, out: &mut Vec<String>) {
        match self {
            Self::Grep(grep) => grep.take(&line, out),
            Self::Head(Count::Lines(0) | Count::Bytes(0), _) | Self::Tail(Count::Lines(0), _) => {}
            Self::Head(Count::Lines(left), _) => {
                *left = left.saturating_sub(1);
                out.push(line);
            }
            Self::Head(Count::Bytes(left), _) => {
                line.truncate(line.floor_char_boundary(*left));
                // What is left of a letter that is cut is none.
                *left = if line.ends_with('\n') { left.saturating_sub(line.len()) } else { 0 };
                out.push(line);
            }
            Self::Head(Count::AllBut(most), kept) => {
                kept.push_back(line);
                if kept.len() > *most {
                    out.extend(kept.pop_front());
                }
            }
            Self::Tail(Count::Lines(most), kept) => {
                kept.push_back(line);
                if kept.len() > *most {
                    kept.pop_front();
                }
            }
            Self::Tail(Count::AllBut(left), _) if *left > 0 => *left = left.saturating_sub(1),
            Self::Tail(Count::AllBut(_), _) => out.push(line),
            Self::Tail(Count::Bytes(most), kept) => {
                let mut text = kept.pop_front().unwrap_or_default() + &line;
                // Dropped in pieces as large as what stays, so that no line costs more than its own length.
                if text.len() > most.saturating_mul(2) {
                    drop(text.drain(..last_bytes(&text, *most)));
                }
                kept.push_back(text);
            }
            Self::Sort(_, lines) => lines.push(ended(line)),
            Self::Uniq { line: Some((known, count)), .. } if *known == ended(line.clone()) => {
                *count = count.saturating_add(1);
            }
            Self::Uniq { .. } => {
                let line = ended(line);
                self.give_line(out);
                if let Self::Uniq { line: known, .. } = self {
                    *known = Some((line, 1));
                }
            }
            Self::Wc(_, counts) => {
                let more = [
                    usize::from(line.ends_with('\n')),
                    line.split_whitespace().count(),
                    line.len(),
                    line.chars().count(),
                ];
                counts.iter_mut().zip(more).for_each(|(count, more)| *count = count.saturating_add(more));
            }
        }
    }

    fn end(&mut self, out: &mut Vec<String>) {
        match self {
            Self::Grep(grep) => grep.end(out),
            Self::Head(..) => {}
            Self::Tail(Count::Bytes(most), kept) => {
                let text: String = kept.drain(..).collect();
                out.extend(text[last_bytes(&text, *most)..].split_inclusive('\n').map(str::to_owned));
            }
            Self::Tail(_, kept) => out.extend(kept.drain(..)),
            Self::Sort(sort, lines) => out.extend(sort.ordered(std::mem::take(lines))),
            Self::Uniq { .. } => self.give_line(out),
            Self::Wc(asked, counts) => {
                // In the order in which wc prints them: characters stand before bytes.
                let numbers = [0, 1, 3, 2].into_iter().filter(|at| asked[*at]).map(|at| counts[at]);
                let numbers: Vec<usize> = numbers.collect();
                let words: Vec<String> = match numbers.as_slice() {
                    [one] => vec![one.to_string()],
                    several => several.iter().map(|number| format!("{number:>7}")).collect(),
                };
                out.push(format!("{}\n", words.join(" ")));
            }
        }
    }

    /// Gives the line that `uniq` has kept.
    fn give_line(&mut self, out: &mut Vec<String>) {
        let Self::Uniq { counts, only, line } = self else { return };
        let Some((line, count)) = line.take() else { return };
        if only.is_none_or(|alone| alone == (count == 1)) {
            out.push(if *counts { format!("{count:>7} {line}") } else { line });
        }
    }
}

/// Where the last bytes of a text begin, at a whole letter.
fn last_bytes(text: &str, most: usize) -> usize {
    text.ceil_char_boundary(text.len().saturating_sub(most))
}

/// A line with an end, also the last one of a text that has none.
fn ended(mut line: String) -> String {
    if !line.ends_with('\n') {
        line.push('\n');
    }
    line
}

#[cfg(test)]
mod tests;
