//! Programs that make, remove, list and test files.

use super::interpreter::{Flow, Run};
use super::numbers::bytes;
use crate::image::Shell;
use crate::pod::file::{File, Found};
use crate::pod::files::Refused;

impl Run {
    /// `[ -f FILE ]` and what is known without the world outside.
    pub(super) fn test(&mut self, name: &str, arguments: &[Option<String>]) -> Flow {
        let words: Option<Vec<String>> = arguments.iter().cloned().collect();
        let Some(words) = words else { return self.unknown(|| "a test is about what is not known".to_owned()) };
        let mut words: Vec<&str> = words.iter().map(String::as_str).collect();
        let closes = match name {
            "[" => words.pop() == Some("]"),
            "[[" => words.pop() == Some("]]"),
            _ => true,
        };
        let has_pattern = words.iter().any(|word| word.contains(['*', '?', '[']));
        if name == "[[" && (has_pattern || !matches!(self.dialect(), Shell::Bash | Shell::Busybox)) {
            self.uncertain(|| "what `[[` means depends on the shell".to_owned());
        }
        if words.contains(&"==") && matches!(self.dialect(), Shell::Dash | Shell::Unknown) {
            self.uncertain(|| "what `==` means depends on the shell".to_owned());
        }
        match self.holds(&words).filter(|_| closes) {
            Some(held) => self.done(i64::from(!held)),
            None => self.unknown(|| format!("whether `[ {} ]` holds is not known", words.join(" "))),
        }
    }

    fn holds(&self, words: &[&str]) -> Option<bool> {
        match words {
            [] => return Some(false),
            [text] => return Some(!text.is_empty()),
            ["!", text] => return Some(text.is_empty()),
            [flag, operand] => return self.unary(flag, operand),
            [left, operator, right] => {
                if let Some(held) = binary(left, operator, right) {
                    return Some(held);
                }
            }
            _ => {}
        }
        for joint in [["-o", "||"], ["-a", "&&"]] {
            if let Some(at) = words.iter().position(|word| joint.contains(word)) {
                let (left, right) = (self.holds(&words[..at])?, self.holds(&words[at + 1..])?);
                return Some(if joint[0] == "-o" { left || right } else { left && right });
            }
        }
        match words {
            ["!", rest @ ..] => self.holds(rest).map(|held| !held),
            _ => None,
        }
    }

    fn unary(&self, flag: &str, operand: &str) -> Option<bool> {
        match flag {
            "-z" => return Some(operand.is_empty()),
            "-n" => return Some(!operand.is_empty()),
            "-f" | "-e" | "-s" | "-r" | "-w" | "-d" | "-x" => {}
            _ => return None,
        }
        match (self.files.find(&self.full(operand)), flag) {
            (Found::Unknown, _) => None,
            (Found::Absent, _) | (Found::File(_), "-d") | (Found::Directory { .. }, "-f") => Some(false),
            (Found::File(file), "-s") => file.text.map(|text| !text.is_empty()),
            (Found::File(file), "-x") => file.text.filter(|_| self.is_root()).map(|_| file.mode & 0o111 != 0),
            (Found::File(file), "-r") => (!self.is_not_root() || file.mode & 0o004 != 0).then_some(true),
            (_, "-w") => (!self.files.is_written(&self.full(operand)) && !self.is_not_root()).then_some(true),
            (Found::Directory { .. }, "-r" | "-x" | "-s") => (!self.is_not_root()).then_some(true),
            _ => Some(true),
        }
    }

    /// Whether it certainly runs as another user.
    fn is_not_root(&self) -> bool {
        self.world.inside.identity.as_ref().is_some_and(|identity| identity.user != 0)
    }

    /// Whether a file can certainly be made: volumes are open to all.
    pub(super) fn may_write(&self, path: &str) -> bool {
        (self.is_root() || self.files.is_of_the_pod(path)) && self.files.has_folder(path)
    }

