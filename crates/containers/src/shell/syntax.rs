//! The structure of a shell script.

use std::sync::Arc;

use super::tokens::{Token, Word, tokens};

/// Longer scripts are not read.
const MAX_LENGTH: usize = 16 * 1024;
/// Deeper ones neither.
const MAX_DEPTH: usize = 24;

/// What a shell does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Node {
    /// A command with its arguments, and where it reads and writes.
    Simple {
        words: Vec<Word>,
        redirects: Vec<Redirect>,
    },
    /// Several commands that read and write elsewhere.
    Redirected(Box<Node>, Vec<Redirect>),
    /// `case WORD in A | B) … ;; esac`.
    Case {
        word: Word,
        arms: Vec<(Vec<Word>, Node)>,
    },
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

/// Where an open file of a command leads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Redirect {
    pub(super) file: u8,
    pub(super) to: Target,
}

/// What a redirection names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Target {
    Write(Word),
    Append(Word),
    Read(Word),
    Text(Word),
    /// `2>&1`: wherever that one leads.
    File(u8),
    /// `&>`, which only bash takes for both.
    Both(Word),
}

/// Reads a script; `None` where it holds more than is known here, such as `select`.
pub(super) fn parse(script: &str) -> Option<Node> {
    if script.len() > MAX_LENGTH {
        return None;
    }
    let mut parser = Parser { tokens: tokens(script)?, at: 0, depth: 0 };
    let node = parser.sequence(&[])?;
    (parser.at == parser.tokens.len()).then_some(node)
}

struct Parser {
    tokens: Vec<Token>,
    at: usize,
    depth: usize,
}

