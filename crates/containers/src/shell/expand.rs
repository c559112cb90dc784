//! What the words of a script come to: variables, `$(…)`, `$((…))`, patterns.

use super::arithmetic::{arithmetic, decimal};
use super::glob;
use super::interpreter::Run;
use super::numbers::{counted, range};
use super::tokens::{Part, Word};
use crate::image::Shell;
use crate::pod::file::Found;

/// Longer words are not followed.
const MAX_WORD: usize = 64 * 1024;
/// Patterns that fit more files are not followed.
const MAX_PATHS: usize = 10_000;
/// Variables that change how a shell reads or finds what follows.
const DECIDING: [&str; 5] = ["IFS", "PATH", "TZ", "LC_ALL", "CDPATH"];

impl Run {
    pub(super) fn assign(&mut self, word: &Word) {
        let Some(name) = word.assigns().map(str::to_owned) else { return };
        if word.open && word.parts.iter().any(|part| matches!(part, Part::Text(text) if text.contains('~'))) {
            self.uncertain(|| "whose home `~` is, is not followed".to_owned());
        }
        let value = self.expand(word).and_then(|text| text.split_once('=').map(|(_, value)| value.to_owned()));
        self.assign_to(&name, value);
    }

    pub(super) fn assign_to(&mut self, name: &str, value: Option<String>) {
        // `IFS= read` keeps blanks, which is what is followed for one name.
        if DECIDING.contains(&name) && !(name == "IFS" && value.as_deref() == Some("")) {
            self.uncertain(|| format!("what follows depends on `{name}`, which the script sets"));
            self.asked_time |= name == "TZ";
        }
        self.scope.variables.insert(name.to_owned(), value);
    }

    /// The value of a variable: not known, not set, or set.
    #[expect(clippy::option_option, reason = "not known, and not set")]
    pub(super) fn variable(&self, name: &str) -> Option<Option<String>> {
        if let Ok(number) = name.parse::<usize>() {
            return match number {
                0 => None,
                number => match self.scope.arguments.get(number - 1) {
                    Some(value) => value.clone().map(Some),
                    None => Some(None),
                },
            };
        }
        match name {
            "#" => return Some(Some(self.scope.arguments.len().to_string())),
            "@" | "*" => {
                let all: Option<Vec<String>> = self.scope.arguments.iter().cloned().collect();
                return Some(Some(all?.join(" ")));
            }
            // Shells set these by themselves, each its own.
            "RANDOM" | "SECONDS" | "LINENO" | "PPID" | "SHLVL" | "OLDPWD" | "IFS" | "OPTIND" | "UID" | "EUID"
            | "PS1" | "PS2" | "PS4" | "_" | "OPTARG" | "OPTERR" | "HOSTTYPE" | "OSTYPE" | "MACHTYPE" | "SHELLOPTS"
            | "BASH" => {
                return self.scope.variables.get(name).cloned().flatten().map(Some);
            }
            _ => {}
        }
        match self.scope.variables.get(name) {
            Some(value) => value.clone().map(Some),
            None if name == "PWD" => self.scope.directory.clone().map(Some),
            None if name == "HOSTNAME" => self.world.inside.host_name.clone().map(Some),
            None => (self.world.inside.has_all_variables && !name.starts_with("BASH")).then_some(None),
        }
    }

    /// What a word comes to; none where that is not known.
    pub(super) fn expand(&mut self, word: &Word) -> Option<String> {
        let mut text = String::new();
        for part in &word.parts {
            let piece = match part {
                Part::Text(more) => more.clone(),
                Part::Variable(name, None) => self.value(name)?,
                Part::Variable(name, Some((operator, operand))) => self.parameter(name, operator, operand)?,
                Part::Length(name) => {
                    let value = self.value(name)?;
                    if !value.is_ascii() {
                        self.uncertain(|| "what a letter is depends on the shell".to_owned());
                        return None;
                    }
                    value.len().to_string()
                }
                Part::Status => self.code.to_string(),
                Part::Command(command) => self.captured(command)?,
                Part::Arithmetic(expression) => {
                    let value = self.evaluate(expression);
                    if value.is_none() {
                        self.uncertain(|| format!("what `$(({expression}))` is, is not followed"));
                    }
                    value?.to_string()
                }
                Part::Unknown => {
                    self.uncertain(|| "the script has a `$…` that is not followed here".to_owned());
                    return None;
                }
            };
            text.push_str(&piece);
            self.spend(piece.len());
            if text.len() > MAX_WORD {
                self.uncertain(|| "a word becomes too long to be followed".to_owned());
                return None;
            }
        }
        Some(text)
    }

