//! A shell script as words and operators.

/// A word, or what stands between words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Token {
    Word(Word),
    Operator(&'static str),
}

/// A word without its quotes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Word {
    pub(super) parts: Vec<Part>,
    /// Whether some of it was quoted, so that it is no keyword and stays one word.
    pub(super) quoted: bool,
}

/// A piece of a word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Part {
    Text(String),
    /// `$NAME`, `${NAME}`, `${NAME:-otherwise}`.
    Variable(String, Option<String>),
    /// `$?`.
    Status,
    /// `$(command)`.
    Command(String),
    /// `$((1 + 1))`.
    Arithmetic(String),
    /// What cannot be told: `$1`, `$!`, `${NAME%.*}`.
    Unknown,
}

impl Word {
    /// Its text, if it is nothing else.
    pub(super) fn text(&self) -> Option<&str> {
        match self.parts.as_slice() {
            [] => Some(""),
            [Part::Text(text)] => Some(text),
            _ => None,
        }
    }

    /// The name of the variable that it sets, as `NAME=value` does.
    pub(super) fn assigns(&self) -> Option<&str> {
        let Some(Part::Text(text)) = self.parts.first() else { return None };
        text.split_once('=').map(|(name, _)| name).filter(|name| is_name(name))
    }

    fn push(&mut self, letter: char) {
        if let Some(Part::Text(text)) = self.parts.last_mut() {
            text.push(letter);
        } else {
            self.parts.push(Part::Text(letter.to_string()));
        }
    }
}

/// The longest first.
const OPERATORS: [&str; 14] = ["&&", "||", ";;", ">>", "<<", ">&", "&>", ";", "&", "|", "(", ")", ">", "<"];

/// A script's tokens; `None` where a quote is not closed.
pub(super) fn tokens(script: &str) -> Option<Vec<Token>> {
    Lexer { rest: script, tokens: Vec::new(), word: None }.read()
}

struct Lexer<'a> {
    rest: &'a str,
    tokens: Vec<Token>,
    word: Option<Word>,
}

impl Lexer<'_> {
    fn read(mut self) -> Option<Vec<Token>> {
        while let Some(letter) = self.rest.chars().next() {
            match letter {
                '\n' => {
                    self.end_word();
                    self.tokens.push(Token::Operator(";"));
                    self.skip(letter);
                }
                _ if letter.is_whitespace() => {
                    self.end_word();
                    self.skip(letter);
                }
                '#' if self.word.is_none() => {
                    let end = self.rest.find('\n').unwrap_or(self.rest.len());
                    self.rest = self.rest.get(end..)?;
                }
                '\'' => {
                    let inner = self.rest.get(1..)?;
                    let end = inner.find('\'')?;
                    self.quoted().parts.push(Part::Text(inner.get(..end)?.to_owned()));
                    self.rest = inner.get(end + 1..)?;
                }
                '"' => self.double_quoted()?,
                '\\' => {
                    self.skip(letter);
                    let Some(escaped) = self.rest.chars().next() else { break };
                    if escaped != '\n' {
                        self.quoted().push(escaped);
                    }
                    self.skip(escaped);
                }
                '$' | '`' => self.expansion()?,
                _ => self.operator_or_letter(letter)?,
            }
        }
        self.end_word();
        Some(self.tokens)
    }

    fn operator_or_letter(&mut self, letter: char) -> Option<()> {
        let Some(operator) = OPERATORS.iter().find(|operator| self.rest.starts_with(**operator)) else {
            self.word().push(letter);
            self.skip(letter);
            return Some(());
        };
        // The number of a file before a redirection is no word.
        let number = self.word.as_ref().and_then(Word::text).is_some_and(|text| text.parse::<u8>().is_ok());
        if number && operator.starts_with(['<', '>']) {
            self.word = None;
        }
        self.end_word();
        self.tokens.push(Token::Operator(operator));
        self.rest = self.rest.get(operator.len()..)?;
        Some(())
    }

    fn skip(&mut self, letter: char) {
        self.rest = self.rest.get(letter.len_utf8()..).unwrap_or_default();
    }

    fn word(&mut self) -> &mut Word {
        self.word.get_or_insert_default()
    }

    fn quoted(&mut self) -> &mut Word {
        let word = self.word();
        word.quoted = true;
        word
    }

    fn end_word(&mut self) {
        let Some(mut word) = self.word.take() else { return };
        let mut joined: Vec<Part> = Vec::new();
        for part in word.parts {
            match (joined.last_mut(), part) {
                (Some(Part::Text(text)), Part::Text(more)) => text.push_str(&more),
                (_, part) => joined.push(part),
            }
        }
        word.parts = joined;
        self.tokens.push(Token::Word(word));
    }

    fn double_quoted(&mut self) -> Option<()> {
        self.quoted();
        self.skip('"');
        loop {
            let letter = self.rest.chars().next()?;
            match letter {
                '"' => {
                    self.skip(letter);
                    return Some(());
                }
                '\\' => {
                    self.skip(letter);
                    let escaped = self.rest.chars().next()?;
                    if !matches!(escaped, '"' | '\\' | '$' | '`' | '\n') {
                        self.word().push('\\');
                    }
                    if escaped != '\n' {
                        self.word().push(escaped);
                    }
                    self.skip(escaped);
                }
                '$' | '`' => self.expansion()?,
                _ => {
                    self.word().push(letter);
                    self.skip(letter);
                }
            }
        }
    }

    fn expansion(&mut self) -> Option<()> {
        let (part, length) = if let Some(inner) = self.rest.strip_prefix("$((") {
            let end = inner.find("))")?;
            (Part::Arithmetic(inner.get(..end)?.to_owned()), end + 5)
        } else if let Some(inner) = self.rest.strip_prefix("$(") {
            let end = closing(inner)?;
            (Part::Command(inner.get(..end)?.to_owned()), end + 3)
        } else if let Some(inner) = self.rest.strip_prefix("${") {
            let end = inner.find('}')?;
            (variable(inner.get(..end)?), end + 3)
        } else if let Some(inner) = self.rest.strip_prefix('`') {
            let end = inner.find('`')?;
            (Part::Command(inner.get(..end)?.to_owned()), end + 2)
        } else if self.rest.starts_with("$?") {
            (Part::Status, 2)
        } else {
            let inner = self.rest.get(1..)?;
            let name = inner.find(|letter: char| !is_of_name(letter)).unwrap_or(inner.len());
            match inner.chars().next() {
                Some(letter) if letter.is_ascii_digit() || "!@*#$-".contains(letter) => (Part::Unknown, 2),
                _ if name > 0 => (Part::Variable(inner.get(..name)?.to_owned(), None), name + 1),
                _ => (Part::Text("$".to_owned()), 1),
            }
        };
        self.rest = self.rest.get(length..)?;
        self.word().parts.push(part);
        Some(())
    }
}

