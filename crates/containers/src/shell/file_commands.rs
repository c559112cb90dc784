//! Programs that make, remove, show, list and test files.

use super::expand::decimal;
use super::interpreter::{Flow, Run};
use super::output::Sink;
use crate::image::Shell;
use crate::pod::file::{File, Found};
use crate::pod::files::Refused;

impl Run {
    /// `[ -f FILE ]` and what is known without the world outside.
    pub(super) fn test(&mut self, name: &str, words: &[&str]) -> Flow {
        let (operands, closes) = match (name, words) {
            ("test", words) => (words, true),
            (_, [operands @ .., end]) => (operands, *end == if name == "[" { "]" } else { "]]" }),
            _ => (words, false),
        };
        if name == "[[" || operands.contains(&"==") {
            self.uncertain(|| "what `[[` and `==` mean depends on the shell".to_owned());
        }
        match self.holds(operands).filter(|_| closes) {
            Some(held) => self.done(i64::from(!held)),
            None => self.unknown(|| format!("whether `[ {} ]` holds is not known", operands.join(" "))),
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
        for joint in ["-o", "-a"] {
            if let Some(at) = words.iter().position(|word| *word == joint) {
                let (left, right) = (self.holds(&words[..at])?, self.holds(&words[at + 1..])?);
                return Some(if joint == "-o" { left || right } else { left && right });
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

    fn is_root(&self) -> bool {
        self.world.inside.identity.as_ref().is_some_and(|identity| identity.user == 0)
    }

    /// Whether it certainly runs as another user.
    fn is_not_root(&self) -> bool {
        self.world.inside.identity.as_ref().is_some_and(|identity| identity.user != 0)
    }

    /// Whether a file can certainly be made: volumes are open to all.
    pub(super) fn may_write(&self, path: &str) -> bool {
        (self.is_root() || self.files.is_of_the_pod(path)) && self.files.has_folder(path)
    }

    /// A path from the root on.
    pub(super) fn full(&self, path: &str) -> String {
        let from = match self.scope.directory.as_deref() {
            _ if path.starts_with('/') => "",
            Some(directory) => directory,
            // Where it is not known where it is, what it is called must do.
            None => return path.to_owned(),
        };
        let mut parts: Vec<&str> = Vec::new();
        for part in from.split('/').chain(path.split('/')) {
            match part {
                "" | "." => {}
                ".." => {
                    parts.pop();
                }
                part => parts.push(part),
            }
        }
        format!("/{}", parts.join("/"))
    }

    /// `touch`, `rm`, `mkdir`.
    pub(super) fn file_command(&mut self, name: &str, words: &[&str]) -> Flow {
        let (flags, paths): (Vec<&str>, Vec<&str>) =
            words.iter().partition(|word| word.starts_with('-') && word.len() > 1);
        let flags: String = flags.iter().flat_map(|flag| flag.chars().skip(1)).collect();
        let known = match name {
            "rm" => "rf",
            "mkdir" => "p",
            _ => "",
        };
        if paths.is_empty() || !flags.chars().all(|flag| known.contains(flag)) {
            self.uncertain(|| format!("what `{name} {}` does is not followed", words.join(" ")));
        }
        let mut code = 0;
        for path in paths {
            self.done(0);
            match name {
                "touch" => self.touch(path),
                "rm" => self.remove(path, &flags),
                _ => self.make_directory(path, flags.contains('p')),
            }
            code = code.max(self.code);
        }
        self.done(code)
    }

    fn touch(&mut self, path: &str) {
        let full = self.full(path);
        match self.files.refusal(&full) {
            Some(Refused::IsDirectory) => {}
            Some(refused) => {
                self.complain(&format!("touch: {path}"), &format!("touch: cannot touch '{path}'"), refused.text());
            }
            None => {
                self.doubt_unless(path, self.may_write(&full));
                self.files.open(&full, false);
                self.note(&full, true);
            }
        }
    }

    fn remove(&mut self, path: &str, flags: &str) {
        let full = self.full(path);
        let (there, refused) = (self.files.is_there(&full), self.files.refusal(&full));
        let reason = match (there, refused) {
            (Some(false), _) if flags.contains('f') => return,
            (Some(false), _) => Refused::NoDirectory,
            (_, Some(Refused::ReadOnly)) => Refused::ReadOnly,
            (_, refused) => {
                self.doubt_unless(path, there.is_some() && self.may_write(&full));
                if refused == Some(Refused::IsDirectory) && !flags.contains('r') {
                    self.fail(1, None);
                    return;
                }
                self.files.remove(&full);
                self.note(&full, false);
                return;
            }
        };
        self.complain(&format!("rm: can't remove '{path}'"), &format!("rm: cannot remove '{path}'"), reason.text());
    }

    fn make_directory(&mut self, path: &str, parents: bool) {
        let full = self.full(path);
        match (self.files.find(&full), self.files.refusal(&full)) {
            (Found::Directory { .. }, _) if parents => {}
            (Found::Directory { .. } | Found::File(_), _) => {
                self.fail(1, None);
            }
            (_, Some(Refused::NoDirectory)) if parents => {
                for (at, _) in full.match_indices('/').filter(|(at, _)| *at > 0) {
                    if self.files.is_there(&full[..at]) == Some(false) {
                        self.files.make_directory(&full[..at]);
                    }
                }
                self.files.make_directory(&full);
            }
            (_, Some(_)) => {
                self.fail(1, None);
            }
            (found, None) => {
                self.doubt_unless(path, found == Found::Absent && self.may_write(&full));
                self.files.make_directory(&full);
            }
        }
    }

    fn doubt_unless(&mut self, path: &str, is_certain: bool) {
        if !is_certain {
            self.uncertain(|| format!("whether `{path}` may be written is not known"));
        }
    }

    /// Says what went wrong as busybox or the GNU tools say it.
    fn complain(&mut self, busybox: &str, gnu: &str, why: &str) {
        let said = match self.world.inside.image.shell {
            Shell::Busybox => Some(busybox),
            Shell::Dash | Shell::Bash => Some(gnu),
            Shell::Unknown | Shell::Nothing => None,
        };
        self.fail(1, said.map(|said| format!("{said}: {why}")));
    }

    pub(super) fn cat(&mut self, words: &[&str]) -> Flow {
        let mut code = 0;
        for path in words {
            let full = self.full(path);
            let text = match self.files.find(&full) {
                _ if path.starts_with('-') => {
                    return self.unknown_effects(0, || format!("what `cat {path}` does is not followed"));
                }
                Found::Absent => {
                    let why = Refused::NoDirectory.text();
                    self.complain(&format!("cat: can't open '{path}'"), &format!("cat: {path}"), why);
                    code = 1;
                    continue;
                }
                // It may go on for ever.
                _ if self.out == Sink::File(full) => None,
                Found::File(file) if self.may_read(&file) => file.text,
                _ => None,
            };
            match text {
                Some(text) if self.spend(text.len()) => {
                    return self.unknown(|| "it prints more than is followed".to_owned());
                }
                Some(text) => self.say(&*text),
                None => {
                    self.unknown_output(0, || format!("what is in `{path}` is not known"));
                }
            }
        }
        if words.is_empty() {
            return self.unknown_output(0, || "what `cat` reads is not followed".to_owned());
        }
        self.done(code)
    }

    fn may_read(&self, file: &File) -> bool {
        let own = self.world.inside.identity.as_ref().zip(file.owner).is_some_and(|(identity, (user, group))| {
            let is_of_group = identity.group == group || identity.groups.contains(&group);
            (identity.user == user && file.mode & 0o400 != 0) || (is_of_group && file.mode & 0o040 != 0)
        });
        self.is_root() || own || file.mode & 0o004 != 0
    }

    /// `ls`, `ls -a`, `ls -1`.
    pub(super) fn list(&mut self, words: &[&str]) -> Flow {
        let (flags, paths): (Vec<&str>, Vec<&str>) =
            words.iter().partition(|word| word.starts_with('-') && word.len() > 1);
        let path = match paths[..] {
            [] => ".",
            [path] => path,
            _ => return self.unknown_effects(0, || "`ls` of several paths is not followed".to_owned()),
        };
        if !flags.iter().all(|flag| flag[1..].chars().all(|flag| "1aA".contains(flag))) {
            return self.unknown_effects(0, || format!("what `ls {}` does is not followed", words.join(" ")));
        }
        let has = |letters: &[char]| flags.iter().any(|flag| flag.contains(letters));
        let (full, all) = (self.full(path), has(&['a', 'A']));
        match self.files.find(&full) {
            Found::Absent => {
                let gnu = format!("ls: cannot access '{path}'");
                self.complain(&format!("ls: {path}"), &gnu, Refused::NoDirectory.text());
                self.done(if self.world.inside.image.shell == Shell::Busybox { 1 } else { 2 })
            }
            Found::File(_) => {
                self.say(format!("{path}\n"));
                self.done(0)
            }
            Found::Directory { names: Some(names), mode, .. }
                if !(all && self.files.is_written(&full)) && (!self.is_not_root() || mode & 0o004 != 0) =>
            {
                if has(&['a']) {
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
    pub(super) fn stat(&mut self, words: &[&str]) -> Flow {
        let (follows, format, paths) = match *words {
            ["-L", "-c", format, ref paths @ ..]
            | ["-c", format, "-L", ref paths @ ..]
            | ["-Lc", format, ref paths @ ..] => (true, format, paths),
            ["-c", format, ref paths @ ..] => (false, format, paths),
            _ => return self.unknown_effects(0, || "only `stat -c FORMAT FILE` is followed".to_owned()),
        };
        for path in paths {
            match self.described(path, format, follows) {
                Some(line) => self.say(line + "\n"),
                None => return self.unknown_effects(0, || format!("what `stat` prints of `{path}` is not known")),
            }
        }
        self.done(0)
    }

    fn described(&self, path: &str, format: &str, follows: bool) -> Option<String> {
        let full = self.full(path);
        let (mode, owner, size, kind) = match self.files.find(&full) {
            Found::File(_) if path.starts_with('-') || (!follows && self.files.is_written(&full)) => return None,
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
            out += &match letters.next()? {
                'a' => format!("{mode:o}"),
                'u' => owner.0.to_string(),
                'g' => owner.1.to_string(),
                'U' => name(owner.0)?,
                'G' => name(owner.1)?,
                's' => size?.to_string(),
                'n' => path.to_owned(),
                'F' if kind == "directory" || size.is_some() => kind.to_owned(),
                _ => return None,
            };
        }
        Some(out)
    }

    /// `dd of=FILE bs=1M count=10`: what it writes counts for the disk.
    pub(super) fn copy(&mut self, words: &[&str]) -> Flow {
        let option = |name: &str| words.iter().find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
        let Some((size, count)) = option("bs").map_or(Some(512), bytes).zip(option("count").and_then(bytes)) else {
            return self.unknown(|| "what `dd` does is not known".to_owned());
        };
        if let Some(path) = option("of").filter(|path| !path.starts_with("/dev/")) {
            self.writes.push((self.at, size.saturating_mul(count)));
            let path = self.full(path);
            self.files.open(&path, true);
            self.files.append(&path, None);
            self.note(&path, true);
        }
        self.unknown_effects(0, || "what `dd` prints is not known".to_owned())
    }
}

/// What a test of two words comes to; none where it has another operator, or words that are no numbers.
fn binary(left: &str, operator: &str, right: &str) -> Option<bool> {
    let compared = || Some(decimal(left)?.cmp(&decimal(right)?));
    Some(match operator {
        "=" | "==" => left == right,
        "!=" => left != right,
        "-eq" => compared()?.is_eq(),
        "-ne" => compared()?.is_ne(),
        "-lt" => compared()?.is_lt(),
        "-le" => compared()?.is_le(),
        "-gt" => compared()?.is_gt(),
        "-ge" => compared()?.is_ge(),
        _ => return None,
    })
}

/// `10`, `1M`, `4k`.
fn bytes(text: &str) -> Option<i64> {
    let (number, unit) = text.split_at(text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len()));
    let shift = match unit {
        "" => 0,
        "k" | "K" => 10,
        "M" => 20,
        "G" => 30,
        _ => return None,
    };
    number.parse::<i64>().ok()?.checked_mul(1 << shift)
}
