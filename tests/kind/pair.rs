//! kind and docker, played by this test binary: containers are files, the cluster is an embedded one whose nodes report
//! what real kubelets would of the files, flags and labels they are given. Faults are asked for by files.
//!
//! The folder of the pair has shell scripts `kind` and `docker` that start this binary with the ignored test [`play`].

mod cluster;
mod docker;
mod kubelet;
mod state;

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio, exit};
use std::time::SystemTime;

use self::cluster::{kind, signal_klab};
use self::docker::docker;
use self::state::{Container, State};

/// What docker says of the machine.
const CPUS: u32 = 4;
const MEMORY: u64 = 16 << 30;
const CLUSTER_LABEL: &str = "io.x-k8s.kind.cluster";
const ROLE_LABEL: &str = "io.x-k8s.kind.role";
/// The token kind writes into its configuration, and the one the control plane gives out later.
const KIND_TOKEN: &str = "abcdef.0123456789abcdef";
const NEW_TOKEN: &str = "zyxwvu.fedcba9876543210";

/// The pair, as tests see it.
pub(crate) struct Pair {
    folder: PathBuf,
}

impl Pair {
    /// Puts the scripts into `folder`; with it first on PATH, `kind` and `docker` are the stand-ins.
    pub(crate) fn new(folder: &Path) -> Self {
        let folder = folder.join("pair");
        for name in ["bin", "containers", "faults", "clusters", "late"] {
            fs::create_dir_all(folder.join(name)).unwrap();
        }
        for program in ["kind", "docker"] {
            let path = folder.join("bin").join(program);
            // Results go through a file: a server that is started must not hold the caller's pipe.
            let script = format!(
                "#!/bin/sh\nresults=$(mktemp '{folder}/results.XXXXXX')\n\
                 PAIR_FOLDER='{folder}' PAIR_PROGRAM={program} PAIR_RESULTS=$results \
                 PAIR_ARGUMENTS=\"$(printf '%s\\037' \"$@\")\" \
                 '{this}' --exact kind::pair::play --ignored --nocapture --test-threads=1 >/dev/null\n\
                 code=$?\ncat \"$results\"\nrm \"$results\"\nexit $code\n",
                folder = folder.display(),
                this = std::env::current_exe().unwrap().display()
            );
            fs::write(&path, script).unwrap();
            let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
            fs::set_permissions(&path, mode).unwrap();
        }
        // The disk of the machine that tests run on must not decide how they end.
        let df = folder.join("bin/df");
        fs::write(&df, "#!/bin/sh\necho Filesystem 1024-blocks Used Available Capacity Mounted\necho disk 99999999 0 99999999 0% /\n")
            .unwrap();
        fs::set_permissions(&df, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        let pair = Self { folder };
        for image in
            ["kindest/node:v1.36.4@sha256:099e049362a1526b2db71494e1947aae99bd16290d7c895f2b7ea312e3cbfaed", "web:1"]
        {
            pair.add_image(image, "1");
        }
        pair
    }

    /// PATH with the stand-ins first.
    pub(crate) fn path(&self) -> std::ffi::OsString {
        let rest = std::env::var_os("PATH").unwrap_or_default();
        let folders = std::iter::once(self.folder.join("bin")).chain(std::env::split_paths(&rest));
        std::env::join_paths(folders).unwrap()
    }

    /// Takes a program away.
    pub(crate) fn remove_program(&self, program: &str) {
        // What the machine has of that name must not be reached either.
        fs::write(self.folder.join("bin").join(program), "#!/bin/sh\necho gone >&2\nexit 127\n").unwrap();
    }

    /// Lets something go wrong; most faults happen once.
    pub(crate) fn fault(&self, name: &str, what: &str) {
        fs::write(self.folder.join("faults").join(name), what).unwrap();
    }

    /// Whether a fault has not happened yet.
    pub(crate) fn has_fault(&self, name: &str) -> bool {
        self.folder.join("faults").join(name).exists()
    }

    pub(crate) fn end_fault(&self, name: &str) {
        fs::remove_file(self.folder.join("faults").join(name)).unwrap();
    }

    pub(crate) fn add_image(&self, reference: &str, id: &str) {
        let state = State { folder: self.folder.clone() };
        let mut images = state.images();
        images.insert(reference.to_owned(), format!("sha256:{id}"));
        state.write_json("images.json", &images);
    }

    /// Names of the containers, in order.
    pub(crate) fn containers(&self) -> Vec<String> {
        State { folder: self.folder.clone() }.containers().into_iter().map(|container| container.name).collect()
    }

    pub(crate) fn container(&self, name: &str) -> Container {
        State { folder: self.folder.clone() }.container(name).unwrap()
    }

    /// A container of somebody else's cluster.
    pub(crate) fn add_foreign(&self, cluster: &str) {
        let state = State { folder: self.folder.clone() };
        state.save(&state.new_container(
            cluster,
            &format!("{cluster}-control-plane"),
            "control-plane",
            "kindest/node:v1",
        ));
    }

    /// Every call since the beginning: program, arguments, seconds it took.
    pub(crate) fn calls(&self) -> Vec<(String, f64)> {
        let text = fs::read_to_string(self.folder.join("calls.log")).unwrap_or_default();
        text.lines()
            .filter_map(|line| line.split_once('\t'))
            .map(|(seconds, call)| (call.to_owned(), seconds.parse().unwrap()))
            .collect()
    }

    pub(crate) fn forget_calls(&self) {
        let _ = fs::remove_file(self.folder.join("calls.log"));
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        // By their command lines: one whose kind outlived a klab that was killed may not have said who it is.
        let servers = self.folder.join("clusters").display().to_string();
        let _ = Command::new("pkill").args(["-9", "-f", &servers]).stderr(Stdio::null()).status();
    }
}

/// Not a test: it plays kind and docker for those that are, started by the scripts of [`Pair`].
#[test]
#[ignore = "not a test: it plays kind and docker for the tests that need them"]
fn play() {
    perform();
}

/// Plays the program that was called, and ends the process; returns where none was.
pub(crate) fn perform() {
    let Some(folder) = std::env::var_os("PAIR_FOLDER") else { return };
    let state = State { folder: PathBuf::from(folder) };
    let program = std::env::var("PAIR_PROGRAM").unwrap();
    let text = std::env::var("PAIR_ARGUMENTS").unwrap();
    let arguments: Vec<&str> = text.strip_suffix('\u{1f}').map_or_else(Vec::new, |text| text.split('\u{1f}').collect());
    let started = SystemTime::now();
    let interruption = state.take_interruption();
    let interrupt = |moment: &str| {
        if interruption.as_deref() == Some(moment) {
            signal_klab("-INT");
        }
    };
    interrupt("before");
    let ended = match program.as_str() {
        "kind" => kind(&state, &arguments),
        _ => docker(&state, &arguments),
    };
    interrupt("after");
    let mut log = OpenOptions::new().create(true).append(true).open(state.folder.join("calls.log")).unwrap();
    let seconds = started.elapsed().unwrap().as_secs_f64();
    // In one write: several of them may be writing.
    log.write_all(format!("{seconds:.6}\t{program} {}\n", arguments.join(" ")).as_bytes()).unwrap();
    match ended {
        Ok(stdout) => {
            fs::write(std::env::var_os("PAIR_RESULTS").unwrap(), stdout).unwrap();
            exit(0);
        }
        Err((code, words)) => {
            std::io::stderr().write_all(words.as_bytes()).unwrap();
            exit(code);
        }
    }
}

fn value<'a>(arguments: &[&'a str], flag: &str) -> Option<&'a str> {
    let at = arguments.iter().position(|argument| *argument == flag)?;
    arguments.get(at + 1).copied()
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}
