//! The programs that are known: which one a command runs, and those that decide how it goes on.

use std::sync::Arc;

use jiff::SignedDuration;

use super::interpreter::{Flow, Run, Scope};
use super::numbers::duration;
use super::output::Input;
use crate::image::Shell;
use crate::pod::file::Found;

/// Programs that are not followed, and that are taken to be done at once, and well.
const QUICK: &str = "awk base64 basename chgrp chmod chown clear cut df dirname du egrep free grep head ln local md5sum mount ps \
                     readonly rev rmdir sed sha256sum sort sync sysctl tac tail tr ulimit umask uname uniq unset wc whoami xargs";

impl Run {
    /// Whether what is assigned in front of a command may outlive it.
    pub(super) fn keeps_assignments(name: &str) -> bool {
        [":", "eval", "exec", "set", "shift", "trap", "break", "continue", "return", "exit", "readonly", "unset", "."]
            .contains(&name)
    }

    pub(super) fn command(&mut self, words: &[Option<String>]) -> Flow {
        if self.spend(0) {
            return self.unknown(|| "it runs more commands than are followed".to_owned());
        }
        let Some((program, arguments)) = words.split_first() else { return self.done(0) };
        let Some(program) = program else { return self.unknown(|| "which program it runs is not known".to_owned()) };
        if let Some(body) = self.scope.functions.get(program).map(Arc::clone) {
            let outer = std::mem::replace(&mut self.scope.arguments, arguments.to_vec());
            let loops = std::mem::take(&mut self.scope.loops);
            let flow = self.call(|run| run.node(&body, false));
            (self.scope.arguments, self.scope.loops) = (outer, loops);
            return if flow == Flow::Return { Flow::Next } else { flow };
        }
        let name = program.rsplit('/').next().unwrap_or_default().to_owned();
        match &*name {
            "true" | ":" => self.done(0),
            "false" => self.done(1),
            "exit" | "return" | "break" | "continue" | "shift" | "set" | "cd" | "eval" | "trap" | "wait" | "read"
            | "exec"
                if self.is_in_shell() && !program.contains('/') =>
            {
                self.of_the_shell(&name, arguments)
            }
            "sleep" => self.sleep(arguments),
            "sh" | "bash" | "ash" | "dash" => self.shell(&name, arguments),
            "env" if arguments.iter().flatten().any(|word| !word.contains('=') && !word.starts_with('-')) => {
                self.with_variables(arguments)
            }
            "busybox" | "tini" | "dumb-init" | "--" if !arguments.is_empty() => self.command(arguments),
            "timeout" => self.timeout(arguments),
            "test" | "[" | "[[" => self.test(&name, arguments),
            "tail" if arguments.iter().flatten().any(|word| matches!(word.as_str(), "-f" | "-F")) => {
                self.tail_follow(arguments)
            }
            "pause" => Flow::Forever,
            "yes" | "top" | "watch" => {
                self.uncertain(|| format!("what `{name}` prints is not known"));
                Flow::Forever
            }
            "touch" | "rm" | "ls" | "stat" | "mkdir" | "cp" | "mv" | "tee" => self.file_command(&name, arguments),
            "dd" => self.copy(arguments),
            _ if Self::is_network_command(&name) && self.world.network.is_some() => {
                self.network_command(&name, arguments)
            }
            _ if Self::is_text_command(&name) => match arguments.iter().cloned().collect::<Option<Vec<String>>>() {
                Some(words) => self.text_command(&name, &words.iter().map(String::as_str).collect::<Vec<_>>()),
                None => self.unknown_output(0, || format!("what `{name}` prints is not known")),
            },
            _ if QUICK.split_ascii_whitespace().any(|quick| quick == name) => {
                self.unknown_effects(0, || format!("what `{name}` does is not known"))
            }
            _ => self.unknown(|| format!("what `{name}` does is not known")),
        }
    }

    fn is_in_shell(&self) -> bool {
        !self.scope.shell.is_empty()
    }

