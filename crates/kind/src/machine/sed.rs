//! `sed`, as far as it is followed: substitutions and deletions, of all lines or of those that match.

use klab_filters::expression;
use regex::Regex;

/// What `sed` does with each line.
pub(super) struct Sed {
    commands: Vec<Command>,
}

struct Command {
    lines: Option<Regex>,
    action: Action,
}

enum Action {
    Delete,
    Substitute { what: Regex, with: String, everywhere: bool },
}

impl Sed {
    /// Reads scripts.
    ///
    /// # Errors
    /// What of them is not followed.
    pub(super) fn read(scripts: &[&str], extended: bool) -> Result<Self, String> {
        let mut commands = Vec::new();
        for script in scripts {
            let mut rest = script.trim_start();
            while !rest.is_empty() {
                let (command, after) = one(rest, extended).ok_or_else(|| not_followed(script))??;
                commands.push(command);
                rest = after.trim_start_matches([';', ' ', '\n']);
            }
        }
        Ok(Self { commands })
    }

    /// What becomes of a text.
    pub(super) fn edited(&self, text: &str) -> String {
        let mut edited = String::new();
        'lines: for line in text.split_inclusive('\n') {
            let (body, end) = line.strip_suffix('\n').map_or((line, ""), |body| (body, "\n"));
            let mut body = body.to_owned();
            for command in &self.commands {
                if command.lines.as_ref().is_some_and(|lines| !lines.is_match(&body)) {
                    continue;
                }
                match &command.action {
                    Action::Delete => continue 'lines,
                    Action::Substitute { what, with, everywhere } => {
                        let most = usize::from(!everywhere);
                        body = what.replacen(&body, most, with.as_str()).into_owned();
                    }
                }
            }
            edited.push_str(&body);
            edited.push_str(end);
        }
        edited
    }
}

fn not_followed(script: &str) -> String {
    format!("`sed '{script}'` is not followed on a node; `s/…/…/`, `/…/d` and `/…/s/…/…/` are")
}

/// The first command of a script, and what follows it; none where it is not followed.
fn one(script: &str, extended: bool) -> Option<Result<(Command, &str), String>> {
    let regex = |pattern: &str| expression(pattern, extended).map_err(|why| why.0);
    let (lines, rest) = match script.strip_prefix('/') {
        Some(rest) => {
            let (pattern, rest) = until(rest, '/')?;
            match regex(&pattern) {
                Ok(lines) => (Some(lines), rest.trim_start()),
                Err(why) => return Some(Err(why)),
            }
        }
        None => (None, script),
    };
    if let Some(rest) = rest.strip_prefix('d').filter(|rest| rest.is_empty() || rest.starts_with([';', ' ', '\n'])) {
        return lines.is_some().then_some(Ok((Command { lines, action: Action::Delete }, rest)));
    }
    let rest = rest.strip_prefix('s')?;
    let delimiter = rest.chars().next().filter(|letter| !letter.is_alphanumeric() && *letter != '\\')?;
    let (pattern, rest) = until(rest.get(delimiter.len_utf8()..)?, delimiter)?;
    let (with, rest) = until(rest, delimiter)?;
    let (flags, rest) = rest.split_at(rest.find([';', ' ', '\n']).unwrap_or(rest.len()));
    if !["", "g"].contains(&flags) {
        return None;
    }
    let what = match regex(&pattern) {
        Ok(what) => what,
        Err(why) => return Some(Err(why)),
    };
    let action = Action::Substitute { what, with: replacement(&with)?, everywhere: flags == "g" };
    Some(Ok((Command { lines, action }, rest)))
}

/// What stands before a delimiter that has no backslash, and what follows it.
fn until(text: &str, delimiter: char) -> Option<(String, &str)> {
    let mut before = String::new();
    let mut letters = text.char_indices();
    while let Some((at, letter)) = letters.next() {
        if letter == delimiter {
            return Some((before, text.get(at.checked_add(letter.len_utf8())?..)?));
        }
        if letter == '\\' {
            let (_, next) = letters.next()?;
            if next != delimiter {
                before.push('\\');
            }
            before.push(next);
            continue;
        }
        before.push(letter);
    }
    None
}

/// A replacement as the library writes it.
fn replacement(text: &str) -> Option<String> {
    let mut with = String::new();
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '&' => with.push_str("${0}"),
            '$' => with.push_str("$$"),
            '\\' => match letters.next()? {
                digit @ '1'..='9' => with.push_str(&format!("${{{digit}}}")),
                'n' => with.push('\n'),
                't' => with.push('\t'),
                letter if letter.is_alphanumeric() => return None,
                letter => with.push(letter),
            },
            letter => with.push(letter),
        }
    }
    Some(with)
}
