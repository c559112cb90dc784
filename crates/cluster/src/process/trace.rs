//! `set -x`: a shell prints each command before it runs it.

// upstream: busybox 1.36 shell/ash.c evalcommand, libbb/... maybe_single_quote; dash 0.5 src/eval.c evalcommand

use std::fmt::Write;

use super::image::Shell;
use super::run::Run;
use super::tokens::Word;

impl Run {
    /// From here on commands are printed where errors are.
    pub(super) fn begin_trace(&mut self) {
        let known = self.shell != "bash" && matches!(self.world.shell, Shell::Busybox | Shell::Alpine | Shell::Debian);
        if known {
            self.trace = Some(self.err.clone());
        } else {
            self.transcript.doubt(self.at, || "it prints its commands (`-x`)".to_owned());
        }
    }

    /// Prints a command with what it assigns.
    pub(super) fn print_command(&mut self, assignments: &[Word], words: &[Option<String>]) {
        let Some(to) = self.trace.clone() else { return };
        let quotes = self.world.shell != Shell::Debian;
        let shown = |text: &str| if quotes { quoted(text) } else { text.to_owned() };
        let mut line = "+".to_owned();
        for name in assignments.iter().filter_map(Word::assigns) {
            let value = self.variables.get(name).cloned().flatten().unwrap_or_default();
            let _ = write!(line, " {name}={}", shown(&value));
        }
        for word in words {
            let Some(word) = word else {
                self.transcript.doubt(self.at, || "it prints a command that is not known (`-x`)".to_owned());
                return;
            };
            let _ = write!(line, " {}", shown(word));
        }
        line.push('\n');
        self.print(&to, Some(line.as_bytes()));
    }
}

/// As busybox quotes what is not plain.
fn quoted(text: &str) -> String {
    let special = |byte: u8| byte < b'+' || (b';'..=b'?').contains(&byte) || b"`[\\".contains(&byte) || byte > b'z';
    if !text.bytes().any(special) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', r#"'"'"'"#))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_plain_is_quoted() {
        for (text, wanted) in [
            ("a-b/c:1", "a-b/c:1"),
            ("a b", "'a b'"),
            ("it's", r#"'it'"'"'s'"#),
            ("http://x/?a=b", "'http://x/?a=b'"),
            ("x=1", "'x=1'"),
            ("a[b", "'a[b'"),
            ("{z", "'{z'"),
            ("a]^_@", "a]^_@"),
            ("", ""),
        ] {
            assert_eq!(quoted(text), wanted);
        }
    }
}
