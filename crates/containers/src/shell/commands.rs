//! The programs that are known: which one a command runs, and those that decide how it goes on.

use jiff::SignedDuration;

use super::interpreter::{Flow, Run, Scope};
use crate::kube_scheduler;
use crate::pod::file::Found;

/// Programs that are not followed, and that are taken to be done at once, and well.
const QUICK: &str = " awk base64 basename chgrp chmod chown clear cp cut df dirname du egrep export free grep head ln local \
                     md5sum mount mv ps pwd readonly rev rmdir sed sha256sum shift sort sync sysctl tac tail tee tr ulimit \
                     umask uname uniq unset wc whoami xargs ";
/// What a shell does itself.
const BUILT_IN: &str = " exit return break continue wait set export exec trap cd ";
/// Programs whose outcome no variable decides.
const CONSTANT: &str = " : [ cat echo expr false hostname id ls mkdir printf rm seq sleep stat test touch true ";
/// Shells.
const SHELLS: [&str; 4] = ["sh", "bash", "ash", "dash"];

/// Whether a word is in a list of words with blanks around each.
fn is_one_of(list: &str, word: &str) -> bool {
    list.contains(&format!(" {word} "))
}

impl Run {
    /// Whether variables mean nothing to a program.
    pub(super) fn ignores_variables(&self, program: &str) -> bool {
        is_one_of(CONSTANT, program.rsplit('/').next().unwrap_or_default())
            && !self.scope.functions.contains_key(program)
    }

    pub(super) fn command(&mut self, words: &[Option<String>]) -> Flow {
        if self.spend(0) {
            return self.unknown(|| "it runs more commands than are followed".to_owned());
        }
        let Some((program, arguments)) = words.split_first() else { return self.done(0) };
        let Some(program) = program else { return self.unknown(|| "which program it runs is not known".to_owned()) };
        if self.scope.functions.contains_key(program) && !arguments.is_empty() {
            self.uncertain(|| "what a function does with its arguments is not followed".to_owned());
        }
        if let Some(flow) = self.function(program) {
            return flow;
        }
        let name = program.rsplit('/').next().unwrap_or_default();
        let known: Vec<&str> = arguments.iter().flatten().map(String::as_str).collect();
        if known.len() < arguments.len() {
            let why = || format!("what `{name}` does with a value that is not known is not known");
            return match name {
                "true" | ":" | "echo" | "printf" => self.unknown_output(0, why),
                "exit" if self.scope.is_shell => {
                    self.unknown_effects(0, why);
                    Flow::Exit
                }
                "sleep" | "export" => self.unknown_effects(0, why),
                _ => self.unknown(why),
            };
        }
        match (name, known.as_slice()) {
            ("true" | ":", _) => self.done(0),
            ("false", _) => self.done(1),
            _ if self.scope.is_shell && is_one_of(BUILT_IN, name) && !program.contains('/') => {
                self.built_in(name, &known)
            }
            ("sleep", _) => self.sleep(&known),
            _ if SHELLS.contains(&name) => self.shell(name, &known),
            ("busybox" | "tini" | "dumb-init" | "--", [_, ..]) => self.command(arguments),
            ("timeout", _) => self.timeout(&known),
            ("test" | "[" | "[[", _) => self.test(name, &known),
            ("tail", _) if known.iter().any(|word| matches!(*word, "-f" | "-F")) => {
                if known.last() != Some(&"/dev/null") {
                    self.uncertain(|| "what `tail -f` prints is not followed".to_owned());
                }
                Flow::Forever
            }
            ("pause", _) => Flow::Forever,
            _ if kube_scheduler::is_named(program) => {
                let words: Vec<&str> = [program.as_str()].into_iter().chain(known).collect();
                match kube_scheduler::read(&words, &self.world.inside.files) {
                    Ok(_) => {
                        self.uncertain(|| "what a kube-scheduler prints is not followed".to_owned());
                        Flow::Forever
                    }
                    Err(why) => self.unknown_effects(1, || format!("it ends: {why}")),
                }
            }
            ("touch" | "rm" | "mkdir", _) => self.file_command(name, &known),
            ("ls", _) => self.list(&known),
            ("stat", _) => self.stat(&known),
            ("cat", _) => self.cat(&known),
            ("dd", _) => self.copy(&known),
            _ if Self::is_network_command(name) && self.world.network.is_some() => self.network_command(name, &known),
            _ if Self::is_printing(name) => self.printing(name, &known),
            _ if is_one_of(QUICK, name) => self.unknown_effects(0, || format!("what `{name}` does is not known")),
            _ => self.unknown(|| format!("what `{name}` does is not known")),
        }
    }

