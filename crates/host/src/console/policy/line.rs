//! Pure: a typed line as words. Quotes and backslashes are read as a shell reads them; what only a shell can do is refused.

use super::refusal::Refusal;

/// The words of one command of a pipeline.
pub(super) type Stage = Vec<String>;

/// A line that was read.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Line {
    /// The commands between pipes; there is always one, which may be empty.
    pub(super) stages: Vec<Stage>,
    /// The text below it, of a here-document.
    pub(super) text: Option<String>,
}

/// Reads what was typed.
pub(super) fn read(typed: &str) -> Result<Line, Refusal> {
    let typed = typed.replace("\r\n", "\n");
    let typed = typed.trim_matches(['\n', ' ', '\t']);
    if let Some(letter) = typed.chars().find(|letter| letter.is_control() && !matches!(letter, '\n' | '\t')) {
        return Err(Refusal::new(format!(
            "the line has a character that cannot be typed, U+{:04X}",
            u32::from(letter)
        )));
    }
    let mut reader = Reader { rest: typed, line: Line { stages: vec![Vec::new()], text: None }, word: None, end: None };
    reader.words()?;
    let body = reader.rest;
    match reader.end {
        Some(end) => reader.line.text = Some(end.text_of(body)?),
        None if body.lines().any(|line| !line.trim().is_empty() && !line.trim_start().starts_with('#')) => {
            return Err(Refusal::new("one command at a time: this has several lines"));
        }
        None => {}
    }
    Ok(reader.line)
}

/// The end of a here-document.
struct End {
    word: String,
    /// Its word is quoted, so that nothing in the text is replaced.
    literal: bool,
}

impl End {
    fn text_of(&self, body: &str) -> Result<String, Refusal> {
        let mut text = String::new();
        let mut lines = body.lines();
        for line in lines.by_ref() {
            if line == self.word {
                return if lines.any(|line| !line.trim().is_empty()) {
                    Err(Refusal::new(format!("one command at a time: something follows `{}`", self.word)))
                } else if !self.literal && text.contains(['$', '`', '\\']) {
                    let word = &self.word;
                    Err(Refusal::new(format!(
                        "a shell would replace parts of this text: write `<<'{word}'` for it as it stands"
                    )))
                } else {
                    Ok(text)
                };
            }
            text.push_str(line);
            text.push('\n');
        }
        Err(Refusal::new(format!("the text has no end: a line `{}` is missing", self.word)))
    }
}

struct Reader<'t> {
    rest: &'t str,
    line: Line,
    /// The word under way.
    word: Option<String>,
    end: Option<End>,
}

