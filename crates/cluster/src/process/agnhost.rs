//! Kubernetes' image for tests: what its programs print that only look at their words and at files.

// upstream: test/images/agnhost/{mounttest,entrypoint-tester,dns,pause} (v1.36)

use jiff::SignedDuration;

use super::fields::quoted;
use super::run::{Flow, Run};
use crate::clock::later;

/// What `mounttest` writes into new files.
const NEW_FILE: &str = "mount-tester new file\n";
/// The type of a file system in memory, and of that of a hollow node's disk (ext4), as `statfs` has it.
const DISK: &str = "61267";

impl Run {
    pub(super) fn agnhost(&mut self, program: &str, arguments: &[Option<String>]) -> Flow {
        let words: Option<Vec<String>> = arguments.iter().cloned().collect();
        let Some(words) = words else {
            return self.unknown(|| "which program of agnhost it runs is not known".to_owned());
        };
        match words.first().map(String::as_str) {
            None | Some("pause") => {
                self.say("Paused\nSignals registered\n");
                Flow::Forever
            }
            Some("entrypoint-tester") => {
                self.say(format!("[{program} {}]\n", words.join(" ")));
                self.done(0)
            }
            Some("mounttest") => self.mount_test(&words[1..]),
            Some(name @ ("dns-suffix" | "dns-server-list" | "etc-hosts")) => self.names(name),
            Some("connect") if self.world.network.is_some() => self.connect(&words[1..]),
            Some(name) => self.unknown(|| format!("what agnhost's `{name}` prints is not known")),
        }
    }

    fn names(&mut self, name: &str) -> Flow {
        if !self.transcript.kept {
            return self.done(0);
        }
        let path = if name == "etc-hosts" { "/etc/hosts" } else { "/etc/resolv.conf" };
        let Some(text) = self.content(path).map(|text| String::from_utf8_lossy(&text).into_owned()) else {
            return self.unknown(|| format!("what is in `{path}` of the node is not known"));
        };
        let listed = |keyword: &str| {
            let lines = text.lines().filter_map(|line| line.strip_prefix(keyword)?.strip_prefix(' '));
            lines.flat_map(str::split_whitespace).collect::<Vec<_>>().join(",")
        };
        let out = match name {
            "dns-suffix" => listed("search"),
            "dns-server-list" => listed("nameserver"),
            _ => text.clone(),
        };
        self.say(format!("{out}\n"));
        self.done(0)
    }

    fn mount_test(&mut self, words: &[String]) -> Flow {
        let mut flags = Vec::new();
        let mut rest = words.iter();
        while let Some(word) = rest.next() {
            let flag = word.trim_start_matches('-');
            match flag.split_once('=') {
                Some((name, value)) => flags.push((name.to_owned(), value.to_owned())),
                None => flags.push((flag.to_owned(), rest.next().cloned().unwrap_or_default())),
            }
        }
        let value = |name: &str| flags.iter().rev().find(|(own, _)| own == name).map(|(_, value)| value.clone());
        let mut failed = false;
        if let Some(path) = value("fs_type") {
            failed |= !self.file_system(&path);
        }
        for mode in ["0644", "0666", "0660", "0777"] {
            if let Some(path) = value(&format!("new_file_{mode}")) {
                failed |= !self.new_file(&path, u32::from_str_radix(mode, 8).unwrap_or(0o644));
            }
        }
        for name in ["file_mode", "file_perm", "file_owner"] {
            if let Some(path) = value(name) {
                failed |= !self.attributes(name, &path);
            }
        }
        if let Some(path) = value("file_content") {
            failed |= !self.file_content(&path);
        }
        if let Some(path) = value("file_content_in_loop") {
            let seconds = value("retry_time").and_then(|text| text.parse().ok()).unwrap_or(180);
            let breaks = value("break_on_expected_content").is_none_or(|text| text != "false");
            return self.content_in_loop(&path, seconds, breaks);
        }
        self.done(i64::from(failed))
    }

