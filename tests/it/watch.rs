//! `klab watch` in a pseudo terminal: it shows the lab, ends as it is told to, and leaves the terminal as it was.

use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use crate::environment::Environment;
use crate::skipped::is_there;

const LAB: &str = r#"lab = "small"

[pool.nodepool1]
mode = "system"
nodes = 1
size = "Standard_B2ms"

[workload.web]
image = "nginx:1.27"
requests = { cpu = "50m", memory = "64Mi" }

[[check]]
workload = "web"
running = 1
"#;

/// Far more than anything here takes.
const PATIENCE: Duration = Duration::from_secs(60);

/// A klab on a terminal of its own.
pub(crate) struct Terminal {
    script: Child,
    output: Receiver<Vec<u8>>,
    pub(crate) seen: String,
}

impl Terminal {
    /// Types a line in a terminal of 100 columns.
    fn of(environment: &Environment, line: &str) -> Self {
        Self::at(environment, &environment.home(), line)
    }

    /// As [`Terminal::of`], of another home of klab.
    pub(crate) fn at(environment: &Environment, home: &Path, line: &str) -> Self {
        let line = format!("stty cols 100 rows 30; {line}; echo status $?; stty -a | grep -ow -e -icanon -e icanon");
        let mut script = environment.shell("sh", "exec script -qfec \"$LINE\" /dev/null");
        script
            .env("LINE", line)
            .env("KLAB_HOME", home)
            .env("TERM", "xterm-256color")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut script = script.spawn().unwrap();
        let mut stdout = script.stdout.take().unwrap();
        let (tell, output) = channel();
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(length @ 1..) = stdout.read(&mut buffer) {
                if tell.send(buffer[..length].to_vec()).is_err() {
                    return;
                }
            }
        });
        Self { script, output, seen: String::new() }
    }

    /// Reads until a text has come.
    pub(crate) fn shows(&mut self, text: &str) {
        while !self.seen.contains(text) {
            let Ok(bytes) = self.output.recv_timeout(PATIENCE) else {
                panic!("{text:?} never came:\n{}", self.seen);
            };
            self.seen.push_str(&String::from_utf8_lossy(&bytes));
        }
    }

    pub(crate) fn types(&mut self, keys: &str) {
        self.script.stdin.as_mut().unwrap().write_all(keys.as_bytes()).unwrap();
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.script.kill();
        let _ = self.script.wait();
    }
}

/// A lab that is up, and shown.
fn shown(environment: &Environment) -> Terminal {
    environment.write("small.toml", LAB);
    environment.succeeds(&["up", "small.toml"]);
    let mut terminal = Terminal::of(environment, "klab watch");
    terminal.shows("pool nodepool1");
    terminal.shows("✓ held");
    terminal
}

#[test]
fn keys_end_it_and_the_terminal_is_as_it_was() {
    if !is_there("script") {
        return;
    }
    for (key, status) in [("q", "status 0"), ("\u{3}", "status 130")] {
        let environment = Environment::new();
        let mut terminal = shown(&environment);
        terminal.types(key);
        terminal.shows("\u{1b}[?1049l");
        terminal.shows(status);
        terminal.shows("icanon");
        assert!(!terminal.seen.contains("-icanon"), "{}", terminal.seen);
    }
}

#[test]
fn a_lab_that_is_taken_down_ends_it() {
    if !is_there("script") {
        return;
    }
    let environment = Environment::new();
    let mut terminal = shown(&environment);
    environment.succeeds(&["down", "small"]);
    terminal.shows("\u{1b}[?1049l");
    terminal.shows("lab `small` was taken down");
    terminal.shows("status 3");
}

#[test]
fn a_lab_that_is_brought_up_from_another_file_is_read_again() {
    if !is_there("script") {
        return;
    }
    let environment = Environment::new();
    let mut terminal = shown(&environment);
    environment.write("small.toml", LAB.replace("running = 1", "name = \"another-name\"\nrunning = 1"));
    environment.succeeds(&["up", "small.toml"]);
    terminal.shows("another-name");
}
