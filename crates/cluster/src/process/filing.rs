//! Programs that make, remove, list and test files.

use std::cmp::Ordering;

use super::amounts::bytes;
use super::file::{File, Found};
use super::files::Refused;
use super::mode;
use super::run::{Flow, Run};

/// Whether something is a folder, its mode, and its user and group where they are known.
type Permissions = (bool, u32, Option<(u32, u32)>);

impl Run {
    /// `[ -f FILE ]` and what can be told without the world outside.
    pub(super) fn test(&mut self, arguments: &[Option<String>]) -> Flow {
        let words: Option<Vec<String>> = arguments.iter().cloned().collect();
        let Some(words) = words else { return self.unknown(|| "a test is about what is not known".to_owned()) };
        let mut words: Vec<&str> = words.iter().map(String::as_str).collect();
        words.retain(|word| !matches!(*word, "]" | "]]"));
        match self.holds(&words) {
            Some(held) => self.done(i64::from(!held)),
            None => self.unknown(|| format!("whether `[ {} ]` holds is not known", words.join(" "))),
        }
    }

    fn holds(&self, words: &[&str]) -> Option<bool> {
        if let Some(at) = words.iter().position(|word| matches!(*word, "-o" | "||")) {
            return Some(self.holds(&words[..at])? || self.holds(&words[at + 1..])?);
        }
        if let Some(at) = words.iter().position(|word| matches!(*word, "-a" | "&&")) {
            return Some(self.holds(&words[..at])? && self.holds(&words[at + 1..])?);
        }
        let numbers = |left: &str, right: &str| left.parse::<i64>().ok().zip(right.parse::<i64>().ok());
        match words {
            ["!", rest @ ..] => self.holds(rest).map(|held| !held),
            [] => Some(false),
            ["-z", text] => Some(text.is_empty()),
            ["-n", text] | [text] => Some(!text.is_empty()),
            [flag @ ("-f" | "-e" | "-s" | "-r" | "-w" | "-d" | "-x" | "-L" | "-h"), path] => {
                match (self.files.find(&self.full(path)), *flag) {
                    (Found::Unknown, _) | (_, "-L" | "-h") => None,
                    (Found::Absent, _) | (Found::File(_), "-d") | (Found::Directory { .. }, "-f") => Some(false),
                    (Found::File(file), "-s") => file.text.map(|text| !text.is_empty()).or(Some(true)),
                    (Found::File(file), "-x") => file.text.map(|_| file.mode & 0o111 != 0),
                    _ => Some(true),
                }
            }
            [left, "=" | "==", right] => Some(left == right),
            [left, "!=", right] => Some(left != right),
            [left, operator, right] => numbers(left, right).and_then(|(left, right)| match *operator {
                "-eq" => Some(left == right),
                "-ne" => Some(left != right),
                "-lt" => Some(left < right),
                "-le" => Some(left <= right),
                "-gt" => Some(left > right),
                "-ge" => Some(left >= right),
                _ => None,
            }),
            _ => None,
        }
    }

    pub(super) fn filing(&mut self, name: &str, arguments: &[Option<String>]) -> Flow {
        let is_verbose = |word: &String| {
            word == "--verbose" || (!word.starts_with("--") && word.starts_with('-') && word.contains('v'))
        };
        let is_verbose = arguments.iter().flatten().any(is_verbose);
        let is_copy = matches!(name, "cp" | "mv");
        let flow = self.filed(name, arguments, is_verbose && is_copy);
        if flow == Flow::Next && self.code == 0 && is_verbose && !is_copy {
            return self.mute(0, || format!("what `{name} -v` prints is not known"));
        }
        flow
    }

