//! Programs that print what their words, the environment and the time say.

use jiff::Timestamp;
use jiff::tz::TimeZone;

use super::run::{Flow, Run};

/// No more numbers are printed at once.
const MAX_NUMBERS: i64 = 50_000;

impl Run {
    pub(super) fn is_printer(name: &str) -> bool {
        matches!(
            name,
            "echo"
                | "printf"
                | "date"
                | "hostname"
                | "env"
                | "printenv"
                | "export"
                | "pwd"
                | "id"
                | "seq"
                | "expr"
                | "basename"
                | "dirname"
                | "mount"
                | "whoami"
        )
    }

    /// The host's name with its domain: the first one of those that its file of hosts has with it.
    fn full_host_name(&self, name: &str) -> Option<String> {
        let hosts = self.content("/etc/hosts")?;
        let hosts = String::from_utf8_lossy(&hosts);
        let lines = hosts.lines().filter(|line| !line.starts_with('#'));
        let mut named =
            lines.map(|line| line.split_whitespace().skip(1)).filter(|names| names.clone().any(|own| own == name));
        named.next()?.next().map(str::to_owned)
    }

    pub(super) fn printing(&mut self, name: &str, words: &[&str]) -> Flow {
        match name {
            "echo" => self.echo(words),
            "printf" => match words.split_first() {
                Some((format, words)) => match printf(format, words) {
                    Some(text) => {
                        self.say(text);
                        self.done(0)
                    }
                    None => self.mute(0, || "what `printf` prints is not known".to_owned()),
                },
                None => self.done(2),
            },
            "date" => self.date(words),
            "hostname" => match (words, self.world.host_name.clone()) {
                ([], Some(name)) => {
                    self.say(format!("{name}\n"));
                    self.done(0)
                }
                (["-f" | "--fqdn"], Some(name)) => match self.full_host_name(&name) {
                    Some(name) => {
                        self.say(format!("{name}\n"));
                        self.done(0)
                    }
                    None => self.mute(0, || "what `hostname -f` prints is not known".to_owned()),
                },
                _ => self.mute(0, || "what `hostname` prints is not known".to_owned()),
            },
            "env" | "printenv" | "export" => self.print_environment(name, words),
            "pwd" => match self.directory.clone() {
                Some(path) => {
                    self.say(format!("{path}\n"));
                    self.done(0)
                }
                None => self.mute(0, || "the working directory of the image is not known".to_owned()),
            },
            "id" => self.id(words),
            "whoami" => match &self.world.identity {
                Some(identity) if identity.user == 0 => {
                    self.say("root\n");
                    self.done(0)
                }
                _ => self.mute(0, || "what `whoami` prints is not known".to_owned()),
            },
            "seq" => self.seq(words),
            // Hollow nodes have control groups of version 2.
            "mount" if words == ["-t", "cgroup2"] => {
                self.say("cgroup on /sys/fs/cgroup type cgroup2 (ro,nosuid,nodev,noexec,relatime)\n");
                self.done(0)
            }
            "expr" => match self.reckon(&words.join(" ")) {
                Some(value) => {
                    self.say(format!("{value}\n"));
                    self.done(i64::from(value == 0))
                }
                None => self.mute(0, || "what `expr` prints is not known".to_owned()),
            },
            "basename" | "dirname" => {
                let Some(path) = words.first() else { return self.done(1) };
                let path = path.trim_end_matches('/');
                let (folder, base) = path.rsplit_once('/').unwrap_or((".", path));
                let base = words.get(1).and_then(|suffix| base.strip_suffix(suffix)).unwrap_or(base);
                let folder = if folder.is_empty() { "/" } else { folder };
                self.say(format!("{}\n", if name == "basename" { base } else { folder }));
                self.done(0)
            }
            _ => self.mute(0, || format!("what `{name}` prints is not known")),
        }
    }

    fn echo(&mut self, words: &[&str]) -> Flow {
        let dash = self.world.shell.is_dash() && self.in_shell;
        let allowed = if dash { "n" } else { "neE" };
        let is_flag = |word: &&&str| {
            word.len() > 1
                && word.strip_prefix('-').is_some_and(|rest| rest.chars().all(|letter| allowed.contains(letter)))
        };
        let (flags, rest) = words.split_at(words.iter().take_while(is_flag).count());
        let has = |letter: char| flags.iter().any(|flag| flag.contains(letter));
        let text = rest.join(" ");
        if text.contains('\\') && !self.world.shell.is_known() {
            return self.mute(0, || "whether the image's `echo` heeds `\\` is not known".to_owned());
        }
        let (mut text, mut ended) = if has('e') || dash { unescaped(&text) } else { (text, false) };
        if !has('n') && !ended {
            text.push('\n');
            ended = false;
        }
        let _ = ended;
        self.say(text);
        self.done(0)
    }

