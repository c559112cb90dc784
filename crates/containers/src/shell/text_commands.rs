//! Programs that print what their words, the environment and the time say.

use jiff::Timestamp;
use jiff::tz::TimeZone;

use super::interpreter::{Flow, Run};
use super::output::Sink;
use crate::image::Shell;
use crate::pod::place::Identity;
use crate::value::later;

/// No more numbers are printed at once.
const MAX_NUMBERS: i64 = 50_000;
/// No wider field is filled.
const MAX_WIDTH: usize = 4096;

impl Run {
    pub(super) fn is_text_command(name: &str) -> bool {
        ["echo", "printf", "date", "hostname", "env", "printenv", "pwd", "id", "seq", "expr", "cat"].contains(&name)
    }

    pub(super) fn text_command(&mut self, name: &str, words: &[&str]) -> Flow {
        let printed = match (name, words) {
            ("echo", _) => self.echo(words),
            ("printf", [format, words @ ..]) => printf(format, words),
            ("date", _) => self.date(words),
            ("hostname", []) => self.world.inside.host_name.as_ref().map(|name| format!("{name}\n")),
            ("pwd", []) => self.scope.directory.as_ref().map(|path| format!("{path}\n")),
            ("id", _) => self.id(words).map(|text| format!("{text}\n")),
            ("seq", _) => self.seq(words),
            ("env" | "printenv", []) => return self.print_environment(),
            ("printenv", _) => return self.print_variables(words),
            ("expr", _) => return self.reckon_words(words),
            ("cat", _) => return self.cat(words),
            _ => None,
        };
        match printed {
            Some(text) => {
                self.say(text);
                self.done(0)
            }
            None => {
                self.unknown_output(0, || format!("what `{}` prints is not known", [&[name], words].concat().join(" ")))
            }
        }
    }

    fn echo(&mut self, words: &[&str]) -> Option<String> {
        let dialect = if self.scope.shell.is_empty() { self.world.inside.image.shell } else { self.dialect() };
        let is_dash = dialect == Shell::Dash && !self.scope.shell.is_empty();
        let (has_end, has_escapes, rest) = match words {
            ["-n", rest @ ..] => (false, is_dash, rest),
            ["-e", rest @ ..] if !is_dash => (true, true, rest),
            ["-ne" | "-en", rest @ ..] if !is_dash => (false, true, rest),
            rest => (true, is_dash, rest),
        };
        // Further flags, and what the image's shell makes of them, are left.
        if rest.first().is_some_and(|word| word.starts_with('-') && word.len() > 1 && "neE".contains(&word[1..2])) {
            return None;
        }
        let mut text = rest.join(" ");
        if dialect == Shell::Unknown && (text.contains('\\') || (has_escapes && words.len() != rest.len())) {
            return None;
        }
        if has_escapes {
            text = unescaped(&text)?;
        }
        if has_end {
            text.push('\n');
        }
        Some(text)
    }

    fn date(&mut self, words: &[&str]) -> Option<String> {
        if self.scope.variables.get("TZ").is_some_and(|zone| !matches!(zone.as_deref(), Some("" | "UTC" | "UTC0"))) {
            return None;
        }
        let format = match words {
            [] | ["-u"] => "%a %b %e %H:%M:%S UTC %Y",
            [format] | ["-u", format] => format.strip_prefix('+')?,
            _ => return None,
        };
        self.asked_time |= !matches!(self.out, Sink::Stream(_));
        let now = later(self.world.start?, self.at);
        written(now, format).map(|text| format!("{text}\n"))
    }

    fn print_environment(&mut self) -> Flow {
        if let Some(why) = self.world.inside.unknown_variables.values().next().cloned() {
            return self.unknown_output(0, || why);
        }
        if !self.world.inside.has_all_variables {
            return self.unknown_output(0, || "which variables the image sets is not known".to_owned());
        }
        if !self.scope.shell.is_empty() {
            return self.unknown_output(0, || "in which order a shell hands on its variables is not known".to_owned());
        }
        let Some(all) = self.environment() else {
            return self.unknown_output(0, || "the value of a variable is not known".to_owned());
        };
        self.say(all.into_iter().map(|(name, value)| format!("{name}={value}\n")).collect::<String>());
        self.done(0)
    }

    fn print_variables(&mut self, names: &[&str]) -> Flow {
        let mut code = 0;
        for name in names {
            let is_exported = self.scope.exported.iter().any(|own| own == name);
            match self.variable(name) {
                Some(Some(value)) if is_exported => self.say(format!("{value}\n")),
                Some(_) if is_exported || self.world.inside.has_all_variables => code = 1,
                _ => return self.unknown_output(0, || format!("the value of the variable `{name}` is not known")),
            }
        }
        self.done(code)
    }