    /// What a shell does itself.
    fn built_in(&mut self, name: &str, arguments: &[&str]) -> Flow {
        match (name, arguments) {
            ("exit" | "return", _) => {
                let code = match arguments {
                    [] => Some(self.code),
                    [code] => code.parse().ok().filter(|code| *code >= 0),
                    _ => None,
                };
                if code.is_none() {
                    self.uncertain(|| format!("with which code `{name}` ends is not known"));
                }
                self.done(code.unwrap_or_default().rem_euclid(256));
                if name == "exit" { Flow::Exit } else { Flow::Return }
            }
            ("break" | "continue", _) => {
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
            ("wait", _) => {
                if !arguments.is_empty() {
                    self.uncertain(|| "for what `wait` waits is not followed".to_owned());
                }
                for end in std::mem::take(&mut self.background) {
                    let Some(end) = end else { return Flow::Forever };
                    self.at = self.at.max(end);
                }
                self.pass(SignedDuration::ZERO)
            }
            ("set", _) => {
                if arguments != ["-e"] {
                    self.uncertain(|| format!("what `set {}` does is not followed", arguments.join(" ")));
                }
                let has_e = arguments.first().filter(|first| first.contains('e'));
                self.scope.exits_on_failure = has_e.map_or(self.scope.exits_on_failure, |first| first.starts_with('-'));
                self.done(0)
            }
            ("export", _) => {
                for word in arguments {
                    if let Some((name, value)) = word.split_once('=') {
                        self.scope.variables.insert(name.to_owned(), Some(value.to_owned()));
                    }
                }
                self.unknown_effects(0, || "what is done with exported variables is not followed".to_owned())
            }
            ("cd", [to]) if !to.starts_with('-') => {
                let to = self.full(to);
                if !matches!(self.files.find(&to), Found::Directory { .. }) {
                    self.uncertain(|| format!("whether there is a directory `{to}` is not known"));
                }
                self.scope.directory = Some(to);
                self.done(0)
            }
            ("exec", [_, ..]) => {
                let words: Vec<Option<String>> = arguments.iter().map(|word| Some((*word).to_owned())).collect();
                let flow = self.command(&words);
                if flow == Flow::Next && !self.unknown_last { Flow::Exit } else { flow }
            }
            ("trap", [action, signals @ ..]) => {
                let is_term = |signal: &&str| matches!(*signal, "TERM" | "SIGTERM" | "15");
                if signals.iter().any(|signal| is_term(signal) || matches!(*signal, "EXIT" | "0")) {
                    self.scope.on_term = self.handled(action);
                    self.has_handler = true;
                }
                if !signals.iter().all(is_term) {
                    self.uncertain(|| {
                        "what it does when it ends, or at other signals (`trap`), is not followed".to_owned()
                    });
                }
                self.done(0)
            }
            _ => self.unknown_effects(0, || format!("what `{name}` does is not known")),
        }
    }

    fn sleep(&mut self, arguments: &[&str]) -> Flow {
        if arguments.contains(&"infinity") {
            return Flow::Forever;
        }
        let times: Option<Vec<SignedDuration>> = arguments.iter().map(|word| duration(word)).collect();
        match times.filter(|times| !times.is_empty()) {
            Some(times) => self.pass(times.into_iter().fold(SignedDuration::ZERO, SignedDuration::saturating_add)),
            None => self.unknown_effects(0, || format!("how long `sleep {}` takes is not known", arguments.join(" "))),
        }
    }

    /// `sh -c SCRIPT`.
    fn shell(&mut self, name: &str, arguments: &[&str]) -> Flow {
        let (flags, rest) =
            arguments.split_at(arguments.iter().take_while(|word| word.starts_with(['-', '+'])).count());
        let is_known =
            |flag: &&str| flag.strip_prefix('-').is_some_and(|rest| rest.chars().all(|one| "cel".contains(one)));
        if self.scope.is_shell || !flags.iter().all(is_known) || rest.len() > 1 {
            self.uncertain(|| {
                format!("what `{name} {}` does in a script, or with arguments, is not followed", flags.join(" "))
            });
        }
        let has = |letter: char| flags.iter().any(|flag| !flag.starts_with("--") && flag.contains(letter));
        let script = match rest.first() {
            // A shell without a terminal reads what it is given, which is nothing.
            None => return self.done(0),
            Some(script) if has('c') => *script,
            Some(path) => return self.unknown(|| format!("what is in `{path}` is not followed")),
        };
        let scope = Scope {
            is_shell: true,
            variables: self.scope.variables.clone(),
            directory: self.scope.directory.clone(),
            exits_on_failure: has('e'),
            ..Scope::default()
        };
        let outer = std::mem::replace(&mut self.scope, scope);
        let flow = self.script(script);
        let on_term = std::mem::replace(&mut self.scope, outer).on_term;
        // The shell that a container runs is the one that gets the signal.
        self.scope.on_term = self.scope.on_term.or(on_term);
        if flow == Flow::Forever { flow } else { Flow::Next }
    }

    /// `timeout SECONDS PROGRAM`.
    fn timeout(&mut self, arguments: &[&str]) -> Flow {
        let from = arguments.iter().position(|word| duration(word).is_some());
        let Some((limit, rest)) = from.and_then(|from| arguments.get(from..)?.split_first()) else {
            return self.unknown(|| "how long `timeout` waits is not known".to_owned());
        };
        self.uncertain(|| "what `timeout` leaves is not followed".to_owned());
        let (begun, limit) = (self.at, duration(limit).unwrap_or_default());
        let words: Vec<Option<String>> = rest.iter().map(|word| Some((*word).to_owned())).collect();
        let flow = self.command(&words);
        if flow != Flow::Forever && self.at <= begun.saturating_add(limit) {
            return flow;
        }
        self.at = begun;
        let flow = self.pass(limit);
        self.code = 124;
        flow
    }
}

/// `30`, `0.5`, `5m`, `2h`, `1d`.
pub(super) fn duration(text: &str) -> Option<SignedDuration> {
    let factor = match text.as_bytes().last()? {
        b'm' => 60.0,
        b'h' => 3600.0,
        b'd' => 86400.0,
        _ => 1.0,
    };
    let seconds = text.trim_end_matches(['s', 'm', 'h', 'd']).parse::<f64>().ok().filter(|number| *number >= 0.0)?;
    Some(SignedDuration::try_from_secs_f64(seconds * factor).unwrap_or(SignedDuration::MAX))
}
