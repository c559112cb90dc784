//! The programs that are known: which one a command runs, and those that decide how it goes on.

use std::sync::Arc;

use jiff::SignedDuration;

use super::amounts::duration;
use super::file::Found;
use super::given::kernel_setting;
use super::output::Input;
use super::run::{Flow, Run};
use super::world::{QUICK, SILENT};
use crate::clock::later;

impl Run {
    pub(super) fn command(&mut self, words: &[Option<String>]) -> Flow {
        let flow = self.command_of(words);
        if self.input.blocked { Flow::Forever } else { flow }
    }

    fn command_of(&mut self, words: &[Option<String>]) -> Flow {
        if self.spend(0) {
            return self.unknown(|| "it runs more commands than are followed".to_owned());
        }
        self.files.now = self.world.start.map(|start| later(start, self.at));
        let Some((program, arguments)) = words.split_first() else { return self.done(0) };
        let Some(program) = program else { return self.unknown(|| "which program it runs is not known".to_owned()) };
        if let Some(body) = self.functions.get(program).map(Arc::clone) {
            let outer = std::mem::replace(&mut self.arguments, arguments.to_vec());
            let flow = self.call(|run| run.node(&body, false));
            self.arguments = outer;
            return if flow == Flow::Return { Flow::Next } else { flow };
        }
        let name = program.rsplit('/').next().unwrap_or_default().to_owned();
        let first = arguments.first().and_then(Option::as_deref);
        match &*name {
            "true" | ":" => self.done(0),
            "false" => self.done(1),
            "exit" | "return" => {
                let code =
                    if arguments.is_empty() { Some(self.code) } else { first.and_then(|code| code.parse().ok()) };
                self.done(code.unwrap_or_default().rem_euclid(256));
                if name == "exit" { Flow::Exit } else { Flow::Return }
            }
            "break" => Flow::Break,
            "continue" => Flow::Continue,
            "sleep" => self.sleep(arguments),
            "wait" => {
                for end in std::mem::take(&mut self.background) {
                    let Some(end) = end else { return Flow::Forever };
                    self.at = self.at.max(end);
                }
                self.pass(SignedDuration::ZERO)
            }
            "sh" | "bash" | "ash" | "dash" | "zsh" => self.shell(program, arguments),
            "env" if arguments.iter().flatten().any(|word| !word.contains('=') && !word.starts_with('-')) => {
                self.with_variables(arguments)
            }
            "exec" | "nohup" | "time" | "command" | "busybox" | "tini" | "dumb-init" | "--"
                if !arguments.is_empty() =>
            {
                let flow = self.command(arguments);
                if name == "exec" && flow == Flow::Next && !self.unknown_last { Flow::Exit } else { flow }
            }
            "eval" => match arguments.iter().cloned().collect::<Option<Vec<String>>>() {
                Some(words) => self.script(&words.join(" ")),
                None => self.unknown(|| "what `eval` runs is not known".to_owned()),
            },
            "timeout" => self.timeout(arguments),
            "trap" => self.trap(arguments),
            "set" => {
                self.set(first.unwrap_or_default());
                self.done(0)
            }
            "shift" => {
                if !self.arguments.is_empty() {
                    self.arguments.remove(0);
                }
                self.done(0)
            }
            "test" | "[" | "[[" => self.test(arguments),
            "read" => self.read(arguments),
            "agnhost" | "agnhost-2" => self.agnhost(program, arguments),
            "tail" if arguments.iter().flatten().any(|word| matches!(word.as_str(), "-f" | "-F")) => {
                self.tail_on(arguments)
            }
            "pause" => Flow::Forever,
            "yes" | "top" | "watch" => {
                self.transcript.doubt(self.at, || format!("what `{name}` prints is not known"));
                Flow::Forever
            }
            _ => self.lesser(program, &name, arguments),
        }
    }

    /// `-e`, `-x`, `+x`.
    fn set(&mut self, flags: &str) {
        self.exits_on_failure |= flags.starts_with('-') && flags.contains('e');
        if flags.starts_with('-') && flags.contains('x') {
            self.begin_trace();
        } else if flags.starts_with('+') && flags.contains('x') {
            self.trace = None;
        }
    }

