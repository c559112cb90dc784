//! A shell script as words and operators.

/// A word, or what stands between words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Token {
    Word(Word),
    Operator(&'static str),
    /// The number of the open file that the redirection after it is about.
    File(u8),
    /// What stands in a here-document.
    Here(Word),
}

/// A word without its quotes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Word {
    pub(super) parts: Vec<Part>,
    /// Whether some of it was quoted, so that it is no keyword and stays one word.
    pub(super) quoted: bool,
    /// Whether something outside of quotes may become several words, or other ones.
    pub(super) open: bool,
}

/// A piece of a word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Part {
    Text(String),
    /// `$NAME`, `${NAME}`, `$1`, `$@`, `$#`; `${NAME:-otherwise}` and the like have an operator and what it works with.
    Variable(String, Option<(&'static str, Word)>),
    /// `${#NAME}`.
    Length(String),
    /// `$?`.
    Status,
    /// `$(command)`.
    Command(String),
    /// `$((1 + 1))`.
    Arithmetic(String),
    /// What is not known: `$!`, `${NAME/a/b}`.
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
    Lexer { rest: script, ..Lexer::default() }.read()
}

/// A text in which variables and commands stand for what they come to, but quotes stand for themselves.
fn expandable(text: &str) -> Option<Word> {
    let mut lexer = Lexer { rest: text, word: Some(Word { quoted: true, ..Word::default() }), ..Lexer::default() };
    while lexer.rest.chars().next().is_some() {
        lexer.inside_quotes()?;
    }
    lexer.end_word();
    match lexer.tokens.pop() {
        Some(Token::Word(word)) => Some(word),
        _ => None,
    }
}

/// A here-document whose text is still to come.
struct Awaited {
    /// Where its text is to stand.
    at: usize,
    end: String,
    verbatim: bool,
    /// `<<-`: tabs before its lines do not count.
    indented: bool,
}

#[derive(Default)]
struct Lexer<'a> {
    rest: &'a str,
    tokens: Vec<Token>,
    word: Option<Word>,
    awaited: Vec<Awaited>,
    /// The next word is the end of a here-document; whether that is indented.
    delimiter: Option<bool>,
}

