//! What a program cannot do in the sandbox: tried with bash in kubectl's place.

use std::fmt::Write as _;
use std::net::{TcpListener, UdpSocket};
use std::path::Path;
use std::process::Output;

use klab_host::console::sandbox::MissingFeature;

use crate::environment::Environment;
use crate::skipped::not_possible_here;

/// What a script does in the sandbox; it may connect to `port`.
fn outcome(environment: &Environment, port: u16, script: &str) -> Output {
    let folder = environment.folder().join("scratch");
    std::fs::create_dir_all(&folder).unwrap();
    let mut command = environment.command(&["sandbox", "--port", &port.to_string(), "--folder"]);
    command.arg(&folder).args(["--program", "/bin/bash", "--program", "/usr/bin/bash"]);
    for library in ["/lib", "/lib64", "/usr/lib", "/etc/ld.so.cache"] {
        command.args(["--library", library]);
    }
    command.args(["--", "/bin/bash", "--norc", "--noprofile", "-c", script]).current_dir(folder).output().unwrap()
}

/// Its stdout, or its stderr where there is none.
fn said(environment: &Environment, port: u16, script: &str) -> String {
    let output = outcome(environment, port, script);
    let mut said = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    if said.is_empty() {
        said = String::from_utf8_lossy(&output.stderr).into_owned();
    }
    let _ = write!(said, " ({})", output.status);
    said
}

/// Whether this kernel has all walls; a test that is skipped says so.
fn is_whole() -> bool {
    let environment = Environment::new();
    let folder = environment.folder().to_str().unwrap().to_owned();
    let lacks: Vec<MissingFeature> =
        serde_json::from_str(&environment.succeeds(&["sandbox", "--report", "--folder", &folder, "--port", "1"]))
            .unwrap();
    for lack in &lacks {
        not_possible_here(&lack.to_string());
    }
    lacks.is_empty()
}

#[test]
fn its_folder_is_all_that_it_reads_and_writes() {
    if !is_whole() {
        return;
    }
    let environment = Environment::new();
    let outside = environment.write("secret", "sesame");
    let own = said(&environment, 1, "echo hello > file; read line < file; echo $line");
    assert_eq!(own, "hello (exit status: 0)");
    let paths = ["/etc/passwd", "/proc/self/environ", "/proc/1/cmdline", "/root/.bashrc", "../secret", "/dev/null"];
    for path in paths.into_iter().chain([outside.to_str().unwrap()]) {
        let read = said(&environment, 1, &format!("read line < {path} && echo got $line"));
        assert!(
            !read.contains("got") && (read.contains("Permission denied") || read.contains("No such file")),
            "{path}: {read}"
        );
    }
    for path in ["/tmp/klab-sandbox-test", "../new", "/etc/klab-sandbox-test", outside.to_str().unwrap()] {
        let written = said(&environment, 1, &format!("echo x > {path} && echo got"));
        assert!(written.contains("Permission denied"), "{path}: {written}");
    }
    assert_eq!(std::fs::read_to_string(outside).unwrap(), "sesame");
    assert!(!Path::new("/tmp/klab-sandbox-test").exists() && !Path::new("/etc/klab-sandbox-test").exists());
}

#[test]
fn one_port_is_all_that_it_connects_to() {
    if !is_whole() {
        return;
    }
    let environment = Environment::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let connect = |scheme: &str, port: u16| {
        said(
            &environment,
            listener.local_addr().unwrap().port(),
            &format!("exec 3<>/dev/{scheme}/127.0.0.1/{port} && echo got"),
        )
    };
    assert_eq!(connect("tcp", port), "got (exit status: 0)");
    let refused = connect("tcp", other.local_addr().unwrap().port());
    assert!(refused.contains("Permission denied"), "{refused}");
    let datagrams = UdpSocket::bind("127.0.0.1:0").unwrap();
    let refused = connect("udp", datagrams.local_addr().unwrap().port());
    assert!(refused.contains("Operation not permitted"), "{refused}");
}

#[test]
fn it_starts_nothing_and_signals_nobody() {
    if !is_whole() {
        return;
    }
    let environment = Environment::new();
    let bomb = said(&environment, 1, "bomb() { bomb | bomb & }; bomb; echo after");
    assert!(bomb.contains("fork") && !bomb.contains("after"), "{bomb}");
    for program in ["/bin/ls", "/usr/bin/env"] {
        let executed = said(&environment, 1, &format!("exec {program}"));
        assert!(executed.contains("Permission denied"), "{executed}");
    }
    // Also not what it has written itself.
    let executed = said(&environment, 1, "printf '#!/bin/bash\\necho got' > own; exec ./own");
    assert!(executed.contains("Permission denied"), "{executed}");
    let mut sleeper = std::process::Command::new("sleep").arg("60").spawn().unwrap();
    let killed = said(&environment, 1, &format!("kill -9 {}", sleeper.id()));
    assert!(killed.contains("not permitted"), "{killed}");
    assert!(sleeper.try_wait().unwrap().is_none());
    sleeper.kill().unwrap();
    sleeper.wait().unwrap();
}

#[test]
fn processor_memory_and_files_have_an_end() {
    if !is_whole() {
        return;
    }
    let environment = Environment::new();
    let memory = said(&environment, 1, "x=aaaaaaaaaaaaaaaa; while :; do x=$x$x; done");
    assert!(memory.contains("allocate"), "{memory}");
    let file = said(&environment, 1, "printf -v line '%1048576s' x; while :; do echo \"$line\"; done > file");
    assert!(file.contains("signal: 25"), "{file}");
    let limits = said(&environment, 1, "ulimit -t; ulimit -n; ulimit -c; ulimit -Hn 1000 || echo kept");
    assert!(limits.starts_with("20\n64\n0\n") && limits.contains("kept"), "{limits}");
}

#[test]
fn nothing_of_klab_is_inherited() {
    let environment = Environment::new();
    let secret = environment.write("secret", "sesame");
    let script = format!("exec 7<{}; exec \"$0\" \"$@\"", secret.display());
    let folder = environment.folder().to_str().unwrap().to_owned();
    let words = [
        "sandbox",
        "--unconfined",
        "--port",
        "1",
        "--folder",
        &folder,
        "--program",
        "/bin/bash",
        "--program",
        "/usr/bin/bash",
        "--library",
        "/",
    ];
    let klab = environment.command(&words);
    let mut shell = std::process::Command::new("bash");
    shell.args(["-c", &script]).arg(klab.get_program()).args(klab.get_args());
    shell.args(["--", "/bin/bash", "-c", "read line <&7 && echo got $line"]).env_clear();
    let output = shell.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.stdout.is_empty() && said.contains("Bad file descriptor"), "{output:?}");
}