    fn filed(&mut self, name: &str, arguments: &[Option<String>], is_verbose: bool) -> Flow {
        let unknown = arguments.iter().any(Option::is_none);
        let is_flag = |word: &&String| word.starts_with('-') && word.len() > 1;
        let flags: String =
            arguments.iter().flatten().filter(is_flag).map(|flag| flag.trim_start_matches('-')).collect();
        let paths: Vec<String> = arguments.iter().flatten().filter(|word| !is_flag(word)).cloned().collect();
        match name {
            "touch" | "rm" | "mkdir" => {
                self.done(0);
                for path in &paths {
                    let flow = self.file(name, path, &flags);
                    if flow != Flow::Next {
                        return flow;
                    }
                }
                Flow::Next
            }
            "cp" | "mv" => self.copied(name, &paths, is_verbose),
            "chmod" => {
                if let [mode, paths @ ..] = paths.as_slice()
                    && let Ok(mode) = u32::from_str_radix(mode, 8)
                {
                    for path in paths {
                        let path = self.full(path);
                        self.files.set_mode(&path, mode);
                    }
                }
                self.done(0)
            }
            "stat" => {
                let absent = paths.iter().find(|path| self.files.is_there(&self.full(path)) == Some(false));
                match absent {
                    Some(path) => {
                        let text = format!("stat: can't stat '{path}': No such file or directory");
                        self.fail(1, &text)
                    }
                    None => self.mute(0, || "what `stat` prints is not known".to_owned()),
                }
            }
            _ if unknown => self.mute(0, || format!("what `{name}` prints is not known")),
            _ => self.list(&flags, paths),
        }
    }

    fn file(&mut self, name: &str, path: &str, flags: &str) -> Flow {
        let full = self.full(path);
        let there = self.files.is_there(&full);
        match name {
            "touch" => match self.files.refusal(&full) {
                Some(Refused::IsDirectory) => Flow::Next,
                Some(refused) => self.fail(1, &format!("touch: {path}: {}", refused.text())),
                None => {
                    self.files.open(&full, false);
                    self.note(&full, true);
                    Flow::Next
                }
            },
            "mkdir" if there == Some(true) && !flags.contains('p') => {
                self.fail(1, &format!("mkdir: can't create directory '{path}': File exists"))
            }
            "mkdir" => {
                let refused = self.files.refusal(&full).filter(|refused| *refused == Refused::ReadOnly);
                if let Some(refused) = refused {
                    return self.fail(1, &format!("mkdir: can't create directory '{path}': {}", refused.text()));
                }
                if there != Some(true) {
                    self.files.make_directory(&full);
                }
                Flow::Next
            }
            _ if there == Some(false) && flags.contains('f') => Flow::Next,
            _ if there == Some(false) => {
                let text = if self.world.shell.is_dash() {
                    format!("rm: cannot remove '{path}': No such file or directory")
                } else {
                    format!("rm: can't remove '{path}': No such file or directory")
                };
                self.fail(1, &text)
            }
            _ => {
                if let Some(refused) = self.files.refusal(&full).filter(|refused| *refused == Refused::ReadOnly) {
                    self.fail(1, &format!("rm: can't remove '{path}': {}", refused.text()))
                } else {
                    self.files.remove(&full);
                    self.note(&full, false);
                    Flow::Next
                }
            }
        }
    }

    fn copied(&mut self, name: &str, paths: &[String], is_verbose: bool) -> Flow {
        let [from @ .., to] = paths else { return self.done(0) };
        let to_full = self.full(to);
        let into = match self.files.find(&to_full) {
            Found::Directory { .. } => true,
            found => found == Found::Unknown && to.ends_with('/'),
        };
        for path in from {
            let full = self.full(path);
            let is_dash = self.world.shell.is_dash();
            let file_name = path.trim_end_matches('/').rsplit('/').next().unwrap_or(path);
            let within = |folder: &str| format!("{}/{file_name}", folder.trim_end_matches('/'));
            let (target, shown) = if into { (within(&to_full), within(to)) } else { (to_full.clone(), to.clone()) };
            let file = match self.files.find(&full) {
                Found::File(file) => Some(file),
                Found::Absent => {
                    // Busybox's `mv` says what it does also where it could not.
                    if is_verbose && name == "mv" && self.world.shell.is_busybox() {
                        self.say(format!("'{path}' -> '{shown}'\n"));
                    }
                    let failure = match name {
                        _ if is_dash => "cannot stat",
                        "mv" => "can't rename",
                        _ => "can't stat",
                    };
                    return self.fail(1, &format!("{name}: {failure} '{path}': No such file or directory"));
                }
                _ => None,
            };
            if let Some(refused) = self.files.refusal(&target) {
                return self.fail(1, &format!("{name}: can't create '{to}': {}", refused.text()));
            }
            let is_known = file.is_some();
            let file = file.unwrap_or(File { text: None, mode: 0o644, owner: None });
            let is_renamed = self.files.are_in_one_mount(&full, &target);
            self.files.open(&target, true);
            self.files.append(&target, file.text.as_ref().map(|text| text.as_slice()));
            if self.spend(file.text.map_or(0, |text| text.len())) {
                return self.unknown(|| "it runs more commands than are followed".to_owned());
            }
            self.note(&target, true);
            if name == "mv" {
                self.files.remove(&full);
                self.note(&full, false);
            }
            if is_verbose {
                // GNU's writes other names in other quotes, and how a file comes into a volume.
                let is_plain = !is_dash || (is_renamed && !path.contains('\'') && !shown.contains('\''));
                if !is_known || !is_plain || !self.world.shell.is_known() {
                    self.mute(0, || format!("what `{name} -v` prints is not known"));
                    continue;
                }
                let verb = if is_dash && name == "mv" { "renamed " } else { "" };
                self.say(format!("{verb}'{path}' -> '{shown}'\n"));
            }
        }
        self.done(0)
    }