    fn value(&mut self, name: &str) -> Option<String> {
        if let Some(value) = self.variable(name) {
            return Some(value.unwrap_or_default());
        }
        let why = self.world.inside.unknown_variables.get(name).cloned();
        self.uncertain(|| why.unwrap_or_else(|| format!("the value of the variable `{name}` is not known")));
        None
    }

    /// `${NAME:-operand}` and the like.
    fn parameter(&mut self, name: &str, operator: &str, operand: &Word) -> Option<String> {
        let value = match self.variable(name) {
            Some(value) => value,
            // As if it were not there, where only the end matters.
            None if operator.ends_with('-') && !self.transcript.kept && !self.scope.variables.contains_key(name) => {
                None
            }
            None => return self.value(name),
        };
        let value = value.filter(|value| !operator.starts_with(':') || !value.is_empty());
        match operator.trim_start_matches(':') {
            "-" => match value {
                Some(value) => Some(value),
                None => self.expand(operand),
            },
            "=" => {
                if let Some(value) = value {
                    Some(value)
                } else {
                    let value = self.expand(operand);
                    self.assign_to(name, value.clone());
                    value
                }
            }
            "+" => match value {
                Some(_) => self.expand(operand),
                None => Some(String::new()),
            },
            // Without a value the shell would end.
            "?" => {
                if value.is_none() {
                    self.uncertain(|| format!("`{name}` has no value, which ends the script"));
                }
                value
            }
            operator => {
                let (value, pattern) = (value.unwrap_or_default(), self.expand(operand)?);
                if value.len() > 4096 || self.spend(value.len() * value.len()) || !glob::is_certain(&pattern) {
                    self.uncertain(|| format!("the pattern `{pattern}` is not followed here"));
                    return None;
                }
                Some(trimmed(&value, operator, &pattern).to_owned())
            }
        }
    }

    /// The words a list of words comes to: `{1..3}` is three in bash, and so is what prints three.
    pub(super) fn expand_all(&mut self, words: &[Word]) -> Vec<Option<String>> {
        let mut all = Vec::new();
        for word in words {
            let about_arguments = |part: &Part| matches!(part, Part::Variable(name, _) if name == "@" || name == "*");
            if word.quoted && matches!(word.parts.as_slice(), [Part::Variable(name, None)] if name == "@") && !word.open
            {
                all.extend(self.scope.arguments.iter().cloned());
                continue;
            }
            if word.quoted && word.parts.iter().any(about_arguments) && self.scope.arguments.len() > 1 {
                self.uncertain(|| "`$@` within a word is not followed".to_owned());
            }
            let Some(text) = self.expand(word) else {
                all.push(None);
                continue;
            };
            if word.quoted {
                // What stands outside of the quotes could be split, or fit files.
                let is_plain = !text.is_empty() && !text.contains(|letter: char| " \t\n*?[{~".contains(letter));
                if word.open && !is_plain {
                    self.uncertain(|| format!("how the shell splits `{text}` is not followed"));
                }
                all.push(Some(text));
                continue;
            }
            if word.open && word.text().is_none() {
                let pieces = text.split([' ', '\t', '\n']).filter(|piece| !piece.is_empty());
                for piece in pieces {
                    self.named(piece, &mut all);
                }
                continue;
            }
            if text.starts_with('~') {
                self.uncertain(|| "whose home `~` is, is not followed".to_owned());
            }
            match range(&text) {
                Some((from, to)) if self.has_ranges() => all.extend(counted(from, to).into_iter().map(Some)),
                _ => self.named(&text, &mut all),
            }
        }
        all
    }

    /// Whether `{1..3}` is three words, as in bash alone.
    fn has_ranges(&mut self) -> bool {
        match self.dialect() {
            Shell::Bash => true,
            Shell::Unknown => {
                self.uncertain(|| "whether `{1..3}` is three words depends on the shell".to_owned());
                true
            }
            _ => false,
        }
    }

