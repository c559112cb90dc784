//! What is typed on a node as commands: words, pipes, lists, redirections and here-documents. Conditions and loops are refused.

/// A command with its words, and where it reads and writes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Command {
    pub(super) assigned: Vec<(String, Word)>,
    pub(super) words: Vec<Word>,
    pub(super) redirects: Vec<Redirect>,
    /// The text of a here-document.
    pub(super) input: Option<Word>,
}

/// Where a command reads or writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Redirect {
    Read(Word),
    /// To a file: stdout, stderr or both; at its end or in its place.
    Write {
        out: bool,
        err: bool,
        appends: bool,
        to: Word,
    },
    /// `2>&1`.
    ErrToOut,
    /// `>&2`.
    OutToErr,
}

/// When a pipeline runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum When {
    Always,
    /// The one before has succeeded.
    And,
    /// The one before has failed.
    Or,
}

/// Commands of which each reads what the one before prints.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Pipeline {
    pub(super) when: When,
    pub(super) negated: bool,
    pub(super) commands: Vec<Command>,
}

/// A word without its quotes.
pub(super) type Word = Vec<Part>;

/// A piece of a word. What stands outside of quotes may become several words, or names of files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Part {
    Text(String, bool),
    Variable(String, bool),
    /// `$(…)`.
    Output(String, bool),
}

/// Words that begin what is no plain command.
const RESERVED: [&str; 9] = ["if", "for", "while", "until", "case", "select", "function", "{", "[["];

/// Reads a script.
///
/// # Errors
/// What of it is not followed.
pub(super) fn parse(text: &str) -> Result<Vec<Pipeline>, String> {
    let mut reader = Reader { rest: text, awaited: Vec::new() };
    let (mut pipelines, mut when) = (Vec::new(), When::Always);
    loop {
        reader.skip_blank_lines()?;
        if reader.rest.is_empty() {
            return Ok(pipelines);
        }
        let at = pipelines.len();
        let mut pipeline = Pipeline { when, negated: false, commands: Vec::new() };
        loop {
            let command = reader.command()?;
            let first = command.words.first().and_then(plain);
            if let Some(word) = first.filter(|word| RESERVED.contains(word)) {
                return Err(format!("`{word}` is not followed on a node"));
            }
            pipeline.commands.push(command);
            if !reader.take_pipe() {
                break;
            }
        }
        if let Some(first) = pipeline.commands.first_mut()
            && first.words.first().and_then(plain) == Some("!")
        {
            first.words.remove(0);
            pipeline.negated = true;
        }
        pipelines.push(pipeline);
        when = reader.separator()?;
        reader.read_documents(pipelines.get_mut(at..).unwrap_or_default())?;
    }
}

/// The text of a word that is nothing else.
fn plain(word: &Word) -> Option<&str> {
    match word.as_slice() {
        [Part::Text(text, false)] => Some(text),
        _ => None,
    }
}

/// A here-document whose text follows: its end, whether nothing in it is replaced, whether tabs before lines go.
struct Awaited {
    end: String,
    literal: bool,
    strips: bool,
}

struct Reader<'t> {
    rest: &'t str,
    awaited: Vec<Awaited>,
}

