//! The README and the tutorials, followed to the letter: a test types what their console blocks say, writes the files they give, and sees
//! what they show.
//!
//! A block ```` ```console ```` is a session of one shell: lines that begin with `$ ` are typed, the others are what they print, where a line
//! `...` stands for any number of lines and `[..]` for any characters. In ```` ```console fails ```` the last command fails; in
//! ```` ```console stays ```` it runs until the page is over. A block after "into `FILE`:" is that file; one after "to the end of `FILE`:" is added to
//! it. What varies between runs is compared in one form: the pages show one of their own.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use pulldown_cmark::{CodeBlockKind, Event, Parser, Tag, TagEnd};
use regex::Regex;

use crate::environment::{Environment, has_kubectl};
use crate::ephemeral::languages::installed;
use crate::skipped::skipped;

/// Ends the output of a command in the shell; its exit code follows.
const END: &str = "\u{1}end ";

/// What varies, and the form in which pages show it. What a running program has shown in such a form is typed as it really is.
const VARIES: [(&str, &str); 14] = [
    (r"127\.0\.0\.1:\d+", "127.0.0.1:8443"),
    (r"#ca=[a-z0-9]{26}", "#ca=wr6t0dt9zjzryahddgj1hy3qst"),
    (r"\b[a-z0-9]{4}-[a-z0-9]{4}$", "7q2q-8dsj"),
    (r"certificate  [a-z0-9]{26}", "certificate  wr6t0dt9zjzryahddgj1hy3qst"),
    (r"#open=[a-z0-9]{26}", "#open=3111cfxd5tp7jqvf47r7qw8jab"),
    (r"\bPIN is \d{6}", "PIN is 979271"),
    (r"\b\d{4}-\d\d-\d\d \d\d:\d\d UTC|\b\d\d:\d\d UTC", "08:49 UTC"),
    (r"\b(\d+m )?\d+(\.\d+)? ?m?s\b", "0 s"),
    (r" \(\d:\d\d:\d\d\)$", ""),
    (r"-[a-z0-9]{8,10}-[a-z0-9]{5}\b", "-78c896449c-zsbsn"),
    (r" {2,}", "  "),
    (r" +$", ""),
    (r"^ *\w+ing .* so far\b.*\n", ""),
    (r"^warning: .* has not answered for .*\n", ""),
];

/// One thing that a page has its reader do.
enum Deed {
    Write { file: String, text: String, append: bool },
    Type { commands: Vec<(String, String)>, fails: bool, stays: bool },
}

/// What a page has its reader do, in its order.
fn deeds(page: &str) -> Vec<Deed> {
    let text = std::fs::read_to_string(page).unwrap();
    let file = Regex::new(r"(into|to the end of) (\S+):$").unwrap();
    let (mut deeds, mut paragraph, mut block) = (Vec::new(), String::new(), None::<(String, String)>);
    for event in Parser::new(&text) {
        match event {
            Event::Start(Tag::Paragraph) => paragraph.clear(),
            Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(info))) => {
                block = Some((info.into_string(), String::new()));
            }
            Event::Text(text) if block.is_some() => block.iter_mut().for_each(|(_, block)| block.push_str(&text)),
            Event::Text(text) | Event::Code(text) => paragraph.push_str(&text),
            Event::SoftBreak => paragraph.push(' '),
            Event::End(TagEnd::CodeBlock) => {
                let Some((info, text)) = block.take() else { continue };
                if let Some(kind) = info.strip_prefix("console") {
                    let (fails, stays) = (kind.contains("fails"), kind.contains("stays"));
                    deeds.push(Deed::Type { commands: commands(&text), fails, stays });
                } else if let Some(found) = file.captures(&paragraph) {
                    deeds.push(Deed::Write { file: found[2].to_owned(), text, append: &found[1] != "into" });
                }
            }
            _ => {}
        }
    }
    deeds
}

/// The commands of a session, each with what it shows.
fn commands(session: &str) -> Vec<(String, String)> {
    let mut commands: Vec<(String, String)> = Vec::new();
    for line in session.lines() {
        match (line.strip_prefix("$ "), commands.last_mut()) {
            (Some(command), _) => commands.push((command.to_owned(), String::new())),
            (None, Some((_, shown))) => shown.push_str(&format!("{line}\n")),
            (None, None) => panic!("a session begins with a command: {line}"),
        }
    }
    commands
}