    /// A pattern is as many words as there are files that it fits.
    fn named(&mut self, word: &str, all: &mut Vec<Option<String>>) {
        let has_braces = word.contains('{') && word.contains('}') && word.contains([',', '.']);
        if has_braces && matches!(self.dialect(), Shell::Bash | Shell::Unknown) {
            self.uncertain(|| format!("what `{word}` is depends on the shell"));
        }
        // In a URL `?` stands for itself: there is no folder `http:`.
        if glob::is_pattern(word) && !word.contains("://") {
            let paths = if glob::is_certain(word) { self.paths(word) } else { None };
            match paths {
                Some(paths) if paths.is_empty() => {}
                Some(paths) => {
                    all.extend(paths.into_iter().map(Some));
                    return;
                }
                None if self.transcript.kept => {
                    self.uncertain(|| format!("which files `{word}` fits is not known"));
                    all.push(None);
                    return;
                }
                None => {}
            }
        }
        all.push(Some(word.to_owned()));
    }

    /// The paths that a pattern fits, in their order; none where that is not known.
    fn paths(&self, pattern: &str) -> Option<Vec<String>> {
        let mut paths = vec![String::new()];
        for (index, part) in pattern.split('/').enumerate() {
            let between = if index == 0 { "" } else { "/" };
            let mut longer = Vec::new();
            for path in paths {
                let path = path + between;
                if !glob::is_pattern(part) {
                    longer.push(path + part);
                    continue;
                }
                match self.look_at(&path) {
                    Found::Directory { names: Some(names), .. } => {
                        // Whether `.*` fits `..` depends on the shell.
                        if part.starts_with('.') {
                            return None;
                        }
                        let fits = names.iter().filter(|name| !name.starts_with('.') && glob::matches(part, name));
                        longer.extend(fits.map(|name| format!("{path}{name}")));
                    }
                    Found::Absent | Found::File(_) => {}
                    Found::Directory { names: None, .. } | Found::Unknown => return None,
                }
                if longer.len() > MAX_PATHS {
                    return None;
                }
            }
            paths = longer;
        }
        if glob::is_pattern(pattern.rsplit('/').next().unwrap_or_default()) {
            return Some(paths);
        }
        let mut there = Vec::new();
        for path in paths {
            match self.look_at(&path) {
                Found::Absent => {}
                Found::File(_) if path.ends_with('/') => {}
                Found::File(_) | Found::Directory { .. } => there.push(path),
                Found::Unknown => return None,
            }
        }
        Some(there)
    }

    /// What is at a path, with or without a `/` at its end.
    fn look_at(&self, path: &str) -> Found {
        let at = match path.trim_end_matches('/') {
            "" if path.is_empty() => ".",
            "" => "/",
            at => at,
        };
        self.files.find(&self.full(at))
    }

    pub(super) fn evaluate(&self, expression: &str) -> Option<i64> {
        arithmetic(expression, &|name| match self.variable(name)? {
            Some(value) if !value.is_empty() => match value.strip_prefix('-') {
                Some(digits) => decimal(digits)?.checked_neg(),
                None => decimal(&value),
            },
            // Some shells take what is not set for 0.
            _ => Some(0),
        })
    }
}

/// A value without what a pattern fits at its end or its beginning, as little of it or as much.
fn trimmed<'a>(value: &'a str, operator: &str, pattern: &str) -> &'a str {
    let mut cuts: Vec<usize> = value.char_indices().map(|(at, _)| at).chain([value.len()]).collect();
    if matches!(operator, "%" | "##") {
        cuts.reverse();
    }
    for cut in cuts {
        let (before, after) = value.split_at(cut);
        let (removed, kept) = if operator.starts_with('%') { (after, before) } else { (before, after) };
        if glob::matches(pattern, removed) {
            return kept;
        }
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_trimmed_as_shells_trim_them() {
        for (value, operator, pattern, expected) in [
            ("a.tar.gz", "%", ".*", "a.tar"),
            ("a.tar.gz", "%%", ".*", "a"),
            ("/usr/bin/x", "#", "*/", "usr/bin/x"),
            ("/usr/bin/x", "##", "*/", "x"),
            ("abc", "%", "x", "abc"),
        ] {
            assert_eq!(trimmed(value, operator, pattern), expected, "{value} {operator} {pattern}");
        }
    }
}
