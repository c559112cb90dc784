//! Tokens to a tree, by precedence; macros are expanded on the way.
//!
//! // upstream: cel-go parser/parser.go, the words of the errors are those of its generated parser

use crate::ast::{Element, Entry, Expr, Kind};
use crate::errors::Issue;
use crate::lexer::{self, Token, TokenKind};
use crate::macros;
use crate::tree::Tree;
use crate::value::Value;
use crate::words::is_reserved;

/// How deep expressions may be nested.
const MAX_DEPTH: usize = 100;

/// Longest source, in characters.
const MAX_LENGTH: usize = 100_000;

const OPERAND: &str = "{'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, \
                       BYTES, IDENTIFIER}";
const ARGUMENT: &str = "{'[', '{', '(', ')', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, \
                        STRING, BYTES, IDENTIFIER}";

/// A parsed expression and, by number of node, the places of its nodes.
#[derive(Debug)]
pub(crate) struct Parsed {
    pub(crate) root: Expr,
    pub(crate) offsets: Vec<usize>,
}

/// Parses the source.
pub(crate) fn parse(source: &str, bindings: bool) -> Result<Parsed, Vec<Issue>> {
    let size = source.chars().count();
    if size > MAX_LENGTH {
        let message = format!("expression code point size exceeds limit: size: {size}, limit {MAX_LENGTH}");
        return Err(vec![Issue { offset: 0, message }]);
    }
    let mut issues = Vec::new();
    let tokens = lexer::tokens(source, &mut issues);
    let mut parser = Parser { tokens, at: 0, depth: 0, tree: Tree { issues, bindings, ..Tree::default() } };
    let root = parser.expression().and_then(|root| parser.end().map(|()| root));
    match root {
        Some(root) if parser.tree.issues.is_empty() => Ok(Parsed { root, offsets: parser.tree.offsets }),
        _ => Err(parser.tree.issues),
    }
}

/// What makes nodes while it reads.
struct Parser {
    tokens: Vec<Token>,
    at: usize,
    depth: usize,
    tree: Tree,
}

/// Binary operators with their precedence and function.
fn binary(text: &str) -> Option<(u8, &'static str)> {
    Some(match text {
        "||" => (1, "_||_"),
        "&&" => (2, "_&&_"),
        "==" => (3, "_==_"),
        "!=" => (3, "_!=_"),
        "<" => (3, "_<_"),
        "<=" => (3, "_<=_"),
        ">" => (3, "_>_"),
        ">=" => (3, "_>=_"),
        "in" => (3, "@in"),
        "+" => (4, "_+_"),
        "-" => (4, "_-_"),
        "*" => (5, "_*_"),
        "/" => (5, "_/_"),
        "%" => (5, "_%_"),
        _ => return None,
    })
}

impl Parser {
    fn peek(&self) -> &Token {
        // The last token is the end, and nothing goes past it.
        &self.tokens[self.at.min(self.tokens.len().saturating_sub(1))]
    }

    fn next(&mut self) -> Token {
        let token = self.peek().clone();
        self.at = self.at.saturating_add(1);
        token
    }

    fn is(&self, symbol: &str) -> bool {
        let token = self.peek();
        matches!(token.kind, TokenKind::Symbol) && token.text == symbol
    }

    fn takes(&mut self, symbol: &str) -> bool {
        let found = self.is(symbol);
        if found {
            self.at = self.at.saturating_add(1);
        }
        found
    }

    /// Whether an operand may begin with the token.
    fn begins_operand(token: &Token) -> bool {
        match token.kind {
            TokenKind::Symbol => matches!(token.text.as_str(), "[" | "{" | "(" | "." | "-" | "!"),
            TokenKind::Literal(_) | TokenKind::Identifier | TokenKind::Bad(_) => true,
            TokenKind::Escaped(_) | TokenKind::End => false,
        }
    }

    /// What stands where something else is expected: one token too many is passed.
    fn unexpected(&mut self, expected: &str, fits: impl Fn(&Token) -> bool) -> Option<()> {
        let token = self.peek().clone();
        let following = self.tokens.get(self.at.saturating_add(1)).cloned();
        if !matches!(token.kind, TokenKind::End) && following.is_some_and(|following| fits(&following)) {
            let message = format!("Syntax error: extraneous input '{}' expecting {expected}", token.text);
            self.tree.issues.push(Issue { offset: token.offset, message });
            self.at = self.at.saturating_add(1);
            return Some(());
        }
        self.tree.refuse(token.offset, format!("Syntax error: mismatched input '{}' expecting {expected}", token.text))
    }

