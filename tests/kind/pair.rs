//! kind and docker, played by the test that needs them: containers are files, the cluster is an embedded one whose nodes report
//! what real kubelets would of the files, flags and labels they are given. Faults are asked for by files.
//!
//! The folder of the pair has scripts `kind` and `docker` that hand each call to [`Pair`] over a socket.

mod api;
mod cluster;
mod docker;
mod kubelet;
mod state;

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use self::cluster::kind;
use self::docker::docker;
use self::state::{Container, Ended, State};

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
    state: Arc<State>,
}

impl Pair {
    /// Puts the scripts into `folder`; with it first on PATH, `kind` and `docker` are the stand-ins.
    pub(crate) fn new(folder: &Path) -> Self {
        let folder = folder.join("pair");
        for name in ["bin", "containers", "faults", "clusters", "late"] {
            fs::create_dir_all(folder.join(name)).unwrap();
        }
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let program = |name: &str, script: &str| {
            let path = folder.join("bin").join(name);
            fs::write(&path, script).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        };
        for name in ["kind", "docker"] {
            let script = format!(
                "#!/usr/bin/env bash\nexec 3<>/dev/tcp/127.0.0.1/{port} || exit 70\n\
                 printf '%s\\0' \"$PPID\" {name} \"$#\" \"$@\" >&3\n\
                 IFS= read -r status <&3 || exit 71\nif [ \"$status\" = 0 ]; then cat <&3; else cat <&3 >&2; fi\nexit \"$status\"\n"
            );
            program(name, &script);
        }
        // The disk of the machine that tests run on must not decide how they end.
        program(
            "df",
            "#!/bin/sh\necho Filesystem 1024-blocks Used Available Capacity Mounted\necho disk 99999999 0 99999999 0% /\n",
        );
        let state = State::new(folder.clone());
        let serving = Arc::clone(&state);
        // It ends with the process.
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (begun, state) = (serving.begin(), Arc::clone(&serving));
                std::thread::spawn(move || {
                    answer(&state, stream);
                    drop(begun);
                });
            }
        });
        let pair = Self { folder, state };
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
        let mut images = self.state.images();
        images.insert(reference.to_owned(), format!("sha256:{id}"));
        self.state.write_json("images.json", &images);
    }

    /// Names of the containers, in order, with those that are about to appear.
    pub(crate) fn containers(&self) -> Vec<String> {
        self.state.late_ones_appear();
        self.state.containers().into_iter().map(|container| container.name).collect()
    }

    pub(crate) fn container(&self, name: &str) -> Container {
        self.state.container(name).unwrap()
    }

    /// A container of somebody else's cluster.
    pub(crate) fn add_foreign(&self, cluster: &str) {
        self.state.save(&self.state.new_container(
            cluster,
            &format!("{cluster}-control-plane"),
            "control-plane",
            "kindest/node:v1",
        ));
    }

    /// Every call since the beginning: program, arguments, seconds it took.
    pub(crate) fn calls(&self) -> Vec<(String, f64)> {
        self.state.calls.lock().unwrap().clone()
    }

    pub(crate) fn forget_calls(&self) {
        self.state.calls.lock().unwrap().clear();
    }

    /// Waits until no call is under way that a klab had made which was killed or interrupted.
    pub(crate) fn rests(&self) {
        self.state.rests();
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        self.state.end();
    }
}

/// The caller of a script that plays kind or docker: klab, and the script itself.
struct Caller {
    klab: Option<Pid>,
    script: TcpStream,
}

impl Caller {
    /// Sends a signal to klab.
    fn signal(&self, signal: Signal) {
        // The call may be a test's own.
        let _ = self.klab.map(|klab| kill_process(klab, signal));
    }

    /// Interrupts klab, as Ctrl-C does, which ends the script too; says whether that was so.
    fn interrupt(&self) -> bool {
        self.signal(Signal::INT);
        self.script.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        // The script has said all: what comes is its end.
        !matches!((&self.script).read(&mut [0]), Err(error) if error.kind() == std::io::ErrorKind::WouldBlock)
    }
}

/// Answers one call of a script.
fn answer(state: &State, stream: TcpStream) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut word = || {
        let mut bytes = Vec::new();
        reader.read_until(0, &mut bytes).ok()?;
        String::from_utf8(bytes).ok()?.strip_suffix('\0').map(str::to_owned)
    };
    let (Some(klab), Some(program), Some(count)) = (word(), word(), word()) else { return };
    let arguments: Vec<String> = (0..count.parse().unwrap()).map_while(|_| word()).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let caller = Caller { klab: Pid::from_raw(klab.parse().unwrap()), script: stream };
    let interruption = state.take_interruption();
    if interruption.as_deref() == Some("before") && caller.interrupt() {
        return;
    }
    // What is not played is said in the words of the panic.
    let ended = catch_unwind(AssertUnwindSafe(|| perform(state, &caller, &program, &arguments)));
    let (status, words) = match ended.unwrap_or_else(|_| state::failed(format!("{program} {arguments:?}: see above\n")))
    {
        Ok(stdout) => (0, stdout),
        Err((code, stderr)) => (code, stderr),
    };
    if interruption.as_deref() == Some("after") {
        caller.interrupt();
    }
    // The script may have been ended with klab.
    let _ = (&caller.script).write_all(format!("{status}\n{words}").as_bytes());
}

/// Does what a program is asked to, and notes the call.
fn perform(state: &State, caller: &Caller, program: &str, arguments: &[&str]) -> Ended {
    let started = Instant::now();
    let ended = match program {
        "kind" => kind(state, caller, arguments),
        _ => docker(state, arguments),
    };
    state.note(program, arguments, started);
    ended
}

fn value<'a>(arguments: &[&'a str], flag: &str) -> Option<&'a str> {
    let at = arguments.iter().position(|argument| *argument == flag)?;
    arguments.get(at + 1).copied()
}
