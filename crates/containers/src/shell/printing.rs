//! Programs that print what their words, the environment and the time say.

use jiff::Timestamp;
use jiff::tz::TimeZone;

use super::expand::{decimal, reckoned};
use super::interpreter::{Flow, Run};
use super::output::Sink;
use crate::pod::place::Identity;
use klab_api_machinery::value::later;

/// No more numbers are printed at once.
const MAX_NUMBERS: i64 = 50_000;

impl Run {
    pub(super) fn is_printing(name: &str) -> bool {
        ["echo", "printf", "date", "hostname", "env", "printenv", "id", "seq", "expr"].contains(&name)
    }

    pub(super) fn printing(&mut self, name: &str, words: &[&str]) -> Flow {
        let mut code = 0;
        let printed = match (name, words) {
            ("echo", _) => echo(words),
            ("printf", [text]) => plain(text),
            ("date", _) => self.date(words),
            ("hostname", []) => self.world.inside.host_name.as_ref().map(|name| format!("{name}\n")),
            ("id", _) => self.id(words).map(|text| format!("{text}\n")),
            ("seq", _) => self.seq(words),
            ("expr", [left, operator, right]) => decimal(left)
                .zip(decimal(right))
                .and_then(|(left, right)| reckoned(left, operator, right))
                .inspect(|value| code = i64::from(*value == 0))
                .map(|value| format!("{value}\n")),
            ("env" | "printenv", _) => match self.environment(words) {
                Ok((text, missing)) => {
                    code = i64::from(missing);
                    Some(text)
                }
                Err(why) => return self.unknown_output(0, || why),
            },
            _ => None,
        };
        match printed {
            Some(text) => {
                self.say(text);
                self.done(code)
            }
            None => {
                self.unknown_output(0, || format!("what `{}` prints is not known", [&[name], words].concat().join(" ")))
            }
        }
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

    /// All variables, or the values of some; and whether one of these is not set.
    fn environment(&self, names: &[&str]) -> Result<(String, bool), String> {
        let inside = &self.world.inside;
        if self.scope.is_shell {
            return Err("which variables a shell hands on is not followed".to_owned());
        }
        let mut values = Vec::new();
        for name in names {
            let own = inside.variables.iter().find(|(own, _)| own == name).map(|(_, value)| format!("{value}\n"));
            if name.starts_with('-') || name.contains('=') {
                return Err(format!("what `env` or `printenv` does with `{name}` is not followed"));
            } else if own.is_none() && (inside.unknown_variables.contains_key(*name) || !inside.has_all_variables) {
                return Err(format!("the value of the variable `{name}` is not known"));
            }
            values.push(own);
        }
        if !names.is_empty() {
            return Ok((values.iter().flatten().map(String::as_str).collect(), values.contains(&None)));
        }
        if let Some(why) = inside.unknown_variables.values().next() {
            return Err(why.clone());
        }
        if !inside.has_all_variables {
            return Err("which variables the image sets is not known".to_owned());
        }
        Ok((inside.variables.iter().map(|(name, value)| format!("{name}={value}\n")).collect(), false))
    }

    fn id(&mut self, words: &[&str]) -> Option<String> {
        let Identity { user, group, groups } = self.world.inside.identity.clone()?;
        match words {
            ["-u"] => return Some(user.to_string()),
            ["-g"] => return Some(group.to_string()),
            [] => {}
            _ => return None,
        }
        let of_image = if user == 0 { self.world.inside.image.root_groups? } else { &[] };
        let mut all: Vec<(u32, &str)> = vec![(group, "")];
        for one in of_image.iter().copied().chain(groups.iter().map(|group| (*group, ""))) {
            if all.iter().all(|(id, _)| *id != one.0) {
                all.push(one);
            }
        }
        // Whom the image calls what is known of root alone.
        if (1..100).contains(&user) || all.iter().any(|(id, name)| name.is_empty() && (1..100).contains(id)) {
            return None;
        }
        let called = |(id, name): &(u32, &str)| match (id, *name) {
            (0, _) => "0(root)".to_owned(),
            (id, "") => id.to_string(),
            (id, name) => format!("{id}({name})"),
        };
        let listed: Vec<String> = all.iter().map(called).collect();
        Some(format!("uid={} gid={} groups={}", called(&(user, "")), called(&(group, "")), listed.join(",")))
    }

    fn seq(&mut self, words: &[&str]) -> Option<String> {
        let numbers: Vec<i64> = words.iter().map(|word| decimal(word)).collect::<Option<_>>()?;
        let (from, to) = match numbers.as_slice() {
            [to] => (1, *to),
            [from, to] => (*from, *to),
            _ => return None,
        };
        if to.saturating_sub(from) > MAX_NUMBERS {
            return None;
        }
        let text: String = (from..=to).map(|number| format!("{number}\n")).collect();
        self.spend(text.len().saturating_mul(8));
        Some(text)
    }
}

/// What all shells print alike: words without flags but `-n`, and without a backslash.
fn echo(words: &[&str]) -> Option<String> {
    let (end, rest) = match words {
        ["-n", rest @ ..] => ("", rest),
        rest => ("\n", rest),
    };
    let is_flag =
        |word: &&str| word.len() > 1 && word.strip_prefix('-').is_some_and(|flag| flag.starts_with(['n', 'e', 'E']));
    let is_plain = !rest.first().is_some_and(is_flag) && !rest.iter().any(|word| word.contains('\\'));
    is_plain.then(|| rest.join(" ") + end)
}

/// A format of `printf` in which nothing but ends of lines is filled in.
fn plain(format: &str) -> Option<String> {
    let text = format.replace("\\n", "\n");
    (!text.starts_with('-') && !text.contains(['%', '\\'])).then_some(text)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_as_date_writes_them() {
        let now: Timestamp = "2026-01-05T07:08:09Z".parse().unwrap();
        assert_eq!(written(now, "%a %b %e %H:%M:%S UTC %Y").as_deref(), Some("Mon Jan  5 07:08:09 UTC 2026"));
        assert_eq!(written(now, "%F %T %s").as_deref(), Some("2026-01-05 07:08:09 1767596889"));
        assert_eq!(written(now, "%N"), None);
    }
}
