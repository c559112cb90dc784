//! The structure of a shell script, as far as scripts are followed.

use std::sync::Arc;

/// Longer scripts are not read.
const MAX_LENGTH: usize = 16 * 1024;
/// Deeper ones neither.
const MAX_DEPTH: usize = 24;
/// What ends a word outside of quotes.
const DELIMITERS: &[char] = &[' ', '\t', '\n', ';', '&', '|', '(', ')', '<', '>'];
/// Words that begin or end what is no plain command.
const RESERVED: [&str; 11] = ["case", "select", "function", "then", "do", "done", "fi", "else", "elif", "esac", "}"];
/// Redirections, and the files that they are about.
const REDIRECTIONS: [(&str, &[Descriptor]); 4] = [
    ("&>", &[Descriptor::Out, Descriptor::Err]),
    ("1>", &[Descriptor::Out]),
    ("2>", &[Descriptor::Err]),
    (">", &[Descriptor::Out]),
];

/// What a shell does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Node {
    /// `NAME=value` in any number, a command with its arguments, and where it prints.
    Simple {
        assigned: Vec<(String, Word)>,
        words: Vec<Word>,
        redirects: Vec<Redirect>,
    },
    /// Several commands that print elsewhere.
    Redirected(Box<Node>, Vec<Redirect>),
    Sequence(Vec<Node>),
    And(Box<Node>, Box<Node>),
    Or(Box<Node>, Box<Node>),
    Not(Box<Node>),
    Pipe(Vec<Node>),
    Background(Box<Node>),
    Subshell(Box<Node>),
    /// `while`, or `until`, which goes on while the condition fails.
    Loop {
        until: bool,
        condition: Box<Node>,
        body: Box<Node>,
    },
    For {
        variable: String,
        words: Vec<Word>,
        body: Box<Node>,
    },
    If {
        arms: Vec<(Node, Node)>,
        otherwise: Option<Box<Node>>,
    },
    Function {
        name: String,
        body: Arc<Node>,
    },
}

/// An open file of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Descriptor {
    Out,
    Err,
}

/// Where open files of a command lead.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Redirect {
    pub(super) files: &'static [Descriptor],
    pub(super) to: Target,
}

/// What a redirection names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Target {
    Write(Word),
    Append(Word),
    /// `2>&1`: wherever that one leads.
    Same(Descriptor),
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
    /// `$NAME`.
    Variable(String),
    /// `${NAME:-otherwise}`, or without the colon, which takes an empty value for one.
    Default(String, bool, String),
    /// `$?`.
    Status,
    /// `$(command)`.
    Command(Box<Node>),
    /// `$((1 + 1))`.
    Arithmetic(String),
    /// `$1`, `$!`, `${NAME%x}` and other expansions that are not followed.
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

    /// The variable that it sets, as `NAME=value` does, and the value.
    pub(super) fn assigns(&self) -> Option<(String, Self)> {
        let Some(Part::Text(text)) = self.parts.first() else { return None };
        let (name, value) = text.split_once('=').filter(|(name, _)| is_name(name))?;
        let mut word = self.clone();
        word.parts[0] = Part::Text(value.to_owned());
        Some((name.to_owned(), word))
    }

    fn push(&mut self, text: &str) {
        match self.parts.last_mut() {
            Some(Part::Text(own)) => own.push_str(text),
            _ => self.parts.push(Part::Text(text.to_owned())),
        }
    }
}

/// Reads a script; `None` where it holds more than is followed, such as `case`, `<<` or `select`.
pub(super) fn parse(script: &str) -> Option<Node> {
    if script.len() > MAX_LENGTH {
        return None;
    }
    let mut parser = Parser { rest: script, depth: 0 };
    let node = parser.sequence(&[])?;
    parser.rest.is_empty().then_some(node)
}

struct Parser<'a> {
    rest: &'a str,
    depth: usize,
}

impl<'a> Parser<'a> {
    /// Skips blanks and comments.
    fn blanks(&mut self) {
        loop {
            self.rest = self.rest.trim_start_matches([' ', '\t']);
            if self.rest.starts_with('#') {
                self.rest = &self.rest[self.rest.find('\n').unwrap_or(self.rest.len())..];
            } else if !self.takes("\\\n") {
                return;
            }
        }
    }

    fn newlines(&mut self) {
        self.blanks();
        while self.takes("\n") {
            self.blanks();
        }
    }

