//! A seat as a lab on the learner's machine.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use super::running::Running;

/// What a learner's klab says and how it ends.
pub(super) fn klab(home: &Path, arguments: &[&str]) -> (i32, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_klab"))
        .args(arguments)
        .env("KLAB_HOME", home)
        .env_remove("KUBECONFIG")
        .env("KLAB_PIN", "2468")
        .stdin(std::process::Stdio::null())
        .output()
        .unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code().unwrap(), text(&output.stdout), text(&output.stderr))
}

#[tokio::test]
async fn a_lesson_is_gone_through_at_a_learners_machine() {
    let host = Running::start(&["scheduling"]);
    let learner = tempfile::tempdir().unwrap();
    let learner = learner.path();
    let join = host.document["join"].as_str().unwrap();

    let (code, _, said) = klab(learner, &["join", &host.url, &host.code, "--name", "Ann"]);
    assert_eq!(code, 2, "whom nobody vouches for is not believed by the way: {said}");
    let (code, _, said) =
        klab(learner, &["join", &format!("{}/#ca={}", host.url, "0".repeat(26)), &host.code, "--name", "Ann"]);
    assert_eq!(code, 3, "{said}");
    assert!(!learner.join("labs").exists(), "nothing is kept of who was not believed");
    let (code, _, said) = klab(learner, &["join", join, &host.code, "--name", "Ann"]);
    assert_eq!(code, 0, "{said}");
    let (code, listed, _) = klab(learner, &["list"]);
    assert!(code == 0 && listed.contains("joined"), "{listed}");

    let (code, guide, _) = klab(learner, &["guide"]);
    assert!(code == 0 && guide.contains("Nodes & scheduling"), "{guide}");
    let (code, report, said) = klab(learner, &["verify"]);
    assert!(code == 0 && report.contains("held") && said.contains("Passed"), "{report}{said}");
    let (_, guide, _) = klab(learner, &["guide"]);
    assert!(guide.contains("Step 1 of"), "{guide}");
    let (code, _, said) = klab(learner, &["step", "--to", "pool"]);
    assert!(code == 0 && said.contains("Done"), "{said}");
    let (code, report, _) = klab(learner, &["verify", "--format", "json"]);
    let report: Value = serde_json::from_str(&report).unwrap();
    assert_eq!((code, &report["ok"]), (0, &json!(true)));
    assert!(
        !report.to_string().contains(&*host.home().to_string_lossy()),
        "where the host's files are is its own business"
    );
    let (code, explained, _) = klab(learner, &["explain", "plain"]);
    assert!(code == 0 && explained.contains("running on"), "{explained}");
    let (code, svg, _) = klab(learner, &["board", "--format", "svg"]);
    assert!(code == 0 && svg.starts_with("<svg"), "{svg}");

    // Pools, objects and differences are the host's to tell and to change.
    let (code, yaml, said) = klab(learner, &["render", "scheduling", "--workload", "nanomon-api"]);
    assert!(code == 0 && yaml.starts_with("---\napiVersion: apps/v1\n"), "{yaml}{said}");
    let (code, _, said) = klab(learner, &["render", "scheduling", "--workload", "nobody"]);
    assert!(code == 2 && said.contains("its workloads are nanomon-api"), "{said}");
    let (code, _, said) = klab(learner, &["pool", "add", "mine", "--nodes", "2", "--labels", "team=a"]);
    assert!(code == 0 && said.contains("Created pool mine (2 ×"), "{said}");
    let (code, pools, said) = klab(learner, &["pool", "list"]);
    assert!(
        code == 0 && pools.lines().any(|line| line.starts_with("mine") && line.contains("team=a")),
        "{pools}{said}"
    );
    let (code, differs, said) = klab(learner, &["diff"]);
    assert!(code == 0 && differs.contains("differs from lab `scheduling` after step"), "{differs}{said}");
    let (code, _, said) = klab(learner, &["pool", "scale", "nobody", "--nodes", "1"]);
    assert!(code == 2 && said.contains("no pool `nobody`"), "{said}");
    let (code, _, said) = klab(learner, &["pool", "delete", "mine"]);
    assert!(code == 0 && said.contains("Removed pool mine"), "{said}");
    // What is not, says what is.
    let (code, _, said) = klab(learner, &["up", "scheduling"]);
    assert!(code == 2 && said.contains("your seat of class") && said.contains("`pool`"), "{said}");
    assert_eq!(klab(learner, &["reset", "--yes"]).0, 0);
    let (_, status, _) = klab(learner, &["status", "--format", "json"]);
    assert_eq!(serde_json::from_str::<Value>(&status).unwrap()["done"], json!(0));

    // Another machine, the same seat; leaving does not end it.
    let other = tempfile::tempdir().unwrap();
    let (code, joined, said) = klab(other.path(), &["join", join, &host.code, "--name", "ann", "--format", "json"]);
    assert_eq!(code, 0, "{said}");
    let joined: Value = serde_json::from_str(joined.lines().last().unwrap()).unwrap();
    assert_eq!(joined["seat"], json!("0-1"));
    assert_eq!(klab(learner, &["down"]).0, 0);
    assert!(!learner.join("labs/scheduling/seat.json").exists());
    assert_eq!(klab(other.path(), &["verify"]).0, 0);
}