fn is_of_name(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || letter == '_'
}

/// Whether a text may be the name of a variable.
fn is_name(text: &str) -> bool {
    !text.is_empty() && !text.starts_with(|letter: char| letter.is_ascii_digit()) && text.chars().all(is_of_name)
}

fn variable(inner: &str) -> Part {
    match inner.split_once(":-") {
        Some((name, otherwise)) if is_name(name) && !otherwise.contains('$') => {
            Part::Variable(name.to_owned(), Some(otherwise.to_owned()))
        }
        None if is_name(inner) => Part::Variable(inner.to_owned(), None),
        _ => Part::Unknown,
    }
}

/// Where the bracket closes.
fn closing(text: &str) -> Option<usize> {
    let mut depth = 1_usize;
    for (at, letter) in text.char_indices() {
        match letter {
            '(' => depth += 1,
            ')' if depth == 1 => return Some(at),
            ')' => depth -= 1,
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(script: &str) -> Option<String> {
        let part = |part: &Part| match part {
            Part::Text(text) => text.clone(),
            other => format!("{other:?}").replace('"', ""),
        };
        let show = |token: Token| match token {
            Token::Word(word) => word.parts.iter().map(part).collect(),
            Token::Operator(operator) => format!("<{operator}>"),
        };
        Some(tokens(script)?.into_iter().map(show).collect::<Vec<String>>().join(" "))
    }

    #[test]
    fn scripts_are_split_as_shells_split_them() {
        for (script, expected) in [
            ("sleep 2; exit 1", "sleep 2 <;> exit 1"),
            ("echo 'a b;c' && true\nfalse", "echo a b;c <&&> true <;> false"),
            (r#"echo "it's \"$x\"" # no word"#, r#"echo it's "Variable(x, None)""#),
            ("a>/b 2>&1|c", "a <>> /b <>&> 1 <|> c"),
            ("exit $?", "exit Status"),
            ("a$((1 + 2))b${x:-7}", "aArithmetic(1 + 2)bVariable(x, Some(7))"),
            ("for i in $(seq 1 (2)); do", "for i in Command(seq 1 (2)) <;> do"),
            ("$1 ${x%.*} $", "Unknown Unknown $"),
        ] {
            assert_eq!(shown(script).as_deref(), Some(expected), "{script}");
        }
        for broken in ["echo 'a", "echo \"a", "echo $(a", "echo `a", "echo $((1"] {
            assert_eq!(tokens(broken), None, "{broken}");
        }
    }
}