    /// What a shell does itself.
    fn of_the_shell(&mut self, name: &str, arguments: &[Option<String>]) -> Flow {
        let first = arguments.first().and_then(Option::as_deref);
        match name {
            "exit" | "return" => {
                let code =
                    if arguments.is_empty() { Some(self.code) } else { first.and_then(|code| code.parse().ok()) };
                if code.is_none_or(|code| code < 0) || arguments.len() > 1 {
                    self.uncertain(|| format!("with which code `{name}` ends is not known"));
                }
                self.done(code.unwrap_or_default().rem_euclid(256));
                if name == "exit" { Flow::Exit } else { Flow::Return }
            }
            "break" | "continue" => {
                if !arguments.is_empty() || self.scope.loops == 0 {
                    self.uncertain(|| format!("`{name}` of several loops, or of none, is not followed"));
                }
                self.done(0);
                match name {
                    _ if self.scope.loops == 0 => Flow::Next,
                    "break" => Flow::Break,
                    _ => Flow::Continue,
                }
            }
            "shift" => {
                if !arguments.is_empty() || self.scope.arguments.is_empty() {
                    self.uncertain(|| "`shift` of several arguments, or of none, is not followed".to_owned());
                } else {
                    self.scope.arguments.remove(0);
                }
                self.done(0)
            }
            "wait" => {
                if !arguments.is_empty() {
                    self.uncertain(|| "for what `wait` waits is not followed".to_owned());
                }
                for end in std::mem::take(&mut self.background) {
                    let Some(end) = end else { return Flow::Forever };
                    self.at = self.at.max(end);
                }
                self.pass(SignedDuration::ZERO)
            }
            "set" => self.set(arguments),
            "cd" => self.change_directory(arguments),
            "exec" if !arguments.is_empty() => {
                let flow = self.command(arguments);
                if flow == Flow::Next && !self.unknown_last { Flow::Exit } else { flow }
            }
            "eval" => match arguments.iter().cloned().collect::<Option<Vec<String>>>() {
                Some(words) => self.script(&words.join(" ")),
                None => self.unknown(|| "what `eval` runs is not known".to_owned()),
            },
            "trap" => self.trap(arguments),
            "read" => self.read(arguments),
            _ => self.unknown(|| format!("what `{name}` does is not known")),
        }
    }

    /// `set -e`. What other flags do is unknown, though `-e` among them counts.
    fn set(&mut self, arguments: &[Option<String>]) -> Flow {
        let flags: Vec<&str> = arguments.iter().flatten().map(String::as_str).collect();
        if flags != ["-e"] {
            self.uncertain(|| format!("what `set {}` does is not followed", flags.join(" ")));
        }
        match flags.first() {
            Some(first) if first.starts_with('-') && first.contains('e') => self.scope.exits_on_failure = true,
            Some(first) if first.starts_with('+') && first.contains('e') => self.scope.exits_on_failure = false,
            _ => {}
        }
        self.done(0)
    }

    fn change_directory(&mut self, arguments: &[Option<String>]) -> Flow {
        let to = match arguments {
            [] => self.variable("HOME").flatten(),
            [to] => to.clone().filter(|to| !to.starts_with('-')),
            _ => None,
        };
        let to = to.map(|to| self.full(&to));
        let is_there = to.as_deref().map(|to| self.files.find(to));
        if !matches!(is_there, Some(Found::Directory { .. })) {
            self.uncertain(|| "whether there is such a directory to `cd` to is not known".to_owned());
        }
        self.scope.directory = to;
        self.done(0)
    }

    fn sleep(&mut self, arguments: &[Option<String>]) -> Flow {
        let mut slept = SignedDuration::ZERO;
        for word in arguments {
            match word.as_deref() {
                None => return self.unknown(|| "how long it sleeps is not known".to_owned()),
                Some("infinity" | "inf") => return Flow::Forever,
                Some(word) => match duration(word) {
                    Some(amount) => slept = slept.saturating_add(amount),
                    None => return self.fail_somehow(1, || format!("`{word}` is no time to sleep")),
                },
            }
        }
        if arguments.is_empty() {
            return self.fail_somehow(1, || "how long it sleeps is not said".to_owned());
        }
        self.pass(slept)
    }

