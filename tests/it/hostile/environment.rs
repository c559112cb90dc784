//! Surroundings that nobody planned for: umasks, folders with blanks, names that are not text.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::process::Command;

use crate::environment::Environment;

const LAB: &str = "lab = \"a\"\n[pool.system]\n";

#[test]
fn files_of_the_server_are_private_whatever_the_umask() {
    let environment = Environment::new();
    environment.write("a.toml", LAB);
    // A log that an earlier klab left readable for all.
    environment.write("home/server/server.log", "");
    std::fs::set_permissions(environment.home().join("server"), PermissionsExt::from_mode(0o700)).unwrap();
    let klab = environment.command(&["up", "a.toml"]);
    let mut shell = Command::new("sh");
    shell.args(["-c", "umask 000; exec \"$0\" \"$@\""]).arg(klab.get_program()).args(klab.get_args());
    shell.env_clear().envs(klab.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let output = shell.current_dir(environment.folder()).output().unwrap();
    assert!(output.status.success(), "{}", environment.shown(&output));
    let mode = |name: &str| {
        let path = environment.home().join(name);
        std::fs::symlink_metadata(path).unwrap().permissions().mode() & 0o777
    };
    let files: Vec<_> = environment.leftovers().into_iter().filter(|name| name.starts_with("server")).collect();
    assert!(files.iter().any(|name| name.ends_with("server.log")), "{files:?}");
    for name in files {
        let is_folder = environment.home().join(&name).is_dir();
        assert_eq!(format!("{:o}", mode(&name)), if is_folder { "700" } else { "600" }, "{name}");
    }
    environment.succeeds(&["down"]);
}

#[test]
fn what_is_to_be_pasted_is_quoted() {
    let environment = Environment::new();
    environment.write("a.toml", LAB);
    let home = environment.folder().join("my home's");
    let klab = |arguments: &[&str]| {
        environment.shown(&environment.command(arguments).env("KLAB_HOME", &home).output().unwrap())
    };
    let said = klab(&["up", "a.toml"]);
    let expected = r"export KUBECONFIG='[FOLDER]/my home'\''s/labs/a/kubeconfig'";
    assert!(said.contains(expected), "{said}");
    assert!(klab(&["handout", "a"]).contains(expected));
    assert!(klab(&["down", "a"]).ends_with("--- status 0\n"));
}

#[test]
fn home_that_is_not_text_is_refused_with_words() {
    let environment = Environment::new();
    let home = environment.folder().join(OsStr::from_bytes(b"h\xff"));
    let output = environment.command(&["list"]).env("KLAB_HOME", home).output().unwrap();
    let said = environment.shown(&output);
    assert!(said.contains("is not UTF-8 text") && said.ends_with("--- status 3\n"), "{said}");
}

#[test]
fn template_of_hand_outs_is_a_file_of_the_lab() {
    let environment = Environment::new();
    let path = environment.write("labs/a.toml", LAB);
    environment.write("secret", "sesame");
    environment.succeeds(&["up", path.to_str().unwrap()]);
    symlink("../secret", environment.folder().join("labs/handout.md.tera")).unwrap();
    assert!(!environment.klab(&["handout", "a"]).contains("sesame"));
    std::fs::remove_file(environment.folder().join("labs/handout.md.tera")).unwrap();
    environment.write(
        "labs/handout.md.tera",
        "{% for a in range(end=9999) %}{% for b in range(end=9999) %}{% endfor %}{% endfor %}",
    );
    let said = environment.klab(&["handout", "a"]);
    assert!(said.contains("take too long") && said.ends_with("--- status 2\n"), "{said}");
    environment.succeeds(&["down"]);
}

#[test]
fn a_program_whose_token_is_none_is_told_once_and_in_words() {
    let environment = Environment::new();
    let text =
        r#"{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{"token":"a\r\nX: y"}}"#;
    let kubeconfig = serde_json::json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "clusters": [{ "name": "c", "cluster": { "server": "https://127.0.0.1:1" } }],
        "contexts": [{ "name": "c", "context": { "cluster": "c", "user": "u" } }],
        "users": [{ "name": "u", "user": { "exec": {
            "apiVersion": "client.authentication.k8s.io/v1", "interactiveMode": "Never",
            "command": "/usr/bin/printf", "args": ["%s", text],
        } } }],
    });
    environment.write("k.yaml", kubeconfig.to_string());
    let said = environment.klab(&["explain", "web", "--kubeconfig", "k.yaml"]);
    assert!(said.contains("its token has a line break") && !said.contains("panicked"), "{said}");
    assert!(!said.contains("X: y") && !said.ends_with("--- status 101\n"), "{said}");
}
