//! What a command does as time goes by: when it ends and how, which files it makes, what it does on SIGTERM.

use std::collections::BTreeMap;
use std::rc::Rc;

use jiff::SignedDuration;

use super::amounts::{bytes, counted, duration, range};
use super::arithmetic::arithmetic;
use super::script::{Node, parse};
use super::tokens::{Part, Word};
use super::world::{Course, End, QUICK, World};

/// So many commands are followed before a script is given up as one nobody can foretell.
const MAX_COMMANDS: usize = 4096;
/// So deep do shells and functions call each other.
const MAX_CALLS: usize = 8;

/// Follows a command, given as a program and its arguments, from its start.
pub(crate) fn follow(arguments: &[&str], world: &World) -> Course {
    let words: Vec<Option<String>> = arguments.iter().map(|argument| Some((*argument).to_owned())).collect();
    let mut run = Run { world: Rc::new(world.clone()), ..Run::default() };
    run.variables.extend(world.variables.iter().map(|(name, value)| (name.clone(), Some(value.clone()))));
    let end = match run.command(&words) {
        Flow::Forever => End::Never,
        Flow::Exit => End::After(run.at, run.code),
        _ if run.unknown_last => End::Unknown(run.at, run.code),
        _ => End::After(run.at, run.code),
    };
    Course { end, files: run.files, writes: run.writes, on_term: run.on_term, known: !run.unknown }
}

/// How it goes on after a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Flow {
    Next,
    Exit,
    Forever,
    /// `break`, `continue`, `return`.
    Break,
    Continue,
    Return,
}

#[derive(Debug, Clone, Default)]
struct Run {
    world: Rc<World>,
    at: SignedDuration,
    /// Exit code of the last command.
    code: i64,
    /// Values of variables; `None` for those that cannot be told.
    variables: BTreeMap<String, Option<String>>,
    functions: BTreeMap<String, Rc<Node>>,
    files: Vec<(SignedDuration, String, bool)>,
    there: BTreeMap<String, bool>,
    writes: Vec<(SignedDuration, i64)>,
    on_term: Option<(SignedDuration, i64)>,
    unknown: bool,
    unknown_last: bool,
    /// `set -e`.
    exits_on_failure: bool,
    /// When the commands in the background are done; `None`: never.
    background: Vec<Option<SignedDuration>>,
    commands: usize,
    calls: usize,
}

impl Run {
    fn done(&mut self, code: i64) -> Flow {
        self.code = code;
        self.unknown_last = false;
        Flow::Next
    }

    fn unknown(&mut self) -> Flow {
        self.code = 0;
        (self.unknown, self.unknown_last) = (true, true);
        Flow::Next
    }

    fn file(&mut self, path: &str, there: bool) {
        self.files.push((self.at, path.to_owned(), there));
        self.there.insert(path.to_owned(), there);
    }

    /// Whether a file is there, where that can be told.
    fn is_there(&self, path: &str) -> Option<bool> {
        let below =
            |directory: &String| path.strip_prefix(directory.as_str()).is_some_and(|rest| rest.starts_with('/'));
        let known = || self.world.directories.iter().any(below).then(|| self.world.files.contains(path));
        self.there.get(path).copied().or_else(known)
    }

    fn script(&mut self, script: &str) -> Flow {
        let node = parse(script);
        self.call(|run| match &node {
            Some(node) => run.node(node, false),
            None => run.unknown(),
        })
    }

    fn call(&mut self, what: impl FnOnce(&mut Self) -> Flow) -> Flow {
        if self.calls >= MAX_CALLS {
            return self.unknown();
        }
        self.calls += 1;
        let flow = what(self);
        self.calls -= 1;
        flow
    }