    fn id(&mut self, words: &[&str]) -> Option<String> {
        let Identity { user, group, groups } = self.world.inside.identity.clone()?;
        let of_image = self.world.inside.image.root_groups;
        match words {
            ["-u"] => return Some(user.to_string()),
            ["-g"] => return Some(group.to_string()),
            [] | ["-G"] => {}
            _ => return None,
        }
        let of_image = if user == 0 { of_image? } else { &[] };
        let mut all = vec![(group, "")];
        for one in of_image.iter().copied().chain(groups.iter().map(|group| (*group, ""))) {
            if all.iter().all(|(id, _)| *id != one.0) {
                all.push(one);
            }
        }
        if !words.is_empty() {
            return Some(all.iter().map(|(id, _)| id.to_string()).collect::<Vec<_>>().join(" "));
        }
        // Whom the image calls what is known of root alone.
        let is_named = |id: u32| id < 100 && of_image.iter().all(|(own, _)| *own != id);
        if (1..100).contains(&user) || all.iter().any(|(id, own)| own.is_empty() && *id > 0 && is_named(*id)) {
            return None;
        }
        let name = |id: u32| if id == 0 { "0(root)".to_owned() } else { id.to_string() };
        let listed: Vec<String> =
            all.iter().map(|(id, own)| if own.is_empty() { name(*id) } else { format!("{id}({own})") }).collect();
        Some(format!("uid={} gid={} groups={}", name(user), name(group), listed.join(",")))
    }

    fn seq(&mut self, words: &[&str]) -> Option<String> {
        let number = |word: &&str| -> Option<i64> {
            let digits = word.strip_prefix('-').unwrap_or(word);
            word.parse().ok().filter(|_| super::arithmetic::decimal(digits).is_some())
        };
        let numbers: Vec<i64> = words.iter().map(number).collect::<Option<_>>()?;
        let (from, step, to) = match numbers.as_slice() {
            [to] => (1, 1, *to),
            [from, to] => (*from, 1, *to),
            [from, step, to] if *step != 0 => (*from, *step, *to),
            _ => return None,
        };
        if to.saturating_sub(from).checked_div(step).is_none_or(|count| count > MAX_NUMBERS) {
            return None;
        }
        let (mut text, mut at) = (String::new(), from);
        while if step > 0 { at <= to } else { at >= to } {
            text.push_str(&format!("{at}\n"));
            let Some(next) = at.checked_add(step) else { break };
            at = next;
        }
        self.spend(text.len().saturating_mul(8));
        Some(text)
    }

    /// `expr 1 + 2`.
    fn reckon_words(&mut self, words: &[&str]) -> Flow {
        let is_sum = matches!(words, [_, "+" | "-" | "*" | "/" | "%", _]);
        match self.evaluate(&words.join(" ")).filter(|_| is_sum && !words.iter().any(|word| word.contains('$'))) {
            Some(value) => {
                self.say(format!("{value}\n"));
                self.done(i64::from(value == 0))
            }
            None => self.unknown_effects(0, || format!("what `expr {}` prints is not known", words.join(" "))),
        }
    }

    fn cat(&mut self, words: &[&str]) -> Flow {
        let paths: &[&str] = if words.is_empty() { &["-"] } else { words };
        let mut code = 0;
        for path in paths {
            if path.starts_with('-') && path.len() > 1 {
                return self.unknown_effects(0, || format!("what `cat {path}` does is not followed"));
            }
            let full = self.full(path);
            let text = match *path {
                "-" => self.read_rest(),
                "/dev/null" => Some(Vec::new()),
                _ if self.files.is_there(&full) == Some(false) => {
                    let gnu = format!("cat: {path}: No such file or directory");
                    let busybox = format!("cat: can't open '{path}': No such file or directory");
                    self.print_error(&busybox, &gnu);
                    code = 1;
                    continue;
                }
                // It may go on for ever.
                _ if self.out == Sink::File(full.clone()) => None,
                _ => self.content(&full),
            };
            match text {
                Some(text) if self.spend(text.len()) => {
                    return self.unknown(|| "it prints more than is followed".to_owned());
                }
                Some(text) => self.say(text),
                None => {
                    self.unknown_output(0, || format!("what is in `{path}` is not known"));
                }
            }
        }
        self.done(code)
    }