    pub(super) fn file_command(&mut self, name: &str, arguments: &[Option<String>]) -> Flow {
        let Some(words) = arguments.iter().cloned().collect::<Option<Vec<String>>>() else {
            return self.unknown(|| format!("which files `{name}` is about is not known"));
        };
        let is_flag = |word: &&String| word.starts_with('-') && word.len() > 1;
        let (flags, paths): (Vec<&String>, Vec<&String>) = words.iter().partition(is_flag);
        if name == "stat" {
            return self.stat(&words);
        }
        let flags: String = flags.iter().flat_map(|flag| flag.chars().skip(1)).collect();
        let known = match name {
            "rm" => "rf",
            "mkdir" => "p",
            "ls" => "1aA",
            _ => "",
        };
        if paths.is_empty() && name != "ls" || !flags.chars().all(|flag| known.contains(flag)) {
            self.uncertain(|| format!("what `{name} {}` does is not followed", words.join(" ")));
        }
        if name == "ls" {
            return self.list(&flags, &paths);
        }
        if matches!(name, "cp" | "mv" | "tee") {
            return self.copied(name, &paths);
        }
        let mut code = 0;
        for path in paths {
            self.done(0);
            self.file(name, path, &flags);
            code = code.max(self.code);
        }
        self.done(code)
    }

    fn file(&mut self, name: &str, path: &str, flags: &str) {
        let full = self.full(path);
        let (there, refused) = (self.files.is_there(&full), self.files.refusal(&full));
        let is_certain = match name {
            "rm" => there == Some(false) || (there.is_some() && self.may_write(&full)),
            "mkdir" => there.is_some() && (self.may_write(&full) || refused.is_some()),
            _ => self.may_write(&full) || refused.is_some(),
        };
        if !is_certain {
            self.uncertain(|| format!("whether `{path}` may be written is not known"));
        }
        match (name, there, refused) {
            ("touch", _, Some(Refused::IsDirectory)) => {}
            ("touch", _, None) => {
                self.files.open(&full, false);
                self.note(&full, true);
            }
            ("touch", _, Some(refused)) => self.print_error(
                &format!("touch: {path}: {}", refused.text()),
                &format!("touch: cannot touch '{path}': {}", refused.text()),
            ),
            ("mkdir", ..) if flags.contains('p') && matches!(self.files.find(&full), Found::Directory { .. }) => {}
            ("mkdir", Some(true), _) => self.print_error(
                &format!("mkdir: can't create directory '{path}': File exists"),
                &format!("mkdir: cannot create directory '{path}': File exists"),
            ),
            ("mkdir", _, Some(Refused::NoDirectory)) if flags.contains('p') => {
                for (at, _) in full.match_indices('/').filter(|(at, _)| *at > 0) {
                    if self.files.is_there(&full[..at]) == Some(false) {
                        self.files.make_directory(&full[..at]);
                    }
                }
                self.files.make_directory(&full);
            }
            ("mkdir", _, Some(refused)) => self.print_error(
                &format!("mkdir: can't create directory '{path}': {}", refused.text()),
                &format!("mkdir: cannot create directory '{path}': {}", refused.text()),
            ),
            ("mkdir", ..) => self.files.make_directory(&full),
            (_, Some(false), _) if flags.contains('f') => {}
            (_, Some(false), _) => self.print_error(
                &format!("rm: can't remove '{path}': No such file or directory"),
                &format!("rm: cannot remove '{path}': No such file or directory"),
            ),
            (_, _, Some(Refused::ReadOnly)) => self.print_error(
                &format!("rm: can't remove '{path}': Read-only file system"),
                &format!("rm: cannot remove '{path}': Read-only file system"),
            ),
            _ => {
                if matches!(self.files.find(&full), Found::Directory { .. }) && !flags.contains('r') {
                    self.fail_somehow(1, || format!("`{path}` is a directory, which `rm` leaves"));
                    return;
                }
                self.files.remove(&full);
                self.note(&full, false);
            }
        }
    }