    /// `asked`: its failure is somebody's condition, which `set -e` lets pass.
    fn node(&mut self, node: &Node, asked: bool) -> Flow {
        match node {
            Node::Simple { words, writes } => {
                for path in writes.iter().filter_map(|word| self.expand(word)).collect::<Vec<_>>() {
                    if !path.starts_with("/dev/") {
                        self.file(&path, true);
                    }
                }
                let flow = self.simple(words);
                if flow == Flow::Next && self.exits_on_failure && !asked && self.code != 0 { Flow::Exit } else { flow }
            }
            Node::Sequence(nodes) => {
                for node in nodes {
                    let flow = self.node(node, asked);
                    if flow != Flow::Next {
                        return flow;
                    }
                }
                Flow::Next
            }
            Node::And(left, right) | Node::Or(left, right) => match self.node(left, true) {
                Flow::Next if (self.code == 0) == matches!(node, Node::And(..)) => self.node(right, asked),
                flow => flow,
            },
            Node::Not(inner) => {
                let flow = self.node(inner, true);
                self.code = i64::from(self.code == 0);
                flow
            }
            Node::Pipe(parts) => self.pipe(parts),
            Node::Background(inner) => self.beside(inner),
            Node::Subshell(inner) => match self.node(inner, asked) {
                Flow::Forever => Flow::Forever,
                _ => Flow::Next,
            },
            Node::Loop { until, condition, body } => self.turns(*until, condition, body),
            Node::For { variable, words, body } => self.each(variable, words, body),
            Node::If { arms, otherwise } => {
                for (condition, body) in arms {
                    match self.node(condition, true) {
                        Flow::Next if self.code == 0 => return self.node(body, asked),
                        Flow::Next => {}
                        flow => return flow,
                    }
                }
                otherwise.as_ref().map_or(Flow::Next, |body| self.node(body, asked))
            }
            Node::Function { name, body } => {
                self.functions.insert(name.clone(), Rc::clone(body));
                self.done(0)
            }
        }
    }

    /// Runs in the background: nobody waits for it, unless somebody does.
    fn beside(&mut self, inner: &Node) -> Flow {
        let (at, unknown_last) = (self.at, self.unknown_last);
        let flow = self.node(inner, true);
        let end = (flow != Flow::Forever && !self.unknown_last).then_some(self.at);
        self.background.push(end);
        (self.at, self.unknown_last, self.code) = (at, unknown_last, 0);
        Flow::Next
    }

    /// All parts run at once; the last one's end is the pipe's.
    fn pipe(&mut self, parts: &[Node]) -> Flow {
        let (begun, mut latest, mut forever) = (self.at, self.at, false);
        for part in parts {
            self.at = begun;
            forever |= self.node(part, true) == Flow::Forever;
            latest = latest.max(self.at);
        }
        self.at = latest;
        if forever { Flow::Forever } else { Flow::Next }
    }

    fn turns(&mut self, until: bool, condition: &Node, body: &Node) -> Flow {
        loop {
            let before = (self.there.clone(), self.variables.clone());
            match self.node(condition, true) {
                Flow::Next if (self.code == 0) == until => return self.done(0),
                Flow::Next => {}
                flow => return flow,
            }
            match self.node(body, false) {
                Flow::Next | Flow::Continue if (&self.there, &self.variables) == (&before.0, &before.1) => {
                    return Flow::Forever;
                }
                Flow::Next | Flow::Continue if self.commands > MAX_COMMANDS => return self.unknown(),
                Flow::Next | Flow::Continue => {}
                Flow::Break => return self.done(0),
                flow => return flow,
            }
        }
    }

    fn each(&mut self, variable: &str, words: &[Word], body: &Node) -> Flow {
        for value in self.expand_all(words) {
            self.variables.insert(variable.to_owned(), value);
            match self.node(body, false) {
                Flow::Next | Flow::Continue if self.commands > MAX_COMMANDS => return self.unknown(),
                Flow::Next | Flow::Continue => {}
                Flow::Break => return self.done(0),
                flow => return flow,
            }
        }
        Flow::Next
    }

    fn simple(&mut self, words: &[Word]) -> Flow {
        let assigned = words.iter().take_while(|word| word.assigns().is_some()).count();
        let (assignments, rest) = words.split_at(assigned);
        for word in assignments {
            self.assign(word);
        }
        if rest.is_empty() {
            return self.done(0);
        }
        if rest[0].text() == Some("export") {
            for word in rest.iter().filter(|word| word.assigns().is_some()) {
                self.assign(word);
            }
        }
        let words = self.expand_all(rest);
        self.command(&words)
    }

    fn assign(&mut self, word: &Word) {
        let Some(name) = word.assigns().map(str::to_owned) else { return };
        let value = self.expand(word).and_then(|text| text.split_once('=').map(|(_, value)| value.to_owned()));
        self.variables.insert(name, value);
    }

    fn expand(&mut self, word: &Word) -> Option<String> {
        let mut text = String::new();
        for part in &word.parts {
            match part {
                Part::Text(more) => text.push_str(more),
                Part::Variable(name, otherwise) => {
                    let value = self.variables.get(name).cloned().flatten();
                    text.push_str(&value.or_else(|| otherwise.clone())?);
                }
                Part::Status => text.push_str(&self.code.to_string()),
                Part::Command(command) => text.push_str(&self.output(command)?),
                Part::Arithmetic(expression) => text.push_str(&self.reckon(expression)?.to_string()),
                Part::Unknown => return None,
            }
        }
        Some(text)
    }

