//! the options of a program behind a pipe, as GNU's programs read theirs.

use super::refusal::Refusal;

/// An option: its letter, its long name, whether it takes a value.
pub(super) type Known = (char, &'static str, bool);

/// What was said to a program.
#[derive(Debug)]
pub(super) struct Options {
    program: &'static str,
    given: Vec<(char, String)>,
    /// The words that are no options.
    pub(super) words: Vec<String>,
}

impl Options {
    /// Reads words by the options that are done here. A number behind one dash (`-5`) is the option `#`.
    pub(super) fn read(program: &'static str, words: &[String], known: &[Known]) -> Result<Self, Refusal> {
        let mut options = Self { program, given: Vec::new(), words: Vec::new() };
        let mut rest = words.iter();
        let none = |option: &str| {
            let all: Vec<String> = known.iter().map(|(letter, long, _)| format!("`-{letter}` (`--{long}`)")).collect();
            Refusal::new(format!("klab does `{program}` itself, without `{option}`; it has {}", all.join(", ")))
        };
        let missing = |option: &str| Refusal::new(format!("`{program} {option}` needs a value"));
        while let Some(word) = rest.next() {
            if word == "--" {
                options.words.extend(rest.by_ref().cloned());
            } else if let Some(long) = word.strip_prefix("--") {
                let (name, value) = long.split_once('=').map_or((long, None), |(name, value)| (name, Some(value)));
                let (letter, _, takes) =
                    known.iter().find(|(_, known, _)| *known == name).ok_or_else(|| none(&format!("--{name}")))?;
                let value = match (takes, value) {
                    (true, Some(value)) => value.to_owned(),
                    (true, None) => rest.next().ok_or_else(|| missing(word))?.clone(),
                    (false, None) => String::new(),
                    (false, Some(_)) => return Err(none(word)),
                };
                options.given.push((*letter, value));
            } else if let Some(letters) = word.strip_prefix('-').filter(|letters| !letters.is_empty()) {
                if number(letters).is_some() {
                    options.given.push(('#', letters.to_owned()));
                    continue;
                }
                let mut letters = letters.chars();
                while let Some(letter) = letters.next() {
                    let (_, _, takes) =
                        known.iter().find(|(known, ..)| *known == letter).ok_or_else(|| none(&format!("-{letter}")))?;
                    if *takes {
                        let attached = letters.as_str();
                        let value = if attached.is_empty() {
                            rest.next().ok_or_else(|| missing(word))?.clone()
                        } else {
                            attached.to_owned()
                        };
                        options.given.push((letter, value));
                        break;
                    }
                    options.given.push((letter, String::new()));
                }
            } else {
                options.words.push(word.clone());
            }
        }
        Ok(options)
    }

    /// Whether an option was given.
    pub(super) fn has(&self, letter: char) -> bool {
        self.value(letter).is_some()
    }

    /// The value of an option that was given last.
    pub(super) fn value(&self, letter: char) -> Option<&str> {
        self.values(letter).last()
    }

    /// All values of an option.
    pub(super) fn values(&self, letter: char) -> impl Iterator<Item = &str> {
        self.given.iter().filter(move |(given, _)| *given == letter).map(|(_, value)| value.as_str())
    }

    /// The number that is the value of an option.
    pub(super) fn number(&self, letter: char) -> Result<Option<usize>, Refusal> {
        let wrong =
            |text: &str| Refusal::new(format!("`{}` counts with whole numbers, and `{text}` is none", self.program));
        self.value(letter).map(|text| number(text).ok_or_else(|| wrong(text))).transpose()
    }

    /// Refuses names of files.
    pub(super) fn no_files(&self) -> Result<(), Refusal> {
        match self.words.first().filter(|word| *word != "-") {
            Some(word) => Err(Refusal::new(format!(
                "`{}` reads here what comes to it, and no file `{word}`; what has blanks goes into quotes",
                self.program
            ))),
            None => Ok(()),
        }
    }
}

/// A whole number, as it is typed.
pub(super) fn number(text: &str) -> Option<usize> {
    text.parse().ok().filter(|_| text.bytes().all(|byte| byte.is_ascii_digit()))
}
