//! Source to tokens.

use std::sync::Arc;

use crate::errors::Issue;
use crate::value::Value;

/// A token, with the place of its first character and its text.
#[derive(Debug, Clone)]
pub(crate) struct Token {
    pub(crate) kind: TokenKind,
    pub(crate) offset: usize,
    pub(crate) text: String,
}

/// What a token is.
#[derive(Debug, Clone)]
pub(crate) enum TokenKind {
    Literal(Value),
    /// A literal that cannot be one, and why: `9999999999999999999`.
    Bad(String),
    Identifier,
    /// A name in back quotes.
    Escaped(String),
    /// Operators, brackets and the words `in`, `true`, `false`, `null`.
    Symbol,
    End,
}

const TWO: &[&str] = &["==", "!=", "<=", ">=", "&&", "||"];
const ONE: &str = "[]{}().,-!?:+*/%<>";

/// All tokens, the last of which is the end; what is none is reported and left out.
///
/// // upstream: cel-go parser/gen/CEL.g4
pub(crate) fn tokens(source: &str, issues: &mut Vec<Issue>) -> Vec<Token> {
    let characters: Vec<char> = source.chars().collect();
    let mut lexer = Lexer { characters: &characters, at: 0 };
    let mut tokens = Vec::new();
    while lexer.skip_blanks() {
        let start = lexer.at;
        match lexer.token() {
            Some(kind) => {
                let text = characters.get(start..lexer.at).unwrap_or_default().iter().collect();
                tokens.push(Token { kind, offset: start, text });
            }
            None => {
                let text: String = characters.get(start..lexer.at).unwrap_or_default().iter().collect();
                issues.push(Issue {
                    offset: start,
                    message: format!("Syntax error: token recognition error at: '{}'", text.replace('\n', "\\n")),
                });
            }
        }
    }
    tokens.push(Token { kind: TokenKind::End, offset: characters.len(), text: "<EOF>".to_owned() });
    tokens
}

struct Lexer<'a> {
    characters: &'a [char],
    at: usize,
}