    fn shell(&mut self, name: &str, arguments: &[Option<String>]) -> Flow {
        let is_flag = |word: &&Option<String>| word.as_ref().is_some_and(|word| word.starts_with(['-', '+']));
        let (flags, rest) = arguments.split_at(arguments.iter().take_while(is_flag).count());
        let flags: Vec<&str> = flags.iter().flatten().map(String::as_str).collect();
        let is_known =
            |flag: &&str| flag.strip_prefix('-').is_some_and(|rest| rest.chars().all(|one| "cel".contains(one)));
        if !flags.iter().all(is_known) {
            self.uncertain(|| format!("what the shell does with `{}` is not followed", flags.join(" ")));
        }
        let has = |letter: char| flags.iter().any(|flag| !flag.starts_with("--") && flag.contains(letter));
        let (script, arguments) = match rest.first() {
            // A shell without a terminal reads what it is given, which mostly is nothing.
            None => match self.read_rest() {
                Some(text) if text.is_empty() => return self.done(0),
                Some(text) => (String::from_utf8_lossy(&text).into_owned(), Vec::new()),
                None => return self.unknown(|| format!("what `{name}` reads is not known")),
            },
            Some(Some(script)) if has('c') => (script.clone(), rest.get(2..).unwrap_or_default().to_vec()),
            Some(Some(path)) => match self.content(&self.full(path)) {
                Some(text) => (String::from_utf8_lossy(&text).into_owned(), rest.get(1..).unwrap_or_default().to_vec()),
                None => return self.unknown(|| format!("what is in `{path}` is not known")),
            },
            Some(None) => return self.unknown(|| format!("what `{name}` runs is not known")),
        };
        let own = &self.scope;
        let inherited = own.variables.iter().filter(|(name, value)| own.exported.contains(name) || value.is_none());
        let scope = Scope {
            shell: name.to_owned(),
            variables: inherited.map(|(name, value)| (name.clone(), value.clone())).collect(),
            exported: own.exported.clone(),
            arguments,
            directory: own.directory.clone(),
            exits_on_failure: has('e'),
            ..Scope::default()
        };
        let outer = std::mem::replace(&mut self.scope, scope);
        let flow = self.script(&script);
        let on_term = std::mem::replace(&mut self.scope, outer).on_term;
        // The shell that a container runs is the one that gets the signal.
        self.scope.on_term = self.scope.on_term.or(on_term);
        if flow == Flow::Forever { flow } else { Flow::Next }
    }

    /// `env NAME=value program`.
    fn with_variables(&mut self, arguments: &[Option<String>]) -> Flow {
        let outer = (self.scope.variables.clone(), self.scope.exported.clone());
        let mut rest = arguments;
        while let Some((Some(word), more)) = rest.split_first() {
            match word.split_once('=') {
                Some((name, value)) => {
                    self.scope.variables.insert(name.to_owned(), Some(value.to_owned()));
                    self.scope.exported.push(name.to_owned());
                }
                None if word.starts_with('-') => {
                    self.uncertain(|| format!("what `env {word}` does is not followed"));
                }
                None => break,
            }
            rest = more;
        }
        let flow = self.command(rest);
        (self.scope.variables, self.scope.exported) = outer;
        flow
    }

    /// `timeout SECONDS PROGRAM`.
    fn timeout(&mut self, arguments: &[Option<String>]) -> Flow {
        let from = arguments.iter().position(|word| word.as_deref().and_then(duration).is_some());
        let Some((Some(limit), rest)) = from.and_then(|from| arguments.get(from..)?.split_first()) else {
            return self.unknown(|| "how long `timeout` waits is not known".to_owned());
        };
        if from != Some(0) {
            let flag = limit.clone();
            self.uncertain(|| format!("what `timeout {flag}` does is not followed"));
        }
        let begun = self.at;
        let end = begun.saturating_add(duration(limit).unwrap_or_default());
        let (version, flow) = (self.files.version, self.command(rest));
        if flow == Flow::Forever || self.at > end {
            self.transcript.pieces.retain(|piece| piece.at <= end);
            if self.files.version != version {
                self.uncertain(|| "what is done to files within the time of `timeout` is not followed".to_owned());
            }
            self.at = begun;
            let flow = self.pass(end.saturating_sub(begun));
            self.code = if self.dialect().has_gnu_tools() || self.dialect() == Shell::Unknown { 124 } else { 143 };
            return flow;
        }
        flow
    }

