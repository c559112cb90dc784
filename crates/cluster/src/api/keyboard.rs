//! What somebody types at a terminal, letter by letter, as lines.

/// No longer line is typed.
const MAX_LINE: usize = 4096;
/// No longer line is read by a shell without a terminal.
const MAX_READ: usize = 64 * 1024;

/// What has been typed.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Typed {
    Line(String),
    /// `Ctrl-C`.
    Interrupt,
    /// `Ctrl-D` on an empty line.
    End,
    /// A line without an end.
    TooLong,
}

/// The line that is being typed.
#[derive(Debug)]
pub(super) struct Keyboard {
    line: Vec<u8>,
    /// Whether it is a terminal's, which shows what is typed and lets it be changed.
    edits: bool,
    /// How far an escape sequence has come, such as that of an arrow.
    escape: Escape,
}

#[derive(Debug, Default, PartialEq, Eq)]
enum Escape {
    #[default]
    None,
    Begun,
    Within,
}

impl Keyboard {
    pub(super) fn new(edits: bool) -> Self {
        Self { line: Vec::new(), edits, escape: Escape::None }
    }

    /// What was typed of a line that has no end.
    pub(super) fn rest(&mut self) -> (Vec<u8>, Option<Typed>) {
        let rest = String::from_utf8_lossy(&std::mem::take(&mut self.line)).into_owned();
        (Vec::new(), Some(Typed::Line(rest)).filter(|line| !self.edits && *line != Typed::Line(String::new())))
    }

    /// A key: what the terminal shows of it, and what is typed with it.
    pub(super) fn press(&mut self, key: u8) -> (Vec<u8>, Option<Typed>) {
        if !self.edits {
            if key != b'\n' {
                self.line.push(key);
                return (Vec::new(), (self.line.len() > MAX_READ).then_some(Typed::TooLong));
            }
            let line = String::from_utf8_lossy(&std::mem::take(&mut self.line)).into_owned();
            return (Vec::new(), Some(Typed::Line(line)));
        }
        match self.escape {
            Escape::Begun => {
                self.escape = if matches!(key, b'[' | b'O') { Escape::Within } else { Escape::None };
                return (Vec::new(), None);
            }
            Escape::Within => {
                if key.is_ascii_alphabetic() || key == b'~' {
                    self.escape = Escape::None;
                }
                return (Vec::new(), None);
            }
            Escape::None => {}
        }
        match key {
            b'\r' | b'\n' => {
                let line = String::from_utf8_lossy(&std::mem::take(&mut self.line)).into_owned();
                (b"\n".to_vec(), Some(Typed::Line(line)))
            }
            3 => {
                self.line.clear();
                (b"^C\n".to_vec(), Some(Typed::Interrupt))
            }
            4 if self.line.is_empty() => (b"\n".to_vec(), Some(Typed::End)),
            8 | 127 => {
                // A letter may be several bytes.
                let Some(mut last) = self.line.pop() else { return (Vec::new(), None) };
                while last & 0xc0 == 0x80 {
                    let Some(before) = self.line.pop() else { break };
                    last = before;
                }
                (b"\x08 \x08".to_vec(), None)
            }
            21 => {
                let shown = String::from_utf8_lossy(&self.line).chars().count();
                self.line.clear();
                (b"\x08 \x08".repeat(shown), None)
            }
            27 => {
                self.escape = Escape::Begun;
                (Vec::new(), None)
            }
            key if key >= 32 && self.line.len() < MAX_LINE => {
                self.line.push(key);
                (vec![key], None)
            }
            _ => (Vec::new(), None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_become_lines() {
        let mut keyboard = Keyboard::new(true);
        let mut shown = Vec::new();
        let mut typed = Vec::new();
        for key in "echx\u{7f}o h\u{1b}[Ai\r\u{3}\u{4}ä\u{7f}\r".bytes() {
            let (echo, what) = keyboard.press(key);
            shown.extend(echo);
            typed.extend(what);
        }
        let line = |text: &str| Typed::Line(text.to_owned());
        assert_eq!(typed, [line("echo hi"), Typed::Interrupt, Typed::End, line("")]);
        assert_eq!(String::from_utf8(shown).unwrap(), "echx\u{8} \u{8}o hi\n^C\n\nä\u{8} \u{8}\n");
    }

    #[test]
    fn lines_have_an_end() {
        let mut keyboard = Keyboard::new(true);
        for _ in 0..10_000 {
            keyboard.press(b'a');
        }
        assert_eq!(keyboard.press(b'\n').1, Some(Typed::Line("a".repeat(MAX_LINE))));
    }
}
