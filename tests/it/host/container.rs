//! A host in a container: told by its environment where to listen, and asked from outside whether it serves.

use std::path::Path;
use std::process::{Command, Output};

use super::running::Running;

fn klab(home: &Path, arguments: &[&str], listen: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_klab"));
    command.args(arguments).env("KLAB_HOME", home).env("KLAB_LISTEN", listen).output().unwrap()
}

#[test]
fn it_is_healthy_while_it_serves() {
    let nothing = tempfile::tempdir().unwrap();
    assert_eq!(klab(nothing.path(), &["host", "--health"], "").status.code(), Some(2));

    let mut host = Running::start(&["scheduling"]);
    let said = klab(host.home(), &["host", "--health"], "");
    assert_eq!(String::from_utf8_lossy(&said.stderr), "class `scheduling` serves\n");
    assert_eq!(said.status.code(), Some(0));
    host.kill();
    let said = klab(host.home(), &["host", "--health"], "");
    assert!(String::from_utf8_lossy(&said.stderr).contains("is not hosted at the moment"));
    assert_eq!(said.status.code(), Some(3));
}

#[test]
fn its_environment_says_where_it_listens() {
    let home = tempfile::tempdir().unwrap();
    let said = klab(home.path(), &["host", "scheduling"], "everywhere");
    assert!(String::from_utf8_lossy(&said.stderr).contains("expected an address such as 0.0.0.0:8443"));
    assert_eq!(said.status.code(), Some(2));
}