    fn date(&mut self, words: &[&str]) -> Flow {
        let zone = self.variables.get("TZ").map(|value| value.clone().unwrap_or_else(|| "?".to_owned()));
        let utc = zone.is_none_or(|zone| matches!(&*zone, "" | "UTC" | "UTC0" | "Etc/UTC" | "GMT"));
        let format = match words {
            [] | ["-u"] => Some("%a %b %e %H:%M:%S UTC %Y"),
            [format] | ["-u", format] => format.strip_prefix('+'),
            _ => None,
        };
        let iso = matches!(words, ["-Iseconds"] | ["-u", "-Iseconds"]);
        let format = if iso { Some("%Y-%m-%dT%H:%M:%S+00:00") } else { format };
        self.asked_time |= !matches!(self.out, super::output::Sink::Stream(_));
        let now = self.world.start.map(|start| crate::clock::later(start, self.at));
        let text = now
            .zip(format)
            .filter(|(_, format)| utc && is_simple(format))
            .and_then(|(now, format)| written(now, format));
        match text {
            Some(text) => {
                self.say(format!("{text}\n"));
                self.done(0)
            }
            None => self.mute(0, || format!("what `date {}` prints is not known", words.join(" "))),
        }
    }

    fn print_environment(&mut self, name: &str, words: &[&str]) -> Flow {
        if let ("printenv", [variable]) = (name, words) {
            let given = self.exported.iter().any(|own| own == variable);
            return match self.variable(variable) {
                Some(Some(value)) if given => {
                    self.say(format!("{value}\n"));
                    self.done(0)
                }
                Some(_) if given || self.world.all_variables => self.done(1),
                _ => self.mute(0, || format!("the value of the variable `{variable}` is not known")),
            };
        }
        if let Some(why) = self.world.unknown_variables.values().next().cloned() {
            return self.mute(0, || why);
        }
        if !self.world.all_variables {
            return self.mute(0, || "which variables the image sets is not known".to_owned());
        }
        let Some(mut all) = self.environment() else {
            return self.mute(0, || "the value of a variable is not known".to_owned());
        };
        if self.in_shell {
            for (name, value) in [("SHLVL", Some("1".to_owned())), ("PWD", self.directory.clone())] {
                if let Some(value) = value.filter(|_| all.iter().all(|(own, _)| own != name)) {
                    all.push((name.to_owned(), value));
                }
            }
        }
        let line = |(variable, value): (String, String)| match name {
            "export" => format!("export {variable}='{value}'\n"),
            _ => format!("{variable}={value}\n"),
        };
        self.say(all.into_iter().map(line).collect::<String>());
        self.done(0)
    }

    fn id(&mut self, words: &[&str]) -> Flow {
        let Some(identity) = self.world.identity.clone() else {
            return self.mute(0, || "as whom the image runs is not known".to_owned());
        };
        let name = |id: u32| if id == 0 { "0(root)".to_owned() } else { id.to_string() };
        // The members of groups are in the image: busybox has root in `wheel`.
        let own_groups = identity.user != 0 || self.world.shell.root_groups().is_some();
        let text = match words {
            ["-u"] => identity.user.to_string(),
            ["-g"] => identity.group.to_string(),
            _ if !own_groups => return self.mute(0, || "which groups the image has is not known".to_owned()),
            ["-G"] | [] => {
                let image = if identity.user == 0 { self.world.shell.root_groups().unwrap_or_default() } else { &[] };
                let mut groups = vec![(identity.group, String::new())];
                let given = identity.groups.iter().map(|group| (*group, String::new()));
                for group in image.iter().map(|(id, name)| (*id, (*name).to_owned())).chain(given) {
                    if groups.iter().all(|(id, _)| *id != group.0) {
                        groups.push(group);
                    }
                }
                if words.is_empty() {
                    let listed: Vec<String> = groups
                        .iter()
                        .map(|(id, own)| if own.is_empty() { name(*id) } else { format!("{id}({own})") })
                        .collect();
                    format!("uid={} gid={} groups={}", name(identity.user), name(identity.group), listed.join(","))
                } else {
                    groups.iter().map(|(id, _)| id.to_string()).collect::<Vec<_>>().join(" ")
                }
            }
            _ => return self.mute(0, || format!("what `id {}` prints is not known", words.join(" "))),
        };
        self.say(format!("{text}\n"));
        self.done(0)
    }

    fn seq(&mut self, words: &[&str]) -> Flow {
        let numbers: Option<Vec<i64>> = words.iter().map(|word| word.parse().ok()).collect();
        let (from, step, to) = match numbers.as_deref() {
            Some([to]) => (1, 1, *to),
            Some([from, to]) => (*from, 1, *to),
            Some([from, step, to]) if *step != 0 => (*from, *step, *to),
            _ => return self.mute(0, || "what `seq` prints is not known".to_owned()),
        };
        if to.saturating_sub(from).checked_div(step).is_none_or(|count| count > MAX_NUMBERS) {
            return self.mute(0, || "`seq` prints more numbers than are followed".to_owned());
        }
        let (mut text, mut at) = (String::new(), from);
        while if step > 0 { at <= to } else { at >= to } {
            text.push_str(&format!("{at}\n"));
            let Some(next) = at.checked_add(step) else { break };
            at = next;
        }
        self.spend(text.len().saturating_mul(8));
        self.say(text);
        self.done(0)
    }
}

