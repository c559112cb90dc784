//! What the tools of kind say when they fail, and what that means.

use super::*;
use crate::error::Code;

fn failed(stderr: &str) -> exec::Error {
    exec::Error::Failed {
        command: "kind create cluster".to_owned(),
        status: "exited with code 1".to_owned(),
        code: Some(1),
        stderr: stderr.to_owned(),
    }
}

/// Texts recorded from kind 0.27 and 0.33: code, words of the error, words of the hint.
#[test]
fn recorded_texts_become_errors_with_a_way_out() {
    for (stderr, code, message, hint) in [
        (
            "ERROR: failed to create cluster: failed to get docker info: command \"docker info --format '{{json .}}'\" \
             failed with error: exec: \"docker\": executable file not found in $PATH\n",
            Code::ContainerRuntime,
            "not installed",
            "install Docker",
        ),
        (
            "ERROR: failed to create cluster: failed to get docker info: command \"docker info\" failed with error: \
             exit status 1\nCommand Output: {\"ID\":\"\",\"Containers\":0}\nCannot connect to the Docker daemon at \
             unix:///var/run/docker.sock. Is the docker daemon running?\n",
            Code::ContainerRuntime,
            "does not run",
            "systemctl start docker",
        ),
        (
            "ERROR: failed to create cluster: failed to pull image \"kindest/node:v1.36.2\": command \"docker pull\" \
             failed with error: exit status 1\nCommand Output: dial tcp: lookup registry-1.docker.io: no such host",
            Code::ImageMissing,
            "node image cannot be pulled",
            "docker load",
        ),
        (
            "ERROR: failed to create cluster: node(s) already exist for a cluster with the name \"a\"\n",
            Code::Foreign,
            "is there already",
            "kind get clusters",
        ),
        (
            "ERROR: failed to create cluster: command \"docker run --name a\" failed with error: exit status 125\n\
             Command Output: docker: Error response from daemon: failed to bind host port: bind: address already in use\n",
            Code::PortInUse,
            "port of this machine",
            "ss -ltnp",
        ),
        (
            "ERROR: failed to create cluster: failed to join node with kubeadm: command \"docker exec --privileged \
             a-worker kubeadm join --config /kind/kubeadm.conf --v=6\" failed with error: exit status 1\n",
            Code::KindNode,
            "could not join",
            "transcript",
        ),
        (
            "ERROR: failed to create cluster: could not find a log line that matches \"Reached target .*Multi-User \
             System.*|detected cgroup v1\"\n",
            Code::KindBoot,
            "did not boot",
            "inotify",
        ),
        (
            "ERROR: failed to lock config file: open /x/kubeconfig.lock: file exists\n",
            Code::ToolFailed,
            "locked",
            "`.lock`",
        ),
        (
            "ERROR: failed to create cluster: unable to decode config: yaml: unmarshal errors:\n  line 5: field taints \
             not found in type v1alpha4.Node\n",
            Code::ToolFailed,
            "does not understand",
            "kind version",
        ),
        (
            "ERROR: failed to create cluster: ['Bad_Name' is not a valid cluster name, must have at least one \
             control-plane node]\n",
            Code::ToolFailed,
            "refused",
            "words are above",
        ),
    ] {
        let error = of_kind(failed(stderr));
        assert_eq!(error.code, code, "{stderr}");
        assert!(error.to_string().contains(message), "{error}\nexpected: {message}");
        assert!(error.hints.iter().any(|text| text.contains(hint)), "{:?}\nexpected: {hint}", error.hints);
        assert!(!error.to_string().contains("\"Containers\":0"), "the JSON is left out: {error}");
    }
}

#[test]
fn unknown_text_is_passed_on() {
    let error = of_kind(failed("ERROR: something new\n"));
    assert!(error.to_string().contains("something new"), "{error}");
    assert_eq!(error.code, Code::ToolFailed);
}

#[test]
fn missing_kind_is_said_with_where_it_comes_from() {
    let error = of_kind(exec::Error::Missing { program: "kind".to_owned() });
    assert_eq!((error.code, error.to_string().as_str()), (Code::ToolMissing, "kind is not installed"));
    assert_eq!(error.hints, [INSTALL_KIND]);
}

#[test]
fn long_words_keep_their_beginning_and_their_end() {
    let log: Vec<String> = (0..100).map(|number| format!("line {number}")).collect();
    let words = own_words(&format!("Creating cluster\nERROR: failed to join\n{}", log.join("\n")));
    assert!(words.starts_with("failed to join\nline 0\n…\n") && words.ends_with("line 99"), "{words}");
    assert_eq!(words.lines().count(), LINES);
}

#[test]
fn cause_is_found_in_the_journal_of_a_kubelet() {
    let journal = "\
Nov 21 10:00:01 n systemd[1]: Started kubelet.service - kubelet: The Kubernetes Node Agent.
Nov 21 10:00:01 n kubelet[271]: I1121 10:00:01.000000     271 flags.go:64] FLAG: --max-pods=\"30\"
Nov 21 10:00:01 n kubelet[271]: E1121 10:00:01.000000     271 run.go:72] \"command failed\" err=\"failed to parse kubelet flag: unknown flag: --max-podz\"
Nov 21 10:00:01 n systemd[1]: kubelet.service: Main process exited, code=exited, status=1/FAILURE
Nov 21 10:00:02 n kubelet[281]: E1121 10:00:02.000000     281 run.go:72] \"command failed\" err=\"failed to parse kubelet flag: unknown flag: --max-podz\"
";
    assert_eq!(
        causes_in_journal(journal),
        ["\"command failed\" err=\"failed to parse kubelet flag: unknown flag: --max-podz\""]
    );
    assert_eq!(causes_in_journal("Nov 21 n kubelet[1]: I1121 all is well"), Vec::<String>::new());
}
