//! A class that is kept on the machine that hosts it: `klab list` shows it, `klab down` removes it.

use serde_json::Value;

use super::joined::klab;
use super::running::Running;

/// The class's row in `klab list`, and its document.
fn listed(host: &Running) -> (String, Value) {
    let (status, table, _) = klab(host.home(), &["list"]);
    assert_eq!(status, 0);
    let row = table.lines().nth(1).unwrap_or_default().split_whitespace().take(5).collect::<Vec<_>>().join(" ");
    let (_, document, _) = klab(host.home(), &["list", "--format", "json"]);
    let document: Value = serde_json::from_str(&document).unwrap();
    (row, document["labs"][0].clone())
}

#[tokio::test]
async fn a_class_is_listed_and_removed_by_who_says_so() {
    let mut host = Running::start(&["scheduling"]);
    host.join(&host.code, "Ann", "2468").await.unwrap();
    let (row, document) = listed(&host);
    assert_eq!(row, "scheduling host open 1 seat");
    assert_eq!((document["class"].as_str(), document["seats"].as_u64()), (Some("scheduling"), Some(1)));

    let (status, _, said) = klab(host.home(), &["down", "scheduling", "--yes"]);
    assert_eq!(status, 2, "{said}");
    assert!(said.contains("is hosted by another klab") && said.contains("Ctrl-C"), "{said}");

    host.kill();
    assert_eq!(listed(&host).0, "scheduling host not running 1".to_owned());
    let (status, _, said) = klab(host.home(), &["down", "scheduling"]);
    assert_eq!(status, 2, "{said}");
    assert!(said.contains("1 seat") && said.contains("klab down scheduling --yes"), "{said}");
    let (_, _, said) = klab(host.home(), &["down"]);
    assert!(said.contains("`klab down scheduling` removes"), "{said}");
    assert!(host.home().join("hosts/scheduling").exists());

    let (status, _, said) = klab(host.home(), &["down", "scheduling", "--yes"]);
    assert_eq!(status, 0, "{said}");
    assert!(said.contains("nothing of class `scheduling` is left; it had 1 seat"), "{said}");
    assert!(!host.home().join("hosts").exists());
}

#[tokio::test]
async fn a_class_whose_files_are_damaged_is_said_to_be_and_can_be_removed() {
    let mut host = Running::start(&["scheduling"]);
    host.kill();
    let folder = host.home().join("hosts/scheduling");
    std::fs::write(folder.join("journal"), "no entry\n").unwrap();
    assert_eq!(listed(&host).0, "scheduling host damaged - -");
    let (status, _, said) = klab(host.home(), &["down", "scheduling"]);
    assert_eq!(status, 2, "{said}");
    let (status, _, said) = klab(host.home(), &["down", "scheduling", "--yes"]);
    assert_eq!((status, folder.exists()), (0, false), "{said}");
}