    /// The words a list of words comes to: `{1..3}` is three, and so is what prints three.
    fn expand_all(&mut self, words: &[Word]) -> Vec<Option<String>> {
        let mut all = Vec::new();
        for word in words {
            let value = self.expand(word);
            match (&value, word.quoted, word.text()) {
                (Some(text), false, Some(_)) => match range(text) {
                    Some((from, to)) => all.extend(counted(from, to).into_iter().map(Some)),
                    None => all.push(value),
                },
                (Some(text), false, None) => all.extend(text.split_whitespace().map(|word| Some(word.to_owned()))),
                _ => all.push(value),
            }
        }
        all
    }

    fn reckon(&self, expression: &str) -> Option<i64> {
        arithmetic(expression, &|name| self.variables.get(name)?.as_ref()?.parse().ok())
    }

    /// What a command prints, where that can be told.
    fn output(&mut self, command: &str) -> Option<String> {
        let Some(Node::Simple { words, .. }) = parse(command) else { return None };
        let words: Vec<String> = self.expand_all(&words).into_iter().collect::<Option<_>>()?;
        let (program, arguments) = words.split_first()?;
        match program.as_str() {
            "echo" => Some(arguments.join(" ")),
            "expr" => Some(self.reckon(&arguments.join(" "))?.to_string()),
            "seq" => {
                let numbers: Vec<i64> = arguments.iter().map(|number| number.parse().ok()).collect::<Option<_>>()?;
                let (from, to) = match numbers.as_slice() {
                    [to] => (1, *to),
                    [from, to] => (*from, *to),
                    _ => return None,
                };
                Some(if from > to { String::new() } else { counted(from, to).join(" ") })
            }
            _ => None,
        }
    }