    fn expect(&mut self, symbol: &str) -> Option<()> {
        if self.takes(symbol) {
            return Some(());
        }
        let token = self.peek().clone();
        if matches!(token.kind, TokenKind::End) && symbol != ":" {
            let message = format!("Syntax error: missing '{symbol}' at '<EOF>'");
            return self.tree.refuse(token.offset, message);
        }
        self.unexpected(&format!("'{symbol}'"), |token| {
            matches!(token.kind, TokenKind::Symbol) && token.text == symbol
        })?;
        self.takes(symbol).then_some(())
    }

    fn end(&mut self) -> Option<()> {
        if matches!(self.peek().kind, TokenKind::End) {
            return Some(());
        }
        self.unexpected("<EOF>", |token| matches!(token.kind, TokenKind::End))
    }

    fn expression(&mut self) -> Option<Expr> {
        self.depth = self.depth.saturating_add(1);
        if self.depth > MAX_DEPTH {
            let offset = self.peek().offset;
            return self.tree.refuse(offset, format!("expression recursion limit exceeded: {MAX_DEPTH}"));
        }
        let first = self.operation(1)?;
        let result = if self.is("?") {
            let offset = self.next().offset;
            let yes = self.operation(1)?;
            self.expect(":")?;
            let no = self.expression()?;
            self.tree.call(offset, "_?_:_", vec![first, yes, no])
        } else {
            first
        };
        self.depth = self.depth.saturating_sub(1);
        Some(result)
    }

    fn operation(&mut self, least: u8) -> Option<Expr> {
        let mut left = self.unary()?;
        loop {
            let token = self.peek();
            let operator = if matches!(token.kind, TokenKind::Symbol) { binary(&token.text) } else { None };
            let Some((precedence, function)) = operator.filter(|(precedence, _)| *precedence >= least) else {
                return Some(left);
            };
            let offset = self.next().offset;
            let right = self.operation(precedence.saturating_add(1))?;
            left = self.tree.call(offset, function, vec![left, right]);
        }
    }

    fn unary(&mut self) -> Option<Expr> {
        for (symbol, function) in [("!", "!_"), ("-", "-_")] {
            if !self.is(symbol) {
                continue;
            }
            let offset = self.next().offset;
            let mut signs = 1_usize;
            while self.takes(symbol) {
                signs = signs.saturating_add(1);
            }
            let negative = signs % 2 == 1;
            if symbol == "-" && negative && signs == 1 {
                match self.peek().kind.clone() {
                    TokenKind::Literal(Value::Int(number)) => {
                        self.at = self.at.saturating_add(1);
                        let literal = self.tree.node(offset, Kind::Literal(Value::Int(number.wrapping_neg())));
                        return self.member(literal);
                    }
                    TokenKind::Literal(Value::Double(number)) => {
                        self.at = self.at.saturating_add(1);
                        let literal = self.tree.node(offset, Kind::Literal(Value::Double(-number)));
                        return self.member(literal);
                    }
                    _ => {}
                }
            }
            let primary = self.primary()?;
            let operand = self.member(primary)?;
            return Some(if negative { self.tree.call(offset, function, vec![operand]) } else { operand });
        }
        let primary = self.primary()?;
        self.member(primary)
    }

    /// What follows an operand: fields, methods, indices.
    fn member(&mut self, mut operand: Expr) -> Option<Expr> {
        loop {
            if self.is(".") {
                let dot = self.next().offset;
                let optional = self.takes("?");
                let token = self.next();
                let (name, escaped) = match &token.kind {
                    TokenKind::Identifier => (token.text.clone(), false),
                    TokenKind::Escaped(name) => (name.clone(), true),
                    TokenKind::Symbol if token.text == "in" => (token.text.clone(), false),
                    _ => {
                        let message = format!(
                            "Syntax error: mismatched input '{}' expecting {{'?', IDENTIFIER, ESC_IDENTIFIER}}",
                            token.text
                        );
                        return self.tree.refuse(token.offset, message);
                    }
                };
                if optional {
                    let field = self.tree.node(token.offset, Kind::Literal(Value::from(name.as_str())));
                    operand = self.tree.call(dot, "_?._", vec![operand, field]);
                } else if self.is("(") && !escaped {
                    let offset = self.next().offset;
                    let arguments = self.arguments(")", ARGUMENT)?;
                    operand = macros::method(&mut self.tree, offset, &name, operand, arguments)?;
                } else {
                    operand =
                        self.tree.node(dot, Kind::Select { operand: Box::new(operand), field: name, test: false });
                }
            } else if self.is("[") {
                let offset = self.next().offset;
                let optional = self.takes("?");
                let index = self.expression()?;
                self.expect("]")?;
                operand = self.tree.call(offset, if optional { "_[?_]" } else { "_[_]" }, vec![operand, index]);
            } else {
                return Some(operand);
            }
        }
    }