/// A reader with one shell.
struct Reader {
    environment: Environment,
    shell: Child,
    keyboard: ChildStdin,
    screen: BufReader<ChildStdout>,
    /// Programs that stay, and what their forms stand for.
    staying: Vec<Child>,
    meant: Vec<(&'static str, String)>,
    varies: Vec<(Regex, &'static str)>,
}

impl Reader {
    fn new(path: Option<&Path>) -> Self {
        let environment = Environment::new();
        let mut shell = environment.shell(
            "bash",
            "exec 2>&1; while IFS= read -r line; do eval \"$line\" </dev/null; printf '\\n\\001end %s\\n' $?; done",
        );
        shell.env("COLUMNS", "100").env("USER", "ann").stdin(Stdio::piped()).stdout(Stdio::piped());
        if let Some(path) = path {
            let klab = Path::new(env!("CARGO_BIN_EXE_klab")).parent().unwrap();
            let before = [klab, path].map(Path::to_owned).into_iter();
            let others = std::env::var_os("PATH").unwrap();
            let folders = before.chain(std::env::split_paths(&others));
            shell.env("PATH", std::env::join_paths(folders).unwrap());
        }
        let mut shell = shell.spawn().unwrap();
        let (keyboard, screen) = (shell.stdin.take().unwrap(), BufReader::new(shell.stdout.take().unwrap()));
        let varies =
            VARIES.iter().map(|(pattern, form)| (Regex::new(&format!("(?m){pattern}")).unwrap(), *form)).collect();
        Self { environment, shell, keyboard, screen, staying: Vec::new(), meant: Vec::new(), varies }
    }

    /// A text in the form in which pages are compared, without what klab says of its progress where something takes long.
    fn even(&self, text: &str) -> String {
        let folder = self.environment.folder().display().to_string();
        let text = text.replace(&format!("{folder}/home"), "/home/ann/.local/state/klab").replace(&folder, "/home/ann");
        self.varies.iter().fold(text, |text, (varies, form)| varies.replace_all(&text, *form).into_owned())
    }

    /// Whether a page shows what was printed.
    fn shows(&self, shown: &str, printed: &str) -> bool {
        let (shown, printed) = (self.even(shown.trim_end()), self.even(printed.trim_end()) + "\n");
        let lines = shown.lines().map(|line| match line {
            "..." => "(?:.*\n)*?".to_owned(),
            line => regex::escape(line).replace(r"\[\.\.\]", ".*") + "\n",
        });
        let pattern = format!("^{}$", lines.collect::<String>());
        Regex::new(&pattern).unwrap().is_match(printed.trim_start_matches('\n'))
    }

    /// Types a command and gives what it printed, with its exit code.
    fn types(&mut self, command: &str) -> (String, i32) {
        let command = self.meant.iter().fold(command.to_owned(), |command, (form, meant)| command.replace(form, meant));
        writeln!(self.keyboard, "{command}").unwrap();
        let mut printed = String::new();
        loop {
            let mut line = String::new();
            let read = self.screen.read_line(&mut line).unwrap();
            assert!(read > 0, "the shell has ended: {command}\n{printed}");
            if let Some(code) = line.strip_prefix(END) {
                // The line break before the mark is the shell's.
                printed.truncate(printed.len() - 1);
                return (printed, code.trim().parse().unwrap());
            }
            printed.push_str(&line);
        }
    }

    /// Starts a program that stays, and waits until it has shown what the page shows.
    fn starts(&mut self, command: &str, shown: &str) {
        let mut program = self.environment.shell("bash", &format!("exec {command}"));
        let mut program = program.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut screen = BufReader::new(program.stdout.take().unwrap());
        self.staying.push(program);
        let (mut printed, wanted) = (String::new(), shown.lines().take_while(|line| *line != "...").count());
        for _ in 0..wanted {
            screen.read_line(&mut printed).unwrap();
        }
        assert!(self.shows(shown, &printed), "`{command}` shows\n{printed}\nand the page\n{shown}");
        for (varies, form) in &self.varies[..3] {
            self.meant.extend(varies.find(&printed).map(|meant| (*form, meant.as_str().to_owned())));
        }
        // What it says later is read, so that it is never in the program's way.
        std::thread::spawn(move || screen.read_to_end(&mut Vec::new()));
    }

    /// Does all that a page says.
    fn follows(&mut self, page: &str) {
        let deeds = deeds(page);
        assert!(!deeds.is_empty(), "{page} has nothing to do");
        for deed in deeds {
            match deed {
                Deed::Write { file, text, append } => {
                    let before = if append { self.environment.read(&file) + "\n" } else { String::new() };
                    self.environment.write(&file, before + &text);
                }
                Deed::Type { commands, fails, stays } => {
                    let last = commands.len() - 1;
                    for (number, (command, shown)) in commands.iter().enumerate() {
                        if stays {
                            self.starts(command, shown);
                            continue;
                        }
                        let (printed, code) = self.types(command);
                        assert!(
                            self.shows(shown, &printed) && (code != 0) == (fails && number == last),
                            "{page}: `{command}` ends with {code} and shows\n{printed}\nand the page\n{shown}"
                        );
                    }
                }
            }
        }
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        for program in self.staying.iter_mut().chain([&mut self.shell]) {
            let _ = program.kill();
            let _ = program.wait();
        }
    }
}

/// Follows a page that needs klab and kubectl; nothing is left of its labs.
fn leaves_nothing(page: &str) {
    if has_kubectl() {
        let mut reader = Reader::new(None);
        reader.follows(page);
        assert_eq!(reader.environment.server_pid(), None, "{page} leaves a server");
    }
}

#[test]
fn readme() {
    leaves_nothing("README.md");
}

#[test]
fn first_lesson() {
    leaves_nothing("docs/learn/first-lesson.md");
}

#[test]
fn first_lab_file() {
    leaves_nothing("docs/learn/first-lab-file.md");
}

#[test]
fn first_class() {
    if has_kubectl() {
        Reader::new(None).follows("docs/learn/first-class.md");
    }
}

#[test]
fn first_operator_test() {
    match installed("KLAB_PYTHON", ".ci/python-client", "python-client/bin/python") {
        Ok(python) => Reader::new(python.parent()).follows("docs/learn/first-operator-test.md"),
        Err(reason) => skipped(&reason),
    }
}