impl Reader<'_> {
    fn next(&mut self) -> Option<char> {
        let letter = self.rest.chars().next()?;
        self.rest = &self.rest[letter.len_utf8()..];
        Some(letter)
    }

    fn push(&mut self, letter: char) {
        self.word.get_or_insert_default().push(letter);
    }

    fn end_word(&mut self) {
        if let (Some(word), Some(stage)) = (self.word.take(), self.line.stages.last_mut()) {
            stage.push(word);
        }
    }

    /// All words up to the end of the first line.
    fn words(&mut self) -> Result<(), Refusal> {
        while let Some(letter) = self.next() {
            match letter {
                '\n' => break,
                ' ' | '\t' => self.end_word(),
                '\'' => self.single_quoted()?,
                '"' => self.double_quoted()?,
                '\\' => match self.next() {
                    Some('\n') => {}
                    Some(letter) => self.push(letter),
                    None => return Err(Refusal::new("nothing follows the backslash")),
                },
                '#' if self.word.is_none() => {
                    while !self.rest.is_empty() && !self.rest.starts_with('\n') {
                        self.next();
                    }
                }
                '|' if !self.rest.starts_with(['|', '&']) => {
                    self.end_word();
                    self.line.stages.push(Vec::new());
                }
                '<' if self.rest.starts_with('<') && !self.rest.starts_with("<<") && self.end.is_none() => {
                    self.next();
                    self.here_document()?;
                }
                _ => {
                    if let Some(reason) = self.refused(letter) {
                        return Err(Refusal::new(reason));
                    }
                    self.push(letter);
                }
            }
        }
        self.end_word();
        Ok(())
    }

    /// Why a letter outside of quotes is not one of a word.
    fn refused(&self, letter: char) -> Option<String> {
        let reason = match letter {
            '|' | ';' | '&' => "one command at a time: there is no shell here that would run several",
            '>' => {
                "there are no files here to write to: the button below what a command printed puts it into the editor"
            }
            '<' => "there is no shell here that would read a file: put it into the editor and name it with `-f`",
            '`' => {
                "there is no shell here that would run a command inside a command: name objects by a label, `-l agentpool=extra`, \
                    or copy the name"
            }
            '$' if self.rest.starts_with('(') => {
                "there is no shell here that would run a command inside a command: name objects by a label, \
                 `kubectl drain -l agentpool=extra`, or copy the name"
            }
            '$' => "there are no variables here: write the value; a `$` that is meant as such goes into single quotes",
            '(' | ')' => "there is no shell here: parentheses go into single quotes",
            '{' if braces_expand(self.rest) => {
                "a shell would make several words of these braces: JSON goes into single quotes, names are written one by one"
            }
            '–' | '—' | '−' | '‐' | '‑' | '‒' => {
                "this dash is not the one of the keyboard: type `-` or `--`"
            }
            '“' | '”' | '„' | '‘' | '’' | '‚' | '«' | '»' => {
                "these quotes are not those of the keyboard: type `'` or `\"`"
            }
            letter if is_unseen(letter) => {
                return Some(format!(
                    "the line has a character that is not seen, U+{:04X}: type it again",
                    u32::from(letter)
                ));
            }
            _ => return None,
        };
        Some(reason.to_owned())
    }

    fn single_quoted(&mut self) -> Result<(), Refusal> {
        let Some((inside, rest)) = self.rest.split_once('\'') else {
            return Err(Refusal::new("a quote `'` is not closed"));
        };
        self.word.get_or_insert_default().push_str(inside);
        self.rest = rest;
        Ok(())
    }

    fn double_quoted(&mut self) -> Result<(), Refusal> {
        self.word.get_or_insert_default();
        loop {
            match self.next() {
                None => return Err(Refusal::new("a quote `\"` is not closed")),
                Some('"') => return Ok(()),
                Some('\\') => match self.next() {
                    Some('\n') => {}
                    Some(letter @ ('"' | '\\' | '$' | '`')) => self.push(letter),
                    Some(letter) => {
                        self.push('\\');
                        self.push(letter);
                    }
                    None => return Err(Refusal::new("a quote `\"` is not closed")),
                },
                Some(letter @ ('$' | '`')) => {
                    let name =
                        self.rest.starts_with(|next: char| next.is_alphanumeric() || "_({@*#?$!-".contains(next));
                    if letter == '`' || name {
                        return Err(Refusal::new(format!(
                            "a shell would replace what follows `{letter}` in double quotes: take single quotes"
                        )));
                    }
                    self.push(letter);
                }
                Some(letter) => self.push(letter),
            }
        }
    }

    /// The word behind `<<`.
    fn here_document(&mut self) -> Result<(), Refusal> {
        self.end_word();
        let line = self.rest.split('\n').next().unwrap_or_default();
        let trimmed = line.trim_start();
        let (word, literal, length) = if let Some(quote @ ('\'' | '"')) = trimmed.chars().next() {
            let inside = trimmed[1..].split(quote).next().unwrap_or_default();
            (inside, true, inside.len() + 2)
        } else {
            let length = trimmed.find(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
            let length = length.unwrap_or(trimmed.len());
            (&trimmed[..length], false, length)
        };
        if word.is_empty() || !word.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_') {
            return Err(Refusal::new(
                "after `<<` comes a word, as in `<<'YAML'`, the text, and a line with the word alone",
            ));
        }
        self.end = Some(End { word: word.to_owned(), literal });
        self.rest = self.rest.get(line.len() - trimmed.len() + length..).unwrap_or_default();
        Ok(())
    }
}

/// Whether a shell would make several words of what follows an opening brace.
fn braces_expand(rest: &str) -> bool {
    let inside = rest.split([' ', '\t', '\n']).next().unwrap_or_default();
    let inside = inside.split('}').next().filter(|inner| inner.len() < inside.len());
    inside.is_some_and(|inside| inside.contains(',') || (inside.contains("..") && !inside.starts_with("..")))
}