    fn file_system(&mut self, path: &str) -> bool {
        let full = self.full(path);
        if let Some(false) = self.files.is_there(&full) {
            self.say(format!("error from statfs({}): no such file or directory\n", quoted(path)));
            false
        } else {
            let name = if self.files.is_in_memory(&full) { "tmpfs" } else { DISK };
            self.say(format!("mount type of {}: {name}\n", quoted(path)));
            true
        }
    }

    fn new_file(&mut self, path: &str, mode: u32) -> bool {
        let full = self.full(path);
        if let Some(refused) = self.files.refusal(&full) {
            let why = refused.text().to_lowercase();
            self.say(format!("error writing new file {}: open {path}: {why}\n", quoted(path)));
            return false;
        }
        let is_new = self.files.is_there(&full) != Some(true);
        self.files.open(&full, true);
        self.files.append(&full, Some(NEW_FILE.as_bytes()));
        if is_new {
            self.files.set_mode(&full, mode);
        }
        self.note(&full, true);
        self.file_content(path)
    }

    fn attributes(&mut self, name: &str, path: &str) -> bool {
        let (call, quoted) = (if name == "file_owner" { "stat" } else { "Stat" }, quoted(path));
        let Some(found) = self.mode_of(path) else {
            self.transcript.doubt(self.at, || format!("who may read `{path}` is not known"));
            return true;
        };
        let Ok((directory, mode, owner)) = found else {
            let cause = if call == "stat" {
                "no such file or directory".to_owned()
            } else {
                format!("stat {path}: no such file or directory")
            };
            self.say(format!("error from {call}({quoted}): {cause}\n"));
            return false;
        };
        match (name, owner) {
            ("file_mode", _) => self.say(format!("mode of file {quoted}: {}\n", Self::mode_text(directory, mode))),
            ("file_perm", _) => self.say(format!("perms of file {quoted}: {}\n", Self::mode_text(false, mode & 0o777))),
            (_, Some((user, group))) => {
                self.say(format!("owner UID of {quoted}: {user}\nowner GID of {quoted}: {group}\n"));
            }
            (_, None) => self.transcript.doubt(self.at, || format!("whose `{path}` is, is not known")),
        }
        true
    }

    fn file_content(&mut self, path: &str) -> bool {
        let full = self.full(path);
        if self.files.is_there(&full) == Some(false) {
            let text =
                format!("error reading file content for {}: open {path}: no such file or directory\n", quoted(path));
            self.say(text);
            return false;
        }
        match self.content(&full) {
            Some(text) => self.say([format!("content of file {}: ", quoted(path)).as_bytes(), &text, b"\n"].concat()),
            None => self.transcript.doubt(self.at, || format!("what is in `{path}` is not known")),
        }
        true
    }

    /// What it reads may be another thing every two seconds.
    fn content_in_loop(&mut self, path: &str, seconds: i64, breaks: bool) -> Flow {
        let full = self.full(path);
        let (begun, limit) = (self.at, SignedDuration::from_secs(seconds.max(0)));
        loop {
            if self.at.saturating_sub(begun) >= limit {
                return self.done(0);
            }
            self.files.now = self.world.start.map(|start| later(start, self.at));
            match (self.files.is_there(&full), self.content(&full)) {
                (Some(false), _) => {
                    self.say(format!("Error reading file {path}: open {path}: no such file or directory, retrying\n"));
                }
                (_, None) => return self.unknown(|| format!("what is in `{path}` is not known")),
                (_, Some(text)) => {
                    self.say([format!("content of file {}: ", quoted(path)).as_bytes(), &text, b"\n"].concat());
                    if breaks && text == NEW_FILE.as_bytes() {
                        return self.done(0);
                    }
                    if breaks {
                        self.say(format!("Unexpected content. Expected: {NEW_FILE}. Retrying\n"));
                    }
                }
            }
            if self.spend(0) {
                return self.unknown(|| "it runs more commands than are followed".to_owned());
            }
            let flow = self.pass(SignedDuration::from_secs(2));
            if flow != Flow::Next {
                return flow;
            }
        }
    }
}