impl Lexer<'_> {
    fn peek(&self, ahead: usize) -> Option<char> {
        self.characters.get(self.at.saturating_add(ahead)).copied()
    }

    fn advance(&mut self, by: usize) {
        self.at = self.at.saturating_add(by).min(self.characters.len());
    }

    /// Past blanks and comments; whether anything is left.
    fn skip_blanks(&mut self) -> bool {
        loop {
            match self.peek(0) {
                Some('\t' | ' ' | '\r' | '\n' | '\u{c}') => self.advance(1),
                Some('/') if self.peek(1) == Some('/') => {
                    while self.peek(0).is_some_and(|character| character != '\n') {
                        self.advance(1);
                    }
                }
                Some(_) => return true,
                None => return false,
            }
        }
    }

    /// The next token; `None` is an error, whose text has been passed.
    fn token(&mut self) -> Option<TokenKind> {
        let first = self.peek(0)?;
        if let Some(prefix) = self.string_prefix() {
            return self.string(prefix);
        }
        if first.is_ascii_alphabetic() || first == '_' {
            let start = self.at;
            while self.peek(0).is_some_and(|character| character.is_ascii_alphanumeric() || character == '_') {
                self.advance(1);
            }
            let word: String = self.characters.get(start..self.at)?.iter().collect();
            return Some(match word.as_str() {
                "true" => TokenKind::Literal(Value::Bool(true)),
                "false" => TokenKind::Literal(Value::Bool(false)),
                "null" => TokenKind::Literal(Value::Null),
                "in" => TokenKind::Symbol,
                _ => TokenKind::Identifier,
            });
        }
        if first.is_ascii_digit() || (first == '.' && self.peek(1).is_some_and(|next| next.is_ascii_digit())) {
            return Some(self.number());
        }
        if first == '`' {
            return self.escaped();
        }
        let pair: String = [Some(first), self.peek(1)].into_iter().flatten().collect();
        if TWO.contains(&pair.as_str()) {
            self.advance(2);
            return Some(TokenKind::Symbol);
        }
        if ONE.contains(first) {
            self.advance(1);
            return Some(TokenKind::Symbol);
        }
        // The beginning of a token that goes on otherwise is passed together with what follows.
        self.advance(if matches!(first, '=' | '&' | '|') { 2 } else { 1 });
        None
    }

    /// Name in back quotes.
    fn escaped(&mut self) -> Option<TokenKind> {
        self.advance(1);
        let mut name = String::new();
        while let Some(character) = self.peek(0) {
            self.advance(1);
            if character == '`' {
                return Some(TokenKind::Escaped(name));
            }
            if !(character.is_ascii_alphanumeric() || "_.-/ ".contains(character)) {
                return None;
            }
            name.push(character);
        }
        None
    }

    fn number(&mut self) -> TokenKind {
        let start = self.at;
        if self.peek(0) == Some('0') && matches!(self.peek(1), Some('x')) {
            self.advance(2);
            while self.peek(0).is_some_and(|character| character.is_ascii_hexdigit()) {
                self.advance(1);
            }
            let digits: String = self.taken(start).chars().skip(2).collect();
            return self.integer(start, &digits, 16);
        }
        let mut float = false;
        self.digits();
        if self.peek(0) == Some('.') && self.peek(1).is_some_and(|next| next.is_ascii_digit()) {
            float = true;
            self.advance(1);
            self.digits();
        }
        if matches!(self.peek(0), Some('e' | 'E')) {
            let sign = usize::from(matches!(self.peek(1), Some('+' | '-')));
            if self.peek(sign.saturating_add(1)).is_some_and(|next| next.is_ascii_digit()) {
                float = true;
                self.advance(sign.saturating_add(1));
                self.digits();
            }
        }
        if float {
            return match self.taken(start).parse() {
                Ok(number) => TokenKind::Literal(Value::Double(number)),
                Err(_) => TokenKind::Bad("invalid double literal".to_owned()),
            };
        }
        let digits = self.taken(start);
        self.integer(start, &digits, 10)
    }

    fn integer(&mut self, _start: usize, digits: &str, radix: u32) -> TokenKind {
        if matches!(self.peek(0), Some('u' | 'U')) {
            self.advance(1);
            return u64::from_str_radix(digits, radix).map_or_else(
                |_| TokenKind::Bad("invalid uint literal".to_owned()),
                |number| TokenKind::Literal(Value::Uint(number)),
            );
        }
        match i64::from_str_radix(digits, radix) {
            Ok(number) => TokenKind::Literal(Value::Int(number)),
            // The smallest number has its sign apart.
            Err(_) if digits == "9223372036854775808" => TokenKind::Literal(Value::Int(i64::MIN)),
            Err(_) => TokenKind::Bad("invalid int literal".to_owned()),
        }
    }

    fn digits(&mut self) {
        while self.peek(0).is_some_and(|character| character.is_ascii_digit()) {
            self.advance(1);
        }
    }

    fn taken(&self, start: usize) -> String {
        self.characters.get(start..self.at).unwrap_or_default().iter().collect()
    }

    /// Whether a string begins here, and how: raw, bytes, and the number of letters before its quotes.
    fn string_prefix(&self) -> Option<(bool, bool, usize)> {
        let (mut raw, mut bytes, mut length) = (false, false, 0_usize);
        loop {
            match self.peek(length)? {
                '\'' | '"' => return Some((raw, bytes, length)),
                'r' | 'R' if !raw => raw = true,
                'b' | 'B' if !bytes && !raw => bytes = true,
                _ => return None,
            }
            length = length.saturating_add(1);
        }
    }

    fn string(&mut self, (raw, bytes, prefix): (bool, bool, usize)) -> Option<TokenKind> {
        self.advance(prefix);
        let quote = self.peek(0)?;
        let triple = self.peek(1) == Some(quote) && self.peek(2) == Some(quote);
        self.advance(if triple { 3 } else { 1 });
        let mut content = Vec::new();
        loop {
            let character = self.peek(0)?;
            if character == quote && (!triple || (self.peek(1) == Some(quote) && self.peek(2) == Some(quote))) {
                self.advance(if triple { 3 } else { 1 });
                break;
            }
            if matches!(character, '\n' | '\r') && !triple {
                return None;
            }
            if character == '\\' && !raw {
                if !self.escape(bytes, &mut content) {
                    return None;
                }
                continue;
            }
            self.advance(1);
            let mut buffer = [0; 4];
            content.extend_from_slice(character.encode_utf8(&mut buffer).as_bytes());
        }
        Some(if bytes {
            TokenKind::Literal(Value::Bytes(content.into()))
        } else {
            TokenKind::Literal(Value::String(Arc::from(String::from_utf8_lossy(&content).as_ref())))
        })
    }

    /// An escape sequence; false when it is none.
    fn escape(&mut self, bytes: bool, content: &mut Vec<u8>) -> bool {
        let Some(letter) = self.peek(1) else {
            self.advance(1);
            return false;
        };
        self.advance(2);
        let simple = match letter {
            'a' => Some(7),
            'b' => Some(8),
            'f' => Some(12),
            'n' => Some(b'\n'),
            'r' => Some(b'\r'),
            't' => Some(b'\t'),
            'v' => Some(11),
            '\\' | '?' | '"' | '\'' | '`' => u8::try_from(letter).ok(),
            _ => None,
        };
        if let Some(byte) = simple {
            content.push(byte);
            return true;
        }
        let (digits, radix) = match letter {
            'x' | 'X' => (2, 16),
            'u' => (4, 16),
            'U' => (8, 16),
            '0'..='3' => (2, 8),
            _ => return false,
        };
        let mut code = if radix == 8 { letter.to_digit(8).unwrap_or_default() } else { 0 };
        for _ in 0..digits {
            let Some(digit) = self.peek(0).and_then(|character| character.to_digit(radix)) else { return false };
            code = code.wrapping_mul(radix).wrapping_add(digit);
            self.advance(1);
        }
        if bytes && !matches!(letter, 'u' | 'U') {
            content.push(code as u8);
            return true;
        }
        let Some(character) = char::from_u32(code) else { return false };
        let mut buffer = [0; 4];
        content.extend_from_slice(character.encode_utf8(&mut buffer).as_bytes());
        true
    }
}