    /// Programs that are done at once.
    fn lesser(&mut self, program: &str, name: &str, arguments: &[Option<String>]) -> Flow {
        let is_printer = Self::is_printer(name) || Self::is_reader(name);
        let words: Option<Vec<&str>> = arguments.iter().map(Option::as_deref).collect();
        match name {
            "touch" | "rm" | "ls" | "stat" | "mkdir" | "cp" | "mv" | "chmod" => self.filing(name, arguments),
            "dd" => self.copy(arguments),
            "cd" => {
                let to = arguments.first().cloned().unwrap_or_else(|| Some("/root".to_owned()));
                self.directory = to.map(|to| self.full(&to));
                self.done(0)
            }
            // Kubernetes' image for tests of privileges: it is set to run as root.
            "nnp" if program == "/nnp" => {
                let user = self.world.identity.as_ref().map(|identity| identity.user);
                match if self.world.privileges.gains { Some(0) } else { user } {
                    Some(user) => self.say(format!("Effective uid: {user}\n")),
                    None => return self.unknown(|| "as whom it runs is not known".to_owned()),
                }
                self.done(0)
            }
            "ip" if self.refuses_network(words.as_deref()) => {
                self.fail(2, "ip: RTNETLINK answers: Operation not permitted")
            }
            "sysctl" => match words {
                Some(words) => self.kernel_settings(&words),
                None => self.mute(0, || "what `sysctl` prints is not known".to_owned()),
            },
            _ if Self::is_client(name) && self.world.network.is_some() => self.client(name, arguments),
            _ if is_printer => match words {
                Some(words) if Self::is_printer(name) => self.printing(name, &words),
                Some(words) => self.reading(name, &words),
                None => self.mute(0, || format!("what `{name}` prints is not known")),
            },
            _ if SILENT.contains(&name) => self.done(0),
            _ if QUICK.contains(&name) => self.mute(0, || format!("what `{name}` prints is not known")),
            _ => self.stranger(program, name),
        }
    }

    /// Whether busybox's `ip` is asked to change the network, and may not.
    fn refuses_network(&self, words: Option<&[&str]>) -> bool {
        let changes = matches!(words, Some(["link" | "addr" | "address" | "route", "add" | "del" | "delete", _, ..]));
        changes && self.world.shell.is_busybox() && !self.world.privileges.network
    }

    /// `sysctl NAME`, of settings that the pod makes: others are the node's.
    fn kernel_settings(&mut self, words: &[&str]) -> Flow {
        if !self.transcript.kept {
            return self.done(0);
        }
        let (flags, names): (Vec<&str>, Vec<&str>) = words.iter().partition(|word| word.starts_with('-'));
        let is_bare = flags == ["-n"];
        let mut lines = String::new();
        for name in &names {
            let (name, file) = kernel_setting(name);
            let value = self.content(&file).filter(|_| is_bare || flags.is_empty());
            let Some(value) = value else {
                return self.unknown(|| format!("the node's setting `{name}` is not known"));
            };
            let value = String::from_utf8_lossy(&value).trim_end().to_owned();
            lines.push_str(&if is_bare { format!("{value}\n") } else { format!("{name} = {value}\n") });
        }
        if names.is_empty() {
            return self.unknown(|| "the node's settings are not known".to_owned());
        }
        self.say(lines);
        self.done(0)
    }

    /// A program that is not known, or that is not there.
    fn stranger(&mut self, program: &str, name: &str) -> Flow {
        let absent = program.contains('/') && self.files.find(&self.full(program)) == Found::Absent;
        if absent
            || (self.transcript.kept && self.world.shell.lacks(name) && self.world.files.find("/bin") != Found::Absent)
        {
            let text = if self.world.shell.is_dash() {
                format!("{}: 1: {program}: not found", self.shell)
            } else {
                format!("{}: {program}: not found", self.shell)
            };
            return self.fail(127, &text);
        }
        self.unknown(|| format!("what `{name}` does is not known"))
    }

    fn sleep(&mut self, arguments: &[Option<String>]) -> Flow {
        let mut slept = SignedDuration::ZERO;
        for word in arguments {
            match word.as_deref() {
                None => return self.unknown(|| "how long it sleeps is not known".to_owned()),
                Some("infinity" | "inf") => return Flow::Forever,
                Some(word) => match duration(word) {
                    Some(amount) => slept = slept.saturating_add(amount),
                    None => return self.fail(1, &format!("sleep: invalid number '{word}'")),
                },
            }
        }
        if arguments.is_empty() { self.done(1) } else { self.pass(slept) }
    }