/// Characters that look like nothing, or change the order in which others are seen.
fn is_unseen(letter: char) -> bool {
    letter.is_whitespace()
        || matches!(letter, '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(typed: &str) -> Vec<String> {
        let line = read(typed).unwrap_or_else(|refusal| panic!("{typed}: {refusal}"));
        assert_eq!((line.stages.len(), line.text), (1, None), "{typed}");
        line.stages.into_iter().next().unwrap()
    }

    #[test]
    fn words_are_those_of_a_shell() {
        for typed in [
            "kubectl get pods",
            "  kubectl\tget   pods  # all of them",
            r#"a 'b c' "d e" f' 'g h\ i "" ''"#,
            r#"p -p '{"spec":{"replicas":3}}' "{\"a\":1}" "x\y""#,
            "get -o jsonpath='{.items[*].metadata.name}' -o jsonpath={.items[0].x} a#b",
            "get \\\n  pods",
            "a 'üñí' — ",
        ] {
            let typed = typed.trim_end_matches("— ");
            let script = format!("for word in {}\ndo printf '%s\\0' \"$word\"; done", typed.split('#').next().unwrap());
            let script = if typed.contains("a#b") { script.replace(".x} a", ".x} a#b") } else { script };
            let shell = std::process::Command::new("bash").args(["-fc", &script]).output().unwrap();
            assert!(shell.status.success(), "{typed}: {}", String::from_utf8_lossy(&shell.stderr));
            let text = String::from_utf8(shell.stdout).unwrap();
            let wanted: Vec<&str> = text.split_terminator('\0').collect();
            assert_eq!(words(typed), wanted, "{typed}");
        }
        assert_eq!(words(""), [""; 0]);
    }

    #[test]
    fn what_only_a_shell_can_do_is_refused_with_a_way() {
        for (typed, says) in [
            ("a; b", "one command"),
            ("a && b", "one command"),
            ("a || b", "one command"),
            ("a |& b", "one command"),
            ("a & ", "one command"),
            ("a\nb", "several lines"),
            ("a > f", "into the editor"),
            ("a 2>&1", "into the editor"),
            ("a < f", "`-f`"),
            ("a <<< f", "`-f`"),
            ("a $(b)", "-l agentpool=extra"),
            ("a `b`", "-l agentpool=extra"),
            ("a \"$(b)\"", "single quotes"),
            ("a \"`b`\"", "single quotes"),
            ("a $HOME", "no variables"),
            ("a \"${HOME}\"", "single quotes"),
            ("a {b,c}", "single quotes"),
            ("a {1..3}", "one by one"),
            ("(a)", "parentheses"),
            ("a 'b", "not closed"),
            ("a \"b", "not closed"),
            ("a \"b\\", "not closed"),
            ("a b\\", "backslash"),
            ("get —watch", "dash"),
            ("get –w", "dash"),
            ("get ‘a’", "quotes"),
            ("get\u{a0}pods", "U+00A0"),
            ("get po\u{200b}ds", "U+200B"),
            ("get \u{202e}pods", "U+202E"),
            ("get\0pods", "U+0000"),
            ("get\u{1b}[31m", "U+001B"),
            ("get\rpods", "U+000D"),
            ("a <<", "after `<<`"),
            ("a <<'E F'\nE F", "after `<<`"),
            ("a <<E\nx", "`E` is missing"),
            ("a <<E\n$x\nE", "<<'E'"),
            ("a <<'E'\nx\nE\nrm", "follows `E`"),
            ("a <<'E' <<'F'\nx\nE", "`-f`"),
        ] {
            let refusal = read(typed).err().unwrap_or_else(|| panic!("{typed:?} was read"));
            assert!(refusal.0.contains(says), "{typed:?}: {refusal}");
        }
    }

    #[test]
    fn a_text_below_the_line_is_read_to_its_end() {
        let line = read("kubectl apply -f - <<'YAML'\nkind: $x\n\n  a: b\nYAML\n").unwrap();
        assert_eq!(line.text.as_deref(), Some("kind: $x\n\n  a: b\n"));
        assert_eq!(line.stages, [["kubectl", "apply", "-f", "-"]]);
        let line = read("cat <<EOF | kubectl apply -f -\na: b\nEOF").unwrap();
        assert_eq!(line.stages, [vec!["cat"], vec!["kubectl", "apply", "-f", "-"]]);
        assert_eq!(line.text.as_deref(), Some("a: b\n"));
        // Comments of a pasted guide.
        assert_eq!(read("get pods\n# and that is all\n").unwrap().stages, [["get", "pods"]]);
    }
}
