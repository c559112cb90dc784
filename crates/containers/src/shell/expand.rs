//! What the words of a script come to: variables, `$(…)`, `$((…))`.

use super::interpreter::Run;
use super::syntax::{Part, Word};

/// Longer words are not followed.
const MAX_WORD: usize = 64 * 1024;
/// Variables that change how a shell reads or finds what follows.
const DECIDING: [&str; 5] = ["IFS", "PATH", "TZ", "LC_ALL", "CDPATH"];
/// Variables that shells set by themselves, each its own.
const OF_SHELLS: &str = " BASH EUID HOSTTYPE IFS LINENO MACHTYPE OLDPWD OPTARG OPTERR OPTIND OSTYPE PPID PS1 PS2 PS4 RANDOM \
                         SECONDS SHELLOPTS SHLVL UID _ ";

impl Run {
    pub(super) fn assign(&mut self, name: &str, value: &Word) {
        if value.open && value.parts.iter().any(|part| matches!(part, Part::Text(text) if text.contains('~'))) {
            self.uncertain(|| "whose home `~` is, is not followed".to_owned());
        }
        if DECIDING.contains(&name) {
            self.uncertain(|| format!("what follows depends on `{name}`, which the script sets"));
            self.asked_time |= name == "TZ";
        }
        let value = self.expand(value);
        self.scope.variables.insert(name.to_owned(), value);
    }

    /// The value of a variable: not known, not set, or set.
    #[expect(clippy::option_option, reason = "not known, and not set")]
    pub(super) fn variable(&self, name: &str) -> Option<Option<String>> {
        match self.scope.variables.get(name) {
            Some(value) => value.clone().map(Some),
            None if OF_SHELLS.contains(&format!(" {name} ")) || name.starts_with("BASH") => None,
            None if name == "PWD" => self.scope.directory.clone().map(Some),
            None if name == "HOSTNAME" => self.world.inside.host_name.clone().map(Some),
            None => self.world.inside.has_all_variables.then_some(None),
        }
    }

    /// What a word comes to; none where that is not known.
    pub(super) fn expand(&mut self, word: &Word) -> Option<String> {
        let mut text = String::new();
        for part in &word.parts {
            let piece = match part {
                Part::Text(more) => more.clone(),
                Part::Variable(name) => self.value(name)?,
                Part::Default(name, colon, otherwise) => match self.variable(name) {
                    Some(value) => value.filter(|value| !colon || !value.is_empty()).unwrap_or(otherwise.clone()),
                    // As if it were not there, where only the end matters.
                    None if self.horizon.is_none() && !self.scope.variables.contains_key(name) => otherwise.clone(),
                    None => self.value(name)?,
                },
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

    /// The words a list of words comes to: what prints three is three.
    pub(super) fn expand_all(&mut self, words: &[Word]) -> Vec<Option<String>> {
        let mut all = Vec::new();
        for word in words {
            let Some(text) = self.expand(word) else {
                all.push(None);
                continue;
            };
            // What stands outside of quotes may be split, or fit files.
            let is_plain = !text.is_empty() && !text.contains(|letter: char| " \t\n*?[{~".contains(letter));
            if word.open && !is_plain && (word.quoted || is_pattern(&text)) {
                self.uncertain(|| format!("which words or files the shell makes of `{text}` is not followed"));
                if text.contains('{') && text.contains("..") {
                    all.push(None);
                    continue;
                }
            }
            if word.open && !word.quoted && word.text().is_none() {
                let pieces = text.split([' ', '\t', '\n']).filter(|piece| !piece.is_empty());
                all.extend(pieces.map(|piece| Some(piece.to_owned())));
            } else {
                all.push(Some(text));
            }
        }
        all
    }

    /// What a number, or two with an operator between them, come to; none where that is not known.
    fn evaluate(&self, expression: &str) -> Option<i64> {
        let expression = expression.trim();
        let operator = expression.char_indices().skip(1).find(|(_, letter)| "+-*/%".contains(*letter));
        match operator {
            None => self.number(expression),
            Some((at, operator)) => reckoned(
                self.number(&expression[..at])?,
                operator.encode_utf8(&mut [0; 4]),
                self.number(&expression[at + 1..])?,
            ),
        }
    }

    fn number(&self, word: &str) -> Option<i64> {
        let word = word.trim();
        if let Some(number) = decimal(word) {
            return Some(number);
        }
        let name = word.strip_prefix('$').unwrap_or(word);
        let is_name = name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_');
        if !is_name || name.is_empty() || name.starts_with(|letter: char| letter.is_ascii_digit()) {
            return None;
        }
        // What is not set counts for 0.
        let value = self.variable(name)?.filter(|value| !value.is_empty());
        value.map_or(Some(0), |value| decimal(&value))
    }
}

/// Whether a shell may find files, or make several words, of a word outside of quotes.
fn is_pattern(word: &str) -> bool {
    // In a URL `?` stands for itself: there is no folder `http:`.
    let fits_files = word.contains(['*', '?']) && !word.contains("://");
    let has_brackets = |open: char, close: char| word.contains(open) && word.contains(close);
    fits_files || has_brackets('[', ']') || has_brackets('{', '}') || word.starts_with('~')
}

/// Two numbers with an operator between them.
pub(super) fn reckoned(left: i64, operator: &str, right: i64) -> Option<i64> {
    match operator {
        "+" => left.checked_add(right),
        "-" => left.checked_sub(right),
        "*" => left.checked_mul(right),
        "/" => left.checked_div(right),
        "%" => left.checked_rem(right),
        _ => None,
    }
}

/// A number as all shells read it: one with a zero in front is octal in some.
pub(super) fn decimal(text: &str) -> Option<i64> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let is_plain = text == "0" || !digits.starts_with(['0', '+', '-']);
    text.parse().ok().filter(|_| is_plain)
}