    /// Expressions up to a closing bracket.
    fn arguments(&mut self, close: &str, expected: &str) -> Option<Vec<Expr>> {
        if self.takes(close) {
            return Some(Vec::new());
        }
        if !Self::begins_operand(self.peek()) {
            self.unexpected(expected, Self::begins_operand)?;
        }
        let mut arguments = vec![self.expression()?];
        while self.takes(",") {
            arguments.push(self.expression()?);
        }
        self.expect(close)?;
        Some(arguments)
    }

    fn primary(&mut self) -> Option<Expr> {
        if !Self::begins_operand(self.peek()) {
            self.unexpected(OPERAND, Self::begins_operand)?;
        }
        let token = self.next();
        match token.kind {
            TokenKind::Literal(value) => Some(self.tree.node(token.offset, Kind::Literal(value))),
            TokenKind::Bad(message) => self.tree.refuse(token.offset, message),
            TokenKind::Identifier => self.identifier(token.offset, token.text, ""),
            TokenKind::Symbol => match token.text.as_str() {
                "(" => {
                    let inner = self.expression()?;
                    self.expect(")")?;
                    Some(inner)
                }
                "[" => self.list(token.offset),
                "{" => self.map(token.offset),
                "." => {
                    let name = self.next();
                    match name.kind {
                        TokenKind::Identifier => self.identifier(name.offset, name.text, "."),
                        _ => self.tree.refuse(
                            name.offset,
                            format!("Syntax error: mismatched input '{}' expecting IDENTIFIER", name.text),
                        ),
                    }
                }
                // A sign after another one: `-!x`, which `unary` reads.
                _ => {
                    self.at = self.at.saturating_sub(1);
                    let offset = token.offset;
                    self.tree
                        .refuse(offset, format!("Syntax error: mismatched input '{}' expecting {OPERAND}", token.text))
                }
            },
            TokenKind::Escaped(_) | TokenKind::End => None,
        }
    }

    fn identifier(&mut self, offset: usize, name: String, root: &str) -> Option<Expr> {
        if is_reserved(&name) {
            return self.tree.refuse(offset, format!("reserved identifier: {name}"));
        }
        if self.is("(") {
            let open = self.next().offset;
            let arguments = self.arguments(")", ARGUMENT)?;
            return macros::function(&mut self.tree, open, &name, arguments);
        }
        if let Some(fields) = self.begins_message() {
            return self.message(offset, &name, fields);
        }
        let _ = root;
        Some(self.tree.node(offset, Kind::Ident(name)))
    }

    /// How many `.name` come before a `{`, where a message is made.
    fn begins_message(&self) -> Option<usize> {
        let mut ahead = 0_usize;
        loop {
            let token = self.tokens.get(self.at.saturating_add(ahead))?;
            if !matches!(token.kind, TokenKind::Symbol) {
                return None;
            }
            match token.text.as_str() {
                "{" => return Some(ahead / 2),
                "." => {
                    let name = self.tokens.get(self.at.saturating_add(ahead).saturating_add(1))?;
                    if !matches!(name.kind, TokenKind::Identifier) {
                        return None;
                    }
                    ahead = ahead.saturating_add(2);
                }
                _ => return None,
            }
        }
    }

    fn message(&mut self, _offset: usize, first: &str, further: usize) -> Option<Expr> {
        let mut name = first.to_owned();
        for _ in 0..further {
            self.next();
            name.push('.');
            name.push_str(&self.next().text);
        }
        let open = self.next().offset;
        let mut fields = Vec::new();
        while !self.is("}") {
            let token = self.next();
            let field = match token.kind {
                TokenKind::Identifier => token.text,
                TokenKind::Escaped(field) => field,
                _ => {
                    let message = format!(
                        "Syntax error: mismatched input '{}' expecting {{'}}', ',', '?', IDENTIFIER}}",
                        token.text
                    );
                    return self.tree.refuse(token.offset, message);
                }
            };
            let colon = self.peek().offset;
            self.expect(":")?;
            fields.push((colon, field, self.expression()?));
            if !self.takes(",") {
                break;
            }
        }
        self.expect("}")?;
        Some(self.tree.node(open, Kind::Struct { name, fields }))
    }

    fn list(&mut self, offset: usize) -> Option<Expr> {
        let mut elements = Vec::new();
        while !self.is("]") {
            let optional = self.takes("?");
            elements.push(Element { value: self.expression()?, optional });
            if !self.takes(",") {
                break;
            }
        }
        self.expect("]")?;
        Some(self.tree.node(offset, Kind::List(elements)))
    }

    fn map(&mut self, offset: usize) -> Option<Expr> {
        let mut entries = Vec::new();
        while !self.is("}") {
            let optional = self.takes("?");
            let key = self.expression()?;
            self.expect(":")?;
            entries.push(Entry { key, value: self.expression()?, optional });
            if !self.takes(",") {
                break;
            }
        }
        self.expect("}")?;
        Some(self.tree.node(offset, Kind::Map(entries)))
    }
}
