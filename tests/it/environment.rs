//! A klab of one's own: its home, its folder, its environment, nothing of the user's.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::skipped::is_there;

/// How much faster a clock goes that is fast: nodes have 40 seconds to say that they are there, and on a busy machine some seconds pass
/// in which a server does nothing.
pub(crate) const FAST: u32 = 6;

/// A fresh place to run klab in; whatever still runs is ended when it is dropped.
pub(crate) struct Environment {
    folder: tempfile::TempDir,
    /// How many times as fast as the machine's the clock of its clusters goes.
    clock_times: u32,
}

impl Environment {
    pub(crate) fn new() -> Self {
        Self::with_clock(1)
    }

    /// One whose clusters need a sixth of the time for what takes minutes in Kubernetes.
    pub(crate) fn fast() -> Self {
        Self::with_clock(FAST)
    }

    fn with_clock(clock_times: u32) -> Self {
        Self { folder: tempfile::tempdir().unwrap(), clock_times }
    }

    /// The folder commands run in.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// klab's home.
    pub(crate) fn home(&self) -> PathBuf {
        self.folder.path().join("home")
    }

    /// Writes a file into the folder.
    pub(crate) fn write(&self, name: &str, text: impl AsRef<[u8]>) -> PathBuf {
        let path = self.folder.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        path
    }

    /// The text of a file that was written.
    pub(crate) fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.folder().join(name)).unwrap()
    }

    /// A klab command that has not been started.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_klab"));
        command
            .args(arguments)
            .current_dir(self.folder.path())
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.folder.path())
            .env("KLAB_HOME", self.home())
            .env("KLAB_CLOCK_TIMES", self.clock_times.to_string())
            .env("COLUMNS", "100")
            .stdin(Stdio::null());
        command
    }

    /// A shell that types a line, with klab before all other programs, and has not been started.
    pub(crate) fn shell(&self, shell: &str, line: &str) -> Command {
        let klab = Path::new(env!("CARGO_BIN_EXE_klab")).parent().unwrap();
        let mut folders = vec![klab.to_owned()];
        folders.extend(std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()));
        let mut command = Command::new(shell);
        // zsh reads files of its own even for one line.
        command.args((shell == "zsh").then_some("-f"));
        command
            .args(["-c", line])
            .current_dir(self.folder.path())
            .env_clear()
            .env("PATH", std::env::join_paths(folders).unwrap())
            .env("HOME", self.folder.path())
            .env("KLAB_CLOCK_TIMES", self.clock_times.to_string())
            .env("KLAB_HOME", self.home());
        command
    }

    /// Runs klab to its end.
    pub(crate) fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    /// stdout of a klab command that must do what it is asked to.
    pub(crate) fn succeeds(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert!(output.status.success(), "klab {arguments:?}\n{}", self.shown(&output));
        String::from_utf8(output.stdout).unwrap()
    }

    /// The last document that a klab command writes with `--format json`, whatever became of it.
    pub(crate) fn json(&self, arguments: &[&str]) -> serde_json::Value {
        let output = self.run(&[&["--format", "json"], arguments].concat());
        let text = String::from_utf8_lossy(&output.stdout);
        let last = text.lines().last().unwrap_or_else(|| panic!("klab {arguments:?}\n{}", self.shown(&output)));
        serde_json::from_str(last).unwrap_or_else(|error| panic!("{error}: {text}"))
    }

    /// No lab, no file and no server are there any more.
    pub(crate) fn nothing_is_left(&self) {
        assert_eq!(self.leftovers(), Vec::<String>::new());
        assert_eq!(self.server_pid(), None);
    }

    /// stdout, stderr and status of a klab command as one text, with what varies made even.
    pub(crate) fn klab(&self, arguments: &[&str]) -> String {
        self.shown(&self.run(arguments))
    }

    /// A command's output as one text, with what varies made even.
    pub(crate) fn shown(&self, output: &Output) -> String {
        let mut text = String::new();
        for (name, bytes) in [("stdout", &output.stdout), ("stderr", &output.stderr)] {
            if !bytes.is_empty() {
                let _ = write!(text, "--- {name}\n{}", String::from_utf8_lossy(bytes));
                if !text.ends_with('\n') {
                    text.push('\n');
                }
            }
        }
        let status = output.status.code().map_or("killed".into(), |code| code.to_string());
        let _ = writeln!(text, "--- status {status}");
        text.replace(&self.folder.path().display().to_string(), "[FOLDER]")
    }

    /// The process number of the server that runs, if one does.
    pub(crate) fn server_pid(&self) -> Option<u32> {
        let record = std::fs::read(self.home().join("server/access.json")).ok()?;
        let record: serde_json::Value = serde_json::from_slice(&record).ok()?;
        let pid = record["pid"].as_u64()?;
        Path::new(&format!("/proc/{pid}/cmdline")).exists().then_some(u32::try_from(pid).unwrap())
    }

    /// Everything below klab's home.
    pub(crate) fn leftovers(&self) -> Vec<String> {
        let mut found = Vec::new();
        let mut folders = vec![self.home()];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
                found.push(entry.path().strip_prefix(self.home()).unwrap().display().to_string());
                if entry.path().is_dir() {
                    folders.push(entry.path());
                }
            }
        }
        found.sort();
        found
    }
}

/// Whether kubectl is installed; a test that is skipped says so.
pub(crate) fn has_kubectl() -> bool {
    is_there("kubectl")
}

impl Drop for Environment {
    fn drop(&mut self) {
        if let Some(pid) = self.server_pid() {
            let _ = Command::new("kill").args(["-9", &pid.to_string()]).status();
        }
    }
}