    /// Says what went wrong as the tools of the image say it.
    pub(super) fn print_error(&mut self, busybox: &str, gnu: &str) {
        let shell = self.world.inside.image.shell;
        match shell {
            Shell::Busybox => self.fail(1, busybox),
            _ if shell.has_gnu_tools() => self.fail(1, gnu),
            _ => self.fail_somehow(1, || "in which words the image's tools fail is not known".to_owned()),
        };
    }
}

/// A time in a format that is the same everywhere; none in others.
fn written(now: Timestamp, format: &str) -> Option<String> {
    let mut letters = format.chars();
    while let Some(letter) = letters.next() {
        if letter == '%' && !letters.next().is_some_and(|next| "aAbBdeFHjmMsSTyY%".contains(next)) {
            return None;
        }
    }
    jiff::fmt::strtime::format(format, &now.to_zoned(TimeZone::UTC)).ok()
}

/// A text with its `\n` and the like read, as all programs read them; none with others.
fn unescaped(text: &str) -> Option<String> {
    let (mut out, mut letters) = (String::new(), text.chars());
    while let Some(letter) = letters.next() {
        out.push(match letter {
            '\\' => match letters.next()? {
                'n' => '\n',
                't' => '\t',
                'r' => '\r',
                '\\' => '\\',
                _ => return None,
            },
            other => other,
        });
    }
    Some(out)
}

/// What `printf` prints; none where the format asks for more than is known here.
fn printf(format: &str, words: &[&str]) -> Option<String> {
    if format.starts_with('-') {
        return None;
    }
    let (mut out, mut words) = (String::new(), words.iter());
    loop {
        let left = words.len();
        let mut rest = format;
        while let Some((before, after)) = rest.split_once('%') {
            out.push_str(&unescaped(before)?);
            let end = after.find(|letter: char| !letter.is_ascii_digit() && letter != '-')?;
            let (field, kind) = (after.get(..end)?, after.get(end..)?.chars().next()?);
            let (left_aligned, digits) = match field.strip_prefix('-') {
                Some(digits) => (true, digits),
                None => (false, field),
            };
            let zeros = digits.starts_with('0');
            let width: usize = if digits.is_empty() { 0 } else { digits.parse().ok()? };
            let value = match kind {
                '%' if field.is_empty() => "%",
                's' if !zeros => words.next().unwrap_or(&""),
                'd' => words.next().unwrap_or(&"0"),
                _ => return None,
            };
            let number = value.strip_prefix('-').unwrap_or(value);
            if kind == 'd' && super::arithmetic::decimal(number).is_none() || value == "-0" {
                return None;
            }
            if width > MAX_WIDTH || (width > 0 && !value.is_ascii()) {
                return None;
            }
            let missing = width.saturating_sub(value.len());
            match (left_aligned, zeros) {
                (true, true) => return None,
                (true, false) => out.push_str(&format!("{value}{}", " ".repeat(missing))),
                (false, true) if number.len() != value.len() => {
                    out.push_str(&format!("-{}{number}", "0".repeat(missing)));
                }
                (false, true) => out.push_str(&format!("{}{value}", "0".repeat(missing))),
                (false, false) => out.push_str(&format!("{}{value}", " ".repeat(missing))),
            }
            rest = after.get(end + kind.len_utf8()..)?;
            if out.len() > 64 * 1024 {
                return None;
            }
        }
        out.push_str(&unescaped(rest)?);
        if words.len() == 0 || words.len() == left {
            return Some(out);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_filled_in() {
        for (format, words, expected) in [
            ("%s-%s\\n", &["a", "b"][..], Some("a-b\n")),
            ("%03d|%5s|%-3s|", &["7", "x", "y"], Some("007|    x|y  |")),
            ("%s ", &["a", "b", "c"], Some("a b c ")),
            ("100%%\\t", &[], Some("100%\t")),
            ("%04d", &["-7"], Some("-007")),
            ("%d", &["x"], None),
            ("%d", &["010"], None),
            ("%q", &["x"], None),
            ("%x", &["1"], None),
            ("\\101", &[], None),
        ] {
            assert_eq!(printf(format, words).as_deref(), expected, "{format}");
        }
    }

    #[test]
    fn times_are_written_as_date_writes_them() {
        let now: Timestamp = "2026-01-05T07:08:09Z".parse().unwrap();
        assert_eq!(written(now, "%a %b %e %H:%M:%S UTC %Y").as_deref(), Some("Mon Jan  5 07:08:09 UTC 2026"));
        assert_eq!(written(now, "%F %T %s").as_deref(), Some("2026-01-05 07:08:09 1767596889"));
        assert_eq!(written(now, "%N"), None);
    }
}