impl Parser {
    fn operator(&self) -> Option<&'static str> {
        match self.tokens.get(self.at) {
            Some(Token::Operator(operator)) => Some(operator),
            _ => None,
        }
    }

    fn keyword(&self) -> Option<&str> {
        match self.tokens.get(self.at) {
            Some(Token::Word(word)) if !word.quoted => word.text(),
            _ => None,
        }
    }

    fn takes(&mut self, operator: &str) -> bool {
        let here = self.operator() == Some(operator);
        self.at += usize::from(here);
        here
    }

    fn takes_word(&mut self, keyword: &str) -> bool {
        let here = self.keyword() == Some(keyword);
        self.at += usize::from(here);
        here
    }

    fn newlines(&mut self) {
        while self.takes("\n") {}
    }

    /// Commands, one at least, up to one of these keywords, a closing bracket or the end.
    fn body_until(&mut self, until: &[&str]) -> Option<Node> {
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
            let over = self.at == self.tokens.len()
                || matches!(self.operator(), Some(")" | ";;"))
                || self.keyword().is_some_and(|word| until.contains(&word));
            if over {
                break;
            }
            let command = self.list()?;
            if self.takes("&") {
                commands.push(Node::Background(Box::new(command)));
                continue;
            }
            commands.push(command);
            let goes_on = self.takes(";") || self.operator() == Some("\n");
            let ends = self.at == self.tokens.len() || matches!(self.operator(), Some(")" | ";;"));
            if !goes_on && !ends {
                return None;
            }
        }
        self.depth -= 1;
        Some(if commands.len() == 1 { commands.remove(0) } else { Node::Sequence(commands) })
    }

    fn list(&mut self) -> Option<Node> {
        let mut left = self.pipe()?;
        loop {
            let and = self.operator() == Some("&&");
            if !and && self.operator() != Some("||") {
                return Some(left);
            }
            self.at += 1;
            self.newlines();
            let right = Box::new(self.pipe()?);
            left = if and { Node::And(Box::new(left), right) } else { Node::Or(Box::new(left), right) };
        }
    }

    fn pipe(&mut self) -> Option<Node> {
        if self.takes_word("!") {
            // Not all shells take a second one.
            let inner = if self.keyword() == Some("!") { None } else { self.pipe() };
            return Some(Node::Not(Box::new(inner?)));
        }
        let mut parts = vec![self.command()?];
        while self.takes("|") {
            self.newlines();
            parts.push(self.command()?);
        }
        Some(if parts.len() == 1 { parts.remove(0) } else { Node::Pipe(parts) })
    }

    fn command(&mut self) -> Option<Node> {
        let node = self.plain_command()?;
        if matches!(node, Node::Simple { .. } | Node::Function { .. }) {
            return Some(node);
        }
        let mut redirects = Vec::new();
        while self.redirect(&mut redirects)? {}
        Some(if redirects.is_empty() { node } else { Node::Redirected(Box::new(node), redirects) })
    }

    /// Reads a redirection if there is one; `None` where it makes no sense.
    fn redirect(&mut self, redirects: &mut Vec<Redirect>) -> Option<bool> {
        if let Some(Token::Here(text)) = self.tokens.get(self.at) {
            redirects.push(Redirect { file: 0, to: Target::Text(text.clone()) });
            self.at += 1;
            return Some(true);
        }
        let number = match self.tokens.get(self.at) {
            Some(Token::File(number)) => Some(*number),
            _ => None,
        };
        let at = self.at + usize::from(number.is_some());
        let operator = match self.tokens.get(at) {
            Some(Token::Operator(operator @ (">" | ">>" | "&>" | "<" | ">&"))) => *operator,
            _ => return number.is_none().then_some(false),
        };
        let Some(Token::Word(target)) = self.tokens.get(at + 1) else { return None };
        let target = target.clone();
        self.at = at + 2;
        let file = number.unwrap_or(u8::from(operator != "<"));
        match operator {
            ">" => redirects.push(Redirect { file, to: Target::Write(target) }),
            ">>" => redirects.push(Redirect { file, to: Target::Append(target) }),
            "<" => redirects.push(Redirect { file, to: Target::Read(target) }),
            ">&" if target.text().is_some_and(|text| text.parse::<u8>().is_ok()) => {
                redirects.push(Redirect { file, to: Target::File(target.text()?.parse().ok()?) });
            }
            "&>" => redirects.push(Redirect { file: 1, to: Target::Both(target) }),
            _ => return None,
        }
        Some(true)
    }

    fn choice(&mut self) -> Option<Node> {
        self.at += 1;
        let Some(Token::Word(word)) = self.tokens.get(self.at).cloned() else { return None };
        self.at += 1;
        self.newlines();
        if !self.takes_word("in") {
            return None;
        }
        let mut arms = Vec::new();
        loop {
            self.newlines();
            if self.takes_word("esac") {
                return Some(Node::Case { word, arms });
            }
            self.takes("(");
            let mut patterns = Vec::new();
            loop {
                let Some(Token::Word(pattern)) = self.tokens.get(self.at) else { return None };
                patterns.push(pattern.clone());
                self.at += 1;
                if !self.takes("|") {
                    break;
                }
            }
            if !self.takes(")") {
                return None;
            }
            arms.push((patterns, self.sequence(&["esac"])?));
            if !self.takes(";;") && self.keyword() != Some("esac") {
                return None;
            }
        }
    }

    fn plain_command(&mut self) -> Option<Node> {
        if self.takes("(") {
            let inner = self.body_until(&[])?;
            return self.takes(")").then(|| Node::Subshell(Box::new(inner)));
        }
        match self.keyword() {
            Some("while" | "until") => {
                let until = self.keyword() == Some("until");
                self.at += 1;
                let condition = Box::new(self.body_until(&["do"])?);
                Some(Node::Loop { until, condition, body: Box::new(self.body()?) })
            }
            Some("for") => self.each(),
            Some("if") => self.branches(),
            Some("{") => {
                self.at += 1;
                let inner = self.body_until(&["}"])?;
                self.takes_word("}").then_some(inner)
            }
            Some("case") => self.choice(),
            Some("select" | "function" | "then" | "do" | "done" | "fi" | "else" | "elif" | "esac" | "}") => None,
            Some(name) if self.tokens.get(self.at + 1) == Some(&Token::Operator("(")) => {
                let name = name.to_owned();
                self.at += 1;
                self.function(name)
            }
            _ => self.simple(),
        }
    }

    fn function(&mut self, name: String) -> Option<Node> {
        if !self.takes("(") || !self.takes(")") {
            return None;
        }
        self.newlines();
        if !self.takes_word("{") {
            return None;
        }
        let body = Arc::new(self.body_until(&["}"])?);
        self.takes_word("}").then_some(Node::Function { name, body })
    }

    fn each(&mut self) -> Option<Node> {
        self.at += 1;
        let variable = self.keyword()?.to_owned();
        self.at += 1;
        let mut words = Vec::new();
        if self.takes_word("in") {
            while let Some(Token::Word(word)) = self.tokens.get(self.at) {
                words.push(word.clone());
                self.at += 1;
            }
        }
        // Without `in` it would be about the arguments.
        if words.is_empty() || (!self.takes(";") && self.operator() != Some("\n")) {
            return None;
        }
        self.newlines();
        Some(Node::For { variable, words, body: Box::new(self.body()?) })
    }

    fn body(&mut self) -> Option<Node> {
        if !self.takes_word("do") {
            return None;
        }
        let body = self.body_until(&["done"])?;
        self.takes_word("done").then_some(body)
    }

    fn branches(&mut self) -> Option<Node> {
        let mut arms = Vec::new();
        while self.takes_word("if") || self.takes_word("elif") {
            let condition = self.body_until(&["then"])?;
            if !self.takes_word("then") {
                return None;
            }
            arms.push((condition, self.body_until(&["elif", "else", "fi"])?));
        }
        let otherwise = if self.takes_word("else") { Some(Box::new(self.body_until(&["fi"])?)) } else { None };
        self.takes_word("fi").then_some(Node::If { arms, otherwise })
    }

    fn simple(&mut self) -> Option<Node> {
        let (mut words, mut redirects) = (Vec::new(), Vec::new());
        let begun = self.at;
        loop {
            if self.redirect(&mut redirects)? {
                continue;
            }
            match self.tokens.get(self.at) {
                Some(Token::Word(word)) => words.push(word.clone()),
                Some(Token::Operator("(")) => return None,
                _ => break,
            }
            self.at += 1;
        }
        (self.at > begun).then_some(Node::Simple { words, redirects })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_read_and_what_is_not() {
        for script in [
            "sleep 2; exit 1",
            "while true; do sleep 1; done",
            "if [ -f /a ]; then exit 1; elif false; then :; else exit 0; fi",
            "for i in 1 2 3; do echo $i; done && exit 4",
            "(sleep 1; exit 2) || { echo no; exit 3; }",
            "a | b > /c 2>&1 &\nwait",
            "f() { true; }; g() { f; }\n_h(){\n g\n}",
            "case $a in b|c) true ;; *) false; esac",
            "cat <<EOF > /x\nx\nEOF\ntrue",
            "while read line; do echo $line; done < /etc/hosts 2> /dev/null",
            "{ a; b; } >> /log",
            "",
        ] {
            assert!(parse(script).is_some(), "{script}");
        }
        let deep = "(".repeat(100) + &")".repeat(100);
        let negated = "! ".repeat(100) + "true";
        for script in [
            "case a in b) true",
            "cat <<EOF\nx\n",
            "if true; then",
            "select a; do b; done",
            "a )",
            "a ; ; b",
            "if a; then; b; fi",
            "( )",
            "f() { }",
            "if a then b; fi",
            "a >& b",
            "for i; do a; done",
            &deep,
            &negated,
        ] {
            assert_eq!(parse(script), None, "{script}");
        }
    }
}