    fn list(&mut self, flags: &str, mut paths: Vec<String>) -> Flow {
        if paths.is_empty() {
            paths.push(".".to_owned());
        }
        let many = paths.len() > 1;
        let mut code = 0;
        // First what is not there, in the order in which it was named, then files, then directories.
        let mut ordered: Vec<(u8, String)> = paths
            .into_iter()
            .map(|path| match self.files.find(&self.full(&path)) {
                Found::Absent => (0, path),
                Found::File(_) => (1, path),
                _ => (2, path),
            })
            .collect();
        ordered.sort_by(|one, other| {
            one.0.cmp(&other.0).then_with(|| if one.0 == 0 { Ordering::Equal } else { one.1.cmp(&other.1) })
        });
        let mut shows = false;
        for (_, path) in &ordered {
            match self.files.find(&self.full(path)) {
                Found::Absent => {
                    let (text, failed) = if self.world.shell.is_dash() {
                        (format!("ls: cannot access '{path}': No such file or directory"), 2)
                    } else {
                        (format!("ls: {path}: No such file or directory"), 1)
                    };
                    self.fail(failed, &text);
                    code = failed;
                }
                Found::File(_) if !flags.contains('l') => {
                    self.say(format!("{path}\n"));
                    shows = true;
                }
                Found::Directory { names: Some(names), .. }
                    if !(flags.contains(['l', 'R', 'd', 'i', 's'])
                        || flags.contains(['a', 'A']) && self.files.has_hidden(&self.full(path))) =>
                {
                    if many {
                        let between = if shows { "\n" } else { "" };
                        self.say(format!("{between}{path}:\n"));
                        shows = true;
                    }
                    let all = flags.contains(['a', 'A']);
                    if flags.contains('a') {
                        self.say(".\n..\n");
                    }
                    let shown: Vec<String> = names.into_iter().filter(|name| all || !name.starts_with('.')).collect();
                    self.say(shown.iter().map(|name| format!("{name}\n")).collect::<String>());
                }
                _ => return self.mute(code, || format!("what `ls` prints of `{path}` is not known")),
            }
        }
        self.done(code)
    }

    /// `dd of=FILE bs=1M count=10`.
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
        // It says how fast it was.
        self.transcript.doubt(self.at, || "what `dd` prints is not known".to_owned());
        self.done(0)
    }

    /// The permissions of what is at a path, as Go prints them; none where that is not known.
    pub(super) fn mode_of(&self, path: &str) -> Option<Result<Permissions, ()>> {
        match self.files.find(&self.full(path)) {
            Found::File(file) => Some(Ok((false, file.mode, file.owner))),
            Found::Directory { mode, owner, .. } => Some(Ok((true, mode, owner))),
            Found::Absent => Some(Err(())),
            Found::Unknown => None,
        }
    }

    /// The permissions as text.
    pub(super) fn mode_text(directory: bool, bits: u32) -> String {
        mode::text(directory, bits)
    }
}