impl Lexer<'_> {
    fn read(mut self) -> Option<Vec<Token>> {
        while let Some(letter) = self.rest.chars().next() {
            match letter {
                '\n' => {
                    self.end_word();
                    self.tokens.push(Token::Operator("\n"));
                    self.skip(letter);
                    self.here_documents()?;
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
                '$' | '`' => {
                    if self.rest.starts_with("$'") || self.rest.starts_with("$\"") {
                        return None;
                    }
                    self.expansion()?;
                    self.word().open = true;
                }
                _ => self.operator_or_letter(letter)?,
            }
        }
        self.end_word();
        self.awaited.is_empty().then_some(self.tokens)
    }

    /// Reads the here-documents of the line that has ended.
    fn here_documents(&mut self) -> Option<()> {
        for awaited in std::mem::take(&mut self.awaited) {
            let mut text = String::new();
            loop {
                if self.rest.is_empty() {
                    return None;
                }
                let (line, rest) = self.rest.split_once('\n').unwrap_or((self.rest, ""));
                self.rest = rest;
                let line = if awaited.indented { line.trim_start_matches('\t') } else { line };
                if line == awaited.end {
                    break;
                }
                text.push_str(line);
                text.push('\n');
            }
            let word = if awaited.verbatim {
                Word { parts: vec![Part::Text(text)], quoted: true, open: false }
            } else {
                // In a here-document a quote keeps its backslash.
                if text.contains("\\\"") {
                    return None;
                }
                expandable(&text)?
            };
            *self.tokens.get_mut(awaited.at)? = Token::Here(word);
        }
        Some(())
    }

    fn operator_or_letter(&mut self, letter: char) -> Option<()> {
        let Some(operator) = OPERATORS.iter().find(|operator| self.rest.starts_with(**operator)) else {
            let word = self.word();
            word.open |= "*?[{~".contains(letter);
            word.push(letter);
            self.skip(letter);
            return Some(());
        };
        // The number of a file before a redirection is no word.
        let number = self.word.as_ref().and_then(Word::text).and_then(|text| text.parse::<u8>().ok());
        let number = number.filter(|_| operator.starts_with(['<', '>']));
        if number.is_some() {
            self.word = None;
        }
        self.end_word();
        self.tokens.extend(number.map(Token::File));
        self.rest = self.rest.get(operator.len()..)?;
        if *operator == "<<" {
            let indented = self.rest.strip_prefix('-');
            self.rest = indented.unwrap_or(self.rest);
            self.delimiter = Some(indented.is_some());
        } else {
            self.tokens.push(Token::Operator(operator));
        }
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
        match self.delimiter.take() {
            Some(indented) => {
                let end = word.text().unwrap_or_default().to_owned();
                self.awaited.push(Awaited { at: self.tokens.len(), end, verbatim: word.quoted, indented });
                self.tokens.push(Token::Here(Word::default()));
            }
            None => self.tokens.push(Token::Word(word)),
        }
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
                _ => self.inside_quotes()?,
            }
        }
    }

    fn inside_quotes(&mut self) -> Option<()> {
        let letter = self.rest.chars().next()?;
        match letter {
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
        Some(())
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
            let command = inner.get(..end)?.to_owned();
            let is_plain = !command.contains('\\');
            (if is_plain { Part::Command(command) } else { Part::Unknown }, end + 2)
        } else if self.rest.starts_with("$?") {
            (Part::Status, 2)
        } else {
            let inner = self.rest.get(1..)?;
            let name = inner.find(|letter: char| !is_of_name(letter)).unwrap_or(inner.len());
            match inner.chars().next() {
                Some(letter) if letter.is_ascii_digit() || "@*#".contains(letter) => {
                    (Part::Variable(letter.to_string(), None), 2)
                }
                Some(letter) if "!$-".contains(letter) => (Part::Unknown, 2),
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

/// The operators in `${…}`, the longest first.
const PARAMETER_OPERATORS: [&str; 12] = [":-", ":=", ":+", ":?", "%%", "##", "-", "=", "+", "?", "%", "#"];

fn variable(inner: &str) -> Part {
    if let Some(name) = inner.strip_prefix('#').filter(|name| is_name(name)) {
        return Part::Length(name.to_owned());
    }
    let end = inner.find(|letter: char| !is_of_name(letter)).unwrap_or(inner.len());
    let (name, rest) = inner.split_at(end);
    if !is_name(name) && name.parse::<u8>().is_err() {
        return Part::Unknown;
    }
    if rest.is_empty() {
        return Part::Variable(name.to_owned(), None);
    }
    let operator = PARAMETER_OPERATORS.iter().find(|operator| rest.starts_with(**operator));
    let operand = operator.and_then(|operator| {
        let text = rest.get(operator.len()..).filter(|text| !text.contains(['"', '\'', '\\', '~']))?;
        Some((*operator, expandable(text)?))
    });
    operand.map_or(Part::Unknown, |operand| Part::Variable(name.to_owned(), Some(operand)))
}

/// Where the bracket closes; none where a `case` or a comment may hold one as well.
fn closing(text: &str) -> Option<usize> {
    let (mut depth, mut quote, mut before) = (1_usize, None, ' ');
    let mut letters = text.char_indices();
    while let Some((at, letter)) = letters.next() {
        match letter {
            '\\' if quote != Some('\'') => {
                letters.next();
            }
            _ if quote == Some(letter) => quote = None,
            _ if quote.is_some() => {}
            '\'' | '"' => quote = Some(letter),
            '#' if before.is_whitespace() => return None,
            '(' => depth += 1,
            ')' if depth == 1 => return (!text[..at].contains("case ")).then_some(at),
            ')' => depth -= 1,
            _ => {}
        }
        before = letter;
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
            Token::File(number) => format!("{number}:"),
            Token::Here(word) => format!("<<{}", word.parts.iter().map(part).collect::<String>()),
        };
        Some(tokens(script)?.into_iter().map(show).collect::<Vec<String>>().join(" "))
    }

    #[test]
    fn scripts_are_split_as_shells_split_them() {
        for (script, expected) in [
            ("sleep 2; exit 1", "sleep 2 <;> exit 1"),
            ("echo 'a b;c' && true\nfalse", "echo a b;c <&&> true <\n> false"),
            (r#"echo "it's \"$x\"" # no word"#, r#"echo it's "Variable(x, None)""#),
            ("a>/b 2>&1|c", "a <>> /b 2: <>&> 1 <|> c"),
            ("exit $?", "exit Status"),
            (
                "a$((1 + 2))b${x:-7}",
                "aArithmetic(1 + 2)bVariable(x, Some((:-, Word { parts: [Text(7)], quoted: true, open: false })))",
            ),
            ("for i in $(seq 1 (2)); do", "for i in Command(seq 1 (2)) <;> do"),
            ("$1 ${x/a/b} ${#x} $! $", "Variable(1, None) Unknown Length(x) Unknown $"),
            ("cat <<EOF >a\nx $y\nEOF\nb", "cat <<x Variable(y, None)\n <>> a <\n> b"),
            ("cat <<-'E'\n\t$y\n\tE\n", "cat <<$y\n <\n>"),
        ] {
            assert_eq!(shown(script).as_deref(), Some(expected), "{script}");
        }
        for broken in ["echo 'a", "echo \"a", "echo $(a", "echo `a", "echo $((1", "cat <<EOF\nx"] {
            assert_eq!(tokens(broken), None, "{broken}");
        }
    }
}