    fn takes(&mut self, text: &str) -> bool {
        let rest = self.rest.strip_prefix(text);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    /// Takes a text up to an end, and the end.
    fn up_to(&mut self, end: &str) -> Option<&'a str> {
        let (text, rest) = self.rest.split_once(end)?;
        self.rest = rest;
        Some(text)
    }

    /// The next word as it stands there.
    fn keyword(&self) -> &'a str {
        &self.rest[..self.rest.find(DELIMITERS).unwrap_or(self.rest.len())]
    }

    fn takes_word(&mut self, keyword: &str) -> bool {
        self.blanks();
        self.keyword() == keyword && self.takes(keyword)
    }

    /// Commands, one at least, and the keyword that ends them.
    fn body(&mut self, end: &str) -> Option<Node> {
        let node = self.commands(&[end])?;
        self.takes_word(end).then_some(node)
    }

    /// Commands, one at least.
    fn commands(&mut self, until: &[&str]) -> Option<Node> {
        self.sequence(until).filter(|node| *node != Node::Sequence(Vec::new()))
    }

    /// Commands up to one of these keywords, a closing bracket or the end.
    fn sequence(&mut self, until: &[&str]) -> Option<Node> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return None;
        }
        let mut commands = Vec::new();
        loop {
            self.newlines();
            if self.rest.is_empty() || self.rest.starts_with(')') || until.contains(&self.keyword()) {
                break;
            }
            let command = self.list()?;
            self.blanks();
            let background = self.takes("&");
            commands.push(if background { Node::Background(Box::new(command)) } else { command });
            if !background && !self.takes(";") && !self.rest.is_empty() && !self.rest.starts_with(['\n', ')']) {
                return None;
            }
        }
        self.depth -= 1;
        Some(if commands.len() == 1 { commands.remove(0) } else { Node::Sequence(commands) })
    }

    fn list(&mut self) -> Option<Node> {
        let mut left = self.pipe()?;
        loop {
            self.blanks();
            let and = self.takes("&&");
            if !and && !self.takes("||") {
                return Some(left);
            }
            self.newlines();
            let right = Box::new(self.pipe()?);
            left = if and { Node::And(Box::new(left), right) } else { Node::Or(Box::new(left), right) };
        }
    }

    fn pipe(&mut self) -> Option<Node> {
        if self.takes_word("!") {
            self.blanks();
            // Not all shells take a second one.
            let inner = if self.keyword() == "!" { None } else { self.pipe() };
            return Some(Node::Not(Box::new(inner?)));
        }
        let mut parts = vec![self.command()?];
        loop {
            self.blanks();
            if self.rest.starts_with("||") || !self.takes("|") {
                return Some(if parts.len() == 1 { parts.remove(0) } else { Node::Pipe(parts) });
            }
            self.newlines();
            parts.push(self.command()?);
        }
    }

    fn command(&mut self) -> Option<Node> {
        self.blanks();
        let node = if self.takes("(") {
            let inner = self.commands(&[])?;
            self.takes(")").then(|| Node::Subshell(Box::new(inner)))?
        } else {
            match self.keyword() {
                "{" if self.takes("{") => self.body("}")?,
                keyword @ ("while" | "until") if self.takes(keyword) => {
                    let condition = Box::new(self.body("do")?);
                    Node::Loop { until: keyword == "until", condition, body: Box::new(self.body("done")?) }
                }
                "for" if self.takes("for") => self.each()?,
                "if" if self.takes("if") => self.branches()?,
                keyword if RESERVED.contains(&keyword) => return None,
                _ => return self.simple(),
            }
        };
        let mut redirects = Vec::new();
        self.redirections(&mut redirects)?;
        Some(if redirects.is_empty() { node } else { Node::Redirected(Box::new(node), redirects) })
    }

    fn each(&mut self) -> Option<Node> {
        self.blanks();
        let variable = self.keyword();
        // Without `in` it would be about the arguments.
        if !is_name(variable) || !self.takes(variable) || !self.takes_word("in") {
            return None;
        }
        let mut words = Vec::new();
        self.blanks();
        while !self.rest.starts_with([';', '\n']) {
            words.push(self.word()?);
            self.blanks();
        }
        self.takes(";");
        self.newlines();
        (!words.is_empty() && self.takes_word("do")).then_some(())?;
        Some(Node::For { variable: variable.to_owned(), words, body: Box::new(self.body("done")?) })
    }

    fn branches(&mut self) -> Option<Node> {
        let mut arms = Vec::new();
        loop {
            let condition = self.body("then")?;
            arms.push((condition, self.commands(&["elif", "else", "fi"])?));
            if self.takes_word("fi") {
                return Some(Node::If { arms, otherwise: None });
            }
            if self.takes_word("else") {
                return Some(Node::If { arms, otherwise: Some(Box::new(self.body("fi")?)) });
            }
            self.takes_word("elif").then_some(())?;
        }
    }

    fn simple(&mut self) -> Option<Node> {
        let (mut assigned, mut words, mut redirects) = (Vec::new(), Vec::new(), Vec::new());
        loop {
            self.redirections(&mut redirects)?;
            match self.rest.chars().next() {
                None | Some('\n' | ';' | '&' | '|' | ')') => break,
                Some('(') => return self.function(&words),
                Some(_) => {}
            }
            let word = self.word()?;
            match word.assigns().filter(|_| words.is_empty()) {
                Some(own) => assigned.push(own),
                None => words.push(word),
            }
        }
        let is_empty = assigned.is_empty() && words.is_empty() && redirects.is_empty();
        (!is_empty).then_some(Node::Simple { assigned, words, redirects })
    }

    /// `name() { …; }`, after its name.
    fn function(&mut self, words: &[Word]) -> Option<Node> {
        let [word] = words else { return None };
        let name = word.text().filter(|name| !word.quoted && is_name(name))?.to_owned();
        if !self.takes("()") {
            return None;
        }
        self.newlines();
        self.takes_word("{").then_some(())?;
        Some(Node::Function { name, body: Arc::new(self.body("}")?) })
    }

    /// Reads the redirections that there are; `None` where one is not followed.
    fn redirections(&mut self, redirects: &mut Vec<Redirect>) -> Option<()> {
        loop {
            self.blanks();
            let Some((operator, files)) = REDIRECTIONS.iter().find(|(operator, _)| self.rest.starts_with(operator))
            else {
                return (!self.rest.starts_with('<')).then_some(());
            };
            self.takes(operator);
            let to = if self.takes("&") {
                let to = match self.keyword() {
                    "1" => Descriptor::Out,
                    "2" => Descriptor::Err,
                    _ => return None,
                };
                self.rest = &self.rest[1..];
                Target::Same(to)
            } else {
                let appends = self.takes(">");
                self.blanks();
                let word = self.word()?;
                if appends { Target::Append(word) } else { Target::Write(word) }
            };
            redirects.push(Redirect { files, to });
        }
    }

    fn word(&mut self) -> Option<Word> {
        let mut word = Word::default();
        while let Some(letter) = self.rest.chars().next().filter(|letter| !DELIMITERS.contains(letter)) {
            match letter {
                '\'' => {
                    self.takes("'");
                    word.quoted = true;
                    word.push(self.up_to("'")?);
                }
                '"' => {
                    self.takes("\"");
                    word.quoted = true;
                    word.push("");
                    while !self.takes("\"") {
                        self.inside_quotes(&mut word)?;
                    }
                }
                '\\' => {
                    self.takes("\\");
                    let escaped = self.one()?;
                    if escaped != "\n" {
                        word.quoted = true;
                        word.push(escaped);
                    }
                }
                '$' | '`' => {
                    if self.rest.starts_with("$'") || self.rest.starts_with("$\"") {
                        return None;
                    }
                    word.open = true;
                    self.expansion(&mut word)?;
                }
                _ => {
                    word.open |= "*?[{~".contains(letter);
                    word.push(self.one()?);
                }
            }
        }
        // The number of another open file than 1 and 2.
        let is_number = self.rest.starts_with(['<', '>']) && word.text().is_some_and(|text| text.parse::<u8>().is_ok());
        (!is_number && (word.quoted || !word.parts.is_empty())).then_some(word)
    }

    /// Takes a letter.
    fn one(&mut self) -> Option<&'a str> {
        let (letter, rest) = self.rest.split_at(self.rest.chars().next()?.len_utf8());
        self.rest = rest;
        Some(letter)
    }

    fn inside_quotes(&mut self, word: &mut Word) -> Option<()> {
        if self.rest.starts_with(['$', '`']) {
            return self.expansion(word);
        }
        if self.takes("\\") {
            match self.one()? {
                "\n" => {}
                escaped @ ("\"" | "\\" | "$" | "`") => word.push(escaped),
                other => word.push(&format!("\\{other}")),
            }
            return Some(());
        }
        word.push(self.one()?);
        Some(())
    }

    fn expansion(&mut self, word: &mut Word) -> Option<()> {
        let part = if self.takes("$((") {
            Part::Arithmetic(self.up_to("))")?.to_owned())
        } else if self.takes("$(") {
            let inner = self.sequence(&[])?;
            self.takes(")").then_some(Part::Command(Box::new(inner)))?
        } else if self.takes("`") {
            let inner = self.up_to("`").filter(|inner| !inner.contains('\\'))?;
            let mut parser = Parser { rest: inner, depth: self.depth };
            let inner = parser.sequence(&[])?;
            parser.rest.is_empty().then_some(Part::Command(Box::new(inner)))?
        } else if self.takes("${") {
            parameter(self.up_to("}")?)
        } else if self.takes("$?") {
            Part::Status
        } else {
            self.takes("$");
            let name = &self.rest[..self.rest.find(|letter| !is_of_name(letter)).unwrap_or(self.rest.len())];
            if is_name(name) && self.takes(name) {
                Part::Variable(name.to_owned())
            } else if self.rest.starts_with(|letter: char| letter.is_ascii_digit() || "@*#!$-".contains(letter)) {
                self.one()?;
                Part::Unknown
            } else {
                word.push("$");
                return Some(());
            }
        };
        word.parts.push(part);
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

/// What stands between the brackets of `${…}`.
fn parameter(inner: &str) -> Part {
    let (name, rest) = inner.split_at(inner.find(|letter| !is_of_name(letter)).unwrap_or(inner.len()));
    if !is_name(name) {
        return Part::Unknown;
    }
    let operand = rest.strip_prefix(":-").or(rest.strip_prefix('-'));
    match operand.filter(|operand| !operand.contains(['"', '\'', '\\', '~', '$', '`', '{'])) {
        Some(operand) => Part::Default(name.to_owned(), rest.starts_with(':'), operand.to_owned()),
        None if rest.is_empty() => Part::Variable(name.to_owned()),
        None => Part::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_that_are_followed_and_scripts_that_are_not() {
        for script in [
            "sleep 2; exit 1",
            "while true; do sleep 1; done",
            "if [ -f /a ]; then exit 1; elif false; then :; else exit 0; fi",
            "for i in 1 2 3; do echo $i; done && exit 4",
            "(sleep 1; exit 2) || { echo no; exit 3; }",
            "a | b > /c 2>&1 &\nwait",
            "f() { true; }; g() { f; }\n_h(){\n g\n}",
            "{ a; b; } >> /log # a comment",
            "echo $(date) \"`hostname`\" ${A:-b} $((i + 1)) a\\ b 'c;d'",
            "until nc -z db 80 &> /dev/null\ndo sleep 1\ndone",
            "",
        ] {
            assert!(parse(script).is_some(), "{script}");
        }
        let deep = "(".repeat(100) + &")".repeat(100);
        let nested = "$(".repeat(100) + &")".repeat(100);
        let negated = "! ".repeat(100) + "true";
        for script in [
            "case a in b) true;; esac",
            "cat <<EOF\nx\nEOF",
            "read x < /etc/hosts",
            "if true; then",
            "select a; do b; done",
            "a )",
            "a ; ; b",
            "if a; then; b; fi",
            "( )",
            "f() { }",
            "if a then b; fi",
            "a >& b",
            "a 3> b",
            "echo 'a",
            "echo \"a",
            "echo $(a",
            "echo `a",
            "echo $((1",
            "for i; do a; done",
            &deep,
            &nested,
            &negated,
        ] {
            assert_eq!(parse(script), None, "{script}");
        }
    }

    #[test]
    fn words_are_split_as_shells_split_them() {
        let text = |text: &str| Part::Text(text.to_owned());
        let variable = |name: &str| Part::Variable(name.to_owned());
        for (word, parts) in [
            (r#""it's \"$x\"""#, vec![text("it's \""), variable("x"), text("\"")]),
            ("a$((1 + 2))b", vec![text("a"), Part::Arithmetic("1 + 2".to_owned()), text("b")]),
            ("${x:-7}", vec![Part::Default("x".to_owned(), true, "7".to_owned())]),
            ("$1$", vec![Part::Unknown, text("$")]),
            ("${x%a}$?", vec![Part::Unknown, Part::Status]),
        ] {
            let Some(Node::Simple { words, .. }) = parse(word) else { panic!("{word}") };
            assert_eq!(words[0].parts, parts, "{word}");
        }
    }
}