    /// Files that are made from others: that they are there is known, and no more.
    fn copied(&mut self, name: &str, paths: &[&String]) -> Flow {
        let (from, to) = match (name, paths) {
            ("tee", to) => (&[][..], to),
            (_, [from @ .., to]) if !from.is_empty() => (from, std::slice::from_ref(to)),
            _ => return self.unknown(|| format!("what `{name}` does is not known")),
        };
        for to in to {
            let to = self.full(to);
            let is_directory = matches!(self.files.find(&to), Found::Directory { .. });
            let inside = |path: &&String| {
                let own = path.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
                format!("{}/{own}", to.trim_end_matches('/'))
            };
            let made = if is_directory { from.iter().map(inside).collect() } else { vec![to.clone()] };
            for path in made {
                if self.files.refusal(&path).is_some() {
                    continue;
                }
                self.files.open(&path, true);
                self.files.append(&path, None);
                self.note(&path, true);
            }
        }
        for path in from.iter().filter(|_| name == "mv") {
            let path = self.full(path);
            self.files.remove(&path);
            self.note(&path, false);
        }
        self.unknown_effects(0, || format!("what `{name}` does is not followed"))
    }

    fn list(&mut self, flags: &str, paths: &[&String]) -> Flow {
        let path = match paths {
            [] => ".",
            [path] => path.as_str(),
            _ => return self.unknown_effects(0, || "`ls` of several paths is not followed".to_owned()),
        };
        let full = self.full(path);
        if !flags.chars().all(|flag| "1aA".contains(flag)) {
            return self.unknown_effects(0, || format!("what `ls -{flags}` prints is not known"));
        }
        let all = flags.contains(['a', 'A']);
        match self.files.find(&full) {
            Found::Absent => {
                let gnu = format!("ls: cannot access '{path}': No such file or directory");
                self.print_error(&format!("ls: {path}: No such file or directory"), &gnu);
                let code = if self.world.inside.image.shell == Shell::Busybox { 1 } else { 2 };
                self.done(code)
            }
            Found::File(_) => {
                self.say(format!("{path}\n"));
                self.done(0)
            }
            Found::Directory { names: Some(names), mode, .. }
                if !(all && self.files.is_written(&full)) && (!self.is_not_root() || mode & 0o004 != 0) =>
            {
                if flags.contains('a') {
                    self.say(".\n..\n");
                }
                let shown = names.into_iter().filter(|name| all || !name.starts_with('.'));
                self.say(shown.map(|name| format!("{name}\n")).collect::<String>());
                self.done(0)
            }
            _ => self.unknown_output(0, || format!("what `ls` prints of `{path}` is not known")),
        }
    }

    /// `stat -c FORMAT FILE`: mode, owner, size and name. Of files that are links only where they lead to (`-L`).
    fn stat(&mut self, words: &[String]) -> Flow {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let (follows, format, paths) = match words[..] {
            ["-L", "-c", format, ref paths @ ..]
            | ["-c", format, "-L", ref paths @ ..]
            | ["-Lc", format, ref paths @ ..] => (true, format, paths),
            ["-c", format, ref paths @ ..] => (false, format, paths),
            _ => return self.unknown_effects(0, || "only `stat -c FORMAT FILE` is followed".to_owned()),
        };
        let mut text = String::new();
        for path in paths {
            let line = if path.starts_with('-') { None } else { self.described(path, format, follows) };
            let Some(line) = line else {
                return self.unknown_effects(0, || format!("what `stat` prints of `{path}` is not known"));
            };
            text.push_str(&line);
            text.push('\n');
        }
        self.say(text);
        self.done(0)
    }