/// Whether a format of times asks only for what is the same everywhere.
fn is_simple(format: &str) -> bool {
    let mut letters = format.chars();
    while let Some(letter) = letters.next() {
        if letter == '%' && !letters.next().is_some_and(|next| "aAbBdeFhHIjklmMnpsSTtuwyYzZDR%C".contains(next)) {
            return false;
        }
    }
    true
}

fn written(now: Timestamp, format: &str) -> Option<String> {
    let format = format.replace("%Z", "UTC");
    jiff::fmt::strtime::format(&*format, &now.to_zoned(TimeZone::UTC)).ok()
}

/// A text with its `\n` and the like read; whether it is to end where `\c` stands.
fn unescaped(text: &str) -> (String, bool) {
    let (mut out, mut letters) = (String::new(), text.chars().peekable());
    while let Some(letter) = letters.next() {
        if letter != '\\' {
            out.push(letter);
            continue;
        }
        match letters.next() {
            Some('n') => out.push('\n'),
            Some('t') => out.push('\t'),
            Some('r') => out.push('\r'),
            Some('a') => out.push('\u{7}'),
            Some('b') => out.push('\u{8}'),
            Some('f') => out.push('\u{c}'),
            Some('v') => out.push('\u{b}'),
            Some('e') => out.push('\u{1b}'),
            Some('c') => return (out, true),
            Some(digit @ '0'..='7') => {
                let mut value = digit.to_digit(8).unwrap_or_default();
                for _ in 0..3 {
                    let Some(next) = letters.peek().and_then(|next| next.to_digit(8)) else { break };
                    value = value * 8 + next;
                    letters.next();
                }
                out.extend(char::from_u32(value));
            }
            Some('\\') | None => out.push('\\'),
            Some(other) => {
                out.push('\\');
                out.push(other);
            }
        }
    }
    (out, false)
}

/// What `printf` prints; none where the format asks for more than is known here.
fn printf(format: &str, words: &[&str]) -> Option<String> {
    let mut out = String::new();
    let mut words = words.iter();
    loop {
        let left = words.len();
        let mut rest = format;
        while let Some(at) = rest.find('%') {
            let (before, after) = rest.split_at(at);
            out.push_str(&unescaped(before).0);
            let spec = after.get(1..)?;
            let end = spec.find(|letter: char| !letter.is_ascii_digit() && !"-+ 0.".contains(letter))?;
            let kind = spec.get(end..)?.chars().next()?;
            let (width, precision) = spec.get(..end)?.split_once('.').unwrap_or((spec.get(..end)?, ""));
            let left_aligned = width.starts_with('-');
            let zeros = width.starts_with('0');
            let width: usize = width.trim_start_matches(['-', '+', ' ', '0']).parse().unwrap_or(0);
            let value = match kind {
                '%' => "%".to_owned(),
                's' => {
                    let value = (*words.next().unwrap_or(&"")).to_owned();
                    precision.parse().map_or(value.clone(), |most| value.chars().take(most).collect())
                }
                'b' => unescaped(words.next().unwrap_or(&"")).0,
                'd' | 'i' | 'u' => words.next().unwrap_or(&"0").trim().parse::<i64>().ok()?.to_string(),
                'x' => format!("{:x}", words.next().unwrap_or(&"0").parse::<u64>().ok()?),
                'o' => format!("{:o}", words.next().unwrap_or(&"0").parse::<u64>().ok()?),
                'c' => words.next().unwrap_or(&"").chars().take(1).collect(),
                _ => return None,
            };
            let missing = width.min(4096).saturating_sub(value.chars().count());
            match (left_aligned, zeros && kind != 's') {
                (true, _) => out.push_str(&format!("{value}{}", " ".repeat(missing))),
                (false, true) => match value.strip_prefix('-') {
                    Some(digits) => out.push_str(&format!("-{}{digits}", "0".repeat(missing))),
                    None => out.push_str(&format!("{}{value}", "0".repeat(missing))),
                },
                (false, false) => out.push_str(&format!("{}{value}", " ".repeat(missing))),
            }
            rest = spec.get(end + kind.len_utf8()..)?;
            if out.len() > 64 * 1024 {
                return None;
            }
        }
        out.push_str(&unescaped(rest).0);
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
            ("%d", &["x"], None),
            ("%q", &["x"], None),
        ] {
            assert_eq!(printf(format, words).as_deref(), expected, "{format}");
        }
        assert_eq!(unescaped("a\\tb\\cd"), ("a\tb".to_owned(), true));
    }

    #[test]
    fn times_are_written_as_date_writes_them() {
        let now: Timestamp = "2026-01-05T07:08:09Z".parse().unwrap();
        assert_eq!(written(now, "%a %b %e %H:%M:%S %Z %Y").as_deref(), Some("Mon Jan  5 07:08:09 UTC 2026"));
        assert_eq!(written(now, "%F %T %s").as_deref(), Some("2026-01-05 07:08:09 1767596889"));
        assert!(!is_simple("%N") && is_simple("%F %T"));
    }
}