    fn shell(&mut self, name: &str, arguments: &[Option<String>]) -> Flow {
        let is_flag = |word: &&Option<String>| word.as_ref().is_some_and(|word| word.starts_with(['-', '+']));
        let (flags, rest) = arguments.split_at(arguments.iter().take_while(is_flag).count());
        let has = |letter: char| flags.iter().flatten().any(|flag| !flag.starts_with("--") && flag.contains(letter));
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
        let inherited = self
            .variables
            .iter()
            .filter(|(name, value)| self.exported.contains(name) || value.is_none())
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect();
        let outer = (
            std::mem::replace(&mut self.exits_on_failure, has('e')),
            std::mem::replace(&mut self.arguments, arguments),
            std::mem::replace(&mut self.variables, inherited),
            std::mem::replace(&mut self.in_shell, true),
            self.directory.clone(),
        );
        let called = std::mem::replace(&mut self.shell, name.to_owned());
        let traced = self.trace.take();
        if has('x') {
            self.begin_trace();
        }
        let flow = self.script(&script);
        self.trace = traced;
        (self.exits_on_failure, self.arguments, self.variables, self.in_shell, self.directory) = outer;
        self.shell = called;
        if flow == Flow::Forever { flow } else { Flow::Next }
    }

    /// `env NAME=value program`.
    fn with_variables(&mut self, arguments: &[Option<String>]) -> Flow {
        let outer = (self.variables.clone(), self.exported.clone());
        let mut rest = arguments;
        while let Some((Some(word), more)) = rest.split_first() {
            match word.split_once('=') {
                Some((name, value)) => {
                    self.variables.insert(name.to_owned(), Some(value.to_owned()));
                    self.exported.push(name.to_owned());
                }
                None if word == "-i" => {
                    self.variables.clear();
                    self.exported.clear();
                }
                None => break,
            }
            rest = more;
        }
        let flow = self.command(rest);
        (self.variables, self.exported) = outer;
        flow
    }

    fn timeout(&mut self, arguments: &[Option<String>]) -> Flow {
        let from = arguments.iter().position(|word| word.as_deref().and_then(duration).is_some());
        let Some((limit, rest)) = from.and_then(|from| arguments.get(from..)?.split_first()) else {
            return self.unknown(|| "how long `timeout` waits is not known".to_owned());
        };
        let begun = self.at;
        let end = begun.saturating_add(limit.as_deref().and_then(duration).unwrap_or_default());
        let flow = self.command(rest);
        if flow == Flow::Forever || self.at > end {
            self.transcript.pieces.retain(|piece| piece.at <= end);
            self.at = begun;
            let flow = self.pass(end.saturating_sub(begun));
            self.code = if flow == Flow::Next { 124 } else { 0 };
            return flow;
        }
        flow
    }

    fn trap(&mut self, arguments: &[Option<String>]) -> Flow {
        let Some((Some(action), signals)) = arguments.split_first() else { return self.done(0) };
        let asked = |signal: &String| matches!(signal.as_str(), "TERM" | "SIGTERM" | "15" | "EXIT" | "0");
        if signals.iter().flatten().any(asked) {
            let mut handler = self.handler();
            let flow = handler.script(action);
            let took = handler.at.saturating_sub(self.at);
            self.on_term = (flow == Flow::Exit).then_some((took, handler.code));
        }
        if signals.iter().flatten().any(|signal| matches!(signal.as_str(), "EXIT" | "0")) && self.transcript.kept {
            self.transcript.doubt(self.at, || "what it prints when it ends (`trap … EXIT`) is not followed".to_owned());
        }
        self.done(0)
    }

    /// `read NAME`: a line of what it is given.
    fn read(&mut self, arguments: &[Option<String>]) -> Flow {
        let names: Vec<String> = arguments.iter().flatten().filter(|word| !word.starts_with('-')).cloned().collect();
        match self.read_line() {
            Some(Some(line)) => {
                let mut rest = line.as_str();
                for (index, name) in names.iter().enumerate() {
                    let trimmed = rest.trim();
                    let (word, more) = match trimmed.split_once(char::is_whitespace) {
                        Some((word, more)) if index + 1 < names.len() => (word, more),
                        _ => (trimmed, ""),
                    };
                    self.variables.insert(name.clone(), Some(word.to_owned()));
                    rest = more;
                }
                self.done(0)
            }
            Some(None) => self.done(1),
            None => {
                for name in names {
                    self.variables.insert(name, None);
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
        if self.directory.is_none() && !path.starts_with('/') {
            return path.to_owned();
        }
        let mut parts: Vec<&str> = Vec::new();
        let from = if path.starts_with('/') { "" } else { self.directory.as_deref().unwrap_or_default() };
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

    /// What is in a file, where that is known.
    pub(super) fn content(&self, path: &str) -> Option<Vec<u8>> {
        match self.files.find(path) {
            Found::File(file) => file.text.map(|text| text.to_vec()),
            _ => None,
        }
    }
}