impl Reader<'_> {
    fn peek(&self) -> Option<char> {
        self.rest.chars().next()
    }

    fn next(&mut self) -> Option<char> {
        let letter = self.peek()?;
        self.rest = self.rest.get(letter.len_utf8()..).unwrap_or_default();
        Some(letter)
    }

    fn take(&mut self, text: &str) -> bool {
        let rest = self.rest.strip_prefix(text);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    fn blanks(&mut self) {
        while self.take(" ") || self.take("\t") || self.take("\\\n") {}
        if self.peek() == Some('#') {
            while self.peek().is_some_and(|letter| letter != '\n') {
                self.next();
            }
        }
    }

    fn skip_blank_lines(&mut self) -> Result<(), String> {
        loop {
            self.blanks();
            if !self.take("\n") && !self.take(";") {
                return if self.awaited.is_empty() { Ok(()) } else { Err("a here-document has no text".to_owned()) };
            }
        }
    }

    fn take_pipe(&mut self) -> bool {
        self.blanks();
        let is_pipe = self.peek() == Some('|') && !self.rest.starts_with("||");
        is_pipe && self.take("|")
    }

    /// What stands between two pipelines.
    fn separator(&mut self) -> Result<When, String> {
        self.blanks();
        if self.take("&&") {
            Ok(When::And)
        } else if self.take("||") {
            Ok(When::Or)
        } else if self.peek() == Some('&') {
            Err("commands in the background are not followed on a node".to_owned())
        } else if self.rest.is_empty() || self.take(";") || self.take("\n") {
            Ok(When::Always)
        } else {
            Err(format!(
                "what begins with `{}` is not followed on a node",
                self.rest.chars().take(20).collect::<String>()
            ))
        }
    }

    fn command(&mut self) -> Result<Command, String> {
        let mut command = Command::default();
        loop {
            self.blanks();
            match self.peek() {
                None | Some('\n' | ';' | '|' | ')') => break,
                Some('&') if !self.rest.starts_with("&>") => break,
                Some('(') => return Err("subshells are not followed on a node".to_owned()),
                _ => {}
            }
            if self.redirect(&mut command)? {
                continue;
            }
            let word = self.word()?;
            let is_first = command.words.is_empty();
            match assignment(&word).filter(|_| is_first) {
                Some(assigned) => command.assigned.push(assigned),
                None => command.words.push(word),
            }
        }
        if command == Command::default() { Err("a command is missing".to_owned()) } else { Ok(command) }
    }

    fn redirect(&mut self, command: &mut Command) -> Result<bool, String> {
        let heads = [("<<-", 'd'), ("<<", 'h'), ("2>&1", 'e'), (">&2", 'o'), ("1>&2", 'o'), ("&>", 'b'), ("2>>", 'A')];
        let heads =
            heads.into_iter().chain([("2>", '2'), ("1>>", 'a'), ("1>", '1'), (">>", 'a'), (">", '1'), ("<", 'r')]);
        let Some((_, kind)) = heads.into_iter().find(|(head, _)| self.take(head)) else { return Ok(false) };
        let redirect = match kind {
            'e' => Redirect::ErrToOut,
            'o' => Redirect::OutToErr,
            _ => {
                self.blanks();
                let to = self.word()?;
                let write = |out, err, appends, to| Redirect::Write { out, err, appends, to };
                match kind {
                    'h' | 'd' => {
                        let literal = to.iter().any(|part| matches!(part, Part::Text(_, true)));
                        let end = to.iter().filter_map(|part| match part {
                            Part::Text(text, _) => Some(text.as_str()),
                            _ => None,
                        });
                        self.awaited.push(Awaited { end: end.collect(), literal, strips: kind == 'd' });
                        command.input = Some(Word::new());
                        return Ok(true);
                    }
                    'b' => write(true, true, false, to),
                    '2' | 'A' => write(false, true, kind == 'A', to),
                    '1' | 'a' => write(true, false, kind == 'a', to),
                    _ => Redirect::Read(to),
                }
            }
        };
        command.redirects.push(redirect);
        Ok(true)
    }

    /// The texts of the here-documents of the line that ended.
    fn read_documents(&mut self, pipelines: &mut [Pipeline]) -> Result<(), String> {
        let commands = pipelines.iter_mut().flat_map(|pipeline| &mut pipeline.commands);
        for (awaited, command) in
            std::mem::take(&mut self.awaited).into_iter().zip(commands.filter(|command| command.input.is_some()))
        {
            let mut text = String::new();
            loop {
                if self.rest.is_empty() {
                    return Err(format!("the text of a here-document has no end: a line `{}` is missing", awaited.end));
                }
                let (line, rest) = self.rest.split_once('\n').unwrap_or((self.rest, ""));
                self.rest = rest;
                let line = if awaited.strips { line.trim_start_matches('\t') } else { line };
                if line == awaited.end {
                    break;
                }
                text.push_str(line);
                text.push('\n');
            }
            command.input = Some(if awaited.literal {
                vec![Part::Text(text, true)]
            } else {
                Reader { rest: &text, awaited: Vec::new() }.quoted(None)?
            });
        }
        Ok(())
    }

    fn word(&mut self) -> Result<Word, String> {
        let mut word = Word::new();
        while let Some(letter) = self.peek() {
            match letter {
                ' ' | '\t' | '\n' | ';' | '&' | '|' | '<' | '>' | '(' | ')' => break,
                '`' => return Err("`…` is not followed on a node; `$(…)` is".to_owned()),
                _ => self.next(),
            };
            match letter {
                '\'' => {
                    let (text, rest) = self.rest.split_once('\'').ok_or("a quote is not closed")?;
                    self.rest = rest;
                    push(&mut word, text, true);
                }
                '"' => word.extend(self.quoted(Some('"'))?),
                '\\' => {
                    if let Some(next) = self.next().filter(|next| *next != '\n') {
                        push(&mut word, next.encode_utf8(&mut [0; 4]), true);
                    }
                }
                '$' => word.push(self.expansion(false)?),
                letter => push(&mut word, letter.encode_utf8(&mut [0; 4]), false),
            }
        }
        if word.is_empty() { Err("a word is missing".to_owned()) } else { Ok(word) }
    }

    /// What stands between double quotes, or in a here-document.
    fn quoted(&mut self, end: Option<char>) -> Result<Word, String> {
        let mut word = vec![Part::Text(String::new(), true)];
        loop {
            match self.next() {
                None if end.is_none() => return Ok(word),
                None => return Err("a quote is not closed".to_owned()),
                letter if letter == end => return Ok(word),
                Some('$') => word.push(self.expansion(true)?),
                Some('`') => return Err("`…` is not followed on a node; `$(…)` is".to_owned()),
                Some('\\') => match self.next() {
                    Some('\n') | None => {}
                    Some(next @ ('$' | '`' | '"' | '\\')) => push(&mut word, next.encode_utf8(&mut [0; 4]), true),
                    Some(next) => push(&mut word, &format!("\\{next}"), true),
                },
                Some(letter) => push(&mut word, letter.encode_utf8(&mut [0; 4]), true),
            }
        }
    }

    /// What follows a `$`.
    fn expansion(&mut self, quoted: bool) -> Result<Part, String> {
        if self.take("((") {
            return Err("arithmetic is not followed on a node".to_owned());
        }
        if self.take("(") {
            let mut depth = 1_usize;
            let end = self.rest.char_indices().find(|(_, letter)| {
                match letter {
                    '(' => depth = depth.saturating_add(1),
                    ')' => depth = depth.saturating_sub(1),
                    _ => {}
                }
                depth == 0
            });
            let (at, _) = end.ok_or("a `$(` is not closed")?;
            let (inner, rest) = self.rest.split_at(at);
            self.rest = rest.get(1..).unwrap_or_default();
            return Ok(Part::Output(inner.to_owned(), quoted));
        }
        if self.take("?") {
            return Ok(Part::Variable("?".to_owned(), quoted));
        }
        let braced = self.take("{");
        let ends = |letter: char| !letter.is_ascii_alphanumeric() && letter != '_';
        let length = self.rest.find(ends).unwrap_or(self.rest.len());
        let (name, rest) = self.rest.split_at(length);
        self.rest = rest;
        if braced && !self.take("}") {
            return Err(format!("`${{{name}…}}` is not followed on a node"));
        }
        Ok(if name.is_empty() { Part::Text("$".to_owned(), quoted) } else { Part::Variable(name.to_owned(), quoted) })
    }
}

fn push(word: &mut Word, text: &str, quoted: bool) {
    match word.last_mut() {
        Some(Part::Text(own, same)) if *same == quoted => own.push_str(text),
        _ => word.push(Part::Text(text.to_owned(), quoted)),
    }
}

/// `NAME=value`.
fn assignment(word: &Word) -> Option<(String, Word)> {
    let (first, rest) = word.split_first()?;
    let Part::Text(text, false) = first else { return None };
    let (name, value) = text.split_once('=')?;
    let is_name = name.starts_with(|letter: char| letter.is_ascii_alphabetic() || letter == '_')
        && name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_');
    let value = std::iter::once(Part::Text(value.to_owned(), false)).chain(rest.iter().cloned());
    is_name.then(|| (name.to_owned(), value.collect()))
}