    fn command(&mut self, words: &[Option<String>]) -> Flow {
        self.commands += 1;
        if self.commands > MAX_COMMANDS {
            return self.unknown();
        }
        let Some((program, arguments)) = words.split_first() else { return self.done(0) };
        let Some(program) = program else { return self.unknown() };
        if let Some(body) = self.functions.get(program).map(Rc::clone) {
            return match self.call(|run| run.node(&body, false)) {
                Flow::Return => Flow::Next,
                flow => flow,
            };
        }
        let name = program.rsplit('/').next().unwrap_or_default();
        let first = arguments.first().and_then(Option::as_deref);
        match name {
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
                self.done(0)
            }
            "sh" | "bash" | "ash" | "dash" | "zsh" => self.shell(arguments),
            "exec" | "nohup" | "time" | "command" | "env" | "busybox" | "tini" | "dumb-init" | "--"
                if !arguments.is_empty() =>
            {
                let flow = self.command(arguments);
                if name == "exec" && flow == Flow::Next && !self.unknown_last { Flow::Exit } else { flow }
            }
            "timeout" => self.timeout(arguments),
            "trap" => self.trap(arguments),
            "set" => {
                self.exits_on_failure |= first.is_some_and(|flags| flags.starts_with('-') && flags.contains('e'));
                self.done(0)
            }
            "test" | "[" | "[[" => self.test(arguments),
            "touch" | "rm" | "cat" | "ls" | "stat" => self.files(name, arguments),
            "dd" => self.copy(arguments),
            "tail" if arguments.iter().flatten().any(|word| matches!(word.as_str(), "-f" | "-F")) => Flow::Forever,
            "yes" | "top" | "watch" | "pause" => Flow::Forever,
            _ if QUICK.contains(&name) => self.done(0),
            _ => self.unknown(),
        }
    }

    fn sleep(&mut self, arguments: &[Option<String>]) -> Flow {
        let mut slept = SignedDuration::ZERO;
        for word in arguments {
            match word.as_deref() {
                None => return self.unknown(),
                Some("infinity" | "inf") => return Flow::Forever,
                Some(word) => match duration(word) {
                    Some(amount) => slept = slept.saturating_add(amount),
                    None => return self.done(1),
                },
            }
        }
        self.at = self.at.saturating_add(slept);
        self.done(i64::from(arguments.is_empty()))
    }

    fn shell(&mut self, arguments: &[Option<String>]) -> Flow {
        let is_flag = |word: &&Option<String>| word.as_ref().is_some_and(|word| word.starts_with(['-', '+']));
        let (flags, rest) = arguments.split_at(arguments.iter().take_while(is_flag).count());
        let has = |letter: char| flags.iter().flatten().any(|flag| !flag.starts_with("--") && flag.contains(letter));
        match rest.first() {
            // A shell without a terminal has nothing to read.
            None => self.done(0),
            Some(Some(script)) if has('c') => {
                let outer = std::mem::replace(&mut self.exits_on_failure, has('e'));
                let flow = self.script(script);
                self.exits_on_failure = outer;
                if flow == Flow::Forever { flow } else { Flow::Next }
            }
            Some(_) => self.unknown(),
        }
    }

    fn timeout(&mut self, arguments: &[Option<String>]) -> Flow {
        let from = arguments.iter().position(|word| word.as_deref().and_then(duration).is_some());
        let Some((limit, rest)) = from.and_then(|from| arguments.get(from..)?.split_first()) else {
            return self.unknown();
        };
        let end = self.at.saturating_add(limit.as_deref().and_then(duration).unwrap_or_default());
        let flow = self.command(rest);
        if flow == Flow::Forever || self.at > end {
            self.at = end;
            return self.done(124);
        }
        flow
    }

    fn trap(&mut self, arguments: &[Option<String>]) -> Flow {
        let Some((Some(action), signals)) = arguments.split_first() else { return self.done(0) };
        let asked = |signal: &String| matches!(signal.as_str(), "TERM" | "SIGTERM" | "15" | "EXIT" | "0");
        if signals.iter().flatten().any(asked) {
            let mut handler = Run { code: 143, ..self.clone() };
            let flow = handler.script(action);
            let took = handler.at.saturating_sub(self.at);
            self.on_term = (flow == Flow::Exit).then_some((took, handler.code));
        }
        self.done(0)
    }

    /// `[ -f FILE ]` and what can be told without the world outside.
    fn test(&mut self, arguments: &[Option<String>]) -> Flow {
        let words: Option<Vec<&str>> = arguments.iter().map(Option::as_deref).collect();
        let Some(mut words) = words else { return self.unknown() };
        words.retain(|word| !matches!(*word, "]" | "]]"));
        let negated = words.first() == Some(&"!");
        let numbers = |left: &str, right: &str| left.parse::<i64>().ok().zip(right.parse::<i64>().ok());
        let held = match words.get(usize::from(negated)..).unwrap_or_default() {
            ["-f" | "-e" | "-s" | "-r" | "-d", path] => self.is_there(path),
            ["-z", text] => Some(text.is_empty()),
            [text] | ["-n", text] => Some(!text.is_empty()),
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
        };
        match held {
            Some(held) => self.done(i64::from(held == negated)),
            None => self.unknown(),
        }
    }

    fn files(&mut self, name: &str, arguments: &[Option<String>]) -> Flow {
        let mut code = 0;
        for path in arguments.iter().flatten().filter(|word| !word.starts_with('-')) {
            match name {
                "touch" => self.file(path, true),
                "rm" => self.file(path, false),
                _ if self.is_there(path) == Some(false) => code = 1,
                _ => {}
            }
        }
        self.done(code)
    }

    /// `dd of=FILE bs=1M count=10`.
    fn copy(&mut self, arguments: &[Option<String>]) -> Flow {
        let option =
            |name: &str| arguments.iter().flatten().find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
        let Some((size, count)) = option("bs").map_or(Some(512), bytes).zip(option("count").and_then(bytes)) else {
            return self.unknown();
        };
        if let Some(path) = option("of").filter(|path| !path.starts_with("/dev/")) {
            self.writes.push((self.at, size.saturating_mul(count)));
            self.file(path, true);
        }
        self.done(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(seconds: i64, code: i64) -> End {
        End::After(SignedDuration::from_secs(seconds), code)
    }

    fn course(script: &str, world: &World) -> Course {
        follow(&["sh", "-c", script], world)
    }

    fn end(script: &str) -> End {
        course(script, &World::default()).end
    }

    #[test]
    fn commands_end_when_and_as_they_say() {
        for (arguments, expected) in [
            (&["/bin/true"][..], after(0, 0)),
            (&["/bin/false"], after(0, 1)),
            (&["sleep", "90"], after(90, 0)),
            (&["sleep", "1m", "5"], after(65, 0)),
            (&["sleep", "infinity"], End::Never),
            (&["tail", "-f", "/dev/null"], End::Never),
            (&["busybox", "sleep", "3"], after(3, 0)),
            (&["sh"], after(0, 0)),
            (&["python", "serve.py"], End::Unknown(SignedDuration::ZERO, 0)),
        ] {
            assert_eq!(follow(arguments, &World::default()).end, expected, "{arguments:?}");
        }
    }

    #[test]
    fn scripts_are_followed() {
        for (script, expected) in [
            ("echo hi && exit 3", after(0, 3)),
            ("sleep 2; exit 1", after(2, 1)),
            ("sleep 2 && false || exit 7", after(2, 7)),
            ("set -e; false; sleep 9", after(0, 1)),
            ("false; sleep 1; exit $?", after(1, 0)),
            ("exit 256", after(0, 0)),
            ("for i in 1 2 3; do sleep $i; done", after(6, 0)),
            ("for i in {1..10}; do echo $i; sleep 1; done; exit 42", after(10, 42)),
            ("for i in $(seq 1 3); do sleep 1; done", after(3, 0)),
            ("i=0; while [ $i -lt 5 ]; do sleep 1; i=$((i+1)); done; exit $i", after(5, 5)),
            ("while true; do echo .; sleep 5; done", End::Never),
            ("while true; do sleep 5; break; done; exit 2", after(5, 2)),
            ("until nslookup db; do sleep 2; done; echo up", after(0, 0)),
            ("sleep 5 & sleep 1; wait", after(5, 0)),
            ("sleep 5 & sleep 1", after(1, 0)),
            ("timeout 3 sleep 60", after(3, 124)),
            ("if false; then sleep 1; else sleep 2; exit 5; fi", after(2, 5)),
            ("(sleep 1; exit 4); sleep 1", after(2, 0)),
            ("f() { sleep 2; return 3; }; f; exit $?", after(2, 3)),
            ("run-tests; exit 1", after(0, 1)),
            ("sleep 1; exec nginx", End::Unknown(SignedDuration::from_secs(1), 0)),
            ("sleep $DELAY; exit 2", after(0, 2)),
            ("sleep ${DELAY:-4}; exit 2", after(4, 2)),
            ("touch /tmp/a; while [ -f /tmp/a ]; do sleep 1; rm /tmp/a; done", after(1, 0)),
            ("sleep 9999999999999999999", End::After(SignedDuration::MAX, 0)),
        ] {
            assert_eq!(end(script), expected, "{script}");
        }
    }

    #[test]
    fn environment_and_volumes_decide() {
        let odd = "if [ $(expr ${JOB_COMPLETION_INDEX} % 2) -ne 0 ]; then\n exit 1\nelse\n exit 0\nfi";
        let once = "if [[ -r /data/foo-$JOB_COMPLETION_INDEX ]]\nthen\n exit 0\nelse\n touch /data/foo-$JOB_COMPLETION_INDEX\n exit 42\nfi";
        let mut world = World { directories: vec!["/data".to_owned()], ..World::default() };
        for (index, code) in [("0", 0), ("1", 1), ("3", 1)] {
            world.variables.insert("JOB_COMPLETION_INDEX".to_owned(), index.to_owned());
            assert_eq!(course(odd, &world).end, after(0, code), "{index}");
        }
        assert_eq!(course(once, &world).end, after(0, 42));
        world.files.insert("/data/foo-3".to_owned());
        assert_eq!(course(once, &world).end, after(0, 0));
    }

    #[test]
    fn files_come_and_go() {
        let course = course("touch /tmp/healthy; sleep 30; rm -f /tmp/healthy; sleep 600", &World::default());
        let there = |second| course.has_file("/tmp/healthy", SignedDuration::from_secs(second));
        assert_eq!([there(0), there(29), there(30), there(500)], [Some(true), Some(true), Some(false), Some(false)]);
        assert_eq!(course.has_file("/etc/hosts", SignedDuration::ZERO), None);
        let written =
            follow(&["sh", "-c", "sleep 10; dd if=/dev/zero of=file bs=1M count=10"], &World::default()).writes;
        assert_eq!(written, [(SignedDuration::from_secs(10), 10 << 20)]);
    }

    #[test]
    fn handlers_of_signals_are_followed_too() {
        let on_term = |script: &str| course(script, &World::default()).on_term;
        let seconds = SignedDuration::from_secs;
        assert_eq!(on_term("sleep 100"), None);
        assert_eq!(on_term("trap 'exit 0' TERM; sleep 100 & wait"), Some((seconds(0), 0)));
        assert_eq!(on_term("trap 'echo no' TERM; sleep 100"), None);
        let slow = "_term(){\n sleep 5\n exit 143\n}\ntrap _term SIGTERM\nwhile true; do\n sleep 1\ndone";
        assert_eq!(on_term(slow), Some((seconds(5), 143)));
    }

    #[test]
    fn nothing_is_followed_for_ever() {
        for script in [
            "for i in {1..9000000000000000000}; do true; done",
            "while [ ! -f /a ]; do touch /b; rm /b; touch /a; rm /a; done",
            "f() { f; f; }; f",
            "i=0; while true; do i=$((i+1)); done",
            &"eval ".repeat(9000),
        ] {
            assert!(matches!(end(script), End::Unknown(..) | End::Never), "{script}");
        }
    }
}
