//! A class that a benchmark hosts, in a process of the release binary.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::Value;

/// Hosts a class, and gives what `klab host` says of it.
#[expect(clippy::zombie_processes, reason = "the caller waits for the process")]
pub(crate) fn begin(home: &Path, arguments: &[&str]) -> (Child, Value) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_klab"))
        .arg("host")
        .args(arguments)
        .args(["--format", "json"])
        .env("KLAB_HOME", home)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    loop {
        let mut line = String::new();
        assert!(output.read_line(&mut line).unwrap() > 0, "the host did not begin");
        let document: Value = serde_json::from_str(&line).unwrap();
        if document["schema"] == "klab.host/1" {
            std::thread::spawn(move || std::io::copy(&mut output, &mut std::io::sink()));
            return (child, document);
        }
    }
}

/// A client of a seat that somebody joined.
pub(crate) async fn client_of(seat: &Value) -> kube::Client {
    let kubeconfig = Kubeconfig::from_yaml(seat["kubeconfig"].as_str().unwrap()).unwrap();
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
    kube::Client::try_from(config).unwrap()
}
