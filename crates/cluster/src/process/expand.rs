//! What the words of a script come to: variables, `$(…)`, `$((…))`, patterns.

use super::amounts::{counted, range};
use super::arithmetic::arithmetic;
use super::file::Found;
use super::glob;
use super::run::Run;
use super::tokens::{Part, Word};

/// Longer words are not followed.
const MAX_WORD: usize = 64 * 1024;
/// Patterns that fit more files are not followed.
const MOST_PATHS: usize = 10_000;

impl Run {
    pub(super) fn assign(&mut self, word: &Word) {
        let Some(name) = word.assigns().map(str::to_owned) else { return };
        let value = self.expand(word).and_then(|text| text.split_once('=').map(|(_, value)| value.to_owned()));
        if name == "TZ" {
            self.asked_time = true;
        }
        self.variables.insert(name, value);
    }

    /// The value of a variable: not known, not set, or set.
    #[expect(clippy::option_option, reason = "not known, and not set")]
    pub(super) fn variable(&self, name: &str) -> Option<Option<String>> {
        if let Ok(number) = name.parse::<usize>() {
            return match number {
                0 => None,
                number => match self.arguments.get(number - 1) {
                    Some(value) => value.clone().map(Some),
                    None => Some(None),
                },
            };
        }
        match name {
            "#" => return Some(Some(self.arguments.len().to_string())),
            "@" | "*" => {
                let all: Option<Vec<String>> = self.arguments.iter().cloned().collect();
                return Some(Some(all?.join(" ")));
            }
            _ => {}
        }
        match self.variables.get(name) {
            Some(value) => value.clone().map(Some),
            None if name == "PWD" => self.directory.clone().map(Some),
            None if name == "HOSTNAME" => self.world.host_name.clone().map(Some),
            None => self.world.all_variables.then_some(None),
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
                Part::Length(name) => self.value(name)?.chars().count().to_string(),
                Part::Status => self.code.to_string(),
                Part::Command(command) => self.captured(command)?,
                Part::Arithmetic(expression) => self.reckon(expression)?.to_string(),
                Part::Unknown => {
                    self.transcript.doubt(self.at, || "the script has a `$…` that is not followed here".to_owned());
                    return None;
                }
            };
            text.push_str(&piece);
            self.commands = self.commands.saturating_add(piece.len() / 512);
            if text.len() > MAX_WORD {
                self.transcript.doubt(self.at, || "a word becomes too long to be followed".to_owned());
                return None;
            }
        }
        Some(text)
    }

    fn value(&mut self, name: &str) -> Option<String> {
        if let Some(value) = self.variable(name) {
            return Some(value.unwrap_or_default());
        }
        let why = self.world.unknown_variables.get(name).cloned();
        self.transcript
            .doubt(self.at, || why.unwrap_or_else(|| format!("the value of the variable `{name}` is not known")));
        None
    }

    /// `${NAME:-operand}` and the like.
    fn parameter(&mut self, name: &str, operator: &str, operand: &Word) -> Option<String> {
        let value = match self.variable(name) {
            Some(value) => value,
            // As if it were not there, where nobody is shown what comes of it.
            None if operator.ends_with('-') && !self.transcript.kept && !self.variables.contains_key(name) => None,
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
                    self.variables.insert(name.to_owned(), value.clone());
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
                    self.transcript.doubt(self.at, || format!("`{name}` has no value, which ends the script"));
                }
                value
            }
            operator => {
                let (value, pattern) = (value.unwrap_or_default(), self.expand(operand)?);
                if value.len() > 4096 || self.spend(value.len() * value.len()) {
                    return None;
                }
                Some(trimmed(&value, operator, &pattern).to_owned())
            }
        }
    }

    /// The words a list of words comes to: `{1..3}` is three, and so is what prints three.
    pub(super) fn expand_all(&mut self, words: &[Word]) -> Vec<Option<String>> {
        let mut all = Vec::new();
        for word in words {
            if let [Part::Variable(name, None)] = word.parts.as_slice()
                && name == "@"
            {
                all.extend(self.arguments.iter().cloned());
                continue;
            }
            let value = self.expand(word);
            match (&value, word.quoted, word.text()) {
                (Some(text), false, Some(_)) => match range(text) {
                    Some((from, to)) => all.extend(counted(from, to).into_iter().map(Some)),
                    None => self.named(text, &mut all),
                },
                (Some(text), false, None) => {
                    for word in text.split_whitespace() {
                        self.named(word, &mut all);
                    }
                }
                _ => all.push(value),
            }
        }
        all
    }

    /// A pattern is as many words as there are files that it fits.
    fn named(&self, word: &str, all: &mut Vec<Option<String>>) {
        // In a URL `?` stands for itself: there is no folder `http:`.
        if glob::is_pattern(word) && !word.contains("://") {
            match self.paths(word) {
                Some(paths) if paths.is_empty() => {}
                Some(paths) => {
                    all.extend(paths.into_iter().map(Some));
                    return;
                }
                None if self.transcript.kept => {
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
                        let is_hidden = |name: &str| name.starts_with('.');
                        let every = [".", ".."].into_iter().chain(names.iter().map(String::as_str));
                        let fits = every.filter(|name| is_hidden(name) <= is_hidden(part) && glob::matches(part, name));
                        longer.extend(fits.map(|name| format!("{path}{name}")));
                    }
                    Found::Absent | Found::File(_) => {}
                    Found::Directory { names: None, .. } | Found::Unknown => return None,
                }
                if longer.len() > MOST_PATHS {
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

    pub(super) fn reckon(&self, expression: &str) -> Option<i64> {
        arithmetic(expression, &|name| match self.variable(name)? {
            Some(value) if !value.is_empty() => value.trim().parse().ok(),
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