    fn trap(&mut self, arguments: &[Option<String>]) -> Flow {
        let Some((Some(action), signals)) = arguments.split_first() else {
            return self.unknown_effects(0, || "what `trap` prints is not known".to_owned());
        };
        let asked = |signal: &String| matches!(signal.as_str(), "TERM" | "SIGTERM" | "15" | "EXIT" | "0");
        if signals.iter().flatten().any(asked) {
            let mut handler = self.handler();
            let flow = handler.script(action);
            let took = handler.at.saturating_sub(self.at);
            self.scope.on_term = (flow == Flow::Exit).then_some((took, handler.code));
            self.has_handler = true;
        }
        if !signals.iter().flatten().all(|signal| matches!(signal.as_str(), "TERM" | "SIGTERM" | "15")) {
            self.uncertain(|| "what it does when it ends, or at other signals (`trap`), is not followed".to_owned());
        }
        self.done(0)
    }

    /// `read NAME`: a line of what it is given.
    fn read(&mut self, arguments: &[Option<String>]) -> Flow {
        let names: Vec<String> = arguments.iter().flatten().filter(|word| !word.starts_with('-')).cloned().collect();
        let flags: Vec<&String> = arguments.iter().flatten().filter(|word| word.starts_with('-')).collect();
        let keeps_blanks = self.scope.variables.contains_key("IFS");
        self.at = self.at.max(self.input.came);
        let line = self.input.line();
        let is_followed = !names.is_empty()
            && (flags.is_empty() || flags == ["-r"])
            && (names.len() == 1 || !keeps_blanks)
            && line
                .as_ref()
                .is_none_or(|line| line.as_ref().is_none_or(|line| flags == ["-r"] || !line.contains('\\')));
        if !is_followed {
            self.uncertain(|| "what `read` reads is not followed".to_owned());
        }
        match line {
            Some(Some(line)) => {
                let mut rest = line.as_str();
                for (index, name) in names.iter().enumerate() {
                    let trimmed = if keeps_blanks { rest } else { rest.trim_matches([' ', '\t']) };
                    let (word, more) = match trimmed.split_once([' ', '\t']) {
                        Some((word, more)) if index + 1 < names.len() => (word, more),
                        _ => (trimmed, ""),
                    };
                    self.scope.variables.insert(name.clone(), Some(word.to_owned()));
                    rest = more;
                }
                self.done(0)
            }
            Some(None) => {
                for name in names {
                    self.scope.variables.insert(name, Some(String::new()));
                }
                self.done(1)
            }
            None => {
                for name in names {
                    self.scope.variables.insert(name, None);
                }
                self.input = Input::default();
                self.unknown(|| "what `read` reads is not known".to_owned())
            }
        }
    }

    /// A path from the root on.
    pub(super) fn full(&self, path: &str) -> String {
        if path.starts_with('/') && !path.contains("/.") && !path.contains("//") {
            return path.to_owned();
        }
        // Where it is not known where it is, what it is called must do.
        if self.scope.directory.is_none() && !path.starts_with('/') {
            return path.to_owned();
        }
        let mut parts: Vec<&str> = Vec::new();
        let from = if path.starts_with('/') { "" } else { self.scope.directory.as_deref().unwrap_or_default() };
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

    /// The content of a file, where that is known and may be read.
    pub(super) fn content(&self, path: &str) -> Option<Vec<u8>> {
        let Found::File(file) = self.files.find(path) else { return None };
        let own = self.world.inside.identity.as_ref().zip(file.owner).is_some_and(|(identity, (user, group))| {
            let is_of_group = identity.group == group || identity.groups.contains(&group);
            (identity.user == user && file.mode & 0o400 != 0) || (is_of_group && file.mode & 0o040 != 0)
        });
        let is_readable = self.is_root() || own || file.mode & 0o004 != 0;
        file.text.filter(|_| is_readable).map(|text| text.to_vec())
    }

    pub(super) fn is_root(&self) -> bool {
        self.world.inside.identity.as_ref().is_some_and(|identity| identity.user == 0)
    }
}
