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
    assert!(said.contains("klab down scheduling"), "{said}");
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

#[tokio::test]
async fn a_journal_that_is_not_what_was_written_is_refused_with_its_place() {
    let mut host = Running::start(&["scheduling"]);
    for name in ["Ann", "Bob", "Cyd"] {
        host.join(&host.code, name, "2468").await.unwrap();
    }
    host.kill();
    let path = host.home().join("hosts/scheduling/journal");
    let whole = std::fs::read_to_string(&path).unwrap();
    let lines: Vec<&str> = whole.lines().collect();
    let without = |gone: usize| {
        let kept = lines.iter().enumerate().filter(|(at, _)| *at != gone).map(|(_, line)| *line);
        kept.collect::<Vec<_>>().join("\n") + "\n"
    };
    for (text, place) in [
        (whole.replace("\"Ann\"", "\"Amy\""), "line "),
        (without(1), "line 2"),
        (whole[..whole.len() / 2].to_owned(), "what follows is missing"),
        (without(lines.len() - 1), "what follows is missing"),
    ] {
        std::fs::write(&path, text).unwrap();
        let (status, _, said) = klab(host.home(), &["host", "--resume"]);
        assert!(status != 0 && said.contains(place), "{place}: {said}");
        assert_eq!(listed(&host).0, "scheduling host damaged - -");
    }
    // Without the note of its end, the seats say that some are missing; nothing is removed.
    let end = path.with_extension("end");
    let mark = std::fs::read(&end).unwrap();
    std::fs::remove_file(&end).unwrap();
    let (status, _, said) = klab(host.home(), &["host", "--resume"]);
    assert!(status != 0 && said.contains("does not know seats that are there: 0-3"), "{said}");
    std::fs::write(&end, mark).unwrap();
    std::fs::write(&path, &whole).unwrap();
    host.resume();
    host.join(&host.code, "Cyd", "2468").await.unwrap();
}

#[tokio::test]
async fn an_audit_log_that_was_altered_is_refused_with_its_place_and_the_way_on() {
    let mut host = Running::start(&["scheduling"]);
    host.join(&host.code, "Ann", "2468").await.unwrap();
    host.join(&host.code, "Bob", "2468").await.unwrap();
    host.kill();
    let path = host.home().join("hosts/scheduling/audit.log");
    let whole = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, whole.replacen("\"0-1\"", "\"0-9\"", 1)).unwrap();
    let (status, _, said) = klab(host.home(), &["host", "--resume"]);
    assert!(status != 0 && said.contains("line 1 (byte 0)") && said.contains("audit.log.old"), "{said}");
    // Half a line is what a kill leaves.
    std::fs::write(&path, format!("{whole}{{\"seat\":")).unwrap();
    host.resume();
    host.join(&host.code, "Cyd", "2468").await.unwrap();
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(text.starts_with(&whole) && text.lines().all(|line| serde_json::from_str::<Value>(line).is_ok()), "{text}");
}

#[tokio::test]
async fn a_learner_is_not_told_where_the_host_keeps_things() {
    let host = Running::start(&["scheduling"]);
    host.join(&host.code, "Ann", "2468").await.unwrap();
    let clusters = host.home().join("hosts/scheduling/server/clusters");
    std::fs::rename(&clusters, clusters.with_extension("away")).unwrap();
    std::fs::write(&clusters, "").unwrap();
    let refusal = host.join(&host.code, "Bob", "2468").await.unwrap_err();
    assert!(refusal.starts_with("500"), "{refusal}");
    for word in [host.home().to_str().unwrap(), "hosts/", "clusters", ".new-"] {
        assert!(!refusal.contains(word), "{refusal}");
    }
}