    fn described(&self, path: &str, format: &str, follows: bool) -> Option<String> {
        let full = self.full(path);
        let is_link = self.files.is_written(&full) && matches!(self.files.find(&full), Found::File(_));
        if is_link && !follows {
            return None;
        }
        let (mode, owner, size, kind) = match self.files.find(&full) {
            Found::File(File { text, mode, owner }) => {
                let size = text.map(|text| text.len());
                (mode, owner?, size, if size == Some(0) { "regular empty file" } else { "regular file" })
            }
            Found::Directory { mode, owner, .. } => (mode, owner?, None, "directory"),
            Found::Absent | Found::Unknown => return None,
        };
        let name = |id: u32| (id == 0).then(|| "root".to_owned());
        let (mut out, mut letters) = (String::new(), format.chars());
        while let Some(letter) = letters.next() {
            if letter != '%' {
                out.push(letter);
                continue;
            }
            match letters.next()? {
                'a' => out.push_str(&format!("{mode:o}")),
                'u' => out.push_str(&owner.0.to_string()),
                'g' => out.push_str(&owner.1.to_string()),
                'U' => out.push_str(&name(owner.0)?),
                'G' => out.push_str(&name(owner.1)?),
                's' => out.push_str(&size?.to_string()),
                'n' => out.push_str(path),
                'F' if kind == "directory" || size.is_some() => out.push_str(kind),
                _ => return None,
            }
        }
        Some(out)
    }

    /// `dd of=FILE bs=1M count=10`: what it writes counts for the disk.
    pub(super) fn copy(&mut self, arguments: &[Option<String>]) -> Flow {
        let option =
            |name: &str| arguments.iter().flatten().find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
        let Some((size, count)) = option("bs").map_or(Some(512), bytes).zip(option("count").and_then(bytes)) else {
            return self.unknown(|| "what `dd` does is not known".to_owned());
        };
        if let Some(path) = option("of").filter(|path| !path.starts_with("/dev/")).map(str::to_owned) {
            self.writes.push((self.at, size.saturating_mul(count)));
            let path = self.full(&path);
            self.files.open(&path, true);
            self.files.append(&path, None);
            self.note(&path, true);
        }
        self.unknown_effects(0, || "what `dd` prints is not known".to_owned())
    }

    /// `tail -f FILE`: ends where none of its files is there; else it goes on.
    pub(super) fn tail_follow(&mut self, arguments: &[Option<String>]) -> Flow {
        let words: Vec<&str> = arguments.iter().flatten().map(String::as_str).collect();
        let is_count = |at: usize| at > 0 && matches!(words[at - 1], "-n" | "-c" | "-s");
        let files: Vec<&str> = (0..words.len())
            .filter(|at| !words[*at].starts_with(['-', '+']) && !is_count(*at))
            .map(|at| words[at])
            .collect();
        let is_absent = |path: &&str| self.files.is_there(&self.full(path)) == Some(false);
        let waits = words.contains(&"-F") || self.world.has_unknown_company;
        if !waits && !files.is_empty() && arguments.iter().all(Option::is_some) && files.iter().all(is_absent) {
            return self.fail_somehow(1, || "in which words `tail` fails is not followed".to_owned());
        }
        if files != ["/dev/null"] {
            self.uncertain(|| "what `tail -f` prints is not followed".to_owned());
        }
        Flow::Forever
    }
}

/// What a test of two words comes to; none where it has another operator, or words that are no numbers.
fn binary(left: &str, operator: &str, right: &str) -> Option<bool> {
    let numbers = || -> Option<(i64, i64)> {
        let number = |text: &str| {
            let digits = text.strip_prefix('-').unwrap_or(text);
            text.parse().ok().filter(|_| super::arithmetic::decimal(digits).is_some())
        };
        Some((number(left)?, number(right)?))
    };
    Some(match operator {
        "=" | "==" => left == right,
        "!=" => left != right,
        "-eq" => numbers().map(|(left, right)| left == right)?,
        "-ne" => numbers().map(|(left, right)| left != right)?,
        "-lt" => numbers().map(|(left, right)| left < right)?,
        "-le" => numbers().map(|(left, right)| left <= right)?,
        "-gt" => numbers().map(|(left, right)| left > right)?,
        "-ge" => numbers().map(|(left, right)| left >= right)?,
        _ => return None,
    })
}
